"""From a scenario, a variant, a seed and ``--set`` options to a plan: everything filled in, everything drawn."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from actors.broker.remote_log.remote_log_config import SYSTEM_ENABLE
from actors.config import CONFIG, default_config
from actors.control import Predicate
from actors.defects.catalogue import DEFECTS
from actors.features import default_features
from actors.node.spec import (
    FIRST_CONTROLLER_ID,
    REMOTE_STORE,
    REMOTE_STORE_ID,
    ClusterSpec,
    NodeSpec,
    Role,
    TopicSpec,
    node_name,
)
from actors.versions import default_ranges
from chaos.errors import DEFECT_NAMES, InputError, Mistake, choices, nearest
from chaos.faults.operator import ADMIN
from chaos.plan import At, Expectation, Plan, PlanBudgets, ScheduledFault, Seen
from chaos.scenario.clients import client_config, client_role, client_workload
from chaos.scenario.dump import resolved_document
from chaos.scenario.feature_groups import expand_features
from chaos.scenario.layers import merge_layers
from chaos.scenario.loader import Loaded
from chaos.scenario.model import Chaos, Client, Moment, NodeOverride, Scenario, Topic
from chaos.scenario.names import client_names, needs_admin, node_names
from chaos.scenario.selectors import Selector, draw, parse_selector, texts_of
from chaos.scenario.triggers import ASKED, TRIGGERS


def resolve(
    loaded: Loaded,
    variant: str = "",
    seed: int | None = None,
    settings: Sequence[str] = (),
    defects: Sequence[str] = (),
) -> Plan:
    """The plan of one run.

    variant: "" for the scenario without any. seed: None for the scenario's own. settings: ``--set`` options such
    as ``features.kip-207=seed``, which win over the variant. Raises InputError.
    """
    unknown = unknown_defects(defects)
    try:
        scenario = merge_layers(loaded, variant, seed, settings)
    except InputError as error:
        raise InputError([*error.mistakes, *unknown]) from None
    if unknown:
        raise InputError(unknown)
    defects = [*scenario.defects, *(name for name in defects if name not in scenario.defects)]
    features = {**default_features(), **expand_features(scenario.features)}
    versions = {**default_ranges(), **scenario.versions}
    config = {**default_config("controller"), **default_config("broker")}
    if scenario.cluster.remote_store is not None:
        config[SYSTEM_ENABLE] = True
    config |= scenario.cluster.config
    cluster = _cluster(scenario)
    drawn: dict[str, list[str]] = {}
    core = _core(scenario, drawn)
    schedule = [_scheduled(index, chaos, scenario, drawn) for index, chaos in enumerate(scenario.chaos)]
    plan = Plan(
        scenario=scenario.name,
        about=_about(scenario.about, loaded, variant),
        variant=variant or scenario.variant,
        seed=scenario.seed,
        duration_us=scenario.duration,
        cluster=cluster,
        nodes=_Builder(scenario, cluster, features, versions, config, list(defects)).nodes(),
        features=features,
        config=config,
        versions=versions,
        schedule=schedule,
        expect=_expectation(scenario, drawn),
        budgets=PlanBudgets(scenario.budgets.steady_state, scenario.budgets.heal, scenario.budgets.drain),
        drawn=drawn,
        defects=list(defects),
        core=core,
    )
    return msgspec.structs.replace(plan, document=resolved_document(scenario, plan))


def with_operator(plan: Plan) -> Plan:
    """A plan that has an operator, though its schedule may ask for nothing."""
    if ADMIN in plan.names:
        return plan
    operator = NodeSpec(
        name=ADMIN,
        role="admin",
        node_id=-1,
        directory_id=_uuid("directory", plan.seed, ADMIN),
        cluster=plan.cluster,
        config=default_config("admin"),
        features=plan.features,
        versions=plan.versions,
        defects=plan.defects,
        workload={},
    )
    return msgspec.structs.replace(plan, nodes=[*plan.nodes, operator])


def _about(about: str, loaded: Loaded, name: str) -> str:
    """What the scenario says of itself, and its variant of itself."""
    variant = loaded.scenario.variants.get(name)
    return " ".join(filter(None, [about, "" if variant is None else variant.about]))


def unknown_defects(defects: Sequence[str]) -> list[Mistake]:
    """What is wrong with ``--defect`` options."""
    return [
        Mistake(f"--defect {name}", 0, "", "no such defect", choices(DEFECTS, DEFECT_NAMES), nearest(name, DEFECTS))
        for name in defects
        if name not in DEFECTS
    ]


# ---- cluster and nodes -----------------------------------------------------------------------------------------


def _uuid(*parts: object) -> str:
    """A 16-byte id as Kafka's Uuid prints it (base64, 22 characters, never a leading dash), from its name alone."""
    for attempt in range(256):
        digest = hashlib.blake2b("/".join(map(str, (*parts, attempt))).encode(), digest_size=16).digest()
        text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if not text.startswith("-"):
            return text
    raise AssertionError("256 digests that begin with a dash")


