"""The defects of a replica's log: offsets, recovery, what it knows of producers."""

from __future__ import annotations

from actors.defects.defect import Defect

LOG_DEFECTS: tuple[Defect, ...] = (
    Defect("follower-reorders-batch", "actors.log", "P3", "A follower appends the records of a batch in reverse."),
    Defect(
        "recovery-drops-last",
        "actors.log",
        "P12",
        "A broker that was not shut down cleanly drops the last batch of each log, though it can be read.",
    ),
    Defect("leader-skips-offset", "actors.log", "P14", "A leader occasionally skips an offset."),
    Defect(
        "oldest-duplicate",
        "actors.log",
        "C6",
        "A batch that is sent again is acknowledged with the offset of the oldest batch that the leader remembers.",
        nemesis="clients",
    ),
    Defect(
        "retention-past-watermark",
        "actors.log",
        "P22",
        "Retention deletes segments that are not below the high watermark.",
        nemesis="retention",
    ),
    Defect(
        "retention-within-segment",
        "actors.log",
        "P22",
        "Retention moves the log start one batch too far, into a segment.",
        nemesis="retention",
    ),
    Defect(
        "anew-keeps-watermark",
        "actors.log",
        "P22",
        "A follower that restarts its log at another offset keeps its high watermark.",
        nemesis="retention",
    ),
    Defect(
        "deletes-to-log-end",
        "actors.broker",
        "P22",
        "A leader that is asked to delete records up to its high watermark deletes all of them.",
        nemesis="retention",
    ),
    Defect(
        "deletes-whole-batches",
        "actors.broker",
        "P28",
        "A leader that is asked to delete records up to an offset inside a batch deletes the whole batch.",
        nemesis="retention",
    ),
    Defect(
        "deletion-awaits-nobody",
        "actors.broker",
        "P28",
        "A leader answers DeleteRecords as soon as its own log starts there, without waiting for followers.",
        nemesis="retention",
    ),
    Defect(
        "follower-tells-end-for-start",
        "actors.broker",
        "P28",
        "A follower reports its log end to its leader as its log start.",
        nemesis="retention",
    ),
    Defect(
        "follower-keeps-log-start",
        "actors.broker",
        "P28",
        "A follower does not adopt its leader's log start.",
        nemesis="retention",
    ),
    Defect(
        "start-checkpoint-ahead",
        "actors.broker",
        "P22",
        "The checkpoint of log starts has the high watermark of each log.",
        nemesis="retention",
    ),
    Defect(
        "log-starts-uncheckpointed",
        "actors.broker",
        "P28",
        "A broker does not checkpoint its log starts.",
        nemesis="retention",
        settings=("config.log.flush.start.offset.checkpoint.interval.ms=500",),
    ),
    Defect(
        "excess-stays",
        "actors.log",
        "L17",
        "Retention by size deletes nothing.",
        nemesis="retention",
    ),
    Defect(
        "old-segments-stay",
        "actors.log",
        "L17",
        "Retention by age deletes nothing.",
        nemesis="retention",
    ),
    Defect(
        "segments-never-full",
        "actors.log",
        "P29",
        "A log begins no new segment, however large or old the active one is.",
        nemesis="retention",
    ),
    Defect("skip-sequence-check", "actors.log", "T2", "A leader accepts any sequence number."),
    Defect(
        "producers-of-leaders-only",
        "actors.log",
        "T2",
        "A follower keeps no state of producers, and knows none when it leads.",
    ),
)
