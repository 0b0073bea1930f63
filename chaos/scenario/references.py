"""What the parts of a scenario may name, and what is wrong with those that name anything else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from actors.config import Scope
from actors.crash_points import FILES, POINTS
from actors.node.messages import Api
from actors.node.spec import METADATA_PARTITION, REMOTE_STORE
from chaos.scenario.mistakes import Mistakes
from chaos.scenario.selectors import Selector, members
from chaos.scenario.yaml_tree import Path_

_OF_PARTITIONS = ("leader", "followers", "isr", "coordinator", "transaction-coordinator")
"""Kinds of selectors that mean brokers by what partitions say."""


class References:
    """nodes: names of all, in the run's order. topics: name -> number of replicas of each partition. groups: of its
    consumers; transactional_ids: of its producers. mistakes: takes what is wrong."""

    def __init__(
        self,
        nodes: list[str],
        topics: Mapping[str, Sequence[int]],
        groups: Sequence[str],
        transactional_ids: Sequence[str],
        mistakes: Mistakes,
    ) -> None:
        self.nodes, self.topics, self.mistakes = nodes, topics, mistakes
        self.groups, self.transactional_ids = groups, transactional_ids

    def selectors(self, path: Path_, selectors: Sequence[Selector] | None, first: int = 0) -> None:
        """Each names nodes that there are; ``first``: the place of the first of them in their list."""
        for number, selector in enumerate(selectors or (), first):
            place = (*path, number)
            if selector.kind == "name" and selector.argument not in self.nodes:
                self.mistakes.unknown(place, selector.argument, "node", self.nodes)
            elif selector.kind == "coordinator":
                if selector.argument not in self.groups:
                    self.mistakes.unknown(place, selector.argument, "group", self.groups)
            elif selector.kind == "transaction-coordinator":
                if selector.argument not in self.transactional_ids:
                    self.mistakes.unknown(place, selector.argument, "transactional id", self.transactional_ids)
            elif selector.kind in ("leader", "followers", "isr"):
                replicas = self.topic_partition(place, selector.argument)
                last = replicas - (2 if selector.kind == "followers" else 1)
                if replicas and (selector.index > last or last < 0):
                    expected = f"an index from 0 to {last}" if last >= 0 else "a partition with more replicas"
                    self.mistakes.add(place, f"{selector} is beyond the replicas", expected)
            elif selector.kind in ("voters", "observers"):
                there_are = len(members("controllers", self.nodes))
                there_are += len(members("brokers", self.nodes)) if selector.kind == "observers" else 0
                if selector.index >= there_are:
                    expected = f"an index from 0 to {there_are - 1}"
                    self.mistakes.add(place, f"{selector} is beyond all nodes", expected)
            elif selector.kind == "any":
                there_are = len(members(selector.argument, self.nodes))
                if selector.count > there_are:
                    wrong = f"any({selector.count}) of {there_are} {selector.argument}"
                    self.mistakes.add(place, wrong, f"at most {there_are}")

    def topic_partition(self, path: Path_, tp: str, others: Iterable[str] = ()) -> int:
        """Number of replicas of a topic partition, 0 if there is none of that name."""
        name, _, number = tp.rpartition("-")
        topic = self.topics.get(name)
        if topic is None or not number.isdigit() or int(number) >= len(topic):
            known = [f"{n}-{p}" for n, t in self.topics.items() for p in range(min(len(t), 4))]
            self.mistakes.unknown(path, tp, "file" if others else "topic partition", [*others, *known])
            return 0
        return topic[int(number)]

    def topic(self, path: Path_, name: str) -> None:
        """A topic of the cluster."""
        if name not in self.topics:
            self.mistakes.unknown(path, name, "topic", self.topics)

    def api(self, path: Path_, name: str) -> None:
        """An API."""
        if name not in Api.__members__:
            self.mistakes.unknown(path, name, "API", Api.__members__)

    def disks(self, path: Path_, selectors: Sequence[Selector]) -> None:
        """Selectors of nodes that have a disk."""
        self.selectors(path, selectors)
        clients = members("clients", self.nodes)
        for number, selector in enumerate(selectors):
            by_name = selector.kind not in _OF_PARTITIONS  # a transactional id may be the name of a client
            if by_name and selector.argument == REMOTE_STORE:
                wrong = f"{selector} is a service that loses no object"
                self.mistakes.add((*path, number), wrong, "brokers or controllers")
            elif by_name and selector.argument in ("clients", *clients):
                self.mistakes.add((*path, number), f"{selector} has no disk", "brokers or controllers")

    def servers(self, path: Path_, selectors: Sequence[Selector]) -> None:
        """Selectors of nodes that serve: an operator stops no client."""
        self.selectors(path, selectors)
        for number, selector in enumerate(selectors):
            if role_of(selector) is None:
                wrong = f"{selector} is no controller or broker"
                self.mistakes.add((*path, number), wrong, "controllers and brokers only")

    def controllers(self, path: Path_, selectors: Sequence[Selector]) -> None:
        """Selectors of controllers."""
        self.servers(path, selectors)
        for number, selector in enumerate(selectors):
            if role_of(selector) != "controller":
                self.mistakes.add((*path, number), f"{selector} is no controller", "controllers only")

    def brokers(self, path: Path_, selectors: Sequence[Selector] | None) -> None:
        """Selectors of brokers."""
        self.selectors(path, selectors)
        for number, selector in enumerate(selectors or ()):
            if not _means_brokers(selector):
                self.mistakes.add((*path, number), f"{selector} is no broker", "brokers only")

    def crash_point(self, path: Path_, at: str, of: str) -> None:
        """Whether there is what a crash point is about."""
        subject = POINTS[at].subject
        if of == METADATA_PARTITION:
            return
        if subject == "api":
            self.api(path, of)
        elif subject == "partition" or of not in FILES:
            self.topic_partition(path, of, FILES if subject == "file" else ())


def role_of(selector: Selector) -> Scope | None:
    """Which kind of server a selector means; None for clients."""
    if selector.kind in (*_OF_PARTITIONS, "observers"):
        return "broker"
    if selector.kind in ("active-controller", "voters") or selector.argument.startswith("controller"):
        return "controller"
    return "broker" if selector.argument.startswith("broker") else None


def _means_brokers(selector: Selector) -> bool:
    if selector.kind in ("name", "group", "any"):
        return selector.argument.startswith("broker")
    return selector.kind in _OF_PARTITIONS
