"""P22 and H8: where logs begin, and what is told of it; and what other promises make of logs that begin above 0."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import (
    ErrorSeen,
    FetchTold,
    LogDrop,
    LogLocalStart,
    LogRoll,
    LogStart,
    NodeDown,
    PartChange,
    ReplyPartition,
    TierSegment,
)
from actors.trace.tier_events import DELETED, FINISHED
from tests.unit.invariants.trace_builder import TP, TraceBuilder


def committed(count: int) -> TraceBuilder:
    """A log of so many committed records, of which each is on three brokers, led by broker-1 in leader epoch 0."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    for number in range(count):
        trace.replicate(f"producer-1:{number}")
    for broker in (1, 2, 3):
        trace.high_watermark(f"broker-{broker}", count, role="leader" if broker == 1 else "follower")
    return trace


def starts(trace: TraceBuilder, broker: int, new: int, reason: Any = "retention-ms") -> str:
    return trace.emit(f"broker-{broker}", LogStart(TP, new, reason, 0))


def rolled(trace: TraceBuilder, broker: int, base: int) -> None:
    trace.emit(f"broker-{broker}", LogRoll(TP, base))


# ---- P22 -------------------------------------------------------------------------------------------------------


def test_logs_that_begin_below_their_high_watermarks() -> None:
    """Shows that each log start that moves up tests P22, by retention, and at followers by the leader's."""
    trace = committed(4)
    rolled(trace, 1, 2)
    starts(trace, 1, 2)
    starts(trace, 1, 3, "delete-records")
    starts(trace, 2, 3, "leader")
    result = trace.result("P22")
    assert (result.status, result.tested) == ("held", 3)


def test_a_log_that_begins_above_its_high_watermark() -> None:
    """Shows that it is the high watermark of the log itself that counts."""
    trace = committed(4)
    trace.replicate("producer-1:4")
    rolled(trace, 2, 5)
    event = starts(trace, 2, 5, "retention-bytes")
    (finding,) = trace.result("P22").violations
    assert finding.sentence == "broker-2 moved the log start of orders-0 to 5, above its high watermark 4"
    assert event in finding.events


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("retention-ms", "to 3, which is inside a segment: retention deletes whole segments only"),
        ("leader", "to 3, as its leader's log start, but no replica ever had one above 0"),
        ("remote", "to 3, where it found the first copy, but no replica ever had one above 0"),
        ("delete-records", ""),
        ("load", "3 on, but neither its log nor its own part of it had ever begun above 0"),
        ("out-of-range", "anew at 3, as its leader's log start, but no replica ever had one above 0"),
        ("truncation", ""),
    ],
)
def test_reasons_of_a_log_start(reason: str, says: str) -> None:
    """Shows that retention goes by segments, a follower by a leader, also where it begins anew, and a request by
    nothing of that; a log that begins where an older leader's batch does is no test."""
    trace = committed(4)
    rolled(trace, 2, 2)
    starts(trace, 2, 3, reason)
    result = trace.result("P22")
    assert result.status == ("violated" if says else "held" if reason == "delete-records" else "vacuous")
    assert "".join(finding.sentence for finding in result.violations).endswith(says)


def test_a_process_finds_a_log_where_it_began() -> None:
    """Shows that it may find an older log start, or the first of the segments that are left, but none ahead of both;
    and that what it finds is no log start for others."""
    trace = committed(4)
    starts(trace, 2, 2, "delete-records")
    trace.up("broker-2")
    starts(trace, 2, 2, "load")
    rolled(trace, 3, 3)
    trace.emit("broker-3", LogLocalStart(TP, 3, "retention-ms", 0))
    trace.up("broker-3")
    starts(trace, 3, 3, "load")
    assert trace.result("P22").status == "held"
    starts(trace, 1, 3, "leader")
    trace.up("broker-2")
    starts(trace, 2, 3, "load")
    assert [finding.sentence.partition(" orders-0 ")[2] for finding in trace.result("P22").violations] == [
        "to 3, as its leader's log start, but no replica ever had one above 2",
        "from 3 on, but neither its log nor its own part of it had ever begun above 2",
    ]


def first_copy_at(trace: TraceBuilder, offset: int) -> str:
    """How P22 judges a new leader, broker-2, that has the first copy there."""
    starts(trace, 2, offset, "remote")
    return trace.result("P22").status


