"""What must have been the case for an error of a coordinator."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actors.node.errors import KafkaError
from actors.trace.coordinator_events import CoordRefuse
from actors.trace.events import Stamped, TxnLoad, TxnState
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.folds.memory import OPEN_REMEMBERED, remember

E = KafkaError

PREPARED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States of a transactional id whose decision is still to be told."""
NEEDS_PRODUCER_ID = ("InitProducerId", "EndTxn")
"""APIs whose answer may need another producer id, which the broker may not have yet: COORDINATOR_LOAD_IN_PROGRESS."""


def _unknown_member(body: CoordRefuse) -> str:
    """Whoever comes with an instance id that another member has is told that: its application must not begin anew."""
    if body.instance and body.holder and body.holder != body.member:
        return f"although {body.instance} belonged to {body.holder}"
    mine = not body.instance or body.holder == body.member
    return "although that is a member" if body.is_member and mine else ""


def _illegal_generation(body: CoordRefuse) -> str:
    same = body.generation == body.had_generation
    return f"although the group was in generation {body.had_generation}" if same else ""


def _rebalance_in_progress(body: CoordRefuse) -> str:
    return "" if body.state == "PreparingRebalance" else f"although the group was {body.state}"


def _fenced_instance(body: CoordRefuse) -> str:
    if body.holder and body.holder != body.member:
        return ""
    return f"although {body.instance or 'it'} belonged to {body.holder or 'no other member'}"


def _member_id_required(body: CoordRefuse) -> str:
    return f"although it was {body.member or body.instance}" if body.member or body.instance else ""


def _unknown_producer(body: CoordRefuse) -> str:
    same = body.state and body.had_id == body.producer_id
    return f"although it had producer id {body.had_id}" if same else ""


def _fenced_producer(body: CoordRefuse) -> str:
    same = (body.had_id, body.had_epoch) == (body.producer_id, body.producer_epoch)
    if not same or body.pending or body.state in PREPARED:
        return ""
    return f"although it had producer id {body.had_id}, epoch {body.had_epoch}"


def _concurrent(body: CoordRefuse) -> str:
    busy = body.pending or body.state in PREPARED
    return "" if busy else f"although it was {body.state}, and nothing was under way"


def _invalid_state(body: CoordRefuse) -> str:
    return "although it was Ongoing" if body.state == "Ongoing" and not body.pending else ""


BY_STATE: dict[int, Callable[[CoordRefuse], str]] = {
    E.UNKNOWN_MEMBER_ID: _unknown_member,
    E.ILLEGAL_GENERATION: _illegal_generation,
    E.REBALANCE_IN_PROGRESS: _rebalance_in_progress,
    E.FENCED_INSTANCE_ID: _fenced_instance,
    E.MEMBER_ID_REQUIRED: _member_id_required,
    E.INVALID_PRODUCER_ID_MAPPING: _unknown_producer,
    E.PRODUCER_FENCED: _fenced_producer,
    E.CONCURRENT_TRANSACTIONS: _concurrent,
    E.INVALID_TXN_STATE: _invalid_state,
}
"""Error -> what was otherwise than it says, "" nothing. Only a coordinator that has read its log can tell."""


def without_reason(body: CoordRefuse, max_size: int) -> str:
    """Why a coordinator must not have refused with that error; "" it may. max_size: how many members a group may
    have."""
    if body.error == E.NOT_COORDINATOR:
        return "although it coordinates it" if body.standing == "loaded" and body.leads else ""
    if body.error == E.COORDINATOR_LOAD_IN_PROGRESS:
        if body.standing == "loading" or (body.standing == "loaded" and body.api in NEEDS_PRODUCER_ID):
            return ""
        return f"although it {'has read its log' if body.standing == 'loaded' else 'does not coordinate it'}"
    judge = BY_STATE.get(body.error)
    if judge is None and body.error != E.GROUP_MAX_SIZE_REACHED:
        return ""
    if body.standing != "loaded":
        return f"although it {'does not coordinate it' if body.standing == 'none' else 'had not read its log'}"
    if judge is None:
        return f"although {body.size} of {max_size} members were there" if body.size < max_size else ""
    return judge(body)


class Initialized(msgspec.Struct, frozen=True):
    """A producer that a coordinator gave its next epoch, and that has done nothing since. asked_epoch: the one that it
    said it had."""

    tp: str
    producer_id: int
    asked_epoch: int
    epoch: int
    by: Witness


class Producers(msgspec.Struct):
    """What a coordinator knows of how producers came by their epochs: it says so in no record, so the next one, and
    itself when it has read its log again, does not know. initialized: by transactional id."""

    initialized: dict[str, Initialized] = {}

    def take(self, event: Stamped, body: TxnState | TxnLoad) -> None:
        """A transactional id is moved on, or a partition of the transaction log was read, or given up."""
        if isinstance(body, TxnLoad):
            self.initialized = {name: each for name, each in self.initialized.items() if each.tp != body.tp}
            return
        self.initialized.pop(body.transactional_id, None)
        asked = (body.asked_id, body.asked_epoch)
        epochs = (body.asked_epoch, body.producer_epoch)
        is_next = body.asked_epoch >= 0 and body.producer_epoch == body.asked_epoch + 1
        if body.to_state == "Empty" and is_next and body.former_id == body.asked_id and body.former_epoch in epochs:
            found = Initialized(body.tp, *asked, body.producer_epoch, witness(event))
            remember(self.initialized, body.transactional_id, found, OPEN_REMEMBERED)

    def repeated(self, body: CoordRefuse) -> tuple[str, Witness | None]:
        """Why a coordinator must not have fenced a producer that asks a second time for what it was given, "" it may:
        the first answer may have been lost."""
        known = self.initialized.get(body.name)
        if known is None or body.api != "InitProducerId" or body.error != E.PRODUCER_FENCED:
            return "", None
        same = (known.producer_id, known.asked_epoch) == (body.producer_id, body.producer_epoch)
        has = (known.producer_id, known.epoch) == (body.had_id, body.had_epoch)
        if not (same and has) or body.state != "Empty" or body.pending or body.standing != "loaded":
            return "", None
        return f"although it had given it epoch {known.epoch} for that, which nobody has used since", known.by
