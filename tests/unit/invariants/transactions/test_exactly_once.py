"""T15: one committed output for each record that is processed exactly once."""

from __future__ import annotations

import pytest
from msgspec import UNSET, UnsetType

from actors.trace.events import CommittedReturn, GrpCommit, LogStart, PartChange, Polled, PollReturn, SendInvoke
from tests.unit.invariants.transactions.stage import STATE, TransactionTrace

ORDERS, COPIES, POSITIONS = "orders-0", "copies-0", "__consumer_offsets-0"
GROUPS = {"copier": {"members": ["app-1", "app-2"], "partitions": [ORDERS]}}


class Copier(TransactionTrace):
    """A group that copies orders-0 to copies-0, record by record, and consumer-1 that reads that."""

    def __init__(self, least: int = 1) -> None:
        config = {"min.insync.replicas": least}
        super().__init__(groups=GROUPS, transactional=["app-1", "app-2"], config=config)
        self.emit("broker-1", GrpCommit(ORDERS, "copier", POSITIONS, 0, "app-1", 0, 0))
        self.state("Empty", "Ongoing")

    def polled(self, node: str, tp: str, offset: int, *uids: str, isolation: int = 1) -> None:
        records = [Polled(offset + at, 0, uid) for at, uid in enumerate(uids)]
        self.emit(node, PollReturn("op", "ok", 0, tp, offset, isolation, 0, "broker-1", records=records))

    def processed(self, offset: int, uid: str, output: str, node: str = "app-1") -> None:
        """A member reads a record and sends its output."""
        self.polled(node, ORDERS, offset, uid)
        self.emit(node, SendInvoke(f"op-{output}", COPIES, output, -1, copy_of=uid, transactional_id="app-1"))

    def elected(self, tp: str, cause: str = "unclean") -> None:
        self.emit("controller-1", PartChange(tp, 5, 1, 2, 1, 1, [2], [1, 2, 3], cause))  # type: ignore[arg-type]


def three(second: str = "app-1:1", least: int = 1) -> Copier:
    """Three records are processed; ``second``: the output of the second one that is visible."""
    trace = Copier(least)
    for number in range(3):
        trace.processed(40 + number, f"p:{number}", f"app-1:{number}")
    outputs = [uid for uid in ("app-1:0", second, "app-1:2") if uid]
    trace.polled("consumer-1", COPIES, 7, *outputs)
    return trace


def test_each_has_one() -> None:
    """Shows that T15 is held if each record has one visible output, however many readers get it, and again."""
    trace = three()
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:1", "app-1:2")
    trace.polled("consumer-2", COPIES, 8, "app-1:1")
    result = trace.result("T15")
    assert (result.status, result.tested) == ("held", 3)


def test_two_outputs() -> None:
    """Shows that a second visible output violates T15, with both."""
    trace = three()
    trace.processed(41, "p:1", "app-2:0", node="app-2")
    trace.polled("consumer-1", COPIES, 10, "app-2:0")
    (finding,) = trace.result("T15").violations
    assert finding.sentence == (
        "p:1 at 41 of orders-0 has two committed outputs for group copier: app-1:1 at 8 and app-2:0 at 10 of copies-0"
    )


def test_a_second_output_that_was_aborted() -> None:
    """Shows that a record may be processed again, as long as nobody at read_committed sees both."""
    trace = Copier()
    trace.processed(40, "p:0", "app-1:0")
    trace.processed(40, "p:0", "app-2:0", node="app-2")
    trace.polled("consumer-1", COPIES, 9, "app-2:0")
    trace.polled("consumer-2", COPIES, 7, "app-1:0", isolation=0)
    assert trace.result("T15").status == "held"


def test_a_record_at_another_offset_is_another_one() -> None:
    """Shows that a record that stands twice in the input has an output for each."""
    trace = three()
    trace.processed(50, "p:1", "app-1:9")
    trace.polled("consumer-1", COPIES, 10, "app-1:9")
    assert trace.result("T15").status == "held"


def test_a_record_that_a_poll_has_twice() -> None:
    """Shows that the outputs of a record that stands twice in one poll are for the two places, in order, and that a
    third output is one too many."""
    trace = Copier()
    trace.polled("app-1", ORDERS, 40, "p:0", "p:1", "p:0", "p:1")
    for number, uid in enumerate(("p:0", "p:1", "p:0", "p:1", "p:1")):
        trace.emit("app-1", SendInvoke("op", COPIES, f"app-1:{number}", -1, copy_of=uid, transactional_id="app-1"))
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:1", "app-1:2", "app-1:3")
    assert trace.result("T15").status == "held"
    trace.polled("consumer-1", COPIES, 11, "app-1:4")
    assert trace.result("T15").violated == 1


