"""Who leads a partition, and what a change of its ISR entails (``PartitionChangeBuilder.java``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from actors.controller.changes import Change
from actors.metadata.registrations import (
    LEADER_UNCHANGED,
    NO_LEADER,
    RECOVERING,
    RECOVERY_UNCHANGED,
    PartitionRegistration,
    partition_record,
)
from krift.v1.records import BrokerIds, MetadataRecord, PartitionChangeRecord, PartitionRecord

Election = Literal["preferred", "online", "unclean"]
"""preferred: the first replica of the assignment, if it is eligible. online: the present leader if it still is, else
the first eligible replica. unclean: as online, but rather anybody alive than nobody."""


@dataclass(frozen=True)
class ElectionRules:
    """What decides an election beside the partition's state. It lives for one step and is no part of the state.

    acceptable: whether a broker may lead at all, i.e. is active once the records in the making are replayed.
    unclean_enabled: whether a topic's configuration allows unclean elections. min_isr: a partition's least ISR.
    elr: whether there are eligible leader replicas (KIP-966). recounts_elr: whether an election looks anew who is
    (mend.elr-cleared).
    """

    acceptable: Callable[[int], bool]
    unclean_enabled: Callable[[str], bool]
    min_isr: Callable[[PartitionRegistration], int]
    elr: bool = False
    recounts_elr: bool = False
    defects: Sequence[str] = ()


class PartitionChangeBuilder:
    """Builds the record of one change. It lives for one step and is no part of the state.

    cause: what the trace calls the change, unless it turns out an unclean election. asked: by an operator.
    unclean_shutdown: brokers that may have lost what they had, and are eligible for nothing.
    """

    def __init__(
        self,
        partition: PartitionRegistration,
        rules: ElectionRules,
        cause: str,
        election: Election = "online",
        asked: bool = False,
    ) -> None:
        self.partition = partition
        self.rules = rules
        self.cause = cause
        self.election = election
        self.asked = asked
        self.unclean_shutdown: list[int] = []
        self.target_isr = list(partition.isr)
        self.target_elr = list(partition.elr)
        self.target_recovery_state = partition.leader_recovery_state

    def build(self) -> Change | None:
        """The record, or None if nothing changes."""
        partition = self.partition
        record = PartitionChangeRecord(topic_id=partition.topic_id, partition_id=partition.partition)
        self._populate_elr()
        cause = self._elect(record)
        self._set_isr_and_elr(record)
        self._set_last_known_leader(record)
        unsaid = record.leader_recovery_state == RECOVERY_UNCHANGED
        if unsaid and self.target_recovery_state != partition.leader_recovery_state:
            record.leader_recovery_state = self.target_recovery_state
        if record == PartitionChangeRecord(topic_id=partition.topic_id, partition_id=partition.partition):
            return None
        elected = record.leader != LEADER_UNCHANGED
        if "stale-leader-epoch" in self.rules.defects and elected:
            return Change(MetadataRecord(partition=_restated(partition.merge(record), 1, 0)), cause, asked=self.asked)
        if "partition-epoch-stands" in self.rules.defects and not elected:
            return Change(MetadataRecord(partition=_restated(partition.merge(record), 0, 1)), cause, asked=self.asked)
        return Change(MetadataRecord(partition_change=record), cause, asked=self.asked)

    # ---- the election ------------------------------------------------------------------------------------

    def elect_leader(self) -> tuple[int, bool]:
        """(leader, unclean): the replica that the rules choose; (-1, False) if none is eligible."""
        leader, replicas = self.partition.leader, self.partition.replicas
        if "no-new-leader" in self.rules.defects and not self.rules.acceptable(leader):
            return NO_LEADER, False
        always = "leader-always-preferred" in self.rules.defects
        first = [replicas[0], leader] if self.election == "preferred" or always else [leader]
        if "last-of-the-assignment-elected" in self.rules.defects:
            replicas = replicas[::-1]
        for replica in [*first, *replicas]:
            if self._is_valid_new_leader(replica):
                return replica, False
        if self._can_elect_last_known_leader():
            return self.partition.last_known_elr[0], True
        if self.election == "unclean":
            for replica in replicas:
                if self.rules.acceptable(replica):
                    return replica, True
        return NO_LEADER, False

    def _is_valid_new_leader(self, replica: int) -> bool:
        eligible = replica in self.target_isr or (not self.target_isr and replica in self.target_elr)
        eligible = eligible or "elect-any-replica" in self.rules.defects
        return replica != NO_LEADER and eligible and self.rules.acceptable(replica)

    def _can_elect_last_known_leader(self) -> bool:
        """Nobody is known to have all that was committed: rather its last leader than nobody, whatever the
        configuration says of unclean elections."""
        known = self.partition.last_known_elr
        nobody = not self.target_isr and (not self.target_elr or "last-known-before-eligible" in self.rules.defects)
        if not self.rules.elr or not nobody or len(known) != 1:
            return False
        return self.rules.acceptable(known[0]) or "elect-fenced-last-known" in self.rules.defects

    def _elect(self, record: PartitionChangeRecord) -> str:
        leader, unclean = self.elect_leader()
        if leader == self.partition.leader:
            if "leader-epoch-with-isr" in self.rules.defects and self.target_isr != self.partition.isr:
                record.leader = leader
            return self.cause
        record.leader = leader
        if unclean:
            # No replica is told to truncate: those that return diverge from the new leader's log and follow it.
            record.isr.append(leader)
            unmarked = "unclean-unmarked" in self.rules.defects
            if self.partition.leader_recovery_state != RECOVERING and not unmarked:
                record.leader_recovery_state = RECOVERING
            return "unclean"
        if leader in self.target_elr:
            self.target_isr = [leader]
            self.target_elr.remove(leader)
            if self.rules.recounts_elr and len(self.target_isr) >= self.rules.min_isr(self.partition):
                self.target_elr = []
        elif leader != NO_LEADER and leader not in self.target_isr:
            self.target_isr.append(leader)  # only the defect gets here
        return self.cause

    # ---- eligible leader replicas ------------------------------------------------------------------------

    def _populate_elr(self) -> None:
        """Who leaves an ISR that is too small stays eligible: nothing is committed any more that it lacks."""
        if not self.rules.elr:
            return
        if len(self.target_isr) >= self.rules.min_isr(self.partition):
            if "eligible-for-good" not in self.rules.defects:
                self.target_elr = []
            return
        gone = {*self.target_isr, *self.unclean_shutdown}
        self.target_elr = sorted({*self.target_elr, *self.partition.isr} - gone)

    def _set_isr_and_elr(self, record: PartitionChangeRecord) -> None:
        partition, unclean = self.partition, bool(record.isr)
        if unclean or not self.rules.elr:
            self.target_elr = []
        if self.target_elr != partition.elr:
            record.eligible_leader_replicas = BrokerIds(ids=list(self.target_elr))
        # Without eligible leader replicas an ISR never becomes empty: its last member stays, though it cannot lead.
        may_set = self.target_isr or self.rules.elr
        if not unclean and may_set and self.target_isr != partition.isr:
            record.isr.extend(self.target_isr)
            if not self.target_isr:
                record.isr_empty = True

    def _set_last_known_leader(self, record: PartitionChangeRecord) -> None:
        """Remember who led when the last eligible one goes; forget it as soon as there is a leader."""
        if not self.rules.elr:
            return
        partition, known = self.partition, self.partition.last_known_elr
        if record.isr_empty:
            if known != [partition.leader]:
                record.last_known_elr = BrokerIds(ids=[partition.leader])
        elif known and (record.leader >= 0 or NO_LEADER not in (partition.leader, record.leader)):
            record.last_known_elr = BrokerIds()


def _restated(after: PartitionRegistration, leader_epochs: int, partition_epochs: int) -> PartitionRecord:
    """The whole state after a change, with epochs from so many changes before: what brokers replay is as wrong as what
    the controller holds."""
    record = partition_record(after)
    record.leader_epoch = after.leader_epoch - leader_epochs
    record.partition_epoch = after.partition_epoch - partition_epochs
    return record


def leader_and_isr_updates(
    partitions: Iterable[PartitionRegistration],
    rules: ElectionRules,
    cause: str,
    *,
    removed: int = NO_LEADER,
    added: int = NO_LEADER,
    unclean: int = NO_LEADER,
) -> list[Change]:
    """Changes of the partitions that a broker's loss or return concerns
    (``ReplicationControlManager.generateLeaderAndIsrUpdates``).

    removed: broker that leaves every ISR and may not lead. unclean: likewise, and it may have lost what it had. added:
    broker that may lead, though the record that unfences it is not replayed yet.
    """
    gone = (removed, unclean)

    def acceptable(replica: int) -> bool:
        return replica not in gone and (replica == added or rules.acceptable(replica))

    now = replace(rules, acceptable=acceptable)
    changes = []
    for partition in partitions:
        anybody = rules.unclean_enabled(partition.topic) or "unclean-anyway" in rules.defects
        election: Election = "unclean" if anybody else "online"
        builder = PartitionChangeBuilder(partition, now, cause, election)
        builder.target_isr = [replica for replica in partition.isr if replica not in gone]
        builder.unclean_shutdown = [] if unclean == NO_LEADER else [unclean]
        change = builder.build()
        if change is not None:
            changes.append(change)
    return changes
