"""M10: truncation is signalled, not skipped."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from actors.trace.events import CommittedReturn, ConsPos, EpochTold, LogStart
from tests.unit.invariants.partitions.test_replication import committed
from tests.unit.invariants.trace_builder import TP, TraceBuilder
from tests.unit.invariants.transactions.stage import TransactionTrace

READER = "consumer-1"


def elected(*uids: str, epoch: int = 1, has: tuple[str, ...] = ("a",), read: int = 0, **profile: Any) -> TraceBuilder:
    """Broker-1 committed a, b and c; the reader got them; broker-2, which has only ``has``, is elected uncleanly and
    appends ``uids``. ``read``: leader epoch that the reader takes them to be of."""
    trace = committed("a", "b", "c", followers=(3,), **profile)
    for uid in has:
        trace.append("broker-2", uid, role="follower")
    trace.polled(READER, (0, "a"), (1, "b"), (2, "c"), epoch=0, batch_epoch=read)
    trace.change(2, epoch, isr=(2,), cause="unclean")
    trace.assume(2, epoch)
    for uid in uids:
        trace.append("broker-2", uid, epoch=epoch)
    trace.high_watermark("broker-2", trace.log_end(2), epoch=epoch, counted=(2,))
    return trace


def reads_on(trace: TraceBuilder, *records: tuple[int, str]) -> str:
    """The reader gets records of the new leader."""
    return trace.polled(READER, *records, broker=2, epoch=1, batch_epoch=1)


def asks(trace: TraceBuilder, epoch: int, told: tuple[int, int], reader: str = READER) -> None:
    """A reader asks broker-2, which leads in leader epoch 1, where ``epoch`` ends; it goes on with the answer."""
    last = next(event.id for event in reversed(trace.events) if event.node == reader)
    trace.cause, trace.req = last, f"{reader}>broker-2:metadata:0.0#6"
    trace.emit("broker-2", EpochTold(TP, -1, 1, 1, epoch, *told))
    trace.cause = ""


def test_a_reader_asks_with_the_leader_epoch_of_its_last_record() -> None:
    """Shows that a consumer which asks where another leader epoch ends than that of the record it has last violates
    M10."""
    right = elected("x")
    asks(right, 0, (0, 1))
    assert (right.result("M10").status, right.result("M10").tested) == ("held", 1)
    wrong = elected("x")
    asks(wrong, 1, (1, 2))
    assert wrong.result("M10").violations[0].sentence == (
        "consumer-1 asked broker-2 where leader epoch 1 of orders-0 ends, but the record before its position, at 2, "
        "was of "
        "leader epoch 0"
    )


def test_a_position_without_a_leader_epoch_is_not_asked_about() -> None:
    """Shows that a consumer which looked its position up, or sought it by offset, violates M10 if it asks where a
    leader epoch ends before it has read there, and not if it had asked before; afterwards it asks with that of its
    record."""
    for reason in ("assign", "reset", "seek"):
        trace = elected("x")
        trace.emit(READER, ConsPos(TP, 3, 1, -1, reason))
        asks(trace, 0, (0, 1))
        assert trace.result("M10").violations[0].sentence == (
            "consumer-1 asked broker-2 where leader epoch 0 of orders-0 ends, but its position 1 came without a leader "
            "epoch, and it has read nothing since"
        )
    before = elected("x")
    last = next(event.id for event in reversed(before.events) if event.node == READER)
    before.emit(READER, ConsPos(TP, 3, 1, -1, "seek"))
    before.cause, before.req = last, f"{READER}>broker-2:metadata:0.0#6"
    before.emit("broker-2", EpochTold(TP, -1, 1, 1, 0, 0, 1))
    assert before.result("M10").violated == 0
    for asked, violated in ((0, 1), (1, 0)):
        read = elected("x")
        read.emit(READER, ConsPos(TP, 3, 1, -1, "seek"))
        reads_on(read, (1, "x"))
        asks(read, asked, (asked, 1))
        assert read.result("M10").violated == violated, asked


def test_a_position_of_a_group_without_a_leader_epoch_is_not_asked_about() -> None:
    """Shows that a member asks about a committed position if it was committed with a leader epoch, and that nobody
    can say where the trace does not tell what it was told."""
    for told, violated in ((0, 0), (-1, 1), (None, 0)):
        trace = elected("x")
        if told is not None:
            trace.emit("consumer-2", CommittedReturn("look-up", "ok", 0, "g", [TP], {TP: [3, told, -1]}))
        trace.emit("consumer-2", ConsPos(TP, -1, 3, -1, "committed"))
        asks(trace, 0, (0, 1), "consumer-2")
        assert trace.result("M10").violated == violated, told


def begins(old: int, new: int, epoch: int = 0, again: bool = False, **profile: Any) -> TraceBuilder:
    """Consumer-2 seeks to a position with a leader epoch. ``again``: it had read up to 2 before."""
    trace = elected("x", "y", "z", has=("a", "b", "c"), **profile)
    if again:
        trace.polled("consumer-2", (1, "b"), epoch=0, batch_epoch=0)
    trace.emit("consumer-2", ConsPos(TP, old, new, epoch, "seek"))
    return trace


def test_a_position_with_a_leader_epoch_is_asked_about_first() -> None:
    """Shows that a consumer which begins at a position that it knows the leader epoch of violates M10 if it reads there
    before it has asked where that ends, also if nothing is lost."""
    for asked, violated in ((True, 0), (False, 1)):
        trace = begins(-1, 3)
        if asked:
            asks(trace, 0, (0, 3), "consumer-2")
        trace.req = ""
        trace.polled("consumer-2", (3, "x"), broker=2, epoch=1, batch_epoch=1)
        result = trace.result("M10")
        assert (result.violated, result.tested > 0) == (violated, True), asked
    assert result.violations[0].sentence == (
        "consumer-2 read on at 3 of orders-0 in leader epoch 1, but its position 3 came with leader epoch 0, and it "
        "has not asked where that ends"
    )


def test_who_need_not_ask_about_a_position_with_a_leader_epoch() -> None:
    """Shows that a consumer need not ask about a position without a leader epoch, with a leader whose epoch it does not
    know or that is too old, or if it had another position: a Fetch from before may bring its records."""
    for trace, violated in (
        (begins(-1, 3), 1),
        (begins(-1, 3, epoch=-1), 0),
        (begins(-1, 3, versions={"OffsetForLeaderEpoch": [0, 2]}), 0),
        (begins(2, 3, again=True), 0),
        (begins(-1, 3, again=True), 0),
        (begins(2, 2, again=True), 0),
        (begins(2, 1, again=True), 0),
    ):
        trace.polled("consumer-2", (3, "x"), broker=2, epoch=1, batch_epoch=1)
        assert trace.result("M10").violated == violated
    unchecked = begins(-1, 3)
    unchecked.polled("consumer-2", (3, "x"), broker=2, batch_epoch=1)
    assert unchecked.result("M10").violated == 0
    restarted = begins(-1, 3, again=True)
    restarted.up("consumer-2", "consumer")
    restarted.emit("consumer-2", ConsPos(TP, -1, 3, 0, "seek"))
    restarted.polled("consumer-2", (3, "x"), broker=2, epoch=1, batch_epoch=1)
    assert restarted.result("M10").violated == 1
    unnamed = begins(-1, 3)
    unnamed.emit("broker-2", EpochTold(TP, -1, 1, 1, 0, 0, 3))
    unnamed.polled("consumer-2", (3, "x"), broker=2, epoch=1, batch_epoch=1)
    assert unnamed.result("M10").violated == 0


def test_a_member_that_begins_at_a_committed_position() -> None:
    """Shows that M10 holds a member to the leader epoch that its group committed with the position, whatever it makes
    of that: it asks with it, and does not read on past what the new leader lacks."""
    for epoch, where, violated in ((0, "told", 0), (0, "reads", 1), (-1, "reads", 0), (1, "told", 1)):
        trace = elected("x", "y", "z")
        trace.emit("consumer-2", CommittedReturn("look-up", "ok", 0, "g", [TP], {TP: [3, min(epoch, 0), -1]}))
        trace.emit("consumer-2", ConsPos(TP, -1, 3, -1, "committed"))
        if where == "told":
            trace.cause, trace.req = trace.events[-1].id, "consumer-2>broker-2:metadata:0.0#6"
            trace.emit("broker-2", EpochTold(TP, -1, 1, 1, epoch, 0, 1))
        else:
            trace.emit("broker-2", EpochTold(TP, -1, 1, 1, 0, 0, 4))
            trace.polled("consumer-2", (3, "z"), broker=2, epoch=1, batch_epoch=1)
        assert trace.result("M10").violated == violated, (epoch, where)


def test_a_reader_goes_back_to_where_it_is_told() -> None:
    """Shows that a position which is truncated to another offset, or leader epoch, than the leader told violates M10,
    as does one that reads on in the leader epoch in which it was told to go back."""
    for new, epoch, violated in ((1, 0, 0), (2, 0, 1), (0, 0, 1), (1, 1, 1)):
        trace = elected("x", "y", "z")
        asks(trace, 0, (0, 1))
        trace.emit(READER, ConsPos(TP, 3, new, epoch, "truncation"))
        assert trace.result("M10").violated == violated, (new, epoch)
    ignored = elected("x", "y", "z")
    asks(ignored, 0, (0, 1))
    ignored.req = ""
    reads_on(ignored, (3, "z"))
    assert ignored.result("M10").violations[0].sentence == (
        "consumer-1 read on at 3 of orders-0 in leader epoch 1, but the leader had answered that leader epoch 0 ends "
        "at 1"
    )


def test_a_reader_goes_back_and_never_forwards() -> None:
    """Shows that a position which is truncated to itself, or further on, violates M10, also where the leader told of
    that offset, and where no answer is known."""
    for end, violated in ((2, 0), (3, 1), (4, 1)):
        for told in (True, False):
            trace = elected("x", "y", "z")
            if told:
                asks(trace, 0, (0, end))
            trace.emit(READER, ConsPos(TP, 3, end, 0, "truncation"))
            assert trace.result("M10").violated == violated, (end, told)
    forwards = elected("x", "y", "z")
    asks(forwards, 0, (0, 4))
    forwards.emit(READER, ConsPos(TP, 3, 4, 0, "truncation"))
    assert forwards.result("M10").violations[0].sentence == (
        "consumer-1 took the log of orders-0 for truncated at 4, but its position was 3: nothing before that is lost"
    )


def test_a_reader_goes_back_to_where_the_log_begins() -> None:
    """Shows that a position comes after no record if a leader named it as the end of a leader epoch of which its log
    has nothing, for whoever begins there, and that any other one does."""
    for told, violated in ((2, 0), (1, 1)):
        trace = elected("x", "y", "z", has=())
        asks(trace, 0, (0, told))
        trace.emit(READER, ConsPos(TP, 3, told, 0, "truncation"))
        trace.req = ""
        trace.emit("consumer-2", CommittedReturn("look-up", "ok", 0, "g", [TP], {TP: [2, 0, -1]}))
        trace.emit("consumer-2", ConsPos(TP, -1, 2, -1, "committed"))
        asks(trace, 0, (0, told), "consumer-2")
        trace.req = ""
        reads_on(trace, (told, "xyz"[told]))
        trace.polled("consumer-2", (2, "z"), broker=2, epoch=1, batch_epoch=1)
        assert trace.result("M10").violated == violated, told


def test_a_reader_whose_records_are_in_the_new_log() -> None:
    """Shows that a reader which goes on in a log that has what it comes after tests M10."""
    trace = elected("d", has=("a", "b", "c"))
    reads_on(trace, (3, "d"))
    assert (trace.result("M10").status, trace.result("M10").tested) == ("held", 1)


def test_a_reader_that_reads_on_past_what_it_has_not_seen() -> None:
    """Shows that records of a new leader whose log has something else below violate M10, with both polls as evidence,
    unless the reader was told in between."""
    trace = elected("x", "y", "z")
    before, after = trace.events[-6].id, reads_on(trace, (3, "z"))
    (finding,) = trace.result("M10").violations
    assert finding.events == [next(e.id for e in trace.events if e.node == READER), after], before
    assert finding.sentence == (
        "consumer-1 read c of leader epoch 0 at 2 of orders-0 and then read on at 3 in leader epoch 1, although the "
        "log of that epoch has y of leader epoch 1 there"
    )
    for reason in ("truncation", "reset", "seek"):
        told = elected("x", "y", "z")
        told.emit(READER, ConsPos(TP, 3, 1, -1, reason))
        reads_on(told, (1, "x"), (2, "y"))
        assert told.result("M10").violated == 0


def test_a_truncated_position_must_be_in_the_log() -> None:
    """Shows that a position with a leader epoch which the leader's log does not have there violates M10."""
    for offset, violated in ((1, 0), (2, 1)):
        trace = elected("x", "y", "z")
        trace.emit(READER, ConsPos(TP, 3, offset, 0, "truncation"))
        reads_on(trace, (3, "z"))
        assert trace.result("M10").violated == violated


