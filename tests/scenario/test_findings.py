"""What Apache Kafka itself gets wrong: the incidents show it, their mends mend it, and runs that meet it say so."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from chaos.incidents.library import incidents, text
from orchestrator.campaigns.order import SimOrder
from orchestrator.campaigns.work import carry_out
from orchestrator.invariants.folds.known_findings import KNOWN_FINDINGS
from orchestrator.report.text import conclusion
from orchestrator.run_dir import RunDir
from orchestrator.runner import write_violations
from orchestrator.sim_run import SimRun, run_in_sim

pytestmark = pytest.mark.unhurried
INCIDENTS = {each.name: each.variants for each in incidents() if each.name.startswith("finding-")}
FINDINGS = list(INCIDENTS)
UNEXPECTED = [FINDINGS[0], *(pytest.param(name, marks=pytest.mark.further) for name in FINDINGS[1:])]
SEEDS = range(1, int(os.environ.get("KRIFT_FINDINGS", "1")) + 1)
DOCUMENT = Path(__file__).parents[2] / "docs" / "findings.md"
SHOWN = [(name, "kafka") for name in FINDINGS]
"""Variants whose run with seed 1 the document shows, so that ``test_console_blocks`` carries it out."""
VARIANTS = [
    (name, variant)
    for name, variants in INCIDENTS.items()
    for variant in variants
    if (name, variant) not in SHOWN or len(SEEDS) > 1
]
MET = [
    ("everything", 1000591, "finding-elr-cleared"),
    ("everything", 1000048, "finding-spinning-consumer"),
    *(
        pytest.param(*large, marks=pytest.mark.further)
        for large in (("metadata", 200175, "finding-former-epoch"), ("everything", 13835, "finding-endless-aborts"))
    ),
]
"""Nemesis and seed of drawn runs that met one."""


def without_expectation(name: str) -> str:
    """The schedule of an incident, as somebody would write it who expects nothing."""
    return text(name).partition("variants:")[0]


def met(name: str, *settings: str) -> SimRun:
    """A run of such a schedule."""
    return run_in_sim(SimOrder(name, text=without_expectation(name), settings=settings).plan())


def test_every_finding_has_its_incident() -> None:
    """Shows that what invariants name about Kafka is in the library, and the other way round."""
    assert sorted(name for name, known in KNOWN_FINDINGS.items() if not known.study) == FINDINGS


def test_what_a_proposal_breaks_is_known_of_it() -> None:
    """Shows that a transaction of which KAFKA-7408 commits a part is told as the proposal's, and violates T10."""
    name = "kafka-7408-producer-alive"
    unexpecting = text(name).replace("expect: {violated: [T10], ", "expect: {")
    run = run_in_sim(SimOrder(name, "seed-version-1", text=unexpecting).plan())
    assert (run.exit_code, run.verdict.outcome, run.verdict.known) == (0, "violated", ["kafka-7408-half"])
    assert "outcome     violated, as the proposal does" in conclusion(run.verdict)


@pytest.mark.parametrize(("name", "variant"), SHOWN)
def test_the_document_shows_an_incident_as_it_goes(name: str, variant: str) -> None:
    """Shows that with Kafka as it is the promise is broken as expected, in a block that is carried out elsewhere."""
    _, found, rest = DOCUMENT.read_text("utf-8").partition(
        f"```console\n$ krift run {name} --variant {variant} --seed 1"
    )
    assert found
    assert "\noutcome     violated, as expected\n" in rest.partition("```")[0]


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_an_incident_goes_as_it_says(name: str, variant: str) -> None:
    """Shows that each variant comes out as expected, with every seed that is asked for: with Kafka as it is the promise
    is broken, with the mend it is tested and holds."""
    for seed in SEEDS:
        run = run_in_sim(SimOrder(name, variant, seed).plan())
        assert (run.exit_code, run.verdict.unexpected, run.verdict.undecided) == (0, [], []), seed


@pytest.mark.parametrize("name", UNEXPECTED)
def test_who_meets_a_finding_is_told_its_name(name: str) -> None:
    """Shows that a run whose scenario expects nothing is as Kafka is, and that nothing is known any more with the
    mend."""
    run = met(name)
    assert (run.exit_code, run.verdict.outcome, run.verdict.known) == (0, "violated", [name])
    violated = {each.id for each in run.verdict.invariants if each.weight == "known"}
    assert violated & {*KNOWN_FINDINGS[name].shows}


@pytest.mark.parametrize(("nemesis", "seed", "name"), MET)
def test_a_campaign_names_what_its_runs_meet(nemesis: str, seed: int, name: str) -> None:
    """Shows that a drawn run which meets a finding is no failure, and that its record names it."""
    record = carry_out(SimOrder(nemesis, seed=seed))
    assert record is not None
    assert (record.exit_code, record.signature, record.known) == (0, "", [name])


def test_the_table_of_violations_names_the_finding(tmp_path: Path) -> None:
    """Shows that whoever reads the table of a run, or of many, can tell what Kafka itself gets wrong from the rest."""
    name = "finding-removed-leader-zombie"
    directory = RunDir(tmp_path)
    write_violations(directory, met(name).verdict)
    rows = pq.read_table(directory.violations).to_pylist()
    assert {row["weight"] for row in rows} == {"known"}
    assert {row["known"] for row in rows if row["invariant"] == "Q15"} == {name}


def test_another_failure_does_not_hide_behind_a_finding() -> None:
    """Shows that a promise which a finding breaks, too, is not taken to be broken by it: the run is done again with the
    mend, and that the promise is still broken there is a failure."""
    name = "finding-reelected-in-place"
    order = SimOrder(name, text=without_expectation(name), defects=("consumer-mislabel",))
    weights = {each.id: each.weight for each in run_in_sim(order.plan()).verdict.invariants}
    assert (weights["P10"], weights["C3"]) == ("known", "known")
    record = carry_out(order)
    assert record is not None and record.exit_code == 1
    assert record.sentence.startswith(f"behind {name}, with features.mend.reelected-in-place=every-epoch: C3 was")
