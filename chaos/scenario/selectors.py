"""Selectors: how a fault names the nodes it hits, and a trigger those it waits for.

::

    broker-2  remote-store-1  producer-1   a node by name
    brokers  controllers  clients          all of a kind (clients: those of the workload)
    leader(orders-0)                       the leader of a topic partition
    followers(orders-0)[i]                 its i-th other replica in assignment order; without [i] all of them
    isr(orders-0)[i]                       its i-th in-sync replica in assignment order; without [i] all of them
    coordinator(billing)                   the broker that leads the offsets partition of a group
    transaction-coordinator(app-1)         the one that leads the partition of the transaction log of a transactional id
    active-controller                      the leader of the quorum
    voters(follower)[i]                    the i-th voter that is in that role of the quorum; without [i] all of them
    observers[i]                           the i-th node that follows the quorum without a vote; without [i] all
    any(n)  any(n, controllers)            n brokers (or controllers, clients), drawn from the seed

``any`` is drawn when the scenario is resolved. All others mean somebody when the fault fires, or when an event
comes that a trigger could be waiting for, by what the trace has told until then (``chaos.view``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from typing import Literal, get_args

import msgspec

from actors.broker.coordinator_common.partitions import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, partition_of
from actors.node.spec import node_name, topic_partition
from actors.quorum.quorum_state import RoleName
from chaos.scenario.durations import Malformed
from chaos.view import ClusterView

Kind = Literal[
    "name",
    "group",
    "leader",
    "followers",
    "isr",
    "coordinator",
    "transaction-coordinator",
    "active-controller",
    "voters",
    "observers",
    "any",
]

GROUPS = ("brokers", "controllers", "clients")
EXPECTED = (
    "a node's name, brokers, controllers, clients, leader(topic-0), followers(topic-0)[0], isr(topic-0)[0], "
    "coordinator(group), transaction-coordinator(id), active-controller, voters(follower)[0], observers[0] or any(n)"
)
ROLES: tuple[RoleName, ...] = get_args(RoleName)
"""Roles of the quorum."""

NODE_PATTERN = re.compile(r"remote-store-1|(broker|controller|producer|consumer|list-offsets|admin)-[1-9][0-9]{0,3}")
_CALL = re.compile(r"(leader|followers|isr)\(\s*([A-Za-z0-9._-]+-[0-9]+)\s*\)(?:\[([0-9]{1,3})\])?")
_COORDINATOR = re.compile(r"(coordinator|transaction-coordinator)\(\s*([A-Za-z0-9._-]+)\s*\)")
_VOTERS = re.compile(r"voters\(\s*([a-z]+)\s*\)(?:\[([0-9]{1,3})\])?")
_OBSERVERS = re.compile(r"observers(?:\[([0-9]{1,3})\])?")
_ANY = re.compile(r"any\(\s*([1-9][0-9]{0,2})\s*(?:,\s*([a-z]+)\s*)?\)")


class Selector(msgspec.Struct, frozen=True):
    """A parsed selector. argument: the name, the group (of nodes, or for
    ``coordinator`` of consumers), the transactional id, the topic partition or the role. index: -1 all. count: of
    ``any``."""

    kind: Kind
    argument: str = ""
    index: int = -1
    count: int = 0

    def __str__(self) -> str:
        if self.kind in ("name", "group"):
            return self.argument
        if self.kind == "active-controller":
            return self.kind
        if self.kind == "any":
            return f"any({self.count}, {self.argument})"
        whose = f"({self.argument})" if self.argument else ""
        return f"{self.kind}{whose}" + (f"[{self.index}]" if self.index >= 0 else "")


@lru_cache(maxsize=1024)
def parse_selector(text: str) -> Selector:
    """Raises Malformed if ``text`` is not a selector."""
    text = text.strip()
    if text in GROUPS:
        return Selector("group", text)
    if text == "active-controller":
        return Selector("active-controller")
    if NODE_PATTERN.fullmatch(text):
        return Selector("name", text)
    if match := _ANY.fullmatch(text):
        group = match[2] or "brokers"
        if group not in GROUPS:
            raise Malformed(f"{text!r} draws from {group!r}", "any(n) of brokers, controllers or clients")
        return Selector("any", group, count=int(match[1]))
    if match := _COORDINATOR.fullmatch(text):
        return Selector("coordinator" if match[1] == "coordinator" else "transaction-coordinator", match[2])
    if match := _OBSERVERS.fullmatch(text):
        return Selector("observers", index=-1 if match[1] is None else int(match[1]))
    if match := _VOTERS.fullmatch(text):
        if match[1] not in ROLES:
            raise Malformed(f"{text!r} names no role of the quorum", f"voters of one of: {', '.join(ROLES)}")
        return Selector("voters", match[1], -1 if match[2] is None else int(match[2]))
    if match := _CALL.fullmatch(text):
        index = -1 if match[3] is None else int(match[3])
        if match[1] == "leader":
            if index >= 0:
                raise Malformed(f"{text!r} numbers the leader", "leader(topic-0), which is one node")
            return Selector("leader", match[2])
        return Selector("followers" if match[1] == "followers" else "isr", match[2], index)
    raise Malformed(f"{text!r} is not a selector", EXPECTED)


def members(group: str, nodes: Sequence[str]) -> list[str]:
    """The nodes of a group, in the run's order."""
    if group == "brokers":
        return [name for name in nodes if name.startswith("broker-")]
    if group == "controllers":
        return [name for name in nodes if name.startswith("controller-")]
    return [name for name in nodes if not name.startswith(("broker-", "controller-", "remote-store-", "admin-"))]


