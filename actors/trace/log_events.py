"""Trace events of a replica's log."""

from __future__ import annotations

from typing import Literal

from actors.trace.event_parts import TraceEvent


class LogAppend(TraceEvent, frozen=True, tag="log.append"):
    """A batch was appended to a replica. ``batch_epoch``: leader epoch of the batch; ``leader_epoch``: epoch in
    which this replica appends it. ``ph``: prefix hash at ``last`` + 1. ``uids``: of the records, in order;
    ``timestamps``: likewise, by the leader alone, and not of the metadata log. ``transactional``: of a transaction, as
    its markers are: ``marker``: how that ended, "" it is none; ``coordinator_epoch``: of whoever decided so. ``size``:
    in bytes, as limits of segments count it, 0 not told."""

    tp: str
    role: Literal["leader", "follower"]
    base: int
    last: int
    batch_epoch: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    control: bool
    uids: list[str]
    timestamps: list[int] = []
    ph: int | None = None
    transactional: bool = False
    marker: Literal["", "commit", "abort"] = ""
    coordinator_epoch: int = -1
    size: int = 0


class LogFlush(TraceEvent, frozen=True, tag="log.flush"):
    """Everything below ``end`` of this replica survives power loss."""

    tp: str
    end: int


class LogTrunc(TraceEvent, frozen=True, tag="log.trunc"):
    """A replica cut its log from ``was`` to ``to``. ``ph``: prefix hash at ``to``. last-stable-offset: it is about to
    lead, was elected uncleanly, and keeps what is stable (``kafka-7408``)."""

    tp: str
    was: int
    to: int
    reason: Literal["diverge", "high-watermark", "out-of-range", "recovery", "last-stable-offset"]
    leader_epoch: int
    ph: int | None = None


class LogRoll(TraceEvent, frozen=True, tag="log.roll"):
    """A replica's log has a new active segment, which begins at ``base``; or an empty one that a process found when it
    recovered the log, as the one before may have ended before it could say so."""

    tp: str
    base: int


class LogDrop(TraceEvent, frozen=True, tag="log.drop"):
    """A replica removes the files of all segments that end at or below ``base``, with which what it has on its disk
    begins from now on."""

    tp: str
    base: int


class LogStart(TraceEvent, frozen=True, omit_defaults=True, tag="log.start"):
    """A replica's log begins at ``new`` from now on.

    Of the metadata log: snapshot: a snapshot that ends there took the place of the whole log, which is empty now;
    retention: what a snapshot that ends there stands for was dropped. Of other logs: retention-ms, retention-bytes:
    segments were too old, or too many; delete-records: a client asked for it; leader: so does the leader's; remote: a
    new leader of a tiered log has looked where it begins in remote storage, be it where it did;
    out-of-range, truncation: it is empty now, as the leader's log begins behind its end, or parts from it before its
    beginning; load: where a process that starts has it, unless that is 0.

    ``ph``: prefix hash at ``new``, None where that is no batch boundary, or it is not known; ``epoch``: of the last
    record below it, likewise -1. ``high_watermark``: of this replica."""

    tp: str
    new: int
    reason: Literal[
        "snapshot",
        "retention",
        "retention-ms",
        "retention-bytes",
        "delete-records",
        "leader",
        "remote",
        "out-of-range",
        "truncation",
        "load",
    ]
    epoch: int
    ph: int | None = None
    high_watermark: int = -1


class LogLocalStart(TraceEvent, frozen=True, omit_defaults=True, tag="log.local-start"):
    """A replica's own part of a tiered log begins at ``new`` from now on, above ``log_start``: remote storage alone has
    what is between. retention-ms, retention-bytes: copied segments were too old, or too many; load: so a process that
    starts has it; remote: a follower gave up all that it had, and begins behind a copy, as its leader has nothing
    before. ``high_watermark``: of this replica. remote: ``epoch``, of the last record below, ``ph``, the prefix hash
    there, and ``epochs``, where each leader epoch begins, as remote storage has them."""

    tp: str
    new: int
    reason: Literal["retention-ms", "retention-bytes", "load", "remote"]
    log_start: int
    high_watermark: int = -1
    epoch: int = -1
    ph: int | None = None
    epochs: dict[str, int] = {}


class LogHw(TraceEvent, frozen=True, tag="log.hw"):
    """A replica's high watermark changed. ``counted``: replica ids whose log ends the leader took the minimum
    (or the majority) of. ``log_end``, ``log_start``: of this replica, at this moment."""

    tp: str
    role: Literal["leader", "follower"]
    leader_epoch: int
    new: int
    log_end: int
    log_start: int
    counted: list[int] = []
    ph: int | None = None


LogEvent = LogAppend | LogFlush | LogTrunc | LogRoll | LogDrop | LogStart | LogLocalStart | LogHw
