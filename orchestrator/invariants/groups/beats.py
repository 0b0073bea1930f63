"""How often a member sends its heartbeats."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.trace.events import CtlFault, Rpc, Stamped
from chaos.faults.process import NodePause
from orchestrator.invariants.folds.fold import Witness, witness

LATE_US = 500_000
"""By how much a heartbeat may be late: the member's turns, and the rounding of times. On a machine that is busy with
other things, as in live runs, ``SLACK_US``."""


class Beats(msgspec.Struct):
    """Of a member. interval_us: heartbeat.interval.ms; late_us: by how much a heartbeat may be late. since_us: when its
    coordinator answered a call after which it sends the next heartbeat in time, by: the event that tells so; -1 nothing
    tells when it is due. pauses: faults in force by which its process has no time."""

    interval_us: int
    late_us: int = LATE_US
    since_us: int = -1
    by: Witness | None = None
    pauses: set[str] = set()

    def begin_anew(self) -> None:
        """It may send none now, or has lost its coordinator."""
        self.since_us, self.by = -1, None

    def faulted(self, node: str, body: CtlFault) -> None:
        """A fault begins or ends: a process that is paused sends nothing."""
        if body.kind == NodePause.kind and node in body.targets:
            (self.pauses.add if body.phase == "start" else self.pauses.discard)(body.fault)
            self.begin_anew()

    def called(self, event: Stamped, body: Rpc) -> int:
        """A call to the coordinator ended. Of a heartbeat that was to be sent in time, by how many microseconds it came
        after the call before; -1 any other."""
        is_beat = body.api == Api.Heartbeat.name
        answered = body.outcome == "answered"
        waited_us = -1
        if is_beat and answered and self.since_us >= 0:
            waited_us = max(event.wall - 1000 * body.took_ms - self.since_us, 0)
        goes_on = {*body.errors} <= {KafkaError.REBALANCE_IN_PROGRESS} if is_beat else not body.errors
        if not answered or not goes_on or body.api == Api.LeaveGroup.name:
            self.begin_anew()
        elif not self.pauses and (is_beat or body.api == Api.JoinGroup.name):
            self.since_us, self.by = event.wall, witness(event)
        return waited_us

    def is_late(self, waited_us: int) -> bool:
        """Whether a heartbeat that came so long after the call before was not sent in time."""
        return waited_us > self.interval_us + self.late_us
