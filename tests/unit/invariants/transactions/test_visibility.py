"""T6, T7 and T14: what is seen of transactions, and when."""

from __future__ import annotations

from actors.trace.events import GrpCommit, GrpFetch, LogStart, PartAssume, ReplyPartition, RpcReply
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.invariants.mirrors.position_records import REMEMBERED
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import PRODUCER, TransactionTrace

OFFSETS = "__consumer_offsets-0"
GROUP = "g"


def ended(kind: str = "", committed: int = 0) -> TransactionTrace:
    """A record of a transaction at 0, a marker at 1 if it has ended, a plain record behind that; ``committed``: up to
    there."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.begins()
    trace.write("a")
    if kind:
        trace.decides(kind == "commit")
        trace.ends(kind)  # type: ignore[arg-type]
    trace.append("broker-1", "b")
    trace.high_watermark("broker-1", committed)
    return trace


def test_who_reads_committed_transactions() -> None:
    """Shows that T6 is held, tested by a poll, for a record of a committed transaction, and violated for one of an
    aborted or an open one."""
    trace = ended("commit", 3)
    trace.reads((0, "a"), (2, "b"))
    result = trace.result("T6")
    assert (result.status, result.tested) == ("held", 1)
    for kind, words in (("abort", "an aborted transaction"), ("", "an open transaction")):
        trace = ended(kind, 3 if kind else 2)
        trace.reads((0, "a"))
        (finding,) = trace.result("T6").violations
        assert finding.sentence == f"consumer-1 got a at 0 of orders-0, but the record is in {words}"


def test_who_reads_all_of_them() -> None:
    """Shows that read_uncommitted is told everything, which tests nothing."""
    trace = ended("abort", 3)
    trace.reads((0, "a"), isolation=0)
    assert trace.result("T6").status == "vacuous"


def tells(trace: TransactionTrace, offset: int) -> str:
    """Broker-1 tells an offset as the latest one at read_committed."""
    told = ReplyPartition(TP, 0, offset, timestamp=-1, leader_epoch=0)
    return trace.emit("broker-1", RpcReply("ListOffsets", 9, "client", "c", 1, -1, 1, 0, [told]))


def test_the_last_stable_offset() -> None:
    """Shows that T7 is held if it is where the open transaction begins, or the high watermark when the marker is below
    that, and violated by anything else."""
    for kind, committed, right in (("", 2, 0), ("abort", 1, 0), ("abort", 2, 2), ("commit", 3, 3)):
        trace = ended(kind, committed)
        tells(trace, right)
        assert (trace.result("T7").status, trace.result("T7").tested) == ("held", 1)
        trace = ended(kind, committed)
        tells(trace, right + 1)
        assert trace.result("T7").status == "violated"


def test_the_last_stable_offset_of_a_log_that_starts_in_an_open_transaction() -> None:
    """Shows that it is the log start then, and neither where the transaction began nor the high watermark."""
    for told, status in ((1, "held"), (0, "violated"), (2, "violated")):
        trace = ended("", 2)
        trace.emit("broker-1", LogStart(TP, 1, "delete-records", 0))
        tells(trace, told)
        assert trace.result("T7").status == status


def test_a_reader_beyond_the_last_stable_offset() -> None:
    """Shows that it violates T7, also with a record that is in no transaction."""
    trace = ended("", 2)
    trace.reads((1, "b"))
    assert trace.result("T7").violations[0].sentence == (
        "consumer-1 got offset 1 of orders-0 at read_committed from broker-1, but the last stable offset there was 0 "
        "(high watermark 2)"
    )


# ---- offsets in transactions -------------------------------------------------------------------------------


def commits(trace: TransactionTrace, offset: int, transactional: bool) -> None:
    """The group commits a position, outside of transactions or in that of producer 7."""
    at = trace.log_end("broker-1", OFFSETS)
    if transactional:
        trace.write(f"o{at}", tp=OFFSETS)
    else:
        trace.append("broker-1", f"o{at}", tp=OFFSETS)
    producer = (PRODUCER, 3) if transactional else (-1, -1)
    body = GrpCommit(TP, GROUP, OFFSETS, 0, "m", 1, offset, 0, -1, 0, at, *producer)
    trace.emit("broker-1", body)


def told(trace: TransactionTrace, offset: int, stable: bool = False) -> str:
    """What T14 has to say if the coordinator tells a position; "" nothing."""
    entries = {TP: [offset, 0, -1]}
    end = trace.log_end("broker-1", OFFSETS) if stable else -1
    trace.emit("broker-1", GrpFetch(GROUP, OFFSETS, 0, 0, entries, end))
    result = trace.result("T14")
    assert result.tested == 1
    return result.violations[0].sentence if result.violated else ""


def in_transaction(marker: str = "", committed: bool = True) -> TransactionTrace:
    """25 is committed, and then 40 in a transaction, which has ended so."""
    trace = TransactionTrace(groups={GROUP: {"members": [], "partitions": [TP]}})
    trace.change(1, 0)
    end, node = 0, "broker-1"
    trace.emit(node, _leads())
    commits(trace, 25, False)
    commits(trace, 40, True)
    if marker:
        trace.ends(marker, tp=OFFSETS)  # type: ignore[arg-type]
    end = trace.log_end(node, OFFSETS)
    trace.high_watermark(node, end if committed else 0, tp=OFFSETS)
    return trace


def _leads() -> PartAssume:
    return PartAssume(OFFSETS, "leader", 1, 0, 0, 0, 0, 0, 10, 0)


def test_a_position_of_a_transaction() -> None:
    """Shows that T14 is held if it is told when its transaction is committed, and the one before it until then."""
    assert told(in_transaction("commit"), 40) == ""
    assert told(in_transaction("abort"), 25) == ""
    assert told(in_transaction(), 25) == ""


def test_a_position_of_no_committed_transaction() -> None:
    """Shows that one of an open or of an aborted transaction violates T14."""
    assert told(in_transaction(), 40).endswith("for orders-0, but 40, at 1, belongs to a transaction that is open")
    assert told(in_transaction("abort"), 40).endswith(
        "for orders-0, but 40, at 1, belongs to a transaction that is aborted"
    )


def test_a_position_before_a_committed_transaction() -> None:
    """Shows that it violates T14 once the marker is committed, and not before."""
    assert told(in_transaction("commit"), 25).endswith("for orders-0, but a committed transaction has 40, at 1")
    assert told(in_transaction("commit", committed=False), 25) == ""


def test_what_a_former_coordinator_appends_takes_nothing_away() -> None:
    """Shows that a coordinator which does not know that it was replaced changes nothing in the log of its successor."""
    trace = in_transaction("commit")
    trace.emit("broker-2", GrpCommit(TP, GROUP, OFFSETS, -1, "m", 1, 7, 0, -1, 0, 1))
    assert told(trace, 25).endswith("for orders-0, but a committed transaction has 40, at 1")


def aborted_often(first: str) -> TransactionTrace:
    """25 is committed, then 40 in a transaction that ends so, and then 40 in more transactions than are remembered, all
    of which are aborted."""
    trace = in_transaction(first)
    for _ in range(REMEMBERED + 1):
        commits(trace, 40, True)
        trace.ends("abort", tp=OFFSETS)
        trace.high_watermark("broker-1", trace.log_end("broker-1", OFFSETS), tp=OFFSETS)
    return trace


def test_a_position_that_was_committed_and_then_aborted_again_and_again() -> None:
    """Shows that T14 is held if it is told, and violated by the one before, however often it was aborted since."""
    assert told(aborted_often("commit"), 40) == ""
    assert told(aborted_often("commit"), 25).endswith("for orders-0, but a committed transaction has 40, at 1")


def test_a_position_that_was_only_ever_aborted() -> None:
    """Shows that it violates T14 however often it was, and that the position before all of them does not."""
    assert told(aborted_often("abort"), 40).endswith("belongs to a transaction that is aborted")
    assert told(aborted_often("abort"), 25) == ""


def commits_many() -> TransactionTrace:
    """40 is committed, and an open transaction has more positions than are remembered, from 41 on."""
    trace = in_transaction("commit")
    for position in range(41, 41 + REMEMBERED + 1):
        commits(trace, position, True)
    trace.high_watermark("broker-1", trace.log_end("broker-1", OFFSETS), tp=OFFSETS)
    return trace


def test_a_position_in_a_transaction_that_commits_many_of_them() -> None:
    """Shows that the one before the transaction is in effect, and the first in an open one is as little as its last."""
    assert told(commits_many(), 40) == ""
    assert told(commits_many(), 25).endswith("for orders-0, but a committed transaction has 40, at 1")
    assert "41, at 3, belongs to a transaction that is open" in told(commits_many(), 41)


def test_a_consumer_asks_for_what_is_stable_where_it_can() -> None:
    """Shows that a request without RequireStable violates T14 from the version on that has it, if it is answered."""

    def asks(version: int, error: int = 0, end: int = -1) -> InvariantResult:
        trace = in_transaction()
        trace.emit("broker-1", GrpFetch(GROUP, OFFSETS, 0, error, {TP: [25, 0, -1]}, end, version))
        return trace.result("T14")

    assert [asks(version).violated for version in (-1, 6, 7, 9)] == [0, 0, 1, 1]
    assert asks(9, error=16).violated == asks(9, end=0).violated == 0
    assert asks(9).violations[0].sentence == (
        "a consumer asked broker-1 for committed offsets of group g, by OffsetFetch version 9, without RequireStable"
    )


def test_who_asks_for_what_is_stable() -> None:
    """Shows that RequireStable is told nothing while a transaction is open."""
    assert "with RequireStable, although an open transaction" in told(in_transaction(), 25, stable=True)
    assert told(in_transaction("commit"), 40, stable=True) == ""


def test_an_unclean_election_excuses_no_later_position() -> None:
    """Shows that what a coordinator tells of a transaction that came after an unclean election violates T14."""
    trace = TransactionTrace(groups={GROUP: {"members": [], "partitions": [TP]}})
    trace.change(2, 0, tp=OFFSETS)
    trace.emit("broker-2", PartAssume(OFFSETS, "leader", 2, 0, 0, 0, 0, 0, 10, 0))
    trace.append("broker-2", "lost", tp=OFFSETS)
    trace.high_watermark("broker-2", 1, tp=OFFSETS)
    trace.change(1, 1, isr=(1,), cause="unclean", tp=OFFSETS)
    trace.emit("broker-1", PartAssume(OFFSETS, "leader", 1, 1, 1, 0, 0, 0, 10, 0))
    trace.write("o0", tp=OFFSETS, led=1)
    trace.emit("broker-1", GrpCommit(TP, GROUP, OFFSETS, 1, "m", 1, 40, 0, -1, 0, 0, PRODUCER, 3))
    trace.high_watermark("broker-1", 1, epoch=1, tp=OFFSETS)
    trace.emit("broker-1", GrpFetch(GROUP, OFFSETS, 1, 0, {TP: [40, 0, -1]}, -1))
    result = trace.result("T14")
    assert (result.violated, result.excused) == (1, {})
