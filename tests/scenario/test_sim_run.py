"""A judged run in the sim, as campaigns repeat it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from actors.trace.events import Stamped
from chaos.incidents import library
from chaos.plan import Plan
from chaos.scenario.resolve import resolve
from orchestrator.campaigns.signature import shape, signature
from orchestrator.shrinking.failure import failure_in
from orchestrator.sim_run import run_in_sim
from orchestrator.trace.read import read_events


def incident(variant: str) -> Plan:
    return resolve(library.load("kip-207"), variant)


def test_it_is_judged_and_tells_when_it_was_first_violated() -> None:
    """Shows that a run has a verdict, its faults' outcomes, and the time of an invariant's first violation."""
    run = run_in_sim(incident("off"))
    assert (run.status, run.exit_code, run.verdict.outcome) == ("completed", 0, "violated")
    assert [fault.took_effect for fault in run.faults] == [True, True]
    assert run.zero_us < run.first["H1"] < run.end_us


def test_it_can_end_with_the_violation_that_was_looked_for() -> None:
    """Shows that a run stops at the first violation of an invariant: with the same finding, and before its end."""
    whole, part = run_in_sim(incident("off")), run_in_sim(incident("off"), stop_at="H1")
    assert (part.status, part.first["H1"]) == ("interrupted", whole.first["H1"])
    assert part.end_us < whole.end_us
    found = {each.id: each for each in part.verdict.invariants}["H1"]
    assert found.violated == 1
    assert "the run was interrupted" in part.verdict.undecided


def test_observers_see_what_is_kept(tmp_path: Path) -> None:
    """Shows that an observer gets every event of the trace, which is in the directory afterwards."""
    seen: Counter[type] = Counter()

    def note(event: Stamped) -> None:
        seen[type(event.body)] += 1

    run = run_in_sim(incident("kafka"), [note], directory=tmp_path)
    assert run.exit_code == 0
    assert seen == Counter(type(event.body) for event in read_events(tmp_path))
    assert seen.total() == run.verdict.events


def test_a_known_finding_does_not_end_it() -> None:
    """Shows that a violation that the proposal of KAFKA-7408 itself makes is not taken for that of a defect: the run
    goes on, and the defect is what it failed with."""
    alone = run_in_sim(resolve(library.load("kafka-7408"), "undecided", 1), stop_at="T10")
    assert (alone.status, list(alone.first), alone.first_unknown) == ("completed", ["T10"], {})
    defect = "markers-cut-with-the-rest"
    run = run_in_sim(resolve(library.load("kafka-7408"), "undecided", 1, (), (defect,)), stop_at="T10")
    assert run.status == "interrupted"
    assert run.first["T10"] < run.first_unknown["T10"]
    failure = failure_in(run)
    assert failure is not None
    assert "did not append again the truncated marker" in failure.sentence
    assert signature(run) == f"T10: {shape(failure.sentence)}"
