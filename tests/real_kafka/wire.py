"""Kafka's protocol over a socket: kio encodes the messages, the batches of records are written here."""

from __future__ import annotations

import dataclasses
import datetime
import io
import socket
import struct
import sys
import time
import typing
from functools import cache
from typing import Any

from tests.real_kafka.cluster import Batch, Closed, Fields

PATIENCE_S = 60.0
ZERO: dict[str, Any] = {"bool": False, "string": "", "uuid": None}


@cache
def _keys() -> dict[str, int]:
    from kio.schema.index import api_key_map

    return {"".join(word.capitalize() for word in name.split("_")): key for key, name in api_key_map.items()}


@cache
def _entity(api: str, version: int, kind: str) -> Any:
    """kio's class of a request or a response."""
    from kio.index import load_payload_module
    from kio.static.constants import EntityType

    module = load_payload_module(_keys()[api], version, EntityType[kind])
    found = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__ and each.__name__.endswith(kind.capitalize())
    ]
    return next(each for each in found if getattr(each, "__type__", None) is EntityType[kind])


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, vars(sys.modules[kind.__module__]))


def _nested(hint: Any) -> Any:
    """The message within ``tuple[Message, ...] | None``, if there is one."""
    for each in typing.get_args(hint):
        found = each if dataclasses.is_dataclass(each) else _nested(each)
        if found is not None:
            return found
    return hint if dataclasses.is_dataclass(hint) else None


def _build(kind: Any, fields: Fields) -> Any:
    """A message from plain data; what is not given is its default, or nothing."""
    left = dict(fields)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        kafka_type = field.metadata.get("kafka_type") or ""
        name = f"{field.name}_ms" if kafka_type.startswith("timedelta") else field.name
        if name in left:
            values[field.name] = _value(left.pop(name), kafka_type, _nested(_hints(kind)[field.name]))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            values[field.name] = ZERO.get(kafka_type, 0 if kafka_type.startswith("int") else ())
    assert not left, f"{kind.__name__} has no {', '.join(left)}"
    return kind(**values)


def _value(value: Any, kafka_type: str, nested: Any) -> Any:
    if kafka_type == "records":
        return encode_batches(value)
    if kafka_type.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if isinstance(value, list):
        return tuple(_build(nested, each) if isinstance(each, dict) else each for each in value)
    return _build(nested, value) if isinstance(value, dict) else value


def _bytes_of(message: Any) -> bytes:
    from kio.serial import entity_writer

    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


class WirePending:
    """A request that was sent on a connection, and is answered in its turn."""

    def __init__(self, connection: WireConnection, response: Any) -> None:
        self.connection, self.response = connection, response

    def get(self) -> Any:
        """Read answers up to this one."""
        while self not in self.connection.answers:
            self.connection.read_next()
        return self.connection.answers.pop(self)


class WireConnection:
    """One socket."""

    def __init__(self, port: int) -> None:
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        except OSError:
            raise Closed from None
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.count = 0
        self.waiting: list[WirePending] = []
        self.answers: dict[WirePending, Any] = {}

    def send(self, api: str, version: int, fields: Fields) -> WirePending:
        """See Connection."""
        request = _entity(api, version, "request")
        self.count += 1
        header = {"request_api_key": _keys()[api], "request_api_version": version, "correlation_id": self.count}
        body = _bytes_of(_build(request.__header_schema__, header | {"client_id": "script"}))
        self._write(body + _bytes_of(_build(request, fields)))
        pending = WirePending(self, _entity(api, version, "response"))
        self.waiting.append(pending)
        return pending

    def read_next(self) -> None:
        """Take the next answer."""
        from kio.serial import entity_reader

        raw = self._read_frame()
        pending = self.waiting.pop(0)
        _, used = entity_reader(pending.response.__header_schema__)(raw, 0)
        self.answers[pending], _ = entity_reader(pending.response)(raw, used)

    def unsupported(self, api: str, version: int) -> str:
        """Ask in a version that nobody knows; the answer is in the layout of ApiVersions 0."""
        self._write(struct.pack(">hhih", _keys()[api], version, 1, 1) + b"x" + bytes(30))
        code, apis = struct.unpack_from(">hi", self._read_frame(), 4)
        return f"error={code} apis={apis}"

    def _write(self, body: bytes) -> None:
        try:
            self.socket.sendall(struct.pack(">i", len(body)) + body)
        except OSError:
            raise Closed from None

    def _read_frame(self) -> bytes:
        return self._read(struct.unpack(">i", self._read(4))[0])

    def _read(self, size: int) -> bytes:
        out = b""
        while len(out) < size:
            try:
                piece = self.socket.recv(size - len(out))
            except OSError:
                raise Closed from None
            if not piece:
                raise Closed
            out += piece
        return out


# ---- records ---------------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    left = number << 1 ^ number >> 63
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def _encode(batch: Batch) -> bytes:
    """A batch of version 2 (``DefaultRecordBatch.java``)."""
    import crc32c

    now_ms = int(time.time() * 1000)
    stamps = [batch.timestamp(index, now_ms) for index in range(len(batch.values))]
    records = b""
    for index, value in enumerate(batch.values):
        body = b"\0" + _varint(stamps[index] - stamps[0]) + _varint(index) + _varint(-1)
        body += _varint(len(value)) + value + _varint(0)
        records += _varint(len(body)) + body
    count, attributes = len(batch.values), 32 if batch.is_control else 0
    producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    tail = struct.pack(">hiqqqhii", attributes, count - 1, stamps[0], max(stamps), *producer, count) + records
    checked = struct.pack(">ibI", -1, 2, crc32c.crc32c(tail) ^ batch.corrupt) + tail
    return struct.pack(">qi", batch.base_offset, len(checked)) + checked


def encode_batches(batches: Batch | list[Batch] | None) -> bytes:
    """What stands in a Produce."""
    if batches is None:
        return b""
    return b"".join(_encode(batch) for batch in (batches if isinstance(batches, list) else [batches]))
