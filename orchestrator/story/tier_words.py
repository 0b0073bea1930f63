"""Words for the events of tiered storage: copies, log starts, look-ups and the handlers that they occupy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.node.errors import error_name
from actors.trace.events import (
    LogLocalStart,
    LogStart,
    RecordsDelete,
    RemoteFetchEnd,
    RequestHandled,
    RpcPark,
    StoreObject,
    TierSegment,
    TierTask,
    TraceEvent,
)
from orchestrator.story.words import listed

COPIES = {
    "copying": "begins to copy {}",
    "copied": "reports the copy of {} as finished",
    "copy-failed": "gives up the copy of {}",
    "deleting": "begins to delete the copy of {}",
    "deleted": "reports the copy of {} as deleted",
    "delete-failed": "fails to delete the copy of {}",
    "known": "learns that the copy of {} is in the state {state}",
    "refused": "ignores the state {state} of the copy of {}",
}
"""Phase of a copy -> in words, with {} for the segment."""

READS = {
    "enqueue": "accepts {} for a reader thread",
    "reject": "rejects {}, because no thread and no place in the queue is free",
    "start": "begins {} in a reader thread",
    "finish": "ends {}",
    "cancel": "cancels {}",
    "expire": "gives up {}, because the timeout of its request is over",
    "free": "has the thread or the place in the queue of {} free again",
}
"""Phase of a read from remote storage -> in words, with {} for the read."""


def _handled(body: RequestHandled) -> str:
    store = ", because it waited for the remote store" if body.path == "held" else ""
    queue = f"; {body.queued:,} more are in the queue" if body.queued else ""
    return f"handled the {body.api} of {_client(body.connection)} in {body.handler_ms:,} ms{store}{queue}"


def _parked(body: RpcPark) -> str:
    where = "its request handler" if body.held else "the purgatory"
    limit = f", for at most {body.wait_ms:,} ms" if body.wait_ms >= 0 else ""
    return f"lets the {body.api} of {body.src} for {listed(body.tps)} wait for remote storage in {where}{limit}"


def _read(body: TierTask) -> str:
    what = f"the look-up of timestamp {body.timestamp}" if body.kind == "list-offsets" else "the remote Fetch"
    text = READS[body.phase].format(f"{what} in {body.tp} for {_client(body.connection)}")
    return f"{text} with {error_name(body.error)}" if body.error else text


def _ended(body: RemoteFetchEnd) -> str:
    why = "its time was over" if body.expired else "it had nothing more to wait for"
    return f"has answered the remote Fetch of {_client(body.connection)}, as {why}"


def _copied(body: TierSegment) -> str:
    return COPIES[body.phase].format(f"offsets {body.start:,} to {body.end:,} of {body.tp}", state=body.state)


def _stored(body: StoreObject) -> str:
    verb = "stores" if body.phase == "stored" else "deletes"
    return f"{verb} the object {body.object} of a segment of {body.tp}"


def _deletion(body: RecordsDelete) -> str:
    of = f"the DeleteRecords of {_client(body.connection)} for {body.tp}"
    if body.error:
        return f"answers {of} with {error_name(body.error)}"
    upto = f"{body.offset:,}, while its low watermark is {body.low_watermark:,}"
    return f"carries out {of} up to {upto}" if body.phase == "begin" else f"answers {of} up to {upto}"


def _client(connection: str) -> str:
    """The node that made a connection: the name of one begins with it."""
    return connection.partition(">")[0]


OF_TIERS: dict[type[TraceEvent], Callable[[Any], str]] = {
    RequestHandled: _handled,
    RpcPark: _parked,
    TierTask: _read,
    RemoteFetchEnd: _ended,
    TierSegment: _copied,
    StoreObject: _stored,
    RecordsDelete: _deletion,
    LogStart: lambda body: f"moves its log start of {body.tp} to {body.new:,} ({body.reason})",
    LogLocalStart: lambda body: f"moves its local log start of {body.tp} to {body.new:,} ({body.reason})",
}
