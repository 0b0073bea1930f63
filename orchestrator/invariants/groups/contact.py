"""What the calls of a member tell of whether it knows the coordinator of its group."""

from __future__ import annotations

import msgspec

from actors.node.messages import Api
from actors.trace.events import Rpc, Stamped
from orchestrator.invariants.folds.pauses import EARLY_US

COORDINATOR = "coordinator"
"""Connection of a member to the coordinator of its group."""


class Contact(msgspec.Struct):
    """near_us: after a heartbeat that was answered without an error it knows its coordinator for so long. broker: that
    coordinator, "" it may have lost it; answered_us: when the last heartbeat was answered; bad_us: when a call to a
    coordinator failed, or was refused."""

    near_us: int = 0
    broker: str = ""
    answered_us: int = -1
    bad_us: int = -1

    def lose(self, *nodes: str) -> None:
        """It may have lost its coordinator, if that is one of these."""
        if self.broker in nodes:
            self.broker = ""

    def called(self, event: Stamped, body: Rpc) -> None:
        """A call to a coordinator ended."""
        if body.outcome != "answered" or body.errors:
            self.broker, self.bad_us = "", event.wall
        elif body.api == Api.Heartbeat.name and sent_us(event, body) > self.bad_us:
            self.broker, self.answered_us = body.dst, event.wall

    def is_near(self, now_us: int) -> bool:
        """Whether it knows its coordinator, at a time after the last call."""
        return bool(self.broker) and now_us - self.answered_us < self.near_us


def sent_us(event: Stamped, body: Rpc) -> int:
    """When a request was sent at the earliest."""
    return event.wall - 1000 * body.took_ms - EARLY_US


def contact(interval_ms: int, session_ms: int) -> Contact:
    """Of a member with these timers, before it has called anybody."""
    return Contact(min(2000 * interval_ms, 1000 * session_ms - EARLY_US))
