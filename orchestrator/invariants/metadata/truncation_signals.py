"""M10: a consumer whose records are not in its new leader's log is told so before it reads on."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.isolation import READ_COMMITTED, READ_UNCOMMITTED
from actors.node.messages import Api
from actors.node.spec import is_recreated
from actors.trace.events import NO_ENTRY, CommittedReturn, ConsPos, Entry, EpochTold, MetaView, PollReturn, Stamped
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Emissions,
    Profile,
    State,
    Witness,
    committed_alone,
    witness,
)
from orchestrator.invariants.folds.memory import remember
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.log_prefix import Prefix

VALIDATED_SINCE = 3
"""Version of OffsetForLeaderEpoch that clients ask brokers of (``OffsetsForLeaderEpochUtils``)."""


CLIENT = -1


class Place(msgspec.Struct, frozen=True):
    """What a consumer comes after: the record at ``offset``, of a batch of ``epoch``; ``uid`` "": not known.
    leader_epoch: in which it was fetched, -1 where a leader told of it in another way. isolation: with which it reads,
    where that is known."""

    offset: int
    epoch: int
    uid: str
    leader_epoch: int
    by: Witness
    isolation: int = READ_UNCOMMITTED


class Told(msgspec.Struct, frozen=True):
    """What a leader answered a consumer to OffsetForLeaderEpoch, in a leader epoch, with the request ``req``. start:
    where its log began then."""

    req: str
    leader_epoch: int
    epoch: int
    end: int
    start: int
    by: Witness


HOLLOWS_REMEMBERED = 256
"""Ends of a partition's leader epochs, each of which few consumers are told."""


class Places(State):
    """places: consumer -> what it comes after, if it knows the leader epoch of that. told: consumer -> what it was told
    last of where an epoch ends. unnamed: leader epoch and the epoch asked for -> the last such answer, where the trace
    does not tell who asked. moved: consumer -> its incarnation, and the number of its last event that changed its
    position. unknown: consumer -> what it comes after, if nobody knows the leader epoch of that. unasked: consumer ->
    what it comes after, where it has not asked yet, and must before it reads on. committed: consumer -> what it was
    told last that its group has committed. hollow: ends that leaders have told of leader epochs, with these, though
    their logs have no record of them: they begin there."""

    hollow: list[tuple[int, int]] = []
    places: dict[str, Place] = {}
    moved: dict[str, tuple[int, int]] = {}
    unknown: dict[str, Place] = {}
    unasked: dict[str, Place] = {}
    committed: dict[str, Entry] = {}
    told: dict[str, Told] = {}
    unnamed: dict[tuple[int, int], Told] = {}
    profile: Profile = Profile()


def _end_of(log: Prefix, epoch: int) -> int:
    """Where the largest leader epoch ends in a log that is not above ``epoch``: what its leader answers to
    OffsetForLeaderEpoch."""
    return next((batch.end for batch in reversed(log.batches) if batch.epoch <= epoch), log.floor)


def _passed_unseen(place: Place, log: Prefix) -> list[int]:
    """Leader epochs of the batches behind a place that a consumer has passed without being given anything of them:
    markers, and for who reads committed transactions alone what may be in an aborted one."""
    epochs: list[int] = []
    for batch in log.between(place.offset + 1, log.end):
        if not (batch.control or (place.isolation == READ_COMMITTED and batch.txn is not None)):
            break
        epochs.append(batch.epoch)
    return epochs


def _may_have_passed(place: Place, epoch: int, mirror: LogMirror) -> bool:
    """Whether a consumer may have passed a batch of a leader epoch without being given anything of it: in what is
    committed, or in the log of a leader from which it may have read since. What is forgotten may have been one."""
    leaders = [mirror.lineage_log(leader) for leader in mirror.lineages if leader >= place.leader_epoch]
    logs = [mirror.committed, *(log for log in leaders if log is not None)]
    if mirror.transactions.any and any(place.offset + 1 < log.floor for log in logs):
        return True
    return any(epoch in _passed_unseen(place, log) for log in logs)


def _is_hollow(body: EpochTold, mirror: LogMirror) -> bool:
    """Whether a leader named an end of a leader epoch that is no record's: its log begins there, with later ones
    (``LeaderEpochFileCache.endOffsetFor``)."""
    log = mirror.lineage_log(body.current_leader_epoch)
    batch = log.batch_at(body.end - 1) if log is not None and body.end > log.floor else None
    return batch is not None and batch.epoch != body.epoch


