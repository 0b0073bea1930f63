"""P20: who is eligible to lead, as controllers write it."""

from __future__ import annotations

import pytest

from actors.trace.events import BrokerReg, ConfigChange, PartRemove
from orchestrator.invariants.folds.conclusion import InvariantResult
from tests.unit.invariants.partitions.test_controller import active
from tests.unit.invariants.trace_builder import TraceBuilder

ELR = "eligible.leader.replicas.version"


def least(trace: TraceBuilder, value: str | None, offset: int, resource: str = "topic/orders") -> str:
    """A controller writes what min.insync.replicas is."""
    return trace.emit("controller-1", ConfigChange(offset, 1, resource, "min.insync.replicas", value))


def shrunk(level: str = "1") -> TraceBuilder:
    """The ISR of orders-0 is down to broker-1, of two that it should have, and the others are eligible."""
    trace = active(features={ELR: level})
    least(trace, "2", 10)
    trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=1, min_isr=2)
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=2, min_isr=2, elr=[2])
    return trace


def only(trace: TraceBuilder) -> str:
    """What is wrong."""
    (finding,) = trace.result("P20").violations
    return finding.sentence.partition(": ")[2] or finding.sentence


def test_who_leaves_a_small_isr_is_eligible_until_it_has_grown() -> None:
    """Shows each change as a test: members that leave and return, the last one, an election, another least ISR."""
    trace = shrunk()
    trace.change(-1, 1, (), "fence", partition_epoch=3, min_isr=2, elr=[1, 2], last_known_elr=[1])
    trace.change(2, 2, (2,), "unfence", partition_epoch=4, min_isr=2, elr=[1])
    least(trace, "3", 15)
    trace.change(2, 2, (2,), "config", partition_epoch=5, min_isr=3)
    trace.change(2, 2, (2, 1, 3), "alter-isr", partition_epoch=6, min_isr=3)
    result: InvariantResult = trace.result("P20")
    assert (result.status, result.tested) == ("held", 7)


@pytest.mark.parametrize(
    ("isr", "how", "says"),
    [
        ((1, 2), {"elr": [2]}, "[2] are in both"),
        ((1, 3), {"elr": [2]}, "the ISR has min.insync.replicas (2) members, so no other replica may be eligible"),
        ((1,), {"elr": [2], "last_known_elr": [1]}, "broker-1 leads, so no last known leader may be recorded"),
        ((1,), {"elr": [2, 3]}, "[3] were neither in the ISR nor eligible"),
        ((1,), {}, "[2] left an ISR below min.insync.replicas, so they must be eligible"),
        ((1,), {"cause": "unclean-shutdown"}, ""),
        ((1,), {"cause": "unclean"}, ""),
    ],
)
def test_states_that_cannot_be(isr: tuple[int, ...], how: dict[str, object], says: str) -> None:
    """Shows what may not be written, and which changes forget who was eligible."""
    trace = shrunk()
    cause = str(how.pop("cause", "alter-isr"))
    trace.change(1, 0, isr, cause, partition_epoch=3, min_isr=2, **how)
    assert (only(trace) if says else "") == says
    assert trace.result("P20").status == ("violated" if says else "held")


def test_the_last_leader_is_remembered() -> None:
    """Shows an ISR that becomes empty without a word about who led."""
    trace = shrunk()
    trace.change(-1, 1, (), "fence", partition_epoch=3, min_isr=2, elr=[1, 2])
    assert only(trace) == "the ISR is empty, so broker-1 must be recorded as the last known leader"


def test_whoever_may_have_lost_its_log_is_eligible_for_nothing() -> None:
    """Shows a registration after an unclean shutdown, with the broker still eligible."""
    trace = shrunk()
    trace.emit("controller-1", BrokerReg(2, 9, "broker-2/1", True, False, True, 40))
    assert trace.result("P20").violations[0].sentence == (
        "broker-2 was registered after an unclean shutdown, but orders-0 still has the ISR [1], the eligible leader "
        "replicas [2]"
    )


def test_without_the_feature_there_are_none() -> None:
    """Shows that nothing is tested then, and that an eligible replica is one too many."""
    trace = active(features={ELR: "0"})
    least(trace, "2", 10)
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=1, min_isr=2)
    assert trace.result("P20").status == "vacuous"
    assert only(shrunk("0")) == "this cluster has eligible leader replicas off"


@pytest.mark.parametrize("level", ["0", "1"])
def test_a_controller_goes_by_the_records(level: str) -> None:
    """Shows the topic's own value before that of all brokers, and a controller that goes by neither."""
    trace = shrunk(level)
    least(trace, "3", 12, "broker/")
    trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=3, min_isr=2)
    least(trace, None, 14)
    trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=5, min_isr=3)
    before = len(trace.result("P20").violations)
    trace.change(1, 0, (1, 2, 3), "alter-isr", partition_epoch=6, min_isr=1)
    *_, finding = trace.result("P20").violations
    assert len(trace.result("P20").violations) == before + 1
    assert finding.sentence == (
        "the controller gave orders-0 in partition epoch 6 (alter-isr) the least ISR 1, but the log says 3"
    )


def test_what_a_controller_was_started_with_holds_without_a_record() -> None:
    """Shows it, no more than there are replicas, and that what a topic was set to goes with the topic."""
    trace = active(config={"min.insync.replicas": 5}, features={ELR: "1"})
    assert "the least ISR 1, but the log says 3" in only(trace)
    trace = active(features={ELR: "1"})
    least(trace, "2", 10)
    trace.emit("controller-1", PartRemove("orders-0", 11, 1, "topic-1"))
    trace.change(1, 0, (1, 2), "create", partition_epoch=2, min_isr=1)
    assert trace.result("P20").status == "held"
