"""What a node has not answered yet, and how each of it goes on
(``server-common/.../purgatory/{DelayedOperation,DelayedOperationPurgatory}.java``, ``DeferredEventQueue.java``).

What waits is data: its class says what to do when something that it waits for has happened, and when its time is over.
A new kind of waiting is a new class, in the union of those that the node's purgatory may hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from actors.node.component import Component
from actors.node.step import Step
from actors.node.turn import NodeTurn

NEVER_MS = 1 << 62
"""Deadline of what waits for as long as it takes."""

PREFIX = "purgatory/"
"""Prefix of the timers that end a wait: ``purgatory/<kind>``."""

Key = tuple[str, str]
"""What is waited for, and of which partition ("" where there is one only)."""


class DelayedOperation(msgspec.Struct, tag=True):
    """A request that waits. ``connection``: where its answer goes, and its name: a connection has one request served at
    a time. ``deadline_ms``: when it has waited long enough.

    ``timer``: the one that ends the waits of its kind, "" if nothing does. ``context`` is what the node hands down
    through a step, a ``NodeTurn``.
    """

    connection: str
    deadline_ms: int

    timer: ClassVar[str] = ""

    @property
    def keys(self) -> Iterable[Key]:
        """What it waits for; the same from its first moment to its last."""
        return ()

    def try_complete(self, context: Any, key: Key) -> bool:
        """Look again, as ``key`` has happened: whether the wait is over. Called after everything else that waits for
        the key and came before."""
        raise NotImplementedError

    def on_complete(self, context: Any) -> None:
        """The wait is over: answer. It is in the purgatory no longer."""
        raise NotImplementedError

    def on_expiration(self, context: Any) -> None:
        """The time is over: answer. It is in the purgatory no longer."""
        raise NotImplementedError


Operation = TypeVar("Operation", bound=DelayedOperation)


class Purgatory(msgspec.Struct, Generic[Operation]):
    """All that waits at a node, in the order in which it came.

    watchers: who waits for what: happening -> partition -> connections. due_ms: when each timer fires. A timer never
    fires later than the earliest deadline of its kind; it may fire for one that nobody waits for any more.
    """

    parked: dict[str, Operation] = {}
    watchers: dict[str, dict[str, list[str]]] = {}
    due_ms: dict[str, int] = {}

    def park(self, step: Step, operation: Operation) -> None:
        """Let an operation wait until ``try_complete`` succeeds or its time is over."""
        connection = operation.connection
        assert connection not in self.parked, f"two requests of {connection} wait"
        self.parked[connection] = operation
        for happening, tp in operation.keys:
            waiting = self.watchers.setdefault(happening, {}).setdefault(tp, [])
            if not waiting or waiting[-1] != connection:
                waiting.append(connection)
        self.cover(step, operation)

    def watching(self, key: Key) -> list[str]:
        """Who waits for ``key``, in order: a copy, as completing them changes the original."""
        happening, tp = key
        waiting = self.watchers.get(happening)
        return [] if waiting is None else list(waiting.get(tp, ()))

    def check(self, context: Any, key: Key) -> None:
        """``key`` has happened: complete what waited for nothing else."""
        for connection in self.watching(key):
            self.try_complete(context, connection, key)

    def try_complete(self, context: Any, connection: str, key: Key) -> bool:
        """Complete one operation if it can be completed now that ``key`` has happened; whether it was."""
        operation = self.parked.get(connection)
        if operation is None or not operation.try_complete(context, key):
            return False
        self.remove(connection)
        operation.on_complete(context)
        return True

    def on_timer(self, turn: NodeTurn, timer: str) -> None:
        """One of the timers fired."""
        del self.due_ms[timer]
        self.expire(turn, timer)
        left = [operation for operation in self.parked.values() if operation.timer == timer]
        if left:
            self.cover(turn.step, min(left, key=_deadline))

    def expire(self, turn: NodeTurn, timer: str) -> None:
        """End the waits of one kind whose time is over."""
        late = [each for each in self.parked.values() if each.timer == timer and each.deadline_ms <= turn.step.now_ms]
        for operation in late:
            if self.remove(operation.connection) is operation:
                operation.on_expiration(turn)

    def cover(self, step: Step, operation: Operation) -> None:
        """See to it that the timer of an operation fires at its deadline or before."""
        timer, deadline_ms = operation.timer, operation.deadline_ms
        if not timer or deadline_ms == NEVER_MS or self.due_ms.get(timer, NEVER_MS) <= deadline_ms:
            return
        self.due_ms[timer] = deadline_ms
        step.set_timer(timer, max(0, deadline_ms - step.now_ms))

    def remove(self, connection: str) -> Operation | None:
        """Let an operation wait no longer, such as one whose client is gone; None if there is none."""
        operation = self.parked.pop(connection, None)
        if operation is None:
            return None
        for happening, tp in operation.keys:
            by_partition = self.watchers[happening]
            waiting = by_partition.get(tp)
            if waiting is not None and connection in waiting:
                waiting.remove(connection)
                if not waiting:
                    del by_partition[tp]
        return operation

    def take_all(self) -> list[Operation]:
        """Let nothing wait any longer: what did, in order."""
        taken = list(self.parked.values())
        self.parked, self.watchers = {}, {}
        return taken

    def unwatched(self) -> list[str]:
        """In words, each key that is watched for somebody who waits no longer: a mistake."""
        return [
            f"the request of {connection}, which is over, for {tp}"
            for by_partition in self.watchers.values()
            for tp, connections in by_partition.items()
            for connection in connections
            if connection not in self.parked
        ]


def _deadline(operation: DelayedOperation) -> int:
    return operation.deadline_ms


COMPONENT: Component[Purgatory[Any], NodeTurn] = Component(
    timers={PREFIX: lambda purgatory, turn, kind: purgatory.on_timer(turn, f"{PREFIX}{kind}")}
)