def _cluster(scenario: Scenario) -> ClusterSpec:
    brokers = list(range(1, scenario.cluster.brokers + 1))
    voters = [FIRST_CONTROLLER_ID + number for number in range(scenario.cluster.voters)]
    spare = [voters[-1] + 1 + number for number in range(scenario.cluster.spare_controllers)]
    directories = {voter: _uuid("directory", scenario.seed, node_name(voter)) for voter in voters}
    topics = [
        TopicSpec(name, _uuid("topic", scenario.seed, name), _assignment(topic, brokers), dict(topic.config))
        for name, topic in scenario.cluster.topics.items()
    ]
    cluster_id = _uuid("cluster", scenario.seed, scenario.name)
    remote_store = scenario.cluster.remote_store is not None
    return ClusterSpec(cluster_id, voters, brokers, topics, spare, directories, remote_store)


def _assignment(topic: Topic, brokers: list[int]) -> list[list[int]]:
    if topic.replicas is not None:
        return [list(replicas) for replicas in topic.replicas]
    replication = topic.replication or 1
    return [
        [brokers[(partition + replica) % len(brokers)] for replica in range(replication)]
        for partition in range(topic.partitions or 1)
    ]


class _Builder:
    """Makes the specs of all nodes from the cluster's values and each node's own."""

    def __init__(
        self,
        scenario: Scenario,
        cluster: ClusterSpec,
        features: dict[str, str],
        versions: dict[str, list[int]],
        config: dict[str, Any],
        defects: list[str],
    ) -> None:
        self.scenario, self.cluster = scenario, cluster
        self.features, self.versions, self.config, self.defects = features, versions, config, defects

    def nodes(self) -> list[NodeSpec]:
        """Controllers, brokers, the remote store, clients."""
        ids = [*self.cluster.voters, *self.cluster.spare_controllers, *self.cluster.brokers]
        names = node_names(self.scenario)
        servers = [self._server(name, node_id) for name, node_id in zip(names, ids, strict=False)]
        clients = [
            self._client(name, kind, client) for kind, named, client in client_names(self.scenario) for name in named
        ]
        servers += self._remote_store()
        return servers + clients + ([self._admin()] if needs_admin(self.scenario) else [])

    def _server(self, name: str, node_id: int) -> NodeSpec:
        role: Role = "controller" if node_id >= FIRST_CONTROLLER_ID else "broker"
        own = self.scenario.nodes.get(name, NodeOverride())
        shared = {key: value for key, value in self.config.items() if role in CONFIG[key].scopes}
        return self._spec(name, role, node_id, NodeOverride(), {**shared, **own.config}, {})

    def _remote_store(self) -> list[NodeSpec]:
        store = self.scenario.cluster.remote_store
        if store is None:
            return []
        own = self.scenario.nodes.get(REMOTE_STORE, NodeOverride())
        config = {**default_config("remote-store"), **store.config, **own.config}
        return [self._spec(REMOTE_STORE, "remote-store", REMOTE_STORE_ID, NodeOverride(), config, {})]

    def _client(self, name: str, kind: str, client: Client) -> NodeSpec:
        own = self.scenario.nodes.get(name, NodeOverride())
        config = client_config(kind, client, own.config)
        role = client_role(kind, client)
        return self._spec(name, role, -1, client, config, client_workload(client, self.cluster))

    def _admin(self) -> NodeSpec:
        own = self.scenario.nodes.get(ADMIN, NodeOverride())
        return self._spec(ADMIN, "admin", -1, NodeOverride(), {**default_config("admin"), **own.config}, {})

    def _spec(
        self,
        name: str,
        role: Role,
        node_id: int,
        client: Client | NodeOverride,
        config: dict[str, Any],
        workload: dict[str, Any],
    ) -> NodeSpec:
        own = self.scenario.nodes.get(name, NodeOverride())
        return NodeSpec(
            name=name,
            role=role,
            node_id=node_id,
            directory_id=_uuid("directory", self.scenario.seed, name),
            cluster=msgspec.structs.replace(self.cluster, cluster_id=own.cluster_id or self.cluster.cluster_id),
            config=config,
            features={**self.features, **expand_features(client.features), **expand_features(own.features)},
            versions={**self.versions, **client.versions, **own.versions},
            defects=list(self.defects),
            workload=workload,
        )


