"""What a quorum member takes from its node's specification."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.config import setting
from actors.features import REMOVED_LEADER_DEADLOCK, REMOVED_LEADER_ZOMBIE
from actors.node.messages import Api
from actors.node.spec import ClusterSpec, NodeSpec, node_id, node_name
from actors.quorum.voter_set import ReplicaKey, VoterNode, VoterSet, voter_node

KRAFT_VERSION_FEATURE = "kraft.version"

DIVERGENCE_FEATURE = "kip-595.divergence"

DIRECTORY_VERSIONS: dict[Api, int] = {Api.Vote: 1, Api.Fetch: 17}
"""The first versions in which members tell their directories, by which voters are known at kraft.version 1."""

Form = Literal["off", "seed", "kafka"]
"""Of a protection: none, as KIP-595 was first proposed, as Kafka has it."""

BOOTSTRAP_SERVERS = "controller.quorum.bootstrap.servers"

FETCH_MAX_WAIT_MS = 500
"""Longest parking of a Fetch between quorum members; no configuration key (``KafkaRaftClient.java``)."""


class RaftConfig(msgspec.Struct, frozen=True):
    """Identity, times in milliseconds, and switches.

    serves: this node answers quorum RPCs (controllers do, brokers do not). versions: API name -> [low, high].
    voters: ``controller.quorum.voters``, or at kraft.version 1 those that the directory was formatted with (none in a
    broker and in a controller that is to join). bootstrap: whom to ask where no leader is known
    (``controller.quorum.bootstrap.servers``; with static voters these). host: where this node listens.
    snapshot_max_bytes, snapshot_interval_ms: what must have been applied, and how long ago the last one was made, for
    a snapshot (0 ms: only by bytes). retention: what snapshots and log may take, and how old the oldest may be; -1: no
    limit.
    """

    node_id: int
    directory_id: str
    cluster_id: str
    voters: VoterSet
    bootstrap: list[int]
    serves: bool
    versions: dict[str, list[int]]
    election_timeout_ms: int
    fetch_timeout_ms: int
    election_backoff_max_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    append_linger_ms: int
    fetch_max_bytes: int
    fetch_snapshot_max_bytes: int
    snapshot_max_bytes: int
    snapshot_interval_ms: int
    clean_interval_ms: int
    retention_bytes: int
    retention_ms: int
    pre_vote: bool
    leader_progress: Form
    check_cluster_id: bool
    check_epoch: bool
    divergence: Form
    own_epoch_commit: bool
    removed_stands: bool
    removed_resigns: bool
    kraft_version: int
    auto_join: bool
    host: str

    @property
    def update_voter_period_ms(self) -> int:
        """How often a follower looks whether the voter set is right about it (Kafka's ``FollowerState``)."""
        return self.fetch_timeout_ms

    @property
    def voter_node(self) -> VoterNode:
        """What the voter set should say of this node."""
        return voter_node(self.directory_id, self.host)

    @property
    def key(self) -> ReplicaKey:
        """This replica's id and directory."""
        return ReplicaKey(self.node_id, self.directory_id)


def raft_config(spec: NodeSpec) -> RaftConfig:
    """The quorum's part of ``spec``; what it leaves out has Kafka's default."""
    config, features, cluster = spec.config, spec.features, spec.cluster
    prefix = "controller.quorum."
    kraft_version = int(features.get(KRAFT_VERSION_FEATURE, "0"))
    voters = VoterSet(sorted(cluster.voters))
    bootstrap = voters.ids
    if kraft_version > 0:
        bootstrap = sorted({*cluster.voters, *cluster.spare_controllers})
        named = bootstrap_servers(setting(config, BOOTSTRAP_SERVERS))
        if named:
            bootstrap = [node_id(name) for name in named]
        voters = _formatted_voters(spec)
    return RaftConfig(
        node_id=spec.node_id,
        directory_id=spec.directory_id,
        cluster_id=cluster.cluster_id,
        voters=voters,
        bootstrap=bootstrap,
        serves=spec.role == "controller",
        versions=spec.versions,
        election_timeout_ms=setting(config, prefix + "election.timeout.ms"),
        fetch_timeout_ms=setting(config, prefix + "fetch.timeout.ms"),
        election_backoff_max_ms=setting(config, prefix + "election.backoff.max.ms"),
        request_timeout_ms=setting(config, prefix + "request.timeout.ms"),
        retry_backoff_ms=setting(config, prefix + "retry.backoff.ms"),
        append_linger_ms=setting(config, prefix + "append.linger.ms"),
        fetch_max_bytes=setting(config, prefix + "fetch.max.bytes"),
        fetch_snapshot_max_bytes=setting(config, prefix + "fetch.snapshot.max.bytes"),
        snapshot_max_bytes=setting(config, "metadata.log.max.record.bytes.between.snapshots"),
        snapshot_interval_ms=setting(config, "metadata.log.max.snapshot.interval.ms"),
        clean_interval_ms=setting(config, "krift.metadata.clean.interval.ms"),
        retention_bytes=setting(config, "metadata.max.retention.bytes"),
        retention_ms=setting(config, "metadata.max.retention.ms"),
        pre_vote=features.get("kip-996", "kafka") != "off",
        leader_progress=_form(features, "leader-progress"),
        check_cluster_id=_form(features, "cluster-id") != "off",
        check_epoch=_form(features, "epoch-check") != "off",
        divergence=_form(features, "divergence"),
        own_epoch_commit=_form(features, "own-epoch-commit") != "off",
        removed_stands=features.get(REMOVED_LEADER_DEADLOCK) == "stand",
        removed_resigns=features.get(REMOVED_LEADER_ZOMBIE) == "resign",
        kraft_version=kraft_version,
        host=setting(config, "advertised.listeners") or node_name(spec.node_id),
        auto_join=setting(config, prefix + "auto.join.enable"),
    )


def bootstrap_servers(text: str) -> list[str]:
    """The names in a value of ``controller.quorum.bootstrap.servers``; blanks and empty parts are none."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _form(features: dict[str, str], name: str) -> Form:
    value: Form = msgspec.convert(features.get(f"kip-595.{name}", "kafka"), Form)
    return value


def _formatted_voters(spec: NodeSpec) -> VoterSet:
    """What this node's directory was formatted with: all initial voters and their directories in an initial voter
    (``kafka-storage.sh format --initial-controllers``), nothing in other nodes and in a directory that took the place
    of one that was wiped."""
    cluster = spec.cluster
    if spec.node_id not in cluster.voters or cluster.directories.get(spec.node_id) != spec.directory_id:
        return VoterSet()
    nodes = {voter: voter_node(directory, node_name(voter)) for voter, directory in cluster.directories.items()}
    return VoterSet(sorted(nodes), nodes)


UNCONFIGURED = raft_config(NodeSpec("", "broker", -1, "", ClusterSpec("", [], [])))
"""What a member has before it is started."""
