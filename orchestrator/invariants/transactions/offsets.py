"""What groups commit in transactions: T14."""

from __future__ import annotations

from actors.trace.events import NO_ENTRY, Entry, GrpCommit, GrpFetch, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss import LOSS
from orchestrator.invariants.mirrors.position_records import PositionRecord, PositionRecords

STABLE_SINCE = 7
"""Version of OffsetFetch that brought RequireStable."""


class OffsetsGoWithTransactions(LogInvariant[PositionRecords]):
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

    def initial(self, key: str, profile: Profile) -> PositionRecords:
        return PositionRecords(key)

    def step(self, state: PositionRecords, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is GrpCommit:
            if body.offsets_tp == state.key and not body.error and body.log_offset >= 0:
                state.append(event, body, mirror)
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
            records = state.of(body.group, tp, replica)
            if any(each.producer_id >= 0 for each in records):
                if found := self._told(state, event, body, tp, list(entry), records, mirror):
                    return found
        return NOTHING

    def _told(
        self,
        state: PositionRecords,
        event: Stamped,
        body: GrpFetch,
        tp: str,
        entry: Entry,
        records: list[PositionRecord],
        mirror: LogMirror,
    ) -> Emissions:
        replica = mirror.replica(event.node)
        state.tested += 1
        stable = body.stable_end >= 0
        limit = body.stable_end if stable else replica.log.end
        fates = {each.log_offset: each.fate(replica, limit) for each in records if each.log_offset < limit}
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
        effective = [each for each in records if each.log_offset < below and each.fate(replica, below) == "plain"]
        if (
            effective
            and effective[-1].producer_id >= 0
            and not any(each.log_offset >= effective[-1].log_offset for each in same)
        ):
            sentence = f"{told}, but a committed transaction has {_at(effective[-1])}"
            return self._finding(state, event, sentence, effective[-1], mirror)
        return NOTHING

    def _finding(
        self, state: PositionRecords, event: Stamped, sentence: str, record: PositionRecord, mirror: LogMirror
    ) -> Emissions:
        taint = mirror.taint_below(record.log_offset + 1, record.leader_epoch)
        if taint is not None:
            return self.excused(taint.rule, state.key, sentence, record.by, event)
        return self.violated(state.key, sentence, record.by, event)


def _shown(entry: Entry) -> str:
    return "nothing" if entry == NO_ENTRY else f"{entry[0]:,}"


def _at(record: PositionRecord) -> str:
    return f"{_shown(record.entry)}, at {record.log_offset:,}"
