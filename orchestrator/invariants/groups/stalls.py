"""Whether the application of a member polls: if it does not, the member sends no heartbeats any more after a while."""

from __future__ import annotations

import msgspec

from actors.node.messages import Api
from actors.trace.events import ConsStall, CtlFault, Rpc, Stamped
from chaos.faults.process import NodePause
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.folds.pauses import EARLY_US
from orchestrator.invariants.groups.beats import LATE_US
from orchestrator.invariants.groups.contact import sent_us


class Stalls(msgspec.Struct):
    """Of a member. limit_us: max.poll.interval.ms. since_us: since when its application has not polled, as far as the
    consumer knows, by: the event that tells so; -1 nothing tells. until_us: when it has polled again, -1 it has not.
    beats: heartbeats that were sent in between, and not too late."""

    limit_us: int = 0
    since_us: int = -1
    until_us: int = -1
    by: Witness | None = None
    beats: int = 0

    def begin_anew(self) -> None:
        """Nothing is known of its application."""
        self.since_us, self.until_us, self.by, self.beats = -1, -1, None, 0

    def faulted(self, node: str, body: CtlFault) -> None:
        """A process that is paused measures no time, and its application polls no less than it should."""
        if body.kind == NodePause.kind and node in body.targets:
            self.begin_anew()

    def told(self, event: Stamped, body: ConsStall) -> bool:
        """The application does not poll from now on, or polls again; whether it did not for too long, and the consumer
        had sent heartbeats at first."""
        if body.phase == "begin":
            self.begin_anew()
            self.since_us, self.by = event.wall, witness(event)
            return False
        self.until_us = event.wall
        return self.since_us >= 0 and self.beats > 0 and self.until_us - self.since_us > self.limit_us + LATE_US

    def joined(self, now_us: int) -> None:
        """The consumer takes the answer to a JoinGroup for a poll of its application, and begins anew after a close."""
        if self.since_us >= 0 and self.until_us < 0:
            self.since_us, self.beats = now_us, 0

    def called(self, event: Stamped, body: Rpc) -> int:
        """A call to the coordinator ended. Of a heartbeat that was sent too late in a stall, after how many
        microseconds of it; -1 of any other call."""
        if body.api == Api.JoinGroup.name and body.outcome == "answered":
            self.joined(event.wall)
        if body.api != Api.Heartbeat.name or self.since_us < 0:
            return -1
        sent = sent_us(event, body)
        # It is not sure when it was sent: certainly no later than this.
        if sent < self.since_us or 0 <= self.until_us <= sent + 2 * EARLY_US:
            return -1
        stalled_us = sent - self.since_us
        if stalled_us > self.limit_us + LATE_US:
            return stalled_us
        self.beats += 1
        return -1
