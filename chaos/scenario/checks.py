"""References between the parts of a scenario: nodes, topics, features, configuration keys, versions, triggers.

The models see one value at a time; these checks see the whole, for every variant, whether it will be run or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.config import CONFIG, ConfigKey, Scope
from actors.crash_points import FILES, POINTS
from actors.defects import DEFECTS
from actors.features import FEATURES
from actors.node.messages import Api
from actors.node.spec import METADATA_PARTITION
from actors.quorum.raft_config import BOOTSTRAP_SERVERS, bootstrap_servers
from actors.versions import API_VERSIONS
from chaos.errors import Mistake, nearest
from chaos.scenario.durations import format_duration, format_versions
from chaos.scenario.feature_groups import FEATURE_GROUPS
from chaos.scenario.invariant_ids import INVARIANT_IDS
from chaos.scenario.mistakes import Mistakes
from chaos.scenario.model import (
    Action,
    Chaos,
    Client,
    Configure,
    Expect,
    Fault,
    ListOffsets,
    NodeOverride,
    RollingBounce,
    Scenario,
    Stop,
    Topic,
    Variant,
)
from chaos.scenario.names import client_names, node_names
from chaos.scenario.selector_checks import check_selectors, check_topic_partition, partition_count
from chaos.scenario.selectors import Selector, members
from chaos.scenario.trigger_checks import check_trigger
from chaos.scenario.voter_checks import check_directories, check_voters
from chaos.scenario.yaml_tree import Document, Path_

SERVER_SCOPES: tuple[Scope, ...] = ("controller", "broker", "krift")
CLIENT_SCOPES: dict[str, tuple[Scope, ...]] = {
    "producer": ("producer",),
    "consumer": ("consumer",),
    "list-offsets": ("consumer",),
    "admin": ("admin",),
}


def check_references(scenario: Scenario, document: Document) -> list[Mistake]:
    """Everything that is wrong between the parts of ``scenario``."""
    mistakes = Mistakes(document)
    nodes = node_names(scenario)
    _check_cluster(scenario, nodes, mistakes)
    _check_switches((), scenario.features, scenario.versions, scenario.nodes, nodes, mistakes)
    for index, defect in enumerate(scenario.defects):
        if defect not in DEFECTS:
            mistakes.unknown(("defects", index), defect, "defect", DEFECTS)
    check_voters(scenario.features, ("features",), scenario, scenario.nodes, mistakes)
    check_directories(scenario, [((), scenario)], nodes, mistakes)
    _check_workload(scenario, mistakes)
    for index, chaos in enumerate(scenario.chaos):
        _check_chaos(("chaos", index), chaos, scenario, nodes, mistakes)
    _check_servers(("heal", "core"), scenario.heal.core or [], scenario, nodes, mistakes)
    _check_outcome((), scenario.expect, scenario.must_happen, scenario, nodes, mistakes)
    for name, variant in scenario.variants.items():
        _check_variant(("variants", name), variant, scenario, nodes, mistakes)
    return mistakes.found


def _check_variant(path: Path_, variant: Variant, scenario: Scenario, nodes: list[str], mistakes: Mistakes) -> None:
    _check_switches(path, variant.features, variant.versions, variant.nodes, nodes, mistakes)
    check_config((*path, "config"), variant.config, SERVER_SCOPES, mistakes)
    check_bootstrap((*path, "config"), variant.config, nodes, mistakes)
    merged = {**scenario.features, **variant.features}
    check_voters(merged, (*path, "features"), scenario, variant.nodes, mistakes)
    check_directories(scenario, [((), scenario), (path, variant)], nodes, mistakes)
    _check_outcome(path, variant.expect, variant.must_happen or [], scenario, nodes, mistakes)
    for index, chaos in enumerate(scenario.chaos if variant.duration is not None else []):
        end = chaos_end_us(chaos)
        if variant.duration is not None and end is not None and end > variant.duration:
            mistakes.add((*path, "duration"), f"chaos[{index}] ends later", f"at least {format_duration(end)}")


# ---- cluster ---------------------------------------------------------------------------------------------------


def _check_cluster(scenario: Scenario, nodes: list[str], mistakes: Mistakes) -> None:
    cluster = scenario.cluster
    check_config(("cluster", "config"), cluster.config, SERVER_SCOPES, mistakes)
    check_bootstrap(("cluster", "config"), cluster.config, nodes, mistakes)
    for name, topic in cluster.topics.items():
        path: Path_ = ("cluster", "topics", name)
        if name.startswith("__"):
            mistakes.add(path, "names that begin with __ are Kafka's own", "another name")
        check_config((*path, "config"), topic.config, ("topic",), mistakes)
        _check_assignment(path, topic, cluster.brokers, mistakes)


def _check_assignment(path: Path_, topic: Topic, brokers: int, mistakes: Mistakes) -> None:
    if topic.replication is not None and topic.replication > brokers:
        mistakes.add(
            (*path, "replication"), f"{topic.replication} replicas", f"at most {brokers}, the brokers there are"
        )
    if topic.replicas is not None and not 1 <= len(topic.replicas) <= 1000:
        mistakes.add((*path, "replicas"), "no partition is given", "1 to 1000 lists of broker ids")
    for index, replicas in enumerate(topic.replicas or []):
        place = (*path, "replicas", index)
        if not replicas:
            mistakes.add(place, "the partition has no replica", "at least one broker id")
        if len(set(replicas)) != len(replicas):
            mistakes.add(place, "a broker is named twice", "each broker once")
        for broker in sorted(set(replicas)):
            if not 1 <= broker <= brokers:
                mistakes.add(place, f"there is no broker {broker}", f"ids from 1 to {brokers}")


def _check_switches(
    path: Path_,
    features: Mapping[str, str],
    versions: Mapping[str, list[int]],
    overrides: Mapping[str, NodeOverride],
    nodes: list[str],
    mistakes: Mistakes,
) -> None:
    check_features((*path, "features"), features, mistakes)
    check_versions((*path, "versions"), versions, mistakes)
    for name, override in overrides.items():
        place = (*path, "nodes", name)
        if name not in nodes:
            mistakes.unknown(place, name, "node", nodes)
            continue
        check_features((*place, "features"), override.features, mistakes)
        check_versions((*place, "versions"), override.versions, mistakes)
        if override.cluster_id is not None and not name.startswith(("controller-", "broker-")):
            mistakes.add((*place, "cluster-id"), f"{name} has no disk", "a controller or a broker")
        check_config((*place, "config"), override.config, scopes_of(name), mistakes)
        check_bootstrap((*place, "config"), override.config, nodes, mistakes)


def scopes_of(node: str) -> tuple[Scope, ...]:
    """Which configuration keys a node reads."""
    kind = node.rpartition("-")[0]
    if kind == "controller":
        return ("controller",)
    return ("broker", "krift") if kind == "broker" else CLIENT_SCOPES[kind]


def check_features(path: Path_, features: Mapping[str, str], mistakes: Mistakes) -> None:
    """Names and values of feature switches."""
    for name, value in features.items():
        switches = FEATURE_GROUPS.get(name, (name,))
        known = [FEATURES[switch] for switch in switches if switch in FEATURES]
        if not known:
            mistakes.unknown((*path, name), name, "feature", [*FEATURES, *FEATURE_GROUPS])
        elif any(value not in feature.values for feature in known):
            values = [v for v in known[0].values if all(v in feature.values for feature in known)]
            mistakes.add((*path, name), f"{value!r} is not a value of {name}", "one of " + ", ".join(values))


def check_versions(path: Path_, versions: Mapping[str, list[int]], mistakes: Mistakes) -> None:
    """Names of APIs and ranges that Krift speaks."""
    for name, (low, high) in versions.items():
        if name not in Api.__members__:
            mistakes.unknown((*path, name), name, "API", Api.__members__)
            continue
        bounds = API_VERSIONS[Api[name]]
        if low < bounds[0] or high > bounds[1]:
            wrong = f"{name} {format_versions(low, high)} is not spoken"
            mistakes.add((*path, name), wrong, f"versions within {format_versions(*bounds)}")


def check_config(path: Path_, config: Mapping[str, Any], scopes: tuple[Scope, ...], mistakes: Mistakes) -> None:
    """Names, types and bounds of configuration keys, and whether they belong here."""
    for name, value in config.items():
        key = CONFIG.get(name)
        place = (*path, name)
        if key is None:
            mistakes.unknown(
                place, name, "configuration key", [k for k in CONFIG if set(CONFIG[k].scopes) & set(scopes)]
            )
        elif not set(key.scopes) & set(scopes):
            mistakes.add(
                place,
                f"{name} is no key of a {' or '.join(s for s in scopes if s != 'krift')}",
                f"it in the config of a {' or '.join(key.scopes)}",
            )
        else:
            expected = _config_expected(key, value)
            if expected:
                mistakes.add(place, f"{value!r} is not a value of {name}", expected)


def check_bootstrap(path: Path_, config: Mapping[str, Any], nodes: list[str], mistakes: Mistakes) -> None:
    """Whoever is asked for the leader must be a controller of the cluster."""
    text = config.get(BOOTSTRAP_SERVERS)
    controllers = [name for name in nodes if name.startswith("controller-")]
    for name in bootstrap_servers(text) if isinstance(text, str) else []:
        if name not in controllers:
            mistakes.unknown((*path, BOOTSTRAP_SERVERS), name, "controller", controllers)


def _config_expected(key: ConfigKey, value: Any) -> str:
    """What the key expects, or "" if ``value`` will do."""
    if isinstance(key.default, bool):
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(key.default, int):
        if isinstance(value, int) and not isinstance(value, bool) and key.low <= value <= key.high:
            return ""
        return f"a whole number from {key.low} to {key.high}"
    if not key.choices:
        return "" if isinstance(value, str) else "a text"
    return "" if str(value) in key.choices else "one of " + ", ".join(key.choices)


# ---- workload --------------------------------------------------------------------------------------------------


def _check_workload(scenario: Scenario, mistakes: Mistakes) -> None:
    for index, (kind, names, client) in enumerate(client_names(scenario)):
        path = ("workload", index, kind)
        if client.topic not in scenario.cluster.topics:
            mistakes.unknown((*path, "topic"), client.topic, "topic", scenario.cluster.topics)
        else:
            _check_partitions((*path, "partitions"), client, scenario.cluster.topics[client.topic], mistakes)
        check_features((*path, "features"), client.features, mistakes)
        check_versions((*path, "versions"), client.versions, mistakes)
        check_config((*path, "config"), client.config, CLIENT_SCOPES[kind], mistakes)
        _check_acks(path, scenario, index, names, mistakes)
        if isinstance(client, ListOffsets):
            _check_prober(path, client, scenario.cluster.brokers, mistakes)


def _check_prober(path: Path_, client: ListOffsets, brokers: int, mistakes: Mistakes) -> None:
    if client.every % 1_000:
        mistakes.add((*path, "every"), f"{format_duration(client.every)} is too fine", "whole milliseconds")
    if client.replica_id is not None and not 1 <= client.replica_id <= brokers:
        mistakes.add((*path, "replica-id"), f"there is no broker {client.replica_id}", f"an id from 1 to {brokers}")


def _check_acks(path: Path_, scenario: Scenario, index: int, names: list[str], mistakes: Mistakes) -> None:
    producer = scenario.workload[index].producer
    if producer is None:
        return
    for name, given in (("acks", producer.acks), ("enable.idempotence", producer.idempotent)):
        if given is not None and name in producer.config:
            mistakes.add((*path, "config", name), f"{name} is given twice", "it once, at the producer or in config")
    acks = producer.config.get("acks", "all" if producer.acks is None else producer.acks)
    idempotent = producer.config.get("enable.idempotence", producer.idempotent)
    if idempotent and str(acks) != "all":
        mistakes.add((*path, "acks"), f"an idempotent producer with acks {acks}", "acks: all, or idempotent: false")
        return
    for name in names:
        own = scenario.nodes[name].config if name in scenario.nodes else {}
        if own.get("enable.idempotence", idempotent) and str(own.get("acks", acks)) != "all":
            wrong = f"an idempotent producer with acks {own.get('acks', acks)}"
            key = "acks" if "acks" in own else "enable.idempotence"
            mistakes.add(("nodes", name, "config", key), wrong, "acks: all, or enable.idempotence: false")


def _check_partitions(path: Path_, client: Client, topic: Topic, mistakes: Mistakes) -> None:
    if client.partitions is None:
        return
    count = partition_count(topic)
    if not client.partitions or len(set(client.partitions)) != len(client.partitions):
        mistakes.add(path, "the partitions are not each given once", "a list of partition numbers")
    for partition in client.partitions:
        if not 0 <= partition < count:
            mistakes.add(path, f"{client.topic} has no partition {partition}", f"numbers from 0 to {count - 1}")


# ---- chaos and outcome -----------------------------------------------------------------------------------------


def chaos_end_us(chaos: Chaos) -> int | None:
    """When a fault ends, if it is known beforehand."""
    if chaos.until is not None:
        return chaos.until.at
    if chaos.when.at is None or chaos.lasts is None or (chaos.fault is not None and chaos.fault.waits_for_point):
        return None
    return chaos.when.at + chaos.lasts


def _check_chaos(path: Path_, chaos: Chaos, scenario: Scenario, nodes: list[str], mistakes: Mistakes) -> None:
    limit = format_duration(scenario.duration)
    end = chaos_end_us(chaos)
    what = "fault" if chaos.fault is not None else "action"
    if chaos.when.at is not None and chaos.when.at >= scenario.duration:
        mistakes.add((*path, "when", "at"), f"the {what} begins after the chaos", f"less than the duration, {limit}")
    elif end is not None and end > scenario.duration:
        key = "for" if chaos.until is None else "until"
        mistakes.add((*path, key), f"the {what} ends at {format_duration(end)}", f"at most the duration, {limit}")
    if chaos.until is not None and chaos.until.at is not None and chaos.until.at <= (chaos.when.at or 0):
        mistakes.add((*path, "until", "at"), f"the {what} ends before it begins", "a later time")
    for key, moment in (("when", chaos.when), ("until", chaos.until)):
        if moment is not None and moment.seen is not None:
            check_trigger((*path, key, "seen"), moment.seen, scenario, nodes, mistakes)
    if chaos.fault is not None:
        _check_fault((*path, "fault"), chaos.fault, scenario, nodes, mistakes)
    if chaos.action is not None:
        _check_action((*path, "action"), chaos.action, scenario, nodes, mistakes)


def _check_fault(place: Path_, fault: Fault, scenario: Scenario, nodes: list[str], mistakes: Mistakes) -> None:
    for kind in ("partition", "delay", "drop", "duplicate", "reorder"):
        link = getattr(fault, kind)
        for index, api in enumerate(getattr(link, "apis", ())):
            if api not in Api.__members__:
                mistakes.unknown((*place, kind, "apis", index), api, "API", Api.__members__)
        for key, field in (("from", "sources"), ("to", "targets"), ("between", "between"), ("and", "others")):
            check_selectors((*place, kind, key), getattr(link, field, None) or [], scenario, nodes, mistakes)
        check_selectors((*place, kind, "isolate"), getattr(link, "isolate", None) or [], scenario, nodes, mistakes)
    check_selectors((*place, "pause"), fault.pause or [], scenario, nodes, mistakes)
    for kind in ("crash", "power-loss", "torn-tail", "wipe"):
        stop = getattr(fault, kind.replace("-", "_"))
        if stop is not None:
            check = check_selectors if kind == "crash" else _check_disks
            check((*place, kind, "nodes"), stop.nodes, scenario, nodes, mistakes)
            _check_point((*place, kind, "of"), stop, scenario, mistakes)
    if fault.slow_disk is not None:
        _check_disks((*place, "slow-disk", "nodes"), fault.slow_disk.nodes, scenario, nodes, mistakes)
    for kind, clock in (("clock-skew", fault.clock_skew), ("clock-jump", fault.clock_jump)):
        if clock is not None:
            check_selectors((*place, kind, "nodes"), clock.nodes, scenario, nodes, mistakes)


def _check_action(place: Path_, action: Action, scenario: Scenario, nodes: list[str], mistakes: Mistakes) -> None:
    if action.elect is not None and action.elect.partitions != ["all"]:
        for index, tp in enumerate(action.elect.partitions):
            check_topic_partition((*place, "elect", "partitions", index), tp, scenario, mistakes)
    if action.configure is not None:
        _check_configure((*place, "configure"), action.configure, scenario, nodes, mistakes)
    for kind, change in (("add-voter", action.add_voter), ("remove-voter", action.remove_voter)):
        if change is not None:
            path = (*place, kind, "controller")
            _check_servers(path, change.controller, scenario, nodes, mistakes)
            for number, selector in enumerate(change.controller):
                if _role(selector) != "controller":
                    mistakes.add((*path, number), f"{selector} is no controller", "controllers alone")
    if action.controlled_shutdown is not None:
        path = (*place, "controlled-shutdown", "targets")
        _check_servers(path, action.controlled_shutdown.targets, scenario, nodes, mistakes)
    if action.rolling_bounce is not None:
        _check_bounce((*place, "rolling-bounce"), action.rolling_bounce, scenario, nodes, mistakes)


def _check_servers(
    path: Path_, selectors: list[Selector], scenario: Scenario, nodes: list[str], mistakes: Mistakes
) -> None:
    """Selectors of nodes that serve: an operator stops no client."""
    check_selectors(path, selectors, scenario, nodes, mistakes)
    for number, selector in enumerate(selectors):
        if _role(selector) is None:
            mistakes.add((*path, number), f"{selector} is no controller or broker", "controllers and brokers alone")


def _role(selector: Selector) -> Scope | None:
    """Which kind of server a selector means; None for clients."""
    if selector.kind in ("leader", "followers", "isr", "observers"):
        return "broker"
    if selector.kind in ("active-controller", "voters") or selector.argument.startswith("controller"):
        return "controller"
    return "broker" if selector.argument.startswith("broker") else None


def _check_bounce(path: Path_, bounce: RollingBounce, scenario: Scenario, nodes: list[str], mistakes: Mistakes) -> None:
    """The new settings must be such that the nodes read them."""
    _check_servers((*path, "targets"), bounce.targets, scenario, nodes, mistakes)
    check_features((*path, "features"), bounce.features, mistakes)
    check_versions((*path, "versions"), bounce.versions, mistakes)
    roles = {_role(selector) for selector in bounce.targets}
    scopes = tuple(scope for scope in SERVER_SCOPES if scope in roles or (scope == "krift" and "broker" in roles))
    if scopes:
        check_config((*path, "config"), bounce.config, scopes, mistakes)
    check_bootstrap((*path, "config"), bounce.config, nodes, mistakes)


def _check_configure(place: Path_, change: Configure, scenario: Scenario, nodes: list[str], mistakes: Mistakes) -> None:
    """Whether Kafka would take the change: of keys that are dynamic, at resources that are there. Anything else is a
    mistake of the scenario's writer, not something to be tried on a cluster."""
    scope: Scope = "topic" if change.topic is not None else "broker"
    if change.topic is not None and change.topic not in scenario.cluster.topics:
        mistakes.unknown((*place, "topic"), change.topic, "topic", scenario.cluster.topics)
    check_selectors((*place, "broker"), change.broker or [], scenario, nodes, mistakes)
    for number, selector in enumerate(change.broker or []):
        if not _means_brokers(selector):
            mistakes.add((*place, "broker", number), f"{selector} is no broker", "brokers alone")
    check_config((*place, "set"), change.set_, (scope,), mistakes)
    dynamic = [name for name, key in CONFIG.items() if scope in key.scopes and (scope == "topic" or key.dynamic)]
    for path, name in [
        *(((*place, "set", name), name) for name in change.set_ if name in CONFIG and scope in CONFIG[name].scopes),
        *(((*place, "delete", index), name) for index, name in enumerate(change.delete)),
    ]:
        if name not in dynamic:
            wrong = f"{name} is no key of a {scope} that changes without a restart"
            mistakes.add(path, wrong, "one of " + ", ".join(dynamic), nearest(name, dynamic))


