"""What the controller reads of its node's specification."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.metadata.metadata_state import ELR_FEATURE
from actors.node.spec import NodeSpec, TopicSpec

UNCLEAN_ELECTION = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"


class ControllerConfig(msgspec.Struct, frozen=True):
    """Times in milliseconds; an interval of 0 means never. controllers: ids of all that the run began with. topics: of
    the scenario, to be created. unclean_election, min_isr: what holds where the metadata log says nothing else.
    elr_version: level of the feature that a new cluster begins with."""

    node_id: int = -1
    cluster_id: str = ""
    controllers: list[int] = []
    topics: list[TopicSpec] = []
    session_timeout_ms: int = 9000
    no_op_interval_ms: int = 500
    unclean_election: bool = False
    min_isr: int = 1
    elr_version: int = 0
    unclean_interval_ms: int = 300_000
    rebalance_interval_ms: int = 300_000
    pushes_metadata: bool = False

    @property
    def stale_check_ms(self) -> int:
        """Between two looks for a broker whose session is over."""
        return max(1, self.session_timeout_ms // 8)


def controller_config(spec: NodeSpec) -> ControllerConfig:
    """The controller's part of ``spec``; what it leaves out has Kafka's default."""
    config: dict[str, Any] = spec.config
    rebalance_s = config.get("leader.imbalance.check.interval.seconds", 300)
    return ControllerConfig(
        node_id=spec.node_id,
        cluster_id=spec.cluster.cluster_id,
        controllers=[*spec.cluster.voters, *spec.cluster.spare_controllers],
        topics=spec.cluster.topics,
        session_timeout_ms=config.get("broker.session.timeout.ms", 9000),
        no_op_interval_ms=config.get("metadata.max.idle.interval.ms", 500),
        unclean_election=config.get(UNCLEAN_ELECTION, False),
        min_isr=config.get(MIN_ISR, 1),
        elr_version=int(spec.features.get(ELR_FEATURE, "0")),
        unclean_interval_ms=config.get("unclean.leader.election.interval.ms", 300_000),
        pushes_metadata=config.get("metadata.propagation") == "push",
        rebalance_interval_ms=rebalance_s * 1000 if config.get("auto.leader.rebalance.enable", True) else 0,
    )
