"""Plain names that stand for several switches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.features import FEATURES

FEATURE_GROUPS: dict[str, tuple[str, ...]] = {
    "kip-595": tuple(name for name in FEATURES if name.startswith("kip-595.")),
}
"""A plain name that stands for several switches."""


def expand_features(features: Mapping[str, Any]) -> dict[str, Any]:
    """With the switches of groups written out; a switch's own entry wins over its group's."""
    groups = {switch: value for name, value in features.items() for switch in FEATURE_GROUPS.get(name, ())}
    return {**groups, **{name: value for name, value in features.items() if name not in FEATURE_GROUPS}}
