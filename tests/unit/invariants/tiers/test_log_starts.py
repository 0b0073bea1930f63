"""R11: where the log of a tiered partition begins at its leaders."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import (
    LogHw,
    LogLocalStart,
    LogStart,
    PartChange,
    ReplyPartition,
    RpcReply,
    TierSegment,
)
from actors.trace.tier_events import FINISHED
from tests.unit.invariants.trace_builder import TP, TraceBuilder


def leads_six_records(trace: TraceBuilder) -> None:
    """Broker-1 leads them, and all but the last one are committed."""
    trace.lead(1, 0)
    for number in range(6):
        trace.replicate(f"p:{number}")
    trace.high_watermark("broker-1", 5)


class Tiered(TraceBuilder):
    """Broker-1 leads six records, of which it has the last two itself."""

    def __init__(self) -> None:
        super().__init__()
        leads_six_records(self)
        self.emit("broker-1", LogLocalStart(TP, 4, "load", 0, 5))

    def knows(self, segment: str, start: int, end: int, state: str = FINISHED, epoch: int = 0) -> str:
        """Broker-1 has consumed the state of a copy."""
        body = TierSegment(TP, segment, "known", state, start, end, {str(epoch): start})
        return self.emit("broker-1", body)

    def looks(self, start: int = 0) -> str:
        """It looks where its log begins."""
        return self.emit("broker-1", LogStart(TP, start, "remote", -1))

    def moves(self, start: int, epoch: int = 0) -> str:
        """Its high watermark moves."""
        return self.emit("broker-1", LogHw(TP, "leader", epoch, 6, 6, start, [1]))


def test_a_leader_that_has_looked() -> None:
    """Shows that where the log begins in remote storage alone is a test, from then on, in that leader epoch, and that a
    start within a copy or in the broker's own part is right."""
    trace = Tiered()
    trace.knows("a", 0, 1)
    trace.moves(0)
    trace.looks()
    trace.moves(0, epoch=1)
    trace.moves(4)
    assert trace.result("R11").status == "vacuous"
    trace.moves(0)
    trace.moves(1)
    assert (trace.result("R11").status, trace.result("R11").tested) == ("held", 2)


@pytest.mark.parametrize(
    ("reason", "state", "status"),
    [
        ("delete-records", FINISHED, "excused"),
        ("delete-records", "DELETE_SEGMENT_FINISHED", "violated"),
        ("out-of-range", FINISHED, "violated"),
        ("load", FINISHED, "violated"),
    ],
)
def test_a_log_start_that_went_back(reason: Any, state: str, status: str) -> None:
    """Shows that a log may begin inside a copy, below its leader epochs, if its broker has had a higher log start since
    it began its log anew; loading it gives it none."""
    trace = Tiered()
    trace.emit("broker-1", LogStart(TP, 1, reason, -1))
    if reason == "out-of-range":
        trace.emit("broker-1", LogStart(TP, 0, reason, -1))
        trace.emit("broker-1", LogLocalStart(TP, 4, "remote", 0, 5))
    trace.emit("broker-1", TierSegment(TP, "a", "known", FINISHED, 0, 3, {"0": 1}))
    trace.emit("broker-1", TierSegment(TP, "a", "known", state, 0, 3, {"0": 1}))
    trace.looks()
    trace.moves(0)
    assert trace.result("R11").status == status


