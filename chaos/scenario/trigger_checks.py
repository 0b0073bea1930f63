"""Whether there is such a trigger, with arguments that can be seen in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.client.admin import APIS as CALLS
from actors.node.errors import KafkaError
from actors.node.spec import METADATA_PARTITION
from chaos.scenario.durations import Malformed
from chaos.scenario.references import References
from chaos.scenario.selectors import ROLES, NodeKind, kind_of, may_mean, parse_selector
from chaos.scenario.triggers import BY, TRIGGERS, Argument
from chaos.scenario.yaml_tree import Path_


def check_trigger(path: Path_, reference: Mapping[str, Mapping[str, Any]], references: References) -> None:
    """A trigger must exist, and be able to occur with these arguments."""
    mistakes = references.mistakes
    ((name, given),) = reference.items()
    trigger = TRIGGERS.get(name)
    if trigger is None:
        mistakes.unknown(path, name, "trigger", TRIGGERS)
        return
    known = {argument.name: argument for argument in trigger.arguments}
    for key, value in given.items():
        if key not in known:
            mistakes.unknown((*path, name, key), key, "argument", known)
        elif isinstance(value, list) and known[key].kind != "node":
            mistakes.add((*path, name, key), f"{key} is given as a list", f"one value: {known[key].about}")
        elif known[key].kind == "node":
            _check_named((*path, name, key), name, _among(known, key, given), value, references)
        else:
            _check_argument((*path, name, key), known[key], value, references)
    for argument in trigger.arguments:
        if argument.required and argument.name not in given:
            mistakes.add((*path, name), f"{name} needs {argument.name}", f"{argument.name}: {argument.about}")


def _among(known: Mapping[str, Argument], key: str, given: Mapping[str, Any]) -> tuple[NodeKind, ...]:
    """The kinds of nodes that an argument can name; controllers have no log but the metadata log."""
    of_data = "tp" in known and known["tp"].kind == "log" and given.get("tp", METADATA_PARTITION) != METADATA_PARTITION
    return tuple(kind for kind in known[key].among if not (of_data and kind == "controller"))


def _check_named(path: Path_, trigger: str, among: tuple[NodeKind, ...], value: Any, references: References) -> None:
    """Selectors, as faults have them, each of which can mean somebody whom the trigger can be about."""
    mistakes = references.mistakes
    for number, text in enumerate(value if isinstance(value, list) else [value]):
        place = (*path, number)
        try:
            selector = parse_selector(str(text))
        except Malformed as error:
            mistakes.add(place, error.problem, error.expected)
            continue
        before = len(mistakes.found)
        references.selectors(path, [selector], number)
        if len(mistakes.found) > before:
            continue
        if not any(may_mean(selector, node) and kind_of(node) in among for node in references.nodes):
            alone = " and ".join(f"{kind}s" for kind in among)
            mistakes.add(place, f"{trigger} never has {selector} as its {path[-1]}", f"{alone} only")


def _check_argument(path: Path_, argument: Argument, value: Any, references: References) -> None:
    mistakes = references.mistakes
    if argument.kind == "log" and value == METADATA_PARTITION:
        return
    if argument.kind == "int":
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            mistakes.add(path, f"{value!r} is not a number", "a whole number, at least 0")
    elif argument.kind in ("tp", "log"):
        references.topic_partition(path, str(value))
    elif argument.kind == "api":
        references.api(path, str(value))
    elif argument.kind == "role":
        if value not in ROLES:
            mistakes.unknown(path, str(value), "role", ROLES)
    elif argument.kind in ("call", "by"):
        known = tuple(CALLS) if argument.kind == "call" else BY
        if value not in known:
            mistakes.unknown(path, str(value), argument.name, known)
    elif value not in KafkaError.__members__:
        mistakes.unknown(path, str(value), "Kafka error", KafkaError.__members__)
