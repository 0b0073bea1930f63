"""Trace events of tiered storage; ``actors.trace.events`` has them all."""

from __future__ import annotations

from typing import Literal

from actors.trace.event_parts import TraceEvent


class StoreObject(TraceEvent, frozen=True, tag="store.object"):
    """The remote store has an object of a segment, or has it no more. ``object``: which one (``LOG``, ...)."""

    tp: str
    topic_id: str
    segment: str
    object: str
    phase: Literal["stored", "deleted"]
    size: int


TierPhase = Literal["copying", "copied", "copy-failed", "deleting", "deleted", "delete-failed", "known", "refused"]
"""What becomes of a copied segment. Of its leader: copying: it is about to tell that it copies it; copied: all of it is
in the store, and the metadata topic says so; copy-failed: something went wrong; deleting, deleted, delete-failed:
likewise. Of every broker: known: it consumed a new state; refused: it consumed one that does not follow."""

STARTED = "COPY_SEGMENT_STARTED"
"""State of a copy that is being made, or was given up."""
FINISHED = "COPY_SEGMENT_FINISHED"
"""State of a copy that can be read."""
DELETION_STARTED = "DELETE_SEGMENT_STARTED"
"""State of a copy that goes."""
DELETED = "DELETE_SEGMENT_FINISHED"
"""State of a copy that is gone."""


class TierSegment(TraceEvent, frozen=True, omit_defaults=True, tag="tier.seg"):
    """Something becomes of a copied segment, by a broker. ``state``: that it has before (known: from now on).
    ``start``, ``end``: its first and its last offset; ``epochs``: leader epoch -> where it begins in the segment.
    max_timestamp: of its records; size: in bytes, 0 not told. leader_epoch, high_watermark, last_stable_offset,
    log_start: of the broker's replica then; ``within``: whether the copy belongs to its log (neither with known and
    refused)."""

    tp: str
    segment: str
    phase: TierPhase
    state: str
    start: int
    end: int
    epochs: dict[str, int]
    max_timestamp: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start: int = -1
    within: bool = False
    size: int = 0


TierEvent = StoreObject | TierSegment
