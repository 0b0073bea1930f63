"""The scenario language as typed models: what a scenario file may say, before anything is resolved.

Strict (no value is turned into another type behind the writer's back) and closed (an unknown key is an error).
Keys are written with hyphens. ``docs/scenarios.md`` is the reference, ``docs/scenario.schema.json`` is made from
these classes. References between parts (nodes, topics, configuration keys, ...) are checked in
``chaos.scenario.checks``.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from chaos.scenario.durations import Malformed
from chaos.scenario.scalars import (
    POINT_SCHEMA,
    SELECTORS_SCHEMA,
    Chance,
    Config,
    Core,
    Duration,
    FeatureValues,
    Name,
    Offset,
    Point,
    PositiveDuration,
    Rate,
    RateChange,
    RunDuration,
    Selectors,
    Servers,
    Timestamp,
    TopicName,
    TopicPartitions,
    TriggerReference,
    VersionRanges,
)
from chaos.scenario.selectors import Selector

SCHEMA = "krift/v1"


class Model(BaseModel):
    """Base: strict, closed, unchangeable, keys with hyphens."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    def one_of(self, *names: str) -> None:
        """Raise Malformed unless exactly one of the fields is set."""
        given = [name.replace("_", "-") for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            options = ", ".join(name.replace("_", "-") for name in names)
            what = f"{' and '.join(given)} are given together" if given else "none is given"
            raise Malformed(what, f"exactly one of {options}")


# ---- cluster ---------------------------------------------------------------------------------------------------


class Topic(Model):
    """A topic: either the whole assignment, or partitions and replication, spread round robin."""

    replicas: list[list[int]] | None = Field(None, description="Broker ids per partition, preferred leader first.")
    partitions: int | None = Field(None, ge=1, le=1000)
    replication: int | None = Field(None, ge=1, le=50)
    config: Config = Field({}, description="Topic-level configuration, Kafka's keys.")

    @model_validator(mode="after")
    def _one_form(self) -> Topic:
        if (self.replicas is None) == (self.partitions is None and self.replication is None):
            raise Malformed("its assignment is not given once", "either replicas, or partitions and replication")
        return self


class Cluster(Model):
    """Voters (controllers) and brokers, the topics they start with, and the configuration of both."""

    voters: int = Field(3, ge=1, le=9, description="controller-1 to controller-N")
    spare_controllers: int = Field(
        0, ge=0, le=6, description="As many more controllers, numbered on, that are no voters at first."
    )
    brokers: int = Field(3, ge=1, le=50, description="broker-1 to broker-N")
    topics: dict[TopicName, Topic] = Field(min_length=1, max_length=100, description="Topics by name.")
    config: Config = Field({}, description="Of controllers and brokers, Kafka's keys.")


class NodeOverride(Model):
    """What one node has otherwise than the others."""

    cluster_id: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9_-]{1,64}$",
            description="Controllers and brokers: the cluster that its disk was formatted for, if another one.",
        ),
    ] = None
    features: FeatureValues = {}
    versions: VersionRanges = {}
    config: Config = {}


# ---- workload --------------------------------------------------------------------------------------------------


class Client(Model):
    """What all clients have."""

    topic: TopicName = Field(description="A topic of the cluster.")
    partitions: list[int] | None = Field(None, description="Partitions of the topic; all of them if not given.")
    count: int = Field(1, ge=1, le=100, description="As many clients alike.")
    features: FeatureValues = {}
    versions: VersionRanges = {}
    config: Config = {}


class Producer(Client):
    """Sends records at a steady rate, round robin over the partitions."""

    rate: Rate = Field(description="Records a second, such as 100/s.")
    acks: Literal["all", 0, 1] | None = None
    idempotent: bool | None = None


class Rewind(Model):
    """A consumer that goes back from time to time, to the first record that is at most so old."""

    every: PositiveDuration = Field(description="Time between two rewinds, such as 2s.")
    by: Duration = Field(description="How old what it goes back to may be, such as 500ms.")


