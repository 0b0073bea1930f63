"""Situations in which a second failure comes while the first one's recovery is under way."""

from __future__ import annotations

from chaos.nemesis.parts import Pattern, as_seen, early, entry, lasting, when
from chaos.nemesis.scene import Part, Scene

CONTROLLER: Part = {"crash": "active-controller"}


def _struck(scene: Scene, *more: Part) -> Part:
    """The leader of this moment goes, or one of its followers, or what else is given."""
    leader, follower = f"leader({scene.tp})", scene.follower()
    return scene.draw.choice(({"crash": leader}, {"power-loss": leader}, {"power-loss": follower}, *more))


def again_in_recovery(scene: Scene, at_us: int) -> list[Part]:
    """A broker goes down again as it starts, once or twice: while it recovers its logs, or before it is in the ISR. Or
    the leader goes as it starts."""
    who = scene.draw.choice(scene.cast.brokers)
    first = scene.draw.choice(("power-loss", "torn-tail", "crash"))
    found = [entry(scene, at_us, {first: who}, lasting(scene, 30_000, 1_200_000))]
    for nth in range(1, scene.draw.choice((2, 3))):
        if scene.draw.random() < 0.4:
            seen = when(scene, "truncated", (1,), (nth,), tp=scene.tp, node=who)
        else:
            seen = when(scene, "node-restarted", (0, 1, 20, 150), (nth,), node=who)
        again: Part = scene.draw.choice(({"power-loss": who}, {"crash": who}, {"crash": f"leader({scene.tp})"}))
        found.append(as_seen(scene, seen, again, 20_000, 600_000))
    return found


# A log tells the trace of a cut just before it writes it: a process that ends between the two has cut nothing, and the
# trace is wrong about its log then. So nobody is struck at a cut before a millisecond is over.


def again_in_truncation(scene: Scene, at_us: int) -> list[Part]:
    """A leader that others cannot hear writes on until another one leads; as it is told where their logs part, or as it
    has cut its own, somebody goes down; or they are told late, and others go down meanwhile."""
    leader = f"leader({scene.tp})"
    zombie: Part = {"partition": {"between": [leader], "and": ["controllers", "brokers"]}}
    healed = when(scene, "leader-elected", (0, 50, 300), tp=scene.tp)
    found: list[Part] = [{"when": {"at": scene.duration(early(at_us))}, "fault": zombie, "until": healed}]
    if scene.draw.random() < 0.6:
        seen = when(scene, scene.draw.choice(("diverging", "truncated")), (1, 1, 10), (1, 1, 2), tp=scene.tp)
        return [*found, as_seen(scene, seen, _struck(scene), 30_000, 1_500_000)]
    held: Part = {"partition": {"from": [leader], "to": ["brokers"]}}
    found.append(as_seen(scene, when(scene, "diverging", tp=scene.tp), held, 400_000, 2_000_000))
    for delays in ((10, 60), (100, 300)):
        seen = when(scene, "diverging", delays, tp=scene.tp)
        found.append(as_seen(scene, seen, _struck(scene, CONTROLLER), 100_000, 900_000))
    return found


def again_in_rejoin(scene: Scene, at_us: int) -> list[Part]:
    """A follower falls out of the ISR and comes back; as its leader asks for it, somebody goes down."""
    who = scene.follower()
    gone: Part = scene.draw.choice(({"crash": who}, {"power-loss": who}, {"partition": {"isolate": who}}))
    back = when(scene, "isr-shrunk", (0, 100, 500), tp=scene.tp)
    found: list[Part] = [{"when": {"at": scene.duration(early(at_us))}, "fault": gone, "until": back}]
    asked = when(scene, "isr-proposed", (0, 1, 5, 30), (1, 2, 2, 3), tp=scene.tp)
    return [*found, as_seen(scene, asked, _struck(scene, CONTROLLER), 100_000, 2_000_000)]


def again_lagging(scene: Scene, at_us: int) -> list[Part]:
    """A leader whose high watermark is behind refuses what it does not know (KIP-207), and meanwhile it goes down, or
    who it waits for does."""
    others = scene.cast.tps[scene.tp] - 1
    leader = f"leader({scene.tp})"
    at_us, lasts = early(at_us), lasting(scene, 4_500_000, 9_000_000)
    then_us = min(at_us + lasting(scene, 100_000, 1_200_000), scene.chaos_us - 1000)
    found = [entry(scene, then_us, {"crash": leader}, lasts)]
    if not others:
        return found
    deaf = [leader, *(f"followers({scene.tp})[{number}]" for number in range(1, others))]
    found.append(entry(scene, at_us, {"partition": {"from": deaf, "to": [f"followers({scene.tp})[0]"]}}, lasts))
    seen = scene.draw.choice(("lagging-leader", "offset-not-available", "offset-not-available"))
    apart: Part = {"partition": {"between": [leader], "and": ["brokers"]}}
    again = when(scene, seen, (0, 10, 200), (1, 1, 3), tp=scene.tp)
    return [*found, as_seen(scene, again, _struck(scene, apart), 300_000, 3_000_000)]


def again_unclean(scene: Scene, at_us: int) -> list[Part]:
    """The followers fall behind, the leader is gone, and as another one is elected uncleanly that one goes, too, or the
    controller that elected it, or the old leader comes back."""
    leader, followers = f"leader({scene.tp})", f"followers({scene.tp})"
    if scene.cast.tps[scene.tp] == 1:
        return [entry(scene, at_us, {"crash": leader}, lasting(scene, 300_000, 2_000_000))]
    alone = when(scene, "isr-shrunk", (0, 100, 400), (1, 2), tp=scene.tp)
    gone = {"when": alone, "fault": {"crash": leader}, "until": when(scene, "unclean-election", (0, 200, 2000))}
    again = when(scene, "unclean-election", (0, 1, 20, 300), tp=scene.tp)
    return [
        entry(
            scene,
            early(at_us),
            {"partition": {"from": [leader], "to": [followers]}},
            lasting(scene, 3_000_000, 6_000_000),
        ),
        gone,
        as_seen(
            scene, again, _struck(scene, CONTROLLER, {"controlled-shutdown": {"targets": leader}}), 300_000, 2_500_000
        ),
    ]


RECOVERY: dict[str, Pattern] = {
    "again-in-recovery": again_in_recovery,
    "again-in-truncation": again_in_truncation,
    "again-in-rejoin": again_in_rejoin,
    "again-lagging": again_lagging,
    "again-unclean": again_unclean,
}
"""Name, as in a nemesis file -> pattern."""
