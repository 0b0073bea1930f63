"""What comes of records that a transactional producer numbers anew after one whose fate nobody knows (KAFKA-14397)."""

from __future__ import annotations

import msgspec

from actors.trace.events import SendReturn
from orchestrator.invariants.folds.fold import Emission, Emissions, Invariant, Witness
from orchestrator.invariants.folds.uids import place_of
from orchestrator.invariants.mirrors.log_mirror import LogMirror

RULE = "renumbered"
RENUMBERED = (
    "A batch of a transaction reached its delivery.timeout.ms, and may have been written. Kafka's producer "
    "gives its sequence numbers to the batches behind it (KAFKA-14397), so a leader may append one of those again, or "
    "take it for another one. The transaction was aborted: no reader of committed records gets any of them."
)
"""Exemption."""


class Doubt(msgspec.Struct, frozen=True, gc=False):
    """What is excused if the records at ``offsets`` turn out to be aborted, and a violation otherwise."""

    offsets: list[int]
    sentence: str
    by: list[Witness | None]


class Renumbered(msgspec.Struct):
    """Of one partition. ``failing``: producing sessions with a batch that failed so -> number of its record, until a
    transaction with a later one ends; ``doubts``: what nobody can judge before a transaction ends."""

    failing: dict[str, int] = {}
    doubts: list[Doubt] = []

    def note(self, body: SendReturn) -> None:
        """A send returned without success. A broker that is named has answered, or left unanswered, the last attempt:
        only then is the rest numbered anew."""
        if body.outcome == "unknown" and body.broker and body.idempotent:
            session, number = place_of(body.uid)
            self.failing[session] = number

    def doubted(self, mirror: LogMirror, session: str, offsets: list[int], sentence: str, *by: Witness | None) -> bool:
        """Whether the fate of a transaction decides about this, which is then kept until that is known."""
        if session not in self.failing or not all(_harmless(mirror, offset) for offset in offsets):
            return False
        self.doubts.append(Doubt(offsets, sentence, list(by)))
        return True

    def judge(self, invariant: Invariant, key: str, mirror: LogMirror, at_end: bool = False) -> Emissions:
        """Judge what can be judged by now. A transaction that is open ``at_end`` of the trace shows nobody anything."""
        found: list[Emission] = []
        left: list[Doubt] = []
        for doubt in self.doubts:
            if not all(_harmless(mirror, offset) for offset in doubt.offsets):
                found.extend(invariant.violated(key, doubt.sentence, *doubt.by))
            elif at_end or not any(mirror.transactions.fate(offset) == "open" for offset in doubt.offsets):
                found.extend(invariant.excused(RULE, key, doubt.sentence, *doubt.by))
            else:
                left.append(doubt)
        self.doubts = left
        for span in mirror.newly_ended if self.failing else ():
            session, number = place_of(mirror.records.names.at(span.ranges[-1][1] - 1))
            if number > self.failing.get(session, number):
                del self.failing[session]
        return found


def _harmless(mirror: LogMirror, offset: int) -> bool:
    """Whether what is at an offset is in a transaction that is not committed so far, or is gone."""
    return offset >= mirror.committed.end or mirror.transactions.fate(offset) != "plain"
