"""R3 to R6: the threads that read from remote storage, their queue, and the request handlers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actors.node.errors import KafkaError, error_name
from actors.trace.events import (
    MetaImage,
    NodeDown,
    NodeUp,
    RequestHandled,
    RpcReply,
    Stamped,
    TierTask,
    TraceEvent,
)
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
from orchestrator.invariants.mirrors.config_records import HEARD_OF_OTHERS, BrokerSettings, broker_settings
from orchestrator.invariants.tiers.parked import LIST_OFFSETS, REMEMBERED, Timed, TimedInvariant

SERVICE = "krift.request.service.us"
QUEUES = {
    "remote-log-reader": "remote.log.reader.max.pending.tasks",
    "remote-log-offset-reader": "remote.log.offset.read.max.pending.tasks",
}
"""Pool -> the setting that limits its queue. Request handlers have none of their own."""
THREADS = {
    "remote-log-reader": "remote.log.reader.threads",
    "remote-log-offset-reader": "remote.log.offset.reader.threads",
}
"""Pool -> the setting that says how many threads it has."""
HANDLER_SLACK_US = 250_000
"""The time that a handler may take beyond the time of service: a step of a busy process."""


class Read(msgspec.Struct):
    """A task that has not ended: queued, or ``running``; ``given_up``: cancelled or expired. ``freed_us``: the latest
    time at which its interrupted thread must be free, -1 if it was not interrupted."""

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
        """Its name in a sentence."""
        return f"read {self.task} of {self.tp}"


class Reads(Timed):
    """The reads of one broker, by number."""

    reads: dict[int, Read] = {}


_LEGAL: dict[str, Callable[[Read], bool]] = {
    "start": lambda read: not read.running and not read.given_up,
    "finish": lambda read: read.running and not read.given_up,
    "cancel": lambda read: not read.given_up,
    "expire": lambda read: not read.given_up,
    "free": lambda read: read.given_up,
}


class NoWorkIsLeaked(TimedInvariant[Reads]):
    """A broker has few threads for reads. A thread that still works for an answered request, or a place in the queue
    that is never freed, is missing for all later requests. The slower remote storage is, the more of them are lost.

    Example: the timeout of a ListOffsets of list-offsets-1 is over, and broker-1 answers REQUEST_TIMED_OUT. Its read
    continues in a thread for as long as remote storage takes. Broker-1 must interrupt the read, or drop it from the
    queue when its turn comes.
    """

    id = "R3"
    title = "Each read from remote storage ends once, and none continues after its request was answered"
    source = "KIP-1075; Kafka's DelayedRemoteListOffsets.onExpiration; RemoteLogManager.asyncOffsetRead"
    tested_when = "a read ends, is cancelled, or expires"
    unseen = (
        "Reads at the end of a run: X6 judges the remains.",
        "How long the read of a Fetch that has expired goes on: Kafka does not interrupt it (DelayedRemoteFetch).",
    )
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
            sentence = (
                f"{event.node} recorded the phase {body.phase} of a read of {body.tp}, but that read had ended or had "
                "not begun"
            )
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
        if not (read.running and body.phase == "expire") or body.kind == "fetch":
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
        sentence = f"{event.node} answered the ListOffsets of {body.src}, but did not cancel its {left[0].what}"
        return self.violated(state.key, sentence, left[0].by, event)

    def expire(self, state: Reads, at_us: int) -> Emissions:
        found: list[Emissions] = []
        for read in [each for each in state.reads.values() if 0 <= each.freed_us <= at_us]:
            del state.reads[read.task]
            sentence = f"{state.key} still carries out {read.what}, whose request expired {SLACK_US // 1000:,} ms ago"
            if state.frozen_since(read.freed_us - SLACK_US):
                found.append(self.excused("clock", state.key, sentence, read.by))
            else:
                found.append(self.violated(state.key, sentence, read.by))
        return [each for emissions in found for each in emissions]


class Queue(msgspec.Struct):
    """Of one pool: the tasks in its threads, and those in its queue, oldest first. ``given_up``: the cancelled and
    expired ones in the queue."""

    running: list[int] = []
    queued: list[int] = []
    given_up: list[int] = []

    def take(self, body: TierTask) -> None:
        """A task enters its next phase."""
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
    """Of one broker. max_pending: pool -> the largest number of reads in its queue. ``rejected``: connection -> its
    request, and the partitions whose read was rejected."""

    pools: dict[str, Queue] = {}
    max_pending: dict[str, int] = {}
    settings: BrokerSettings = msgspec.field(default_factory=BrokerSettings)
    rejected: dict[str, tuple[int, dict[str, Witness]]] = {}

    def pool(self, name: str) -> Queue:
        """One of them."""
        return self.pools.setdefault(name, Queue())


class AFullQueueIsAnError(KeyedInvariant[Pools]):
    """A queue without a limit grows until memory is used up, and its reads wait longer and longer. A queue that rejects
    reads although it has room makes clients repeat their requests without need.

    Example: all ten threads of broker-1 wait for remote storage, and 100 reads wait for a thread. The next look-up gets
    UNKNOWN_SERVER_ERROR, and does not wait for its timeout. The other partitions of its request are looked up.

    The operator sets remote.log.reader.threads of broker-1 to 20, and its pool still has ten threads.
    """

    id = "R4"
    title = (
        "A read is rejected, with an error, exactly when no thread and no place in the queue is free; a pool has the "
        "threads that are configured"
    )
    source = "KIP-1075; Kafka's ReplicaManager.fetchOffset (RejectedExecutionException); RemoteStorageThreadPool"
    tested_when = "a read is rejected, or takes a place in the queue"
    unseen = (
        "The number of threads in steps of the same cause and request as the one that took over the metadata.",
        "The number of threads of request handlers, which a pool of the oldest variant stands for.",
        "Answers to Fetches whose read was rejected: X1 judges them.",
    )
    route = NODE
    types = (TierTask, RpcReply, MetaImage, NodeUp, NodeDown)
    cases = {RpcReply: (LIST_OFFSETS,)}

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return HEARD_OF_OTHERS

    def initial(self, key: str, profile: Profile) -> Pools:
        limits = {pool: profile.number(limit, key) for pool, limit in QUEUES.items()}
        return Pools(key, max_pending=limits, settings=broker_settings(profile, key, *THREADS.values()))

    def hear(self, state: Pools, event: Stamped) -> Emissions:
        state.settings.hear(event)
        return NOTHING

    def step(self, state: Pools, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is TierTask:
            return self._threads(state, event, body) or self._moved(state, event, body)
        if type(body) is RpcReply:
            return self._answered(state, event, body)
        state.settings.hear(event)
        if type(body) is not MetaImage:
            state.pools, state.rejected = {}, {}
        return NOTHING

    def _threads(self, state: Pools, event: Stamped, body: TierTask) -> Emissions:
        """Whether a pool has the threads of its setting: not while the broker takes over a new image, with which a pool
        is resized last."""
        key = THREADS.get(body.pool)
        if key is None or state.settings.is_changing(event) or body.threads == state.settings.at(key):
            return NOTHING
        sentence = (
            f"the pool {body.pool} of {event.node} has {body.threads} threads, with {key} = {state.settings.at(key)}"
        )
        state.pool(body.pool).take(body)
        return self.violated(state.key, sentence, event)

    def _moved(self, state: Pools, event: Stamped, body: TierTask) -> Emissions:
        pool = state.pool(body.pool)
        free = len(pool.running) < body.threads
        max_pending = state.max_pending.get(body.pool, 0)
        room = free or len(pool.queued) < max_pending
        limits = f"with {body.threads} threads and {max_pending} places in the queue"
        busy = f"while {len(pool.running)} reads ran and {len(pool.queued)} waited, {limits}"
        pool.take(body)
        if body.phase == "enqueue":
            state.tested += not free
            if room:
                return NOTHING
            return self.violated(state.key, f"{event.node} accepted a read of {body.tp} {busy}", event)
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
        return self.violated(state.key, f"{event.node} rejected a read of {body.tp} {busy}", event)

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
            sentence = f"{event.node} answered {body.src} with {answer} for {told.tp}, whose read it had rejected"
            return self.violated(state.key, sentence, tps[told.tp], event)
        return NOTHING


class ReadersAreFair(KeyedInvariant[Pools]):
    """ListOffsets and Fetches may share a pool. If later reads may overtake an earlier one, the earlier one waits for
    as long as new reads arrive.

    Example: reads 5, 6 and 7 wait for a thread of broker-1. The next free thread takes read 5, even if read 7 is for a
    Fetch.
    """

    id = "R6"
    title = "The threads of a pool take reads in the order of their arrival"
    source = "KIP-1075; Kafka's RemoteStorageThreadPool (LinkedBlockingQueue)"
    tested_when = "a thread takes a read while another one waits"
    unseen = ("How Fetches and ListOffsets share the threads: Kafka's pool reserves none for either.",)
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
                sentence = (
                    f"a thread of {event.node} took read {body.task} although read {waiting[0]} had waited longer"
                )
                found = self.violated(state.key, sentence, event)
        pool.take(body)
        return found


class Handlers(Timed):
    """bound_us: the longest time that a handler may take for a request."""

    bound_us: int = 0


class ReadsHoldNoHandlers(TimedInvariant[Handlers]):
    """A broker has few request handlers. If each of them waits for remote storage, the broker serves no Produce and no
    Fetch, however healthy its own disks are.

    Example: eight ListOffsets arrive at broker-1, which has eight request handlers, and remote storage takes 20 s to
    answer. For these 20 s the followers' Fetches wait in the queue, and the followers leave the ISR. Kafka did so
    before KIP-1075.
    """

    id = "R5"
    title = "No request occupies a request handler while it waits for remote storage"
    source = "KIP-1075, motivation"
    tested_when = "a handler finishes a request that needs remote storage"
    exemptions = {"clock": "A fault stopped the broker, or changed its clock, while the handler had the request."}
    unseen = ("The time that a request waits in the queue: the check measures the time in a handler alone.",)
    route = NODE
    types = (RequestHandled,)

    def initial(self, key: str, profile: Profile) -> Handlers:
        service_us = profile.number(SERVICE, key)
        return Handlers(key, bound_us=service_us + HANDLER_SLACK_US)

    def step(self, state: Handlers, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is RequestHandled
        if 1000 * body.handler_ms <= state.bound_us:
            state.tested += body.path != "at-once"
            return NOTHING
        sentence = f"one {body.api} occupied a request handler of {event.node} for {body.handler_ms:,} ms"
        if state.frozen_since(event.wall - 1000 * body.handler_ms):
            return self.excused("clock", state.key, sentence, event)
        state.tested += 1
        return self.violated(state.key, sentence, event)
