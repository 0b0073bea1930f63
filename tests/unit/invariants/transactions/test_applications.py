"""T5 and T12: what applications are promised of a transaction as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET, UnsetType

from actors.node.spec import node_name
from actors.trace.events import NodeDown, PartChange, PartRemove
from actors.trace.transaction_events import TransactionStateName
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import OTHER_TP, STATE, TransactionTrace

BOTH = (TP, OTHER_TP)


def written() -> TransactionTrace:
    """A transaction has records in two partitions."""
    trace = TransactionTrace()
    trace.begins(partitions=BOTH)
    trace.write("a")
    trace.write("b", tp=OTHER_TP)
    return trace


@pytest.mark.parametrize("commits", [True, False])
def test_all_or_nothing(commits: bool) -> None:
    """Shows that T5 is held, tested by the second marker and by the completion, if both partitions end alike."""
    trace, kind = written(), "commit" if commits else "abort"
    trace.decides(commits, partitions=BOTH)
    trace.ends(kind)  # type: ignore[arg-type]
    trace.ends(kind, tp=OTHER_TP)  # type: ignore[arg-type]
    trace.completes(commits)
    result = trace.result("T5")
    assert (result.status, result.tested) == ("held", 2)


def test_half_of_it() -> None:
    """Shows that markers of two kinds violate T5, with both."""
    trace = written()
    trace.decides(True, partitions=BOTH)
    one = trace.ends("commit")
    other = trace.ends("abort", tp=OTHER_TP)
    (finding,) = trace.result("T5").violations
    assert finding.events == [one, other]
    assert finding.sentence == (
        "a transaction of producer id 7, epoch 3, is committed in orders-0 and aborted in copies-1"
    )


def test_complete_too_early() -> None:
    """Shows that a completion before each partition has its marker violates T5, unless the partition is gone."""
    for outcome, status in (("again", "violated"), ("gone", "held")):
        trace = written()
        trace.decides(True, partitions=BOTH)
        trace.ends("commit")
        trace.counted(True, partitions=(OTHER_TP,), outcome=outcome)
        trace.completes(True)
        assert trace.result("T5").status == status


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize(
    ("elected", "listed", "status"),
    [
        (STATE, (TP,), "excused"),
        (STATE, BOTH, "violated"),
        (OTHER_TP, (TP,), "violated"),
        ("", (TP,), "violated"),
    ],
)
def test_a_partition_that_the_coordinator_forgot(
    commits: bool, elected: str, listed: tuple[str, ...], status: str
) -> None:
    """Shows that T5 excuses a missing marker only in a partition that the coordinator does not know any more, and only
    after an unclean election of the partition of the transaction log since the transaction began."""
    trace = written()
    if elected:
        trace.emit("controller-1", PartChange(elected, 5, 1, 2, 1, 1, [2], [1, 2, 3], "unclean"))
    trace.decides(commits, partitions=listed)
    trace.ends("commit" if commits else "abort")
    trace.completes(commits)
    assert trace.result("T5").status == status


@pytest.mark.parametrize(("lossy", "status"), [((1,), "violated"), ((1, 2), "excused")])
def test_a_partition_that_disks_forgot(lossy: tuple[int, ...], status: str) -> None:
    """Shows that disks excuse it, too, if as many have lost the end of the transaction log as had to keep it."""
    trace = written()
    for broker in lossy:
        trace.emit(node_name(broker), NodeDown("lossy", lost={STATE: 1}))
    trace.decides(True, partitions=(TP,))
    trace.ends("commit")
    trace.completes(True)
    assert trace.result("T5").status == status


@pytest.mark.parametrize("unclean", [False, True])
def test_what_the_transaction_log_lost_before_the_transaction(unclean: bool) -> None:
    """Shows that it excuses nothing of a transaction that began later."""
    trace = TransactionTrace()
    if unclean:
        trace.emit("controller-1", PartChange(STATE, 5, 1, 2, 1, 1, [2], [1, 2, 3], "unclean"))
    for broker in () if unclean else (1, 2, 3):
        trace.emit(node_name(broker), NodeDown("lossy", lost={STATE: 1}))
    trace.begins(partitions=BOTH, coordinator_epoch=1)
    trace.write("a", tp=OTHER_TP)
    trace.decides(True, partitions=(TP,), coordinator_epoch=1)
    trace.completes(True, coordinator_epoch=1)
    assert trace.result("T5").status == "violated"


def test_an_earlier_transaction_that_is_completed_again() -> None:
    """Shows that T5 does not take its completion for that of the newer one."""
    trace = written()
    trace.state("PrepareAbort", "CompleteAbort", 2)
    assert trace.result("T5").status == "vacuous"


@pytest.mark.parametrize(
    ("state", "epoch", "marked", "status"),
    [
        ("CompleteCommit", 4, BOTH, "held"),
        ("CompleteCommit", 4, (TP,), "violated"),
        ("CompleteAbort", 4, BOTH, "violated"),
        ("CompleteCommit", 3, BOTH, "held"),
        ("CompleteCommit", 3, (TP,), "vacuous"),
        ("CompleteCommit", 2, (TP,), "vacuous"),
    ],
)
def test_a_completion_that_only_the_next_coordinator_tells(
    state: Any, epoch: int, marked: tuple[str, ...], status: str
) -> None:
    """Shows that T5 judges a completion that a coordinator wrote just before it was replaced, and that the next one
    reads: the transaction that follows is another one. In the epoch of the records it may be that of an earlier one."""
    trace = written()
    trace.decides(True, partitions=BOTH)
    for tp in marked:
        trace.ends("commit", tp=tp)
    trace.loads(state, epoch, 3, ())
    trace.state(state, "PrepareAbort", 5, (), node="broker-2", coordinator_epoch=1)
    if status != "vacuous":
        trace.state("PrepareAbort", "CompleteAbort", 5, (), node="broker-2", coordinator_epoch=1)
    assert trace.result("T5").status == status


@pytest.mark.parametrize("removed", [False, True])
def test_a_partition_of_a_topic_that_was_removed(removed: bool) -> None:
    """Shows that a partition need have no marker if its topic was removed, even if the name has another by now."""
    trace = written()
    if removed:
        trace.emit("controller-1", PartRemove(OTHER_TP, 30, 1, "of-the-first"))
    trace.decides(True, partitions=BOTH)
    trace.ends("commit")
    trace.ends("commit", tp=f"{OTHER_TP}@of-the-second")
    trace.completes(True)
    assert trace.result("T5").status == ("held" if removed else "violated")


def test_a_run_without_transactions_does_not_concern_it() -> None:
    """Shows that promises about transactions ask nothing of a run whose clients have none, as its profile says."""
    clients = {"producer-1": {"config": {}}}
    for ids, why in (([], "no client has transactions"), (["producer-1"], "nothing in this run tested it")):
        result = TransactionTrace(nodes=clients, transactional=ids).result("T12")
        assert (result.status, result.why) == ("vacuous", why)


@pytest.mark.parametrize("commit", [True, False])
def test_what_was_asked_for(commit: bool) -> None:
    """Shows that T12 is held if the application's wish is decided, and it is told so."""
    trace = TransactionTrace()
    trace.app_begins()
    trace.begins()
    trace.app_asks(commit)
    trace.decides(commit)
    trace.app_told(commit)
    result = trace.result("T12")
    assert (result.status, result.tested) == ("held", 2 if commit else 1)


