"""The records of voter sets in the members' logs, and which set a member has told to be in force in its own."""

from __future__ import annotations

import msgspec

from actors.trace.events import QVoters, Stamped
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED
from orchestrator.invariants.mirrors.log_mirror import LogMirror

FORMATTED = -1
"""Offset of the set that a directory was formatted with: no record has it yet."""

NO_SET = -2
"""In place of the offset of a set, of a member that has none."""


class VoterRecord(msgspec.Struct, frozen=True):
    """A voter set that somebody has in its log: at ``offset``, in a batch that ends at ``end``, with the prefix hash of
    the log there."""

    offset: int
    end: int
    ph: int | None
    members: dict[str, str]
    by: Witness


class VoterRecords(msgspec.Struct):
    """records: those that were told last, in the order of their offsets. ends: member -> where its log ends, as its
    present process tells; without those whose process has not said so. changed: members whose log has changed where it
    may have had such a record, or got one, since that was on its disk."""

    records: list[VoterRecord] = []
    ends: dict[str, int] = {}
    changed: set[str] = set()

    def take(self, event: Stamped, body: QVoters, members: dict[str, str], mirror: LogMirror) -> None:
        """A set is in force at a member. That of the format has no record; and one that was found at a start may be
        that of a snapshot, with the offset of the last record that this stands for."""
        if body.cause not in ("append", "fetch"):
            return
        batch = mirror.replica(event.node).log.batch_at(body.offset)
        if batch is None or batch.epoch != body.epoch:
            return
        known = VoterRecord(body.offset, batch.end, batch.ph, members, witness(event))
        if all((each.end, each.ph) != (known.end, known.ph) for each in self.records):
            self.records.append(known)
            self.records.sort(key=lambda each: each.offset)
            del self.records[:-CHANGES_REMEMBERED]

    def ends_at(self, node: str, end: int, changes: bool) -> None:
        """Where a member's log ends from now on."""
        self.ends[node] = end
        if changes:
            self.changed.add(node)

    def stopped(self, node: str) -> None:
        """A process of a member is over, or a new one begins: nobody knows what is in its log until it tells."""
        self.ends.pop(node, None)
        self.changed.discard(node)

    def newest_of(self, node: str, mirror: LogMirror) -> VoterRecord | None:
        """The newest record in a member's log; None where it has none, or that cannot be told: a log that is not what
        the trace makes of it, or one that begins with a snapshot, may have any."""
        log = mirror.replica(node).log
        if log.end != self.ends.get(node):
            return None
        for record in reversed(self.records):
            has = record.end <= log.end and log.matches(record.end, record.ph)
            if has is not False:
                return record if has else None
        return None
