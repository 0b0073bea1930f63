"""How a broker's process ends in good order, and how the next one learns of it (``LogManager.scala``,
``CleanShutdownFileHandler.java``).

High watermarks are checkpointed and all logs synced; when that is durable the clean-shutdown file says so, with the
broker epoch. The next incarnation takes the file away when it takes up its replicas: it stands for one start.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from actors.broker.turn import Turn
from actors.node.events import DiskImage, Synced
from actors.node.files import Files
from actors.node.step import Step

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"


class CleanShutdown(msgspec.Struct):
    """``found``: the file was there at the start. ``awaited``: file -> number of the write that a Sync must cover
    before it goes on. ``marked``: the clean-shutdown file is written."""

    found: bool = False
    awaited: dict[str, int] = {}
    marked: bool = False

    def read(self, disk: DiskImage) -> int:
        """The broker epoch that the incarnation before left behind; -1 if it did not end in good order."""
        entries = disk.get(CLEAN_SHUTDOWN_FILE) or [b""]
        self.found = bool(entries[0])
        return int(json.loads(entries[0])["brokerEpoch"]) if self.found else -1

    def remove(self, turn: Turn) -> None:
        """The logs are in use: whatever ends this process from now on, the file does not speak of it."""
        if "clean-start-after-crash" in turn.step.defects:
            self._mark(turn.step, turn.files, turn.broker_epoch)
            turn.files.sync(turn.step, CLEAN_SHUTDOWN_FILE)
        elif self.found:
            turn.files.replace(turn.step, CLEAN_SHUTDOWN_FILE, b"")
        self.found = False

    def begin(self, turn: Turn, files: Iterable[str]) -> None:
        """Make ``files`` durable. ``on_synced`` goes on."""
        for file in files:
            self._sync(turn.step, turn.files, file)

    def _sync(self, step: Step, files: Files, file: str) -> None:
        files.sync(step, file)
        self.awaited[file] = files.states[file].syncing

    def on_synced(self, step: Step, files: Files, event: Synced, broker_epoch: int) -> bool:
        """Take a report about a file. True: everything is durable, the process may end."""
        if event.file not in self.awaited or event.upto < self.awaited[event.file]:
            return False
        del self.awaited[event.file]
        if self.awaited or self.marked:
            return not self.awaited
        self.marked = True
        self._mark(step, files, broker_epoch)
        self._sync(step, files, CLEAN_SHUTDOWN_FILE)
        return False

    def _mark(self, step: Step, files: Files, broker_epoch: int) -> None:
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode()
        files.replace(step, CLEAN_SHUTDOWN_FILE, content)
