"""The effects of one step while they are being collected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.node.effects import (
    AnyEffect,
    Call,
    CancelTimer,
    Choose,
    Close,
    Complete,
    Exit,
    FileOperation,
    Record,
    Reply,
    SetTimer,
    Sync,
    Write,
)
from actors.node.messages import AnyRequest, AnyResponse
from actors.trace.events import AnyTraceEvent


class Step:
    """Handed down through a node during one step: the time, and the list the effects go to.

    ``now_ms`` is monotonic (Kafka's ``Time.hiResClockMs``). ``wall_ms`` is the wall clock (``Time.milliseconds``),
    which may step forward and back, though not before the epoch (in the sim: the start of the run); it belongs where
    Kafka reads it, in timestamps of records and the lag of replicas. A Step lives for one step and is no part of the
    state.
    """

    __slots__ = ("defects", "effects", "now_ms", "wall_ms")

    def __init__(self, now_ms: int, defects: Sequence[str] = (), wall_offset_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.wall_ms = max(0, now_ms + wall_offset_ms)
        self.effects: list[AnyEffect] = []
        self.defects = defects

    def call(self, call: int, peer: str, connection: str, request: AnyRequest, timeout_ms: int) -> None:
        """Emit Call. Nodes go through ``NetworkClient`` instead, which negotiates versions."""
        self.effects.append(Call(call, peer, connection, request, timeout_ms))

    def reply(self, connection: str, response: AnyResponse | None) -> None:
        """Emit Reply."""
        self.effects.append(Reply(connection, response))

    def close(self, connection: str) -> None:
        """Emit Close."""
        self.effects.append(Close(connection))

    def write(self, file: str, number: int, operation: FileOperation) -> None:
        """Emit Write; ``actors.node.files.Files`` counts the writes of a file."""
        self.effects.append(Write(file, number, operation))

    def sync(self, file: str) -> None:
        """Emit Sync."""
        self.effects.append(Sync(file))

    def set_timer(self, name: str, min_ms: int, max_ms: int | None = None, wall: bool = False) -> None:
        """Emit SetTimer; without ``max_ms`` the delay is exactly ``min_ms``."""
        self.effects.append(SetTimer(name, min_ms, min_ms if max_ms is None else max_ms, wall))

    def cancel_timer(self, name: str) -> None:
        """Emit CancelTimer."""
        self.effects.append(CancelTimer(name))

    def choose(self, name: str, n: int) -> None:
        """Emit Choose."""
        self.effects.append(Choose(name, n))

    def complete(self, operation: str, result: dict[str, Any]) -> None:
        """Emit Complete."""
        self.effects.append(Complete(operation, result))

    def exit(self, *, clean: bool, detail: str = "", fatal: bool = False) -> None:
        """Emit Exit."""
        self.effects.append(Exit(clean, detail, fatal))

    def record(self, event: AnyTraceEvent) -> None:
        """Emit Record."""
        self.effects.append(Record(event))
