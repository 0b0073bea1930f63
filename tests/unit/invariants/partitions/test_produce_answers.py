"""P24: a produce is answered in the step in which it can be."""

from __future__ import annotations

import pytest

from actors.trace.event_parts import ReplyPartition
from actors.trace.events import PartStop, RpcReply
from tests.unit.invariants.trace_builder import TP, TraceBuilder


class Leader(TraceBuilder):
    """Broker-1 leads orders-0."""

    def produce(self, number: int, *uids: str, producer: int = 1) -> None:
        """A request of a producer is appended."""
        self.req = f"producer-{producer}>broker-1:data:0.0#{number}"
        self.append("broker-1", *uids)

    def fetched_up_to(self, offset: int) -> None:
        """A follower's fetch moves the high watermark."""
        self.req = f"broker-2>broker-1:fetcher:0.0#{offset}"
        self.high_watermark("broker-1", offset)

    def answer(self, producer: int = 1, acks: int = -1, partitions: int = 1) -> None:
        """The answer to a producer leaves, in the present step."""
        told = [ReplyPartition(tp, 0) for tp in (TP, "orders-1")[:partitions]]
        connection = f"producer-{producer}>broker-1:data:0.0"
        self.emit("broker-1", RpcReply("Produce", 11, f"producer-{producer}", connection, 1, -1, 0, acks, told))


def test_answers_that_leave_at_once() -> None:
    """Shows acks=1 in the step of the append, and acks=all of two producers in that of the high watermark."""
    trace = Leader()
    trace.produce(0, "a")
    trace.answer(acks=1)
    trace.produce(1, "b")
    trace.produce(0, "c", producer=2)
    trace.fetched_up_to(2)
    trace.answer()
    trace.fetched_up_to(3)
    trace.answer(producer=2)
    assert (trace.result("P24").status, trace.result("P24").tested) == ("held", 3)


def test_answers_that_are_late() -> None:
    """Shows one of two producers that is answered when something else happens, and acks=1 that waits for others."""
    trace = Leader()
    trace.produce(0, "a")
    trace.produce(0, "b", producer=2)
    trace.fetched_up_to(2)
    trace.answer()
    assert trace.result("P24").status == "held"
    trace.produce(1, "c")
    trace.fetched_up_to(3)
    trace.answer(producer=2)
    (finding,) = trace.result("P24").violations
    assert finding.sentence.startswith(
        "broker-1 answered the Produce of producer-2 with acks=all for the batch that ends at 2 of orders-0"
    )
    assert finding.sentence.endswith("ms after the high watermark had passed it")
    patient = Leader()
    patient.produce(0, "a")
    patient.fetched_up_to(1)
    patient.answer(acks=1)
    assert patient.result("P24").violations[0].sentence.endswith("ms after it had appended it")


@pytest.mark.parametrize(
    ("between", "violated"),
    [
        *(("nothing", 0), ("follower", 1), ("leader", 0), ("another", 0), ("passed", 0), ("restart", 0)),
        *(("stopped", 1), ("stopped there", 0)),
    ],
)
def test_produces_that_wait_at_a_deposed_leader(between: str, violated: int) -> None:
    """Shows that one which waits is answered when its leader follows, or has the partition no more: not when it
    is elected again in place, nor when others follow or stop, nor what was answered before, nor by the next process."""
    trace = Leader()
    trace.assume(1, 1)
    trace.produce(0, "a")
    trace.req = "broker-1>controller-1:raft:0.0#7"
    if between == "passed":
        trace.fetched_up_to(1)
        trace.answer()
    if between == "restart":
        trace.down("broker-1", "crash")
        trace.up("broker-1")
    if between.startswith("stopped"):
        trace.emit("broker-3" if between.endswith("there") else "broker-1", PartStop(TP))
    else:
        trace.assume(3 if between == "another" else 1, 2, leader=1 if between == "leader" else 2)
    if between == "nothing":
        trace.answer()
    trace.req = ""
    trace.answer()
    result = trace.result("P24")
    assert result.violated == violated
    if violated:
        lost = "partition" if between == "stopped" else "leadership"
        assert result.violations[0].sentence.endswith(f"ms after it had lost the {lost}")
    assert result.tested == (between in ("nothing", "follower", "passed", "stopped"))


def test_what_says_nothing() -> None:
    """Shows an answer before the high watermark, one about two partitions, and one whose append is not in the trace, as
    that of a batch which is there already."""
    trace = Leader()
    trace.produce(0, "a")
    trace.answer()
    trace.produce(1, "b")
    trace.fetched_up_to(2)
    trace.req = "another#1"
    trace.answer(partitions=2)
    trace.answer()
    assert trace.result("P24").status == "vacuous"
