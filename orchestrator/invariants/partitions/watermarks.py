"""That a leader's high watermark does not stand still while it could move."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import node_name
from actors.trace.events import (
    BrokerReg,
    ClockSet,
    ConfigChange,
    IsrPropose,
    LogAppend,
    LogHw,
    MetaImage,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    RepFetch,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.folds.windows import Obligation, PartitionInvariant, PartitionState, beta
from orchestrator.invariants.partitions.counted import HEARD, Counted


class NewLeader(PartitionState):
    """leads, epoch, assumed: who took up which leader epoch, and when it said so. start: its log end then."""

    leads: str = ""
    epoch: int = -1
    start: int = 0
    high_watermark: int = 0
    assumed: Witness | None = None
    min_isr: int = 1


class RefusalIsBrief(PartitionInvariant[NewLeader]):
    """A new leader refuses ListOffsets until its high watermark reaches the log end at its election. That should take a
    fetch of each follower; if it never happens, clients never get an answer.

    Example: broker-2 begins leader epoch 5 of orders-0 with a log that ends at 1,310 and a high watermark of 1,204,
    both followers fetch from 1,310 on, and the high watermark does not move. (By H2 no client is refused once it has
    reached 1,310.)
    """

    id = "H3"
    title = "A new leader's high watermark soon reaches its leader epoch's start"
    source = "KIP-207"
    tested_when = "the high watermark of a leader that began below its leader epoch's start reaches it in a window"
    route = PARTITION
    types = (PartChange, PartAssume, LogHw)
    exemptions = {
        "isr-away": "A member of the ISR is not in the core of the window: the high watermark waits for it.",
        "few-in-sync": "The ISR is smaller than min.insync.replicas: the high watermark does not move, by design.",
    }
    unseen = (
        "A refusal after the high watermark has caught up: H2 judges each of those.",
        "A slow leader while no window is long enough, or while a member of its ISR is outside the core.",
    )

    def initial(self, key: str, profile: Profile) -> NewLeader:
        return NewLeader(key, beta_us=beta(profile, self.id), min_isr=profile.min_isr(key))

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, NodeUp)

    def hear(self, state: NewLeader, event: Stamped) -> Emissions:
        if type(event.body) is not NodeUp:
            return super().hear(state, event)
        if event.node == state.leads:
            self.void(state, "catch-up")  # it leads again only when it has registered
        return NOTHING

    def step(self, state: NewLeader, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is LogHw:
            if state.due and body.new >= state.start and event.node == state.leads and body.leader_epoch == state.epoch:
                self.kept(state, "catch-up")
            if event.node == state.leads:
                state.high_watermark = body.new
            return NOTHING
        if type(body) is PartChange:
            state.take(event, body)
            return NOTHING
        assert type(body) is PartAssume
        if body.role != "leader":
            if event.node == state.leads:
                self.void(state, "catch-up")
        elif body.leader_epoch >= state.epoch:
            self.void(state, "catch-up")
            state.leads, state.epoch, state.start = event.node, body.leader_epoch, body.leader_epoch_start
            state.assumed, state.high_watermark = witness(event), body.high_watermark
            if body.high_watermark < body.leader_epoch_start:
                self.oblige(state, "catch-up", event, body.leader_epoch_start)
        return self.arm(state)

    def missed(self, state: NewLeader, name: str, obligation: Obligation) -> Emissions:
        if state.leads not in state.core or state.leads != state.leader:
            return NOTHING  # it leads no more, and L3 sees to the next one
        sentence = (
            f"the high watermark of {state.leads}, leader of {state.key} in leader epoch {state.epoch}, did not reach "
            f"{state.start:,}, its leader epoch's start, {self.within(state)}: it is {state.high_watermark:,}"
        )
        newest = state.newest.by if state.newest is not None else None
        if len(state.isr) < state.needed(state.min_isr):
            return self.excused("few-in-sync", state.key, sentence, obligation.by, newest)
        if any(node_name(member) not in state.core for member in state.isr):
            return self.excused("isr-away", state.key, sentence, obligation.by, newest)
        return self.violated(state.key, sentence, obligation.by, newest)


class LeaderView(PartitionState):
    """What a leader knows. leads, epoch: who leads, in which leader epoch. own_end: its log end. followers: id ->
    (offset they fetched from, when). in_sync: the ISR as the leader knows it; asked: what it proposes besides.
    applied: broker -> end of the metadata log that it has applied. barred: broker -> offset of the record that fenced
    it, or let it shut down, in the present quorum epoch. lag_us: replica.lag.time.max.ms. counted: what the leader must
    commit at once."""

    leads: str = ""
    leader_id: int = -1
    epoch: int = -1
    own_end: int = 0
    high_watermark: int = 0
    followers: dict[int, tuple[int, int]] = {}
    in_sync: list[int] = []
    asked: list[int] = []
    applied: dict[str, int] = {}
    barred: dict[int, int] = {}
    lag_us: int = 0
    min_isr: int = 1
    counted: Counted = msgspec.field(default_factory=Counted)


class HighWatermarkFollows(PartitionInvariant[LeaderView]):
    """A leader that misses an occasion to raise its high watermark may never get another one: acks=all waits, and
    consumers do not see records that every replica has.

    Example: the ISR of orders-0 was 1, 2. Broker-2 is down, the controller accepts the ISR 1, and broker-1 does not
    check its high watermark again. No follower fetches any more, and the waiting records are never acknowledged. Or
    broker-3, which is not in the ISR and has not caught up for replica.lag.time.max.ms, reads the log from its
    beginning; broker-2, a member of the ISR, fetches from the log end, and the high watermark waits for broker-3.

    In the step in which a leader takes note of a follower's new position, appends or begins as the only member of its
    ISR, or learns that its proposal was accepted, it commits what all that count have: its ISR, the one that it
    proposes, and whoever may join that and has caught up within the lag time. Nobody outside the ISR has caught up when
    a leader begins; one that gets further has, if it has all that the leader had at its last fetch.
    """

    id = "P18"
    title = "The high watermark advances as soon as every replica that counts has more"
    source = "KAFKA-13091; Partition.scala (maybeIncrementLeaderHW, isReplicaIsrEligible); Replica.isCaughtUp"
    tested_when = (
        "all in-sync replicas have more than the high watermark, and the high watermark follows: in a window, or in "
        "the step of a fetch, an append, an accepted proposal, or the beginning of a leader that is the whole ISR"
    )
    unseen = (
        (
            "the first rise of a new leader with others in its ISR, while it is below the start of its leader epoch: "
            "H3 judges that"
        ),
        (
            "such a step while a clock or a pause falsifies the leader's time, and for the lag time after it; "
            "or after a controller ended abruptly, until the leader shows that it knows the ISR of the trace"
        ),
    )
    route = PARTITION
    types = (PartChange, PartAssume, LogAppend, LogHw, RepFetch, IsrPropose)

    @property
    def news(self) -> tuple[type, ...]:
        return tuple(dict.fromkeys((*super().news, MetaImage, BrokerReg, NodeUp, *HEARD)))

    def initial(self, key: str, profile: Profile) -> LeaderView:
        lag_us = 1000 * int(profile.setting("replica.lag.time.max.ms", default=30000))
        return LeaderView(
            key,
            beta_us=beta(profile, self.id),
            min_isr=profile.min_isr(key),
            lag_us=lag_us,
            counted=Counted.of(key, profile),
        )

    def hear(self, state: LeaderView, event: Stamped) -> Emissions:
        body = event.body
        state.counted.hear(event)
        if isinstance(body, NodeDown | ClockSet | ConfigChange):
            return NOTHING
        if type(body) is BrokerReg:
            state.barred.pop(body.broker, None)
            if body.fenced or body.shutting_down:
                state.barred[body.broker] = body.offset
            return NOTHING
        if type(body) is NodeUp:
            state.applied.pop(event.node, None)
            if event.node == state.leads:
                self._leave(state)  # it leads again only when it has registered
            return NOTHING
        if type(body) is not MetaImage:
            if type(body) is QRole and body.role == "leader":
                state.barred.clear()  # what the old leader appended may be lost
            return super().hear(state, event)
        state.applied[event.node] = body.offset
        if event.node == state.leads and self._learns(state):
            return self._judge(state, event)
        return NOTHING

    def look(self, state: LeaderView, event: Stamped) -> None:
        if state.leads not in state.core:
            self.void(state, "high-watermark")

    def step(self, state: LeaderView, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is PartChange:
            state.take(event, body)
            state.counted.change(event, body)
            return NOTHING
        owes = self._owes(state, event) if event.node == state.counted.node else NOTHING
        if kind is PartAssume:
            return [*owes, *self._assumed(state, event, body)]
        return owes if event.node != state.leads else [*owes, *self._led(state, event, body)]

    def _owes(self, state: LeaderView, event: Stamped) -> Emissions:
        """The leader begins another step: in an earlier one it was to move its high watermark."""
        counted = state.counted
        owed = counted.settle(event)
        if owed is None:
            return NOTHING
        behind = ", ".join(counted.behind(owed.target))
        return self.violated(
            state.key,
            f"{event.node}, leader of {state.key} in leader epoch {state.epoch}, left its high watermark at "
            f"{counted.high_watermark:,} in a step after which every replica that counts had the log up to "
            f"{owed.target:,}" + (f"; {behind} had less, and does not count" if behind else ""),
            owed.by,
            event,
        )

    def _led(self, state: LeaderView, event: Stamped, body: Any) -> Emissions:
        """The leader writes, commits, takes note of a fetch, or of a proposal."""
        kind = type(body)
        if kind is LogHw:
            state.high_watermark = body.new
            state.tested += state.counted.move(body)
            if state.due and body.new >= state.due["high-watermark"].target:
                self.kept(state, "high-watermark")
            return NOTHING
        if kind is LogAppend:
            state.own_end = body.last + 1
            state.counted.append(event, body)
            return self._judge(state, event) if len(state.in_sync) == 1 else NOTHING
        if kind is RepFetch:
            if body.error or body.diverging_epoch >= 0 or body.follower_epoch not in (-1, state.epoch):
                return NOTHING
            state.followers[body.follower] = (body.offset, event.wall)
            state.counted.fetched(event, body)
        else:
            state.counted.propose(event, body)
            self._proposal(state, body)
        return self._judge(state, event)

    def _assumed(self, state: LeaderView, event: Stamped, body: PartAssume) -> Emissions:
        if body.role != "leader":
            if event.node == state.leads:
                self._leave(state)
        elif body.leader_epoch >= state.epoch:
            self._leave(state)
            state.leads, state.leader_id, state.epoch = event.node, body.leader, body.leader_epoch
            state.own_end, state.high_watermark = body.log_end, body.high_watermark
            state.applied[event.node] = max(body.metadata_offset, state.applied.get(event.node, 0))
            self._learns(state)
            state.counted.lead(event, body)
        return NOTHING

    def _leave(self, state: LeaderView) -> None:
        state.leads = ""
        state.counted.leave()
        state.followers, state.in_sync, state.asked = {}, [], []
        self.void(state, "high-watermark")

    def _learns(self, state: LeaderView) -> bool:
        """Take over the ISR from what the leader has applied of the metadata log; whether it is another."""
        end = state.applied.get(state.leads, 0)
        known = [each.isr for each in state.changes if each.offset < end]
        if not known or known[-1] == state.in_sync:
            return False
        state.in_sync, state.asked = known[-1], []
        return True

    def _proposal(self, state: LeaderView, body: IsrPropose) -> None:
        if body.outcome == "proposed":
            state.asked = body.isr
        elif body.outcome == "accepted":
            state.in_sync, state.asked = body.isr, []
        else:
            state.asked = []

    def _computable(self, state: LeaderView, now_us: int) -> int:
        """What every replica that may count has: the ISR, and who fetched lately and may be about to join it, which
        nobody may whom the leader knows to be fenced."""
        least = state.own_end
        followers = state.followers
        known_to = state.applied.get(state.leads, 0)
        for member in (*state.in_sync, *state.asked):
            if member != state.leader_id:
                known = followers.get(member)
                if known is None:
                    return -1
                if known[0] < least:
                    least = known[0]
        for follower, (offset, at_us) in followers.items():
            if offset < least and follower not in state.in_sync and now_us - at_us <= state.lag_us:
                if state.barred.get(follower, known_to) < known_to:
                    continue
                least = offset
        return least

    def _judge(self, state: LeaderView, event: Stamped) -> Emissions:
        if state.since_us < 0 or state.leads not in state.core or len(state.in_sync) < state.needed(state.min_isr):
            self.void(state, "high-watermark")
            return NOTHING
        reached = self._computable(state, event.wall)
        if reached <= state.high_watermark:
            self.void(state, "high-watermark")
            return NOTHING
        if not state.due:
            self.oblige(state, "high-watermark", event, reached)
            return self.arm(state)
        return NOTHING

    def missed(self, state: LeaderView, name: str, obligation: Obligation) -> Emissions:
        return self.violated(
            state.key,
            f"the high watermark of {state.leads}, leader of {state.key} in leader epoch {state.epoch}, stayed at "
            f"{state.high_watermark:,} {self.within(state)}, although the whole ISR "
            f"{', '.join(map(node_name, state.in_sync))} has the log up to {obligation.target:,}",
            obligation.by,
            state.newest.by if state.newest is not None else None,
        )
