"""Situations of metadata: topics that are made anew, and updates that come late or from a controller that is gone."""

from __future__ import annotations

from chaos.faults.kinds import entry_of
from chaos.nemesis.parts import Pattern, as_seen, early, entry, lasting, later, when
from chaos.nemesis.scene import Part, Scene


def made_anew(scene: Scene, at_us: int) -> list[Part]:
    """A topic is deleted and created again under its name, while somebody is away or goes as it happens: a replica that
    has the former one's log, the controller, or a client that goes on asking for what is no more."""
    at_us = early(at_us)
    then_us = later(scene, at_us, 20_000, 1_500_000)
    topic: Part = {"topic": scene.cast.topic}
    anew = {**topic, "partitions": len(scene.cast.tps), "replicas": scene.cast.tps[scene.tp]}
    goes: tuple[Part, ...] = (
        {"crash": scene.draw.choice(scene.cast.brokers)},
        {"pause": scene.draw.choice(scene.cast.brokers)},
        {"crash": "active-controller"},
        {"pause": scene.draw.choice(scene.cast.clients)},
        {"partition": {"isolate": scene.draw.choice(scene.cast.brokers)}},
    )
    found = [
        entry(
            scene,
            max(1000, at_us - lasting(scene, 0, 150_000)),
            scene.draw.choice(goes),
            lasting(scene, 100_000, 3_000_000),
        )
    ]
    found.append({"when": {"at": scene.duration(at_us)}, "action": {"delete-topic": topic}})
    found.append({"when": {"at": scene.duration(then_us)}, "action": {"create-topic": anew}})
    if scene.draw.random() < 0.4:
        again_us = later(scene, then_us, 300_000, 2_000_000)
        found.append({"when": {"at": scene.duration(again_us)}, "action": {"delete-topic": topic}})
        last_us = later(scene, again_us, 20_000, 800_000)
        found.append({"when": {"at": scene.duration(last_us)}, "action": {"create-topic": anew}})
    return found


def stale_push(scene: Scene, at_us: int) -> list[Part]:
    """What controllers push to one broker is held back while leaders change, and clients, whose connections break or
    who start anew, ask that broker, too."""
    broker, at_us = scene.draw.choice(scene.cast.brokers), early(at_us)
    lasts = lasting(scene, 2_000_000, 6_000_000)
    held: Part = {"from": ["controllers"], "to": [broker], "apis": ["UpdateMetadata"]}
    held["by"] = scene.duration(lasting(scene, 800_000, 4_000_000))
    found = [entry(scene, at_us, {"delay": held}, lasts)]
    if scene.draw.random() < 0.6:
        lost: Part = {"between": ["clients"], "and": ["brokers"], "chance": "20%"}
        found.append(entry(scene, at_us, {"drop": {**lost, "apis": ["Fetch", "ListOffsets", "Metadata"]}}, lasts))
    for _ in range(2):
        at_us = later(scene, at_us, 200_000, 1_200_000)
        leader = f"leader({scene.tp})"
        gone: Part = scene.draw.choice(
            ({"crash": leader}, {"controlled-shutdown": {"targets": leader}}, {"pause": leader})
        )
        found.append(entry(scene, at_us, gone, lasting(scene, 300_000, 2_000_000)))
    consumers = [name for name in scene.cast.clients if name.startswith("consumer-")]
    again = when(scene, "leader-elected", (0, 50, 300, 800), (1, 2), tp=scene.tp)
    return [*found, as_seen(scene, again, {"crash": scene.draw.choice(consumers)}, 20_000, 300_000)]


def former_push(scene: Scene, at_us: int) -> list[Part]:
    """What a controller pushes to one broker comes when the controller is dead and its successor has pushed more. A
    consumer can reach only that broker, and asks it for metadata again and again."""
    behind, *others = scene.draw.sample(scene.cast.brokers, len(scene.cast.brokers))
    at_us = early(at_us)
    late_us = lasting(scene, 2_000_000, 4_000_000)
    held: Part = {"from": ["active-controller"], "to": [behind], "apis": ["UpdateMetadata"]}
    held["by"] = scene.duration(late_us)
    goes: Part = {"controlled-shutdown": {"targets": others[0]}}
    consumers = [name for name in scene.cast.clients if name.startswith("consumer-")]
    cut: Part = {"drop": {"between": [scene.draw.choice(consumers)], "and": others, "chance": "100%"}}
    since_us = later(scene, at_us, 800_000, 1_500_000)
    return [
        entry(scene, at_us, {"delay": held}, 700_000),
        entry(scene, later(scene, at_us, 20_000, 250_000), goes, lasting(scene, 100_000, 1_500_000)),
        entry(scene, later(scene, at_us, 400_000, 800_000), {"crash": "active-controller"}, 1_200_000),
        entry(scene, since_us, cut, late_us + 500_000),
    ]


