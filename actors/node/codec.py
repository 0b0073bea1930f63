"""Encoding of node state, events and effects: msgpack through msgspec, messages as arrays under the number of their
class (``tag`` in the generated modules).

Used for snapshots, journals and digests. Decoding is typed; nothing is evaluated.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_ENCODER = msgspec.msgpack.Encoder()
_DECODERS: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def encode(value: object) -> bytes:
    """Encode plain data (Structs, builtins). Dict order is kept as it is."""
    return _ENCODER.encode(value)


def decode(data: bytes, kind: type[T] | Any) -> T:
    """Decode what ``encode`` wrote as ``kind``. Raises msgspec.ValidationError or DecodeError on other data."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = msgspec.msgpack.Decoder(kind)
        _DECODERS[kind] = decoder
    result: T = decoder.decode(data)
    return result
