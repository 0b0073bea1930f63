"""What an operator asked for, in words, and what came to less than was asked for."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import AdminInvoke, AdminReturn
from orchestrator.story.requests import answer, asked_for
from tests.unit.story.stage import TP, Stage

DONE, NOT_NEEDED = "NONE", "ELECTION_NOT_NEEDED"


@pytest.mark.parametrize(
    ("call", "arguments", "words"),
    [
        ("elect-leaders", {"type": "unclean", "partitions": [TP]}, "an unclean election of orders-0"),
        ("elect-leaders", {"type": "preferred"}, "a preferred election of all partitions"),
        (
            "alter-config",
            {"resources": ["topic/orders", "broker/"], "set": {"min.insync.replicas": "2"}, "delete": ["retention.ms"]},
            "min.insync.replicas=2, the default of retention.ms on topic orders, all brokers",
        ),
        ("describe-quorum", {}, "a description of the quorum"),
        ("add-voter", {"controller": "controller-4"}, "controller-4 as a new voter"),
        ("remove-voter", {"controller": "controller-1"}, "controller-1 as a voter no longer"),
        ("create-topic", {"topic": "orders"}, "a new topic orders"),
        ("delete-topic", {"topic": "orders"}, "the removal of topic orders"),
        ("create-partitions", {"topic": "orders", "count": 4}, "more partitions of orders"),
        (
            "delete-records",
            {"offsets": {TP: 1000, "orders-1": -1}},
            "the deletion of the records of orders-0 up to 1,000, orders-1 up to the high watermark",
        ),
    ],
)
def test_a_request_in_words(call: str, arguments: dict[str, Any], words: str) -> None:
    """Shows each thing that an operator can ask for."""
    assert asked_for(AdminInvoke("op", call, arguments)) == words


def test_where_logs_begin_is_told() -> None:
    """Shows the answer to a deletion: where the logs begin, or why they do not."""
    told = {TP: DONE, "orders-1": "OFFSET_OUT_OF_RANGE"}
    words = answer(AdminReturn("op", "ok", 1, "delete-records", told, {TP: 1000}))
    assert words == "orders-0 begins at 1,000 or later everywhere, orders-1 OFFSET_OUT_OF_RANGE"
    refused = answer(AdminReturn("op", "ok", 1, "delete-records", {TP: "OFFSET_OUT_OF_RANGE"}))
    assert refused == "OFFSET_OUT_OF_RANGE"


def remarks(
    named: list[str], outcome: Literal["ok", "fail", "unknown"] = "ok", error: int = 0, **results: str
) -> list[str]:
    """What is remarked on an election of these partitions that came to these results."""
    trace = Stage().begin()
    trace.asks("elect-leaders", type="preferred", partitions=named)
    trace.is_answered("elect-leaders", outcome, error, **results)
    return trace.chronicle.requests.remarks


def test_a_request_that_was_done_is_not_remarked_on() -> None:
    """Shows that nothing is said of an election that took place, also where some of all partitions need none."""
    assert remarks([TP], orders_0=DONE) == []
    assert remarks([], orders_0=DONE, orders_1=NOT_NEEDED) == []


def test_a_request_that_changed_nothing() -> None:
    """Shows that the answer says why nothing changed, or what of it did not."""
    of = "an operator's request for a preferred election of"
    assert remarks([TP], orders_0=NOT_NEEDED) == [f"{of} orders-0 had no effect: orders-0 ELECTION_NOT_NEEDED"]
    assert remarks([], orders_0=NOT_NEEDED) == [f"{of} all partitions had no effect: orders-0 ELECTION_NOT_NEEDED"]
    assert remarks([TP, "orders-1"], orders_0=DONE, orders_1=NOT_NEEDED) == [
        f"{of} orders-0, orders-1 was done only in part: orders-1 ELECTION_NOT_NEEDED"
    ]


def test_a_request_that_failed_or_was_not_answered() -> None:
    """Shows that a refusal, an answer that never came, and the end of the run before it are told apart."""
    of = "an operator's request for a preferred election of orders-0"
    refused = remarks([TP], "fail", KafkaError.POLICY_VIOLATION)
    assert refused == [f"{of} had no effect: POLICY_VIOLATION, nothing was done"]
    unknown = remarks([TP], "unknown", KafkaError.REQUEST_TIMED_OUT)
    assert unknown == [f"{of} got no answer: REQUEST_TIMED_OUT, its outcome is unknown"]
    trace = Stage().begin()
    trace.asks("elect-leaders", type="preferred", partitions=[TP])
    assert trace.chronicle.requests.remarks == [f"{of} was not answered before the run ended"]
