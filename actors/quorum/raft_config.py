"""What a quorum member takes from its node's specification."""

from __future__ import annotations

import msgspec

from actors.node.spec import NodeSpec
from actors.quorum.voter_set import VoterSet

FETCH_MAX_WAIT_MS = 500
"""Longest parking of a Fetch between quorum members; no configuration key (``KafkaRaftClient.java``)."""

FETCH_MAX_BYTES = 8 * 1024 * 1024
"""Most bytes of one answer to such a Fetch."""


class RaftConfig(msgspec.Struct, frozen=True):
    """Identity, times in milliseconds, and switches.

    serves: this node answers quorum RPCs (controllers do, brokers do not). versions: API name -> [low, high].
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
    pre_vote: bool = True
    check_quorum: bool = True
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
        pre_vote=features.get("kip-996", "kafka") != "off",
        check_quorum=features.get("kip-595.leader-progress", "kafka") != "off",
        own_epoch_commit=features.get("kip-595.own-epoch-commit", "kafka") != "off",
    )
