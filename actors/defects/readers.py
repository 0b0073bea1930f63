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
        "When the time of a ListOffsets is over, its answer has only the partitions that were looked up.",
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
        "A ListOffsets waits as long as the broker's setting says, whatever its TimeoutMs.",
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
        "When the time of a ListOffsets is over, partitions that were looked up are timed out with the others.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "expiry-leaves-reads",
        _WHERE,
        "R3",
        "When the time of a ListOffsets is over, its look-ups go on.",
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
        "A look-up whose request has expired keeps its thread until the store answers.",
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
        "full-queue-waits",
        _WHERE,
        "R4",
        "A partition whose look-up was rejected waits until its request's time is over.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "lookup-holds-handler",
        _WHERE,
        "R5",
        "A ListOffsets keeps its request handler while remote storage is asked.",
        "KAFKA-15859",
        nemesis=_NEMESIS,
    ),
    Defect(
        "reader-last-come-first",
        _WHERE,
        "R6",
        "A free thread takes the read that came last.",
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
        "In the draft, a broker that knows no greatest timestamp of remote storage searches the local log alone.",
        nemesis=_NEMESIS,
        settings=("features.kip-1075=draft",),
    ),
    Defect(
        "lookup-outlives-leadership",
        _WHERE,
        "R8",
        "A broker that stops leading a partition does not wake who waits for a look-up in it.",
        "KAFKA-15859",
        nemesis=_NEMESIS,
    ),
    Defect(
        "late-answer-unlimited",
        _WHERE,
        "R9",
        "A late answer goes as far as the log does when it is given.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "late-answer-unrefused",
        _WHERE,
        "R9",
        "KIP-207's refusal is forgotten while remote storage is asked.",
        nemesis=_NEMESIS,
    ),
    Defect(
        "lookup-first-record",
        _WHERE,
        "H4",
        "A look-up in remote storage returns the first record of the batch that has one as late.",
        nemesis=_NEMESIS,
    ),
)
