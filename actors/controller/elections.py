"""Who leads a partition, and what a change of its ISR entails (``PartitionChangeBuilder.java``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from actors.controller.changes import Change
from actors.controller.partition_registry import LEADER_UNCHANGED, NO_LEADER, RECOVERING, PartitionRegistration
from krift.v1.records_pb2 import MetadataRecord, PartitionChangeRecord, PartitionRecord

Election = Literal["preferred", "online", "unclean"]
"""preferred: the first replica of the assignment, if it is eligible. online: the present leader if it still is, else
the first eligible replica. unclean: as online, but rather anybody alive than nobody."""


class PartitionChangeBuilder:
    """Builds the record of one change. It lives for one step and is no part of the state.

    acceptable: whether a broker may lead at all, i.e. is active once the records in the making are replayed.
    cause: what the trace calls the change, unless it turns out an unclean election.
    """

    def __init__(
        self,
        partition: PartitionRegistration,
        acceptable: Callable[[int], bool],
        cause: str,
        election: Election = "online",
        defects: tuple[str, ...] = (),
    ) -> None:
        self.partition = partition
        self.acceptable = acceptable
        self.cause = cause
        self.election = election
        self.defects = defects
        self.target_isr = list(partition.isr)
        self.target_recovery_state = partition.leader_recovery_state

    def build(self) -> Change | None:
        """The record, or None if nothing changes."""
        partition = self.partition
        record = PartitionChangeRecord(topic_id=partition.topic_id, partition_id=partition.partition)
        cause = self._elect(record)
        # Without eligible leader replicas an ISR never becomes empty: its last member stays, though it cannot lead.
        if not record.isr and self.target_isr and self.target_isr != partition.isr:
            record.isr.extend(self.target_isr)
        if not record.HasField("leader_recovery_state") and (
            self.target_recovery_state != partition.leader_recovery_state
        ):
            record.leader_recovery_state = self.target_recovery_state
        if not (record.isr or record.HasField("leader") or record.HasField("leader_recovery_state")):
            return None
        if "stale-leader-epoch" in self.defects and record.leader != LEADER_UNCHANGED:
            return Change(MetadataRecord(partition=_in_same_epoch(partition.merge(record))), cause)
        return Change(MetadataRecord(partition_change=record), cause)

    def elect_leader(self) -> tuple[int, bool]:
        """(leader, unclean): the replica that the rules choose; (-1, False) if none is eligible."""
        leader, replicas = self.partition.leader, self.partition.replicas
        first = [replicas[0], leader] if self.election == "preferred" else [leader]
        for replica in [*first, *replicas]:
            if self._is_valid_new_leader(replica):
                return replica, False
        if self.election == "unclean":
            for replica in replicas:
                if self.acceptable(replica):
                    return replica, True
        return NO_LEADER, False

    def _is_valid_new_leader(self, replica: int) -> bool:
        in_sync = replica in self.target_isr or "elect-any-replica" in self.defects
        return replica != NO_LEADER and in_sync and self.acceptable(replica)

    def _elect(self, record: PartitionChangeRecord) -> str:
        leader, unclean = self.elect_leader()
        if leader == self.partition.leader:
            return self.cause
        record.leader = leader
        if unclean:
            # No replica is told to truncate: those that return diverge from the new leader's log and follow it.
            record.isr.append(leader)
            if self.partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
            return "unclean"
        if leader != NO_LEADER and leader not in self.target_isr:
            self.target_isr.append(leader)  # only the defect gets here
        return self.cause


def _in_same_epoch(after: PartitionRegistration) -> PartitionRecord:
    """The whole state after an election, with the leader epoch from before: what brokers replay is as wrong as what
    the controller holds."""
    return PartitionRecord(
        topic_id=after.topic_id,
        partition_id=after.partition,
        replicas=after.replicas,
        isr=after.isr,
        leader=after.leader,
        leader_epoch=after.leader_epoch - 1,
        partition_epoch=after.partition_epoch,
        leader_recovery_state=after.leader_recovery_state,
    )


def leader_and_isr_updates(
    partitions: Iterable[PartitionRegistration],
    is_active: Callable[[int], bool],
    unclean_enabled: Callable[[str], bool],
    cause: str,
    *,
    removed: int = NO_LEADER,
    added: int = NO_LEADER,
    defects: tuple[str, ...] = (),
) -> list[Change]:
    """Changes of the partitions that a broker's loss or return concerns
    (``ReplicationControlManager.generateLeaderAndIsrUpdates``).

    removed: broker that leaves every ISR and may not lead. added: broker that may lead, though the record that
    unfences it is not replayed yet. unclean_enabled: whether a topic allows unclean elections.
    """

    def acceptable(replica: int) -> bool:
        return replica != removed and (replica == added or is_active(replica))

    changes = []
    for partition in partitions:
        election: Election = "unclean" if unclean_enabled(partition.topic) else "online"
        builder = PartitionChangeBuilder(partition, acceptable, cause, election, defects)
        builder.target_isr = [replica for replica in partition.isr if replica != removed]
        change = builder.build()
        if change is not None:
            changes.append(change)
    return changes
