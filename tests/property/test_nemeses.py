"""Whatever a nemesis draws, nothing is broken. ``KRIFT_SMOKE=300`` tries that many seeds of each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from actors.client.transactions.session import RESTART_MS
from actors.control import Predicate
from actors.features import FEATURES, MENDS
from actors.node.spec import node_name
from actors.trace.events import OpReturn, Stamped
from chaos.faults.kinds import KINDS, kinds_of
from chaos.faults.store import REMOTE_STORE, StoreFault
from chaos.nemesis import library
from chaos.nemesis.checks import UNPROTECTED
from chaos.nemesis.draw import draw
from chaos.nemesis.library import LoadedNemesis
from chaos.plan import Plan
from chaos.scenario.durations import parse_duration_us, parse_rate
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from chaos.scenario.triggers import TRIGGERS, matches
from orchestrator.campaigns.order import SimOrder
from orchestrator.sim_run import SimRun, run_in_sim
from tests.harness.nemeses import drawing

pytestmark = pytest.mark.unhurried

SEEDS = range(1, 1 + int(os.environ.get("KRIFT_SMOKE", "1")))
CASES = [(name, seed) for name in library.names() for seed in SEEDS]
NEVER_WAITED_FOR = ("asked",)
"""Triggers that no nemesis draws: an operator is rarely drawn, so most waits for an answer would be in vain."""
BROKEN_ONCE = {("everything", 294): "nothing", ("quorum", 4704): "flapping", ("quorum", 5280): "divided-quorum"}
"""Nemesis and seed of a run that found something -> the pattern that it is drawn with now."""
FOUND = [
    ("quorum", 1002389),
    ("quorum", 1000067),
    ("everything", 1000591),
    ("clients", 1000257),
    ("replication", 1000179),
    ("replication", 1000416),
    ("upgrade", 1000431),
    ("voters", 8),
]
"""Nemesis and seed of runs that found something in campaigns, as they are drawn today: a clock's skew that ends as a
process starts; a voter that is told to fetch a snapshot; a record from a follower; a cut that was not written; a retry
that commits; a fetch refused at a resignation; a leader of the quorum that nobody copied from."""
DRAWN = range(1, 101)


OF_STORE = kinds_of(StoreFault)
REFUSED = (
    "elect",
    "configure",
    "describe-quorum",
    "controlled-shutdown",
    "create-topic",
    "create-partitions",
    "delete-records",
)
"""Actions that a cluster may refuse as it is: a topic whose deletion is still under way cannot be created, nor one for
which there are too few brokers, and nothing is deleted that is not committed."""


class Seen(Counter[str]):
    """Outcomes of operations, such as ``send ok``, and triggers of the scenario language, with how often each was
    seen."""

    triggers = ("leader-elected", "truncated", "isr-shrunk")

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if isinstance(body, OpReturn):
            self[f"{body.kind} {body.outcome}"] += 1
        self.update(name for name in self.triggers if matches(Predicate(name, {}), event))


def carried_out(plan: Plan) -> tuple[SimRun, Seen]:
    seen = Seen()
    return run_in_sim(plan, [seen]), seen


def complaints(run: SimRun) -> list[str]:
    """What should not be: a run that did not go its whole way, what was violated, or a fault that stayed."""
    came_to_its_end = run.status == "completed" or run.verdict.known
    found = [] if came_to_its_end else [f"{run.status}: {run.detail}"]
    found += [f"{fault.id} {fault.kind} is still in force" for fault in run.faults if fault.phase == "in force"]
    scheduled = {each.id: each for each in run.plan.schedule}
    # What a store is to do wrong has no effect as long as its process is down.
    store_fell = any(fault.kind not in OF_STORE and REMOTE_STORE in fault.targets for fault in run.faults)
    found += [
        f"{fault.id} {fault.kind} on {', '.join(fault.targets)} ended without effect"
        for fault in run.faults
        if fault.phase == "ended"
        and not fault.took_effect
        and fault.kind not in REFUSED
        and not (store_fell and fault.kind in OF_STORE)
        and not scheduled[fault.id].waits_for_point
    ]
    return [*found, *run.verdict.unexpected, *run.verdict.undecided]


def assert_all_is_well(plan: Plan) -> None:
    run, seen = carried_out(plan)
    assert complaints(run) == []
    assert run.exit_code == 0
    assert seen["send ok"] > 0
    assert seen["poll ok"] > 0


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_a_drawn_scenario_breaks_no_promise(name: str, seed: int) -> None:
    """Shows that under faults of all kinds that overlap, the cluster heals, clients finish, and all invariants hold."""
    assert_all_is_well(SimOrder(name, "", seed).plan())


@pytest.mark.parametrize(("name", "seed"), BROKEN_ONCE)
def test_what_a_drawn_scenario_broke_once_holds(name: str, seed: int) -> None:
    """Shows that what was found in a run stays mended, whatever weight its pattern has by now."""
    assert_all_is_well(resolve(drawing(name, BROKEN_ONCE[name, seed]).drawn(seed), "", seed))


@pytest.mark.parametrize(("name", "seed"), FOUND)
def test_what_a_campaign_found_holds(name: str, seed: int) -> None:
    """Shows that runs which campaigns found something in go well now."""
    assert_all_is_well(SimOrder(name, "", seed).plan())


@pytest.mark.parametrize("name", library.names())
def test_a_drawn_scenario_is_its_resolved_file(name: str) -> None:
    """Shows that whatever is drawn is written down: the file that a run keeps, and is done again from, gives the same
    nodes and the same faults."""
    for seed in SEEDS[:10]:
        plan = SimOrder(name, "", seed).plan()
        again = resolve(load_text(plan.yaml(), "again.yaml"))
        assert (again.nodes, again.schedule, again.core) == (plan.nodes, plan.schedule, plan.core), seed


def test_a_drawn_scenario_gives_a_planted_bug_away() -> None:
    """Shows that the judgement can fail: a follower that truncates to its high watermark is noticed."""
    run, _ = carried_out(SimOrder("replication", "", 3, (), ("truncate-to-hw",)).plan())
    assert run.verdict.unexpected[0].startswith("P11 was violated: broker-")


# ---- what is drawn ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def everything() -> LoadedNemesis:
    return library.load("everything")


@pytest.fixture(scope="module")
def plans(everything: LoadedNemesis) -> list[Plan]:
    return [resolve(everything.drawn(seed), "", seed) for seed in DRAWN]


def test_every_kind_of_the_language_has_a_weight(everything: LoadedNemesis) -> None:
    """Shows that a new fault or action cannot be forgotten: it needs a weight in ``everything``."""
    weights = everything.nemesis.faults
    assert set(weights) == set(KINDS)
    assert all(weights.values())


def protecting(name: str) -> set[str]:
    """The values of a feature that `everything` draws. A proposal that Kafka has not built is off, too."""
    feature = FEATURES[name]
    return {value for value in feature.values if value == feature.default or value != UNPROTECTED}


def test_everything_waits_for_every_trigger_and_draws_every_protective_value(everything: LoadedNemesis) -> None:
    """Shows that a new trigger, feature or value cannot be forgotten either, and that none is off."""
    assert set(everything.nemesis.chaos.seen) == set(TRIGGERS) - set(NEVER_WAITED_FOR)
    assert {name: set(values) for name, values in everything.nemesis.features.items()} == {
        name: protecting(name) for name in FEATURES if name not in MENDS
    }


def test_everything_is_drawn_sooner_or_later(everything: LoadedNemesis, plans: list[Plan]) -> None:
    """Shows that all faults, all values of switches and all sizes are among the scenarios of some seeds."""
    kinds = {scheduled.fault.kind for plan in plans for scheduled in plan.schedule}
    assert kinds == set(everything.nemesis.faults)
    for name, feature in FEATURES.items():
        drawn = {feature.default} if name in MENDS else protecting(name)
        assert {plan.features[name] for plan in plans} == drawn
    assert {len(plan.cluster.voters) for plan in plans} == {1, 3, 4, 5}
    assert {sum(node.role == "controller" for node in plan.nodes) - len(plan.cluster.voters) for plan in plans} == {
        0,
        1,
    }
    assert {sum(node.role == "broker" for node in plan.nodes) for plan in plans} == {3, 4, 5}
    assert {plan.config["unclean.leader.election.enable"] for plan in plans} == {False, True}
    assert {plan.config["metadata.propagation"] for plan in plans} == {"log", "push"}
    assert {max(len(topic.replicas) for topic in plan.cluster.topics) for plan in plans} == {1, 2, 3}
    assert {plan.config["metadata.log.max.record.bytes.between.snapshots"] for plan in plans} == {200, 2000, 20971520}
    producers = [node.config for plan in plans for node in plan.nodes if node.role == "producer"]
    assert {config["retries"] for config in producers} == {2, 2147483647}
    assert {config["acks"] for config in producers} == {"all", "0", "1"}
    assert {config["enable.idempotence"] for config in producers} == {False, True}


def test_transactions_can_be_committed_before_their_time_is_over() -> None:
    """Shows that all records of a producer's transaction are sent within half of its time-out, and between two stays in
    others, and that a processor is away from its group for no longer than a member that stalls: else nothing is ever
    committed, or read."""
    found = 0
    for name in ("transactions", "processors", "unclean-transactions", "everything"):
        for seed in range(1, 46):
            for node in SimOrder(name, "", seed).plan().clients:
                if "transaction_records" not in node.workload:
                    continue
                found += 1
                timeout_ms, records = node.config["transaction.timeout.ms"], node.workload["transaction_records"]
                if "rate" in node.workload:
                    takes_ms = 1000 * records / node.workload["rate"]
                    assert records == 1 or takes_ms <= timeout_ms / 2
                    between_ms = node.workload["hold_every_ms"] if node.workload.get("hold_ms") else None
                    assert between_ms is None or between_ms >= int(RESTART_MS + 2 * takes_ms)
                elif "max.poll.interval.ms" in node.config:
                    assert node.workload["hold_ms"] <= 2 * node.config["max.poll.interval.ms"]
    assert found > 100


def test_four_in_five_runs_have_quick_timers(plans: list[Plan]) -> None:
    """Shows that most runs see the ends of time-outs, and that some have Kafka's own."""
    own = sum(plan.config["broker.session.timeout.ms"] == 9000 for plan in plans)
    assert 0.1 < own / len(plans) < 0.3


