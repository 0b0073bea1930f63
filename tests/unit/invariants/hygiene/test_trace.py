"""X3, X4 and X7: what must hold for the other verdicts to mean anything."""

from __future__ import annotations

import msgspec

from actors.trace.events import EVENT_TYPES, CtlFault, ReplyPartition, Rpc, RunEnd, RunRepeat, Tick
from orchestrator.invariants.hygiene.trace import RECORDED_BY
from tests.unit.invariants.trace_builder import TP, TraceBuilder

# ---- X3 --------------------------------------------------------------------------------------------------------


def test_nodes_that_end_as_they_may() -> None:
    """Shows that crashes and clean ends hold X3, tested by every incarnation."""
    trace = TraceBuilder()
    trace.up("broker-1")
    trace.down("broker-1", "crash")
    trace.up("broker-1")
    trace.down("broker-1", "clean")
    result = trace.result("X3")
    assert (result.status, result.tested) == ("held", 2)


def test_a_node_that_raised() -> None:
    """Shows that an internal error violates X3 with its words."""
    trace = TraceBuilder()
    trace.up("broker-1")
    event = trace.down("broker-1", "bug", detail="AssertionError: batch at 41, log ends at 44")
    result = trace.result("X3")
    assert result.violations[0].events == [event]
    assert result.violations[0].sentence == (
        "broker-1 raised an exception: AssertionError: batch at 41, log ends at 44"
    )


def test_a_node_that_its_fault_handler_ended() -> None:
    """Shows that this violates X3, unless a voter's disk was wiped before; that of a broker, or of a voter that is
    known by its directory, is no excuse; of the latter for itself alone."""
    why = "was told that 103 leads epoch 3, and knows that 102 leads 3"
    trace = TraceBuilder()
    trace.up("controller-1", "controller")
    trace.emit("driver", CtlFault("f1", "wipe", "start", ["broker-1"], {}))
    event = trace.down("controller-1", "fatal", detail=why)
    result = trace.result("X3")
    assert result.violations[0].events == [event]
    assert result.violations[0].sentence == f"controller-1 stopped itself: {why}"
    trace = TraceBuilder()
    trace.up("controller-1", "controller")
    trace.emit("driver", CtlFault("f1", "wipe", "start", ["controller-3"], {}))
    trace.down("controller-1", "fatal", detail=why)
    result = trace.result("X3")
    assert (result.violations, result.excused) == ([], {"wiped": 1})
    directories = TraceBuilder(features={"kraft.version": "1"})
    directories.up("controller-1", "controller")
    directories.emit("driver", CtlFault("f1", "wipe", "start", ["controller-3"], {}))
    directories.down("controller-1", "fatal", detail=why)
    assert directories.result("X3").status == "violated"
    directories.up("controller-3", "controller")
    directories.down("controller-3", "fatal", detail=why)
    assert (directories.result("X3").violated, directories.result("X3").excused) == (1, {"wiped": 1})


def test_no_node_tests_nothing() -> None:
    """Shows that X3 is vacuous where no node came up."""
    assert TraceBuilder().result("X3").status == "vacuous"


# ---- X4 --------------------------------------------------------------------------------------------------------


def whole() -> TraceBuilder:
    """Two nodes, one of which acts on a message of the other."""
    trace = TraceBuilder()
    trace.up("broker-1")
    sent = trace.emit("broker-1", Tick())
    trace.up("broker-2")
    trace.cause = sent
    trace.emit("broker-2", Tick())
    trace.cause = ""
    return trace


def test_each_event_has_its_recorder() -> None:
    """Shows that a gap in a node's trace clouds what is judged by any event that such a node may record."""
    recorded = {name for names in RECORDED_BY.values() for name in names}
    assert set(EVENT_TYPES) - recorded == {RunRepeat.__struct_config__.tag}  # written once the run is over


def test_a_whole_trace() -> None:
    """Shows that every event of a whole trace tests X4."""
    trace = whole().end()
    result = trace.result("X4")
    assert (result.status, result.tested) == ("held", 6)


def test_a_missing_event() -> None:
    """Shows that a gap violates X4, and that what was judged on that node's events is in doubt."""
    trace = whole()
    trace.emit("broker-1", Tick())
    trace.end()
    del trace.events[2]
    results = trace.check()
    assert "the trace of broker-1/0 lacks its event 1" in [f.sentence for f in results["X4"].violations]
    assert (results["P3"].status, results["P3"].why.partition(":")[0]) == ("inconclusive", "a gap in the trace")
    assert results["X3"].status == "inconclusive"