def test_a_reader_that_cannot_know() -> None:
    """Shows that M10 is not tested where the reader knows no leader epoch: after it looked its position up, or where a
    Fetch names none."""
    trace = elected("x", "y", "z")
    trace.emit(READER, ConsPos(TP, 3, 3, 0, "reset"))
    reads_on(trace, (3, "z"))
    assert trace.result("M10").status == "vacuous"
    old = elected("x", "y", "z")
    old.polled(READER, (3, "z"), broker=2, batch_epoch=1)
    assert old.result("M10").status == "vacuous"


def test_what_excuses_a_reader() -> None:
    """Shows that where nobody can ask, or the older epoch ends behind the position, reading on is excused."""
    old = elected("x", "y", "z", versions={"OffsetForLeaderEpoch": [0, 2]})
    reads_on(old, (3, "z"))
    assert old.result("M10").excused == {"not-validated": 1}
    bounced = elected("x", "y", "z", bounced_versions={"OffsetForLeaderEpoch": [[0, 2]]})
    reads_on(bounced, (3, "z"))
    assert bounced.result("M10").excused == {"not-validated": 1}
    longer = elected("z", epoch=2, has=("a", "p", "q", "r"), read=1)
    longer.polled(READER, (4, "z"), broker=2, epoch=2, batch_epoch=2)
    assert longer.result("M10").excused == {"older-epoch-reaches": 1}


