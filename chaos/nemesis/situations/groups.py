"""Situations of groups: their coordinator, or a member, goes in the middle of a rebalance or of a commit."""

from __future__ import annotations

from chaos.nemesis.parts import FIRST_US, Pattern, as_seen, early, entry, lasting, later, when
from chaos.nemesis.scene import Part, Scene


def _coordinator(scene: Scene) -> str:
    return f"coordinator({scene.cast.group})"


def _away(scene: Scene, who: str) -> Part:
    """A member that the group has to do without, or that joins it anew."""
    return scene.draw.choice(({"crash": who}, {"pause": who}, {"partition": {"isolate": who}}))


def _struck(scene: Scene) -> Part:
    """The coordinator of this moment goes, or hands its partitions over."""
    who = _coordinator(scene)
    return scene.draw.choice(
        ({"crash": who}, {"power-loss": who}, {"pause": who}, {"controlled-shutdown": {"targets": who}})
    )


def failover_in_rebalance(scene: Scene, at_us: int) -> list[Part]:
    """A member goes and comes back; while its group rebalances, the coordinator goes, once or twice: the group is
    loaded by another broker, without what nobody has written of the rebalance."""
    member = scene.draw.choice(scene.cast.members)
    found = [entry(scene, early(at_us), _away(scene, member), lasting(scene, 300_000, 2_500_000))]
    for nth in range(1, scene.draw.choice((2, 3))):
        step = scene.draw.choice(("rebalance-begun", "members-joined", "members-joined", "group-stable"))
        seen = when(scene, step, (0, 0, 1, 20, 200), (nth,))
        found.append(as_seen(scene, seen, _struck(scene), 200_000, 2_500_000))
    return found


def dies_in_rebalance(scene: Scene, at_us: int) -> list[Part]:
    """A member dies between JoinGroup and SyncGroup: the others wait for an assignment, which it may have had to
    make."""
    members = scene.cast.members
    who, other = scene.draw.choice(members), scene.draw.choice(members)
    point = scene.draw.choice(({"at": "before-request", "of": "SyncGroup"}, {"at": "after-request", "of": "SyncGroup"}))
    dies: Part = {"crash": {"nodes": [who], **point, "nth": scene.draw.choice((1, 1, 2))}}
    found = [entry(scene, early(at_us), dies, lasting(scene, 300_000, 3_000_000))]
    found.append(entry(scene, early(at_us), _away(scene, other), lasting(scene, 100_000, 1_500_000)))
    seen = when(scene, "members-joined", (0, 1, 5, 50), (1, 2))
    return [*found, as_seen(scene, seen, _away(scene, other), 200_000, 3_000_000)]


def commits_wait(scene: Scene, at_us: int) -> list[Part]:
    """Nothing that the coordinator appends reaches its followers: commits, and the assignments of groups, wait for
    its high watermark, until it has shrunk its ISR, or somebody else leads who has them not."""
    who, at_us = _coordinator(scene), early(at_us)
    lasts = lasting(scene, 500_000, 5_000_000)
    found = [entry(scene, at_us, {"partition": {"from": [who], "to": ["brokers"]}}, lasts)]
    member = scene.draw.choice(scene.cast.members)
    if scene.draw.random() < 0.5:
        found.append(
            entry(scene, later(scene, at_us, 50_000, 400_000), _away(scene, member), lasting(scene, 300_000, 1_500_000))
        )
    then_us = later(scene, at_us, 200_000, 1_500_000)
    return [*found, entry(scene, then_us, _struck(scene), lasting(scene, 300_000, 3_000_000))]


def former_coordinator(scene: Scene, at_us: int) -> list[Part]:
    """A coordinator that neither controllers nor brokers hear goes on with its members until another broker has loaded
    the group, and longer."""
    alone: Part = {"partition": {"between": [_coordinator(scene)], "and": ["controllers", "brokers"]}}
    loaded = when(scene, "coordinator-loaded", (0, 100, 1000))
    found: list[Part] = [{"when": {"at": scene.duration(early(at_us))}, "fault": alone, "until": loaded}]
    if scene.draw.random() < 0.5:
        again = when(scene, "coordinator-loaded", (0, 1, 50, 300), (1, 2))
        found.append(as_seen(scene, again, _struck(scene), 300_000, 2_000_000))
    return found


def late_commit(scene: Scene, at_us: int) -> list[Part]:
    """What a member commits is under way until it is no member any more, or one of a later generation; the others go
    on from what was committed."""
    member = scene.draw.choice(scene.cast.members)
    link: Part = {"from": [member], "to": ["brokers"], "apis": ["OffsetCommit"], "chance": "60%"}
    late: Part = {"reorder": {**link, "by": scene.duration(lasting(scene, 300_000, 3_000_000))}}
    at_us = early(at_us)
    found = [entry(scene, at_us, late, lasting(scene, 2_000_000, 6_000_000))]
    then_us = later(scene, at_us, 100_000, 1_000_000)
    unheard: Part = {"drop": {"from": [member], "to": ["brokers"], "apis": ["Heartbeat"], "chance": "100%"}}
    goes: Part = scene.draw.choice((unheard, {"pause": member}, _away(scene, scene.draw.choice(scene.cast.members))))
    return [*found, entry(scene, then_us, goes, lasting(scene, 800_000, 3_500_000))]


