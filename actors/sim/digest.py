"""Digests by which two runs are compared: one over the whole trace, and one per step so that the first difference
can be named."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from actors.node.codec import decode, encode
from actors.node.effects import AnyEffect
from actors.node.events import AnyEvent
from actors.trace.events import Stamped
from actors.trace.journal import frame, unframe

_CHUNK = 1 << 16


class TraceDigest:
    """A rolling digest of the stamped trace. The run's id is no part of it, everything else is."""

    __slots__ = ("_buffer", "_encode_into", "_hash")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._buffer = bytearray()
        self._encode_into = msgspec.msgpack.Encoder().encode_into

    def add(self, event: Stamped) -> None:
        """Take the next event of the trace."""
        buffer = self._buffer
        self._encode_into(
            (
                event.node,
                event.incarnation,
                event.seq,
                event.wall,
                event.logical,
                event.cause,
                event.req,
                event.body,
            ),
            buffer,
            -1,
        )
        if len(buffer) > _CHUNK:
            self._hash.update(buffer)
            buffer.clear()

    def hexdigest(self) -> str:
        """The digest so far."""
        self._hash.update(self._buffer)
        self._buffer.clear()
        return self._hash.hexdigest()


class StepDifference(msgspec.Struct, frozen=True):
    """Where two runs first differ. ``step``: number of the step in the run, from 0; ``node``, ``node_step`` (counted
    over its incarnations) and ``now_us``: of that step, per run; None where a run had ended."""

    step: int
    first: tuple[str, int, int] | None
    second: tuple[str, int, int] | None

    def __str__(self) -> str:
        return f"step {self.step}: {_where(self.first)} in one run, {_where(self.second)} in the other"


class _Encoded(msgspec.Struct, array_like=True):
    nodes: list[str]
    who: bytes
    when: bytes
    digests: bytes


class StepDigests:
    """The digest of every step (time, node, event, effects) of a run, 8 bytes each."""

    __slots__ = ("_digests", "_index", "_when", "_who", "nodes")

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = list(nodes)
        self._index = {name: number for number, name in enumerate(self.nodes)}
        self._who = array("H")
        self._when = array("Q")
        self._digests = bytearray()

    def __len__(self) -> int:
        return len(self._who)

    def add(self, node: str, now_us: int, event: AnyEvent, effects: Sequence[AnyEffect]) -> None:
        """Take the next step."""
        self._who.append(self._index[node])
        self._when.append(now_us)
        self._digests += blake2b(encode((event, effects)), digest_size=8).digest()

    def first_difference(self, other: StepDigests) -> StepDifference | None:
        """The first step in which two runs differ, or None."""
        for step in range(max(len(self), len(other))):
            if self._step(step) != other._step(step):
                return StepDifference(step, self._describe(step), other._describe(step))
        return None

    def _step(self, step: int) -> tuple[str, int, bytes] | None:
        if step >= len(self):
            return None
        return self.nodes[self._who[step]], self._when[step], bytes(self._digests[step * 8 : step * 8 + 8])

    def _describe(self, step: int) -> tuple[str, int, int] | None:
        if step >= len(self):
            return None
        who = self._who[step]
        return self.nodes[who], self._who[:step].count(who), self._when[step]

    def to_bytes(self) -> bytes:
        """For keeping with a run."""
        return frame(encode(_Encoded(self.nodes, _portable(self._who), _portable(self._when), bytes(self._digests))))

    @classmethod
    def from_bytes(cls, data: bytes) -> StepDigests:
        """Inverse of ``to_bytes``. Raises ValueError for anything else (msgspec.DecodeError is one)."""
        payloads, size = unframe(data)
        if len(payloads) != 1 or size != len(data):
            raise ValueError("damaged, or cut short")
        encoded: _Encoded = decode(payloads[0], _Encoded)
        digests = cls(encoded.nodes)
        digests._who = _native("H", encoded.who)
        digests._when = _native("Q", encoded.when)
        digests._digests = bytearray(encoded.digests)
        return digests


def _portable(numbers: array[int]) -> bytes:
    copy = numbers[:]
    if _BIG_ENDIAN:
        copy.byteswap()
    return copy.tobytes()


def _native(kind: Any, data: bytes) -> array[int]:
    numbers: array[int] = array(kind, data)
    if _BIG_ENDIAN:
        numbers.byteswap()
    return numbers


_BIG_ENDIAN = array("H", [1]).tobytes() == b"\x00\x01"


def _where(step: tuple[str, int, int] | None) -> str:
    return "nothing more" if step is None else f"{step[0]}'s step {step[1]} at {step[2]} us"
