"""Parity: a scenario means the same in both runtimes.

A scenario is run in the sim with a few seeds and live on real processes, sockets and files, by the same path up to the
verdict. What is compared is what the scenario decides, and nothing that the runtime decides:

- **verdict**: each run goes its whole way and is what the scenario expects, so whatever is expected to hold was put
  to the test, what is expected to be violated is, and everything that must happen was seen. Moreover no invariant is
  violated in one runtime alone, what every seed of the sim put to the test often the live run put to the test, too,
  and violations are about the same keys;
- **kinds**: who (by role) records which types of events and takes part in which exchanges. What every seed shows the
  live run shows; what the live run shows some seed shows. ``INCIDENTAL`` names what is exempt, with the reasons;
- **structure** (``judged.Structure``), equal in all runs: phases, what each fault hit, who led a partition one after
  the other, who was restarted how often, which prober was refused with which error, at which version it asked,
  which partitions a member of a group was assigned last, and that every send was acknowledged, but for those to a
  topic that is deleted. Who leads is told outright in ``CASES``: two runs may agree on what is wrong.

Byte equality of the traces is not parity, and cannot be had: live, the machine decides when a message arrives, how many
fetches fit into a second, and which of two concurrent events comes first; two live runs of one seed differ in this
as well. Only the sim promises the same bytes for the same seed, and ``tests/property/test_sim.py`` holds it to that.
So nothing here looks at times, counts, offsets or the order of concurrent events.

The sim's messages travel as bytes here, as live ones do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from actors.trace.events import EVENT_TYPES
from chaos.plan import Plan
from chaos.scenario.resolve import resolve
from chaos.sources import find
from orchestrator.clusters.local_ray import LocalRayCluster
from orchestrator.clusters.sim import SimCluster
from tests.parity.judged import Judged, Structure, play

SCENARIOS = Path(__file__).parent / "scenarios"
SEEDS = range(1, int(os.environ.get("KRIFT_PARITY_SEEDS", "1")) + 1)
BESIDE = range(1, 3)
"""Seeds of the sim beside a live run: what two of them share is the scenario's, and not one run's."""


class Case(msgspec.Struct, frozen=True):
    """A scenario (a file here, or an incident of the library) with who leads orders-0, one after the other.
    refused: whether its probers are refused as KIP-207 says; None where a leader change leaves that to the moment at
    which they ask. beside: who leads other partitions. owned: which partition each member of a group owns in the end.
    sends: whether every send is acknowledged."""

    source: str
    leaders: list[int]
    variant: str | None = None
    settings: tuple[str, ...] = ()
    refused: bool | None = False
    beside: dict[str, list[int]] = {}
    owned: dict[str, list[str]] = {}
    sends: bool = True

    def plan(self, seed: int) -> Plan:
        """The case as a run."""
        return resolve(find(self.source).loaded(seed), self.variant, seed=seed, settings=self.settings)

    def structure(self, run: Judged) -> Structure:
        """What of a run's structure the scenario decides."""
        refused = run.structure.refused if self.refused is not None else {}
        sends = run.structure.sends if self.sends else []
        return msgspec.structs.replace(run.structure, refused=refused, sends=sends)


REFUSED = {"list-offsets-1": ["OFFSET_NOT_AVAILABLE"], "list-offsets-2": ["LEADER_NOT_AVAILABLE"]}
"""The second prober speaks ListOffsets up to version 4, which has no OFFSET_NOT_AVAILABLE (KIP-207)."""

OFTEN = 10
"""What is tested less often depends on one moment or another: a vote, a refusal, a leader change."""
OF_TIME = {"away"}
"""Rules of what a live process takes longer for than one in the sim: to be fenced, or to be back."""

SHORT = ("duration=13s",)
"""Half a second after the last fault of kip-207 has ended."""

