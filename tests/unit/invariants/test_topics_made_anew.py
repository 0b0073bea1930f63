"""Two topics of one name, one after the other: what is said of the first one does not bind the second, and the removal
of a topic excuses nothing that is not its own. What brokers tell of it is in ``metadata/test_broker_images.py``."""

from __future__ import annotations

import msgspec
import pytest

from actors.trace.events import (
    ConfigChange,
    EpochTold,
    ListInvoke,
    ListReturn,
    MetaImage,
    MetaView,
    NodeUp,
    PartRemove,
    ReplyPartition,
    RpcReply,
    SendReturn,
)
from orchestrator.invariants.liveness.removed_names import RemovedNames
from tests.unit.invariants.folds.test_windows import Run
from tests.unit.invariants.groups.stage import ONE, TWO, GroupTrace, entry
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


@pytest.mark.parametrize("backed", [True, False])
def test_an_answer_about_the_former_topic(backed: bool) -> None:
    """Shows a client that asks for the second topic by its name, and a broker that has the first one still: what it
    tells is not the latest offset of the second, and no floor of it either; one that tells so of the second is
    judged."""
    trace = two_topics(True)
    for offset in (1, 0):
        op = f"list-offsets-1:{offset}"
        trace.emit("list-offsets-1", ListInvoke(op, ANEW, -1))
        told = ReplyPartition(ANEW if backed else TP, 0, offset, timestamp=-1, leader_epoch=0, high_watermark=1)
        cause = trace.emit("broker-2", RpcReply("ListOffsets", 11, "list-offsets-1", "c", offset, -1, 0, 0, [told]))
        told_by = ListReturn(op, "ok", 0, ANEW, -1, offset=offset, leader_epoch=0, broker="broker-2")
        trace.emit("list-offsets-1", msgspec.structs.replace(told_by, correlation_id=offset))
        trace.events[-1] = msgspec.structs.replace(trace.events[-1], cause=cause, req=f"c#{offset}")
    for invariant in ("H1", "H6"):
        assert trace.result(invariant).status == ("violated" if backed else "vacuous"), invariant


@pytest.mark.parametrize(("tp", "version", "lost"), [(TP, 12, False), (ANEW, 12, True), (TP, 13, True)])
def test_an_acknowledgement_of_the_former_topic(tp: str, version: int, lost: bool) -> None:
    """Shows a producer that writes to the second topic by its name, and a broker that has the first one still: what it
    acknowledges is no record of the second; it is if the broker says so, or if the request had the topic's id."""
    trace = two_topics(True)
    told = ReplyPartition(tp, 0, 7, timestamp=-1, leader_epoch=0, high_watermark=8)
    cause = trace.emit("broker-2", RpcReply("Produce", version, "producer-1", "c", 5, -1, 0, -1, [told]))
    sent = SendReturn("send/producer-1:9", "ok", 0, ANEW, "producer-1:9", -1, True, 7, 0, "broker-2", version, 5)
    trace.emit("producer-1", sent)
    trace.events[-1] = msgspec.structs.replace(trace.events[-1], cause=cause, req="c#5")
    assert (trace.result("C1").violated > 0) == lost


# ---- P17 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gone", "applied", "again", "status"),
    [
        (True, 31, False, "held"),
        (True, 30, False, "violated"),
        (False, 31, False, "violated"),
        (True, 41, True, "violated"),
    ],
)
def test_what_a_topic_was_set_to_goes_with_it(gone: bool, applied: int, again: bool, status: str) -> None:
    """Shows that min.insync.replicas of the first topic does not bind the leader of the second one, once its broker has
    applied the removal; what the second one was set to does."""
    trace = TraceBuilder()
    trace.emit("controller-1", ConfigChange(0, 1, "topic/orders", "min.insync.replicas", "2"))
    if gone:
        removed(trace)
    if again:
        trace.emit("controller-1", ConfigChange(40, 1, "topic/orders", "min.insync.replicas", "2"))
    trace.emit("broker-1", MetaImage(applied, 1))
    since = len(trace.events)
    trace.lead(1, 0)
    trace.append("broker-1", "a")
    trace.high_watermark("broker-1", 1)
    made_anew(trace, since)
    told = ReplyPartition(ANEW, 0, 0, 0, leader_epoch=0, isr=1, min_isr=1)
    trace.reply(1, "Produce", told, acks=-1)
    assert trace.result("P17").status == status


