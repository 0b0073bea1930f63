"""Configuration keys of tiered storage, but for those of what is read from it (``RemoteLogManagerConfig.java``)."""

from __future__ import annotations

from actors.config_key import LONG_MAX, ConfigKey, Scope

_B: tuple[Scope, ...] = ("broker",)
_T: tuple[Scope, ...] = ("topic",)

TIER_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "remote.log.storage.system.enable",
        False,
        _B,
        "Brokers have tiered storage; true where the cluster has a remote store and nothing is said.",
    ),
    ConfigKey(
        "remote.log.copy.disable",
        False,
        _T,
        "No segment of the topic is copied any more; what was copied is still read and deleted.",
    ),
    ConfigKey(
        "log.local.retention.ms",
        -2,
        _B,
        "Age at which a segment that is copied is deleted locally; -1: never, -2: as log.retention.ms says.",
        -2,
        LONG_MAX,
        dynamic=True,
    ),
    ConfigKey("local.retention.ms", -2, _T, "The same in one topic, which retention.ms limits.", -2, LONG_MAX),
    ConfigKey(
        "log.local.retention.bytes",
        -2,
        _B,
        "Size of what a broker has of a log above which its oldest copied segments are deleted there; -1: no limit, "
        "-2: as log.retention.bytes says.",
        -2,
        LONG_MAX,
        dynamic=True,
    ),
    ConfigKey("local.retention.bytes", -2, _T, "The same in one topic, which retention.bytes limits.", -2, LONG_MAX),
    ConfigKey(
        "remote.log.manager.task.interval.ms",
        30000,
        _B,
        "Interval at which leaders copy segments to the remote store, and delete there what has expired.",
        1,
        LONG_MAX,
    ),
    ConfigKey(
        "log.remote.copy.lag.ms",
        0,
        _B,
        "Age at which a full segment is copied; -1: that of its local deletion. Newer than Kafka 4.3.1.",
        -1,
        LONG_MAX,
        dynamic=True,
    ),
    ConfigKey("remote.copy.lag.ms", 0, _T, "The same in one topic.", -1, LONG_MAX),
    ConfigKey(
        "log.remote.copy.lag.bytes",
        -1,
        _B,
        "Bytes behind a full segment with which it is copied, too; -1: as many as are retained locally.",
        -1,
        LONG_MAX,
        dynamic=True,
    ),
    ConfigKey("remote.copy.lag.bytes", -1, _T, "The same in one topic.", -1, LONG_MAX),
    ConfigKey(
        "remote.fetch.max.wait.ms",
        500,
        _B,
        "Longest wait of a Fetch for remote storage.",
        1,
        dynamic=True,
    ),
    ConfigKey(
        "rlmm.config.remote.log.metadata.topic.num.partitions",
        50,
        _B,
        "Partitions of __remote_log_metadata, when it is made.",
        1,
    ),
    ConfigKey("rlmm.config.remote.log.metadata.topic.replication.factor", 3, _B, "Its replicas.", 1, 32767),
    ConfigKey(
        "rlmm.config.remote.log.metadata.topic.retention.ms", -1, _B, "Its retention; -1: for ever.", -1, LONG_MAX
    ),
    ConfigKey("rlmm.config.remote.log.metadata.topic.min.isr", 2, _B, "Its min.insync.replicas.", 1),
    ConfigKey(
        "rlmm.config.remote.log.metadata.consume.wait.ms",
        120000,
        _B,
        "Time after which a broker gives up to see in the topic what it wrote there.",
        0,
        LONG_MAX,
    ),
)
