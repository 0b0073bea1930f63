"""Transactional producers that send no records, because they ask for something else again and again."""

from __future__ import annotations

import msgspec

from actors.trace.events import NodeDown, PartRemove, QRole, SendOffsetsInvoke, SendOffsetsReturn, Stamped, TraceEvent
from orchestrator.invariants.liveness.removed_names import RemovedNames

TELL_WHO_IS_HELD_BACK: tuple[type[TraceEvent], ...] = (
    PartRemove,
    QRole,
    SendOffsetsInvoke,
    SendOffsetsReturn,
    NodeDown,
)

HELD_BACK_RULE = "offsets-of-removed-topic"
HELD_BACK = (
    "The producer commits offsets of a topic that was removed. The coordinator refuses them with "
    "UNKNOWN_TOPIC_OR_PARTITION, and a producer asks again without end (TxnOffsetCommitHandler). It sends no records "
    "as long as it has a request about its transaction to send (Sender.runOnce)."
)


class HeldBack(msgspec.Struct):
    """removed: it hears of removals alone, and not of topics that are made anew: then what was refused succeeds, and is
    no longer open. open: client -> partitions whose offsets it is committing in its transaction."""

    removed: RemovedNames = msgspec.field(default_factory=RemovedNames)
    open: dict[str, list[str]] = {}

    def take(self, event: Stamped) -> None:
        """Take note of an event of ``TELL_WHO_IS_HELD_BACK``."""
        body = event.body
        if isinstance(body, PartRemove | QRole):
            self.removed.take(event)
        elif isinstance(body, SendOffsetsInvoke):
            self.open[event.node] = sorted(body.offsets)
        elif isinstance(body, SendOffsetsReturn | NodeDown):
            self.open.pop(event.node, None)

    def has(self, client: str) -> bool:
        """Whether this producer commits offsets of a removed topic now."""
        return not self.removed.gone.isdisjoint(self.open.get(client, []))
