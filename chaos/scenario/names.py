"""Names of a scenario's nodes: brokers and controllers by number, clients by kind and order."""

from __future__ import annotations

from actors.node.spec import REMOTE_STORE
from chaos.faults.operator import ADMIN, AdminAction
from chaos.scenario.model import Client, Consumer, Producer, Scenario, Workload


def client_kind(entry: Workload) -> str:
    """``producer``, ``consumer`` or ``list-offsets``."""
    if entry.producer is not None:
        return "producer"
    return "consumer" if entry.consumer is not None else "list-offsets"


def client_of(entry: Workload) -> Client:
    """The one client that an entry of the workload describes."""
    found = entry.producer or entry.consumer or entry.list_offsets
    assert found is not None, "the model admits exactly one"
    return found


def client_names(scenario: Scenario) -> list[tuple[str, list[str], Client]]:
    """For each entry of the workload its kind, the names of its clients and its description."""
    counts: dict[str, int] = {}
    entries = []
    for entry in scenario.workload:
        kind, client = client_kind(entry), client_of(entry)
        first = counts.get(kind, 0) + 1
        counts[kind] = first + client.count - 1
        entries.append((kind, [f"{kind}-{number}" for number in range(first, counts[kind] + 1)], client))
    return entries


def group_names(scenario: Scenario) -> list[str]:
    """The groups of its consumers, each once."""
    groups = (entry.consumer.group for entry in scenario.workload if entry.consumer is not None)
    return list(dict.fromkeys(group for group in groups if group is not None))


def transactional_ids(scenario: Scenario) -> list[str]:
    """The transactional ids of its clients, each once."""
    ids = [
        str(client.config.get("transactional.id") or name)
        for _, names, client in client_names(scenario)
        if isinstance(client, Producer | Consumer) and client.transactional is not None
        for name in names
    ]
    return list(dict.fromkeys(ids))


def node_names(scenario: Scenario) -> list[str]:
    """All nodes in the run's order: controllers, brokers, the remote store, clients, and the operator's admin client
    where there is something for it to do."""
    controllers = [f"controller-{number}" for number in range(1, controller_count(scenario) + 1)]
    brokers = [f"broker-{number}" for number in range(1, scenario.cluster.brokers + 1)]
    stores = [REMOTE_STORE] if scenario.cluster.remote_store is not None else []
    clients = [name for _, names, _ in client_names(scenario) for name in names]
    return [*controllers, *brokers, *stores, *clients, *([ADMIN] if needs_admin(scenario) else [])]


def needs_admin(scenario: Scenario) -> bool:
    """Whether an operator asks the cluster for something."""
    return any(isinstance(chaos.what, AdminAction) for chaos in scenario.chaos)


def controller_count(scenario: Scenario) -> int:
    """How many controllers there are, voters or not."""
    return scenario.cluster.voters + scenario.cluster.spare_controllers
