"""From a scenario to a plan."""

from __future__ import annotations

import msgspec
import pytest

from actors.config import default_config
from actors.node.spec import NodeSpec
from chaos.errors import InputError
from chaos.incidents import library
from chaos.plan import Plan, Seen
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from tests.unit.chaos.stage import BASE, plan_of

RICH = """
features: {kip-595: off, kip-595.leader-progress: kafka}
versions: {Fetch: 4-12}
nodes:
  broker-3: {features: {kip-207: off}, versions: {ListOffsets: 1-4}, config: {num.io.threads: 2}}
  consumer-1: {config: {fetch.max.wait.ms: 100}}
defects: [list-log-end]
must-happen: [{committed: {tp: orders-0, offset: 10}}]
expect: {held: [H1], may: [H6]}
budgets: {drain: 90s}
chaos:
  - {when: {at: 1s}, fault: {crash: any(2)}, for: 1500ms}
  - {when: {seen: {rpc: {api: Fetch}}, nth: 3, delay: 10ms}, fault: {pause: active-controller}, until: {at: 9s}}
  - {when: {at: 2s}, fault: {partition: {isolate: [broker-1, "isr(orders-0)[1]"]}}, until: {seen: isr-shrunk}}
  - {when: {at: 3s}, fault: {delay: {from: brokers, to: clients, by: 5ms, jitter: 1ms}}, for: 2s}
  - {when: {at: 3s}, fault: {partition: {between: controllers, and: any(1)}}, for: 2s}
variants:
  old: {about: Older., features: {kip-595: kafka}, config: {broker.session.timeout.ms: 4000}, duration: 12s,
        versions: {Fetch: 5-11}, nodes: {broker-3: {config: {num.io.threads: 3}}}, must-happen: []}
"""


def node(plan: Plan, name: str) -> NodeSpec:
    return next(spec for spec in plan.nodes if spec.name == name)


def test_nodes_are_named_and_numbered() -> None:
    """Shows the run's nodes in order: controllers from 101, brokers from 1, clients by kind and order."""
    plan = plan_of()
    assert [(spec.name, spec.node_id) for spec in plan.nodes] == [
        ("controller-1", 101),
        ("controller-2", 102),
        ("controller-3", 103),
        ("broker-1", 1),
        ("broker-2", 2),
        ("broker-3", 3),
        ("producer-1", -1),
        ("consumer-1", -1),
    ]
    assert plan.cluster.voters == [101, 102, 103]
    assert node(plan, "producer-1").workload == {"topic": "orders", "partitions": [0], "rate": 100.0}
    assert node(plan, "consumer-1").config == default_config("consumer")
    assert len({spec.directory_id for spec in plan.nodes}) == len(plan.nodes)


def test_a_plan_says_of_itself_what_its_variant_does() -> None:
    """Shows that the words of a variant follow those of the scenario, once, also where the plan is read again."""
    loaded = load_text(f"{BASE}about: A crash.\n{RICH}")
    assert resolve(loaded).about == "A crash."
    plan = resolve(loaded, "old")
    assert plan.about == "A crash. Older."
    assert resolve(load_text(plan.yaml())).about == plan.about
    assert str(plan.schedule[1].when) == "when seen for the 3rd time: rpc(api=Fetch), 10ms after that"


def test_counts_number_clients_on() -> None:
    """Shows that several entries of a kind, each with a count, are numbered in one row."""
    more = "  - producer: {topic: orders, rate: 1/s, count: 2, acks: 1}\n  - producer: {topic: orders, rate: 2/s}\n"
    plan = resolve(load_text(BASE + more))
    producers = [spec for spec in plan.nodes if spec.role == "producer"]
    assert [(spec.name, spec.workload["rate"]) for spec in producers] == [
        ("producer-1", 100.0),
        ("producer-2", 1.0),
        ("producer-3", 1.0),
        ("producer-4", 2.0),
    ]
    assert [spec.config["acks"] for spec in producers] == ["all", "1", "1", "all"]
    assert [spec.config["enable.idempotence"] for spec in producers] == [True, False, False, True]


def test_a_producer_among_others_may_have_other_acks() -> None:
    """Shows that what ``nodes`` has for one producer wins over its entry, and that its idempotence follows."""
    more = "  - producer: {topic: orders, rate: 1/s, acks: all, count: 2}\nnodes: {producer-3: {config: {acks: 1}}}\n"
    plan = resolve(load_text(BASE + more))
    found = [(spec.config["acks"], spec.config["enable.idempotence"]) for spec in plan.nodes if spec.role == "producer"]
    assert found == [("all", True), ("all", True), ("1", False)]
    assert resolve(load_text(plan.yaml())) == plan


