"""L18: that members find what their group has committed."""

from __future__ import annotations

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ClockSet, CommittedReturn, CtlPhase, ErrorSeen, PartChange
from orchestrator.invariants.folds.bounds import SLACK_US, bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.groups.stage import GROUP, ONE, TWO, GroupTrace
from tests.unit.invariants.trace_builder import TP

BOUND_US = bound_us(Profile(), "L18")
OPEN_US = bound_us(Profile(), "L10") + 60_000_000
"""How much longer a transaction may be open whose timeout is Kafka's."""
BROKERS = ("broker-1", "broker-2", "broker-3")
UNSTABLE = KafkaError.UNSTABLE_OFFSET_COMMIT


def begun(*core: str, transactional: bool = True) -> GroupTrace:
    """A window is open, in which the second member asks; all three brokers have replicas."""
    trace = GroupTrace(transactional=[ONE, TWO] if transactional else [])
    for name in (ONE, TWO):
        trace.up(name, "group-consumer")
    trace.emit("controller-1", PartChange(TP, 5, 1, 1, 0, 0, [1, 2, 3], [1, 2, 3], "create"))
    trace.window("open", *(core or (*BROKERS, ONE, TWO)))
    return trace


def told(trace: GroupTrace, error: int, api: str = "OffsetFetch") -> None:
    """The second member is told an error, and tries again."""
    trace.emit(TWO, ErrorSeen("", api, 10, error, "broker-1"))


def later(trace: GroupTrace, us: int = BOUND_US) -> None:
    """Time passes, and one more second."""
    trace.wall += us + 1_000_000
    trace.emit("driver", CtlPhase("running"))


def test_a_look_up_that_is_answered() -> None:
    """Shows a look-up that is tested, one that is asked in no window, and one that the member gives up."""
    trace = begun()
    trace.is_told(trace.looks_up(), None)
    assert (trace.result("L18").status, trace.result("L18").tested) == ("held", 1)
    trace.emit(TWO, CommittedReturn(trace.looks_up(), "unknown", 0, GROUP, [TP], {}))
    later(trace)
    assert (trace.result("L18").status, trace.result("L18").tested) == ("held", 1)
    trace.window("close")
    trace.looks_up()
    later(trace)
    assert trace.result("L18").status == "held"


@pytest.mark.parametrize("error", [0, KafkaError.NOT_COORDINATOR])
def test_a_look_up_that_is_not_answered(error: int) -> None:
    """Shows that the bound counts from the beginning of the window, whether the member is told an error or nothing."""
    trace = begun()
    trace.window("close")
    trace.looks_up()
    trace.wall += 300_000_000
    trace.window("open", *BROKERS, TWO)
    if error:
        told(trace, error)
    later(trace, BOUND_US - 5_000_000)
    assert trace.result("L18").violated == 0
    later(trace, 5_000_000)
    assert trace.result("L18").violated == 1


@pytest.mark.parametrize("core", [(*BROKERS, ONE), (*BROKERS[:2], TWO)])
def test_who_is_not_judged(core: tuple[str, ...]) -> None:
    """Shows that the member has to be in the window, and every broker: it may be the coordinator."""
    trace = begun(*core)
    trace.looks_up()
    later(trace)
    assert trace.result("L18").violated == 0


def test_a_member_that_is_gone() -> None:
    """Shows that nobody waits for the look-up of a process that has ended."""
    trace = begun()
    trace.looks_up()
    trace.down(TWO)
    later(trace)
    assert trace.result("L18").violated == 0


@pytest.mark.parametrize(("ahead_us", "api"), [(0, "OffsetFetch"), (7_000_000, "OffsetFetch"), (0, "Heartbeat")])
def test_a_look_up_that_waits_for_a_transaction(ahead_us: int, api: str) -> None:
    """Shows that it has the time until the transaction is over: by its timeout, and what a clock was ahead."""
    trace = begun()
    if ahead_us:
        trace.emit("broker-2", ClockSet("f1", "start", ahead_us, 0))
    trace.looks_up()
    told(trace, UNSTABLE, api)
    later(trace)
    if api == "OffsetFetch":
        assert trace.result("L18").violated == 0
        later(trace, OPEN_US + ahead_us - 5_000_000)
        assert trace.result("L18").violated == 0
        later(trace, 5_000_000)
    assert trace.result("L18").violated == 1


def test_no_member_has_transactions() -> None:
    """Shows that no timeout is added where nobody has transactions."""
    trace = begun(transactional=False)
    trace.looks_up()
    told(trace, UNSTABLE)
    later(trace, BOUND_US + bound_us(Profile(), "L10"))
    assert trace.result("L18").violated == 1


@pytest.mark.parametrize(
    ("topic", "error", "excused"),
    [
        ("__transaction_state", UNSTABLE, {"lost-decisions": 1}),
        ("__transaction_state", KafkaError.NOT_COORDINATOR, {}),
        ("__consumer_offsets", UNSTABLE, {}),
    ],
)
def test_a_transaction_that_nobody_knows_any_more(topic: str, error: int, excused: dict[str, int]) -> None:
    """Shows that a position stays undecided for ever if the transaction log lost its transaction."""
    trace = begun()
    trace.emit("controller-1", PartChange(f"{topic}-0", 9, 1, 2, 1, 1, [2], [1, 2, 3], "unclean"))
    trace.looks_up()
    told(trace, error)
    later(trace, BOUND_US + OPEN_US + SLACK_US)
    later(trace)
    assert (trace.result("L18").excused, trace.result("L18").violated) == (excused, 0 if excused else 1)
