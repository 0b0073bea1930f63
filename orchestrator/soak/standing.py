"""Where a soak stands, for whoever looks: status.json, and the metrics."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from chaos.soak import SoakConductor
from orchestrator.run_dir import utc_now
from orchestrator.soak.directory import SoakDir, Status
from orchestrator.soak.ledger import Ledger

Show = Callable[[Status], None]


def show_nobody(status: Status) -> None:
    """Whoever wants to know reads the file."""


class Standing:
    """Keeps ``status`` and writes it."""

    def __init__(self, soak: SoakDir, status: Status, show: Show = show_nobody) -> None:
        self._soak = soak
        self.status = status
        self._show = show
        self._began = time.monotonic()
        self._wall_before = status.wall_s

    def take(self, conductor: SoakConductor, ledger: Ledger, events: int, what: str = "") -> None:
        """How far it is. ``what``: is being done instead of going on."""
        progress, status = conductor.progress(), self.status
        status.phase = what or progress.phase
        status.round = conductor.round.number
        status.time_us = max(progress.time_us, 0)
        status.events, status.starved_ms = events, progress.starved_ms
        status.faults = dict(Counter(conductor.faults))
        status.findings, status.known = ledger.counts(False), ledger.counts(True)
        status.up, status.nodes = len(progress.up), len(progress.up) + len(progress.paused) + len(progress.down)
        self.write()

    def measure(self) -> None:
        """How much memory and disk it takes."""
        self.status.memory_bytes = resident_bytes()
        self.status.disk_bytes, self.status.evidence_bytes = self._soak.size(), self._soak.size(self._soak.evidence)

    def end(self, state: str, detail: str = "") -> None:
        """It is over."""
        self.status.state, self.status.detail, self.status.phase = state, detail, "finished"
        self.measure()
        self.write()

    def write(self) -> None:
        """Put it down."""
        self.status.updated = utc_now()
        self.status.wall_s = self._wall_before + time.monotonic() - self._began
        self._soak.write_status(self.status)
        self._show(self.status)


def resident_bytes() -> int:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
