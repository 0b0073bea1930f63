"""Whom a leader asks out of the ISR, and when: who has not caught up for replica.lag.time.max.ms, and nobody else."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import msgspec

from actors.broker.alter_partition import WAIT_FOR_METADATA
from actors.node.spec import node_name
from actors.trace.events import (
    OVERTAKEN,
    BrokerReg,
    ClockSet,
    CtlFault,
    IsrLate,
    IsrPropose,
    LogAppend,
    MetaImage,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    PartRemove,
    QRole,
    RepFetch,
    Stamped,
)
from orchestrator.invariants.folds.bounds import SLACK_US, by_node_us
from orchestrator.invariants.folds.fold import NOTHING, Deadline, Emissions, KeyedInvariant, Profile, Witness, witness
from orchestrator.invariants.folds.hindered_timers import HinderedTimers
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.folds.stopped_nodes import StoppedNodes
from orchestrator.invariants.folds.windows import PartitionState
from orchestrator.invariants.partitions.joining import Joiners

LAG = "replica.lag.time.max.ms"
ROUNDING_US = 50_000
"""Leaders count in milliseconds, and a live node's clock is not quite the trace's."""
SIM_SLACK_US = 250_000
"""The addition to timers in the sim, where nothing takes long that the trace does not tell of."""
ENDS_KEPT = 2048
"""Appends of a term that are remembered: who is further behind than that lags in any case."""
TOLD_BY_METADATA = frozenset(error.name for error in WAIT_FOR_METADATA)


class Follower(msgspec.Struct):
    """What a leader knows of a follower. offset: where it fetched from last, -1 unknown. caught_us: when it certainly
    had everything; latest_us: when it may have had, at the latest, if it has not now; behind_us: when it said that it
    lacks something which it had before, as its disk has lost it. leaders_end: where the leader's log ended, at least,
    when it fetched last, -1 unknown. by: its last fetch."""

    offset: int = -1
    caught_us: int = 0
    latest_us: int = 0
    behind_us: int = 0
    leaders_end: int = -1
    by: Witness | None = None


class Term(msgspec.Struct):
    """One leader, from its own events. end: of its log; ends, at_us: where it ended after each append, and when that
    was. isr: as the controller confirmed it; asked: what it has proposed, in the term, last.

    busy: a proposal of its is open. free_us: from when on it can propose; sane_us: from when on its clock was right.
    slack_us: by how much it may be late. armed_us: when it is looked at next, -1 never.
    """

    epoch: int
    partition_epoch: int
    end: int
    by: Witness
    lag_us: int
    free_us: int
    slack_us: int = SLACK_US
    isr: list[int] = []
    asked: list[int] = []
    followers: dict[int, Follower] = {}
    ends: list[int] = []
    at_us: list[int] = []
    busy: bool = False
    sane_us: int = 0
    armed_us: int = -1

    def grows(self, end: int, now_us: int) -> None:
        """The leader appends."""
        for follower in self.followers.values():
            if follower.offset == self.end:
                follower.latest_us = now_us
        self.end = end
        self.ends.append(end)
        self.at_us.append(now_us)
        if len(self.ends) > ENDS_KEPT:
            del self.ends[: ENDS_KEPT // 2], self.at_us[: ENDS_KEPT // 2]

    def fetched(self, replica: int, offset: int, event: Stamped) -> None:
        """A follower says where it is. If it has all that the log had at its last fetch, it had everything then: that
        was, at the latest, when the log grew beyond it. Progress that leads less far is nothing of the kind."""
        follower = self.followers.setdefault(replica, Follower())
        if offset < self.end <= follower.offset:
            follower.behind_us = event.wall
        has_that = 0 <= follower.leaders_end <= offset
        follower.offset, follower.leaders_end, follower.by = offset, self.end, witness(event)
        if offset >= self.end:
            follower.caught_us = follower.latest_us = event.wall
            return
        place = bisect_right(self.ends, offset) if has_that else len(self.ends)
        if place < len(self.ends):
            follower.latest_us = max(follower.latest_us, self.at_us[place])

    def lagging(self) -> list[tuple[int, Follower]]:
        """The members that lack something."""
        known = ((member, self.followers.get(member)) for member in self.isr)
        return [(member, each) for member, each in known if each is not None and each.offset != self.end]

    def due_us(self) -> int:
        """When the first of them has to be asked out, -1 if there is none: the leader looks twice in that time."""
        first_us = -1
        for member in self.isr:  # judged at every fetch of a follower
            each = self.followers.get(member)
            if each is not None and each.offset != self.end:
                since_us = max(each.latest_us + self.lag_us, each.behind_us)
                first_us = since_us if first_us < 0 else min(first_us, since_us)
        if first_us < 0:
            return -1
        return max(first_us, self.free_us) + self.lag_us // 2 + self.slack_us


class Terms(PartitionState):
    """terms: by who leads, or believes to. applied: broker -> end of the metadata log that it has applied. timers:
    whose are wrong; freed_us: when a pause of a node ended last. lags_us: node -> its replica.lag.time.max.ms, under ""
    that of the others; slack_us: by how much leaders may be late. removed_at:
    offset in the metadata log at which the partition ends, -1 none. stopped: whom an operator stops. asking: who has a
    proposal on its way -> its number; no other is sent before that is answered, even if it was given up. joiners: who
    may join the ISR."""

    terms: dict[str, Term] = {}
    applied: dict[str, int] = {}
    timers: HinderedTimers = msgspec.field(default_factory=HinderedTimers)
    freed_us: dict[str, int] = {}
    lags_us: dict[str, int] = {}
    slack_us: int = SLACK_US
    removed_at: int = -1
    stopped: StoppedNodes = msgspec.field(default_factory=StoppedNodes)
    asking: dict[str, int] = {}
    joiners: Joiners = msgspec.field(default_factory=Joiners)

    def proposes(self, node: str, body: IsrPropose | IsrLate) -> None:
        """A broker sends a proposal, or learns what became of it; metadata that overtake it are no answer to it."""
        if type(body) is IsrPropose and body.outcome == "proposed":
            self.asking[node] = body.proposal
        elif not isinstance(body, IsrPropose) or body.outcome != OVERTAKEN:
            self.asking.pop(node, None)

    def can_propose(self, node: str, term: Term) -> bool:
        """Whether a leader measures its time, looks at its ISR, and has no proposal on its way."""
        waits = term.busy or node in self.asking
        return not waits and not self.timers.are_wrong(node) and not self.stopped.has(node)


class WhoLagsLeavesTheIsr(KeyedInvariant[Terms]):
    """The high watermark waits for every member of the ISR. A leader that keeps a member that makes no progress blocks
    all sends with acks=all; one that drops complete members loses their copies for nothing.

    Example: broker-3 of the ISR [1, 2, 3] of orders-0 is cut off from broker-1, the leader, and from no other node.
    With replica.lag.time.max.ms=4000 broker-1 proposes the ISR [1, 2] within six seconds, as it looks every two
    seconds; until it does, no record is committed. A stopped process measures no time, and one with a clock jump
    measures the wrong time. While one of its AlterPartition requests is open, a leader proposes no other change.

    A follower outside the ISR that fetches from the leader's log end, as a process of which the leader knows that it is
    unfenced, is proposed in the same step. Example: the controller, which had just fenced broker-3, refused the ISR [1,
    2, 3] as INELIGIBLE_REPLICA. When it has unfenced broker-3, the next fetch brings another proposal. If broker-1 went
    on waiting for the metadata log, which does not change for that, broker-3 would stay out.
    """

    id = "P25"
    title = "A leader proposes to drop an ISR member that has not caught up for replica.lag.time.max.ms, and no sooner"
    source = "Kafka's Partition.maybeShrinkIsr and maybeExpandIsr; Replica.isCaughtUp; KIP-16; KIP-841"
    tested_when = "a leader proposes an ISR without one of its members"
    unseen = (
        "a leader whose last proposal is not answered yet: how long that takes depends on the controller",
        "a leader while a clock or a pause falsifies its time, and for the lag time after it",
        "a leader that an operator stops, until it starts again: on its way out it looks at no ISR",
        (
            "A follower that is dropped too soon after the log has grown, unless the trace shows that it had caught "
            "up in that time: fetches without news are not in the trace."
        ),
        "A follower that may join while it lacks something, or before the leader and its new process have news.",
        (
            "A follower that may join after a controller ended abruptly, until another one has told of the partition "
            "and of the follower: it may have written more than it told."
        ),
    )
    route = PARTITION
    types = (PartChange, PartRemove, PartAssume, LogAppend, RepFetch, IsrPropose, IsrLate)
    cases = {LogAppend: ("leader",)}

    @property
    def news(self) -> tuple[type, ...]:
        return (QRole, MetaImage, NodeUp, NodeDown, CtlFault, ClockSet, BrokerReg)

    def initial(self, key: str, profile: Profile) -> Terms:
        slack_us = SIM_SLACK_US if profile.runtime == "sim" else SLACK_US
        return Terms(key, lags_us=by_node_us(profile, LAG), slack_us=slack_us)

    # ---- the run ----------------------------------------------------------------------------------------------

    def hear(self, state: Terms, event: Stamped) -> Emissions:
        body: Any = event.body
        if not isinstance(body, CtlFault | ClockSet):
            state.joiners.hear(event, state.elections)
        if type(body) is QRole:
            state.elected(event, body)
            return NOTHING
        if type(body) is BrokerReg:
            return NOTHING
        if type(body) is MetaImage:
            state.applied[event.node] = body.offset
            return self._learns(state, event)
        if type(body) is NodeUp or type(body) is NodeDown:
            if type(body) is NodeUp:
                state.stopped.started(event.node)
            state.terms.pop(event.node, None)
            state.applied.pop(event.node, None)
            state.asking.pop(event.node, None)
            return NOTHING
        return self._hindered(state, event, body)

    def _hindered(self, state: Terms, event: Stamped, body: Any) -> Emissions:
        """Something makes a node's time wrong, or no longer does."""
        found: list[Any] = []
        for node, late_us in state.timers.take(event, body):
            if type(body) is CtlFault and body.phase != "start":
                state.freed_us[node] = event.wall
            term = state.terms.get(node)
            if term is not None:
                term.sane_us = event.wall
                term.free_us = max(term.free_us, event.wall + late_us + term.lag_us)
                found.extend(self._arm(state, node, term))
        if type(body) is CtlFault:
            for node in sorted(state.stopped.take(body) & state.terms.keys()):
                found.extend(self._arm(state, node, state.terms[node]))
        return found

    # ---- what leaders do --------------------------------------------------------------------------------------

    def step(self, state: Terms, event: Stamped) -> Emissions:
        left_out = self._left_out(state, event) if event.node in state.joiners.owed else NOTHING
        return [*left_out, *self._led(state, event)] if left_out else self._led(state, event)

    def _led(self, state: Terms, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is PartChange:
            state.take(event, body)
            state.joiners.changed = state.joiners.ends
            return NOTHING
        if kind is PartRemove:
            state.removed_at = body.offset
            return NOTHING
        if kind is PartAssume:
            return self._assumed(state, event, body)
        if kind is IsrPropose or kind is IsrLate:
            state.proposes(event.node, body)
        term = state.terms.get(event.node)
        if term is None:
            return NOTHING
        if kind is IsrLate:
            term.free_us = max(term.free_us, event.wall)
        elif kind is LogAppend:
            if body.role == "leader":
                term.grows(body.last + 1, event.wall)
        elif kind is RepFetch:
            if not body.error and body.diverging_epoch < 0 and body.follower_epoch in (-1, term.epoch):
                term.fetched(body.follower, body.offset, event)
                self._may_join(state, term, event, body)
        elif kind is IsrPropose:
            return self._proposal(state, term, event, body)
        return self._arm(state, event.node, term)

    def _assumed(self, state: Terms, event: Stamped, body: PartAssume) -> Emissions:
        """Whoever is in the ISR when a leader begins counts as caught up; what those hold is forgotten, unless it has
        led before."""
        before = state.terms.pop(event.node, None)
        if body.role != "leader":
            return NOTHING
        lag_us = state.lags_us.get(event.node, state.lags_us[""])
        by, now_us = witness(event), event.wall
        term = Term(body.leader_epoch, body.partition_epoch, body.log_end, by, lag_us, now_us, state.slack_us)
        # Who was stopped within a step records the rest of it when it runs again; its own time is that of the step.
        late = event.wall - state.freed_us.get(event.node, -SLACK_US) < SLACK_US
        term.sane_us = event.wall + late
        if before is not None:
            term.followers, term.ends, term.at_us = before.followers, before.ends, before.at_us
        for change in state.changes:
            if change.partition_epoch == body.partition_epoch:
                self._begins(term, change, event)
        state.terms[event.node] = term
        return self._arm(state, event.node, term)

    def _begins(self, term: Term, change: PartChange, event: Stamped) -> None:
        term.isr = change.isr
        for replica in change.replicas:
            if node_name(replica) != event.node:
                follower = term.followers.setdefault(replica, Follower())
                follower.latest_us = event.wall
                follower.caught_us = event.wall if replica in change.isr else 0

    def _learns(self, state: Terms, event: Stamped) -> Emissions:
        """A leader has applied the metadata log up to somewhere: another ISR may be in it."""
        end = state.applied[event.node]
        if 0 <= state.removed_at < end:
            state.terms.pop(event.node, None)  # its replica is no more
            state.asking.pop(event.node, None)
        term = state.terms.get(event.node)
        known = [each for each in state.changes if each.offset < end] if term is not None else []
        if term is None or not known or known[-1].partition_epoch <= term.partition_epoch:
            return NOTHING
        term.isr, term.asked, term.partition_epoch = known[-1].isr, [], known[-1].partition_epoch
        term.free_us, term.busy = max(term.free_us, event.wall), False
        return self._arm(state, event.node, term)

    def _proposal(self, state: Terms, term: Term, event: Stamped, body: IsrPropose) -> Emissions:
        if body.outcome == "proposed":
            owed = state.joiners.owed.get(event.node)
            if owed is not None and owed.follower in body.isr:
                del state.joiners.owed[event.node]
            found = self._asks(state, term, event, body)
            term.asked, term.busy = body.isr, True
            return found
        if body.outcome in TOLD_BY_METADATA:
            return NOTHING
        if body.outcome == "accepted":
            term.isr, term.partition_epoch = body.isr, max(term.partition_epoch, body.partition_epoch + 1)
        if body.outcome in ("accepted", OVERTAKEN):
            term.asked = []
        term.free_us, term.busy = max(term.free_us, event.wall), False
        return self._arm(state, event.node, term)

    # ---- judging ------------------------------------------------------------------------------------------------

    def _may_join(self, state: Terms, term: Term, event: Stamped, body: RepFetch) -> None:
        """A follower fetches: it may be one that the leader has to propose, if it can propose anything."""
        newest = state.newest
        if newest is None or term.busy or event.node in state.asking or state.stopped.has(event.node):
            return
        known = (newest.change.leader_epoch, newest.change.partition_epoch) == (term.epoch, term.partition_epoch)
        if known and body.offset >= term.end:
            state.joiners.fetched(event, body, newest)

    def _left_out(self, state: Terms, event: Stamped) -> Emissions:
        """The leader begins another step: in an earlier one it was to propose a follower."""
        owed = state.joiners.settle(event)
        if owed is None:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} did not propose {node_name(owed.follower)} for the ISR of {state.key} in a step in which "
            "that fetched from the log end, no proposal was open, and the metadata log had it unfenced under broker "
            f"epoch {owed.life.broker_epoch:,}",
            owed.life.by,
            owed.by,
            event,
        )

    def _asks(self, state: Terms, term: Term, event: Stamped, body: IsrPropose) -> Emissions:
        """A leader proposes an ISR; the same once more, after an error, it need not judge anew."""
        gone = [member for member in term.isr if member not in body.isr and node_name(member) != event.node]
        if not gone or body.isr == term.asked:
            return NOTHING
        state.tested += 1
        for member in gone:
            follower = term.followers.get(member)
            if follower is None:
                continue
            about = f"{event.node} proposed the ISR {body.isr} of {state.key} without {node_name(member)}, which"
            if follower.offset == term.end:
                return self.violated(state.key, f"{about} had the whole log, up to {term.end:,}", term.by, event)
            ago_us = event.wall - follower.caught_us
            judged = not state.timers.are_wrong(event.node) and follower.caught_us >= term.sane_us
            if judged and ago_us < term.lag_us - ROUNDING_US:
                sentence = f"{about} had the whole log {ago_us // 1000:,} ms before: {LAG} is {term.lag_us // 1000:,}"
                return self.violated(state.key, sentence, term.by, event)
        return NOTHING

    def _arm(self, state: Terms, node: str, term: Term) -> Emissions:
        if not state.can_propose(node, term):
            return NOTHING
        due_us = term.due_us()
        if due_us < 0 or 0 <= term.armed_us <= due_us:
            return NOTHING
        term.armed_us = due_us
        return (Deadline(due_us),)

    def expire(self, state: Terms, at_us: int) -> Emissions:
        found: list[Any] = []
        for node, term in state.terms.items():
            if term.armed_us != at_us:
                continue
            term.armed_us = -1
            due_us = term.due_us()
            if not state.can_propose(node, term) or not 0 <= due_us <= at_us:
                found.extend(self._arm(state, node, term))
                continue
            found.extend(self._missed(state, node, term, at_us))
            term.isr = []
        return found

    def _missed(self, state: Terms, node: str, term: Term, at_us: int) -> Emissions:
        late = [(each.latest_us, member) for member, each in term.lagging()]
        latest_us, member = min(late)
        state.tested += 1
        return self.violated(
            state.key,
            f"{node}, leader of {state.key} in leader epoch {term.epoch}, did not propose its ISR {term.isr} without "
            f"{node_name(member)}, which has not caught up for {(at_us - latest_us) // 1000:,} ms: {LAG} is "
            f"{term.lag_us // 1000:,}",
            term.by,
            term.followers[member].by,
            state.newest.by if state.newest is not None else None,
        )
