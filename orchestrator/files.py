"""Files that commands write: atomically, and with their names in what goes wrong."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chaos.errors import RunError


class NotWritten(RunError):
    """A file could not be written. ``path``: which."""

    def __init__(self, path: Path, error: OSError) -> None:
        self.path = path
        # Of a disk that is full the operating system tells no name, and Arrow tells the whole story of the error.
        reason = os.strerror(error.errno) if error.errno else str(error).partition("\n")[0]
        full = error.errno in (None, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        expected = "a disk with space for it" if full else "a place that you may write to"
        super().__init__(f"{path}: cannot be written: {reason}; expected {expected}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """While ``path`` is written. Raises NotWritten in place of OSError."""
    try:
        yield
    except OSError as error:
        raise NotWritten(path, error) from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: whoever reads finds what was there or all of this, also beside another writer. Raises
    NotWritten, and leaves what was there."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            aside.write_bytes(data)
            os.replace(aside, path)
        except OSError:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise


def write_pieces(path: Path, pieces: Iterable[str]) -> None:
    """The same for a text that comes in pieces, and is never in memory as a whole."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path):
            with aside.open("w", encoding="utf-8") as file:
                file.writelines(pieces)
            os.replace(aside, path)
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """The same for a text, in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def append_text(path: Path, text: str) -> None:
    """Add a text, in UTF-8, to what a file has, if there is one. Raises NotWritten."""
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(text)
