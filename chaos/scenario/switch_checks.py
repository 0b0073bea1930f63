"""What nodes are switched and set to: features, versions and configuration keys that there are, with legal values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.config import CONFIG, ConfigKey, Scope
from actors.features import FEATURES
from actors.node.messages import Api
from actors.quorum.raft_config import BOOTSTRAP_SERVERS, bootstrap_servers
from actors.versions import API_VERSIONS
from chaos.scenario.durations import format_versions
from chaos.scenario.feature_groups import FEATURE_GROUPS
from chaos.scenario.mistakes import Mistakes
from chaos.scenario.yaml_tree import Path_

SERVER_SCOPES: tuple[Scope, ...] = ("controller", "broker", "krift")
CLIENT_SCOPES: dict[str, tuple[Scope, ...]] = {
    "producer": ("producer",),
    "consumer": ("consumer",),
    "list-offsets": ("consumer",),
    "admin": ("admin",),
}
GROUP_SCOPES: tuple[Scope, ...] = ("consumer", "group-consumer")
"""Of a consumer in a group."""
MIRROR_SCOPES: tuple[Scope, ...] = (*GROUP_SCOPES, "producer")
"""Of one that copies what it reads."""


def scopes_of(node: str) -> tuple[Scope, ...]:
    """Which configuration keys a node reads."""
    kind = node.rpartition("-")[0]
    if kind == "controller":
        return ("controller",)
    if kind == "remote-store":
        return ("remote-store",)
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
            wrong = f"{name} {format_versions(low, high)} is not supported"
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
