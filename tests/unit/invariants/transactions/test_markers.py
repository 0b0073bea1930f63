"""T4 and T8: how transactions end on a partition, and what is written in them."""

from __future__ import annotations

from typing import Literal

import pytest

from actors.node.errors import KafkaError as E
from actors.trace.events import PartChange
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.invariants.transactions.decided import UNMARKED_REMEMBERED
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import OTHER_TP, STATE, TransactionTrace


def ended(commits: bool, marker: str, **how: int) -> TransactionTrace:
    """A transaction was decided, and a marker came."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.begins()
    trace.write("a")
    trace.decides(commits)
    trace.ends(marker, **how)  # type: ignore[arg-type]
    return trace


@pytest.mark.parametrize(("commits", "marker"), [(True, "commit"), (False, "abort")])
def test_a_marker_that_was_decided(commits: bool, marker: str) -> None:
    """Shows that T4 is held, tested by the marker, if it is of the kind and the epoch that were decided."""
    result = ended(commits, marker).result("T4")
    assert (result.status, result.tested) == ("held", 1)


@pytest.mark.parametrize(("commits", "marker"), [(True, "abort"), (False, "commit")])
def test_a_marker_of_the_other_kind(commits: bool, marker: str) -> None:
    """Shows that a marker which says the opposite of the decision violates T4."""
    (finding,) = ended(commits, marker).result("T4").violations
    decided = "commit" if commits else "abort"
    assert finding.sentence == (
        f"broker-1 appended a marker ({marker}) of producer id 7, epoch 4 to orders-0 at 1; the coordinator's decision "
        f"was {decided}"
    )


def test_a_marker_that_nobody_had_decided() -> None:
    """Shows that a marker before its decision violates T4, also where the decision comes later."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.begins()
    trace.write("a")
    trace.ends("commit")
    trace.decides(True)
    assert "but no coordinator had decided so" in trace.result("T4").violations[0].sentence


@pytest.mark.parametrize(("times", "behind", "status"), [(9, 0, "held"), (7, 9, "violated"), (9, 9, "violated")])
def test_a_marker_whose_decision_is_long_ago(times: int, behind: int, status: str) -> None:
    """Shows that T4 does not judge a marker whose decision it may have forgotten, where a leader that hung appends it
    behind its data; one that ends a later transaction violates it."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.begins()
    trace.write("a", epoch=3 + behind)
    trace.decides(True)
    for epoch in range(4, 4 + times):
        trace.state("CompleteCommit", "Ongoing", epoch)
        trace.decides(True, epoch + 1)
    trace.write(marker="commit", epoch=4)
    assert trace.result("T4").status == status


def test_a_marker_of_a_former_coordinator() -> None:
    """Shows that a marker of an older coordinator epoch than the last one violates T4."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.begins(coordinator_epoch=1)
    trace.write("a")
    trace.decides(True, coordinator_epoch=1)
    trace.loads("PrepareCommit", 4, 2, coordinator_epoch=2)
    trace.ends("commit", coordinator_epoch=2)
    trace.ends("commit", coordinator_epoch=1)
    (finding,) = trace.result("T4").violations
    assert "of coordinator epoch 1 after one of 2" in finding.sentence


