"""Kafka's configuration keys that Krift reads, with Kafka's names and defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from actors.config_key import INT_MAX as INT_MAX, LONG_MAX as LONG_MAX, ConfigKey as ConfigKey, Scope as Scope
from actors.config_of_logs import LOG_KEYS
from actors.config_of_tiers import TIER_KEYS

INTER_BROKER_PROTOCOL = "inter.broker.protocol.version"
METADATA_EPOCH_PROTOCOL = "1.1-IV0"
"""Value of that key from which on there are metadata epochs; Kafka's own 1.1-IV0 has none, as it took another way."""

_C: tuple[Scope, ...] = ("controller",)
_B: tuple[Scope, ...] = ("broker",)
_CB: tuple[Scope, ...] = ("controller", "broker")
_CBT: tuple[Scope, ...] = ("controller", "broker", "topic")
_T: tuple[Scope, ...] = ("topic",)
_P: tuple[Scope, ...] = ("producer",)
_N: tuple[Scope, ...] = ("consumer",)
_G: tuple[Scope, ...] = ("group-consumer",)
_PNA: tuple[Scope, ...] = ("producer", "consumer", "admin")
_NA: tuple[Scope, ...] = ("consumer", "admin")
_ALL: tuple[Scope, ...] = ("controller", "broker", "producer", "consumer", "admin")

ASSIGNMENT_STRATEGIES = (
    "range,cooperative-sticky",
    "range",
    "roundrobin",
    "cooperative-sticky",
    "cooperative-sticky,range",
)

