"""A run as it will be carried out: nodes, schedule, expectations, with nothing left to default or to draw."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.broker.coordinator_common.partitions import TRANSACTION_STATE_TOPIC
from actors.config_key import INT_MAX
from actors.control import Predicate
from actors.node.spec import ClusterSpec, NodeSpec, split_topic_partition, topic_partition
from chaos.faults.base import Bounce, Fault
from chaos.scenario.durations import format_duration
from chaos.scenario.selectors import Selector
from chaos.scenario.triggers import describe
from chaos.scenario.yaml_text import to_yaml
from chaos.words import ordinal

UNCLEAN = "unclean.leader.election.enable"


class At(msgspec.Struct, frozen=True, tag=True):
    """A time, microseconds from time 0."""

    us: int

    def __str__(self) -> str:
        return f"at {format_duration(self.us)}"


class Seen(msgspec.Struct, frozen=True, tag=True):
    """The n-th time from time 0 on that something is seen, and then ``delay_us`` later."""

    predicate: Predicate
    nth: int = 1
    delay_us: int = 0

    def __str__(self) -> str:
        nth = f" for the {ordinal(self.nth)} time" if self.nth > 1 else ""
        delay = f", {format_duration(self.delay_us)} after that" if self.delay_us else ""
        return f"when seen{nth}: {describe(self.predicate)}{delay}"


class ScheduledFault(msgspec.Struct, frozen=True):
    """A fault or an operator's action of the schedule. Exactly one of ``for_us`` and ``until`` says when it ends, if
    the end of the chaos does not come first; an action without either is over when it is done. ``optional``: it need
    not take effect."""

    id: str
    fault: Fault
    when: At | Seen
    for_us: int | None = None
    until: At | Seen | None = None
    optional: bool = False

    @property
    def waits_for_point(self) -> bool:
        """Whether it only takes effect, and its time only begins, when a node comes to a point."""
        return self.fault.waits_for_point

    @property
    def ending(self) -> str:
        """When it ends, in words."""
        if self.for_us is not None:
            return f"for {format_duration(self.for_us)}"
        return f"until {self.until}" if self.until is not None else "until it is done"


class Expectation(msgspec.Struct, frozen=True):
    """What the run should show. ``declared`` False: nothing was said, so nothing may be violated. ``excused``: what
    must have given way, only as one of its rules allows. ``asked``: how an operator must have been answered."""

    declared: bool = False
    violated: list[str] = []
    held: list[str] = []
    excused: list[str] = []
    may: list[str] = []
    must_happen: list[Predicate] = []
    asked: list[Predicate] = []


class PlanBudgets(msgspec.Struct, frozen=True):
    """How long each phase may take before the run is given up."""

    steady_state_us: int
    heal_us: int
    drain_us: int


class Plan(msgspec.Struct, frozen=True):
    """A run as it will be carried out.

    nodes: in the run's order (controllers, brokers, clients), each fully resolved. features, config, versions: the
    cluster's (a node may differ). drawn: what the seed decided, by place in the scenario. duration_us: of the
    chaos, from time 0. document: the resolved scenario, itself a valid scenario file. core: who is brought back at the
    end of the chaos (``chaos.core``): None everybody, () as drawn then.
    """

    scenario: str
    about: str
    variant: str
    seed: int
    duration_us: int
    cluster: ClusterSpec
    nodes: list[NodeSpec]
    features: dict[str, str]
    config: dict[str, Any]
    versions: dict[str, list[int]]
    schedule: list[ScheduledFault]
    expect: Expectation
    budgets: PlanBudgets
    drawn: dict[str, list[str]]
    defects: list[str]
    document: dict[str, Any] = {}
    core: tuple[Selector, ...] | None = None

    @property
    def names(self) -> list[str]:
        """Names of all nodes."""
        return [node.name for node in self.nodes]

    @property
    def clients(self) -> list[NodeSpec]:
        """The nodes that have a workload."""
        return [node for node in self.nodes if node.node_id < 0 and node.role != "admin"]

    @property
    def strangers(self) -> list[str]:
        """Nodes whose disks belong to another cluster: the others have nothing to do with them."""
        return [node.name for node in self.nodes if node.cluster.cluster_id != self.cluster.cluster_id]

    def elects_uncleanly(self, tp: str) -> bool:
        """Whether brokers outside the ISR of a partition may lead it, as its topic was made: that of transactions has
        it so that they may not (``TransactionStateManager.transactionTopicConfigs``)."""
        name = split_topic_partition(tp)[0]
        if name == TRANSACTION_STATE_TOPIC:
            return False
        own = next((topic.config for topic in self.cluster.topics if topic.name == name), {})
        return bool(own.get(UNCLEAN, self.config[UNCLEAN]))

    def profile(self) -> dict[str, Any]:
        """Features, config and versions of the cluster and where nodes differ: ``profile`` of ``run.meta``."""
        differing: dict[str, dict[str, Any]] = {}
        strangers = self.strangers
        for node in self.nodes:
            other: dict[str, Any] = {}
            if node.features != self.features:
                other["features"] = node.features
            if node.versions != self.versions:
                other["versions"] = node.versions
            config = {key: value for key, value in node.config.items() if self.config.get(key, value) != value}
            if node.name in strangers:
                other["cluster_id"] = node.cluster.cluster_id
            if config or node.node_id < 0:
                other["config"] = config if node.node_id >= 0 else node.config
            if other:
                differing[node.name] = other
        return {
            "features": self.features,
            "config": self.config,
            "versions": self.versions,
            "voters": self.cluster.voters,
            "nodes": differing,
            "topics": {
                topic.name: {"replicas": topic.replicas, "config": topic.config} for topic in self.cluster.topics
            },
            "bounced": self._bounced(),
            **({"bounced_versions": versions} if (versions := self._bounced_versions()) else {}),
            **({"groups": groups} if (groups := self.groups()) else {}),
            **({"transactional": names} if (names := self._transactional()) else {}),
            **({"consumer_calls": callers} if (callers := self._consumer_calls()) else {}),
            **({"stalling": members} if (members := self._stalling()) else {}),
            **({"unwelcome": members} if (members := self.unwelcome()) else {}),
            "duration_us": self.duration_us,
            "defects": self.defects,
        }

    def _transactional(self) -> list[str]:
        """Clients that send in transactions."""
        return [node.name for node in self.clients if node.role in ("transactional-producer", "processor")]

    def _consumer_calls(self) -> list[str]:
        """Clients of ListOffsets that ask as a consumer's call does."""
        return [node.name for node in self.clients if node.workload.get("client") == "consumer"]

    def _stalling(self) -> list[str]:
        """Members of groups whose applications stop polling for so long that they leave their group."""
        members = [node for node in self.clients if node.workload.get("stall_every_ms")]
        return [node.name for node in members if node.workload["stall_ms"] > node.config["max.poll.interval.ms"]]

    def unwelcome(self) -> list[str]:
        """Members of groups whom a coordinator may turn away for good: those of a group that has a maximum size, as who
        comes back may find its former self there, and those that have one ``group.instance.id`` together."""
        members = [node for node in self.clients if node.workload.get("group")]
        if not members:
            return []
        limited = any(node.config["group.max.size"] < INT_MAX for node in self.nodes if node.role == "broker")
        places = [(node.workload["group"], node.config["group.instance.id"]) for node in members]
        return [
            node.name
            for node, (group, instance) in zip(members, places, strict=True)
            if limited or (instance and places.count((group, instance)) > 1)
        ]

    def groups(self) -> dict[str, dict[str, list[str]]]:
        """Per group of consumers, who is in it and which partitions they subscribe to."""
        topics = {topic.name: len(topic.replicas) for topic in self.cluster.topics}
        found: dict[str, dict[str, list[str]]] = {}
        for node in self.clients:
            if name := node.workload.get("group", ""):
                group = found.setdefault(name, {"members": [], "partitions": []})
                group["members"].append(node.name)
                topic = node.workload["topic"]
                mine = [topic_partition(topic, index) for index in range(topics.get(topic, 0))]
                group["partitions"] += [tp for tp in mine if tp not in group["partitions"]]
        return found

    def _settings(self) -> list[Bounce]:
        """What nodes are given on the way, in the order of the schedule."""
        found = (scheduled.fault.new_settings for scheduled in self.schedule)
        return [settings for settings in found if settings is not None]

    def _bounced(self) -> dict[str, list[str]]:
        """Features that a rolling bounce sets, and the values that nodes then have."""
        values: dict[str, list[str]] = {}
        for settings in self._settings():
            for name, value in settings.features.items():
                values.setdefault(name, []).append(value)
        return values

    def _bounced_versions(self) -> dict[str, list[list[int]]]:
        """APIs of which a rolling bounce sets the versions, and the ranges that nodes then speak."""
        ranges: dict[str, list[list[int]]] = {}
        for settings in self._settings():
            for api, spoken in settings.versions.items():
                ranges.setdefault(api, []).append(spoken)
        return ranges

    def yaml(self) -> str:
        """The resolved scenario as a file, which is itself a scenario."""
        return to_yaml(self.document)
