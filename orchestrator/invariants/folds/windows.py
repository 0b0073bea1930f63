"""What must happen in the end: obligations, and the stability windows in which they are due.

An obligation is opened by an event and is due a bound later (``bounds.BOUNDS``), counted from then or from the
beginning of the window, whichever comes last; and not before what slow links and disks held up when they were slow has
come through. What a window is too short for is no test: it is neither kept nor broken.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from actors.node.spec import node_name
from actors.trace.events import CtlFault, CtlWindow, PartChange, PartRemove, QRole, Stamped
from actors.trace.metadata_history import Elections, History
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import (
    NOTHING,
    TOO_SHORT,
    Deadline,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.folds.leftovers import Leftovers


class Obligation(msgspec.Struct, gc=False):
    """What must happen. ``since_us``: when it came up; ``by``: the event that did it, None for the window itself;
    ``target``: an offset that it is about."""

    since_us: int
    by: Witness | None = None
    target: int = -1


class WindowState(State):
    """State of an invariant that is judged in windows.

    beta_us: its bound. since_us: from when on nothing stands in the way in the window, -1 while there is none;
    ``core``, ``window``: of it. left: what faults that are over leave behind. due: what is open, oldest first.
    armed_us: when it will be looked at next, -1 never. cut: how often a window closed over something open.
    """

    beta_us: int = 0
    since_us: int = -1
    core: set[str] = set()
    window: Witness | None = None
    left: Leftovers = msgspec.field(default_factory=Leftovers)
    due: dict[str, Obligation] = {}
    armed_us: int = -1
    cut: int = 0


W = TypeVar("W", bound=WindowState)


class WindowInvariant(KeyedInvariant[W]):
    """An invariant with obligations. A subclass opens them with ``oblige``, ends them with ``kept`` or ``void``, and
    says in ``missed`` what it means that one was not kept in time."""

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlWindow, CtlFault)

    def hear(self, state: W, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is CtlFault:
            state.left.take(body, event.wall)
            return NOTHING
        assert type(body) is CtlWindow
        if body.phase == "open":
            state.since_us, state.core = max(event.wall, state.left.all_us), set(body.core)
            state.window = witness(event)
        else:
            state.since_us, state.core, state.window = -1, set(), None
            state.cut += len(state.due)
        return self._look(state, event)

    def _look(self, state: W, event: Stamped) -> Emissions:
        self.look(state, event)
        state.armed_us = -1  # what ``look`` may have asked for was not passed on
        return self.arm(state)

    def look(self, state: W, event: Stamped) -> None:
        """The core has changed: open and drop what follows from that."""

    def missed(self, state: W, name: str, obligation: Obligation) -> Emissions:
        """The bound is over, and what had to happen has not."""
        raise NotImplementedError

    # ---- obligations --------------------------------------------------------------------------------------

    def oblige(self, state: W, name: str, event: Stamped, target: int = -1) -> None:
        """Something must happen from now on, unless it has to already."""
        if name not in state.due:
            state.due[name] = Obligation(event.wall, witness(event), target)

    def kept(self, state: W, name: str) -> bool:
        """It has happened; whether it was waited for. What happens without a window, or to who is not in it, tests
        nothing: then nobody promised it."""
        if state.due.pop(name, None) is None:
            return False
        if state.since_us >= 0:
            state.tested += 1
        return True

    def void(self, state: W, name: str) -> None:
        """It need not happen any more."""
        state.due.pop(name, None)

    def judges(self, state: W) -> bool:
        """Whether anything may be due now."""
        return state.since_us >= 0

    def arm(self, state: W) -> Emissions:
        """Have the obligation that is due first looked at then."""
        if not self.judges(state) or not state.due:
            return NOTHING
        due_us = self.next_due_us(state)
        if 0 <= state.armed_us <= due_us:
            return NOTHING
        state.armed_us = due_us
        return (Deadline(due_us),)

    def due_us(self, state: W, obligation: Obligation) -> int:
        """When an obligation is due in the window: never earlier than one that came up before it, unless
        ``next_due_us`` knows of it."""
        return max(obligation.since_us, state.since_us) + state.beta_us

    def next_due_us(self, state: W) -> int:
        """When the first obligation is due: the oldest one."""
        return self.due_us(state, next(iter(state.due.values())))

    def expire(self, state: W, at_us: int) -> Emissions:
        if at_us != state.armed_us:
            return NOTHING
        state.armed_us = -1
        if not self.judges(state):
            return NOTHING
        found: list[Emissions] = []
        for name, obligation in list(state.due.items()):
            if self.due_us(state, obligation) > at_us:
                continue
            del state.due[name]
            found.append(self.missed(state, name, obligation))
        return [*(each for emissions in found for each in emissions), *self.arm(state)]

    def finish(self, state: W, horizon_us: int) -> Emissions:
        cut = state.cut + len(state.due)
        if state.tested or not cut:
            return NOTHING
        seconds = state.beta_us / 1_000_000
        return self.inconclusive(
            TOO_SHORT,
            state.key,
            f"no stability window was long enough: the promise needs {seconds:g} s without new faults",
        )

    def within(self, state: W) -> str:
        """How long it could take, in words."""
        return f"within {state.beta_us / 1_000_000:g} s without a fault that could prevent it"


def beta(profile: Profile, invariant: str) -> int:
    """Short for states: the bound of an invariant."""
    return bound_us(profile, invariant)


# ---- what the controllers' log says ----------------------------------------------------------------------------


class Appended(msgspec.Struct, frozen=True):
    """A record of the metadata log about a partition."""

    change: PartChange
    by: Witness

    @property
    def quorum_epoch(self) -> int:
        """Epoch of the leader that appended it."""
        return self.change.quorum_epoch

    @property
    def offset(self) -> int:
        """Where it stands."""
        return self.change.offset


KEPT = 8
"""Changes of a partition that are remembered in case later ones are lost."""


class Removed(msgspec.Struct, frozen=True):
    """A record of the metadata log that removes a partition's topic."""

    quorum_epoch: int
    offset: int


