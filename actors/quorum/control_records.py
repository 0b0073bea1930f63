"""What the control records of the metadata log say: the voters and the level of kraft.version, at each offset
(``KRaftControlRecordStateMachine.java``, ``VoterSetHistory.java``, ``KRaftVersionHistory.java``; KIP-853).

A record is in force as soon as it is appended, committed or not; cutting the log brings back what was before.
"""

from __future__ import annotations

import msgspec

from actors.log.batch import Batch, payload
from actors.quorum.snapshots import Snapshot
from actors.quorum.voter_set import ReplicaKey, VoterSet, voters_of_record
from krift.v1.records import ControlRecord
from krift.v1.wire import from_bytes

BOOTSTRAP_OFFSET = -1
"""Offset of what a directory was formatted with (Kafka: the checkpoint 0-0): before the log."""


class VotersEntry(msgspec.Struct, frozen=True, array_like=True):
    """From ``offset`` on, in a batch of leader epoch ``epoch``, these are the voters."""

    offset: int
    epoch: int
    voters: VoterSet


class KRaftVersionEntry(msgspec.Struct, frozen=True, array_like=True):
    """From ``offset`` on kraft.version has this level."""

    offset: int
    level: int


class ControlRecords(msgspec.Struct):
    """static_voters: ``controller.quorum.voters``, for as long as nothing else is known. voter_sets, kraft_versions:
    the history, oldest first; both are empty in a cluster at kraft.version 0."""

    static_voters: VoterSet = VoterSet()
    voter_sets: list[VotersEntry] = []
    kraft_versions: list[KRaftVersionEntry] = []

    @property
    def voters(self) -> VoterSet:
        """The voters in force."""
        return self.voter_sets[-1].voters if self.voter_sets else self.static_voters

    @property
    def last_voters(self) -> VotersEntry | None:
        """Where the voters in force come from; None for static ones."""
        return self.voter_sets[-1] if self.voter_sets else None

    @property
    def kraft_version(self) -> int:
        """The level in force."""
        return self.kraft_versions[-1].level if self.kraft_versions else 0

    def had_voter(self, key: ReplicaKey) -> bool:
        """Whether a replica was a voter before the last change."""
        return len(self.voter_sets) > 1 and self.voter_sets[-2].voters.has(key)

    def voters_at(self, offset: int) -> VotersEntry | None:
        """What the log up to and with ``offset`` says of the voters; None if nothing."""
        found = [entry for entry in self.voter_sets if entry.offset <= offset]
        return found[-1] if found else None

    def kraft_version_at(self, offset: int) -> int:
        """The level at ``offset``."""
        found = [entry for entry in self.kraft_versions if entry.offset <= offset]
        return found[-1].level if found else 0

    # ---- changes -------------------------------------------------------------------------------------------

    def load(self, offset: int, epoch: int, voters: VoterSet, kraft_version: int) -> None:
        """Begin anew with what a snapshot has: ``offset`` is that of the last record in it (BOOTSTRAP_OFFSET: of the
        format), ``epoch`` the leader epoch of that."""
        self.voter_sets = [VotersEntry(offset, epoch, voters)] if voters.ids else []
        self.kraft_versions = [KRaftVersionEntry(offset, kraft_version)]

    def load_snapshot(self, snapshot: Snapshot) -> None:
        """Begin anew with what a snapshot has: it holds from the last offset that it stands for (Kafka's choice, too).
        One of a cluster at kraft.version 0 has nothing, and changes nothing."""
        level, voters = 0, VoterSet()
        for content in snapshot.control:
            record = from_bytes(ControlRecord, content)
            if record.voters is not None:
                voters = voters_of_record(record.voters)
            elif record.k_raft_version is not None:
                level = record.k_raft_version.k_raft_version
        if level:
            self.load(snapshot.end - 1, snapshot.epoch, voters, level)

    def append(self, batch: Batch) -> bool:
        """Take a batch at the log's end; True if the voters in force are other ones, or are the same once more.

        AssertionError where two sets that follow each other could decide without one another.
        """
        changed = False
        if not batch.is_control:
            return changed
        for offset, record in enumerate(batch.records, batch.base_offset):
            message = from_bytes(ControlRecord, payload(record))
            if message.k_raft_version is not None:
                self.kraft_versions.append(KRaftVersionEntry(offset, message.k_raft_version.k_raft_version))
            elif message.voters is not None:
                voters = voters_of_record(message.voters)
                if self.voter_sets and not self.voters.has_overlapping_majority(voters):
                    raise AssertionError(f"voters {self.voters.members} cannot be followed by {voters.members}")
                self.voter_sets.append(VotersEntry(offset, batch.epoch, voters))
                changed = True
        return changed

    def truncate_new(self, end_offset: int) -> bool:
        """Forget what is at ``end_offset`` or above; True if that changed the voters in force."""
        before = len(self.voter_sets)
        self.voter_sets = [entry for entry in self.voter_sets if entry.offset < end_offset]
        self.kraft_versions = [entry for entry in self.kraft_versions if entry.offset < end_offset]
        return len(self.voter_sets) != before

    def truncate_old(self, start_offset: int) -> None:
        """Forget what a newer entry at or below ``start_offset`` has replaced."""
        while len(self.voter_sets) > 1 and self.voter_sets[1].offset <= start_offset:
            del self.voter_sets[0]
        while len(self.kraft_versions) > 1 and self.kraft_versions[1].offset <= start_offset:
            del self.kraft_versions[0]
