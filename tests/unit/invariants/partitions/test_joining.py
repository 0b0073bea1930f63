"""P25: whom a leader proposes in the step of a fetch, by hand-written traces; test_lagging is about who leaves."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import OVERTAKEN, BrokerReg, CtlFault, IsrLate, MetaImage
from tests.unit.invariants.trace_builder import TP, TraceBuilder

LEADER, CONTROLLER = "broker-1", "controller-1"


class Leader(TraceBuilder):
    """Broker-1 leads, its log ends at 2, and the ISR is 1, 2, by the record at 10 of the metadata log; all brokers are
    unfenced under broker epoch 7, and broker-1 knows the metadata log up to ``applied``."""

    def __init__(self, isr: tuple[int, ...] = (1, 2), applied: int = 15) -> None:
        super().__init__(config={"replica.lag.time.max.ms": 3_600_000})
        self.role(CONTROLLER, 1, "leader", 101)
        self.registered(1, 2, 3)
        self.change(1, 0, isr=isr)
        self.emit(LEADER, MetaImage(applied))
        self.assume(1, 0)
        self.step()
        self.append(LEADER, "a", "b")

    def step(self) -> None:
        """Another request."""
        self.req = f"c#{len(self.events)}"

    def reads(self, follower: int = 3, offset: int = 2, **more: Any) -> str:
        """A follower fetches, by default from the log end."""
        self.step()
        return self.fetched(1, follower, offset, **more)

    def then(self) -> str:
        """Another step."""
        return self.reads(2)

    def broker(self, offset: int, *, fenced: bool = False, leaves: bool = False, epoch: int = 7) -> str:
        """A controller appends what has become of broker-3."""
        return self.emit(CONTROLLER, BrokerReg(3, epoch, "i", fenced, leaves, False, offset))

    @property
    def violated(self) -> int:
        """How often P25 is violated, after another step."""
        self.then()
        return self.result("P25").violated


def test_who_fetches_from_the_log_end_is_proposed() -> None:
    """Shows that a fetch from the log end brings a proposal with that follower in its step, or violates P25, with what
    the leader knew, the fetch, and the next step as evidence. To be proposed is no test of who leaves."""
    trace = Leader()
    knew = trace.broker(12)
    trace.emit(LEADER, MetaImage(13))
    fetch = trace.reads()
    then = trace.then()
    (finding,) = trace.result("P25").violations
    assert finding.events == [knew, fetch, then]
    assert finding.sentence == (
        "broker-1 did not propose broker-3 for the ISR of orders-0 in a step in which that fetched from the log end, "
        "no proposal was open, and the metadata log had it unfenced under broker epoch 7"
    )
    for isr, violated in (((1, 2, 3), 0), ((1, 2), 1)):
        trace = Leader()
        trace.reads()
        trace.propose(1, isr)
        assert trace.violated == violated
    trace = Leader()
    trace.reads()
    trace.step()
    trace.propose(1, (1, 2, 3))
    assert trace.violated == 1, "a step too late"
    trace = Leader()
    trace.reads()
    trace.propose(1, (1, 2, 3))
    trace.then()
    assert trace.result("P25").status == "vacuous"


def test_who_need_not_be_proposed() -> None:
    """Shows that a member is not, nor who lacks something, nor whose fetch is refused, diverges, or is of another
    leader epoch."""
    assert Leader(isr=(1, 2, 3)).violated == 0
    for more in ({"offset": 1}, {"error": 74}, {"diverging_epoch": 0}, {"follower_epoch": 1}):
        trace = Leader()
        trace.reads(**more)
        assert trace.violated == 0
    trace = Leader(isr=(1, 2, 3))
    trace.reads()
    assert trace.violated == 0


@pytest.mark.parametrize(
    ("applied", "how", "epoch", "violated"),
    [
        (13, {"fenced": True}, 7, 0),
        (12, {"fenced": True}, 7, 1),
        (13, {"leaves": True}, 7, 0),
        (13, {"epoch": 12}, 7, 0),
        (12, {"epoch": 12}, 12, 0),
        (13, {"epoch": 12}, 12, 1),
        (13, {}, -1, 0),
    ],
)
def test_who_may_join_as_the_leader_knows(applied: int, how: dict[str, Any], epoch: int, violated: int) -> None:
    """Shows that what the leader has applied of the metadata log says who may join: neither one that is fenced there,
    or shuts down, nor another process than that of which it tells, nor one of which nothing shows which it is."""
    trace = Leader()
    trace.broker(12, **how)
    trace.emit(LEADER, MetaImage(applied))
    trace.reads(broker_epoch=epoch)
    assert trace.violated == violated


def test_a_broker_that_the_trace_does_not_tell_of() -> None:
    """Shows that nothing is asked of a leader whose metadata the trace does not have."""
    trace = Leader(applied=1)
    trace.reads()
    assert trace.violated == 0


@pytest.mark.parametrize(
    ("outcome", "violated"),
    [("", 0), ("accepted", 0), ("INELIGIBLE_REPLICA", 1), ("INVALID_UPDATE_VERSION", 0), (OVERTAKEN, 0)],
)
def test_a_proposal_is_open(outcome: str, violated: int) -> None:
    """Shows that a leader proposes nothing while it waits for an answer, or for the metadata log after an error; after
    INELIGIBLE_REPLICA it waits for nothing."""
    trace = Leader()
    trace.step()
    trace.propose(1, (1, 2))
    trace.step()
    if outcome:
        trace.propose(1, (1, 2), outcome=outcome)
    trace.reads()
    assert trace.violated == violated
    if outcome == OVERTAKEN:
        trace = Leader()
        trace.propose(1, (1, 2))
        trace.propose(1, (1, 2), outcome=outcome)
        trace.emit(LEADER, IsrLate(TP, 1, 95))
        trace.reads()
        assert trace.violated == 1


@pytest.mark.parametrize(("applied", "violated"), [(15, 0), (16, 1)])
def test_an_isr_that_the_leader_has_not_heard_of(applied: int, violated: int) -> None:
    """Shows that a leader is judged by an ISR that it has: one that a controller appended may be on its way."""
    trace = Leader()
    trace.change(1, 0, isr=(1, 2), cause="shrink", partition_epoch=1, offset=15)
    trace.emit(LEADER, MetaImage(applied))
    trace.reads()
    assert trace.violated == violated


@pytest.mark.parametrize(
    ("mode", "tells", "violated"),
    [
        ("clean", (), 1),
        ("crash", (), 0),
        ("crash", ("broker",), 0),
        ("crash", ("partition",), 0),
        ("crash", ("broker", "partition"), 1),
    ],
)
def test_a_controller_that_may_not_have_told_all(mode: Any, tells: tuple[str, ...], violated: int) -> None:
    """Shows that after the abrupt end of a controller nothing is asked until the partition and the follower are told of
    again."""
    trace = Leader()
    trace.down(CONTROLLER, mode)
    if "broker" in tells:
        trace.broker(14)
    if "partition" in tells:
        trace.change(1, 0, isr=(1, 2), cause="shrink", partition_epoch=1, offset=15)
    trace.emit(LEADER, MetaImage(16))
    trace.reads()
    assert trace.violated == violated
    broker = Leader()
    broker.down("broker-3", mode)
    broker.reads()
    assert broker.violated == 1, "brokers tell of nothing"


@pytest.mark.parametrize("ends", ["down", "other-life", "stopped"])
def test_a_leader_that_ends(ends: str) -> None:
    """Shows that a process which ends before it tells more owes nothing, nor one that an operator stops."""
    trace = Leader()
    if ends == "stopped":
        trace.emit("driver", CtlFault("s", "controlled-shutdown", "start", [LEADER], {}))
    trace.reads()
    if ends == "down":
        trace.down(LEADER)
    elif ends == "other-life":
        trace.incarnations[LEADER] = 1
    assert trace.violated == 0