class PartitionState(WindowState):
    """What the metadata log says of a partition."""

    elections: Elections = msgspec.field(default_factory=Elections)
    history: History[Appended] = msgspec.field(default_factory=lambda: History(KEPT))
    removals: History[Removed] = msgspec.field(default_factory=lambda: History(KEPT))

    @property
    def is_removed(self) -> bool:
        """Whether its topic was removed, by a record that is not known to be lost: then nothing need happen."""
        return self.removals.newest is not None

    @property
    def newest(self) -> Appended | None:
        """The last record that is not known to be lost."""
        return self.history.newest

    @property
    def changes(self) -> list[PartChange]:
        """What is remembered and not known to be lost, in order."""
        return [each.change for each in self.history.records]

    def take(self, event: Stamped, body: PartChange) -> None:
        """A controller appended a change."""
        self.history.add(Appended(body, witness(event)), self.elections)

    def elected(self, event: Stamped, body: QRole) -> bool:
        """A controller took up a role; whether it leads, and what its log lacks never happened."""
        if not self.elections.take(event.node, body):
            return False
        self.history.forget_lost(self.elections)
        self.removals.forget_lost(self.elections)
        return True

    @property
    def leader(self) -> str:
        """Name of the leader that the controller gave, "" if there is none."""
        newest = self.newest
        return node_name(newest.change.leader) if newest is not None and newest.change.leader >= 0 else ""

    def needed(self, configured: int) -> int:
        """min.insync.replicas: as configured for the run, or when the partition last changed, whichever is more."""
        return configured if self.newest is None else max(configured, self.newest.change.min_isr)

    @property
    def isr(self) -> list[int]:
        """The in-sync replicas."""
        return self.newest.change.isr if self.newest is not None else []


P = TypeVar("P", bound=PartitionState)


class PartitionInvariant(WindowInvariant[P]):
    """One that turns on the state of a partition in the metadata log."""

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, QRole, PartRemove)

    def oblige(self, state: P, name: str, event: Stamped, target: int = -1) -> None:
        if not state.is_removed:
            super().oblige(state, name, event, target)

    def hear(self, state: P, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is PartRemove:
            if body.tp == state.key:
                state.removals.add(Removed(body.quorum_epoch, body.offset), state.elections)
                state.due.clear()
            return NOTHING
        if type(body) is not QRole:
            return super().hear(state, event)
        return self._look(state, event) if state.elected(event, body) else NOTHING
