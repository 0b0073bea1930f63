"""How many of the records that a replica drops, or its disk loses, had been committed, as far as a story can know that
from a few numbers of each partition."""

from __future__ import annotations

from actors.trace.events import LogAppend, LogHw, LogTrunc, PartChange

TOLD = ("diverge", "out-of-range", "last-stable-offset")
"""Reasons of truncations by which a replica gives up what the leader does not have; other records it fetches again."""


class Commits:
    """The highest high watermark of each leader epoch, and the epoch of each replica's last record."""

    def __init__(self) -> None:
        self._marks: dict[str, dict[int, int]] = {}
        self._epochs: dict[tuple[str, str], int] = {}
        self._ends: dict[tuple[str, str], int] = {}
        self._unclean: dict[str, list[int]] = {}
        """Partition -> leader epochs that began with an unclean election."""

    def appended(self, node: str, body: LogAppend) -> None:
        """A replica has more records."""
        self._epochs[node, body.tp] = body.batch_epoch
        self._ends[node, body.tp] = body.last + 1

    def has_had(self, tp: str) -> bool:
        """Whether some replica of a partition has had a record."""
        return any(each == tp for _, each in self._epochs)

    def moved(self, body: LogHw) -> None:
        """A leader committed records, or a follower heard of that."""
        if body.role == "leader":
            marks = self._marks.setdefault(body.tp, {})
            marks[body.leader_epoch] = max(marks.get(body.leader_epoch, 0), body.new)

    def unclean(self, body: PartChange) -> None:
        """What was committed before and the new leader lacks is no part of its log."""
        self._unclean.setdefault(body.tp, []).append(body.leader_epoch)

    def cut(self, node: str, body: LogTrunc) -> int | None:
        """How many of the records that a replica drops had been committed by the leaders whose log it had; None if that
        does not matter, as it fetches them again, or is not known."""
        self._ends[node, body.tp] = body.to
        return self._of(node, body.tp, body.was, body.to) if body.reason in TOLD else None

    def lost(self, node: str, tp: str, first: int) -> tuple[int, int | None]:
        """Where the log of a replica ended whose disk loses all from an offset on, and how many of those records had
        been committed; None if that is not known."""
        was = self._ends.get((node, tp), first)
        self._ends[node, tp] = min(was, first)
        return was, self._of(node, tp, was, first)

    def _of(self, node: str, tp: str, was: int, to: int) -> int | None:
        epoch = self._epochs.get((node, tp))
        if epoch is None:
            return None
        since = max((each for each in self._unclean.get(tp, ()) if each <= epoch), default=0)
        marks = self._marks.get(tp, {})
        committed = max((mark for each, mark in marks.items() if since <= each <= epoch), default=0)
        return max(0, min(committed, was) - to)