@pytest.mark.parametrize(("offset", "status"), [(1, "violated"), (2, "excused")])
def test_the_first_copy_is_of_a_log_that_was_given_up(offset: int, status: str) -> None:
    """Shows that a log may begin at a copy of another log only above where an unclean election parted the two."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    for name in ("a", "b"):
        trace.replicate(name)
    for name in ("c", "d"):
        trace.append("broker-1", name)
    trace.high_watermark("broker-1", 4, counted=(1,))
    trace.lead(2, 1, cause="unclean", isr=(2,))
    assert first_copy_at(trace, offset) == status


@pytest.mark.parametrize(("topic", "status"), [("__remote_log_metadata", "excused"), ("bills", "violated")])
def test_the_first_copies_have_no_metadata_any_more(topic: str, status: str) -> None:
    """Shows that an unclean election of the metadata topic, and of no other one, may hide the first copies."""
    trace = committed(4)
    trace.lead(2, 1)
    trace.emit("controller-1", PartChange(f"{topic}-0", 5, 1, 2, 1, 1, [2], [1, 2, 3], "unclean"))
    assert first_copy_at(trace, 2) == status


@pytest.mark.parametrize(("watermark", "status"), [(4, "held"), (3, "violated")])
def test_a_log_that_begins_anew(watermark: int, status: str) -> None:
    """Shows that it begins where its leader's log does, with its high watermark there before anything is appended."""
    trace = committed(4)
    starts(trace, 1, 4, "delete-records")
    trace.truncate("broker-3", 1)
    starts(trace, 3, 4, "out-of-range")
    trace.high_watermark("broker-3", watermark, role="follower")
    for broker in (1, 2):
        trace.append(f"broker-{broker}", "producer-1:4", role="leader" if broker == 1 else "follower")
    trace.append("broker-3", "producer-1:4", role="follower", hole=3)
    result = trace.result("P22")
    assert (result.status, result.tested) == (status, 3)


def test_a_tiered_log_begins_anew_where_the_part_of_its_leader_does() -> None:
    """Shows that the local log start that a leader's process found counts as its log start."""
    trace = committed(4)
    trace.emit("broker-1", LogLocalStart(TP, 4, "retention-ms", 0))
    starts(trace, 3, 4, "out-of-range")
    assert trace.result("P22").violations[0].sentence.startswith("broker-1 moved the local log start")
    assert len(trace.result("P22").violations) == 1


def test_a_crash_may_undo_that_a_log_began_anew() -> None:
    """Shows that the high watermark of a process says nothing of a log that the process before it had restarted."""
    trace = committed(4)
    starts(trace, 1, 4, "delete-records")
    trace.truncate("broker-3", 1)
    starts(trace, 3, 4, "out-of-range")
    trace.down("broker-3", "lossy", lost={})
    trace.up("broker-3")
    trace.append("broker-3", "producer-1:1", role="follower")
    assert (trace.result("P22").status, trace.result("P22").tested) == ("held", 2)


def test_segments_that_were_cut_off_are_none() -> None:
    """Shows that a segment is forgotten with what was cut off, and known again if it is begun again."""
    trace = committed(4)
    rolled(trace, 2, 4)
    trace.truncate("broker-2", 3)
    trace.append("broker-2", "producer-1:3", role="follower")
    trace.high_watermark("broker-2", 4, role="follower")
    again = len(trace.result("P22").violations)
    starts(trace, 2, 4)
    assert (again, len(trace.result("P22").violations)) == (0, 1)


def known(trace: TraceBuilder, broker: int, last: int, state: str, phase: Any = "known") -> str:
    return trace.emit(f"broker-{broker}", TierSegment(TP, "a", phase, state, 0, last, {"0": 0}))


@pytest.mark.parametrize(
    "state",
    [
        "COPY_SEGMENT_STARTED",
        "COPY_SEGMENT_FINISHED",
        "DELETE_SEGMENT_STARTED",
    ],
)
def test_a_log_begins_behind_a_copy(state: str) -> None:
    """Shows that retention of copies takes those that a broker knows of, in each state, also where another log has
    begun further on; and that it is their end that counts."""
    trace = committed(4)
    rolled(trace, 2, 3)
    starts(trace, 2, 3)
    known(trace, 1, 1, state)
    starts(trace, 1, 2)
    assert trace.result("P22").status == "held"
    starts(trace, 1, 4)
    (finding,) = trace.result("P22").violations
    assert finding.sentence.endswith("to 4, which is inside a segment: retention deletes whole segments only")


