"""P31: why a controller refuses a proposal of a leader."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import IsrLate, PartRemove
from tests.unit.invariants.trace_builder import TP, TraceBuilder

WAS_TOLD = "about the ISR that it had proposed for orders-0 in leader epoch 2, partition epoch 4, but"
FENCED, VERSION, ELECTED = "FENCED_LEADER_EPOCH", "INVALID_UPDATE_VERSION", "NEW_LEADER_ELECTED"
INELIGIBLE, INVALID = "INELIGIBLE_REPLICA", "INVALID_REQUEST"


class Asking(TraceBuilder):
    """Broker-1 leads orders-0 in leader epoch 2, partition epoch 4, and asks for an ISR of all three."""

    def __init__(self) -> None:
        super().__init__()
        for node in ("controller-1", "broker-1", "broker-2", "broker-3"):
            self.up(node)
        self.role("controller-1", 1, "leader", 1)
        self.registered(1, 2, 3)
        self.change(1, 2, (1, 2), partition_epoch=4)
        self.asked = self.asks()

    def asks(self, outcome: str = "proposed", proposal: int = 1) -> str:
        """Broker-1 proposes, or learns what became of that."""
        return self.propose(1, (1, 2, 3), epoch=2, partition_epoch=4, outcome=outcome, proposal=proposal)

    def status(self) -> tuple[str, int]:
        """How P31 stands, and how often it was tested."""
        result = self.result("P31")
        return result.status, result.tested


CAUSES: dict[str, Callable[[Asking], str]] = {
    FENCED: lambda run: run.change(2, 3, (2,), partition_epoch=5),
    VERSION: lambda run: run.change(1, 2, (1,), partition_epoch=5),
    ELECTED: lambda run: run.change(2, 3, (2, 3), partition_epoch=5, cause="alter-isr"),
    INELIGIBLE: lambda run: run.registered(3, fenced=True),
    INVALID: lambda run: run.change(2, 2, (2,), partition_epoch=4, quorum_epoch=2),
}
MISSING = {
    FENCED: "no controller made a newer leader epoch",
    VERSION: "no controller made a newer partition epoch",
    ELECTED: "no controller made a newer leader epoch",
    INELIGIBLE: "no controller had fenced a member of it since, nor knew it under another broker epoch",
    INVALID: "no other broker leads in leader epoch 2",
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("error", CAUSES)
def test_a_refusal_needs_its_cause(error: str, late: bool) -> None:
    """Shows for each error what a controller must have made, and that nothing else will do; also where the leader had
    given the proposal up."""
    for cause in (None, *CAUSES):
        run = Asking()
        if cause is not None:
            CAUSES[cause](run)
        told = run.emit("broker-1", IsrLate(TP, 1, KafkaError[error])) if late else run.asks(error)
        result = run.result("P31")
        assert result.tested == 1
        if (cause is not None and {cause, error} <= {FENCED, ELECTED}) or cause == error:
            assert result.status == "held", cause
        elif (cause, error) in ((FENCED, VERSION), (ELECTED, VERSION)):
            assert result.status == "held", "the partition epoch has risen, too"
        else:
            (finding,) = result.violations
            assert finding.sentence == f"broker-1 was told {error} {WAS_TOLD} {MISSING[error]}", cause
            assert finding.events == [run.asked, told]


def test_other_outcomes_need_none() -> None:
    """Shows that a change that is made, one that the leader gives up, and other errors do not test P31."""
    for outcome in ("accepted", "overtaken", "UNKNOWN_TOPIC_ID", "NOT_CONTROLLER"):
        run = Asking()
        run.asks(outcome)
        assert run.result("P31").tested == 0


def test_members_that_were_unfit_when_they_were_proposed() -> None:
    """Shows that a member counts as unfit that was fenced before the proposal, or had another broker epoch; also where
    it is fit by the time of the answer, and where the proposal is sent again."""
    for fenced, epoch in ((True, 7), (False, 8)):
        run = Asking()
        run.registered(3, fenced=fenced, epoch=epoch)
        run.asks(proposal=2)
        run.registered(3)
        run.asks(proposal=2)
        run.asks(INELIGIBLE, proposal=2)
        assert run.status() == ("held", 1)
        run.asks(proposal=3)
        run.asks(INELIGIBLE, proposal=3)
        assert run.status() == ("violated", 2), "fit since before it was made"


def test_answers_to_nobody() -> None:
    """Shows that the answer to another proposal, to a former life of the leader, and about a topic that is removed do
    not test P31."""
    run = Asking()
    run.asks(FENCED, proposal=2)
    run.down("broker-1")
    run.up("broker-1")
    run.asks(FENCED)
    assert run.result("P31").tested == 0
    run = Asking()
    run.emit("controller-1", PartRemove(TP, 20, 1, "t"))
    run.asks(FENCED)
    assert run.result("P31").tested == 0


@pytest.mark.parametrize("error", CAUSES)
def test_a_controller_that_did_not_tell_all(error: str) -> None:
    """Shows that a cause may be what a controller wrote just before it ended abruptly; until the partition, or the
    members, are told of again."""
    run = Asking()
    run.down("controller-1")
    run.up("controller-1")
    run.role("controller-1", 2, "leader", 30)
    run.asks(error)
    result = run.result("P31")
    assert (result.status, result.excused) == ("excused", {"crash": 1})
    run.change(1, 2, (1, 2), partition_epoch=4, quorum_epoch=2)
    run.registered(1, 2, 3)
    run.asks(proposal=2)
    run.asks(error, proposal=2)
    assert run.result("P31").violated == 1
    orderly = Asking()
    orderly.down("controller-1", "clean")
    orderly.asks(error)
    assert orderly.result("P31").violated == 1
