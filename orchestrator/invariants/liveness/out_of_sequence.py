"""Producers that do not close a gap in their sequence (KIP-360): L5 for sends whose time is up soon."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.trace.events import ErrorSeen, SendReturn, Stamped
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.folds.memory import OPEN_REMEMBERED, forget_first

_SAME_STEP_US = 1000
"""Returns of one node that follow one another within that time are of one step: no batch that was sent in between is
over by then."""


class GivenUp(msgspec.Struct, frozen=True, gc=False):
    """A batch, by its first record, that its leader refused as out of sequence until its time was up, at ``at_us``."""

    uid: str
    at_us: int
    by: Witness


class OutOfSequence(msgspec.Struct):
    """Of one partition. refused: client -> first records of batches that are open, and that were refused as out of
    sequence and for nothing else. given_up: client -> such a batch, since when nothing has happened to its sends that
    could be the cause of another gap. last: client -> number and time of its last return of a batch that is over so."""

    refused: dict[str, dict[str, None]] = {}
    given_up: dict[str, GivenUp] = {}
    last: dict[str, tuple[int, int]] = {}

    def forget(self, client: str = "") -> None:
        """Something has happened to the sends of a client that may be the cause of a gap; "": of all."""
        if client:
            self.given_up.pop(client, None)
        else:
            self.given_up.clear()

    def ended(self, node: str) -> None:
        """A process has ended: a producer with what it had open, or a broker with what it may not have written."""
        self.refused.pop(node, None)
        self.forget()

    def error(self, event: Stamped, body: ErrorSeen) -> None:
        """A client met an error, and sends the batch again."""
        if body.api != Api.Produce.name:
            return
        open_ones = self.refused.setdefault(event.node, {})
        if body.error == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
            open_ones[body.uid] = None
            forget_first(open_ones, OPEN_REMEMBERED)
        else:
            open_ones.pop(body.uid, None)
            self.forget(event.node)

    def returned(self, event: Stamped, body: SendReturn, sent_us: int) -> tuple[GivenUp | None, bool]:
        """A send returned that began at ``sent_us``. The batch whose gap is still open, if this one ends with a gap
        that it must not have: it was sent since, and nothing but that has happened. And whether a gap is closed."""
        client = event.node
        was_refused = body.uid in self.refused.get(client, ())
        if was_refused:
            del self.refused[client][body.uid]
        if body.outcome != "unknown" or body.error != KafkaError.REQUEST_TIMED_OUT:
            closed = body.outcome == "ok" and client in self.given_up
            self.forget(client)
            return None, closed
        seq, at_us = self.last.get(client, (-1, -1))
        of_same = event.seq == seq + 1 and event.wall - at_us < _SAME_STEP_US
        if was_refused or of_same:
            self.last[client] = (event.seq, event.wall)
        if not was_refused:
            if not of_same:
                self.forget(client)
            return None, False
        before = self.given_up.get(client)
        if before is None or sent_us > before.at_us:
            self.given_up[client] = GivenUp(body.uid, event.wall, witness(event))
            return before, False
        return None, False
