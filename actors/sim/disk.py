"""A modelled disk: per file what the operating system holds, and the part of it that survives power loss."""

from __future__ import annotations

from collections import deque

from actors.node.effects import Append, FileOperation, Replace, Truncate
from actors.node.events import DiskImage


class SimFile:
    """``entries``: content as any process sees it. ``durable``: content after power loss; ``unsynced``: the operations
    that lead from there to ``entries``, each with its serial number over all incarnations. ``written`` counts the
    Writes of the present incarnation. ``sync_due_us``: when the last Sync asked for is done (Syncs keep their order).
    """

    __slots__ = ("durable", "entries", "serial", "sync_due_us", "unsynced", "written")

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.durable: list[bytes] = []
        self.unsynced: deque[tuple[int, FileOperation]] = deque()
        self.serial = 0
        self.written = 0
        self.sync_due_us = 0


class Disk:
    """The files of one node. They outlive its processes."""

    __slots__ = ("files",)

    def __init__(self) -> None:
        self.files: dict[str, SimFile] = {}

    def image(self) -> DiskImage:
        """What a process finds when it starts: files by name, each with its entries. An empty file is there, too."""
        return {name: list(self.files[name].entries) for name in sorted(self.files)}

    def file(self, name: str) -> SimFile:
        """The file of this name, made if need be."""
        found = self.files.get(name)
        if found is None:
            found = self.files[name] = SimFile()
        return found

    def write(self, name: str, number: int, operation: FileOperation) -> None:
        """Carry out a Write. Raises AssertionError if the node miscounts its writes or truncates what is not there."""
        file = self.file(name)
        assert number == file.written + 1, f"{name}: write {number} came after {file.written}"
        file.written = number
        file.serial += 1
        apply(file.entries, operation)
        file.unsynced.append((file.serial, operation))

    def sync(self, name: str, serial: int) -> None:
        """Everything up to ``serial`` now survives power loss."""
        file = self.files[name]
        while file.unsynced and file.unsynced[0][0] <= serial:
            apply(file.durable, file.unsynced.popleft()[1])

    def process_died(self) -> None:
        """The process is gone: its Writes stay, also the unsynced ones; the next incarnation counts anew."""
        for file in self.files.values():
            file.written = 0
            file.sync_due_us = 0

    def power_lost(self) -> dict[str, int]:
        """The power is gone: so is what no Sync covered. Returns, per file that lost any, how many operations."""
        lost = {name: len(file.unsynced) for name, file in sorted(self.files.items()) if file.unsynced}
        for file in self.files.values():
            file.entries = list(file.durable)
            file.unsynced.clear()
        self.process_died()
        return lost


def apply(entries: list[bytes], operation: FileOperation) -> None:
    """Change a file's entries as the operation says."""
    if operation.__class__ is Append:
        entries.extend(operation.entries)
    elif operation.__class__ is Truncate:
        assert operation.entries <= len(entries), f"truncating {len(entries)} entries to {operation.entries}"
        del entries[operation.entries :]
    elif operation.__class__ is Replace:
        entries[:] = (operation.content,)
