"""Sticky assignment where members want different topics (``AbstractStickyAssignor.GeneralAssignmentBuilder``)."""

from __future__ import annotations

import msgspec

from actors.client.assignors.subscription import Assignment, TopicPartition


class Movements(msgspec.Struct):
    """Who gave what to whom (``PartitionMovements``). of: partition -> (from, to)."""

    of: dict[TopicPartition, tuple[str, str]] = {}

    def moved(self, partition: TopicPartition, old: str, new: str) -> None:
        """A partition goes from ``old`` to ``new``; one that goes back has not moved."""
        before = self.of.pop(partition, (old, old))
        assert before[1] == old, f"{partition} went to {before[1]} and is taken from {old}"
        if before[0] != new:
            self.of[partition] = (before[0], new)

    def instead_of(self, partition: TopicPartition, old: str, new: str) -> TopicPartition:
        """What ``old`` had better give to ``new``: another partition of the topic that went the other way, so that
        nothing is exchanged for its like."""
        source = self.of.get(partition, (old, old))[0]
        for other, pair in self.of.items():
            if other[0] == partition[0] and pair == (new, source):
                return other
        return partition


class GeneralAssignment(msgspec.Struct):
    """Assigns what nobody has to who has least, then moves single partitions while that makes the loads more even.

    counts: partitions by topic. wants: topics by member. assignment: at first what members own. previous: partition ->
    member that had it in an older generation than its owner. revoked: some member owns what it no longer wants.
    """

    counts: dict[str, int]
    wants: dict[str, list[str]]
    assignment: Assignment
    previous: dict[TopicPartition, str] = {}
    owner: dict[TopicPartition, str] = {}
    movements: Movements = msgspec.field(default_factory=Movements)
    active: list[str] = []
    revoked: bool = False

    def build(self) -> Assignment:
        """Share out all partitions that somebody wants."""
        self._drop_unwanted()
        everything = self._all_partitions()
        unassigned = [each for each in everything if each not in self.owner]
        initializing = not any(self.assignment.values())
        for partition in unassigned:
            takers = [each for each in sorted(self.wants) if partition[0] in self.wants[each]]
            if takers:
                self._give(partition, min(takers, key=self._load))
        movable = [each for each in everything if len(self._takers(each[0])) > 1]
        self.active = [each for each in sorted(self.wants) if self._can_change(each)]
        before = {member: list(each) for member, each in self.assignment.items()}
        owners = dict(self.owner)
        if not self.revoked:
            self._reassign([each for each in unassigned if each in movable])
        changed = self._reassign(movable)
        if not initializing and changed and self._score(self.assignment) >= self._score(before):
            self.assignment, self.owner = before, owners
        return self.assignment

    def _drop_unwanted(self) -> None:
        for member, owned in self.assignment.items():
            wanted = [each for each in owned if each[0] in self.wants[member]]
            self.revoked = self.revoked or len(wanted) < len(owned)
            self.assignment[member] = wanted
            self.owner.update(dict.fromkeys(wanted, member))

    def _all_partitions(self) -> list[TopicPartition]:
        """Of the topics that fewest members want first."""
        topics = sorted(self.counts, key=lambda topic: (len(self._takers(topic)), topic))
        return [(topic, number) for topic in topics for number in range(self.counts[topic])]

    def _takers(self, topic: str) -> list[str]:
        return [member for member in sorted(self.wants) if topic in self.wants[member]]

    def _load(self, member: str) -> tuple[int, str]:
        return len(self.assignment[member]), member

    def _give(self, partition: TopicPartition, member: str) -> None:
        self.assignment[member].append(partition)
        self.owner[partition] = member

    def _can_change(self, member: str) -> bool:
        most = sum(self.counts[topic] for topic in self.wants[member])
        held = self.assignment[member]
        return len(held) < most or any(len(self._takers(topic)) > 1 for topic, _ in held)

    def _balanced(self) -> bool:
        loads = [len(self.assignment[member]) for member in self.active]
        if not loads or min(loads) >= max(loads) - 1:
            return True
        for member in self.active:
            for partition, owner in self.owner.items():
                if partition[0] not in self.wants[member] or owner == member:
                    continue
                if len(self.assignment[member]) + 1 < len(self.assignment[owner]):
                    return False
        return True

    def _reassign(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions until nothing gets more even; each move brings two loads nearer, so that ends."""
        changed = False
        for _ in range(1 + len(self.owner) ** 2):
            modified = False
            for partition in partitions:
                if self._balanced():
                    return changed
                if self._improve(partition):
                    changed = modified = True
            if not modified:
                return changed
        raise AssertionError("the loads of members get no more even, and partitions still move")

    def _improve(self, partition: TopicPartition) -> bool:
        owner = self.owner[partition]
        held = len(self.assignment[owner])
        before = self.previous.get(partition)
        if before is not None and before in self._takers(partition[0]) and held > len(self.assignment[before]) + 1:
            self._move(partition, before)
            return True
        takers = [each for each in self._takers(partition[0]) if each in self.active]
        if any(held > len(self.assignment[each]) + 1 for each in takers):
            self._move(partition, min(takers, key=self._load))
            return True
        return False

    def _move(self, partition: TopicPartition, new: str) -> None:
        moved = self.movements.instead_of(partition, self.owner[partition], new)
        old = self.owner[moved]
        self.movements.moved(moved, old, new)
        self.assignment[old].remove(moved)
        self._give(moved, new)

    @staticmethod
    def _score(assignment: Assignment) -> int:
        """How uneven loads are: the sum of their differences."""
        loads = [len(each) for each in assignment.values()]
        return sum(abs(one - other) for number, one in enumerate(loads) for other in loads[:number])
