"""The records of an offsets partition that tell of committed positions, as logs have them."""

from __future__ import annotations

import msgspec

from actors.trace.events import NO_ENTRY, Entry, GrpCommit, Stamped
from orchestrator.invariants.folds.fold import State, Witness, witness
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.replica import Replica

REMEMBERED = 32
"""Newest records of one position of a group that are remembered whatever has become of them."""

PAST = ("aborted", "gone")
"""What has become of records below a high watermark that never take effect any more."""


class PositionRecord(msgspec.Struct, frozen=True, gc=False):
    """A position in the offsets partition; a tombstone has ``NO_ENTRY``. ``producer_id``: in whose transaction, -1 in
    none. ``wall_us``: when it was appended; ``expires_ms``: when it expires, as its request said, -1 it did not."""

    log_offset: int
    leader_epoch: int
    producer_id: int
    entry: Entry
    by: Witness
    wall_us: int = -1
    expires_ms: int = -1

    def is_in(self, replica: Replica) -> bool:
        """Whether the record is in a log, as far as that is remembered; what is forgotten, all have."""
        if self.log_offset < replica.log.floor:
            return True
        batch = replica.log.batch_at(self.log_offset)
        return batch is not None and batch.epoch == self.leader_epoch

    def fate(self, replica: Replica, end: int) -> str:
        """What has become of it, as the log below ``end`` tells; "plain": it counts."""
        return "plain" if self.producer_id < 0 else replica.transactions.fate_below(self.log_offset, end)


class PositionRecords(State):
    """``records``: group and topic partition -> the newest ones, and older ones that may be in effect, in the order of
    the log."""

    records: dict[str, list[PositionRecord]] = {}

    def of(self, group: str, tp: str, replica: Replica) -> list[PositionRecord]:
        """Those of one position that a log has."""
        return [each for each in self.records.get(_name(group, tp), ()) if each.is_in(replica)]

    def append(self, event: Stamped, body: GrpCommit, mirror: LogMirror) -> None:
        """A coordinator has written one."""
        name = _name(body.group, body.tp)
        entry = [body.offset, body.leader_epoch, body.metadata_epoch] if body.offset >= 0 else NO_ENTRY
        # What former leaders had there is gone; what a former leader appends takes nothing from later ones.
        known = [
            each
            for each in self.records.get(name, ())
            if each.log_offset < body.log_offset or each.leader_epoch > body.coordinator_epoch
        ]
        place = (body.log_offset, body.coordinator_epoch, body.producer_id)
        known.append(PositionRecord(*place, list(entry), witness(event), event.wall, body.expires_ms))
        known.sort(key=lambda each: each.log_offset)
        if body.coordinator_epoch >= max(mirror.lineages, default=-1):
            known = _without_the_past(known, mirror.replica(event.node))
        self.records[name] = known


def _name(group: str, tp: str) -> str:
    return f"{group} {tp}"


def _without_the_past(known: list[PositionRecord], replica: Replica) -> list[PositionRecord]:
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


def _decided(replica: Replica, record: PositionRecord, below: int) -> str:
    return record.fate(replica, below) if record.is_in(replica) else "gone"
