"""The objects of a remote store, wherever pyarrow.fs can keep them: in a directory, or under an S3 URI.

A file of the node is one object, whole or not there, written by Replace and
removed by Delete. An object is durable when it is written, so a Sync has nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote

from pyarrow import fs

from actors.live.disk import Disk
from actors.node.effects import Delete, FileOperation, Replace
from actors.node.events import DiskImage

_UNFINISHED = "~"
"""The name of an object that is being written begins with it; ``quote`` leaves it in no name of a node's."""


class ObjectDisk(Disk):
    """Objects below ``uri``; "": below ``directory``. ``torn``: there are no torn tails."""

    is_far = True

    def __init__(self, uri: str, directory: Path) -> None:
        super().__init__(directory)
        self._written: dict[str, int] = {}
        if uri:
            self._system, self._root = fs.FileSystem.from_uri(uri)
        else:
            self._system, self._root = fs.LocalFileSystem(), str(directory)
        self._root = self._root.rstrip("/")
        # A store without directories needs none, and its bucket is there.
        self._renames = self._system.type_name in ("local", "mock")

    def load(self) -> DiskImage:
        """What every object holds, sorted by name; what was being written is removed."""
        image: DiskImage = {}
        if self._renames:
            self._system.create_dir(self._root, recursive=True)
        for info in self._system.get_file_info(fs.FileSelector(self._root, allow_not_found=True, recursive=True)):
            if info.type != fs.FileType.File:
                continue
            if info.base_name.startswith(_UNFINISHED):
                self._system.delete_file(info.path)
                continue
            name = "/".join(unquote(part) for part in info.path[len(self._root) + 1 :].split("/"))
            with self._system.open_input_stream(info.path) as stream:
                image[name] = [stream.read()]
        return {name: image[name] for name in sorted(image)}

    def write(self, name: str, number: int, operation: FileOperation) -> None:
        """Carry out one Write, which may take as long as the place is far away. Raises OSError where that fails."""
        written = self._written.get(name, 0)
        assert number == written + 1, f"{name}: write {number} came after {written}"
        path = self._place(name)
        match operation:
            case Replace(content):
                self._written[name] = number
                self._store(path, content)
            case Delete():
                self._written.pop(name, None)
                self._system.delete_file(path)
            case _:
                raise AssertionError(f"{name}: a remote store replaces and deletes whole objects")

    def _store(self, path: str, content: bytes) -> None:
        folder, _, base = path.rpartition("/")
        if not self._renames:
            self._put(path, content)
            return
        self._system.create_dir(folder, recursive=True)
        unfinished = f"{folder}/{_UNFINISHED}{base}"
        self._put(unfinished, content)
        self._system.move(unfinished, path)

    def _put(self, path: str, content: bytes) -> None:
        with self._system.open_output_stream(path) as stream:
            stream.write(content)

    def begin_sync(self, name: str) -> tuple[int, Callable[[], None]]:
        """Number of the last Write that a Sync now covers, and no work: it is durable already."""
        return self._written.get(name, 0), lambda: None

    def end_sync(self, name: str, upto: int) -> None:
        """Nothing is left to do."""

    def unsynced(self) -> list[str]:
        """Nothing ever is."""
        return []

    def close(self) -> None:
        """Nothing is open."""

    def _place(self, name: str) -> str:
        """Where an object lies: each part of its name quoted, so that none leaves the root."""
        return "/".join([self._root, *(_quoted(part) for part in name.split("/"))])


def _quoted(part: str) -> str:
    quoted = quote(part, safe="").replace("~", "%7E")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted
