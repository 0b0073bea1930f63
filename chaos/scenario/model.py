"""The scenario language as typed models: what a scenario file may say, before anything is resolved.

Strict (no value is turned into another type behind the writer's back) and closed (an unknown key is an error).
Keys are written with hyphens. Faults and actions have their models in ``chaos.faults``. ``docs/scenarios.md`` is the
reference, ``docs/scenario.schema.json`` is made from these classes. References between parts (nodes, topics,
configuration keys, ...) are checked in ``chaos.scenario.checks``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model, model_validator

from chaos.faults.base import Fault as FaultBase
from chaos.faults.kinds import ALL
from chaos.scenario.durations import Malformed
from chaos.scenario.scalars import (
    Config,
    Core,
    Duration,
    FeatureValues,
    GroupId,
    Name,
    PositiveDuration,
    Rate,
    RunDuration,
    Timestamp,
    TopicName,
    TriggerReference,
    VersionRanges,
)
from chaos.scenario.strict import Model

SCHEMA = "krift/v1"


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


class RemoteStore(Model):
    """The object store for segments of topics with remote.storage.enable: remote-store-1."""

    config: Config = {}


class Cluster(Model):
    """Voters (controllers) and brokers, the topics they start with, and the configuration of both."""

    voters: int = Field(3, ge=1, le=9, description="controller-1 to controller-N")
    spare_controllers: int = Field(
        0, ge=0, le=6, description="Number of additional controllers, which are not voters at first."
    )
    brokers: int = Field(3, ge=1, le=50, description="broker-1 to broker-N")
    remote_store: RemoteStore | None = Field(None, description="A remote store for tiered storage: remote-store-1.")
    topics: dict[TopicName, Topic] = Field(min_length=1, max_length=100, description="Topics by name.")
    config: Config = Field({}, description="Configuration of controllers and brokers, with Kafka's keys.")


class NodeOverride(Model):
    """Settings of one node that differ from those of the others."""

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
    count: int = Field(1, ge=1, le=100, description="Number of clients of this kind.")
    features: FeatureValues = {}
    versions: VersionRanges = {}
    config: Config = {}


class Stay(Model):
    """An application that stays in a transaction for some time, at intervals."""

    every: PositiveDuration = Field(description="Interval of such transactions, such as 10s.")
    lasts: PositiveDuration = Field(description="Time for which it stays in one, such as 2s.")
    after: int | None = Field(
        None, ge=1, description="After this many records of a transaction; before its end if not given."
    )


class Transactional(Model):
    """An application that sends in transactions. Their id is its transactional.id, or otherwise its name."""

    records: int = Field(10, ge=1, le=10_000, description="Records of a transaction.")
    aborts: int = Field(0, ge=0, le=100, description="Percentage of the transactions that the application aborts.")
    stay: Stay | None = None
    last_stay: PositiveDuration | None = Field(
        None, description="Time for which it stays in the transaction that is open when the run stops it, such as 20s."
    )
    transfers: bool | None = Field(
        None,
        description="Of a producer: its transactions are transfers. Each record takes an amount from its partition, or "
        "adds one, and those of a transaction add up to nothing.",
    )


class Producer(Client):
    """Sends records at a steady rate, round robin over the partitions."""

    rate: Rate = Field(description="Records a second, such as 100/s.")
    acks: Literal["all", 0, 1] | None = None
    idempotent: bool | None = None
    transactional: Transactional | None = None


class Rewind(Model):
    """A consumer that goes back at an interval, to the first record of some age at most."""

    every: PositiveDuration = Field(description="Time between two rewinds, such as 2s.")
    by: Duration = Field(description="Greatest age of the records that it goes back to, such as 500ms.")


class ExternalOffsets(Model):
    """A consumer whose application stores its positions itself, and continues there after a restart."""

    every: PositiveDuration = Field(description="Time between two saves, such as 100ms.")
    wait: PositiveDuration = Field(
        10_000_000, description="With kip-232: seed, longest wait for newer metadata, after which it waits again."
    )


class Stall(Model):
    """An application that stops polling at an interval, for a while; its heartbeats continue."""

    every: PositiveDuration = Field(
        description="Time from the beginning of one pause to that of the next, such as 10s."
    )
    lasts: PositiveDuration = Field(description="How long it does not poll, such as 2s.")


class Absence(Model):
    """An application that closes its consumer at an interval, and creates a new one later."""

    every: PositiveDuration = Field(description="Time between two closes, such as 10s.")
    lasts: PositiveDuration = Field(description="Time until it opens a new one, such as 2s.")


class Consumer(Client):
    """Reads its partitions from an offset, or from the one that auto.offset.reset selects, and follows them; in a group
    those that the group assigns to it, from the group's committed offsets."""

    group: GroupId | None = None
    commit: Literal["auto", "sync", "async", "none"] | None = Field(
        None,
        description="Of a consumer in a group. auto (the default): the consumer commits by itself; sync, async: its "
        "application commits, and waits or does not; none: no commits.",
    )
    commit_every: PositiveDuration | None = Field(None, description="Time between two commits by hand, such as 500ms.")
    stall: Stall | None = None
    absence: Absence | None = None
    copy_to: TopicName | None = Field(
        None,
        description="A mirror: the consumer in a group sends its records to this topic, and its application commits "
        "(commit: sync) once all of them are acknowledged.",
    )
    transactional: Transactional | None = Field(
        None,
        description="Of a mirror: its records and its positions go in transactions. A transaction ends each "
        "commit-every, or with this number of records.",
    )

    seek: int | None = Field(None, ge=0, description="Begin each partition at this offset, without a lookup.")
    rewind: Rewind | None = None
    external_offsets: ExternalOffsets | None = None
    isolation: Literal["read_uncommitted", "read_committed"] | None = None

    @property
    def commits(self) -> str:
        """How it commits, said or not: a mirror when its copies are acknowledged."""
        return self.commit or ("auto" if self.copy_to is None else "sync")