# ---- schedule and expectation ----------------------------------------------------------------------------------


def _core(scenario: Scenario, drawn: dict[str, list[str]]) -> tuple[Selector, ...] | None:
    """Who is brought back when the chaos is over."""
    if scenario.heal.core is None:
        return None
    chosen: list[Selector] = []
    for number, selector in enumerate(scenario.heal.core):
        place = f"heal.core[{number}]"
        names = draw(selector, node_names(scenario), scenario.seed, place)
        if selector.kind == "any":
            drawn[place] = [str(name) for name in names]
        chosen.extend(names)
    return tuple(chosen)


def _scheduled(index: int, chaos: Chaos, scenario: Scenario, drawn: dict[str, list[str]]) -> ScheduledFault:
    def drawing(key: str, selectors: Sequence[Selector]) -> list[Selector]:
        chosen: list[Selector] = []
        for number, selector in enumerate(selectors):
            place = f"chaos[{index}].{chaos.what.section}.{key}[{number}]"
            names = draw(selector, nodes, scenario.seed, place)
            if selector.kind == "any":
                drawn[place] = [str(name) for name in names]
            chosen.extend(names)
        return chosen

    nodes = node_names(scenario)
    fault = chaos.what.resolved(drawing)
    when = _moment(chaos.when, f"chaos[{index}].when", scenario, drawn)
    until = None if chaos.until is None else _moment(chaos.until, f"chaos[{index}].until", scenario, drawn)
    return ScheduledFault(f"f{index + 1}", fault, when, chaos.lasts, until, chaos.optional)


def _moment(moment: Moment, place: str, scenario: Scenario, drawn: dict[str, list[str]]) -> At | Seen:
    if moment.at is not None:
        return At(moment.at)
    assert moment.seen is not None, "the model admits exactly one"
    return Seen(_predicate(moment.seen, f"{place}.seen", scenario, drawn), moment.nth, moment.delay)


def _predicate(
    reference: Mapping[str, Mapping[str, Any]], place: str, scenario: Scenario, drawn: dict[str, list[str]]
) -> Predicate:
    """A trigger with its arguments, where ``any`` is drawn; other selectors wait for what could be meant."""
    ((name, given),) = reference.items()
    arguments = dict(given)
    for argument in TRIGGERS[name].arguments:
        if argument.kind == "node" and argument.name in arguments:
            key = f"{place}.{name}.{argument.name}"
            arguments[argument.name] = _named(arguments[argument.name], key, scenario, drawn)
    return Predicate(name, arguments)


def _named(given: str | list[str], place: str, scenario: Scenario, drawn: dict[str, list[str]]) -> str | list[str]:
    chosen: list[str] = []
    for number, text in enumerate(texts_of(given)):
        selector = parse_selector(text)
        names = [str(each) for each in draw(selector, node_names(scenario), scenario.seed, f"{place}[{number}]")]
        if selector.kind == "any":
            drawn[f"{place}[{number}]"] = names
        chosen.extend(names)
    return chosen[0] if len(chosen) == 1 else chosen


def _expectation(scenario: Scenario, drawn: dict[str, list[str]]) -> Expectation:
    must = [
        _predicate(reference, f"must-happen[{index}]", scenario, drawn)
        for index, reference in enumerate(scenario.must_happen)
    ]
    if scenario.expect is None:
        return Expectation(must_happen=must)
    expect = scenario.expect
    asked = [
        _predicate({ASKED: answer}, f"expect.asked[{index}]", scenario, drawn)
        for index, answer in enumerate(expect.asked)
    ]
    violated, held, excused, may = (list(ids) for ids in (expect.violated, expect.held, expect.excused, expect.may))
    return Expectation(True, violated, held, excused, may, must, asked)
