"""Trace events of what brokers read from remote storage; ``actors.trace.events`` has them all."""

from __future__ import annotations

from typing import Literal

from actors.trace.event_parts import TraceEvent

ReaderTaskPhase = Literal["enqueue", "reject", "start", "finish", "cancel", "expire", "free"]
"""What became of a task. enqueue: the pool took it, for a free thread or for its queue; reject: the queue was full.
start: a thread took it. finish: it has a result, or an error. cancel: nobody wants its result any more; expire: the
request that waits for it has run out of time. free: the thread, or the place in the queue, of a task that was cancelled
or had expired, is free again."""


class TierTask(TraceEvent, frozen=True, tag="tier.task"):
    """A read from remote storage at a broker. ``pool``: whose threads and queue it takes; ``task``: its number at the
    broker, ``kind``: what asks for it; ``connection``, ``correlation_id``: the request that waits for it. ``running``,
    ``queued``: tasks in the pool's threads and in its queue after this; ``threads``, ``max_pending``: their limits.
    ``interrupt``: (cancel, expire) the thread gives the task up at once. ``error``: (finish) why there is no result.
    ``timestamp``: (list-offsets) that is looked for, else -1."""

    tp: str
    pool: str
    task: int
    kind: Literal["list-offsets", "fetch"]
    phase: ReaderTaskPhase
    connection: str
    correlation_id: int
    running: int
    queued: int
    threads: int
    max_pending: int
    interrupt: bool = False
    error: int = 0
    timestamp: int = -1


class RemoteFetchEnd(TraceEvent, frozen=True, tag="fetch.remote"):
    """A Fetch that has waited for remote storage was answered. What the answer says (``fetch.told``) and what becomes
    of the reads that it still waited for (``tier.task``) come before, in the same step. ``expired``: its time was
    over."""

    connection: str
    correlation_id: int
    expired: bool


ReaderEvent = TierTask | RemoteFetchEnd
