"""A node's disk: one file per name, of entries framed with length and checksum.

A Write is in the operating system's hands when ``write`` returns, so it survives SIGKILL; ``sync`` makes it survive
power loss. What a crash left half written at the end of a file is found by its checksum and cut off.

On disk an entry is 8 bytes (length and CRC-32 of the content, big endian) and the content. Replace writes beside the
file and renames; the last synced content keeps a name of its own until a Sync covers its successor, so power loss
leaves one of the two and never neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote

from actors.node.effects import Append, FileOperation, Replace, Truncate
from actors.node.events import DiskImage
from actors.trace.journal import frame, unframe

_CURRENT, _NEW, _OLD = "f-", "n-", "o-"
"""What the names on disk begin with: the file, its unfinished replacement, its last synced predecessor."""


class _File:
    """One open file: its descriptor, where each entry ends, and how many Writes it took."""

    def __init__(self, path: Path) -> None:
        self.fd = _open(path)
        self.ends: list[int] = []
        self.written = 0
        self.synced = True

    def grow(self, frames: list[bytes]) -> None:
        """Note where the entries appended as ``frames`` end."""
        for data in frames:
            self.ends.append((self.ends[-1] if self.ends else 0) + len(data))


class Disk:
    """The files of one node in ``directory``. ``torn``: how many torn tails ``load`` dropped."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.torn = 0
        self._files: dict[str, _File] = {}

    def load(self) -> DiskImage:
        """Open the disk: what every file holds, sorted by name; torn tails are cut off on disk as well."""
        self.directory.mkdir(parents=True, exist_ok=True)
        names = set()
        for path in self.directory.iterdir():
            if path.name.startswith(_NEW):
                path.unlink()
            else:
                names.add(unquote(path.name[len(_CURRENT) :]))
        return {name: self._load(name) for name in sorted(names)}

    def _load(self, name: str) -> list[bytes]:
        path, old = self._path(_CURRENT, name), self._path(_OLD, name)
        data = path.read_bytes() if path.exists() else b""
        entries, size = unframe(data)
        if size < len(data):
            self.torn += 1
        if not entries and old.exists():
            os.replace(old, path)
            entries, size = unframe(path.read_bytes())
        old.unlink(missing_ok=True)
        file = self._files[name] = _File(path)
        file.grow([frame(entry) for entry in entries])
        os.ftruncate(file.fd, size)
        os.fsync(file.fd)
        return entries

    def write(self, name: str, number: int, operation: FileOperation) -> None:
        """Carry out one Write. Raises OSError (a full disk), AssertionError if a Write went missing."""
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = _File(self._path(_CURRENT, name))
        assert number == file.written + 1, f"{name}: write {number} came after {file.written}"
        file.written = number
        match operation:
            case Append(entries):
                frames = [frame(entry) for entry in entries]
                file.grow(frames)
                write_all(file.fd, b"".join(frames))
            case Truncate(entries=count):
                del file.ends[count:]
                os.ftruncate(file.fd, file.ends[-1] if file.ends else 0)
            case Replace(content):
                self._replace(name, file, frame(content))

    def _replace(self, name: str, file: _File, data: bytes) -> None:
        new, path = self._path(_NEW, name), self._path(_CURRENT, name)
        fd = _open(new)
        write_all(fd, data)
        if file.synced and file.ends:
            self._path(_OLD, name).unlink(missing_ok=True)
            os.link(path, self._path(_OLD, name))
        os.rename(new, path)
        os.close(file.fd)
        file.fd, file.ends, file.synced = fd, [len(data)], False

    def begin_sync(self, name: str) -> tuple[int, Callable[[], None]]:
        """Number of the last Write that a Sync now covers, and the blocking work, for another thread."""
        file = self._files.get(name)
        if file is None:
            return 0, lambda: None
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
        """The work of ``begin_sync`` is done: what it replaced is needed no more."""
        file = self._files.get(name)
        if file is not None and upto == file.written:
            file.synced = True
            self._path(_OLD, name).unlink(missing_ok=True)

    def close(self) -> None:
        """Close every file."""
        for file in self._files.values():
            os.close(file.fd)
        self._files.clear()

    def _path(self, kind: str, name: str) -> Path:
        """Where a file lies: its name quoted, so that none leaves the directory."""
        return self.directory / (kind + quote(name, safe=""))


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``, in one system call wherever the system takes it at once."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
