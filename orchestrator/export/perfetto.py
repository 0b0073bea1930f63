"""A run in the Trace Event format, which Perfetto and chrome://tracing show: a process for each node, operations and
RPCs as slices, offsets as counters, messages as arrows."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from actors.trace.events import (
    CtlFault,
    CtlPhase,
    LogAppend,
    LogHw,
    LogTrunc,
    OpInvoke,
    OpReturn,
    Rpc,
    Stamped,
    Tick,
)
from orchestrator.story.events_in_words import in_words
from orchestrator.story.words import fault_words
from orchestrator.trace.ids import place_of

EVENTS, RPCS = 1, 2
"""Tracks of a node."""
Entry = dict[str, Any]


def perfetto(events: Iterable[Stamped]) -> Iterator[str]:
    """Pieces of one JSON object, for a trace whose events come in order. Ticks are left out. Times are microseconds."""
    pids: dict[str, int] = {}
    walls: dict[tuple[str, int], array[int]] = {}
    flows = 0
    yield '{"displayTimeUnit": "ms", "traceEvents": [\n'
    yield _line(_name("process_name", 0, 0, "faults"))
    for event in events:
        entries: list[Entry] = []
        pid = pids.get(event.node)
        if pid is None:
            pid = pids[event.node] = len(pids) + 1
            entries += [_name("process_name", pid, 0, event.node), _name("thread_name", pid, EVENTS, "events")]
            entries.append(_name("thread_name", pid, RPCS, "RPCs"))
        life = walls.setdefault((event.node, event.incarnation), array("q"))
        while len(life) <= event.seq:
            life.append(event.wall)
        if not isinstance(event.body, Tick):
            entries += _entries(event, pid)
            sender = place_of(event.cause)
            sent = walls.get(sender[:2]) if sender is not None and sender[0] != event.node else None
            if sender is not None and sent is not None and sender[2] < len(sent):
                flows += 1
                entries += _flow(flows, pids[sender[0]], sent[sender[2]], pid, event.wall)
        yield "".join(",\n" + _line(entry) for entry in entries)
    yield "\n]}\n"


def _entries(event: Stamped, pid: int) -> Iterator[Entry]:
    body = event.body
    arguments = {"event": event.id, "cause": event.cause, **msgspec.to_builtins(body)}
    yield {
        "ph": "X", "pid": pid, "tid": EVENTS, "ts": event.wall, "dur": 1, "name": event.type, "cat": "event",
        "args": {"words": in_words(event), **arguments},
    }  # fmt: skip
    match body:
        case OpInvoke() | OpReturn():
            phase, name = "b" if isinstance(body, OpInvoke) else "e", f"{event.node} {body.op}"
            yield {"ph": phase, "pid": pid, "tid": 0, "ts": event.wall, "id": name, "cat": "operation",
                   "name": body.kind, "args": arguments}  # fmt: skip
        case Rpc():
            took = body.took_ms * 1_000
            yield {"ph": "X", "pid": pid, "tid": RPCS, "ts": event.wall - took, "dur": took, "cat": "rpc",
                   "name": f"{body.api} to {body.dst}", "args": arguments}  # fmt: skip
        case LogAppend():
            yield _counter(event, pid, "log end", body.tp, body.last + 1)
        case LogTrunc():
            yield _counter(event, pid, "log end", body.tp, body.to)
        case LogHw():
            yield _counter(event, pid, "high watermark", body.tp, body.new)
        case CtlFault():
            phase = "b" if body.phase == "start" else "e"
            yield {"ph": phase, "pid": 0, "tid": 0, "ts": event.wall, "id": body.fault, "cat": "fault",
                   "name": fault_words(body), "args": arguments}  # fmt: skip
        case CtlPhase():
            yield {"ph": "i", "pid": 0, "tid": 0, "ts": event.wall, "s": "g", "name": body.phase, "cat": "phase"}


def _counter(event: Stamped, pid: int, what: str, tp: str, value: int) -> Entry:
    return {"ph": "C", "pid": pid, "ts": event.wall, "name": f"{tp} {what}", "args": {"offset": value}}


def _flow(number: int, sender: int, sent: int, receiver: int, received: int) -> list[Entry]:
    common = {"cat": "message", "name": "message", "id": number, "tid": EVENTS}
    return [
        {"ph": "s", "pid": sender, "ts": sent, **common},
        {"ph": "f", "bp": "e", "pid": receiver, "ts": received, **common},
    ]


def _name(what: str, pid: int, tid: int, name: str) -> Entry:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}


def _line(entry: Entry) -> str:
    return msgspec.json.encode(entry).decode()
