"""Situations of tiered storage: look-ups and Fetches that a slow store keeps waiting while the cluster goes on."""

from __future__ import annotations

from chaos.nemesis.parts import Pattern, early, entry, lasting, later
from chaos.nemesis.scene import Part, Scene

COPIED_US = 4_000_000
"""By then segments are mostly copied, and gone from the local log, after the beginning of the chaos."""
TIMEOUT = "remote.list.offsets.request.timeout.ms"
FETCH_WAIT = "remote.fetch.max.wait.ms"
POOLS = ("remote.log.reader.threads", "remote.log.offset.reader.threads")


def slow_lookups(scene: Scene, at_us: int) -> list[Part]:
    """The store is slow, so that look-ups wait for it and for a thread. Meanwhile a leader hears nothing from the
    controllers, is replaced, and hears of that when they can reach it again; or leadership goes back to whom it was
    given first; or the operator changes how long a look-up may wait."""
    tp = f"leader({scene.tp})"
    slow: Part = {"by": scene.duration(lasting(scene, 300_000, 2_500_000))}
    slow["jitter"] = scene.duration(lasting(scene, 100_000, 1_500_000))
    found = [entry(scene, at_us, {"slow-store": slow}, lasting(scene, 4_000_000, 8_000_000))]
    for _ in range(scene.draw.choice((1, 2))):
        at_us = later(scene, at_us, 400_000, 1_800_000)
        deaf: Part = {"partition": {"between": [tp], "and": ["controllers"]}}
        found.append(entry(scene, at_us, deaf, lasting(scene, 1_000_000, 4_000_000)))
    again_us = later(scene, at_us, 1_000_000, 3_000_000)
    found.append(
        {"when": {"at": scene.duration(again_us)}, "action": {"elect": {"partitions": "all", "type": "preferred"}}}
    )
    if scene.draw.random() < 0.5:
        wait: Part = {"remote.list.offsets.request.timeout.ms": scene.draw.choice((200, 800, 3000))}
        then_us = later(scene, again_us, 10_000, 500_000)
        found.append({"when": {"at": scene.duration(then_us)}, "action": {"configure": {"cluster": True, "set": wait}}})
    return found


def _copied(scene: Scene, at_us: int) -> int:
    """A moment when there is something to look up in the store, as long as the chaos leaves time for what follows."""
    return max(at_us, min(COPIED_US, scene.chaos_us // 2 // 1000 * 1000))


def _slow_store(scene: Scene, low_us: int, high_us: int) -> Part:
    """A store that takes that long for each request, or up to twice as long."""
    by = lasting(scene, low_us, high_us)
    return {"slow-store": {"by": scene.duration(by), "jitter": scene.duration(by)}}


def crowded_lookups(scene: Scene, at_us: int) -> list[Part]:
    """The store takes about as long as a look-up may wait, and then far longer: threads and queues fill, look-ups are
    rejected or expire, some partitions of a request before others. Meanwhile the operator changes how long a look-up
    may wait, and how many threads there are."""
    at_us = _copied(scene, at_us)
    found: list[Part] = []
    for timeout_ms in scene.draw.sample((300, 800, 2000, 4000), 2):
        change: Part = {"cluster": True, "set": {TIMEOUT: timeout_ms}}
        if scene.draw.random() < 0.5:
            change["set"] |= dict.fromkeys(POOLS, scene.draw.choice((1, 2)))
        change_us = later(scene, at_us, 0, 300_000)
        found.append({"when": {"at": scene.duration(change_us)}, "action": {"configure": change}})
        lasts = lasting(scene, 1_000_000, 2_500_000)
        found.append(entry(scene, at_us, _slow_store(scene, 200_000, 900_000), lasts))
        at_us = later(scene, at_us, lasts, lasts + 300_000)
    stuck = _slow_store(scene, 3_000_000, 6_000_000)
    return [*found, entry(scene, at_us, stuck, lasting(scene, 1_000_000, 3_000_000))]


def moved_lookups(scene: Scene, at_us: int) -> list[Part]:
    """While look-ups wait for a slow store, leadership goes from a broker that is shut down, and back to it once it is
    in the ISR again: whoever has led in between hears of that at once, and is well."""
    at_us = _copied(scene, at_us)
    slow = _slow_store(scene, 400_000, 1_500_000)
    found = [entry(scene, at_us, slow, lasting(scene, 5_000_000, 8_000_000))]
    down: Part = {"controlled-shutdown": {"targets": f"leader({scene.tp})"}}
    lasts = lasting(scene, 300_000, 800_000)
    found.append(entry(scene, later(scene, at_us, 100_000, 1_000_000), down, lasts))
    for _ in range(3):
        at_us = later(scene, at_us, 1_000_000, 2_000_000)
        back: Part = {"elect": {"partitions": "all", "type": "preferred"}}
        found.append({"when": {"at": scene.duration(at_us)}, "action": back})
    return found


def crowded_fetches(scene: Scene, at_us: int) -> list[Part]:
    """Consumers restart and read from the beginning, which remote storage alone has. The store takes about as long as a
    Fetch may wait: threads and queues fill, and reads are rejected or expire, some partitions of a Fetch before others.
    Meanwhile the operator changes how long a Fetch may wait."""
    at_us = _copied(scene, at_us)
    readers = [name for name in scene.cast.clients if name.startswith("consumer-")] or ["clients"]
    found = [entry(scene, at_us, _slow_store(scene, 50_000, 250_000), lasting(scene, 3_000_000, 6_000_000))]
    for wait_ms in scene.draw.sample((100, 250, 400, 800), 2):
        change: Part = {"cluster": True, "set": {FETCH_WAIT: wait_ms}}
        found.append({"when": {"at": scene.duration(at_us)}, "action": {"configure": change}})
        at_us = later(scene, at_us, 100_000, 300_000)
        found.append(entry(scene, at_us, {"crash": readers}, lasting(scene, 50_000, 150_000)))
        at_us = later(scene, at_us, 1_000_000, 2_500_000)
    return found


def forgotten_start(scene: Scene, at_us: int) -> list[Part]:
    """All replicas of a partition go down at once, late enough for retention to have deleted copies. What they come
    back with does not say so, as a log start is rarely written down: who leads looks at what is left in the store."""
    at_us = later(scene, _copied(scene, at_us), 500_000, 3_000_000)
    replicas = [f"leader({scene.tp})", *([f"followers({scene.tp})"] if scene.cast.tps[scene.tp] > 1 else [])]
    return [entry(scene, at_us, {"crash": replicas}, lasting(scene, 100_000, 1_000_000))]


def untold_copies(scene: Scene, at_us: int) -> list[Part]:
    """A leader does not reach another broker, for longer than its requests, or a member of an ISR, may take. It goes on
    without it, and cannot tell the metadata topic of its copies, where that one leads. Then all is well again."""
    other = f"followers({scene.tp})[0]" if scene.cast.tps[scene.tp] > 1 else "brokers"
    cut: Part = {"partition": {"from": [f"leader({scene.tp})"], "to": [other]}}
    lasts_us = scene.cast.waits_us + lasting(scene, 500_000, 2_500_000)
    return [entry(scene, later(scene, early(at_us), 0, 1_000_000), cut, lasts_us)]


TIERS: dict[str, Pattern] = {
    "slow-lookups": slow_lookups,
    "crowded-lookups": crowded_lookups,
    "moved-lookups": moved_lookups,
    "crowded-fetches": crowded_fetches,
    "forgotten-start": forgotten_start,
    "untold-copies": untold_copies,
}
"""What a cluster with a remote store alone has."""
