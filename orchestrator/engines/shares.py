"""Who checks what: the keys of all routes, shared out among tasks by how much there is to do for each.

A task that has some keys drives their folds as one process drives all of them, an event after the other; so an event is
sent, sorted and decoded once for each task that has a key of it, however many folds take it there. A key with more than
a task's due is shared out by its folds, which do not know of one another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from zlib import crc32

import msgspec

from actors.trace.events import TraceEvent
from orchestrator.engines.routing import Branch, listening, news_types
from orchestrator.invariants.folds.fold import Kind
from orchestrator.invariants.registry import AnyFold

Census = Mapping[Kind, int]
"""How many events of each kind a trace has."""


class Shares(msgspec.Struct, frozen=True):
    """Number of the share, of 0 ... ``number`` - 1, that has a fold at a key. owners: route -> key -> fold -> share;
    keys that nobody counted on go by their names."""

    number: int
    owners: dict[str, dict[str, dict[str, int]]] = {}

    def of(self, route: str, key: str) -> int:
        """The share that has a key which nobody counted on; the same in every process."""
        return crc32(f"{route} {key}".encode()) % self.number

    def owner(self, route: str, key: str, fold: str) -> int:
        """The share that has a fold at a key."""
        known = self.owners.get(route, {}).get(key)
        return self.of(route, key) if known is None else known[fold]

    def at(self, branch: Branch, keys: Collection[str] | None) -> set[int]:
        """The shares that have a fold of a route at one of some keys (None: any)."""
        if keys is None:
            return set(range(self.number))
        route = branch.route.name
        return {self.owner(route, key, fold.name) for key in keys for fold in branch.folds}


def shared_out(census: Census, number: int, only: Sequence[str] | None = None) -> Shares:
    """Shares of nearly the same weight: the heaviest key first, each to whoever has least so far."""
    weights = _weights(census, only)
    due = sum(sum(folds.values()) for folds in weights.values()) / number
    pieces: list[tuple[float, str, str, list[str]]] = []
    for (route, key), folds in weights.items():
        whole = sum(folds.values())
        if whole > due:
            pieces += [(weight, route, key, [fold]) for fold, weight in folds.items()]
        else:
            pieces.append((whole, route, key, list(folds)))
    load = [0.0] * number
    owners: dict[str, dict[str, dict[str, int]]] = {}
    for weight, route, key, names in sorted(pieces, key=_heaviest_first):
        share = load.index(min(load))
        load[share] += weight
        owners.setdefault(route, {}).setdefault(key, {}).update(dict.fromkeys(names, share))
    return Shares(number, owners)


class Targets:
    """Tells which shares get the events of a kind: those that have one of their keys, and all of them news. ``always``:
    further types that all of them get."""

    def __init__(
        self, shares: Shares, only: Sequence[str] | None = None, always: Collection[type[TraceEvent]] = ()
    ) -> None:
        self._shares = shares
        self._listening = listening(only)
        self._everybodys = {*news_types(only), *always}

    def of(self, kind: Kind) -> dict[int, bool]:
        """Share -> whether somebody there looks at the bodies of such events."""
        everybodys = kind.type in self._everybodys
        found: dict[int, bool] = dict.fromkeys(range(self._shares.number), True) if everybodys else {}
        for branch in self._listening[kind.type]:
            reads = branch.route.reads is None or kind.type in branch.route.reads
            for share in self._shares.at(branch, branch.route.keys_of_kind(kind)):
                found[share] = found.get(share, False) or reads
        return found


def _weights(census: Census, only: Sequence[str] | None) -> dict[tuple[str, str], dict[str, float]]:
    """(route, key) -> fold -> what it has to do there. Events that may be of any key of a route count for each."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    anywhere: list[tuple[Branch, Kind, int]] = []
    heard = listening(only)
    for kind, count in census.items():
        for branch in heard[kind.type]:
            keys = branch.route.keys_of_kind(kind)
            if keys is None:
                anywhere.append((branch, kind, count))
            for key in dict.fromkeys(keys or ()):
                weights = found.setdefault((branch.route.name, key), defaultdict(float))
                _add(weights, branch.folds, kind, count)
    known: dict[str, list[str]] = defaultdict(list)
    for route, key in found:
        known[route].append(key)
    for branch, kind, count in anywhere:
        keys_there = known[branch.route.name]
        for key in keys_there:
            _add(found[branch.route.name, key], branch.folds, kind, count / len(keys_there))
    return found


def _add(weights: dict[str, float], folds: Iterable[AnyFold], kind: Kind, count: float) -> None:
    for fold in folds:
        weights[fold.name] += count * len(fold.invariants) if kind.type in fold.event_types else 0.0


def _heaviest_first(piece: tuple[float, str, str, list[str]]) -> tuple[float, str, str, list[str]]:
    weight, route, key, names = piece
    return -weight, route, key, names
