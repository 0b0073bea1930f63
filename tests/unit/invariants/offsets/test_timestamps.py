"""H4: lookups by timestamp mean what they say."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from actors.trace.events import LogLocalStart, LogStart, ReplyPartition, RpcPark, TierSegment
from actors.trace.tier_events import FINISHED
from tests.unit.invariants.trace_builder import TP, TraceBuilder


def stamped(*timestamps: int, high_watermark: int = -1) -> TraceBuilder:
    """Broker-1 leads, and has a record of each timestamp; what is below the high watermark is committed."""
    trace = TraceBuilder()
    trace.lead(1, 0, isr=(1,))
    for number, timestamp in enumerate(timestamps):
        appends(trace, f"r{number}", timestamp)
        if number < (len(timestamps) if high_watermark < 0 else high_watermark):
            trace.high_watermark("broker-1", number + 1, counted=(1,))
    return trace


def appends(trace: TraceBuilder, uid: str, *timestamps: int, broker: int = 1, epoch: int = 0) -> None:
    """A leader appends a batch."""
    trace.append(
        f"broker-{broker}", *([uid] if len(timestamps) == 1 else [f"{uid}{t}" for t in timestamps]), epoch=epoch
    )
    body = trace.events[-1].body
    trace.events[-1] = replace(trace.events[-1], body=replace(body, timestamps=list(timestamps)))


def answers(
    trace: TraceBuilder, asked: int, offset: int, timestamp: int = -1, epoch: int = -1, broker: int = 1, **more: int
) -> TraceBuilder:
    """A broker answers."""
    told = ReplyPartition(TP, 0, offset, timestamp=asked, leader_epoch=0, found_timestamp=timestamp, found_epoch=epoch)
    trace.reply(broker, "ListOffsets", told, **more)
    return trace


@pytest.mark.parametrize(
    ("asked", "right"),
    [(0, (0, 10)), (10, (0, 10)), (11, (1, 30)), (30, (1, 30)), (31, (3, 40)), (41, (-1, -1)), (-3, (3, 40))],
)
def test_the_first_record_that_is_as_late(asked: int, right: tuple[int, int]) -> None:
    """Shows that of records of 10, 30, 20 and 40 the first one counts that is as late as was asked, or the latest of
    all, and that any other answer violates H4."""
    offset, timestamp = right
    epoch = 0 if offset >= 0 else -1
    result = answers(stamped(10, 30, 20, 40), asked, offset, timestamp, epoch).result("H4")
    assert (result.status, result.tested) == ("held", 1)
    for wrong in {(2, 20), (3, 40), (0, 10), (-1, -1)} - {right}:
        assert answers(stamped(10, 30, 20, 40), asked, *wrong, 0 if wrong[0] >= 0 else -1).result("H4").violated == 1


def test_what_may_not_be_seen() -> None:
    """Shows that a client is told of no record above the high watermark, and who asks as a broker is."""
    trace = stamped(10, 30, 20, high_watermark=1)
    assert answers(trace, 30, -1).result("H4").status == "held"
    assert answers(trace, 30, 1, 30, 0, replica_id=2).result("H4").status == "held"
    answers(trace, 30, 1, 30, 0)
    assert trace.result("H4").violations[0].sentence == (
        "broker-1 answered ListOffsets for timestamp 30 of orders-0 with 1 (timestamp 30, leader epoch 0); the right "
        "answer is nothing: its log ends at 3, and clients may see the records below 1"
    )


@pytest.mark.parametrize(("asked", "right"), [(-1, 1), (-2, 0), (-4, 0), (-5, -1), (-6, -1)])
def test_special_timestamps(asked: int, right: int) -> None:
    """Shows that the latest offset is the high watermark, the earliest one the log start, and that nothing is stored
    elsewhere."""
    assert answers(stamped(10, 30, high_watermark=1), asked, right).result("H4").status == "held"
    assert answers(stamped(10, 30, high_watermark=1), asked, 2).result("H4").violated == 1


def test_a_wrong_timestamp_or_epoch() -> None:
    """Shows that what is told with the offset is looked at, too, and that an error is no answer."""
    assert answers(stamped(10), 5, 0, 11, 0).result("H4").violated == 1
    assert answers(stamped(10), 5, 0, 10, 1).result("H4").violated == 1
    trace = stamped(10)
    trace.reply(1, "ListOffsets", ReplyPartition(TP, 78, -1, timestamp=5, leader_epoch=0))
    assert trace.result("H4").status == "vacuous"


def test_the_log_of_the_broker_that_answers() -> None:
    """Shows that a follower that leads later answers from what it has, and that what was given up counts no more."""
    trace = stamped(10, 30)
    trace.append("broker-2", "r0", role="follower")
    trace.change(2, 1, isr=(2,), cause="unclean")
    trace.assume(2, 1)
    appends(trace, "b", 20, 25, broker=2, epoch=1)
    trace.high_watermark("broker-2", 3, epoch=1, counted=(2,))
    assert answers(trace, 25, 2, 25, 1, broker=2).result("H4").status == "held"
    assert answers(trace, 25, 1, 30, 0, broker=2).result("H4").violated == 1


def _asked_of_three(trace: TraceBuilder) -> TraceBuilder:
    """A request begins to wait for remote storage, and the log goes on while it does."""
    trace.emit("broker-1", RpcPark("ListOffsets", 11, "client", "c", 1, 0, 30000, [TP], []))
    appends(trace, "later", 50)
    trace.high_watermark("broker-1", 4, counted=(1,))
    return trace


@pytest.mark.parametrize(
    ("asked", "offset", "timestamp", "status"),
    [(50, -1, -1, "held"), (50, 3, 50, "violated"), (-1, 3, -1, "held"), (-1, 4, -1, "violated")],
)
def test_an_answer_that_waited_is_about_when_it_was_asked(asked: int, offset: int, timestamp: int, status: str) -> None:
    """Shows that what was committed while a request waited for remote storage is not in its answer; in that of the next
    request on the connection it is."""
    epoch = 0 if timestamp >= 0 else -1
    trace = answers(_asked_of_three(stamped(10, 30, 20)), asked, offset, timestamp, epoch)
    assert trace.result("H4").status == status
    following = answers(_asked_of_three(stamped(10, 30, 20)), -1, 3)
    assert answers(following, 50, 3, 50, 0).result("H4").status == "held"


@pytest.mark.parametrize(
    ("asked", "offset", "status"),
    [(-5, -1, "held"), (-5, 1, "held"), (-5, 2, "violated"), (-6, 0, "held"), (-6, 2, "held"), (-6, 3, "violated")],
)
def test_how_far_a_log_is_copied(asked: int, offset: int, status: str) -> None:
    """Shows that with records 0 and 1 copied and three visible nobody is told that 2 is copied, or that 3 is the first
    that is not."""
    trace = stamped(10, 30, 20)
    trace.emit("broker-1", TierSegment(TP, "s1", "copying", "COPY_SEGMENT_STARTED", 0, 1, {"0": 0}))
    assert answers(trace, asked, offset).result("H4").status == status


@pytest.mark.parametrize(
    ("waits", "moves", "offset", "timestamp", "status"),
    [
        (True, True, 2, 40, "excused"),
        (True, True, 3, 50, "violated"),
        (True, True, 2, 5, "violated"),
        (True, False, 2, 40, "violated"),
        (False, True, 2, 40, "violated"),
    ],
)
def test_a_log_start_that_moves_while_a_request_waits(
    waits: bool, moves: bool, offset: int, timestamp: int, status: str
) -> None:
    """Shows that a broker which has the records from 2 on itself may answer with the first of these that is as late, in
    place of 1, which is in remote storage alone, if the log start has moved since it was asked; with no later one, and
    with what that record is."""
    trace = stamped(10, 30, 40, 50)
    trace.emit("broker-1", LogLocalStart(TP, 2, "retention-ms", 0))
    if waits:
        trace.emit("broker-1", RpcPark("ListOffsets", 11, "client", "c", 1, 0, 30000, [TP], []))
    if moves:
        trace.emit("broker-1", LogStart(TP, 1, "delete-records", -1, 3))
    assert answers(trace, 20, offset, timestamp, 0).result("H4").status == status


@pytest.mark.parametrize(
    ("offset", "timestamp", "status"),
    [(0, 10, "held"), (1, 30, "held"), (2, 40, "held"), (3, 50, "violated"), (1, 20, "violated"), (-1, -1, "violated")],
)
def test_what_was_found_before_the_log_start_moved(offset: int, timestamp: int, status: str) -> None:
    """Shows that of a log that began at 0 when it was asked for, and begins at 2 when it is answered, each record up to
    2 may be the first one."""
    trace = stamped(10, 30, 40, 50)
    trace.emit("broker-1", RpcPark("ListOffsets", 11, "client", "c", 1, 0, 30000, [TP], []))
    trace.emit("broker-1", LogStart(TP, 2, "delete-records", -1, 3))
    assert answers(trace, 5, offset, timestamp, 0 if offset >= 0 else -1).result("H4").status == status


@pytest.mark.parametrize(
    ("had", "offset", "timestamp", "status"),
    [(1, 2, 40, "excused"), (1, 3, 50, "violated"), (0, 2, 40, "violated")],
)
def test_a_log_start_that_went_back(had: int, offset: int, timestamp: int, status: str) -> None:
    """Shows that a broker whose log begins below a log start that it has had may answer from the part that it has
    itself, and rightly for that part."""
    trace = stamped(10, 30, 40, 50)
    trace.emit("broker-1", LogLocalStart(TP, 2, "retention-ms", 0))
    trace.emit("broker-1", LogStart(TP, had, "delete-records", -1, 3))
    trace.emit("broker-1", LogStart(TP, 0, "remote", -1, 3))
    assert answers(trace, 20, offset, timestamp, 0).result("H4").status == status


@pytest.mark.parametrize(("local", "status"), [(3, "excused"), (2, "violated")])
def test_nothing_is_found_after_the_log_start_moved(local: int, status: str) -> None:
    """Shows that a broker whose own part begins at the end of what could be seen may have found nothing there."""
    trace = stamped(10, 30, 40, 50, high_watermark=3)
    trace.emit("broker-1", LogLocalStart(TP, local, "retention-ms", 0))
    trace.emit("broker-1", RpcPark("ListOffsets", 11, "client", "c", 1, 0, 30000, [TP], []))
    trace.emit("broker-1", LogStart(TP, 1, "delete-records", -1, 3))
    assert answers(trace, 20, -1).result("H4").status == status


@pytest.mark.parametrize(
    ("deleted", "offset", "status"), [(2, 2, "held"), (2, 1, "held"), (1, 2, "violated"), (2, 3, "violated")]
)
def test_copies_that_another_leader_has_deleted(deleted: int, offset: int, status: str) -> None:
    """Shows that a former leader, whose log begins at 0, finds what a newer one has left in remote storage."""
    trace = stamped(10, 30, 40, 50)
    trace.emit("broker-1", LogLocalStart(TP, 3, "retention-ms", 0))
    trace.emit("broker-2", TierSegment(TP, "s", "deleting", FINISHED, 0, 0, {"0": 0}, log_start=deleted))
    trace.emit("broker-1", RpcPark("ListOffsets", 11, "client", "c", 1, 0, 30000, [TP], []))
    timestamp = (10, 30, 40, 50)[offset]
    assert answers(trace, 5, offset, timestamp, 0).result("H4").status == status