class Consumer(Client):
    """Reads its partitions from where auto.offset.reset says, or from an offset, and follows them."""

    seek: int | None = Field(None, ge=0, description="Begin each partition at this offset, without a lookup.")
    rewind: Rewind | None = None
    isolation: Literal["read_uncommitted", "read_committed"] | None = None


class ListOffsets(Client):
    """Asks for an offset of each partition again and again."""

    every: PositiveDuration = Field(description="Time between two questions, such as 20ms.")
    timestamp: Timestamp = -1
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    replica_id: int | None = Field(None, ge=0, description="Ask as the broker of this id does when it follows.")


class Workload(Model):
    """One entry of the workload."""

    producer: Producer | None = None
    consumer: Consumer | None = None
    list_offsets: ListOffsets | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Workload:
        self.one_of("producer", "consumer", "list_offsets")
        return self


# ---- chaos -----------------------------------------------------------------------------------------------------


class Moment(Model):
    """When something happens: at a time, or when something is seen (the n-th time), and then after a delay."""

    at: Duration | None = None
    seen: TriggerReference | None = None
    nth: int = Field(1, ge=1, le=1_000_000)
    delay: Duration = 0

    @model_validator(mode="after")
    def _one_kind(self) -> Moment:
        self.one_of("at", "seen")
        if self.at is not None and (self.nth != 1 or self.delay):
            raise Malformed("nth and delay go with seen", "at alone, or seen with nth and delay")
        return self


class Link(Model):
    """Which messages a fault on links hits: one way (from, to), both ways (between, and), or everything that a
    node exchanges with the rest (isolate)."""

    sources: Selectors | None = Field(None, alias="from")
    targets: Selectors | None = Field(None, alias="to")
    between: Selectors | None = None
    others: Selectors | None = Field(None, alias="and")
    isolate: Selectors | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Link:
        given = {key for key, value in self._forms().items() if value is not None}
        if given not in ({"from", "to"}, {"between", "and"}, {"isolate"}):
            raise Malformed(
                f"{', '.join(sorted(given)) or 'nothing'} does not say which messages",
                "from and to, or between and and, or isolate",
            )
        return self

    def _forms(self) -> dict[str, list[Selector] | None]:
        return {
            "from": self.sources,
            "to": self.targets,
            "between": self.between,
            "and": self.others,
            "isolate": self.isolate,
        }


class OfApis(Link):
    """All messages, or those of some APIs."""

    apis: list[str] = Field([], description="Requests of these APIs, and their answers; of all if not given.")


class Delay(OfApis):
    """Messages take longer: ``by``, plus a part of ``jitter`` drawn for each."""

    by: PositiveDuration
    jitter: Duration = 0


class Chancy(OfApis):
    """Each message is hit by chance."""

    chance: Chance = Field(description="Of a message to be hit, such as 5%.")


class Reorder(Chancy):
    """Messages that are hit take longer, a drawn part of ``by``: those of other connections overtake them."""

    by: PositiveDuration = 20_000


class Stop(Model):
    """Which nodes' processes end: at once, or each when it comes to a point, the n-th time. A selector alone stands
    for ``nodes``."""

    nodes: Selectors
    at: Point | None = None
    of: str | None = Field(None, description="The file, API or partition that the point is about.")
    nth: int = Field(1, ge=1, le=1_000_000)

    @model_validator(mode="after")
    def _goes_with_at(self) -> Stop:
        if self.at is None and (self.of is not None or self.nth != 1):
            raise Malformed("of and nth go with at", "a point, such as at: after-write")
        return self


def _stop(value: Any) -> Any:
    """A selector, or a list of them, stands for {nodes: ...}."""
    return {"nodes": value} if isinstance(value, str | list) else value


