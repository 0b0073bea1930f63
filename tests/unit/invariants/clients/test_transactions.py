"""T1, T2, T3: what idempotent producers are promised."""

from __future__ import annotations

import msgspec
import pytest

from actors.node.errors import KafkaError as E
from actors.trace.events import LogAppend, LogLocalStart, LogStart, ReplyPartition, SendReturn
from orchestrator.invariants.mirrors.producer_state import ProducerStates
from tests.unit.invariants.trace_builder import TP, TraceBuilder
from tests.unit.invariants.transactions.stage import TransactionTrace

NODE = "broker-1"


def batch(trace: TraceBuilder, sequence: int, *uids: str, node: str = NODE, epoch: int = 0) -> str:
    """A batch of producer id 7."""
    role = "leader" if node == NODE else "follower"
    return trace.append(node, *(uids or ("r",)), producer=7, sequence=sequence, epoch=epoch, role=role)


def test_contiguous_sequences() -> None:
    """Shows that batches that follow one another hold T2; the first one of a producer begins at 0."""
    trace = TraceBuilder()
    batch(trace, 0, "a", "b")
    batch(trace, 2)
    result = trace.result("T2")
    assert (result.status, result.tested) == ("held", 2)


def test_a_gap_and_a_repetition() -> None:
    """Shows that a sequence number too high, or one again, violates T2, with the batch before as evidence."""
    for wrong in (5, 1):
        trace = TraceBuilder()
        first = batch(trace, 0, "a", "b")
        second = batch(trace, wrong)
        result = trace.result("T2")
        assert result.violations[0].events == [first, second]
        assert result.violations[0].sentence == (
            f"broker-1 appended sequence {wrong} of producer id 7, epoch 0, to orders-0 at offset 2; the next sequence "
            "was 2"
        )


def test_sequences_wrap() -> None:
    """Shows that after 2^31 - 1 comes 0."""
    trace = TraceBuilder()
    last = 2**31 - 1
    body = LogAppend(TP, "leader", 0, last, 0, 0, 7, 0, 0, False, [], ph=1)
    trace.emit(NODE, body)
    trace.logs[TP, NODE] = [(0, 0), (2**31, 1)]
    batch(trace, 0)
    assert trace.result("T2").status == "held"


def test_a_new_producer_epoch_begins_at_0() -> None:
    """Shows that a raised producer epoch that goes on counting violates T2."""
    trace = TraceBuilder()
    batch(trace, 0)
    trace.emit(NODE, LogAppend(TP, "leader", 1, 1, 0, 0, 7, 1, 1, False, ["b"], ph=1))
    assert (
        trace.result("T2").violations[0].sentence.endswith("epoch 1, to orders-0 at offset 1; the next sequence was 0")
    )


def test_a_new_leader_goes_on_from_its_log() -> None:
    """Shows that what a replica took as a follower counts when it leads, and what it truncated does not."""
    trace = TraceBuilder()
    batch(trace, 0, node="broker-2")
    batch(trace, 1, node="broker-2")
    trace.truncate("broker-2", 1)
    trace.append("broker-2", "c", producer=7, sequence=1, epoch=1)
    result = trace.result("T2")
    assert (result.status, result.tested) == ("held", 1)
    trace.append("broker-2", "d", producer=7, sequence=3, epoch=1)
    assert trace.result("T2").status == "violated"


def test_a_producer_that_the_log_does_not_know() -> None:
    """Shows that a leader without state of a producer may accept any first sequence number: excused, and counted."""
    trace = TraceBuilder()
    batch(trace, 9)
    batch(trace, 10)
    result = trace.result("T2")
    assert (result.status, result.excused) == ("excused", {"no-producer-state": 1})


