"""The promises to idempotent and transactional producers."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import msgspec

from actors.node.spec import is_recreated
from actors.trace.events import ACKS_ALL, LogAppend, LogHw, SendInvoke, SendReturn, Stamped, TxnGuard
from orchestrator.invariants.clients.renumbered import RENUMBERED, RULE, Renumbered
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import (
    IDS_UNSEEN,
    REPLACED_REMEMBERED,
    SESSIONS_REMEMBERED,
    forget_first,
    remember,
)
from orchestrator.invariants.folds.rows import REMEMBERED
from orchestrator.invariants.folds.uids import place_of, replaced_by
from orchestrator.invariants.mirrors.committed_records import NOT_NUMBERED, Copy
from orchestrator.invariants.mirrors.epoch_bumps import EPOCH_BUMP, FailedSends, bump_is_due
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.log_prefix import SEQUENCES
from orchestrator.invariants.mirrors.loss import LOST, UNCLEAN, acknowledged_in, given_up
from orchestrator.invariants.mirrors.replica import Replica


class Copies(State):
    """``others``: uid -> copies before the one that was committed last, where there are several."""

    others: dict[str, list[Copy]] = {}
    failed: FailedSends = msgspec.field(default_factory=FailedSends)
    renumbered: Renumbered = msgspec.field(default_factory=Renumbered)


class IdempotentWritesAppearOnce(LogInvariant[Copies]):
    """Idempotence allows a producer to send every unanswered batch again. If a leader appends the second copy,
    applications count an order twice; if it answers with another batch's offset, they look for it in the wrong place.

    Example: the answer to a batch of producer 7 (epoch 0) with producer-1:57 is lost; broker-2, the next leader, has
    the batch at 41, appends it again at 44, and both are committed. Or broker-2 refuses it as out of sequence though it
    is one of the last five, producer-1 raises its epoch, and the batch is at 44 under epoch 1.
    """

    id = "T1"
    title = "A record of an idempotent producer is committed once, at the offset that its acknowledgement names"
    source = "KIP-98; KIP-360; Jepsen's kafka workload (duplicate)"
    tested_when = "an acknowledgement names the offset of a committed record, or a record is committed again"
    types = (SendReturn, LogHw)
    cases = {LogHw: ("leader",)}
    exemptions = {"unclean-election": UNCLEAN, "loss-budget": LOST, "epoch-bump": EPOCH_BUMP, RULE: RENUMBERED}
    unseen = (
        "a record that is renumbered although only another one of its session had a reason",
        "refusals that come too early in topics that were made anew",
        "an application that sends a record again itself: that is another uid",
        f"copies that are more than {REMEMBERED:,} records of a partition apart",
    )

    def initial(self, key: str, profile: Profile) -> Copies:
        return Copies(key)

    def step(self, state: Copies, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogHw:
            return self._committed(state, mirror) if mirror.newly_committed else NOTHING
        assert type(body) is SendReturn
        if body.outcome != "ok":
            state.failed.note(event, body)
            state.renumbered.note(body)
            return NOTHING
        if not body.idempotent or body.acks != ACKS_ALL or body.offset < 0:
            return NOTHING
        return self._acknowledged(state, event, body, mirror)

    def _acknowledged(self, state: Copies, event: Stamped, body: SendReturn, mirror: LogMirror) -> Emissions:
        copy = mirror.records.copy_of(body.uid)
        if copy is None:
            return NOTHING  # C1 tells whether it is there at all
        state.tested += 1
        if copy.numbered == NOT_NUMBERED:
            sentence = (
                f"record {body.uid} of {event.node}, an idempotent producer, is at offset {copy.offset:,} of "
                f"{state.key} without a sequence number, so that nobody can tell a second copy of it"
            )
            return self.violated(state.key, sentence, copy.by, event)
        if copy.offset == body.offset or any(each.offset == body.offset for each in state.others.get(body.uid, ())):
            return NOTHING
        sentence = (
            f"record {body.uid} was acknowledged to {event.node} at offset {body.offset:,} of {state.key}; it is "
            f"committed at offset {copy.offset:,}"
        )
        epoch = acknowledged_in(event, body, mirror)
        if rule := given_up(mirror, copy.leader_epoch, epoch, min(copy.offset, body.offset)):
            return self.excused(rule, state.key, sentence, copy.by, event)
        session = place_of(body.uid)[0]
        if state.renumbered.doubted(mirror, session, [copy.offset, body.offset], sentence, copy.by, witness(event)):
            return NOTHING
        return self.violated(state.key, sentence, copy.by, event)

    def _committed(self, state: Copies, mirror: LogMirror) -> Emissions:
        if not mirror.records.again and not state.renumbered.failing:
            return NOTHING
        found: list[Any] = []
        for uid, first, second in mirror.records.copies_again():
            state.others.setdefault(uid, []).append(first)
            if len(state.others) > REMEMBERED:
                del state.others[next(iter(state.others))]
            found.extend(self._twice(state, uid, first, second, mirror))
        found.extend(state.renumbered.judge(self, state.key, mirror))
        return found

    def finish(self, state: Copies, mirror: LogMirror) -> Emissions:
        return state.renumbered.judge(self, state.key, mirror, at_end=True)

    def _twice(self, state: Copies, uid: str, first: Copy, second: Copy, mirror: LogMirror) -> Emissions:
        state.tested += 1
        sentence = (
            f"record {uid} is committed twice in {state.key}: at offset {first.offset:,} under {_numbered(first)}, and "
            f"at offset {second.offset:,} under {_numbered(second)}"
        )
        if rule := given_up(mirror, first.leader_epoch, second.leader_epoch, min(first.offset, second.offset)):
            return self.excused(rule, state.key, sentence, first.by, second.by)
        if first.numbered != second.numbered:
            if bump_is_due(mirror.producers, state.failed, uid, first.numbered, second.numbered):
                return self.excused("epoch-bump", state.key, sentence, first.by, second.by)
            sentence += "; the producer had no reason to number it anew"
        elif state.renumbered.doubted(
            mirror, place_of(uid)[0], [first.offset, second.offset], sentence, first.by, second.by
        ):
            return NOTHING
        return self.violated(state.key, sentence, first.by, second.by)


def _numbered(copy: Copy) -> str:
    return f"producer id {copy.numbered.producer_id}, epoch {copy.numbered.producer_epoch}"


class Sent(msgspec.Struct):
    """Numbers of a session's records for one partition, in the order of sending; ``before``: how many are forgotten."""

    numbers: list[int] = []
    before: int = 0

    def forget(self, most: int) -> None:
        """All but the last ``most``."""
        gone = len(self.numbers) - most
        if gone > 0:
            del self.numbers[:gone]
            self.before += gone


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """The batches of a transaction that wait, or have waited, at a leader for their coordinator, as long as its log has
    none. ``of``: the leader's incarnation, and the number of the verification. ``lowest``: the lowest base sequence in
    ``producer_epoch``, the newest one, which is that of ``by``; ``adds``: all go by transaction.version 2."""

    of: tuple[int, int]
    producer_epoch: int
    lowest: int
    adds: bool
    by: Witness

    def wrong(self, body: LogAppend) -> str:
        """Why a leader whose log does not know the producer must not begin its transaction so, "" if it may."""
        if body.producer_epoch != self.producer_epoch or not body.transactional:
            return ""
        if body.base_sequence > self.lowest:
            return f"the lowest one that has waited for its coordinator is {self.lowest}"
        return "a transaction begins with sequence 0" if self.adds and body.base_sequence else ""


