"""The journal of a live node: every input of every step with its outputs, so that the steps can be taken again.

A segment is one file: a header, then one entry a step. Each lies on disk as a frame: 4 bytes length, 4 bytes CRC-32
of the content (both big endian), content. A process that is killed tears at most the last frame, which ``read_segment``
drops and counts; anything else behind the whole frames is damage, and refused. The first segment of an incarnation
begins with the step of Started; a later one begins with a snapshot of the node's state, so that older segments can be
thrown away.

These functions are pure; the live runtime does the writing. An entry is encoded before its effects are carried out.
A runtime's stamps are in no message of a node's: these may still be in the node's state, and a snapshot must be what
replay arrives at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from zlib import crc32

import msgspec

from actors.node.codec import decode, encode
from actors.node.effects import AnyEffect
from actors.node.events import AnyEvent
from actors.node.spec import Role
from actors.trace.lines import DAMAGE

FORMAT_VERSION = 2

_FRAME = struct.Struct(">II")
_USUAL_BYTES_MAX = 1 << 16


class JournalHeader(msgspec.Struct, frozen=True):
    """First frame of a segment. ``first_step``: number (from 0) of its first entry within the incarnation.
    ``snapshot``: the node's state before that step, by ``actors.node.codec``; None before Started."""

    format: int
    run: str
    node: str
    role: Role
    incarnation: int
    first_step: int
    snapshot: bytes | None


class JournalEntry(msgspec.Struct, frozen=True, array_like=True):
    """One step as it is read. ``now_ms`` is the time the node was shown. The effects stay as they were encoded:
    replay compares bytes, and decodes only what it has to show."""

    now_ms: int
    event: AnyEvent
    effects: list[msgspec.Raw]


class Segment(msgspec.Struct, frozen=True):
    """A segment as it is read. ``torn``: whether something after the last whole frame was dropped."""

    header: JournalHeader
    entries: list[JournalEntry]
    torn: bool


class JournalError(ValueError):
    """The data is no journal segment, is damaged, or of a format that this version does not read."""


class JournalNotBegun(JournalError):
    """The process was killed before it had written the header of this segment."""


def encode_header(header: JournalHeader) -> bytes:
    """The frame that a segment begins with."""
    return frame(encode(header))


def encode_entry(now_ms: int, event: AnyEvent, effects: Sequence[AnyEffect]) -> bytes:
    """The frame of one step."""
    return frame(encode((now_ms, event, effects)))


def read_segment(data: bytes) -> Segment:
    """A segment from the bytes of its file. Raises JournalError."""
    payloads, size = unframe(data)
    if not _is_torn(data, size):
        raise JournalError(f"damaged at byte {size} of {len(data)}: this is no write that a kill cut short")
    if not payloads:
        raise JournalNotBegun("no whole frame in the journal segment")
    try:
        header: JournalHeader = decode(payloads[0], JournalHeader)
    except DAMAGE as error:
        raise JournalError(f"the first frame is no header: {error}") from error
    if header.format != FORMAT_VERSION:
        raise JournalError(f"journal format {header.format}, this version reads {FORMAT_VERSION}")
    try:
        entries: list[JournalEntry] = [decode(payload, JournalEntry) for payload in payloads[1:]]
    except DAMAGE as error:
        raise JournalError(f"an entry of {header.node} cannot be read: {error}") from error
    return Segment(header, entries, size < len(data))


def _is_torn(data: bytes, position: int) -> bool:
    """Whether what follows the whole frames is the beginning of one more (or nothing), as a kill leaves it, and not a
    frame with a wrong checksum or with more frames behind it."""
    rest = len(data) - position
    if rest >= _FRAME.size and _FRAME.unpack_from(data, position)[0] <= rest - _FRAME.size:
        return False
    return not any(_has_frame(data, start) for start in range(position + 1, len(data) - _FRAME.size))


def _has_frame(data: bytes, position: int) -> bool:
    """Whether a whole frame lies here; one larger than is usual is not looked for."""
    length, checksum = map(int, _FRAME.unpack_from(data, position))
    begin = position + _FRAME.size
    return 0 < length <= min(_USUAL_BYTES_MAX, len(data) - begin) and crc32(data[begin : begin + length]) == checksum


def in_order(segments: Iterable[Segment]) -> list[Segment]:
    """The segments of one incarnation by their first step."""
    return sorted(segments, key=lambda segment: segment.header.first_step)


def frame(payload: bytes) -> bytes:
    """``payload`` with its length and checksum in front."""
    return _FRAME.pack(len(payload), crc32(payload)) + payload


def unframe(data: bytes) -> tuple[list[bytes], int]:
    """The whole frames at the beginning of ``data``, and how many bytes they take."""
    payloads: list[bytes] = []
    position = 0
    while position + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, position)
        payload = data[position + _FRAME.size : position + _FRAME.size + length]
        if len(payload) < length or crc32(payload) != checksum:
            break
        payloads.append(payload)
        position += _FRAME.size + length
    return payloads, position
