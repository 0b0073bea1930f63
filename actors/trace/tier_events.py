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


TierEvent = StoreObject
