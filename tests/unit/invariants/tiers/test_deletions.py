"""R12: deletions of copies that come to no end."""

from __future__ import annotations

from typing import Any

import pytest

from actors.log.segment_objects import LOG
from actors.node.spec import REMOTE_STORE
from actors.trace.events import ClockSet, ConfigChange, CtlFault, NodeDown, PartRemove, TierPhase
from actors.trace.tier_events import DELETED, DELETION_STARTED, FINISHED
from orchestrator.invariants.folds.bounds import bound_us, longest_ms
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.tiers.test_copies import WHOLE, Tiers, assume
from tests.unit.invariants.trace_builder import TP

LINKS = {"from": ["broker-1"], "to": [REMOTE_STORE], "both_ways": True}
HANGS = "broker-1 deletes a copy of orders-0, and did not come to an end of that within"
DELETION_US = bound_us(Profile(), "R12/deletion")
TELLS_US = 1000 * longest_ms(Profile(), "rlmm.config.remote.log.metadata.consume.wait.ms")
ANSWER_US = 1000 * longest_ms(Profile(), "krift.remote.store.timeout.ms")


class Deletes(Tiers):
    """A whole copy, which broker-1 begins to delete."""

    def __init__(self, broker: int = 1) -> None:
        super().__init__()
        self.up("broker-1")
        self.whole()
        self.began = self.told("deleting", "a", 0, broker, state=FINISHED)

    def waits(self, us: int) -> None:
        """Time passes."""
        self.wall += us
        self.emit("driver", CtlFault("f", "pause", "stop", ["client-1"], {}))

    def hung(self) -> int:
        """How many deletions do not end."""
        return sum(HANGS in each.sentence for each in self.result("R12").violations)


def test_a_deletion_that_does_not_end() -> None:
    """Shows that one ends within its bound, after the time in which it tells that it begins."""
    trace = Deletes()
    trace.waits(TELLS_US + DELETION_US - 100_000)
    assert trace.hung() == 0
    trace.waits(200_000)
    (finding,) = trace.result("R12").violations
    assert finding.sentence == f"{HANGS} {DELETION_US / 1_000_000:g} s without a fault that could prevent it"
    assert trace.began in finding.events


@pytest.mark.parametrize(("phase", "told"), [("deleted", DELETED), ("delete-failed", DELETION_STARTED)])
def test_a_deletion_that_ends(phase: TierPhase, told: str) -> None:
    """Shows that the end of one tests R12, whether it is successful or not, and that nothing is due then."""
    trace = Deletes()
    before = trace.result("R12").tested
    if phase == "deleted":
        trace.store("a", *WHOLE, phase="deleted")
    trace.told("known", "a", 0, state=told)
    trace.told(phase, "a", 0, state=FINISHED)
    trace.later()
    result = trace.result("R12")
    assert (result.status, result.tested - before) == ("held", 1)


@pytest.mark.parametrize(("before", "hung"), [((), 1), ((1,), 0), ((2,), 0)])
def test_a_deletion_of_which_the_store_has_done_its_part(before: tuple[int, ...], hung: int) -> None:
    """Shows that it has told of its beginning by the time that the store deletes an object, unless that may be for
    an earlier deletion."""
    trace = Tiers()
    trace.whole()
    for each in before:
        trace.told("deleting", "a", 0, each, state=FINISHED)
        trace.told("delete-failed", "a", 0, each, state=FINISHED)
    trace.told("deleting", "a", 0, state=FINISHED)
    trace.store("a", LOG, phase="deleted")
    trace.wall += DELETION_US + 100_000
    trace.emit("driver", CtlFault("f", "pause", "stop", ["client-1"], {}))
    assert sum(HANGS in each.sentence for each in trace.result("R12").violations) == hung


@pytest.mark.parametrize(
    ("kind", "targets", "parameters", "hung"),
    [
        ("partition", ["broker-1", REMOTE_STORE], LINKS, 0),
        ("partition", ["broker-2", REMOTE_STORE], {**LINKS, "from": ["broker-2"]}, 1),
        ("crash", [REMOTE_STORE], {}, 0),
        ("unavailable-store", [REMOTE_STORE], {}, 1),
        ("pause", ["broker-2"], {}, 1),
    ],
)
def test_a_deletion_whose_answer_may_be_lost(kind: str, targets: list[str], parameters: Any, hung: int) -> None:
    """Shows that a deletion may also wait for an answer that will not come, if the store could not be reached since it
    began."""
    trace = Deletes()
    trace.emit("driver", CtlFault("f", kind, "start", targets, parameters))
    trace.emit("driver", CtlFault("f", kind, "stop", targets, parameters))
    trace.waits(TELLS_US + DELETION_US + 100_000)
    assert trace.hung() == hung
    trace.waits(ANSWER_US)
    assert trace.hung() == 1