def late_join(scene: Scene, at_us: int) -> list[Part]:
    """What a member and its coordinator say to each other in a rebalance is late, one way, while other members come and
    go: a SyncGroup is of a generation that is over, an answer to JoinGroup comes when nobody waits for its member."""
    member, other = scene.draw.choice(scene.cast.members), scene.draw.choice(scene.cast.members)
    one, way = [member], scene.draw.choice((0, 0, 1))
    link: Part = {"from": ["brokers"] if way else one, "to": one if way else ["brokers"], "chance": "60%"}
    link["apis"] = scene.draw.choice((["JoinGroup"], ["SyncGroup"], ["JoinGroup", "SyncGroup"]))
    late: Part = {"reorder": {**link, "by": scene.duration(lasting(scene, 300_000, 4_000_000))}}
    at_us = early(at_us)
    found = [entry(scene, at_us, late, lasting(scene, 3_000_000, 8_000_000))]
    for _ in range(scene.draw.choice((1, 2, 3))):
        at_us = later(scene, at_us, 50_000, 1_500_000)
        found.append(entry(scene, at_us, _away(scene, other), lasting(scene, 100_000, 1_500_000)))
    return found


def late_beat(scene: Scene, at_us: int) -> list[Part]:
    """Heartbeats of a static member are under way for so long that its process has died and joined again meanwhile: its
    instance id belongs to another member by then."""
    member, at_us = scene.draw.choice(scene.cast.static_members), early(at_us)
    late: Part = {"from": [member], "to": ["brokers"], "apis": ["Heartbeat"]}
    late["by"] = scene.duration(lasting(scene, 1_500_000, 4_000_000))
    found = [entry(scene, at_us, {"delay": late}, lasting(scene, 400_000, 1_200_000))]
    then_us = later(scene, at_us, 300_000, 800_000)
    return [*found, entry(scene, then_us, {"crash": member}, lasting(scene, 50_000, 400_000))]


def lost_member(scene: Scene, at_us: int) -> list[Part]:
    """A member dies for good, and its coordinator goes soon after that, or in the rebalance without it: whoever comes
    next has heard nothing of the member."""
    member, at_us = scene.draw.choice(scene.cast.members), early(at_us)
    found = [entry(scene, at_us, {"crash": member}, scene.chaos_us)]
    if scene.draw.random() < 0.5:
        seen = when(scene, scene.draw.choice(("rebalance-begun", "members-joined")), (0, 1, 50))
        return [*found, as_seen(scene, seen, _struck(scene), 200_000, 1_500_000)]
    then_us = later(scene, at_us, 1000, 800_000)
    return [*found, entry(scene, then_us, _struck(scene), lasting(scene, 200_000, 1_500_000))]


def dies_unheard(scene: Scene, at_us: int) -> list[Part]:
    """A coordinator goes, mostly in good order, and a member dies for good before the next coordinator has read its
    log: the member is in the log, and the next coordinator never hears of it."""
    who, at_us = _coordinator(scene), min(early(at_us), later(scene, FIRST_US, 0, 800_000))
    goes: Part = {"controlled-shutdown": {"targets": who}}
    then_us = at_us
    if scene.draw.random() < 0.3:
        goes, then_us = {scene.draw.choice(("crash", "power-loss")): who}, later(scene, at_us, 1000, 300_000)
    dies: Part = {"crash": scene.draw.choice(scene.cast.members)}
    return [entry(scene, at_us, goes, lasting(scene, 300_000, 1_500_000)), entry(scene, then_us, dies, scene.chaos_us)]


def all_away(scene: Scene, at_us: int) -> list[Part]:
    """All members die, and come back after so long that their group has been empty for a while, and may have lost its
    positions: those expire where they are not kept for longer. The coordinator may go meanwhile, and the next one goes
    on counting the time."""
    at_us, lasts = early(at_us), lasting(scene, 2_500_000, 7_000_000)
    found = [entry(scene, at_us, {"crash": member}, lasts) for member in scene.cast.members]
    if scene.draw.random() < 0.5:
        then_us = later(scene, at_us, 500_000, 3_000_000)
        found.append(entry(scene, then_us, _struck(scene), lasting(scene, 200_000, 1_500_000)))
    return found


OF_STATIC: dict[str, Pattern] = {"late-beat": late_beat}
"""They need a member with an instance id."""

GROUPS: dict[str, Pattern] = {
    "failover-in-rebalance": failover_in_rebalance,
    "dies-in-rebalance": dies_in_rebalance,
    "commits-wait": commits_wait,
    "former-coordinator": former_coordinator,
    "late-commit": late_commit,
    "late-join": late_join,
    "lost-member": lost_member,
    "dies-unheard": dies_unheard,
    "all-away": all_away,
    **OF_STATIC,
}
"""Name, as in a nemesis file -> pattern. They need a group."""
