"""The contract between a node and the runtime that drives it.

A node is a KRaft voter, a broker or a client. It is a pure state machine: ``step`` takes the time and one
event, changes the node's own state and returns effects. It does no I/O, reads no clock, draws no random
number. Whoever drives it (``actors.sim``, ``actors.live``, ``actors.replay``) owes it the following:

* **One step at a time.** The first event of an incarnation is Started and it comes once.
* **Order.** Effects are carried out in the order given. A crash may fall between any two of them.
* **Trace first.** A Record is in the trace before any later effect leaves the node.
* **Disk.** A Write survives the death of the process, a Sync also power loss. Synced reports what is covered.
* **Calls.** Every Call ends exactly once, in Answered or Failed. On a connection that broke while nothing was under
  way the next Call fails with a disconnect. When one call of a connection runs into its time-out, the connection is
  closed and its other calls fail with a disconnect, as in Kafka's NetworkClient.
* **Connections** are ordered, and muted while a request is being served: the next Received of a connection
  comes after the Reply (or Close) to the one before.
* **Timers.** A name denotes one timer. Setting it again replaces it; a cancelled or replaced setting never fires.
* **Randomness** comes from outside: timers are set with a range, choices are asked for with Choose.

What a node owes in return: state that is plain data (``msgspec.Struct``, encodable by ``actors.node.codec``),
iteration orders that depend on neither hashes nor addresses, messages that it never touches after sending or
receiving them, and the same effects for the same inputs.
"""

from __future__ import annotations

from typing import Protocol

from actors.node.effects import AnyEffect
from actors.node.events import AnyEvent


class Node(Protocol):
    """A sans-IO node; see the module's docstring for the obligations on both sides."""

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """Take one event at ``now_ms`` (milliseconds of the machine's monotonic clock, which may run too fast or too
        slowly; the wall clock is this plus what the last ClockStepped said) and return what is to be done, in order.

        Raises: nothing that is a peer's fault; a peer's mistake becomes a Kafka error code. Any exception is
        a bug of the node and ends the run (`node.down` with mode bug, invariant X3).
        """
        ...
