"""The driver's own part of a live trace, a little behind: a machine that gave nodes no time is told like a pause.

Nodes notice such stalls when they are over (``actors.live.stalls``). The driver holds its events back until it has
heard of the stalls that lie before them, and puts these in their place: a fault of kind ``pause`` that nobody asked
for, and no stability window as long as it lasts. Else a busy machine would look like a broken promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from actors.live.stalls import SPAN_S
from actors.live.writer import ChunkWriter
from actors.trace.events import BUSY_MACHINE, AnyTraceEvent, CtlFault, CtlWindow, Stamped
from actors.trace.lines import encode_line
from chaos.faults.kinds import kinds_of
from chaos.faults.process import NodePause

HOLD_US = 5_000_000
"""How far the log is behind. A stall that is told of later begins where the log ends."""
HOLD_MAX_US = 60_000_000
"""The same where nodes have so little time that they do not even say so."""
UNTOLD_US = int(1e6 * SPAN_S)
"""What a node tells of next may have begun so long before it spoke last."""
JOIN_US = int(1.2e6 * SPAN_S)
"""Stalls so near to each other are one: a node tells of them once in ``SPAN_S``."""
RESUMED_US = 300_000
"""A process that a fault stopped may need so long to notice that it goes on."""

NEVER = 1 << 62

PAUSES = kinds_of(NodePause)


class Busy(NamedTuple):
    """A time in which nodes got no time."""

    since_us: int
    until_us: int
    nodes: frozenset[str]


class Open(msgspec.Struct):
    """A fault that is told of and lasts."""

    faults: dict[str, list[str]]

    @property
    def nodes(self) -> set[str]:
        """Whom it hits."""
        return {node for targets in self.faults.values() for node in targets}


class Pause(msgspec.Struct):
    """That a fault stopped a process. ``until_us``: NEVER while it lasts."""

    fault: str
    since_us: int
    until_us: int


class DriverLog:
    """Takes the driver's events as they are stamped, in order, and writes them; sequence numbers are given here."""

    def __init__(self, writer: ChunkWriter) -> None:
        self._writer = writer
        self._held: list[Stamped] = []
        self._stalls: list[Busy] = []
        self._pauses: dict[str, list[Pause]] = {}
        self._busy: Open | None = None
        self._done_us = 0
        """Stalls until then are told."""
        self._faults = 0
        self._window: CtlWindow | None = None
        self._shown = False
        self._last: Stamped | None = None

    @property
    def seq(self) -> int:
        """Number of the last event that was written, -1 before the first."""
        return -1 if self._last is None else self._last.seq

    def add(self, event: Stamped) -> None:
        """The next event."""
        self._held.append(event)
        body = event.body
        if isinstance(body, CtlFault) and body.kind in PAUSES:
            for node in body.targets:
                own = self._pauses.setdefault(node, [])
                if body.phase == "start":
                    own.append(Pause(body.fault, event.wall, NEVER))
                for pause in own if body.phase == "stop" else ():
                    if pause.fault == body.fault:
                        pause.until_us = min(pause.until_us, event.wall + RESUMED_US)

    def stalled(self, node: str, since_us: int, until_us: int) -> None:
        """A node got no time."""
        self._stalls.append(Busy(since_us, until_us, frozenset({node})))

    def release(self, now_us: int, heard_us: int = NEVER) -> None:
        """Write what is old enough by now. ``heard_us``: until when all nodes have told of their stalls."""
        self._write(min(now_us - HOLD_US, max(heard_us - UNTOLD_US, now_us - HOLD_MAX_US)), now_us)

    def release_all(self, now_us: int) -> None:
        """Write everything: no stall will be told of any more."""
        self._write(NEVER, now_us)

    def close(self, last: Stamped, now_us: int) -> None:
        """Write the last event, after everything else."""
        self._put(last)
        self._writer.close(now_us)

    # ---- what comes in between ---------------------------------------------------------------------------

    def _write(self, upto_us: int, now_us: int) -> None:
        if not self._held and not self._stalls:
            return
        for busy in self._times():
            if busy.since_us > upto_us:
                break
            self._own(busy.since_us)
            self._begin(busy)
            if busy.until_us + JOIN_US > upto_us:
                # It may go on: what comes after it has to wait until nobody can say so any more.
                upto_us = min(busy.until_us, upto_us)
                break
            self._own(busy.until_us)
            self._end(busy.until_us)
        self._own(upto_us)
        self._writer.flush(now_us)

    def _times(self) -> list[Busy]:
        """The stalls that are not over for the log yet, without what a fault stopped, joined."""
        joined: list[Busy] = []
        self._stalls = [stall for stall in self._stalls if stall.until_us > self._done_us]
        for each in sorted(part for stall in self._stalls for part in self._cut(stall)):
            if joined and each.since_us <= joined[-1].until_us + JOIN_US:
                last = joined[-1]
                joined[-1] = Busy(last.since_us, max(last.until_us, each.until_us), last.nodes | each.nodes)
            else:
                joined.append(each)
        return joined

    def _cut(self, stall: Busy) -> Iterator[Busy]:
        (node,) = stall.nodes
        since_us = max(stall.since_us, self._done_us)
        for pause in self._pauses.get(node, []):
            until_us = min(pause.since_us, stall.until_us)
            if since_us < until_us:
                yield Busy(since_us, until_us, stall.nodes)
            since_us = max(since_us, pause.until_us)
        if since_us < stall.until_us:
            yield Busy(since_us, stall.until_us, stall.nodes)

    def _begin(self, busy: Busy) -> None:
        """Tell of it, or of those whom it hits, too."""
        known = set() if self._busy is None else self._busy.nodes
        targets = sorted(busy.nodes - known)
        if not targets:
            return
        self._busy = self._busy or Open({})
        self._faults += 1
        name = f"busy-machine-{self._faults}"
        self._busy.faults[name] = targets
        if self._window is not None and self._shown and self._disturbs(self._window):
            self._insert(busy.since_us, CtlWindow(self._window.window, "close", self._window.core))
            self._shown = False
        self._insert(busy.since_us, CtlFault(name, NodePause.kind, "start", targets, BUSY_MACHINE))

    def _end(self, at_us: int) -> None:
        assert self._busy is not None
        self._done_us = at_us
        for name, targets in self._busy.faults.items():
            self._insert(at_us, CtlFault(name, NodePause.kind, "stop", targets, BUSY_MACHINE))
        self._busy = None
        if self._window is not None and not self._shown:
            self._insert(at_us, self._window)
            self._shown = True

    def _disturbs(self, window: CtlWindow) -> bool:
        return self._busy is not None and not self._busy.nodes.isdisjoint(window.core)

    # ---- writing -----------------------------------------------------------------------------------------

    def _own(self, upto_us: int) -> None:
        """What the driver recorded up to then."""
        upto = next((at for at, event in enumerate(self._held) if event.wall > upto_us), len(self._held))
        held, self._held = self._held[:upto], self._held[upto:]
        for event in held:
            body = event.body
            if isinstance(body, CtlWindow):
                if body.phase == "open":
                    self._window, self._shown = body, not self._disturbs(body)
                    if not self._shown:
                        continue
                else:
                    shown, self._window, self._shown = self._shown, None, False
                    if not shown:
                        continue
            self._put(event)

    def _insert(self, at_us: int, body: AnyTraceEvent) -> None:
        last = self._last
        assert last is not None  # run.meta came first
        wall = max(at_us, last.wall)
        logical = last.logical + 1 if wall == last.wall else 0
        self._put(Stamped(last.run, last.node, last.incarnation, 0, wall, logical, "", "", body))

    def _put(self, event: Stamped) -> None:
        last = self._last
        assert last is None or (last.wall, last.logical) < (event.wall, event.logical), (last, event)
        event = msgspec.structs.replace(event, seq=self.seq + 1)
        self._last = event
        self._writer.add(encode_line(event))
