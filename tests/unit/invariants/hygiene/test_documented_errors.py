"""X1: servers answer with documented errors, and with some of them for a reason."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from actors.node.errors import KafkaError as E
from actors.trace.events import (
    FetchMisfit,
    FetchRefused,
    FetchTold,
    LogAppend,
    LogStart,
    PartRemove,
    QRefuse,
    ReaderTaskPhase,
    RemoteFetchEnd,
    ReplyPartition,
    Rpc,
    TierTask,
    TxnGuard,
    TxnVerify,
)
from orchestrator.invariants.hygiene.documented_errors import DOCUMENTED
from orchestrator.invariants.hygiene.trace import ERRORS_SINCE
from tests.unit.invariants.trace_builder import TP, TraceBuilder
from tests.unit.invariants.transactions.stage import TransactionTrace


def test_every_api_documents_its_errors() -> None:
    """Shows that UNKNOWN_SERVER_ERROR is nowhere among the registry's errors, and that errors that X7 knows the first
    version of are."""
    assert not any(E.UNKNOWN_SERVER_ERROR in errors or E.NONE in errors for errors in DOCUMENTED.values())
    assert [(api, error) for api, error in ERRORS_SINCE if error not in DOCUMENTED[api]] == []


def test_a_documented_error() -> None:
    """Shows that each answer with an error tests X1, at the caller and at the server."""
    trace = TraceBuilder()
    trace.emit("broker-2", Rpc("Fetch", 12, "broker-1", "c", 1, "answered", [74, 6]))
    trace.reply(1, "ListOffsets", ReplyPartition(TP, 78))
    trace.emit("broker-2", Rpc("Fetch", 12, "broker-1", "c", 1, "answered", []))
    trace.reply(1, "ListOffsets", ReplyPartition(TP, 0))
    assert (trace.result("X1").status, trace.result("X1").tested) == ("held", 2)


def test_an_error_that_the_api_does_not_have() -> None:
    """Shows that it violates X1, told by the caller or by the server."""
    trace = TraceBuilder()
    call = trace.emit("producer-1", Rpc("Produce", 9, "broker-1", "c", 1, "answered", [-1]))
    result = trace.result("X1")
    assert result.violations[0].events == [call]
    assert result.violations[0].sentence == (
        "broker-1 answered Produce with UNKNOWN_SERVER_ERROR, which that API does not document"
    )
    trace = TraceBuilder()
    trace.reply(1, "ListOffsets", ReplyPartition(TP, int(E.NOT_ENOUGH_REPLICAS)))
    assert trace.result("X1").status == "violated"


def told(error: E, **fields: int) -> ReplyPartition:
    """An answer of the leader of epoch 5."""
    return ReplyPartition(TP, int(error), leader_epoch=5, leader_epoch_start=0, **fields)


def test_a_leader_that_says_it_is_none() -> None:
    """Shows that NOT_LEADER_OR_FOLLOWER of a leader violates X1, with its election."""
    trace = TraceBuilder()
    elected = trace.lead(1, 5)
    reply = trace.reply(1, "ListOffsets", told(E.NOT_LEADER_OR_FOLLOWER))
    result = trace.result("X1")
    assert result.violations[0].events == [elected, reply]
    assert result.violations[0].sentence == (
        "broker-1 answered ListOffsets for orders-0 with NOT_LEADER_OR_FOLLOWER although it led leader epoch 5"
    )
    follower = TraceBuilder()
    follower.assume(1, 5, leader=2)
    follower.reply(1, "ListOffsets", ReplyPartition(TP, 6, leader_epoch=5, leader_epoch_start=-1))
    assert follower.result("X1").status == "held"


@pytest.mark.parametrize(
    ("error", "asked", "status"),
    [
        (E.FENCED_LEADER_EPOCH, 4, "held"),
        (E.FENCED_LEADER_EPOCH, 5, "violated"),
        (E.FENCED_LEADER_EPOCH, 6, "violated"),
        (E.UNKNOWN_LEADER_EPOCH, 6, "held"),
        (E.UNKNOWN_LEADER_EPOCH, 5, "violated"),
        (E.UNKNOWN_LEADER_EPOCH, 4, "violated"),
        (E.UNKNOWN_LEADER_EPOCH, -1, "held"),
    ],
)
def test_a_leader_epoch_is_refused_for_being_older_or_newer(error: E, asked: int, status: str) -> None:
    """Shows that the two errors about leader epochs are not taken for each other, nor given for the right epoch."""
    trace = TraceBuilder()
    trace.reply(1, "ListOffsets", told(error, asked_epoch=asked))
    assert trace.result("X1").status == status


@pytest.mark.parametrize(
    ("epoch", "sequence", "status"), [(0, 2, "violated"), (0, 3, "held"), (1, 0, "violated"), (1, 2, "held")]
)
def test_a_sequence_is_refused_for_being_another_one_than_the_next(epoch: int, sequence: int, status: str) -> None:
    """Shows that OUT_OF_ORDER_SEQUENCE_NUMBER for the sequence that is next, or for 0 in a new epoch, violates X1."""
    trace = TraceBuilder()
    trace.append("broker-1", "a", "b", producer=7, sequence=0)
    refused = told(E.OUT_OF_ORDER_SEQUENCE_NUMBER, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
    trace.reply(1, "Produce", refused, acks=-1)
    assert trace.result("X1").status == status


def test_a_truncation_takes_sequences_back() -> None:
    """Shows that after a cut, or a power loss, the last batch that is left decides; where none is, any is next."""
    trace = TraceBuilder()
    trace.append("broker-1", "a", producer=7, sequence=0)
    trace.append("broker-1", "b", producer=7, sequence=1)
    trace.truncate("broker-1", 1)
    refused = told(E.OUT_OF_ORDER_SEQUENCE_NUMBER, producer_id=7, producer_epoch=0, base_sequence=1)
    trace.reply(1, "Produce", refused, acks=-1)
    assert trace.result("X1").status == "violated"
    lost = TraceBuilder()
    lost.append("broker-1", "a", producer=7, sequence=0)
    lost.down("broker-1", "lossy", lost={TP: 0})
    lost.reply(1, "Produce", refused, acks=-1)
    assert lost.result("X1").violations[0].sentence.endswith("although its log has no record of producer id 7")


@pytest.mark.parametrize(
    ("adds", "sequence", "status"), [(True, 4, "held"), (True, 0, "violated"), (False, 4, "violated")]
)
def test_a_transaction_begins_at_sequence_0(adds: bool, sequence: int, status: str) -> None:
    """Shows that under transaction.version 2, where leaders add partitions to transactions, one that knows nothing of a
    producer may refuse any other sequence than 0; and that before that it takes any."""
    trace = TraceBuilder()
    trace.emit("broker-1", TxnGuard(TP, 7, 0, sequence, 1, adds))
    refused = told(E.OUT_OF_ORDER_SEQUENCE_NUMBER, producer_id=7, producer_epoch=0, base_sequence=sequence)
    trace.reply(1, "Produce", refused, acks=-1)
    assert trace.result("X1").status == status


@pytest.mark.parametrize(
    ("data", "error", "epoch", "sequence", "status"),
    [
        (False, E.OUT_OF_ORDER_SEQUENCE_NUMBER, 3, 4, "held"),
        (False, E.OUT_OF_ORDER_SEQUENCE_NUMBER, 3, 0, "violated"),
        (False, E.INVALID_PRODUCER_EPOCH, 2, 4, "held"),
        (False, E.INVALID_PRODUCER_EPOCH, 3, 4, "violated"),
        (True, E.OUT_OF_ORDER_SEQUENCE_NUMBER, 3, 1, "held"),
        (True, E.OUT_OF_ORDER_SEQUENCE_NUMBER, 3, 0, "violated"),
        (True, E.INVALID_PRODUCER_EPOCH, 2, 1, "held"),
    ],
)
def test_a_marker_leaves_an_epoch_and_no_sequence(data: bool, error: E, epoch: int, sequence: int, status: str) -> None:
    """Shows that a leader which has a marker of a producer takes sequence 0 in its epoch, and refuses any other, and
    older epochs; as after an unclean election with kafka-7408, where the marker may be all that it has."""
    trace = TransactionTrace()
    if data:
        trace.write("a", epoch=2)
    trace.write(epoch=3, marker="abort")
    refused = told(error, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
    trace.reply(1, "Produce", refused, acks=-1)
    assert trace.result("X1").status == status


@pytest.mark.parametrize(
    ("waiting", "then", "adds", "status"),
    [
        ([1, 2], "", False, "held"),
        ([2, 1], "", False, "held"),
        ([2, 2], "", False, "violated"),
        ([2], "", False, "violated"),
        ([1, 2], "marker", False, "violated"),
        ([1, 2], "marker", True, "held"),
        ([1, 2], "data", True, "violated"),
        ([1, 2], "restart", False, "violated"),
    ],
)
def test_a_transaction_is_verified_for_an_earlier_batch(waiting: list[int], then: str, adds: bool, status: str) -> None:
    """Shows that a leader may refuse the next sequence while a lower one waits for the coordinator: of a batch that was
    sent again, whatever the coordinator has answered for which of them. A batch of the transaction, a marker and a
    restart end that, but a marker of the same epoch does not under transaction.version 2."""
    trace = TraceBuilder()
    trace.append("broker-1", "a", "b", producer=7, sequence=0)
    for sequence in waiting:
        trace.emit("broker-1", TxnGuard(TP, 7, 0, sequence, 1, adds))
    if then == "restart":
        trace.down("broker-1", "crash", lost={})
    elif then:
        marker = then == "marker"
        first = -1 if marker else 2
        kind: Literal["abort", ""] = "abort" if marker else ""
        trace.emit(
            "broker-1", LogAppend(TP, "leader", 2, 2, 0, 0, 7, 0, first, marker, ["m"], transactional=True, marker=kind)
        )
    sequence = 3 if then == "data" else 2
    refused = told(E.OUT_OF_ORDER_SEQUENCE_NUMBER, producer_id=7, producer_epoch=0, base_sequence=sequence)
    trace.reply(1, "Produce", refused, acks=-1)
    assert trace.result("X1").status == status


@pytest.mark.parametrize(("start", "status"), [(4, "held"), (2, "violated")])
def test_a_log_that_begins_anew_has_no_producers(start: int, status: str) -> None:
    """Shows that a leader may refuse what was the next sequence number if its log began anew since; not if its leader's
    log began just where its own ended, which leaves it what it knows of producers."""
    trace = TransactionTrace()
    trace.append("broker-1", "a", "b", producer=7, sequence=0, producer_epoch=3)
    trace.emit("broker-1", LogStart(TP, start, "out-of-range", -1))
    body = LogAppend(TP, "follower", 4, 4, 0, 0, 7, 3, -1, True, ["m"], transactional=True, marker="abort")
    trace.emit("broker-1", body)
    refused = told(E.OUT_OF_ORDER_SEQUENCE_NUMBER, producer_id=7, producer_epoch=3, base_sequence=2)
    trace.reply(1, "Produce", refused, acks=-1)
    assert trace.result("X1").status == status


def test_a_marker_that_is_cut_off_leaves_nothing() -> None:
    """Shows that a truncation takes markers, too."""
    trace = TransactionTrace()
    trace.write(epoch=3, marker="abort")
    trace.truncate("broker-1", 0)
    refused = told(E.OUT_OF_ORDER_SEQUENCE_NUMBER, producer_id=7, producer_epoch=3, base_sequence=4)
    trace.reply(1, "Produce", refused, acks=-1)
    assert trace.result("X1").violations[0].sentence.endswith("although its log has no record of producer id 7")


def seven_batches() -> TraceBuilder:
    """Seven batches of two records in the log of broker-1."""
    trace = TraceBuilder()
    for number in range(7):
        trace.append("broker-1", f"a{number}", f"b{number}", producer=7, sequence=2 * number)
    return trace


@pytest.mark.parametrize(
    ("first", "last", "status"), [(2, 3, "held"), (4, 5, "violated"), (12, 13, "violated"), (4, 7, "held")]
)
def test_a_leader_knows_the_last_five_batches_again(first: int, last: int, status: str) -> None:
    """Shows that a batch that equals one of the last five is a duplicate, not one out of order; what is older, or is
    numbered otherwise, may be refused."""
    trace = seven_batches()
    sequence = {"producer_id": 7, "producer_epoch": 0, "base_sequence": first, "last_sequence": last}
    trace.reply(1, "Produce", told(E.OUT_OF_ORDER_SEQUENCE_NUMBER, **sequence), acks=-1)
    assert trace.result("X1").status == status


def test_a_leader_forgets_batches_of_an_older_producer_epoch() -> None:
    """Shows that of the last five only those of the newest epoch are remembered (ProducerStateEntry.java)."""
    trace = seven_batches()
    trace.append("broker-1", "c", producer=7, sequence=0, producer_epoch=1)
    sequence = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 12, "last_sequence": 13}
    trace.reply(1, "Produce", told(E.INVALID_PRODUCER_EPOCH, **sequence), acks=-1)
    assert trace.result("X1").status == "held"
    newest = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 3, "last_sequence": 3}
    trace.reply(1, "Produce", told(E.INVALID_PRODUCER_EPOCH, **newest), acks=-1)
    assert "although its log has no newer epoch than 1 of producer id 7" in trace.result("X1").violations[0].sentence


def test_what_came_after_the_decision_says_nothing_of_it() -> None:
    """Shows that a refusal is held against the log as it was when it was decided: an answer for several partitions may
    wait for another one, and what was cut meanwhile leaves nothing to judge by."""
    refused = told(
        E.OUT_OF_ORDER_SEQUENCE_NUMBER, producer_id=7, producer_epoch=0, base_sequence=2, last_sequence=2, log_end=1
    )
    for cut in (False, True):
        trace = TraceBuilder()
        trace.append("broker-1", "a", producer=7, sequence=0)
        trace.append("broker-1", "b", producer=7, sequence=1)
        trace.append("broker-1", "c", producer=7, sequence=2)
        if cut:
            trace.truncate("broker-1", 0, epoch=6)
        trace.reply(1, "Produce", refused, acks=-1)
        assert trace.result("X1").status == "held"


@pytest.mark.parametrize(
    ("error", "isr", "committed", "status"),
    [
        (E.NOT_ENOUGH_REPLICAS, 2, 1, "held"),
        (E.NOT_ENOUGH_REPLICAS, 2, 2, "violated"),
        (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 1, 1, "held"),
        (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 2, 1, "violated"),
    ],
)
def test_enough_replicas_are_enough(error: E, isr: int, committed: int, status: str) -> None:
    """Shows that before the append the ISR that the controller knows counts, and after it the larger one of a pending
    change (Partition.scala)."""
    trace = TraceBuilder()
    trace.reply(1, "Produce", told(error, isr=isr, committed_isr=committed, min_isr=2), acks=-1)
    assert trace.result("X1").status == status


@pytest.mark.parametrize(
    ("trouble", "adds", "status"),
    [
        (E.NETWORK_EXCEPTION, False, "held"),
        (E.COORDINATOR_LOAD_IN_PROGRESS, True, "held"),
        (E.NOT_COORDINATOR, True, "held"),
        (E.CONCURRENT_TRANSACTIONS, False, "held"),
        (E.CONCURRENT_TRANSACTIONS, True, "violated"),
        (E.NONE, False, "violated"),
        (E.INVALID_PRODUCER_ID_MAPPING, False, "violated"),
    ],
)
def test_trouble_with_the_coordinator_is_told_as_too_few_replicas(trouble: E, adds: bool, status: str) -> None:
    """Shows that a batch may be refused so for each verification that ended in such trouble, and for no other."""
    trace = TraceBuilder()
    trace.emit("broker-1", TxnVerify(TP, "app-1", 7, 0, adds, int(trouble)))
    answer = told(E.NOT_ENOUGH_REPLICAS, isr=2, committed_isr=2, min_isr=2)
    trace.reply(1, "Produce", answer, acks=-1)
    assert trace.result("X1").status == status
    trace.reply(1, "Produce", answer, acks=-1)
    assert trace.result("X1").status == "violated"


@pytest.mark.parametrize(
    ("phase", "error", "status"),
    [("reject", 0, "held"), ("finish", -1, "held"), ("finish", 0, "violated"), ("cancel", 0, "violated")],
)
def test_a_read_that_failed_has_no_error_of_its_own(phase: ReaderTaskPhase, error: int, status: str) -> None:
    """Shows UNKNOWN_SERVER_ERROR for a look-up in remote storage that was rejected or that failed, once for each, and
    never in an answer to Produce."""
    trace = TraceBuilder()
    trace.emit(
        "broker-1", TierTask(TP, "reader", 1, "list-offsets", phase, "c", 1, 0, 0, 1, 1, error=error, timestamp=5)
    )
    trace.reply(1, "ListOffsets", told(E.UNKNOWN_SERVER_ERROR))
    assert trace.result("X1").status == status
    trace.reply(1, "ListOffsets", told(E.UNKNOWN_SERVER_ERROR))
    assert "although no read from remote storage had failed for it" in trace.result("X1").violations[0].sentence
    produced = TraceBuilder()
    produced.emit("broker-1", TierTask(TP, "reader", 1, "list-offsets", "reject", "c", 1, 0, 0, 1, 1))
    produced.reply(1, "Produce", told(E.UNKNOWN_SERVER_ERROR))
    assert produced.result("X1").status == "violated"


@pytest.mark.parametrize("kind", ["list-offsets", "fetch"])
def test_a_read_fails_by_what_the_store_does(kind: Any) -> None:
    """Shows that a read may fail in a step with a call that failed, or with none; not in that in which the store has
    answered; and that it may where there is no such partition any more."""

    def read(
        outcome: Any, errors: list[int], req: str = "r1", error: E = E.UNKNOWN_SERVER_ERROR, removed: bool = False
    ) -> TraceBuilder:
        trace = TraceBuilder()
        if removed:
            trace.emit("controller-1", PartRemove(TP, 9, 1, "t"))
        trace.cause, trace.req = "remote-store-1/0/5", "r1"
        trace.emit("broker-1", Rpc("FetchIndex", 0, "remote-store-1", "reader-0", 7, outcome, errors))
        trace.req = req
        trace.emit("broker-1", TierTask(TP, "reader", 3, kind, "finish", "c", 1, 0, 0, 1, 1, error=int(error)))
        return trace

    assert read("answered", [int(E.KAFKA_STORAGE_ERROR)]).result("X1").violated == 0
    assert read("timeout", []).result("X1").violated == 0
    assert read("answered", [], req="r2").result("X1").violated == 0
    assert read("answered", [], error=E.NOT_LEADER_OR_FOLLOWER).result("X1").violated == 0
    wrong = read("answered", [])
    (finding,) = wrong.result("X1").violations
    assert finding.sentence == (
        "broker-1 gave the read 3 of orders-0 from remote storage up with UNKNOWN_SERVER_ERROR, although the store had "
        "answered without an error"
    )
    assert finding.events == [wrong.events[-2].id, wrong.events[-1].id]
    assert read("answered", [], removed=True).result("X1").violated == 0


FAILED = int(E.UNKNOWN_SERVER_ERROR)
CONNECTION = "consumer-1>broker-1"


class RemoteFetch(TraceBuilder):
    """Broker-1, which reads from remote storage for Fetch 1."""

    def read(self, phase: Any = "reject", error: int = 0, tp: str = TP, number: int = 1, kind: Any = "fetch") -> None:
        """A read goes on."""
        of = (kind, phase, CONNECTION, number)
        self.emit("broker-1", TierTask(tp, "reader", 1, *of, 0, 0, 1, 1, error=error))

    def answer(self, error: int = FAILED, tp: str = TP, number: int = 1) -> None:
        """The answer has an error."""
        fields = (-1, 5, 0, -1, error, False, True, 0, 9, 0, 9)
        self.emit("broker-1", FetchTold(tp, *fields, CONNECTION, number))

    def end(self, number: int = 1) -> RemoteFetch:
        """The Fetch was answered."""
        self.emit("broker-1", RemoteFetchEnd(CONNECTION, number, False))
        return self


@pytest.mark.parametrize(
    ("read", "violated"),
    [
        ({}, 0),
        ({"phase": "finish", "error": FAILED}, 0),
        ({"phase": "finish", "error": int(E.REPLICA_NOT_AVAILABLE)}, 1),
        ({"phase": "finish"}, 1),
        ({"tp": "orders-1"}, 1),
        ({"number": 2}, 1),
        ({"kind": "list-offsets"}, 1),
    ],
)
def test_a_fetch_is_refused_without_a_code_after_a_failed_read_alone(read: dict[str, Any], violated: int) -> None:
    """Shows UNKNOWN_SERVER_ERROR for a Fetch of which a read of that partition in remote storage was rejected, or
    failed with this very error, and for no other, nor after its answer."""
    trace = RemoteFetch()
    trace.read(**read)
    trace.answer()
    assert trace.result("X1").violated == violated
    trace.end()
    trace.answer()
    assert trace.result("X1").violated >= violated + 1


def test_a_fetch_is_told_of_its_failed_reads() -> None:
    """Shows that an answer without the error of a read that was rejected, or that failed, violates X1, and that the
    errors of other partitions, or in the answer to another request, are not those that are missing."""
    right = RemoteFetch()
    right.read()
    right.read("finish", int(E.OFFSET_OUT_OF_RANGE), "orders-1")
    right.read("finish", 0, "orders-2")
    right.answer()
    right.answer(int(E.OFFSET_OUT_OF_RANGE), "orders-1")
    result = right.end().result("X1")
    assert (result.status, result.tested) == ("held", 1)
    others: list[dict[str, Any]] = [{"tp": "orders-1"}, {"error": int(E.OFFSET_OUT_OF_RANGE)}, {"number": 2}]
    for other in others:
        wrong = RemoteFetch()
        wrong.read()
        wrong.answer(**{"error": int(E.NOT_LEADER_OR_FOLLOWER), **other})
        assert wrong.result("X1").violated == 0
        (finding,) = wrong.end().result("X1").violations
        assert finding.sentence == (
            "broker-1 answered the Fetch of consumer-1 without UNKNOWN_SERVER_ERROR for orders-0, whose read from "
            "remote storage had failed"
        )


def test_a_fetch_that_is_refused_as_a_whole_tells_of_no_read() -> None:
    """Shows that such an answer is right, if it is to the very Fetch whose read was rejected, and that neither a broker
    that has died nor one whose Fetch is another owes anything."""
    for number, violated in ((1, 0), (2, 1)):
        trace = RemoteFetch()
        trace.read()
        trace.emit("broker-1", FetchRefused(CONNECTION, number, int(E.INVALID_FETCH_SESSION_EPOCH)))
        assert trace.end().result("X1").violated == violated
    died = RemoteFetch()
    died.up("broker-1")
    died.read()
    died.down("broker-1")
    died.up("broker-1")
    assert died.end().result("X1").violated == 0
    later = RemoteFetch()
    later.read()
    assert later.end(2).result("X1").violated == 0


@pytest.mark.parametrize(
    ("epoch", "unasked", "missing", "says"),
    [
        (5, ["orders-1"], [], "of epoch 5 in its fetch session about orders-1, which it does not ask for any more"),
        (0, ["orders-1"], [], "that was to begin a session about orders-1, which it does not ask for"),
        (0, [], ["orders-0", "orders-1"], "that was to begin a session without orders-0, orders-1"),
        (0, ["x-0"], ["y-0"], "that was to begin a session about x-0, which it does not ask for without y-0"),
        (0, [], [], "that was to begin a session about a partition more than once"),
    ],
)
def test_an_answer_that_fits_no_fetch_session(epoch: int, unasked: list[str], missing: list[str], says: str) -> None:
    """Shows that it violates X1, be it to a replica or to a consumer, and what is said of it."""
    for node in ("broker-2", "consumer-1"):
        trace = TraceBuilder()
        event = trace.emit(node, FetchMisfit("broker-1", 7 if epoch else 0, epoch, unasked, missing))
        result = trace.result("X1")
        [finding] = result.violations
        assert (result.tested, finding.events) == (1, [event])
        assert finding.sentence == f"broker-1 answered the Fetch of {node} {says}"


@pytest.mark.parametrize(
    ("asked", "error", "violated"),
    [
        *((6, E.FENCED_LEADER_EPOCH, 0), (6, E.UNKNOWN_LEADER_EPOCH, 1), (8, E.UNKNOWN_LEADER_EPOCH, 0)),
        *((8, E.FENCED_LEADER_EPOCH, 1), (7, E.FENCED_LEADER_EPOCH, 1), (7, E.UNKNOWN_LEADER_EPOCH, 1)),
    ],
)
def test_a_request_of_another_quorum_epoch(asked: int, error: E, violated: int) -> None:
    """Shows that an older epoch is fenced, and a newer one unknown; both by the epoch of the member itself."""
    trace = TraceBuilder()
    trace.role("controller-1", 9, "follower", 102)
    at = trace.role("controller-2", 7, "unattached")
    refused = trace.emit("controller-2", QRefuse("Fetch", asked, int(error)))
    result = trace.result("X1")
    assert (result.tested, result.violated) == (1, violated)
    if violated:
        (found,) = result.violations
        assert found.events == [at, refused]
        assert found.sentence == (
            f"controller-2 refused Fetch in quorum epoch {asked} with {error.name}, although it was in quorum epoch 7 "
            "itself"
        )


def test_a_member_whose_quorum_epoch_is_not_told() -> None:
    """Shows that nothing is held against a process that has not told its role."""
    trace = TraceBuilder()
    trace.role("controller-2", 7, "unattached")
    trace.up("controller-2", "controller")
    trace.emit("controller-2", QRefuse("Fetch", 6, int(E.UNKNOWN_LEADER_EPOCH)))
    assert trace.result("X1").status == "vacuous"
