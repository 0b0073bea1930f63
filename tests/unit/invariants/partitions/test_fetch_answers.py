"""P26: a Fetch is answered as soon as it can be, and consumers are refused for a reason. Hand-written traces."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import FetchTold, LogLocalStart, LogStart, PartChange, TierSegment
from actors.trace.tier_events import DELETED, DELETION_STARTED, FINISHED
from tests.unit.invariants.trace_builder import TP, TraceBuilder

E = KafkaError


def told(
    offset: int, error: KafkaError = E.NONE, *, asked: int = 3, leads: bool = True, replica: int = -1, last: int = -1
) -> FetchTold:
    """What a broker in leader epoch 3, with a log up to 9 and a high watermark of 7, told a Fetch."""
    return FetchTold(TP, replica, offset, asked, last, int(error), False, leads, 3, 7, 0, 9)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (told(10, E.OFFSET_OUT_OF_RANGE), ""),
        (told(9, E.OFFSET_OUT_OF_RANGE), "OFFSET_OUT_OF_RANGE, although its log begins at 0 and ends at 9"),
        (told(8, E.OFFSET_OUT_OF_RANGE), "OFFSET_OUT_OF_RANGE, although its log begins at 0 and ends at 9"),
        (told(8, E.OFFSET_OUT_OF_RANGE, last=5), ""),
        (told(7, E.NOT_LEADER_OR_FOLLOWER, leads=False), ""),
        (told(7, E.NOT_LEADER_OR_FOLLOWER), "NOT_LEADER_OR_FOLLOWER, although it led leader epoch 3"),
        (told(7, E.FENCED_LEADER_EPOCH, asked=2), ""),
        (told(7, E.FENCED_LEADER_EPOCH), "although the request named leader epoch 3 and the broker knew 3"),
        (told(7, E.FENCED_LEADER_EPOCH, asked=4), "although the request named leader epoch 4 and the broker knew 3"),
        (told(7, E.UNKNOWN_LEADER_EPOCH, asked=4), ""),
        (told(7, E.UNKNOWN_LEADER_EPOCH, asked=2), "although the request named leader epoch 2 and the broker knew 3"),
        (told(7, E.UNKNOWN_TOPIC_ID), ""),
    ],
)
def test_reasons_of_refusals(body: FetchTold, says: str) -> None:
    """Shows each refusal of a consumer with its reason, and without it."""
    trace = TraceBuilder()
    trace.emit("broker-1", body)
    result = trace.result("P26")
    assert (result.status, result.tested) == ("violated" if says else "held", 1)
    assert "".join(finding.sentence for finding in result.violations).endswith(says)


@pytest.mark.parametrize(
    ("offset", "states", "status"),
    [
        (1, [FINISHED, DELETED], "excused"),
        (1, [FINISHED, DELETION_STARTED], "excused"),
        (1, [FINISHED], "violated"),
        (1, ["COPY_SEGMENT_STARTED"], "violated"),
        (3, [FINISHED, DELETED], "violated"),
        (4, [FINISHED, DELETED], "violated"),
    ],
)
def test_a_log_that_begins_at_a_deleted_copy(offset: int, states: list[str], status: str) -> None:
    """Shows that a consumer may be refused where the broker itself has nothing, and the copy is gone; not where there
    is one, where none was, or what the broker itself has."""
    trace = TraceBuilder()
    for state in states:
        trace.emit("broker-1", TierSegment(TP, "a", "known", state, 0, 2, {"0": 0}))
    trace.emit("broker-1", LogLocalStart(TP, 4, "retention-ms", 0, 7))
    trace.emit("broker-1", told(offset, E.OFFSET_OUT_OF_RANGE))
    result = trace.result("P26")
    assert (result.status, result.tested) == (status, 1)


@pytest.mark.parametrize(
    ("offset", "election", "own", "status"),
    [
        (1, {}, "", "excused"),
        (1, {}, "COPY_SEGMENT_STARTED", "excused"),
        (1, {}, FINISHED, "violated"),
        (3, {}, "", "violated"),
        (4, {}, "", "violated"),
        (1, {"cause": "fence"}, "", "violated"),
        (1, {"tp": "__consumer_offsets-1"}, "", "violated"),
        (1, {"after": ()}, "", "violated"),
        (1, {"after": ("COPY_SEGMENT_STARTED",)}, "", "violated"),
        (1, {"after": (FINISHED, DELETION_STARTED)}, "", "violated"),
        (1, {"epoch": 1}, "", "violated"),
    ],
)
def test_a_copy_whose_metadata_is_gone(offset: int, election: dict[str, Any], own: str, status: str) -> None:
    """Shows that a consumer may be refused where an unclean election of the metadata topic may have taken the only
    metadata of a finished copy, if the broker does not know it and has nothing there itself; in no other way."""
    trace = TraceBuilder()
    trace.replicate(*"abcde")
    for state in election.get("after", (FINISHED,)):
        trace.emit("broker-2", TierSegment(TP, "a", "known", state, 0, 2, {str(election.get("epoch", 0)): 0}))
    tp, cause = election.get("tp", "__remote_log_metadata-1"), election.get("cause", "unclean")
    elected = trace.emit("controller-1", PartChange(tp, 9, 1, 3, 1, 1, [3], [1, 2, 3], cause))
    if not election.get("after", True):
        trace.emit("broker-2", TierSegment(TP, "a", "known", FINISHED, 0, 2, {"0": 0}))
    if own:
        trace.emit("broker-1", TierSegment(TP, "a", "known", own, 0, 2, {"0": 0}))
    trace.emit("broker-1", LogLocalStart(TP, 4, "retention-ms", 0, 5))
    refused = trace.emit("broker-1", told(offset, E.OFFSET_OUT_OF_RANGE))
    result = trace.result("P26")
    assert (result.status, result.tested) == (status, 1)
    if status == "excused":
        assert result.excused == {"metadata-lost": 1}
        assert result.excuses[0].events == [elected, refused]


@pytest.mark.parametrize(("restarts", "status"), [(True, "excused"), (False, "violated")])
def test_a_process_that_knows_a_copy_whose_metadata_is_gone(restarts: bool, status: str) -> None:
    """Shows that a broker that took in the metadata itself must use it until its process ends."""
    trace = TraceBuilder()
    trace.replicate(*"abcde")
    trace.emit("broker-1", TierSegment(TP, "a", "known", FINISHED, 0, 2, {"0": 0}))
    trace.emit("controller-1", PartChange("__remote_log_metadata-0", 9, 1, 3, 1, 1, [3], [1, 2, 3], "unclean"))
    if restarts:
        trace.up("broker-1")
    trace.emit("broker-1", LogLocalStart(TP, 4, "load", 0, 5))
    trace.emit("broker-1", told(1, E.OFFSET_OUT_OF_RANGE))
    assert trace.result("P26").status == status


def test_what_was_there_is_not_waited_for() -> None:
    """Shows a consumer, and a follower, whose Fetches waited to the end for what was there; with what brought it."""
    trace = TraceBuilder()
    trace.lead(1, 3)
    grown = trace.append("broker-1", *"abcdefghi", epoch=3)
    moved = trace.high_watermark("broker-1", 9, epoch=3)
    fields = (3, -1, 0, True, True, 3, 9, 0, 9)
    consumer = trace.emit("broker-1", FetchTold(TP, -1, 5, *fields))
    follower = trace.emit("broker-1", FetchTold(TP, 2, 8, *fields))
    first, second = trace.result("P26").violations
    assert first.sentence == (
        "broker-1 let the Fetch of a consumer at 5 of orders-0 wait for its whole max wait time, although its high "
        "watermark was 9"
    )
    assert second.sentence == (
        "broker-1 let the Fetch of broker-2 at 8 of orders-0 wait for its whole max wait time, although its log ended "
        "at 9"
    )
    assert (first.events, second.events) == ([moved, consumer], [grown, follower])
    refused = TraceBuilder()
    refused.emit("broker-1", FetchTold(TP, -1, 5, 2, -1, int(E.FENCED_LEADER_EPOCH), True, True, 3, 9, 0, 9))
    assert (
        refused.result("P26")
        .violations[0]
        .sentence.endswith("wait for its whole max wait time, and then answered with FENCED_LEADER_EPOCH")
    )


@pytest.mark.parametrize(
    ("offset", "moves_on", "status"), [(6, False, "excused"), (6, True, "violated"), (8, False, "violated")]
)
def test_what_was_deleted_while_a_consumer_waited(offset: int, moves_on: bool, status: str) -> None:
    """Shows that a consumer whose position was deleted is told so at the end of its wait, unless the high watermark has
    moved since; and only if it was: 8 is not."""
    trace = TraceBuilder()
    trace.lead(1, 3)
    trace.append("broker-1", *"abcdefgh", epoch=3)
    trace.append("broker-1", "i", epoch=3)
    trace.high_watermark("broker-1", 8, epoch=3)
    deleted = trace.emit("broker-1", LogStart(TP, 7, "delete-records", 3))
    if moves_on:
        trace.high_watermark("broker-1", 9, epoch=3)
    error = int(E.OFFSET_OUT_OF_RANGE)
    trace.emit("broker-1", FetchTold(TP, -1, offset, 3, -1, error, True, True, 3, 8, 7, 9))
    result = trace.result("P26")
    assert result.status == status
    assert result.excused == ({"deleted-meanwhile": 1} if status == "excused" else {})
    assert deleted in result.excuses[0].events if status == "excused" else result.violations


def test_who_waits_and_is_answered() -> None:
    """Shows that an append tests the promise if a follower has fetched from the log end, and not otherwise."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.append("broker-1", "a")
    assert trace.result("P26").status == "vacuous"
    trace.fetched(1, 2, 0)
    trace.append("broker-1", "b")
    assert trace.result("P26").status == "vacuous"
    trace.fetched(1, 2, 2)
    trace.append("broker-1", "c")
    assert (trace.result("P26").status, trace.result("P26").tested) == ("held", 1)
