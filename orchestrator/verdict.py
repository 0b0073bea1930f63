"""The verdict on a run: what its invariants say, against what the scenario expects. ``verdict.json`` is this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from chaos.plan import Expectation
from orchestrator.invariants.conclusion import InvariantResult
from orchestrator.invariants.fold import Finding, Status

Outcome = Literal["held", "violated", "inconclusive"]

EXPECTED = 0
UNEXPECTED = 1
INCONCLUSIVE = 3
NOT_CARRIED_OUT = 4


class Violation(msgspec.Struct, frozen=True):
    """What proves a violation: ``events`` are ids (``node/incarnation/seq``), ``causes`` the ids of what led to
    them."""

    key: str
    sentence: str
    events: list[str]
    causes: list[str] = []


class InvariantVerdict(msgspec.Struct, frozen=True):
    """One invariant. ``violated``: how many violations there are, of which ``violations`` has the first."""

    id: str
    title: str
    status: Status
    tested: int
    why: str = ""
    excused: dict[str, int] = {}
    violated: int = 0
    violations: list[Violation] = []


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a verdict says of the run itself. ``duration``: seconds of the run's own time; ``digest``: of the trace."""

    run: str
    scenario: str
    variant: str = ""
    runtime: Literal["live", "sim"]
    seed: int
    digest: str = ""
    events: int = 0
    rpcs: int = 0
    duration: float = 0.0


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``verdict.json``.

    outcome: held (nothing violated), violated, or inconclusive. expected: whether that is what the scenario expects.
    unexpected: what speaks against it; undecided: what could not be decided. must_happen: name -> seen.
    """

    schema: str = "krift-verdict/v1"
    run: str
    scenario: str
    variant: str
    runtime: Literal["live", "sim"]
    seed: int
    outcome: Outcome
    expected: bool
    unexpected: list[str] = []
    undecided: list[str] = []
    must_happen: dict[str, bool] = {}
    digest: str
    invariants: list[InvariantVerdict]
    events: int
    rpcs: int
    duration: float

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
) -> Verdict:
    """Weigh results against an expectation. ``seen``: each ``must-happen`` of the scenario -> whether it was seen.
    ``doubts``: what speaks against the run having gone its way.

    An expected violation must be there; an invariant expected to hold must have been tested, else the run is
    inconclusive; any other violation that the scenario does not allow is unexpected. What should have happened and
    was not seen makes the run inconclusive.
    """
    happened = dict(seen or {})
    undecided = [f"never seen: {name}" for name, was_seen in happened.items() if not was_seen]
    unexpected: list[str] = []
    by_id = {result.id for result in results}
    undecided.extend(doubts)
    named = [*expectation.violated, *expectation.held]
    undecided.extend(f"{name} is not checked" for name in named if name not in by_id)
    for result in results:
        _weigh(result, expectation, unexpected, undecided)
    if any(result.status == "violated" for result in results):
        outcome: Outcome = "violated"
    else:
        outcome = "inconclusive" if undecided else "held"
    return Verdict(
        **msgspec.structs.asdict(facts),
        outcome=outcome,
        expected=not unexpected and not undecided,
        unexpected=unexpected,
        undecided=undecided,
        must_happen=happened,
        invariants=[_verdict(result) for result in results],
    )


def _weigh(result: InvariantResult, expectation: Expectation, unexpected: list[str], undecided: list[str]) -> None:
    name, status = result.id, result.status
    if status == "violated":
        if name not in expectation.violated and name not in expectation.may:
            unexpected.append(f"{name} was violated: {result.violations[0].sentence}")
        return
    if name in expectation.violated:
        if status == "inconclusive":
            undecided.append(f"{name} was to be violated and is inconclusive: {result.why}")
        else:
            unexpected.append(f"{name} was to be violated and was not ({status}, tested {result.tested:,} times)")
    elif name in expectation.held and status != "held":
        undecided.append(f"{name} was to hold and is {status}: {result.why}")
    elif status == "inconclusive" and (name == "X4" or not expectation.declared):
        undecided.append(f"{name} is inconclusive: {result.why}")


def _verdict(result: InvariantResult) -> InvariantVerdict:
    return InvariantVerdict(
        result.id,
        result.title,
        result.status,
        result.tested,
        result.why,
        result.excused,
        result.violated,
        [_violation(finding) for finding in result.violations],
    )


def _violation(finding: Finding) -> Violation:
    return Violation(finding.key, finding.sentence, finding.events, finding.causes)


def combined_exit_code(codes: Iterable[int]) -> int:
    """Of several runs: the first that applies of 4, 1, 3, 0."""
    found = set(codes)
    return next((code for code in (NOT_CARRIED_OUT, UNEXPECTED, INCONCLUSIVE) if code in found), EXPECTED)


def encode_verdict(verdict: Verdict) -> bytes:
    """One line of JSON."""
    return msgspec.json.encode(verdict)


def write_verdict(verdict: Verdict, path: Path) -> None:
    """Write ``verdict.json``, indented for reading."""
    path.write_bytes(msgspec.json.format(encode_verdict(verdict), indent=2) + b"\n")


def read_verdict(path: Path) -> Verdict:
    """Inverse of ``write_verdict``. Raises OSError, or msgspec.DecodeError for another content."""
    return msgspec.json.decode(path.read_bytes(), type=Verdict)
