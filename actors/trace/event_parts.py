"""What the trace events of ``actors.trace.events`` are made of."""

from __future__ import annotations

import msgspec


class TraceEvent(msgspec.Struct, frozen=True, tag_field="type", gc=False):
    """Base of all bodies; the tag is the event's type. ``gc=False``, here and elsewhere: a run makes millions of these,
    they can be in no reference cycle, and the collector need not look at them."""


class ReplyPartition(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a server told about one partition in a Produce or ListOffsets answer, and what it knew then.

    ``offset``: Produce: base offset; ListOffsets: the offset told (-1 none). ``last_offset``: Produce only.
    ``timestamp``: ListOffsets: the timestamp that was asked for (-1 LATEST, -2 EARLIEST, ...), not the one told.
    ``leader_epoch``, ``high_watermark``, ``leader_epoch_start``, ``log_end``: of the server's replica, -1 where
    it hosts none. ``isr``: size of the maximal ISR; ``committed_isr``: of the ISR as the leader has it from the
    controller. All as they were when this partition's part of the answer was decided.
    ``asked_epoch``: ListOffsets: leader epoch in which the client took the partition to be, -1 none.
    ``producer_id``, ``producer_epoch``, ``base_sequence``, ``last_sequence``: of a batch that was refused for its place
    in the sequence.
    ``appended_isr``, ``append_min_isr``: Produce with acks=all: as ``committed_isr`` and ``min_isr``, when the broker
    appended the batch, or knew it again; 0 where it did neither.
    ``found_timestamp``, ``found_epoch``: ListOffsets: timestamp, and leader epoch, that the answer has with the offset.
    ``limit``: ListOffsets that remote storage had a part in: how far whoever asks could read when it asked, else -1.
    """

    tp: str
    error: int
    offset: int = -1
    last_offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    leader_epoch_start: int = -1
    log_end: int = -1
    isr: int = 0
    min_isr: int = 0
    asked_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    last_sequence: int = -1
    committed_isr: int = 0
    found_timestamp: int = -1
    found_epoch: int = -1
    appended_isr: int = 0
    append_min_isr: int = 0
    limit: int = -1


class Lag(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a follower is behind its leader: its ``log_end`` and the leader's (-1: it has not fetched from this one),
    and for how many milliseconds it has not fetched (-1: never from this one), and has not had all that the leader
    had."""

    log_end: int
    leader_end: int
    silent_ms: int
    behind_ms: int


class Polled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A record as a consumer got it. ``leader_epoch``: of its batch; ``digest``: of its payload, as in
    ``send.invoke``."""

    offset: int
    leader_epoch: int
    uid: str
    digest: int | None = None


class Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A snapshot of the metadata log that a member has. end: of what it stands for. size: of it, in bytes. last_ms:
    timestamp of the last record that it stands for. below: bytes of the log that are there still, and below its end."""

    end: int
    size: int
    last_ms: int
    below: int


class Waited(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A Fetch of the metadata log that waited at a leader. follower: who fetches, -1 a client. epoch: the quorum epoch
    in which the leader led when it came. offset, known: where the follower's log ended, and the high watermark that it
    knew, as in the request (2^63 - 1: it does not ask for a newer one). end, told: up to where the leader had records
    for it when it came (``offset`` none), and the high watermark that it would have told then (-1 none)."""

    follower: int
    epoch: int
    offset: int
    known: int
    end: int
    told: int