CASES = {
    **{
        name: Case(str(SCENARIOS / f"{name}.yaml"), leaders, refused=None if len(leaders) > 1 else False)
        for name, leaders in {
            "steady": [1],
            "link-faults": [1],
            "follower-crash": [1],
            "leader-crash": [1, 2],
            "leader-pause": [1, 2],
            "rewind": [1, 2],
            "quorum-leader-cut": [1],
            "seen-trigger": [1, 2, 3],
            "disk-faults": [1, 2],
            "operator": [1, 2, 1],
            "bounce": [1, 2, 1],
        }.items()
    },
    "group-member-lost": Case(
        str(SCENARIOS / "group-member-lost.yaml"),
        [1],
        beside={"orders-1": [2], "__consumer_offsets-0": [3]},
        owned={"consumer-1": ["orders-0"], "consumer-2": ["orders-1"]},
    ),
    "coordinator-failover": Case(
        str(SCENARIOS / "coordinator-failover.yaml"),
        [1],
        beside={"__consumer_offsets-0": [2, 3]},
        owned={"consumer-1": ["orders-0"], "consumer-2": ["orders-0"]},
    ),
    "transaction-commit": Case(
        str(SCENARIOS / "transaction-commit.yaml"),
        [1],
        beside={"orders-1": [2], "__transaction_state-0": [3]},
        sends=False,
    ),
    "transaction-time-out": Case(
        str(SCENARIOS / "transaction-time-out.yaml"), [1], beside={"__transaction_state-0": [3]}, sends=False
    ),
    "transaction-zombie": Case(
        str(SCENARIOS / "transaction-zombie.yaml"), [1], beside={"__transaction_state-0": [3]}, sends=False
    ),
    "transaction-coordinator-failover": Case(
        str(SCENARIOS / "transaction-coordinator-failover.yaml"), [1], beside={"__transaction_state-0": [2, 3]}
    ),
    "delete-records": Case(str(SCENARIOS / "delete-records.yaml"), [1], beside={"orders-1": [3]}),
    "tiered-lookups": Case(
        str(SCENARIOS / "tiered-lookups.yaml"), [1], beside={"orders-1": [1], "__remote_log_metadata-0": [2]}
    ),
    "tiered-unclean": Case(
        str(SCENARIOS / "tiered-unclean.yaml"), [1, 2], refused=None, beside={"__remote_log_metadata-0": [1, 2]}
    ),
    "topic-recreated": Case(str(SCENARIOS / "topic-recreated.yaml"), [1], sends=False),
    "kip-207-off": Case("kip-207", [1, 2], "off", SHORT),
    "kip-207-seed": Case("kip-207", [1, 2], "seed", SHORT, refused=True),
    "kip-207-kafka": Case("kip-207", [1, 2], "kafka", SHORT, refused=True),
}

ELSEWHERE = ("kip-207-off", "kip-207-seed", "steady", "follower-crash", "leader-crash")
"""Not live here. The first is live on Spark's executors (``tests/integration/test_ray_on_spark.py``, long); the second,
until it is asked for EARLIEST, which nobody does, is kip-207-kafka, and ``make demo`` runs both live; the third is what
each of the others is before its first fault. Leaders and followers crash live in disk-faults, seen-trigger and
``tests/integration/test_live_kills.py``."""

INCIDENTAL = {
    # A client errs only if it asks in the moment between a change and its next metadata.
    ("producer", "client.error"),
    ("consumer", "client.error"),
    ("list-offsets", "client.error"),
    # A new quorum leader tells the voters that have not fetched from it yet; one that was slow to ask hears of it.
    # Where voters get no time to run, they elect a leader once more: the old one says so, and tails are cut.
    ("controller", "rpc BeginQuorumEpoch"),
    ("controller", "rpc EndQuorumEpoch"),
    ("controller", "q.end"),
    ("controller", "q.heard"),
    ("controller", "log.trunc of metadata"),
    ("broker", "log.trunc of metadata"),
    # Where snapshots are made, one that was too slow finds the entries that it lacks in a snapshot alone.
    ("controller", "rpc FetchSnapshot"),
    ("controller", "q.snap.fetch"),
    # A follower cuts its log at a leader change if it got a batch that the next leader had not got yet.
    ("broker", "log.trunc"),
    ("broker", "rep.truncate"),
    # A consumer asks a broker that is not the leader yet, or no more, if it is quick enough.
    ("broker", "fetch.told"),
    # Beyond the high watermark of a new leader it asks as fast as it is answered: how often depends on the machine.
    ("consumer", "rpc.quiet"),
    # The leader changes while a proposal is under way, if a broker is slow to propose.
    ("broker", "isr.late"),
    # Near the end of a run, the answer may be under way when the nodes are stopped.
    ("broker", "rpc AlterPartition"),
    # A controller that just took over may find a broker slow to report to it, and fence it for a moment.
    ("broker", "isr.propose"),
}


