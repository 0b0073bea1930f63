"""How members share partitions out; cases of Kafka's ``RangeAssignorTest``, ``RoundRobinAssignorTest``,
``CooperativeStickyAssignorTest`` and ``AbstractStickyAssignorTest``."""

from __future__ import annotations

import pytest

from actors.client.assignors.cooperative_sticky_assignor import assign_cooperative_sticky, cooperative_user_data
from actors.client.assignors.range_assignor import assign_range
from actors.client.assignors.registry import common_protocol_is_cooperative
from actors.client.assignors.round_robin_assignor import assign_round_robin
from actors.client.assignors.subscription import (
    Assignment,
    Subscription,
    assignment_bytes,
    assignment_of,
    subscription_bytes,
    subscription_of,
)


def told(assignment: Assignment) -> dict[str, str]:
    """By member, such as ``a0 a1 b0``."""
    return {member: " ".join(f"{topic}{number}" for topic, number in parts) for member, parts in assignment.items()}


def wants(topics: str, owned: str = "", generation: int = -1, instance: str = "") -> Subscription:
    """A member that wants the topics a, b, ... and owns a0, b1, ..."""
    parts = [(each[0], int(each[1:])) for each in owned.split()]
    return Subscription(list(topics), parts, generation, None, instance)


RANGE = {
    "testOneConsumerNoTopic": ({}, {"m1": wants("")}, {"m1": ""}),
    "testOneConsumerNonexistentTopic": ({}, {"m1": wants("a")}, {"m1": ""}),
    "testOnlyAssignsPartitionsFromSubscribedTopics": ({"a": 3, "b": 3}, {"m1": wants("a")}, {"m1": "a0 a1 a2"}),
    "testTwoConsumersOneTopicOnePartition": ({"a": 1}, {"m1": wants("a"), "m2": wants("a")}, {"m1": "a0", "m2": ""}),
    "testTwoConsumersTwoTopicsSixPartitions": (
        {"a": 3, "b": 3},
        {"m1": wants("ab"), "m2": wants("ab")},
        {"m1": "a0 a1 b0 b1", "m2": "a2 b2"},
    ),
    "testMultipleConsumersMixedTopics": (
        {"a": 3, "b": 2},
        {"m1": wants("a"), "m2": wants("ab"), "m3": wants("a")},
        {"m1": "a0", "m2": "a1 b0 b1", "m3": "a2"},
    ),
    # static members come first, by instance id, whatever their member ids are
    "testTwoStaticConsumersTwoTopicsSixPartitions": (
        {"a": 3, "b": 3},
        {"m-b": wants("ab", instance="i1"), "m-a": wants("ab", instance="i2")},
        {"m-a": "a2 b2", "m-b": "a0 a1 b0 b1"},
    ),
    "testOneStaticConsumerAndOneDynamicConsumerTwoTopicsSixPartitions": (
        {"a": 3, "b": 3},
        {"m1": wants("ab"), "m2": wants("ab", instance="i1")},
        {"m1": "a2 b2", "m2": "a0 a1 b0 b1"},
    ),
}


@pytest.mark.parametrize("case", RANGE)
def test_range(case: str) -> None:
    """Shows what each member gets with the assignor range (``RangeAssignorTest``)."""
    counts, subscriptions, expected = RANGE[case]
    assert told(assign_range(counts, subscriptions)) == expected


ROUND_ROBIN = {
    "testTwoConsumersTwoTopicsSixPartitions": (
        {"a": 3, "b": 3},
        {"m1": wants("ab"), "m2": wants("ab")},
        {"m1": "a0 a2 b1", "m2": "a1 b0 b2"},
    ),
    "testMultipleConsumersMixedTopicSubscriptions": (
        {"a": 3, "b": 2},
        {"m1": wants("a"), "m2": wants("ab"), "m3": wants("a")},
        {"m1": "a0", "m2": "a1 b0 b1", "m3": "a2"},
    ),
    "a topic that nobody wants": ({"a": 1, "z": 2}, {"m1": wants("a")}, {"m1": "a0"}),
}


@pytest.mark.parametrize("case", ROUND_ROBIN)
def test_round_robin(case: str) -> None:
    """Shows what each member gets with the assignor roundrobin (``RoundRobinAssignorTest``)."""
    counts, subscriptions, expected = ROUND_ROBIN[case]
    assert told(assign_round_robin(counts, subscriptions)) == expected


