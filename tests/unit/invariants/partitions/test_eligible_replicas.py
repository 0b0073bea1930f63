"""P20: who is eligible to lead, as controllers write it."""

from __future__ import annotations

from typing import Literal

import pytest

from actors.trace.events import BrokerReg, ConfigChange, NodeUp, PartRemove
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


@pytest.mark.parametrize(
    ("resource", "key", "then", "wrong"),
    [
        ("topic/orders", "min.insync.replicas", "c#1", False),
        ("broker/", "min.insync.replicas", "c#1", False),
        ("topic/orders", "min.insync.replicas", "c#2", True),
        ("topic/other", "min.insync.replicas", "c#1", True),
        ("topic/orders", "retention.ms", "c#1", True),
    ],
)
def test_which_configuration_makes_nobody_eligible(resource: str, key: str, then: str, wrong: bool) -> None:
    """Shows that only min.insync.replicas does, of the topic or of all brokers, and in its own step."""
    trace = shrunk()
    trace.req = "c#1"
    trace.emit("controller-1", ConfigChange(14, 1, resource, key, "2"))
    trace.emit("controller-1", ConfigChange(15, 1, "topic/last", "min.insync.replicas", "2"))
    trace.req = then
    trace.change(1, 0, (1,), "config", partition_epoch=3, min_isr=2)
    trace.change(1, 0, (1,), "config", partition_epoch=1, tp="last-0", min_isr=2)
    says = "no change of min.insync.replicas of orders, or of all brokers, came before it"
    assert ([only(trace)] if wrong else []) == ([says] if wrong else [])
    assert trace.result("P20").violated == wrong


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


def stopped(mode: Literal["clean", "crash"] = "clean", takes_up: bool = True, level: str = "0") -> TraceBuilder:
    """Broker-2 has ended."""
    trace = active(features={ELR: level})
    trace.up("broker-2")
    if takes_up:
        trace.assume(2, 0, leader=1)
    trace.down("broker-2", mode)
    return trace


def again(trace: TraceBuilder, unclean: bool = True, life: int = 1, node: str = "controller-1") -> str:
    """Broker-2 registers."""
    return trace.emit(node, BrokerReg(2, 50 + life, f"broker-2/{life}", True, False, unclean, 50 + life))


@pytest.mark.parametrize("level", ["0", "1"])
@pytest.mark.parametrize("unclean", [False, True])
def test_a_clean_shutdown_counts_as_clean(level: str, unclean: bool) -> None:
    """Shows the registration of the next incarnation as a test, with eligible leader replicas and without; the same
    incarnation may register again."""
    trace = stopped(level=level)
    trace.change(1, 0, (1, 3), "fence", partition_epoch=1)
    trace.up("broker-2")
    end = trace.events[-3].id
    registered = again(trace, unclean)
    again(trace, unclean=False)
    result = trace.result("P20")
    assert result.tested == 1 + (level == "1") * (2 + unclean)
    began = "the controller registered broker-2/1 as started after an unclean shutdown"
    says = f"{began}, but broker-2/0 had shut down cleanly"
    assert [(each.sentence, each.events) for each in result.violations] == ([(says, [end, registered])] * unclean)


def test_which_shutdowns_were_unclean() -> None:
    """Shows a crash, and one of the incarnation after the one that shut down cleanly; and that nothing is said of
    an incarnation without replicas."""
    cases: tuple[tuple[Literal["clean", "crash"], bool, str], ...] = (
        ("clean", True, "violated"),
        ("crash", True, "vacuous"),
        ("clean", False, "vacuous"),
    )
    for mode, takes_up, status in cases:
        trace = stopped(mode, takes_up)
        trace.up("broker-2")
        again(trace)
        assert trace.result("P20").status == status
    next_one = stopped()
    next_one.up("broker-2")
    again(next_one, unclean=False)
    next_one.assume(2, 0, leader=1)
    next_one.down("broker-2", "crash")
    next_one.up("broker-2")
    again(next_one, life=2)
    assert (next_one.result("P20").status, next_one.result("P20").tested) == ("held", 1)


def test_what_became_of_the_disk_since() -> None:
    """Shows a disk that was wiped, files that were torn, and an incarnation in between whose disk lost something; not
    one that merely crashed before it had its replicas."""
    cases: tuple[tuple[bool, int, Literal["end", "lossy", "crash"], str], ...] = (
        (True, 0, "end", "vacuous"),
        (False, 1, "end", "vacuous"),
        (False, 0, "lossy", "vacuous"),
        (False, 0, "crash", "violated"),
    )
    for wiped, torn, mode, status in cases:
        trace = stopped()
        trace.incarnations["broker-2"] = 1
        trace.emit("broker-2", NodeUp("broker", 2, "dir", wiped, True, torn))
        trace.down("broker-2", mode)
        trace.up("broker-2")
        again(trace, life=2)
        assert trace.result("P20").status == status


@pytest.mark.parametrize("speaker", ["broker-2", "controller-1"])
def test_a_registration_that_cannot_tell(speaker: str) -> None:
    """Shows that below version 3 a registration has nothing of the shutdown before."""
    for newest, status in ((2, "vacuous"), (3, "violated")):
        trace = active(features={ELR: "0"}, nodes={speaker: {"versions": {"BrokerRegistration": [0, newest]}}})
        trace.up("broker-2")
        trace.assume(2, 0, leader=1)
        trace.down("broker-2", "clean")
        again(trace)
        assert trace.result("P20").status == status


@pytest.mark.parametrize(("mode", "status"), [("crash", "vacuous"), ("clean", "violated")])
def test_a_shutdown_before_another_controller(mode: Literal["crash", "clean"], status: str) -> None:
    """Shows that a controller which ended abruptly may have registered another incarnation and not told of it."""
    trace = stopped()
    trace.down("controller-1", mode)
    trace.vote("controller-2", 2, 102, asks=(1, 25))
    trace.role("controller-2", 2, "leader", 102)
    again(trace, node="controller-2")
    assert trace.result("P20").status == status
