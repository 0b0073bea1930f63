"""The defects of controllers: elections, ISRs, registrations, and what they confirm."""

from __future__ import annotations

from actors.defects.defect import Defect

EPOCHS = ("features.kip-232=seed", "config.metadata.propagation=push")
"""Without which there are no metadata epochs."""

CONTROLLER_DEFECTS: tuple[Defect, ...] = (
    Defect(
        "reply-before-commit",
        "actors.controller",
        "Q19",
        "The controller answers when a change is appended, not when it is committed.",
    ),
    Defect(
        "epoch-not-durable",
        "actors.controller",
        "M3",
        "A controller counts metadata epochs from its own last one, not from the last one in the log.",
        nemesis="metadata",
        settings=EPOCHS,
    ),
    Defect(
        "former-controller-obeyed",
        "actors.broker",
        "M3",
        "A broker accepts updates of a replaced controller.",
        nemesis="metadata",
        settings=EPOCHS,
    ),
    Defect("stale-leader-epoch", "actors.controller", "P1", "An election reuses the leader epoch."),
    Defect(
        "partition-epoch-stands",
        "actors.controller",
        "P2",
        "A change of an ISR does not raise the partition epoch.",
        "KAFKA-12367",
    ),
    Defect(
        "leader-epoch-with-isr",
        "actors.controller",
        "P2",
        "A change of an ISR raises the leader epoch, although the leader stays.",
        nemesis="isr",
    ),
    Defect("elect-any-replica", "actors.controller", "P4", "Clean election ignores the ISR."),
    Defect(
        "isr-without-version",
        "actors.controller",
        "P8",
        "AlterPartition is accepted for any partition epoch.",
        nemesis="isr",
    ),
    Defect(
        "fenced-at-half-time",
        "actors.controller",
        "P27",
        "A broker is fenced when half of its session timeout is over.",
    ),
    Defect(
        "id-of-the-living",
        "actors.controller",
        "P27",
        "Another incarnation is registered while the former one still sends heartbeats.",
    ),
    Defect("fence-keeps-isr", "actors.controller", "P9", "A fenced broker stays in its ISRs.", "KAFKA-13916"),
    Defect(
        "isr-of-former-lives",
        "actors.controller",
        "P9",
        "AlterPartition is accepted for members that have restarted since the leader saw them caught up.",
        "KAFKA-14139",
        nemesis="isr",
    ),
    Defect(
        "broker-epoch-reused",
        "actors.controller",
        "P9",
        "A new incarnation of a broker is registered under the broker epoch of the former one.",
        nemesis="isr",
    ),
    Defect(
        "eligible-for-good",
        "actors.controller",
        "P20",
        "Eligible leader replicas stay eligible when the ISR is large enough again.",
        nemesis="isr",
        settings=("features.eligible.leader.replicas.version=1",),
    ),
    Defect(
        "controllers-own-min-isr",
        "actors.controller",
        "P20",
        "A controller goes by its initial min.insync.replicas, whatever the configuration records say.",
        nemesis="isr",
        settings=("features.eligible.leader.replicas.version=1",),
    ),
    Defect("unclean-anyway", "actors.controller", "P21", "Elections are unclean where that is not allowed."),
    Defect(
        "leader-always-preferred",
        "actors.controller",
        "P21",
        "Every change of an ISR gives the partition back to its preferred leader, though another one leads.",
        nemesis="isr",
    ),
    Defect(
        "last-of-the-assignment-elected",
        "actors.controller",
        "P21",
        "Of several eligible replicas the last one of the assignment is elected.",
    ),
    Defect(
        "no-election-at-return",
        "actors.controller",
        "P21",
        "A broker is unfenced, and the partitions that wait for it get no leader.",
        nemesis="isr",
    ),
    Defect("no-new-leader", "actors.controller", "L3", "When a leader is fenced, no successor is elected."),
    Defect(
        "busy-metadata-log",
        "actors.controller",
        "L12",
        "A broker is unfenced when it has reached the end of the metadata log, not its own registration.",
        "KAFKA-13959",
    ),
    Defect(
        "elect-fenced-last-known",
        "actors.controller",
        "P9",
        "With no eligible leader replica left, the last known leader is elected even if it is fenced.",
        "KAFKA-19522",
        nemesis="unclean",
        settings=("features.eligible.leader.replicas.version=1",),
    ),
    Defect(
        "last-known-before-eligible",
        "actors.controller",
        "P21",
        "The last known leader is elected although an absent replica is eligible.",
        nemesis="isr",
        settings=("features.eligible.leader.replicas.version=1",),
    ),
    Defect(
        "topic-id-reused",
        "actors.controller",
        "P1",
        "A topic that is created again has the id that its name had before.",
        nemesis="metadata",
    ),
)
