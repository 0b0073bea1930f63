"""Parts of a scenario taken out, and every reference to them with it: those that come after move up.

Nodes are numbered, and so are partitions: without broker-2, broker-3 is called broker-2. What a step says of a node or
a partition that is gone goes, and a step that says nothing any more goes as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chaos.scenario.selectors import NODE_PATTERN, Selector, parse_selector

Scenario_ = dict[str, Any]
"""A scenario as plain values, which may be changed: a copy."""

Renamed = Callable[[str], str | None]
"""A name -> what it is called now; None if it is gone."""

_GONE: Any = object()


def moved_up(kind: str, gone: int) -> Renamed:
    """Names ``kind-N`` when number ``gone`` is no more."""

    def rename(name: str) -> str | None:
        own, _, number = name.rpartition("-")
        if own != kind or int(number) < gone:
            return name
        return None if int(number) == gone else f"{own}-{int(number) - 1}"

    return rename


def as_it_is(name: str) -> str | None:
    """Nothing is called otherwise."""
    return name


def without_broker(document: Scenario_, number: int) -> None:
    """One broker fewer; partitions lose the replica that it had."""
    document["cluster"]["brokers"] -= 1
    for topic in document["cluster"]["topics"].values():
        topic["replicas"] = [
            [broker - (broker > number) for broker in replicas if broker != number] for replicas in topic["replicas"]
        ]
    for entry in document["workload"]:
        client = entry.get("list-offsets", {})
        asks_as = client.get("replica-id", 0)
        if asks_as == number:
            del client["replica-id"]
        elif asks_as > number:
            client["replica-id"] = asks_as - 1
    _rename(document, moved_up("broker", number))


def without_voter(document: Scenario_, number: int) -> None:
    """One controller fewer."""
    document["cluster"]["voters"] -= 1
    _rename(document, moved_up("controller", number))


def without_clients(document: Scenario_, index: int) -> None:
    """One entry of the workload fewer."""
    only_one_client(document, index)
    (kind,) = document["workload"][index]
    first = _first(document, index)
    del document["workload"][index]
    _rename(document, moved_up(kind, first))


def only_one_client(document: Scenario_, index: int) -> object:
    """One client in place of several alike; False if there is only one."""
    ((kind, client),) = document["workload"][index].items()
    others = client.pop("count", 1) - 1
    for _ in range(others):
        _rename(document, moved_up(kind, _first(document, index) + 1))
    return others > 0


def _first(document: Scenario_, index: int) -> int:
    """The number of the first client of an entry of the workload."""
    (kind,) = document["workload"][index]
    return 1 + sum(int(entry[kind].get("count", 1)) for entry in document["workload"][:index] if kind in entry)


def without_partition(document: Scenario_, topic: str, number: int) -> None:
    """One partition of a topic fewer."""
    del document["cluster"]["topics"][topic]["replicas"][number]
    for entry in document["workload"]:
        for client in entry.values():
            if client["topic"] == topic and "partitions" in client:
                client["partitions"] = [p - (p > number) for p in client["partitions"] if p != number]
    _rename(document, as_it_is, moved_up(topic, number))


def without_topic(document: Scenario_, topic: str) -> None:
    """One topic fewer, and whoever used it."""
    for index in reversed(range(len(document["workload"]))):
        (client,) = document["workload"][index].values()
        if client["topic"] == topic:
            without_clients(document, index)
    for number in reversed(range(len(document["cluster"]["topics"][topic]["replicas"]))):
        _rename(document, as_it_is, moved_up(topic, number))
    del document["cluster"]["topics"][topic]


def _rename(document: Scenario_, nodes: Renamed, partitions: Renamed = as_it_is) -> None:
    """Rename throughout the schedule and the overrides of nodes."""
    own = {nodes(name): value for name, value in (document.get("nodes") or {}).items()}
    document["nodes"] = {name: value for name, value in own.items() if name is not None}
    topics = list(document["cluster"]["topics"])
    steps = [_renamed(step, nodes, partitions, topics) for step in document["chaos"]]
    document["chaos"] = [step for step in steps if step is not _GONE]


def _renamed(value: Any, nodes: Renamed, partitions: Renamed, topics: Sequence[str]) -> Any:
    """A value of a step with other names in it, or _GONE."""
    if isinstance(value, Mapping):
        parts = {key: _renamed(part, nodes, partitions, topics) for key, part in value.items()}
        return _GONE if any(part is _GONE for part in parts.values()) else parts
    if isinstance(value, list):
        kept = [part for part in (_renamed(part, nodes, partitions, topics) for part in value) if part is not _GONE]
        return kept if kept or not value else _GONE
    if not isinstance(value, str):
        return value
    found = _name(value, nodes, partitions, topics)
    return _GONE if found is None else found


def _name(text: str, nodes: Renamed, partitions: Renamed, topics: Sequence[str]) -> str | None:
    if NODE_PATTERN.fullmatch(text):
        return nodes(text)
    topic, _, number = text.rpartition("-")
    if topic in topics and number.isdigit():
        return partitions(text)
    if "(" not in text:
        return text
    selector = parse_selector(text)
    found = partitions(selector.argument)
    return None if found is None else str(Selector(selector.kind, found, selector.index, selector.count))