@pytest.mark.parametrize(
    ("waits", "first", "adds", "status"),
    [
        ((0, 5), 5, False, "violated"),
        ((5, 0), 5, False, "violated"),
        ((5, 0), 0, False, "held"),
        ((5, 7), 5, False, "excused"),
        ((5, 7), 5, True, "violated"),
        ((0, 5), 0, True, "held"),
        ((), 5, False, "excused"),
    ],
)
def test_the_first_number_of_a_transaction(waits: tuple[int, ...], first: int, adds: bool, status: str) -> None:
    """Shows that a leader whose log does not know the producer must begin with the lowest number that has waited for
    the coordinator, and with 0 from transaction.version 2 on."""
    trace = TransactionTrace()
    for sequence in waits:
        trace.waits(sequence, node=NODE, adds=adds)
    trace.write("a", sequence=first)
    assert trace.result("T2").status == status


def first_after(what: str) -> str:
    """What T2 says of a transaction that begins with 5 after 0 has waited, and something else has happened."""
    trace, epoch, adds = TransactionTrace(), 3, what == "marker of the next"
    trace.waits(0, node="broker-3" if what == "another leader" else NODE, adds=adds)
    if what == "another verification":
        trace.waits(5, node=NODE, guard=2)
    elif what == "another process":
        trace.up(NODE)
        trace.up(NODE)
        trace.waits(5, node=NODE)
    elif what == "another epoch":
        epoch = 4
        trace.waits(5, epoch, NODE)
    elif what == "epoch that has not waited":
        epoch = 4
    elif what == "older epoch":
        trace.waits(5, 2, NODE)
    elif what == "one before":
        trace.write("a", sequence=0)
        trace.truncate(NODE, 0)
    elif what.startswith("marker"):
        trace.ends("abort", 3)
    trace.write("b", sequence=5, epoch=epoch)
    return trace.result("T2").status


@pytest.mark.parametrize("what", ["nothing", "older epoch", "marker of the next"])
def test_a_transaction_that_begins_too_late(what: str) -> None:
    """Shows that a batch of an older epoch that waits, too, is no excuse, nor is the marker of the transaction before
    from transaction.version 2 on."""
    assert first_after(what) == "violated"


@pytest.mark.parametrize(
    "what",
    [
        *("another leader", "another verification", "another process", "another epoch"),
        *("epoch that has not waited", "one before", "marker"),
    ],
)
def test_a_transaction_that_may_begin_late(what: str) -> None:
    """Shows that what waits at another leader, in another process of it, for another verification or epoch, or before
    something else of the producer came to the log, does not count."""
    assert first_after(what) == "excused"


def test_a_first_number_that_no_leader_may_take() -> None:
    """Shows that what has no state is no excuse where the log must have some, or where the producer had sent less."""
    lost = TraceBuilder()
    lost.lead(1, 0)
    batch(lost, 0, "a")
    committed = lost.high_watermark(NODE, 1, counted=(1,))
    lost.lead(2, 1)
    second = lost.append("broker-2", "b", producer=7, sequence=1, epoch=1)
    assert lost.result("T2").violations[0].events == [committed, second]
    for sent in (0, 1):
        trace = TraceBuilder()
        for number in range(sent):
            trace.sends("producer-1", f"producer-1:{number}")
        trace.sends("producer-1", f"producer-1:{sent}")
        batch(trace, 1, f"producer-1:{sent}")
        result = trace.result("T2")
        assert (result.violated, result.excused) == ((0, {"no-producer-state": 1}) if sent else (1, {}))


