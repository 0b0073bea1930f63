"""The verdict on a run: what its invariants say, against what the scenario expects. ``verdict.json`` is this."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from chaos.plan import Expectation
from chaos.scenario.triggers import describe
from chaos.words import times
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.invariants.folds.fold import Finding, Status
from orchestrator.invariants.folds.known_findings import is_known, stalls
from orchestrator.invariants.liveness.lost_decisions import LOST_DECISIONS
from orchestrator.invariants.mirrors.late_pushes import LATE_PUSH_RULE
from orchestrator.run_dir import RunDir, read_json, write_json, wrong
from orchestrator.story.moments import Moment, Step

VERDICT_SCHEMA: Final = "krift-verdict/v1"

Outcome = Literal["held", "violated", "inconclusive"]
Weight = Literal["as expected", "unexpected", "undecided", "known"]

EXPECTED = 0
UNEXPECTED = 1
INCONCLUSIVE = 3
NOT_CARRIED_OUT = 4

STALLED = "the cluster did not "
"""How a doubt begins that says what the cluster did not come to in the end."""

STALLING_RULES = frozenset({LATE_PUSH_RULE, LOST_DECISIONS})
"""Rules that excuse a client which gets nowhere for ever, and with it a cluster that does not drain."""

FINISHED_EARLY = "did not reach the steady state"
"""Status of a run whose time 0 never came."""


class Violation(msgspec.Struct, frozen=True):
    """A violation and its proof. events: ids (``node/incarnation/seq``) of the events that prove it; causes: ids of the
    events that led to them. times: number of violations with this sentence; the events are those of the first one.
    known: the finding about Kafka itself that explains it, "" if none does. at_us: time of the first one, in
    microseconds since time 0; null if time 0 never came. path: the steps from the fault to the proof."""

    key: str
    sentence: str
    events: list[str]
    causes: list[str] = []
    times: int = 1
    known: str = ""
    at_us: int | None = None
    path: list[Step] = []


class Excuse(msgspec.Struct, frozen=True):
    """The first break of a promise that one of its exemptions allows. rule: name of the exemption. key, sentence,
    events, at_us: as of a ``Violation``. regained: number of records that were missing by this rule and are back at the
    end; regained_us: time at which the last of them came back, in microseconds since time 0, null if none did or time 0
    never came; regained_how: a sentence on their return.
    path: of lost records, the steps to the loss."""

    rule: str
    key: str
    sentence: str
    events: list[str]
    at_us: int | None = None
    regained: int = 0
    regained_us: int | None = None
    regained_how: str = ""
    path: list[Step] = []


class Gone(msgspec.Struct, frozen=True):
    """Acknowledged records of one partition that are missing, as one event shows. rule: name of the exemption that
    allows the loss, "" if none does. key: the partition. number: of records. event: its id, "" if only the end of the
    run showed the loss. at_us: time at which the first was missing, in microseconds since time 0; null if time 0 never
    came."""

    rule: str
    key: str
    number: int
    event: str = ""
    at_us: int | None = None


class InvariantVerdict(msgspec.Struct, frozen=True):
    """The result of one invariant. tested: number of tests. why: reason of vacuous or inconclusive. violated: number of
    violations; violations: the first of each sentence. excused: rule -> number of excused breaks; excuses: the first
    break of each rule, the earliest rule first. weight: effect on the scenario's expectation ("known": a bug of Kafka
    itself explains the violation); against: the reason against the expectation, "" if there is none. gone: acknowledged
    records that are lost, or were missing for a time, by the event that showed it, the earliest first."""

    id: str
    title: str
    status: Status
    tested: int
    why: str = ""
    excused: dict[str, int] = {}
    violated: int = 0
    violations: list[Violation] = []
    weight: Weight = "as expected"
    against: str = ""
    excuses: list[Excuse] = []
    gone: list[Gone] = []

    @property
    def first_us(self) -> int | None:
        """When it was violated for the first time, in microseconds since time 0; None if nobody can tell."""
        return min((each.at_us for each in self.violations if each.at_us is not None), default=None)

    @property
    def worst(self) -> Violation:
        """Of the violations, of which there are some, the first that is no known finding; the first if all are."""
        return next((each for each in self.violations if not each.known), self.violations[0])


class Expected(msgspec.Struct, frozen=True):
    """The scenario's expectation: invariants that must be violated, that must hold, that must be broken only where one
    of their rules excuses it, and that may be violated."""

    violated: list[str] = []
    held: list[str] = []
    excused: list[str] = []
    may: list[str] = []


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a verdict says of the run itself. about: the scenario's or its variant's own words. duration: seconds of
    the run's own time. digest: of the trace. defects: bugs that were planted in it. setting: its cluster in a line."""

    run: str
    scenario: str
    variant: str = ""
    about: str = ""
    runtime: Literal["live", "sim"]
    seed: int
    digest: str = ""
    events: int = 0
    rpcs: int = 0
    duration: float = 0.0
    defects: list[str] = []
    setting: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``verdict.json``.

    outcome: held (nothing violated), violated, or inconclusive. expected: whether the scenario expects this outcome;
    expects: its expectation. unexpected: reasons against it; undecided: points without a decision. known: findings
    about Kafka itself (docs/findings.md) that showed and that the scenario does not expect. must_happen: required event
    -> whether it was seen. asked: required answer to an operator -> whether it was given. defects: bugs that were
    planted on purpose. remarks: deviations that do not change the outcome; sentences. story: what happened, line by
    line. setting: the cluster in a line, with the settings that decide which replicas may lead.
    """

    schema: Literal["krift-verdict/v1"] = VERDICT_SCHEMA
    run: str
    scenario: str
    variant: str
    about: str = ""
    runtime: Literal["live", "sim"]
    seed: int
    outcome: Outcome
    expected: bool
    expects: Expected = Expected()
    unexpected: list[str] = []
    undecided: list[str] = []
    known: list[str] = []
    must_happen: dict[str, bool] = {}
    asked: dict[str, bool] = {}
    digest: str
    invariants: list[InvariantVerdict]
    events: int
    rpcs: int
    duration: float
    defects: list[str] = []
    remarks: list[str] = []
    story: list[Moment] = []
    setting: str = ""

    @property
    def exit_code(self) -> int:
        """0 as expected, 1 not, 3 inconclusive."""
        if self.unexpected:
            return UNEXPECTED
        return EXPECTED if self.expected else INCONCLUSIVE


def judge(
    facts: RunFacts,
    results: Sequence[InvariantResult],
    expectation: Expectation,
    seen: Mapping[str, bool] | None = None,
    doubts: Sequence[str] = (),
    zero_us: int | None = None,
) -> Verdict:
    """Weigh results against an expectation. ``seen``: each ``must-happen`` of the scenario -> whether it was seen.
    ``doubts``: what speaks against the run having gone its way. ``zero_us``: time 0 by the trace's clock.

    An expected violation must be there, if the run went its way; an invariant expected to hold must have been tested,
    else the run is inconclusive; any other violation that the scenario does not allow is unexpected, unless it is a
    finding about Kafka itself, or follows from one. What should have happened and was not seen makes the run
    inconclusive; what the cluster did not come to in the end does not where that is what the run shows.
    """
    answers, musts = set(map(describe, expectation.asked)), set(map(describe, expectation.must_happen))
    happened = {name: was_seen for name, was_seen in (seen or {}).items() if name not in answers or name in musts}
    answered = {name: was_seen for name, was_seen in (seen or {}).items() if name in answers}
    undecided = [f"never seen: {name}" for name, was_seen in happened.items() if not was_seen]
    by_id = {result.id: result for result in results}
    shown = [each for result in results if result.status == "violated" for each in result.violations if each.rule]
    shows_a_stall = stalls(shown) or any(_is_stall(by_id.get(name)) for name in expectation.violated)
    shows_a_stall = shows_a_stall or any(
        each.id[0] == "L" and not STALLING_RULES.isdisjoint(each.excused) for each in results
    )
    undecided.extend(doubt for doubt in doubts if not (shows_a_stall and doubt.startswith(STALLED)))
    went_its_way = not undecided
    named = [*expectation.violated, *expectation.held, *expectation.excused]
    undecided.extend(f"{name} is not checked" for name in named if name not in by_id)
    invariants = [_weighed(result, expectation, went_its_way, shown, zero_us) for result in results]
    unexpected = [each.against for each in invariants if each.weight == "unexpected"]
    undecided.extend(each.against for each in invariants if each.weight == "undecided")
    missed = [f"no operator was answered so: {name}" for name, was_seen in answered.items() if not was_seen]
    (unexpected if went_its_way else undecided).extend(missed)
    if any(result.status == "violated" for result in results):
        outcome: Outcome = "violated"
    else:
        outcome = "inconclusive" if undecided else "held"
    return Verdict(
        **msgspec.structs.asdict(facts),
        outcome=outcome,
        expected=not unexpected and not undecided,
        expects=Expected(expectation.violated, expectation.held, expectation.excused, expectation.may),
        unexpected=unexpected,
        undecided=undecided,
        known=sorted({each.known for one in invariants if one.weight == "known" for each in one.violations} - {""}),
        must_happen=happened,
        asked=answered,
        invariants=invariants,
    )


def _is_stall(result: InvariantResult | None) -> bool:
    """Whether something did not happen in the end that should have."""
    return result is not None and result.status == "violated" and result.id.startswith("L")


def _weigh(
    result: InvariantResult, expectation: Expectation, went_its_way: bool, shown: Sequence[Finding]
) -> tuple[Weight, str]:
    """What a result means for the expectation, and what speaks against it. A run that did not go its way had no chance
    to show what it was to show."""
    name, status = result.id, result.status
    if status == "violated":
        if name in expectation.violated or name in expectation.may:
            return "as expected", ""
        if name not in expectation.held and is_known(name, result.violations, shown):
            return "known", ""
        unknown = next((each for each in result.violations if not each.rule), result.violations[0])
        return "unexpected", f"{name} was violated: {unknown.sentence}"
    if name in expectation.violated:
        if status == "inconclusive":
            return "undecided", f"{name} was to be violated and is inconclusive: {result.why}"
        weight: Weight = "unexpected" if went_its_way else "undecided"
        return weight, f"{name} was to be violated and was not ({status}, tested {times(result.tested)})"
    elif name in expectation.excused and not result.excused:
        return "undecided", f"{name} was to be excused and was not ({status}, tested {times(result.tested)})"
    elif name in expectation.held and status != "held":
        return "undecided", f"{name} was to hold and is {status}: {result.why}"
    elif status == "inconclusive" and (name == "X4" or not expectation.declared):
        return "undecided", f"{name} is inconclusive: {result.why}"
    return "as expected", ""


def _weighed(
    result: InvariantResult,
    expectation: Expectation,
    went_its_way: bool,
    shown: Sequence[Finding] = (),
    zero_us: int | None = None,
) -> InvariantVerdict:
    weight, against = _weigh(result, expectation, went_its_way, shown)
    return InvariantVerdict(
        result.id,
        result.title,
        result.status,
        result.tested,
        result.why,
        result.excused,
        result.violated,
        [_violation(finding, zero_us) for finding in result.violations],
        weight,
        against,
        _excuses(result, zero_us),
        [_gone(each, zero_us) for each in result.losses],
    )


def _gone(loss: Finding, zero_us: int | None) -> Gone:
    return Gone(loss.rule, loss.key, loss.times, loss.events[-1] if loss.events else "", _since_zero(loss, zero_us))


def _excuses(result: InvariantResult, zero_us: int | None) -> list[Excuse]:
    """The first of each rule, with what came back of what was missing by it."""
    found: dict[str, Excuse] = {}
    last = {each.rule: each for each in sorted(result.returns, key=lambda each: each.at_us)}
    for each in sorted(result.excuses, key=lambda each: each.at_us):
        if each.rule in found:
            continue
        excuse = Excuse(each.rule, each.key, each.sentence, each.events, _since_zero(each, zero_us))
        if back := last.get(each.rule):
            excuse = msgspec.structs.replace(
                excuse,
                regained=result.regained[each.rule],
                regained_us=_since_zero(back, zero_us),
                regained_how=back.sentence,
            )
        found[each.rule] = excuse
    return list(found.values())


def _since_zero(finding: Finding, zero_us: int | None) -> int | None:
    return None if zero_us is None or finding.at_us < 0 else finding.at_us - zero_us


def _violation(finding: Finding, zero_us: int | None) -> Violation:
    at_us = _since_zero(finding, zero_us)
    return Violation(finding.key, finding.sentence, finding.events, finding.causes, finding.times, finding.rule, at_us)


def judged_again(verdict: Verdict, result: InvariantResult) -> Verdict:
    """A verdict with another result for one of its invariants, weighed as the others were."""
    expects = verdict.expects
    # What the invariants say comes after what speaks against the run.
    went_its_way = {*verdict.undecided} <= {each.against for each in verdict.invariants}
    expectation = Expectation(True, expects.violated, expects.held, expects.excused, expects.may)
    after = _weighed(result, expectation, went_its_way)
    against = {each.against for each in verdict.invariants if each.id == result.id} - {""}
    invariants = [after if each.id == result.id else each for each in verdict.invariants]
    unexpected = [each for each in verdict.unexpected if each not in against]
    undecided = [each for each in verdict.undecided if each not in against]
    if after.weight in ("unexpected", "undecided"):
        (unexpected if after.weight == "unexpected" else undecided).append(after.against)
    violated = any(each.status == "violated" for each in invariants)
    return msgspec.structs.replace(
        verdict,
        invariants=invariants,
        unexpected=unexpected,
        undecided=undecided,
        outcome="violated" if violated else "inconclusive" if undecided else "held",
        expected=not unexpected and not undecided,
    )


def exit_code(verdict: Verdict, status: str) -> int:
    """How the run ends a command. ``status``: as in the manifest. A run that broke is not judged, unless what broke
    it is the violation (X3)."""
    broke_promise = any(each.id == "X3" and each.status == "violated" for each in verdict.invariants)
    if status == FINISHED_EARLY or (status == "broken" and not broke_promise):
        return NOT_CARRIED_OUT
    return verdict.exit_code


def combined_exit_code(codes: Iterable[int]) -> int:
    """Of several runs: the first that applies of 4, 1, 3, 0. Of no run at all: 3, as nothing is known."""
    found = set(codes)
    if not found:
        return INCONCLUSIVE
    return next((code for code in (NOT_CARRIED_OUT, UNEXPECTED, INCONCLUSIVE) if code in found), EXPECTED)


def json_line(verdict: Verdict) -> str:
    """One line of JSON."""
    return msgspec.json.encode(verdict).decode() + "\n"


def write_verdict(verdict: Verdict, directory: RunDir) -> None:
    """Write ``verdict.json``, indented for reading, atomically."""
    write_json(directory.verdict, verdict)


def read_verdict(directory: RunDir) -> Verdict:
    """The verdict in a run's directory. Raises InputError if there is none, or it is damaged or of another format."""
    if not directory.verdict.exists():
        raise wrong(directory.path, *_no_verdict(directory))
    return read_json(directory.verdict, Verdict, VERDICT_SCHEMA, "")


def _no_verdict(directory: RunDir) -> tuple[str, str]:
    manifest = directory.read_manifest()
    if manifest.status != "running" and any(directory.trace.glob("*.parquet")):
        path = shlex.quote(str(directory.path))
        return "it has no verdict", f"one that was judged; krift check {path} makes a verdict from its trace"
    return f"it has no verdict: {directory.fate(manifest)}", directory.remedy(manifest)
