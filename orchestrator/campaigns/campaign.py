"""A campaign at work: runs spread over executors, results kept as they come, so that it can go on after a kill."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from chaos.errors import RunError
from chaos.failure_store import FailureStore
from chaos.words import some, varied
from orchestrator.campaigns.asked import Asked
from orchestrator.campaigns.directory import CampaignDir, Done
from orchestrator.campaigns.failures import failure_of, order_again, settle
from orchestrator.campaigns.guide import CoverageGuide
from orchestrator.campaigns.keep import PER_SIGNATURE, Drawn, Keeper, KeptRun, not_repeated
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.recheck import recheck
from orchestrator.campaigns.record import RunRecord
from orchestrator.campaigns.spread import nothing, spread
from orchestrator.campaigns.summary import Kept, Report, Summary, Worst
from orchestrator.campaigns.work import carry_out
from orchestrator.run_dir import why, write_json
from orchestrator.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART_ROWS = 5_000
PART_S = 1.0
"""Results wait at most so long to be written: as much work a kill can cost."""
PER_TASK = 4
GENERATION = 64
"""Runs that a guide hands out before it learns from them."""
MUTATED = "mutated"
"""Folder in the names of mutated scenarios."""
ATTEMPTS = 3
"""How often a run is begun that signals to its executor cut short."""
_NO_MORE = "Job aborted due to stage failure: "

Clock = Callable[[], float]


class Campaign:
    """One session of a campaign. What earlier sessions did is counted, and not done again.

    ``say``: told what a user should see while it goes on. ``store``: has failures met earlier, of which those that fail
    no longer are forgotten, and gets new ones; None to leave both. ``summary``: what it came to so far.
    """

    def __init__(
        self,
        directory: CampaignDir,
        asked: Asked,
        say: Callable[[str], None],
        store: FailureStore | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.directory = directory
        self.asked = asked
        self.summary = Summary(self._label, asked.sources)
        self.keeper = Keeper(directory)
        self.phase = "runs"
        self.begun_s = 0.0
        """Seconds of work before this session."""
        self.resumed = 0
        """Runs done before this session."""
        self._store = store
        self._say = say
        self._clock = clock
        self._began = clock()
        self._first = {order.key for order in asked.first}
        self._earlier = {} if store is None else {order_again(each).key: each for each in store.contents().failures}
        self._drawn = Drawn(asked.sample)
        self._to_keep: list[RunRecord] = []
        self._keys: set[str] = set()
        self._coverage: dict[str, list[str]] = {}
        self._unwritten: list[Done] = []
        self._written_at = clock()
        self._mismatches: list[str] = []
        self._rechecked = 0
        self._take_up()

    @property
    def total(self) -> int:
        """How many runs it has."""
        return self.asked.runs

    @property
    def left(self) -> int:
        """How many runs are still to be done."""
        return self.total - self.summary.runs

    @property
    def at_s(self) -> float:
        """Seconds of work so far, all sessions together."""
        return self.begun_s + self._clock() - self._began

    def _label(self, order: SimOrder) -> str:
        """Under which name a run is counted."""
        if order.key in self._first:
            return "earlier failures"
        if order.source.startswith(f"{MUTATED}/"):
            return "mutations"
        return varied(order.source, order.variant)

    def _take_up(self) -> None:
        """Count what was done before."""
        for done in self.directory.done():
            if done.record.order.key not in self._keys:
                self._enter(done)
        if self.directory.dropped:
            self._say(self.directory.dropped)
        self.begun_s, self.resumed = self.summary.at_s, self.summary.runs
        for kept in self.keeper.runs:
            self._compare(kept)

    def _enter(self, done: Done) -> None:
        key = done.record.order.key
        self._keys.add(key)
        if self.asked.guide != "random":
            self._coverage[key] = done.record.coverage
        self.summary.take(done)
        self._drawn.offer(done.record)
        alike = sum(each.signature == done.record.signature for each in self._to_keep)
        if alike < PER_SIGNATURE and self.keeper.wants(done.record):
            self._to_keep.append(done.record)

    def run(self, spark: SparkSession, tick: Callable[[], None] = nothing) -> None:
        """Do all runs that are left, keep traces, and check those again. ``tick``: called a few times a second. An
        exception, of ``tick`` or another, ends it; what was done by then is on the disk. Raises RunError if Spark
        gives up."""
        self._began = self._clock()
        try:
            self._keep_failures()
            for orders in self._generations():
                self._do(spark, orders, tick)
        finally:
            self._write()
        self.phase = "sample"
        if self.summary.worst is not None and self.summary.worst.digest:
            self._keep(self.summary.worst)
        for record in self._drawn.records:
            tick()
            self._keep(record)
        self.phase = "check"
        for kept in self.keeper.runs:
            tick()
            self._mismatch(recheck(spark, kept))
            self._rechecked += 1
        self.phase = "over"

    def _generations(self) -> Iterator[Callable[[], Iterable[SimOrder]]]:
        """What to do, in turn: the next is made when all before it is done. Functions, as it may take several looks."""
        yield lambda: self.asked.first
        if self.asked.guide == "random":
            yield self.asked.orders
            return
        guide = CoverageGuide(self.asked.orders(), self.asked.seeds[0], MUTATED)
        left = self.asked.drawn
        while left and (orders := guide.next_orders(min(GENERATION, left))):
            left -= len(orders)
            yield partial(list, orders)
            for order in orders:
                guide.learn(order, self._coverage.pop(order.key))

    def _do(self, spark: SparkSession, orders: Callable[[], Iterable[SimOrder]], tick: Callable[[], None]) -> None:
        """Do those of the orders that are not done. Raises RunError if signals to executors keep it from that."""
        for _ in range(ATTEMPTS):
            cut = 0
            work = partial(carry_out, code=self.asked.code)
            records = spread(spark, self._new(orders()), work, per_task=PER_TASK, tick=tick)
            for record in _told_plainly(records):
                if record is None:
                    cut += 1
                else:
                    self._take(record)
            if not cut:
                return
        raise RunError(f"signals to the executors cut {some(cut, 'run')} short, {ATTEMPTS} times")

    def _new(self, orders: Iterable[SimOrder]) -> Iterator[SimOrder]:
        return (order for order in orders if order.key not in self._keys)

    def _take(self, record: RunRecord) -> None:
        done = Done(self.summary.runs + 1, round(self.at_s, 3), record)
        self._enter(done)
        self._unwritten.append(done)
        if len(self._unwritten) >= PART_ROWS or self._clock() - self._written_at >= PART_S:
            self._write()
        earlier = self._earlier.get(record.order.key)
        if earlier is not None and self._store is not None:
            if told := settle(self._store, earlier, record):
                self._say(told)
        self._keep_failures()

    def _keep_failures(self) -> None:
        """Keep those that are waiting for it, some of an earlier session too, if they are still among the first."""
        while self._to_keep:
            record = self._to_keep.pop(0)
            if self.keeper.wants(record):
                self._save(record)
                self._keep(record)

    def _save(self, record: RunRecord) -> None:
        """Let the next campaign try this failure first; not a planted one."""
        if self._store is not None and not record.order.defects:
            found = f"krift campaign, {self.directory.path.name}"
            try:
                self._store.save(failure_of(record.order.plan(), record.signature, record.sentence, found))
            except OSError as error:
                self._say(f"failures are not saved for the next campaign: {why(error)}")
                self._store = None

    def _write(self) -> None:
        if self._unwritten:
            self.directory.add_part(self._unwritten)
            self._unwritten = []
        self._written_at = self._clock()

    def _keep(self, record: RunRecord) -> None:
        kept = self.keeper.keep(record)
        if kept is not None:
            self._compare(kept)

    def _compare(self, kept: KeptRun) -> None:
        """Whether a kept run is the same as on its executor."""
        differs = not_repeated(kept)
        if differs:
            self._mismatch(differs)
        else:
            self.summary.repeated()

    def _mismatch(self, sentence: str) -> None:
        if sentence:
            self._mismatches.append(sentence)
            self._say(f"MISMATCH: {sentence}")

    def report(self) -> Report:
        """What it came to so far; written into the directory, too."""
        for each in self.summary.signatures.values():
            each.kept = self.keeper.directories(each.signature, each.order)
            if each.order.text and each.kept:  # the file may be elsewhere by then, or never have been one
                each.reproduce = self._by_file(each.kept[0])
        failures = sum(each.failed for each in self.keeper.runs)
        self.summary.kept = Kept(
            failures,
            len(self.keeper.runs) - failures,
            self._rechecked,
            self.summary.kept.repeated,
            self._mismatches,
        )
        report = self.summary.report(
            krift=__version__,
            campaign=self.directory.path.name,
            directory=str(self.directory.path),
            asked=self.total,
            interrupted=self.phase != "over",
            seeds=self.asked.seeds,
            worst=self._worst(),
        )
        write_json(self.directory.report_data, report)
        return report

    def _worst(self) -> Worst | None:
        record = self.summary.worst
        if record is None:
            return None
        kept = self.keeper.directory_of(record)
        again = record.order.again(record.seed)
        if record.order.text and kept:
            again = self._by_file(kept)
        return Worst(record.seed, record.lost, again, kept)

    def _by_file(self, kept: str) -> str:
        return shlex.join(["krift", "run", f"{self.directory.path / kept}/scenario.yaml"])


def _told_plainly(records: Iterator[RunRecord | None]) -> Iterator[RunRecord | None]:
    """The same, with what ends Spark's work as a RunError of one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield from records
    except (Py4JError, PySparkException) as error:
        text = str(error)
        own = next((line for line in text.splitlines() if line.startswith("chaos.errors.")), "")
        said = own.partition(": ")[2] or text.partition(_NO_MORE)[2].partition("\n")[0] or text.partition("\n")[0]
        raise RunError(f"Spark gave up: {said}") from None
