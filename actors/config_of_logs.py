"""The configuration keys of logs: segments, retention and where logs begin."""

from __future__ import annotations

from actors.config_key import LONG_MAX, ConfigKey, Scope

_B: tuple[Scope, ...] = ("broker",)
_T: tuple[Scope, ...] = ("topic",)

LOG_KEYS = (
    ConfigKey("log.segment.bytes", 1073741824, _B, "Size at which a segment of a log is full.", 14, dynamic=True),
    ConfigKey("segment.bytes", 1073741824, _T, "The same in one topic. Kafka 4 allows no less than 1 MiB.", 14),
    ConfigKey(
        "log.roll.ms",
        604800000,
        _B,
        "Age at which a segment of a log is full, by the records' timestamps.",
        1,
        LONG_MAX,
        dynamic=True,
    ),
    ConfigKey("segment.ms", 604800000, _T, "The same in one topic.", 1, LONG_MAX),
    ConfigKey(
        "log.retention.ms",
        604800000,
        _B,
        "Age at which a segment is deleted, by its newest record; -1: never.",
        -1,
        LONG_MAX,
        dynamic=True,
    ),
    ConfigKey("retention.ms", 604800000, _T, "The same in one topic.", -1, LONG_MAX),
    ConfigKey(
        "log.retention.bytes",
        -1,
        _B,
        "Size of a log above which its oldest segments are deleted; -1: no limit.",
        -1,
        LONG_MAX,
        dynamic=True,
    ),
    ConfigKey("retention.bytes", -1, _T, "The same in one topic.", -1, LONG_MAX),
    ConfigKey(
        "log.retention.check.interval.ms", 300000, _B, "Interval at which a broker looks for segments to delete.", 1
    ),
    ConfigKey("log.initial.task.delay.ms", 30000, _B, "Time from a broker's start to the first such check."),
    ConfigKey(
        "log.flush.start.offset.checkpoint.interval.ms",
        60000,
        _B,
        "Interval at which a broker writes its log starts to disk.",
    ),
)
"""In the order of the table."""
