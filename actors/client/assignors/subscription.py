"""What members tell their leader, and what it tells them, as bytes of the consumer protocol (``ConsumerProtocol.java``,
``ConsumerPartitionAssignor.java``)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from krift.v1.groups import ConsumerProtocolAssignment, ConsumerProtocolSubscription, ConsumerTopicPartitions
from krift.v1.wire import from_bytes, to_bytes

VERSION = 3
"""Of the consumer protocol: the highest there is."""
NO_GENERATION = -1

TopicPartition = tuple[str, int]
Assignment = dict[str, list[TopicPartition]]
"""By member id."""


class Subscription(msgspec.Struct, frozen=True):
    """What one member wants and has. ``owned``: what it consumes now, since ``generation`` (-1: unknown).
    ``user_data``: its assignor's. ``instance``: its group.instance.id, "" none; the coordinator tells it."""

    topics: list[str]
    owned: list[TopicPartition] = []
    generation: int = NO_GENERATION
    user_data: bytes | None = None
    instance: str = ""


Subscriptions = dict[str, Subscription]
"""By member id."""


def in_order(subscriptions: Subscriptions) -> list[str]:
    """Members as range and round robin take them: static ones first, by instance id, then by member id
    (``AbstractPartitionAssignor.MemberInfo``)."""

    def place(member: str) -> tuple[bool, str]:
        instance = subscriptions[member].instance
        return (not instance, instance or member)

    return sorted(subscriptions, key=place)


def subscription_bytes(subscription: Subscription) -> bytes:
    """As a member sends it in JoinGroup."""
    message = ConsumerProtocolSubscription(version=VERSION, generation_id=subscription.generation)
    message.topics.extend(sorted(subscription.topics))
    message.user_data = subscription.user_data
    message.owned_partitions.extend(_by_topic(subscription.owned))
    return to_bytes(message)


def subscription_of(data: bytes, instance: str = "") -> Subscription:
    """Inverse of ``subscription_bytes``."""
    message = from_bytes(ConsumerProtocolSubscription, data)
    user_data = message.user_data
    return Subscription(
        list(message.topics), _listed(message.owned_partitions), message.generation_id, user_data, instance
    )


def assignment_bytes(partitions: list[TopicPartition]) -> bytes:
    """As the leader sends it in SyncGroup."""
    message = ConsumerProtocolAssignment(version=VERSION)
    message.assigned_partitions.extend(_by_topic(partitions))
    return to_bytes(message)


def assignment_of(data: bytes) -> list[TopicPartition]:
    """Inverse of ``assignment_bytes``, but for the order: by topic and partition. Empty bytes, as a coordinator has for
    a member that its leader forgot, are an empty assignment."""
    return sorted(_listed(from_bytes(ConsumerProtocolAssignment, data).assigned_partitions))


def _by_topic(partitions: Iterable[TopicPartition]) -> list[ConsumerTopicPartitions]:
    topics: dict[str, ConsumerTopicPartitions] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, ConsumerTopicPartitions(topic=topic)).partitions.append(partition)
    return list(topics.values())


def _listed(topics: Iterable[ConsumerTopicPartitions]) -> list[TopicPartition]:
    return [(each.topic, partition) for each in topics for partition in each.partitions]
