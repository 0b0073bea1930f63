"""What a machine's end does to the disk of a node whose process was killed: power loss, a torn tail, a wiped disk.

SIGKILL takes nothing from a disk: what was written is in the page cache, and stays. So once the process is dead, what
the loss of power would have taken is taken away here, by the notes that ``actors.live.disk`` keeps of what survives.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from actors.control import DiskLoss
from actors.live.disk import CURRENT, NOTE, NOTE_BYTES, OLD, parse_note, unquoted
from actors.trace.journal import frame, unframe


def lose(directory: Path, loss: DiskLoss) -> dict[str, bytes]:
    """Take away from the disk of a dead process what goes in this loss (see ``DiskLoss``). Returns, per file that lost
    entries at its end, the first of them."""
    lost: dict[str, bytes] = {}
    for path in sorted(directory.glob(f"{CURRENT}*")):
        content, _ = unframe(path.read_bytes())
        left = _survivors(path, content, loss)
        if left is not None and left < len(content):
            lost[unquoted(path)] = content[left]
    if loss == "wiped" and directory.exists():
        shutil.rmtree(directory)
    return lost


def _survivors(path: Path, content: list[bytes], loss: DiskLoss) -> int | None:
    """Carry a loss out on one file. Returns how many entries are left; None where an older content is back."""
    if loss == "wiped":
        return 0
    note, old = path.with_name(NOTE + path.name[len(CURRENT) :]), path.with_name(OLD + path.name[len(CURRENT) :])
    kept = parse_note(note.read_bytes()) if note.exists() else 0
    if kept < 0:
        _go_back(path, old, note, torn=loss == "torn-tail")
        return None
    synced, size = 0, 0
    while synced < len(content) and size + len(frame(content[synced])) <= kept:
        size += len(frame(content[synced]))
        synced += 1
    if loss == "torn-tail":
        left, size = _tear(path, content, synced)
    else:
        left = synced
        os.truncate(path, size)
    note.write_bytes(b"%*d" % (NOTE_BYTES, size))
    return left


def _go_back(path: Path, old: Path, note: Path, torn: bool) -> None:
    """The last Replace was not synced: the content before it is back. A torn one leaves that to the next start, which
    finds the checksum wrong."""
    if torn:
        os.truncate(path, path.stat().st_size // 2)
    elif old.exists():
        os.replace(old, path)
        note.write_bytes(b"%*d" % (NOTE_BYTES, path.stat().st_size))
    else:
        os.truncate(path, 0)
        note.unlink()


def _tear(path: Path, content: list[bytes], synced: int) -> tuple[int, int]:
    """Cut the last entry in the middle, if it was not synced; returns how many entries are left, and their bytes."""
    whole = sum(len(frame(entry)) for entry in content[:-1])
    last = len(frame(content[-1])) if content else 0
    if synced == len(content):
        return synced, whole + last
    os.truncate(path, whole + last // 2)
    return len(content) - 1, whole
