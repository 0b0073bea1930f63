"""A modelled disk: per file what the operating system holds, and the part of it that survives power loss.

What survives is what a Sync has covered, and what the operating system wrote out of its own accord, which it does with
everything that it holds every ``flush_us``. A Truncate, a DropHead and a Delete hold at once: what they took never
comes back.
"""

from __future__ import annotations

from collections import deque

from actors.control import DiskLoss
from actors.node.effects import Append, Delete, DropHead, FileOperation, Replace, Truncate
from actors.node.events import DiskImage

Unsynced = tuple[int, int, list[bytes], int]
"""A Write that may be lost: its serial number in the disk, when it was made, the content that it belongs to (a Replace
begins another) and how many entries that had after it."""


class SimFile:
    """``entries``: content as any process sees it. ``kept`` and ``kept_entries``: a content, and how many entries at
    its beginning, survive power loss; ``unsynced``: the Writes since, in order. ``written`` counts the Writes of the
    present incarnation. ``sync_due_us``: when the last Sync asked for is done (Syncs keep their order).
    """

    __slots__ = ("entries", "kept", "kept_entries", "sync_due_us", "unsynced", "written")

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.kept = self.entries
        self.kept_entries = 0
        self.unsynced: deque[Unsynced] = deque()
        self.written = 0
        self.sync_due_us = 0

    @property
    def durable(self) -> list[bytes]:
        """Content after power loss."""
        return self.kept[: self.kept_entries]

    @property
    def replaced(self) -> bool:
        """Whether power loss brings back the content before the last Replace."""
        return self.kept is not self.entries

    def keep(self, entries: list[bytes], count: int) -> None:
        """``count`` entries of a content survive from now on."""
        self.kept, self.kept_entries = entries, count

    def settle(self) -> None:
        """All of it survives from now on."""
        self.keep(self.entries, len(self.entries))
        self.unsynced.clear()

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` entries, of what survives too."""
        assert count <= len(self.entries), f"truncating {len(self.entries)} entries to {count}"
        del self.entries[count:]
        if not self.replaced:
            self.kept_entries = min(self.kept_entries, count)
        self.unsynced = deque(
            (serial, at_us, content, min(entries, count) if content is self.entries else entries)
            for serial, at_us, content, entries in self.unsynced
        )

    def drop_head(self, count: int) -> None:
        """Drop the first ``count`` entries, of what survives too."""
        assert count <= len(self.entries) and not self.replaced, f"dropping {count} of {len(self.entries)} entries"
        del self.entries[:count]
        self.kept_entries = max(self.kept_entries - count, 0)
        self.unsynced = deque(
            (serial, at_us, content, max(entries - count, 0)) for serial, at_us, content, entries in self.unsynced
        )


class Disk:
    """The files of one node. They outlive its processes. ``serial`` counts the Writes to all of them. ``torn``: files
    that lost a torn tail since the last start."""

    __slots__ = ("files", "flush_us", "serial", "torn")

    def __init__(self, flush_us: int = 30_000_000) -> None:
        self.files: dict[str, SimFile] = {}
        self.flush_us = flush_us
        self.serial = 0
        self.torn = 0

    def image(self) -> DiskImage:
        """What a process finds when it starts: files by name, each with its entries. An empty file is there, too.

        Where a Replace is not synced, what a new process reads is made durable first: a file that stands under its
        name was synced before it got the name (Kafka's quorum-state and checkpoints)."""
        for file in self.files.values():
            if file.replaced:
                file.settle()
        return {name: list(self.files[name].entries) for name in sorted(self.files)}

    def file(self, name: str) -> SimFile:
        """The file of this name, made if need be."""
        found = self.files.get(name)
        if found is None:
            found = self.files[name] = SimFile()
        return found

    def write(self, name: str, number: int, operation: FileOperation, now_us: int) -> None:
        """Carry out a Write. Raises AssertionError if the node miscounts its writes or truncates what is not there."""
        file = self.file(name)
        assert number == file.written + 1, f"{name}: write {number} came after {file.written}"
        file.written = number
        self.serial += 1
        if operation.__class__ is Append:
            file.entries.extend(operation.entries)
        elif operation.__class__ is Truncate:
            file.truncate(operation.entries)
        elif operation.__class__ is DropHead:
            file.drop_head(operation.entries)
        elif operation.__class__ is Delete:
            del self.files[name]
            return
        elif operation.__class__ is Replace:
            file.entries = [operation.content]
        if file.unsynced and file.unsynced[0][1] < now_us - now_us % self.flush_us:
            self._flush(file, now_us)
        file.unsynced.append((self.serial, now_us, file.entries, len(file.entries)))

    def sync(self, name: str, serial: int) -> None:
        """Everything up to ``serial`` now survives power loss."""
        file = self.files.get(name)
        if file is None:
            return  # the disk was wiped meanwhile
        unsynced = file.unsynced
        while unsynced and unsynced[0][0] <= serial:
            _, _, content, count = unsynced.popleft()
            file.keep(content, count)

    def _flush(self, file: SimFile, now_us: int) -> None:
        """What the operating system has written out by now survives."""
        flushed_us = now_us - now_us % self.flush_us
        while file.unsynced and file.unsynced[0][1] < flushed_us:
            _, _, content, count = file.unsynced.popleft()
            file.keep(content, count)

    # ---- the end of a process ------------------------------------------------------------------------------

    def process_died(self) -> None:
        """The process is gone: its Writes stay, also the unsynced ones; the next incarnation counts anew."""
        for file in self.files.values():
            file.written = 0
            file.sync_due_us = 0

    def lose(self, loss: DiskLoss, now_us: int) -> dict[str, bytes]:
        """The machine's end along with that of the process. Returns, per file that lost any, the first lost entry.

        power-loss: what is not durable is gone. torn-tail: all of it got to the disk but the last entry, which is cut
        in the middle, and of a Replace nothing; the checksum shows it, so that it is dropped. wiped: all is gone.
        """
        lost: dict[str, bytes] = {}
        for name, file in sorted(self.files.items()):
            self._flush(file, now_us)
            left = [] if loss == "wiped" else self._left(file, loss)
            if len(left) < len(file.entries) and (loss == "wiped" or not file.replaced):
                lost[name] = file.entries[len(left)]
            file.entries = left
            file.settle()
        if loss == "wiped":
            self.files.clear()
        self.process_died()
        return lost

    def _left(self, file: SimFile, loss: DiskLoss) -> list[bytes]:
        """What of a file is still there."""
        if loss == "power-loss" or file.replaced:
            left = file.durable
        else:
            left = file.entries[: max(file.kept_entries, len(file.entries) - 1)]
        if loss == "torn-tail" and left != file.entries:
            self.torn += 1
        return left