def test_an_event_missing_at_the_end() -> None:
    """Shows that run.end tells of what was written and is not there."""
    trace = whole().end()
    del trace.events[4]
    assert trace.result("X4").violations[0].sentence == (
        "the trace of broker-2/0 ends with its event 0, though it wrote 1"
    )


def test_an_incarnation_that_is_missing_whole() -> None:
    """Shows that run.end tells of an incarnation of which no event is there."""
    trace = whole()
    trace.emit("driver", RunEnd({"broker-1/0": 1, "broker-2/0": 1, "broker-3/0": 4}))
    assert trace.result("X4").violations[0].sentence == (
        "the trace of broker-3/0 ends with its event -1, though it wrote 4"
    )


def test_an_effect_without_its_cause() -> None:
    """Shows that an event whose cause is nowhere before it violates X4."""
    trace = whole()
    trace.cause = "broker-1/0/9"
    event = trace.emit("broker-2", Tick())
    trace.cause = ""
    trace.end()
    result = trace.result("X4")
    assert result.violations[0].events == [event]
    assert result.violations[0].sentence == ("broker-2 acted on broker-1/0/9, which does not come before in the trace")


def test_a_clock_that_goes_back() -> None:
    """Shows that a later event of a node with an earlier clock violates X4."""
    trace = whole().end()
    first, second = trace.events[1], trace.events[2]
    trace.events[1] = msgspec.structs.replace(first, wall=second.wall, logical=second.logical)
    trace.events[2] = msgspec.structs.replace(second, wall=first.wall, logical=first.logical)
    sentences = [finding.sentence for finding in trace.result("X4").violations]
    assert "the clock of broker-1 went back between its events 1 and 0" in sentences


def test_an_event_after_the_end() -> None:
    """Shows that what an incarnation records after its end violates X4."""
    trace = whole()
    trace.down("broker-1")
    trace.emit("broker-1", Tick())
    trace.end()
    assert trace.result("X4").violations[0].sentence == "broker-1/0 recorded an event after its end"


def test_a_trace_that_just_stops() -> None:
    """Shows that without a word on where a node's trace ends X4 is inconclusive, not held; a killed one has its end."""
    assert whole().result("X4").status == "inconclusive"
    trace = whole()
    trace.down("broker-1")
    trace.down("broker-2")
    trace.emit("driver", RunEnd({"broker-1/0": -1, "broker-2/0": -1}))
    assert trace.result("X4").status == "held"


# ---- X7 --------------------------------------------------------------------------------------------------------


def exchange(api: str, version: int, *errors: int) -> Rpc:
    """An exchange with broker-2 as its caller saw it."""
    return Rpc(api, version, "broker-2", "c", 1, "answered", list(errors))


def test_errors_that_the_version_knows() -> None:
    """Shows that an error answer of an old version tests X7, at the server and at the caller."""
    trace = TraceBuilder()
    trace.reply(2, "ListOffsets", ReplyPartition(TP, 5), version=4)
    trace.emit("list-offsets-1", exchange("ListOffsets", 4, 5))
    result = trace.result("X7")
    assert (result.status, result.tested) == ("held", 2)


def test_an_error_that_is_too_new() -> None:
    """Shows that an error that came with a later version violates X7, at the server and at the caller."""
    sentence = (
        "broker-2 answered ListOffsets of version 4 with OFFSET_NOT_AVAILABLE, which clients know from version 5 on"
    )
    trace = TraceBuilder()
    event = trace.reply(2, "ListOffsets", ReplyPartition(TP, 78), version=4)
    result = trace.result("X7")
    assert (result.violations[0].events, result.violations[0].sentence) == ([event], sentence)
    seen = TraceBuilder()
    seen.emit("list-offsets-1", exchange("ListOffsets", 4, 78))
    assert seen.result("X7").violations[0].sentence == sentence


def test_what_cannot_be_too_new_tests_nothing() -> None:
    """Shows that X7 is vacuous for the newest versions, for answers without errors and for lost exchanges."""
    trace = TraceBuilder()
    trace.reply(2, "ListOffsets", ReplyPartition(TP, 78), version=11)
    trace.reply(2, "ListOffsets", ReplyPartition(TP, 0), version=4)
    trace.emit("list-offsets-1", exchange("ListOffsets", 4))
    trace.emit("list-offsets-1", Rpc("ListOffsets", 4, "broker-2", "c", 1, "timeout", []))
    assert trace.result("X7").status == "vacuous"
