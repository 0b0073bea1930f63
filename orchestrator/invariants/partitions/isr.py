"""The ISR and what is committed: whoever may be elected has it all, and the high watermark waits for all of them."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import node_name
from actors.trace.events import OVERTAKEN, IsrPropose, LogHw, PartAssume, PartChange, Stamped, TraceEvent
from actors.trace.metadata_history import NewestController
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.known_isr import NEWS, KnownIsrs
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss import LOST, UNCLEAN
from orchestrator.invariants.mirrors.loss_budget import LossBudget, loss_budget
from orchestrator.invariants.mirrors.proposals import Made, made_by, proposed

POOLS_KEPT = 64
"""More than a controller that was replaced appends before it resigns."""


class Electable(State):
    """Of the latest change of the partition: its epochs, the ISR, and the ISR with the eligible leader replicas.

    known: whether the change is known to stand, and to its leader: a controller that loses its epoch may take an ISR
    with it. pools: partition epoch -> who may be elected from it on, of the last ones: a change stands on the one with
    the epoch before its own, and what a replaced controller appended in its place is lost. overtaken: a proposal that
    its leader has given up, and that a controller may accept. lives: node -> the incarnation in which it took up the
    partition last.
    """

    budget: LossBudget = LossBudget()
    controller: NewestController = msgspec.field(default_factory=NewestController)
    leader_epoch: int = -1
    partition_epoch: int = -1
    min_isr: int = 1
    isr: list[int] = []
    pool: list[int] = []
    pools: dict[int, list[int]] = {}
    known: bool = False
    by: Witness | None = None
    overtaken: Made | None = None
    lives: dict[str, int] = {}

    def change(self, event: Stamped, body: PartChange) -> list[int]:
        """Take a change; who is in the pool and was not before. One of a controller that was replaced is ignored."""
        if not self.controller.says(body.quorum_epoch):
            return []
        before = self.pools.get(body.partition_epoch - 1)
        if before is None:
            before = self.pool if self.known else [*self.pool, *body.replicas]
        self.leader_epoch, self.partition_epoch = body.leader_epoch, body.partition_epoch
        self.min_isr = body.min_isr
        self.isr, self.pool = body.isr, [*body.isr, *(each for each in body.elr if each not in body.isr)]
        self.pools[body.partition_epoch] = self.pool
        if len(self.pools) > POOLS_KEPT:
            del self.pools[min(self.pools)]
        self.known, self.by = made_by(body) != self.overtaken, witness(event)
        return [member for member in self.pool if member not in before]

    def settle(self, body: IsrPropose) -> None:
        """A leader learns that its proposal was not taken: a change that a controller made of it did not stand. Or it
        knows no more of it, and does without the members that the controller then counts on, as Kafka's does."""
        if body.outcome == OVERTAKEN:
            self.overtaken = proposed(body)
        if body.outcome not in ("proposed", "accepted") and body.partition_epoch + 1 == self.partition_epoch:
            self.known = self.known and set(body.isr) != set(self.isr)


