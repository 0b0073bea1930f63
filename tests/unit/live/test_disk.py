"""A node's files: what was written is there again, whatever a crash did to the end of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.live.disk import Disk
from actors.node.effects import Append, FileOperation, Replace, Truncate
from actors.trace.journal import frame


def opened(path: Path) -> Disk:
    """A disk that was loaded."""
    disk = Disk(path)
    disk.load()
    return disk


def write(disk: Disk, *operations: FileOperation, name: str = "log") -> None:
    """Number these operations as a node that just started would."""
    for number, operation in enumerate(operations, 1):
        disk.write(name, number, operation)


def sync(disk: Disk, name: str = "log") -> None:
    """A whole Sync."""
    upto, work = disk.begin_sync(name)
    work()
    disk.end_sync(name, upto)


def after_crash(path: Path) -> dict[str, list[bytes]]:
    """What the next incarnation finds; the files are left open by the one before, as after SIGKILL."""
    return Disk(path).load()


def test_writes_are_there_after_a_crash_without_any_sync(tmp_path: Path) -> None:
    """Shows that Append, Truncate and Replace hold as soon as ``write`` returns, and that a new incarnation may
    append."""
    disk = opened(tmp_path)
    write(disk, Append([b"a", b"", b"c"]), Truncate(2), Append([b"d"]))
    write(disk, Replace(b"one"), Replace(b"two"), name="../state")
    assert after_crash(tmp_path) == {"../state": [b"two"], "log": [b"a", b"", b"d"]}
    again = opened(tmp_path)
    write(again, Truncate(1), Append([b"e"]))
    assert after_crash(tmp_path)["log"] == [b"a", b"e"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f-..%2Fstate", "f-log", "s-..%2Fstate", "s-log"]


def test_a_torn_entry_is_cut_off_at_any_byte(tmp_path: Path) -> None:
    """Shows that whatever is left of the last entry, the others are read, the rest is cut off on disk, and counted."""
    write(opened(tmp_path), Append([b"whole", b"torn"]))
    path = tmp_path / "f-log"
    data = path.read_bytes()
    whole = len(frame(b"whole"))
    for size in range(whole + 1, len(data)):
        path.write_bytes(data[:size])
        disk = Disk(tmp_path)
        assert disk.load() == {"log": [b"whole"]}
        assert disk.torn == 1
        assert path.stat().st_size == whole
        write(disk, Append([b"next"]))
        assert after_crash(tmp_path) == {"log": [b"whole", b"next"]}


def test_an_entry_with_a_wrong_checksum_ends_the_file(tmp_path: Path) -> None:
    """Shows that the checksum covers content and length."""
    for position in (0, 4, 8):
        disk = opened(tmp_path / str(position))
        write(disk, Append([b"first", b"other"]))
        path = tmp_path / str(position) / "f-log"
        data = bytearray(path.read_bytes())
        data[len(frame(b"first")) + position] ^= 0x80
        path.write_bytes(data)
        assert after_crash(path.parent) == {"log": [b"first"]}


def test_the_last_synced_content_stays_until_its_successor_is_synced(tmp_path: Path) -> None:
    """Shows that a Replace that power loss made empty falls back to the content before, and no further once it was
    synced itself."""
    disk = opened(tmp_path)
    write(disk, Replace(b"one"))
    sync(disk)
    disk.write("log", 2, Replace(b"two"))
    disk.write("log", 3, Replace(b"three"))
    (tmp_path / "f-log").write_bytes(b"")
    assert after_crash(tmp_path) == {"log": [b"one"]}
    again = opened(tmp_path)
    write(again, Replace(b"four"))
    sync(again)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f-log", "s-log"]
    assert after_crash(tmp_path) == {"log": [b"four"]}


def test_an_unfinished_replacement_never_was(tmp_path: Path) -> None:
    """Shows that a crash before the rename leaves the content before."""
    write(opened(tmp_path), Replace(b"one"))
    (tmp_path / "n-log").write_bytes(frame(b"tw"))
    assert after_crash(tmp_path) == {"log": [b"one"]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f-log", "s-log"]


def test_a_sync_that_a_write_overtook_covers_the_writes_before_it(tmp_path: Path) -> None:
    """Shows that a Sync tells the number of the last Write before it began."""
    disk = opened(tmp_path)
    write(disk, Append([b"a"]), Append([b"b"]))
    upto, work = disk.begin_sync("log")
    disk.write("log", 3, Append([b"c"]))
    work()
    disk.end_sync("log", upto)
    assert upto == 2
    assert disk.begin_sync("nothing")[0] == 0


def test_a_lost_write_is_a_bug(tmp_path: Path) -> None:
    """Shows that Writes are counted per file, and that a gap ends the node."""
    disk = opened(tmp_path)
    write(disk, Append([b"a"]))
    with pytest.raises(AssertionError, match="write 3 came after 1"):
        disk.write("log", 3, Append([b"c"]))
