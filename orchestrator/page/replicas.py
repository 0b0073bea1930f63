"""Lanes of partitions: which replica leads and which are in the ISR, by the controller's log; and the offsets of each
replica over time."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator

import msgspec

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import LogAppend, LogHw, LogTrunc, NodeUp, PartAssume, PartChange, PartRemove, Stamped
from orchestrator.page.lanes import Stretch, at
from orchestrator.page.model import Lane, Series, Style, Turn
from orchestrator.page.thinning import steps
from orchestrator.story.words import CAUSES, brokers, truncation

PARTITIONS_MAX = 24
"""Partitions that a page has; it first shows those that matter most."""
POINTS_MAX = 40_000
"""Points of all lines of a page."""
LINE_MAX = 1_600
"""Points of a line: more than that no screen shows."""
TURNS_MAX = 200
"""Turns of logs that a page has, the first of the run."""


class _Line(msgspec.Struct):
    us: array[int] = msgspec.field(default_factory=lambda: array("q"))
    offset: array[int] = msgspec.field(default_factory=lambda: array("q"))

    def add(self, us: int, offset: int) -> None:
        self.us.append(us)
        self.offset.append(offset)


class Replicas:
    """Takes the events of a run in order."""

    def __init__(self) -> None:
        self.changes: dict[str, int] = {}
        """Partition -> how often its state changed."""
        self._stretches: dict[str, dict[int, list[Stretch]]] = {}
        self._unclean: dict[str, int] = {}
        """Partition -> the leader epoch that an unclean election began last."""
        self._ends: dict[tuple[str, str], _Line] = {}
        self._watermarks: dict[tuple[str, str], _Line] = {}
        self._turns: list[tuple[int, Turn]] = []

    def __call__(self, event: Stamped) -> None:
        body = event.body
        match body:
            case LogAppend():
                self._line(self._ends, body.tp, event.node).add(event.wall, body.last + 1)
            case LogHw():
                self._line(self._watermarks, body.tp, event.node).add(event.wall, body.new)
                self._line(self._ends, body.tp, event.node).add(event.wall, body.log_end)
            case LogTrunc():
                self._line(self._ends, body.tp, event.node).add(event.wall, body.to)
                if body.was > body.to:
                    self._turn(event, Turn(body.tp, event.node, "truncates", 0, body.to, truncation(event.node, body)))
            case PartAssume():
                self._line(self._ends, body.tp, event.node).add(event.wall, body.log_end)
                self._line(self._watermarks, body.tp, event.node).add(event.wall, body.high_watermark)
                if body.role == "leader" and body.leader_epoch > 0:
                    ends = f"log end {body.log_end:,}, high watermark {body.high_watermark:,}"
                    told = f"{event.node} becomes leader of {body.tp} in leader epoch {body.leader_epoch} ({ends})"
                    self._turn(event, Turn(body.tp, event.node, "leads", 0, body.log_end, told))
            case NodeUp(wiped=True):
                self._empty(event)
            case PartChange():
                self._change(event.wall, body)
            case PartRemove():
                self._end(body.tp, event.wall)

    @property
    def partitions(self) -> list[str]:
        """All that there are, the metadata log last."""
        found = {*self.changes, *(tp for tp, _ in self._ends)}
        return sorted(found, key=lambda tp: (tp == METADATA_PARTITION, tp))

    def chosen(self, broken: Collection[str]) -> list[str]:
        """Those that a page has: at which something broke, then those that changed most."""
        ranked = sorted(self.partitions, key=lambda tp: (tp not in broken, -self.changes.get(tp, 0)))
        kept = {*ranked[:PARTITIONS_MAX]}
        return [tp for tp in self.partitions if tp in kept]

    def lanes(self, tps: Collection[str], zero_us: int, last_us: int) -> Iterator[Lane]:
        """A lane for each replica of each of these partitions."""
        for tp in tps:
            for number, stretches in sorted(self._stretches.get(tp, {}).items()):
                node = f"broker-{number}"
                bars = [each.bar(zero_us, last_us) for each in stretches]
                yield Lane(f"{tp} on {number}", "partitions", bars, node, tp)

    def series(self, tps: Collection[str], zero_us: int) -> tuple[list[Series], int]:
        """The offsets of these partitions' replicas, and how many points were left out."""
        lines = [
            (tp, node, what, line)
            for what, lines in (("log end", self._ends), ("high watermark", self._watermarks))
            for (tp, node), line in sorted(lines.items())
            if tp in tps
        ]
        most = min(LINE_MAX, max(16, POINTS_MAX // max(1, len(lines))))
        found, left = [], 0
        for tp, node, what, line in lines:
            us, offsets = steps(line.us, line.offset, most)
            left += len(steps(line.us, line.offset, len(line.us) + 1)[0]) - len(us)
            x = [at(each, zero_us) for each in us]
            found.append(Series(tp, node, "log end" if what == "log end" else "high watermark", x, offsets))
        return found, left

    def turns(self, tps: Collection[str], zero_us: int) -> tuple[list[Turn], int]:
        """Turns of these partitions' logs after time 0, but for the metadata log's, and how many were left out."""
        every = [
            msgspec.structs.replace(turn, at=at(us, zero_us))
            for us, turn in self._turns
            if turn.tp in tps and us >= zero_us and turn.tp != METADATA_PARTITION
        ]
        return every[:TURNS_MAX], max(0, len(every) - TURNS_MAX)

    def _turn(self, event: Stamped, turn: Turn) -> None:
        self._turns.append((event.wall, turn))

    def _empty(self, event: Stamped) -> None:
        """A disk that is empty has no log any more."""
        for lines in (self._ends, self._watermarks):
            for (tp, node), line in lines.items():
                if node != event.node:
                    continue
                line.add(event.wall, 0)
                if lines is self._ends:
                    self._turn(event, Turn(tp, node, "empty", 0, 0, f"{node} starts with an empty disk"))

    def _line(self, lines: dict[tuple[str, str], _Line], tp: str, node: str) -> _Line:
        line = lines.get((tp, node))
        if line is None:
            line = lines[tp, node] = _Line()
        return line

    def _change(self, us: int, body: PartChange) -> None:
        self.changes[body.tp] = self.changes.get(body.tp, 0) + 1
        self._end(body.tp, us)
        why = CAUSES.get(body.cause, body.cause)
        leader = f"broker-{body.leader}" if body.leader >= 0 else "nobody"
        state = f"{body.tp}: {leader} leads in leader epoch {body.leader_epoch}, ISR {brokers(body.isr)} ({why})"
        if body.elr:
            state += f", eligible besides: {brokers(body.elr)}"
        if body.cause == "unclean":
            self._unclean[body.tp] = body.leader_epoch
        unclean = self._unclean.get(body.tp) == body.leader_epoch
        for number in body.replicas:
            if number == body.leader:
                style: Style = "unclean" if unclean else "leader"
                label = f"leader, epoch {body.leader_epoch}{', unclean' if unclean else ''}"
            else:
                style, label = ("isr", "in ISR") if number in body.isr else ("out", "")
            lanes = self._stretches.setdefault(body.tp, {})
            lanes.setdefault(number, []).append(Stretch(style, us, label, state, body.tp))

    def _end(self, tp: str, us: int) -> None:
        for stretches in self._stretches.get(tp, {}).values():
            if stretches[-1].end_us < 0:
                stretches[-1].end_us = us
