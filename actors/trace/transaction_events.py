"""Trace events of transactions: what their coordinators decided, and what became of it.

A *transaction* is named by its transactional id, and by the producer id and epoch with which it was begun.
``tp``: the partition of ``__transaction_state`` that holds it, whose leader coordinates it; ``coordinator_epoch``: the
leader epoch in which that broker did.
"""

from __future__ import annotations

from typing import Literal

from actors.trace.event_parts import TraceEvent

TransactionStateName = Literal[
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
]
"""As Kafka has them (``TransactionState``)."""


class TxnState(TraceEvent, frozen=True, tag="txn.state"):
    """A coordinator moved a transactional id from a state into another one, or into the same one with other partitions
    or another epoch. ``log_offset``: of the record that says so, which is committed by now. ``producer_id``,
    ``producer_epoch``, ``partitions`` (that are still to be told how it ended): as they are from now on.
    ``client_version``: the ``transaction.version`` by which the producer goes. ``from_state`` Empty with
    ``former_epoch`` -1: the id is new. ``former_id``, ``former_epoch``: of the producer before. ``start_ms``: when its
    transaction began, as the record says; -1 none. ``asked_id``, ``asked_epoch``: as in the request that added
    partitions, ended the transaction or initialized the producer; -1 there was none, or it did not say who asks.
    ``update_ms``: when the coordinator wrote the record, by its clock; -1 not told. ``timed_out``: it aborts the
    transaction as its timeout is over."""

    tp: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    from_state: TransactionStateName
    to_state: TransactionStateName
    partitions: list[str]
    coordinator_epoch: int
    log_offset: int
    former_id: int = -1
    former_epoch: int = -1
    client_version: int = 0
    timeout_ms: int = -1
    start_ms: int = -1
    asked_id: int = -1
    asked_epoch: int = -1
    update_ms: int = -1
    timed_out: bool = False


class TxnTakenBack(TraceEvent, frozen=True, tag="txn.taken-back"):
    """A coordinator stopped waiting until the record at ``log_offset``, by which a transactional id was to become
    ``state`` with this producer id and epoch, was committed. The id stays in the state that it had, while the record
    stays in the log. ``error``: why the coordinator stopped."""

    tp: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: TransactionStateName
    coordinator_epoch: int
    log_offset: int
    error: int


class TxnLoaded(TraceEvent, frozen=True, array_like=True):
    """A transactional id as a coordinator has read it. ``start_ms``: when its transaction began, -1 unknown."""

    state: TransactionStateName
    producer_id: int
    producer_epoch: int
    partitions: list[str]
    client_version: int = 0
    timeout_ms: int = -1
    start_ms: int = -1


class TxnLoad(TraceEvent, frozen=True, tag="txn.load"):
    """A broker has read the partition ``tp`` of the transaction log, as its leader in ``coordinator_epoch``, or gave up
    what it had of it (``loaded`` False). ``end``: the log was read up to here. ``transactions``: transactional id -> as
    it is in memory afterwards (not told when given up)."""

    tp: str
    coordinator_epoch: int
    loaded: bool
    end: int = -1
    transactions: dict[str, TxnLoaded] = {}


class TxnMarkers(TraceEvent, frozen=True, tag="txn.markers"):
    """What became of the markers of a transaction at one broker. outcome: sent (they are on their way to ``broker``);
    done (``partitions`` have theirs); gone (``partitions`` are no more, or cannot have one); dropped (they refused it,
    and are in the transaction no more); again (``partitions`` are told once more); cancelled (none is sent any longer,
    until another coordinator does). ``errors``: topic partition -> code, where there was one."""

    tp: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    broker: int
    partitions: list[str]
    outcome: Literal["sent", "done", "gone", "dropped", "again", "cancelled"]
    errors: dict[str, int] = {}


class TxnGuard(TraceEvent, frozen=True, tag="txn.guard"):
    """A batch waits at a partition's leader until the coordinator has answered for its transaction: the first one
    begins a verification, others join it. ``guard``: the number of the verification in this log; ``base_sequence``:
    of the batch, -1 for offsets of a group; ``adds``: its producer goes by ``transaction.version`` 2."""

    tp: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    guard: int
    adds: bool


class TxnVerify(TraceEvent, frozen=True, tag="txn.verify"):
    """A partition's leader has asked the coordinator, before it took the first batch of a transaction: whether ``tp``
    is in it, or (``adds``) to add it. ``error``: 0: it is."""

    tp: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool
    error: int


class TxnAdded(TraceEvent, frozen=True, tag="txn.added"):
    """A coordinator has it that ``partitions`` are in the open transaction of a producer that asked to add them, or, by
    AddOffsetsToTxn, the partition that holds a group: it answers so."""

    tp: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: list[str]
    coordinator_epoch: int


TransactionEvent = TxnState | TxnTakenBack | TxnLoad | TxnMarkers | TxnGuard | TxnVerify | TxnAdded
