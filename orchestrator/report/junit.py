"""Verdicts as JUnit XML, for whatever collects the results of tests.

A suite a run, a case for each invariant, for each ``must-happen`` and for the run itself. Only what the scenario does
not expect is a failure; what could not be decided is an error; what nothing tested is skipped, unless it had to hold.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from chaos.words import times
from orchestrator.files import write_text
from orchestrator.report.console import printable
from orchestrator.report.headline import headlines
from orchestrator.report.text import title
from orchestrator.story.words import seconds
from orchestrator.verdict import InvariantVerdict, Verdict

NEVER_SEEN = "never seen: "


class Judged(msgspec.Struct, frozen=True):
    """A run's verdict, when the run began (ISO 8601, in UTC), the command that does it again, and how it would end a
    command of its own."""

    verdict: Verdict
    started: str = ""
    again: str = ""
    exit_code: int = 0


def junit(runs: Iterable[Judged]) -> str:
    """The XML of some runs, with its declaration, in UTF-8 once it is encoded."""
    return junit_of(map(suite_of_run, runs))


def junit_of(suites: Iterable[TestSuite]) -> str:
    """The same of suites."""
    document = JUnitXml("krift")
    for suite in suites:
        document.add_testsuite(suite)
    written = io.BytesIO()
    document.write(written, pretty=True)
    return written.getvalue().decode("utf-8")


def write_junit(path: Path, runs: Iterable[Judged]) -> None:
    """Write a file of ``junit``'s. Raises NotWritten."""
    write_text(path, junit(runs))


def suite_of_run(run: Judged) -> TestSuite:
    """The suite of a run."""
    verdict = run.verdict
    suite = TestSuite(title(verdict))
    if run.started:
        suite.timestamp = run.started.partition(".")[0].removesuffix("Z")
    facts = {"run": verdict.run, "seed": str(verdict.seed), "digest": verdict.digest, "again": run.again}
    facts["headline"] = "; ".join(headlines(verdict))
    if verdict.defects:
        facts["defects"] = ", ".join(verdict.defects)
    for name, value in facts.items():
        suite.add_property(name, printable(value))
    suite.add_testcases(list(_cases(verdict)))  # together: each call counts all cases of the suite again
    return suite


def _cases(verdict: Verdict) -> Iterator[TestCase]:
    """The cases of a run, in their order."""
    yield _run_case(verdict)
    for name, seen in verdict.must_happen.items():
        case = _case(verdict, f"must happen: {name}")
        if not seen:
            case.result = Error(f"{NEVER_SEEN}{name}")
        yield case
    for name, answered in verdict.asked.items():
        case = _case(verdict, f"expected answer: {name}")
        if not answered:
            case.result = Failure(f"no operator was answered so: {name}", "unexpected")
        yield case
    for each in verdict.invariants:
        yield _invariant_case(verdict, each)


def _run_case(verdict: Verdict) -> TestCase:
    """The run itself: what speaks against it having gone its way, or being judged at all."""
    case = _case(verdict, "the run")
    case.time = verdict.duration  # the only case that takes any: the suite's is the sum of its cases'
    known = {each.against for each in verdict.invariants}
    doubts = [text for text in verdict.undecided if text not in known and not text.startswith(NEVER_SEEN)]
    if doubts:
        case.result = Error(printable("; ".join(doubts)))
    told = [*headlines(verdict), *verdict.remarks]
    told += [f"{seconds(moment.at_us)}  {moment.text}" for moment in verdict.story]
    case.system_out = printable("\n".join(told))
    return case


def _invariant_case(verdict: Verdict, each: InvariantVerdict) -> TestCase:
    case = _case(verdict, f"{each.id} {each.title}")
    if each.weight == "unexpected":
        failure = Failure(printable(each.against), "unexpected")
        failure.text = _evidence(each)
        case.result = failure
    elif each.weight == "undecided":
        case.result = Error(printable(each.against), "undecided")
    elif each.status in ("vacuous", "inconclusive"):
        case.result = Skipped(printable(f"{each.status}: {each.why}"))
    else:
        excused = "".join(f"; excused {times(count)}: {rule}" for rule, count in sorted(each.excused.items()))
        case.system_out = printable(f"{each.status}, tested {times(each.tested)}{excused}\n{_evidence(each)}".rstrip())
    return case


def _evidence(each: InvariantVerdict) -> str:
    """A line for each violation, with its time and its events."""
    lines = [
        f"{'' if one.at_us is None else f'at {seconds(one.at_us)}: '}{one.sentence} ({', '.join(one.events)})"
        for one in each.violations
    ]
    return printable("\n".join(lines))


def _case(verdict: Verdict, name: str) -> TestCase:
    variant = f".{verdict.variant}" if verdict.variant else ""
    return TestCase(printable(name), classname=f"{verdict.scenario}{variant}")
