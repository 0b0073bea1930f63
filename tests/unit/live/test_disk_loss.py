"""What is taken from the files of a killed process: power loss, a torn tail, a wiped disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.control import DiskLoss
from actors.live.disk import Disk
from actors.live.disk_loss import lose
from actors.node.effects import Append, Replace, Truncate
from tests.unit.live.test_disk import after_crash, opened, sync, write


@pytest.mark.parametrize(
    ("loss", "left", "lost"),
    [
        ("power-loss", {"log": [b"a"]}, {"log": b"b"}),
        ("torn-tail", {"log": [b"a", b"b"]}, {"log": b"c"}),
        ("wiped", {}, {"log": b"a"}),
    ],
)
def test_what_is_left_of_a_log(
    loss: DiskLoss, left: dict[str, list[bytes]], lost: dict[str, bytes], tmp_path: Path
) -> None:
    """Shows that power loss takes everything that no Sync covered, a torn tail the last entry of it, which the next
    start finds by its checksum, and a wipe all."""
    disk = opened(tmp_path)
    write(disk, Append([b"a"]))
    sync(disk)
    disk.write("log", 2, Append([b"b"]))
    disk.write("log", 3, Append([b"c"]))
    assert lose(tmp_path, loss) == lost
    again = Disk(tmp_path)
    assert again.load() == left
    assert again.torn == (loss == "torn-tail")


def test_what_came_through_a_torn_tail_is_on_disk(tmp_path: Path) -> None:
    """Shows that the entries before the torn one have survived a machine's end, and so survive the next."""
    write(opened(tmp_path), Append([b"a", b"b"]))
    lose(tmp_path, "torn-tail")
    after_crash(tmp_path)
    assert lose(tmp_path, "power-loss") == {}
    assert after_crash(tmp_path) == {"log": [b"a"]}


def test_a_note_never_promises_too_much(tmp_path: Path) -> None:
    """Shows a Truncate below what was synced, and a Sync that a Truncate overtook: what was appended since is gone."""
    disk = opened(tmp_path)
    write(disk, Append([b"a", b"b", b"c"]))
    upto, work = disk.begin_sync("log")
    disk.write("log", 2, Truncate(1))
    disk.write("log", 3, Append([b"x", b"y"]))
    work()
    disk.end_sync("log", upto)
    assert lose(tmp_path, "power-loss") == {"log": b"x"}
    assert after_crash(tmp_path) == {"log": [b"a"]}


@pytest.mark.parametrize("loss", ["power-loss", "torn-tail"])
def test_a_replace_is_all_or_nothing(loss: DiskLoss, tmp_path: Path) -> None:
    """Shows that the content before the last Replace is back if no Sync covered that, and what was synced while it was
    replaced once more."""
    disk = opened(tmp_path)
    write(disk, Replace(b"one"), name="state")
    sync(disk, "state")
    disk.write("state", 2, Replace(b"two"))
    upto, work = disk.begin_sync("state")
    disk.write("state", 3, Replace(b"three"))
    work()
    disk.end_sync("state", upto)
    assert lose(tmp_path, loss) == {}
    assert after_crash(tmp_path) == {"state": [b"two"]}


@pytest.mark.parametrize("loss", ["power-loss", "torn-tail"])
def test_a_first_content_that_was_not_synced_is_gone(loss: DiskLoss, tmp_path: Path) -> None:
    """Shows that nothing is left of a file that no Sync ever covered."""
    write(opened(tmp_path), Replace(b"one"), name="state")
    lose(tmp_path, loss)
    assert after_crash(tmp_path) == {"state": []}


def test_what_a_new_process_reads_of_a_replaced_file_stays(tmp_path: Path) -> None:
    """Shows that a content which a restarted voter has read cannot be lost after that; a log may lose what was read."""
    disk = opened(tmp_path)
    write(disk, Replace(b"one"), name="state")
    write(disk, Append([b"a"]))
    after_crash(tmp_path)
    assert lose(tmp_path, "power-loss") == {"log": b"a"}
    assert after_crash(tmp_path) == {"log": [], "state": [b"one"]}


def test_which_files_the_operating_system_would_write_out(tmp_path: Path) -> None:
    """Shows that a file whose end no Sync covers, nor an open one will, is named until one does."""
    disk = opened(tmp_path)
    write(disk, Append([b"a"]))
    write(disk, Replace(b"one"), name="state")
    assert disk.unsynced() == ["log", "state"]
    upto, work = disk.begin_sync("log")
    assert disk.unsynced() == ["state"]
    work()
    disk.end_sync("log", upto)
    sync(disk, "state")
    assert disk.unsynced() == []
    disk.write("log", 2, Append([b"b"]))
    assert disk.unsynced() == ["log"]
