"""States of a transactional producer, and which may follow which (``TransactionManager.State``)."""

from __future__ import annotations

from typing import Literal

State = Literal[
    "UNINITIALIZED",
    "INITIALIZING",
    "READY",
    "IN_TRANSACTION",
    "COMMITTING_TRANSACTION",
    "ABORTING_TRANSACTION",
    "ABORTABLE_ERROR",
    "FATAL_ERROR",
]

ANY: tuple[State, ...] = (
    "UNINITIALIZED",
    "INITIALIZING",
    "READY",
    "IN_TRANSACTION",
    "COMMITTING_TRANSACTION",
    "ABORTING_TRANSACTION",
    "ABORTABLE_ERROR",
    "FATAL_ERROR",
)

SOURCES: dict[State, tuple[State, ...]] = {
    # Kafka goes back here where the principal was refused, which nobody is here.
    "UNINITIALIZED": (),
    # After the end of a transaction where the epoch is to be raised by InitProducerId before the next one.
    "INITIALIZING": ("UNINITIALIZED", "COMMITTING_TRANSACTION", "ABORTING_TRANSACTION"),
    "READY": ("INITIALIZING", "COMMITTING_TRANSACTION", "ABORTING_TRANSACTION"),
    "IN_TRANSACTION": ("READY",),
    "COMMITTING_TRANSACTION": ("IN_TRANSACTION",),
    "ABORTING_TRANSACTION": ("IN_TRANSACTION", "ABORTABLE_ERROR"),
    "ABORTABLE_ERROR": ("IN_TRANSACTION", "COMMITTING_TRANSACTION", "ABORTABLE_ERROR", "INITIALIZING"),
    "FATAL_ERROR": ANY,
}
"""State -> states that it may come after. PREPARED_TRANSACTION (KIP-939) is not emulated."""

COMPLETING: tuple[State, ...] = ("COMMITTING_TRANSACTION", "ABORTING_TRANSACTION")
ERRORS: tuple[State, ...] = ("ABORTABLE_ERROR", "FATAL_ERROR")
