"""The voters of the metadata quorum (``VoterSet.java``)."""

from __future__ import annotations

import msgspec


class ReplicaKey(msgspec.Struct, frozen=True, array_like=True):
    """A replica's id and the id of its metadata log's directory; "" where the directory is not known."""

    id: int
    directory_id: str = ""

    def matches(self, other: ReplicaKey) -> bool:
        """Same id, and the same directory where both are known."""
        return self.id == other.id and (
            not self.directory_id or not other.directory_id or self.directory_id == other.directory_id
        )


class VoterSet(msgspec.Struct, frozen=True):
    """Ids of the voters, ascending. Directory ids are unknown, as with ``controller.quorum.voters``."""

    ids: list[int] = []

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.ids) // 2 + 1

    def is_voter(self, replica_id: int) -> bool:
        """Whether ``replica_id`` is a voter; also: whether its endpoint is known from the voter set."""
        return replica_id in self.ids

    def is_only_voter(self, replica_id: int) -> bool:
        """Whether the quorum is this one voter."""
        return self.ids == [replica_id]

    def others(self, replica_id: int) -> list[int]:
        """The voters but for ``replica_id``."""
        return [voter for voter in self.ids if voter != replica_id]
