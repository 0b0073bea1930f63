"""What a leader commits at once, when a follower fetches, it appends, it learns of its ISR, or it begins alone: all
that every replica has that counts."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import msgspec

from actors.node.spec import node_name
from actors.trace.events import (
    BrokerReg,
    ClockSet,
    CtlFault,
    IsrPropose,
    LogAppend,
    LogHw,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    RepFetch,
    Stamped,
    TraceEvent,
)
from orchestrator.invariants.folds.bounds import SLACK_US, longest_ms
from orchestrator.invariants.folds.fold import Profile, Witness, witness
from orchestrator.invariants.folds.hindered_timers import HinderedTimers
from orchestrator.invariants.mirrors.known_brokers import FOLLOWED, KnownBrokers
from orchestrator.invariants.mirrors.known_isr import NEWS, KnownIsr, KnownIsrs
from orchestrator.invariants.partitions.lagging import LAG, ROUNDING_US, Follower, Term

HEARD: tuple[type[TraceEvent], ...] = tuple(dict.fromkeys((*NEWS, *FOLLOWED, NodeDown, CtlFault, ClockSet)))
"""Types of the events that concern every partition."""


class Owed(msgspec.Struct, frozen=True):
    """By the event ``by``, in the step ``req``, every replica that counts has the log up to ``target``."""

    req: str
    target: int
    by: Witness


class Counted(msgspec.Struct):
    """What the leader of the newest leader epoch knows of its followers, at most. term: since it leads, "" nobody does;
    ``start``: its log end then; ``since_us``: when; ``began_with``: the ISR then, None where that is not known.
    proposed: the partition epoch of its last proposal, and the ISR. controller: who leads the quorum. ended_us: when
    one ended that may not have told of all that it appended, -1 never; doubtful: nothing shows since that the leader
    knows the ISR that the trace has. told_us: broker -> when the newest controller last told of it."""

    tp: str = ""
    profile: Profile = Profile()
    lag_us: int = 0
    node: str = ""
    leader_id: int = -1
    term: Term | None = None
    start: int = 0
    since_us: int = 0
    began_with: list[int] | None = None
    high_watermark: int = 0
    replicas: list[int] = []
    proposed: tuple[int, list[int]] = (-1, [])
    isrs: KnownIsrs = msgspec.field(default_factory=KnownIsrs)
    brokers: KnownBrokers = msgspec.field(default_factory=KnownBrokers)
    timers: HinderedTimers = msgspec.field(default_factory=HinderedTimers)
    sane_us: dict[str, int] = {}
    controller: str = ""
    doubtful: bool = False
    ended_us: int = -1
    told_us: dict[int, int] = {}
    owed: Owed | None = None

    @staticmethod
    def of(tp: str, profile: Profile) -> Counted:
        """Of a topic partition."""
        return Counted(tp, profile, longest_ms(profile, LAG) * 1000)

    # ---- the run ------------------------------------------------------------------------------------------------

    def hear(self, event: Stamped) -> None:
        """Take an event of the types in ``HEARD``."""
        body: Any = event.body
        kind = type(body)
        if kind is CtlFault or kind is ClockSet:
            for node, late_us in self.timers.take(event, body):
                # Who was stopped within a step records the rest of it when it runs again.
                self.sane_us[node] = event.wall + late_us + SLACK_US
            return
        if kind is NodeDown or kind is NodeUp:
            if event.node == self.node:
                self.leave()
            if event.node == self.controller and (kind is NodeUp or body.mode != "clean"):
                self.doubtful, self.ended_us = True, event.wall
        elif kind is QRole and body.role == "leader":
            self.controller = event.node
        if kind in NEWS:
            self.isrs.hear(event, self.tp, self.profile)
        if kind in FOLLOWED:
            self.brokers.apply(event)
        if kind is BrokerReg and event.node == self.brokers.controller[1]:
            self.told_us[body.broker] = event.wall

    def change(self, event: Stamped, body: PartChange) -> None:
        """A controller appended a change."""
        self.isrs.change(event, body)
        self.replicas = body.replicas

    # ---- the leader ---------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """It leads no more, or ends."""
        self.node, self.term, self.owed, self.proposed = "", None, None, (-1, [])

    def lead(self, event: Stamped, body: PartAssume) -> None:
        """A leader begins. What it has is committed, if it is the whole ISR: nobody need tell it of anything."""
        self.leave()
        self.node, self.leader_id, self.start, self.since_us = event.node, body.leader, body.log_end, event.wall
        self.high_watermark = body.high_watermark
        self.term = Term(body.leader_epoch, body.partition_epoch, body.log_end, witness(event), self.lag_us, 0)
        known, self.began_with = self._known(), None
        if known is not None and body.partition_epoch == known.partition_epoch:
            self.doubtful, self.began_with = False, known.isr
            if known.isr == [self.leader_id]:
                self._owe(event)

    def settle(self, event: Stamped) -> Owed | None:
        """The leader records something. What it owes by an earlier step, it has not done."""
        owed = self.owed
        if owed is None or event.req == owed.req:
            return None
        self.owed = None
        return owed if event.incarnation == owed.by.incarnation else None

    def append(self, event: Stamped, body: LogAppend) -> None:
        """Its log grows. A leader that is the whole ISR commits that at once, too."""
        if self.term is None:
            return
        self.term.grows(body.last + 1, event.wall)
        known = self._known()
        if known is not None and known.isr == [self.leader_id] and not body.transactional:
            self._owe(event)

    def move(self, body: LogHw) -> bool:
        """Its high watermark moves; whether it owed that."""
        self.high_watermark = body.new
        if self.owed is None or body.new < self.owed.target:
            return False
        self.owed = None
        return True

    def propose(self, event: Stamped, body: IsrPropose) -> None:
        """It proposes an ISR, or learns what became of that: with another ISR it may have more to commit."""
        self.isrs.settle(event, body)
        if body.outcome == "proposed":
            self.proposed = (body.partition_epoch, body.isr)
            self.doubtful = body.partition_epoch != self._known_epoch()
        elif body.outcome == "accepted" and self.term is not None:
            self._owe(event)

    def fetched(self, event: Stamped, body: RepFetch) -> None:
        """A follower says where it is. A leader looks how far it may commit if that is elsewhere than before."""
        if self.term is None:
            return
        before = self.term.followers.get(body.follower)
        moved = before is not None and before.offset not in (-1, body.offset)
        self.term.fetched(body.follower, body.offset, event)
        if moved:
            self._owe(event, body.follower)

    def _owe(self, event: Stamped, fetches: int = -1) -> None:
        target = self._boundary(self._least(event, fetches))
        if target > self.high_watermark:
            self.owed = Owed(event.req, target, witness(event))

    def behind(self, target: int) -> list[str]:
        """The followers that have less."""
        followers = self.term.followers if self.term is not None else {}
        return [node_name(each) for each, known in sorted(followers.items()) if known.offset < target]

    # ---- what counts --------------------------------------------------------------------------------------------

    def _known(self) -> KnownIsr | None:
        known = self.isrs.known.get(self.node)
        return known if known is not None and self.term is not None and known.leader_epoch == self.term.epoch else None

    def _known_epoch(self) -> int:
        known = self._known()
        return -1 if known is None else known.partition_epoch

    def _least(self, event: Stamped, fetches: int) -> int:
        """What every replica has that may count; -1 where that is not known."""
        term, known = self.term, self._known()
        assert term is not None
        if known is None or self.doubtful or self.timers.are_wrong(self.node):
            return -1
        if len(known.isr) < min(max(known.least, known.before), known.replicas):
            return -1
        sane_us = self.sane_us.get(self.node, -self.lag_us)
        since_us = event.wall - self.lag_us - ROUNDING_US
        asked = self.proposed[1] if known.partition_epoch <= self.proposed[0] else []
        least = term.end
        for replica in self.replicas:
            if replica == self.leader_id:
                continue
            follower = term.followers.get(replica)
            # Who fetches may be proposed for the ISR in this very step, and counts then.
            if replica != fetches and replica not in known.isr and replica not in asked:
                if max(self._latest_us(replica, follower), sane_us) < since_us or self._is_out(replica):
                    continue
            if follower is None or follower.offset < 0:
                return -1
            least = min(least, follower.offset)
        return least

    def _latest_us(self, replica: int, follower: Follower | None) -> int:
        """When a replica had everything, at the latest. Those in the ISR had when the leader began, and nobody else had
        by that (``Replica.resetReplicaState``)."""
        latest_us = 0 if follower is None else follower.latest_us
        if self.began_with is None or replica in self.began_with:
            return max(self.since_us, latest_us)
        return latest_us

    def _is_out(self, replica: int) -> bool:
        """Whether the leader knows that a replica may not join: the broker is fenced, or shuts down, and no controller
        has ended since that may have written more of it than it told."""
        life = self.brokers.known_to(self.node, replica)
        known = life is not None and self.told_us.get(replica, -1) > self.ended_us
        return life is not None and known and (life.fenced or life.leaves)

    def _boundary(self, offset: int) -> int:
        """The last end of a batch up to there, -1 where that is below the start of the leader epoch."""
        assert self.term is not None
        if offset < self.start:
            return -1
        place = bisect_right(self.term.ends, offset)
        return self.term.ends[place - 1] if place else self.start
