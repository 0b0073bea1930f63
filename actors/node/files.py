"""The files a node writes: numbers its writes."""

from __future__ import annotations

import msgspec

from actors.node.effects import Append, Delete, DropHead, Replace, Truncate
from actors.node.step import Step


class FileState(msgspec.Struct):
    """Writes to one file in this incarnation, and how many of them the last Sync asked for covers."""

    written: int = 0
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

    def drop_head(self, step: Step, file: str, entries: int) -> int:
        """Drop the first ``entries`` entries; returns the number of this write."""
        number = self._next(file)
        step.write(file, number, DropHead(entries))
        return number

    def delete(self, step: Step, file: str) -> None:
        """Remove a file."""
        step.write(file, self._next(file), Delete())
        del self.states[file]

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
