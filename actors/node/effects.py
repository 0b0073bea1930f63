"""What a node asks of its runtime: the outputs of ``step``, carried out in order."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from actors.node.messages import AnyRequest, AnyResponse
from actors.trace.events import AnyTraceEvent


class Effect(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Base of all outputs."""


class Call(Effect, frozen=True):
    """Send a request to ``peer`` (a node's name). ``connection`` is this node's own name for one of its
    connections to that peer; the runtime opens it on first use and again after it broke. ``call`` is unique
    within the incarnation."""

    call: int
    peer: str
    connection: str
    request: AnyRequest
    timeout_ms: int


class Reply(Effect, frozen=True):
    """Answer the request outstanding on a connection. ``response`` None: there is no answer (acks=0), the connection
    is just free for its next request, and the peer's Call ends in Answered with an empty response."""

    connection: str
    response: AnyResponse | None


class Close(Effect, frozen=True):
    """Close a connection on which this node serves; the peer's open calls on it fail with a disconnect."""

    connection: str


class Append(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Add entries at the end of a file."""

    entries: list[bytes]


class Truncate(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Keep the first ``entries`` entries of a file."""

    entries: int


class DropHead(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Drop the first ``entries`` entries of a file."""

    entries: int


class Replace(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Put ``content`` in place of the whole file, atomically (temporary file, then rename)."""

    content: bytes


class Delete(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Remove the file. What is written under its name after that is a new file, whose writes count from 1."""


FileOperation = Append | Truncate | DropHead | Replace | Delete


class Write(Effect, frozen=True):
    """Change a file. It survives the death of the process; only a later Sync makes it survive power loss.
    ``number`` counts the writes to this file in this incarnation, from 1."""

    file: str
    number: int
    operation: FileOperation


class Sync(Effect, frozen=True):
    """Make every Write so far to ``file`` durable; the runtime answers Synced."""

    file: str


class SetTimer(Effect, frozen=True):
    """(Re)start a timer. The runtime draws the delay from [min_ms, max_ms]. ``wall``: its end is a time of the wall
    clock (Kafka's ``Timer``), so that a step of that clock brings it nearer or puts it off, as it does with the
    time-out of every Call. Other timers do not notice."""

    name: str
    min_ms: int
    max_ms: int
    wall: bool = False


class CancelTimer(Effect, frozen=True):
    """Stop a timer; without effect if it is not running."""

    name: str


class Choose(Effect, frozen=True):
    """Ask for a number in [0, n); the runtime answers Chosen with the same name, at once."""

    name: str
    n: int


class Complete(Effect, frozen=True):
    """End an operation that Invoked began. ``result`` is JSON-like."""

    operation: str
    result: dict[str, Any]


class Exit(Effect, frozen=True):
    """End this process; nothing follows. ``clean``: the next incarnation finds everything in good order. ``detail``:
    why, where nobody asked for it. ``fatal``: the fault handler does it."""

    clean: bool
    detail: str = ""
    fatal: bool = False

    @property
    def mode(self) -> Literal["clean", "crash", "fatal"]:
        """As the trace tells it."""
        if self.fatal:
            return "fatal"
        return "clean" if self.clean else "crash"


class Record(Effect, frozen=True):
    """Append an event to the trace. It is in the trace before any later effect can be seen by anyone."""

    event: AnyTraceEvent


AnyEffect = Call | Reply | Close | Write | Sync | SetTimer | CancelTimer | Choose | Complete | Exit | Record
