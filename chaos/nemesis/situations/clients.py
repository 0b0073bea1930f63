"""Situations of clients: what they sent, were told or have read is over before they know."""

from __future__ import annotations

from chaos.nemesis.parts import Pattern, as_seen, early, entry, lasting, later, when
from chaos.nemesis.scene import Part, Scene
from chaos.nemesis.situations.replicas import leads_twice


def unanswered(scene: Scene, at_us: int) -> list[Part]:
    """A leader dies between an append and its answer, and so does perhaps the next one, to which the producer sends the
    same again."""
    leader = f"leader({scene.tp})"
    points: tuple[Part, ...] = ({"at": "before-reply", "of": "Produce"}, {"at": "after-write", "of": scene.tp})

    def dies() -> Part:
        return {"crash": {"nodes": [leader], **scene.draw.choice(points), "nth": scene.draw.choice((1, 1, 2, 5))}}

    found = [entry(scene, at_us, dies(), lasting(scene, 100_000, 2_500_000))]
    if scene.draw.random() < 0.6:
        again = when(scene, "leader-elected", (0, 50), tp=scene.tp)
        found.append(as_seen(scene, again, dies(), 100_000, 1_500_000))
    return found


def again_in_retry(scene: Scene, at_us: int) -> list[Part]:
    """While a producer sends again what its leader did not take, the next leader goes, or cannot be heard."""
    leader = f"leader({scene.tp})"
    gone: Part = scene.draw.choice(({"crash": leader}, {"controlled-shutdown": {"targets": leader}}))
    error = scene.draw.choice(("NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS"))
    retried = when(scene, "client-error", (0, 5, 60), (1, 1, 2), error=error, api="Produce")
    unheard: Part = {"partition": {"from": [leader], "to": ["clients"]}}
    again = scene.draw.choice(({"crash": leader}, {"power-loss": leader}, unheard))
    return [
        entry(scene, early(at_us), gone, lasting(scene, 200_000, 2_000_000)),
        as_seen(scene, retried, again, 200_000, 2_500_000),
    ]


def old_producer(scene: Scene, at_us: int) -> list[Part]:
    """What a producer sent stays under way until it has asked for another epoch or sent it again, and comes then, when
    leaders may have changed and another producer has gone on."""
    producer = scene.draw.choice([name for name in scene.cast.clients if name.startswith("producer-")])
    leader = f"leader({scene.tp})"
    link: Part = {"from": [producer], "to": ["brokers"], "apis": ["Produce"], "chance": "60%"}
    held: Part = {"partition": {"from": [producer], "to": [leader]}}
    late: Part = {"reorder": {**link, "by": scene.duration(lasting(scene, 1_000_000, 4_000_000))}}
    found = [entry(scene, at_us, scene.draw.choice((held, late)), lasting(scene, 1_200_000, 7_000_000))]
    gone: Part = scene.draw.choice(({"crash": leader}, {"controlled-shutdown": {"targets": leader}}, {"pause": leader}))
    then_us = later(scene, at_us, 100_000, 2_500_000)
    return [*found, entry(scene, then_us, gone, lasting(scene, 100_000, 1_500_000))]


def stale_client(scene: Scene, at_us: int) -> list[Part]:
    """Clients are told of leaders late, while leadership goes away and comes back to the same process."""
    client = scene.draw.choice(("clients", scene.draw.choice(scene.cast.clients)))
    link: Part = {"from": ["brokers"], "to": [client], "apis": ["Metadata"], "chance": "100%"}
    late: Part = {"reorder": {**link, "by": scene.duration(lasting(scene, 500_000, 4_000_000))}}
    return [entry(scene, early(at_us), late, lasting(scene, 4_000_000, 9_000_000)), *leads_twice(scene, at_us)]


def divergent_reader(scene: Scene, at_us: int) -> list[Part]:
    """A leader whose followers have fallen out is cut off from all but clients: consumers read what it commits, until
    somebody is elected uncleanly and they find that their log parted long ago."""
    leader = f"leader({scene.tp})"
    lasts = lasting(scene, 4_000_000, 9_000_000)
    alone = when(scene, "isr-shrunk", (0, 50, 300), (1, 2), tp=scene.tp)
    cut: Part = {"partition": {"between": [leader], "and": ["controllers"]}}
    return [
        entry(scene, early(at_us), {"partition": {"between": [leader], "and": ["brokers"]}}, lasts),
        as_seen(scene, alone, cut, 2_000_000, 6_000_000),
    ]


CLIENTS: dict[str, Pattern] = {
    "unanswered": unanswered,
    "again-in-retry": again_in_retry,
    "old-producer": old_producer,
    "stale-client": stale_client,
    "divergent-reader": divergent_reader,
}
"""Name, as in a nemesis file -> pattern."""
