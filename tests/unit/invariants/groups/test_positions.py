"""O3 and O6: what is committed, beside what was delivered and what is there."""

from __future__ import annotations

from typing import Literal

import pytest

from actors.trace.events import ConsPos
from tests.unit.invariants.groups.stage import ONE, GroupTrace
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import TransactionTrace


def test_what_was_delivered_is_committed() -> None:
    """Shows that O3 is held, tested, from where a consumer began up to where its application was given records."""
    trace = GroupTrace()
    trace.lead(1)
    trace.moved(ONE, 10, "committed")
    trace.commits(10, how="auto")
    trace.polled(ONE, (10, "a"), (11, "b"))
    trace.commits(12)
    trace.commits(12, how="async")
    trace.polled(ONE, (12, "c"))
    trace.commits(13, how="auto")
    assert (trace.result("O3").status, trace.result("O3").tested) == ("held", 4)


@pytest.mark.parametrize(
    ("offset", "says"),
    [
        (13, "but it has read only up to 12"),
        (9, "but it began to read at 10"),
        (60, "but it has read only up to 12"),
        (11, "but it has read up to 12"),
    ],
)
def test_what_was_not_delivered_is_committed(offset: int, says: str) -> None:
    """Shows that a commit beyond what the application was given violates O3, as does one before where it began, or
    before the last record that it was given."""
    trace = GroupTrace()
    trace.lead(1)
    trace.moved(ONE, 10, "committed")
    by = trace.polled(ONE, (10, "a"), (11, "b"))
    trace.commits(offset)
    (finding,) = trace.result("O3").violations
    assert finding.events == [by, trace.events[-1].id]
    assert finding.sentence == f"consumer-1 commits {offset} for {TP} in group g, {says}"


def test_a_position_that_was_moved_back() -> None:
    """Shows that a consumer which was sent back may commit where it is, though it was given more before."""
    trace = GroupTrace()
    trace.lead(1)
    trace.moved(ONE, 10, "committed")
    trace.polled(ONE, (10, "a"), (11, "b"))
    trace.moved(ONE, 11, "truncation")
    trace.commits(11)
    assert trace.result("O3").status == "held"


@pytest.mark.parametrize(("feature", "judged"), [("kafka", True), ("seed", False)])
def test_the_epoch_of_the_last_record(feature: str, judged: bool) -> None:
    """Shows that a position with another leader epoch than that of the last record violates O3, where it has one."""
    for told, violated in ((3, False), (4, judged), (-1, judged)):
        trace = GroupTrace(features={"kip-232": feature})
        trace.lead(1)
        trace.moved(ONE, 10, "committed")
        trace.polled(ONE, (10, "a"), (11, "b"), batch_epoch=3)
        trace.commits(12, leader_epoch=told)
        assert (trace.result("O3").status == "violated") == violated
    assert not judged or trace.result("O3").violations[0].sentence.endswith(
        "with no leader epoch, but what it has read up to there ends with leader epoch 3"
    )


@pytest.mark.parametrize(("told", "status"), [(2, "held"), (3, "violated")])
def test_the_epoch_of_a_position_from_which_nothing_was_read(told: int, status: str) -> None:
    """Shows that it is the one with which the consumer began."""
    trace = GroupTrace(features={"kip-232": "kafka"})
    trace.lead(1)
    trace.emit(ONE, ConsPos(TP, -1, 10, 2, "committed"))
    trace.commits(10, leader_epoch=told)
    assert trace.result("O3").status == status


def test_the_epoch_behind_a_marker() -> None:
    """Shows that the leader epoch of a position that has passed a marker is not judged."""
    trace = TransactionsOfGroup(features={"kip-232": "kafka"})
    trace.lead(1)
    trace.write("a")
    trace.write(epoch=4, marker="commit")
    trace.high_watermark("broker-1", 2)
    trace.moved(ONE, 0, "committed")
    trace.polled(ONE, (0, "a"), batch_epoch=0)
    trace.commits(2, leader_epoch=5)
    assert trace.result("O3").status == "held"


def test_who_has_no_position_commits_none() -> None:
    """Shows that a partition that was given up, or that another incarnation read, is not committed any more."""
    trace = GroupTrace()
    trace.lead(1)
    trace.owns(ONE, TP)
    trace.moved(ONE, 10, "committed")
    trace.owns(ONE, "orders-1")
    trace.commits(10)
    assert trace.result("O3").violations[0].sentence.endswith("has no position")
    trace = GroupTrace()
    trace.lead(1)
    trace.moved(ONE, 10, "committed")
    trace.down(ONE)
    trace.up(ONE, "consumer")
    trace.commits(10)
    assert trace.result("O3").violated == 1


