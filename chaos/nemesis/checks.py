"""References of a nemesis file: what its words mean in the scenario language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from actors.config import Scope
from actors.crash_points import POINTS
from actors.features import FEATURES
from actors.quorum.raft_config import KRAFT_VERSION_FEATURE
from chaos.errors import Mistake
from chaos.faults.kinds import KINDS
from chaos.nemesis.model import NOTHING, Nemesis
from chaos.nemesis.patterns import PATTERNS
from chaos.scenario.checks import check_invariant
from chaos.scenario.mistakes import Mistakes
from chaos.scenario.scalars import TIMESTAMPS
from chaos.scenario.switch_checks import CLIENT_SCOPES, SERVER_SCOPES, check_bootstrap, check_config
from chaos.scenario.triggers import TRIGGERS
from chaos.scenario.yaml_tree import Document, Path_, parse_scalar

T = TypeVar("T")

UNPROTECTED = "off"
"""The value of a feature that protects nothing."""
COSTS_TIME = ("kip-996",)
"""Features that save time, and break no promise where they are off."""


def protective_values(name: str) -> list[str]:
    """The values of a feature that a nemesis may draw: those under which what breaks is a finding. What is off in Kafka
    as it is, a proposal, may be off."""
    feature = FEATURES[name]
    may_be_off = name in COSTS_TIME or feature.default == UNPROTECTED
    return [value for value in feature.values if value != UNPROTECTED or may_be_off]


def check_nemesis(nemesis: Nemesis, document: Document) -> list[Mistake]:
    """Everything that is wrong between a nemesis and the scenario language."""
    mistakes = Mistakes(document)
    _check_words(("faults",), nemesis.faults, "fault or action", KINDS, mistakes)
    _check_words(("chaos", "seen"), nemesis.chaos.seen, "trigger", TRIGGERS, mistakes)
    _check_words(("chaos", "pattern"), nemesis.chaos.pattern, "pattern", [NOTHING, *PATTERNS], mistakes)
    _check_words(("like", "point"), nemesis.like.point, "point", [NOTHING, *POINTS], mistakes)
    _check_words(("like", "bounced"), nemesis.like.bounced, "group", ["one", "brokers", "controllers", "all"], mistakes)
    milliseconds = [word for word in nemesis.workload.timestamp if word.isdigit()]
    timestamps = [*TIMESTAMPS, *milliseconds]
    _check_words(("workload", "timestamp"), nemesis.workload.timestamp, "timestamp", timestamps, mistakes)
    for name, values in nemesis.features.items():
        _check_feature(("features", name), name, values, mistakes)
    controllers = _controllers(nemesis)
    for key, values in nemesis.config.items():
        for value in values:
            if value != NOTHING:
                _check_value(("config", key, value), SERVER_SCOPES, controllers, mistakes)
    for value in nemesis.workload.retries:
        if value != NOTHING:
            _check_value(("workload", "retries", value), CLIENT_SCOPES["producer"], controllers, mistakes)
    for invariant in nemesis.untested:
        check_invariant(("untested", invariant), invariant, mistakes)
    _check_bounds(nemesis, mistakes)
    return mistakes.found


def _check_words(path: Path_, words: Mapping[str, float], what: str, known: Iterable[str], mistakes: Mistakes) -> None:
    known = list(known)
    for word in words:
        if word not in known:
            mistakes.unknown((*path, word), word, what, known)


def _check_feature(path: Path_, name: str, values: Mapping[str, float], mistakes: Mistakes) -> None:
    if name not in FEATURES:
        mistakes.unknown(path, name, "feature", FEATURES)
        return
    protective = protective_values(name)
    for value in values:
        if value == UNPROTECTED and value in FEATURES[name].values and value not in protective:
            wrong = f"{value} protects nothing, and what then breaks is no finding"
            mistakes.add((*path, value), wrong, "one of " + ", ".join(protective))
        elif value not in protective:
            mistakes.add((*path, value), f"{value!r} is not a value of {name}", "one of " + ", ".join(protective))


def _controllers(nemesis: Nemesis) -> list[str]:
    """The controllers that every cluster has which is drawn."""
    fewest = min(_drawn(nemesis.shape.voters))
    if _drawn(nemesis.features.get(KRAFT_VERSION_FEATURE, {})) == ["1"]:
        fewest += min(_drawn(nemesis.shape.spare_controllers))
    return [f"controller-{number}" for number in range(1, fewest + 1)]


def _drawn(weights: Mapping[T, float]) -> list[T]:
    return [value for value, weight in weights.items() if weight]


def _check_value(path: tuple[str, ...], scopes: tuple[Scope, ...], controllers: list[str], mistakes: Mistakes) -> None:
    """A choice of a configuration key, as in a scenario's own config; ``path`` ends in both."""
    *place, key, value = path
    found = Mistakes(mistakes.document)
    parsed: dict[str, Any] = {key: parse_scalar(value)}
    check_config(tuple(place), parsed, scopes, found)
    check_bootstrap(tuple(place), parsed, controllers, found)
    for each in found.found:
        line = mistakes.document.line(path)
        mistakes.found.append(Mistake(each.file, line, each.key, each.problem, each.expected, each.suggestion))


def _check_bounds(nemesis: Nemesis, mistakes: Mistakes) -> None:
    """Sizes that a scenario would not take."""
    most = {"voters": 9, "brokers": 50, "partitions": 1000, "replicas": 50, "min-insync-replicas": 50}
    most |= {"spare-controllers": 6, "strangers": 4}
    shape = nemesis.shape
    sizes = {
        "voters": shape.voters,
        "spare-controllers": shape.spare_controllers,
        "strangers": shape.strangers,
        "brokers": shape.brokers,
        "partitions": shape.partitions,
        "replicas": shape.replicas,
        "min-insync-replicas": shape.min_insync_replicas,
    }
    for name, counts in sizes.items():
        for count in counts:
            least = 0 if name in ("spare-controllers", "strangers") else 1
            if not least <= count <= most[name]:
                mistakes.add(("shape", name, str(count)), f"{count} {name}", f"{least} to {most[name]}")
    for low, high in nemesis.chaos.duration:
        if low < 1_000_000:
            wrong = "the chaos is too short for anything to happen in it"
            mistakes.add(("chaos", "duration"), wrong, "at least 1s")
        if high > 24 * 3_600_000_000:
            mistakes.add(("chaos", "duration"), "the chaos is too long", "at most 24h")
    for number in nemesis.chaos.number:
        if number > 100:
            mistakes.add(("chaos", "number", str(number)), f"{number} faults", "at most 100")
    for us in nemesis.workload.every:
        if us % 1000 or not us:
            mistakes.add(("workload", "every"), "a prober asks too often", "whole milliseconds, above 0")
