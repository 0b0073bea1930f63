"""The door of a broker: every request waits here for one of num.io.threads handlers
(``core/.../network/RequestChannel.scala``, ``KafkaRequestHandler.scala``).

A handler spends ``krift.request.service.us`` on each request, and what the request asks for happens at the end of
that time. With 0, the default, it happens as it arrives. A request may keep its handler for longer than that, until the
broker has what it waits for (``hold``, ``release``); whoever finds no free handler waits in the queue.
"""

from __future__ import annotations

import msgspec

from actors.node.messages import API_NAMES, AnyRequest, api_of
from actors.node.step import Step
from actors.trace.events import RequestHandled, RequestPath

TIMER = "request-handler"


class QueuedRequest(msgspec.Struct, frozen=True):
    """A request that no handler has taken yet."""

    connection: str
    request: AnyRequest
    arrived_ms: int


class BusyHandler(msgspec.Struct, frozen=True):
    """A request in a handler's hands until ``done_us``."""

    connection: str
    request: AnyRequest
    arrived_ms: int
    taken_us: int
    done_us: int


class TakenRequest(msgspec.Struct, frozen=True):
    """A request whose service is over, with the times at which it arrived and at which a handler took it."""

    connection: str
    request: AnyRequest
    arrived_ms: int
    taken_ms: int


class RequestChannel(msgspec.Struct):
    """The queue and the handlers. Microseconds are kept, so that services shorter than the node's clock add up.

    held: connection -> the request that keeps its handler. timed: whether the trace is told of times. untold: requests
    since the last one of which it was told, which were handled as they arrived.
    """

    slots: int = 8
    service_us: int = 0
    timed: bool = False
    queue: list[QueuedRequest] = []
    busy: list[BusyHandler] = []
    held: dict[str, TakenRequest] = {}
    due_ms: int = -1
    untold: int = 0

    # ---- in and out --------------------------------------------------------------------------------------

    def offer(self, step: Step, connection: str, request: AnyRequest) -> TakenRequest | None:
        """Take a request in; not None: it is to be handled now."""
        queued = QueuedRequest(connection, request, step.now_ms)
        if self.queue or not self._has_free_handler:
            self.queue.append(queued)
            return None
        if self.service_us == 0:
            return _taken(queued, step.now_ms)
        self._begin(queued, step.now_ms * 1000)
        self._arm(step)
        return None

    def on_timer(self, step: Step) -> list[TakenRequest]:
        """The requests whose service is over, in the order in which it ended; freed handlers take the next ones."""
        self.due_ms = -1
        now_us = step.now_ms * 1000
        done: list[TakenRequest] = []
        while self.busy:
            first = min(self.busy, key=_done_us)
            if first.done_us > now_us:
                break
            self.busy.remove(first)
            done.append(TakenRequest(first.connection, first.request, first.arrived_ms, first.taken_us // 1000))
            self._take_next(first.done_us)
        self._arm(step)
        return done

    def take_queued(self, step: Step) -> TakenRequest | None:
        """The next request of the queue that is to be handled now, since a handler is free."""
        if self.service_us == 0 and self.queue and self._has_free_handler:
            return _taken(self.queue.pop(0), step.now_ms)
        return None

    # ---- handlers that wait ------------------------------------------------------------------------------

    def hold(self, taken: TakenRequest) -> None:
        """A request keeps its handler until ``release``."""
        assert taken.connection not in self.held, f"two requests of {taken.connection} have a handler"
        self.held[taken.connection] = taken

    def release(self, step: Step, connection: str) -> None:
        """The request of a connection is done with its handler, which takes the next one."""
        taken = self.held.pop(connection)
        self.tell(step, taken, "held")
        self._take_next(step.now_ms * 1000)
        self._arm(step)

    def tell(self, step: Step, taken: TakenRequest, path: RequestPath) -> None:
        """A handler is done with a request: record for how long it waited, and was handled, if it was at all."""
        if not self.timed:
            return
        queue_ms, handler_ms = taken.taken_ms - taken.arrived_ms, step.now_ms - taken.taken_ms
        if not queue_ms and not handler_ms and path == "at-once":
            self.untold += 1
            return
        header = taken.request.header
        step.record(
            RequestHandled(
                API_NAMES[api_of(taken.request)],
                taken.connection,
                header.correlation_id,
                queue_ms,
                handler_ms,
                path,
                self.untold,
                len(self.queue),
                len(self.held),
            )
        )
        self.untold = 0

    def resize(self, step: Step, slots: int) -> None:
        """As many handlers from now on. New ones begin at once; one that is too many ends its request first."""
        self.slots = slots
        self._take_next(step.now_ms * 1000)
        self._arm(step)

    # ---- inside ------------------------------------------------------------------------------------------

    @property
    def _has_free_handler(self) -> bool:
        return len(self.busy) + len(self.held) < self.slots

    def _begin(self, queued: QueuedRequest, now_us: int) -> None:
        done_us = now_us + self.service_us
        self.busy.append(BusyHandler(queued.connection, queued.request, queued.arrived_ms, now_us, done_us))

    def _take_next(self, now_us: int) -> None:
        while self.service_us and self.queue and self._has_free_handler:
            self._begin(self.queue.pop(0), now_us)

    def _arm(self, step: Step) -> None:
        if not self.busy:
            return
        due_ms = -(-min(handler.done_us for handler in self.busy) // 1000)
        if self.due_ms < 0 or due_ms < self.due_ms:
            self.due_ms = due_ms
            step.set_timer(TIMER, max(0, due_ms - step.now_ms))


def _taken(queued: QueuedRequest, now_ms: int) -> TakenRequest:
    return TakenRequest(queued.connection, queued.request, queued.arrived_ms, now_ms)


def _done_us(handler: BusyHandler) -> int:
    return handler.done_us
