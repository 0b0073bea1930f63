"""What is committed, beside what was delivered and what is there: O3 and O6."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import partition_name
from actors.trace.events import CommitInvoke, ConsOwn, ConsPos, GrpCommit, NodeUp, PollReturn, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import NODE
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror, LossBudget, loss_budget
from orchestrator.invariants.mirrors.loss import LOSS, way_of_loss


class Delivered(msgspec.Struct):
    """Of one partition that a consumer reads. start: where it began; end: up to where its application was given
    records; by: the last event."""

    start: int
    end: int
    by: Witness


class Deliveries(State):
    """Of one consumer in one incarnation, by topic partition."""

    tps: dict[str, Delivered] = {}


class OnlyDeliveredIsCommitted(KeyedInvariant[Deliveries]):
    """A committed position says that everything below it was dealt with. If it is ahead of what the application was
    given, and the consumer dies, the next owner of the partition leaves records out, and nobody notices.

    Example: consumer-1's application was given orders-0 up to 40, records up to 60 are fetched and wait for its next
    poll, and 60 is committed. With enable.auto.commit, what a poll returns may be committed at the application's next
    poll at the soonest: until then it may be at work on it. (Krift's applications poll again at once, so that the
    commit may be the next thing that the consumer does.)
    """

    id = "O3"
    title = "A consumer commits no position beyond what its application was given, and none before its own beginning"
    source = "jepsen-io/redpanda, auto_commit; Kafka's ConsumerCoordinator.allConsumedOffsets"
    tested_when = "a consumer commits a position"
    route = NODE
    types = (NodeUp, ConsPos, PollReturn, ConsOwn, CommitInvoke)
    of_groups = True
    unseen = ("whether the application is done with what it was given",)

    def initial(self, key: str, profile: Profile) -> Deliveries:
        return Deliveries(key)

    def step(self, state: Deliveries, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is NodeUp:
            state.tps.clear()
        elif kind is ConsPos:
            state.tps[partition_name(body.tp)] = Delivered(body.new, body.new, witness(event))
        elif kind is ConsOwn:
            for tp in [tp for tp in state.tps if tp not in body.owned]:
                del state.tps[tp]
        elif kind is PollReturn:
            self._given(state, event, body)
        else:
            return self._commits(state, event, body)
        return NOTHING

    def _given(self, state: Deliveries, event: Stamped, body: PollReturn) -> None:
        if body.outcome != "ok" or not body.records:
            return
        end = body.records[-1].offset + 1
        tp = partition_name(body.tp)  # commits, and what a group assigns, go by names
        known = state.tps.get(tp)
        if known is None:
            state.tps[tp] = Delivered(body.records[0].offset, end, witness(event))
        else:
            known.end, known.by = end, witness(event)

    def _commits(self, state: Deliveries, event: Stamped, body: CommitInvoke) -> Emissions:
        found: list[Any] = []
        for tp, (offset, *_) in body.offsets.items():
            state.tested += 1
            known = state.tps.get(tp)
            if known is None:
                wrong = "of which it has been given nothing, and has no position"
            else:
                if known.start <= offset <= known.end:
                    continue
                wrong = f"which it read from {known.start:,}" if offset < known.start else f"given up to {known.end:,}"
            sentence = f"{event.node} commits {offset:,} of {tp} for group {body.group}, {wrong}"
            found.extend(self.violated(state.key, sentence, None if known is None else known.by, event))
        return found


class CommittedExists(State):
    """budget: what disks may lose."""

    budget: LossBudget = LossBudget()


class CommittedPositionsExist(LogInvariant[CommittedExists]):
    """A consumer that begins at a position which the log does not reach is out of range: it starts all over, or at the
    end, as auto.offset.reset says, and records are read twice or never.

    Example: 60 of orders-0 is committed for group g while 40 is the highest high watermark that any leader had.
    """

    id = "O6"
    title = "A committed position is not beyond the committed records of its partition"
    source = "KAFKA-6262, seen from the commit"
    tested_when = "a coordinator takes a commit of a partition"
    types = (GrpCommit,)
    of_groups = True
    exemptions = LOSS
    unseen = (
        "partitions of topics that were removed: a commit names the partition, and may be of the one before, or after",
        "what becomes of the partition after the commit: P4 judges that nothing committed is gone",
    )

    def initial(self, key: str, profile: Profile) -> CommittedExists:
        return CommittedExists(key, budget=loss_budget(profile, key))

    def step(self, state: CommittedExists, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is GrpCommit
        if mirror.removed or body.tp != state.key or body.error or body.offset < 0:
            return NOTHING
        state.tested += 1
        if body.offset <= mirror.committed.end:
            return NOTHING
        sentence = (
            f"{event.node} took {body.offset:,} of {state.key} as committed by {body.member or 'nobody'} for group "
            f"{body.group}, of which {mirror.committed.end:,} is the highest high watermark that any leader had"
        )
        if rule := way_of_loss(mirror, body.offset - 1, state.budget, 0):
            return self.excused(rule, state.key, sentence, event)
        return self.violated(state.key, sentence, event)
