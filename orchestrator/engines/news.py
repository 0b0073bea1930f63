"""The news of a run: events that concern every key, kept for keys that are yet to come.

A run of days has tens of thousands, of which a new key needs only what still holds. So old news is compacted as a
compacted topic is: of what is about one subject the last stays, and nothing at all if that says that it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    GrpLoad,
    LinkRuleChange,
    LogTrunc,
    MetaImage,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    PartRemove,
    QRole,
    Stamped,
    TraceEvent,
)

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
    GrpLoad: lambda event, body: (event.node, body.tp),
    LinkRuleChange: lambda event, body: (event.node, body.rule),
    LogTrunc: lambda event, body: (event.node, body.tp),
    MetaImage: _node,
    NodeDown: _node,
    NodeUp: _node,
    PartAssume: lambda event, body: (event.node, body.tp),
    PartChange: lambda _, body: body.tp,
    PartRemove: lambda _, body: body.tp,
    QRole: _node,
}
"""Type of news -> event -> what it is about. News of other types all stay."""

OVER: Mapping[type[TraceEvent], Callable[[Any], bool]] = {
    AdminReturn: lambda _: True,
    ClockSet: lambda body: body.phase == "stop",
    CommitReturn: lambda _: True,
    CtlFault: lambda body: body.phase == "stop",
    DiskRuleChange: lambda body: body.phase == "stop",
    ErrorSeen: lambda _: True,
    LinkRuleChange: lambda body: body.phase == "stop",
}
"""Types of which an event may say that its subject is over."""

_ONE_SUBJECT: Mapping[type[TraceEvent], type[TraceEvent]] = {AdminReturn: AdminInvoke, CommitReturn: CommitInvoke}
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


def is_long(news: Sequence[Stamped], kept: int) -> bool:
    """Whether there is enough to compact. ``kept``: as much was left when that was done last."""
    return len(news) > kept + 2 * RECENT
