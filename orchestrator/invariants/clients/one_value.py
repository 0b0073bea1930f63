"""C3: an offset holds one record."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.trace.events import ACKS_ALL, LogHw, PollReturn, SendReturn, Stamped
from orchestrator.invariants.clients.renumbered import RENUMBERED, RULE, Renumbered
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.folds.known_findings import known_as
from orchestrator.invariants.folds.memory import DELETED_UNSEEN
from orchestrator.invariants.folds.rows import REMEMBERED
from orchestrator.invariants.folds.uids import place_of
from orchestrator.invariants.mirrors.committed_records import Copy, Held
from orchestrator.invariants.mirrors.epoch_bumps import EPOCH_BUMP, FailedSends, bump_is_due
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss import LOST, UNCLEAN, acknowledged_in, given_up, read_in


def named(uid: str) -> str:
    """A record, in a sentence; control batches have none."""
    return f"record {uid}" if uid else "no record"


class Value(msgspec.Struct, frozen=True, gc=False):
    """What an offset was said to hold. ``leader_epoch``: of the leader that last said so, -1 unknown."""

    uid: str
    leader_epoch: int
    by: Witness


class Values(State):
    """``told``: offset -> value, where that is another one than what was committed there first: it was told of before,
    or by somebody else, or in a newer leader epoch since; the most recent ones. ``known``: what an answer to a
    record is that its broker left behind, "" with that finding's mend."""

    told: dict[int, Value] = {}
    failed: FailedSends = msgspec.field(default_factory=FailedSends)
    renumbered: Renumbered = msgspec.field(default_factory=Renumbered)
    known: str = ""


