"""The file that shrinking ends in: the smallest scenario, and as its comment the failure's story."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from chaos.scenario.durations import format_duration
from chaos.scenario.yaml_text import to_yaml
from chaos.shrink.lean import as_written
from chaos.shrink.measure import Size
from chaos.words import some, times
from orchestrator.shrinking.failure import Failure
from orchestrator.shrinking.trial import plan_of
from orchestrator.sim_run import SimRun, run_in_sim
from orchestrator.story.chronicle import Chronicle
from orchestrator.version import __version__

WIDTH = 118


class Origin(msgspec.Struct, frozen=True):
    """Where a scenario comes from. source: the run or file, for people. again: the command that does the run again."""

    source: str
    again: str


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """What came of shrinking. runs: that it took. other_seeds: failed, of tried: runs of the smallest with other
    seeds."""

    failure: Failure
    document: dict[str, Any]
    before: Size
    after: Size
    runs: int
    other_seeds: tuple[int, int]


class Told(msgspec.Struct, frozen=True):
    """The smallest scenario as it will be found again. text: the file. run: its whole run. reproduces: whether that run
    goes as the file expects."""

    text: str
    run: SimRun
    reproduces: bool


def tell(shrunk: Shrunk, origin: Origin) -> Told:
    """Run the smallest scenario to its end, and write it down with its story and with what it shows as what it
    expects. Raises KeyboardInterrupt if a signal cut the run short."""
    document = _in_order(shrunk.document, _run(shrunk.document))
    chronicle = Chronicle()
    run = _run(document, chronicle)
    if not shrunk.failure.is_shown_by(run):
        # Steps of one moment go in the order of the file.
        document, chronicle = shrunk.document, Chronicle()
        run = _run(document, chronicle)
    document = with_expectation(document, shrunk.failure, run)
    again = _run(document)
    text = comment(_story(shrunk, origin, run, chronicle)) + to_yaml(as_written(document), dense=True)
    return Told(text, again, again.exit_code == 0)


def _run(document: Mapping[str, Any], *observers: Chronicle) -> SimRun:
    run = run_in_sim(plan_of(document), observers)
    if run.status == "interrupted":
        raise KeyboardInterrupt
    return run


def _in_order(document: Mapping[str, Any], run: SimRun) -> dict[str, Any]:
    """The scenario with its steps in the order in which they began; those that never did come last."""
    begun = [fault.started_us if fault.started_us >= 0 else run.end_us for fault in run.faults]
    order = sorted(range(len(begun)), key=lambda index: begun[index])
    return {**document, "chaos": [document["chaos"][index] for index in order]}


def with_expectation(given: Mapping[str, Any], failure: Failure, run: SimRun) -> dict[str, Any]:
    """The scenario with what its run violated as its expectation: the failure itself must be violated again, what came
    with it may be."""
    first = {key: given[key] for key in ("schema", "name")} | {"about": ""}
    document = first | {key: value for key, value in given.items() if key not in ("about", "expect", "must-happen")}
    invariant = failure.invariant
    violated = [each.id for each in run.verdict.invariants if each.status == "violated"]
    may = [each for each in violated if each != invariant]
    title = next((each.title for each in run.verdict.invariants if each.id == invariant), failure.sentence)
    document["about"] = f"It fails: {f'{invariant}, ' if invariant else ''}{title}"
    if invariant:
        document["expect"] = {"violated": [invariant]} | ({"may": may} if may else {})
    return document


def _story(shrunk: Shrunk, origin: Origin, run: SimRun, chronicle: Chronicle) -> list[str]:
    failure = shrunk.failure
    found = next((each for each in run.verdict.invariants if each.id == failure.invariant), None)
    lines: list[str] = []
    sentence = failure.sentence
    if found is not None and found.violations:
        violation = found.worst
        sentence = violation.sentence
        lines += [
            f"{found.id}: {found.title}.",
            "",
            f"Violated {times(found.violated)}, tested {times(found.tested)}.",
        ]
        lines.append(f"{sentence}: events {', '.join(violation.events)}")
        if violation.causes:
            lines.append(f"caused by {', '.join(violation.causes)}")
    else:
        lines.append(f"The run could not be carried out: {sentence}")
    failed, tried = shrunk.other_seeds
    first_us = run.first.get(failure.invariant)
    lines += ["", *chronicle.story_of(None if first_us is None else first_us - run.zero_us, sentence), ""]
    if shrunk.runs:
        lines.append(f"Shrunk from {origin.source} by krift {__version__}, in {some(shrunk.runs, 'run')}:")
        lines += [f"  {line}" for line in in_words(shrunk.before, shrunk.after)]
    if tried:
        lines.append(f"With other seeds it fails in {failed} of {some(tried, 'run')}.")
    lines.append(f"The run that it comes from: {origin.again}")
    return lines


def in_words(before: Size, after: Size) -> list[str]:
    """What became smaller, and what is as it was."""
    pairs = [
        (f"{before.steps} step{_s(before.steps)} of the schedule", str(after.steps), before.steps),
        (format_duration(before.chaos_us), format_duration(after.chaos_us), before.chaos_us != after.chaos_us),
        (f"{before.clients} client{_s(before.clients)}", str(after.clients), 1),
        (f"{before.records:,} record{_s(before.records)}", f"{after.records:,}", before.records),
        (f"{some(before.nodes, 'node')}", str(after.nodes), 1),
        (f"{before.replicas} replica{_s(before.replicas)}", str(after.replicas), 1),
        (f"{before.settings} setting{_s(before.settings)}", str(after.settings), before.settings),
    ]
    return [", ".join(f"{was} -> {now}" for was, now, said in pairs if said)]


def _s(number: int) -> str:
    return "" if number == 1 else "s"


def comment(lines: Sequence[str]) -> str:
    """Lines as a comment of YAML; what is too long goes on in the next line, indented as far. Nothing in them ends the
    comment: evidence quotes names and errors."""
    out: list[str] = []
    for line in lines:
        line = "".join(char if char.isprintable() else " " for char in line)
        indent = " " * (
            13 if line[:8].strip().replace(".", "").lstrip("-").isdigit() else len(line) - len(line.lstrip())
        )
        wrapped = textwrap.wrap(line, WIDTH, subsequent_indent=indent, drop_whitespace=True, break_on_hyphens=False)
        out += [f"# {part}".rstrip() for part in wrapped] or ["#"]
    return "\n".join(out) + "\n"


def summary(counts: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Counters of passes, as plain values."""
    return {name: {"tried": count.tried, "smaller": count.smaller} for name, count in counts.items()}
