"""The states of a transactional id, and from which to which it may go (``TransactionState.java``)."""

from __future__ import annotations

from actors.trace.transaction_events import TransactionStateName

EMPTY: TransactionStateName = "Empty"
"""There is no transaction, and has been none since the producer was initialized."""
ONGOING: TransactionStateName = "Ongoing"
"""A transaction is open, and partitions are in it."""
PREPARE_COMMIT: TransactionStateName = "PrepareCommit"
"""It will be committed, whatever happens: partitions are being told."""
PREPARE_ABORT: TransactionStateName = "PrepareAbort"
"""It will be aborted, whatever happens: partitions are being told."""
COMPLETE_COMMIT: TransactionStateName = "CompleteCommit"
"""It was committed, and every partition knows."""
COMPLETE_ABORT: TransactionStateName = "CompleteAbort"
"""It was aborted, and every partition knows."""
DEAD: TransactionStateName = "Dead"
"""The id expires."""
PREPARE_EPOCH_FENCE: TransactionStateName = "PrepareEpochFence"
"""An open transaction is about to be aborted with another producer epoch; never written, and never completed."""

IDS: dict[TransactionStateName, int] = {
    EMPTY: 0,
    ONGOING: 1,
    PREPARE_COMMIT: 2,
    PREPARE_ABORT: 3,
    COMPLETE_COMMIT: 4,
    COMPLETE_ABORT: 5,
    DEAD: 6,
    PREPARE_EPOCH_FENCE: 7,
}
"""Numbers of the states in the log."""

STATES: dict[int, TransactionStateName] = {number: state for state, number in IDS.items()}
"""Inverse of ``IDS``."""

PREVIOUS: dict[TransactionStateName, tuple[TransactionStateName, ...]] = {
    EMPTY: (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT),
    ONGOING: (ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT),
    PREPARE_COMMIT: (ONGOING,),
    PREPARE_ABORT: (ONGOING, PREPARE_EPOCH_FENCE, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT),
    COMPLETE_COMMIT: (PREPARE_COMMIT,),
    COMPLETE_ABORT: (PREPARE_ABORT,),
    DEAD: (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT),
    PREPARE_EPOCH_FENCE: (ONGOING,),
}
"""State -> the states from which an id may come into it. PrepareAbort after Empty and Complete*: a producer of
``transaction.version`` 2 may abort what it has begun with nothing in it."""

PREPARED: tuple[TransactionStateName, ...] = (PREPARE_COMMIT, PREPARE_ABORT)
"""It is decided, and partitions are being told."""
AT_REST: tuple[TransactionStateName, ...] = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
"""There is no transaction: the id may expire, and its producer may be initialized anew."""