def test_layers_win_from_the_cluster_to_the_node() -> None:
    """Shows defaults, the scenario's values and a node's own, for features, versions and configuration."""
    plan = plan_of(RICH)
    assert plan.features["kip-595.leader-progress"] == "kafka"
    assert plan.features["kip-595.own-epoch-commit"] == "off"
    third, second = node(plan, "broker-3"), node(plan, "broker-2")
    assert (third.features["kip-207"], second.features["kip-207"]) == ("off", "kafka")
    assert (third.versions["ListOffsets"], second.versions["ListOffsets"]) == ([1, 4], [1, 11])
    assert third.versions["Fetch"] == [4, 12]
    assert (third.config["num.io.threads"], second.config["num.io.threads"]) == (2, 8)
    assert node(plan, "consumer-1").config["fetch.max.wait.ms"] == 100
    assert "acks" not in third.config
    assert all(spec.defects == ["list-log-end"] for spec in plan.nodes)
    assert plan.profile()["nodes"]["broker-3"] == {
        "features": third.features,
        "versions": third.versions,
        "config": {"num.io.threads": 2},
    }


def test_a_disk_of_another_cluster_is_in_the_profile() -> None:
    """Shows which nodes are strangers, and that invariants are told of their cluster."""
    plan = plan_of("nodes: {controller-1: {cluster-id: another}}\n")
    assert plan.strangers == ["controller-1"]
    assert plan.profile()["nodes"]["controller-1"] == {"cluster_id": "another"}


def test_members_that_stall_for_too_long_are_in_the_profile() -> None:
    """Shows that invariants are told of members that stop polling for longer than max.poll.interval.ms, and of no
    others."""
    consumers = [
        f"  - consumer: {{topic: orders, group: billing, stall: {{every: 9s, lasts: {lasts}}}, "
        "config: {max.poll.interval.ms: 2000}}\n"
        for lasts in ("2s", "3s")
    ]
    assert plan_of("".join(consumers)).profile()["stalling"] == ["consumer-3"]


def test_members_that_may_be_turned_away_are_in_the_profile() -> None:
    """Shows that these are the members of a group with a maximum size, and those that share a group.instance.id."""
    ids = ["a", "a", "b"]
    members = [
        f"  - consumer: {{topic: orders, group: billing, config: {{group.instance.id: {each}}}}}\n" for each in ids
    ]
    plan = plan_of("".join(members))
    assert plan.profile()["unwelcome"] == ["consumer-2", "consumer-3"]
    assert "unwelcome" not in plan_of(members[0]).profile()
    limited = plan_of("".join(members[1:]) + "nodes: {broker-2: {config: {group.max.size: 5}}}\n")
    assert limited.profile()["unwelcome"] == ["consumer-2", "consumer-3"]


def test_a_variant_wins_over_the_scenario_and_a_setting_over_both() -> None:
    """Shows the order of layers, with a feature's plain name in a later layer over a single switch before it."""
    loaded = load_text(BASE + RICH)
    plan = resolve(loaded, "old")
    assert plan.features["kip-595.own-epoch-commit"] == "kafka"
    assert plan.config["broker.session.timeout.ms"] == 4000
    assert (plan.duration_us, plan.versions["Fetch"]) == (12_000_000, [5, 11])
    assert node(plan, "broker-3").config["num.io.threads"] == 3
    assert node(plan, "broker-3").features["kip-207"] == "off"
    assert plan.expect.must_happen == []
    settings = ["config.broker.session.timeout.ms=5000", "nodes.broker-3.config.num.io.threads=4", "duration=13s"]
    settings += ["features.kip-207=seed", "versions.Fetch=7", "seed=99", "cluster.config.num.io.threads=6"]
    plan = resolve(loaded, "old", settings=settings)
    assert plan.config["broker.session.timeout.ms"] == 5000
    assert node(plan, "broker-3").config["num.io.threads"] == 4
    assert node(plan, "broker-2").config["num.io.threads"] == 6
    assert (plan.duration_us, plan.versions["Fetch"], plan.seed) == (13_000_000, [7, 7], 99)
    assert plan.features["kip-207"] == "seed"
    assert resolve(loaded, "old").config["broker.session.timeout.ms"] == 4000


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("features.kip-207", "there is no value; expected KEY=VALUE"),
        ("feature.kip-207=off", "nothing to set by that name"),
        ("features.kip-207=sed", "'sed' is not a value of kip-207; expected one of off, seed, kafka"),
        ("features.kip-209=off", "unknown feature kip-209"),
        ("config.no.such.key=1", "unknown configuration key no.such.key"),
        ("duration=-3s", "'-3s' is negative"),
        ("seed=many", "'many' is of the wrong type; expected a whole number"),
        ("cluster.brokers=0", "0 is out of range; expected at least 1"),
        ("nodes.broker-7.features.kip-207=off", "unknown node broker-7"),
        ("name=other", "nothing to set by that name"),
    ],
)
def test_a_wrong_setting_is_blamed_on_the_option(setting: str, message: str) -> None:
    """Shows that a mistake in --set names the option, not the file."""
    with pytest.raises(InputError) as caught:
        resolve(load_text(BASE), settings=[setting])
    assert str(caught.value).startswith(f"--set {setting}: ")
    assert message in str(caught.value)


