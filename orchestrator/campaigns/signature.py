"""What kind of failure it was, so that one bug is one line however often it was met."""

from __future__ import annotations

import re

from orchestrator.sim_run import SimRun
from orchestrator.verdict import NOT_CARRIED_OUT, InvariantVerdict

_PARTS = (
    (re.compile(r"\[[\d, ]*\]"), "[#]"),
    (re.compile(r"\b(producer|consumer|list-offsets|admin)-\d+(/\d+)*"), r"\1-#"),
    (re.compile(r"\b(broker|controller)-\d+"), r"\1-#"),
    (re.compile(r"\b([a-z_]+)-\d+\b"), r"\1-#"),
    (re.compile(r"-?\d[\d,.]*"), "#"),
)


def shape(sentence: str) -> str:
    """A sentence without what differs from run to run: numbers, and which of the nodes it was."""
    for pattern, instead in _PARTS:
        sentence = pattern.sub(instead, sentence)
    return sentence


def first_unexpected(run: SimRun) -> InvariantVerdict | None:
    """The promise that was the first to be violated unexpectedly."""
    unexpected = [each for each in run.verdict.invariants if each.weight == "unexpected"]
    return min(unexpected, key=lambda each: run.first.get(each.id, run.end_us), default=None)


def signature(run: SimRun) -> str:
    """The unexpected violation that came first, or why the run could not be carried out, without what differs from run
    to run; "" if there is neither. Violations that follow from the first one do not count: they are its consequences
    more often than bugs of their own."""
    if run.exit_code == NOT_CARRIED_OUT:
        return f"{run.status}: {shape(run.detail)}"
    first = first_unexpected(run)
    if first is None:
        return ""
    if not first.violations:
        return f"{first.id}: {shape(first.against)}"
    return f"{first.id}: {shape(first.worst.sentence)}"
