"""What a campaign came to: a fold over the records of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from actors.defects.catalogue import DEFECTS
from orchestrator.campaigns.asked import Source
from orchestrator.campaigns.directory import Done
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.record import RunRecord
from orchestrator.campaigns.signature import shape
from orchestrator.coverage.table import FaultRow, PairRow, fault_table, pair_table
from orchestrator.invariants.folds.conclusion import InvariantResult, lacking
from orchestrator.invariants.folds.fold import Status
from orchestrator.invariants.hygiene.vacuity import NothingVacuous, Tested
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.runner import REPEAT
from orchestrator.verdict import INCONCLUSIVE, NOT_CARRIED_OUT, UNEXPECTED, combined_exit_code

REPORT_SCHEMA: Final = "krift-campaign-report/v1"
SEEDS_NAMED = 5
"""Seeds of one signature that are named."""
DOUBTS_KEPT = 5


class InvariantTally(msgspec.Struct):
    """One invariant over all runs. tested, violated, excused: how often, in all runs together. ``*_runs``: in how many
    runs it ended so; off_runs: of the vacuous ones, those with a feature off that it rests on."""

    tested: int = 0
    violated: int = 0
    excused: int = 0
    held_runs: int = 0
    violated_runs: int = 0
    excused_runs: int = 0
    inconclusive_runs: int = 0
    vacuous_runs: int = 0
    off_runs: int = 0


_RUNS: dict[Status, str] = {
    "held": "held_runs",
    "violated": "violated_runs",
    "excused": "excused_runs",
    "inconclusive": "inconclusive_runs",
    "vacuous": "vacuous_runs",
}


class Signature(msgspec.Struct):
    """A kind of failure. runs: how many failed so. sentence: of the first. exit_code: of such a run. number, at_s: how
    many runs had ended when the first one did, itself included, and after how many seconds. seeds: of the first few.
    reproduce: the command that does the first one again. kept: directories, in the campaign's own. beside: other
    promises that were violated in some of these runs -> the seeds of the first few."""

    signature: str
    runs: int
    exit_code: int
    sentence: str
    number: int
    at_s: float
    order: SimOrder
    seeds: list[int]
    reproduce: str = ""
    kept: list[str] = []
    beside: dict[str, list[int]] = {}


class KnownTally(msgspec.Struct):
    """A finding about Kafka itself. runs: in how many it showed. seeds: of the first few. reproduce: the command that
    does the first one again."""

    runs: int
    seeds: list[int]
    reproduce: str


class FaultTally(msgspec.Struct):
    """A kind of fault over all runs. scheduled: how often. took_effect: how often that was seen. no_effect: it began,
    and that was not seen, or no message and no Sync met its rules. without_target: nobody was there to be hit.
    never_began: its moment did not come. roles: of the nodes that it was aimed at -> how often."""

    scheduled: int = 0
    took_effect: int = 0
    no_effect: int = 0
    without_target: int = 0
    never_began: int = 0
    roles: dict[str, int] = {}


class SourceTally(msgspec.Struct):
    """Runs of one name and variant, by outcome; unexpected: of them, those that ended with 1."""

    runs: int = 0
    held: int = 0
    violated: int = 0
    inconclusive: int = 0
    not_carried_out: int = 0
    unexpected: int = 0


class PlantedTally(msgspec.Struct):
    """A defect that was planted. runs: with it; caught: of them, those in which the promise was violated by which it is
    to be caught; elsewhere: those that violated other promises alone, unexpectedly; caught_by: that promise, "" if
    this krift does not know the defect."""

    runs: int = 0
    caught: int = 0
    elsewhere: int = 0
    caught_by: str = ""


class LostTally(msgspec.Struct):
    """Acknowledged records that were lost, by one rule or though none allows it. records: in all runs together. runs:
    in how many; seeds: of the first few."""

    records: int = 0
    runs: int = 0
    seeds: list[int] = []

    def add(self, records: int, seed: int) -> None:
        """Those of another run."""
        self.records += records
        self.runs += 1
        if len(self.seeds) < SEEDS_NAMED:
            self.seeds.append(seed)


class Worst(msgspec.Struct, frozen=True):
    """The failure that matters most: of those that lost most acknowledged records, the first; else the first in which
    planted defects were caught by the promises meant for them, or the first at all.
    kept: its directory, in the campaign's own, "" if it is not kept."""

    seed: int
    lost: int
    reproduce: str
    kept: str = ""


