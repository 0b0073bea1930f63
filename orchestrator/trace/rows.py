"""One row of the trace and back: the envelope as columns, the body as JSON with its ``type`` tag.

The columns are those of ``orchestrator/trace/schema.py``: run, node, incarnation, seq, wall, logical, type, tp,
cause, req, body. ``type`` and ``tp`` repeat what the body says, so that Spark can filter without reading JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

from actors.trace.events import AnyTraceEvent, Stamped

COLUMNS = ("run", "node", "incarnation", "seq", "wall", "logical", "type", "tp", "cause", "req", "body")
"""Names of the columns, in order."""

ORDER_COLUMNS = ("wall", "logical", "node", "incarnation", "seq")
"""The columns of the trace's total order (``Stamped.order``)."""


class TraceRow(TypedDict):
    """A row: ``body`` is JSON text; wall is microseconds."""

    run: str
    node: str
    incarnation: int
    seq: int
    wall: int
    logical: int
    type: str
    tp: str
    cause: str
    req: str
    body: str


_ENCODER = msgspec.json.Encoder()
_BODY: msgspec.json.Decoder[AnyTraceEvent] = msgspec.json.Decoder(AnyTraceEvent)


def encode_body(body: AnyTraceEvent) -> str:
    """JSON text of a body, its ``type`` included."""
    return _ENCODER.encode(body).decode()


def decode_body(text: str | bytes) -> AnyTraceEvent:
    """Inverse of ``encode_body``. Raises msgspec.DecodeError (malformed JSON) or msgspec.ValidationError (not an
    event of ``actors.trace.events``)."""
    return _BODY.decode(text)


def stamped_to_row(event: Stamped) -> TraceRow:
    """The row of an event."""
    return {
        "run": event.run,
        "node": event.node,
        "incarnation": event.incarnation,
        "seq": event.seq,
        "wall": event.wall,
        "logical": event.logical,
        "type": event.type,
        "tp": event.tp,
        "cause": event.cause,
        "req": event.req,
        "body": encode_body(event.body),
    }


def row_to_stamped(row: Mapping[str, Any]) -> Stamped:
    """The event of a row (a mapping, or a Spark Row's ``asDict()``). Raises as ``decode_body`` does."""
    return Stamped(
        row["run"],
        row["node"],
        row["incarnation"],
        row["seq"],
        row["wall"],
        row["logical"],
        row["cause"],
        row["req"],
        decode_body(row["body"]),
    )
