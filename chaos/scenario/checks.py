"""References between the parts of a scenario: nodes, topics, features, configuration keys, versions, triggers.

The models see one value at a time; these checks see the whole, for every variant, whether it will be run or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.config import Scope
from actors.defects.catalogue import DEFECTS
from chaos.errors import Mistake
from chaos.scenario.clients import client_scopes
from chaos.scenario.durations import format_duration
from chaos.scenario.group_checks import check_membership
from chaos.scenario.invariant_ids import INVARIANT_IDS
from chaos.scenario.metadata_checks import check_metadata_epochs
from chaos.scenario.mistakes import Mistakes
from chaos.scenario.model import (
    Chaos,
    Client,
    Consumer,
    Expect,
    ListOffsets,
    NodeOverride,
    Scenario,
    Topic,
    Variant,
)
from chaos.scenario.names import client_names, group_names, node_names, transactional_ids
from chaos.scenario.references import References
from chaos.scenario.scalars import COORDINATORS_TOPICS
from chaos.scenario.switch_checks import (
    SERVER_SCOPES,
    check_bootstrap,
    check_config,
    check_features,
    check_versions,
    scopes_of,
)
from chaos.scenario.trigger_checks import check_trigger
from chaos.scenario.triggers import ASKED
from chaos.scenario.voter_checks import check_directories, check_voters
from chaos.scenario.yaml_tree import Document, Path_


def check_references(scenario: Scenario, document: Document) -> list[Mistake]:
    """Everything that is wrong between the parts of ``scenario``."""
    mistakes = Mistakes(document)
    nodes = node_names(scenario)
    topics = {name: _replicas(topic) for name, topic in scenario.cluster.topics.items()}
    references = References(nodes, topics, group_names(scenario), transactional_ids(scenario), mistakes)
    _check_cluster(scenario, nodes, mistakes)
    scopes = _scopes(scenario, nodes)
    _check_switches((), scenario.features, scenario.versions, scenario.nodes, scopes, mistakes)
    for index, defect in enumerate(scenario.defects):
        if defect not in DEFECTS:
            mistakes.unknown(("defects", index), defect, "defect", DEFECTS)
    check_voters(scenario.features, ("features",), scenario, scenario.nodes, mistakes)
    check_directories(scenario, [((), scenario)], nodes, mistakes)
    check_metadata_epochs(scenario, [((), scenario)], nodes, mistakes)
    _check_workload(scenario, mistakes)
    for index, chaos in enumerate(scenario.chaos):
        _check_chaos(("chaos", index), chaos, scenario, references)
    references.servers(("heal", "core"), scenario.heal.core or [])
    _check_outcome((), scenario.expect, scenario.must_happen, references)
    for name, variant in scenario.variants.items():
        _check_variant(("variants", name), variant, scenario, references)
    return mistakes.found


def _check_variant(path: Path_, variant: Variant, scenario: Scenario, references: References) -> None:
    nodes, mistakes = references.nodes, references.mistakes
    scopes = _scopes(scenario, nodes)
    _check_switches(path, variant.features, variant.versions, variant.nodes, scopes, mistakes)
    check_config((*path, "config"), variant.config, SERVER_SCOPES, mistakes)
    check_bootstrap((*path, "config"), variant.config, nodes, mistakes)
    merged = {**scenario.features, **variant.features}
    check_voters(merged, (*path, "features"), scenario, variant.nodes, mistakes)
    check_directories(scenario, [((), scenario), (path, variant)], nodes, mistakes)
    check_metadata_epochs(scenario, [((), scenario), (path, variant)], nodes, mistakes)
    _check_outcome(path, variant.expect, variant.must_happen or [], references)
    for index, chaos in enumerate(scenario.chaos if variant.duration is not None else []):
        end = chaos_end_us(chaos)
        if variant.duration is not None and end is not None and end > variant.duration:
            mistakes.add((*path, "duration"), f"chaos[{index}] ends later", f"at least {format_duration(end)}")


# ---- cluster ---------------------------------------------------------------------------------------------------


def _check_cluster(scenario: Scenario, nodes: list[str], mistakes: Mistakes) -> None:
    cluster = scenario.cluster
    check_config(("cluster", "config"), cluster.config, SERVER_SCOPES, mistakes)
    check_bootstrap(("cluster", "config"), cluster.config, nodes, mistakes)
    if cluster.remote_store is not None:
        check_config(("cluster", "remote-store", "config"), cluster.remote_store.config, ("remote-store",), mistakes)
    for name, topic in cluster.topics.items():
        path: Path_ = ("cluster", "topics", name)
        if name.startswith("__") and name not in COORDINATORS_TOPICS:
            mistakes.add(path, "names that begin with __ are Kafka's own", "another name")
        check_config((*path, "config"), topic.config, ("topic",), mistakes)
        _check_assignment(path, topic, cluster.brokers, mistakes)


def _replicas(topic: Topic) -> list[int]:
    """The number of replicas of each partition."""
    if topic.replicas is not None:
        return [len(replicas) for replicas in topic.replicas]
    return [topic.replication or 1] * (topic.partitions or 1)


def _check_assignment(path: Path_, topic: Topic, brokers: int, mistakes: Mistakes) -> None:
    if topic.replication is not None and topic.replication > brokers:
        mistakes.add(
            (*path, "replication"), f"{topic.replication} replicas", f"at most {brokers}, the number of brokers"
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


def _scopes(scenario: Scenario, nodes: list[str]) -> dict[str, tuple[Scope, ...]]:
    """Which configuration keys each node reads."""
    clients = {name: client_scopes(kind, client) for kind, named, client in client_names(scenario) for name in named}
    return {name: clients[name] if name in clients else scopes_of(name) for name in nodes}


def _check_switches(
    path: Path_,
    features: Mapping[str, str],
    versions: Mapping[str, list[int]],
    overrides: Mapping[str, NodeOverride],
    scopes: Mapping[str, tuple[Scope, ...]],
    mistakes: Mistakes,
) -> None:
    check_features((*path, "features"), features, mistakes)
    check_versions((*path, "versions"), versions, mistakes)
    for name, override in overrides.items():
        place = (*path, "nodes", name)
        if name not in scopes:
            mistakes.unknown(place, name, "node", list(scopes))
            continue
        check_features((*place, "features"), override.features, mistakes)
        check_versions((*place, "versions"), override.versions, mistakes)
        if override.cluster_id is not None and not name.startswith(("controller-", "broker-")):
            mistakes.add((*place, "cluster-id"), f"{name} has no disk", "a controller or a broker")
        check_config((*place, "config"), override.config, scopes[name], mistakes)
        check_bootstrap((*place, "config"), override.config, list(scopes), mistakes)


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
        check_config((*path, "config"), client.config, client_scopes(kind, client), mistakes)
        _check_acks(path, scenario, index, names, mistakes)
        if isinstance(client, ListOffsets):
            _check_prober(path, client, scenario.cluster.brokers, mistakes)
        if isinstance(client, Consumer):
            check_membership(path, client, mistakes)
            if client.copy_to is not None and client.copy_to not in scenario.cluster.topics:
                mistakes.unknown((*path, "copy-to"), client.copy_to, "topic", scenario.cluster.topics)
        if isinstance(client, Consumer) and client.external_offsets is not None and client.seek is not None:
            wrong = "the consumer begins at its own offsets and at this one"
            mistakes.add((*path, "seek"), wrong, "either seek or external-offsets")


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
            mistakes.add(
                (*path, "config", name), f"{name} is given twice", "it in one place: at the producer, or in config"
            )
    acks = producer.config.get("acks", "all" if producer.acks is None else producer.acks)
    idempotent = producer.config.get("enable.idempotence", producer.idempotent)
    if idempotent and str(acks) != "all":
        mistakes.add((*path, "acks"), f"an idempotent producer with acks {acks}", "acks: all, or idempotent: false")
        return
    if producer.transactional is not None and (str(acks) != "all" or idempotent is False):
        wrong = "transactions need an idempotent producer"
        mistakes.add((*path, "transactional"), wrong, "acks: all, and idempotent: true or nothing of it")
    if producer.transactional is None and producer.config.get("transactional.id"):
        place = (*path, "config", "transactional.id")
        mistakes.add(place, "the application sends outside of transactions", "transactional beside it")
    for name in names:
        own = scenario.nodes[name].config if name in scenario.nodes else {}
        if own.get("enable.idempotence", idempotent) and str(own.get("acks", acks)) != "all":
            wrong = f"an idempotent producer with acks {own.get('acks', acks)}"
            key = "acks" if "acks" in own else "enable.idempotence"
            mistakes.add(("nodes", name, "config", key), wrong, "acks: all, or enable.idempotence: false")


def _check_partitions(path: Path_, client: Client, topic: Topic, mistakes: Mistakes) -> None:
    if client.partitions is None:
        return
    count = len(_replicas(topic))
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
    if chaos.when.at is None or chaos.lasts is None or chaos.what.waits_for_point:
        return None
    return chaos.when.at + chaos.lasts


def _check_chaos(path: Path_, chaos: Chaos, scenario: Scenario, references: References) -> None:
    limit, mistakes = format_duration(scenario.duration), references.mistakes
    end = chaos_end_us(chaos)
    what = chaos.what.section
    if chaos.when.at is not None and chaos.when.at >= scenario.duration:
        mistakes.add((*path, "when", "at"), f"the {what} begins after the chaos", f"less than the duration, {limit}")
    elif end is not None and end > scenario.duration:
        key = "for" if chaos.until is None else "until"
        mistakes.add((*path, key), f"the {what} ends at {format_duration(end)}", f"at most the duration, {limit}")
    if chaos.until is not None and chaos.until.at is not None and chaos.until.at <= (chaos.when.at or 0):
        mistakes.add((*path, "until", "at"), f"the {what} ends before it begins", "a later time")
    for key, moment in (("when", chaos.when), ("until", chaos.until)):
        if moment is not None and moment.seen is not None:
            check_trigger((*path, key, "seen"), moment.seen, references)
    chaos.what.check((*path, what, chaos.what.kind), references)


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
    references: References,
) -> None:
    mistakes = references.mistakes
    where: dict[str, str] = {}
    for key in ("violated", "held", "excused", "may"):
        for index, invariant in enumerate(getattr(expect, key, [])):
            place = (*path, "expect", key, index)
            if check_invariant(place, invariant, mistakes) and where.setdefault(invariant, key) != key:
                mistakes.add(place, f"{invariant} is also in {where[invariant]}", "each invariant in one list")
    for index, answer in enumerate(getattr(expect, "asked", [])):
        check_trigger((*path, "expect", "asked", index), {ASKED: answer}, references)
    for index, reference in enumerate(must_happen):
        check_trigger((*path, "must-happen", index), reference, references)