class SequenceState(State):
    """``sent``: by producing session. ``waiting``: "leader producer id" -> the batches that wait."""

    sent: dict[str, Sent] = {}
    waiting: dict[str, Waiting] = {}

    def wait(self, event: Stamped, body: TxnGuard) -> None:
        """A batch begins to wait: another one of a verification, or of a new one, which begins with nothing."""
        name, of = f"{event.node} {body.producer_id}", (event.incarnation, body.guard)
        new = Waiting(of, body.producer_epoch, body.base_sequence, body.adds, witness(event))
        known = self.waiting.get(name)
        if known is not None and known.of == of:
            adds = known.adds and new.adds
            is_first = (-new.producer_epoch, new.lowest) < (-known.producer_epoch, known.lowest)
            new = msgspec.structs.replace(new if is_first else known, adds=adds)
        self.waiting[name] = new
        forget_first(self.waiting, 2 * SESSIONS_REMEMBERED)

    def begin(self, event: Stamped, body: LogAppend) -> Waiting | None:
        """A batch, or a marker, is about to come to a leader's log: what waited until now. A marker of the epoch that
        waits has ended the transaction before, under transaction.version 2."""
        name = f"{event.node} {body.producer_id}"
        known = self.waiting.get(name)
        if known is None or not (body.transactional or body.marker):
            return None
        if not (known.adds and body.marker and body.producer_epoch == known.producer_epoch):
            del self.waiting[name]
        return known if known.of[0] == event.incarnation else None

    def sent_before(self, uid: str) -> int:
        """How many records its session had sent to the partition before this one, -1 if that is not known."""
        session, number = place_of(uid)
        sent = self.sent.get(session)
        if sent is None:
            return -1
        index = bisect_left(sent.numbers, number)
        return -1 if index == 0 and sent.before else sent.before + index