def behind(reason: str, start: int) -> TraceBuilder:
    """Broker-1 has sequences 0 and 1 of producer id 7 and a record of another one, all committed. The log of broker-2,
    which has sequence 0, begins anew, and it leads."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    for sequence in (0, 1):
        batch(trace, sequence)
    batch(trace, 0, node="broker-2")
    trace.append(NODE, "other", producer=8, sequence=0)
    trace.high_watermark(NODE, 3, counted=(1,))
    if reason == "remote":
        trace.emit("broker-2", LogLocalStart(TP, start, "remote", 0, 1, 0, None, {"0": 0}))
    else:
        trace.emit("broker-2", LogStart(TP, start, "out-of-range", 0, None, 1))
    trace.logs[TP, "broker-2"] = [(start, 1)]
    trace.lead(2, 1)
    return trace


@pytest.mark.parametrize(
    ("reason", "start", "sequence", "status"),
    [
        ("out-of-range", 1, 1, "held"),  # its leader's log begins where it ends: it keeps its producers
        ("out-of-range", 1, 2, "violated"),
        ("out-of-range", 2, 2, "excused"),  # it begins behind all of this producer
        ("remote", 2, 2, "held"),  # it has the producers of the copy
        ("remote", 2, 1, "violated"),
        ("remote", 1, 1, "held"),
    ],
)
def test_a_log_that_begins_anew(reason: str, start: int, sequence: int, status: str) -> None:
    """Shows what its broker must know of producers: all, none of those before, or those that the copy has before which
    it begins."""
    trace = behind(reason, start)
    trace.append("broker-2", "b", producer=7, sequence=sequence, epoch=1)
    assert trace.result("T2").status == status


def test_a_log_that_began_anew_before_a_committed_batch() -> None:
    """Shows that its broker must know the producers of what it has had since."""
    trace = behind("out-of-range", 2)
    trace.append("broker-2", "c", producer=8, sequence=1, epoch=1)
    assert trace.result("T2").status == "violated"


def test_an_older_producer_epoch() -> None:
    """Shows that a batch of an older epoch than the log has violates T2 and T3, also if it begins with sequence 0; a
    newer one does not."""
    trace = TraceBuilder()
    trace.append(NODE, "a", producer=7, sequence=0, producer_epoch=0)
    first = trace.append(NODE, "b", producer=7, sequence=0, producer_epoch=1)
    assert (trace.result("T3").status, trace.result("T3").tested) == ("held", 1)
    late = trace.append(NODE, "a", producer=7, sequence=0, producer_epoch=0)
    for promise in ("T2", "T3"):
        assert trace.result(promise).violations[0].events == [first, late]
    assert trace.result("T3").violations[0].sentence == (
        "broker-1 appended a batch of producer id 7, epoch 0, to orders-0 at offset 2 after a batch of epoch 1"
    )


@pytest.mark.parametrize(("epoch", "violated"), [(3, 1), (4, 0), (5, 0)])
@pytest.mark.parametrize("empty", [False, True])
def test_an_older_producer_epoch_than_that_of_a_marker(epoch: int, violated: int, empty: bool) -> None:
    """Shows that a marker tells a leader the epoch of its producer, also if it has ended nothing there, and that a
    batch of an older one violates T3."""
    trace = TransactionTrace()
    if not empty:
        trace.write("a", epoch=3)
    trace.ends("abort", epoch=4)
    late = trace.write("b", epoch=epoch, sequence=1)
    result = trace.result("T3")
    assert (result.violated, result.tested) == (violated, 1 if empty else 2)
    for finding in result.violations:
        assert finding.events == [late]
        assert finding.sentence == (
            f"broker-1 appended a batch of producer id 7, epoch 3, to orders-0 at offset {1 if empty else 2} after a "
            "marker of epoch 4"
        )


@pytest.mark.parametrize(
    ("how", "violated"), [("cut", 0), ("cut behind", 1), ("deleted", 0), ("deleted before", 1), ("elsewhere", 0)]
)
def test_a_marker_that_a_leader_does_not_have(how: str, violated: int) -> None:
    """Shows that only a marker counts that is in the leader's own log: none that it has cut off, or that lies below the
    start of its log."""
    trace = TransactionTrace()
    trace.write("a", epoch=3)
    trace.ends("abort", epoch=4)
    if how.startswith("cut"):
        trace.truncate(NODE, 1 if how == "cut" else 2)
    elif how.startswith("deleted"):
        trace.write("other", producer=8)
        trace.emit(NODE, LogStart(TP, 2 if how == "deleted" else 1, "delete-records", 0))
    broker = 2 if how == "elsewhere" else 1
    trace.write("b", epoch=3, sequence=1, broker=broker)
    assert trace.result("T3").violated == violated


def test_a_late_marker_of_an_older_producer_epoch() -> None:
    """Shows that T3 leaves markers behind a marker to T4."""
    trace = TransactionTrace()
    trace.ends("abort", epoch=4)
    trace.ends("abort", epoch=3)
    assert (trace.result("T3").violated, trace.result("T3").tested) == (0, 0)


def idempotent(trace: TraceBuilder, uid: str, offset: int) -> str:
    """An acknowledgement of an idempotent producer, by the leader of epoch 0."""
    body = SendReturn(f"send {uid}", "ok", 0, TP, uid, -1, idempotent=True, offset=offset, leader_epoch=0, broker=NODE)
    return trace.emit("producer-1", body)


def test_a_record_is_committed_once_where_its_acknowledgement_says() -> None:
    """Shows that T1 is tested by acknowledgements, and violated by one that names another offset."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    batch(trace, 0, "p:0", "p:1")
    committed = trace.high_watermark(NODE, 2, counted=(1,))
    idempotent(trace, "p:1", 1)
    assert (trace.result("T1").status, trace.result("T1").tested) == ("held", 1)
    wrong = idempotent(trace, "p:1", 0)
    result = trace.result("T1")
    assert result.violations[0].events == [committed, wrong]
    assert result.violations[0].sentence == (
        "record p:1 was acknowledged to producer-1 at offset 0 of orders-0; it is committed at offset 1"
    )


