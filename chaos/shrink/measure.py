"""What makes one scenario smaller than another: the order in which shrinking goes down.

A scenario is a plain mapping here, as ``chaos.scenario.loader`` takes it: without variants, as a resolved one is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chaos.faults.kinds import body_of
from chaos.scenario.durations import Malformed, parse_duration_us, parse_rate

Document_ = Mapping[str, Any]
"""A scenario as plain values."""

ALWAYS = "100%"
"""The plainest chance."""

_DIGITS = re.compile(r"\d+")
_SERVERS = {"voters": 3, "brokers": 3}


class Size(NamedTuple):
    """How large a scenario is, what weighs most first: tuples compare that way.

    steps: entries of the schedule. chaos_us: duration of the chaos. times_us: moments and durations of the schedule,
    added up. clients. records: that producers are to send. probes: questions of list-offsets clients. nodes: voters and
    brokers. replicas: of all partitions. settings: that are given, of whatever it is. targets: selectors in the
    schedule. plainness: what kinds of faults they are. details: values of the whole. digits: that numbers have but for
    zeros at their end.
    """

    steps: int
    chaos_us: int
    times_us: int
    clients: int
    records: int
    probes: int
    nodes: int
    replicas: int
    settings: int
    targets: int
    plainness: int
    details: int
    digits: int


def size_of(document: Document_) -> Size:
    """The size of a scenario that passes the loader."""
    chaos = document.get("chaos") or []
    duration_us = parse_duration_us(document["duration"])
    cluster = document["cluster"]
    entries = [(kind, client) for entry in document["workload"] for kind, client in entry.items()]
    bodies = [step.get("fault") or step.get("action") for step in chaos]
    return Size(
        steps=len(chaos),
        chaos_us=duration_us,
        times_us=sum(_times_us(step, duration_us) for step in chaos),
        clients=sum(client.get("count", 1) for _, client in entries),
        records=sum(_records(client, duration_us) for kind, client in entries if kind == "producer"),
        probes=sum(_probes(client, duration_us) for kind, client in entries if kind == "list-offsets"),
        nodes=sum(cluster.get(key, default) for key, default in _SERVERS.items()),
        replicas=sum(map(_replicas, cluster["topics"].values())),
        settings=_settings(document, [client for _, client in entries]),
        targets=sum(_targets(body) for body in bodies),
        plainness=sum(body_of(step)[0].plainness for step in chaos),
        details=sum(1 for _ in values_of(document)),
        digits=sum(_digits(value) for value in values_of(document)),
    )


def values_of(value: Any) -> Iterator[Any]:
    """Every value that is neither a mapping nor a list."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from values_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from values_of(part)
    else:
        yield value


def _times_us(step: Document_, duration_us: int) -> int:
    """The moments of a step, and how long it lasts: for the whole chaos, maybe, until something is seen."""
    texts = [step.get("for", "0s")]
    until = step.get("until", {})
    for moment in (step["when"], until):
        texts += [moment.get("at", "0s"), moment.get("delay", "0s")]
    return sum(map(parse_duration_us, texts)) + (duration_us if "seen" in until else 0)


def _records(client: Document_, duration_us: int) -> int:
    return round(parse_rate(client["rate"]) * duration_us / 1_000_000 * int(client.get("count", 1)))


def _probes(client: Document_, duration_us: int) -> int:
    return duration_us // max(1, parse_duration_us(client["every"])) * int(client.get("count", 1))


def _replicas(topic: Document_) -> int:
    if "replicas" in topic:
        return sum(len(list(replicas)) for replicas in topic["replicas"])
    return int(topic.get("partitions", 1)) * int(topic.get("replication", 1))


def _settings(document: Document_, clients: list[Document_]) -> int:
    """Configuration keys, features and versions, of the cluster, topics, nodes and clients."""
    places = [document, document["cluster"], *(document.get("nodes") or {}).values(), *clients]
    places += list(document["cluster"]["topics"].values())
    return sum(len(dict(place.get(key) or {})) for place in places for key in ("config", "features", "versions"))


def _targets(body: Document_) -> int:
    """Values of a step: a list counts its parts."""
    found = 0
    for value in body.values():
        parts = value.values() if isinstance(value, Mapping) else [value]
        found += sum(len(part) if isinstance(part, list) else 1 for part in parts)
    return found


def _digits(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == ALWAYS:
        return 0
    try:
        us = parse_duration_us(value) if isinstance(value, str) else 0
    except Malformed:
        us = 0
    text = str(us) if us else str(value)
    return sum(len(number.rstrip("0")) for number in _DIGITS.findall(text))
