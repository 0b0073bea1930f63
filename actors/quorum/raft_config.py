"""What a quorum member takes from its node's specification."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.node.spec import NodeSpec, node_id, node_name
from actors.quorum.voter_set import LATEST_KRAFT_VERSION, ReplicaKey, VoterNode, VoterSet

KRAFT_VERSION_FEATURE = "kraft.version"

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

    node_id: int = -1
    directory_id: str = ""
    cluster_id: str = ""
    voters: VoterSet = VoterSet()
    bootstrap: list[int] = []
    serves: bool = False
    versions: dict[str, list[int]] = {}
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    append_linger_ms: int = 25
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1024 * 1024
    snapshot_max_bytes: int = 20 * 1024 * 1024
    snapshot_interval_ms: int = 3_600_000
    clean_interval_ms: int = 60_000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 604_800_000
    pre_vote: bool = True
    leader_progress: Form = "kafka"
    check_cluster_id: bool = True
    check_epoch: bool = True
    divergence: Form = "kafka"
    own_epoch_commit: bool = True
    kraft_version: int = 0
    auto_join: bool = False
    host: str = ""

    @property
    def update_voter_period_ms(self) -> int:
        """How often a follower looks whether the voter set is right about it."""
        return 2 * self.fetch_timeout_ms

    @property
    def voter_node(self) -> VoterNode:
        """What the voter set should say of this node."""
        return VoterNode(self.directory_id, 0, LATEST_KRAFT_VERSION, self.host)

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
        named = bootstrap_servers(config.get(BOOTSTRAP_SERVERS, ""))
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
        election_timeout_ms=config.get(prefix + "election.timeout.ms", 1000),
        fetch_timeout_ms=config.get(prefix + "fetch.timeout.ms", 2000),
        election_backoff_max_ms=config.get(prefix + "election.backoff.max.ms", 1000),
        request_timeout_ms=config.get(prefix + "request.timeout.ms", 2000),
        retry_backoff_ms=config.get(prefix + "retry.backoff.ms", 20),
        append_linger_ms=config.get(prefix + "append.linger.ms", 25),
        fetch_max_bytes=config.get(prefix + "fetch.max.bytes", 1 << 20),
        fetch_snapshot_max_bytes=config.get(prefix + "fetch.snapshot.max.bytes", 1024 * 1024),
        snapshot_max_bytes=config.get("metadata.log.max.record.bytes.between.snapshots", 20 * 1024 * 1024),
        snapshot_interval_ms=config.get("metadata.log.max.snapshot.interval.ms", 3_600_000),
        clean_interval_ms=config.get("krift.metadata.clean.interval.ms", 60_000),
        retention_bytes=config.get("metadata.max.retention.bytes", 100 * 1024 * 1024),
        retention_ms=config.get("metadata.max.retention.ms", 604_800_000),
        pre_vote=features.get("kip-996", "kafka") != "off",
        leader_progress=_form(features, "leader-progress"),
        check_cluster_id=_form(features, "cluster-id") != "off",
        check_epoch=_form(features, "epoch-check") != "off",
        divergence=_form(features, "divergence"),
        own_epoch_commit=_form(features, "own-epoch-commit") != "off",
        kraft_version=kraft_version,
        host=config.get("advertised.listeners", "") or node_name(spec.node_id),
        auto_join=config.get(prefix + "auto.join.enable", False),
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
    nodes = {
        voter: VoterNode(directory, 0, LATEST_KRAFT_VERSION, node_name(voter))
        for voter, directory in cluster.directories.items()
    }
    return VoterSet(sorted(nodes), nodes)
