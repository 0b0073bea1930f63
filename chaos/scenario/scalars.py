"""The scalars of the scenario language as typed values: durations, rates, chances, versions, selectors, references.

Each is checked when it is read, is written as it is read (where faults and actions have it), and has its own piece of
the JSON Schema.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeGuard

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from actors.crash_points import POINTS
from chaos.scenario.durations import (
    CHANCE_EXPECTED,
    CHANCE_PATTERN,
    DURATION_EXPECTED,
    DURATION_PATTERN,
    OFFSET_EXPECTED,
    OFFSET_PATTERN,
    RATE_CHANGE_EXPECTED,
    RATE_CHANGE_PATTERN,
    RATE_EXPECTED,
    RATE_PATTERN,
    VERSIONS_EXPECTED,
    VERSIONS_PATTERN,
    Malformed,
    format_chance,
    format_duration,
    format_offset,
    format_rate,
    format_versions,
    parse_chance_ppm,
    parse_duration_us,
    parse_offset_us,
    parse_rate,
    parse_rate_ppm,
    parse_versions,
)
from chaos.scenario.selectors import EXPECTED as SELECTOR_EXPECTED, Selector, parse_selector

NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
COORDINATORS_TOPICS = ("__consumer_offsets", "__transaction_state", "__remote_log_metadata")
"""The topics of Kafka's own that a scenario may lay out, so that it is known who coordinates groups, and transactions,
and who leads the metadata of remote storage; else the first who needs one of them has it made."""
TOPIC_PATTERN = rf"^({'|'.join(COORDINATORS_TOPICS)}|[a-zA-Z0-9][a-zA-Z0-9._-]{{0,199}})$"

TIMESTAMPS = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
"""Names for the special timestamps of ListOffsets (``ListOffsetsRequest.java``)."""

HIGH_WATERMARK = "high-watermark"
"""In place of an offset up to which records are deleted: all that is committed."""

RANDOM = "random"
"""A core that is drawn when the chaos is over."""

DURATION_MAX_US = 7 * 24 * 3_600_000_000
"""Longest run: a week's soak."""


def _text(value: Any, expected: str) -> str:
    if not isinstance(value, str):
        raise Malformed(f"{value!r} is not text", expected)
    return value


def _duration(value: Any) -> int:
    return parse_duration_us(_text(value, DURATION_EXPECTED))


def _rate(value: Any) -> float:
    return parse_rate(_text(value, RATE_EXPECTED))


def _chance(value: Any) -> int:
    return parse_chance_ppm(_text(value, CHANCE_EXPECTED))


def _offset(value: Any) -> int:
    return parse_offset_us(_text(value, OFFSET_EXPECTED))


def _rate_change(value: Any) -> int:
    return parse_rate_ppm(_text(value, RATE_CHANGE_EXPECTED))


def _versions(value: Any) -> list[int]:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value, VERSIONS_EXPECTED)
    return list(parse_versions(text))


def _selectors(value: Any) -> list[Selector]:
    texts = value if isinstance(value, list) else [value]
    if not texts:
        raise Malformed("the list is empty", "at least one selector")
    return [parse_selector(_text(text, SELECTOR_EXPECTED)) for text in texts]


def _servers(value: Any) -> list[Selector]:
    return _selectors(["controllers", "brokers"] if value == "all" else value)


def _core(value: Any) -> list[Selector]:
    return [] if value == RANDOM else _selectors(value)


def _topic_partitions(value: Any) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts:
        raise Malformed("the list is empty", "all, or at least one topic partition")
    names = [_text(text, "all, or topic partitions such as orders-0") for text in texts]
    if "all" in names and len(names) > 1:
        raise Malformed("all and others are given together", "all alone, or topic partitions such as orders-0")
    return names


def _point(value: Any) -> str:
    if not isinstance(value, str) or value not in POINTS:
        raise Malformed(f"{value!r} is not a point", "one of " + ", ".join(POINTS))
    return value


def _positive(us: int) -> int:
    if us <= 0:
        raise Malformed("it is 0", f"{DURATION_EXPECTED}, above 0")
    return us


def _not_too_long(us: int) -> int:
    if us > DURATION_MAX_US:
        raise Malformed(f"{us // 3_600_000_000}h is too long", "at most 168h")
    return us


def _scalar(value: Any) -> bool | int | str:
    if isinstance(value, bool | int | str):
        return value
    raise Malformed(f"{value!r} will not do", "a whole number, true, false or a word")


def _trigger_argument(value: Any) -> bool | int | str | list[str]:
    """A value as Kafka's are, or one or more selectors: which of them belongs there is known with the trigger."""
    if not isinstance(value, list):
        return _scalar(value)
    if not value:
        raise Malformed("the list is empty", "at least one selector")
    return [_text(text, SELECTOR_EXPECTED) for text in value]