class ElectableReplicasHaveEverything(LogInvariant[Electable]):
    """Any member of the ISR, and any eligible leader replica, may be elected next. If one of them lacks a committed
    record, its election loses the record.

    Example: broker-1 commits orders-0 up to 1,310, counting broker-2 of the ISR [1, 2], whose log ends at 1,250. When
    broker-1 crashes, broker-2 is elected, and sixty acknowledged records are lost.
    """

    id = "P5"
    title = "Every replica that may be elected has every committed record"
    source = "KIP-497; KIP-966; KAFKA-13091"
    tested_when = (
        "for each replica that may be elected: a leader moves its high watermark, an ISR grows, or a process loads "
        "the partition for the first time"
    )
    unseen = (
        "a member that comes back while the controller's ISR may still be undone",
        "an ISR or eligible leader replicas of a replaced controller: its appends may be lost",
    )
    types = (LogHw, PartChange, IsrPropose, PartAssume)
    cases = {LogHw: ("leader",)}
    exemptions = {
        "unclean-election": UNCLEAN,
        "loss-budget": LOST,
        "away": "The replica lost the record with a process that has ended: it leaves the ISR before it is back.",
    }

    def initial(self, key: str, profile: Profile) -> Electable:
        return Electable(key, budget=loss_budget(profile, key))

    def step(self, state: Electable, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is IsrPropose:
            state.settle(body)
            return NOTHING
        if type(body) is PartChange:
            return self._joined(state, event, body, mirror)
        if type(body) is PartAssume:
            return self._returned(state, event, body, mirror)
        assert type(body) is LogHw
        if body.role != "leader" or body.leader_epoch != state.leader_epoch or not state.known:
            return NOTHING
        found: list[Any] | None = None
        for member in state.pool:
            node = node_name(member)
            if node == event.node:
                continue
            state.tested += 1
            replica = mirror.replica(node)
            kept = body.new > mirror.replica(event.node).start  # else all of it was deleted
            if kept and replica.log.matches(body.new, mirror.ph_of(event, body)) is False:
                sentence = (
                    f"{event.node} committed {state.key} up to {body.new:,} in leader epoch {body.leader_epoch}, but "
                    f"{node}, which may be elected, has the records only up to "
                    f"{_has(mirror, node, event.node, body.new):,}"
                )
                lacks = (
                    self.excused("away", state.key, sentence, state.by, event)
                    if replica.away
                    else self._lacks(state, body.new, sentence, event, mirror, state.by)
                )
                found = [*(found or ()), *lacks]
        return NOTHING if found is None else found

    def _joined(self, state: Electable, event: Stamped, body: PartChange, mirror: LogMirror) -> Emissions:
        end = mirror.committed.end
        if body.leader >= 0 and mirror.replica(node_name(body.leader)).start >= end:
            end = 0  # all committed records were deleted
        found: list[Any] = []
        for member in state.change(event, body):
            node = node_name(member)
            state.tested += 1
            replica = mirror.replica(node)
            shared = mirror.committed.shared_with(replica.log, end)
            if shared >= end:
                continue
            sentence = (
                f"{node} may be elected for {state.key} from partition epoch {body.partition_epoch} on, but it has the "
                f"committed records only up to {shared:,}, not up to {end:,}"
            )
            if body.cause == "unclean":
                found.extend(self.excused("unclean-election", state.key, sentence, event))
            elif replica.away:
                # The controller knows the process that has ended as alive still, and who comes back is judged then.
                found.extend(self.excused("away", state.key, sentence, event))
            else:
                found.extend(self._lacks(state, end, sentence, event, mirror, None))
        return found

    def _returned(self, state: Electable, event: Stamped, body: PartAssume, mirror: LogMirror) -> Emissions:
        """A broker takes up its replicas once its registration is in the metadata log, and whatever it lost with the
        process before has put it out of the pool by then."""
        if state.lives.get(event.node) == event.incarnation:
            return NOTHING
        state.lives[event.node] = event.incarnation
        end = mirror.committed.end
        if not end or not state.known or all(node_name(member) != event.node for member in state.pool):
            return NOTHING
        state.tested += 1
        shared = mirror.highest_committed_of(event.node)
        if shared >= end:
            return NOTHING
        sentence = (
            f"{event.node} came back to {state.key} and may be elected, but it has the committed records only up to "
            f"{shared:,}, not up to {end:,}"
        )
        kept = mirror.kept_uncleanly(event.node)
        if kept is not None:
            if kept <= shared:
                return self.excused("unclean-election", state.key, sentence, state.by, event)
            end = min(end, kept)  # all beyond that was given up, whatever became of the rest
        return self._lacks(state, end, sentence, event, mirror, state.by)

    def _lacks(
        self, state: Electable, end: int, sentence: str, event: Stamped, mirror: LogMirror, by: Witness | None
    ) -> Emissions:
        taint = next((each for each in mirror.taints if each.epoch > state.leader_epoch), None)
        if taint is not None:
            return self.excused(taint.rule, state.key, sentence, by, event)
        if mirror.loss_excuses(end - 1, state.budget):
            return self.excused("loss-budget", state.key, sentence, by, event)
        return self.violated(state.key, sentence, by, event)


def _has(mirror: LogMirror, node: str, leader: str, at_most: int) -> int:
    return mirror.replica(node).log.shared_with(mirror.replica(leader).log, at_most)


class Committing(Electable):
    """``leaders``: what leaders know of their ISRs. ``profile``: of the run."""

    leaders: KnownIsrs = msgspec.field(default_factory=KnownIsrs)
    profile: Profile = Profile()


class ReplicationCoversElection(LogInvariant[Committing]):
    """The high watermark is safe as long as it counts every replica that may be elected. A leader that counts other
    replicas, or fewer, commits records that the next leader may lack.

    Example: the ISR of orders-0 is [1, 2, 3]. Broker-1 moves its high watermark to 1,310, which it and broker-2 have,
    like a majority in Raft; broker-3 may be elected with 1,204.

    A leader that knows that its ISR is smaller than min.insync.replicas commits nothing more, whomever it counts: those
    who left are eligible, and must not fall behind what is committed.
    """

    id = "P6"
    title = "The high watermark counts every replica that may be elected"
    source = "KIP-497; KIP-966"
    tested_when = "a leader in the controller's leader epoch moves its high watermark"
    unseen = ("high watermarks in a leader epoch that is over for the controller: P4 judges the consequences",)
    types = (LogHw, PartChange, IsrPropose)

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return NEWS

    exemptions = {
        "below-min-isr": "The controller's ISR is smaller than min.insync.replicas, and the leader has not heard of it."
    }

    def initial(self, key: str, profile: Profile) -> Committing:
        return Committing(key, profile=profile)

    def hear(self, state: Committing, event: Stamped) -> Emissions:
        state.leaders.hear(event, state.key, state.profile)
        return NOTHING

    def step(self, state: Committing, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is IsrPropose:
            state.settle(body)
            state.leaders.settle(event, body)
            return NOTHING
        if type(body) is PartChange:
            state.change(event, body)
            state.leaders.change(event, body)
            return NOTHING
        assert type(body) is LogHw
        if body.role == "leader" and (small := state.leaders.small(event, body.leader_epoch)) is not None:
            return self.violated(
                state.key,
                f"{event.node} (leader epoch {body.leader_epoch}) moved the high watermark of {state.key} to "
                f"{body.new:,} although it knew that the ISR was {small.isr}, smaller than min.insync.replicas "
                f"({small.needed})",
                small.by,
                event,
            )
        if body.role != "leader" or body.leader_epoch != state.leader_epoch or not state.known:
            return NOTHING
        state.tested += 1
        missing = [member for member in state.pool if member not in body.counted]
        if not missing:
            return NOTHING
        sentence = (
            f"{event.node} (leader epoch {body.leader_epoch}) moved the high watermark of {state.key} to {body.new:,} "
            f"counting {sorted(body.counted)}, but not {node_name(missing[0])}, which may be elected"
        )
        if len(state.isr) < state.min_isr:
            return self.excused("below-min-isr", state.key, sentence, state.by, event)
        return self.violated(state.key, sentence, state.by, event)
