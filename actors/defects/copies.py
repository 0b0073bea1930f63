"""The defects of brokers that copy segments to remote storage, and delete them there."""

from __future__ import annotations

from actors.defects.defect import Defect

WHERE = "actors.broker.remote_log"

COPY_DEFECTS: tuple[Defect, ...] = (
    Defect(
        "copies-uncommitted",
        WHERE,
        "R10",
        "A leader copies full segments up to its log end, whatever is committed.",
        nemesis="tiers",
    ),
    Defect(
        "copies-newest-first",
        WHERE,
        "R10",
        "A leader copies the segments of a run from the newest one on.",
        nemesis="tiers",
    ),
    Defect(
        "copies-again-from-start",
        WHERE,
        "R10",
        "A new leader takes nothing to be copied yet.",
        nemesis="tiers",
    ),
    Defect(
        "expired-start-untold",
        WHERE,
        "R10",
        "A leader deletes expired copies, and its log begins where it did.",
        nemesis="tiers",
    ),
    Defect(
        "copy-errors-ignored",
        WHERE,
        "R12",
        "A copy is told to be finished, whatever the store answered.",
        nemesis="tiers",
    ),
    Defect(
        "half-copies-stay",
        WHERE,
        "R12",
        "What was stored of a copy that failed is left there.",
        "KAFKA-17062",
        nemesis="tiers",
    ),
    Defect(
        "copies-untold",
        WHERE,
        "R12",
        "A leader copies a segment before any metadata tell of it.",
        nemesis="tiers",
    ),
    Defect(
        "deletes-metadata-alone",
        WHERE,
        "R12",
        "A copy is told to be deleted, and its objects stay in the store.",
        nemesis="tiers",
    ),
    Defect(
        "local-retention-uncopied",
        "actors.log",
        "R10",
        "Local retention of a tiered log deletes segments that are not copied yet.",
        nemesis="tiers",
    ),
    Defect(
        "moved-unsaid",
        "actors.broker",
        "P23",
        "A leader tells a follower whose next record is in remote storage alone that its position is out of range.",
        nemesis="tiers",
    ),
    Defect(
        "follower-forgets-epochs",
        "actors.broker",
        "R11",
        "A follower that begins behind a copy does not take over the leader epochs from before.",
        nemesis="tiers",
    ),
    Defect(
        "follower-forgets-log-start",
        "actors.broker",
        "P22",
        "A follower that begins behind a copy begins its log there, too.",
        nemesis="tiers",
    ),
    Defect(
        "log-start-unfound",
        WHERE,
        "R11",
        "A new leader does not look where the log begins in remote storage.",
        "KAFKA-15351",
        nemesis="tiers",
    ),
)
