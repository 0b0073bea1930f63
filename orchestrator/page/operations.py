"""What clients' applications asked for, as stretches from the call to its return."""

from __future__ import annotations

import msgspec

from actors.node.errors import error_name
from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    CommitInvoke,
    CommittedInvoke,
    ListInvoke,
    ListReturn,
    OpInvoke,
    OpReturn,
    PollReturn,
    SendReturn,
    Stamped,
)
from orchestrator.page.lanes import at
from orchestrator.page.model import Bar, Style
from orchestrator.story.requests import answer, asked_for

_STYLES: dict[str, Style] = {"ok": "ok", "fail": "fail", "unknown": "unknown"}


class _Begun(msgspec.Struct, frozen=True, gc=False):
    us: int
    what: str
    tp: str


class _Done(msgspec.Struct, frozen=True, gc=False):
    start_us: int
    end_us: int
    style: Style
    what: str
    tp: str
    told: str


class Operations:
    """Takes the events of a run in order."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], _Begun] = {}
        self._done: dict[str, list[_Done]] = {}

    def __call__(self, event: Stamped) -> None:
        body = event.body
        if isinstance(body, OpInvoke):
            self._open[event.node, body.op] = _Begun(event.wall, _what(body), event.tp)
        elif isinstance(body, OpReturn):
            begun = self._open.pop((event.node, body.op), None)
            if begun is not None:
                style = _STYLES[body.outcome]
                done = _Done(begun.us, event.wall, style, begun.what, begun.tp, _told(body))
                self._done.setdefault(event.node, []).append(done)

    def bars(self, zero_us: int, last_us: int) -> dict[str, list[Bar]]:
        """Client -> its operations, in the order in which they began."""
        found = {node: list(done) for node, done in self._done.items()}
        for (node, _), begun in self._open.items():
            never = _Done(begun.us, last_us, "open", begun.what, begun.tp, "never returned")
            found.setdefault(node, []).append(never)
        return {
            node: [_bar(each, zero_us) for each in sorted(done, key=lambda each: each.start_us)]
            for node, done in found.items()
        }


def _bar(done: _Done, zero_us: int) -> Bar:
    start, end = at(done.start_us, zero_us), at(done.end_us, zero_us)
    return Bar(done.style, start, end, "", f"{done.what}: {done.told}", done.tp)


def _what(body: OpInvoke) -> str:
    if isinstance(body, AdminInvoke):
        return asked_for(body)
    if isinstance(body, ListInvoke):
        wanted = {-1: "latest", -2: "earliest"}.get(body.timestamp, str(body.timestamp))
        return f"list the {wanted} offset of {body.tp}"
    if isinstance(body, CommitInvoke | CommittedInvoke):
        return f"{body.kind} of group {body.group}"
    return f"{body.kind} {getattr(body, 'tp', '')}".rstrip()


def _told(body: OpReturn) -> str:
    if isinstance(body, AdminReturn):
        return answer(body)
    if body.outcome != "ok":
        how = "failed" if body.outcome == "fail" else "nobody knows whether it was done"
        return f"{how} ({error_name(body.error)})"
    if isinstance(body, ListReturn | SendReturn) and body.offset >= 0:
        return f"offset {body.offset:,} by {body.broker}"
    if isinstance(body, PollReturn) and body.records:
        return f"offsets {body.records[0].offset:,} to {body.records[-1].offset:,} from {body.broker}"
    return "ok"
