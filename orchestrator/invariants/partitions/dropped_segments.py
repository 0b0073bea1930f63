"""Segments that a broker has dropped stay away: for P22."""

from __future__ import annotations

import msgspec

from actors.trace.events import LogAppend, LogDrop, LogLocalStart, LogStart, LogTrunc, NodeDown, PartAssume, Stamped
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.mirrors.log_mirror import ANEW


class Drop(msgspec.Struct, frozen=True, gc=False):
    """The files of all segments that end at or below ``base`` are to be removed."""

    base: int
    by: Witness


class DroppedSegments(msgspec.Struct):
    """Of one partition. ``begun``: broker -> the last drop that a process has begun, and may not have carried
    out before its end; ``done``: the highest that its processes have carried out, as long as its log is the same one;
    ``found``: the process whose log was compared with that."""

    begun: dict[str, Drop] = {}
    done: dict[str, Drop] = {}
    found: dict[str, int] = {}

    def take(self, tp: str, event: Stamped) -> None:
        """An event of the partition, after it was judged."""
        body, node = event.body, event.node
        if type(body) is LogDrop:
            self.begun[node] = Drop(body.base, witness(event))
        elif type(body) is LogStart:
            if body.reason in ANEW:
                self._forget(node, -1)
        elif type(body) is LogLocalStart:
            if body.reason == "remote":
                self._forget(node, -1)
        elif type(body) is LogTrunc:
            self._forget(node, body.to + 1)
        elif type(body) is PartAssume:
            self._forget(node, body.log_end + 1)
        elif type(body) is NodeDown and (lost := body.lost.get(tp)) is not None:
            self._forget(node, lost)  # where that is all, the next process may begin anywhere

    def appended(self, event: Stamped, body: LogAppend) -> None:
        """A later step of the process that has begun to drop files. Retention, which drops them, appends nothing in its
        step, so that the files are gone."""
        begun = self.begun.pop(event.node)
        known = self.done.get(event.node)
        newer = known is None or known.base < begun.base
        if newer and begun.by.incarnation == event.incarnation and begun.base <= body.base:
            self.done[event.node] = begun

    def back(self, event: Stamped, body: LogStart | PartAssume) -> tuple[int, Drop] | None:
        """Where a process that starts has found its log to begin, and what an earlier process had dropped of it; None
        where nothing is to be compared. The first event that says where it begins counts: a log that begins at 0 says
        nothing until it is taken up."""
        drop = self.done.get(event.node)
        if drop is None or drop.by.incarnation == event.incarnation or self.found.get(event.node) == event.incarnation:
            return None
        self.found[event.node] = event.incarnation
        if type(body) is PartAssume and body.log_end < drop.base:
            return None
        return (body.new if type(body) is LogStart else 0), drop

    def _forget(self, node: str, end: int) -> None:
        """A log ends below ``end``, or -1, is another one: what was dropped of it says nothing from then on."""
        for drops in (self.begun, self.done):
            drop = drops.get(node)
            if drop is not None and end <= drop.base:
                del drops[node]