def test_a_transaction_that_times_out() -> None:
    """Shows that a transaction for which nobody asked may be aborted, and not committed."""
    for commits, status in ((False, "vacuous"), (True, "violated")):
        trace = TransactionTrace()
        trace.app_begins()
        trace.begins()
        trace.decides(commits)
        assert trace.result("T12").status == status


def test_a_commit_in_place_of_an_abort() -> None:
    """Shows that it violates T12."""
    trace = TransactionTrace()
    trace.app_begins()
    trace.begins()
    trace.app_asks(False)
    trace.decides(True)
    assert "but its application had asked to abort it" in trace.result("T12").violations[0].sentence


@pytest.mark.parametrize(
    ("version", "unanswered", "status"), [(2, 1, "violated"), (1, 1, "excused"), (1, UNSET, "violated")]
)
def test_a_request_that_ends_the_next_transaction(version: int, unanswered: int | UnsetType, status: str) -> None:
    """Shows that a commit of the next transaction by a late request violates T12, and that this is excused where both
    have one epoch, if some request got no answer."""
    trace, next_epoch = TransactionTrace(), 4 if version == 2 else 3
    trace.app_begins(version=version)
    trace.begins(version=version)
    trace.app_asks(True)
    trace.decides(True, next_epoch, version=version)
    trace.app_told(True, unanswered=unanswered)
    trace.app_begins(2, next_epoch, version)
    trace.state("CompleteCommit", "Ongoing", next_epoch, version=version)
    trace.decides(True, 2 * next_epoch - 3, version=version)
    result = trace.result("T12")
    assert (bool(result.violated), bool(result.excused)) == (status == "violated", status == "excused")


