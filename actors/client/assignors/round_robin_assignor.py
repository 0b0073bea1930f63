"""All partitions in turn (``RoundRobinAssignor.java``)."""

from __future__ import annotations

from actors.client.assignors.subscription import Assignment, Subscriptions, in_order


def assign_round_robin(counts: dict[str, int], subscriptions: Subscriptions) -> Assignment:
    """``counts``: partitions by topic. Who does not want a topic is passed over."""
    assignment: Assignment = {member: [] for member in sorted(subscriptions)}
    members = in_order(subscriptions)
    turn = 0
    for topic, count in sorted(counts.items()):
        if not any(topic in subscriptions[member].topics for member in members):
            continue
        for partition in range(count):
            while topic not in subscriptions[members[turn % len(members)]].topics:
                turn += 1
            assignment[members[turn % len(members)]].append((topic, partition))
            turn += 1
    return assignment
