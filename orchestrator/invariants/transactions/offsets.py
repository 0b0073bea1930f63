"""What groups commit in transactions: T14."""

from __future__ import annotations

import msgspec

from actors.trace.events import NO_ENTRY, Entry, GrpCommit, GrpFetch, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss import LOSS
from orchestrator.invariants.mirrors.replica import Replica

STABLE_SINCE = 7
"""Version of OffsetFetch that brought RequireStable."""

REMEMBERED = 32
"""Newest records of one position of a group that are remembered whatever has become of them."""

PAST = ("aborted", "gone")
"""What has become of records below a high watermark that never take effect any more."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """A position in the offsets partition. ``producer_id``: in whose transaction, -1 in none."""

    log_offset: int
    leader_epoch: int
    producer_id: int
    entry: Entry
    by: Witness


class Positions(State):
    """``records``: group and topic partition -> the newest ones, and older ones that may be in effect, in the order of
    the log."""

    records: dict[str, list[Record]] = {}


def _name(group: str, tp: str) -> str:
    return f"{group} {tp}"


class OffsetsGoWithTransactions(LogInvariant[Positions]):
    """An application that processes records exactly once commits its position in the transaction of its results. The
    next owner of the partition begins at that position. If that position belongs to an aborted transaction, nobody
    processes its records; if the position of a committed transaction is missing, records are processed twice.

    Example: the transaction of producer 7 has 40 of orders-0 for group copier at offset 17 of __consumer_offsets-0, and
    no marker yet, or an abort marker, and the answer to consumer-2 is 40. Or the transaction is open, consumer-2 asks
    with RequireStable, and the answer is 25, the position before. Or the commit marker is at 19, the high watermark is
    20, and the answer is still 25.

    A consumer asks with RequireStable wherever it can. Else it begins at 25, and processes again what is in the
    transaction.
    """

    id = "T14"
    title = "A position in a transaction takes effect with the commit of the transaction, and not before"
    source = "KIP-447; KAFKA-15449; KAFKA-15784; Kafka's OffsetMetadataManager.replayEndTransactionMarker"
    tested_when = "a coordinator returns the position of a partition for which its log has one in a transaction"
    of_transactions = True
    types = (GrpCommit, GrpFetch)
    of_groups = True
    exemptions = LOSS
    unseen = (
        "Answers of a coordinator that has a successor: O7 checks that a coordinator still leads.",
        "A position that several transactions, or a transaction and a plain commit, have with the same offset.",
        "The time that a request with RequireStable waits for a transaction: T9 limits that of transactions.",
    )

    def initial(self, key: str, profile: Profile) -> Positions:
        return Positions(key)

    def step(self, state: Positions, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is GrpCommit:
            if body.offsets_tp == state.key and not body.error and body.log_offset >= 0:
                self._appended(state, event, body, mirror)
            return NOTHING
        assert type(body) is GrpFetch
        if body.offsets_tp != state.key or body.error:
            return NOTHING
        if body.version >= STABLE_SINCE and body.stable_end < 0:
            sentence = (
                f"a consumer asked {event.node} for committed offsets of group {body.group}, by OffsetFetch version "
                f"{body.version}, without RequireStable"
            )
            return self.violated(state.key, sentence, event)
        replica = mirror.replica(event.node)
        if replica.leads != body.coordinator_epoch or body.coordinator_epoch < max(mirror.lineages, default=-1):
            return NOTHING
        for tp, entry in body.offsets.items():
            records = [each for each in state.records.get(_name(body.group, tp), ()) if _has(replica, each)]
            if any(each.producer_id >= 0 for each in records):
                if found := self._told(state, event, body, tp, list(entry), records, mirror):
                    return found
        return NOTHING

    def _appended(self, state: Positions, event: Stamped, body: GrpCommit, mirror: LogMirror) -> None:
        entry = [body.offset, body.leader_epoch, body.metadata_epoch] if body.offset >= 0 else NO_ENTRY
        # What former leaders had there is gone; what a former leader appends takes nothing from later ones.
        known = [
            each
            for each in state.records.get(_name(body.group, body.tp), ())
            if each.log_offset < body.log_offset or each.leader_epoch > body.coordinator_epoch
        ]
        known.append(Record(body.log_offset, body.coordinator_epoch, body.producer_id, list(entry), witness(event)))
        known.sort(key=lambda each: each.log_offset)
        if body.coordinator_epoch >= max(mirror.lineages, default=-1):
            known = _without_the_past(known, mirror.replica(event.node))
        state.records[_name(body.group, body.tp)] = known

    def _told(
        self,
        state: Positions,
        event: Stamped,
        body: GrpFetch,
        tp: str,
        entry: Entry,
        records: list[Record],
        mirror: LogMirror,
    ) -> Emissions:
        replica = mirror.replica(event.node)
        state.tested += 1
        stable = body.stable_end >= 0
        limit = body.stable_end if stable else replica.log.end
        fates = {each.log_offset: _fate(replica, each, limit) for each in records if each.log_offset < limit}
        told = f"{event.node} returned {_shown(entry)} as the committed offset of group {body.group} for {tp}"
        opened = [each for each in records if fates.get(each.log_offset) == "open"]
        if stable and opened:
            sentence = f"{told} with RequireStable, although an open transaction has {_at(opened[-1])}"
            return self._finding(state, event, sentence, opened[-1], mirror)
        same = [each for each in records if each.entry == entry]
        if same and all(fates.get(each.log_offset) in ("open", "aborted") for each in same):
            is_what = "open" if fates[same[-1].log_offset] == "open" else "aborted"
            sentence = f"{told}, but {_at(same[-1])}, belongs to a transaction that is {is_what}"
            return self._finding(state, event, sentence, same[-1], mirror)
        # What is committed takes effect in the end: that was told which the log had below the high watermark.
        below = min(replica.high_watermark, limit)
        effective = [each for each in records if each.log_offset < below and _fate(replica, each, below) == "plain"]
        if (
            effective
            and effective[-1].producer_id >= 0
            and not any(each.log_offset >= effective[-1].log_offset for each in same)
        ):
            sentence = f"{told}, but a committed transaction has {_at(effective[-1])}"
            return self._finding(state, event, sentence, effective[-1], mirror)
        return NOTHING

    def _finding(self, state: Positions, event: Stamped, sentence: str, record: Record, mirror: LogMirror) -> Emissions:
        taint = mirror.taint_below(record.log_offset + 1, record.leader_epoch)
        if taint is not None:
            return self.excused(taint.rule, state.key, sentence, record.by, event)
        return self.violated(state.key, sentence, record.by, event)


def _without_the_past(known: list[Record], replica: Replica) -> list[Record]:
    """Without those of the older records that are aborted, or replaced, below the leader's high watermark. A producer
    may abort a position any number of times, and what was committed last before that stays in effect."""
    older, newest = known[:-REMEMBERED], known[-REMEMBERED:]
    if not older:
        return newest
    below = replica.high_watermark
    decided = {each.log_offset: _decided(replica, each, below) for each in known if each.log_offset < below}
    replaced = max((offset for offset, fate in decided.items() if fate == "plain"), default=-1)
    kept = [each for each in older if each.log_offset >= replaced and decided.get(each.log_offset) not in PAST]
    return [*kept, *newest]


def _decided(replica: Replica, record: Record, below: int) -> str:
    return _fate(replica, record, below) if _has(replica, record) else "gone"


def _fate(replica: Replica, record: Record, end: int) -> str:
    return "plain" if record.producer_id < 0 else replica.transactions.fate_below(record.log_offset, end)


def _has(replica: Replica, record: Record) -> bool:
    """Whether the record is in a log, as far as that is remembered; what is forgotten, all have."""
    if record.log_offset < replica.log.floor:
        return True
    batch = replica.log.batch_at(record.log_offset)
    return batch is not None and batch.epoch == record.leader_epoch


def _shown(entry: Entry) -> str:
    return "nothing" if entry == NO_ENTRY else f"{entry[0]:,}"


def _at(record: Record) -> str:
    return f"{_shown(record.entry)}, at {record.log_offset:,}"
