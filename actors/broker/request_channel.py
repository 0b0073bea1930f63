"""The door of a broker: every request waits here for one of num.io.threads handler slots
(``core/.../network/RequestChannel.scala``, ``KafkaRequestHandler.scala``).

A handler spends ``krift.request.service.us`` on each request, and what the request asks for happens at the end of
that time. With 0, the default, it happens as it arrives.
"""

from __future__ import annotations

import msgspec

from actors.node.messages import AnyRequest
from actors.node.step import Step

TIMER = "request-handler"


class QueuedRequest(msgspec.Struct, frozen=True):
    """A request that no handler has taken yet."""

    connection: str
    request: AnyRequest


class BusySlot(msgspec.Struct, frozen=True):
    """A request in a handler's hands until ``done_us``."""

    connection: str
    request: AnyRequest
    done_us: int


class RequestChannel(msgspec.Struct):
    """The queue and the handlers. Microseconds are kept, so that services shorter than the node's clock add up."""

    slots: int = 8
    service_us: int = 0
    queue: list[QueuedRequest] = []
    busy: list[BusySlot] = []
    due_ms: int = -1

    def offer(self, step: Step, connection: str, request: AnyRequest) -> bool:
        """Take a request in; True: it is to be handled now."""
        if self.service_us == 0:
            return True
        if len(self.busy) < self.slots:
            self.busy.append(BusySlot(connection, request, step.now_ms * 1000 + self.service_us))
            self._arm(step)
        else:
            self.queue.append(QueuedRequest(connection, request))
        return False

    def on_timer(self, step: Step) -> list[QueuedRequest]:
        """The requests whose service is over, in the order in which it ended; freed handlers take the next ones."""
        self.due_ms = -1
        now_us = step.now_ms * 1000
        done: list[QueuedRequest] = []
        while self.busy:
            first = min(self.busy, key=_done_us)
            if first.done_us > now_us:
                break
            self.busy.remove(first)
            done.append(QueuedRequest(first.connection, first.request))
            self._take_next(first.done_us)
        self._arm(step)
        return done

    def resize(self, step: Step, slots: int) -> None:
        """As many handlers from now on. New ones begin at once; one that is too many ends its request first."""
        self.slots = slots
        self._take_next(step.now_ms * 1000)
        self._arm(step)

    def _take_next(self, now_us: int) -> None:
        while self.queue and len(self.busy) < self.slots:
            following = self.queue.pop(0)
            self.busy.append(BusySlot(following.connection, following.request, now_us + self.service_us))

    def _arm(self, step: Step) -> None:
        if not self.busy:
            return
        due_ms = -(-min(slot.done_us for slot in self.busy) // 1000)
        if self.due_ms < 0 or due_ms < self.due_ms:
            self.due_ms = due_ms
            step.set_timer(TIMER, max(0, due_ms - step.now_ms))


def _done_us(slot: BusySlot) -> int:
    return slot.done_us
