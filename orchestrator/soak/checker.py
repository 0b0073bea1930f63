"""The checks of a live soak: a process of its own, which takes what nodes have recorded, again and again, until it is
told that nothing more will come. ``python -m orchestrator.soak.checker DIRECTORY``.

What it knows is Spark's state, in RocksDB with checkpoints: one that is killed is started again and goes on from there.
Chunks that were checked and are older than is kept are deleted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actors.live.writer import CLOSED
from actors.trace.events import Stamped
from orchestrator.driving import held
from orchestrator.engines.frontier import Frontier
from orchestrator.engines.spark_session import spark_session
from orchestrator.engines.streaming import chunks, feed, results, states
from orchestrator.files import write_bytes
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.invariants.folds.fold import Finding
from orchestrator.soak.base import Base, Bases
from orchestrator.soak.directory import Asked, Found, SoakDir
from orchestrator.soak.evidence import freeze_live, window
from orchestrator.soak.ledger import Ledger
from orchestrator.soak.soaking import rounds_of
from orchestrator.trace.order import merged
from orchestrator.trace.read import line_to_stamped

if TYPE_CHECKING:
    from chaos.rounds import Rounds

ROCKS_DB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.minBatchesToRetain": "2",
}
PATIENCE_US = 300_000_000
"""How long a node may say nothing before the others are judged without it."""
PAUSE_S = 5.0
BASE_EVERY_US = 60_000_000
"""How far what evidence begins with is apart, at least."""

STATE = "stream"
PROGRESS = "checked.json"
RESULTS = "results.bin"
OVER = "over"
"""File that says that nothing more will come."""


class Checked(msgspec.Struct, kw_only=True):
    """How far the checks are: ``checked.json``. at_us: everything below this clock was judged; newest_us: latest clock
    that has arrived; state_bytes: what they know; chunks: how many wait or are kept."""

    at_us: int = 0
    newest_us: int = 0
    state_bytes: int = 0
    chunks: int = 0
    rounds: int = 0


class Checker:
    """One process of the checks."""

    def __init__(self, soak: SoakDir, asked: Asked, rounds: Rounds) -> None:
        self._soak, self._asked, self._rounds = soak, asked, rounds
        self._parent = os.getppid()
        self._ledger = Ledger(soak.findings)
        self._bases = Bases(soak.bases)
        self._progress = Checked()
        self._spark = spark_session(more=ROCKS_DB, heard=True)  # why a JVM has ended only it can say
        self._pending = [each for each in self._ledger.found if self._lacks_evidence(each)]

    def run(self) -> None:
        """Until nothing more comes."""
        while True:
            over = (self._soak.path / OVER).exists()
            self.once()
            if over:
                break
            if os.getppid() != self._parent:
                return  # nobody is there any more who would say that it is over
            time.sleep(PAUSE_S)
        for found in list(self._pending):
            self._freeze(found)
        found_ = results(self._spark, self._state)
        write_bytes(self._soak.path / RESULTS, msgspec.msgpack.encode(found_))

    @property
    def _state(self) -> Path:
        return self._soak.path / STATE

    def once(self) -> None:
        """Take what there is."""
        closed = self._closed()
        if not closed:
            return
        feed(chunks(self._spark, self._soak.run.logs), self._state, patience_us=PATIENCE_US, tell=self._note)
        self._look()
        for found in [each for each in self._pending if window(each)[1] < self._progress.at_us]:
            self._freeze(found)
        self._bases.expire(min([self._progress.at_us, *(each.at_us for each in self._pending)]))
        self._expire(closed)

    def _closed(self) -> list[Path]:
        return sorted(self._soak.run.logs.glob(f"*/*{CLOSED}"))

    def _look(self) -> None:
        """How far the checks are, by what they know."""
        known = states(self._spark, self._state)
        frontiers = [msgspec.msgpack.decode(each, type=_Known).frontier for each in known]
        newest = max((each.newest for each in frontiers), default=0)
        self._progress = Checked(
            at_us=min(min((each.at for each in frontiers), default=0), newest),
            newest_us=newest,
            state_bytes=sum(map(len, known)),
            chunks=len(self._closed()),
            rounds=self._progress.rounds + 1,
        )
        self._put_aside(known)
        write_bytes(self._soak.path / PROGRESS, msgspec.json.encode(self._progress))

    def _put_aside(self, known: list[bytes]) -> None:
        """Keep what they know for the evidence of what may yet be found, now and then."""
        at_us = self._progress.at_us
        if at_us - self._bases.newest_us >= BASE_EVERY_US:
            self._bases.write(Base(at_us=at_us, shards=known))

    def _note(self, finding: Finding) -> None:
        wants_evidence = len(self._ledger) < self._asked.evidence_max
        found = self._ledger.note(finding, -1, "yes" if wants_evidence else "")
        if found is not None and found.evidence:
            self._pending.append(found)

    def _lacks_evidence(self, found: Found) -> bool:
        return bool(found.evidence) and not (self._soak.evidence / found.evidence / "evidence.json").exists()

    def _freeze(self, found: Found) -> None:
        from_us, to_us = window(found)
        base_us, base = self._bases.of(from_us, to_us) or (from_us, None)
        events = self._between(min(from_us, base_us), to_us)
        freeze_live(self._soak, self._asked, found, self._rounds, events, base)
        self._pending.remove(found)

    def _between(self, from_us: int, to_us: int) -> Iterator[Stamped]:
        for line in merged(self._soak.path):
            if from_us <= line.wall <= to_us:
                yield line_to_stamped(line)

    def _expire(self, checked: list[Path]) -> None:
        """Delete chunks that were there before the last look, and are old; of each incarnation the oldest first."""
        before_s = time.time() - self._asked.keep_us / 1e6
        for path in checked:
            if path.stat().st_mtime < before_s:
                path.unlink()


class _Known(msgspec.Struct):
    """Of a ``SavedShard`` the part that says how far it is."""

    frontier: Frontier


def read_progress(soak: SoakDir) -> Checked:
    """How far the checks of a soak are."""
    path = soak.path / PROGRESS
    return msgspec.json.decode(path.read_bytes(), type=Checked) if path.exists() else Checked()


def read_results(soak: SoakDir) -> list[InvariantResult]:
    """What the checks say in the end."""
    return msgspec.msgpack.decode((soak.path / RESULTS).read_bytes(), type=list[InvariantResult])


def main(directory: str) -> None:
    """Check a soak until it is over."""
    soak = SoakDir(Path(directory))
    asked = soak.read_asked()
    (soak.path / STATE).mkdir(exist_ok=True)
    with held(soak.path / STATE):  # one that lost its driver may still be at work
        Checker(soak, asked, rounds_of(asked)).run()


if __name__ == "__main__":
    main(sys.argv[1])
