"""What a quorum member takes from its node's specification."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.node.spec import NodeSpec
from actors.quorum.voter_set import VoterSet

Form = Literal["off", "seed", "kafka"]
"""Of a protection: none, as KIP-595 was first proposed, as Kafka has it."""

FETCH_MAX_WAIT_MS = 500
"""Longest parking of a Fetch between quorum members; no configuration key (``KafkaRaftClient.java``)."""


class RaftConfig(msgspec.Struct, frozen=True):
    """Identity, times in milliseconds, and switches.

    serves: this node answers quorum RPCs (controllers do, brokers do not). versions: API name -> [low, high].
    snapshot_max_bytes, snapshot_interval_ms: what must have been applied, and how long ago the last one was made, for
    a snapshot (0 ms: only by bytes). retention: what snapshots and log may take, and how old the oldest may be; -1: no
    limit.
    """

    node_id: int = -1
    directory_id: str = ""
    cluster_id: str = ""
    voters: VoterSet = VoterSet()
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

    @property
    def is_voter(self) -> bool:
        """Whether this node is one of the voters."""
        return self.voters.is_voter(self.node_id)


def raft_config(spec: NodeSpec) -> RaftConfig:
    """The quorum's part of ``spec``; what it leaves out has Kafka's default."""
    config, features = spec.config, spec.features
    prefix = "controller.quorum."
    return RaftConfig(
        node_id=spec.node_id,
        directory_id=spec.directory_id,
        cluster_id=spec.cluster.cluster_id,
        voters=VoterSet(sorted(spec.cluster.voters)),
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
    )


def _form(features: dict[str, str], name: str) -> Form:
    value: Form = msgspec.convert(features.get(f"kip-595.{name}", "kafka"), Form)
    return value
