"""Variants and ``--set`` options laid over a scenario, which is then checked again as a whole.

Later layers win: scenario, variant, seed, ``--set``. A mistake names the file and line, or the option, it is in.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec

from chaos.errors import InputError, Mistake, nearest
from chaos.scenario.feature_groups import FEATURE_GROUPS, expand_features
from chaos.scenario.loader import Loaded, read_scenario
from chaos.scenario.model import Scenario
from chaos.scenario.sound_part import names_nodes
from chaos.scenario.yaml_tree import Document, Path_, dotted, parse_scalar

SETTINGS = (
    "features.NAME",
    "config.KEY",
    "versions.API",
    "nodes.NODE.features.NAME",
    "nodes.NODE.config.KEY",
    "nodes.NODE.versions.API",
    "cluster.voters",
    "cluster.spare-controllers",
    "cluster.brokers",
    "duration",
    "seed",
)
"""What ``--set`` can set."""


class Setting(msgspec.Struct, frozen=True):
    """One ``--set`` option: where it goes in the scenario, and its value."""

    option: str
    path: Path_
    value: Any


def parse_setting(text: str) -> Setting:
    """``features.kip-207=seed``. Keys may have dots: what follows ``config.`` is one key. Raises InputError."""
    option = f"--set {text}"
    target, equals, value = text.partition("=")
    if not equals:
        raise InputError([Mistake(option, 0, "", "there is no value", "KEY=VALUE")])
    path = _target(target.strip())
    if path is None:
        raise InputError(
            [Mistake(option, 0, target, "nothing to set by that name", "one of " + ", ".join(SETTINGS), _near(target))]
        )
    return Setting(option, path, parse_scalar(value.strip()))


def _near(target: str) -> str:
    head = target.partition(".")[0]
    return nearest(head, {name.partition(".")[0] for name in SETTINGS})


def _target(target: str) -> Path_ | None:
    if target in ("seed", "duration"):
        return (target,)
    if target in ("cluster.voters", "cluster.spare-controllers", "cluster.brokers"):
        return tuple(target.split("."))
    head, _, rest = target.partition(".")
    if head == "cluster":
        head, _, rest = rest.partition(".")
        if head != "config":
            return None
    if head == "nodes":
        node, _, rest = rest.partition(".")
        kind, _, key = rest.partition(".")
        return ("nodes", node, kind, key) if node and key and kind in ("features", "config", "versions") else None
    if head == "config" and rest:
        return ("cluster", "config", rest)
    return (head, rest) if head in ("features", "versions") and rest else None


def merge_layers(loaded: Loaded, variant: str, seed: int | None, settings: Sequence[str]) -> Scenario:
    """The scenario with the chosen variant, seed and settings in it and no variants left. Raises InputError."""
    document = copy.deepcopy(loaded.document)
    tree: dict[str, Any] = document.value
    variants = tree.pop("variants", None) or {}
    mistakes: list[Mistake] = []
    if variant and variant not in variants and not (variant == tree.get("variant") and not variants):
        known = f"one of {', '.join(variants)}" if variants else "no --variant, as the scenario has none"
        wrong = Mistake(document.file, document.line(("variants",)), "variants", f"there is no variant {variant}")
        mistakes.append(msgspec.structs.replace(wrong, expected=known, suggestion=nearest(variant, variants)))
    _expand(tree)
    if variant in variants:
        _lay_variant(document, variant, variants[variant] or {})
    if seed is not None:
        tree["seed"] = seed
    parsed, unknown = parse_settings(settings)
    scenario, found = _with_settings(document, parsed)
    if mistakes:
        # Without its variant the scenario may be otherwise: what counts is what the options have wrong by themselves.
        found = [mistake for mistake in found if not mistake.line]
    mistakes += found + unknown
    if scenario is None or mistakes:
        raise InputError(_in_order(mistakes, settings))
    return scenario


def parse_settings(settings: Sequence[str]) -> tuple[list[Setting], list[Mistake]]:
    """``--set`` options, and what is wrong with those that are none."""
    parsed: list[Setting] = []
    mistakes: list[Mistake] = []
    for text in settings:
        try:
            parsed.append(parse_setting(text))
        except InputError as error:
            mistakes += error.mistakes
    return parsed, mistakes


def _in_order(mistakes: list[Mistake], settings: Sequence[str]) -> list[Mistake]:
    """Those of the file first, then those of the options as they were given."""
    options = [f"--set {text}" for text in settings]
    return sorted(mistakes, key=lambda mistake: options.index(mistake.file) + 1 if mistake.file in options else 0)


def _with_settings(document: Document, settings: list[Setting]) -> tuple[Scenario | None, list[Mistake]]:
    """The scenario with settings in it, None if that is malformed; and what is wrong then."""
    scenario, found = _laid(document, settings)
    wrong = {mistake.file for mistake in found}
    malformed = [setting for setting in settings if setting.option in wrong]
    if scenario is None and not any(names_nodes(setting.path) for setting in malformed):
        # What is malformed hides whether the others name what is there.
        others = [setting for setting in settings if setting not in malformed]
        options = {setting.option for setting in others}
        found += [mistake for mistake in _laid(document, others)[1] if mistake.file in options and mistake not in found]
    return scenario, found


def _laid(document: Document, settings: list[Setting]) -> tuple[Scenario | None, list[Mistake]]:
    laid = Document(document.file, copy.deepcopy(document.value), document.lines)
    for setting in settings:
        _lay_setting(laid.value, setting)
    scenario, mistakes = read_scenario(laid)
    written = {dotted(path) for path in document.lines}
    return scenario, [_blame(mistake, settings, written) for mistake in mistakes]


def _lay_variant(document: Document, name: str, variant: dict[str, Any]) -> None:
    tree = document.value
    _expand(variant)
    for key, value in variant.items():
        target: Path_ = ("cluster", "config") if key == "config" else (key,)
        if key == "about":
            continue
        if isinstance(value, dict) and key in ("features", "versions", "config"):
            _mapping(tree, target).update(value)
        elif key == "nodes":
            for node, override in (value or {}).items():
                for kind, values in (override or {}).items():
                    _mapping(tree, ("nodes", node, kind)).update(values or {})
        else:
            tree[key] = value
        for path, line in list(document.lines.items()):
            if path[:3] == ("variants", name, key):
                document.lines[(*target, *path[3:])] = line


def _expand(layer: dict[str, Any]) -> None:
    """Write feature groups out, so that a later layer's group wins over an earlier layer's single switch."""
    layers = [layer, *(node for node in (layer.get("nodes") or {}).values() if isinstance(node, dict))]
    for one in layers:
        if one.get("features"):
            one["features"] = expand_features(one["features"])


def _lay_setting(tree: dict[str, Any], setting: Setting) -> None:
    *parents, last = setting.path
    target = _mapping(tree, tuple(parents))
    for key in FEATURE_GROUPS.get(str(last), (last,)) if "features" in parents else (last,):
        target[str(key)] = setting.value


def _mapping(tree: dict[str, Any], path: Path_) -> dict[str, Any]:
    """The mapping at ``path``, made where it is missing or empty."""
    for part in path:
        found = tree.get(str(part))
        if found is None:
            found = tree[str(part)] = {}
        tree = found
    return tree


def _blame(mistake: Mistake, settings: list[Setting], written: set[str]) -> Mistake:
    """A mistake that a setting made is the option's, not the file's: in its own value, or in a part on the way to
    it that the file does not have."""
    for setting in settings:
        way = [dotted(setting.path[:end]) for end in range(1, len(setting.path))]
        if mistake.key == dotted(setting.path) or (mistake.key in way and mistake.key not in written):
            return msgspec.structs.replace(mistake, file=setting.option, line=0)
    return mistake
