"""The operations that wait at a node, and how each of them continues
(``server-common/.../purgatory/{DelayedOperation,DelayedOperationPurgatory}.java``, ``DeferredEventQueue.java``).

A waiting operation is data: its class says how it reacts to an awaited event, and to its deadline.
A new kind of waiting is a new class, in the union of the classes that the node's purgatory may hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from actors.node.component import Component
from actors.node.step import Step
from actors.node.turn import NodeTurn

NEVER_MS = 1 << 62
"""Deadline of an operation that waits without limit."""

PREFIX = "purgatory/"
"""Prefix of the timers that end a wait: ``purgatory/<kind>``."""

Key = tuple[str, str]
"""The awaited event, and its partition ("" if there is only one)."""


class DelayedOperation(msgspec.Struct, tag=True):
    """A request that waits. ``connection``: the destination of its answer, and its name, since a connection serves one
    request at a time. ``deadline_ms``: the end of its wait.

    ``timer``: the timer that ends the waits of its kind, "" if there is none. ``context`` is the ``NodeTurn`` of the
    step.
    """

    connection: str
    deadline_ms: int

    timer: ClassVar[str] = ""
    outlives_connection: ClassVar[bool] = False
    """Whether it waits on when its client is gone, for something that is under way all the same."""

    @property
    def keys(self) -> Iterable[Key]:
        """The events that it waits for; they never change."""
        return ()

    def try_complete(self, context: Any, key: Key) -> bool:
        """Check again after ``key`` has happened, and return whether the wait is over. Called in the order of arrival
        of the operations that wait for the key."""
        raise NotImplementedError

    def on_complete(self, context: Any) -> None:
        """Answer, since the wait is over. The operation is not in the purgatory any more."""
        raise NotImplementedError

    def on_expiration(self, context: Any) -> None:
        """Answer, since the deadline is over. The operation is not in the purgatory any more."""
        raise NotImplementedError


Operation = TypeVar("Operation", bound=DelayedOperation)


class Purgatory(msgspec.Struct, Generic[Operation]):
    """All waiting operations of a node, in the order of their arrival.

    watchers: event -> partition -> connections of the operations that wait for it. due_ms: when each timer fires. A
    timer never fires later than the earliest deadline of its kind; it may fire for an operation that is gone.
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

    def disconnected(self, connection: str) -> None:
        """Its client is gone."""
        operation = self.parked.get(connection)
        if operation is not None and not operation.outlives_connection:
            self.remove(connection)

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