def test_copies_that_a_broker_does_not_know() -> None:
    """Shows that no log begins by retention behind a copy that is gone for its broker, that it has refused, that only
    others know, or that only a former process of it knew."""

    def judged(trace: TraceBuilder) -> str:
        starts(trace, 1, 2)
        return trace.result("P22").status

    gone, refused_it, of_another, of_a_former = (committed(4) for _ in range(4))
    known(gone, 1, 1, "COPY_SEGMENT_FINISHED")
    known(gone, 1, 1, "DELETE_SEGMENT_FINISHED")
    known(refused_it, 1, 1, "COPY_SEGMENT_FINISHED", "refused")
    known(of_another, 2, 1, "COPY_SEGMENT_FINISHED")
    known(of_another, 2, 1, "COPY_SEGMENT_STARTED", "copied")
    known(of_a_former, 1, 1, "COPY_SEGMENT_FINISHED")
    of_a_former.up("broker-1")
    assert [judged(each) for each in (gone, refused_it, of_another, of_a_former)] == ["violated"] * 4


def test_local_starts() -> None:
    """Shows that what a broker has itself begins with one of its segments, not above its high watermark; that where
    copies end the log may begin, too; and that a process that reads its log is no test."""
    for new, says in ((2, ""), (3, "to 3, which is inside a segment: retention deletes whole segments only")):
        trace = committed(4)
        rolled(trace, 2, 2)
        trace.emit("broker-2", LogLocalStart(TP, new, "retention-ms", 0, 4))
        result = trace.result("P22")
        assert (result.status, result.tested) == ("violated" if says else "held", 1)
        assert "".join(finding.sentence for finding in result.violations).endswith(says)
    copied = committed(4)
    rolled(copied, 2, 2)
    copied.emit("broker-2", LogLocalStart(TP, 2, "load", 0, 4))
    known(copied, 2, 0, "COPY_SEGMENT_STARTED")
    assert copied.result("P22").status == "vacuous"
    starts(copied, 2, 1)
    assert copied.result("P22").status == "held"
    above = committed(4)
    above.replicate("producer-1:4")
    rolled(above, 2, 5)
    above.emit("broker-2", LogLocalStart(TP, 5, "retention-ms", 0, 4))
    assert (
        above.result("P22")
        .violations[0]
        .sentence.endswith("local log start of orders-0 to 5, above its high watermark 4")
    )


@pytest.mark.parametrize(
    ("new", "log_start", "says"),
    [(4, 1, ""), (4, 2, "and the log start to 2, but no replica ever had one above 1")],
)
def test_a_follower_that_begins_behind_a_copy(new: int, log_start: int, says: str) -> None:
    """Shows that it may begin above its own high watermark, and with a log start that some log has."""
    trace = committed(4)
    starts(trace, 1, 1, "delete-records")
    trace.truncate("broker-3", 1)
    trace.emit("broker-3", LogLocalStart(TP, new, "remote", log_start, 1, 0, None, {"0": 1}))
    result = trace.result("P22")
    assert result.status == ("violated" if says else "held")
    assert "".join(finding.sentence for finding in result.violations).endswith(says)


# ---- H8 --------------------------------------------------------------------------------------------------------


def refused(trace: TraceBuilder, offset: int, last: int = -1, replica: int = -1) -> str:
    body = FetchTold(TP, replica, offset, 0, last, int(KafkaError.OFFSET_OUT_OF_RANGE), False, True, 0, 4, 2, 4)
    return trace.emit("broker-1", body)


def earliest(trace: TraceBuilder, offset: int, epoch: int = 0) -> str:
    return trace.reply(1, "ListOffsets", ReplyPartition(TP, 0, offset=offset, timestamp=-2, leader_epoch=epoch))


@pytest.mark.parametrize(("offset", "status"), [(1, "held"), (2, "violated"), (4, "violated"), (5, "held")])
def test_positions_out_of_range(offset: int, status: str) -> None:
    """Shows that what lies in the log, as the trace has it, is in range, from its start to its end."""
    trace = committed(4)
    starts(trace, 1, 2, "delete-records")
    refused(trace, offset)
    result = trace.result("H8")
    assert (result.status, result.tested) == (status, 1)


