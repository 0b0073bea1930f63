"""What the folds of a key know, as bytes and back: for an engine that puts them aside between two looks at a trace.

The bytes are MessagePack, read with the very types of the states, so that a file which somebody else wrote can hold
wrong values but nothing that runs. ``LAYOUT`` tells whether this version of the states is the one that wrote them.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from orchestrator.invariants.folds.conclusion import KeyResult
from orchestrator.invariants.folds.fold import Deadline, Fold, Profile
from orchestrator.invariants.folds.mirror_fold import MirrorState
from orchestrator.invariants.registry import folds

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.decode
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class SavedCell(msgspec.Struct, array_like=True):
    """One fold at one key. state: as of ``save_state``."""

    fold: str
    state: bytes
    results: list[KeyResult]
    deadlines: list[Deadline]


class SavedGroup(msgspec.Struct, array_like=True):
    """The folds of one route at one key. heard: how much of the run's news they have come to."""

    heard: int
    cells: list[SavedCell]


def save_state(state: msgspec.Struct) -> bytes:
    """A fold's state as bytes."""
    return _encode(state)


def load_state(saved: bytes, fold: Fold[Any], key: str, profile: Profile) -> Any:
    """Inverse of ``save_state`` for a state of a fold. Raises msgspec.DecodeError or ValidationError."""
    like = fold.initial(key, profile)
    if type(like) is not MirrorState:
        return _decode(saved, type=type(like))
    fields = _decode(saved, type=dict[str, msgspec.Raw])
    parts = _decode(fields["parts"], type=list[msgspec.Raw])
    return MirrorState(
        _decode(fields["mirror"], type=type(like.mirror)),
        [_decode(part, type=type(each)) for part, each in zip(parts, like.parts, strict=True)],
    )


def layout() -> str:
    """A name for the types of all states, with all that is in them: another one if any of them changes. Factories of
    defaults are functions, whose addresses are another process' every time."""
    digest = hashlib.sha256()
    for fold in folds():
        state = fold.initial("topic-0", Profile())
        whole = [type(state)] if type(state) is not MirrorState else [type(state.mirror), *map(type, state.parts)]
        for kind in whole:
            told = _ADDRESS.sub("", repr(msgspec.inspect.type_info(kind)))
            digest.update(f"{fold.name} {told}\n".encode())
    return digest.hexdigest()[:16]