def _means_brokers(selector: Selector) -> bool:
    if selector.kind in ("name", "group", "any"):
        return selector.argument.startswith("broker")
    return selector.kind in ("leader", "followers", "isr")


def _check_point(path: Path_, stop: Stop, scenario: Scenario, mistakes: Mistakes) -> None:
    """Whether there is what a crash point is about."""
    if stop.at is None or stop.of is None or stop.of == METADATA_PARTITION:
        return
    subject = POINTS[stop.at].subject
    if subject == "api":
        if stop.of not in Api.__members__:
            mistakes.unknown(path, stop.of, "API", Api.__members__)
    elif subject == "partition" or stop.of not in FILES:
        check_topic_partition(path, stop.of, scenario, mistakes, FILES if subject == "file" else ())


def _check_disks(
    path: Path_, selectors: list[Selector], scenario: Scenario, nodes: list[str], mistakes: Mistakes
) -> None:
    check_selectors(path, selectors, scenario, nodes, mistakes)
    clients = members("clients", nodes)
    for number, selector in enumerate(selectors):
        if selector.argument in ("clients", *clients):
            mistakes.add((*path, number), f"{selector} has no disk", "brokers or controllers")


def check_invariant(path: Path_, name: str, mistakes: Mistakes) -> bool:
    """Whether it is the id of an invariant."""
    known = name in INVARIANT_IDS
    if not known:
        mistakes.add(path, f"{name} is not an invariant", "the id of one that is checked, such as H1")
    return known


def _check_outcome(
    path: Path_,
    expect: Expect | None,
    must_happen: list[dict[str, dict[str, Any]]],
    scenario: Scenario,
    nodes: list[str],
    mistakes: Mistakes,
) -> None:
    where: dict[str, str] = {}
    for key in ("violated", "held", "excused", "may"):
        for index, invariant in enumerate(getattr(expect, key, [])):
            place = (*path, "expect", key, index)
            if check_invariant(place, invariant, mistakes) and where.setdefault(invariant, key) != key:
                mistakes.add(place, f"{invariant} is also in {where[invariant]}", "each invariant in one list")
    for index, reference in enumerate(must_happen):
        check_trigger((*path, "must-happen", index), reference, scenario, nodes, mistakes)