def assert_own(case: Case, plan: Plan, run: Judged) -> None:
    """What holds of each run by itself."""
    verdict = run.verdict
    assert not verdict.unexpected
    assert verdict.expected or run.busy, verdict.undecided
    violated = {name for name, status in run.statuses.items() if status == "violated"}
    assert set(plan.expect.violated) <= violated <= {*plan.expect.violated, *plan.expect.may}
    assert "inconclusive" not in run.statuses.values() or run.busy, run.statuses
    assert all(verdict.must_happen.values())
    assert run.structure.leaders == {"orders-0": case.leaders, **case.beside}
    assert run.structure.owned == case.owned
    if case.refused is not None:
        assert run.structure.refused == (REFUSED if case.refused else {name: [] for name in run.structure.refused})
    assert run.structure.sends == ["ok"] or not case.sends


def violated_keys(run: Judged, plan: Plan) -> dict[str, set[str]]:
    """Expected violation -> what it is about."""
    return {
        each.id: {violation.key for violation in each.violations}
        for each in run.verdict.invariants
        if each.id in plan.expect.violated
    }


def often_held(run: Judged) -> set[str]:
    """Invariants that a run put to the test so often that it was not by chance."""
    return {each.id for each in run.verdict.invariants if each.status == "held" and each.tested >= OFTEN}


@cache
def run_sim(name: str, seed: int) -> Judged:
    """A case in the sim, which several tests here look at; without its trace, which is large."""
    with TemporaryDirectory() as directory, SimCluster(carriage="wire") as sim:
        run = play(sim, CASES[name].plan(seed), Path(directory) / "sim")
    return msgspec.structs.replace(run, trace=[])


def run_seeds(name: str, seeds: Sequence[int]) -> list[Judged]:
    """A case in the sim, once for each seed."""
    runs = []
    for seed in seeds:
        run = run_sim(name, seed)
        assert_own(CASES[name], CASES[name].plan(seed), run)
        runs.append(run)
    return runs


INCIDENTAL_IN = ("follower-crash", "leader-crash", "quorum-leader-cut", "operator", "disk-faults")
"""Cases that show what is incidental."""
LOOKED_AT_AGAIN = (*INCIDENTAL_IN, "tiered-lookups", "tiered-unclean")
"""Cases of which more than one test looks at the runs in the sim."""
ONE_PROCESS = pytest.mark.xdist_group("parity")
"""So that they are carried out once."""


LONG = (
    *("bounce", "rewind", "quorum-leader-cut", "link-faults", "operator", "disk-faults", "seen-trigger"),
    *("leader-pause", "topic-recreated", "coordinator-failover", "delete-records", "tiered-unclean"),
    *("transaction-time-out", "transaction-zombie", "transaction-coordinator-failover", "group-member-lost"),
)
"""Live in ``make test-all`` alone: nearest to them are their runs in the sim, and live kip-207-kafka, which cuts links,
transaction-commit and tiered-lookups, for processes that die ``test_live_kills.py``, and for those that stand still
``tests/integration/test_interrupt.py``. No disk fails, no operator acts and nobody is fenced live but there."""


def sim_case(name: str) -> Any:
    """The parameter of a case in the sim. What is long live is further here, unless its runs are looked at anyhow."""
    if name in LOOKED_AT_AGAIN:
        return pytest.param(name, marks=ONE_PROCESS)
    return pytest.param(name, marks=pytest.mark.further) if name in LONG else name