def test_a_record_of_an_idempotent_producer_has_a_number() -> None:
    """Shows that one without is told when it is acknowledged to an idempotent producer, as no leader could tell it from
    a second copy."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.append(NODE, "p:0")
    committed = trace.high_watermark(NODE, 1, counted=(1,))
    told = idempotent(trace, "p:0", 0)
    (finding,) = trace.result("T1").violations
    assert finding.events == [committed, told]
    assert finding.sentence == (
        "record p:0 of producer-1, an idempotent producer, is at offset 0 of orders-0 without a sequence number, so "
        "that nobody can tell a second copy of it"
    )


def refusal(sequence: int, error: E = E.OUT_OF_ORDER_SEQUENCE_NUMBER) -> ReplyPartition:
    """An answer of the leader of epoch 0 to a batch of one record."""
    return ReplyPartition(
        TP, int(error), leader_epoch=0, producer_id=7, producer_epoch=0, base_sequence=sequence, last_sequence=sequence
    )


def twice(
    *, refused: ReplyPartition | None = None, failed: bool = False, given_up: bool = False, epoch: int = 1
) -> TraceBuilder:
    """p:0 is in the log under producer epoch 0 and again under ``epoch``; something may have happened in between."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    batch(trace, 0, "p:0")
    if refused is not None:
        trace.reply(1, "Produce", refused, acks=-1)
    if failed:
        trace.failed("producer-1", "p:1")
    if given_up:
        trace.failed("producer-1", "p:1", outcome="unknown", broker="")
    trace.append(NODE, "p:0", producer=7, sequence=1 - epoch, producer_epoch=epoch)
    trace.high_watermark(NODE, 2, counted=(1,))
    return trace


@pytest.mark.parametrize("anew", [True, False])
def test_a_topic_that_was_made_anew_lacks_what_the_former_one_had(anew: bool) -> None:
    """Shows that a refusal is a reason for a new epoch there, whatever the leaders of this one have acknowledged."""
    states, trace = ProducerStates(), TraceBuilder()
    trace.append(NODE, "p:9", producer=7, sequence=9)
    body = trace.events[-1].body
    assert isinstance(body, LogAppend)
    states.append(trace.events[-1], body)
    states.answered(NODE, refusal(5), anew)
    assert states.refused == {"7/0": anew}


