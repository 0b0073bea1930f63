"""Encoding of node state, events and effects: msgpack through msgspec, protobuf messages embedded.

Used for snapshots, journals and digests. Decoding is typed; nothing is evaluated.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from google.protobuf.message import Message

from actors.node.messages import MESSAGE_CODES, MESSAGES_BY_CODE

T = TypeVar("T")


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Message):
        code = MESSAGE_CODES[type(value)]
        return msgspec.msgpack.Ext(code, value.SerializeToString(deterministic=True))
    raise TypeError(f"cannot encode {type(value).__name__}")


def _ext_hook(code: int, data: memoryview) -> Any:
    return MESSAGES_BY_CODE[code].FromString(bytes(data))


def _decode_hook(expected: type[Any], value: Any) -> Any:
    if isinstance(value, expected):
        return value
    raise TypeError(f"expected {expected.__name__}, found {type(value).__name__}")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode_hook)
_DECODERS: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def encode(value: object) -> bytes:
    """Encode plain data (Structs, builtins, protobuf messages). Dict order is kept as it is."""
    return _ENCODER.encode(value)


def decode(data: bytes, kind: type[T] | Any) -> T:
    """Decode what ``encode`` wrote as ``kind``. Raises msgspec.ValidationError or DecodeError on other data."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = msgspec.msgpack.Decoder(kind, dec_hook=_decode_hook, ext_hook=_ext_hook)
        _DECODERS[kind] = decoder
    result: T = decoder.decode(data)
    return result