CONFIG: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        # quorum
        ConfigKey(
            "controller.quorum.election.timeout.ms",
            1000,
            _CB,
            "Time without a leader after which a voter stands for election.",
            1,
        ),
        ConfigKey(
            "controller.quorum.fetch.timeout.ms",
            2000,
            _CB,
            "Time without a successful Fetch after which a follower gives up its leader.",
            1,
        ),
        ConfigKey(
            "controller.quorum.election.backoff.max.ms", 1000, _CB, "Longest delay of an election after EndQuorumEpoch."
        ),
        ConfigKey(
            "controller.quorum.request.timeout.ms", 2000, _CB, "Timeout of a request between members of the quorum.", 1
        ),
        ConfigKey(
            "controller.quorum.retry.backoff.ms", 20, _CB, "Pause after a failed request between members of the quorum."
        ),
        ConfigKey(
            "controller.quorum.append.linger.ms",
            25,
            _C,
            "Time for which the quorum leader gathers records into a batch.",
        ),
        ConfigKey(
            "controller.quorum.fetch.max.bytes",
            1048576,
            _CB,
            "Maximum of bytes in an answer to a Fetch of the metadata log; one batch is always sent.",
        ),
        ConfigKey(
            "controller.quorum.fetch.snapshot.max.bytes",
            1048576,
            _CB,
            "Maximum of bytes of a snapshot in one answer.",
            1,
        ),
        ConfigKey(
            "metadata.log.max.record.bytes.between.snapshots",
            20971520,
            _CB,
            "Bytes of new metadata records after which a node writes a snapshot.",
            1,
        ),
        ConfigKey(
            "metadata.log.max.snapshot.interval.ms",
            3600000,
            _CB,
            "Longest time between two snapshots; 0: only the bytes count.",
        ),
        ConfigKey(
            "metadata.max.retention.bytes",
            104857600,
            _CB,
            "Size of the metadata log with its snapshots above which the oldest are deleted; -1: no limit.",
            -1,
        ),
        ConfigKey("metadata.max.retention.ms", 604800000, _CB, "Age at which a snapshot is deleted; -1: no limit.", -1),
        ConfigKey(
            "controller.quorum.bootstrap.servers",
            "",
            _CB,
            "Nodes that are asked for the leader if the voters are in the log, as names with commas; empty: the "
            "initial controllers of the run.",
        ),
        ConfigKey(
            "controller.quorum.auto.join.enable",
            False,
            _C,
            "A controller that is no voter adds itself, if the voters are in the log; first it removes the voter "
            "that it was before its disk was wiped.",
        ),
        ConfigKey(
            "advertised.listeners",
            "",
            _C,
            "Host of a voter in the voter set; empty: its name. Nodes are found by their ids in any case.",
        ),
        ConfigKey(
            "metadata.max.idle.interval.ms",
            500,
            _C,
            "Interval of no-op records in the metadata log, which let its high watermark move.",
        ),
        # controller and registration
        ConfigKey(
            "broker.session.timeout.ms", 9000, _CB, "Time without a heartbeat after which a broker is fenced.", 1
        ),
        ConfigKey("broker.heartbeat.interval.ms", 2000, _B, "Interval of a broker's heartbeats.", 1),
        ConfigKey(
            "initial.broker.registration.timeout.ms",
            60000,
            _B,
            "Time within which a broker must be registered; otherwise its process ends.",
            1,
        ),
        ConfigKey(
            "controlled.shutdown.enable",
            True,
            _B,
            "A broker that stops first asks the controller to move its leaderships away.",
        ),
        ConfigKey(
            "unclean.leader.election.interval.ms",
            300000,
            _C,
            "Interval at which the controller looks for partitions without a leader, to elect one uncleanly.",
            1,
        ),
        ConfigKey(
            "auto.leader.rebalance.enable", True, _C, "The controller elects preferred leaders at regular intervals."
        ),
        ConfigKey("leader.imbalance.check.interval.seconds", 300, _C, "Interval of those elections.", 1),
        ConfigKey(
            "unclean.leader.election.enable",
            False,
            _CBT,
            "A replica outside the ISR may be elected if no other is available.",
            dynamic=True,
        ),
        ConfigKey("num.partitions", 1, _C, "Partitions of a topic whose creation names no number.", 1),
        ConfigKey("default.replication.factor", 1, _C, "Replicas of a topic whose creation names no number.", 1, 32767),
        ConfigKey("delete.topic.enable", True, _C, "Topics may be deleted."),
        # replication
        ConfigKey(
            "min.insync.replicas", 1, _CBT, "Minimum size of the ISR for a write with acks=all.", 1, dynamic=True
        ),
        ConfigKey("message.max.bytes", 1048588, _B, "Maximum size of a batch.", dynamic=True),
        ConfigKey("max.message.bytes", 1048588, _T, "Maximum size of a batch of this topic."),
        ConfigKey(
            "log.message.timestamp.before.max.ms",
            LONG_MAX,
            _B,
            "Longest time by which a record's timestamp may be behind the leader's clock.",
            high=LONG_MAX,
            dynamic=True,
        ),
        ConfigKey("message.timestamp.before.max.ms", LONG_MAX, _T, "The same in one topic.", high=LONG_MAX),
        ConfigKey(
            "log.message.timestamp.after.max.ms",
            3600000,
            _B,
            "Longest time by which a record's timestamp may be ahead of the leader's clock.",
            high=LONG_MAX,
            dynamic=True,
        ),
        ConfigKey("message.timestamp.after.max.ms", 3600000, _T, "The same in one topic.", high=LONG_MAX),
        *LOG_KEYS,
        ConfigKey("replica.lag.time.max.ms", 30000, _B, "Lag after which a follower leaves the ISR.", 1),
        ConfigKey(
            "replica.fetch.wait.max.ms", 500, _B, "Longest time for which a leader lets a follower's Fetch wait."
        ),
        ConfigKey("replica.fetch.min.bytes", 1, _B, "Bytes for which a leader lets a follower's Fetch wait."),
        ConfigKey(
            "replica.fetch.max.bytes",
            1048576,
            _B,
            "Maximum of bytes of a partition in an answer to a follower's Fetch.",
            1,
        ),
        ConfigKey(
            "replica.fetch.response.max.bytes", 10485760, _B, "Maximum of bytes in an answer to a follower's Fetch.", 1
        ),
        ConfigKey("replica.fetch.backoff.ms", 1000, _B, "Pause of a replica fetcher after an error."),
        ConfigKey("replica.socket.timeout.ms", 30000, _B, "Timeout of a follower's Fetch.", 1),
        ConfigKey(
            "replica.high.watermark.checkpoint.interval.ms",
            5000,
            _B,
            "Interval at which a broker writes its high watermarks to disk.",
            1,
        ),
        ConfigKey(
            "max.incremental.fetch.session.cache.slots", 1000, _B, "Maximum number of fetch sessions of a broker."
        ),
        # groups
        ConfigKey("offsets.topic.num.partitions", 50, _B, "Partitions of `__consumer_offsets` at its creation.", 1),
        ConfigKey(
            "offsets.topic.replication.factor", 3, _B, "Replicas of `__consumer_offsets` at its creation.", 1, 32767
        ),
        ConfigKey(
            "offsets.commit.timeout.ms",
            5000,
            _B,
            "Longest time for which a coordinator waits until a commit is replicated.",
            1,
        ),
        ConfigKey("offset.metadata.max.bytes", 4096, _B, "Maximum length of the text beside a committed offset."),
        ConfigKey(
            "offsets.retention.minutes", 10080, _B, "Time after which the offsets of a group without members expire.", 1
        ),
        ConfigKey(
            "offsets.retention.check.interval.ms",
            600000,
            _B,
            "Interval at which a coordinator removes expired offsets.",
            1,
        ),
        ConfigKey("group.min.session.timeout.ms", 6000, _B, "Shortest session timeout that a member may ask for."),
        ConfigKey("group.max.session.timeout.ms", 1800000, _B, "Longest session timeout that a member may ask for."),
        ConfigKey(
            "group.initial.rebalance.delay.ms", 3000, _B, "Time for which an empty group waits for further members."
        ),
        ConfigKey("group.max.size", INT_MAX, _B, "Maximum number of members of a group.", 1),
        # transactions
        ConfigKey(
            "transaction.max.timeout.ms", 900000, _B, "Longest transaction timeout that a producer may ask for.", 1
        ),
        ConfigKey(
            "transactional.id.expiration.ms", 604800000, _B, "Time after which an unused transactional id expires.", 1
        ),
        ConfigKey(
            "transaction.state.log.num.partitions", 50, _B, "Partitions of `__transaction_state` at its creation.", 1
        ),
        ConfigKey(
            "transaction.state.log.replication.factor",
            3,
            _B,
            "Replicas of `__transaction_state` at its creation.",
            1,
            32767,
        ),
        ConfigKey(
            "transaction.state.log.min.isr", 2, _B, "min.insync.replicas of `__transaction_state` at its creation.", 1
        ),
        ConfigKey(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            10000,
            _B,
            "Interval at which a coordinator aborts transactions whose timeout is over.",
            1,
        ),
        ConfigKey(
            "transaction.remove.expired.transaction.cleanup.interval.ms",
            3600000,
            _B,
            "Interval at which a coordinator removes expired transactional ids.",
            1,
        ),
        ConfigKey(
            "transaction.partition.verification.enable",
            True,
            _B,
            "A leader asks the coordinator before it appends the first batch of a transaction.",
        ),
        ConfigKey(
            "add.partitions.to.txn.retry.backoff.ms",
            20,
            _B,
            "Pause before a leader asks again while the previous transaction is not completed.",
            1,
        ),
        ConfigKey(
            "add.partitions.to.txn.retry.backoff.max.ms",
            100,
            _B,
            "Longest time for which it asks again; then the producer does.",
            0,
        ),
        ConfigKey(
            "num.io.threads", 8, _B, "Number of requests that a broker handles at the same time.", 1, dynamic=True
        ),
        # remote storage
        ConfigKey(
            "remote.storage.enable",
            False,
            _T,
            "The topic is tiered: its leaders copy full segments to the remote store.",
        ),
        *TIER_KEYS,
        ConfigKey(
            "remote.log.reader.threads",
            10,
            _B,
            "Threads that read from remote storage: for Fetches, and with kip-1075: kafka for ListOffsets.",
            1,
            dynamic=True,
            pool=True,
        ),
        ConfigKey(
            "remote.log.reader.max.pending.tasks",
            100,
            _B,
            "Maximum number of reads that wait for such a thread; more are rejected.",
            1,
        ),
        ConfigKey(
            "remote.log.offset.reader.threads",
            5,
            _B,
            "With kip-1075: draft: threads that look offsets up in remote storage.",
            1,
            dynamic=True,
            pool=True,
        ),
        ConfigKey(
            "remote.log.offset.read.max.pending.tasks",
            100,
            _B,
            "With kip-1075: draft: maximum number of look-ups that wait for such a thread; more are rejected. The "
            "proposal has no default.",
            1,
        ),
        ConfigKey(
            "remote.list.offsets.request.timeout.ms",
            30000,
            _B,
            "Time for which a ListOffsets waits for remote storage, unless the request has its own timeout.",
            1,
            LONG_MAX,
            dynamic=True,
        ),
        ConfigKey(
            "request.timeout.ms",
            30000,
            _ALL,
            "Timeout of a client's request, and of a broker's request to the controller.",
            1,
        ),
        # clients
        ConfigKey("reconnect.backoff.ms", 50, _ALL, "Pause before the next attempt to connect."),
        ConfigKey("reconnect.backoff.max.ms", 1000, _ALL, "Longest such pause; each failure doubles it."),
        ConfigKey(
            "socket.connection.setup.timeout.ms",
            10000,
            _PNA,
            "With mend.hung-brokers: time after which a connection in progress is no longer preferred.",
            1,
        ),
        ConfigKey("retry.backoff.ms", 100, _PNA, "Pause before the next attempt of a request."),
        ConfigKey("retry.backoff.max.ms", 1000, _PNA, "Longest such pause; each failure doubles it."),
        ConfigKey(
            "metadata.max.age.ms", 300000, _PNA, "Age at which metadata is refreshed without any other reason.", 1
        ),
        ConfigKey(
            "acks", "all", _P, "Replicas that must have a record before its send succeeds.", choices=("0", "1", "all")
        ),
        ConfigKey(
            "enable.idempotence",
            True,
            _P,
            "The leader recognizes repeated batches by their sequence numbers; needs acks=all.",
        ),
        ConfigKey("linger.ms", 5, _P, "Time for which a batch waits for further records."),
        ConfigKey("batch.size", 16384, _P, "Size at which a batch is full.", 1),
        ConfigKey(
            "max.in.flight.requests.per.connection",
            5,
            _P,
            "Maximum number of unanswered Produce requests of a connection.",
            1,
            5,
        ),
        ConfigKey("retries", 2147483647, _P, "Maximum number of attempts after the first."),
        ConfigKey(
            "transactional.id",
            "",
            _P,
            "Id of a producer with transactions; empty: its name. Producers with the same id fence each other.",
        ),
        ConfigKey(
            "transaction.timeout.ms", 60000, _P, "Time after which the coordinator aborts an open transaction.", 1
        ),
        ConfigKey("delivery.timeout.ms", 120000, _P, "Time within which a send succeeds or fails.", 1),
        ConfigKey(
            "isolation.level",
            "read_uncommitted",
            _N,
            "Records of transactions that are read: all, or those of committed transactions.",
            choices=("read_uncommitted", "read_committed"),
        ),
        ConfigKey("fetch.max.wait.ms", 500, _N, "Longest time for which a leader lets a consumer's Fetch wait."),
        ConfigKey("fetch.min.bytes", 1, _N, "Bytes for which a leader lets a consumer's Fetch wait."),
        ConfigKey("fetch.max.bytes", 52428800, _N, "Maximum of bytes in an answer to a Fetch.", 1),
        ConfigKey(
            "max.partition.fetch.bytes", 1048576, _N, "Maximum of bytes of a partition in an answer to a Fetch.", 1
        ),
        ConfigKey(
            "auto.offset.reset",
            "earliest",
            _N,
            "Position of a consumer that has none. Kafka's default is latest; here every record is to be read.",
            choices=("earliest", "latest", "none"),
        ),
        ConfigKey(
            "session.timeout.ms", 45000, _G, "Time without a heartbeat after which the group removes a member.", 1
        ),
        ConfigKey("heartbeat.interval.ms", 3000, _G, "Interval of a member's heartbeats.", 1),
        ConfigKey(
            "max.poll.interval.ms",
            300000,
            _G,
            "Time without a poll after which a member leaves, and time for which the group waits for members to join.",
            1,
        ),
        ConfigKey("enable.auto.commit", True, _G, "The consumer regularly commits its positions by itself."),
        ConfigKey("auto.commit.interval.ms", 5000, _G, "Interval of those commits.", 1),
        ConfigKey(
            "partition.assignment.strategy",
            "range,cooperative-sticky",
            _G,
            "Assignors, the preferred one first. With cooperative-sticky alone members keep what they own while they "
            "join again.",
            choices=ASSIGNMENT_STRATEGIES,
        ),
        ConfigKey(
            "group.instance.id",
            "",
            _G,
            "Name of a static member, which does not leave the group when it stops; empty: a dynamic member.",
        ),
        ConfigKey("internal.leave.group.on.close", True, _G, "A dynamic member leaves the group when it is closed."),
        ConfigKey("default.api.timeout.ms", 60000, _NA, "Timeout of one call of the application.", 1),
        # the emulator's own
        ConfigKey(
            "metadata.propagation",
            "log",
            ("controller", "broker", "krift"),
            "Source of the brokers' metadata: the metadata log, or UpdateMetadata of the controller as before KRaft.",
            choices=("log", "push"),
        ),
        ConfigKey(
            INTER_BROKER_PROTOCOL,
            METADATA_EPOCH_PROTOCOL,
            ("controller", "broker"),
            "With kip-232: seed: protocol between controllers and brokers. 1.0-IV0: without metadata epochs, as "
            "between the proposal's two rolling bounces; 1.1-IV0: with them.",
            choices=("1.0-IV0", METADATA_EPOCH_PROTOCOL),
        ),
        ConfigKey(
            "krift.metadata.clean.interval.ms",
            60000,
            ("controller", "broker", "krift"),
            "Interval at which expired metadata snapshots are deleted; a constant in Kafka.",
            1,
        ),
        ConfigKey(
            "krift.group.load.ms", 10, ("broker", "krift"), "Modelled time that a coordinator takes to read its log."
        ),
        ConfigKey(
            "krift.offsets.retention.ms",
            -1,
            ("broker", "krift"),
            "The same as offsets.retention.minutes, in milliseconds, for runs that last seconds; -1: that one holds.",
            -1,
        ),
        ConfigKey(
            "krift.remote.store.timeout.ms",
            60000,
            ("broker", "krift"),
            "Timeout of a broker's request to the remote store; in Kafka a setting of the plugin.",
            1,
        ),
        ConfigKey(
            "krift.metrics.port",
            -1,
            ("broker", "krift"),
            "Live: port of 127.0.0.1 at which Prometheus reads the broker's metrics. 0: any free port, which is in "
            "the file `metrics-port` of its logs; -1: none.",
            -1,
            65535,
        ),
        ConfigKey(
            "krift.request.service.us", 0, ("broker", "krift"), "Modelled time that the handling of a request takes."
        ),
        ConfigKey(
            "krift.remote.store.uri",
            "",
            ("remote-store",),
            "Live: location of the remote store's objects, as a URI of pyarrow.fs: file:///... or "
            "s3://bucket/prefix; empty: its own directory of the run.",
        ),
        ConfigKey(
            "krift.os.flush.ms",
            30000,
            ("controller", "broker", "krift"),
            "Interval at which the operating system writes unsynced data to disk.",
            1,
        ),
    )
}


