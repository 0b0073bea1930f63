"""Each topic's partitions in ranges (``RangeAssignor.java``; racks are left out).

Topics with as many partitions and the same members are co-partitioned: as ranges begin with the same member each time,
whoever has a partition of one has that of the others.
"""

from __future__ import annotations

from actors.client.assignors.subscription import Assignment, Subscriptions, in_order


def assign_range(counts: dict[str, int], subscriptions: Subscriptions) -> Assignment:
    """``counts``: partitions by topic. The first members of a topic have one partition more than the rest of them."""
    assignment: Assignment = {member: [] for member in sorted(subscriptions)}
    for topic, count in sorted(counts.items()):
        members = [each for each in in_order(subscriptions) if topic in subscriptions[each].topics]
        begin = 0
        for number, member in enumerate(members):
            share = count // len(members) + (number < count % len(members))
            assignment[member] += [(topic, partition) for partition in range(begin, begin + share)]
            begin += share
    return assignment