@pytest.mark.parametrize(("deleted", "status"), [(True, "excused"), (False, "violated")])
def test_a_position_whose_copy_is_gone(deleted: bool, status: str) -> None:
    """Shows that a position is out of range where the broker itself has nothing, and its copy is gone."""
    trace = committed(4)
    starts(trace, 1, 1, "delete-records")
    for state in (FINISHED, DELETED)[: 1 + deleted]:
        trace.emit("broker-1", TierSegment(TP, "a", "known", state, 1, 2, {"0": 1}))
    trace.emit("broker-1", LogLocalStart(TP, 3, "retention-ms", 1, 4))
    refused(trace, 2)
    assert trace.result("H8").status == status


@pytest.mark.parametrize(("cause", "status"), [("unclean", "excused"), ("fence", "violated")])
def test_a_position_whose_copy_has_no_metadata(cause: Any, status: str) -> None:
    """Shows that a position is out of range where the broker itself has nothing, and knows nothing of a copy whose
    metadata an unclean election may have taken."""
    trace = committed(4)
    starts(trace, 1, 1, "delete-records")
    trace.emit("broker-2", TierSegment(TP, "a", "known", FINISHED, 1, 2, {"0": 1}))
    trace.emit("controller-1", PartChange("__remote_log_metadata-0", 9, 1, 3, 1, 1, [3], [1, 2, 3], cause))
    trace.emit("broker-1", LogLocalStart(TP, 3, "retention-ms", 1, 4))
    refused(trace, 2)
    result = trace.result("H8")
    assert result.status == status
    assert result.excused == ({"metadata-lost": 1} if status == "excused" else {})


@pytest.mark.parametrize(
    ("tp", "reason", "known", "status"),
    [
        ("__remote_log_metadata-0", "retention-bytes", "", "excused"),
        ("__remote_log_metadata-0", "load", "", "violated"),
        ("bills-0", "retention-bytes", "", "violated"),
        ("__remote_log_metadata-0", "retention-bytes", FINISHED, "violated"),
    ],
)
def test_a_first_copy_behind_those_without_metadata(tp: str, reason: Any, known: str, status: str) -> None:
    """Shows that a leader may begin with a later copy than the first one if retention has deleted the metadata of that,
    and the leader knows nothing of it."""
    trace = committed(4)
    trace.emit("broker-2", TierSegment(TP, "a", "known", FINISHED, 0, 1, {"0": 0}))
    trace.emit("broker-2", LogStart(tp, 9, reason, -1))
    if known:
        trace.emit("broker-1", TierSegment(TP, "a", "known", known, 0, 1, {"0": 0}))
    trace.emit("broker-1", TierSegment(TP, "b", "known", FINISHED, 2, 3, {"0": 2}))
    trace.emit("broker-1", LogStart(TP, 2, "remote", -1))
    found = [finding for finding in trace.result("P22").violations if finding.key == TP]
    assert bool(found) == (status == "violated")


def test_refusals_that_are_for_others_to_judge() -> None:
    """Shows that a follower, and who compares leader epochs, may be refused, and that a log from 0 on is no test."""
    trace = committed(4)
    refused(trace, 3)
    starts(trace, 1, 2, "delete-records")
    refused(trace, 3, replica=2)
    assert trace.result("H8").status == "vacuous"
    refused(trace, 3, last=0)
    assert trace.result("H8").status == "held"


def test_the_earliest_offset_goes_back() -> None:
    """Shows that it must not in one leader epoch of one process, and may in the next of either."""
    trace = committed(4)
    starts(trace, 1, 3, "delete-records")
    earliest(trace, 2)
    earliest(trace, 3)
    earliest(trace, 2, epoch=1)
    assert (trace.result("H8").status, trace.result("H8").tested) == ("held", 3)
    earliest(trace, 1, epoch=1)
    (finding,) = trace.result("H8").violations
    assert finding.sentence.endswith("reported 1 as the earliest offset after it had reported 2")


@pytest.mark.parametrize(("timestamp", "what"), [(-2, "earliest offset"), (-4, "earliest local offset")])
def test_the_earliest_offset_is_above_where_the_log_begins(timestamp: int, what: str) -> None:
    """Shows that it must not be, of the log as of what a broker has of it itself."""
    trace = committed(4)
    starts(trace, 1, 1, "delete-records")
    trace.emit("broker-1", LogLocalStart(TP, 2, "retention-ms", 1, 4))
    right = 1 if timestamp == -2 else 2
    trace.reply(1, "ListOffsets", ReplyPartition(TP, 0, offset=right, timestamp=timestamp, leader_epoch=0))
    assert (trace.result("H8").status, trace.result("H8").tested) == ("held", 1)
    trace.reply(1, "ListOffsets", ReplyPartition(TP, 0, offset=right + 1, timestamp=timestamp, leader_epoch=0))
    (finding,) = trace.result("H8").violations
    assert finding.sentence.endswith(f"reported {right + 1} as the {what}, but it was {right}")


