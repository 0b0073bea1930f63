"""P30: that a broker knows of its registration before it serves."""

from __future__ import annotations

from typing import Literal

import pytest

from actors.trace.events import MetaImage, PartAssume
from tests.unit.invariants.trace_builder import TP, TraceBuilder

SAYS = "the controller unfenced broker-1/1 at offset 42 of the metadata log, but it had applied"


class Returns(TraceBuilder):
    """Broker-1 was there before, and is started anew while controller-1 leads."""

    def __init__(self) -> None:
        super().__init__()
        self.role("controller-1", 1, "leader", 101)
        self.up("broker-1")
        self.registered(1, fenced=True, offset=5)
        self.applies(6)
        self.takes_up(6)
        self.down("broker-1")
        self.up("broker-1")

    def registers(self, offset: int = 40, fenced: bool = True) -> str:
        """The controller registers what is broker-1 now, or unfences it."""
        return self.registered(1, fenced=fenced, offset=offset, incarnation=self.incarnations["broker-1"])

    def applies(self, offset: int) -> str:
        """Broker-1 has applied the metadata log up to an exclusive offset."""
        return self.emit("broker-1", MetaImage(offset))

    def takes_up(self, offset: int) -> str:
        """Broker-1 takes up a replica by that image."""
        return self.emit("broker-1", PartAssume(TP, "follower", 2, 4, 4, 9, -1, 9, offset))


def test_a_broker_that_knows() -> None:
    """Shows that a first replica, and each time that the broker is unfenced, test P30; and of several registrations of
    one incarnation the first counts."""
    trace = Returns()
    trace.registers(40)
    trace.registers(30)
    trace.applies(31)
    trace.takes_up(31)
    trace.takes_up(31)
    trace.registers(42, fenced=False)
    result = trace.result("P30")
    assert (result.status, result.tested) == ("held", 3)


@pytest.mark.parametrize("applied", [-1, 6, 40])
def test_a_broker_that_is_unfenced_before_it_knows(applied: int) -> None:
    """Shows that its image has to be past its registration, and that the one of its former life does not count."""
    trace = Returns()
    registered = trace.registers()
    if applied >= 0:
        trace.applies(applied)
    unfenced = trace.registers(42, fenced=False)
    (finding,) = trace.result("P30").violations
    assert finding.events == [registered, unfenced]
    what = f"the log before offset {applied} alone" if applied >= 0 else "nothing"
    assert finding.sentence == f"{SAYS} {what}; its registration is at offset 40"


def test_a_broker_that_takes_up_replicas_before_it_knows() -> None:
    """Shows that its first replica comes from an image past its registration."""
    trace = Returns()
    registered = trace.registers()
    taken = trace.takes_up(40)
    (finding,) = trace.result("P30").violations
    assert finding.events == [registered, taken]
    assert finding.sentence == (
        "broker-1/1 took up orders-0 as it is in the metadata log before offset 40, but its registration is "
        "at offset 40"
    )
    without = Returns()
    without.takes_up(6)
    assert without.result("P30").violations[0].sentence.endswith("before offset 6, but was not registered")


@pytest.mark.parametrize(("mode", "violated"), [("crash", 0), ("lossy", 0), ("clean", 1)])
def test_a_controller_that_did_not_tell(mode: Literal["crash", "lossy", "clean"], violated: int) -> None:
    """Shows that a controller which ended abruptly may have registered the broker earlier than is told; one that is no
    active controller, and a broker, have registered nobody."""
    trace = Returns()
    trace.down("controller-1", mode)
    trace.takes_up(6)
    trace.registers()
    trace.registers(42, fenced=False)
    assert trace.result("P30").violated == 2 * violated
    for node in ("controller-2", "broker-2"):
        trace = Returns()
        trace.down(node)
        trace.takes_up(6)
        assert trace.result("P30").violated == 1