def test_no_output() -> None:
    """Shows that T15 is violated at the end where a reader has passed a record without output."""
    (finding,) = three(second="").result("T15").violations
    assert finding.sentence == "p:1 at 41 of orders-0 has no committed output for group copier, but later records have"


@pytest.mark.parametrize(
    ("commits", "start", "how", "status"),
    [
        (False, 42, "at once", "held"),
        (False, 41, "at once", "violated"),
        (True, 42, "at once", "violated"),
        (False, 42, "after later inputs", "violated"),
        (False, 42, "before", "held"),
        (True, 42, "before", "violated"),
    ],
)
def test_an_input_that_was_deleted(commits: bool, start: int, how: str, status: str) -> None:
    """Shows that an input needs no output if its transaction was aborted, and it was deleted before the group went on,
    even while it was on its way to the member; not if the transaction was committed, and not if the group left it out
    first."""
    trace = Copier()
    trace.processed(40, "p:0", "app-1:0")
    trace.decides(True)
    if how == "before":
        trace.emit("broker-1", LogStart(ORDERS, start, "delete-records", 0))
    trace.processed(41, "p:1", "app-1:1")
    trace.decides(commits)
    if how == "at once":
        trace.emit("broker-1", LogStart(ORDERS, start, "delete-records", 0))
    trace.processed(42, "p:2", "app-1:2")
    if how == "after later inputs":
        trace.emit("broker-1", LogStart(ORDERS, start, "delete-records", 0))
    trace.decides(True)
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:2")
    assert trace.result("T15").status == status


@pytest.mark.parametrize(("start", "status"), [(9, "held"), (8, "violated")])
def test_an_output_that_was_deleted(start: int, status: str) -> None:
    """Shows that a reader may miss an output that was deleted before it got there."""
    trace = Copier()
    for number in range(3):
        trace.processed(40 + number, f"p:{number}", f"app-1:{number}")
    trace.decides(True)
    trace.polled("consumer-1", COPIES, 7, "app-1:0")
    trace.emit("broker-1", LogStart(COPIES, start, "delete-records", 0))
    trace.polled("consumer-1", COPIES, 9, "app-1:2")
    assert trace.result("T15").status == status


def test_a_reader_that_goes_on_elsewhere() -> None:
    """Shows that a reader which went back, or began anew, has passed only what it got since."""
    trace = Copier()
    for number in range(3):
        trace.processed(40 + number, f"p:{number}", f"app-1:{number}")
    trace.polled("consumer-1", COPIES, 9, "app-1:2")
    trace.polled("consumer-1", COPIES, 7, "app-1:0")
    assert trace.result("T15").status == "held"


@pytest.mark.parametrize(
    ("elected", "status"),
    [(ORDERS, "excused"), (COPIES, "excused"), (POSITIONS, "excused"), (STATE, "excused"), ("other-0", "violated")],
)
def test_what_an_unclean_election_excuses(elected: str, status: str) -> None:
    """Shows that one of a partition that knows what was processed excuses a second output, and no other one does."""
    trace = three()
    trace.elected(elected)
    trace.processed(41, "p:1", "app-2:0", node="app-2")
    trace.polled("consumer-1", COPIES, 10, "app-2:0")
    assert trace.result("T15").status == status


@pytest.mark.parametrize(("least", "status"), [(1, "excused"), (2, "violated")])
def test_what_a_disk_that_loses_its_end_excuses(least: int, status: str) -> None:
    """Shows that one disk excuses a second output only if no second replica must have what it lost."""
    trace = three(least=least)
    trace.down("broker-2", "lossy", lost={POSITIONS: 1})
    trace.processed(41, "p:1", "app-2:0", node="app-2")
    trace.polled("consumer-1", COPIES, 10, "app-2:0")
    assert trace.result("T15").status == status


@pytest.mark.parametrize(("elected", "cause"), [(POSITIONS, "election"), (POSITIONS, "unclean")])
def test_an_election_that_excuses_nothing(elected: str, cause: str) -> None:
    """Shows that a clean election excuses nothing, nor does an unclean one before the first output was sent."""
    trace = Copier()
    trace.elected(elected, cause)
    trace.processed(41, "p:1", "app-1:0")
    if cause == "election":
        trace.elected(elected, cause)
    trace.polled("consumer-1", COPIES, 7, "app-1:0")
    trace.processed(41, "p:1", "app-2:0", node="app-2")
    trace.polled("consumer-1", COPIES, 8, "app-2:0")
    assert trace.result("T15").status == "violated"


