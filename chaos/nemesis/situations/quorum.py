"""Situations of the quorum: elections in which a second thing goes wrong."""

from __future__ import annotations

from chaos.faults.kinds import KINDS
from chaos.faults.process import NodeBounce
from chaos.nemesis.parts import Pattern, as_seen, early, entry, lasting, later, when
from chaos.nemesis.scene import Part, Scene

LEADER = "active-controller"
ISOLATED: Part = {"partition": {"isolate": LEADER}}
APART: Part = {"partition": {"between": [LEADER], "and": ["controllers"]}}


LATE = (200_000, 3_000_000)
"""How late the beginning of an epoch may be heard."""


def late_begin(scene: Scene, at_us: int) -> list[Part]:
    """A new leader of the quorum is heard late by the voters that did not make it one, and perhaps only when it is
    gone: BeginQuorumEpoch comes in its own epoch's last moments, or in a later epoch."""
    gone = entry(scene, at_us, {"crash": LEADER}, lasting(scene, 300_000, 2_500_000))
    link: Part = {"from": [LEADER], "to": ["controllers"]}
    late: Part = {**link, "apis": ["BeginQuorumEpoch"], "chance": "100%", "by": scene.duration(scene.between(LATE))}
    held = scene.draw.choice(({"partition": link}, {"reorder": late}))
    elected = when(scene, "quorum-leader-elected", epoch=2)
    found = [gone, as_seen(scene, elected, held, 300_000, 2_500_000)]
    again = when(scene, "quorum-leader-elected", (5, 60, 400), (1, 2), epoch=2)
    struck = scene.draw.choice(({"crash": LEADER}, ISOLATED))
    return [*found, as_seen(scene, again, struck, 300_000, 2_000_000)]


ON_VOTE: tuple[Part, ...] = (
    {},
    {"at": "after-write", "of": "quorum-state"},
    {"at": "after-sync", "of": "quorum-state"},
    {"at": "before-reply", "of": "Vote"},
    {"at": "after-reply", "of": "Vote"},
)
"""Where a voter can die that has given its vote: at once, so that nothing of it is on the disk, or a little later."""


def struck_voter(scene: Scene, at_us: int) -> list[Part]:
    """A voter dies as it gives its vote, before or after the vote is on its disk and the answer has left, and is back
    within the election; the leader that it helped to make is not heard by the others, which go on to ask for votes."""
    dead = {"nodes": ["voters(unattached)[0]"], **scene.draw.choice(ON_VOTE)}
    kind = scene.draw.choice(("crash", "power-loss", "torn-tail"))
    voted = when(scene, "vote-granted", nth=(1, 1, 2), epoch=2)
    found = [
        entry(scene, at_us, {"crash": LEADER}, lasting(scene, 200_000, 1_500_000)),
        as_seen(scene, voted, {kind: dead}, 10_000, 400_000),
    ]
    if scene.draw.random() < 0.7:
        unheard = when(scene, "quorum-leader-elected", (0, 5), epoch=2)
        found.append(as_seen(scene, unheard, scene.draw.choice((ISOLATED, APART)), 500_000, 2_500_000))
    return found


def stands_in_vain(scene: Scene, at_us: int) -> list[Part]:
    """A voter hears nothing from the moment of its vote on, for longer than it waits for a leader: it asks for votes
    beforehand, gets no answer, and is in the same epoch as before, in which it has voted."""
    gone = entry(scene, at_us, {"crash": LEADER}, lasting(scene, 500_000, 2_500_000))
    who = scene.draw.choice(("voters(unattached)[0]", "voters(unattached)"))
    deaf: Part = {"partition": {"from": ["controllers"], "to": [who]}}
    cut = scene.draw.choice(({"partition": {"isolate": who}}, deaf))
    voted = when(scene, "vote-granted", nth=(1, 1, 2), epoch=2)
    return [gone, as_seen(scene, voted, cut, 1_500_000, 3_500_000)]


def quorum_leads_twice(scene: Scene, at_us: int) -> list[Part]:
    """A leader of the quorum is cut off until another one leads, follows that one, which goes: a process may lead
    twice, with what another one wrote in between."""
    heard = when(scene, "quorum-leader-elected", (20, 200, 600), epoch=2)
    found: list[Part] = [{"when": {"at": scene.duration(early(at_us))}, "fault": APART, "until": heard}]
    for nth in (1, 2, 3):
        gone = when(scene, "quorum-leader-elected", (150, 500, 1200), (nth,), epoch=2)
        found.append(as_seen(scene, gone, scene.draw.choice(({"crash": LEADER}, APART)), 700_000, 2_500_000))
    return found


