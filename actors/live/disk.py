"""A node's disk: one file per name, of entries framed with length and checksum.

A Write is in the operating system's hands when ``write`` returns, so it survives SIGKILL; ``sync`` makes it survive
power loss. What a crash left half written at the end of a file is found by its checksum and cut off.

On disk an entry is 8 bytes (length and CRC-32 of the content, big endian) and the content. Replace writes beside the
file and renames; the last synced content keeps a name of its own until a Sync covers its successor, so power loss
leaves one of the two and never neither.

Beside each file lies a note of how many of its bytes survive power loss: those that a finished Sync has covered. With
it ``actors.live.disk_loss`` takes away, from the disk of a killed process, what the loss of power would have. A note
never promises too much: it is written after the Sync, and before a Truncate. A file is written by Append, Truncate
and DropHead, or by Replace.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from actors.node.effects import Append, Delete, DropHead, FileOperation, Replace, Truncate
from actors.node.events import DiskImage
from actors.trace.journal import frame, unframe

CURRENT, NEW, OLD, NOTE = "f-", "n-", "o-", "s-"
"""What the names on disk begin with: the file, its unfinished replacement, its last synced predecessor, the note of how
much of it survives power loss."""

NOTE_BYTES = 20
_REPLACED = -1
"""In a note: the file was replaced, and no Sync has covered that yet."""


class _Sync(msgspec.Struct):
    """A Sync that is open: the last Write that it covers, how many bytes that are, and the content of a file that was
    replaced."""

    upto: int
    size: int
    content: bytes | None


class _File:
    """One open file: its descriptor, that of its note, where each entry ends, and how many Writes it took. ``content``:
    of the last Replace in this incarnation; ``kept``: what its note says; ``syncs``: those that are open."""

    def __init__(self, path: Path, note: Path) -> None:
        self.fd = _open(path)
        self.note = os.open(note, os.O_RDWR | os.O_CREAT, 0o644)
        self.ends: list[int] = []
        self.written = 0
        self.content: bytes | None = None
        self.kept = parse_note(os.pread(self.note, NOTE_BYTES, 0))
        self.syncs: list[_Sync] = []

    @property
    def size(self) -> int:
        """Bytes of the whole entries."""
        return self.ends[-1] if self.ends else 0

    def keep(self, size: int) -> None:
        """Note that so many bytes survive power loss."""
        if size != self.kept:
            self.kept = size
            os.pwrite(self.note, b"%*d" % (NOTE_BYTES, size), 0)

    def close(self) -> None:
        """Close both descriptors."""
        os.close(self.fd)
        os.close(self.note)

    def grow(self, frames: list[bytes]) -> None:
        """Note where the entries appended as ``frames`` end."""
        for data in frames:
            self.ends.append((self.ends[-1] if self.ends else 0) + len(data))


class Disk:
    """The files of one node in ``directory``. ``torn``: how many torn tails ``load`` dropped. ``is_far``: whether a
    Write may take long."""

    is_far = False

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.torn = 0
        self._files: dict[str, _File] = {}

    def load(self) -> DiskImage:
        """Open the disk: what every file holds, sorted by name; torn tails are cut off on disk as well."""
        self.directory.mkdir(parents=True, exist_ok=True)
        names = set()
        for path in self.directory.iterdir():
            if path.name.startswith(NEW):
                path.unlink()
            elif not path.name.startswith(NOTE):
                names.add(unquoted(path))
        return {name: self._load(name) for name in sorted(names)}

    def _load(self, name: str) -> list[bytes]:
        path, old = self._path(CURRENT, name), self._path(OLD, name)
        data = path.read_bytes() if path.exists() else b""
        entries, size = unframe(data)
        if size < len(data):
            self.torn += 1
        if not entries and old.exists():
            os.replace(old, path)
            entries, size = unframe(path.read_bytes())
        old.unlink(missing_ok=True)
        file = self._files[name] = self._open(name)
        file.grow([frame(entry) for entry in entries])
        os.ftruncate(file.fd, size)
        if file.kept == _REPLACED:
            # What a new process reads was synced before it got the file's name, as Kafka does it.
            os.fsync(file.fd)
            file.keep(size)
        else:
            file.keep(min(file.kept, size))
        return entries

    def _open(self, name: str) -> _File:
        return _File(self._path(CURRENT, name), self._path(NOTE, name))

    def write(self, name: str, number: int, operation: FileOperation) -> None:
        """Carry out one Write. Raises OSError (a full disk), AssertionError if a Write went missing."""
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = self._open(name)
        assert number == file.written + 1, f"{name}: write {number} came after {file.written}"
        file.written = number
        match operation:
            case Append(entries):
                frames = [frame(entry) for entry in entries]
                file.grow(frames)
                write_all(file.fd, b"".join(frames))
            case Truncate(entries=count):
                del file.ends[count:]
                for sync in file.syncs:
                    sync.size = min(sync.size, file.size)
                file.keep(min(file.kept, file.size))
                os.ftruncate(file.fd, file.size)
            case DropHead(entries=count):
                if count:
                    self._drop_head(name, file, count)
            case Replace(content):
                self._replace(name, file, frame(content))
            case Delete():
                self._delete(name, file)

    def _replace(self, name: str, file: _File, data: bytes) -> None:
        new, path = self._path(NEW, name), self._path(CURRENT, name)
        fd = _open(new)
        write_all(fd, data)
        if file.kept > 0:
            self._path(OLD, name).unlink(missing_ok=True)
            os.link(path, self._path(OLD, name))
        file.keep(_REPLACED)
        os.rename(new, path)
        os.close(file.fd)
        file.fd, file.ends, file.content = fd, [len(data)], data

    def _drop_head(self, name: str, file: _File, count: int) -> None:
        """Copy what is left beside the file and rename: either is whole. The note comes last; until then it promises
        what the longer file had, and less of that is lost, not more."""
        new, path, dropped = self._path(NEW, name), self._path(CURRENT, name), file.ends[count - 1]
        fd = _open(new)
        write_all(fd, os.pread(file.fd, file.size - dropped, dropped))
        os.fsync(fd)
        os.rename(new, path)
        os.close(file.fd)
        file.fd, file.ends = fd, [end - dropped for end in file.ends[count:]]
        for sync in file.syncs:
            sync.size = max(sync.size - dropped, 0)
        file.keep(max(file.kept - dropped, 0))

    def _delete(self, name: str, file: _File) -> None:
        """The note goes last: without a file it says nothing, and a file without one would have nothing synced."""
        file.close()
        del self._files[name]
        for kind in (OLD, CURRENT, NOTE):
            self._path(kind, name).unlink(missing_ok=True)

    def begin_sync(self, name: str) -> tuple[int, Callable[[], None]]:
        """Number of the last Write that a Sync now covers, and the blocking work, for another thread."""
        file = self._files.get(name)
        if file is None:
            return 0, lambda: None
        file.syncs.append(_Sync(file.written, file.size, file.content))
        fd = os.dup(file.fd)

        def work() -> None:
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            directory = os.open(self.directory, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

        return file.written, work

    def end_sync(self, name: str, upto: int) -> None:
        """The work of ``begin_sync`` is done. Of the file that it covered, what was replaced is needed no more."""
        file = self._files.get(name)
        if file is None:
            return
        done = [sync for sync in file.syncs if sync.upto <= upto]
        file.syncs = [sync for sync in file.syncs if sync.upto > upto]
        if not done:
            return
        last = done[-1]
        if last.content is file.content:
            file.keep(last.size if file.kept == _REPLACED else max(file.kept, last.size))
            self._path(OLD, name).unlink(missing_ok=True)
        elif last.content is not None:
            # Replaced once more since: what was synced is what power loss leaves now.
            new = self._path(NEW, name)
            new.write_bytes(last.content)
            os.rename(new, self._path(OLD, name))

    def unsynced(self) -> list[str]:
        """Files of which power loss would take something away, and no open Sync would save that."""
        return [
            name
            for name, file in sorted(self._files.items())
            if file.kept != file.size and not (file.syncs and file.syncs[-1].upto == file.written)
        ]

    def close(self) -> None:
        """Close every file."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _path(self, kind: str, name: str) -> Path:
        """Where a file lies: its name quoted, so that none leaves the directory."""
        return self.directory / (kind + quote(name, safe=""))


def parse_note(note: bytes) -> int:
    """What a note says; 0 where there is none yet."""
    return int(note or b"0")


def unquoted(path: Path) -> str:
    """The name of the file that lies here."""
    return unquote(path.name[len(CURRENT) :])


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``, in one system call wherever the system takes it at once."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