SERVER_SYNONYMS: dict[str, str] = {
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "local.retention.bytes": "log.local.retention.bytes",
    "remote.copy.lag.ms": "log.remote.copy.lag.ms",
    "remote.copy.lag.bytes": "log.remote.copy.lag.bytes",
}
"""What a topic's key is called for brokers, if it is called otherwise there (``ServerTopicConfigSynonyms``)."""


def config_text(value: Any) -> str:
    """A value as Kafka writes it into the metadata log."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def config_value(key: str, text: str) -> Any:
    """Inverse of ``config_text`` for a key of the table. Raises ValueError if ``text`` is not one of its values, as
    ``ConfigDef`` does."""
    entry = CONFIG[key]
    text = text.strip()
    if isinstance(entry.default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"Invalid value {text} for configuration {key}: Expected value to be either true or false")
        return text.lower() == "true"
    if isinstance(entry.default, int):
        digits, kind = (19, "LONG") if entry.high > INT_MAX else (10, "INT")
        if not re.fullmatch(rf"[+-]?[0-9]{{1,{digits}}}", text):
            raise ValueError(f"Invalid value {text} for configuration {key}: Not a number of type {kind}")
        if not entry.low <= int(text) <= entry.high:
            raise ValueError(f"Invalid value {text} for configuration {key}: Value must be at least {entry.low}")
        return int(text)
    if entry.choices and text not in entry.choices:
        raise ValueError(f"Invalid value {text} for configuration {key}: it must be one of {', '.join(entry.choices)}")
    return text


def setting(config: Mapping[str, Any], key: str) -> Any:
    """What a node with this config has for a key of the table: its default where nothing is given."""
    return config.get(key, CONFIG[key].default)


def default_config(scope: Scope) -> dict[str, Any]:
    """Every key of a scope at its default, in the order of the table."""
    return {key.name: key.default for key in CONFIG.values() if scope in key.scopes}
