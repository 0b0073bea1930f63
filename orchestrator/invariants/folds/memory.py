"""How much a state remembers, where nothing in the cluster says that it will not be asked for any more.

A state of a run of days must not be larger than one of minutes. What is older than any client, connection or election
that can still refer to it goes; whoever asks for it all the same gets "not known", which is never a violation. An
invariant that would judge such a thing says so under ``unseen``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

CHANGES_REMEMBERED = 64
"""Epochs, elections and restarts of one node or partition. A leader that has been replaced that often and goes on, or a
message that is that old, is a matter of days without a connection."""

CONNECTIONS_REMEMBERED = 256
"""Connections of a node: each pair has a handful at a time."""

OPEN_REMEMBERED = 4096
"""Operations that were begun, of which most have lost their client when there are so many."""

SESSIONS_REMEMBERED = 256
"""Processes of producers, and their producer ids."""

REPLACED_REMEMBERED = 4096
"""Records of a process of a producer that another one has replaced: those that may have been on their way then."""

IDS_UNSEEN = f"producers, or processes of theirs, that were idle while {SESSIONS_REMEMBERED} others sent"
"""Under ``unseen``."""

DELETED_REMEMBERED_US = 300_000_000
"""Records that were deleted so long ago: whoever read them has said so, and whoever asks for them is refused."""

DELETED_UNSEEN = f"records that were deleted more than {DELETED_REMEMBERED_US // 60_000_000} minutes ago"
"""Under ``unseen``."""

Key = TypeVar("Key")


def forget_first(known: dict[Any, Any], most: int) -> None:
    """Forget what came first, beyond so many."""
    if len(known) > most:
        for key in _first(known, len(known) - most):
            del known[key]


def forget_least(known: dict[int, Any], most: int) -> None:
    """Forget the lowest numbers, beyond so many."""
    if len(known) > most:
        for key in sorted(known)[: len(known) - most]:
            del known[key]


def touch(known: dict[Key, Any], key: Key, value: Any) -> None:
    """Set what is now the last that came."""
    known.pop(key, None)
    known[key] = value


def remember(known: dict[Key, Any], key: Key, value: Any, most: int) -> None:
    """Set what is now the last that came, and forget what came first, beyond so many."""
    touch(known, key, value)
    forget_first(known, most)


def _first(known: dict[Key, Any], number: int) -> list[Key]:
    keys: Iterator[Key] = iter(known)
    return [next(keys) for _ in range(number)]
