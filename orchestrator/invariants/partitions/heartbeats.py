"""When brokers send heartbeats, as long as nothing keeps them from it."""

from __future__ import annotations

import msgspec

from actors.trace.events import ClockSet, CtlFault, DiskRuleChange, NodeDown, NodeUp, QRole, Rpc, Stamped
from orchestrator.invariants.folds.fold import Profile, Witness, witness
from orchestrator.invariants.folds.leftovers import Leftovers

SESSION_TIMEOUT = "broker.session.timeout.ms"
HEARTBEAT_INTERVAL = "broker.heartbeat.interval.ms"
ON_ITS_WAY_US = 500_000
"""By so much a heartbeat may be sent, and arrive, later than its timer says."""


class LastBeat(msgspec.Struct, frozen=True):
    """The last heartbeat of a broker that is over: of which process, to whom, when it was sent and ended, and whether
    the controller took it."""

    incarnation: str
    to: str
    sent_us: int
    ended_us: int
    taken: bool
    by: Witness


class Heartbeats(msgspec.Struct):
    """last: broker -> its last heartbeat. open: faults in force -> on whom. touched_us: node -> when something befell
    it last. elected_us: when a member of the quorum changed its role last."""

    last: dict[str, LastBeat] = {}
    open: dict[str, list[str]] = {}
    touched_us: dict[str, int] = {}
    left: Leftovers = msgspec.field(default_factory=Leftovers)
    elected_us: int = 0

    def take(self, event: Stamped) -> None:
        """A heartbeat is over, or something happened that may keep others from being sent."""
        body = event.body
        if type(body) is Rpc:
            incarnation = f"{event.node}/{event.incarnation}"
            taken = body.outcome == "answered" and not body.errors
            sent_us = event.wall - 1000 * body.took_ms
            self.last[event.node] = LastBeat(incarnation, body.dst, sent_us, event.wall, taken, witness(event))
        elif type(body) is QRole:
            self.elected_us = event.wall
        elif type(body) is CtlFault:
            self.left.take(body, event.wall)
            if body.phase == "start":
                self.open[body.fault] = body.targets
            else:
                self.open.pop(body.fault, None)
            for node in body.targets:
                self.touched_us[node] = event.wall
        elif isinstance(body, NodeUp | NodeDown | ClockSet | DiskRuleChange):
            self.touched_us[event.node] = event.wall

    def missing(self, event: Stamped, broker: str, incarnation: str, profile: Profile) -> LastBeat | None:
        """The last heartbeat of a broker that a controller fences now for its silence, if another one should have been
        sent since, and have ended: it was answered, and nothing has befallen the two since it was sent. What is sent
        is given up after half of a session timeout."""
        last, controller = self.last.get(broker), event.node
        if last is None or not last.taken or (last.incarnation, last.to) != (incarnation, controller):
            return None
        calm_us = max(
            self.elected_us, self.left.all_us, *(self.touched_us.get(each, 0) for each in (broker, controller))
        )
        if calm_us >= last.sent_us or any(node in hit for hit in self.open.values() for node in (broker, controller)):
            return None
        longest_ms = profile.number(HEARTBEAT_INTERVAL, broker) + profile.number(SESSION_TIMEOUT, broker) // 2
        return last if event.wall > last.ended_us + 1000 * longest_ms + ON_ITS_WAY_US else None
