"""Replicas that have much to copy: how long that takes is up to its amount, and to the machine."""

from __future__ import annotations

from typing import TypeVar

from actors.trace.events import LogAppend, Stamped
from orchestrator.invariants.folds.windows import PartitionInvariant, PartitionState


class Copying(PartitionState):
    """ends: broker -> its log end; furthest: obligation -> broker -> the furthest one since that came up."""

    ends: dict[str, int] = {}
    furthest: dict[str, dict[str, int]] = {}

    def append(self, event: Stamped, body: LogAppend, name: str) -> None:
        """A log has more. The bound of an obligation counts from then, for as long as a replica has not had so much
        since it came up, and not yet all that was to be copied then: it gets there, as nothing is added to that."""
        obligation, end, before = self.due.get(name), body.last + 1, self.ends.get(event.node, 0)
        self.ends[event.node] = end
        if obligation is None or body.role != "follower" or before >= obligation.target:
            return
        furthest = self.furthest[name]
        if end > furthest.get(event.node, -1):
            furthest[event.node], obligation.since_us = end, event.wall


C = TypeVar("C", bound=Copying)


class CopyingInvariant(PartitionInvariant[C]):
    """One whose obligations wait for replicas to copy what they lack, up to their targets."""

    def oblige(self, state: C, name: str, event: Stamped, target: int = -1) -> None:
        if name not in state.due:
            state.furthest[name] = {}
        super().oblige(state, name, event, target)

    def next_due_us(self, state: C) -> int:
        """They are due in any order."""
        return min(self.due_us(state, each) for each in state.due.values())