@pytest.mark.parametrize(
    ("elected", "cause", "status"),
    [(ORDERS, "unclean", "held"), (ORDERS, "election", "violated"), (COPIES, "unclean", "violated")],
)
def test_inputs_that_an_unclean_election_replaced(elected: str, cause: str, status: str) -> None:
    """Shows that a reader which got outputs before the inputs' log lost its end has not passed what stands there now,
    and that no other election changes what a reader has passed."""
    trace = Copier()
    for number in range(3):
        trace.processed(40 + number, f"p:{number}", f"app-1:{number}")
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:1", "app-1:2")
    trace.elected(elected, cause)
    trace.processed(41, "q:1", "app-1:3")
    assert trace.result("T15").status == status


def test_outputs_of_replaced_inputs_that_are_read_late() -> None:
    """Shows that outputs which were sent before the inputs' log lost its end, and are read after that, say nothing of
    what stands there now."""
    trace = Copier()
    for number in range(3):
        trace.processed(40 + number, f"p:{number}", f"app-1:{number}")
    trace.elected(ORDERS)
    trace.processed(41, "q:1", "app-1:3")
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:1", "app-1:2")
    assert trace.result("T15").status == "held"


def test_a_reader_that_goes_on_after_the_inputs_were_replaced() -> None:
    """Shows that it has passed an input without output where it got later ones since."""
    trace = Copier()
    trace.elected(ORDERS)
    for number in range(3):
        trace.processed(40 + number, f"q:{number}", f"app-1:{number}")
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:2")
    assert trace.result("T15").status == "violated"


@pytest.mark.parametrize(
    ("version", "late", "status"), [(1, True, "excused"), (1, False, "violated"), (2, True, "violated")]
)
def test_a_marker_of_a_former_transaction(version: int, late: bool, status: str) -> None:
    """Shows that a second output is excused where a transaction in its partition ended by the marker of a former one,
    below transaction.version 2, and not where the marker was sent after the transaction began."""
    trace = Copier()
    before = trace.counted(True, 3)
    after = trace.state("CompleteCommit", "Ongoing", version=version)
    trace.processed(41, "p:1", "app-1:0")
    trace.cause = before if late else after
    trace.write(marker="commit", epoch=3, tp=COPIES)
    trace.cause = ""
    trace.polled("consumer-1", COPIES, 7, "app-1:0")
    trace.processed(41, "p:1", "app-2:0", node="app-2")
    trace.polled("consumer-1", COPIES, 9, "app-2:0")
    assert trace.result("T15").status == status


@pytest.mark.parametrize(
    ("version", "unanswered", "epoch", "asked", "status"),
    [
        (1, 1, 4, False, "excused"),
        (1, UNSET, 4, False, "violated"),
        (1, 1, 3, False, "violated"),
        (1, 1, 4, True, "violated"),
        (2, 1, 4, False, "violated"),
    ],
)
def test_an_end_that_was_asked_for_a_former_transaction(
    version: int, unanswered: int | UnsetType, epoch: int, asked: bool, status: str
) -> None:
    """Shows that a missing output is excused below transaction.version 2 where its transaction was aborted after an
    earlier request to abort one of the same epoch got no answer; not if all got one, or it was of another epoch, or to
    commit."""
    trace = Copier()
    trace.app_told(asked, epoch=epoch, unanswered=unanswered)
    for number, commits in enumerate((True, False, True)):
        trace.processed(40 + number, f"p:{number}", f"app-1:{number}")
        trace.decides(commits, version=version)
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:2")
    assert trace.result("T15").status == status


@pytest.mark.parametrize(
    ("asked", "unanswered", "status"), [(False, 1, "violated"), (False, 2, "excused"), (True, 1, "excused")]
)
def test_a_request_that_comes_late_comes_once(asked: bool, unanswered: int, status: str) -> None:
    """Shows that a request without an answer excuses one end that was not asked for, and no second one; and that an end
    which its application did ask for takes nothing off."""
    trace = Copier()
    trace.app_told(False, epoch=4, unanswered=unanswered)
    trace.app_begins(2, 4, 1)
    if asked:
        trace.app_asks(False, 2, 4)
    trace.decides(False, version=1)
    trace.app_begins(3, 4, 1)
    for number, commits in enumerate((True, False, True)):
        trace.processed(40 + number, f"p:{number}", f"app-1:{number}")
        trace.decides(commits, version=1)
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:2")
    assert trace.result("T15").status == status


