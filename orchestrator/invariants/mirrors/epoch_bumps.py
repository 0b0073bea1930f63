"""Whether an idempotent producer had a reason to raise its epoch (KIP-360, ``TransactionManager.java``)."""

from __future__ import annotations

import msgspec

from actors.trace.events import SendReturn, Stamped
from orchestrator.invariants.folds.memory import SESSIONS_REMEMBERED, forget_first
from orchestrator.invariants.folds.uids import place_of
from orchestrator.invariants.mirrors.committed_records import Numbered
from orchestrator.invariants.mirrors.producer_state import REMEMBERED, SEQUENCE_ERRORS, ProducerStates, named

EPOCH_BUMP = (
    "An idempotent producer that cannot continue its sequence raises its epoch and renumbers all unanswered records, "
    "written or not (KIP-360). Valid reasons are a leader's correct refusal of its sequence number, when all before it "
    "is acknowledged or given up, or a failed send, but not a leader's mistake."
)
"""Exemption."""

PRODUCER_EPOCH_MAX = 0x7FFF
"""After it comes another producer id."""


class FailedSends(msgspec.Struct):
    """Producing session -> when a send of it was answered with an error for good, the newest ones. Not those that
    failed for their place in the sequence: whether that is a reason, the log of the leader says. ``given_up``: these,
    and those that nobody has answered."""

    walls: dict[str, list[int]] = {}
    given_up: dict[str, list[int]] = {}

    def note(self, event: Stamped, body: SendReturn) -> None:
        """A send returned without success."""
        walls = self.walls if body.broker and body.error not in SEQUENCE_ERRORS else self.given_up
        known = walls.setdefault(place_of(body.uid)[0], [])
        known.append(event.wall)
        del known[:-REMEMBERED]
        forget_first(walls, SESSIONS_REMEMBERED)

    def any_between(self, session: str, start: int, end: int) -> bool:
        """Whether one failed in that time."""
        return any(start <= wall <= end for wall in self.walls.get(session, ()))

    def any_given_up(self, session: str, start: int, end: int) -> bool:
        """Whether one was given up in that time, of which it is unknown whether it was written."""
        return any(start <= wall <= end for wall in self.given_up.get(session, ()))


def bump_is_due(producers: ProducerStates, failed: FailedSends, uid: str, one: Numbered, other: Numbered) -> bool:
    """Whether something between two producer epochs gave their producer a reason to number a record anew."""
    older, newer = sorted((one, other))
    if older.producer_id != newer.producer_id:
        return PRODUCER_EPOCH_MAX in (older.producer_epoch, newer.producer_epoch)
    producer_id = older.producer_id
    epochs = range(older.producer_epoch, newer.producer_epoch)
    refused = [producers.refused.get(named(producer_id, epoch)) for epoch in epochs]
    if any(refused):
        return True
    began = producers.begun.get(named(producer_id, older.producer_epoch), 0)
    ended = producers.begun.get(named(producer_id, newer.producer_epoch), began)
    session = place_of(uid)[0]
    if False in refused and failed.any_given_up(session, began, ended):
        return True
    return failed.any_between(session, began, ended)