def test_one_in_six_runs_has_tiered_topics_and_another_one_retention(everything: LoadedNemesis) -> None:
    """Shows that segments roll and go in these runs and in no others, and that a remote store has everything that is
    drawn for it."""
    tiered = retention = 0
    for seed in range(1, 241):
        cluster = draw(everything.nemesis, seed)["cluster"]
        keys = {key for key in cluster["config"] if key.startswith("log.")}
        stored = "remote-store" in cluster
        assert stored == any(topic["config"].get("remote.storage.enable") for topic in cluster["topics"].values())
        assert stored == any(key.startswith(("remote.log.", "rlmm.")) for key in cluster["config"])
        assert ("log.segment.bytes" in keys) == bool(keys)
        tiered += stored
        retention += bool(keys) and not stored
    assert 0.1 < tiered / 240 < 0.25
    assert 0.1 < retention / 240 < 0.25


def test_runs_are_short_and_small() -> None:
    """Shows that no nemesis draws more than 18 seconds of chaos, or clients for many more than 2,000 records."""
    for name in library.names():
        nemesis = library.load(name).nemesis
        for seed in range(1, 31):
            drawn = draw(nemesis, seed)
            chaos_s = parse_duration_us(drawn["duration"]) / 1e6
            assert chaos_s <= 18
            rates = [entry["producer"]["rate"] for entry in drawn["workload"] if "producer" in entry]
            assert sum(map(parse_rate, rates)) * (chaos_s + 8) <= 2_000