@pytest.mark.parametrize(("unanswered", "excused", "violated"), [(1, 1, 1), (2, 2, 0)])
def test_a_request_that_comes_late_comes_once(unanswered: int, excused: int, violated: int) -> None:
    """Shows that a request without an answer excuses the commit of one transaction that was to be aborted, and no
    second one; and that a commit which was asked for takes nothing off."""
    trace = TransactionTrace()
    for number, commit in enumerate((True, True, False, False)):
        trace.app_begins(number, version=1)
        trace.begins(version=1)
        trace.app_asks(commit, number)
        trace.decides(True, 3, version=1)
        trace.completes(True, 3, version=1)
        trace.app_told(commit, "ok" if commit else "unknown", number, unanswered=UNSET if number else unanswered)
    result = trace.result("T12")
    assert (result.excused.get("epoch-shared", 0), result.violated) == (excused, violated)


def late_commit() -> TransactionTrace:
    """A transaction that was to be aborted is open, up to 7 of the log, after one that was aborted, and one of which a
    request for its commit got no answer. Another coordinator has read a commit of it at 7."""
    trace = TransactionTrace()
    for number, commit in enumerate((True, False)):
        trace.app_begins(number, version=1)
        trace.begins(version=1)
        trace.app_asks(commit, number)
        trace.decides(commit, 3, version=1)
        trace.completes(commit, 3, version=1)
        trace.app_told(commit, number=number, unanswered=1 if commit else UNSET)
    trace.app_begins(2, 3, 1)
    trace.begins(version=1)
    trace.app_asks(False, 2)
    trace.loads("PrepareCommit", 3, 8, version=1)
    return trace


@pytest.mark.parametrize(("offset", "coordinator_epoch", "violated"), [(7, 0, 0), (8, 0, 1), (7, 1, 1)])
def test_a_decision_that_its_replaced_coordinator_tells_late(
    offset: int, coordinator_epoch: int, violated: int
) -> None:
    """Shows that the decision which a coordinator has read in its log is the same as that of its predecessor, who
    learns later that it is committed; not one that was written after that, or by the same coordinator."""
    trace = late_commit()
    trace.decides(True, 3, version=1, offset=offset, coordinator_epoch=coordinator_epoch)
    result = trace.result("T12")
    assert (result.excused, result.violated) == ({"epoch-shared": 1}, violated)


@pytest.mark.parametrize(("coordinator_epoch", "end", "violated"), [(1, 12, 0), (3, 9, 0), (3, 12, 1)])
def test_a_load_of_an_older_decision(coordinator_epoch: int, end: int, violated: int) -> None:
    """Shows that a coordinator which was replaced while it read its log, and one whose log has lost the last decision,
    tell nothing new of the one before."""
    trace = late_commit()
    trace.completes(True, 3, version=1, offset=8)
    trace.app_told(False, "fail", 2)
    trace.app_begins(3, 3, 1)
    trace.begins(version=1)
    trace.app_asks(False, 3)
    trace.decides(False, 3, version=1, offset=10, coordinator_epoch=2)
    trace.loads("PrepareCommit", 3, end, version=1, coordinator_epoch=coordinator_epoch)
    result = trace.result("T12")
    assert (result.excused, result.violated) == ({"epoch-shared": 1}, violated)


def test_an_application_that_is_told_otherwise() -> None:
    """Shows that an answer other than the decision violates T12; one that is not known never does."""
    for told, outcome, status in ((True, "ok", "violated"), (True, "unknown", "vacuous"), (False, "ok", "held")):
        trace = TransactionTrace()
        trace.app_begins()
        trace.begins()
        trace.app_asks(told)
        trace.decides(False)
        trace.app_told(told, outcome)
        assert trace.result("T12").status == status
    trace = TransactionTrace()
    trace.app_begins()
    trace.begins()
    trace.app_asks(True)
    trace.decides(True)
    trace.app_told(True, "fail")
    assert "not committed for certain; it was committed" in trace.result("T12").violations[0].sentence


