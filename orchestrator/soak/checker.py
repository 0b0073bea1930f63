"""The checks of a live soak: a process of its own, which takes what nodes have recorded, again and again, until it is
told that nothing more will come. ``python -m orchestrator.soak.checker DIRECTORY``.

What it knows is Spark's state, in RocksDB with checkpoints: one that is killed is started again and goes on from there.
Chunks that were checked and are older than is kept are deleted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actors.live.writer import CLOSED
from actors.trace.events import Stamped
from orchestrator.driving import held
from orchestrator.engines.spark_session import spark_session
from orchestrator.engines.streaming import SHARDS, Progress, chunks, follow, results
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

FOR_DAYS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.minBatchesToRetain": "2",
    # What a web interface would show of the past.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
}
"""For a process that works for days."""
PATIENCE_US = 300_000_000
"""How long a node may say nothing before the others are judged without it."""
PAUSE_S = 5
BASE_EVERY_US = 60_000_000
"""How far what evidence begins with is apart, at least."""
AGE_MAX = "1d"
"""How far the checks may fall behind the nodes, before a chunk is too old for them."""

STATE = "stream"
PROGRESS = "checked.json"
RESULTS = "results.bin"
OVER = "over"
"""File that says that nothing more will come."""


class Checked(msgspec.Struct, kw_only=True):
    """How far the checks are: ``checked.json``. at_us: everything below this clock was judged; newest_us: latest clock
    that has arrived; state_bytes: what they know; chunks: how many wait or are kept; rounds: micro-batches of this
    process; taken: chunks that were judged and are kept, below the logs."""

    at_us: int = 0
    newest_us: int = 0
    state_bytes: int = 0
    chunks: int = 0
    rounds: int = 0
    taken: list[str] = []


class Checker:
    """One process of the checks. Micro-batches are taken in a thread of Spark's, which writes down what they bring;
    this one looks after what is kept."""

    def __init__(self, soak: SoakDir, asked: Asked, rounds: Rounds) -> None:
        self._soak, self._asked, self._rounds = soak, asked, rounds
        self._parent = os.getppid()
        self._ledger = Ledger(soak.findings)
        self._bases = Bases(soak.bases)
        self._progress = msgspec.structs.replace(read_progress(soak), rounds=0)
        self._newest: set[str] = set()
        self._pending = [each for each in self._ledger.found if self._lacks_evidence(each)]

    def run(self) -> None:
        """Until nothing more comes."""
        spark = spark_session(more=FOR_DAYS, heard=True)  # why a JVM has ended only it can say
        state = self._soak.path / STATE
        query = follow(
            chunks(spark, self._soak.run.logs, age_max=AGE_MAX),
            state,
            every_s=PAUSE_S,
            patience_us=PATIENCE_US,
            put_aside_us=BASE_EVERY_US,
            tell=self._note,
            watch=self._take,
        )
        while not (self._soak.path / OVER).exists():
            if os.getppid() != self._parent:
                return  # nobody is there any more who would say that it is over
            if query.awaitTermination(PAUSE_S):
                return  # somebody stopped it: another process goes on
            self.look_after()
        query.processAllAvailable()
        query.stop()
        for found in list(self._pending):
            self._freeze(found)
        found_ = results(spark, state)
        write_bytes(self._soak.path / RESULTS, msgspec.msgpack.encode(found_))

    # ---- what a micro-batch brings ------------------------------------------------------------------------

    def _take(self, batch: list[Progress]) -> None:
        """How far the checks are, and what evidence may begin with."""
        at_us, known = min(each.at_us for each in batch), [each.saved for each in batch if each.saved]
        if len(known) == SHARDS:
            self._bases.write(Base(at_us=at_us, shards=known))
        self._newest = {name for each in batch for name in each.chunks}
        taken = [*self._progress.taken, *self._newest.difference(self._progress.taken)]
        self._progress = Checked(
            at_us=at_us,
            newest_us=max(each.newest_us for each in batch),
            state_bytes=sum(each.size for each in batch),
            chunks=sum(1 for _ in self._soak.run.logs.glob(f"*/*{CLOSED}")),
            rounds=self._progress.rounds + 1,
            taken=[name for name in taken if (self._soak.run.logs / name).exists()],
        )
        write_bytes(self._soak.path / PROGRESS, msgspec.json.encode(self._progress))

    def _note(self, finding: Finding) -> None:
        wants_evidence = len(self._ledger) < self._asked.evidence_max
        found = self._ledger.note(finding, -1, "yes" if wants_evidence else "")
        if found is not None and found.evidence:
            self._pending.append(found)

    # ---- what is kept -------------------------------------------------------------------------------------

    def look_after(self) -> None:
        """Keep the evidence that is complete, and let go what nobody asks for any more."""
        progress = self._progress
        for found in [each for each in self._pending if window(each)[1] < progress.at_us]:
            self._freeze(found)
        self._bases.expire(min([progress.at_us, *(each.at_us for each in self._pending)]))
        if progress.rounds > 1:  # what a process before this one took last is taken again with the first
            self._expire([name for name in progress.taken if name not in self._newest])

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

    def _expire(self, names: Iterable[str]) -> None:
        """Delete of some chunks, which were judged and will not be asked for again, those that are old."""
        before_s = time.time() - self._asked.keep_us / 1e6
        for name in names:
            path = self._soak.run.logs / name
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before_s:
                    path.unlink()


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