def test_a_partition_of_a_later_topic_of_that_name() -> None:
    """Shows that a commit by name of a partition that only the second topic of that name has is not judged: where the
    consumer began is told of that topic's partition."""
    trace = GroupTrace()
    trace.emit(ONE, ConsPos(f"{TP}@of-the-second", -1, 0, -1, "assign"))
    trace.commits(0)
    assert trace.result("O3").tested == 0


class TransactionsOfGroup(TransactionTrace, GroupTrace):
    """Verbs of transactions and of groups."""


@pytest.mark.parametrize(
    ("isolation", "marker", "offset", "status"),
    [
        ("read_uncommitted", "commit", 3, "held"),
        ("read_uncommitted", "commit", 4, "violated"),
        ("read_uncommitted", "abort", 3, "violated"),
        ("read_committed", "abort", 3, "held"),
    ],
)
def test_a_position_passes_what_nobody_is_given(
    isolation: str, marker: Literal["commit", "abort"], offset: int, status: str
) -> None:
    """Shows that a consumer may commit a position behind a marker, or at read_committed behind aborted records, which
    its application was not given; and none behind a record that it had to be given."""
    trace = TransactionsOfGroup(nodes={ONE: {"config": {"isolation.level": isolation}}})
    trace.lead(1)
    trace.append("broker-1", "a")
    trace.write("b")
    trace.write(epoch=4, marker=marker)
    trace.append("broker-1", "c")
    trace.high_watermark("broker-1", 4)
    trace.moved(ONE, 0, "committed")
    given = [(0, "a"), (1, "b")] if marker == "commit" else [(0, "a")]
    trace.polled(ONE, *given)
    trace.commits(offset)
    assert trace.result("O3").status == status


# ---- O6 ---------------------------------------------------------------------------------------------------------


def test_a_committed_position_is_there() -> None:
    """Shows that O6 is held, tested, up to the highest high watermark, and violated beyond it."""
    trace = GroupTrace()
    trace.lead(1)
    trace.replicate("a", "b")
    trace.high_watermark("broker-1", 2)
    trace.decides(2)
    trace.decides(9, -1, error=22)
    assert (trace.result("O6").status, trace.result("O6").tested) == ("held", 1)
    trace.decides(3, 1)
    (finding,) = trace.result("O6").violations
    assert finding.sentence.endswith("but no leader had a high watermark above 2")


def test_what_an_unclean_election_took_is_excused() -> None:
    """Shows that a position which was there before an unclean election may still be committed, and one beyond may
    not."""
    for offset, excused in ((2, {"unclean-election": 1}), (1, {})):
        trace = GroupTrace()
        trace.lead(1)
        trace.replicate("a")
        trace.high_watermark("broker-1", 1)
        trace.replicate("b", followers=())
        trace.high_watermark("broker-1", 2)
        trace.change(2, 1, [2], "unclean")
        trace.assume(2, 1)
        trace.decides(offset)
        assert trace.result("O6").excused == excused
        assert trace.result("O6").violated == 0
        trace.decides(3, 1)
        assert trace.result("O6").violated == 1


def given_up() -> TransactionsOfGroup:
    """Consumer-1 has read the record at 0, whose transaction was committed at 1; then broker-2, which has neither, is
    elected outside the ISR, and has another transaction there."""
    trace = TransactionsOfGroup()
    trace.lead(1)
    trace.begins()
    trace.write("a")
    trace.decides(True)
    trace.ends("commit")
    trace.high_watermark("broker-1", 2)
    trace.moved(ONE, 0, "committed")
    trace.polled(ONE, (0, "a"))
    trace.lead(2, 1, isr=(2,), cause="unclean")
    trace.write("b", broker=2, led=1)
    trace.high_watermark("broker-2", 1, epoch=1)
    return trace


@pytest.mark.parametrize(("offset", "status"), [(2, "excused"), (3, "violated")])
def test_a_marker_that_was_given_up_is_committed(offset: int, status: str) -> None:
    """Shows that a consumer may have passed a marker which an unclean election gave up later, and nothing beyond what
    any leader had committed before."""
    trace = given_up()
    trace.commits(offset)
    result = trace.result("O3")
    assert (bool(result.violated), bool(result.excused)) == (status == "violated", status == "excused")
