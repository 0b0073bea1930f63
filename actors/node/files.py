"""The files a node writes: numbers its writes and remembers what a Sync has covered."""

from __future__ import annotations

import msgspec

from actors.node.effects import Append, Replace, Truncate
from actors.node.events import Synced
from actors.node.step import Step


class FileState(msgspec.Struct):
    """Counters of one file in this incarnation."""

    written: int = 0
    synced: int = 0
    syncing: int = 0


class Files(msgspec.Struct):
    """All files of a node, by name."""

    states: dict[str, FileState] = {}

    def _next(self, file: str) -> int:
        state = self.states.setdefault(file, FileState())
        state.written += 1
        return state.written

    def append(self, step: Step, file: str, entries: list[bytes]) -> int:
        """Add entries at the end; returns the number of this write."""
        number = self._next(file)
        step.write(file, number, Append(entries))
        return number

    def truncate(self, step: Step, file: str, entries: int) -> int:
        """Keep the first ``entries`` entries; returns the number of this write."""
        number = self._next(file)
        step.write(file, number, Truncate(entries))
        return number

    def replace(self, step: Step, file: str, content: bytes) -> int:
        """Replace the whole content atomically; returns the number of this write."""
        number = self._next(file)
        step.write(file, number, Replace(content))
        return number

    def sync(self, step: Step, file: str) -> None:
        """Ask for durability of everything written to ``file`` so far."""
        state = self.states.setdefault(file, FileState())
        state.syncing = state.written
        step.sync(file)

    def on_synced(self, event: Synced) -> None:
        """Note what a Sync covered."""
        state = self.states.setdefault(event.file, FileState())
        state.synced = max(state.synced, event.upto)

    def is_durable(self, file: str, number: int) -> bool:
        """Whether write ``number`` of ``file`` survives power loss."""
        return self.states.setdefault(file, FileState()).synced >= number