def draw(selector: Selector, nodes: Sequence[str], seed: int, purpose: str) -> list[Selector]:
    """``any`` turned into names, from a stream of the seed for this purpose alone; others as they are."""
    if selector.kind != "any":
        return [selector]
    pool = members(selector.argument, nodes)
    chosen = Random(f"{seed}/{purpose}").sample(pool, selector.count)
    return [Selector("name", name) for name in sorted(chosen, key=pool.index)]


def select(selectors: Sequence[Selector], view: ClusterView, nodes: Sequence[str]) -> list[str]:
    """The names of the nodes that the selectors mean now, each once, in order; a selector that means nothing now
    (a partition without a leader) adds none."""
    chosen: dict[str, None] = {}
    for selector in selectors:
        for name in _SELECT[selector.kind](selector, view, nodes):
            chosen.setdefault(name)
    return list(chosen)


Meaning = Callable[[Selector], Sequence[str]]
"""Whom a selector means at one moment."""


def meaning(view: ClusterView, nodes: Sequence[str]) -> Meaning:
    """Whom selectors mean in a view, as it is whenever they are asked."""
    return lambda selector: select([selector], view, nodes)


NodeKind = Literal["controller", "broker", "remote-store", "client"]
KINDS: tuple[NodeKind, ...] = get_args(NodeKind)


def kind_of(node: str) -> NodeKind:
    """What a node is; the operator is a client like others."""
    if node.startswith("broker-"):
        return "broker"
    if node.startswith("remote-store-"):
        return "remote-store"
    return "controller" if node.startswith("controller-") else "client"


def may_mean(selector: Selector, node: str) -> bool:
    """Whether a selector could mean a node in any view at all."""
    if selector.kind == "name":
        return selector.argument == node
    if selector.kind in ("group", "any"):
        return node in members(selector.argument, [node])
    if selector.kind in ("active-controller", "voters"):
        return kind_of(node) == "controller"
    return kind_of(node) in (("controller", "broker") if selector.kind == "observers" else ("broker",))


def texts_of(given: str | Sequence[str]) -> Sequence[str]:
    """Selectors as they are written: one, or a list."""
    return [given] if isinstance(given, str) else given


def _pick(names: list[str], index: int) -> list[str]:
    return names if index < 0 else names[index : index + 1]


def _leader(selector: Selector, view: ClusterView, _nodes: Sequence[str]) -> list[str]:
    partition = view.partitions[selector.argument]
    return [node_name(partition.leader)] if partition.leader >= 0 else []


def _followers(selector: Selector, view: ClusterView, _nodes: Sequence[str]) -> list[str]:
    partition = view.partitions[selector.argument]
    if partition.leader < 0:
        return []
    return _pick([node_name(r) for r in partition.replicas if r != partition.leader], selector.index)


def _isr(selector: Selector, view: ClusterView, _nodes: Sequence[str]) -> list[str]:
    partition = view.partitions[selector.argument]
    return _pick([node_name(r) for r in partition.replicas if r in partition.isr], selector.index)


def _coordinator(selector: Selector, view: ClusterView, _nodes: Sequence[str]) -> list[str]:
    topic = GROUP_METADATA_TOPIC if selector.kind == "coordinator" else TRANSACTION_STATE_TOPIC
    count = sum(tp.rpartition("-")[0] == topic for tp in view.living)
    if not count:
        return []
    partition = view.partitions[topic_partition(topic, partition_of(selector.argument, count))]
    return [node_name(partition.leader)] if partition.leader >= 0 else []


def _voters(selector: Selector, view: ClusterView, nodes: Sequence[str]) -> list[str]:
    found = [name for name in members("controllers", nodes) if name in view.voters and name in view.up]
    return _pick([name for name in found if view.roles.get(name) == selector.argument], selector.index)


def _observers(selector: Selector, view: ClusterView, nodes: Sequence[str]) -> list[str]:
    found = [*members("controllers", nodes), *members("brokers", nodes)]
    return _pick([name for name in found if name not in view.voters], selector.index)


def _drawn_too_late(selector: Selector, _view: ClusterView, _nodes: Sequence[str]) -> list[str]:
    raise AssertionError(f"{selector} is drawn when the scenario is resolved")


_SELECT: dict[Kind, Callable[[Selector, ClusterView, Sequence[str]], list[str]]] = {
    "name": lambda selector, view, nodes: [selector.argument],
    "group": lambda selector, view, nodes: members(selector.argument, nodes),
    "leader": _leader,
    "followers": _followers,
    "isr": _isr,
    "coordinator": _coordinator,
    "transaction-coordinator": _coordinator,
    "active-controller": lambda selector, view, nodes: [view.controller] if view.controller else [],
    "voters": _voters,
    "observers": _observers,
    "any": _drawn_too_late,
}