# ---- what clients are told of leaders ---------------------------------------------------------------------------


def viewed(trace: TraceBuilder, tp: str, leader: int, epoch: int) -> str:
    """The client is told who leads, and takes that over."""
    return trace.emit("consumer-1", MetaView("broker-3", {tp: epoch}, [tp], {tp: leader}))


def asked(trace: TraceBuilder, since: str, broker: int, tp: str, epoch: int) -> None:
    """A broker answers what the client asked of a name when its last event was ``since``: for ``tp``."""
    trace.cause, trace.req = since, "c#1"
    told = ReplyPartition(tp, 0, 4, asked_epoch=epoch)
    trace.emit(f"broker-{broker}", RpcReply("ListOffsets", 7, "consumer-1", "c", 1, -1, 0, 0, [told]))
    trace.cause, trace.req = "", ""


@pytest.mark.parametrize(("former", "violated"), [(TP, 0), (ANEW, 1)])
def test_leader_epochs_are_of_one_topic(former: str, violated: int) -> None:
    """Shows a client that has gone over from leader epoch 5 to 0, which it may from one topic to the next."""
    trace = TraceBuilder()
    trace.emit("consumer-1", NodeUp("consumer", -1, "", False, False))
    viewed(trace, former, 2, 5)
    viewed(trace, ANEW, 1, 0)
    assert trace.result("M1").violated == violated


@pytest.mark.parametrize("takes_it_for", [TP, ANEW])
@pytest.mark.parametrize(("broker", "epoch", "violated"), [(1, 3, (0, 0)), (1, 2, (1, 1)), (2, 5, (0, 1))])
def test_a_question_by_name(takes_it_for: str, broker: int, epoch: int, violated: tuple[int, int]) -> None:
    """Shows a client that has gone over to the second topic, broker-1 in leader epoch 3, and asks by name: whichever
    topic the broker takes it to mean, it asks whom it takes to lead the second one, in that leader epoch."""
    trace = TraceBuilder()
    trace.emit("consumer-1", NodeUp("consumer", -1, "", False, False))
    viewed(trace, TP, 2, 5)
    viewed(trace, ANEW, 2, 2)
    since = viewed(trace, ANEW, 1, 3)
    asked(trace, since, broker, takes_it_for, epoch)
    assert (trace.result("M1").violated, trace.result("M2").violated) == violated
    assert trace.result("M2").tested > 0


def test_a_question_about_the_former_topic() -> None:
    """Shows a client that asked when it meant the first topic, of a broker that has the second one already: it is held
    to what it had of the first; and not at all once it means the second, as the order of the two is not known."""
    for epoch, violated in ((5, 0), (4, 1)):
        trace = TraceBuilder()
        trace.emit("consumer-1", NodeUp("consumer", -1, "", False, False))
        since = viewed(trace, TP, 2, 5)
        asked(trace, since, 2, ANEW, epoch)
        assert (trace.result("M1").violated, trace.result("M2").violated) == (violated, violated)
        viewed(trace, ANEW, 1, 0)
        asked(trace, since, 2, ANEW, epoch)
        assert (trace.result("M1").violated, trace.result("M2").violated) == (violated, violated)


@pytest.mark.parametrize(("meant", "violated"), [(TP, 1), (ANEW, 0)])
def test_records_for_the_former_topic(meant: str, violated: int) -> None:
    """Shows records for the first topic at a broker that its client took for its leader no more: they may have been on
    their way when it went over to the second one, and are wrong where it did not."""
    trace = TraceBuilder()
    trace.emit("consumer-1", NodeUp("consumer", -1, "", False, False))
    viewed(trace, TP, 1, 5)
    trace.cause, trace.req = viewed(trace, meant, 2, 6), "c#1"
    told = ReplyPartition(TP, 6)
    trace.emit("broker-3", RpcReply("Produce", 12, "consumer-1", "c", 1, -1, 0, -1, [told]))
    assert trace.result("M2").violated == violated


