"""Situations of logs that shrink: records are deleted that somebody still wanted, or by limits that change."""

from __future__ import annotations

from actors.config import SERVER_SYNONYMS
from chaos.nemesis.parts import Pattern, early, entry, lasting, later
from chaos.nemesis.scene import Part, Scene

LIMITS = {
    "segment.bytes": (1000, 3000),
    "segment.ms": (500, 60_000),
    "retention.ms": (500, 3000, 60_000),
    "retention.bytes": (-1, 2000, 6000),
}
"""Key of a topic -> values that make a difference within a run."""
LIMITS_OF_COPIES = {"retention.ms": (1500, 60_000), "retention.bytes": (10_000, 100_000)}
"""The same for what is copied."""
LIMITS_OF_TIERS = {
    "segment.ms": (300, 1500),
    "local.retention.ms": (200, 1500),
    "local.retention.bytes": (2000, 10_000),
    "remote.copy.lag.ms": (0, 1500),
}
"""And for what a replica of it has itself: no more than is kept in all."""


def passed_reader(scene: Scene, at_us: int) -> list[Part]:
    """An operator deletes what consumers have not read, because they do not hear from the brokers for a moment. When
    they fetch again, the log starts above their positions, and the segment may still have what they ask for."""
    readers = [name for name in scene.cast.clients if name.startswith("consumer-")] or ["clients"]
    lasts_us = lasting(scene, 200_000, 1_200_000)
    deaf: Part = {"partition": {"from": ["brokers"], "to": readers}}
    deleted_us = later(scene, at_us, lasts_us // 2, lasts_us)
    deletes: Part = {"delete-records": {"partitions": "all", "offset": "high-watermark"}}
    return [
        entry(scene, at_us, deaf, lasts_us),
        {"when": {"at": scene.duration(deleted_us)}, "action": deletes},
    ]


def start_in_segment(scene: Scene, at_us: int) -> list[Part]:
    """An operator deletes records up to the middle of a segment, and a replica restarts while it has that segment: once
    or twice it is shut down within moments, and at last it dies, when its log start has been in its checkpoint for
    long. Nothing else on its disk says where its log begins."""
    at_us, found = early(at_us), list[Part]()
    leader, followers = f"leader({scene.tp})", f"followers({scene.tp})"
    deletes: Part = {"delete-records": {"partitions": "all", "offset": "high-watermark"}}
    for _ in range(scene.draw.choice((1, 2))):
        found.append({"when": {"at": scene.duration(at_us)}, "action": deletes})
        who = leader if scene.cast.tps[scene.tp] == 1 else scene.draw.choice((leader, leader, leader, followers))
        then_us = later(scene, at_us, 30_000, 400_000)
        lasts_us = lasting(scene, 100_000, 800_000)
        found.append(entry(scene, then_us, {"controlled-shutdown": {"targets": who}}, lasts_us))
        at_us = later(scene, then_us, lasts_us + 300_000, lasts_us + 1_500_000)
    found.append({"when": {"at": scene.duration(at_us)}, "action": deletes})
    dies_us = later(scene, at_us, 2_600_000, 4_000_000)
    return [*found, entry(scene, dies_us, {"crash": leader}, lasting(scene, 100_000, 800_000))]


def changed_limits(scene: Scene, at_us: int) -> list[Part]:
    """An operator changes how much is kept, and for how long, or when a segment is full: of the topic, of one broker,
    or of all of them, one over the other, and sometimes takes it back."""
    at_us, found = early(at_us), list[Part]()
    if scene.cast.remote_store:
        keys = [scene.draw.choice(sorted(each)) for each in (LIMITS_OF_COPIES, LIMITS_OF_TIERS)]
    else:
        keys = scene.draw.sample(sorted(LIMITS), 2)
    limits = {**LIMITS, **LIMITS_OF_TIERS, **LIMITS_OF_COPIES} if scene.cast.remote_store else LIMITS
    for _ in range(scene.draw.choice((4, 5, 6))):
        key = scene.draw.choice(keys)
        whom: Part = scene.draw.choice(({"topic": scene.cast.topic}, {"cluster": True}, {"broker": ["any(1)"]}))
        name = key if "topic" in whom else SERVER_SYNONYMS[key]
        value = scene.draw.choice(limits[key])
        change: Part = {"delete": [name]} if scene.draw.random() < 0.2 else {"set": {name: value}}
        found.append({"when": {"at": scene.duration(at_us)}, "action": {"configure": {**whom, **change}}})
        at_us = later(scene, at_us, 200_000, 2_000_000)
    return found


RETENTION: dict[str, Pattern] = {
    "passed-reader": passed_reader,
    "start-in-segment": start_in_segment,
    "changed-limits": changed_limits,
}
"""Name, as in a nemesis file -> pattern."""
