"""The contract between a node and the runtime that drives it.

A node is a KRaft voter, a broker or a client. It is a pure state machine: ``step`` takes the time and one
event, changes the node's own state and returns effects. It does no I/O, reads no clock, draws no random
number. Its runtime (``actors.sim``, ``actors.live``, ``actors.replay``) guarantees the following:

* **One step at a time.** The first event of an incarnation is Started and it comes once.
* **Order.** Effects are carried out in their order. A crash may fall between any two of them.
* **Trace first.** A Record is in the trace before any later effect leaves the node.
* **Disk.** A Write survives the death of the process, a Sync also power loss. Synced reports the covered part.
* **Calls.** Every Call ends exactly once, in Answered or Failed. If a connection broke while it was idle, the
  next Call fails with a disconnect. When one call of a connection times out, the connection is
  closed and its other calls fail with a disconnect, as in Kafka's NetworkClient.
* **Connections** are ordered, and muted while a request is being served: the next Received of a connection
  comes after the Reply (or Close) to the one before.
* **Timers.** A name denotes one timer. Setting it again replaces it; a cancelled or replaced setting never fires.
* **Randomness** comes from outside: timers are set with a range, choices are requested with Choose.

In return, a node guarantees: state that is plain data (``msgspec.Struct``, encodable by ``actors.node.codec``),
iteration orders that depend on neither hashes nor addresses, no change of a message after sending or
receiving it, and the same effects for the same inputs.
"""

from __future__ import annotations

from typing import Protocol

from actors.node.effects import AnyEffect
from actors.node.events import AnyEvent


class Node(Protocol):
    """A sans-IO node; see the module's docstring for the obligations on both sides."""

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """Take one event at ``now_ms`` (milliseconds of the machine's monotonic clock, which may run too fast or too
        slowly; the wall clock is this plus the offset of the last ClockStepped) and return the effects, in order.

        Raises: nothing that is a peer's fault; a peer's mistake becomes a Kafka error code. Any exception is
        a bug of the node and ends the run (`node.down` with mode bug, invariant X3).
        """
        ...
