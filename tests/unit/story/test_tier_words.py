"""Events of tiered storage in words."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import (
    CtlFault,
    LogLocalStart,
    LogStart,
    RecordsDelete,
    RemoteFetchEnd,
    RequestHandled,
    RpcPark,
    StoreObject,
    TierSegment,
    TierTask,
)
from actors.trace.reader_events import ReaderTaskPhase
from actors.trace.tier_events import FINISHED, TierPhase
from orchestrator.story.tier_words import COPIES, OF_TIERS, READS
from orchestrator.story.words import fault_words

CONNECTION = "list-offsets-1>broker-1:client:0.0"


def _task(phase: Any, **more: Any) -> TierTask:
    return TierTask("orders-0", "p", 1, "list-offsets", phase, CONNECTION, 1, 1, 0, 2, 2, **more)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            RequestHandled("ListOffsets", CONNECTION, 1, 0, 3075, "held", 0, 10, 2),
            (
                "handled the ListOffsets of list-offsets-1 in 3,075 ms, because it waited for the remote store; 10 "
                "more "
                "are "
                "in the queue"
            ),
        ),
        (
            RequestHandled("Produce", "producer-1>broker-1:client:0.0", 1, 2000, 0, "at-once", 0, 0, 0),
            "handled the Produce of producer-1 in 0 ms",
        ),
        (
            RpcPark("ListOffsets", 10, "list-offsets-1", CONNECTION, 1, 0, 30_000, ["orders-0"], []),
            (
                "lets the ListOffsets of list-offsets-1 for orders-0 wait for remote storage in the purgatory, for "
                "at most 30,000 ms"
            ),
        ),
        (
            RpcPark("ListOffsets", 10, "list-offsets-1", CONNECTION, 1, 0, -1, ["orders-0"], [], held=True),
            "lets the ListOffsets of list-offsets-1 for orders-0 wait for remote storage in its request handler",
        ),
        (
            _task("finish", error=int(KafkaError.UNKNOWN_SERVER_ERROR), timestamp=9),
            "ends the look-up of timestamp 9 in orders-0 for list-offsets-1 with UNKNOWN_SERVER_ERROR",
        ),
        (
            RemoteFetchEnd("consumer-1>broker-1:client:0.0", 1, True),
            "has answered the remote Fetch of consumer-1, as its time was over",
        ),
        (
            RemoteFetchEnd("consumer-1>broker-1:client:0.0", 1, False),
            "has answered the remote Fetch of consumer-1, as it had nothing more to wait for",
        ),
        (
            TierSegment("orders-0", "s", "known", FINISHED, 0, 1999, {"0": 0}),
            "learns that the copy of offsets 0 to 1,999 of orders-0 is in the state COPY_SEGMENT_FINISHED",
        ),
        (
            StoreObject("orders-0", "t", "s", "LOG", "deleted", 9),
            "deletes the object LOG of a segment of orders-0",
        ),
        (
            RecordsDelete("orders-0", "begin", "admin-1>broker-1:admin:0.0", 1, -1, 1000, 0, 0, 0, [2]),
            "carries out the DeleteRecords of admin-1 for orders-0 up to 1,000, while its low watermark is 0",
        ),
        (
            RecordsDelete("orders-0", "end", "admin-1>broker-1:admin:0.0", 1, 5, 5, 7, 0, 0, [2]),
            "answers the DeleteRecords of admin-1 for orders-0 up to 5, while its low watermark is 7",
        ),
        (
            RecordsDelete("orders-0", "end", "admin-1>broker-1:admin:0.0", 1, 5, 5, 0, 7, 0, [2]),
            "answers the DeleteRecords of admin-1 for orders-0 with REQUEST_TIMED_OUT",
        ),
        (LogStart("orders-0", 40, "retention-ms", 0), "moves its log start of orders-0 to 40 (retention-ms)"),
        (LogLocalStart("orders-0", 40, "remote", 0), "moves its local log start of orders-0 to 40 (remote)"),
    ],
)
def test_an_event_in_words(body: Any, says: str) -> None:
    """Shows what each event says, after the name of the node that recorded it."""
    assert OF_TIERS[type(body)](body) == says


def test_each_phase_has_words() -> None:
    """Shows that no phase of a copy or of a read is without words."""
    assert set(COPIES) == set(get_args(TierPhase))
    assert set(READS) == set(get_args(ReaderTaskPhase))


@pytest.mark.parametrize(
    ("kind", "parameters", "says"),
    [
        ("slow-store", {"delay_min_us": 3_000_000, "delay_max_us": 4_000_000}, "by 3s to 4s"),
        ("slow-disk", {"delay_min_us": 300_000, "delay_max_us": 300_000}, "by 300ms"),
        ("failing-store", {"delay_max_us": 0, "chance_ppm": 300_000, "apis": ["FetchIndex"]}, "for FetchIndex, 30%"),
        ("unavailable-store", {"delay_max_us": 0, "chance_ppm": 1_000_000, "apis": []}, ""),
    ],
)
def test_how_a_fault_hits(kind: str, parameters: dict[str, Any], says: str) -> None:
    """Shows that a fault of a store or a disk says how slow it is, which APIs it hits, and how often."""
    body = CtlFault("f1", kind, "start", ["remote-store-1"], parameters)
    assert fault_words(body) == f"f1 {kind} of remote-store-1{' ' if says else ''}{says}"