def test_a_setting_that_breaks_another_part_is_found() -> None:
    """Shows that the scenario is checked again as a whole: two brokers cannot hold three replicas."""
    with pytest.raises(InputError, match=r"replicas\[0\]: there is no broker 3; expected ids from 1 to 2"):
        resolve(load_text(BASE, "staged.yaml"), settings=["cluster.brokers=2"])


def test_unknown_variants_and_defects_are_input_errors() -> None:
    """Shows the nearest name for a variant or a defect that does not exist."""
    with pytest.raises(
        InputError, match=r"there is no variant of; did you mean off\? Expected one of off, seed, kafka"
    ):
        resolve(library.load("kip-207"), "of")
    with pytest.raises(InputError, match="--defect hw-ignores: no such defect"):
        resolve(load_text(BASE), defects=["hw-ignores"])


def test_draws_come_from_the_seed_and_are_told() -> None:
    """Shows that any(n) becomes names, the same for a seed, and that the plan says which."""
    plan = plan_of(RICH, seed=3)
    assert plan.drawn == plan_of(RICH, seed=3).drawn
    assert set(plan.drawn) == {"chaos[0].fault.crash[0]", "chaos[4].fault.partition.and[0]"}
    draws = {tuple(plan_of(RICH, seed=seed).drawn["chaos[0].fault.crash[0]"]) for seed in range(20)}
    assert len(draws) == 3


@pytest.mark.parametrize("variant", ["", "old"])
def test_a_resolved_scenario_resolves_to_itself(variant: str) -> None:
    """Shows that the file in a run directory is a scenario, and gives the very plan it was written from."""
    plan = resolve(load_text(BASE + RICH), variant, seed=5)
    for again in (resolve(load_text(plan.yaml())), resolve(load_text(plan.yaml()), variant)):
        assert again.drawn == {}
        assert msgspec.structs.replace(again, drawn=plan.drawn) == plan


def test_ids_depend_on_seed_and_name_alone() -> None:
    """Shows that ids look like Kafka's and that a run of the same seed has the same ones."""
    first, second = plan_of(), plan_of()
    assert first == second
    assert first.cluster.topics[0].topic_id != plan_of(seed=2).cluster.topics[0].topic_id
    assert all(len(spec.directory_id) == 22 for spec in first.nodes)


def test_partitions_are_spread_round_robin() -> None:
    """Shows the assignment that partitions and replication give."""
    text = BASE.replace("{replicas: [[1, 2, 3]]}", "{partitions: 4, replication: 2}")
    assert resolve(load_text(text)).cluster.topics[0].replicas == [[1, 2], [2, 3], [3, 1], [1, 2]]


def test_a_prober_may_ask_as_a_broker() -> None:
    """Shows that replica-id reaches the node's workload, and that the resolved file keeps it."""
    base = BASE + "  - list-offsets: {topic: orders, every: 20ms, replica-id: 3}\n"
    plan = plan_of(base=base + "  - list-offsets: {topic: orders, every: 20ms}\n")
    assert [node(plan, f"list-offsets-{number}").workload["replica_id"] for number in (1, 2)] == [3, -1]
    again = resolve(load_text(plan.yaml()))
    assert [spec.workload for spec in again.nodes] == [spec.workload for spec in plan.nodes]


def test_a_consumer_may_begin_at_an_offset() -> None:
    """Shows that seek reaches the node's workload, the timeline and the resolved file."""
    base = BASE + "  - consumer: {topic: orders, seek: 7}\n"
    plan = plan_of(base=base + "  - consumer: {topic: orders}\n")
    assert sorted(spec.workload["seek"] for spec in plan.nodes if spec.role == "consumer")[-2:] == [-1, 7]
    again = resolve(load_text(plan.yaml()))
    assert [spec.workload for spec in again.nodes] == [spec.workload for spec in plan.nodes]