class FirstFailure(msgspec.Struct, frozen=True):
    """The first run that did not go as expected: its number, counting from 1, and the seconds until then."""

    runs: int
    wall_s: float


class Kept(msgspec.Struct, frozen=True):
    """Traces that were kept. failures, sample: how many. rechecked: of them, checked again in Spark. repeated: done
    again to be kept, with the same trace. mismatches: of the two engines, or of two runs of one order; sentences."""

    failures: int = 0
    sample: int = 0
    rechecked: int = 0
    repeated: int = 0
    mismatches: list[str] = []


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """``report.json``, and what ``--json`` prints.

    runs: that were judged or could not be carried out; held, violated, inconclusive, not_carried_out: of them.
    asked: how many were asked for; interrupted: some are still to be done. wall_s: seconds of work, all sessions.
    exit_codes: of the runs as ``krift run`` would end on them. points: of coverage, that some run reached; covered:
    faults on roles, and the steps of the protocol that were taken under them; pairs: what can be under way, and the
    steps that were taken, or never, meanwhile. vacuous: invariants that nothing tested
    in any run, though no feature was off in all (X9). known: findings about Kafka itself that runs met; a run that met
    nothing else is as expected. untested: those of which the files of all nemeses say that, each
    with the reason. unconcerned: those that nothing tested either, as some feature, group or transaction that they are
    about was in no run, each with that reason. belied: sentences on those that were tested all the same (X9). planted:
    name of a defect -> what became of it. lost: acknowledged records that no rule allows to be lost, over all runs;
    given_up: rule -> those that it allows. worst: the failure to look at first, null if none failed.
    """

    schema: Literal["krift-campaign-report/v1"] = REPORT_SCHEMA
    krift: str
    campaign: str
    directory: str
    asked: int
    interrupted: bool
    exit_code: int
    runs: int
    held: int
    violated: int
    inconclusive: int
    not_carried_out: int
    runs_per_minute: float
    wall_s: float
    virtual_s: float
    events: int
    seeds: tuple[int, int]
    sources: dict[str, SourceTally]
    exit_codes: dict[int, int]
    invariants: dict[str, InvariantTally]
    signatures: list[Signature]
    known: dict[str, KnownTally] = {}
    first_failure: FirstFailure | None
    faults: dict[str, FaultTally]
    points: int
    covered: list[FaultRow]
    pairs: list[PairRow] = []
    doubts: dict[str, int]
    vacuous: list[str]
    untested: dict[str, str] = {}
    unconcerned: dict[str, str] = {}
    belied: list[str] = []
    kept: Kept
    planted: dict[str, PlantedTally] = {}
    lost: LostTally = msgspec.field(default_factory=LostTally)
    given_up: dict[str, LostTally] = {}
    worst: Worst | None = None


