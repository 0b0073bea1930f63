"""What a runtime does for one node, done for a test: the one place of the tests that carries out effects."""

from __future__ import annotations

from collections.abc import Iterable

from actors.node.effects import (
    AnyEffect,
    Append,
    Call,
    CancelTimer,
    Choose,
    Close,
    Complete,
    Delete,
    DropHead,
    Exit,
    Record,
    Replace,
    Reply,
    SetTimer,
    Sync,
    Truncate,
    Write,
)
from actors.node.events import AnyEvent, Chosen, DiskImage, Synced
from actors.node.messages import AnyResponse
from actors.trace.events import TraceEvent
from orchestrator.trace.rows import decode_body, encode_body


class Host:
    """A node's timers (name -> when it is due) and its disk. What a test does with the rest it says by the methods
    below, of which those that it does not need do nothing."""

    def __init__(self) -> None:
        self.timers: dict[str, int] = {}
        self.disk: DiskImage = {}
        self.written: dict[str, int] = {}
        """File -> number of the last write to it."""

    # ---- what a test says ------------------------------------------------------------------------------------

    def owe(self, event: AnyEvent) -> None:
        """The node is owed this at once: that a number was drawn, or a Sync is done."""
        raise NotImplementedError

    def recorded(self, event: TraceEvent) -> None:
        """It puts an event into the trace."""

    def called(self, call: Call) -> None:
        """It sends a request."""

    def replied(self, connection: str, response: AnyResponse | None) -> None:
        """It answers a request."""

    def closed(self, connection: str) -> None:
        """It closes a connection on which it serves."""

    def completed(self, complete: Complete) -> None:
        """It ends an operation."""

    def exited(self, ended: Exit) -> None:
        """It ends its process."""

    def drawn(self, n: int) -> int:
        """The number that is drawn below ``n``."""
        return 0

    def delay_ms(self, timer: SetTimer) -> int:
        """How long a timer runs, of its range."""
        return timer.max_ms

    def synced(self, file: str) -> None:
        """A Sync is asked for."""
        self.owe(Synced(file, self.written.get(file, 0)))

    # ---- what is the same for all ----------------------------------------------------------------------------

    def carry_out(self, effects: Iterable[AnyEffect], now_ms: int) -> None:
        """Do what a step asks for, in order."""
        for effect in effects:
            self._carry_out(effect, now_ms)

    def _carry_out(self, effect: AnyEffect, now_ms: int) -> None:
        match effect:
            case Record(event):
                assert decode_body(encode_body(event)) == event, "no reader of the trace can take this event"
                self.recorded(event)
            case Call():
                self.called(effect)
            case Reply(connection, response):
                self.replied(connection, response)
            case Close(connection):
                self.closed(connection)
            case Write():
                self.write(effect)
            case Sync(file):
                self.synced(file)
            case SetTimer(name, low, high):
                assert 0 <= low <= high, effect
                self.timers.pop(name, None)
                self.timers[name] = now_ms + self.delay_ms(effect)
            case CancelTimer(name):
                self.timers.pop(name, None)
            case Choose(name, n):
                self.owe(Chosen(name, self.drawn(n)))
            case Complete():
                self.completed(effect)
            case Exit():
                self.exited(effect)

    def write(self, write: Write) -> None:
        """Change a file."""
        self.written[write.file] = write.number
        entries = self.disk.setdefault(write.file, [])
        match write.operation:
            case Append(new):
                entries += new
            case Truncate(count):
                del entries[count:]
            case DropHead(count):
                del entries[:count]
            case Replace(content):
                entries[:] = [content]
            case Delete():
                del self.disk[write.file]

    def image(self) -> DiskImage:
        """What a process finds on the disk when it starts."""
        return {file: list(entries) for file, entries in self.disk.items()}

    def next_timer(self, until_ms: int, *but: str) -> tuple[int, str] | None:
        """When the next timer is due, and its name, if that is by ``until_ms``; without those whose names begin with
        ``but``."""
        due = [(at, name) for name, at in self.timers.items() if not name.startswith(but) and at <= until_ms]
        return min(due, default=None)
