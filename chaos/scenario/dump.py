"""A resolved scenario as a file that a person can read, and that is itself a scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.control import Predicate
from actors.node.spec import ClusterSpec
from chaos.faults.kinds import entry_of
from chaos.plan import At, Plan, ScheduledFault, Seen
from chaos.scenario.clients import client_config, client_workload
from chaos.scenario.durations import format_duration, format_versions
from chaos.scenario.model import SCHEMA, Client, Consumer, Scenario
from chaos.scenario.names import client_names
from chaos.scenario.scalars import RANDOM, TIMESTAMPS
from chaos.scenario.selectors import Selector


def resolved_document(scenario: Scenario, plan: Plan) -> dict[str, Any]:
    """The scenario with nothing left to default or to draw, as plain values. Loading and resolving it again gives
    the same plan."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "name": plan.scenario,
        "variant": plan.variant,
        "about": plan.about,
        "source": list(scenario.source),
        "seed": plan.seed,
        "duration": format_duration(plan.duration_us),
        "cluster": {
            "voters": scenario.cluster.voters,
            "spare-controllers": scenario.cluster.spare_controllers,
            "brokers": scenario.cluster.brokers,
            **_remote_store(plan),
            "topics": {t.name: {"replicas": t.replicas, "config": dict(t.config)} for t in plan.cluster.topics},
            "config": dict(plan.config),
        },
        "features": dict(plan.features),
        "versions": _ranges(plan.versions),
        "nodes": _overrides(scenario, plan),
        "defects": list(plan.defects),
        "workload": [_client(kind, client, plan.cluster) for kind, _, client in client_names(scenario)],
        "chaos": [_chaos(fault) for fault in plan.schedule],
        "must-happen": [_reference(predicate) for predicate in plan.expect.must_happen],
        "budgets": {
            "steady-state": format_duration(plan.budgets.steady_state_us),
            "heal": format_duration(plan.budgets.heal_us),
            "drain": format_duration(plan.budgets.drain_us),
        },
    }
    if plan.core is not None:
        document["heal"] = {"core": _texts(plan.core) or RANDOM}
    if plan.expect.declared:
        expect: dict[str, Any] = {
            key: list(getattr(plan.expect, key)) for key in ("violated", "held", "excused", "may")
        }
        if plan.expect.asked:
            expect["asked"] = [dict(predicate.arguments) for predicate in plan.expect.asked]
        document["expect"] = expect
    return document


def _remote_store(plan: Plan) -> dict[str, Any]:
    """The remote store with its configuration, where there is one."""
    found = [node for node in plan.nodes if node.role == "remote-store"]
    return {"remote-store": {"config": dict(found[0].config)}} if found else {}


def _ranges(versions: Mapping[str, list[int]]) -> dict[str, str]:
    return {api: format_versions(low, high) for api, (low, high) in versions.items()}


def _overrides(scenario: Scenario, plan: Plan) -> dict[str, Any]:
    configs = {node.name: node.config for node in plan.nodes}
    return {
        name: ({} if override.cluster_id is None else {"cluster-id": override.cluster_id})
        | {
            "features": dict(override.features),
            "versions": _ranges(override.versions),
            "config": {key: configs[name][key] for key in _with_what_follows(override.config)},
        }
        for name, override in scenario.nodes.items()
    }


def _with_what_follows(config: Mapping[str, Any]) -> list[str]:
    """The keys of an override. A producer's idempotence follows its acks where nobody gave it; the workload's entry,
    filled up, gives it."""
    return [*config, *(["enable.idempotence"] if "acks" in config and "enable.idempotence" not in config else [])]


