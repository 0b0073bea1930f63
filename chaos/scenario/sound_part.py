"""What can be held against one another in a scenario file that is partly malformed, so that mistakes of shape and
mistakes of names are told together."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from pydantic import ValidationError

from chaos.errors import Mistake
from chaos.scenario.checks import check_references
from chaos.scenario.model import SCHEMA, Scenario
from chaos.scenario.yaml_tree import Document, Path_

_LISTS = ("chaos", "workload", "must-happen")
"""Lists at the top, of which an entry can be left out."""
_NAMES = ("voters", "spare-controllers", "brokers", "remote-store", "topics")
"""What a cluster's nodes and partitions are named by."""
_STAND_INS: dict[str, Any] = {"schema": SCHEMA, "name": "unnamed", "duration": "168h"}
"""For what a scenario needs, and nothing else is held against."""
_CLIENT = re.compile(r"unknown node (?!broker-|controller-|remote-store-)")
_ENTRY = re.compile(rf"(?<![\w.\]])({'|'.join(_LISTS)})\[(\d+)\]")


def mistakes_besides(document: Document, malformed: Iterable[Path_]) -> list[Mistake]:
    """What is wrong between the parts of a scenario that are well-formed. None where the malformed ones name what the
    others refer to."""
    left_out = {_whole(path) for path in malformed}
    sound = _scenario_without(document, left_out)
    if sound is None:
        return []
    scenario, part, entries = sound
    found = [_as_numbered(mistake, entries) for mistake in check_references(scenario, part)]
    if any(path[0] == "workload" for path in left_out):
        # Clients are numbered through: without one of them others have other names.
        found = [mistake for mistake in found if not _CLIENT.match(mistake.problem)]
    return found


def sound_part(document: Document, malformed: Iterable[Path_]) -> tuple[Scenario, Document] | None:
    """The parts of a scenario that are well-formed; None where the malformed ones name what others may refer to."""
    left_out = {_whole(path) for path in malformed}
    sound = None if any(path[:1] == ("workload",) for path in left_out) else _scenario_without(document, left_out)
    return None if sound is None else sound[:2]


def _scenario_without(
    document: Document, left_out: set[Path_]
) -> tuple[Scenario, Document, dict[str, list[int]]] | None:
    if any(not path or path == ("workload",) or names_nodes(path) for path in left_out):
        return None
    part, entries = _without(document, left_out)
    try:
        return Scenario.model_validate(part.value), part, entries
    except ValidationError:
        return None


def _whole(path: Path_) -> Path_:
    """The smallest part around a place that a scenario can do without."""
    if not path or path[0] in ("schema", "name", "about", "source", "seed", "duration", "features", "versions"):
        return path[:1]
    if path[0] == "variants":
        return path[:3]
    return path[:2]


def names_nodes(path: Path_) -> bool:
    """Whether a part says which nodes and partitions there are."""
    return path[0] == "cluster" and (len(path) < 2 or path[1] in _NAMES)


def _without(document: Document, left_out: set[Path_]) -> tuple[Document, dict[str, list[int]]]:
    """The document without some parts; and of each list at the top which of its entries are left."""
    value = copy.deepcopy(document.value)
    entries = {name: [*range(len(value[name]))] for name in _LISTS if isinstance(value.get(name), list)}
    for path in left_out:
        if path[0] in entries and len(path) > 1:
            entries[str(path[0])].remove(int(path[1]))
            continue
        parent: Any = value
        for part in path[:-1]:
            parent = parent.get(part) if isinstance(parent, dict) else None
        if isinstance(parent, dict):
            parent.pop(path[-1], None)
    for name, kept in entries.items():
        if name in value:
            value[name] = [value[name][index] for index in kept]
    value = {**{key: stand_in for key, stand_in in _STAND_INS.items() if key not in value}, **value}
    return Document(document.file, value, dict(_renumbered(document, entries))), entries


def _renumbered(document: Document, entries: dict[str, list[int]]) -> Iterable[tuple[Path_, int]]:
    for path, line in document.lines.items():
        kept = entries.get(str(path[0])) if path else None
        if kept is None or len(path) < 2:
            yield path, line
        elif path[1] in kept:
            yield (path[0], kept.index(int(path[1])), *path[2:]), line


def _as_numbered(mistake: Mistake, entries: dict[str, list[int]]) -> Mistake:
    """With the numbers that entries have in the file."""

    def number(found: re.Match[str]) -> str:
        return f"{found[1]}[{entries[found[1]][int(found[2])]}]"

    key, problem = (_ENTRY.sub(number, text) for text in (mistake.key, mistake.problem))
    return msgspec.structs.replace(mistake, key=key, problem=problem)
