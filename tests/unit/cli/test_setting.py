"""The line on the cluster above a story."""

from __future__ import annotations

import pytest

from chaos.plan import Plan
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.setting import min_isr_in, setting_of

WORKLOAD = "workload:\n  - producer: {topic: orders, rate: 1/s}\n"


def plan_of(cluster: str) -> Plan:
    """A run on a cluster, in YAML's flow style, with nothing else that matters here."""
    return resolve(load_text(f"schema: krift/v1\nname: staged\nduration: 10s\ncluster: {cluster}\n{WORKLOAD}"))


ALONE = "on brokers [1], min.insync.replicas 1"
UNCLEAN = "unclean.leader.election.enable: true"


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        (
            "{topics: {orders: {replicas: [[3, 1]]}}}",
            "orders-0 on brokers [3, 1], min.insync.replicas 1; unclean elections off; ELR on",
        ),
        (
            f"{{config: {{{UNCLEAN}}}, topics: {{orders: {{replicas: [[1, 2, 3], [2, 3]]}}}}}}",
            "orders with 2 partitions of 2 or 3 replicas, min.insync.replicas 1; unclean elections on; ELR on",
        ),
        (
            f"{{topics: {{orders: {{replicas: [[1]]}}, b: {{replicas: [[1]], config: {{{UNCLEAN}}}}}}}}}",
            f"orders-0 {ALONE}; b-0 {ALONE}; unclean elections on for b; ELR on",
        ),
    ],
)
def test_a_story_says_who_keeps_the_topics_and_who_may_lead(cluster: str, told: str) -> None:
    """Shows replicas, how many must be in sync, and whether records may be lost by an election, as a topic's own
    configuration says it where it has one."""
    assert setting_of(plan_of(cluster)) == f"3 voters, 3 brokers; {told}"


def test_a_setting_in_words_has_the_least_isr_of_a_topic() -> None:
    """Shows min.insync.replicas of a partition, from what a verdict keeps; nothing of a topic that is not told."""
    topics = "orders: {replicas: [[1, 2], [2, 3]], config: {min.insync.replicas: 2}}, b: {replicas: [[1]]}"
    told = setting_of(plan_of(f"{{topics: {{{topics}}}}}"))
    assert [min_isr_in(told, tp) for tp in ("orders-1", "b-0", "c-0")] == ["2", "1", ""]


def test_of_many_topics_the_first_are_told() -> None:
    """Shows that a scenario of many topics has a line, too."""
    topics = ", ".join(f"{name}: {{replicas: [[1]]}}" for name in ("orders", "b", "c", "d", "e"))
    told = setting_of(plan_of(f"{{topics: {{{topics}}}}}"))
    assert told.split("; ")[3:] == [f"c-0 {ALONE}", "2 other topics", "unclean elections off", "ELR on"]