def _feature(value: Any) -> Any:
    """Kafka's own features have levels, which are numbers."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _is_from_0(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _timestamp(value: Any) -> int:
    if isinstance(value, str) and value in TIMESTAMPS:
        return TIMESTAMPS[value]
    if _is_from_0(value):
        return value
    raise Malformed(f"{value!r} is not a timestamp", f"{', '.join(TIMESTAMPS)}, or milliseconds")


def _deletion_offset(value: Any) -> int | str:
    if value == HIGH_WATERMARK:
        return HIGH_WATERMARK
    if _is_from_0(value):
        return value
    raise Malformed(f"{value!r} is not an offset", f"0 or more, or {HIGH_WATERMARK}")


def _references(value: Any) -> dict[str, dict[str, Any]]:
    """A trigger by name, or with arguments as a mapping of one key."""
    if isinstance(value, str):
        return {value: {}}
    if isinstance(value, dict) and len(value) == 1:
        ((name, arguments),) = value.items()
        if isinstance(name, str) and isinstance(arguments, dict | None):
            return {name: arguments or {}}
    raise Malformed("it is not one trigger", "a trigger's name, or {name: {argument: value}}")


def _texts(selectors: list[Selector]) -> list[str]:
    return [str(selector) for selector in selectors]


def _names(names: list[str]) -> str | list[str]:
    return "all" if names == ["all"] else names


def _range(bounds: list[int]) -> str:
    return format_versions(*bounds)


AS_DURATION = PlainSerializer(format_duration)
"""How a scalar is written, and by which those of a kind are found (``chaos.faults.base``)."""
AS_CHANCE = PlainSerializer(format_chance)
AS_SELECTORS = PlainSerializer(_texts)
AS_PARTITIONS = PlainSerializer(_names)


def _duration_schema(about: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "description": about})


SELECTORS_SCHEMA = WithJsonSchema(
    {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
        "description": f"One or more of: {SELECTOR_EXPECTED}.",
    }
)
POINT_SCHEMA = WithJsonSchema({"enum": list(POINTS), "description": "Where its process ends."})
_TRIGGER_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string"},
            {"type": "object", "additionalProperties": {"type": "object"}, "minProperties": 1, "maxProperties": 1},
        ],
        "description": "A trigger's name, or {name: {argument: value}}; nodes are named by selectors, as in faults.",
    }
)

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
TopicName = Annotated[str, Field(pattern=TOPIC_PATTERN)]
GroupId = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9._-]{1,100}$", description="A consumer group, by its id; members share its partitions."),
]
Duration = Annotated[int, BeforeValidator(_duration), _duration_schema("3s, 4500ms, 2m"), AS_DURATION]
PositiveDuration = Annotated[
    int,
    AfterValidator(_positive),
    BeforeValidator(_duration),
    _duration_schema("3s, 4500ms, 2m; above 0"),
    AS_DURATION,
]
RunDuration = Annotated[PositiveDuration, AfterValidator(_not_too_long)]
Rate = Annotated[
    float,
    BeforeValidator(_rate),
    WithJsonSchema({"type": "string", "pattern": RATE_PATTERN, "description": "100/s, 30/m"}),
]
Chance = Annotated[
    int,
    BeforeValidator(_chance),
    WithJsonSchema({"type": "string", "pattern": CHANCE_PATTERN, "description": "5%, 0.5%"}),
    AS_CHANCE,
]
Offset = Annotated[
    int,
    BeforeValidator(_offset),
    WithJsonSchema({"type": "string", "pattern": OFFSET_PATTERN, "description": "+500ms, -3s"}),
    PlainSerializer(format_offset),
]
RateChange = Annotated[
    int,
    BeforeValidator(_rate_change),
    WithJsonSchema({"type": "string", "pattern": RATE_CHANGE_PATTERN, "description": "+10%, -0.5%"}),
    PlainSerializer(format_rate),
]
Versions = Annotated[
    list[int],
    BeforeValidator(_versions),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": VERSIONS_PATTERN}, {"type": "integer"}], "description": "1-4, or 4"}
    ),
    PlainSerializer(_range),
]
TopicPartitions = Annotated[
    list[str],
    BeforeValidator(_topic_partitions),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
    AS_PARTITIONS,
]
Servers = Annotated[list[Selector], BeforeValidator(_servers), SELECTORS_SCHEMA, AS_SELECTORS]
Core = Annotated[
    list[Selector],
    BeforeValidator(_core),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
            "description": "random, or selectors of controllers and brokers.",
        }
    ),
]
Selectors = Annotated[list[Selector], BeforeValidator(_selectors), SELECTORS_SCHEMA, AS_SELECTORS]
Point = Annotated[str, BeforeValidator(_point), POINT_SCHEMA]
ConfigValue = Annotated[
    Any, AfterValidator(_scalar), WithJsonSchema({"type": ["boolean", "integer", "string"], "description": "Kafka's"})
]
TriggerArgument = Annotated[Any, AfterValidator(_trigger_argument)]
TriggerReference = Annotated[dict[str, dict[str, TriggerArgument]], BeforeValidator(_references), _TRIGGER_SCHEMA]
Timestamp = Annotated[
    Any,
    AfterValidator(_timestamp),
    WithJsonSchema({"anyOf": [{"enum": list(TIMESTAMPS)}, {"type": "integer", "minimum": 0}]}),
]
DeletionOffset = Annotated[
    Any,
    AfterValidator(_deletion_offset),
    WithJsonSchema({"anyOf": [{"const": HIGH_WATERMARK}, {"type": "integer", "minimum": 0}]}),
]
Config = dict[str, ConfigValue]
FeatureValues = dict[
    str,
    Annotated[str, BeforeValidator(_feature), WithJsonSchema({"type": ["string", "integer"]})],
]
VersionRanges = dict[str, Versions]
