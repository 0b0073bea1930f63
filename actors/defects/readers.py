"""The defects of brokers that look offsets up in remote storage (KIP-1075)."""

from __future__ import annotations

from actors.defects.defect import Defect

_WHERE = "actors.broker"
_NEMESIS = "tiers"

READER_DEFECTS: tuple[Defect, ...] = (
    Defect(
        "expiry-answers-some",
        _WHERE,
        "R1",
        "A ListOffsets is answered at its timeout without the partitions whose look-up has not ended.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "rejected-unanswered",
        _WHERE,
        "R1",
        "A partition whose look-up was rejected is missing from the answer.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "lookup-ignores-timeout",
        _WHERE,
        "R2",
        "A broker uses its own setting as the timeout of a ListOffsets, whatever the TimeoutMs of the request.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "time-limit-untold",
        "actors.client",
        "R2",
        "A client does not tell for how long its ListOffsets may wait.",
        "KIP-1075",
        nemesis=_NEMESIS,
    ),
    Defect(
        "lookup-timeout-of-start",
        _WHERE,
        "R2",
        "A new remote.list.offsets.request.timeout.ms has no effect until the broker starts again.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "expiry-drops-finished",
        _WHERE,
        "R2",
        "At the timeout of a ListOffsets, finished look-ups are answered with REQUEST_TIMED_OUT like the others.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "expiry-leaves-reads",
        _WHERE,
        "R3",
        "Look-ups continue after the timeout of their ListOffsets.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "loss-leaves-reads",
        _WHERE,
        "R3",
        "A look-up in a partition that the broker no longer leads is not cancelled.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "reader-uninterrupted",
        _WHERE,
        "R3",
        "A look-up occupies its thread until the store answers, even if its request has expired.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "reader-queue-unbounded",
        _WHERE,
        "R4",
        "The queue of the reader pool has no limit.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "reader-threads-of-start",
        _WHERE,
        "R4",
        "A new number of reader threads has no effect until the broker starts again.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "full-queue-waits",
        _WHERE,
        "R4",
        "A partition whose look-up was rejected waits until the timeout of its request.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "lookup-holds-handler",
        _WHERE,
        "R5",
        "A ListOffsets occupies a request handler while it waits for remote storage.",
        "KAFKA-15859",
        nemesis=_NEMESIS,
    ),
    Defect(
        "reader-last-come-first",
        _WHERE,
        "R6",
        "A free thread takes the read that arrived last.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "remote-skipped",
        _WHERE,
        "R7",
        "Look-ups by timestamp search the local log alone.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "unknown-maximum-is-local",
        _WHERE,
        "R7",
        "In the KIP's draft, a broker that does not know the greatest timestamp in remote storage searches its local "
        "log alone.",
        nemesis=_NEMESIS,
        settings=("features.kip-1075=draft",),
    ),
    Defect(
        "lookup-outlives-leadership",
        _WHERE,
        "R8",
        "A broker that stops leading a partition does not end the look-ups in it.",
        "KAFKA-15859",
        nemesis=_NEMESIS,
    ),
    Defect(
        "late-answer-unlimited",
        _WHERE,
        "R9",
        "A late answer is limited by the log as of the answer, not as of the request's arrival.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "late-answer-unrefused",
        _WHERE,
        "R9",
        "A ListOffsets that waits for remote storage forgets the refusal of KIP-207.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "lookup-first-record",
        _WHERE,
        "H4",
        "A look-up in remote storage returns the first record of the right batch, which may be too early.",
        nemesis=_NEMESIS,
    ),
)