@pytest.mark.parametrize(
    ("deleted", "local", "copied", "starts", "status"),
    [
        (3, 4, (0, 1), 2, "excused"),
        (3, 4, (0, 1), 3, "violated"),
        (5, 3, (0, 1), 2, "excused"),
        (5, 3, (0, 1), 3, "violated"),
        (3, 4, (0, 1), 1, "violated"),
        (3, 4, (2, 3), 2, "violated"),
        (0, 4, (0, 1), 2, "violated"),
    ],
)
def test_a_hole_below_a_lost_log_start(
    deleted: int, local: int, copied: tuple[int, int], starts: int, status: str
) -> None:
    """Shows that a log may begin with a record that was deleted before it was ever copied, if a restart lost the log
    start and the broker had no longer the record itself; and with no other that is gone."""
    trace = TraceBuilder()
    leads_six_records(trace)
    if deleted:
        trace.emit("broker-1", LogStart(TP, deleted, "delete-records", -1))
    trace.incarnations["broker-1"] = 1
    trace.emit("broker-1", LogStart(TP, 0, "load", -1))
    trace.emit("broker-1", LogLocalStart(TP, local, "load", 0, 5))
    for state in (FINISHED, "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"):
        trace.emit("broker-1", TierSegment(TP, "a", "known", state, *copied, {"0": 0}))
    trace.emit("broker-1", LogStart(TP, 0, "remote", -1))
    trace.emit("broker-1", LogLocalStart(TP, 5, "retention-ms", 0, 5))
    trace.emit("broker-1", LogHw(TP, "leader", 0, 6, 6, starts, [1]))
    result = trace.result("R11")
    assert (result.status, result.tested) == (status, 1)
    assert result.excused == ({"never-copied": 1} if status == "excused" else {})


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"state": "DELETE_SEGMENT_FINISHED"},
        {"epoch": 1},
    ],
)
def test_a_log_that_begins_where_nothing_is(change: dict[str, Any]) -> None:
    """Shows that no copy has the record if none was consumed, if it is deleted, and if it is of another leader
    epoch."""
    trace = Tiered()
    if change:
        trace.knows("a", 0, 1)
        trace.knows("a", 0, 1, **change)
    looked = trace.looks()
    event = trace.moves(0)
    (finding,) = trace.result("R11").violations
    assert finding.sentence == (
        "the log of broker-1, leader of epoch 0 of orders-0, starts at 0 and its local log at 4, but it knows no copy "
        "with offset 0"
    )
    assert finding.events == [looked, event]


def test_the_next_process_looks_again() -> None:
    """Shows that a process knows nothing of what the one before had consumed, or found."""
    trace = Tiered()
    trace.looks()
    trace.incarnations["broker-1"] = 1
    trace.emit("broker-1", LogLocalStart(TP, 4, "load", 0, 5))
    trace.moves(0)
    assert trace.result("R11").status == "vacuous"


@pytest.mark.parametrize(
    ("new", "epochs", "says"),
    [
        (4, {"0": 0, "2": 3}, ""),
        (5, {"0": 0, "2": 3}, "but it knows no copy that ends there"),
        (4, {"2": 3}, "but it does not know leader epoch 0 of the copy that ends there"),
        (4, {"0": 0, "2": 4}, "but it does not know leader epoch 2 of the copy that ends there"),
    ],
)
def test_a_follower_that_begins_behind_a_copy(new: int, epochs: dict[str, int], says: str) -> None:
    """Shows that it must know of that copy, and all of its leader epochs."""
    trace = Tiered()
    trace.emit("broker-2", TierSegment(TP, "a", "known", FINISHED, 1, 3, {"0": 1, "2": 3}))
    trace.emit("broker-2", LogLocalStart(TP, new, "remote", 0, 1, 0, None, epochs))
    result = trace.result("R11")
    assert (result.status, result.tested) == ("violated" if says else "held", 1)
    assert "".join(finding.sentence for finding in result.violations).endswith(says)


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ("DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED", "excused"),
        ("DELETE_SEGMENT_FINISHED", "DELETE_SEGMENT_FINISHED", "violated"),
        (FINISHED, "DELETE_SEGMENT_FINISHED", "violated"),
    ],
)
def test_a_deletion_that_was_begun_when_the_leader_looked(before: str, after: str, status: str) -> None:
    """Shows that a copy counts for Kafka as long as its deletion has not ended; and no other that is gone."""
    trace = Tiered()
    trace.knows("a", 0, 1, before)
    trace.looks()
    trace.knows("a", 0, 1, after)
    trace.moves(0)
    assert trace.result("R11").status == status


@pytest.mark.parametrize(
    ("when", "leader_epoch", "offsets", "status"),
    [
        ("after", 0, (0, 1), "excused"),
        ("after", 1, (0, 1), "violated"),
        ("after", 0, (2, 3), "violated"),
        ("before", 0, (0, 1), "excused"),
        ("before", 1, (0, 1), "violated"),
        ("known", 0, (0, 1), "violated"),
    ],
)
def test_a_copy_that_a_former_leader_deletes(
    when: str, leader_epoch: int, offsets: tuple[int, int], status: str
) -> None:
    """Shows that a leader is excused if one of an earlier leader epoch, which did not know of it yet, deleted the copy
    with the log start after the leader had looked, or before without its knowledge."""
    trace = Tiered()
    trace.lead(1, 1)
    trace.knows("a", 0, 1)
    deletes = TierSegment(TP, "a", "deleting", FINISHED, *offsets, {"0": 0}, leader_epoch=leader_epoch)
    if when != "after":
        trace.emit("broker-2", deletes)
    if when == "known":
        trace.knows("a", 0, 1, "DELETE_SEGMENT_FINISHED")
    trace.looks()
    if when == "after":
        trace.emit("broker-2", deletes)
    trace.knows("a", 0, 1, "DELETE_SEGMENT_FINISHED")
    trace.moves(0, epoch=1)
    assert trace.result("R11").status == status


