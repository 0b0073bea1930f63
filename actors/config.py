"""Kafka's configuration keys that Krift reads, with Kafka's names and defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Scope = Literal["controller", "broker", "topic", "producer", "consumer", "group-consumer", "admin", "krift"]


INTER_BROKER_PROTOCOL = "inter.broker.protocol.version"
METADATA_EPOCH_PROTOCOL = "1.1-IV0"
"""Value of that key from which on there are metadata epochs; Kafka's own 1.1-IV0 has none, as it took another way."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class ConfigKey(msgspec.Struct, frozen=True):
    """One key. Values are int (a count, bytes or milliseconds as the name says), bool or str.
    ``low`` and ``high`` bound an int; ``choices`` a str, where there are any. ``dynamic``: a broker takes a new value
    without a restart (``DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS``); a topic's keys always are."""

    name: str
    default: Any
    scopes: tuple[Scope, ...]
    about: str
    low: int = 0
    high: int = INT_MAX
    choices: tuple[str, ...] = ()
    dynamic: bool = False


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
        ConfigKey("controller.quorum.election.timeout.ms", 1000, _CB, "Silence after which a voter stands.", 1),
        ConfigKey("controller.quorum.fetch.timeout.ms", 2000, _CB, "Follower gives up on the leader.", 1),
        ConfigKey("controller.quorum.election.backoff.max.ms", 1000, _CB, "Longest delay after EndQuorumEpoch."),
        ConfigKey("controller.quorum.request.timeout.ms", 2000, _CB, "In-flight quorum RPC.", 1),
        ConfigKey("controller.quorum.retry.backoff.ms", 20, _CB, "Pause after a failed quorum RPC."),
        ConfigKey("controller.quorum.append.linger.ms", 25, _C, "Batching of the leader's appends."),
        ConfigKey(
            "controller.quorum.fetch.max.bytes",
            1048576,
            _CB,
            "Bytes of a Fetch of the metadata log; one batch at least.",
        ),
        ConfigKey(
            "controller.quorum.fetch.snapshot.max.bytes",
            1048576,
            _CB,
            "Most of a snapshot in one answer.",
            1,
        ),
        ConfigKey(
            "metadata.log.max.record.bytes.between.snapshots", 20971520, _CB, "Of metadata, for the next snapshot.", 1
        ),
        ConfigKey(
            "metadata.log.max.snapshot.interval.ms", 3600000, _CB, "At most between snapshots; 0: only by bytes."
        ),
        ConfigKey(
            "metadata.max.retention.bytes",
            104857600,
            _CB,
            "Of the metadata log and its snapshots, before the oldest go; -1: no limit.",
            -1,
        ),
        ConfigKey(
            "metadata.max.retention.ms", 604800000, _CB, "Age at which the oldest snapshot goes; -1: no limit.", -1
        ),
        ConfigKey(
            "controller.quorum.bootstrap.servers",
            "",
            _CB,
            "Whom to ask for the leader where the voters are in the log, as node names with commas; empty: all "
            "controllers that the run began with.",
        ),
        ConfigKey(
            "controller.quorum.auto.join.enable",
            False,
            _C,
            "A controller that is no voter adds itself, where the voters are in the log; it removes first what it was "
            "before its disk was wiped.",
        ),
        ConfigKey(
            "advertised.listeners",
            "",
            _C,
            "Host that the voter set has of a voter; empty: its name. Nodes are found by their ids all the same.",
        ),
        ConfigKey("metadata.max.idle.interval.ms", 500, _C, "No-op record so that the high watermark moves."),
        # controller and registration
        ConfigKey("broker.session.timeout.ms", 9000, _CB, "Silence after which a broker is fenced.", 1),
        ConfigKey("broker.heartbeat.interval.ms", 2000, _B, "Between a broker's heartbeats.", 1),
        ConfigKey(
            "initial.broker.registration.timeout.ms", 60000, _B, "A broker that is not registered by then ends.", 1
        ),
        ConfigKey("controlled.shutdown.enable", True, _B, "Ask the controller before stopping."),
        ConfigKey("unclean.leader.election.interval.ms", 300000, _C, "Between passes over partitions without one.", 1),
        ConfigKey("auto.leader.rebalance.enable", True, _C, "Preferred leaders are elected by and by."),
        ConfigKey("leader.imbalance.check.interval.seconds", 300, _C, "Between such passes.", 1),
        ConfigKey("unclean.leader.election.enable", False, _CBT, "Elect outside the ISR.", dynamic=True),
        ConfigKey("num.partitions", 1, _C, "Of a topic that is created without saying how many.", 1),
        ConfigKey("default.replication.factor", 1, _C, "The same of its replicas.", 1, 32767),
        ConfigKey("delete.topic.enable", True, _C, "Whether topics may be deleted."),
        # replication
        ConfigKey("min.insync.replicas", 1, _CBT, "Least ISR for acks=all.", 1, dynamic=True),
        ConfigKey("message.max.bytes", 1048588, _B, "Largest batch that a topic takes.", dynamic=True),
        ConfigKey("max.message.bytes", 1048588, _T, "The same of one topic."),
        ConfigKey(
            "log.message.timestamp.before.max.ms",
            LONG_MAX,
            _B,
            "How far a record's timestamp may lie behind the leader's clock.",
            high=LONG_MAX,
            dynamic=True,
        ),
        ConfigKey("message.timestamp.before.max.ms", LONG_MAX, _T, "The same in one topic.", high=LONG_MAX),
        ConfigKey(
            "log.message.timestamp.after.max.ms",
            3600000,
            _B,
            "How far it may lie ahead.",
            high=LONG_MAX,
            dynamic=True,
        ),
        ConfigKey("message.timestamp.after.max.ms", 3600000, _T, "The same in one topic.", high=LONG_MAX),
        ConfigKey("replica.lag.time.max.ms", 30000, _B, "Lag after which a follower leaves the ISR.", 1),
        ConfigKey("replica.fetch.wait.max.ms", 500, _B, "Longest parking of a follower's Fetch."),
        ConfigKey("replica.fetch.min.bytes", 1, _B, "Least bytes for a follower's Fetch."),
        ConfigKey("replica.fetch.max.bytes", 1048576, _B, "Bytes per partition of a follower's Fetch.", 1),
        ConfigKey("replica.fetch.response.max.bytes", 10485760, _B, "Bytes of a follower's Fetch.", 1),
        ConfigKey("replica.fetch.backoff.ms", 1000, _B, "Pause of a fetcher after an error."),
        ConfigKey("replica.socket.timeout.ms", 30000, _B, "Time-out of a follower's Fetch.", 1),
        ConfigKey("replica.high.watermark.checkpoint.interval.ms", 5000, _B, "Between checkpoints of the HW.", 1),
        ConfigKey("max.incremental.fetch.session.cache.slots", 1000, _B, "Fetch sessions that a broker keeps."),
        # groups
        ConfigKey("offsets.topic.num.partitions", 50, _B, "Partitions of `__consumer_offsets`, when it is made.", 1),
        ConfigKey("offsets.topic.replication.factor", 3, _B, "Its replicas.", 1, 32767),
        ConfigKey("offsets.commit.timeout.ms", 5000, _B, "For which a coordinator waits for its high watermark.", 1),
        ConfigKey("offset.metadata.max.bytes", 4096, _B, "Longest text that comes with a committed offset."),
        ConfigKey("offsets.retention.minutes", 10080, _B, "For which offsets stay of a group that has no members.", 1),
        ConfigKey("offsets.retention.check.interval.ms", 600000, _B, "Between looks for offsets that expired.", 1),
        ConfigKey("group.min.session.timeout.ms", 6000, _B, "Least session time-out that a member may ask for."),
        ConfigKey("group.max.session.timeout.ms", 1800000, _B, "Longest session time-out."),
        ConfigKey("group.initial.rebalance.delay.ms", 3000, _B, "For which an empty group waits for more members."),
        ConfigKey("group.max.size", INT_MAX, _B, "Most members of a group.", 1),
        ConfigKey("num.io.threads", 8, _B, "Request handler slots.", 1, dynamic=True),
        ConfigKey("request.timeout.ms", 30000, _ALL, "A client's request; a broker's call to the controller.", 1),
        # clients
        ConfigKey("reconnect.backoff.ms", 50, _ALL, "Pause before a connection is tried again."),
        ConfigKey("reconnect.backoff.max.ms", 1000, _ALL, "Longest such pause; it doubles per failure."),
        ConfigKey(
            "socket.connection.setup.timeout.ms",
            10000,
            _PNA,
            "With mend.hung-brokers: after which a connection that is being made is no longer preferred.",
            1,
        ),
        ConfigKey("retry.backoff.ms", 100, _PNA, "Pause before a request is tried again."),
        ConfigKey("retry.backoff.max.ms", 1000, _PNA, "Longest such pause; it doubles per failure."),
        ConfigKey("metadata.max.age.ms", 300000, _PNA, "Age at which metadata is refreshed anyway.", 1),
        ConfigKey("acks", "all", _P, "0, 1 or all.", choices=("0", "1", "all")),
        ConfigKey("enable.idempotence", True, _P, "Sequence numbers; needs acks=all."),
        ConfigKey("linger.ms", 5, _P, "Wait for more records before a batch is sent."),
        ConfigKey("batch.size", 16384, _P, "Bytes at which a batch is full.", 1),
        ConfigKey("max.in.flight.requests.per.connection", 5, _P, "Unanswered requests per connection.", 1, 5),
        ConfigKey("retries", 2147483647, _P, "Attempts after the first."),
        ConfigKey("delivery.timeout.ms", 120000, _P, "Time in which a send succeeds or fails.", 1),
        ConfigKey(
            "isolation.level",
            "read_uncommitted",
            _N,
            "Which records of transactions are read.",
            choices=("read_uncommitted", "read_committed"),
        ),
        ConfigKey("fetch.max.wait.ms", 500, _N, "Longest parking of a consumer's Fetch."),
        ConfigKey("fetch.min.bytes", 1, _N, "Least bytes for a consumer's Fetch."),
        ConfigKey("fetch.max.bytes", 52428800, _N, "Bytes of a Fetch.", 1),
        ConfigKey("max.partition.fetch.bytes", 1048576, _N, "Bytes per partition of a Fetch.", 1),
        ConfigKey(
            "auto.offset.reset",
            "earliest",
            _N,
            "Kafka's default is latest; a checker wants every record.",
            choices=("earliest", "latest", "none"),
        ),
        ConfigKey("session.timeout.ms", 45000, _G, "Silence after which a group goes on without its member.", 1),
        ConfigKey("heartbeat.interval.ms", 3000, _G, "Between a member's heartbeats.", 1),
        ConfigKey(
            "max.poll.interval.ms",
            300000,
            _G,
            "A member whose application does not poll for so long leaves; the group waits so long for members to join.",
            1,
        ),
        ConfigKey("enable.auto.commit", True, _G, "The consumer commits what it delivered by itself."),
        ConfigKey("auto.commit.interval.ms", 5000, _G, "Between two such commits.", 1),
        ConfigKey(
            "partition.assignment.strategy",
            "range,cooperative-sticky",
            _G,
            "Assignors, the preferred one first. With cooperative-sticky alone members keep what they own while they "
            "join again.",
            choices=ASSIGNMENT_STRATEGIES,
        ),
        ConfigKey("group.instance.id", "", _G, "Of a static member, which does not leave when it stops; empty: none."),
        ConfigKey("internal.leave.group.on.close", True, _G, "A dynamic member that is closed says so."),
        ConfigKey("default.api.timeout.ms", 60000, _NA, "Time for one operation of the application.", 1),
        # the emulator's own
        ConfigKey(
            "metadata.propagation",
            "log",
            ("controller", "broker", "krift"),
            "What brokers tell clients comes from the metadata log, or is pushed by UpdateMetadata as before KRaft.",
            choices=("log", "push"),
        ),
        ConfigKey(
            INTER_BROKER_PROTOCOL,
            METADATA_EPOCH_PROTOCOL,
            ("controller", "broker"),
            "With kip-232: seed: how controllers speak to brokers. 1.0-IV0: without metadata epochs, as between the "
            "seed's two rolling bounces; 1.1-IV0: with them.",
            choices=("1.0-IV0", METADATA_EPOCH_PROTOCOL),
        ),
        ConfigKey(
            "krift.metadata.clean.interval.ms",
            60000,
            ("controller", "broker", "krift"),
            "Between looks for metadata snapshots that may go; a constant in Kafka.",
            1,
        ),
        ConfigKey(
            "krift.group.load.ms", 10, ("broker", "krift"), "Modelled time in which a coordinator reads its log."
        ),
        ConfigKey("krift.request.service.us", 0, ("broker", "krift"), "Modelled time in a request handler slot."),
        ConfigKey(
            "krift.os.flush.ms",
            30000,
            ("controller", "broker", "krift"),
            "Between two times that the operating system writes out what no Sync covered.",
            1,
        ),
    )
}


SERVER_SYNONYMS: dict[str, str] = {
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
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
