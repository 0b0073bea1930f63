"""A resolved scenario without what goes without saying: the same run, in a file that a person can read."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from actors.config import default_config
from actors.features import default_features
from actors.versions import default_ranges
from chaos.faults.kinds import body_of, entry_of
from chaos.scenario.clients import client_config
from chaos.scenario.durations import format_duration, format_versions
from chaos.scenario.model import Budgets, Client, Consumer, ListOffsets, Producer

_CLIENTS: dict[str, type[Client]] = {"producer": Producer, "consumer": Consumer, "list-offsets": ListOffsets}
_OF_CLIENTS = {"count": 1, "timestamp": "latest", "isolation": "read_uncommitted"}
_OF_MOMENTS = {"nth": 1, "delay": "0s"}


def lean(document: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved scenario (``Plan.document``) without what has its default value. It resolves to the same plan, but for
    ``Plan.document`` itself."""
    found: dict[str, Any] = copy.deepcopy(dict(document))
    cluster = found["cluster"]
    servers = {**default_config("controller"), **default_config("broker")}
    cluster["config"] = _but(cluster["config"], servers)
    for topic in cluster["topics"].values():
        topic["config"] = topic.get("config") or {}
    found["features"] = _but(found["features"], default_features())
    ranges = {api: format_versions(*bounds) for api, bounds in default_ranges().items()}
    found["versions"] = _but(found["versions"], ranges)
    found["workload"] = [_client(entry, cluster["topics"]) for entry in found["workload"]]
    found["chaos"] = [_step(step) for step in found["chaos"]]
    budgets = Budgets()
    known = {"steady-state": budgets.steady_state, "heal": budgets.heal, "drain": budgets.drain}
    found["budgets"] = _but(found["budgets"], {key: format_duration(us) for key, us in known.items()})
    for key in ("variant", "about"):
        if not found.get(key):
            found.pop(key, None)
    return without_empty(found)


def _but(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in defaults or defaults[key] != value}


def _client(entry: Mapping[str, Any], topics: Mapping[str, Any]) -> dict[str, Any]:
    ((kind, client),) = entry.items()
    bare = {"topic": client["topic"]}
    if kind == "producer":
        bare["rate"] = 1.0
    if kind == "list-offsets":
        bare["every"] = 1_000
    bare |= {key.replace("-", "_"): client[key] for key in ("group", "copy-to") if key in client}
    model = _CLIENTS[kind].model_construct(**bare, config={})
    usual = client_config(kind, model, {})
    kept = _but(client, _OF_CLIENTS)
    kept["config"] = _but(client["config"], usual)
    if "group" in client:
        return {kind: _but(kept, {"commit": "sync" if "copy-to" in client else "auto"})}
    if client["partitions"] == list(range(len(topics[client["topic"]]["replicas"]))):
        del kept["partitions"]
    return {kind: kept}


def _step(step: Mapping[str, Any]) -> dict[str, Any]:
    kind, body = body_of(step)
    kept = {**step, **entry_of(kind.kind, kind.lean(body))}
    for key in ("when", "until"):
        if key in kept:
            kept[key] = _but(kept[key], _OF_MOMENTS)
    return kept


def as_written(document: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario in which a selector that stands alone is no list, as people write it."""
    steps = [(step, *body_of(step)) for step in document.get("chaos", [])]
    return {**document, "chaos": [{**step, **entry_of(kind.kind, kind.alone(body))} for step, kind, body in steps]}


def without_empty(document: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario without mappings and lists that hold nothing, where nothing is what the key's absence says."""
    cluster = document["cluster"]
    topics = {name: _filled(topic) for name, topic in cluster["topics"].items()}
    nodes = {name: _filled(own) for name, own in (document.get("nodes") or {}).items()}
    workload = [{kind: _filled(client) for kind, client in entry.items()} for entry in document["workload"]]
    inside = {"cluster": {**_filled(cluster), "topics": topics}, "nodes": _filled(nodes), "workload": workload}
    return {key: value for key, value in {**document, **inside}.items() if value or key in ("chaos", "seed")}


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in ({}, [])}
