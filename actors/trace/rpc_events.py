"""Trace events of requests: exchanges, by who asked, what Produce and ListOffsets were answered, and how long
a broker's request handlers took."""

from __future__ import annotations

from typing import Literal

from actors.trace.event_parts import ReplyPartition, TraceEvent


class Rpc(TraceEvent, frozen=True, tag="rpc"):
    """One exchange, by the caller, at its end. ``errors``: all error codes in the answer except NONE. ``timeout_ms``:
    what it was given; ``took_ms``: how long it took, by the caller's own clock."""

    api: str
    version: int
    dst: str
    connection: str
    correlation_id: int
    outcome: Literal["answered", "disconnect", "timeout"]
    errors: list[int]
    timeout_ms: int = 0
    took_ms: int = 0


class RpcQuiet(TraceEvent, frozen=True, tag="rpc.quiet"):
    """So many Fetches of this node were answered without an error and with nothing new, within one second of its own
    time; they are in the trace in no other way. ``beyond``: told again of a consumer's Fetches of which the position in
    this partition was beyond the high watermark that it was told last, or the last stable offset if it reads committed
    records."""

    count: int
    beyond: str = ""


class RpcReply(TraceEvent, frozen=True, tag="rpc.reply"):
    """A server's answer to Produce or ListOffsets, by the server, before it leaves. ``replica_id``: as in the
    request (-1 client). ``acks``: Produce only, else 0."""

    api: str
    version: int
    src: str
    connection: str
    correlation_id: int
    replica_id: int
    isolation: int
    acks: int
    partitions: list[ReplyPartition]


class FetchMisfit(TraceEvent, frozen=True, tag="fetch.misfit"):
    """Who fetches cannot use a broker's answer, as it does not fit the fetch session: it begins another one.
    ``session_id``, ``session_epoch``: as in the request, epoch 0: it asked for everything. ``unasked``: partitions that
    the answer is about and the session does not have, "<topic id>-<index>" if it has no topic of that id; ``missing``:
    of a session that begins, partitions that the answer is not about."""

    peer: str
    session_id: int
    session_epoch: int
    unasked: list[str]
    missing: list[str]


RequestPath = Literal["at-once", "held", "parked"]
"""What a request did with its handler. at-once: it left it when it had been handled; held: it kept it while it waited
for the remote store; parked: it waits for that without one."""


class RequestHandled(TraceEvent, frozen=True, tag="req.handled"):
    """A request handler of a broker with remote storage is done with a request. ``queue_ms``: for how long no handler
    was free (Kafka's RequestQueueTimeMs); ``handler_ms``: for how long it kept this one (LocalTimeMs). Recorded if it
    waited, took time, or needs the remote store. ``untold``: requests since the last one recorded that did none of
    that. ``queued``, ``held``: requests in the queue, and other handlers that wait for the remote store, at that time.
    """

    api: str
    connection: str
    correlation_id: int
    queue_ms: int
    handler_ms: int
    path: RequestPath
    untold: int
    queued: int
    held: int


class RpcPark(TraceEvent, frozen=True, tag="rpc.park"):
    """A ListOffsets waits for remote storage, by its broker: in the purgatory RemoteListOffsets, or ``held`` by its
    request handler. ``timeout_ms``: as in the request, 0 below version 10; ``wait_ms``: for how long it waits at most,
    -1 as long as it takes. ``tps``: the partitions that are looked up for it; ``decided``: the others."""

    api: str
    version: int
    src: str
    connection: str
    correlation_id: int
    timeout_ms: int
    wait_ms: int
    tps: list[str]
    decided: list[str]
    held: bool = False


DeletionPhase = Literal["begin", "end"]


DELETE_UP_TO_HIGH_WATERMARK = -1
"""In place of an offset of DeleteRecords: every committed record (``DeleteRecordsRequest.HIGH_WATERMARK``)."""


class RecordsDelete(TraceEvent, frozen=True, tag="records.delete"):
    """A broker's part of a DeleteRecords. begin: as the leader it has moved its log start up to ``offset``, and looks
    who else has; end: what it answers is decided. ``asked``: as in the request, -1 the high watermark; ``offset``: what
    it takes that for, -1 nothing. ``low_watermark``: the least log start that it knows of itself and of the ``alive``
    ones, the other replicas whose brokers are not fenced as far as it knows; -1: one has not told, or there is an
    error."""

    tp: str
    phase: DeletionPhase
    connection: str
    correlation_id: int
    asked: int
    offset: int
    low_watermark: int
    error: int
    leader_epoch: int
    alive: list[int]


RpcEvent = Rpc | RpcQuiet | FetchMisfit | RpcReply | RequestHandled | RpcPark | RecordsDelete