def test_an_epoch_that_the_leader_has_elsewhere() -> None:
    """Shows that reading on is not excused where the leader's log has the reader's leader epoch, and another record at
    its position: the reader takes a wrong leader epoch for that of its record."""
    trace = elected("z", has=("a", "p", "q", "r"), read=1)
    trace.polled(READER, (4, "z"), broker=2, epoch=1, batch_epoch=1)
    (finding,) = trace.result("M10").violations
    assert finding.sentence.endswith("although the log of that epoch has q of leader epoch 0 there")


def passed(
    marker: Literal["commit", "abort"],
    aborted: bool = False,
    isolation: int = 1,
    back: bool = False,
    sought: bool = False,
) -> TransactionTrace:
    """The reader got a record of leader epoch 0, behind which the leader of epoch 1 has a marker, or a record of a
    transaction and its marker; it asks where epoch 1 ends. ``back``: it had gone back to that record; ``sought``: it
    has sought the offset behind it."""
    level = {READER: {"config": {"isolation.level": "read_committed" if isolation else "read_uncommitted"}}}
    trace = TransactionTrace(nodes=level)
    trace.lead(1)
    trace.write("a", producer=9)
    trace.write("a", broker=2, role="follower", producer=9)
    trace.ends("commit", producer=9)
    trace.ends("commit", broker=2, role="follower", producer=9)
    trace.high_watermark("broker-1", 2)
    trace.reads((0, "a"), isolation=isolation)
    trace.change(2, 1)
    trace.assume(2, 1)
    if aborted:
        trace.write("b", broker=2, led=1, producer=9)
    trace.ends(marker, broker=2, led=1, producer=9)
    trace.high_watermark("broker-2", trace.log_end(2), epoch=1)
    if back:
        trace.emit(READER, ConsPos(TP, 4, 1, 0, "truncation"))
    if sought:
        trace.emit(READER, ConsPos(TP, 4, 2, -1, "seek"))
    trace.cause = next(event.id for event in reversed(trace.events) if event.node == READER)
    trace.req = f"{READER}>broker-2:metadata:0.0#6"
    trace.emit("broker-2", EpochTold(TP, -1, 1, 1, 1, 1, trace.log_end(2)))
    return trace


