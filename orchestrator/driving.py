"""Who works on a run's directory: the command that carries the run out holds it for as long as it lives, and whoever
writes there later for as long as that takes. The operating system lets go when a process ends, however it does."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """While this process is the one that works on a run. Waits for another one. Where the file system has no locks
    nobody holds anything."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_held(directory: Path) -> bool:
    """Whether somebody works on a run at this moment."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
