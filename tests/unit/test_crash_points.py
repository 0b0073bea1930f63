"""Named points at which a process can end: which effect reaches which point."""

from __future__ import annotations

import pytest

from actors.crash_points import POINTS, CrashPoint, CrashPoints
from actors.node.effects import AnyEffect, Append, Call, Record, Reply, Sync, Write
from actors.trace.events import MetaImage, PartAssume, QRole
from krift.v1.produce import ProduceResponse
from krift.v1.quorum import VoteRequest

WRITE = Write("orders-0/log", 1, Append([b"a"]))
SYNC = Sync("quorum-state")
REQUEST = Call(1, "controller-2", "raft", VoteRequest(), 100)
REPLY = Reply("c1", ProduceResponse())
LEADER = Record(PartAssume("orders-0", "leader", 1, 3, 5, 10, 10, 8, 40))
QUORUM_LEADER = Record(QRole("d", 7, "leader", 101, 40, [101, 102]))
FOLLOWER = Record(PartAssume("orders-0", "follower", 2, 3, 5, 10, -1, 8, 40))


def points(*waiting: CrashPoint) -> CrashPoints:
    """These points, waited for."""
    found = CrashPoints()
    for point in waiting:
        found.add(point)
    return found


@pytest.mark.parametrize(
    ("name", "of", "effect", "elsewhere"),
    [
        ("before-write", "orders-0", WRITE, Write("quorum-state", 1, Append([]))),
        ("after-write", "orders-0", WRITE, Write("orders-1/log", 1, Append([]))),
        ("before-sync", "quorum-state", SYNC, Sync("orders-0/log")),
        ("before-request", "Vote", REQUEST, WRITE),
        ("after-request", "Vote", REQUEST, SYNC),
        ("before-reply", "Produce", REPLY, Reply("c1", None)),
        ("after-reply", "Produce", REPLY, Reply("c1", None)),
        ("on-becoming-leader", "orders-0", LEADER, QUORUM_LEADER),
        ("on-becoming-leader", "__cluster_metadata-0", QUORUM_LEADER, FOLLOWER),
    ],
)
def test_a_point_lies_on_one_side_of_one_effect(name: str, of: str, effect: AnyEffect, elsewhere: AnyEffect) -> None:
    """Shows the effect that each point lies at, on which side, and what ``of`` leaves out."""
    waiting = points(CrashPoint("f1/1", "broker-1", name, of))
    near, far = (waiting.after, waiting.before) if POINTS[name].after else (waiting.before, waiting.after)
    assert near(elsewhere) is None
    assert far(effect) is None
    reached = near(effect)
    assert reached is not None
    assert reached.id == "f1/1"


def test_without_of_any_will_do() -> None:
    """Shows points that nothing narrows; that no other record than that of a leadership is a point."""
    waiting = points(CrashPoint("f1/1", "n", "on-becoming-leader", nth=3), CrashPoint("f2/1", "n", "before-sync"))
    assert [waiting.after(effect) for effect in (FOLLOWER, Record(MetaImage(1, 1)), LEADER, QUORUM_LEADER)] == [
        None
    ] * 4
    assert waiting.after(LEADER) is not None
    assert waiting.before(SYNC) is not None


def test_a_sync_that_is_done_is_a_point_of_its_own() -> None:
    """Shows the point between a Sync and the node's hearing of it."""
    waiting = points(CrashPoint("f1/1", "n", "after-sync", "quorum-state"))
    assert waiting.before(SYNC) is waiting.after(SYNC) is waiting.synced("orders-0/log") is None
    assert waiting.synced("quorum-state") is not None


def test_the_nth_time_counts_within_an_incarnation() -> None:
    """Shows that a point is reached once, at the n-th time; that a new incarnation counts anew; that one which was
    taken back is reached no more."""
    waiting = points(CrashPoint("f1/1", "n", "after-write", nth=2))
    assert waiting.after(WRITE) is None
    waiting.restart()
    assert waiting.after(WRITE) is None
    assert waiting.after(WRITE) is not None
    assert waiting.after(WRITE) is None
    assert waiting
    assert waiting.discard("f1/1")
    assert not waiting.discard("f1/1")
    assert not waiting