# ---- what groups have committed ---------------------------------------------------------------------------------


def heard(trace: GroupTrace, end: int, broker: int = 1) -> None:
    """A broker has applied the metadata log up to ``end``."""
    trace.emit(f"broker-{broker}", MetaImage(end, 1))


def told_of(trace: GroupTrace, told: list[int] | None, epoch: int = 0, broker: int = 1) -> tuple[int, dict[str, int]]:
    """A coordinator answers a look-up. Returns what that is to O1: violated, excused."""
    op = trace.looks_up()
    trace.is_told(op, told, answer=trace.answers(told, epoch, broker))
    found = trace.result("O1")
    return found.violated, found.excused


@pytest.mark.parametrize(("gone", "applied", "violated"), [(True, 31, 0), (True, 30, 1), (False, 31, 1)])
def test_what_is_committed_for_the_former_topic(gone: bool, applied: int, violated: int) -> None:
    """Shows that a coordinator which has applied the removal of a topic need not tell what was committed before, as it
    was asked for the second one's; one that has not heard of it must, and one of a topic that is there."""
    trace = GroupTrace()
    heard(trace, 30)
    trace.acks(20, 0)
    if gone:
        removed(trace)
    heard(trace, applied)
    assert told_of(trace, None) == (violated, {})


@pytest.mark.parametrize(("told", "violated"), [(entry(5), 0), (None, 1), (entry(20), 1), (entry(9), 1)])
def test_what_is_committed_for_the_second_topic(told: list[int] | None, violated: int) -> None:
    """Shows that what is committed for the second topic must be told: not nothing, nor what was committed for the
    first one, nor what nobody has committed."""
    trace = GroupTrace()
    heard(trace, 30)
    trace.acks(20, 0)
    removed(trace)
    heard(trace, 41)
    trace.acks(5, 1)
    assert told_of(trace, told) == (violated, {})


def test_a_coordinator_that_has_not_heard_of_the_second_topic() -> None:
    """Shows that the next coordinator, which is asked for the first topic still, need not tell what was committed for
    the second; and that what is under way may be that."""
    for acknowledged in (True, False):
        trace = GroupTrace()
        heard(trace, 30)
        heard(trace, 30, broker=2)
        trace.acks(20, 0)
        removed(trace)
        heard(trace, 41)
        if acknowledged:
            trace.acks(5, 1)
        else:
            trace.commits(5)
            trace.decides(5, 1)
        assert told_of(trace, None, epoch=1, broker=2) == (0, {})
        assert told_of(trace, entry(9), epoch=1, broker=2) == (1, {})


def test_another_partition_is_not_removed() -> None:
    """Shows that the removal of one topic excuses nothing of another one."""
    trace = GroupTrace()
    heard(trace, 30)
    trace.acks(20, 0)
    trace.emit("controller-1", PartRemove("payments-0", 30, 1, "of-another"))
    heard(trace, 41)
    assert told_of(trace, None) == (1, {})


def test_an_answer_that_nobody_knows_the_coordinator_of() -> None:
    """Shows that nothing may be told where it is not known which coordinator told it; and that a third topic is another
    one than the second."""
    trace = GroupTrace()
    trace.acks(20, 0)
    removed(trace)
    trace.is_told(trace.looks_up(), None)
    assert trace.result("O1").violated == 0
    third = GroupTrace()
    removed(third)
    heard(third, 41)
    third.acks(5, 1)
    third.emit("controller-1", PartRemove(ANEW, 50, 1, "of-the-second"))
    heard(third, 51)
    assert told_of(third, None) == (0, {})


SEED = {"features": {"kip-232": "seed"}}


