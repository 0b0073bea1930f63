"""The engine that checks a run while it goes on, in the same process: fed with events in the order of the trace, in
which the sim records them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from heapq import heappop, heappush

import msgspec

from actors.trace.events import CtlPhase, RunMeta, Stamped, TraceEvent
from orchestrator.engines.key_group import Cell, Handler, KeyGroup, Tell, keep_quiet
from orchestrator.engines.news import News
from orchestrator.engines.saved import SavedGroup, layout
from orchestrator.invariants.folds.conclusion import InvariantResult, KeyResult, conclude
from orchestrator.invariants.folds.fold import CASES, Finding, Profile, profile_of_run
from orchestrator.invariants.registry import AnyFold, folds, invariants_of
from orchestrator.version import __version__

NEVER = 1 << 62


class OtherState(ValueError):
    """What was put aside was written by another version of Krift, or for other invariants."""


class SavedKey(msgspec.Struct, array_like=True):
    """The folds of one route at one key, as bytes of a ``SavedGroup``."""

    route: str
    key: str
    group: bytes


class SavedEngine(msgspec.Struct):
    """All that an engine knows. written_by: as of ``InProcessEngine.version``. last: the last event, without its
    body."""

    written_by: str
    profile: Profile
    events: int
    last: Stamped | None
    news: list[Stamped]
    news_kept: int
    first: dict[str, int]
    first_unknown: dict[str, int]
    groups: list[SavedKey]


_SAVED = msgspec.msgpack.Decoder(SavedEngine)
_GROUP = msgspec.msgpack.Decoder(SavedGroup)
_layout = cache(layout)

AT_A_TIME = 512
"""Events that ``InProcessEngine.take`` lets come together."""


class OutOfOrder(ValueError):
    """An event came after a later one."""


Owns = Callable[[str, str, str], bool]
"""Whether a fold of a route at a key is this engine's to drive: names of the route, the key and the fold."""


class _Branch:
    """One route: its folds, and its groups by key."""

    __slots__ = ("folds", "groups", "keys", "name")

    def __init__(self, name: str, keys: Callable[[Stamped], Sequence[str]]) -> None:
        self.name = name
        self.keys = keys
        self.folds: list[AnyFold] = []
        self.groups: dict[str, KeyGroup] = {}


_Listener = tuple[Callable[[Stamped], Sequence[str]], dict[str, list[Handler]], _Branch]
"""One route for one case of a type of events: event -> keys, key -> what its folds do, the rest of the route."""


class _Listeners(dict[str, list[_Listener]]):
    """Case of one type of events -> who listens to it, found out when the case first comes up."""

    def __init__(self, kind: type[TraceEvent], branches: Sequence[_Branch]) -> None:
        super().__init__()
        self._kind = kind
        self._branches = branches

    def __missing__(self, case: str) -> list[_Listener]:
        listeners: list[_Listener] = [
            (branch.keys, {}, branch)
            for branch in self._branches
            if any(self._takes(fold, case) for fold in branch.folds)
        ]
        self[case] = listeners
        return listeners

    def _takes(self, fold: AnyFold, case: str) -> bool:
        cases = fold.cases.get(self._kind)
        return self._kind in fold.event_types and (cases is None or case in cases)