class Summary:
    """Takes results in the order of their ends. ``label``: the name under which a run is counted. ``sources``: what all
    runs are of."""

    def __init__(
        self, label: Callable[[SimOrder], str] = lambda order: order.source, sources: Sequence[Source] = ()
    ) -> None:
        self._label = label
        self._untested = {source.name: source.untested for source in sources}
        self._belied: dict[str, Counter[str]] = {name: Counter() for name in INVARIANTS}
        """Invariant -> source whose file says that none of its runs tests it -> those that did."""
        self.runs = 0
        self.at_s = 0.0
        self.virtual_us = 0
        self.events = 0
        self.codes: Counter[int] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.doubts: Counter[str] = Counter()
        self.coverage: Counter[str] = Counter()
        """Point -> runs that reached it."""
        self.sources: dict[str, SourceTally] = {}
        self.invariants = {name: InvariantTally() for name in INVARIANTS}
        self.signatures: dict[str, Signature] = {}
        self.known: dict[str, KnownTally] = {}
        self.faults: dict[str, FaultTally] = {}
        self.first_failure: FirstFailure | None = None
        self.planted: dict[str, PlantedTally] = {}
        self.lost = LostTally()
        self.given_up: dict[str, LostTally] = {}
        self.worst: RunRecord | None = None
        self.declared = False
        """Whether some run's scenario says what it expects."""
        self.kept = Kept()

    def take(self, done: Done) -> None:
        """Enter a run."""
        record = done.record
        self.runs += 1
        self.at_s = max(self.at_s, done.at_s)
        self.virtual_us += record.virtual_us
        self.events += record.events
        self.codes[record.exit_code] += 1
        self.declared |= record.declared
        self.outcomes[_outcome(record)] += 1
        self._take_source(record)
        unmeant = self._unmeant(record.order)
        for name, tally in record.tallies.items():
            # An older record may lack what was added since, never the other way round: a campaign is of one code.
            into = self.invariants[name]
            into.tested += tally.tested
            into.violated += tally.violated
            into.excused += tally.excused
            into.off_runs += tally.off
            field = _RUNS[tally.status]
            setattr(into, field, getattr(into, field) + 1)
            if tally.tested and name in unmeant:
                self._belied[name][record.order.source] += 1
        for doubt in record.undecided:
            self.doubts[shape(doubt)] += 1
        self.coverage.update(record.coverage)
        if record.exit_code and self.first_failure is None:
            self.first_failure = FirstFailure(done.number, done.at_s)
        if record.signature:
            self._take_signature(done)
            if self.worst is None or _badness(record) > _badness(self.worst):
                self.worst = record
        self._take_defects(record)
        for name in record.known:
            met = self.known.setdefault(name, KnownTally(0, [], record.order.again(record.seed)))
            met.runs += 1
            if len(met.seeds) < SEEDS_NAMED:
                met.seeds.append(record.seed)
        self._take_faults(record)

    def _unmeant(self, order: SimOrder) -> Mapping[str, str]:
        """What a run should not test by the file of its nemesis, which knows nothing of other settings and defects."""
        own = not order.settings and not order.defects
        return self._untested.get(order.source, {}) if own else {}

    def untested(self) -> dict[str, str]:
        """What all that is run is not meant to test -> why, in the words of the first."""
        first, *others = self._untested.values() or [{}]
        return {name: why for name, why in first.items() if all(name in other for other in others)}

    def unconcerned(self) -> dict[str, str]:
        """What nothing tested, as no run has what it is about -> what that is; but for what the files declare."""
        declared = self.untested()
        return {
            name: lacking(INVARIANTS[name])
            for name, each in self.invariants.items()
            if not each.tested and 0 < _judged(each) == each.off_runs and name not in declared
        }

    def _take_source(self, record: RunRecord) -> None:
        tally = self.sources.setdefault(self._label(record.order), SourceTally())
        tally.runs += 1
        tally.unexpected += record.exit_code == 1
        field = _outcome(record)
        setattr(tally, field, getattr(tally, field) + 1)

    def _take_signature(self, done: Done) -> None:
        record = done.record
        known = self.signatures.get(record.signature)
        if known is None:
            known = self.signatures[record.signature] = Signature(
                record.signature,
                0,
                record.exit_code,
                record.sentence,
                done.number,
                done.at_s,
                record.order,
                [],
                record.order.again(record.seed),
            )
        known.runs += 1
        its_own = record.signature.partition(":")[0]
        beside = [name for name, tally in record.tallies.items() if tally.status == "violated" and name != its_own]
        for seeds in (known.seeds, *(known.beside.setdefault(name, []) for name in beside)):
            if len(seeds) < SEEDS_NAMED:
                seeds.append(record.seed)

    def _take_defects(self, record: RunRecord) -> None:
        """What was planted, whether it was caught, and what was lost."""
        for name in record.defects:
            tally = self.planted.setdefault(name, PlantedTally())
            tally.runs += 1
            if name in DEFECTS:
                tally.caught_by = DEFECTS[name].caught_by
                caught = _is_caught(record, name)
                tally.caught += caught
                tally.elsewhere += not caught and record.exit_code == UNEXPECTED
        if record.lost:
            self.lost.add(record.lost, record.seed)
        for rule, records in record.given_up.items():
            self.given_up.setdefault(rule, LostTally()).add(records, record.seed)

    def _take_faults(self, record: RunRecord) -> None:
        for fault in record.faults:
            tally = self.faults.setdefault(fault.kind, FaultTally())
            tally.scheduled += 1
            began = fault.phase in ("in force", "ended")
            took_effect = fault.took_effect and not fault.hit_nothing
            tally.took_effect += began and took_effect
            tally.no_effect += began and not took_effect
            tally.without_target += fault.phase == "without target"
            tally.never_began += fault.phase in ("waiting", "cancelled")
            for role in {target.rpartition("-")[0] or target for target in fault.targets}:
                tally.roles[role] = tally.roles.get(role, 0) + 1

    def repeated(self) -> None:
        """A run was done again, with the same trace: that tests X8."""
        tally = self.invariants[REPEAT]
        tally.tested += 1
        if tally.vacuous_runs:  # the run's own record says that nothing tested it, as it was done once by then
            tally.vacuous_runs -= 1
            tally.held_runs += 1
        self.kept = msgspec.structs.replace(self.kept, repeated=self.kept.repeated + 1)

    def vacuity(self) -> InvariantResult:
        """X9 over all runs."""
        untested = self.untested()
        tests = {
            name: Tested(
                each.tested, _judged(each), each.vacuous_runs, each.off_runs, name in untested, self._belied[name]
            )
            for name, each in self.invariants.items()
        }
        return NothingVacuous().judge(tests)

    def exit_code(self) -> int:
        """Of several runs the first that applies of 4, 1, 3, 0. Where no scenario says what it expects, every invariant
        is to be tested in some run, but for those of which the files say otherwise (X9), else the campaign is
        inconclusive."""
        codes: set[int] = {code for code, runs in self.codes.items() if runs}
        if self.kept.mismatches:
            codes.add(NOT_CARRIED_OUT)
        if not self.declared and self.vacuity().status == "violated":
            codes.add(INCONCLUSIVE)
        return combined_exit_code(codes)

    def report(self, **facts: Any) -> Report:
        """What it came to. ``facts``: krift, campaign, directory, asked, interrupted, seeds."""
        minutes = self.at_s / 60
        blind = self.vacuity().violations
        return Report(
            exit_code=self.exit_code(),
            runs=self.runs,
            held=self.outcomes["held"],
            violated=self.outcomes["violated"],
            inconclusive=self.outcomes["inconclusive"],
            not_carried_out=self.outcomes["not_carried_out"],
            runs_per_minute=round(self.runs / minutes, 1) if minutes else 0.0,
            wall_s=round(self.at_s, 3),
            virtual_s=round(self.virtual_us / 1_000_000, 3),
            events=self.events,
            sources=self.sources,
            exit_codes=dict(sorted(self.codes.items())),
            invariants=self.invariants,
            signatures=sorted(self.signatures.values(), key=lambda each: (-each.runs, each.signature)),
            known=dict(sorted(self.known.items())),
            first_failure=self.first_failure,
            faults=dict(sorted(self.faults.items())),
            points=len(self.coverage),
            covered=fault_table(self.coverage),
            pairs=pair_table(self.coverage),
            doubts=dict(self.doubts.most_common(DOUBTS_KEPT)),
            vacuous=[each.key for each in blind if not self._belied[each.key]],
            untested={name: why for name, why in self.untested().items() if not self.invariants[name].tested},
            unconcerned=self.unconcerned(),
            belied=[each.sentence for each in blind if self._belied[each.key]],
            kept=self.kept,
            planted=self.planted,
            lost=self.lost,
            given_up=self.given_up,
            **facts,
        )


def _badness(record: RunRecord) -> tuple[bool, int, bool]:
    """By how much a failure matters: a violation before a run that could not be carried out, then lost records, then
    whether the promises caught the planted defects that are meant to."""
    return record.exit_code == UNEXPECTED, record.lost, all(_is_caught(record, name) for name in record.defects)


def _is_caught(record: RunRecord, defect: str) -> bool:
    """Whether a planted defect was caught by the promise that is meant to catch it."""
    meant = record.tallies.get(DEFECTS[defect].caught_by) if defect in DEFECTS else None
    return meant is not None and meant.status == "violated"


def _judged(tally: InvariantTally) -> int:
    return sum(getattr(tally, field) for field in _RUNS.values())


def _outcome(record: RunRecord) -> str:
    return "not_carried_out" if record.exit_code == NOT_CARRIED_OUT else record.outcome