def test_a_transaction_after_one_of_the_same_epoch() -> None:
    """Shows that below transaction.version 2 what became of the transaction before says nothing of this one, which was
    aborted with another epoch."""
    trace = TransactionTrace()
    trace.app_begins(version=1)
    trace.begins(version=1)
    trace.app_asks(True)
    trace.decides(True, 3, version=1)
    trace.app_told(True)
    trace.app_begins(2, 3, 1)
    trace.state("CompleteCommit", "Ongoing", 3, version=1)
    trace.app_asks(True, 2)
    trace.decides(False, 4, version=1)
    trace.app_told(True, "fail", 2)
    assert trace.result("T12").status == "held"


@pytest.mark.parametrize(
    ("elected", "read", "answers", "excused"),
    [
        ("after", "CompleteCommit", True, True),
        ("before", "CompleteCommit", True, False),
        ("", "CompleteCommit", True, False),
        ("after", "CompleteAbort", True, False),
        ("after", "CompleteCommit", False, False),
    ],
)
def test_a_coordinator_that_takes_it_for_the_one_before(
    elected: str, read: TransactionStateName, answers: bool, excused: bool
) -> None:
    """Shows that below transaction.version 2 T12 excuses the confirmation by a coordinator that has read, after an
    unclean election, of the transaction before alone, which ended so; not where the election came before the
    transaction, or that one ended otherwise, or another process answered."""
    trace = TransactionTrace()
    lost = PartChange(STATE, 5, 1, 2, 1, 1, [2], [1, 2, 3], "unclean")
    trace.app_begins(version=1)
    trace.begins(version=1)
    trace.app_asks(True)
    trace.decides(True, 3, version=1)
    trace.app_told(True)
    trace.completes(True, 3, version=1)
    if elected == "before":
        trace.emit("controller-1", lost)
    trace.app_begins(2, 3, 1)
    trace.state("CompleteCommit", "Ongoing", 3, version=1, coordinator_epoch=elected == "before")
    trace.app_asks(True, 2)
    if elected == "after":
        trace.emit("controller-1", lost)
    loaded = trace.loads(read, 3, 3, (), version=1)
    trace.cause = loaded if answers else ""
    trace.app_told(True, number=2)
    result = trace.result("T12")
    assert (result.violated, result.excused) == ((0, {"unclean-election": 1}) if excused else (1, {}))


def test_an_answer_after_the_successor_has_begun() -> None:
    """Shows that a process that stood still is rightly told of its commit when another one, which has taken over its
    transactional id with the next epoch, has begun a transaction."""
    trace = TransactionTrace()
    trace.app_begins(version=1)
    trace.begins(version=1)
    trace.app_asks(True)
    trace.decides(True, 3, version=1)
    trace.app_begins(2, 4, 1)
    trace.app_told(True)
    result = trace.result("T12")
    assert (result.status, result.tested) == ("held", 2)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("zombie", ["asks", "begins"])
def test_a_former_process_that_goes_on(version: int, zombie: str) -> None:
    """Shows that what a process does which was replaced counts for its own epoch alone: the commit that its successor
    asked for is one without an excuse."""
    trace, bump = TransactionTrace(), version - 1
    trace.app_begins(epoch=3, version=version)
    trace.app_begins(2, 5, version)
    trace.begins(5, version=version)
    trace.app_asks(True, 2, 5)
    trace.decides(True, 5 + bump, version=version)
    trace.app_begins(3, 5 + bump, version)
    trace.state("CompleteCommit", "Ongoing", 5 + bump, version=version)
    trace.app_asks(True, 3, 5 + bump)
    if zombie == "asks":
        trace.app_asks(False, 1, 3)
    else:
        trace.app_begins(4, 3, version)
    trace.decides(True, 5 + 2 * bump, version=version)
    result = trace.result("T12")
    assert (result.status, result.tested) == ("held", 2)