@pytest.mark.parametrize(("coordinator_epoch", "violated"), [(2, 0), (3, 0), (0, 1), (1, 1), (4, 1), (-1, 1)])
def test_whose_coordinator_epoch_a_marker_has(coordinator_epoch: int, violated: int) -> None:
    """Shows that a marker has the coordinator epoch of who decided so, or of who has read that in the log."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.begins(coordinator_epoch=2)
    trace.write("a")
    trace.decides(True, coordinator_epoch=2)
    trace.loads("PrepareCommit", 4, 2, coordinator_epoch=3)
    trace.ends("commit", coordinator_epoch=coordinator_epoch)
    result = trace.result("T4")
    assert result.violated == violated
    for finding in result.violations:
        assert finding.sentence == (
            "broker-1 appended a marker (commit) of producer id 7, epoch 4 to orders-0 at 1, of coordinator epoch "
            f"{coordinator_epoch}, but its coordinator had epoch 2 or 3"
        )


@pytest.mark.parametrize(("coordinator_epoch", "violated"), [(1, 0), (-1, 1)])
def test_a_coordinator_epoch_that_is_long_ago(coordinator_epoch: int, violated: int) -> None:
    """Shows that T4 does not judge the coordinator epoch of a marker whose decision it may have forgotten, where
    transactions share an epoch, but that it has one."""
    trace = TransactionTrace()
    trace.lead(1)
    for number in range(9):
        trace.begins(version=1, coordinator_epoch=1 if number == 0 else 2)
        trace.decides(True, 3, version=1, coordinator_epoch=1 if number == 0 else 2)
    trace.ends("commit", 3, coordinator_epoch=coordinator_epoch)
    assert trace.result("T4").violated == violated


@pytest.mark.parametrize("late", ["decides", "begins", ""])
def test_what_a_replaced_coordinator_learns_late(late: str) -> None:
    """Shows that T4 takes what a coordinator tells of an earlier transaction neither for the end nor for the beginning
    of one of the same epoch that began after it was replaced: an abort marker is as decided, and no late one."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.state("CompleteCommit", "Ongoing", 3, version=1, node="broker-2", coordinator_epoch=1)
    trace.write("a")
    decided = trace.decides(False, 3, version=1, node="broker-2", coordinator_epoch=1)
    if late == "decides":
        trace.decides(True, 3, version=1)
    elif late == "begins":
        trace.state("CompleteCommit", "Ongoing", 3, version=1)
    trace.cause = decided
    trace.ends("abort", 3, coordinator_epoch=1)
    result = trace.result("T4")
    assert (result.status, result.excused) == ("held", {})


@pytest.mark.parametrize(("version", "status"), [(2, "violated"), (1, "excused")])
def test_a_marker_that_ends_the_next_transaction(version: int, status: str) -> None:
    """Shows that a late marker which ends the transaction after its own violates T4, but for producers that have one
    epoch for all their transactions, where it is excused."""
    trace = TransactionTrace()
    trace.lead(1)
    first = 4 if version == 2 else 3
    trace.begins(version=version)
    trace.write("a")
    trace.decides(True, first, version=version)
    trace.ends("commit", first)
    trace.state("PrepareCommit", "CompleteCommit", first, (), version=version)
    trace.state("CompleteCommit", "Ongoing", first, version=version)
    trace.write("b", epoch=first)
    if version == 1:
        trace.decides(False, first, version=version)
    trace.ends("commit", first)
    result = trace.result("T4")
    assert (bool(result.violated), bool(result.excused)) == (status == "violated", status == "excused")


@pytest.mark.parametrize(("late", "violated"), [(4, 0), (3, 1)])
def test_a_marker_at_a_leader_that_was_replaced(late: int, violated: int) -> None:
    """Shows that a leader which was replaced, and knows nothing of later transactions, may append the marker of the one
    that it has open; and that this is told by the epochs."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.begins(2)
    trace.decides(True, 3)
    trace.completes(True, 3)
    trace.state("CompleteCommit", "Ongoing", 3)
    trace.write("a", epoch=3)
    trace.decides(True, 4)
    trace.completes(True, 4)
    trace.state("CompleteCommit", "Ongoing", 4)
    trace.decides(True, 5)
    trace.ends("commit", late)
    assert trace.result("T4").violated == violated


def test_a_partition_that_is_counted_and_was_not_told() -> None:
    """Shows that a coordinator that counts a partition whose log has no such marker, committed, violates T4."""
    for committed in (True, False):
        trace = ended(True, "commit")
        if committed:
            trace.high_watermark("broker-1", 2)
        trace.counted(True)
        assert trace.result("T4").status == ("held" if committed else "violated")


def test_a_batch_in_an_open_transaction() -> None:
    """Shows that T8 is held, tested by the first batch of a transaction, if its coordinator has it open there."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.begins()
    trace.write("a")
    trace.write("b")
    result = trace.result("T8")
    assert (result.status, result.tested) == ("held", 1)


def test_a_batch_that_comes_before_the_marker() -> None:
    """Shows that a batch of a decided transaction is no violation while its marker is still to come."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.begins()
    trace.decides(False)
    trace.write("a")
    assert trace.result("T8").status == "held"


@pytest.mark.parametrize(("marked", "status"), [(False, "held"), (True, "violated")])
def test_a_batch_of_a_former_epoch(marked: bool, status: str) -> None:
    """Shows the same where the producer has gone on in a new epoch, as with a leader that was paused and replaced."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.begins()
    trace.decides(False)
    if marked:
        trace.ends("abort", 4)
    trace.begins(epoch=5)
    trace.write("a")
    assert trace.result("T8").status == status