class InProcessEngine:
    """Feed it with ``feed``, or ``take``, in the order of the trace, then ask for ``results`` once.

    ``saved`` puts all that it knows aside, and ``load`` has a new one, for the same invariants, go on from there.

    The profile comes from the run's first event, ``run.meta``, unless it is given. ``owns``: an engine that has a share
    of all keys alone gets the events that have some of these, and all news.
    """

    def __init__(
        self, only: Collection[str] | None = None, profile: Profile | None = None, owns: Owns | None = None
    ) -> None:
        self.profile = Profile() if profile is None else profile
        self.events = 0
        self.tell: Tell = keep_quiet
        """Hears of each violation, with the time of the event that shows it."""
        self.version = f"krift {__version__}, states {_layout()}, for {'all' if only is None else sorted(only)}"
        self._owns = owns
        self._first: dict[str, int] = {}
        self._first_unknown: dict[str, int] = {}
        self._taken: list[Stamped] = []
        self._given_profile = profile is not None
        self._last: Stamped | None = None
        self._branches: dict[str, _Branch] = {}
        self._due: list[tuple[int, int, Cell]] = []
        self._armed = 0
        self._next_due_us = NEVER
        chosen = folds(only)
        self._invariants = invariants_of(chosen)
        self._folds = chosen
        self._news = News(chosen)
        for fold in chosen:
            branch = self._branches.get(fold.route.name)
            if branch is None:
                branch = self._branches[fold.route.name] = _Branch(fold.route.name, fold.route.keys)
            branch.folds.append(fold)
        branches = list(self._branches.values())
        self._listeners = {
            kind: (CASES.get(kind), _Listeners(kind, branches))
            for kind in dict.fromkeys(kind for fold in chosen for kind in fold.event_types)
        }

    @property
    def last(self) -> Stamped | None:
        """The last event that came; of a loaded engine, until another comes, without its body."""
        return self._taken[-1] if self._taken else self._last

    @property
    def violated(self) -> dict[str, int]:
        """Id of an invariant -> when it was first found to be violated (wall of the trace, microseconds), by all that
        came so far."""
        self._catch_up()
        return self._first

    @property
    def violated_unknown(self) -> dict[str, int]:
        """The same by violations that are no known finding (``known_findings``)."""
        self._catch_up()
        return self._first_unknown

    def take(self, event: Stamped) -> None:
        """As ``feed``, for a run that goes on meanwhile: events are judged some hundreds at a time. Nodes and checks in
        turns push one another out of the processor's caches, which costs both a quarter of their time and more."""
        taken = self._taken
        taken.append(event)
        if len(taken) >= AT_A_TIME:
            self._catch_up()

    def _catch_up(self) -> None:
        taken, self._taken = self._taken, []
        for event in taken:
            self.feed(event)

    def feed(self, event: Stamped) -> None:
        """Judge the next event at once; the same event twice counts once.

        Raises OutOfOrder if a later one has come before.
        """
        last = self._last
        wall = event.wall
        if last is not None and wall <= last.wall and event.order <= last.order:
            if event.order == last.order:
                return
            raise OutOfOrder(f"{event.id} comes after {last.id}")
        self._last = event
        self.events += 1
        if wall > self._next_due_us:
            self._pass_time(wall)
        body = event.body
        kind = type(body)
        if kind is RunMeta and not self._given_profile:
            self._take_profile(event)
        if routes := self._news.add(event):
            self._tell(routes)
        if kind not in self._listeners:
            return
        case_of, listeners = self._listeners[kind]
        case = "" if case_of is None else case_of(body)
        for keys, handlers_of, branch in listeners[case]:
            for key in keys(event):
                handlers = handlers_of.get(key)
                if handlers is None:
                    handlers = handlers_of[key] = self._handlers(branch, key, kind, case)
                for step, state, cell in handlers:
                    if emissions := step(state, event):
                        cell.take(emissions, wall)

    def _handlers(self, branch: _Branch, key: str, kind: type[TraceEvent], case: str) -> list[Handler]:
        """What the folds of a key, which may be new, do with such events."""
        group = branch.groups.get(key)
        if group is None:
            own = self._folds_of(branch, key)
            group = KeyGroup(own, key, self.profile, self._news.of(branch.name), self._violated, arm=self._arm)
            branch.groups[key] = group
            group.hear()
            assert self._last is not None
            self._pass_time(self._last.wall)
        return group.takers(kind, case)

    def _arm(self, cell: Cell, at_us: int) -> None:
        """A cell has a deadline. One heap has those of all cells: so an event looks at one number, not at each cell."""
        self._armed += 1
        heappush(self._due, (at_us, self._armed, cell))
        self._next_due_us = self._due[0][0]

    def _pass_time(self, now_us: int) -> None:
        """Expire the deadlines before ``now_us``."""
        due = self._due
        while due and due[0][0] < now_us:
            heappop(due)[2].pass_time(now_us)
        self._next_due_us = due[0][0] if due else NEVER

    def _tell(self, routes: Sequence[str]) -> None:
        """Let every key of some routes know what concerns all of them."""
        for route in routes:
            for group in self._branches[route].groups.values():
                group.hear()
        if self._news.is_long:
            self._compact()

    def _compact(self) -> None:
        """Keep of the news what keys that are yet to come need."""
        self._news.compact()
        for branch in self._branches.values():
            for group in branch.groups.values():
                group.has_heard_all()

    def _violated(self, finding: Finding) -> None:
        assert self._last is not None
        self._first.setdefault(finding.invariant, self._last.wall)
        if not finding.rule:
            self._first_unknown.setdefault(finding.invariant, self._last.wall)
        self.tell(finding)

    def saved(self) -> bytes:
        """All that it knows, for ``load``."""
        self._catch_up()
        last = None if self._last is None else msgspec.structs.replace(self._last, body=CtlPhase(""))
        groups = [
            SavedKey(branch.name, key, msgspec.msgpack.encode(group.saved()))
            for branch in self._branches.values()
            for key, group in branch.groups.items()
        ]
        news = self._news
        known = (self.profile, self.events, last, news.all, news.kept, self._first, self._first_unknown)
        return msgspec.msgpack.encode(SavedEngine(self.version, *known, groups))

    def load(self, saved: bytes) -> None:
        """Go on where ``saved`` left off. Raises OtherState if another version of Krift wrote it."""
        assert not self.events, "only a new engine goes on from there"
        written_by = msgspec.msgpack.decode(saved, type=_WrittenBy).written_by
        if written_by != self.version:
            raise OtherState(f"written by {written_by}; this is {self.version}")
        known = _SAVED.decode(saved)
        self.profile, self.events, self._last = known.profile, known.events, known.last
        self._given_profile = True
        self._news = News(self._folds, known.news, known.news_kept)
        self._first, self._first_unknown = known.first, known.first_unknown
        for each in known.groups:
            branch = self._branches[each.route]
            group = KeyGroup(
                self._folds_of(branch, each.key),
                each.key,
                self.profile,
                self._news.of(branch.name),
                self._violated,
                _GROUP.decode(each.group),
                self._arm,
            )
            branch.groups[each.key] = group
            for cell in group.cells:
                for deadline in cell.deadlines:
                    self._arm(cell, deadline.at_us)

    def _folds_of(self, branch: _Branch, key: str) -> list[AnyFold]:
        """The folds of a route at a key that are this engine's."""
        owns = self._owns
        return branch.folds if owns is None else [each for each in branch.folds if owns(branch.name, key, each.name)]

    def cells(self) -> Iterator[Cell]:
        """The folds at all keys, with what they know of what came so far."""
        self._catch_up()
        for branch in self._branches.values():
            for group in branch.groups.values():
                yield from group.cells

    def feed_all(self, events: Iterable[Stamped]) -> None:
        """Take several events."""
        for event in events:
            self.feed(event)

    def key_results(self, horizon_us: int | None = None) -> list[KeyResult]:
        """End the trace, with its last event or at ``horizon_us``: what was found at each key."""
        self._catch_up()
        if horizon_us is None:
            horizon_us = 0 if self._last is None else self._last.wall
        return [
            result
            for branch in self._branches.values()
            for _, group in sorted(branch.groups.items())
            for result in group.close(horizon_us)
        ]

    def results(self) -> list[InvariantResult]:
        """End the trace: one result per invariant."""
        return conclude(self._invariants, self.key_results(), self.profile)

    def _take_profile(self, event: Stamped) -> None:
        body = event.body
        assert type(body) is RunMeta
        self.profile = profile_of_run(body)


def check(events: Iterable[Stamped], only: Collection[str] | None = None) -> list[InvariantResult]:
    """Check a whole trace, ordered or not, that fits into memory."""
    engine = InProcessEngine(only)
    engine.feed_all(sorted(events, key=_order))
    return engine.results()


def _order(event: Stamped) -> tuple[int, int, str, int, int]:
    return event.order


class _WrittenBy(msgspec.Struct):
    written_by: str
