"""A nemesis file as typed models: weights over all that a scenario can say.

Strict and closed like the scenario language itself. A mapping of weights is ``{choice: weight}``; a choice is drawn as
often as its weight says, in proportion to the others; weight 0 never. ``docs/nemeses.md`` is the reference. References
(fault kinds, features, configuration keys, triggers, APIs) are checked in ``chaos.nemesis.checks``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from chaos.scenario.durations import (
    Malformed,
    parse_chance_ppm,
    parse_duration_us,
    parse_offset_us,
    parse_rate,
    parse_rate_ppm,
)
from chaos.scenario.scalars import Name
from chaos.scenario.strict import Model

SCHEMA = "krift-nemesis/v1"
NOTHING = "nothing"
"""Choice of configuration that leaves the key at its default, and of a pattern that there is none."""


def _whole(value: Any) -> int:
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        return int(value)
    raise Malformed(f"{value!r} is not a number", "a whole number, at least 0")


def _duration(value: Any) -> int:
    return parse_duration_us(str(value))


def _range(value: Any) -> tuple[int, int]:
    low, dash, high = str(value).partition("-")
    if not dash:
        raise Malformed(f"{value!r} is not a range of durations", "a range such as 300ms-3s")
    bounds = parse_duration_us(low), parse_duration_us(high)
    if not 0 < bounds[0] <= bounds[1]:
        raise Malformed(f"{value!r} is empty", "a range such as 300ms-3s, the shorter one first, above 0")
    return bounds


def _offset(value: Any) -> int:
    return abs(parse_offset_us(f"+{value}"))


def _rate(value: str) -> str:
    parse_rate(value)
    return value


def _chance(value: str) -> str:
    parse_chance_ppm(value)
    return value


def _rate_change(value: str) -> str:
    parse_rate_ppm(value)
    return value


def _weighed(value: dict[Any, float]) -> dict[Any, float]:
    if not any(value.values()):
        raise Malformed("nothing in it has any weight", "at least one weight above 0")
    return value


Weight = Annotated[float, Field(ge=0, le=1_000_000)]
_LISTED = WithJsonSchema({"type": "object", "additionalProperties": {"type": "number", "minimum": 0}})
_SOME = AfterValidator(_weighed)

Words = Annotated[dict[str, Weight], _SOME, _LISTED]
Counts = Annotated[dict[Annotated[int, BeforeValidator(_whole)], Weight], _SOME, _LISTED]
Durations = Annotated[dict[Annotated[int, BeforeValidator(_duration)], Weight], _SOME, _LISTED]
DurationRanges = Annotated[
    dict[Annotated[tuple[int, int], BeforeValidator(_range)], Weight],
    _SOME,
    _LISTED,
]
Offsets = Annotated[dict[Annotated[int, BeforeValidator(_offset)], Weight], _SOME, _LISTED]
Rates = Annotated[dict[Annotated[str, AfterValidator(_rate)], Weight], _SOME, _LISTED]
Chances = Annotated[dict[Annotated[str, AfterValidator(_chance)], Weight], _SOME, _LISTED]
RateChanges = Annotated[dict[Annotated[str, AfterValidator(_rate_change)], Weight], _SOME, _LISTED]

Age = Literal["newest", "older"]
YesNo = Literal["yes", "no"]
Acks = Literal["idempotent", "all", "1", "0"]
Timers = Literal["quick", "hasty", "kafka"]
Time = Literal["time", "seen"]
Healed = Literal["everybody", "core"]
Form = Literal["isolate", "between", "from-to"]
Target = Literal[
    "leader",
    "follower",
    "isr",
    "active-controller",
    "quorum-follower",
    "observer",
    "broker",
    "controller",
    "client",
    "brokers",
    "controllers",
    "clients",
    "coordinator",
    "member",
    "transaction-coordinator",
    "remote-store",
]
Call = Literal["admin", "consumer"]
Commit = Literal["auto", "sync", "async"]
Reset = Literal["earliest", "latest", "none"]
Assignor = Literal["range", "roundrobin", "cooperative-sticky"]
Isolation = Literal["read_uncommitted", "read_committed"]
Reason = Annotated[str, Field(min_length=1, max_length=2000)]


class Shape(Model):
    """The shape of the cluster and its topic. There are at most as many replicas as brokers, and min.insync.replicas is
    at most the number of replicas. Spare controllers exist if ``kraft.version`` is 1. Strangers are voters whose disks
    belong to another cluster, at most as many as the others can do without. remote_store: whether there is one, and the
    topic is tiered. retention: whether old segments are deleted; without it no key about segments and retention is
    drawn, unless the topic is tiered."""

    voters: Counts = {3: 1}
    spare_controllers: Counts = {0: 1}
    strangers: Counts = {0: 1}
    brokers: Counts = {3: 1}
    partitions: Counts = {1: 1}
    replicas: Counts = {3: 1}
    min_insync_replicas: Counts = {1: 1, 2: 2}
    remote_store: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    retention: Annotated[dict[YesNo, Weight], _SOME] = {"yes": 1}


class Versions(Model):
    """Whether a server, or a client for one of its APIs, speaks all versions or only older ones."""

    servers: Annotated[dict[Age, Weight], _SOME] = {"newest": 1}
    clients: Annotated[dict[Age, Weight], _SOME] = {"newest": 1}


class Workload(Model):
    """Clients: the number of each kind, and their properties. Of a producer: ``rate``: its records a second;
    ``retries``: the value of that key; ``hurry``: whether it is idempotent, and gives records up after a second. Of a
    prober: ``ago``: it looks up the time that long ago instead of a ``timestamp`` (0: it does not); ``calls``: of the
    admin client or of a consumer; ``together``: whether one call is about all partitions; ``api_timeout``: time after
    which it gives up, 0: Kafka's default, which an admin client also sends to the broker. ``external``: whether a
    consumer keeps its offsets outside Kafka; ``rewinds``: whether such a one goes back now and then, and another one
    where there is a remote store; ``reset``: its auto.offset.reset, with ``none`` only where it keeps its position in
    memory, and none in a group. ``members``: consumers of a group, beside the others, with ``assignor``, ``commit``,
    ``static``, ``stall`` and ``absence``; ``mixed``: whether each has several assignors, or one of these; ``twins``:
    whether two of them have one group.instance.id; ``patience``: whether they may be silent for longer than the time to
    join.
    ``transactional``: whether a producer sends in transactions; ``records``, ``aborts``: records of each transaction,
    and the percentage that it aborts; ``stays``: whether it stays in some for longer than their timeout; ``lingers``:
    whether it stays in its last one until that must have timed out; ``transfers``: whether they are transfers;
    ``namesakes``: whether all these producers have one transactional id, so that each fences the others.
    ``processors``: members of a group that copies the topic, each record with the positions in one transaction;
    ``returns``: whether another group with as many members copies the records back."""

    producers: Counts = {1: 2, 2: 1}
    consumers: Counts = {1: 2, 2: 1}
    probers: Counts = {1: 1, 2: 1}
    rate: Rates = {"20/s": 1, "50/s": 1}
    acks: Annotated[dict[Acks, Weight], _SOME] = {"idempotent": 1}
    linger: Durations = {5_000: 1}
    delivery: Durations = {120_000_000: 1}
    isolation: Annotated[dict[Isolation, Weight], _SOME] = {"read_uncommitted": 1}
    every: Durations = {50_000: 1}
    timestamp: Words = {"latest": 1}
    ago: Durations = {0: 1}
    calls: Annotated[dict[Call, Weight], _SOME] = {"admin": 1}
    together: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    api_timeout: Durations = {0: 1}
    as_broker: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    retries: Words = {NOTHING: 1}
    hurry: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    external: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    rewinds: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    reset: Annotated[dict[Reset, Weight], _SOME] = {"earliest": 1}
    members: Counts = {0: 1}
    assignor: Annotated[dict[Assignor, Weight], _SOME] = {"range": 1}
    commit: Annotated[dict[Commit, Weight], _SOME] = {"auto": 1}
    static: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    stall: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    absence: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    mixed: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    twins: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    patience: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    transactional: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    records: Counts = {5: 1}
    aborts: Counts = {20: 1}
    stays: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    lingers: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    transfers: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    namesakes: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}
    processors: Counts = {0: 1}
    returns: Annotated[dict[YesNo, Weight], _SOME] = {"no": 1}


class Course(Model):
    """The course of the chaos: its duration, the number of faults, the time within which they begin, the duration of
    each, and whether it begins and ends at a time or when an event is seen. ``healed``: whether every node is healed,
    or a core alone; then as many faults as ``stay`` says, which silence a node, last to the end of the chaos, and may
    stay after it."""

    duration: DurationRanges = {(6_000_000, 12_000_000): 1}
    number: Counts = {2: 1, 4: 1}
    within: DurationRanges = {(1_500_000, 6_000_000): 1}
    lasts: DurationRanges = {(100_000, 4_000_000): 1}
    begins: Annotated[dict[Time, Weight], _SOME] = {"time": 2, "seen": 1}
    ends: Annotated[dict[Time, Weight], _SOME] = {"time": 1}
    seen: Words = {"committed": 1, "leader-elected": 1}
    delay: Durations = {0: 1}
    pattern: Words = {NOTHING: 1}
    healed: Annotated[dict[Healed, Weight], _SOME] = {"everybody": 1}
    stay: Counts = {1: 2, 2: 2, 3: 1}


class Knobs(Model):
    """The properties of faults: the form of a cut, the number of nodes, chances, delays, points, clocks, the disk that
    is wiped. A wiped voter may forget records that only a majority with it had, and then Kafka promises little."""

    form: Annotated[dict[Form, Weight], _SOME] = {"isolate": 1, "between": 1, "from-to": 1}
    several: Counts = {1: 4, 2: 1}
    chance: Chances = {"0.5%": 1, "3%": 1, "20%": 1, "60%": 1}
    apis: Counts = {0: 2, 3: 1}
    slower_by: Durations = {5_000: 1, 50_000: 1, 300_000: 1, 1_500_000: 1}
    point: Words = {NOTHING: 1}
    nth: Counts = {1: 2, 2: 1, 5: 1}
    wiped: Annotated[dict[Literal["broker", "voter"], Weight], _SOME] = {"broker": 1}
    clock: Offsets = {1_000: 1, 300_000: 1, 3_000_000: 1, 40_000_000: 1}
    clock_rate: RateChanges = {"+0.05%": 1, "-0.05%": 1, "+30%": 1, "-30%": 1}
    election: Annotated[dict[Literal["preferred", "unclean"], Weight], _SOME] = {"preferred": 1}
    bounced: Words = {"one": 3, "brokers": 1, "controllers": 1, "all": 1}
    bounce_to: Annotated[dict[Literal["same", "newest", "older", "features"], Weight], _SOME] = {"same": 1}


class Nemesis(Model):
    """A nemesis file."""

    schema_: Literal["krift-nemesis/v1"] = Field(alias="schema")
    name: Name = Field(description="A name for the nemesis, lower-case with dashes.")
    about: str = Field(min_length=1, max_length=2000, description="Its target, in a sentence.")
    shape: Shape = Shape()
    timers: Annotated[dict[Timers, Weight], _SOME] = {"quick": 4, "kafka": 1}
    features: dict[str, Words] = {}
    config: dict[str, Words] = {}
    versions: Versions = Versions()
    workload: Workload = Workload()
    chaos: Course = Course()
    faults: Words = Field(description="Faults and actions of the scenario language, by weight.")
    targets: Annotated[dict[Target, Weight], _SOME] = {"leader": 1}
    like: Knobs = Knobs()
    untested: dict[str, Reason] = Field({}, description="Invariants that no run of it tests, each with the reason.")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a nemesis file."""
    schema = Nemesis.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Krift nemesis"
    return schema
