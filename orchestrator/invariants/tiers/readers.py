"""R3 to R6: the threads that read from remote storage, their queue, and the request handlers that they spare."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actors.config import CONFIG
from actors.node.errors import KafkaError, error_name
from actors.trace.events import NodeDown, NodeUp, RequestHandled, RpcReply, Stamped, TierTask
from orchestrator.invariants.folds.bounds import SLACK_US
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Deadline,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.folds.routes import NODE
from orchestrator.invariants.tiers.parked import LIST_OFFSETS, REMEMBERED, Timed, TimedInvariant

SERVICE = "krift.request.service.us"
QUEUES = {
    "remote-log-reader": "remote.log.reader.max.pending.tasks",
    "remote-log-offset-reader": "remote.log.offset.read.max.pending.tasks",
}
"""Pool -> what limits its queue. Request handlers have none of their own."""
HANDLER_SLACK_US = 250_000
"""For how long a handler may have a request in its hands beyond the time of service: a step of a busy process."""


class Read(msgspec.Struct):
    """A task that is not over. ``stage``: queued, running, or either one given up. ``freed_us``: when its thread was to
    be free at the latest, since it was interrupted; -1 whenever it ends."""

    task: int
    pool: str
    tp: str
    connection: str
    correlation_id: int
    by: Witness
    running: bool = False
    given_up: bool = False
    freed_us: int = -1

    @property
    def what(self) -> str:
        """In words."""
        return f"read {self.task} of {self.tp}"


class Reads(Timed):
    """Those of one broker, by number."""

    reads: dict[int, Read] = {}


_LEGAL: dict[str, Callable[[Read], bool]] = {
    "start": lambda read: not read.running and not read.given_up,
    "finish": lambda read: read.running and not read.given_up,
    "cancel": lambda read: not read.given_up,
    "expire": lambda read: not read.given_up,
    "free": lambda read: read.given_up,
}


class NoWorkIsLeaked(TimedInvariant[Reads]):
    """Threads are few. One that works for a request which is answered, or a place in the queue that nobody gives back,
    is missing for everybody who comes later; and what slowed remote storage down makes more of them.

    Example: the time of a ListOffsets of list-offsets-1 is over, and broker-1 answers REQUEST_TIMED_OUT. The read that
    it waited for goes on in its thread for as long as remote storage takes: it must be interrupted, or leave the queue
    when its turn comes.
    """

    id = "R3"
    title = "Each read from remote storage ends once, and none goes on for a request that has been answered"
    source = "KIP-1075; Kafka's DelayedRemoteListOffsets.onExpiration; RemoteLogManager.asyncOffsetRead"
    tested_when = "a read ends, is cancelled, or expires"
    unseen = ("Reads at the end of a run: X6 judges what is left then.",)
    exemptions = {"clock": "A fault stopped the broker, or changed its clock, when the thread had to be free."}
    route = NODE
    types = (TierTask, RpcReply, NodeUp, NodeDown)
    cases = {RpcReply: (LIST_OFFSETS,)}

    def initial(self, key: str, profile: Profile) -> Reads:
        return Reads(key)

    def step(self, state: Reads, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is TierTask:
            return self._moved(state, event, body)
        if type(body) is RpcReply:
            return self._answered(state, event, body)
        state.reads = {}
        return NOTHING

    def _moved(self, state: Reads, event: Stamped, body: TierTask) -> Emissions:
        known = state.reads.get(body.task)
        if body.phase == "reject":
            return NOTHING
        if body.phase == "enqueue":
            state.reads[body.task] = Read(
                body.task, body.pool, body.tp, body.connection, body.correlation_id, witness(event)
            )
            if known is None:
                return NOTHING
            return self.violated(state.key, f"{event.node} put {known.what} into a queue twice", known.by, event)
        if known is None or not _LEGAL[body.phase](known):
            by = None if known is None else known.by
            sentence = f"{event.node} recorded {body.phase} of a read of {body.tp} that was over, or had not begun"
            return self.violated(state.key, sentence, by, event)
        return self._go_on(state, event, body, known)

    def _go_on(self, state: Reads, event: Stamped, body: TierTask, read: Read) -> Emissions:
        if body.phase == "start":
            read.running = True
            return NOTHING
        if body.phase in ("finish", "free"):
            del state.reads[body.task]
            state.tested += body.phase == "finish"
            return NOTHING
        state.tested += 1
        read.given_up, read.by = True, witness(event)
        if not (read.running and body.phase == "expire"):
            return NOTHING
        read.freed_us = event.wall + SLACK_US
        return (Deadline(read.freed_us),)

    def _answered(self, state: Reads, event: Stamped, body: RpcReply) -> Emissions:
        left = [
            read
            for read in state.reads.values()
            if (read.connection, read.correlation_id) == (body.connection, body.correlation_id) and not read.given_up
        ]
        if body.api != LIST_OFFSETS or not left:
            return NOTHING
        for read in left:
            del state.reads[read.task]
        sentence = f"{event.node} answered the ListOffsets of {body.src}, and went on with {left[0].what} for it"
        return self.violated(state.key, sentence, left[0].by, event)

    def expire(self, state: Reads, at_us: int) -> Emissions:
        found: list[Emissions] = []
        for read in [each for each in state.reads.values() if 0 <= each.freed_us <= at_us]:
            del state.reads[read.task]
            sentence = f"{state.key} still reads for {read.what}, whose request has expired {SLACK_US // 1000:,} ms ago"
            if state.frozen_since(read.freed_us - SLACK_US):
                found.append(self.excused("clock", state.key, sentence, read.by))
            else:
                found.append(self.violated(state.key, sentence, read.by))
        return [each for emissions in found for each in emissions]


class Queue(msgspec.Struct):
    """Of one pool: the tasks in its threads, and those in its queue, oldest first. ``given_up``: of those in the queue
    that nobody waits for."""

    running: list[int] = []
    queued: list[int] = []
    given_up: list[int] = []

    def take(self, body: TierTask) -> None:
        """A task goes on."""
        if body.phase == "enqueue":
            self.queued.append(body.task)
        elif body.phase == "start":
            self._drop(body.task)
            self.running.append(body.task)
        elif body.phase in ("cancel", "expire"):
            if body.task in self.queued:
                self.given_up.append(body.task)
        elif body.phase in ("finish", "free"):
            self._drop(body.task)
            if body.task in self.running:
                self.running.remove(body.task)

    def _drop(self, task: int) -> None:
        for tasks in (self.queued, self.given_up):
            if task in tasks:
                tasks.remove(task)


class Pools(State):
    """Of one broker. max_pending: pool -> how many reads may wait in its queue. ``rejected``: connection -> its
    request, and the partitions of which the read was rejected."""

    pools: dict[str, Queue] = {}
    max_pending: dict[str, int] = {}
    rejected: dict[str, tuple[int, dict[str, Witness]]] = {}

    def pool(self, name: str) -> Queue:
        """One of them."""
        return self.pools.setdefault(name, Queue())


class AFullQueueIsAnError(KeyedInvariant[Pools]):
    """A queue without a limit hides for how long everything in it will wait, until memory is gone; one that turns away
    what it has room for makes clients ask again for nothing.

    Example: all ten threads of broker-1 wait for remote storage, and 100 reads for a thread. The next look-up is
    answered with UNKNOWN_SERVER_ERROR, and not kept until REQUEST_TIMED_OUT; its request's other partitions go on.
    """

    id = "R4"
    title = "A read for which there is neither a thread nor a place in the queue is an error, and no other read is"
    source = "KIP-1075; Kafka's ReplicaManager.fetchOffset (RejectedExecutionException); RemoteStorageThreadPool"
    tested_when = "a read is rejected, or takes a place in the queue"
    unseen = (
        "How many threads a pool should have: only that the broker goes by what it says.",
        "Rejected reads of a Fetch: its answer is not in the trace.",
    )
    route = NODE
    types = (TierTask, RpcReply, NodeUp, NodeDown)
    cases = {RpcReply: (LIST_OFFSETS,)}

    def initial(self, key: str, profile: Profile) -> Pools:
        limits = {pool: int(profile.setting(limit, key, CONFIG[limit].default)) for pool, limit in QUEUES.items()}
        return Pools(key, max_pending=limits)

    def step(self, state: Pools, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is TierTask:
            return self._moved(state, event, body)
        if type(body) is RpcReply:
            return self._answered(state, event, body)
        state.pools, state.rejected = {}, {}
        return NOTHING

    def _moved(self, state: Pools, event: Stamped, body: TierTask) -> Emissions:
        pool = state.pool(body.pool)
        free = len(pool.running) < body.threads
        max_pending = state.max_pending.get(body.pool, 0)
        room = free or len(pool.queued) < max_pending
        limits = f"{body.threads} threads and a queue of {max_pending}"
        busy = f"{len(pool.running)} reads run, and {len(pool.queued)} wait"
        pool.take(body)
        if body.phase == "enqueue":
            state.tested += not free
            if room:
                return NOTHING
            return self.violated(state.key, f"{event.node} took in a read of {body.tp} where {busy}: {limits}", event)
        if body.phase != "reject":
            return NOTHING
        state.tested += 1
        if body.kind == "list-offsets":
            number, tps = state.rejected.pop(body.connection, (-1, {}))
            tps = tps if number == body.correlation_id else {}
            state.rejected[body.connection] = (body.correlation_id, {**tps, body.tp: witness(event)})
            if len(state.rejected) > REMEMBERED:
                del state.rejected[next(iter(state.rejected))]
        if not room:
            return NOTHING
        return self.violated(state.key, f"{event.node} rejected a read of {body.tp} where {busy}: {limits}", event)

    def _answered(self, state: Pools, event: Stamped, body: RpcReply) -> Emissions:
        if body.api != LIST_OFFSETS:
            return NOTHING
        number, tps = state.rejected.pop(body.connection, (-1, {}))
        for told in body.partitions:
            if number != body.correlation_id or told.tp not in tps:
                continue
            if told.error and told.error != KafkaError.REQUEST_TIMED_OUT:
                continue
            answer = error_name(told.error) if told.error else f"offset {told.offset:,}"
            sentence = f"{event.node} answered {body.src} with {answer} of {told.tp}, of which it had rejected the read"
            return self.violated(state.key, sentence, tps[told.tp], event)
        return NOTHING


class ReadersAreFair(KeyedInvariant[Pools]):
    """In a pool that ListOffsets and Fetches share, a read that is overtaken waits for as long as others keep coming.

    Example: reads 5, 6 and 7 wait for a thread of broker-1. The next free one takes read 5, even if 7 is for a Fetch.
    """

    id = "R6"
    title = "The threads of a pool take reads in the order of their arrival"
    source = "KIP-1075; Kafka's RemoteStorageThreadPool (LinkedBlockingQueue)"
    tested_when = "a thread takes a read while another one waits"
    unseen = ("How the threads are divided between Fetches and ListOffsets: Kafka's pool keeps no share for either.",)
    route = NODE
    types = (TierTask, NodeUp, NodeDown)

    def initial(self, key: str, profile: Profile) -> Pools:
        return Pools(key)

    def step(self, state: Pools, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is not TierTask:
            state.pools = {}
            return NOTHING
        pool = state.pool(body.pool)
        found: Emissions = NOTHING
        if body.phase == "start":
            waiting = [task for task in pool.queued if task not in pool.given_up]
            state.tested += len(waiting) > 1
            if waiting and waiting[0] != body.task:
                sentence = f"a thread of {event.node} took read {body.task}, where read {waiting[0]} had waited longer"
                found = self.violated(state.key, sentence, event)
        pool.take(body)
        return found


class Handlers(Timed):
    """bound_us: how long a handler may be busy with a request."""

    bound_us: int = 0


class ReadsHoldNoHandlers(TimedInvariant[Handlers]):
    """A broker has few request handlers. If each of them waits for remote storage, no Produce and no Fetch is served,
    however healthy the broker's own disks are.

    Example: eight ListOffsets arrive at broker-1, remote storage takes 20 s to answer, and for these 20 s Fetches of
    the followers wait in the queue: they leave the ISR. So it was before KIP-1075.
    """

    id = "R5"
    title = "No request keeps its handler while remote storage is asked"
    source = "KIP-1075, motivation"
    tested_when = "a handler is done with a request that needs remote storage"
    exemptions = {"clock": "A fault stopped the broker, or changed its clock, while the handler had the request."}
    unseen = ("For how long requests wait in the queue: with free handlers that is the time of service.",)
    route = NODE
    types = (RequestHandled,)

    def initial(self, key: str, profile: Profile) -> Handlers:
        service_us = int(profile.setting(SERVICE, key, CONFIG[SERVICE].default))
        return Handlers(key, bound_us=service_us + HANDLER_SLACK_US)

    def step(self, state: Handlers, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is RequestHandled
        if 1000 * body.handler_ms <= state.bound_us:
            state.tested += body.path != "at-once"
            return NOTHING
        sentence = f"{event.node} kept a handler for {body.handler_ms:,} ms for one {body.api}"
        if state.frozen_since(event.wall - 1000 * body.handler_ms):
            return self.excused("clock", state.key, sentence, event)
        state.tested += 1
        return self.violated(state.key, sentence, event)