@pytest.mark.parametrize(
    ("asked_before", "unanswered", "excused"), [(False, UNSET, False), (True, UNSET, False), (True, 1, True)]
)
def test_the_rest_of_a_transaction_that_was_aborted(
    asked_before: bool, unanswered: int | UnsetType, excused: bool
) -> None:
    """Shows that the commit of what an application sent after the abort of its transaction violates T12. It is excused
    where an earlier request for an abort got no answer, and may have come late, of a producer with one epoch for all
    its transactions."""
    trace = TransactionTrace()
    trace.app_begins(version=1)
    if asked_before:
        trace.app_asks(False)
        trace.app_told(False, "fail", unanswered=unanswered)
        trace.app_begins(2, 3, 1)
    trace.begins(version=1)
    trace.decides(False, 3, version=1)
    trace.state("PrepareAbort", "CompleteAbort", 3, (), version=1)
    trace.state("CompleteAbort", "Ongoing", 3, version=1)
    trace.app_asks(True, 2)
    trace.decides(True, 3, version=1)
    result = trace.result("T12")
    assert (bool(result.violated), bool(result.excused)) == (not excused, excused)


@pytest.mark.parametrize(("reason", "status"), [("last-stable-offset", "held"), ("diverge", "violated")])
def test_a_marker_of_a_former_transaction_that_is_appended_again(reason: str, status: str) -> None:
    """Shows that a marker which a leader has cut off and appends again says nothing of the present transaction, whose
    producer epoch it has; and that one of another origin does."""
    trace = TransactionTrace(features={"kafka-7408": "seed"})
    trace.begins(4)
    trace.write("a", epoch=4)
    trace.truncate("broker-1", 0, reason=reason)
    trace.ends("commit", 4)
    trace.change(1, 1, isr=(1,), cause="alter-isr", partition_epoch=2)
    trace.decides(False, 5)
    trace.ends("abort", 5)
    trace.completes(False, 5)
    assert trace.result("T5").status == status


def test_a_marker_after_a_leader_is_in_order_again() -> None:
    """Shows that T5 looks at markers again once the controller knows of the cut."""
    trace = TransactionTrace(features={"kafka-7408": "seed"})
    trace.begins(4)
    trace.write("a", epoch=4)
    trace.truncate("broker-1", 0, reason="last-stable-offset")
    trace.change(1, 1, isr=(1,), cause="alter-isr", partition_epoch=2)
    trace.ends("commit", 5)
    trace.decides(False, 5)
    trace.completes(False, 5)
    assert trace.result("T5").status == "violated"


def test_an_older_decision_that_is_read_again() -> None:
    """Shows that T12 takes a decision that it knows for that, also when a coordinator reads it after a newer one: it
    was elected uncleanly."""
    trace = TransactionTrace()
    trace.app_begins()
    trace.begins()
    trace.app_asks(True)
    trace.decides(True)
    trace.app_told(True)
    trace.app_begins(2, 4)
    trace.state("CompleteCommit", "Ongoing", 4)
    trace.app_asks(True, 2, 4)
    trace.decides(True, 5)
    trace.loads("PrepareCommit", 4, 2)
    assert trace.result("T12").status == "held"


@pytest.mark.parametrize(("asks", "status"), [(True, "held"), (False, "violated")])
def test_epochs_that_come_again(asks: bool, status: str) -> None:
    """Shows that T12 knows what an application asks for in a producer epoch that is less than all those which it
    remembers: an unclean election of the transaction log has taken these back."""
    trace = TransactionTrace()
    for number, epoch in enumerate((*range(20, 30), 3)):
        trace.app_begins(number, epoch)
        trace.state("CompleteCommit", "Ongoing", epoch)
        if asks or epoch != 3:
            trace.app_asks(True, number, epoch)
        trace.decides(True, epoch + 1)
        if asks or epoch != 3:
            trace.app_told(True, number=number, epoch=epoch)
        trace.completes(True, epoch + 1)
    assert trace.result("T12").status == status


@pytest.mark.parametrize(("led", "status"), [(0, "held"), (1, "violated")])
def test_a_leader_that_has_been_replaced(led: int, status: str) -> None:
    """Shows that T5 does not count what a leader appends that has been replaced and does not know: a late marker of the
    transaction before. One that leads is judged by it."""
    trace = TransactionTrace()
    trace.begins(partitions=BOTH)
    trace.change(2, 1, cause="unclean", isr=(2,))
    trace.write("a", led=led)
    trace.write("b", tp=OTHER_TP)
    trace.ends("commit", led=led)
    trace.ends("abort", tp=OTHER_TP)
    trace.ends("abort", led=1, broker=2)
    assert trace.result("T5").status == status


