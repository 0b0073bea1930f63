"""A read from remote storage, as a reader thread carries it out: a small state machine of calls to the store.

A new kind of read is a new class, in the union of the kinds (``reader_pool.AnyReaderTask``).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.network_client import Ended
from actors.node.purgatory import DelayedOperation

TaskKind = Literal["list-offsets", "fetch"]


class AwaitsRead(DelayedOperation):
    """A request that waits for reads from remote storage."""

    outlives_connection = True

    def on_read(self, context: Turn, task: Any) -> None:
        """One of them, a ``ReaderTask``, is done."""
        raise NotImplementedError


class ReaderTask(msgspec.Struct, tag=True):
    """One read. ``number``: among all reads of the broker. ``connection``, ``correlation_id``: the request that waits
    for it. ``tp``: the partition's name, ``key``: as the trace has it. ``timestamp``: that is
    looked for, -1 none. ``given_up``: nobody waits for it any more.
    error: why it has no result."""

    number: int
    connection: str
    correlation_id: int
    tp: str
    key: str
    timestamp: int = -1
    given_up: bool = False
    error: KafkaError = KafkaError.NONE

    kind: ClassVar[TaskKind]

    def advance(self, turn: Turn, purpose: str) -> bool:
        """Go on as far as possible now; True: it is done. ``purpose``: of its thread's calls to the store."""
        raise NotImplementedError

    def on_ended(self, turn: Turn, ended: Ended) -> None:
        """Its call to the store ended; ``advance`` follows."""
        raise NotImplementedError

    def on_done(self, turn: Turn) -> None:
        """Hand itself over to who waits for it: it is done, and its thread is free. Never called of a task that was
        given up."""
        waiting: Any = turn.purgatory.parked.get(self.connection)
        if isinstance(waiting, AwaitsRead):
            waiting.on_read(turn, self)