class SequencesAreContiguous(LogInvariant[SequenceState]):
    """By sequence numbers a leader distinguishes a retry from a new batch, and notices a missing one. A leader that
    accepts any number appends duplicates, or a batch before its predecessor.

    Example: producer 7 (epoch 0) has records 0-9 in the log of orders-0; the leader appends a batch that begins with
    sequence 15, or again with 5. Or it appends a batch of epoch 0 after one of epoch 1. Or batches 0-4 and 5-9 of a
    transaction wait for its coordinator, the first one is refused as that cannot be reached, and the leader begins with
    the second one.
    """

    id = "T2"
    title = "In a leader's log, the sequence numbers of a producer id and epoch have no gap and no repetition"
    source = "KIP-98; Kafka's ProducerAppendInfo; KAFKA-14920"
    tested_when = "a leader appends a batch of an idempotent producer"
    types = (SendInvoke, TxnGuard)
    before_types = (LogAppend,)
    cases = {LogAppend: ("leader",)}
    exemptions = {
        "no-producer-state": (
            "The log legitimately has no record of this producer id: a leader accepts any first number, if the "
            "producer has sent as many records before, or may have sent them to a former topic of this name. The first "
            "number of a transaction must be the lowest one that has waited for its coordinator, and 0 from "
            "transaction.version 2 on."
        )
    }
    unseen = (
        "the first number of a transaction that its leader does not verify",
        "a first number that is too high although as many records had been sent before: not all of them got a number",
        IDS_UNSEEN,
    )

    SENT_REMEMBERED = 16_384

    def initial(self, key: str, profile: Profile) -> SequenceState:
        return SequenceState(key)

    def before(self, state: SequenceState, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is LogAppend
        if body.role != "leader" or body.producer_id < 0:
            return NOTHING
        waiting = state.begin(event, body)
        if body.control or body.base_sequence < 0:
            return NOTHING
        log = mirror.producers.nodes.get(event.node)
        known = mirror.producers.last(event.node, body.producer_id)
        if known is None and log is not None and log.has_forgotten(body.producer_id):
            return NOTHING
        state.tested += 1
        if known is None or known.producer_epoch != body.producer_epoch:
            expected = 0
        else:
            expected = (known.last_sequence + 1) % SEQUENCES
        older = known is not None and body.producer_epoch < known.producer_epoch
        if body.base_sequence == expected and not older:
            return NOTHING
        sentence = (
            f"{event.node} appended sequence {body.base_sequence} of producer id {body.producer_id}, epoch "
            f"{body.producer_epoch}, to {state.key} at offset {body.base:,}; "
        )
        if known is not None:
            was = f"epoch {known.producer_epoch} had already begun" if older else f"the next sequence was {expected}"
            return self.violated(state.key, sentence + was, known.by, event)
        if waiting is not None and (wrong := waiting.wrong(body)):
            return self.violated(state.key, sentence + wrong, waiting.by, event)
        by = mirror.producers.must_have(event.node, body.producer_id, body.leader_epoch)
        if by is not None:
            return self.violated(state.key, sentence + "older batches of this epoch are committed", by, event)
        before = state.sent_before(body.uids[0]) if body.uids else -1
        if 0 <= before < body.base_sequence and not is_recreated(state.key):
            return self.violated(state.key, f"{sentence}{before} records of this epoch had been sent before", event)
        return self.excused("no-producer-state", state.key, f"{sentence}the next sequence was {expected}", event)

    def step(self, state: SequenceState, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is TxnGuard:
            state.wait(event, body)
            return NOTHING
        assert type(body) is SendInvoke
        session, number = place_of(body.uid)
        if number >= 0:
            sent = state.sent.get(session)
            if sent is None:
                sent = Sent()
                for each in replaced_by(session, state.sent):
                    state.sent[each].forget(REPLACED_REMEMBERED)
            remember(state.sent, session, sent, SESSIONS_REMEMBERED)
            sent.numbers.append(number)
            if len(sent.numbers) > 2 * self.SENT_REMEMBERED:
                sent.forget(self.SENT_REMEMBERED)
        return NOTHING


class OldProducerEpochsAreFenced(LogInvariant[State]):
    """A producer raises its epoch to invalidate its older requests that are still under way. A leader that appends them
    all the same writes a record after its own later copy. A coordinator raises the epoch of a producer to fence it, and
    leaders learn that from the marker.

    Example: producer 7 raises its epoch to 1 and sends producer-1:57 again, with sequence 0; broker-1 appends it, and
    then the late copy of epoch 0, sequence 0. Or the timeout of its transaction is over, the log of broker-1 has the
    abort marker of epoch 1, and broker-1 appends a late batch of epoch 0, which nobody will end.
    """

    id = "T3"
    title = "A leader appends no batch of an older producer epoch than its log has, in a batch or in a marker"
    source = "KIP-98; KIP-360; KAFKA-5231; Kafka's ProducerAppendInfo.checkProducerEpoch"
    tested_when = "a leader appends a batch of a producer id that its log has"
    types = ()
    before_types = (LogAppend,)
    cases = {LogAppend: ("leader",)}
    unseen = (
        "epochs of transactional ids: T11 checks that they do not go back, T12 the answers of an older one",
        "an older epoch on a partition that the newer one has not reached: its leader cannot know of it",
        "a marker below the start of the log: a leader that reads its log anew need not know of it",
    )

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def before(self, state: State, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is LogAppend
        if body.role != "leader" or body.producer_id < 0:
            return NOTHING
        known = mirror.producers.last(event.node, body.producer_id)
        marked = -1 if body.control else _marked(mirror.replica(event.node), body.producer_id)
        if known is None and marked < 0:
            return NOTHING
        state.tested += 1
        known_epoch = -1 if known is None else known.producer_epoch
        if body.producer_epoch >= max(known_epoch, marked):
            return NOTHING
        after = f"batch of epoch {known_epoch}" if body.producer_epoch < known_epoch else f"marker of epoch {marked}"
        return self.violated(
            state.key,
            f"{event.node} appended a batch of producer id {body.producer_id}, epoch {body.producer_epoch}, to "
            f"{state.key} at offset {body.base:,} after a {after}",
            known.by if known is not None and body.producer_epoch < known_epoch else None,
            event,
        )


def _marked(replica: Replica, producer_id: int) -> int:
    """The producer epoch of the last marker that a log has of a producer id, -1 if there is none."""
    marker = replica.transactions.last_marker(producer_id)
    return -1 if marker is None or marker.offset < replica.start else marker.producer_epoch