@pytest.mark.parametrize(
    ("kind", "targets", "parameters", "hung"),
    [
        ("partition", ["broker-1", REMOTE_STORE], LINKS, 0),
        ("partition", ["broker-2", REMOTE_STORE], {**LINKS, "from": ["broker-2"]}, 1),
        ("pause", ["broker-1"], {}, 0),
        ("pause", ["broker-2"], {}, 1),
        ("unavailable-store", [REMOTE_STORE], {}, 0),
        ("unavailable-store", [REMOTE_STORE], {"apis": ["CopyLogSegmentData"]}, 1),
        ("slow-store", [REMOTE_STORE], {"apis": ["ListLogSegments"], "delay_max_us": 0}, 0),
        ("failing-store", [REMOTE_STORE], {"apis": ["ListLogSegments"]}, 1),
    ],
)
def test_a_deletion_that_cannot_go_on(kind: str, targets: list[str], parameters: Any, hung: int) -> None:
    """Shows that the time of a deletion begins anew when its broker works again, and reaches the store."""
    trace = Deletes()
    trace.emit("driver", CtlFault("g", kind, "start", targets, parameters))
    trace.later()
    assert trace.hung() == hung
    trace.emit("driver", CtlFault("g", kind, "stop", targets, parameters))
    trace.waits(DELETION_US - 100_000)
    assert trace.hung() == hung
    trace.waits(ANSWER_US + 200_000)
    assert trace.hung() == 1


def test_a_deletion_from_a_store_that_is_slow_for_a_while() -> None:
    """Shows that the store may take as long as a fault made it take after that is over."""
    trace = Deletes()
    for phase in ("start", "stop"):
        slow: Any = phase
        trace.emit("driver", CtlFault("g", "slow-store", slow, [REMOTE_STORE], {"delay_max_us": 2 * TELLS_US}))
    trace.waits(TELLS_US + DELETION_US + 100_000)
    assert trace.hung() == 0
    trace.waits(TELLS_US + 100_000)
    assert trace.hung() == 1


@pytest.mark.parametrize(
    ("node", "what", "hung"),
    [
        ("broker-1", NodeDown("crash"), 0),
        ("broker-2", NodeDown("crash"), 1),
        ("broker-1", ClockSet("f", "start", 5, 0), 0),
        ("broker-2", ClockSet("f", "start", 5, 0), 1),
        ("broker-1", assume("follower", 2, 1), 0),
        ("broker-1", assume("leader", 1, 1), 0),
        ("broker-1", assume("leader", 1, 0), 1),
        ("broker-1", assume("follower", 2, 1, "orders-1"), 1),
        ("broker-2", assume("follower", 1, 1), 1),
        ("controller-1", PartRemove(TP, 9, 1, "t"), 0),
        ("controller-1", PartRemove("orders-1", 9, 1, "t"), 1),
    ],
)
def test_a_deletion_that_is_dropped(node: str, what: Any, hung: int) -> None:
    """Shows that who goes down, loses its role or leader epoch, or its partition, ends no deletion, nor
    who measures no time."""
    trace = Deletes()
    trace.emit(node, what)
    trace.later()
    assert trace.hung() == hung


@pytest.mark.parametrize(("value", "hung"), [("true", 1), ("false", 0), (None, 0)])
def test_a_deletion_without_tiered_storage(value: str | None, hung: int) -> None:
    """Shows that nothing is said of deletions once tiered storage was switched off."""
    trace = Tiers()
    trace.emit("controller-1", ConfigChange(5, 1, "topic/orders", "remote.storage.enable", value))
    trace.whole()
    trace.told("deleting", "a", 0, state=FINISHED)
    trace.later()
    assert sum(HANGS in each.sentence for each in trace.result("R12").violations) == hung