@pytest.mark.parametrize(
    ("cause", "tp", "states", "start", "knows", "status"),
    [
        ("unclean", "__remote_log_metadata-1", [FINISHED], 2, "", "excused"),
        ("unclean", "__remote_log_metadata-1", [FINISHED], 2, "COPY_SEGMENT_STARTED", "excused"),
        ("unclean", "__remote_log_metadata-1", [FINISHED], 1, "", "violated"),
        ("unclean", "__remote_log_metadata-1", [FINISHED], 2, "DELETE_SEGMENT_STARTED", "violated"),
        ("unclean", "__remote_log_metadata-1", [FINISHED, "DELETE_SEGMENT_STARTED"], 2, "", "violated"),
        ("unclean", "__remote_log_metadata-1", ["COPY_SEGMENT_STARTED"], 2, "", "violated"),
        ("unclean", "__consumer_offsets-1", [FINISHED], 2, "", "violated"),
        ("fence", "__remote_log_metadata-1", [FINISHED], 2, "", "violated"),
    ],
)
def test_a_metadata_topic_that_lost_a_copy(
    cause: Any, tp: str, states: list[str], start: int, knows: str, status: str
) -> None:
    """Shows that a leader is excused if an unclean election may have removed the metadata of a finished copy with the
    log start, and nobody knows that the copy was deleted."""
    trace = Tiered()
    for state in states:
        trace.emit("broker-2", TierSegment(TP, "b", "known", state, 2, 3, {"0": 2}))
    trace.emit("controller-1", PartChange(tp, 9, 1, 3, 1, 1, [3], [1, 2, 3], cause))
    if knows:
        trace.knows("b", 2, 3, knows)
    trace.looks()
    trace.moves(start)
    assert trace.result("R11").status == status


@pytest.mark.parametrize(
    ("cause", "knows", "status"),
    [
        ("unclean", "a", "excused"),
        ("retention-bytes", "a", "excused"),
        ("leader", "a", "violated"),
        ("unclean", "b", "violated"),
        ("unclean", "c", "violated"),
    ],
)
def test_a_log_that_begins_behind_the_last_known_copy(cause: Any, knows: str, status: str) -> None:
    """Shows that retention may end at a copy of which the metadata topic has lost everything, also its deletion: that
    the broker deleted the copy before it, and knows nothing of that one."""
    trace = Tiered()
    topic = "__remote_log_metadata-0"
    for state in (FINISHED, "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"):
        trace.emit("broker-2", TierSegment(TP, "b", "known", state, 2, 3, {"0": 2}))
    if cause == "unclean":
        trace.emit("controller-1", PartChange(topic, 9, 1, 3, 1, 1, [3], [1, 2, 3], cause))
    else:
        trace.emit("broker-2", LogStart(topic, 7, cause, -1))
    for state in (FINISHED, "DELETE_SEGMENT_STARTED"):
        if knows != "c":
            trace.knows("a", 0, 1, state)
        if knows == "b":
            trace.knows("b", 2, 3, state)
    trace.looks()
    trace.moves(2)
    assert trace.result("R11").status == status