@pytest.mark.parametrize(
    ("times", "caught_up", "status"),
    [(12, False, "held"), (12, True, "violated"), (UNMARKED_REMEMBERED + 9, False, "held")],
)
def test_a_batch_of_an_epoch_long_ago(times: int, caught_up: bool, status: str) -> None:
    """Shows the same where its producer has ended any number of transactions since, of which that leader has heard
    nothing; a leader that has their markers violates T8."""
    trace = TransactionTrace()
    trace.lead(2)
    trace.lead(1, 1)
    trace.begins()
    for epoch in range(4, 4 + times):
        trace.decides(True, epoch)
        trace.ends("commit", epoch)
        if caught_up:
            trace.ends("commit", epoch, broker=2, role="follower")
        trace.completes(True, epoch)
        trace.begins(epoch)
    trace.write("late", broker=2)
    assert trace.result("T8").status == status


def test_a_batch_of_no_transaction() -> None:
    """Shows that a batch of a transaction that no coordinator has, or not with this partition, violates T8."""
    for partitions in ((), ("copies-1",)):
        trace = TransactionTrace()
        trace.lead(1)
        if partitions:
            trace.begins(partitions=partitions)
        trace.write("a")
        assert "but no coordinator had added the partition to it" in trace.result("T8").violations[0].sentence


@pytest.mark.parametrize(("verifies", "version", "status"), [(True, 1, "violated"), (False, 1, "excused")])
def test_a_batch_that_comes_after_the_marker(verifies: bool, version: int, status: str) -> None:
    """Shows that a batch behind the marker of its transaction violates T8, but where nobody asks coordinators."""
    trace = TransactionTrace(config={"transaction.partition.verification.enable": verifies})
    trace.lead(1)
    trace.begins(version=version)
    trace.write("a")
    trace.decides(False, 3, version=version)
    trace.ends("abort", 3)
    trace.write("b")
    result = trace.result("T8")
    assert (bool(result.violated), bool(result.excused)) == (status == "violated", status == "excused")
    if status == "violated":
        assert result.violations[0].sentence == (
            f"broker-1 appended a batch at 2 of {TP} in a transaction of producer id 7, epoch 3, but the marker of its "
            "end is there"
        )


def test_a_partition_that_is_given_up_and_is_there() -> None:
    """Shows that a coordinator which tells a partition nothing violates T4, unless the partition can have no marker."""
    for error, status in ((0, "violated"), (6, "violated"), (43, "held")):
        trace = ended(True, "commit")
        trace.counted(True, outcome="gone", errors={TP: error} if error else {})
        assert trace.result("T4").status == status


def shared(decisions: int, marker: Literal["commit", "abort"], sent: int) -> InvariantResult:
    """A producer below transaction.version 2 has so many committed transactions, and a record of the next one in the
    log, when a marker comes that its coordinator sent after its ``sent``-th decision."""
    trace = TransactionTrace()
    trace.lead(1)
    after = ""
    for number in range(decisions + 1):
        trace.state("Empty" if not number else "CompleteCommit", "Ongoing", 3, version=1)
        trace.write(f"p:{number}", epoch=3)
        if number < decisions:
            by = trace.decides(True, 3, version=1)
            after = by if number < sent else after
            trace.cause = by
            trace.ends("commit", 3)
            trace.cause = ""
    trace.cause = after
    trace.ends(marker, 3)
    return trace.result("T4")


@pytest.mark.parametrize(("decisions", "sent"), [(3, 1), (12, 1), (3, 3)])
def test_a_late_marker_tells_by_when_it_was_sent(decisions: int, sent: int) -> None:
    """Shows that below transaction.version 2 a marker which ends a later transaction is excused, however many were
    decided since it was sent."""
    result = shared(decisions, "commit", sent)
    assert (result.violated, result.excused) == (0, {"marker-of-former": 1})


