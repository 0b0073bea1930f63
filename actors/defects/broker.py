"""The defects of partition leaders: whom they count as in sync, and what they take and answer."""

from __future__ import annotations

from actors.defects.defect import Defect

BROKER_DEFECTS: tuple[Defect, ...] = (
    Defect(
        "isr-never-shrinks",
        "actors.broker",
        "P25",
        "A leader keeps in its ISR who does not catch up, until the controller fences them.",
        nemesis="isr",
    ),
    Defect(
        "isr-shrinks-at-once",
        "actors.broker",
        "P25",
        "A leader asks out of its ISR whoever lacks its last record, however short that is.",
        "KIP-16",
        nemesis="isr",
    ),
    Defect(
        "append-below-min-isr",
        "actors.broker",
        "P17",
        "A leader appends what is sent with acks=all although its ISR is smaller than min.insync.replicas.",
        "KAFKA-1555",
        nemesis="isr",
    ),
    Defect(
        "min-isr-of-its-own",
        "actors.broker",
        "P17",
        "A broker goes by the min.insync.replicas that it was started with, whatever the configuration records say.",
        nemesis="isr",
    ),
    Defect(
        "epoch-starts-at-watermark",
        "actors.broker",
        "P7",
        "A new leader takes its high watermark for the start of its leader epoch.",
        nemesis="isr",
    ),
    Defect(
        "epoch-starts-with-the-last",
        "actors.broker",
        "H2",
        "A new leader takes the start of the last leader epoch in its log for the start of its own.",
        nemesis="clients",
    ),
    Defect(
        "snapshot-without-configs",
        "actors.broker",
        "Q13",
        "A broker leaves what is configured out of its snapshots.",
        nemesis="replication",
        settings=("config.metadata.log.max.record.bytes.between.snapshots=200",),
    ),
    Defect(
        "former-lives-fetch",
        "actors.broker",
        "P16",
        "A leader takes note of a Fetch that was sent by a process of its follower which is gone.",
        "KAFKA-15353",
        nemesis="isr",
    ),
    Defect(
        "wake-one-consumer",
        "actors.broker",
        "P26",
        "When the high watermark moves, the first of the consumers' fetches that wait for it is answered.",
        nemesis="clients",
    ),
    Defect(
        "range-ends-before-end",
        "actors.broker",
        "P26",
        "A consumer at the log end is told that its position is out of range, if the high watermark is below.",
        "KAFKA-9835",
        nemesis="clients",
    ),
    Defect(
        "outdated-proposal-again",
        "actors.broker",
        "P8",
        "A leader that is told that its proposal rests on a state which is over asks the same again.",
        nemesis="isr",
    ),
)
