"""Two topics of one name, one after the other: what is said of the first one does not bind the second, and the removal
of a topic excuses nothing that is not its own."""

from __future__ import annotations

import msgspec
import pytest

from actors.trace.events import ListInvoke, ListReturn, PartRemove, ReplyPartition, RpcReply
from tests.unit.invariants.folds.test_windows import Run
from tests.unit.invariants.trace_builder import TP, TraceBuilder

ANEW = f"{TP}@of-the-second"
SAFETY = ("P1", "P3", "P4", "P10", "P11", "P14", "C1", "C3", "C8", "H1", "H6")


def removed(trace: TraceBuilder, offset: int = 30, quorum_epoch: int = 1) -> None:
    trace.emit("controller-1", PartRemove(TP, offset, quorum_epoch, "of-the-first"))


def made_anew(trace: TraceBuilder, since: int) -> None:
    """Let all that was recorded from event ``since`` on be about the second topic."""
    for index, event in enumerate(trace.events[since:], since):
        if getattr(event.body, "tp", "") == TP:
            trace.events[index] = msgspec.structs.replace(event, body=msgspec.structs.replace(event.body, tp=ANEW))


def life(trace: TraceBuilder, leader: int, *uids: str) -> None:
    """A topic from its creation on: its records are committed, acknowledged and read."""
    trace.logs = {key: log for key, log in trace.logs.items() if key[0] != TP}
    trace.lead(leader, 0, cause="create")
    followers = [each for each in (1, 2, 3) if each != leader]
    for follower in followers:
        trace.assume(follower, 0, leader=leader)
    for offset, uid in enumerate(uids):
        trace.sends("producer-1", uid)
        trace.replicate(uid, leader=leader, followers=followers)
        trace.high_watermark(f"broker-{leader}", offset + 1)
        trace.acked("producer-1", uid, offset, broker=leader)
    trace.polled("consumer-1", *enumerate(uids), broker=leader, epoch=0)


def two_topics(told_apart: bool) -> TraceBuilder:
    trace = TraceBuilder()
    life(trace, 1, "producer-1:0", "producer-1:1", "producer-1:2")
    removed(trace)
    since = len(trace.events)
    life(trace, 2, "producer-1:3")
    if told_apart:
        made_anew(trace, since)
    return trace


def test_the_second_topic_begins_anew() -> None:
    """Shows other records at the same offsets, in the same leader epoch, of another leader: two topics may."""
    for invariant in SAFETY:
        assert two_topics(True).result(invariant).status in ("held", "vacuous"), invariant


@pytest.mark.parametrize("invariant", ["P1", "P14", "C8"])
def test_one_topic_does_not(invariant: str) -> None:
    """Shows that the same is a violation where it is one topic, be it that its removal was told of."""
    assert two_topics(False).result(invariant).status == "violated"


def test_what_is_lost_of_the_second_topic_is_lost() -> None:
    """Shows that the first one's removal excuses nothing of the second."""
    trace = two_topics(True)
    since = len(trace.events)
    trace.logs = {key: log for key, log in trace.logs.items() if key[1] != "broker-3"}
    trace.lead(3, 1)
    made_anew(trace, since)
    found = trace.result("C1")
    assert found.status == "violated"
    assert ANEW in found.violations[0].sentence


def test_nothing_is_due_of_a_removed_topic() -> None:
    """Shows a partition without its leader: nobody need elect one once its topic is removed; unless the removal was
    lost with the controller that had appended it."""
    run = Run()
    run.role("controller-1", 1, "leader", 101)
    run.lead(1, 0)
    removed(run)
    run.window(without=("broker-1",))
    run.past("L3")
    assert run.status("L3")[0] == "vacuous"
    lost = Run()
    lost.role("controller-1", 1, "leader", 101)
    lost.lead(1, 0)
    removed(lost)
    lost.window(without=("broker-1",))
    lost.role("controller-2", 2, "leader", 102, log_end=20)
    lost.past("L3")
    assert lost.status("L3")[0] == "violated"


def test_a_removed_partition_has_no_isr_to_be_fenced_from() -> None:
    """Shows a leader that is fenced after its partition was removed, and one that is while it is there."""
    for gone in (True, False):
        trace = TraceBuilder()
        trace.role("controller-1", 1, "leader", 101)
        trace.registered(1, 2, 3)
        trace.change(1, 0, offset=12)
        if gone:
            removed(trace)
        trace.registered(1, fenced=True, offset=40)
        assert trace.result("P9").status == ("held" if gone else "violated")


@pytest.mark.parametrize("backed", [True, False])
def test_an_answer_by_name(backed: bool) -> None:
    """Shows a client that takes the second topic for the first, as requests by name let it: what the leader of that one
    tells is not the latest offset of the first one, unless a broker says to have told it of that."""
    trace = TraceBuilder()
    life(trace, 1, "producer-1:0", "producer-1:1")
    trace.reply(1, "ListOffsets", ReplyPartition(TP, 0, 2, timestamp=-1, leader_epoch=0, high_watermark=2))
    trace.ask("list-offsets-1", 2, 1, 0)
    removed(trace)
    op = "list-offsets-1:anew"
    trace.emit("list-offsets-1", ListInvoke(op, TP, -1))
    told = ReplyPartition(TP if backed else ANEW, 0, 0, timestamp=-1, leader_epoch=0, high_watermark=0)
    cause = trace.emit("broker-2", RpcReply("ListOffsets", 11, "list-offsets-1", "c", 9, -1, 0, 0, [told]))
    trace.emit("list-offsets-1", ListReturn(op, "ok", 0, TP, -1, offset=0, leader_epoch=0, broker="broker-2"))
    trace.events[-1] = msgspec.structs.replace(trace.events[-1], cause=cause, req="c#9")
    trace.events[-1] = msgspec.structs.replace(
        trace.events[-1], body=msgspec.structs.replace(trace.events[-1].body, correlation_id=9)
    )
    expected = "violated" if backed else "vacuous"
    assert trace.result("H1").status == expected
    assert (trace.result("H6").status == "violated") == backed
