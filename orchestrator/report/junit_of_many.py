"""What a campaign, an exam or a comparison came to, as JUnit XML: a case for each thing that can go wrong."""

from __future__ import annotations

from collections.abc import Sequence

from junitparser import Error, Failure, Skipped, TestCase, TestSuite

from chaos.words import some, times
from orchestrator.campaigns.comparison import Comparison
from orchestrator.campaigns.summary import InvariantTally, Report, Signature
from orchestrator.exam.marks import DefectMark, Marks, OddityMark
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.report.comparison import remarks, shares_of
from orchestrator.report.console import printable
from orchestrator.verdict import INCONCLUSIVE, UNEXPECTED

Result = Error | Failure | Skipped


def suites_of_campaign(report: Report) -> list[TestSuite]:
    """A suite with a case for each thing that ran, each kind of failure, and each promise. A kind of failure is a
    failure, or an error where it could not be decided or carried out; a promise that nothing tested is skipped,
    unless the campaign is undecided for it."""
    cases = [_source_case(report, name) for name in report.sources]
    cases += [_signature_case(report, each) for each in report.signatures]
    cases += [_promise_case(report, name, each) for name, each in report.invariants.items()]
    cases += [
        _case(report.campaign, f"mismatch: {sentence}", result=Error(printable(sentence), "mismatch"))
        for sentence in report.kept.mismatches
    ]
    cases.append(_whole_case(report))
    facts = {"campaign": report.campaign, "seeds": "-".join(map(str, report.seeds)), "directory": report.directory}
    return [_suite(report.campaign, cases, facts)]


def _whole_case(report: Report) -> TestCase:
    """The campaign itself: what speaks against it having gone its way."""
    doubts = [f"{times(number)}: {doubt}" for doubt, number in report.doubts.items()]
    against = [f"interrupted after {report.runs:,} of {some(report.asked, 'run')}"] if report.interrupted else []
    against += report.belied
    if report.exit_codes.get(INCONCLUSIVE):
        against += doubts
    result = Error(printable("; ".join(against)), "undecided") if against else None
    return _case(report.campaign, "the campaign", report.wall_s, result, "\n".join(doubts))


def _source_case(report: Report, name: str) -> TestCase:
    each = report.sources[name]
    told = f"{some(each.runs, 'run')}: {each.held:,} held, {each.violated:,} violated, "
    told += f"{each.inconclusive:,} undecided, {each.not_carried_out:,} not carried out, {each.unexpected:,} unexpected"
    return _case(report.campaign, f"runs of {name}", text=told)


def _signature_case(report: Report, each: Signature) -> TestCase:
    kind = Failure if each.exit_code == UNEXPECTED else Error
    result = kind(printable(each.sentence), "unexpected" if kind is Failure else "undecided")
    seeds = ", ".join(map(str, each.seeds))
    result.text = printable(f"{some(each.runs, 'run')}, seeds {seeds}\nagain: {each.reproduce}")
    return _case(report.campaign, f"failed: {each.signature}", result=result)


def _promise_case(report: Report, name: str, each: InvariantTally) -> TestCase:
    result: Result | None = None
    if not each.tested:
        why = report.untested.get(name) or "nothing tested it in any run"
        result = Error(why, "never tested") if name in report.vacuous and report.exit_code else Skipped(printable(why))
    ended = f"held in {each.held_runs:,}, violated in {each.violated_runs:,}, excused in {each.excused_runs:,}, "
    ended += f"inconclusive in {each.inconclusive_runs:,}, vacuous in {each.vacuous_runs:,}"
    told = f"tested {times(each.tested)}; of {some(report.runs, 'run')} {ended}"
    return _case(report.campaign, f"{name} {INVARIANTS[name].title}", result=result, text=told)


def suites_of_exam(marks: Marks) -> list[TestSuite]:
    """A suite for each part that was asked for. A defect that survived the nemesis meant for it is a failure, as are a
    legal oddity that never occurred and a false alarm. One that ``everything`` missed is skipped: that fails nobody."""
    suites = []
    if marks.defects:
        suites.append(_suite("exam: defects", [_defect_case(mark, "defects", meant=True) for mark in marks.defects]))
    if marks.everything:
        cases = [_defect_case(mark, "everything", meant=False) for mark in marks.everything]
        suites.append(_suite("exam: everything", cases))
    if marks.oddities:
        suites.append(_suite("exam: legal oddities", [_oddity_case(mark) for mark in marks.oddities]))
    alarms = [
        _case("exam.alarms", f"{each.invariant} in {each.where}", result=_failure(each.sentence, each.reproduce))
        for each in marks.alarms
    ]
    whole = None if marks.runs else Error("no run was done", "undecided")
    alarms.append(_case("exam.alarms", "the exam", marks.wall_s, whole, some(marks.runs, "run")))
    return [*suites, _suite("exam: false alarms", alarms)]


def _defect_case(mark: DefectMark, part: str, *, meant: bool) -> TestCase:
    told = f"{mark.meant} violated in {mark.kills:,} of {some(mark.runs, 'run')}, first in run {mark.first_run:,}"
    if mark.killed:
        return _case(f"exam.{part}", mark.name, text=f"{told}\nagain: {mark.reproduce}")
    survived = f"{mark.name} survived {some(mark.runs, 'run')} of {mark.nemesis}"
    return _case(f"exam.{part}", mark.name, result=_failure(survived, "") if meant else Skipped(survived))


def _oddity_case(mark: OddityMark) -> TestCase:
    never = None if mark.shown else _failure(f"{mark.name} never occurred: {mark.undecided}", "")
    return _case(
        "exam.oddities", mark.name, result=never, text=f"occurred in {mark.shown:,} of {some(mark.runs, 'run')}"
    )


def _failure(sentence: str, again: str) -> Failure:
    failure = Failure(printable(sentence), "unexpected")
    if again:
        failure.text = printable(f"again: {again}")
    return failure


def suites_of_comparison(found: Comparison) -> list[TestSuite]:
    """A suite with a case for each side, which is an error where runs of it could not be carried out or decided, and
    one for each promise that was violated: what is compared is no failure, whatever it is."""
    where = f"compare.{found.scenario}"
    cases = []
    for name, each in (("a", found.a), ("b", found.b)):
        told = "\n".join(remarks(name, each))
        kind = "not carried out" if each.not_carried_out else "undecided"
        cases.append(_case(where, f"side {name}: {each.label}", result=Error(printable(told), kind) if told else None))
    for one in found.violated:
        a, b = shares_of(found, one)
        cases.append(_case(where, f"{one.invariant} {one.title}", text=f"violated in a: {a}; in b: {b}"))
    facts = {"seeds": "-".join(map(str, found.seeds)), "again": found.again, "kept in": found.kept_in}
    return [_suite(f"compare {found.scenario}", cases, facts)]


def _suite(name: str, cases: Sequence[TestCase], facts: dict[str, str] | None = None) -> TestSuite:
    suite = TestSuite(printable(name))
    for key, value in (facts or {}).items():
        suite.add_property(key, printable(value))
    suite.add_testcases(list(cases))
    return suite


def _case(where: str, name: str, seconds: float = 0.0, result: Result | None = None, text: str = "") -> TestCase:
    case = TestCase(printable(name), classname=printable(where))
    if seconds:
        case.time = seconds
    if result is not None:
        case.result = result
    if text:
        case.system_out = printable(text)
    return case
