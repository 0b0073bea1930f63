"""Named defects: deliberate bugs, each a one-place change, that an invariant must catch.

A defect changes what a node or a runtime does, never what it records (those of X4 excepted). The place asks
``"name" in step.defects`` (a node) or ``"name" in spec.defects`` (a runtime).
"""

from __future__ import annotations

import msgspec


class Defect(msgspec.Struct, frozen=True):
    """``where``: module that has it. ``caught_by``: invariant meant for it. ``source``: the real bug, if any.
    ``nemesis``: the profile whose schedules are likely to bring it out, "" for that of its area. ``settings``: without
    which it cannot show, as the options ``--set`` of ``krift run``."""

    name: str
    where: str
    caught_by: str
    about: str
    source: str = ""
    nemesis: str = ""
    settings: tuple[str, ...] = ()


_ALL: tuple[Defect, ...] = (
    Defect(
        "double-vote",
        "actors.quorum",
        "Q2",
        "A voter forgets whom it voted for and grants again in the epoch.",
        "ktoso/akka-raft#56",
        settings=("features.kip-996=off",),
    ),
    Defect("vote-before-sync", "actors.quorum", "Q2", "A vote leaves before quorum-state is on disk."),
    Defect(
        "same-epoch-leader", "actors.quorum", "Q1", "A candidate becomes leader without a majority.", "xnnyygn/xraft#27"
    ),
    Defect(
        "vote-for-any",
        "actors.quorum",
        "Q4",
        "A voter grants its vote whatever the candidate's log holds.",
        "ktoso/akka-raft#30",
        settings=("features.kip-996=off",),
    ),
    Defect("epoch-reset", "actors.quorum", "Q3", "A voter ignores its quorum-state at start and begins at epoch 0."),
    Defect(
        "fetch-in-leader-epoch",
        "actors.quorum",
        "Q6",
        "A voter fetches with its leader's epoch for that of its last record, so that divergence goes unnoticed.",
    ),
    Defect(
        "divergence-unseen",
        "actors.quorum",
        "Q6",
        "A leader takes the log of whoever fetches from it for a part of its own.",
        settings=("features.kip-996=off",),
    ),
    Defect(
        "commit-old-epoch",
        "actors.quorum",
        "Q8",
        "The high watermark passes entries of older epochs only.",
        "KAFKA-12619",
    ),
    Defect("quorum-hw-regress", "actors.quorum", "Q9", "A quorum leader lets its high watermark go down."),
    Defect(
        "half-elects",
        "actors.quorum",
        "Q5",
        "A candidate leads with the votes of half of the voters.",
    ),
    Defect(
        "vote-by-epoch",
        "actors.quorum",
        "Q10",
        "A voter looks at the last epoch of a candidate's log alone, not at where it ends.",
    ),
    Defect(
        "apply-uncommitted",
        "actors.quorum",
        "Q11",
        "State machines are handed all that is in the log, committed or not.",
    ),
    Defect(
        "leader-resumes",
        "actors.quorum",
        "Q12",
        "A voter that led goes on as leader of the same epoch after a restart.",
        "KAFKA-10527",
    ),
    Defect(
        "snapshot-of-log-end",
        "actors.quorum",
        "Q13",
        "A snapshot is called by where the log ends, not by where what was applied ends.",
        settings=("config.metadata.log.max.record.bytes.between.snapshots=200",),
    ),
    Defect(
        "snapshot-id-inclusive",
        "actors.quorum",
        "Q13",
        "A snapshot is called by the last offset in it, not by the one behind it.",
        "KAFKA-14618",
        settings=("config.metadata.log.max.record.bytes.between.snapshots=200",),
    ),
    Defect(
        "voter-changes-overlap",
        "actors.quorum",
        "Q14",
        "A change of the voters begins although the last one is under way.",
        settings=("features.kraft.version=1",),
    ),
    Defect(
        "removed-leader-counts",
        "actors.quorum",
        "Q14",
        "A leader counts itself towards what is committed although it is no voter any more.",
        "KAFKA-16530",
        settings=("features.kraft.version=1",),
    ),
    Defect("observer-stands", "actors.quorum", "Q15", "A broker that hears no more of the leader stands for election."),
    Defect(
        "append-in-resignation",
        "actors.quorum",
        "Q16",
        "A leader that resigns still appends what it had accepted.",
        "KAFKA-13104",
        settings=("config.controller.quorum.append.linger.ms=400", "config.metadata.max.idle.interval.ms=450"),
    ),
    Defect(
        "no-check-quorum",
        "actors.quorum",
        "Q17",
        "A leader stays although no majority fetches from it.",
        "KAFKA-15489",
    ),
    Defect(
        "diverging-epoch-start",
        "actors.quorum",
        "Q18",
        "A fetch that diverges in an epoch is told where that epoch begins, not where it ends.",
    ),
    Defect(
        "reply-before-commit",
        "actors.controller",
        "Q19",
        "The controller answers when a change is appended, not when it is committed.",
    ),
    Defect(
        "pre-vote-for-all", "actors.quorum", "L2", "A voter promises its vote to whoever asks, even while it leads."
    ),
    Defect("stale-leader-epoch", "actors.controller", "P1", "An election reuses the leader epoch."),
    Defect(
        "partition-epoch-stands",
        "actors.controller",
        "P2",
        "A change of an ISR makes no new partition epoch.",
        "KAFKA-12367",
    ),
    Defect("follower-reorders-batch", "actors.log", "P3", "A follower appends the records of a batch in reverse."),
    Defect("elect-any-replica", "actors.controller", "P4", "Clean election ignores the ISR."),
    Defect(
        "isr-without-epoch-start",
        "actors.broker",
        "P7",
        "A follower rejoins the ISR below the epoch's start.",
        "KAFKA-7128",
        settings=(
            "config.replica.high.watermark.checkpoint.interval.ms=60000",
            "features.eligible.leader.replicas.version=0",
        ),
    ),
    Defect("isr-below-hw", "actors.broker", "P5", "A follower rejoins the ISR below the high watermark."),
    Defect("hw-of-the-caught-up", "actors.broker", "P6", "The high watermark waits for caught-up replicas alone."),
    Defect(
        "isr-without-version",
        "actors.controller",
        "P8",
        "AlterPartition is taken on whatever partition epoch it was made.",
        nemesis="isr",
    ),
    Defect("fence-keeps-isr", "actors.controller", "P9", "A fenced broker stays in its ISRs.", "KAFKA-13916"),
    Defect(
        "isr-of-former-lives",
        "actors.controller",
        "P9",
        "AlterPartition is taken for members that have started anew since the leader saw them caught up.",
        "KAFKA-14139",
        nemesis="isr",
    ),
    Defect("hw-ignores-isr", "actors.broker", "P10", "The leader's high watermark is its own log end."),
    Defect(
        "truncate-to-hw",
        "actors.broker",
        "P11",
        "A new follower truncates to its high watermark.",
        "KIP-101, KAFKA-7415",
    ),
    Defect(
        "truncate-whole-epoch",
        "actors.broker",
        "P12",
        "A follower whose log diverges in an epoch drops all of that epoch.",
    ),
    Defect(
        "answer-of-former-leader",
        "actors.broker",
        "P12",
        "A follower takes what its former leader answers to the fetch that was under way when it was replaced.",
        nemesis="isr",
        settings=(
            "config.broker.session.timeout.ms=600",
            "config.broker.heartbeat.interval.ms=150",
            "nodes.producer-1.config.acks=1",
            "nodes.producer-1.config.enable.idempotence=false",
        ),
    ),
    Defect("leader-skips-offset", "actors.log", "P14", "A leader leaves out an offset now and then."),
    Defect(
        "follower-takes-produce",
        "actors.broker",
        "P15",
        "A broker appends what producers send it as a follower.",
        nemesis="clients",
        settings=("nodes.producer-1.config.acks=1", "nodes.producer-1.config.enable.idempotence=false"),
    ),
    Defect(
        "fetch-unfenced",
        "actors.broker",
        "P16",
        "A leader serves fetches of older leader epochs.",
        "KAFKA-9338",
        nemesis="isr",
    ),
    Defect("ack-before-hw", "actors.broker", "P17", "acks=all is answered after the local append."),
    Defect("unclean-anyway", "actors.controller", "P21", "Elections are unclean where that is not allowed."),
    Defect("list-log-end", "actors.broker", "H1", "ListOffsets tells clients the log end, not the high watermark."),
    Defect(
        "refuse-too-long",
        "actors.broker",
        "H2",
        "A leader refuses ListOffsets although it has caught up.",
        nemesis="clients",
    ),
    Defect("list-behind", "actors.broker", "H6", "ListOffsets tells clients the offset before the high watermark."),
    Defect(
        "refusal-is-fatal",
        "actors.client",
        "H9",
        "A client hands OFFSET_NOT_AVAILABLE on to its application.",
        nemesis="clients",
    ),
    Defect(
        "refusal-refreshes",
        "actors.client",
        "H9",
        "A client refreshes its metadata after any ListOffsets error.",
        nemesis="clients",
    ),
    Defect("refuse-replicas", "actors.broker", "H5", "The KIP-207 refusal also hits other brokers.", nemesis="clients"),
    Defect("lose-acked", "actors.broker", "C1", "An acknowledged batch is dropped before it is appended."),
    Defect(
        "refuse-after-append",
        "actors.broker",
        "C2",
        "NOT_ENOUGH_REPLICAS is answered, for acks=all, after the batch was appended.",
        nemesis="clients",
        settings=("nodes.producer-1.config.retries=2",),
    ),
    Defect("consumer-mislabel", "actors.client", "C3", "A consumer hands out a record under its neighbour's offset."),
    Defect(
        "unmuted-partition",
        "actors.client",
        "C4",
        "With one request in flight a producer sends to a new leader what follows a batch that the old one has.",
        "KAFKA-3197",
        nemesis="clients",
        settings=(
            "nodes.producer-1.config.max.in.flight.requests.per.connection=1",
            "nodes.producer-1.config.metadata.max.age.ms=500",
            "nodes.producer-1.config.request.timeout.ms=7000",
            "nodes.producer-1.config.delivery.timeout.ms=20000",
            "config.broker.session.timeout.ms=1000",
            "config.broker.heartbeat.interval.ms=200",
        ),
    ),
    Defect(
        "position-past-rest",
        "actors.client",
        "C5",
        "A consumer drops all batches of an answer but the first.",
        nemesis="clients",
    ),
    Defect(
        "oldest-duplicate",
        "actors.log",
        "C6",
        "A batch that is sent again is acknowledged with the offset of the oldest batch that the leader remembers.",
        nemesis="clients",
    ),
    Defect(
        "fetch-drops-batch",
        "actors.broker",
        "C7",
        "A Fetch of many batches leaves some out in the middle.",
        nemesis="clients",
    ),
    Defect("fetch-past-hw", "actors.broker", "C8", "Consumers get what is above the high watermark.", "KAFKA-9835"),
    Defect(
        "reused-buffer",
        "actors.client",
        "C11",
        "The memory of a batch that is sent again holds another one's values.",
        "KAFKA-19012",
        nemesis="clients",
    ),
    Defect(
        "hw-needs-own-epoch", "actors.broker", "H3", "A new leader's high watermark waits for a record of its epoch."
    ),
    Defect("hw-on-append-only", "actors.broker", "P18", "A fetch does not make a leader look at its high watermark."),
    Defect("never-stand", "actors.quorum", "L1", "A follower that hears no more of its leader does not stand."),
    Defect("no-new-leader", "actors.controller", "L3", "When a leader is fenced, nobody is elected in its place."),
    Defect("isr-never-expands", "actors.broker", "L4", "A leader takes nobody back into the ISR.", "KAFKA-4485"),
    Defect(
        "isr-swaps-members",
        "actors.broker",
        "L15",
        "A leader that takes a replica into the ISR drops the others.",
        nemesis="isr",
    ),
    Defect("retry-forgotten", "actors.client", "L5", "A batch that is to be sent again is not.", nemesis="clients"),
    Defect(
        "consumer-gives-up",
        "actors.client",
        "L6",
        "A consumer that got no answer from a broker never asks it again.",
        nemesis="clients",
    ),
    Defect(
        "no-delivery-timeout",
        "actors.client",
        "L7",
        "delivery.timeout.ms does not end the sends of a batch.",
        "KIP-91",
        nemesis="clients",
        settings=(
            "nodes.producer-1.config.delivery.timeout.ms=1500",
            "nodes.producer-1.config.request.timeout.ms=1000",
        ),
    ),
    Defect(
        "busy-metadata-log",
        "actors.controller",
        "L12",
        "A broker is unfenced when it has reached the end of the metadata log, not its own registration.",
        "KAFKA-13959",
    ),
    Defect(
        "old-leader-for-ever",
        "actors.client",
        "L13",
        "A client that is told NOT_LEADER_OR_FOLLOWER asks the same broker again, and does not look for the leader.",
        "KAFKA-17190",
        nemesis="clients",
    ),
    Defect(
        "fetcher-gives-up",
        "actors.broker",
        "L14",
        "A follower that got no answer from its leader stops fetching.",
        nemesis="isr",
    ),
    Defect("no-request-timeout", "actors.node", "X2", "A request waits for its answer for ever.", nemesis="clients"),
    Defect("leaky-partition", "actors", "X5", "A partition of links does not stop what arrives at a node."),
    Defect("unseeded-timers", "actors.sim", "X8", "The runtime draws timers from no seed."),
    Defect(
        "no-reconnect-backoff",
        "actors.node",
        "X10",
        "A connection that was refused is tried again at once.",
        "KIP-144",
    ),
    Defect("skip-sequence-check", "actors.log", "T2", "A leader takes any sequence number."),
    Defect(
        "hide-reason",
        "actors.broker",
        "X1",
        "A leader with too small an ISR answers UNKNOWN_SERVER_ERROR.",
        nemesis="clients",
    ),
    Defect("raise", "actors.broker", "X3", "A broker raises an exception on its hundredth request."),
    Defect("lose-trace", "actors.trace", "X4", "The runtime drops every hundredth event of a node."),
    Defect(
        "version-too-new", "actors.broker", "X7", "OFFSET_NOT_AVAILABLE is sent to old clients too.", nemesis="clients"
    ),
    Defect(
        "clean-start-after-crash",
        "actors.broker",
        "P5",
        "A broker whose process was killed registers as one that had shut down cleanly, whatever it lost.",
        "KIP-966",
        settings=("config.krift.os.flush.ms=30000", "features.eligible.leader.replicas.version=1"),
        nemesis="isr",
    ),
    Defect(
        "fetch-before-sync",
        "actors.quorum",
        "Q7",
        "A voter fetches on, which acknowledges what it has, before that is on its disk.",
    ),
    Defect(
        "watermark-before-truncation",
        "actors.broker",
        "P10",
        "A follower takes over its leader's high watermark before it truncates what diverges.",
        "KAFKA-14704",
    ),
    Defect(
        "isr-answer-awaited",
        "actors.broker",
        "L4",
        "A leader whose AlterPartition was not answered takes it to be under way for ever, and asks for no other ISR.",
        "KAFKA-12751",
        nemesis="isr",
    ),
    Defect(
        "isr-in-new-epochs-only",
        "actors.broker",
        "L4",
        "A leader ignores what the controller changes in the ISR without a new leader epoch.",
    ),
    Defect(
        "watermark-waits-for-fenced",
        "actors.broker",
        "P18",
        "The high watermark waits for a replica that was caught up lately, though it is fenced or shuts down.",
        "KAFKA-15021",
        settings=(
            "config.replica.lag.time.max.ms=20000",
            "config.broker.session.timeout.ms=1000",
            "config.broker.heartbeat.interval.ms=200",
        ),
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
        "retry-keeps-epoch",
        "actors.client",
        "L13",
        "A ListOffsets that is tried again carries the leader epoch of the first time.",
        "confluentinc/librdkafka#4620",
        nemesis="clients",
    ),
    Defect(
        "producers-of-leaders-only",
        "actors.log",
        "T2",
        "A follower keeps no state of producers, and knows none when it leads.",
    ),
)

DEFECTS: dict[str, Defect] = {defect.name: defect for defect in _ALL}