def change_at_election(scene: Scene, at_us: int) -> list[Part]:
    """An operator changes the voters just as they elect a leader, and the leader goes as it writes the change."""
    gone = scene.draw.choice(({"crash": LEADER}, APART))
    found = [entry(scene, at_us, gone, lasting(scene, 500_000, 2_500_000))]
    if not scene.cast.changing:
        return found
    for _ in range(scene.draw.choice((1, 2))):
        kind = scene.draw.choice(("add-voter", "add-voter", "remove-voter"))
        role = scene.draw.choice(("prospective", "candidate", "leader"))
        asked = when(scene, "quorum-role", (0, 5, 40, 250), role=role, epoch=2)
        found.append({"when": asked, "action": {kind: KINDS[kind].draw(scene)}})
    if scene.draw.random() < 0.6:
        written = when(scene, "voters-appended", (0, 2, 30), (1, 2))
        found.append(as_seen(scene, written, scene.draw.choice(({"crash": LEADER}, ISOLATED)), 300_000, 2_500_000))
    return found


def bounce_at_election(scene: Scene, at_us: int) -> list[Part]:
    """Servers are bounced one after the other while the quorum elects a leader."""
    standing = when(scene, "quorum-role", (0, 20), role=scene.draw.choice(("prospective", "candidate")), epoch=1)
    rolled = {NodeBounce.kind: NodeBounce.draw(scene)}
    gone = entry(scene, at_us, {"crash": LEADER}, lasting(scene, 300_000, 2_000_000))
    return [gone, {"when": standing, "action": rolled}]


def slow_commits(scene: Scene, at_us: int) -> list[Part]:
    """What the quorum is asked for takes long, as its disks are slow: changes of voters, of brokers and of topic
    partitions are under way at once, while servers go and come."""
    leader, at_us = f"leader({scene.tp})", early(at_us)
    by = scene.duration(lasting(scene, 40_000, 250_000))
    slow: Part = {"slow-disk": {"nodes": ["controllers"], "by": by, "jitter": by}}
    found = [entry(scene, at_us, slow, lasting(scene, 3_000_000, 7_000_000))]
    gone: tuple[Part, ...] = (
        {"crash": leader},
        {"power-loss": scene.follower()},
        {"controlled-shutdown": {"targets": leader}},
    )
    for _ in range(3):
        at_us = later(scene, at_us, 100_000, 900_000)
        found.append(entry(scene, at_us, scene.draw.choice(gone), lasting(scene, 100_000, 1_000_000)))
        if scene.cast.changing:
            kind = scene.draw.choice(("add-voter", "add-voter", "remove-voter"))
            asked_us = later(scene, at_us, 1_000, 300_000)
            found.append({"when": {"at": scene.duration(asked_us)}, "action": {kind: KINDS[kind].draw(scene)}})
    threads: Part = {"configure": {"broker": ["any(1)"], "set": {"num.io.threads": scene.draw.choice((2, 8))}}}
    seen = scene.draw.choice(("node-restarted", "isr-proposed", "broker-fenced", "diverging"))
    found.append({"when": when(scene, seen, (0, 10, 100), (1, 2)), "action": threads})
    return found


def busy_slow_leader(scene: Scene, at_us: int) -> list[Part]:
    """The quorum's leader has a slow disk and writes one change after the other: it appends while what it appended
    before is not on its disk, the others have it sooner, and it may lose power, or its office, meanwhile."""
    at_us = early(at_us)
    by = scene.duration(lasting(scene, 20_000, 200_000))
    slow: Part = {"slow-disk": {"nodes": [LEADER], "by": by, "jitter": by}}
    found = [entry(scene, at_us, slow, lasting(scene, 1_500_000, 4_000_000))]
    for number in range(10):
        at_us = later(scene, at_us, 4_000, 120_000)
        threads: Part = {"configure": {"broker": ["any(1)"], "set": {"num.io.threads": 2 + number % 4}}}
        found.append({"when": {"at": scene.duration(at_us)}, "action": threads})
    gone = scene.draw.choice(({"power-loss": LEADER}, {"power-loss": LEADER}, ISOLATED))
    found.append(entry(scene, later(scene, at_us, 1_000, 300_000), gone, lasting(scene, 300_000, 1_500_000)))
    return found


QUORUM: dict[str, Pattern] = {
    "late-begin": late_begin,
    "struck-voter": struck_voter,
    "stands-in-vain": stands_in_vain,
    "quorum-leads-twice": quorum_leads_twice,
    "change-at-election": change_at_election,
    "bounce-at-election": bounce_at_election,
    "slow-commits": slow_commits,
    "busy-slow-leader": busy_slow_leader,
}
"""Name, as in a nemesis file -> pattern."""