@pytest.mark.parametrize(("gone", "violated"), [(True, 0), (False, 1)])
@pytest.mark.parametrize(("epoch", "broker"), [(0, 1), (1, 2)])
def test_metadata_epochs_of_the_former_topic(gone: bool, violated: int, epoch: int, broker: int) -> None:
    """Shows that what was committed goes with its topic, by a tombstone: M5 holds no commit of the second topic to its
    metadata epoch, be it that the coordinator took it or the one after; and that it does where there is no such."""
    trace = GroupTrace(**SEED)
    op = trace.commits(20, metadata_epoch=5)
    trace.decides(20, 1, metadata_epoch=5)
    trace.committed(op, 20, metadata_epoch=5)
    if gone:
        removed(trace)
        trace.decides(-1, 2, "", -1)
    trace.commits(3, metadata_epoch=4)
    trace.decides(3, 3, metadata_epoch=4, epoch=epoch, broker=broker, asked=trace.events[-1].id)
    found = trace.result("M5")
    assert (found.violated, found.excused) == (violated, {})


def test_metadata_epochs_of_the_second_topic() -> None:
    """Shows that M5 goes on after a tombstone, under the same coordinator and under the next one."""
    for epoch, broker in ((0, 1), (1, 2)):
        trace = GroupTrace(**SEED)
        trace.decides(20, 1, metadata_epoch=5)
        trace.decides(-1, 2, "", -1)
        op = trace.commits(3, metadata_epoch=7)
        trace.decides(3, 3, metadata_epoch=7)
        trace.committed(op, 3, metadata_epoch=7)
        trace.commits(4, metadata_epoch=6)
        trace.decides(4, 4, metadata_epoch=6, epoch=epoch, broker=broker, asked=trace.events[-1].id)
        assert trace.result("M5").violated == 1


def group_that_read(trace: GroupTrace, tp: str = TP) -> None:
    """Three records are committed, of which consumer-1 was given the first as a member; consumer-2 owns it next."""
    since = len(trace.events)
    trace.lead(1)
    trace.replicate("a", "b", "c")
    trace.high_watermark("broker-1", 3)
    trace.owns(ONE, TP)
    trace.moved(ONE, 0, "assign")
    trace.polled(ONE, (0, "a"))
    trace.owns(TWO, TP)
    if tp != TP:
        made_anew(trace, since)


@pytest.mark.parametrize(("gone", "violated"), [("", 1), (TP, 0), ("orders-1", 1)])
def test_where_the_next_owner_begins(gone: str, violated: int) -> None:
    """Shows that C5 lets a member begin anywhere once the topic is removed, as what its group has committed may be of
    the next one; where its topic is there, or another one was removed, it leaves nothing out."""
    trace = GroupTrace()
    group_that_read(trace)
    if gone:
        trace.emit("controller-1", PartRemove(gone, 30, 1, "of-the-first"))
    trace.moved(TWO, 2, "committed")
    assert trace.result("C5").violated == violated


def test_a_removed_topic_is_read_in_order() -> None:
    """Shows that C5 judges what polls bring of either topic, whatever was removed."""
    for tp in (TP, ANEW):
        trace = GroupTrace()
        group_that_read(trace, tp)
        removed(trace)
        trace.polled("consumer-3", (0, "a"))
        trace.polled("consumer-3", (2, "c"))
        if tp == ANEW:
            made_anew(trace, len(trace.events) - 2)
        (finding,) = trace.result("C5").violations
        assert finding.sentence.startswith(f"consumer-3 had read {tp} up to 1 and then got offset 2")


@pytest.mark.parametrize(("gone", "violated"), [("", 1), (TP, 0), ("orders-1", 1)])
def test_a_position_of_a_removed_topic(gone: str, violated: int) -> None:
    """Shows that O6 judges no position of a name whose topic was removed, as it may be of the next one; and every one
    beyond the end of a topic that is there."""
    trace = GroupTrace()
    trace.lead(1)
    trace.replicate("a", "b")
    trace.high_watermark("broker-1", 2)
    if gone:
        trace.emit("controller-1", PartRemove(gone, 30, 1, "of-the-first"))
    trace.decides(3)
    assert trace.result("O6").violated == violated