def test_a_wrong_marker_is_not_taken_for_a_late_one() -> None:
    """Shows that a marker of the other kind than the decision violates T4 below transaction.version 2, too, if its
    coordinator sent it after that; whatever it decided before."""
    trace = TransactionTrace()
    trace.lead(1)
    for commits in (False, True):
        trace.state("Empty" if not commits else "CompleteAbort", "Ongoing", 3, version=1)
        trace.write("p", epoch=3)
        trace.cause = trace.decides(commits, 3, version=1)
        trace.ends("abort", 3)
        trace.cause = ""
    assert trace.result("T4").violations[0].sentence.endswith("3; the coordinator's decision was commit")


def _leads(trace: TransactionTrace, broker: int, epoch: int) -> None:
    """Broker 2 leads after an election outside the ISR, where it has not what broker 1 had; whoever leads next is
    elected as usual."""
    trace.lead(broker, epoch, isr=(broker,), cause="unclean" if broker == 2 else "elect")


def test_a_marker_that_an_unclean_election_gave_up() -> None:
    """Shows that a coordinator may count a marker as written which the next leader lacks, elected outside the ISR."""
    trace = ended(True, "commit")
    trace.high_watermark("broker-1", 2)
    _leads(trace, 2, 1)
    trace.counted(True)
    result = trace.result("T4")
    assert (result.violated, result.excused) == (0, {"unclean-election": 1})