def refused_elsewhere(acknowledged: int) -> TraceBuilder:
    """The leader acknowledged so many of two batches, of which broker-2 has the first, and refuses a third."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    for number in (0, 1):
        trace.append(NODE, f"p:{number}", producer=7, sequence=number)
    trace.append("broker-2", "p:0", role="follower", producer=7, sequence=0)
    for offset in range(acknowledged):
        trace.reply(1, "Produce", ReplyPartition(TP, 0, offset, offset, leader_epoch=0), acks=-1)
    trace.reply(2, "Produce", refusal(2), acks=-1)
    trace.append(NODE, "p:0", producer=7, sequence=0, producer_epoch=1)
    trace.high_watermark(NODE, 3, counted=(1,))
    return trace


@pytest.mark.parametrize(
    ("trace", "excused"),
    [
        (twice(epoch=0), False),
        (twice(), False),
        (twice(failed=True), True),
        (twice(refused=refusal(5)), False),
        (twice(refused=refusal(5), given_up=True), True),
        (twice(given_up=True), False),
        (refused_elsewhere(2), True),
        (refused_elsewhere(1), False),
        (twice(refused=refusal(0)), False),
        (twice(refused=refusal(1)), False),
        (twice(refused=refusal(0, E.INVALID_PRODUCER_EPOCH)), False),
    ],
    ids=[
        "same-epoch",
        "no-reason",
        "failed-send",
        "gap",
        "gap-for-good",
        "given-up",
        "after-all",
        "too-early",
        "duplicate-refused",
        "next-refused",
        "epoch-refused",
    ],
)
def test_a_new_epoch_excuses_a_second_copy_if_it_had_a_reason(trace: TraceBuilder, excused: bool) -> None:
    """Shows that a failed send is a reason for a new epoch, and a right refusal if what is missing comes no more. One
    that comes before what it waits for, and a leader's mistake, are none: neither T1 nor C3 excuses what follows."""
    for promise in ("T1", "C3"):
        result = trace.result(promise)
        assert (result.violated, result.excused) == ((0, {"epoch-bump": 1}) if excused else (1, {}))


@pytest.mark.parametrize(("given_up", "excused"), [("p:1", True), ("p:0", False), ("p:3", False)])
def test_a_leader_that_hears_late_of_the_epoch_that_was_given_up(given_up: str, excused: bool) -> None:
    """Shows that a record which was given up is a reason for a new epoch, also if it was given up before the leader
    heard of the epoch that it was numbered in; not a record of an epoch before, nor one behind the second copy."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.append(NODE, "p:0", producer=7, sequence=0)
    trace.failed("producer-1", given_up, outcome="unknown", broker="")
    trace.reply(1, "Produce", msgspec.structs.replace(refusal(1), producer_epoch=1), acks=-1)
    trace.append(NODE, "p:1", producer=7, sequence=0, producer_epoch=1)
    trace.append(NODE, "p:2", producer=7, sequence=1, producer_epoch=1)
    trace.append(NODE, "p:2", producer=7, sequence=0, producer_epoch=2)
    trace.high_watermark(NODE, 4, counted=(1,))
    for promise in ("T1", "C3"):
        result = trace.result(promise)
        assert (result.violated, result.excused) == ((0, {"epoch-bump": 1}) if excused else (1, {}))


def test_an_unclean_election_excuses_a_second_copy() -> None:
    """Shows that T1 judges the lineage that counts."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    batch(trace, 0, "x")
    batch(trace, 1, "p:0")
    trace.high_watermark(NODE, 2, counted=(1,))
    trace.lead(2, 1, cause="unclean", isr=(2,))
    trace.append("broker-2", "p:0", epoch=1, producer=7, sequence=0)
    trace.high_watermark("broker-2", 1, 1, counted=(2,))
    assert (trace.result("T1").violated, trace.result("T1").excused) == (0, {"unclean-election": 1})


def test_other_records_test_nothing() -> None:
    """Shows that T2 is vacuous for producers that are not idempotent, and on followers."""
    trace = TraceBuilder()
    trace.append(NODE, "a")
    batch(trace, 4, node="broker-2")
    assert trace.result("T2").status == "vacuous"