def test_a_draw_is_a_function_of_nemesis_and_seed(everything: LoadedNemesis) -> None:
    """Shows that the same is drawn twice, and something else from the next seed."""
    again = library.load("everything")
    assert draw(everything.nemesis, 17) == draw(again.nemesis, 17)
    assert draw(everything.nemesis, 17) != draw(again.nemesis, 18)


CHANGES: dict[str, Callable[[LoadedNemesis], dict[str, object]]] = {
    "a fault more": lambda found: {"faults": {**found.nemesis.faults, "crash": 40.0}},
    "other clocks": lambda found: {"like": found.nemesis.like.model_copy(update={"clock": {7_000: 1.0}})},
    "other producers": lambda found: {
        "workload": found.nemesis.workload.model_copy(update={"linger": {1_000: 1.0}, "acks": {"all": 1.0}})
    },
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_one_place_shifts_no_other(everything: LoadedNemesis, change: str) -> None:
    """Shows that each part has random numbers of its own: what a change is not about is drawn as before, and only
    that."""
    changed, others = everything.nemesis.model_copy(update=CHANGES[change](everything)), 0
    for seed in range(1, 21):
        before, after = draw(everything.nemesis, seed), draw(changed, seed)
        others += before != after
        kept = ["cluster", "features", "nodes", "duration"]
        kept += ["chaos"] if change == "other producers" else ["workload"]
        for part in kept:
            assert before[part] == after[part]
        if change == "other clocks":
            pairs = zip(before["chaos"], after["chaos"], strict=True)
            differ = [one for one, other in pairs if one != other]
            assert all({"clock-skew", "clock-jump"} & set(one.get("fault", {})) for one in differ)
    assert others


def test_orders_of_a_nemesis_travel_with_their_text(everything: LoadedNemesis) -> None:
    """Shows that a user's own nemesis, sent as text, and one by name give the same plan."""
    text = library.text("everything")
    by_name = SimOrder("everything", "", 5)
    by_text = SimOrder("mine/everything.yaml", "", 5, text=text)
    assert msgspec.json.encode(by_name.plan().document) == msgspec.json.encode(by_text.plan().document)
    assert by_text.reproduce(by_text.plan()) == "krift run mine/everything.yaml --runtime sim --seed 5"


@pytest.mark.parametrize("most", [1, 4])
def test_strangers_are_voters_that_the_others_can_do_without(most: int) -> None:
    """Shows that most voters are always of the cluster, and that strangers are drawn where a nemesis wants them."""
    loaded = library.load("strangers")
    shape = loaded.nemesis.shape.model_copy(update={"strangers": {most: 1.0}})
    changed = msgspec.structs.replace(loaded, nemesis=loaded.nemesis.model_copy(update={"shape": shape}))
    for seed in range(1, 21):
        plan = resolve(changed.drawn(seed), "", seed)
        voters = {node_name(each) for each in plan.cluster.voters}
        assert 0 < len(plan.strangers) <= most
        assert set(plan.strangers) < voters
        assert 2 * len(plan.strangers) < len(voters)
