"""What clients' applications asked for: stretches from the call to its return, and how that was."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from actors.node.errors import error_name
from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    CommitInvoke,
    CommittedInvoke,
    ErrorSeen,
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
from orchestrator.story.words import seconds

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
        if isinstance(body, ErrorSeen):
            by = f" from {body.broker}" if body.broker else ""
            told = f"{error_name(body.error)}{by}: the client tries again"
            refusal = _Done(event.wall, event.wall, "refused", body.api, body.tp, told)
            self._done.setdefault(event.node, []).append(refusal)
        elif isinstance(body, OpInvoke):
            self._open[event.node, body.op] = _Begun(event.wall, _what(body), event.tp)
        elif isinstance(body, OpReturn):
            begun = self._open.pop((event.node, body.op), None)
            if begun is not None:
                style = _STYLES[body.outcome]
                done = _Done(begun.us, event.wall, style, begun.what, begun.tp, _told(body))
                self._done.setdefault(event.node, []).append(done)

    def bars(self, zero_us: int, last_us: int) -> dict[str, list[Bar]]:
        """Client -> its operations as bars, by their beginnings: one for the time that an operation took, and one
        without a length for its return, so that a client that waits does not look like one that is served."""
        found = {node: list(done) for node, done in self._done.items()}
        for (node, _), begun in self._open.items():
            never = _Done(begun.us, last_us, "open", begun.what, begun.tp, "never returned")
            found.setdefault(node, []).append(never)
        return {
            node: sorted((bar for each in done for bar in _bars(each, zero_us)), key=lambda bar: bar.start)
            for node, done in found.items()
        }


def _bars(done: _Done, zero_us: int) -> Iterator[Bar]:
    start, end = at(done.start_us, zero_us), at(done.end_us, zero_us)
    hover = f"{done.what}: {done.told}"
    if done.style in ("open", "refused"):
        yield Bar(done.style, start, end, "", hover, done.tp)
        return
    if end > start:
        yield Bar("waits", start, end, "", hover, done.tp)
    yield Bar(done.style, end, end, "", f"{hover}, after {seconds(done.end_us - done.start_us)}", done.tp)


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
        how = "failed" if body.outcome == "fail" else "its outcome is unknown"
        return f"{how} ({error_name(body.error)})"
    if isinstance(body, ListReturn | SendReturn) and body.offset >= 0:
        return f"offset {body.offset:,} by {body.broker}"
    if isinstance(body, PollReturn) and body.records:
        return f"offsets {body.records[0].offset:,} to {body.records[-1].offset:,} from {body.broker}"
    return "ok"