def starts_behind(scene: Scene, at_us: int) -> list[Part]:
    """A consumer that keeps its offsets outside Kafka dies after a leader change, and starts anew where only one broker
    can be reached, which has not been told of the change: what it kept belongs to newer metadata than it is told
    first."""
    at_us = early(at_us)
    behind, *others = scene.draw.sample(scene.cast.brokers, len(scene.cast.brokers))
    consumer = scene.draw.choice(scene.cast.keepers)
    lasts = lasting(scene, 4_000_000, 8_000_000)
    held: Part = {"from": ["controllers"], "to": [behind], "apis": ["UpdateMetadata"], "by": scene.duration(lasts)}
    leader = f"leader({scene.tp})"
    goes: Part = scene.draw.choice(
        ({"crash": leader}, {"controlled-shutdown": {"targets": leader}}, {"controlled-shutdown": {"targets": leader}})
    )
    changed_us = later(scene, at_us, 50_000, 400_000)
    dies = when(scene, "leader-elected", (500, 900, 1500), tp=scene.tp)
    back: Part = {"seen": {"node-restarted": {"node": consumer}}}
    cut: Part = {"when": {"at": scene.duration(at_us)}, **_cut(consumer, [behind]), "until": back}
    return [
        entry(scene, at_us, {"delay": held}, lasts),
        cut,
        entry(scene, changed_us, goes, lasting(scene, 300_000, 3_000_000)),
        as_seen(scene, dies, {"crash": consumer}, 20_000, 200_000),
        {"when": dies, **_cut(consumer, others), "for": scene.duration(lasting(scene, 600_000, 2_000_000))},
    ]


def goes_back_behind(scene: Scene, at_us: int) -> list[Part]:
    """A consumer that keeps its offsets outside Kafka starts anew after a leader change, and is told of leaders only by
    a broker that has not heard of the change. It knows better by its own position, and may ask nobody for offsets
    until it is told who leads; the former leader can still be asked, or again."""
    at_us = early(at_us)
    behind, *others = scene.draw.sample(scene.cast.brokers, len(scene.cast.brokers))
    consumer = scene.draw.choice(scene.cast.keepers)
    held: Part = {"from": ["controllers"], "to": [behind], "apis": ["UpdateMetadata"], "by": "9s"}
    leader = f"leader({scene.tp})"
    changed_us = later(scene, at_us, 50_000, 400_000)
    replaced: Part = {"partition": {"between": [leader], "and": ["controllers"]}}
    found = [entry(scene, at_us, {"delay": held}, 9_000_000)]
    if scene.draw.random() < 0.5:
        goes: Part = {"controlled-shutdown": {"targets": leader}}
        found.append(entry(scene, changed_us, goes, lasting(scene, 50_000, 300_000)))
    else:
        found.append(entry(scene, changed_us, replaced, 9_000_000))
    dies = when(scene, "leader-elected", (500, 900, 1500), tp=scene.tp)
    untold: Part = {"between": [consumer], "and": others, "chance": "100%", "apis": ["Metadata"]}
    lasts = scene.duration(lasting(scene, 2_000_000, 5_000_000))
    return [
        *found,
        as_seen(scene, dies, {"crash": consumer}, 20_000, 200_000),
        {"when": dies, **entry_of("drop", untold), "for": lasts},
    ]


def _cut(client: str, brokers: list[str]) -> Part:
    """Connections of a client to some brokers break, whatever it asks."""
    return entry_of("drop", {"between": [client], "and": brokers, "chance": "100%"})


def failover_at_mint(scene: Scene, at_us: int) -> list[Part]:
    """The controller goes as it has made a metadata epoch, before or after it has pushed it to some brokers: the next
    controller counts on from what the metadata log says."""
    found = [entry(scene, early(at_us), {"crash": f"leader({scene.tp})"}, lasting(scene, 200_000, 1_500_000))]
    for nth in sorted(scene.draw.sample(range(1, 9), 2)):
        gone: Part = scene.draw.choice(
            (
                {"crash": "active-controller"},
                {"power-loss": "active-controller"},
                {"partition": {"isolate": "active-controller"}},
            )
        )
        seen = when(scene, "epoch-minted", (0, 0, 1, 5, 40), (nth,))
        found.append(as_seen(scene, seen, gone, 200_000, 2_000_000))
    return found


TOPICS: dict[str, Pattern] = {"made-anew": made_anew}
PUSHED: dict[str, Pattern] = {
    "stale-push": stale_push,
    "former-push": former_push,
    "failover-at-mint": failover_at_mint,
}
"""Name, as in a nemesis file -> pattern. They need controllers that push metadata."""
KEPT: dict[str, Pattern] = {"starts-behind": starts_behind, "goes-back-behind": goes_back_behind}
"""The same; they need a consumer that keeps its offsets outside Kafka, too."""
METADATA: dict[str, Pattern] = {**TOPICS, **PUSHED, **KEPT}
"""Name, as in a nemesis file -> pattern."""