@pytest.mark.parametrize(("heard_ms", "violated"), [(5, 1), (15, 0), (25, 0)])
def test_a_copy_that_is_deleted_while_a_follower_reads_it(heard_ms: int, violated: int) -> None:
    """Shows that a follower may begin behind a copy of whose deletion it has heard since its leader told it where to
    begin, and not before."""
    trace = TraceBuilder()
    leads_six_records(trace)
    body = TierSegment(TP, "a", "known", FINISHED, 0, 3, {"0": 0})
    trace.emit("broker-2", body)
    since = trace.wall
    events = {
        1000 * heard_ms: ("broker-2", TierSegment(TP, "a", "known", "DELETE_SEGMENT_STARTED", 0, 3, {"0": 0})),
        10_000: (
            "broker-1",
            RpcReply("ListOffsets", 9, "broker-2", "c", 1, 2, 0, 0, [ReplyPartition(TP, 0, 4, timestamp=-4)]),
        ),
        20_000: (
            "broker-1",
            RpcReply("ListOffsets", 9, "broker-3", "c", 1, 3, 0, 0, [ReplyPartition(TP, 0, 4, timestamp=-4)]),
        ),
        21_000: (
            "broker-1",
            RpcReply("ListOffsets", 9, "broker-2", "c", 2, 2, 0, 0, [ReplyPartition(TP, 0, 4, timestamp=-1)]),
        ),
    }
    for at_us, (node, event) in sorted(events.items()):
        trace.wall = since + at_us
        trace.emit(node, event)
    trace.wall = since + 90_000
    trace.emit("broker-2", LogLocalStart(TP, 4, "remote", 0, 4, epochs={"0": 0}))
    assert trace.result("R11").violated == violated


def test_a_follower_that_nobody_told_where_to_begin() -> None:
    """Shows that a copy whose deletion a follower has heard of is none that it may read, if no leader told it to."""
    trace = TraceBuilder()
    leads_six_records(trace)
    for state in (FINISHED, "DELETE_SEGMENT_STARTED"):
        trace.emit("broker-2", TierSegment(TP, "a", "known", state, 0, 3, {"0": 0}))
    trace.emit("broker-2", LogLocalStart(TP, 4, "remote", 0, 4, epochs={"0": 0}))
    assert trace.result("R11").violated == 1


@pytest.mark.parametrize(("epoch", "status"), [(0, "excused"), (1, "violated")])
def test_a_lost_copy_of_another_leader_epoch(epoch: int, status: str) -> None:
    """Shows that a leader is not excused if the copy without metadata had another record at the log start."""
    trace = Tiered()
    trace.emit("broker-2", TierSegment(TP, "b", "known", FINISHED, 2, 3, {str(epoch): 2}))
    trace.emit("controller-1", PartChange("__remote_log_metadata-0", 9, 1, 3, 1, 1, [3], [1, 2, 3], "unclean"))
    trace.looks()
    trace.moves(2)
    assert trace.result("R11").status == status


class Young(TraceBuilder):
    """Broker-1 leads six records, all of which it has itself."""

    def __init__(self) -> None:
        super().__init__()
        leads_six_records(self)

    def knows(self, state: str, end: int = 3, epoch: int = 0) -> None:
        """It has consumed the state of a copy."""
        self.emit("broker-1", TierSegment(TP, "a", "known", state, 0, end, {str(epoch): 0}))

    def drops(self, start: int = 4) -> None:
        """Its local retention drops what is below."""
        self.emit("broker-1", LogLocalStart(TP, start, "retention-ms", 0, 5))

    def looks(self) -> None:
        """It looks where its log begins."""
        self.emit("broker-1", LogStart(TP, 0, "remote", -1))

    def moves(self) -> None:
        """Its high watermark moves."""
        self.emit("broker-1", LogHw(TP, "leader", 0, 6, 6, 0, [1]))


@pytest.mark.parametrize(
    ("copy", "dropped", "status"),
    [
        ({}, "after", "excused"),
        ({}, "before", "violated"),
        ({"epoch": 1}, "after", "violated"),
        ({"state": "COPY_SEGMENT_STARTED"}, "after", "violated"),
    ],
)
def test_records_that_are_dropped_as_their_copy_was(copy: dict[str, Any], dropped: str, status: str) -> None:
    """Shows that a leader with an outdated log start, which had the records itself when it looked, is excused if it
    drops them later, as a copy of them was finished once; and not if it had not got them."""
    trace = Young()
    trace.knows(**{"state": FINISHED, **copy})
    trace.knows("DELETE_SEGMENT_FINISHED")
    if dropped == "before":
        trace.drops()
    trace.looks()
    if dropped == "after":
        trace.moves()
        assert trace.result("R11").status == "vacuous"
        trace.drops()
    trace.moves()
    result = trace.result("R11")
    assert (result.status, result.tested) == (status, 1)
    assert result.excused == ({"dropped-since": 1} if status == "excused" else {})
