"""What T12 knows of a coordinator's answers to a request for an end: which refusals there are reasons for, and with
which producer epoch the producer goes on."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.errors import KafkaError
from actors.trace.events import EndReturn, Stamped, TxnLoad
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.mirrors.epoch_bumps import PRODUCER_EPOCH_MAX
from orchestrator.invariants.transactions.decided import DECISIONS, EPOCH_BUMP, sent_before, sent_by

_DECIDED = {**DECISIONS, "CompleteCommit": True, "CompleteAbort": False}
"""State of a transactional id whose last transaction is decided -> whether it is committed."""
_LAST_EPOCH = PRODUCER_EPOCH_MAX - 1
"""The last epoch of a producer id: its producer goes on with another id."""
_FENCED, _INVALID = KafkaError.PRODUCER_FENCED, KafkaError.INVALID_TXN_STATE
_REFUSALS = (_FENCED, _INVALID)
"""Errors whose reason is in what the coordinator knows of the transactional id. A producer takes what older versions
call it, INVALID_PRODUCER_EPOCH, for PRODUCER_FENCED."""


class Held(msgspec.Struct, frozen=True, gc=False):
    """A transactional id in the memory of its coordinator, from the event ``by`` on."""

    state: str
    producer_epoch: int
    by: Witness


def held(event: Stamped, producer_id: str) -> Held | None:
    """What a coordinator has in memory after a ``TxnState`` or ``TxnLoad`` with this producer id, None: nothing."""
    body: Any = event.body
    if type(body) is not TxnLoad:
        return None if body.to_state == "Dead" else Held(body.to_state, body.producer_epoch, witness(event))
    for each in body.transactions.values():
        if str(each.producer_id) == producer_id:
            return Held(each.state, each.producer_epoch, witness(event))
    return None


def wrongly_refused(known: Held, event: Stamped, version: int) -> str:
    """What is wrong with the error that ended an ``EndReturn``, "" nothing. ``known``: the last that any coordinator
    said of the transactional id; it is the answer's reason if the same process answered afterwards. ``version``:
    transaction.version of the producer."""
    body: Any = event.body
    if body.error not in _REFUSALS or max(body.producer_epoch, known.producer_epoch) >= _LAST_EPOCH:
        return ""
    if not sent_by(event.cause, known.by) or sent_before(event.cause, known.by):
        return ""
    if _has_reason(known, body.producer_epoch, body.commit, version, body.error):
        return ""
    return (
        f"{known.by.node} refused with {KafkaError(body.error).name} to {'commit' if body.commit else 'abort'} the "
        f"transaction of producer id {body.producer_id}, epoch {body.producer_epoch}, but it had the transactional id "
        f"in state {known.state} with epoch {known.producer_epoch}"
    )


def _has_reason(known: Held, epoch: int, commit: bool, version: int, error: int) -> bool:
    """Whether a coordinator may refuse with the error. While something else is being written it says that it is busy,
    which is no refusal. Below transaction.version 2 it raises the epoch, to fence the producer of an open transaction,
    before that is written: nobody knows then what it has in memory."""
    decided = _DECIDED.get(known.state)
    if decided is not None and known.producer_epoch == epoch + (version >= EPOCH_BUMP):
        return error == _INVALID and decided != commit  # who asks again is told the same
    if known.producer_epoch != epoch or known.state in DECISIONS:
        return error == _FENCED
    if known.state == "Ongoing":
        return error == _FENCED and version < EPOCH_BUMP
    return error == _INVALID and (commit or version < EPOCH_BUMP)  # there is nothing to commit


def goes_on_rightly(body: EndReturn) -> bool:
    """Whether a producer of transaction.version 2 goes on with the epoch after that of its transaction, or with another
    id. Who is not told what it goes on with is not judged."""
    if body.next_id < 0 or (body.next_id, body.next_epoch) == (body.producer_id, body.producer_epoch + 1):
        return True
    return body.producer_epoch >= _LAST_EPOCH and body.next_id != body.producer_id and body.next_epoch == 0
