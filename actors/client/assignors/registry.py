"""The assignors by their names in partition.assignment.strategy."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actors.client.assignors.cooperative_sticky_assignor import assign_cooperative_sticky, cooperative_user_data
from actors.client.assignors.range_assignor import assign_range
from actors.client.assignors.round_robin_assignor import assign_round_robin
from actors.client.assignors.subscription import Assignment, Subscription, Subscriptions, TopicPartition


class Assignor(msgspec.Struct, frozen=True):
    """``cooperative``: its members keep consuming while they join (``RebalanceProtocol``)."""

    assign: Callable[[dict[str, int], Subscriptions], Assignment]
    cooperative: bool = False


ASSIGNORS: dict[str, Assignor] = {
    "range": Assignor(assign_range),
    "roundrobin": Assignor(assign_round_robin),
    "cooperative-sticky": Assignor(assign_cooperative_sticky, cooperative=True),
}


def subscription_for(name: str, topics: list[str], owned: list[TopicPartition], generation: int) -> Subscription:
    """What a member tells under an assignor's name."""
    user_data = cooperative_user_data(generation) if ASSIGNORS[name].cooperative else None
    return Subscription(topics, owned, generation, user_data)


def common_protocol_is_cooperative(names: list[str]) -> bool:
    """Which rebalance protocol a member follows that has these assignors: the newest that all of them know. The
    cooperative ones know the eager protocol as well."""
    return all(ASSIGNORS[name].cooperative for name in names)
