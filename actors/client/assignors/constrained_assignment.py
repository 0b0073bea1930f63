"""Sticky assignment where every member wants the same topics (``ConstrainedAssignmentBuilder`` of
``AbstractStickyAssignor.java``)."""

from __future__ import annotations

import msgspec

from actors.client.assignors.subscription import Assignment, TopicPartition


class ConstrainedAssignment(msgspec.Struct):
    """Members keep what they own up to their quota, and what is left goes round among those that are below it.

    Every member gets ``least`` partitions or one more; ``larger`` of them have one more. below: members with fewer than
    ``least``; at_least: with exactly that many, of whom some will get one more. taken_away: partition -> member that
    owned it and had too many. contested: partitions that two members claimed in one generation; neither keeps them.
    moving: partition -> member that gets what another one still owns.
    """

    owned: Assignment
    contested: list[TopicPartition]
    least: int
    larger: int
    assignment: Assignment = {}
    below: list[str] = []
    at_least: list[str] = []
    enlarged: int = 0
    taken_away: dict[TopicPartition, str] = {}
    moving: dict[TopicPartition, str] = {}

    def build(self, counts: dict[str, int]) -> Assignment:
        """Share out all partitions."""
        for member in sorted(self.owned):
            self._keep(member)
        kept = {each for partitions in self.assignment.values() for each in partitions}
        everything = [(topic, number) for topic, count in sorted(counts.items()) for number in range(count)]
        self._go_round([each for each in everything if each not in kept])
        return self.assignment

    def _keep(self, member: str) -> None:
        owned = sorted(
            (each for each in self.owned[member] if each not in self.contested), key=lambda each: (each[1], each[0])
        )
        if len(owned) < self.least:
            quota = len(owned)
            self.below.append(member)
        elif len(owned) > self.least and self.enlarged < self.larger:
            quota = self.least + 1
            self.enlarged += 1
            if self.enlarged == self.larger:
                self.at_least.clear()
        else:
            quota = self.least
            if self.enlarged < self.larger:
                self.at_least.append(member)
        self.assignment[member] = owned[:quota]
        self.taken_away.update(dict.fromkeys(owned[quota:], member))

    def _go_round(self, partitions: list[TopicPartition]) -> None:
        self.at_least.sort()
        turn = 0
        for partition in partitions:
            if self.below:
                turn %= len(self.below)
                member = self.below[turn]
            else:
                assert self.at_least, f"nobody is left who may have {partition}"
                member = self.at_least.pop(0)
            self._give(partition, member)
            if member in self.below:
                if len(self.assignment[member]) == self.least:
                    self.below.remove(member)  # the next one has its place now
                    self.at_least.append(member)
                else:
                    turn += 1
        assert not self.below, f"{self.below} did not get their least share"

    def _give(self, partition: TopicPartition, member: str) -> None:
        self.assignment[member].append(partition)
        if self.taken_away.get(partition, member) != member or partition in self.contested:
            self.moving[partition] = member
