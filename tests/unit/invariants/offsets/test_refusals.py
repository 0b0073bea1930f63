"""H9: clients absorb KIP-207's refusal."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import (
    CtlFault,
    ErrorSeen,
    ListInvoke,
    ListReturn,
    MetaView,
    NodeUp,
    ReplyPartition,
    Rpc,
    RpcReply,
)
from orchestrator.invariants.folds.conclusion import InvariantResult
from tests.unit.invariants.trace_builder import TP, TraceBuilder


class Refused:
    """A client that was refused: it has asked, its metadata is settled, and broker-2 answers OFFSET_NOT_AVAILABLE."""

    def __init__(self, client: str = "list-offsets-1", role: str = "list-offsets", **profile: Any) -> None:
        self.client = client
        self.asked = -1 if role == "list-offsets" else -2
        self.trace = TraceBuilder(**profile)
        self.trace.emit(client, NodeUp(role, -1, "", False, False))
        self.calls = 0
        for _ in range(2):
            self.view()
        self.op = self.trace.invoke(client)
        self.refusal = self.error(78)

    def call(self, api: str, broker: str, number: int = 0, took_ms: int = 0) -> None:
        """A call of the client is answered: by default the next one, which was sent just now."""
        self.calls += not number
        self.trace.emit(self.client, Rpc(api, 7, broker, "c", number or self.calls, "answered", [], took_ms=took_ms))

    def view(self, call: int = 0, took_ms: int = 0, **epochs: int) -> str:
        """Metadata arrives."""
        self.call("Metadata", "broker-1", call, took_ms)
        return self.trace.emit(self.client, MetaView("broker-1", {f"orders-{tp}": e for tp, e in epochs.items()}, []))

    def error(self, error: int, api: str = "ListOffsets", tp: str = TP) -> str:
        """An answer that the client goes on after."""
        self.call(api, "broker-2")
        return self.trace.emit(self.client, ErrorSeen(tp, api, 7, error, "broker-2"))

    def answered(self, offset: int, error: int = 0) -> None:
        """Broker-2 answers; what comes next is what the client makes of that."""
        told = ReplyPartition(TP, error, offset, timestamp=self.asked)
        body = RpcReply("ListOffsets", 7, self.client, "c", 1, -1, 0, 0, [told])
        self.trace.cause = self.trace.emit("broker-2", body)

    def ends(self, error: int = 0) -> str:
        """The operation returns."""
        if not error:
            self.answered(4)
            returned = self.trace.told(self.client, self.op, 4, 2, 0)
            self.trace.cause = ""
            return returned
        return self.trace.emit(self.client, ListReturn(self.op, "unknown", error, TP, -1))


def test_a_client_that_asks_again() -> None:
    """Shows that each refusal tests H9 when the next answer comes."""
    refused = Refused()
    assert refused.trace.result("H9").status == "vacuous"
    refused.error(78)
    assert refused.trace.result("H9").tested == 1
    refused.ends()
    assert (refused.trace.result("H9").status, refused.trace.result("H9").tested) == ("held", 3)


def test_a_client_that_refreshes_its_metadata() -> None:
    """Shows that metadata between refusal and next answer violates H9, with both as evidence; Kafka's consumer does
    that, and is excused."""
    refused = Refused()
    view = refused.view()
    refused.ends()
    result = refused.trace.result("H9")
    assert result.violations[0].events == [refused.refusal, view]
    assert result.violations[0].sentence == (
        "list-offsets-1 refreshed its metadata after broker-2 had refused ListOffsets for orders-0"
    )
    for role in ("consumer", "group-consumer", "mirror", "processor"):
        consumer = Refused("consumer-1", role)
        consumer.view()
        consumer.ends()
        assert consumer.trace.result("H9").excused == {"consumer-refreshes": 1}
    for callers, status in ((["list-offsets-1"], "excused"), (["list-offsets-2"], "violated")):
        calling = Refused(consumer_calls=callers)
        calling.view()
        calling.ends()
        assert calling.trace.result("H9").status == status


def test_metadata_that_was_asked_for_before() -> None:
    """Shows that metadata are nothing that come after a refusal, and were asked for before it, or before what was
    refused."""
    for call, took_ms in ((0, 9), (1, 0)):
        refused = Refused()
        refused.view(call, took_ms)
        refused.ends()
        assert refused.trace.result("H9").status == "held"


def test_metadata_that_is_asked_for_until_there_is_a_leader() -> None:
    """Shows that answers with an error in them are a reason to refresh again, as often as they come, and that the one
    that has none ends it."""
    refused = Refused()
    for _ in range(6):
        refused.trace.emit(refused.client, Rpc("Metadata", 12, "broker-1", "c", 1, "answered", [5]))
        refused.view()
    refused.ends()
    assert refused.trace.result("H9").status == "held"


@pytest.mark.parametrize("reason", ["error", "lost", "disconnect", "age", "other", "epochs", "clock"])
def test_metadata_that_comes_for_another_reason(reason: str) -> None:
    """Shows that a refresh is nothing if an error asked for it, a connection broke, the metadata was old, another
    partition has no answer, its answer brought news, or the client's clock was changed."""
    refused = Refused(config={"metadata.max.age.ms": 1 if reason == "age" else 300_000})
    if reason == "error":
        refused.error(6, "Metadata", "")
    elif reason == "lost":
        refused.trace.emit(refused.client, Rpc("Metadata", 12, "broker-1", "c", 1, "timeout", []))
    elif reason == "disconnect":
        refused.error(13, "ListOffsets", "")
    elif reason == "other":
        refused.trace.emit(refused.client, ListInvoke("x", "orders-1", -1))
    elif reason == "clock":
        refused.trace.emit("driver", CtlFault("f", "clock-jump", "start", [refused.client], {}))
    refused.view(**({"0": 3} if reason == "epochs" else {}))
    refused.ends()
    assert (refused.trace.result("H9").status, refused.trace.result("H9").tested) == ("held", 2)


