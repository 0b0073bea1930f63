"""Trace events of requests: exchanges, by who asked, and what Produce and ListOffsets were answered."""

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


RpcEvent = Rpc | RpcQuiet | RpcReply