class OneOffsetOneValue(LogInvariant[Values]):
    """An offset is a name for a record: consumers commit it, applications store it.

    Example: consumer-1 gets producer-1:57 at offset 41 of orders-0, while producer-1 has the acknowledgement that
    producer-1:56 is there; or producer-1:57, of an idempotent producer, is in the log at 41 and at 44.
    """

    id = "C3"
    title = "An offset holds one record, for every reader, and a record of an idempotent producer has one offset"
    source = "Jepsen's kafka workload (inconsistent-offsets, duplicate); KIP-98"
    tested_when = (
        "an acknowledgement, a read or a commit names the record at an offset for which a record was named before"
    )
    types = (SendReturn, PollReturn, LogHw)
    cases = {LogHw: ("leader",)}
    unseen = (
        DELETED_UNSEEN,
        f"offsets beyond the last {REMEMBERED:,} of a partition",
        "logs of followers: P3 and P11 judge their records below the high watermark",
    )
    exemptions = {
        "unclean-election": UNCLEAN,
        "loss-budget": LOST,
        "epoch-bump": EPOCH_BUMP,
        RULE: RENUMBERED,
    }

    def initial(self, key: str, profile: Profile) -> Values:
        return Values(key, known=known_as(profile, "finding-uncommitted-duplicates"))

    def forget(self, state: Values, offset: int) -> None:
        state.told = {told: value for told, value in state.told.items() if told >= offset}

    def step(self, state: Values, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogHw:
            news = self._committed(state, event, mirror) if mirror.newly_committed else NOTHING
            if state.renumbered.failing:
                return [*news, *state.renumbered.judge(self, state.key, mirror)]
            return news
        if type(body) is SendReturn:
            if body.outcome != "ok":
                state.failed.note(event, body)
                state.renumbered.note(body)
            elif body.acks == ACKS_ALL and body.offset >= 0:
                epoch = acknowledged_in(event, body, mirror)
                known = state.known if mirror.left_behind(epoch, body.offset, body.uid) else ""
                return self._learn(state, body.offset, body.uid, epoch, event, mirror, known)
            return NOTHING
        assert type(body) is PollReturn
        if body.outcome != "ok" or not body.records:
            return NOTHING
        if not state.told and not mirror.taints and mirror.records.are(body.records):
            state.tested += len(body.records)
            return NOTHING
        leader_epoch = read_in(body, mirror)
        found: list[Any] | None = None
        for record in body.records:
            if emitted := self._learn(state, record.offset, record.uid, leader_epoch, event, mirror):
                found = [*(found or ()), *emitted]
        return NOTHING if found is None else found

    def _known(self, state: Values, offset: int, mirror: LogMirror) -> Value | None:
        """What an offset was said to hold."""
        told = state.told.get(offset)
        if told is not None:
            return told
        committed = mirror.records.at(offset)
        return None if committed is None else _value(committed)

    def _learn(
        self,
        state: Values,
        offset: int,
        uid: str,
        leader_epoch: int,
        event: Stamped,
        mirror: LogMirror,
        finding: str = "",
    ) -> Emissions:
        known = self._known(state, offset, mirror)
        if known is None:
            self._tell(state, offset, Value(uid, leader_epoch, witness(event)))
            return NOTHING
        state.tested += 1
        if known.uid == uid:
            if leader_epoch > known.leader_epoch and mirror.taints:  # what gave it up before did not
                self._tell(state, offset, Value(uid, leader_epoch, known.by))
            return NOTHING
        sentence = (
            f"offset {offset:,} of {state.key} holds {named(uid)} according to {event.node}, "
            f"and {named(known.uid)} according to {known.by.node}"
        )
        if finding:  # nothing is there, whatever was answered
            return self.violated(state.key, sentence, known.by, event, known=finding)
        rule, session = given_up(mirror, known.leader_epoch, leader_epoch, offset), place_of(uid)[0]
        if (
            not rule
            and session == place_of(known.uid)[0]
            and state.renumbered.doubted(mirror, session, [offset], sentence, known.by, witness(event))
        ):
            return NOTHING
        self._tell(state, offset, Value(uid, leader_epoch, witness(event)))
        if rule:
            return self.excused(rule, state.key, sentence, known.by, event)
        return self.violated(state.key, sentence, known.by, event)

    def _tell(self, state: Values, offset: int, value: Value) -> None:
        state.told[offset] = value
        if len(state.told) > REMEMBERED:
            del state.told[next(iter(state.told))]

    def _committed(self, state: Values, event: Stamped, mirror: LogMirror) -> Emissions:
        records = mirror.records
        if not state.told and not records.again and not records.replaced:
            return NOTHING  # what is committed first is what others are held against
        found: list[Any] = []
        body = event.body
        assert type(body) is LogHw
        epoch = body.leader_epoch  # older batches are committed with it
        for batch in mirror.newly_committed:
            for offset, uid in enumerate(batch.uids, batch.base):
                if offset not in state.told and offset in records.replaced:
                    self._tell(state, offset, _value(records.replaced[offset]))
                if offset in state.told:
                    found.extend(self._learn(state, offset, uid, epoch, event, mirror))
        for uid, first, second in records.copies_again():
            found.extend(self._twice(state, uid, first, second, event, mirror))
        return found

    def _twice(
        self, state: Values, uid: str, first: Copy, second: Copy, event: Stamped, mirror: LogMirror
    ) -> Emissions:
        """A record is committed for the second time."""
        sentence = (
            f"record {uid} of an idempotent producer is committed twice in {state.key}, at offset {first.offset:,} "
            f"and at offset {second.offset:,}"
        )
        known = self._known(state, first.offset, mirror)
        by = None if known is None else known.by
        rule = given_up(mirror, first.leader_epoch, second.leader_epoch, first.offset)
        if not rule and first.numbered != second.numbered:
            due = bump_is_due(mirror.producers, state.failed, uid, first.numbered, second.numbered)
            rule = "epoch-bump" if due else ""
        if rule:
            return self.excused(rule, state.key, sentence, by, event)
        offsets = [first.offset, second.offset]
        if first.numbered == second.numbered and state.renumbered.doubted(
            mirror, place_of(uid)[0], offsets, sentence, by, witness(event)
        ):
            return NOTHING
        return self.violated(state.key, sentence, by, event)

    def finish(self, state: Values, mirror: LogMirror) -> Emissions:
        return state.renumbered.judge(self, state.key, mirror, at_end=True)


def _value(committed: Held) -> Value:
    return Value(committed.uid, committed.copy.leader_epoch, committed.copy.by)
