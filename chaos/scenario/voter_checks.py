"""What the features and the versions of nodes must be for the voters to be in the metadata log, or to be changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.features import FEATURES
from actors.quorum.raft_config import DIRECTORY_VERSIONS, DIVERGENCE_FEATURE, KRAFT_VERSION_FEATURE
from chaos.faults.base import Bounce
from chaos.faults.operator import VoterChange
from chaos.scenario.durations import format_versions
from chaos.scenario.feature_groups import expand_features
from chaos.scenario.mistakes import Mistakes
from chaos.scenario.model import NodeOverride, Scenario, Variant
from chaos.scenario.yaml_tree import Path_


def check_voters(
    features: Mapping[str, str], place: Path_, scenario: Scenario, nodes: Mapping[str, NodeOverride], mistakes: Mistakes
) -> None:
    """What is only possible where the voters are in the log; all nodes must agree on where they are."""
    own = {f"nodes.{name}": override.features for name, override in nodes.items()}
    own |= {
        f"chaos[{index}]": settings.features
        for index, chaos in enumerate(scenario.chaos)
        if (settings := chaos.what.new_settings) is not None
    }
    for where, switches in own.items():
        if KRAFT_VERSION_FEATURE in switches:
            mistakes.add(place, f"{where} has a level of {KRAFT_VERSION_FEATURE} of its own", "one level for all nodes")
    level = features.get(KRAFT_VERSION_FEATURE, FEATURES[KRAFT_VERSION_FEATURE].default)
    changed = scenario.cluster.spare_controllers or any(isinstance(c.what, VoterChange) for c in scenario.chaos)
    if level == "0" and changed:
        wrong = "the voters cannot be changed: they are those of controller.quorum.voters"
        mistakes.add(place, wrong, f'{KRAFT_VERSION_FEATURE}: "1"')


Layer = tuple[Path_, Scenario | Variant | NodeOverride | Bounce]
"""Something with features and versions, and where it is."""


def check_directories(
    scenario: Scenario, layers: Sequence[tuple[Path_, Scenario | Variant]], nodes: list[str], mistakes: Mistakes
) -> None:
    """Where the voters are in the log they are known by their directories, and brokers are told where a leader
    listens: no server may speak as if it were older than that. ``layers``: the scenario, and the variant over it."""
    level, _ = _in_force([*layers], KRAFT_VERSION_FEATURE)
    if level in ("", "0"):
        return
    for name in nodes:
        if name.startswith(("controller-", "broker-")):
            own: list[Layer] = [
                ((*path, "nodes", name), layer.nodes[name]) for path, layer in layers if name in layer.nodes
            ]
            _check_speaks_of_directories([*layers, *own], mistakes)
    for index, chaos in enumerate(scenario.chaos):
        settings = chaos.what.new_settings
        if settings is not None:
            place: Path_ = ("chaos", index, chaos.what.section, chaos.what.kind)
            _check_speaks_of_directories([(place, settings)], mistakes)


def _in_force(layers: list[Layer], feature: str) -> tuple[str, Path_]:
    """The value that the last layer which has the feature gives it, and where that is; "" if none has it."""
    found: tuple[str, Path_] = ("", ())
    for path, layer in layers:
        value = expand_features(layer.features).get(feature)
        if value is not None:
            found = (value, (*path, "features", feature))
    return found


def _check_speaks_of_directories(layers: list[Layer], mistakes: Mistakes) -> None:
    remedy = f'{KRAFT_VERSION_FEATURE}: "0"'
    form, place = _in_force(layers, DIVERGENCE_FEATURE)
    if form == "seed":
        wrong = f"such a Fetch carries no directory id, which identifies a voter at {KRAFT_VERSION_FEATURE} 1"
        mistakes.add(place, wrong, f"kafka or off, or {remedy}")
    spoken = {name: (path, bounds) for path, layer in layers for name, bounds in layer.versions.items()}
    for api, least in DIRECTORY_VERSIONS.items():
        path, (low, high) = spoken.get(api.name, ((), (0, least)))
        if high < least:
            wrong = f"{api.name} {format_versions(low, high)} carries no directory id, which identifies a voter at "
            wrong += f"{KRAFT_VERSION_FEATURE} 1"
            mistakes.add((*path, "versions", api.name), wrong, f"versions up to {least} at least, or {remedy}")