_STOP_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["nodes"],
                "properties": {
                    "nodes": SELECTORS_SCHEMA.json_schema,
                    "at": POINT_SCHEMA.json_schema,
                    "of": {"type": "string", "description": "The file, API or partition that the point is about."},
                    "nth": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
                },
            },
        ],
        "description": "The nodes, or {nodes: ..., at: POINT, of: ..., nth: ...}.",
    }
)
Stopped = Annotated[Stop, BeforeValidator(_stop), _STOP_SCHEMA]


class SlowDisk(Model):
    """Each Sync of a node takes longer: ``by``, plus a part of ``jitter`` drawn for each."""

    nodes: Selectors
    by: PositiveDuration
    jitter: Duration = 0


class ClockSkew(Model):
    """The clock of a node's machine is off, or runs at a wrong rate, or both."""

    nodes: Selectors
    offset: Offset | None = Field(None, description="How far the wall clock is ahead (behind: negative).")
    rate: RateChange | None = Field(None, description="How much too fast both clocks run (too slowly: negative).")

    @model_validator(mode="after")
    def _wrong(self) -> ClockSkew:
        if self.offset is None and self.rate is None:
            raise Malformed("nothing is wrong with the clock", "offset, rate or both")
        return self


class ClockJump(Model):
    """The wall clock of a node's machine steps; at the end it steps back."""

    nodes: Selectors
    by: Offset


class Fault(Model):
    """Exactly one fault."""

    partition: Link | None = None
    delay: Delay | None = None
    drop: Chancy | None = None
    duplicate: Chancy | None = None
    reorder: Reorder | None = None
    crash: Stopped | None = None
    power_loss: Stopped | None = None
    torn_tail: Stopped | None = None
    wipe: Stopped | None = None
    pause: Selectors | None = None
    slow_disk: SlowDisk | None = None
    clock_skew: ClockSkew | None = None
    clock_jump: ClockJump | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Fault:
        self.one_of(*type(self).model_fields)
        return self

    @property
    def waits_for_point(self) -> bool:
        """Whether it only takes effect when a node comes to a point."""
        stops = (self.crash, self.power_loss, self.torn_tail, self.wipe)
        return any(stop is not None and stop.at is not None for stop in stops)


class Elect(Model):
    """Leader elections that an operator asks for (ElectLeaders)."""

    partitions: TopicPartitions = Field(description="all, a topic partition such as orders-0, or a list of them.")
    type: Literal["preferred", "unclean"] = "preferred"


class Configure(Model):
    """A change of dynamic configuration (IncrementalAlterConfigs): of a topic, of a broker, or of all brokers."""

    topic: TopicName | None = None
    broker: Selectors | None = None
    cluster: Literal[True] | None = None
    set_: Config = Field({}, alias="set", description="Keys and their new values.")
    delete: list[str] = Field([], description="Keys that are no longer set.")

    @model_validator(mode="after")
    def _one_resource(self) -> Configure:
        self.one_of("topic", "broker", "cluster")
        if not self.set_ and not self.delete:
            raise Malformed("it changes nothing", "set: {key: value}, or delete: [key]")
        return self


class DescribeQuorum(Model):
    """A look at the quorum's members (DescribeQuorum)."""


class ChangeVoter(Model):
    """A controller becomes a voter (AddRaftVoter), or a voter is one no longer (RemoveRaftVoter)."""

    controller: Selectors = Field(description="A selector of a controller; of several the first.")


class ControlledShutdown(Model):
    """Controllers or brokers are asked to stop, as by SIGTERM, and started again at its end."""

    targets: Servers = Field(description="all, or selectors of controllers and brokers.")


class RollingBounce(Model):
    """Controllers or brokers are stopped and started one after the other, each with the settings given here; the next
    goes when the one before is back."""

    targets: Servers = Field(description="all, or selectors of controllers and brokers, in their order.")
    features: FeatureValues = {}
    versions: VersionRanges = {}
    config: Config = {}
    timeout: PositiveDuration = 60_000_000


