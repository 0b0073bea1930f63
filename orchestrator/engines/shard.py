"""The folds of a share of all keys, fed with what arrives of a growing trace, and put aside between two pieces of it.

A shard gets the events of its own keys, and, with all others, the news of the run and which events of which node have
arrived (``frontier``). It holds events back until nothing below them can come any more, and only then gives them to the
folds in their order: so the pieces in which a trace arrives change nothing in what is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import msgspec

from actors.trace.events import DRIVER, NodeUp, RunEnd, RunMeta, Stamped
from orchestrator.engines.frontier import NOTHING_MORE, Arrival, Frontier
from orchestrator.engines.key_group import KeyGroup
from orchestrator.engines.news import News
from orchestrator.engines.routing import branches, listening
from orchestrator.engines.saved import SavedGroup, layout
from orchestrator.engines.shares import Shares
from orchestrator.invariants.folds.conclusion import KeyResult, count
from orchestrator.invariants.folds.fold import Finding, Profile, profile_of_run
from orchestrator.invariants.folds.routes import TRACE
from orchestrator.invariants.hygiene.trace import TraceIsWhole, unseen
from orchestrator.invariants.registry import folds
from orchestrator.version import __version__

X4 = TraceIsWhole.id


class OtherLayout(ValueError):
    """What was put aside was written by another version of Krift, or for other invariants."""


class Kept(msgspec.Struct, array_like=True):
    """A group that was put aside, as bytes of a ``SavedGroup``. due_us: the first moment that one of its folds waits
    for, -1 none."""

    route: str
    key: str
    due_us: int
    group: bytes


class SavedShard(msgspec.Struct):
    """All that a shard knows. written_by: as of ``version_of_state``. pending: what is held back. roles: of nodes, as
    far as they said so. told: (invariant, key) of violations that were told. news_kept: how much of the news was left
    when it was compacted last."""

    written_by: str
    frontier: Frontier
    profile: Profile = Profile()
    news: list[Stamped] = []
    news_kept: int = 0
    pending: list[Stamped] = []
    roles: dict[str, str] = {}
    told: set[tuple[str, str]] = set()
    kept: list[Kept] = []


_SHARD = msgspec.msgpack.Decoder(SavedShard)
_GROUP = msgspec.msgpack.Decoder(SavedGroup)


def version_of_state(shards: int, only: Sequence[str] | None) -> str:
    """What must be equal for one process to go on with the shards of another."""
    judged = "all invariants" if only is None else ", ".join(only)
    return f"krift {__version__}, states {_layout()}, {shards} shards, for {judged}"


_layout = cache(layout)


class Shard:
    """Feed it with ``take``, let it go on with ``advance``, put it aside with ``saved``; ``close`` ends the trace.

    ``violations``: those found since it was made or loaded, of each invariant at each key the first one ever.
    """

    def __init__(self, number: int, shards: int, only: Sequence[str] | None = None, patience_us: int = -1) -> None:
        """``number`` of ``shards``; ``only``: as for other engines; ``patience_us``: as in ``Frontier``."""
        self._number = number
        self._shares = Shares(shards)
        self._branches = branches(only)
        self._folds = folds(only)
        self._news = News(self._folds)
        self._known = SavedShard(version_of_state(shards, only), Frontier(patience_us))
        self._listening = listening(only)
        self._owned: dict[tuple[str, str], bool] = {}
        self._kept: dict[tuple[str, str], Kept] = {}
        self._groups: dict[tuple[str, str], KeyGroup] = {}
        self.violations: list[Finding] = []

    def load(self, saved: bytes) -> None:
        """Go on where ``saved`` left off. Raises OtherLayout if another version of Krift wrote it."""
        written_by = msgspec.msgpack.decode(saved, type=_WrittenBy).written_by
        if written_by != self.written_by:
            raise OtherLayout(f"written by {written_by}; this is {self.written_by}")
        self._known = _SHARD.decode(saved)
        self._news = News(self._folds, self._known.news, self._known.news_kept)
        self._kept = {(each.route, each.key): each for each in self._known.kept}
        self._groups.clear()

    def saved(self) -> bytes:
        """All that it knows, for ``load``."""
        for (route, key), group in self._groups.items():
            self._kept[route, key] = Kept(route, key, group.due_us, msgspec.msgpack.encode(group.saved()))
        self._groups.clear()
        self._known.kept = list(self._kept.values())
        self._known.news, self._known.news_kept = self._news.all, self._news.kept
        return msgspec.msgpack.encode(self._known)

    @property
    def written_by(self) -> str:
        """What ``load`` wants to see."""
        return self._known.written_by

    @property
    def at_us(self) -> int:
        """What has a lower clock was given to the folds: no more than has come of the trace."""
        return min(self._known.frontier.at, self._known.frontier.newest)

    @property
    def newest_us(self) -> int:
        """The latest clock that has come."""
        return self._known.frontier.newest

    @property
    def profile(self) -> Profile:
        """Of the run, as far as it has said so."""
        return self._known.profile

    # ---- what arrives -----------------------------------------------------------------------------------------

    def take(self, arrived: Iterable[Stamped], told: Iterable[Arrival]) -> None:
        """Events, and what has arrived of the trace for this shard and for others; in any order."""
        frontier = self._known.frontier
        for event in arrived:
            if event.wall >= frontier.at:
                self._known.pending.append(event)
            elif not frontier.has(event.node, event.incarnation, event.seq):
                self._came_late(event)
            self._note(event)
        for each in told:
            for piece in each.pieces:
                frontier.take(piece)
            for number, newest in each.parts.items():
                frontier.take_part(number, newest)

    def _note(self, event: Stamped) -> None:
        """What an event says about the run as a whole, whenever it comes."""
        body = event.body
        if type(body) is RunMeta:
            self._known.frontier.expect([DRIVER, *body.nodes])
            self._known.profile = profile_of_run(body)
        elif type(body) is RunEnd:
            self._known.frontier.end(body.final_seq)
        elif type(body) is NodeUp:
            self._known.roles[event.node] = body.role

    def _came_late(self, event: Stamped) -> None:
        self._doubt(event.node, f"{event.id} came when the checks had passed it: {event.node} was not waited for")

    def _doubt(self, node: str, sentence: str) -> None:
        """Of the trace of a node something is missing; for the shard that has its key."""
        branch = self._branches.get(TRACE.name)
        if branch is None or not self._owns(TRACE.name, node):
            return
        for cell in self._group(TRACE.name, node).cells:
            if X4 in cell.results:
                count(cell.results[X4], unseen(node, self._known.roles.get(node, ""), sentence))

    # ---- what follows from it ---------------------------------------------------------------------------------

    def advance(self) -> None:
        """Give the folds all below which nothing can come any more."""
        frontier = self._known.frontier
        for silence in frontier.advance():
            name, since_s = f"{silence.node}/{silence.incarnation}", silence.since_us / 1_000_000
            self._doubt(silence.node, f"nothing came of {name} from {since_s:.3f} s of the trace's clock on")
        self._release(frontier.at)
        now_us = min(frontier.at, frontier.newest + 1)  # the trace ends with its last event
        for (route, key), kept in self._kept.items():
            if 0 <= kept.due_us < now_us:
                self._group(route, key)
        for group in self._groups.values():
            group.pass_time(now_us)
        if self._news.is_long:
            self._compact()

    def _compact(self) -> None:
        """Keep of the news what keys that are yet to come need; those that are there hear all of it first."""
        for route, key in self._kept:
            self._group(route, key)
        for group in self._groups.values():
            group.hear()
        self._news.compact()
        for group in self._groups.values():
            group.has_heard_all()

    def _release(self, below_us: int) -> None:
        """Step what is held back below a clock, news first: no key may miss any that is older than its own events."""
        known = self._known
        released = sorted((each for each in known.pending if each.wall < below_us), key=_order)
        if not released:
            return
        known.pending = [each for each in known.pending if each.wall >= below_us]
        released = [each for each, before in zip(released, [None, *released], strict=False) if not _same(each, before)]
        hearing = {route for each in released for route in self._news.add(each)}
        for route, key in self._kept:
            if route in hearing:
                self._group(route, key)
        for each in released:
            self._step(each)

    def _step(self, event: Stamped) -> None:
        """Give an event to the folds of its keys, as far as they are this shard's."""
        for branch in self._listening[type(event.body)]:
            name = branch.route.name
            for key in branch.route.keys(event):
                if self._owns(name, key):
                    self._group(name, key).step(event)

    def _owns(self, route: str, key: str) -> bool:
        found = self._owned.get((route, key))
        if found is None:
            found = self._owned[route, key] = self._shares.of(route, key) == self._number
        return found

    def _tell(self, violation: Finding) -> None:
        name = (violation.invariant, violation.key)
        if name not in self._known.told:
            self._known.told.add(name)
            self.violations.append(violation)

    def _group(self, route: str, key: str) -> KeyGroup:
        """The group of a key: at work, put aside, or new."""
        group = self._groups.get((route, key))
        if group is None:
            kept = self._kept.get((route, key))
            saved = None if kept is None else _GROUP.decode(kept.group)
            known = self._known
            chosen = self._branches[route].folds
            group = KeyGroup(chosen, key, known.profile, self._news.of(route), self._tell, saved)
            self._groups[route, key] = group
        return group

    def close(self, until_us: int | None = None) -> list[KeyResult]:
        """End of the trace: what has come, up to a clock or all, is all there is."""
        self._release(NOTHING_MORE if until_us is None else until_us + 1)
        for route, key in self._kept:
            self._group(route, key)
        newest_us = self._known.frontier.newest if until_us is None else until_us
        return [result for _, group in sorted(self._groups.items()) for result in group.close(newest_us)]


class _WrittenBy(msgspec.Struct):
    written_by: str


def _order(event: Stamped) -> tuple[int, int, str, int, int]:
    return event.order


def _same(event: Stamped, before: Stamped | None) -> bool:
    """Whether it is the event before once more."""
    return before is not None and before.order == event.order