LOST: dict[str, tuple[list[tuple[str, int]], bool]] = {
    "removed": ([("remove", 1)], False),
    "removed by the next controller": ([("change", 2), ("remove", 2)], False),
    "lost": ([("remove", 1), ("change", 2)], True),
    "removed by a deposed controller": ([("change", 2), ("remove", 1)], True),
    "changed by the controller that removed it": ([("remove", 1), ("change", 1)], False),
    "changed by the controller before": ([("remove", 2), ("change", 1)], False),
}
"""What controllers of which quorum epochs write of a partition, and whether it is there after that."""


@pytest.mark.parametrize("case", LOST)
def test_a_removal_that_was_lost(case: str) -> None:
    """Shows that a removal excuses nothing once a later controller goes on with the partition: C5, H1, M4, O6."""
    writes, there = LOST[case]
    trace = GroupTrace()
    group_that_read(trace)
    trace.reply(1, "ListOffsets", ReplyPartition(TP, 0, 3, timestamp=-1, leader_epoch=0, high_watermark=3))
    trace.ask("list-offsets-1", 3, 1, 0)
    for what, quorum_epoch in writes:
        if what == "remove":
            removed(trace, quorum_epoch=quorum_epoch)
        else:
            trace.change(1, 0, quorum_epoch=quorum_epoch, cause="alter-isr", partition_epoch=quorum_epoch)
    trace.moved(TWO, 2, "committed")
    trace.moved("consumer-3", 0, "reset", 2)
    trace.decides(4)
    trace.ask("list-offsets-1", 2, 1, 0)
    for invariant in ("C5", "H1", "M4", "O6"):
        assert (trace.result(invariant).violated > 0) == there, invariant


@pytest.mark.parametrize(("taken_up", "leader"), [(False, 0), (True, 1), (True, 2)])
def test_who_fetches_by_name_is_answered_by_what_the_broker_has_heard_of(taken_up: bool, leader: int) -> None:
    """Shows that records which a broker sent before it took the second topic up are none of that one's. It takes it up
    as a follower, too, of which consumers fetch."""
    trace = TraceBuilder()
    life(trace, 1, "producer-1:0")
    removed(trace)
    since = len(trace.events)
    trace.logs = {key: log for key, log in trace.logs.items() if key[0] != TP}
    trace.change(1, 0, cause="create")
    answered = trace.emit("broker-1", MetaImage(40, 0))
    if taken_up:
        answered = trace.assume(1, 0, leader=leader)
    trace.cause = answered
    trace.polled("consumer-1", (0, "producer-1:0"), epoch=-1)
    last = trace.events[-1]
    trace.events[-1] = msgspec.structs.replace(last, body=msgspec.structs.replace(last.body, version=12))
    made_anew(trace, since)
    assert trace.result("C8").violated == taken_up


def test_a_consumer_that_was_told_of_another_topic_may_read_on() -> None:
    """Shows that an answer to OffsetForLeaderEpoch, which goes by name, holds for the topic that the client meant."""
    for taken in (False, True):
        trace = TraceBuilder()
        trace.lead(1, 0)
        trace.replicate("a")
        trace.high_watermark("broker-1", 1)
        trace.cause, trace.req = "consumer-1/0/0", "consumer-1>broker-1:metadata:0.0#1"
        trace.emit("broker-1", EpochTold(TP, -1, 0, 0, 1, -1, -1))
        trace.cause = trace.req = ""
        if taken:
            trace.emit("consumer-1", MetaView("broker-1", {TP: 0}, [TP], {TP: 1}, {"orders": "of-the-second"}))
        trace.polled("consumer-1", (0, "a"), epoch=0)
        assert trace.result("M10").violated == (not taken)


def test_a_topic_that_was_lost_with_its_controller_is_gone() -> None:
    """Shows that a topic which was made anew, and is missing in the log of the next leader, is one that was removed."""
    names = RemovedNames()
    trace = TraceBuilder()
    removed(trace)
    trace.change(1, 0, cause="create", offset=40)
    for event in trace.events:
        names.take(event)
    assert names.gone == set()
    for epoch, end, gone in ((2, 41, set()), (3, 40, {TP}), (4, 30, set())):
        trace.role("controller-1", epoch, "leader", 101, log_end=end)
        names.take(trace.events[-1])
        assert names.gone == gone, (epoch, "the removal stands at offset 30")