def _elected_uncleanly_before() -> TransactionTrace:
    """Broker-2 is elected uncleanly in leader epoch 1, and then a transaction begins."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.append("broker-1", "lost")
    trace.high_watermark("broker-1", 1)
    _leads(trace, 2, 1)
    trace.begins()
    return trace


@pytest.mark.parametrize("marker", ["", "abort"])
def test_an_unclean_election_excuses_no_marker_that_was_never_there(marker: Literal["", "abort"]) -> None:
    """Shows that an unclean election before the transaction does not excuse that a coordinator counts a marker which
    no leader appended; nor does one of the other kind."""
    trace = _elected_uncleanly_before()
    trace.write("a", broker=2, led=1)
    trace.decides(marker != "abort")
    if marker:
        trace.ends(marker, broker=2, led=1)
    trace.counted(True)
    result = trace.result("T4")
    assert (result.violated, result.excused) == (1, {})


def test_an_unclean_election_excuses_no_marker_of_a_later_leader() -> None:
    """Shows that a marker which was appended after an unclean election is not excused by it."""
    trace = _elected_uncleanly_before()
    trace.decides(True)
    trace.ends("commit", broker=2, led=1)
    trace.counted(True)  # before it is committed
    result = trace.result("T4")
    assert (result.violated, result.excused) == (1, {})


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (E.NONE, "held"),
        (E.CONCURRENT_TRANSACTIONS, "held"),
        (E.INVALID_PRODUCER_EPOCH, "held"),
        (E.TRANSACTION_ABORTABLE, "violated"),
        (E.INVALID_TXN_STATE, "violated"),
        (E.INVALID_PRODUCER_ID_MAPPING, "violated"),
    ],
)
def test_a_leader_that_asks_for_its_partition(error: E, status: str) -> None:
    """Shows that a denial violates T8 while the coordinator has the transaction open with the partition, but no error
    of a transaction that is being ended, or of an epoch."""
    trace = TransactionTrace()
    answer = trace.begins(version=1)
    trace.waits()
    trace.verified(answer, error)
    result = trace.result("T8")
    assert (result.status, result.tested) == (status, 1)


def denied(since: str) -> InvariantResult:
    """A leader is denied its partition after something has happened since the transaction was opened, or before."""
    trace = TransactionTrace()
    if since == "asked before":
        trace.waits()
    opened = trace.emit("broker-1", PartChange(STATE, 9, 1, 1, 0, 1, [1], [1, 2, 3], "create"))
    answer = trace.begins(partitions=(OTHER_TP,) if since == "not there" else (TP,), version=1)
    trace.waits()
    if since == "more partitions":
        answer = trace.state("Ongoing", "Ongoing", 3, (TP, OTHER_TP), version=1)
    elif since == "decided":
        answer = trace.decides(False, 3, version=1)
    elif since == "the next one":
        trace.decides(False, 3, version=1)
        answer = trace.begins(version=1)
    elif since == "replaced":
        trace.emit("controller-1", PartChange(STATE, 9, 1, 2, 1, 2, [2], [1, 2, 3], "elect"))
    elif since == "read again":
        trace.emit("controller-1", PartChange(STATE, 9, 1, 1, 1, 2, [1], [1, 2, 3], "elect"))
        answer = trace.loads("Ongoing", 3, 3, node="broker-1", version=1)
        trace.waits()
    elif since == "another process":
        answer = trace.up("broker-3")
    elif since == "answered before":
        answer = opened
    trace.verified(answer, E.TRANSACTION_ABORTABLE, 4 if since == "another epoch" else 3)
    if since == "asked again":
        trace.waits()
        trace.verified(answer, E.TRANSACTION_ABORTABLE)
    return trace.result("T8")


@pytest.mark.parametrize(("since", "violations"), [("nothing", 1), ("more partitions", 1), ("asked again", 2)])
def test_a_denial_is_wrong(since: str, violations: int) -> None:
    """Shows that a transaction which gets another partition is the same one, and that each denial counts."""
    assert denied(since).violated == violations


@pytest.mark.parametrize(
    "since",
    [
        *("asked before", "not there", "decided", "the next one", "replaced", "read again", "another process"),
        *("answered before", "another epoch"),
    ],
)
def test_a_denial_that_may_be_right(since: str) -> None:
    """Shows that a denial is not judged where the transaction is not open with the partition, or not since the leader
    asked; nor where a coordinator is replaced, or reads its log anew, meanwhile; nor one of another process, or from
    before."""
    assert denied(since).status == "vacuous"


def test_a_denial_by_a_coordinator_that_has_read_its_log_anew() -> None:
    """Shows that it violates T8 if the leader asked after that."""
    trace = TransactionTrace()
    trace.begins(version=1)
    trace.emit("controller-1", PartChange(STATE, 9, 1, 1, 1, 2, [1], [1, 2, 3], "elect"))
    answer = trace.loads("Ongoing", 3, 3, node="broker-1", version=1)
    trace.waits()
    trace.verified(answer, E.TRANSACTION_ABORTABLE)
    (finding,) = trace.result("T8").violations
    assert finding.sentence == (
        "broker-1 denied broker-2 with TRANSACTION_ABORTABLE that orders-0 is in the transaction of producer id 7, "
        "epoch 3, but it has it there"
    )


@pytest.mark.parametrize(
    ("before", "status"),
    [
        ("begins", "held"),
        ("adds", "held"),
        ("loads", "held"),
        ("again", "held"),
        ("nothing", "violated"),
        ("another-partition", "violated"),
        ("another-epoch", "violated"),
        ("decided", "violated"),
        ("completed", "violated"),
    ],
)
def test_what_a_coordinator_says_is_added(before: str, status: str) -> None:
    """Shows that a coordinator says that a partition is in a transaction only if its log has it there, by its own
    record or by that of another one, in a transaction that is open in this epoch."""
    trace = TransactionTrace()
    if before == "adds":
        trace.begins(partitions=(OTHER_TP,))
        trace.state("Ongoing", "Ongoing", partitions=(OTHER_TP, TP))
    elif before == "loads":
        trace.loads("Ongoing", 3, 1)
    elif before == "another-partition":
        trace.begins(partitions=(OTHER_TP,))
    elif before == "another-epoch":
        trace.begins(epoch=2)
    elif before != "nothing":
        trace.begins()
    if before in ("decided", "completed", "again"):
        trace.decides(commits=True)
    if before in ("completed", "again"):
        trace.completes(commits=True)
    if before == "again":
        trace.state("CompleteCommit", "Ongoing", epoch=4)
    node, epoch = ("broker-2", 1) if before == "loads" else ("broker-1", 0)
    trace.says_added(4 if before == "again" else 3, (OTHER_TP, TP), node, epoch)
    result = trace.result("T8")
    violated = [each for each in result.violations if f"that {TP} is in" in each.sentence]
    assert bool(violated) == (status == "violated")
    if violated:
        assert violated[0].sentence == (
            f"broker-1 answered that {TP} is in the transaction of app-1 (producer id 7, epoch 3), but had not "
            "committed that"
        )


def test_what_a_replaced_coordinator_says_is_added() -> None:
    """Shows that a coordinator which does not know of its successor says what it has."""
    trace = TransactionTrace()
    trace.begins()
    trace.loads("Ongoing", 3, 1)
    trace.decides(commits=False, node="broker-2", coordinator_epoch=1)
    trace.says_added()
    result = trace.result("T8")
    assert (result.violated, result.tested) == (0, 0)