def test_every_scenario_here_is_a_case() -> None:
    """Shows that no scenario file of the parity suite is left out."""
    assert {Path(case.source).stem for case in CASES.values() if "/" in case.source} == {
        path.stem for path in SCENARIOS.glob("*.yaml")
    }
    assert set(find("kip-207").variants) == {case.variant for case in CASES.values() if case.variant}


@pytest.mark.parametrize("name", [sim_case(name) for name in CASES])
def test_the_seeds_of_the_sim_agree(name: str) -> None:
    """Shows that with every seed that is asked for the sim gives what the scenario expects, and the structure that its
    schedule enforces."""
    structures: list[Structure] = [CASES[name].structure(run) for run in run_seeds(name, SEEDS)]
    assert structures == [structures[0]] * len(SEEDS)


def live_case(name: str) -> Any:
    """The parameter of a live case."""
    return pytest.param(name, marks=pytest.mark.long) if name in LONG else name


@pytest.mark.ray
@pytest.mark.parametrize("name", [live_case(name) for name in CASES if name not in ELSEWHERE])
def test_live_and_sim_agree(name: str, local_ray: LocalRayCluster, tmp_path: Path) -> None:
    """Shows parity, as this module defines it, for one scenario."""
    case = CASES[name]
    plan = case.plan(SEEDS[0])
    sims = run_seeds(name, BESIDE)
    live = play_live(local_ray, case, case.structure(sims[0]), tmp_path)
    assert_own(case, plan, live)
    assert case.structure(live) == case.structure(sims[0])
    assert [violated_keys(sim, plan) for sim in sims] == [violated_keys(live, plan)] * len(sims)
    tested = set.intersection(*(often_held(sim) for sim in sims))
    assert [each for each in live.verdict.invariants if each.id in tested and not held_too(live, each.id)] == []
    always = set.intersection(*(sim.kinds for sim in sims))
    ever = set.union(*(sim.kinds for sim in sims))
    assert always - live.kinds <= INCIDENTAL
    assert live.kinds - ever <= INCIDENTAL


def play_live(cluster: LocalRayCluster, case: Case, structure: Structure, directory: Path) -> Judged:
    """A case, live. A run that had too little of the machine to go as ``structure`` says, or to come to what must
    happen, shows nothing: it is played again, twice at most, and the last one is judged however it went."""
    for attempt in range(3):
        live = play(cluster, case.plan(SEEDS[0]), directory / f"live-{attempt}")
        if not live.busy or (all(live.verdict.must_happen.values()) and case.structure(live) == structure):
            break
    return live


def held_too(live: Judged, name: str) -> bool:
    """Whether a promise held live, or was broken only where live nodes may take longer."""
    (verdict,) = (each for each in live.verdict.invariants if each.id == name)
    if verdict.status == "excused":
        return set(verdict.excused) <= OF_TIME
    return verdict.status in ({"held", "vacuous", "inconclusive"} if live.busy else {"held"})


@ONE_PROCESS
def test_tiered_scenarios_show_what_they_are_about() -> None:
    """Shows that replicas drop what is copied, that brokers read from copies for look-ups alone, as no consumer is that
    late, that look-ups wait in the purgatory, and that a copy of the former leader outlives an unclean election."""
    lookups, unclean = run_sim("tiered-lookups", SEEDS[0]).kinds, run_sim("tiered-unclean", SEEDS[0]).kinds
    for kinds in (lookups, unclean):
        assert {("broker", "log.local-start"), ("broker", "rpc FetchLogSegment"), ("broker", "rpc.park")} <= kinds
        assert ("remote-store", "store.object") in kinds
    assert {("broker", "log.trunc"), ("broker", "rpc CopyLogSegmentData")} <= unclean


@ONE_PROCESS
def test_incidental_kinds_exist() -> None:
    """Shows that runs show the exempted roles and exchanges, and that all events are known, so that none is a slip of
    the pen."""
    kinds = set.union(*(run_sim(name, SEEDS[0]).kinds for name in INCIDENTAL_IN))
    assert {role for role, _ in INCIDENTAL} <= {role for role, _ in kinds}
    assert {what for _, what in INCIDENTAL} <= {what for _, what in kinds} | set(EVENT_TYPES)