def _client(kind: str, client: Client, cluster: ClusterSpec) -> dict[str, Any]:
    """An entry of the workload, its configuration filled up with defaults."""
    workload = client_workload(client, cluster)
    entry: dict[str, Any] = {
        "topic": client.topic,
        **({} if workload.get("group") else {"partitions": workload["partitions"]}),
        "count": client.count,
        "features": dict(client.features),
        "versions": _ranges(client.versions),
        "config": client_config(kind, client, {}),
    }
    if "transaction_records" in workload:
        entry["transactional"] = _transactions(workload)
    if kind == "producer":
        entry["rate"] = _rate(workload["rate"])
    elif isinstance(client, Consumer):
        if workload["seek"] >= 0:
            entry["seek"] = workload["seek"]
        if client.group is not None:
            entry |= _membership(workload)
        if client.copy_to is not None:
            entry["copy-to"] = client.copy_to
        if client.external_offsets is not None:
            entry["external-offsets"] = {
                "every": f"{workload['external_every_ms']}ms",
                "wait": f"{workload['external_wait_ms']}ms",
            }
        if workload["rewind_every_ms"]:
            entry["rewind"] = {
                "every": f"{workload['rewind_every_ms']}ms",
                "by": f"{workload['rewind_by_ms']}ms",
            }
    elif kind == "list-offsets":
        names = {value: name for name, value in TIMESTAMPS.items()}
        entry["every"] = f"{workload['every_ms']}ms"
        entry["timestamp"] = names.get(workload["timestamp"], workload["timestamp"])
        if "ago_ms" in workload:
            entry["ago"] = f"{workload['ago_ms']}ms"
        if "client" in workload:
            entry["client"] = workload["client"]
        if "together" in workload:
            entry["together"] = workload["together"]
        entry["isolation"] = "read_committed" if workload["isolation"] else "read_uncommitted"
        if workload["replica_id"] >= 0:
            entry["replica-id"] = workload["replica_id"]
    return {kind: entry}


def _transactions(workload: dict[str, Any]) -> dict[str, Any]:
    """What an entry says of transactions."""
    entry: dict[str, Any] = {"records": workload["transaction_records"], "aborts": workload["aborts_percent"]}
    if workload["hold_every_ms"]:
        entry["stay"] = {"every": f"{workload['hold_every_ms']}ms", "lasts": f"{workload['hold_ms']}ms"}
        if workload["hold_after"]:
            entry["stay"]["after"] = workload["hold_after"]
    if workload["last_hold_ms"]:
        entry["last-stay"] = f"{workload['last_hold_ms']}ms"
    if workload.get("transfers"):
        entry["transfers"] = True
    return entry


def _membership(workload: dict[str, Any]) -> dict[str, Any]:
    """What an entry says of a consumer in a group."""
    entry: dict[str, Any] = {"group": workload["group"], "commit": workload["commit"]}
    if workload["commit"] in ("sync", "async"):
        entry["commit-every"] = f"{workload['commit_every_ms']}ms"
    for key, name in (("stall", "stall"), ("absence", "absent")):
        if workload[f"{name}_every_ms"]:
            entry[key] = {"every": f"{workload[f'{name}_every_ms']}ms", "lasts": f"{workload[f'{name}_ms']}ms"}
    return entry


def _rate(rate: float) -> str:
    per_second = f"{rate:.6f}".rstrip("0").rstrip(".")
    return f"{per_second}/s" if float(per_second) == rate else f"{rate * 60:.6f}".rstrip("0").rstrip(".") + "/m"


def _chaos(scheduled: ScheduledFault) -> dict[str, Any]:
    fault = scheduled.fault
    entry: dict[str, Any] = {"when": _moment(scheduled.when), **entry_of(fault.kind, fault.written())}
    if scheduled.for_us is not None:
        entry["for"] = format_duration(scheduled.for_us)
    if scheduled.until is not None:
        entry["until"] = _moment(scheduled.until)
    if scheduled.optional:
        entry["optional"] = True
    return entry


def _moment(moment: At | Seen) -> dict[str, Any]:
    if isinstance(moment, At):
        return {"at": format_duration(moment.us)}
    return {"seen": _reference(moment.predicate), "nth": moment.nth, "delay": format_duration(moment.delay_us)}


def _reference(predicate: Predicate) -> dict[str, Any]:
    return {predicate.name: dict(predicate.arguments)}


def _texts(selectors: Sequence[Selector]) -> list[str]:
    return [str(selector) for selector in selectors]
