"""What the transaction log has lost: its coordinator may take up again what partitions know to be over."""

from __future__ import annotations

import msgspec

from actors.broker.coordinator_common.partitions import TRANSACTION_STATE_TOPIC
from actors.node.spec import split_topic_partition
from actors.trace.events import NodeDown, PartChange, Stamped, TraceEvent

LOST_DECISIONS = "lost-decisions"
LOST_DECISIONS_RULE = (
    "The transaction log lost records. Its coordinator may then decide a transaction of an older producer epoch. A "
    "partition with a newer epoch refuses the marker, the coordinator leaves the decision as it is, and its producer "
    "gets CONCURRENT_TRANSACTIONS for ever. T9 judges such decisions."
)
TELL_OF_LOST_DECISIONS: tuple[type[TraceEvent], ...] = (NodeDown, PartChange)
"""Types of the events that tell of it."""


class LostDecisions(msgspec.Struct):
    """any: a partition of the transaction log may have lost records."""

    any: bool = False

    def take(self, event: Stamped) -> None:
        """Take note of an event of ``TELL_OF_LOST_DECISIONS``."""
        body = event.body
        if type(body) is NodeDown:
            self.any = self.any or any(_is_of_transactions(tp) for tp in body.lost)
        elif type(body) is PartChange and body.cause == "unclean":
            self.any = self.any or _is_of_transactions(body.tp)


def _is_of_transactions(tp: str) -> bool:
    return split_topic_partition(tp)[0] == TRANSACTION_STATE_TOPIC
