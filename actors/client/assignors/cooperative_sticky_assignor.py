"""Members keep what they own, and nobody gets what another one still owns (``CooperativeStickyAssignor.java``,
``AbstractStickyAssignor.java``; racks are left out)."""

from __future__ import annotations

from actors.client.assignors.constrained_assignment import ConstrainedAssignment
from actors.client.assignors.general_assignment import GeneralAssignment
from actors.client.assignors.subscription import (
    NO_GENERATION,
    Assignment,
    Subscription,
    Subscriptions,
    TopicPartition,
)

_GENERATION_BYTES = 4


def cooperative_user_data(generation: int) -> bytes:
    """What a member adds to its subscription: the generation of its last assignment, -1 before the first."""
    return generation.to_bytes(_GENERATION_BYTES, "big", signed=True)


def member_generation(subscription: Subscription) -> int:
    """Since when a member owns what it says: as the subscription has it, or for versions without that its user data."""
    if subscription.generation != NO_GENERATION or subscription.user_data is None:
        return subscription.generation
    if len(subscription.user_data) != _GENERATION_BYTES:
        return NO_GENERATION
    return int.from_bytes(subscription.user_data, "big", signed=True)


def assign_cooperative_sticky(counts: dict[str, int], subscriptions: Subscriptions) -> Assignment:
    """``counts``: partitions by topic. What is to go from one member to another is left out this time: its owner sees
    that it lost it, gives it up and joins again, and then it is free."""
    wanted = [sorted(each.topics) for each in subscriptions.values()]
    counts = {topic: count for topic, count in counts.items() if any(topic in topics for topics in wanted)}
    owned, contested = claims(counts, subscriptions)
    if all(topics == wanted[0] for topics in wanted):
        total = sum(counts.values())
        builder = ConstrainedAssignment(owned, contested, total // len(owned), total % len(owned))
        assignment = builder.build(counts)
        moving = builder.moving
    else:
        wants = {member: [t for t in sorted(each.topics) if t in counts] for member, each in subscriptions.items()}
        held = {member: list(partitions) for member, partitions in owned.items()}
        assignment = GeneralAssignment(counts, wants, held, _previous(subscriptions)).build()
        moving = _transferred(subscriptions, assignment)
    for partition, member in moving.items():
        assignment[member].remove(partition)
    return {member: sorted(assignment[member]) for member in sorted(assignment)}


def claims(counts: dict[str, int], subscriptions: Subscriptions) -> tuple[Assignment, list[TopicPartition]]:
    """What each member may keep of what it says it owns, and what two claim in one generation, which neither keeps.
    Of claims in different generations the younger one counts."""
    owned: Assignment = {}
    claimed: dict[TopicPartition, str] = {}
    contested: list[TopicPartition] = []
    for member in sorted(subscriptions):
        owned[member] = []
        generation = member_generation(subscriptions[member])
        for partition in subscriptions[member].owned:
            if partition[0] not in counts or partition[1] >= counts[partition[0]]:
                continue
            other = claimed.get(partition)
            if other is not None:
                theirs = member_generation(subscriptions[other])
                if generation < theirs:
                    continue
                if partition in owned[other]:
                    owned[other].remove(partition)
                if generation == theirs:
                    contested.append(partition)
            if other is None or generation > member_generation(subscriptions[other]):
                owned[member].append(partition)
            claimed[partition] = member
    return owned, contested


def _previous(subscriptions: Subscriptions) -> dict[TopicPartition, str]:
    """Who had a partition before its owner: of claims in generations that are over the youngest."""
    newest = max(member_generation(each) for each in subscriptions.values())
    found: dict[TopicPartition, str] = {}
    for member in sorted(subscriptions):
        generation = member_generation(subscriptions[member])
        if generation >= newest:
            continue
        for partition in subscriptions[member].owned:
            other = found.get(partition)
            if other is None or generation > member_generation(subscriptions[other]):
                found[partition] = member
    return found


def _transferred(subscriptions: Subscriptions, assignment: Assignment) -> dict[TopicPartition, str]:
    """What a member gets that another one says it owns."""
    lost = {
        partition
        for member, each in subscriptions.items()
        for partition in each.owned
        if partition not in assignment[member]
    }
    gained: dict[TopicPartition, str] = {}
    for member in sorted(assignment):
        for partition in assignment[member]:
            if partition not in subscriptions[member].owned and partition in lost:
                gained[partition] = member
    return gained
