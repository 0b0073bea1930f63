"""The defects of what producers are promised: acknowledgements, sequences, producer epochs."""

from __future__ import annotations

from actors.defects.defect import Defect

PRODUCER_DEFECTS: tuple[Defect, ...] = (
    Defect(
        "remembers-last-batch",
        "actors.log",
        "X1",
        "A leader remembers only the last batch of a producer, and takes the four earlier ones for out of order.",
        nemesis="clients",
    ),
    Defect(
        "needs-one-replica-more",
        "actors.broker",
        "X1",
        "acks=all is refused while the ISR is exactly as large as min.insync.replicas.",
    ),
    Defect(
        "producers-forgotten-in-office",
        "actors.broker",
        "T1",
        "A broker that becomes leader begins without state of producers.",
        nemesis="isr",
    ),
    Defect(
        "bump-at-any-error",
        "actors.client",
        "T1",
        "A producer raises its epoch and renumbers unanswered records after any error of a batch.",
        "KAFKA-10134",
        nemesis="clients",
    ),
    Defect(
        "expiry-raises-epoch",
        "actors.client",
        "T1",
        "A producer raises its epoch and renumbers unanswered records as soon as a batch expires.",
        "KIP-360",
        nemesis="clients",
    ),
    Defect(
        "producers-forgotten-at-start",
        "actors.broker",
        "T2",
        "A broker that starts does not read the state of producers from its logs.",
        nemesis="isr",
    ),
    Defect(
        "sequence-from-one",
        "actors.client",
        "T2",
        "A producer begins its sequence with 1.",
        nemesis="clients",
    ),
    Defect(
        "batches-unnumbered",
        "actors.client",
        "T1",
        "An idempotent producer sends its batches without id and sequence numbers.",
        nemesis="clients",
    ),
    Defect(
        "old-producer-epoch-taken",
        "actors.log",
        "T3",
        "A leader does not check for an older epoch of a producer.",
        nemesis="isr",
        settings=(
            "nodes.producer-1.config.request.timeout.ms=1000",
            "nodes.producer-1.config.delivery.timeout.ms=1500",
        ),
    ),
    Defect(
        "lose-acks-1",
        "actors.broker",
        "C1",
        "A batch sent with acks=1 is acknowledged and dropped before it is appended.",
        nemesis="clients",
        settings=("nodes.producer-1.config.acks=1", "nodes.producer-1.config.enable.idempotence=false"),
    ),
    Defect(
        "acks-0-left-open",
        "actors.broker",
        "X2",
        "A broker that does not take a Produce with acks=0 leaves the connection open.",
        nemesis="clients",
        settings=("nodes.producer-1.config.acks=0", "nodes.producer-1.config.enable.idempotence=false"),
    ),
)