def test_a_trigger_on_a_log_may_name_the_metadata_log() -> None:
    """Shows that log-reached takes the metadata log, and a trigger on elections of partitions does not."""
    seen = "must-happen: [{log-reached: {tp: __cluster_metadata-0, offset: 9}}]\n"
    assert plan_of(seen).expect.must_happen[0].arguments == {"tp": "__cluster_metadata-0", "offset": 9}
    with pytest.raises(InputError, match="unknown topic partition __cluster_metadata-0"):
        plan_of("must-happen: [{leader-elected: {tp: __cluster_metadata-0}}]\n")


def test_selectors_of_triggers_are_written_down() -> None:
    """Shows that any(n) of a trigger is drawn and told, that other selectors wait for the run, and that the resolved
    file resolves to the same again."""
    chaos = (
        "chaos:\n"
        "  - when: {seen: {node-restarted: {node: 'any(2)'}}}\n"
        "    fault: {pause: broker-1}\n"
        "    until: {seen: {truncated: {node: ['leader( orders-0 )', broker-2]}}}\n"
        "must-happen: [{rpc: {api: Fetch, node: observers, to: 'any(1, controllers)'}}]\n"
    )
    plan = plan_of(chaos)
    (scheduled,) = plan.schedule
    assert isinstance(scheduled.when, Seen) and isinstance(scheduled.until, Seen)
    drawn = scheduled.when.predicate.arguments["node"]
    assert len(set(drawn)) == 2 and plan.drawn["chaos[0].when.seen.node-restarted.node[0]"] == drawn
    assert scheduled.until.predicate.arguments == {"node": ["leader(orders-0)", "broker-2"]}
    assert str(scheduled.until) == "when seen: truncated(node=leader(orders-0) or broker-2)"
    (server,) = plan.drawn["must-happen[0].rpc.to[0]"]
    assert plan.expect.must_happen[0].arguments == {"api": "Fetch", "node": "observers", "to": server}
    again = resolve(load_text(plan.yaml()))
    assert (again.schedule, again.expect, again.yaml()) == (plan.schedule, plan.expect, plan.yaml())


def test_changes_of_the_voters_are_written_down() -> None:
    """Shows that the resolved scenario names who is added and who is removed, and resolves to the same again."""
    chaos = (
        "chaos:\n"
        "  - {when: {at: 1s}, action: {add-voter: {controller: controller-4}}}\n"
        "  - {when: {at: 2s}, action: {remove-voter: {controller: controller-1}}}\n"
    )
    cluster = BASE.replace("cluster:\n", "features: {kraft.version: '1'}\ncluster:\n  spare-controllers: 1\n")
    text = resolve(load_text(cluster + chaos, "mine.yaml")).yaml()
    assert "controller-4" in text and "remove-voter" in text
    assert resolve(load_text(text, "again.yaml")).yaml() == text


def test_a_coordinator_has_a_disk_whatever_its_transactional_id_is_called() -> None:
    """Shows that a disk fault may hit the coordinator of a transactional id that is the name of a client."""
    text = BASE.replace("rate: 100/s}", "rate: 100/s, transactional: {}}")
    coordinator = "transaction-coordinator(producer-1)"
    fault = f"chaos: [{{when: {{at: 1s}}, fault: {{power-loss: {coordinator}}}, for: 1s}}]"
    plan = resolve(load_text(f"{text}\n{fault}\n", "staged.yaml"), None, 1)
    assert [each.fault.kind for each in plan.schedule] == ["power-loss"]


def test_a_producer_may_stay_in_its_last_transaction() -> None:
    """Shows that the time reaches the producer, and the scenario as it ran; without it the producer stays in none."""
    text = BASE.replace("rate: 100/s}", "rate: 100/s, transactional: {last-stay: 20s}}")
    plan = resolve(load_text(text, "mine.yaml"))
    assert _last_stays(plan) == [20_000]
    assert resolve(load_text(plan.yaml(), "again.yaml")).yaml() == plan.yaml()
    assert _last_stays(resolve(load_text(text.replace("last-stay: 20s", ""), "mine.yaml"))) == [0]


def _last_stays(plan: Plan) -> list[int]:
    return [node.workload["last_hold_ms"] for node in plan.nodes if node.role == "transactional-producer"]