STICKY = {
    "testTwoConsumersTwoTopicsSixPartitions": (
        {"a": 3, "b": 3},
        {"m1": wants("ab"), "m2": wants("ab")},
        {"m1": "a0 a2 b1", "m2": "a1 b0 b2"},
    ),
    # what goes to the new member is taken from m1 only; m2 gets it when m1 has given it up
    "testAddRemoveConsumerOneTopic, a member joins": (
        {"a": 3},
        {"m1": wants("a", "a0 a1 a2", 1), "m2": wants("a")},
        {"m1": "a0 a1", "m2": ""},
    ),
    "testAddRemoveConsumerOneTopic, its second step": (
        {"a": 3},
        {"m1": wants("a", "a0 a1", 2), "m2": wants("a", "", 2)},
        {"m1": "a0 a1", "m2": "a2"},
    ),
    "testAddRemoveConsumerOneTopic, a member is gone": ({"a": 3}, {"m2": wants("a", "a2", 3)}, {"m2": "a0 a1 a2"}),
    "testAllConsumersHaveOwnedPartitionInvalidatedWhenClaimedByMultipleConsumersInSameGeneration": (
        {"a": 3},
        {"m1": wants("a", "a0 a1", 5), "m2": wants("a", "a0 a2", 5)},
        # neither keeps a0, and whoever is to have it may not get it in this step
        {"m1": "a1", "m2": "a2"},
    ),
    "testOwnedPartitionsAreInvalidatedForConsumerWithStaleGeneration": (
        {"a": 3, "b": 3},
        {"m1": wants("ab", "a0 a2 b1", 5), "m2": wants("ab", "a0 a2 b1", 4)},
        {"m1": "a0 a2 b1", "m2": "a1 b0 b2"},
    ),
    "members that want different topics": (
        {"a": 2, "b": 2, "c": 2},
        {"m1": wants("a"), "m2": wants("ab"), "m3": wants("abc")},
        {"m1": "a0 a1", "m2": "b0 b1", "m3": "c0 c1"},
    ),
    "testReassignmentWithRandomSubscriptionsAndChanges, a topic is given up": (
        {"a": 2, "b": 1},
        {"m1": wants("a", "a0 b0", 3), "m2": wants("ab", "a1", 3)},
        # b0 is still m1's, which has to give it up first
        {"m1": "a0", "m2": "a1"},
    ),
}


@pytest.mark.parametrize("case", STICKY)
def test_cooperative_sticky(case: str) -> None:
    """Shows what each member gets with cooperative-sticky (``CooperativeStickyAssignorTest``)."""
    counts, subscriptions, expected = STICKY[case]
    assert told(assign_cooperative_sticky(counts, subscriptions)) == expected


def test_the_generation_comes_from_the_user_data_where_the_subscription_has_none() -> None:
    """Shows that a member of an older version of the protocol is judged by its assignor's data (KIP-341, KIP-792)."""
    old = Subscription(["a"], [("a", 0)], -1, cooperative_user_data(7))
    subscriptions = {"m1": old, "m2": wants("a", "a0", 6)}
    assert told(assign_cooperative_sticky({"a": 1}, subscriptions)) == {"m1": "a0", "m2": ""}
    garbled = Subscription(["a"], [("a", 0)], -1, b"?")
    assert told(assign_cooperative_sticky({"a": 1}, {"m1": garbled, "m2": wants("a", "a0", 6)}))["m2"] == "a0"


def test_subscriptions_and_assignments_travel() -> None:
    """Shows that what members tell one another arrives as it was."""
    given = Subscription(["a", "b"], [("a", 1), ("b", 0)], 4, cooperative_user_data(4))
    assert subscription_of(subscription_bytes(given)) == given
    assert assignment_of(assignment_bytes([("b", 1), ("a", 0), ("a", 2)])) == [("a", 0), ("a", 2), ("b", 1)]
    assert assignment_of(b"") == []


def test_the_rebalance_protocol_is_what_all_assignors_know() -> None:
    """Shows that a member is cooperative only if each of its assignors is (``ConsumerCoordinator``'s constructor)."""
    assert common_protocol_is_cooperative(["cooperative-sticky"])
    assert not common_protocol_is_cooperative(["cooperative-sticky", "range"])
