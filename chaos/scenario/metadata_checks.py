"""What metadata epochs need (``kip-232: seed``): somebody who counts them."""

from __future__ import annotations

from collections.abc import Sequence

from actors.config import CONFIG
from actors.features import KIP_232
from chaos.faults.base import Bounce
from chaos.scenario.feature_groups import expand_features
from chaos.scenario.mistakes import Mistakes
from chaos.scenario.model import Client, NodeOverride, Scenario, Variant
from chaos.scenario.names import client_names
from chaos.scenario.yaml_tree import Path_

PROPAGATION = "metadata.propagation"

Switched = Scenario | Variant | NodeOverride | Client | Bounce
Layers = Sequence[tuple[Path_, Switched]]
"""What has features and a configuration, and where it is; later ones win."""


def check_metadata_epochs(
    scenario: Scenario, layers: Sequence[tuple[Path_, Scenario | Variant]], nodes: list[str], mistakes: Mistakes
) -> None:
    """A metadata epoch counts the updates that controllers push, so each node that is to have it must be in a cluster
    that pushes, and push or take them itself if it is a server. ``layers``: the scenario, and the variant over it."""
    _check([*layers], mistakes)
    for name in nodes:
        own: list[tuple[Path_, Switched]] = [
            ((*path, "nodes", name), layer.nodes[name]) for path, layer in layers if name in layer.nodes
        ]
        _check([*layers, *own], mistakes)
    for index, (kind, _, client) in enumerate(client_names(scenario)):
        _check([*layers, (("workload", index, kind), client)], mistakes)
    for index, chaos in enumerate(scenario.chaos):
        settings = chaos.what.new_settings
        if settings is not None:
            _check([*layers, (("chaos", index, chaos.what.section, chaos.what.kind), settings)], mistakes)


def _check(layers: Layers, mistakes: Mistakes) -> None:
    """Hold the switch in the last layer that has it against how metadata comes about there."""
    value = ""
    place: Path_ = ()
    propagation = str(CONFIG[PROPAGATION].default)
    for path, layer in layers:
        switch = expand_features(layer.features).get(KIP_232)
        if switch is not None:
            value, place = switch, (*path, "features", KIP_232)
        config = layer.cluster.config if isinstance(layer, Scenario) else layer.config
        propagation = str(config.get(PROPAGATION, propagation))
    if value == "seed" and propagation != "push":
        wrong = f"a metadata epoch counts the updates that controllers push, and {PROPAGATION} is {propagation}"
        mistakes.add(place, wrong, f"{PROPAGATION}: push, or {KIP_232}: off or kafka")