@pytest.mark.parametrize(("unanswered", "status"), [(1, "excused"), (UNSET, "violated")])
def test_an_end_of_which_only_the_next_coordinator_tells(unanswered: int | UnsetType, status: str) -> None:
    """Shows that T15 knows of a decision from a coordinator that has read it, where the one that decided so did not
    live to say it: the next decision is on another transaction."""
    trace = Copier()
    trace.app_told(False, epoch=4, unanswered=unanswered)
    trace.processed(40, "p:0", "app-1:0")
    trace.decides(True, version=1)
    trace.completes(True, version=1)
    trace.app_begins(2, 4, 1)
    trace.processed(41, "p:1", "app-1:1")
    trace.loads("PrepareAbort", 4, 9, version=1)
    trace.app_begins(3, 4, 1)
    trace.processed(42, "p:2", "app-1:2")
    trace.decides(True, version=1, node="broker-2", coordinator_epoch=1, offset=12)
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:2")
    assert trace.result("T15").status == status


@pytest.mark.parametrize(("unanswered", "status"), [(1, "violated"), (2, "excused")])
def test_an_end_of_which_the_next_coordinator_tells_again(unanswered: int, status: str) -> None:
    """Shows that T15 does not take what a coordinator reads for another decision if it is known: it is no other late
    request, and the outputs that are sent after it are of the next transaction."""
    trace = Copier()
    trace.app_told(False, epoch=4, unanswered=unanswered)
    trace.app_begins(2, 4, 1)
    trace.decides(False, version=1)
    trace.processed(40, "p:0", "app-1:0")
    trace.loads("PrepareAbort", 4, 9, version=1)
    trace.decides(True, version=1, node="broker-2", coordinator_epoch=1, offset=12)
    trace.app_begins(3, 4, 1)
    trace.processed(41, "p:1", "app-1:1")
    trace.decides(False, version=1, node="broker-2", coordinator_epoch=1, offset=15)
    trace.processed(42, "p:2", "app-1:2")
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:2")
    assert trace.result("T15").status == status


def test_the_wish_of_a_former_process() -> None:
    """Shows that what a process asks for which was replaced says nothing of its successor."""
    trace = Copier()
    trace.app_told(False, epoch=4, unanswered=1)
    trace.app_begins(2, 4, 1)
    trace.app_asks(False, 2, 4)
    trace.app_begins(1, 3, 1)
    trace.app_asks(True, 1, 3)
    trace.decides(False, version=1)
    trace.app_begins(3, 4, 1)
    for number, commits in enumerate((True, False, True)):
        trace.processed(40 + number, f"p:{number}", f"app-1:{number}")
        trace.decides(commits, version=1)
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:2")
    assert trace.result("T15").status == "excused"


@pytest.mark.parametrize(
    ("broker", "told", "status"),
    [("broker-2", 40, "excused"), ("broker-1", 40, "violated"), ("broker-2", 42, "violated")],
)
def test_positions_of_a_replaced_coordinator(broker: str, told: int, status: str) -> None:
    """Shows that a second output is excused where a coordinator that was replaced gave the member a position from
    before the last commit of its group; not by the one that leads, and not where the position was the last one."""
    trace = three()
    trace.emit("broker-1", GrpCommit(ORDERS, "copier", POSITIONS, 1, "app-1", 0, 42))
    trace.emit("controller-1", PartChange(POSITIONS, 9, 1, 1, 3, 3, [1], [1, 2, 3], "fence"))
    trace.req = f"app-1>{broker}:coordinator:0.0#7"
    trace.emit("app-1", CommittedReturn("op", "ok", 0, "copier", [ORDERS], {ORDERS: (told, 0, -1)}))
    trace.req = ""
    trace.processed(41, "p:1", "app-1:9")
    trace.polled("consumer-1", COPIES, 10, "app-1:9")
    assert trace.result("T15").status == status


def test_a_marker_of_a_former_transaction_hides_an_output() -> None:
    """Shows that a missing output is excused where such a marker ended its transaction in the partition of outputs."""
    trace = Copier()
    before = trace.counted(True, 3)
    trace.state("CompleteCommit", "Ongoing", version=1)
    for number in range(3):
        trace.processed(40 + number, f"p:{number}", f"app-1:{number}")
    trace.cause = before
    trace.write(marker="abort", epoch=3, tp=COPIES)
    trace.cause = ""
    trace.polled("consumer-1", COPIES, 7, "app-1:0", "app-1:2")
    assert trace.result("T15").excused == {"marker-of-former": 1}
