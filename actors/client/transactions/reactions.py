"""What a transactional producer makes of an error, by the request that it answers (the handlers of
``TransactionManager.java``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from actors.node.errors import KafkaError, traits

Kind = Literal[
    "find-coordinator",
    "init-producer-id",
    "add-partitions",
    "add-offsets",
    "commit-offsets",
    "end",
    "raise-epoch",
]
"""What is asked for. ``raise-epoch``: InitProducerId of one that has an id, after the end of a transaction."""

Reaction = Literal["look-up", "retry", "skip", "abortable", "abortable-if-possible", "fatal", "fenced"]
"""look-up: find the coordinator anew, and ask again. retry: ask again. skip: of one partition, which is one of several
that could not be added. abortable: the application must abort. abortable-if-possible: that, where the epoch can be
raised, else fatal. fenced: fatal, as PRODUCER_FENCED whatever an older coordinator calls it."""

E = KafkaError

_FENCED: dict[int, Reaction] = {E.INVALID_PRODUCER_EPOCH: "fenced", E.PRODUCER_FENCED: "fenced"}
_MOVED: dict[int, Reaction] = {E.COORDINATOR_NOT_AVAILABLE: "look-up", E.NOT_COORDINATOR: "look-up"}
_ABORTABLE: dict[int, Reaction] = {E.TRANSACTION_ABORTABLE: "abortable"}
_FORGOTTEN: dict[int, Reaction] = {E.UNKNOWN_PRODUCER_ID: "abortable-if-possible"}

REACTIONS: dict[Kind, dict[int, Reaction]] = {
    "find-coordinator": _ABORTABLE,
    "init-producer-id": {**_MOVED, **_FENCED, **_ABORTABLE},
    "raise-epoch": {**_MOVED, **_FENCED, **_ABORTABLE},
    "add-partitions": {**_MOVED, **_FENCED, **_ABORTABLE, **_FORGOTTEN, E.OPERATION_NOT_ATTEMPTED: "skip"},
    "add-offsets": {**_MOVED, **_FENCED, **_ABORTABLE, **_FORGOTTEN},
    "end": {**_MOVED, **_FENCED, **_ABORTABLE, **_FORGOTTEN},
    "commit-offsets": {
        **_MOVED,
        **_FENCED,
        **_ABORTABLE,
        E.REQUEST_TIMED_OUT: "look-up",
        # The group is not what it was when the application read from it (CommitFailedException).
        E.UNKNOWN_MEMBER_ID: "abortable",
        E.ILLEGAL_GENERATION: "abortable",
        E.FENCED_INSTANCE_ID: "abortable",
    },
}

FATAL_FOR_PARTITIONS = (E.INVALID_TXN_STATE, E.INVALID_PRODUCER_ID_MAPPING, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
"""Of AddPartitionsToTxn these are fatal; what else it does not know concerns one partition."""

FATAL_FOR_BATCHES = (
    E.PRODUCER_FENCED,
    E.UNSUPPORTED_VERSION,
    E.INVALID_PRODUCER_ID_MAPPING,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
"""Errors of Produce after which the producer is of no use (``maybeTransitionToErrorState``)."""


def reaction_to(kind: Kind, error: int, defects: Sequence[str] = ()) -> Reaction:
    """What to do about an error that is not 0. What nobody expects is fatal."""
    found = REACTIONS[kind].get(error)
    if found is not None:
        return found
    if traits(error).retriable and "passing-errors-end-producers" not in defects:
        return "retry"
    if kind == "add-partitions" and error not in FATAL_FOR_PARTITIONS:
        return "skip"
    return "fatal"
