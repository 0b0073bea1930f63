"""What the checks of a soak know, put aside now and then, so that a killed one goes on from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from actors.trace.lines import DAMAGE
from orchestrator.files import write_bytes

CHECKPOINT_SCHEMA: Final = "krift-soak-checkpoint/v1"
KEPT = 2


class Checkpoint(msgspec.Struct, kw_only=True):
    """events: that were checked; digest: of these. at_us: clock of the last one. findings: lines of the ledger then.
    engine: as of ``InProcessEngine.saved``."""

    schema: Literal["krift-soak-checkpoint/v1"] = CHECKPOINT_SCHEMA
    events: int
    digest: str
    at_us: int
    findings: int
    rpcs: int
    engine: bytes


class Checkpoints:
    """Those in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, checkpoint: Checkpoint) -> None:
        """Keep another one, and let the oldest go. Raises NotWritten."""
        write_bytes(self._folder / f"{checkpoint.events:014}.bin", msgspec.msgpack.encode(checkpoint))
        for path in self._paths()[:-KEPT]:
            path.unlink(missing_ok=True)

    def newest_first(self) -> Iterator[Checkpoint]:
        """Those that are whole; one that is not counts for nothing, as the one before it does as well."""
        for path in reversed(self._paths()):
            try:
                yield msgspec.msgpack.decode(path.read_bytes(), type=Checkpoint)
            except DAMAGE:
                continue

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("*.bin"))
