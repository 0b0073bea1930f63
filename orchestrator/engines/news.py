"""The news of a run: events that concern every key of a route, kept for keys that are yet to come.

A run of days has tens of thousands, of which a new key needs only what still holds. So old news is compacted as a
compacted topic is: of what is about one subject the last stays, and nothing at all if that says that it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    BrokerReg,
    ClockSet,
    CommitInvoke,
    CommitReturn,
    ConfigChange,
    ConsOwn,
    CtlFault,
    CtlPhase,
    CtlWindow,
    DiskRuleChange,
    ErrorSeen,
    GrpGen,
    GrpLoad,
    GrpOut,
    LinkRuleChange,
    LogStart,
    LogTrunc,
    MetaImage,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    PartRemove,
    QRole,
    SendOffsetsInvoke,
    SendOffsetsReturn,
    Stamped,
    TraceEvent,
)
from orchestrator.invariants.folds.fold import Route
from orchestrator.invariants.registry import AnyFold

RECENT = 1024
"""News of which all are kept: what is younger may have to do with what a new key comes to."""

Subject = Callable[[Stamped, Any], object]


def _node(event: Stamped, _body: Any) -> object:
    return event.node


SUBJECTS: Mapping[type[TraceEvent], Subject] = {
    AdminInvoke: lambda _, body: body.op,
    AdminReturn: lambda _, body: body.op,
    BrokerReg: lambda _, body: body.broker,
    ClockSet: lambda event, body: (event.node, body.fault),
    CommitInvoke: lambda _, body: body.op,
    CommitReturn: lambda _, body: body.op,
    ConfigChange: lambda _, body: (body.resource, body.key),
    ConsOwn: _node,
    CtlFault: lambda _, body: body.fault,
    CtlPhase: lambda _, body: "phase",
    CtlWindow: lambda _, body: "window",
    DiskRuleChange: lambda event, body: (event.node, body.rule),
    ErrorSeen: _node,
    GrpGen: lambda event, body: (event.node, body.group),
    GrpLoad: lambda event, body: (event.node, body.tp),
    GrpOut: lambda event, body: (event.node, body.group),
    LinkRuleChange: lambda event, body: (event.node, body.rule),
    LogStart: lambda event, body: (event.node, body.tp),
    LogTrunc: lambda event, body: (event.node, body.tp),
    MetaImage: _node,
    NodeDown: _node,
    NodeUp: _node,
    PartAssume: lambda event, body: (event.node, body.tp),
    PartChange: lambda _, body: body.tp,
    PartRemove: lambda _, body: body.tp,
    QRole: _node,
    SendOffsetsInvoke: lambda _, body: body.op,
    SendOffsetsReturn: lambda _, body: body.op,
}
"""Type of news -> event -> what it is about. News of other types all stay."""

OVER: Mapping[type[TraceEvent], Callable[[Any], bool]] = {
    AdminReturn: lambda _: True,
    ClockSet: lambda body: body.phase == "stop",
    CommitReturn: lambda _: True,
    CtlFault: lambda body: body.phase == "stop",
    DiskRuleChange: lambda body: body.phase == "stop",
    ErrorSeen: lambda _: True,
    GrpGen: lambda body: body.state == "Dead",
    GrpOut: lambda _: True,
    LinkRuleChange: lambda body: body.phase == "stop",
    SendOffsetsReturn: lambda _: True,
}
"""Types of which an event may say that its subject is over."""

_ONE_SUBJECT: Mapping[type[TraceEvent], type[TraceEvent]] = {
    AdminReturn: AdminInvoke,
    CommitReturn: CommitInvoke,
    SendOffsetsReturn: SendOffsetsInvoke,
}
"""Types that end what those of another type began."""


def compacted(news: Sequence[Stamped]) -> list[Stamped]:
    """The news without what later news has made void; the last ``RECENT`` all stay. In their order."""
    old, recent = news[: len(news) - RECENT], news[len(news) - RECENT :]
    last: dict[object, Stamped] = {}
    for event in old:
        kind = type(event.body)
        subject = SUBJECTS.get(kind)
        name = (kind, event.id) if subject is None else (_ONE_SUBJECT.get(kind, kind), subject(event, event.body))
        last.pop(name, None)
        over = OVER.get(kind)
        if over is None or not over(event.body):
            last[name] = event
    return [*last.values(), *recent]


class News:
    """What some folds want to hear whatever their key. ``all``: of the run so far, as far as it is not compacted;
    ``kept``: how much was left when that was done last."""

    def __init__(self, folds: Iterable[AnyFold], known: Sequence[Stamped] = (), kept: int = 0) -> None:
        """``known``, ``kept``: where another one for the same folds had come to."""
        types: dict[str, set[type[TraceEvent]]] = {}
        routes: dict[str, Route] = {}
        for fold in folds:
            routes[fold.route.name] = fold.route
            types.setdefault(fold.route.name, set()).update(fold.news)
        self.all = list(known)
        self.kept = kept
        self._heard: dict[str, list[Stamped]] = {name: [] for name in routes}
        self._hearing = {
            kind: [route for name, route in routes.items() if kind in types[name]]
            for kind in set().union(*types.values())
        }
        self._share_out(self.all)

    def of(self, route: str) -> Sequence[Stamped]:
        """What the keys of a route have to hear: a list that grows, and is compacted in place."""
        return self._heard[route]

    def add(self, event: Stamped) -> Sequence[str]:
        """Take the next event of the trace. Names of the routes whose keys have to hear of it."""
        if type(event.body) not in self._hearing:
            return ()
        routes = self._share_out((event,))
        if routes:
            self.all.append(event)
        return routes

    def _share_out(self, news: Iterable[Stamped]) -> list[str]:
        routes: dict[str, None] = {}
        for event in news:
            for route in self._hearing[type(event.body)]:
                if route.hears(event):
                    routes[route.name] = None
                    self._heard[route.name].append(event)
        return list(routes)

    @property
    def is_long(self) -> bool:
        """Whether there is enough to compact."""
        return len(self.all) > self.kept + 2 * RECENT

    def compact(self) -> None:
        """Keep what keys that are yet to come need. Those that are there must have heard all, and hear only what comes
        after it (``KeyGroup.has_heard_all``)."""
        self.all = compacted(self.all)
        self.kept = len(self.all)
        for heard in self._heard.values():
            heard.clear()
        self._share_out(self.all)
