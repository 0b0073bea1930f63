"""The objects of a remote store: whole or not there, below their root, whatever a node calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.live.object_disk import ObjectDisk
from actors.node.effects import Append, Delete, Replace


def test_objects_are_there_for_the_next_process(tmp_path: Path) -> None:
    """Shows that an object is what the last Replace made it, that a deleted one is gone, and that what was being
    written when the process ended is removed."""
    disk = ObjectDisk("", tmp_path / "store")
    assert disk.load() == {}
    disk.write("orders/T/0/s1/LOG", 1, Replace(b"one"))
    disk.write("orders/T/0/s1/LOG", 2, Replace(b"two"))
    disk.write("orders/T/0/s2/LOG", 1, Replace(b"gone"))
    disk.write("orders/T/0/s2/LOG", 2, Delete())
    disk.write("orders/T/0/s2/LOG", 1, Replace(b""))
    unfinished = tmp_path / "store" / "orders" / "T" / "0" / "s1" / "~TIMESTAMP"
    unfinished.write_bytes(b"ha")
    assert ObjectDisk("", tmp_path / "store").load() == {"orders/T/0/s1/LOG": [b"two"], "orders/T/0/s2/LOG": [b""]}
    assert not unfinished.exists()
    upto, work = disk.begin_sync("orders/T/0/s1/LOG")
    work()
    disk.end_sync("orders/T/0/s1/LOG", upto)
    assert (upto, disk.unsynced()) == (2, [])
    disk.close()


def test_a_place_is_a_uri(tmp_path: Path) -> None:
    """Shows that objects go where a URI says, and nothing into the node's own directory."""
    disk = ObjectDisk((tmp_path / "elsewhere").as_uri(), tmp_path / "own")
    disk.load()
    disk.write("a/LOG", 1, Replace(b"one"))
    assert (tmp_path / "elsewhere" / "a" / "LOG").read_bytes() == b"one"
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("name", ["../../out", "a/../../out", "/out", "a//b", ".hidden", "~a", "a b/%2E/ä"])
def test_no_name_leaves_the_root(name: str, tmp_path: Path) -> None:
    """Shows that each part of a name is quoted, and read back as it was."""
    root = tmp_path / "deep" / "store"
    disk = ObjectDisk("", root)
    disk.load()
    disk.write(name, 1, Replace(b"one"))
    inside = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(inside) == 1
    assert inside[0].is_relative_to(root)
    assert list(ObjectDisk("", root).load().values()) == [[b"one"]]


def test_what_no_object_store_does_is_a_bug(tmp_path: Path) -> None:
    """Shows that an Append, and a Write out of order, are refused."""
    disk = ObjectDisk("", tmp_path)
    with pytest.raises(AssertionError, match="whole objects"):
        disk.write("a/LOG", 1, Append([b"one"]))
    with pytest.raises(AssertionError, match="write 2 came after 0"):
        disk.write("b/LOG", 2, Replace(b"one"))
