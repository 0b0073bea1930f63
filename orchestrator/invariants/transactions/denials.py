"""What T8 knows of the coordinators that leaders ask whether a partition is in a transaction, and of their denials."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.errors import KafkaError
from actors.trace.events import PartChange, Stamped, TxnVerify
from orchestrator.invariants.folds.fold import Witness
from orchestrator.invariants.folds.memory import SESSIONS_REMEMBERED, forget_first
from orchestrator.invariants.transactions.decided import Producer, sent_before, sent_by

DENIALS = (
    KafkaError.TRANSACTION_ABORTABLE,
    KafkaError.INVALID_TXN_STATE,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
)
"""Errors by which a coordinator says that a partition is not in the transaction, or that it has no such producer. No
leader finds them itself. A fence, which may raise the epoch before anything is written, is none of them."""


class Asking(msgspec.Struct):
    """Verifications of a producer id that are under way at a leader. ``since``: by what its coordinator had the
    partition in the open transaction when the first of them began, None it had not."""

    number: int = 0
    since: Witness | None = None


class Denials(msgspec.Struct):
    """Of one partition. ``asking``: "leader/incarnation producer id" -> what is under way. ``epochs``: partition of the
    transaction log -> its newest leader epoch."""

    asking: dict[str, Asking] = {}
    epochs: dict[str, int] = {}

    def hear(self, body: PartChange) -> None:
        """A partition may have another leader, and then every coordinator of before forgets what it has of it."""
        self.epochs[body.tp] = max(body.leader_epoch, self.epochs.get(body.tp, -1))

    def guard(self, event: Stamped, producer: Producer | None) -> None:
        """A batch begins to wait for the coordinator of its producer."""
        name = _named(event)
        asking = self.asking.get(name)
        if asking is None:
            asking = self.asking[name] = Asking(since=None if producer is None else producer.since)
            forget_first(self.asking, 2 * SESSIONS_REMEMBERED)
        asking.number += 1

    def answered(self, event: Stamped, producer: Producer | None) -> Witness | None:
        """A verification is over: by what the coordinator that answered had had the partition in the open transaction
        since before it was asked. None if it had not, if it may have forgotten that, or if somebody else answered."""
        body: Any = event.body
        assert type(body) is TxnVerify
        name = _named(event)
        asking = self.asking.get(name)
        if asking is None:
            return None
        asking.number -= 1
        if not asking.number:
            del self.asking[name]
        if producer is None or not producer.is_open or producer.epoch != body.producer_epoch:
            return None
        since = producer.since
        if since is None or since != asking.since or producer.coordinator_epoch < self.epochs.get(producer.log, -1):
            return None
        return since if sent_by(event.cause, since) and not sent_before(event.cause, since) else None


def _named(event: Stamped) -> str:
    body: Any = event.body
    return f"{event.node}/{event.incarnation} {body.producer_id}"