def test_a_client_that_hands_the_error_on() -> None:
    """Shows that OFFSET_NOT_AVAILABLE may reach the application when the operation's time is over, not before."""
    early = Refused()
    fail = early.ends(78)
    result = early.trace.result("H9")
    assert result.violations[0].events == [fail]
    assert result.violations[0].sentence == (
        "list-offsets-1 returned OFFSET_NOT_AVAILABLE for orders-0 to its application after 3 ms, before "
        "default.api.timeout.ms=60,000 was over"
    )
    late = Refused(config={"default.api.timeout.ms": 1})
    late.ends(78)
    assert late.trace.result("H9").status == "held"
    for apart, status in ((1_000, "violated"), (1_001, "held")):
        almost = Refused(config={"default.api.timeout.ms": 4})
        almost.trace.apart = apart
        almost.ends(78)
        assert almost.trace.result("H9").status == status, "whole milliseconds are what a client counts"
    other = Refused()
    other.ends(35)
    assert other.trace.result("H9").status == "held"
    clock = Refused()
    clock.trace.emit("driver", CtlFault("f", "clock-jump", "start", ["list-offsets-1"], {}))
    clock.ends(78)
    assert clock.trace.result("H9").excused == {"clock": 1}


def test_a_consumer_that_is_refused_a_fetch() -> None:
    """Shows that a reset whose last error of a Fetch was the refusal violates H9, and one for OFFSET_OUT_OF_RANGE does
    not."""
    for error, violated in ((78, 1), (1, 0)):
        refused = Refused("consumer-1", "consumer")
        refused.error(error, "Fetch")
        refused.answered(0)
        refused.trace.moved("consumer-1", 0, "reset", 44)
        result = refused.trace.result("H9")
        assert result.violated == violated
        if violated:
            assert result.violations[0].sentence == ("consumer-1 gave up its position 44 in orders-0 after a refusal")


