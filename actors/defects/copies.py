"""The defects of brokers that copy segments to remote storage, and delete them there."""

from __future__ import annotations

from actors.defects.defect import Defect

WHERE = "actors.broker.remote_log"

COPY_DEFECTS: tuple[Defect, ...] = (
    Defect(
        "copies-uncommitted",
        WHERE,
        "R10",
        "A leader copies full segments up to its log end, committed or not.",
        nemesis="tiers",
    ),
    Defect(
        "copies-newest-first",
        WHERE,
        "R10",
        "A leader copies its newest full segment first.",
        nemesis="tiers",
    ),
    Defect(
        "copies-again-from-start",
        WHERE,
        "R10",
        "A new leader assumes that no segment is copied yet.",
        nemesis="tiers",
    ),
    Defect(
        "expired-start-untold",
        WHERE,
        "R10",
        "A leader deletes expired copies and does not move its log start.",
        nemesis="tiers",
    ),
    Defect(
        "copy-errors-ignored",
        WHERE,
        "R12",
        "A leader reports a copy as finished, whatever the store answered.",
        nemesis="tiers",
    ),
    Defect(
        "half-copies-stay",
        WHERE,
        "R12",
        "A leader leaves the stored objects of a failed copy in the store.",
        "KAFKA-17062",
        nemesis="tiers",
    ),
    Defect(
        "copies-untold",
        WHERE,
        "R12",
        "A leader copies a segment before any metadata record names the copy.",
        nemesis="tiers",
    ),
    Defect(
        "deletes-metadata-alone",
        WHERE,
        "R12",
        "A leader reports a copy as deleted, and leaves its objects in the store.",
        nemesis="tiers",
    ),
    Defect(
        "copy-end-untold",
        WHERE,
        "R12",
        "A leader tells again that a copy begins, where it is to tell that it is finished.",
        nemesis="tiers",
    ),
    Defect(
        "deletion-end-untold",
        WHERE,
        "R12",
        "A leader publishes no metadata record when a copy is deleted.",
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
        "A leader answers OFFSET_OUT_OF_RANGE to a follower whose next record is in remote storage alone.",
        nemesis="tiers",
    ),
    Defect(
        "follower-forgets-epochs",
        "actors.broker",
        "R11",
        "A follower that starts its local log after a copy does not take over the copy's leader epochs.",
        nemesis="tiers",
    ),
    Defect(
        "follower-forgets-log-start",
        "actors.broker",
        "P22",
        "A follower that starts its local log after a copy takes that offset for its log start, too.",
        nemesis="tiers",
    ),
    Defect(
        "log-start-unfound",
        WHERE,
        "R11",
        "A new leader does not look for its log start in remote storage.",
        "KAFKA-15351",
        nemesis="tiers",
    ),
    Defect(
        "log-start-at-last-copy",
        WHERE,
        "P22",
        "A new leader that looks for its log start in remote storage takes the last copy for the first.",
        nemesis="tiers",
    ),
    Defect(
        "expired-copies-kept",
        WHERE,
        "R13",
        "A leader finds copies that need not be retained, and lets them be.",
        nemesis="tiers",
    ),
    Defect(
        "copies-go-by-local-limit",
        WHERE,
        "R13",
        "A leader deletes copies that are too old for local retention.",
        nemesis="tiers",
    ),
    Defect(
        "copy-is-as-old-as-first-record",
        WHERE,
        "R13",
        "A leader tells of a copy that it is as old as its oldest record.",
        nemesis="tiers",
    ),
    Defect(
        "copies-below-start-stay",
        WHERE,
        "R13",
        "A leader moves its log start past expired copies, and deletes none.",
        nemesis="tiers",
    ),
)
