"""What is committed, beside what was delivered and what is there: O3 and O6."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.isolation import READ_COMMITTED, READ_UNCOMMITTED
from actors.node.spec import is_recreated
from actors.trace.events import CommitInvoke, ConsOwn, ConsPos, GrpCommit, PollReturn, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, committed_alone, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss import LOSS, taint_of_told


class Delivered(msgspec.Struct):
    """To one consumer in one incarnation. start: where it began; end: up to where its application was given records;
    epoch: leader epoch of the record before ``end``, -1 unknown; by: the last event."""

    incarnation: int
    start: int
    end: int
    epoch: int
    by: Witness


class Deliveries(State):
    """Of one partition, by consumer. committed_alone: consumers that read committed records."""

    consumers: dict[str, Delivered] = {}
    committed_alone: set[str] = set()
    profile: Profile = Profile()


class OnlyDeliveredIsCommitted(LogInvariant[Deliveries]):
    """A committed position says that every record below it was processed. If it is ahead of the records that the
    application was given, and the consumer dies, the next owner of the partition silently skips records.

    Example: the application of consumer-1 was given orders-0 up to 40, records up to 60 are fetched and wait for its
    next poll, and 60 is committed. With enable.auto.commit, the records of a poll may be committed at the application's
    next poll at the soonest: until then the application may be processing them. (Krift's applications poll again at
    once, so that the commit may be the consumer's next action.) A position passes the markers of transactions, and at
    read_committed records of aborted ones, which nobody is given.

    With a position goes the leader epoch of the record before it, by which the next owner learns whether that record is
    still in the log. A later epoch hides that it was lost.
    """

    id = "O3"
    title = "A consumer commits its position: what its application was given, with the leader epoch of the last record"
    source = "jepsen-io/redpanda, auto_commit; Kafka's ConsumerCoordinator.allConsumedOffsets"
    tested_when = "a consumer commits a position"
    types = (ConsPos, PollReturn, ConsOwn, CommitInvoke)
    of_groups = True
    exemptions = LOSS
    unseen = (
        "whether the application has processed its records",
        "the leader epoch of a position that has passed markers or aborted records",
        (
            "partitions of topics that were removed, or created again: a commit names the partition, and may belong to "
            "either topic"
        ),
    )

    def initial(self, key: str, profile: Profile) -> Deliveries:
        return Deliveries(key, committed_alone=committed_alone(profile), profile=profile)

    def step(self, state: Deliveries, event: Stamped, mirror: LogMirror) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is ConsPos:
            state.consumers[event.node] = Delivered(event.incarnation, body.new, body.new, body.epoch, witness(event))
        elif kind is ConsOwn:
            if state.key not in body.owned:
                state.consumers.pop(event.node, None)
        elif kind is PollReturn:
            if body.outcome == "ok" and body.records:
                self._given(state, event, body)
        elif state.key in body.offsets and self._is_of_first_topic(state, mirror):
            return self._commits(state, event, body, mirror)
        return NOTHING

    def _is_of_first_topic(self, state: Deliveries, mirror: LogMirror) -> bool:
        """Whether a commit of the partition can only be of the first topic of that name: it has the partition, and is
        still there."""
        return bool(mirror.isr or mirror.replicas) and not mirror.removed and not is_recreated(state.key)

    def _given(self, state: Deliveries, event: Stamped, body: PollReturn) -> None:
        last, known = body.records[-1], self._of(state, event)
        start = body.records[0].offset if known is None else known.start
        new = Delivered(event.incarnation, start, last.offset + 1, last.leader_epoch, witness(event))
        state.consumers[event.node] = new

    def _of(self, state: Deliveries, event: Stamped) -> Delivered | None:
        known = state.consumers.get(event.node)
        return known if known is not None and known.incarnation == event.incarnation else None

    def _commits(self, state: Deliveries, event: Stamped, body: CommitInvoke, mirror: LogMirror) -> Emissions:
        state.tested += 1
        offset, known = body.offsets[state.key][0], self._of(state, event)
        sentence = f"{event.node} commits {offset:,} for {state.key} in group {body.group}, "
        if known is None:
            return self.violated(state.key, f"{sentence}but it has read nothing, and has no position", event)
        if offset < known.start:
            return self.violated(state.key, f"{sentence}but it began to read at {known.start:,}", known.by, event)
        if offset < known.end:
            return self.violated(state.key, f"{sentence}but it has read up to {known.end:,}", known.by, event)
        if offset == known.end and (wrong := self._other_epoch(state, event, body, known)):
            return self.violated(state.key, f"{sentence}{wrong}", known.by, event)
        isolation = READ_COMMITTED if event.node in state.committed_alone else READ_UNCOMMITTED
        if offset <= mirror.transactions.hidden_until(max(known.end, mirror.transactions.forgotten), isolation):
            return NOTHING
        sentence += f"but it has read only up to {known.end:,}"
        if mirror.transactions.any and (taint := taint_of_told(mirror, offset)):
            return self.excused(taint.rule, state.key, sentence, known.by, event)
        return self.violated(state.key, sentence, known.by, event)

    def _other_epoch(self, state: Deliveries, event: Stamped, body: CommitInvoke, known: Delivered) -> str:
        """What is wrong with the leader epoch of a position behind the last record, "" nothing. Where metadata has
        epochs of its own (``kip-232: seed``), positions have no leader epoch."""
        told = body.offsets[state.key][1]
        if told == known.epoch or state.profile.feature("kip-232", event.node) != "kafka":
            return ""
        has, had = (f"leader epoch {each}" if each >= 0 else "no leader epoch" for each in (told, known.epoch))
        return f"with {has}, but what it has read up to there ends with {had}"


class CommittedPositionsExist(LogInvariant[State]):
    """A consumer that begins at a position beyond the log is out of range: it begins again, or at the end, as
    auto.offset.reset says, and records are read twice or never.

    Example: 60 of orders-0 is committed for group g while 40 is the highest high watermark that any leader had.
    """

    id = "O6"
    title = "A committed position is not beyond the committed records of its partition"
    source = "KAFKA-6262, seen from the commit"
    tested_when = "a coordinator accepts a commit of a partition"
    types = (GrpCommit,)
    of_groups = True
    exemptions = LOSS
    unseen = (
        (
            "partitions of removed topics: a commit names the partition, and may belong to the former topic or to the "
            "new one"
        ),
        "the partition after the commit: P4 judges that no committed record is lost",
    )

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def step(self, state: State, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is GrpCommit
        if mirror.removed or body.tp != state.key or body.error or body.offset < 0:
            return NOTHING
        state.tested += 1
        if body.offset <= mirror.committed.end:
            return NOTHING
        sentence = (
            f"{event.node} accepted the commit of {body.offset:,} for {state.key} by {body.member or 'no member'} in "
            f"group {body.group}, but no leader had a high watermark above {mirror.committed.end:,}"
        )
        if taint := taint_of_told(mirror, body.offset):
            return self.excused(taint.rule, state.key, sentence, taint.by, event)
        return self.violated(state.key, sentence, event)
