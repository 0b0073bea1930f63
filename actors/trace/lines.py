"""One event of the trace as a line of NDJSON: the columns of the trace, ``body`` as an object with its ``type``."""

from __future__ import annotations

import msgspec

from actors.trace.events import AnyTraceEvent, Stamped


class _Written(msgspec.Struct, frozen=True):
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
    body: AnyTraceEvent


class Line(msgspec.Struct, frozen=True):
    """A line as it is read: ``body`` stays JSON text until somebody needs it."""

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
    body: msgspec.Raw

    @property
    def order(self) -> tuple[int, int, str, int, int]:
        """As ``Stamped.order``."""
        return (self.wall, self.logical, self.node, self.incarnation, self.seq)


DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What it may raise to decode JSON that somebody has damaged, or nested without end."""

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Line)


def encode_line(event: Stamped) -> bytes:
    """The line of an event, its newline included."""
    return (
        _ENCODER.encode(
            _Written(
                event.run,
                event.node,
                event.incarnation,
                event.seq,
                event.wall,
                event.logical,
                event.type,
                event.tp,
                event.cause,
                event.req,
                event.body,
            )
        )
        + b"\n"
    )


def decode_line(line: bytes) -> Line:
    """Inverse of ``encode_line``, with or without the newline. Raises one of ``DAMAGE``."""
    return _DECODER.decode(line)