class ListOffsets(Client):
    """Looks up an offset of each partition at an interval."""

    every: PositiveDuration = Field(description="Time between two look-ups, such as 20ms.")
    timestamp: Timestamp = -1
    ago: Duration | None = Field(None, description="Look up the time that long ago, instead of `timestamp`.")
    client: Literal["admin", "consumer"] = Field(
        "admin", description="The call: the admin client's `listOffsets`, or a consumer's `offsetsForTimes`."
    )
    together: bool = Field(False, description="One call for all partitions, not one for each.")
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    replica_id: int | None = Field(None, ge=0, description="Send the requests of a follower with this broker id.")


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


class OneKind(Model):
    """Exactly one fault, or one action: a field for each kind, which has its name."""

    @model_validator(mode="after")
    def _one_kind(self) -> OneKind:
        self.one_of(*type(self).model_fields)
        return self

    @property
    def only(self) -> FaultBase:
        """The one that is given."""
        found: list[FaultBase | None] = [getattr(self, name) for name in type(self).model_fields]
        return next(each for each in found if each is not None)


def _of_kinds(name: str, about: str, section: str) -> type[OneKind]:
    """The model of what stands under a section of a chaos entry."""
    fields: dict[str, Any] = {
        kind.kind.replace("-", "_"): (kind | None, None) for kind in ALL if kind.section == section
    }
    return create_model(name, __base__=OneKind, __doc__=about, **fields)


if TYPE_CHECKING:
    Fault = OneKind
    Action = OneKind
else:
    Fault = _of_kinds("Fault", "Exactly one fault.", "fault")
    Action = _of_kinds("Action", "Exactly one action of an operator.", "action")


class Chaos(Model):
    """A fault with its beginning and its end, or an operator's action."""

    when: Moment
    fault: Fault | None = None
    action: Action | None = None
    lasts: PositiveDuration | None = Field(None, alias="for", description="How long it lasts.")
    until: Moment | None = Field(None, description="The moment at which it ends, at the latest the end of the chaos.")
    optional: bool = Field(False, description="The run is conclusive even if this never takes effect.")

    @property
    def what(self) -> FaultBase:
        """The fault, or the action."""
        given = self.fault if self.fault is not None else self.action
        assert given is not None, "the model admits exactly one"
        return given.only

    @model_validator(mode="after")
    def _ends(self) -> Chaos:
        self.one_of("fault", "action")
        if not self.what.lasts:
            if self.lasts is not None or self.until is not None:
                raise Malformed("the action has an end", "neither for nor until: an action ends by itself")
        elif (self.lasts is None) == (self.until is None):
            what = self.what.section
            problem = f"the {what} has no end" if self.lasts is None else f"the {what} has two ends"
            raise Malformed(problem, "either for: a duration, or until: a moment")
        return self


# ---- outcome ---------------------------------------------------------------------------------------------------


class Expect(Model):
    """The expected results, by invariant ids, and the answers that an operator must get, as for the trigger asked."""

    violated: list[str] = []
    held: list[str] = []
    excused: list[str] = []
    may: list[str] = []
    asked: list[dict[str, Any]] = []


class Budgets(Model):
    """How long the run waits for the cluster before it gives up."""

    steady_state: PositiveDuration = 60_000_000
    heal: PositiveDuration = 60_000_000
    drain: PositiveDuration = 60_000_000


class Heal(Model):
    """The nodes that the healing brings back: all, or only a core."""

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
    variant: str = Field(
        "", pattern=r"^([a-z0-9-]{1,63})?$", description="Of a resolved file: the variant that it was made from."
    )


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a scenario file (the shape; references between its parts are checked when it is read)."""
    schema = Scenario.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Krift scenario"
    return schema
