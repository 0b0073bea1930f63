"""The incident library in the sim: what each scenario expects is what happens."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from actors.node.errors import KafkaError
from actors.sim.world import RunResult, World
from actors.trace.events import (
    LogHw,
    LogTrunc,
    PartAssume,
    QRole,
    ReplyPartition,
    Rpc,
    RpcReply,
    RunMeta,
    Stamped,
)
from chaos.conductor import ScenarioConductor
from chaos.incidents import library
from chaos.must_happen import happened
from chaos.oddities import library as oddities
from chaos.plan import Plan
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.repeats import repeat

LIMIT_US = 600_000_000


class Played(msgspec.Struct):
    """A run of a plan in the sim, judged: status and number of tests by invariant."""

    conductor: ScenarioConductor
    result: RunResult
    judged: dict[str, tuple[str, int]]


def play(plan: Plan) -> Played:
    conductor = ScenarioConductor(plan)
    meta = RunMeta(plan.scenario, plan.variant, "sim", plan.seed, plan.names, plan.profile())
    result = World(plan.nodes, conductor, plan.seed, "run", record=True, meta=meta).run(LIMIT_US)
    assert not result.failures, result.failures[0].traceback
    engine = InProcessEngine()
    for event in result.trace:
        engine.feed(event)
    return Played(conductor, result, {each.id: (each.status, each.tested) for each in engine.results()})


def assert_expected(plan: Plan, played: Played) -> None:
    """What the plan expects, and nothing else violated, and everything seen that must happen."""
    expect = plan.expect
    violated = {name for name, (status, _) in played.judged.items() if status == "violated"}
    assert set(expect.violated) <= violated <= {*expect.violated, *expect.may}
    for name in expect.held:
        status, tested = played.judged[name]
        assert (status, tested > 0) == ("held", True), (name, status, tested)
    assert all(happened(plan, played.result.trace).values())
    assert all(played.conductor.seen.values())
    assert played.conductor.status == "completed", played.conductor.detail
    assert all(outcome.took_effect and outcome.phase == "ended" for outcome in played.conductor.outcomes)


def latest(trace: Sequence[Stamped]) -> list[tuple[str, ReplyPartition]]:
    """What brokers told about orders-0 in ListOffsets, with their names."""
    return [
        (event.node, part)
        for event in trace
        if isinstance(event.body, RpcReply) and event.body.api == "ListOffsets"
        for part in event.body.partitions
    ]


@pytest.mark.parametrize("variant", ["off", "seed", "kafka"])
@pytest.mark.parametrize("seed", [7, 8])
def test_kip_207_happens_without_the_proposal_and_not_with_it(variant: str, seed: int) -> None:
    """Shows the contrast of the incident: H1 is violated with the feature off; with it broker-2 refuses instead."""
    plan = resolve(library.load("kip-207"), variant, seed=seed)
    played = play(plan)
    assert_expected(plan, played)
    told = latest(played.result.trace)
    before = max(part.offset for node, part in told if node == "broker-1")
    elected = next(
        event.body
        for event in played.result.trace
        if isinstance(event.body, PartAssume) and event.body.role == "leader" and event.body.leader_epoch == 1
    )
    # What the schedule is for: broker-2 has all that its predecessor told of, but knows an older high watermark.
    assert elected.leader == 2
    assert elected.high_watermark < before <= elected.log_end
    first = next(part for node, part in told if node == "broker-2")
    if variant == "off":
        assert (first.error, first.offset) == (0, elected.high_watermark)
    else:
        assert {part.error for node, part in told if node == "broker-2"} == {0, 5, 78}
        assert min(part.offset for node, part in told if node == "broker-2" and not part.error) >= before


@pytest.mark.parametrize("variant", ["off", "seed", "kafka"])
def test_kip_595_divergence_is_seen_in_either_form(variant: str) -> None:
    """Shows that a voter with a tail of its own keeps it, and has other records than the rest from there on, unless the
    leader compares the logs; it is told so in the form that it asks in."""
    plan = resolve(library.load("kip-595-divergence"), variant, seed=7)
    played = play(plan)
    assert_expected(plan, played)
    fetched = [e.body for e in played.result.trace if isinstance(e.body, Rpc) and e.body.api == "Fetch"]
    refused = sum(KafkaError.OFFSET_OUT_OF_RANGE in body.errors for body in fetched)
    assert (refused > 0) == (variant == "seed")


@pytest.mark.parametrize("variant", ["off", "kafka"])
def test_kip_595_figure_8_needs_an_entry_of_the_own_epoch(variant: str) -> None:
    """Shows that an entry of an older epoch on a majority is lost all the same, and that it was committed before only
    where the high watermark does not wait for the leader's own epoch."""
    plan = resolve(library.load("kip-595-figure-8"), variant, seed=7)
    played = play(plan)
    assert_expected(plan, played)
    cut = next(e.body for e in played.result.trace if isinstance(e.body, LogTrunc) and e.node == "controller-3")
    committed = max(
        (e.body.new for e in played.result.trace if isinstance(e.body, LogHw) and e.body.leader_epoch == 3), default=0
    )
    assert (committed > cut.to) == (variant == "off")


@pytest.mark.parametrize("variant", ["off", "seed", "kafka"])
def test_kip_595_zombie_leader_steps_down_in_either_form(variant: str) -> None:
    """Shows that a leader that is cut off leads on for good, or stands for the next epoch, or resigns."""
    plan = resolve(library.load("kip-595-zombie-leader"), variant, seed=7)
    played = play(plan)
    assert_expected(plan, played)
    roles = [e.body.role for e in played.result.trace if isinstance(e.body, QRole) and e.node == "controller-1"]
    after = roles[roles.index("leader") + 1]
    assert after == {"off": "follower", "seed": "candidate", "kafka": "resigned"}[variant]


@pytest.mark.parametrize("variant", ["off", "kafka"])
def test_kip_595_disruptive_voter_ends_the_term_of_a_good_leader_without_pre_vote(variant: str) -> None:
    """Shows that a voter which comes back takes a good leader down, and that PreVote keeps it from that."""
    plan = resolve(library.load("kip-595-disruptive-voter"), variant, seed=7)
    assert_expected(plan, play(plan))


@pytest.mark.parametrize("check", ["off", "kafka"])
def test_a_voter_of_another_cluster_counts_only_where_nobody_looks(check: str) -> None:
    """Shows that a voter with the disk of another cluster follows nobody, unless nobody compares the ids."""
    plan = resolve(oddities.load("another-cluster"), settings=[f"features.kip-595.cluster-id={check}"])
    trace = play(plan).result.trace
    fetches = [e.body for e in trace if isinstance(e.body, Rpc) and e.body.api == "Fetch"]
    refused = any(KafkaError.INCONSISTENT_CLUSTER_ID in body.errors for body in fetches)
    taking_part = any(
        isinstance(e.body, QRole) and e.body.role in ("leader", "follower") for e in trace if e.node == "controller-3"
    )
    assert (refused, taking_part) == ((False, True) if check == "off" else (True, False))


def test_the_baseline_holds() -> None:
    """Shows that in a cluster without faults everything holds that can be put to the test there."""
    plan = resolve(library.load("baseline"), settings=["duration=4s"])
    assert_expected(plan, play(plan))


def test_a_resolved_scenario_is_the_same_run_again() -> None:
    """Shows that what a run directory keeps gives the same trace, byte for byte, in another process, too."""
    plan = resolve(library.load("kip-207"), "off", settings=["duration=13s"])
    again = resolve(load_text(plan.yaml()))
    digest = play(plan).result.digest
    assert digest == play(again).result.digest == repeat(plan).digest