def _next_record(mirror: LogMirror, offset: int, isolation: int) -> int:
    """Where a consumer gets a record first that begins at an offset; below 0, which is none, at that."""
    if offset < 0:
        return offset
    return mirror.transactions.hidden_until(max(offset, mirror.transactions.forgotten), isolation)


class TruncationIsSignalled(LogInvariant[Places]):
    """After an unclean election the log has other records from some offset on, and the offsets continue. A consumer
    beyond that offset has read records that are gone; if it reads on, it silently skips the new records at their
    offsets (KIP-320).

    Example: consumer-1 has read orders-0 up to 1,310 in leader epoch 4. Broker-2, whose log ends at 1,204, is elected
    uncleanly and gets 300 records; consumer-1 continues at 1,310 in leader epoch 5. Instead it must ask broker-2 first,
    learn that leader epoch 4 ends at 1,204 there, and inform its application, or go back to 1,204.

    It asks with the leader epoch of its last record, or of a marker or an aborted record behind that one, or, if it
    begins at a committed position, with that of the last record that its group processed, and goes back exactly to the
    offset in the answer. An answer that is not below its position says that nothing before it is lost: it stays there.
    A position that was committed with its leader epoch, or kept with it, is asked about before anything is read there.

    A consumer cannot ask if it does not know the leader epoch before its position: after a look-up, or after a seek to
    an offset without an epoch, until it gets a record, or passes a marker; or if its Fetch version, or its broker, is
    too old. It must not ask then with the leader epoch of the position that it had before: the answer would move it.
    """

    id = "M10"
    title = "A consumer whose position is not in its new leader's log learns so before it reads on"
    source = "KIP-320; KAFKA-7747; KAFKA-7786; Kafka's SubscriptionState.maybeValidatePosition"
    tested_when = (
        "a consumer gets records in another leader epoch than before, and knows the leader epoch before its position; "
        "it asks a leader for the end of that epoch; it goes back to the offset in the answer; or it begins at a "
        "position that comes with a leader epoch"
    )
    types = (PollReturn, ConsPos, CommittedReturn, EpochTold, MetaView)
    exemptions = {
        "older-epoch-reaches": "The new leader has no record of the consumer's leader epoch, and an older epoch that "
        "ends behind the position: Kafka compares only that end.",
        "deleted": "When the new leader answered the consumer its log began behind that record: what it has of other "
        "leader epochs there is deleted, and with it where they end. Kafka tells where its first one begins.",
        "not-validated": (
            "The consumer or its broker does not support OffsetForLeaderEpoch version 3, which clients use."
        ),
    }
    unseen = (
        (
            "Records skipped by a consumer that does not know the leader epoch before its position: Kafka cannot "
            "detect it."
        ),
        "A consumer that learned the point of divergence, and begins at another offset.",
        (
            "A consumer that went back to where the log of its leader begins, as this has nothing of its leader epoch, "
            "until it gets a record."
        ),
        (
            "Where the handling of requests takes time (`krift.request.service.us`), which consumer a leader answered, "
            "and so whether it does as it was told."
        ),
        (
            "A consumer that does not ask about a position which is not the first one of its process: what it gets may "
            "be of a Fetch from before."
        ),
    )

    def initial(self, key: str, profile: Profile) -> Places:
        return Places(key, profile=profile)

    def step(self, state: Places, event: Stamped, mirror: LogMirror) -> Emissions:
        body: Any = event.body
        if type(body) is EpochTold:
            return self._asks(state, event, body, mirror)
        if type(body) is ConsPos:
            return self._moved(state, event, body, mirror)
        if type(body) is MetaView:
            state.told.pop(event.node, None)  # it had asked about another topic of that name
            return NOTHING
        if type(body) is CommittedReturn:
            entry = body.offsets.get(state.key, NO_ENTRY)
            # What is committed of a topic may be told of the next one of its name.
            if body.outcome == "ok" and not mirror.removed and not is_recreated(state.key):
                state.committed[event.node] = entry
            return NOTHING
        if body.outcome != "ok" or not body.records:
            return NOTHING
        return self._reads(state, event, body, mirror)

    def _reads(self, state: Places, event: Stamped, body: PollReturn, mirror: LogMirror) -> Emissions:
        told = state.told.pop(event.node, None)
        before, last = state.places.get(event.node), body.records[-1]
        state.moved[event.node] = (event.incarnation, event.seq)
        state.unknown.pop(event.node, None)
        unasked = state.unasked.pop(event.node, None)
        state.places[event.node] = Place(
            last.offset, last.leader_epoch, last.uid, body.leader_epoch, witness(event), body.isolation
        )
        if unasked is not None and body.leader_epoch >= 0 and not self._cannot_ask(state, event):
            state.tested += 1
            sentence = (
                f"{event.node} read on at {body.records[0].offset:,} of {state.key} in leader epoch "
                f"{body.leader_epoch}, but its position {unasked.offset + 1:,} came with leader epoch {unasked.epoch}, "
                f"and it has not asked where that ends"
            )
            return self.violated(state.key, sentence, unasked.by, event)
        of_now = told is not None and told.leader_epoch == body.leader_epoch >= 0
        if told is not None and of_now and _next_record(mirror, told.end, body.isolation) < body.records[0].offset:
            where = f"leader epoch {told.epoch} ends at {told.end:,}" if told.end >= 0 else "its log has no such epoch"
            sentence = (
                f"{event.node} read on at {body.records[0].offset:,} of {state.key} in leader epoch "
                f"{body.leader_epoch}, but the leader had answered that {where}"
            )
            return self.violated(state.key, sentence, told.by, event)
        if before is None or body.leader_epoch < 0 or body.leader_epoch == before.leader_epoch:
            return NOTHING
        answer = told if of_now else state.unnamed.get((body.leader_epoch, before.epoch))
        return self._judge(state, event, body, before, answer, mirror)

    def _moved(self, state: Places, event: Stamped, body: ConsPos, mirror: LogMirror) -> Emissions:
        """A position that was looked up has no leader epoch in Kafka, whatever its answer said."""
        told = state.told.pop(event.node, None)
        self._takes(state, event, body, mirror)
        if body.reason != "truncation":
            return NOTHING
        if body.new >= body.old:
            sentence = (
                f"{event.node} took the log of {state.key} for truncated at {body.new:,}, but its position was "
                f"{body.old:,}: nothing before that is lost"
            )
            proof = (event,) if told is None or told.req != event.req else (told.by, event)
            return self.violated(state.key, sentence, *proof)
        if told is None or told.req != event.req:
            return NOTHING
        state.tested += 1
        if (body.new, body.epoch) == (told.end, told.epoch):
            return NOTHING
        sentence = (
            f"{event.node} went back to {body.new:,} of {state.key}, behind a record of leader epoch {body.epoch}, but "
            f"the leader had answered that leader epoch {told.epoch} ends at {told.end:,}"
        )
        return self.violated(state.key, sentence, told.by, event)

    def _takes(self, state: Places, event: Stamped, body: ConsPos, mirror: LogMirror) -> None:
        """What a consumer comes after with a position, and whether it has to ask about it first."""
        consumer, by = event.node, witness(event)
        incarnation, _ = state.moved.get(consumer, (-1, -1))
        state.moved[consumer] = (event.incarnation, event.seq)
        state.unknown.pop(consumer, None)
        state.unasked.pop(consumer, None)
        before = state.places.pop(consumer, None)
        isolation = READ_UNCOMMITTED if before is None else before.isolation
        offset, epoch, _ = state.committed.pop(consumer, NO_ENTRY)
        if body.reason in ("truncation", "seek"):
            offset, epoch = body.new, body.epoch
        elif body.reason != "committed":
            offset, epoch = body.new, -1
        if offset != body.new:
            return
        place = Place(offset - 1, epoch, "", -1, by, isolation)
        if offset > 0 and epoch >= 0 and (offset, epoch) not in state.hollow:
            state.places[consumer] = place
        if body.reason == "truncation" or mirror.removed or is_recreated(state.key):
            return  # it has asked, or who was told of one topic may ask about another one of its name
        if epoch < 0:
            alone = consumer in committed_alone(state.profile)
            isolation = READ_COMMITTED if alone else READ_UNCOMMITTED
            state.unknown[consumer] = msgspec.structs.replace(place, isolation=isolation)
        # Later on it may take what a Fetch at the same offset brings that it sent before, if it knows no leader.
        elif body.old < 0 and incarnation < event.incarnation:
            state.unasked[consumer] = place

    def _asks(self, state: Places, event: Stamped, body: EpochTold, mirror: LogMirror) -> Emissions:
        """A consumer that asks takes nothing until it is answered; what it did since then is after the cause. Where it
        has read on since, or has another position, it had given up the request, and takes no answer to it."""
        if body.replica_id != CLIENT:
            return NOTHING
        if _is_hollow(body, mirror) and (body.end, body.epoch) not in state.hollow:
            state.hollow = [*state.hollow, (body.end, body.epoch)][-HOLLOWS_REMEMBERED:]
        start = mirror.replica(event.node).start
        answer = Told(event.req, body.current_leader_epoch, body.epoch, body.end, start, witness(event))
        if not event.req:
            remember(state.unnamed, (body.current_leader_epoch, body.asked_epoch), answer, HOLLOWS_REMEMBERED)
            state.unasked.clear()
        consumer, _, rest = event.cause.partition("/")
        if not event.req.startswith(f"{consumer}>"):
            return NOTHING
        place = state.places.get(consumer)
        incarnation, _, seq = rest.partition("/")
        if state.moved.get(consumer, (0, -1)) > (int(incarnation), int(seq)):
            return NOTHING
        state.told[consumer] = answer
        asks_first = state.unasked.pop(consumer, None) is not None
        unknown = state.unknown.get(consumer)
        if unknown is not None:
            return self._asks_unknown(state, event, body, consumer, unknown, mirror)
        if place is None:
            state.tested += asks_first
            return NOTHING
        state.tested += 1
        if body.asked_epoch == place.epoch or _may_have_passed(place, body.asked_epoch, mirror):
            return NOTHING
        sentence = (
            f"{consumer} asked {event.node} where leader epoch {body.asked_epoch} of {state.key} ends, but the record "
            f"before its position, at {place.offset:,}, was of leader epoch {place.epoch}"
        )
        return self.violated(state.key, sentence, place.by, event)

    def _asks_unknown(
        self, state: Places, event: Stamped, body: EpochTold, consumer: str, unknown: Place, mirror: LogMirror
    ) -> Emissions:
        """It asks about a position of which nobody knows what it comes after. It may have passed something since."""
        state.tested += 1
        if _may_have_passed(unknown, body.asked_epoch, mirror):
            return NOTHING
        sentence = (
            f"{consumer} asked {event.node} where leader epoch {body.asked_epoch} of {state.key} ends, but its "
            f"position {unknown.offset + 1:,} came without a leader epoch, and it has read nothing since"
        )
        return self.violated(state.key, sentence, unknown.by, event)

    def _judge(
        self, state: Places, event: Stamped, body: PollReturn, before: Place, told: Told | None, mirror: LogMirror
    ) -> Emissions:
        log = mirror.lineage_log(body.leader_epoch)
        if log is None:
            return NOTHING
        state.tested += 1
        if before.offset < log.floor:
            return NOTHING  # all replicas have it
        batch = log.batch_at(before.offset)
        if batch is not None and batch.epoch == before.epoch and before.uid in ("", batch.uid_at(before.offset)):
            return NOTHING
        holds = (
            "lacks that offset"
            if batch is None
            else f"has {batch.uid_at(before.offset)} of leader epoch {batch.epoch} there"
        )
        sentence = (
            f"{event.node} read {before.uid or 'a record'} of leader epoch {before.epoch} at {before.offset:,} of "
            f"{state.key} and then read on at {body.records[0].offset:,} in leader epoch {body.leader_epoch}, although "
            f"the log of that epoch {holds}"
        )
        if self._cannot_ask(state, event):
            return self.excused("not-validated", state.key, sentence, before.by, event)
        if told is not None and before.offset < told.start:
            return self.excused("deleted", state.key, sentence, before.by, told.by, event)
        unknown = all(batch.epoch != before.epoch for batch in log.batches)
        if unknown and _end_of(log, before.epoch) > before.offset:
            return self.excused("older-epoch-reaches", state.key, sentence, before.by, event)
        return self.violated(state.key, sentence, before.by, event)

    def _cannot_ask(self, state: Places, event: Stamped) -> bool:
        """Whether the consumer, or the leader that it reads from, has no version of the API that is used."""
        assert type(event.body) is PollReturn
        api = Api.OffsetForLeaderEpoch.name
        return state.profile.is_older(api, VALIDATED_SINCE, event.node, event.body.broker)
