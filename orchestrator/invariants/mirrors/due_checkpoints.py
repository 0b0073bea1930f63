"""High watermarks that a broker's checkpoint must have, whenever its process ends."""

from __future__ import annotations

import msgspec

from actors.trace.events import ClockSet, CtlFault, DiskRuleChange, NodeDown, NodeUp, Stamped
from orchestrator.invariants.folds.fold import Profile, Witness, witness
from orchestrator.invariants.folds.hindered_timers import HinderedTimers
from orchestrator.invariants.mirrors.old_checkpoints import INTERVAL

SYNC_US = 1_000_000
"""A checkpoint is on the disk so long after it was written, unless something slows the disk down."""
SLICES = 4
"""In so many parts of the time that is looked back the least high watermark is kept."""


class Slice(msgspec.Struct):
    """A part of the time of one life. The high watermark was set first at ``from_us`` and last at ``until_us``, to
    ``last``; ``least`` was the least one in between."""

    from_us: int
    until_us: int
    least: int
    last: int


class Lately(msgspec.Struct):
    """The high watermarks of a broker in one life. since_us: when it took the partition up, or was hindered last."""

    incarnation: int
    since_us: int
    slices: list[Slice]

    def least_since(self, since_us: int) -> int:
        """The least one that it had at that time or later."""
        found = [self.slices[-1].last]
        for part, then in zip(self.slices, self.slices[1:], strict=False):
            if then.from_us >= since_us:
                found.append(part.last)
        return min([*found, *(part.least for part in self.slices if part.until_us >= since_us)])


class Due(msgspec.Struct, frozen=True):
    """A process ended whose checkpoint has this high watermark, or a higher one."""

    high_watermark: int
    by: Witness


class DueCheckpoints(msgspec.Struct):
    """Of one partition, by broker. A broker writes its high watermarks to its checkpoint at each interval. Twice that
    is looked back, and a second: then the last checkpoint but one has come to the disk as well."""

    tp: str = ""
    looks_back_us: dict[str, int] = {}
    lately: dict[str, Lately] = {}
    due: dict[str, Due] = {}
    timers: HinderedTimers = msgspec.field(default_factory=HinderedTimers)

    @staticmethod
    def of(tp: str, profile: Profile) -> DueCheckpoints:
        """Those of a topic partition."""
        default_ms = profile.number(INTERVAL)
        own_ms = {node: int(profile.setting(INTERVAL, node, default_ms)) for node in profile.nodes}
        return DueCheckpoints(tp, {node: 2000 * ms + SYNC_US for node, ms in {"": default_ms, **own_ms}.items()})

    def moved(self, event: Stamped, high_watermark: int) -> None:
        """A broker has a high watermark from now on."""
        known, part = self.lately.get(event.node), Slice(event.wall, event.wall, high_watermark, high_watermark)
        if known is None or known.incarnation != event.incarnation:
            self.lately[event.node] = Lately(event.incarnation, event.wall, [part])
            return
        back_us, newest = self._looks_back_us(event.node), known.slices[-1]
        if event.wall < newest.from_us + back_us // SLICES:
            newest.until_us, newest.last = event.wall, high_watermark
            newest.least = min(newest.least, high_watermark)
            return
        known.slices.append(part)
        while known.slices[1].from_us < event.wall - back_us:
            del known.slices[0]

    def hinder(self, event: Stamped, body: CtlFault | ClockSet | DiskRuleChange) -> None:
        """Timers of nodes may be late from now on, or their disks slow; or both are right again, some time after."""
        for node, late_us in self.timers.take(event, body):
            known = self.lately.get(node)
            if known is not None:
                known.since_us = max(known.since_us, event.wall + late_us)

    def ended(self, event: Stamped, body: NodeDown) -> None:
        """A process is gone. Nobody knows what a disk has that has lost the log; else the checkpoint stays, also if
        that process never came to write one."""
        known, back_us = self.lately.pop(event.node, None), self._looks_back_us(event.node)
        unknown = self.tp in body.lost or (body.mode == "lossy" and not body.lost)
        if unknown or body.mode not in ("crash", "fatal", "lossy"):
            self.due.pop(event.node, None)
        elif known is not None and known.incarnation == event.incarnation:
            self.due.pop(event.node, None)
            since_us = event.wall - back_us
            if known.since_us <= since_us and not self.timers.are_wrong(event.node):
                self.due[event.node] = Due(known.least_since(since_us), witness(event))

    def began(self, event: Stamped, body: NodeUp) -> None:
        """The next one begins."""
        if body.wiped:
            self.due.pop(event.node, None)

    def take_up(self, event: Stamped) -> Due | None:
        """A process takes the partition up: what it must know for the first time."""
        return self.due.pop(event.node, None)

    def _looks_back_us(self, node: str) -> int:
        return self.looks_back_us.get(node, self.looks_back_us.get("", 0))