def test_what_a_reader_passes_without_being_given_it() -> None:
    """Shows that a marker behind the last record is one to come after, and for who reads committed transactions a
    record of an aborted one, but for nobody a record that it was to be given."""
    assert passed("commit").result("M10").violated == 0
    assert passed("abort", aborted=True).result("M10").violated == 0
    assert passed("abort", aborted=True, back=True).result("M10").violated == 0
    assert passed("commit", isolation=0).result("M10").violated == 0
    assert passed("abort", aborted=True, isolation=0).result("M10").violated == 1
    assert passed("commit", isolation=0, sought=True).result("M10").violated == 0
    assert passed("abort", aborted=True, sought=True).result("M10").violated == 0
    assert passed("abort", aborted=True, isolation=0, sought=True).result("M10").violated == 1


def test_an_answer_to_a_request_that_was_given_up_does_not_count() -> None:
    """Shows that a reader need not obey an answer that comes after it has gone on: it had given up that request."""
    trace = elected("x", "y", "z")
    sent = next(event.id for event in reversed(trace.events) if event.node == READER)
    asks(trace, 0, (0, 1))
    trace.emit(READER, ConsPos(TP, 3, 1, 0, "truncation"))
    trace.req = ""
    reads_on(trace, (1, "x"))
    trace.cause, trace.req = sent, f"{READER}>broker-2:metadata:0.0#5"
    trace.emit("broker-2", EpochTold(TP, -1, 1, 1, 0, 0, 1))
    trace.cause = trace.req = ""
    reads_on(trace, (2, "y"))
    assert trace.result("M10").status == "held"