class Action(Model):
    """Exactly one thing that an operator does. It is over when it is done, unless it is one of LASTING."""

    LASTING: ClassVar[frozenset[str]] = frozenset({"controlled_shutdown"})

    elect: Elect | None = None
    configure: Configure | None = None
    describe_quorum: DescribeQuorum | None = None
    add_voter: ChangeVoter | None = None
    remove_voter: ChangeVoter | None = None
    controlled_shutdown: ControlledShutdown | None = None
    rolling_bounce: RollingBounce | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Action:
        self.one_of(*type(self).model_fields)
        return self

    @property
    def kind(self) -> str:
        """Name of the field that is set."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)


class Chaos(Model):
    """A fault with its beginning and its end, or an operator's action."""

    when: Moment
    fault: Fault | None = None
    action: Action | None = None
    lasts: PositiveDuration | None = Field(None, alias="for", description="How long it lasts.")
    until: Moment | None = Field(None, description="When it ends; at the latest with the chaos.")
    optional: bool = Field(False, description="The run proves as much if it never takes effect.")

    @model_validator(mode="after")
    def _ends(self) -> Chaos:
        self.one_of("fault", "action")
        if self.action is not None and self.action.kind not in Action.LASTING:
            if self.lasts is not None or self.until is not None:
                raise Malformed("the action has an end", "neither for nor until: it is over when it is done")
        elif (self.lasts is None) == (self.until is None):
            what = "fault" if self.fault is not None else "action"
            problem = f"the {what} has no end" if self.lasts is None else f"the {what} has two ends"
            raise Malformed(problem, "either for: a duration, or until: a moment")
        return self


# ---- outcome ---------------------------------------------------------------------------------------------------


class Expect(Model):
    """What the run should show, by invariant ids."""

    violated: list[str] = []
    held: list[str] = []
    excused: list[str] = []
    may: list[str] = []


class Budgets(Model):
    """How long the run waits for the cluster before it gives up."""

    steady_state: PositiveDuration = 60_000_000
    heal: PositiveDuration = 60_000_000
    drain: PositiveDuration = 60_000_000


class Heal(Model):
    """What the healing brings back: everything, or a core alone."""

    core: Core | None = None


class Variant(Model):
    """A named override of the scenario."""

    about: str = ""
    duration: RunDuration | None = None
    features: FeatureValues = {}
    versions: VersionRanges = {}
    config: Config = {}
    nodes: dict[str, NodeOverride] = {}
    expect: Expect | None = None
    must_happen: list[TriggerReference] | None = None


class Scenario(Model):
    """A scenario file."""

    schema_: Literal["krift/v1"] = Field(alias="schema")
    name: Name = Field(description="A name for the scenario, lower-case with dashes.")
    about: str = Field("", max_length=2000)
    source: list[str] = []
    seed: int = Field(1, ge=0, le=2**63 - 1)
    duration: RunDuration = Field(description="How long the chaos lasts, from time 0, such as 20s.")
    cluster: Cluster = Field(description="Voters, brokers and topics.")
    features: FeatureValues = {}
    versions: VersionRanges = {}
    nodes: dict[str, NodeOverride] = {}
    defects: list[str] = []
    workload: list[Workload] = Field(min_length=1, max_length=100, description="A list of clients.")
    chaos: list[Chaos] = Field([], max_length=1000)
    expect: Expect | None = None
    must_happen: list[TriggerReference] = []
    heal: Heal = Heal()
    budgets: Budgets = Budgets()
    variants: dict[Name, Variant] = Field({}, max_length=50)
    variant: str = Field("", pattern=r"^([a-z0-9-]{1,63})?$", description="Of a resolved file: what it came from.")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a scenario file (the shape; references between its parts are checked when it is read)."""
    schema = Scenario.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Krift scenario"
    return schema
