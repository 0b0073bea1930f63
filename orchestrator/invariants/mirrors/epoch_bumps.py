"""Whether an idempotent producer had a reason to raise its epoch (KIP-360, ``TransactionManager.java``)."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from actors.trace.events import SendReturn, Stamped
from orchestrator.invariants.folds.memory import SESSIONS_REMEMBERED, forget_first
from orchestrator.invariants.folds.uids import place_of
from orchestrator.invariants.mirrors.committed_records import Numbered
from orchestrator.invariants.mirrors.producer_state import REMEMBERED, SEQUENCE_ERRORS, ProducerStates, named

Each = TypeVar("Each")
EPOCH_BUMP = (
    "An idempotent producer that cannot continue its sequence raises its epoch and renumbers all unanswered records, "
    "written or not (KIP-360). Valid reasons are a leader's correct refusal of its sequence number, when all before it "
    "is acknowledged or given up, or a send that was answered with an error for good; but not a leader's mistake, nor "
    "a send whose time is up while others are under way."
)
"""Exemption."""

PRODUCER_EPOCH_MAX = 0x7FFF
"""After it comes another producer id."""


class FailedSends(msgspec.Struct):
    """Producing session -> when a send of it was answered with an error for good, the newest ones. Not those that
    failed for their place in the sequence: whether that is a reason, the log of the leader says. ``given_up``: these,
    and those that nobody has answered, each with the number of its record."""

    walls: dict[str, list[int]] = {}
    given_up: dict[str, list[tuple[int, int]]] = {}

    def note(self, event: Stamped, body: SendReturn) -> None:
        """A send returned without success."""
        session, number = place_of(body.uid)
        if body.broker and body.error not in SEQUENCE_ERRORS:
            _remember(self.walls, session, event.wall)
        else:
            _remember(self.given_up, session, (event.wall, number))

    def any_between(self, session: str, start: int, end: int) -> bool:
        """Whether one failed in that time."""
        return any(start <= wall <= end for wall in self.walls.get(session, ()))

    def any_given_up(self, session: str, start: int, end: int) -> bool:
        """Whether one was given up in that time, of which it is unknown whether it was written."""
        return any(start <= wall <= end for wall, _ in self.given_up.get(session, ()))

    def any_given_up_before(self, uid: str, lowest: int, end: int) -> bool:
        """The same until then of a record of the session from a number up to a record."""
        session, number = place_of(uid)
        return any(wall <= end and lowest <= each < number for wall, each in self.given_up.get(session, ()))


def _remember(known: dict[str, list[Each]], session: str, found: Each) -> None:
    of_session = known.setdefault(session, [])
    of_session.append(found)
    del of_session[:-REMEMBERED]
    forget_first(known, SESSIONS_REMEMBERED)


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
    if False in refused:
        # The leader may have heard of the older epoch late: what it had of that says which records were of it.
        lowest = producers.lowest.get(named(producer_id, older.producer_epoch), place_of(uid)[1])
        if failed.any_given_up(session, began, ended) or failed.any_given_up_before(uid, lowest, ended):
            return True
    return failed.any_between(session, began, ended)