@pytest.mark.parametrize("reason", ["assign", "reset"])
def test_a_position_is_what_a_leader_told(reason: str) -> None:
    """Shows that a position that was looked up, the first one too, is one that an answer without an error told; a
    position that the application sought needs none."""

    def took(offset: int, told: int, error: int) -> TraceBuilder:
        refused = Refused("consumer-1", "consumer")
        refused.answered(told, error)
        refused.trace.moved("consumer-1", offset, reason, -1 if reason == "assign" else 7)
        return refused.trace

    assert took(41, 41, 0).result("H9").status == "held"
    for error, name in ((78, "OFFSET_NOT_AVAILABLE"), (5, "LEADER_NOT_AVAILABLE"), (6, "NOT_LEADER_OR_FOLLOWER")):
        (finding,) = took(0, -1, error).result("H9").violations
        assert finding.sentence.endswith(f"but broker-2 had refused with {name}")
    (finding,) = took(0, 41, 0).result("H9").violations
    assert finding.sentence.endswith("but broker-2 had answered 41")
    sought = Refused("consumer-1", "consumer")
    sought.trace.moved("consumer-1", 5, "seek")
    assert sought.trace.result("H9").violated == 0
    nothing = Refused("consumer-1", "consumer")
    nothing.trace.moved("consumer-1", 5, reason)
    assert (
        nothing.trace.result("H9")
        .violations[0]
        .sentence.endswith("to 5 (before: 0), but no answer contained that offset")
    )


@pytest.mark.parametrize("reason", ["assign", "reset"])
def test_a_consumer_begins_where_auto_offset_reset_says(reason: str) -> None:
    """Shows that a position which was looked up at the other end of the log violates H9, as does any if there is to be
    none, and that a new incarnation is held to the same; a position that the application sought is not."""

    def took(policy: str, asked: int, why: str) -> InvariantResult:
        refused = Refused("consumer-1", "consumer", nodes={"consumer-1": {"config": {"auto.offset.reset": policy}}})
        refused.trace.up("consumer-1", "consumer")
        refused.asked = asked
        refused.answered(41)
        refused.trace.moved("consumer-1", 41, why, -1 if why == "assign" else 7)
        return refused.trace.result("H9")

    for policy, asked, violated in (
        *(("earliest", -2, 0), ("earliest", -1, 1), ("earliest", -4, 1)),
        *(("latest", -1, 0), ("latest", -2, 1), ("none", -2, 1), ("none", -1, 1)),
    ):
        assert took(policy, asked, reason).violated == violated, (policy, asked)
        assert took(policy, asked, "seek").violated == 0
    assert (
        took("earliest", -1, reason)
        .violations[0]
        .sentence.endswith("but broker-2 had been asked for timestamp -1, and not for -2")
    )
    assert took("none", -1, reason).violations[0].sentence.endswith("although it has auto.offset.reset=none")


def test_an_application_is_told_of_the_timestamp_that_it_named() -> None:
    """Shows that an offset which a client hands to its application as that of another timestamp than it asked for
    violates H9."""
    for asked, violated in ((-1, 0), (-2, 1), (1500, 1)):
        refused = Refused()
        refused.asked = asked
        refused.answered(4)
        refused.trace.told(refused.client, refused.op, 4, 2, 0)
        assert refused.trace.result("H9").violated == violated, asked


def test_an_application_is_told_what_a_leader_told() -> None:
    """Shows that an offset which a client hands to its application comes from an answer without an error."""
    refused = Refused()
    refused.answered(-1, 78)
    refused.trace.told(refused.client, refused.op, 0, 2, 0)
    assert refused.trace.result("H9").violations[0].sentence == (
        "list-offsets-1 returned offset 0 of orders-0 to its application, but broker-2 had refused with "
        "OFFSET_NOT_AVAILABLE"
    )


def test_a_retriable_error_of_any_kind_stays_with_the_client() -> None:
    """Shows that NOT_LEADER_OR_FOLLOWER may reach the application when the operation's time is over, not before, and
    an error that does not pass at once."""
    early = Refused()
    early.ends(6)
    assert early.trace.result("H9").violated == 1
    fatal = Refused()
    fatal.ends(35)
    assert fatal.trace.result("H9").status == "held"


def test_a_new_incarnation_begins_anew() -> None:
    """Shows that what was refused before a restart is not held against the client afterwards."""
    refused = Refused()
    refused.trace.up("list-offsets-1", "list-offsets")
    refused.view()
    refused.ends(78)
    assert refused.trace.result("H9").status == "vacuous"
