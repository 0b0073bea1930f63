"""The voters of the metadata quorum (``VoterSet.java``, KIP-853)."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from krift.v1.common import NodeEndpoint
from krift.v1.records import VotersRecord

LATEST_KRAFT_VERSION = 1
"""Highest level of the feature kraft.version: 1 has the voters in the log."""


class ReplicaKey(msgspec.Struct, frozen=True, array_like=True):
    """A replica's id and the id of its metadata log's directory; "" where the directory is not known."""

    id: int
    directory_id: str = ""

    def matches(self, other: ReplicaKey) -> bool:
        """Same id, and the same directory where both are known."""
        return self.id == other.id and (
            not self.directory_id or not other.directory_id or self.directory_id == other.directory_id
        )

    def __str__(self) -> str:
        return f"{self.id}/{self.directory_id}"


class VoterNode(msgspec.Struct, frozen=True, array_like=True):
    """What the voter set says of one voter: its directory ("" unknown, as with ``controller.quorum.voters``), the range
    of kraft.version that it supports, and where it listens."""

    directory_id: str = ""
    min_kraft_version: int = 0
    max_kraft_version: int = 0
    host: str = ""


def voter_node(directory_id: str, host: str) -> VoterNode:
    """What the voter set says of a voter here: all of them support every level of kraft.version."""
    return VoterNode(directory_id, 0, LATEST_KRAFT_VERSION, host)


_UNKNOWN = VoterNode()


class VoterSet(msgspec.Struct, frozen=True):
    """Ids of the voters, ascending; ``nodes``: by id, what more is known of them."""

    ids: list[int] = []
    nodes: dict[int, VoterNode] = {}

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.ids) // 2 + 1

    @property
    def members(self) -> dict[str, str]:
        """Voter id -> directory id, as the trace has it."""
        return {str(voter): self.node(voter).directory_id for voter in self.ids}

    def node(self, voter: int) -> VoterNode:
        """What is known of a voter."""
        return self.nodes.get(voter, _UNKNOWN)

    def key(self, voter: int) -> ReplicaKey:
        """Id and directory of a voter."""
        return ReplicaKey(voter, self.node(voter).directory_id)

    def is_voter(self, replica_id: int) -> bool:
        """Whether ``replica_id`` is a voter's; also: whether its endpoint is known from the voter set."""
        return replica_id in self.ids

    def has(self, key: ReplicaKey) -> bool:
        """Whether this replica is a voter: where the set has the voter's directory, another directory of the same id is
        none (``VoterNode.isVoter``)."""
        if key.id not in self.ids:
            return False
        directory_id = self.node(key.id).directory_id
        return not directory_id or directory_id == key.directory_id

    def is_only_voter(self, key: ReplicaKey) -> bool:
        """Whether the quorum is this one voter."""
        return len(self.ids) == 1 and self.has(key)

    def others(self, replica_id: int) -> list[int]:
        """The voters but for ``replica_id``."""
        return [voter for voter in self.ids if voter != replica_id]

    def endpoint(self, replica_id: int) -> NodeEndpoint:
        """Where a replica listens, as the voter set has it."""
        return endpoint(replica_id, self.node(replica_id).host)

    # ---- other sets ----------------------------------------------------------------------------------------

    def add_voter(self, voter: int, node: VoterNode) -> VoterSet | None:
        """The set with one more voter; None if the id is in it already."""
        return None if voter in self.ids else self._with(voter, node)

    def remove_voter(self, key: ReplicaKey) -> VoterSet | None:
        """The set without a voter; None if it is not there with this directory, or is the last one."""
        if not self.is_voter(key.id) or self.key(key.id) != key or len(self.ids) == 1:
            return None
        left = self.others(key.id)
        return VoterSet(left, {voter: self.node(voter) for voter in left})

    def update_voter(self, voter: int, node: VoterNode) -> VoterSet | None:
        """The set with something else known of a voter; None if it is not there with this directory."""
        return self._with(voter, node) if self.has(ReplicaKey(voter, node.directory_id)) else None

    def _with(self, voter: int, node: VoterNode) -> VoterSet:
        ids = sorted({*self.ids, voter})
        return VoterSet(ids, {each: node if each == voter else self.node(each) for each in ids})

    def has_overlapping_majority(self, other: VoterSet) -> bool:
        """Whether every majority of this set shares a voter with every one of the other: no more than one voter came
        and no more than one went."""
        mine = {self.key(voter) for voter in self.ids}
        others = {other.key(voter) for voter in other.ids}
        return len(mine - others) <= 1 and len(others - mine) <= 1

    # ---- in the log ----------------------------------------------------------------------------------------

    def to_record(self) -> VotersRecord:
        """The control record that has this set."""
        record = VotersRecord()
        for voter in self.ids:
            node = self.node(voter)
            supported = VotersRecord.KRaftVersionFeature(
                min_supported_version=node.min_kraft_version, max_supported_version=node.max_kraft_version
            )
            entry = VotersRecord.Voter(
                voter_id=voter,
                voter_directory_id=node.directory_id,
                endpoints=[self.endpoint(voter)],
                k_raft_version_feature=supported,
            )
            record.voters.append(entry)
        return record


def voters_of_record(record: VotersRecord) -> VoterSet:
    """The set that a control record has."""
    nodes = {}
    for voter in record.voters:
        supported = voter.k_raft_version_feature or VotersRecord.KRaftVersionFeature()
        levels = (supported.min_supported_version, supported.max_supported_version)
        nodes[voter.voter_id] = VoterNode(voter.voter_directory_id, *levels, voter.endpoints[0].host)
    return VoterSet(sorted(nodes), nodes)


def endpoint(node_id: int, host: str = "") -> NodeEndpoint:
    """Where a node listens: "" on a host of its own name. The networks here find a node by its id, whatever the
    host."""
    return NodeEndpoint(node_id=node_id, host=host or node_name(node_id))
