"""A run as a history of operations in EDN, as Jepsen keeps them and Elle or Knossos read them: a map a line.

A process has one operation at a time, as checkers expect; a client that has several at once is several processes, and
one whose operation has an unknown outcome goes on as another process.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from actors.node.errors import error_name
from actors.trace.events import (
    CtlFault,
    ListInvoke,
    ListReturn,
    OpInvoke,
    OpReturn,
    PollInvoke,
    PollReturn,
    SendInvoke,
    SendReturn,
    Stamped,
)


class Keyword(str):
    """Written as ``:name``."""


_OUTCOMES = {"ok": Keyword("ok"), "fail": Keyword("fail"), "unknown": Keyword("info")}
_OF_OPERATION = {"op", "outcome", "error", "type"}
NEMESIS = Keyword("nemesis")


def edn(events: Iterable[Stamped]) -> Iterator[str]:
    """The lines of the history of a trace, whose events come in order."""
    processes = _Processes()
    index = 0
    for event in events:
        entry = _entry(event, processes)
        if entry is not None:
            yield f"{written({'index': index, 'time': event.wall * 1_000, **entry})}\n"
            index += 1


class _Processes:
    """Numbers of processes: the lowest that is free at a node, a new one after an unknown outcome."""

    def __init__(self) -> None:
        self._free: dict[str, list[int]] = {}
        self._busy: dict[tuple[str, str], int] = {}
        self._next = 0

    def begin(self, node: str, op: str) -> int:
        free = self._free.setdefault(node, [])
        if free:
            number = heapq.heappop(free)
        else:
            number, self._next = self._next, self._next + 1
        self._busy[node, op] = number
        return number

    def end(self, node: str, op: str, known: bool) -> int | None:
        number = self._busy.pop((node, op), None)
        if number is not None and known:
            heapq.heappush(self._free[node], number)
        return number


def _entry(event: Stamped, processes: _Processes) -> dict[str, Any] | None:
    body = event.body
    if isinstance(body, CtlFault):
        value = {"fault": body.fault, "targets": body.targets, **body.parameters}
        return {"type": Keyword("info"), "process": NEMESIS, "f": Keyword(f"{body.phase}-{body.kind}"), "value": value}
    if isinstance(body, OpInvoke):
        process = processes.begin(event.node, body.op)
        kept = {"type": Keyword("invoke"), "process": process, "f": Keyword(body.kind), "value": _asked(body)}
        return {**kept, "node": event.node}
    if isinstance(body, OpReturn):
        ended = processes.end(event.node, body.op, body.outcome != "unknown")
        if ended is None:
            return None
        kept = {"type": _OUTCOMES[body.outcome], "process": ended, "f": Keyword(body.kind), "value": _told(body)}
        error = {"error": Keyword(error_name(body.error))} if body.error else {}
        return {**kept, **error, "node": event.node}
    return None


def _asked(body: OpInvoke) -> object:
    if isinstance(body, SendInvoke):
        return [[Keyword("send"), body.tp, body.uid]]
    if isinstance(body, PollInvoke):
        return [[Keyword("poll")]]
    if isinstance(body, ListInvoke):
        return {"partition": body.tp, "timestamp": body.timestamp}
    return _fields(body)


def _told(body: OpReturn) -> object:
    if isinstance(body, SendReturn):
        offset = body.offset if body.offset >= 0 else None
        return [[Keyword("send"), body.tp, [offset, body.uid] if body.outcome == "ok" else body.uid]]
    if isinstance(body, PollReturn):
        got = [[record.offset, record.uid] for record in body.records]
        return [[Keyword("poll"), _Literal({body.tp: got}) if got else _Literal({})]]
    if isinstance(body, ListReturn):
        offset = body.offset if body.offset >= 0 else None
        return {"partition": body.tp, "timestamp": body.timestamp, "offset": offset, "leader-epoch": body.leader_epoch}
    return _fields(body)


def _fields(body: OpInvoke | OpReturn) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(body).items() if name not in _OF_OPERATION}


class _Literal(dict[str, Any]):
    """A map whose keys are strings, as partitions are; the keys of all others are keywords."""


def written(value: object) -> str:
    """A value in EDN."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case Keyword():
            return f":{value}"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case int() | float():
            return str(value)
        case Mapping():
            keys = written if isinstance(value, _Literal) else _key
            return f"{{{', '.join(f'{keys(key)} {written(each)}' for key, each in value.items())}}}"
        case Sequence():
            return f"[{' '.join(map(written, value))}]"
    raise AssertionError(f"{value!r} is in no trace")


def _key(name: object) -> str:
    """A keyword where the name can be one, else a string."""
    text = str(name).replace("_", "-")
    plain = text.replace("-", "").replace(".", "")
    return f":{text}" if plain.isalnum() and plain.isascii() and text[0].isalpha() else written(str(name))
