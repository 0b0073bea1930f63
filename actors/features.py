"""The switches of the emulated improvement proposals, of Kafka's own features, and of mends of Kafka."""

from __future__ import annotations

import msgspec

KIP_232 = "kip-232"
KIP_1075 = "kip-1075"
TRANSACTION_VERSION = "transaction.version"
KAFKA_7408 = "kafka-7408"
REFUSED_MARKER = "kafka-7408.refused-marker"
ELR_CLEARED = "mend.elr-cleared"
REMOVED_LEADER_DEADLOCK = "mend.removed-leader-deadlock"
REMOVED_LEADER_ZOMBIE = "mend.removed-leader-zombie"
HUNG_BROKERS = "mend.hung-brokers"
REELECTED_IN_PLACE = "mend.reelected-in-place"
SPINNING_CONSUMER = "mend.spinning-consumer"
FORMER_EPOCH = "mend.former-epoch"
ENDLESS_ABORTS = "mend.endless-aborts"
UNCOMMITTED_DUPLICATES = "mend.uncommitted-duplicates"
MENDS = (
    ELR_CLEARED,
    REMOVED_LEADER_DEADLOCK,
    REMOVED_LEADER_ZOMBIE,
    HUNG_BROKERS,
    REELECTED_IN_PLACE,
    SPINNING_CONSUMER,
    FORMER_EPOCH,
    ENDLESS_ABORTS,
    UNCOMMITTED_DUPLICATES,
)
"""Switches of mends of what Kafka itself gets wrong (docs/findings.md). No nemesis draws them: they are compared."""


AS_KAFKA = "kafka"
"""Value of such a switch with which Kafka is as it is."""


class Feature(msgspec.Struct, frozen=True):
    """A switch: its values (weakest protection first), default, and one line on what it does."""

    name: str
    values: tuple[str, ...]
    default: str
    about: str


FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature(
            "kip-207",
            ("off", "seed", "kafka"),
            "kafka",
            "A new leader refuses ListOffsets until its high watermark reaches the log end at which it took over. "
            "seed: every timestamp, but not where unclean election is enabled; kafka: as shipped.",
        ),
        Feature(
            KIP_232,
            ("off", "seed", "kafka"),
            "kafka",
            "The protection of a client from older metadata. kafka: leader epochs and topic ids per partition, and "
            "the validation of positions (KIP-320, KIP-516); seed: one metadata epoch of the cluster, which the "
            "controller raises with each update (needs metadata.propagation: push); off: none.",
        ),
        Feature(
            KIP_1075,
            ("off", "draft", "kafka"),
            "kafka",
            "The thread that looks an offset up in remote storage. kafka: a reader thread of remote Fetches, while "
            "the request waits in a purgatory; draft: a reader thread of a separate pool, and no look-up there for "
            "timestamps later than all copies; off: the request's handler.",
        ),
        Feature(
            "eligible.leader.replicas.version",
            ("0", "1"),
            "1",
            "Kafka's own (KIP-966). 1: a replica that leaves an ISR below `min.insync.replicas` stays eligible to "
            "lead, and the ISR may become empty; 0: its last member never leaves it.",
        ),
        Feature(
            "kraft.version",
            ("0", "1"),
            "0",
            "Kafka's own (KIP-853). 1: the voters are in the metadata log and can change while the cluster runs; 0: "
            "they are those of `controller.quorum.voters`, for ever.",
        ),
        Feature(
            TRANSACTION_VERSION,
            ("0", "1", "2"),
            "2",
            "Kafka's own (KIP-890). 2: the producer epoch rises with each transaction, and brokers add partitions; 1: "
            "only the coordinator's records may have more fields; 0: neither.",
        ),
        Feature(
            KAFKA_7408,
            ("off", "seed", "undecided"),
            "off",
            "The first action of a leader that was elected uncleanly. seed: it truncates its log to the last stable "
            "offset, which is at most its high watermark, and appends the markers that were there again in its leader "
            "epoch; undecided: the same from the first offset of an open transaction, even above the high watermark; "
            "off: none.",
        ),
        Feature(
            REFUSED_MARKER,
            ("kafka", "drop"),
            "kafka",
            "The reaction of a transaction coordinator when a partition refuses a marker for its producer epoch. "
            "kafka: it sends no more markers of that transaction, which never completes; drop: it removes that "
            "partition from the transaction, as KAFKA-7408 considers.",
        ),
        Feature(
            "kip-595.leader-progress",
            ("off", "seed", "kafka"),
            "kafka",
            "The reaction of a quorum leader when no majority fetches any more. kafka: it resigns (check quorum), "
            "after 1.5 times the fetch timeout; seed: it stands for the next epoch, after the fetch timeout; off: "
            "none.",
        ),
        Feature(
            "kip-595.cluster-id",
            ("off", "kafka"),
            "kafka",
            "A member of the quorum refuses requests of another cluster's members (INCONSISTENT_CLUSTER_ID).",
        ),
        Feature(
            "kip-595.epoch-check",
            ("off", "kafka"),
            "kafka",
            "A quorum leader refuses a Fetch made in another epoch (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH).",
        ),
        Feature(
            "kip-595.divergence",
            ("off", "seed", "kafka"),
            "kafka",
            "A quorum leader detects that a fetcher's log diverges from its own. kafka: it answers with the diverging "
            "epoch and its end; seed: with OFFSET_OUT_OF_RANGE and the offset from which to continue; off: it does "
            "not check. The fetcher selects the form by its request.",
        ),
        Feature(
            "kip-595.own-epoch-commit",
            ("off", "kafka"),
            "kafka",
            "A quorum leader's high watermark moves only past an entry of its own epoch.",
        ),
        Feature(
            "kip-996",
            ("off", "kafka"),
            "kafka",
            "PreVote: a voter asks whether it could win before it raises its epoch.",
        ),
        Feature(
            ELR_CLEARED,
            ("kafka", "keep-last-known", "keep-elr", "recount-elr"),
            "kafka",
            "The effect of a new min.insync.replicas. kafka: it clears the eligible leader replicas and the last "
            "known leader of every partition; keep-last-known: the last known leader stays; keep-elr: both stay if "
            "the ISR is empty; recount-elr: as keep-elr, and an election of an eligible replica checks whether the "
            "others are still eligible.",
        ),
        Feature(
            REMOVED_LEADER_DEADLOCK,
            ("kafka", "stand"),
            "kafka",
            "The role of a voter whose removal is in its log but not known to be committed. kafka: it is an observer; "
            "stand: it stands for election as before (Raft 4.2.2). Needs mend.removed-leader-zombie: resign.",
        ),
        Feature(
            REMOVED_LEADER_ZOMBIE,
            ("kafka", "resign"),
            "kafka",
            "The time at which a quorum leader resigns that is no voter any more. kafka: when its removal is "
            "committed while RemoveRaftVoter still waits for that; resign: when it is committed.",
        ),
        Feature(
            HUNG_BROKERS,
            ("kafka", "setup-timeout"),
            "kafka",
            "The node that a client without a connection asks for metadata. kafka: one with a connection in progress, "
            "rather than another one; setup-timeout: the same, but for socket.connection.setup.timeout.ms at most, "
            "and not again after a failure.",
        ),
        Feature(
            REELECTED_IN_PLACE,
            ("kafka", "skipped-epoch", "every-epoch"),
            "kafka",
            "The time at which a leader that is elected again resets its followers' positions. kafka: never; "
            "skipped-epoch: when another replica may have led in between; every-epoch: always.",
        ),
        Feature(
            SPINNING_CONSUMER,
            ("kafka", "wait"),
            "kafka",
            "The answer to a Fetch beyond the high watermark. kafka: at once, and empty; wait: as at the high "
            "watermark.",
        ),
        Feature(
            FORMER_EPOCH,
            ("kafka", "topic-id"),
            "kafka",
            "The topic of a consumer's position. kafka: the one that has its name, so that its leader epoch may be "
            "compared with those of another topic; topic-id: the one with its id; the position is dropped with it.",
        ),
        Feature(
            ENDLESS_ABORTS,
            ("kafka", "raise-epoch"),
            "kafka",
            "The effect of a batch that fails while its transaction is committed, below transaction.version 2. kafka: "
            "the transaction is aborted; raise-epoch: the producer epoch is raised, too, as when it fails before.",
        ),
        Feature(
            UNCOMMITTED_DUPLICATES,
            ("kafka", "forget"),
            "kafka",
            "The producers that a follower knows when all of its log is below the start of its leader's. kafka: those "
            "it knew, also of records above its high watermark, which its leader may never have had; forget: none if "
            "it had such records, as when its log ends below that start.",
        ),
    )
}


def default_features() -> dict[str, str]:
    """Every switch at its default."""
    return {feature.name: feature.default for feature in FEATURES.values()}
