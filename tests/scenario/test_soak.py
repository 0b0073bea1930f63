"""Soaks in virtual time: rounds without end, findings as of the whole trace, and restarts that change nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from actors.trace.events import CtlFault, CtlPhase, CtlWindow, Stamped
from chaos.errors import InputError
from chaos.rounds import Rounds
from chaos.sources import find
from orchestrator.engines.in_process import InProcessEngine, check
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.run_dir import RunDir, read_json
from orchestrator.soak import evidence as evidence_of
from orchestrator.soak.again import repeat_evidence
from orchestrator.soak.base import cut_off, read_base
from orchestrator.soak.directory import EVIDENCE_SCHEMA, Asked, EvidenceFile, Found, SoakDir
from orchestrator.soak.ledger import Ledger
from orchestrator.soak.outcome import STOPPED, Ended
from orchestrator.soak.sim import SimSoak
from orchestrator.soak.soaking import begin, new_standing
from orchestrator.trace.read import trace_of
from orchestrator.verdict import read_verdict
from orchestrator.version import __version__
from tests.unit.cli.command import krift

pytestmark = pytest.mark.unhurried

DEFECT = "list-behind"
"""Breaks H2, sooner or later, under leaders that die."""


def asked(word: str, seconds: int, **others: object) -> Asked:
    """A soak with short rounds of everything."""
    usual: dict[str, object] = {
        "krift": __version__,
        "soak": "",
        "word": word,
        "runtime": "sim",
        "seed": 3,
        "duration_us": seconds * 1_000_000,
        "calm_us": 5_000_000,
        "keep_us": 600_000_000,
        "checkpoint_us": 10_000_000,
        "started": "2026-01-01T00:00:00.000+00:00",
    }
    return msgspec.convert({**usual, **others}, Asked)


class Soaked:
    """A soak, with all of its events and what it told of."""

    def __init__(self, root: Path, order: Asked) -> None:
        self.events: list[Stamped] = []
        self.told: list[Found] = []
        self.rounds = Rounds(find(order.word), order.seed, order.variant, order.settings, order.defects)
        self.directory = begin(root, order, self.rounds)

    def run(self, events_max: int | None = None) -> Ended:
        """Carry it out, or on; up to an event, as if it were killed there."""
        order = self.directory.read_asked()
        self.events.clear()
        standing = new_standing(self.directory, order, self.rounds, lambda _: None)
        soak = SimSoak(self.directory, order, self.rounds, standing, self.told.append, self.events.append, events_max)
        return soak.run()

    @property
    def ledger(self) -> list[Found]:
        """What stands in the ledger."""
        return Ledger(self.directory.findings).found


def as_found(results: list[InvariantResult]) -> set[tuple[str, str, str]]:
    """The violations of a whole trace as a ledger names them."""
    return {(each.invariant, each.key, each.rule) for result in results for each in result.violations}


def named(found: list[Found]) -> set[tuple[str, str, str]]:
    """The same of a ledger."""
    return {(each.invariant, each.key, each.known) for each in found}


def test_a_soak_finds_what_batch_finds(tmp_path: Path) -> None:
    """Shows that a soak that is killed at some event and goes on from its checkpoint gives, result by result, what its
    whole trace gives at once, has each finding once in its ledger, and records the very trace of one that was not
    killed."""
    order = asked("replication", 25, defects=[DEFECT])
    killed = Soaked(tmp_path / "killed", order)
    cut_off = killed.run(events_max=9_000)
    assert cut_off.status == "killed", cut_off.detail
    assert list(killed.directory.checkpoints.glob("*.bin"))
    ended = killed.run()
    assert ended.status == "completed"
    expected = check(killed.events)
    assert ended.checked.results == expected
    assert killed.ledger
    assert named(killed.ledger) == as_found(expected)
    assert len(named(killed.ledger)) == len(killed.ledger)
    assert [each.number for each in killed.ledger] == list(range(1, len(killed.ledger) + 1))
    whole = Soaked(tmp_path / "whole", order)
    assert whole.run().checked.digest == ended.checked.digest
    assert whole.ledger == killed.ledger


def test_rounds_follow_one_another(tmp_path: Path) -> None:
    """Shows that each round of a nemesis has faults of its own under names of its own, that between two rounds the
    cluster is whole and in a stability window for as long as was asked for, and that the directory keeps to its
    bounds."""
    soaked = Soaked(tmp_path, asked("replication", 90, keep_us=180_000_000))
    assert soaked.run().status == "completed"
    phases = [event for event in soaked.events if isinstance(event.body, CtlPhase)]
    names = [event.body.phase for event in phases if isinstance(event.body, CtlPhase)]
    rounds = names.count("chaos")
    assert rounds >= 3
    assert names == ["starting", "warming", *["chaos", "healing"] * rounds, "stopping", "draining", "finished"]
    faults = [event.body for event in soaked.events if isinstance(event.body, CtlFault)]
    begun = [each.fault for each in faults if each.phase == "start"]
    assert len(begun) == len(set(begun))
    assert {name.partition(".")[0] for name in begun} >= {"r0", "r1", "r2"}
    open_for: list[int] = []
    opened = 0
    for event in soaked.events:
        if isinstance(event.body, CtlWindow):
            opened = event.wall if event.body.phase == "open" else event.wall + 1_000_000_000
        if isinstance(event.body, CtlPhase) and event.body.phase == "chaos":
            open_for.append(event.wall - opened)
    assert all(each >= soaked.directory.read_asked().calm_us for each in open_for[1:])
    assert len(list(soaked.directory.checkpoints.glob("*.bin"))) == 2
    assert soaked.directory.read_status().round == rounds - 1


def test_a_violation_stops_a_soak_with_its_evidence(tmp_path: Path) -> None:
    """Shows that with ``--on-violation stop`` the first finding ends the soak, and that the events around it are kept
    with the schedule of the round, are the ones that the ledger names, and come again when the evidence is replayed."""
    order = asked("kip-207", 600, variant="off", on_violation="stop", checkpoint_us=5_000_000)
    soaked = Soaked(tmp_path, order)
    ended = soaked.run()
    assert ended.status == STOPPED
    (first, *_) = [found for found in soaked.told if not found.known]
    evidence = RunDir(soaked.directory.evidence / first.evidence)
    assert evidence.scenario.exists()
    again = repeat_evidence(evidence)
    assert again.compared > 100
    kept = {event.id for event in trace_of(evidence)}
    assert set(first.events) <= kept


def test_evidence_is_judged_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that evidence from the middle of a soak, with what the checks knew before, says what all that the soak
    recorded up to its end says: the finding with it, though the trace begins late; and that ``krift check`` refuses it
    without that."""
    monkeypatch.setattr(evidence_of, "BEFORE_US", 3_000_000)
    order = asked("kip-207", 600, variant="off", on_violation="stop", checkpoint_us=2_000_000)
    soaked = Soaked(tmp_path, order)
    assert soaked.run().status == STOPPED
    (first, *_) = [found for found in soaked.told if not found.known]
    evidence = RunDir(soaked.directory.evidence / first.evidence)
    about = read_json(evidence.path / "evidence.json", EvidenceFile, EVIDENCE_SCHEMA, "")
    base = read_base(evidence)
    assert base is not None
    assert about.first > 1_000
    results = base.loaded()(trace_of(evidence))
    engine = InProcessEngine()
    engine.feed_all(soaked.events[: about.last + 1])
    assert results == cut_off(engine.key_results(), engine.profile)
    checked = krift("check", evidence.path)
    violated = {each.id for each in results if each.status == "violated"}
    assert first.invariant in violated
    assert {each.id for each in read_verdict(evidence).invariants if each.status == "violated"} == violated
    assert checked.code == 0  # as the scenario expects it
    refused = krift("check", evidence.path, "--engine", "spark")
    assert (refused.code, "evidence goes on from what the checks knew" in refused.err) == (2, True)
    (evidence.path / "base.bin").unlink()
    without = krift("check", evidence.path)
    assert (without.code, "it begins in the middle of its soak" in without.err) == (2, True)


def test_a_damaged_checkpoint_does_not_count(tmp_path: Path) -> None:
    """Shows that where the newest checkpoint is cut off, the one before it serves, with the same outcome."""
    order = asked("replication", 25, defects=[DEFECT])
    soaked = Soaked(tmp_path, order)
    soaked.run(events_max=9_000)
    newest = sorted(soaked.directory.checkpoints.glob("*.bin"))[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    ended = soaked.run()
    assert ended.checked.results == check(soaked.events)
    shutil.rmtree(soaked.directory.checkpoints)
    soaked.directory.checkpoints.mkdir()
    assert soaked.run().checked.digest == ended.checked.digest


def test_what_changes_a_cluster_for_good_is_refused() -> None:
    """Shows that a scenario that deletes a topic is no soak, and that its error says which fault it is."""
    with pytest.raises(InputError, match="changes the cluster for good"):
        Rounds(find("tests/scenario/topics/come-and-go.yaml"), 1)


def test_a_directory_opens_as_a_soak(tmp_path: Path) -> None:
    """Shows that what was asked for is read back as it was written."""
    soaked = Soaked(tmp_path, asked("replication", 10))
    assert SoakDir(soaked.directory.path).read_asked().word == "replication"
