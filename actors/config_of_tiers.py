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
        "Brokers have tiered storage; in a cluster with a remote store the default is true.",
    ),
    ConfigKey(
        "remote.log.copy.disable",
        False,
        _T,
        "Leaders copy no more segments of the topic; existing copies are still read and deleted.",
    ),
    ConfigKey(
        "log.local.retention.ms",
        -2,
        _B,
        "Age at which a copied segment is deleted locally; -1: never, -2: as log.retention.ms.",
        -2,
        LONG_MAX,
        dynamic=True,
    ),
    ConfigKey("local.retention.ms", -2, _T, "The same in one topic; at most retention.ms.", -2, LONG_MAX),
    ConfigKey(
        "log.local.retention.bytes",
        -2,
        _B,
        "Size of a broker's local part of a log above which its oldest copied segments are deleted locally; -1: no "
        "limit, -2: as log.retention.bytes.",
        -2,
        LONG_MAX,
        dynamic=True,
    ),
    ConfigKey("local.retention.bytes", -2, _T, "The same in one topic; at most retention.bytes.", -2, LONG_MAX),
    ConfigKey(
        "remote.log.manager.task.interval.ms",
        30000,
        _B,
        "Interval at which leaders copy segments to the remote store, and delete expired copies there.",
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
        "Bytes after a full segment at which it is copied whatever its age; -1: the number that is retained locally.",
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
        "Partitions of __remote_log_metadata at its creation.",
        1,
    ),
    ConfigKey(
        "rlmm.config.remote.log.metadata.topic.replication.factor",
        3,
        _B,
        "Replicas of __remote_log_metadata at its creation.",
        1,
        32767,
    ),
    ConfigKey(
        "rlmm.config.remote.log.metadata.topic.retention.ms",
        -1,
        _B,
        "Retention of __remote_log_metadata; -1: for ever.",
        -1,
        LONG_MAX,
    ),
    ConfigKey(
        "rlmm.config.remote.log.metadata.topic.min.isr", 2, _B, "min.insync.replicas of __remote_log_metadata.", 1
    ),
    ConfigKey(
        "rlmm.config.remote.log.metadata.consume.wait.ms",
        120000,
        _B,
        "Time within which a broker must read its own records back from that topic; then it gives up.",
        0,
        LONG_MAX,
    ),
)