def test_an_answer_about_a_position_that_has_changed_does_not_count() -> None:
    """Shows that a reader which seeks while it asks need not obey the answer, be it told before the seek or after;
    and that one which seeks first, and asks then, must."""
    for told, violated in (("before", 0), ("after", 0), ("asked-later", 1)):
        trace = elected("x", "y", "z")
        sent = next(event.id for event in reversed(trace.events) if event.node == READER)
        if told == "before":
            asks(trace, 0, (0, 1))
        found = trace.emit(READER, ConsPos(TP, 3, 2, 0 if told == "asked-later" else -1, "seek"))
        if told != "before":
            trace.cause = sent if told == "after" else found
            trace.req = f"{READER}>broker-2:metadata:0.0#5"
            trace.emit("broker-2", EpochTold(TP, -1, 1, 1, 0, 0, 1))
            trace.cause = trace.req = ""
        reads_on(trace, (2, "y"))
        assert trace.result("M10").violated == violated, told


@pytest.mark.parametrize(
    ("start", "asked", "named", "excused"),
    [(3, True, True, True), (3, True, False, True), (2, True, True, False), (3, False, True, False)],
)
def test_a_record_that_the_leader_has_deleted(start: int, asked: bool, named: bool, excused: bool) -> None:
    """Shows that a reader which asks may read on where the leader's log begins behind the record that it has last, also
    where the trace does not tell who asked; without having asked, or where the leader still has that record, it may
    not."""
    trace = elected("x", "y", "z")
    trace.emit("broker-2", LogStart(TP, start, "retention-ms", 1, None))
    if asked:
        asks(trace, 0, (0, 3)) if named else trace.emit("broker-2", EpochTold(TP, -1, 1, 1, 0, 0, 3))
    trace.req = ""
    reads_on(trace, (3, "z"))
    result = trace.result("M10")
    assert (result.violated, result.excused) == ((0, {"deleted": 1}) if excused else (1, {}))


def test_a_reader_goes_back_by_an_answer_to_nobody_knows_whom() -> None:
    """Shows that a position comes after no record, too, if a leader named it to somebody of whom the trace does not
    tell, as where requests wait for their handler."""
    for told, violated in ((2, 0), (1, 1)):
        trace = elected("x", "y", "z", has=())
        trace.emit("broker-2", EpochTold(TP, -1, 1, 1, 0, 0, 2))
        trace.emit(READER, ConsPos(TP, 3, told, 0, "truncation"))
        reads_on(trace, (2, "z"))
        assert trace.result("M10").violated == violated, told
