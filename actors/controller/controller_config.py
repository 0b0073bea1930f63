"""What the controller reads of its node's specification."""

from __future__ import annotations

import msgspec

from actors.config import INTER_BROKER_PROTOCOL, METADATA_EPOCH_PROTOCOL, setting
from actors.features import ELR_CLEARED, KIP_232
from actors.metadata.metadata_state import ELR_FEATURE, TRANSACTION_FEATURE
from actors.node.spec import ClusterSpec, NodeSpec

UNCLEAN_ELECTION = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"


class ControllerConfig(msgspec.Struct, frozen=True):
    """Times in milliseconds; an interval of 0 means never. controllers: ids of all that the run began with. cluster:
    what the scenario says, with the topics to be created. unclean_election, min_isr: what holds where the metadata log
    says nothing else. num_partitions, replication_factor: of a topic that is created without saying. topic_deletion:
    whether topics may be deleted. elr_version, transaction_version: levels of the features that a new cluster begins
    with. elr_cleared: as the switch of that mend. counts_metadata_epochs: each push has the next one."""

    node_id: int
    cluster_id: str
    controllers: list[int]
    cluster: ClusterSpec
    session_timeout_ms: int
    no_op_interval_ms: int
    unclean_election: bool
    min_isr: int
    num_partitions: int
    replication_factor: int
    topic_deletion: bool
    elr_version: int
    transaction_version: int
    elr_cleared: str
    unclean_interval_ms: int
    rebalance_interval_ms: int
    pushes_metadata: bool
    counts_metadata_epochs: bool

    @property
    def stale_check_ms(self) -> int:
        """Between two looks for a broker whose session is over."""
        return max(1, self.session_timeout_ms // 8)


def controller_config(spec: NodeSpec) -> ControllerConfig:
    """The controller's part of ``spec``; what it leaves out has Kafka's default."""
    config = spec.config
    rebalance_s = setting(config, "leader.imbalance.check.interval.seconds")
    return ControllerConfig(
        node_id=spec.node_id,
        cluster_id=spec.cluster.cluster_id,
        controllers=[*spec.cluster.voters, *spec.cluster.spare_controllers],
        cluster=spec.cluster,
        session_timeout_ms=setting(config, "broker.session.timeout.ms"),
        no_op_interval_ms=setting(config, "metadata.max.idle.interval.ms"),
        unclean_election=setting(config, UNCLEAN_ELECTION),
        min_isr=setting(config, MIN_ISR),
        num_partitions=setting(config, "num.partitions"),
        replication_factor=setting(config, "default.replication.factor"),
        topic_deletion=setting(config, "delete.topic.enable"),
        elr_version=int(spec.features.get(ELR_FEATURE, "0")),
        transaction_version=int(spec.features.get(TRANSACTION_FEATURE, "0")),
        elr_cleared=spec.features.get(ELR_CLEARED, "kafka"),
        unclean_interval_ms=setting(config, "unclean.leader.election.interval.ms"),
        pushes_metadata=setting(config, "metadata.propagation") == "push",
        counts_metadata_epochs=spec.features.get(KIP_232) == "seed"
        and setting(config, INTER_BROKER_PROTOCOL) == METADATA_EPOCH_PROTOCOL,
        rebalance_interval_ms=rebalance_s * 1000 if setting(config, "auto.leader.rebalance.enable") else 0,
    )


UNCONFIGURED = controller_config(NodeSpec("", "controller", -1, "", ClusterSpec("", [], [])))
"""What a controller has before it is started."""
