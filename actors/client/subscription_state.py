"""Positions of a consumer in its partitions (``consumer/internals/SubscriptionState.java``)."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.client.metadata_cache import Leader


class TopicPartitionState(msgspec.Struct):
    """One assigned partition.

    state: initializing (what its group committed is to be looked up), awaiting (that is known, and the metadata is
    older than it), external (the application is about to seek to where it was when it ran before), reset (the position
    is to be looked up), validating (the leader has to say first whether its log reaches the position), fetching, failed
    (the application was told of an error that ends it). offset: next to be delivered, -1 before the first reset; epoch:
    leader epoch of the record before it. leader: whom it is fetched from; validation: the call that asks it, 0 none;
    validation_pausing: the pause after its error is not over. lookup: number of the lookup for the reset, 0 none.
    pausing: an error's pause is not over; failures: errors in a row.
    end: where the drain stops, -1 unknown; end_lookup, end_operation: its lookup and the application's operation.
    rewind_lookup, rewind_operation, rewind_to: likewise of offsetsForTimes, and the time it asks for.
    revoking: it is about to be given up (``pendingRevocation``). topic_id: of the topic that the position is of, ""
    where nobody keeps that.
    """

    tp: str
    state: Literal["initializing", "awaiting", "external", "reset", "validating", "fetching", "failed"] = "reset"
    offset: int = -1
    epoch: int = -1
    leader: Leader | None = None
    validation: int = 0
    validation_pausing: bool = False
    lookup: int = 0
    pausing: bool = False
    failures: int = 0
    end: int = -1
    end_lookup: int = 0
    end_operation: str = ""
    rewind_lookup: int = 0
    rewind_operation: str = ""
    rewind_to: int = -1
    revoking: bool = False
    topic_id: str = ""

    @property
    def fetchable(self) -> bool:
        """Whether a Fetch may ask for it."""
        return self.state == "fetching" and not self.pausing and not self.revoking

    @property
    def drained(self) -> bool:
        """Whether everything was read that the drain asks for."""
        return self.state == "failed" or (self.state == "fetching" and 0 <= self.end <= self.offset)
