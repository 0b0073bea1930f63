"""The defects of what clients and brokers know of the cluster, and of positions, offsets and requests."""

from __future__ import annotations

from actors.defects.defect import Defect

CLIENT_DEFECTS: tuple[Defect, ...] = (
    Defect(
        "refusal-is-offset-0",
        "actors.client",
        "H9",
        "A consumer that is refused when it looks for a position takes it for offset 0.",
        nemesis="clients",
        settings=("features.kip-207=seed",),
    ),
    Defect(
        "lookup-by-batch",
        "actors.broker",
        "H4",
        "Asked for a timestamp, a leader tells where the batch begins that holds the record.",
        nemesis="clients",
        settings=("nodes.producer-1.config.linger.ms=200",),
    ),
    Defect(
        "position-not-validated",
        "actors.client",
        "M10",
        "A consumer goes on reading from a new leader without asking where the last leader epoch ended.",
        "KAFKA-7747",
        nemesis="unclean",
        settings=(
            "nodes.consumer-1.config.retry.backoff.ms=2000",
            "nodes.consumer-1.config.retry.backoff.max.ms=3000",
        ),
    ),
    Defect(
        "truncation-one-short",
        "actors.client",
        "M10",
        "A consumer whose log was truncated goes back to the last record that is left, not behind it.",
        "KIP-320",
        nemesis="unclean",
    ),
    Defect(
        "later-changes-dropped",
        "actors.broker",
        "M8",
        "A broker takes note of a change of a partition only where it is the first record of its batch.",
        nemesis="replication",
    ),
    Defect(
        "lost-lookups-kept",
        "actors.client",
        "X6",
        "A client keeps the ListOffsets for under way that was lost with its connection.",
        nemesis="clients",
    ),
    Defect(
        "older-metadata-taken",
        "actors.client",
        "M1",
        "A client takes over whatever metadata it was told last.",
        "KAFKA-6262",
        nemesis="clients",
    ),
    Defect(
        "refused-leader-taken",
        "actors.client",
        "M2",
        "A client that is told of an older leader epoch keeps its own, and takes over the leader.",
        nemesis="clients",
        settings=(
            "nodes.list-offsets-1.config.metadata.max.age.ms=100",
            "nodes.list-offsets-2.config.metadata.max.age.ms=100",
        ),
    ),
    Defect(
        "image-stops-when-fenced",
        "actors.broker",
        "L8",
        "A broker that finds itself fenced takes nothing of the metadata log up any more.",
        nemesis="isr",
    ),
    Defect(
        "produce-keeps-leader",
        "actors.client",
        "L16",
        "A producer that is told NOT_LEADER_OR_FOLLOWER sends to the same broker again, and asks nobody who leads.",
        nemesis="clients",
    ),
    Defect(
        "one-produce-for-all",
        "actors.client",
        "M2",
        "A producer sends the records of all partitions to the leader of one of them.",
        nemesis="clients",
    ),
    Defect(
        "hint-of-former-epoch",
        "actors.broker",
        "M8",
        "A broker that leads no more hints at the next leader in the leader epoch before that.",
        "KIP-951",
        nemesis="clients",
    ),
    Defect("no-metadata-backoff", "actors.client", "M2", "Metadata is asked for again at once.", nemesis="clients"),
)
"""In the order of their invariants."""
