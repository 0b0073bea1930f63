"""Trace events of the active controller: what it wrote to the metadata log."""

from __future__ import annotations

from actors.trace.event_parts import TraceEvent


class PartChange(TraceEvent, frozen=True, tag="part.change"):
    """The active controller's log got a new state of a partition, at ``offset`` of the metadata log (recorded
    when it is appended; it may still be lost with that controller).
    cause: create, elect, unclean, alter-isr, fence, unfence, controlled-shutdown, preferred, config.
    ``elr``, ``last_known_elr``: the eligible leader replicas and the last known leader (KIP-966), both empty while
    the feature is off. ``min_isr``: least ISR that the controller judges by at this offset, the topic's replication
    factor at most. ``asked``: an operator asked for it (ElectLeaders). ``members`` (alter-isr): broker id -> broker
    epoch by which the leader's request knew it, -1 where the request names none (KIP-903). ``recovering``: the leader
    was elected uncleanly, and has not said yet that it has recovered (KIP-704); None: not told. ``placed`` (create):
    the controller selected the replicas of several partitions together, and this is the one of that number, from 0 on;
    -1: they were assigned by hand, or nobody tells."""

    tp: str
    offset: int
    quorum_epoch: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: list[int]
    replicas: list[int]
    cause: str
    elr: list[int] = []
    last_known_elr: list[int] = []
    min_isr: int = 1
    asked: bool = False
    members: dict[str, int] = {}
    recovering: bool | None = None
    placed: int = -1


class PartRemove(TraceEvent, frozen=True, tag="part.remove"):
    """The active controller's log got the removal of a partition's topic, at ``offset`` of the metadata log: ``tp``
    ends here. A later topic of the same name has partitions of its own, called with its id: ``orders-0@<topic id>``."""

    tp: str
    offset: int
    quorum_epoch: int
    topic_id: str


class ConfigChange(TraceEvent, frozen=True, tag="config.change"):
    """The active controller's log got a new value of a dynamic configuration key, at ``offset`` of the metadata log.
    ``resource``: "topic/orders", "broker/1", or "broker/" for the default of all brokers. ``value``: as text, None
    if the key is no longer set. What topics start with in their scenario comes this way too."""

    offset: int
    quorum_epoch: int
    resource: str
    key: str
    value: str | None


class BrokerReg(TraceEvent, frozen=True, tag="broker.reg"):
    """The active controller's view of a broker's registration changed, at ``offset`` of the metadata log."""

    broker: int
    broker_epoch: int
    incarnation: str
    fenced: bool
    shutting_down: bool
    unclean: bool
    offset: int


class MetaMint(TraceEvent, frozen=True, tag="meta.mint"):
    """The active controller gave its next update of the brokers a new metadata epoch (KIP-232, seed).
    ``controller_epoch``: the quorum epoch in which it leads; ``digest``: hash over what the update tells; ``znode``:
    what /metadata_epoch would hold, as JSON."""

    epoch: int
    controller_epoch: int
    digest: int | None = None
    znode: str = ""


ControllerEvent = PartChange | ConfigChange | BrokerReg | MetaMint | PartRemove
