"""What a broker's delayed operations wait for, and in which order they look again when it happens
(``ReplicaManager.tryCompleteDelayedRequests``)."""

from __future__ import annotations

from actors.broker.turn import Turn

COMMITTED = "committed"
"""Appends wait for it: the high watermark moved, the ISR changed, or this broker won or lost the leadership."""
READABLE = "readable"
"""Consumers wait for it: the high watermark moved, or the leadership did."""
APPENDED = "appended"
"""Followers wait for it: the log grew, or the leadership moved."""
STARTED = "started"
"""DeleteRecords wait for it: a follower's log begins later, the high watermark moved, or the leadership did."""
REMOTE_OFFSETS = "remote-offsets"
"""ListOffsets that wait for remote storage: an offset was looked up, or the leadership moved."""


def committed(turn: Turn, tp: str) -> None:
    """Complete the appends to ``tp`` that can be."""
    key = (COMMITTED, tp)
    for connection in turn.purgatory.watching(key):
        completed = turn.purgatory.try_complete(turn, connection, key)
        if completed and "wake-one-produce" in turn.step.defects:
            return


def readable(turn: Turn, tp: str) -> None:
    """Complete the Fetches of consumers from ``tp`` that can be."""
    key = (READABLE, tp)
    for connection in turn.purgatory.watching(key):
        turn.purgatory.try_complete(turn, connection, key)
        if "wake-one-consumer" in turn.step.defects:
            return


def appended(turn: Turn, tp: str) -> None:
    """Complete the Fetches of followers from ``tp`` that can be."""
    key = (APPENDED, tp)
    waiting = turn.purgatory.watching(key)
    if "wake-in-hash-order" in turn.step.defects:
        waiting = list(set(waiting))
    for connection in waiting:
        turn.purgatory.try_complete(turn, connection, key)


def remote_offsets(turn: Turn, tp: str) -> None:
    """Complete the ListOffsets of ``tp`` that can be."""
    turn.purgatory.check(turn, (REMOTE_OFFSETS, tp))


def started(turn: Turn, tp: str) -> None:
    """Complete the DeleteRecords of ``tp`` that can be."""
    turn.purgatory.check(turn, (STARTED, tp))


def wake_all(turn: Turn, tp: str) -> None:
    """Everything that waits for ``tp`` looks again."""
    if "produces-outlive-leadership" not in turn.step.defects:
        committed(turn, tp)
    readable(turn, tp)
    appended(turn, tp)
    started(turn, tp)
    if "lookup-outlives-leadership" not in turn.step.defects:
        remote_offsets(turn, tp)
