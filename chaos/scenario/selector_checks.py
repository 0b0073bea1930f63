"""Whether there is what selectors and topic partitions name."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.scenario.mistakes import Mistakes
from chaos.scenario.model import Scenario, Topic
from chaos.scenario.selectors import Selector, members
from chaos.scenario.yaml_tree import Path_


def partition_count(topic: Topic) -> int:
    """Number of partitions of a topic."""
    return len(topic.replicas) if topic.replicas is not None else topic.partitions or 1


def check_selectors(
    path: Path_, selectors: list[Selector], scenario: Scenario, nodes: list[str], mistakes: Mistakes, first: int = 0
) -> None:
    """Each names nodes that there are; ``first``: the place of the first of them in their list."""
    for number, selector in enumerate(selectors, first):
        place = (*path, number)
        if selector.kind == "name" and selector.argument not in nodes:
            mistakes.unknown(place, selector.argument, "node", nodes)
        elif selector.kind in ("leader", "followers", "isr"):
            replicas = check_topic_partition(place, selector.argument, scenario, mistakes)
            last = replicas - (2 if selector.kind == "followers" else 1)
            if replicas and (selector.index > last or last < 0):
                expected = f"an index from 0 to {last}" if last >= 0 else "a partition with more replicas"
                mistakes.add(place, f"{selector} is beyond the replicas", expected)
        elif selector.kind in ("voters", "observers"):
            there_are = len(members("controllers", nodes))
            there_are += len(members("brokers", nodes)) if selector.kind == "observers" else 0
            if selector.index >= there_are:
                mistakes.add(place, f"{selector} is beyond all nodes", f"an index from 0 to {there_are - 1}")
        elif selector.kind == "any":
            there_are = len(members(selector.argument, nodes))
            if selector.count > there_are:
                mistakes.add(place, f"any({selector.count}) of {there_are} {selector.argument}", f"at most {there_are}")


def check_topic_partition(
    path: Path_, tp: str, scenario: Scenario, mistakes: Mistakes, others: Iterable[str] = ()
) -> int:
    """Number of replicas of a topic partition, 0 if there is none of that name."""
    name, _, number = tp.rpartition("-")
    topic = scenario.cluster.topics.get(name)
    if topic is None or not number.isdigit() or int(number) >= partition_count(topic):
        known = [f"{n}-{p}" for n, t in scenario.cluster.topics.items() for p in range(min(partition_count(t), 4))]
        mistakes.unknown(path, tp, "file" if others else "topic partition", [*others, *known])
        return 0
    return len(topic.replicas[int(number)]) if topic.replicas is not None else topic.replication or 1