@pytest.mark.parametrize(("completed", "status"), [(True, "held"), (False, "violated")])
def test_a_decision_of_which_only_the_next_coordinator_tells(completed: bool, status: str) -> None:
    """Shows that T12 takes a decision that a coordinator reads for one of the transaction that is open, if the one
    before, of the same epoch, is complete."""
    trace = TransactionTrace()
    trace.app_begins(version=1)
    trace.begins(version=1)
    trace.app_asks(True)
    trace.decides(True, 3, version=1)
    trace.app_told(True)
    if completed:
        trace.completes(True, 3, version=1)
    trace.app_begins(2, 3, 1)
    trace.state("CompleteCommit", "Ongoing", 3, version=1)
    trace.app_asks(True, 2)
    trace.loads("PrepareCommit", 3, 3, version=1)
    trace.app_told(True, number=2)
    assert trace.result("T12").status == status


def of_second_coordinator() -> TransactionTrace:
    """A transaction has records in two partitions, below transaction.version 2, of a coordinator that was replaced."""
    trace = TransactionTrace()
    trace.state("CompleteCommit", "Ongoing", 3, BOTH, version=1, node="broker-2", coordinator_epoch=1)
    trace.write("a")
    trace.write("b", tp=OTHER_TP)
    return trace


@pytest.mark.parametrize("loads", [False, True])
@pytest.mark.parametrize(("coordinator_epoch", "violated"), [(0, 0), (1, 1)])
def test_an_end_that_a_replaced_coordinator_learns_late(loads: bool, coordinator_epoch: int, violated: int) -> None:
    """Shows that T5 does not take what a coordinator tells that was replaced before the transaction began for its end:
    it is that of an earlier one of the same epoch."""
    trace = of_second_coordinator()
    if loads:
        trace.ends("abort", 3)
        trace.ends("abort", 3, tp=OTHER_TP)
        trace.loads("CompleteCommit", 3, 3, (), version=1, coordinator_epoch=coordinator_epoch)
    else:
        trace.completes(True, 3, version=1, coordinator_epoch=coordinator_epoch)
    assert trace.result("T5").violated == violated


def test_a_beginning_that_a_replaced_coordinator_learns_late() -> None:
    """Shows that T5 does not begin anew with it, and sees that the partitions have markers of two kinds."""
    trace = of_second_coordinator()
    trace.ends("abort", 3)
    trace.state("CompleteCommit", "Ongoing", 3, version=1)
    trace.ends("commit", 3, tp=OTHER_TP)
    assert trace.result("T5").violated == 1


@pytest.mark.parametrize(("found", "status"), [("CompleteCommit", "held"), ("PrepareCommit", "violated")])
def test_a_completion_of_which_only_the_next_coordinator_tells(found: Any, status: str) -> None:
    """Shows that T12 knows that a transaction is complete from a coordinator that finds it so, too, and takes what the
    coordinator after that one reads for a decision on the next transaction."""
    trace = TransactionTrace()
    trace.app_begins(version=1)
    trace.begins(version=1)
    trace.app_asks(True)
    trace.decides(True, 3, version=1)
    trace.loads(found, 3, 3, (), version=1)
    trace.app_told(True)
    trace.app_begins(2, 3, 1)
    trace.state("CompleteCommit", "Ongoing", 3, version=1, node="broker-2", coordinator_epoch=1, offset=3)
    trace.app_asks(True, 2)
    trace.loads("PrepareCommit", 3, 5, version=1, node="broker-3", coordinator_epoch=2)
    trace.app_told(True, number=2)
    assert trace.result("T12").status == status


@pytest.mark.parametrize(
    ("version", "late", "status"), [(1, True, "excused"), (1, False, "violated"), (2, True, "violated")]
)
def test_a_marker_of_a_former_transaction(version: int, late: bool, status: str) -> None:
    """Shows that T5 excuses a partition which the marker of a former transaction ended in another way, below
    transaction.version 2, if it was sent before this one began; and nothing else."""
    trace = TransactionTrace()
    trace.lead(1)
    before = trace.counted(True, 3)
    after = trace.begins(3, (TP, OTHER_TP), version=version)
    trace.write("a", epoch=3)
    trace.write("b", epoch=3, tp=OTHER_TP)
    trace.cause = before if late else after
    trace.ends("commit", 3)
    trace.cause = trace.decides(False, 3, (TP, OTHER_TP), version=version)
    trace.ends("abort", 3, tp=OTHER_TP)
    trace.cause = ""
    trace.completes(False, 3, version=version)
    assert trace.result("T5").status == status