# ---- others ----------------------------------------------------------------------------------------------------


def test_a_log_that_begins_anew_is_a_part_of_the_others() -> None:
    """Shows that P14 takes a first batch in the middle of a leader epoch where the log begins there, and only there."""
    trace = committed(4)
    trace.truncate("broker-3", 1)
    trace.emit("broker-3", LogStart(TP, 4, "out-of-range", -1))
    for broker in (1, 2):
        trace.append(f"broker-{broker}", "producer-1:4", role="leader" if broker == 1 else "follower")
    trace.append("broker-3", "producer-1:4", role="follower", hole=3)
    assert trace.result("P14").status == "held"
    hole = committed(4)
    hole.truncate("broker-3", 1)
    hole.append("broker-3", "producer-1:4", role="follower", hole=3)
    assert hole.result("P14").status == "violated"


def test_a_position_that_was_deleted_is_given_up_for_a_reason() -> None:
    """Shows that M4 takes a log start above the position, of the broker that refused it, for a reason, and no other."""
    for start, status in ((3, "held"), (1, "violated")):
        trace = committed(4)
        starts(trace, 1, start, "delete-records")
        trace.moved("consumer-1", 2)
        trace.emit("consumer-1", ErrorSeen(TP, "Fetch", 11, int(KafkaError.OFFSET_OUT_OF_RANGE), "broker-1"))
        trace.moved("consumer-1", 3, "reset", 2)
        assert trace.result("M4").status == status


# ---- Segments that were dropped --------------------------------------------------------------------------------


def dropped(carried_out: bool = True) -> TraceBuilder:
    """Broker-2 has dropped its segments below 2 of 4 records; ``carried_out``: and appends one more, so that its files
    are gone. Then its process ends."""
    trace = committed(4)
    rolled(trace, 2, 2)
    starts(trace, 2, 2)
    trace.emit("broker-2", LogDrop(TP, 2))
    if carried_out:
        trace.append("broker-2", "x", role="follower")
    return trace


def restarted(trace: TraceBuilder) -> None:
    """The next process of broker-2 is there."""
    trace.incarnations["broker-2"] = 1


def test_a_log_whose_dropped_segments_are_back() -> None:
    """Shows that a process which finds its log to begin below what was dropped violates P22, at 0 or above; not one
    which begins where the drop ended, or that comes after a process which may not have carried it out."""
    for start in (0, 1):
        trace = dropped()
        restarted(trace)
        if start:
            starts(trace, 2, start, "load")
        trace.assume(2, 0, leader=1)
        (finding,) = trace.result("P22").violations
        assert finding.sentence == (
            f"broker-2 started with orders-0 from {start} on, but an earlier process had dropped its segments below 2"
        )
    for carried_out, start in ((True, 2), (False, 1)):
        trace = dropped(carried_out)
        restarted(trace)
        starts(trace, 2, start, "load")
        trace.assume(2, 0, leader=1)
        assert trace.result("P22").status == "held"


@pytest.mark.parametrize("how", ["anew", "remote", "cut", "lost", "empty"])
def test_a_log_that_is_another_one_since_the_drop(how: str) -> None:
    """Shows that what was dropped of a log says nothing when that log was given up, cut below it, lost, or is empty."""
    trace = dropped()
    if how == "anew":
        starts(trace, 2, 9, "out-of-range")
    elif how == "remote":
        trace.emit("broker-2", LogLocalStart(TP, 9, "remote", 0, 9))
    elif how == "cut":
        trace.truncate("broker-2", 1)
    elif how == "lost":
        trace.emit("broker-2", NodeDown("lossy", lost={TP: 2}))
    else:
        trace.truncate("broker-2", 0)
        trace.logs[(TP, "broker-2")] = [(0, 0)]
    restarted(trace)
    trace.assume(2, 0, leader=1)
    assert not [each for each in trace.result("P22").violations if "dropped" in each.sentence]
