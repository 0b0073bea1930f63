"""Telling brokers of the cluster as before KRaft: the active controller sends UpdateMetadata to every broker
(``core/.../controller/ControllerChannelManager.scala`` of Kafka 3.x). Only with ``metadata.propagation=push``.

Each broker has a channel of its own, with one request in flight: what one broker has been told says nothing of what
another one has.

Where metadata epochs are counted (KIP-232 as it was first proposed), what is news waits until a record of the metadata
log that has the next epoch is committed. The update then tells of the cluster as it is at that record, whenever it is
sent: to a controller that takes over the epoch is a thing of the past, and nobody tells something else under it.
"""

from __future__ import annotations

import msgspec

from actors.controller.metadata_epochs import as_told, told_digest, znode
from actors.log.batch import Batch, payload
from actors.metadata.image_records import load_records
from actors.metadata.metadata_state import MetadataState
from actors.metadata.registrations import Changed, PartitionRegistration, TopicRemoval
from actors.node.component import Component
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.spec import node_name
from actors.node.step import Step
from actors.node.turn import NodeTurn
from actors.quorum.snapshots import Snapshot
from actors.trace.events import MetaMint
from krift.v1.records import MetadataRecord
from krift.v1.update_metadata import UpdateMetadataRequest
from krift.v1.wire import from_bytes

PREFIX = "push/"
"""Prefix of the purposes of calls and of timers."""
CONNECTION = "push"
RETRY_MS = 100
"""Pause after a request that failed (``RequestSendThread``)."""
TOPIC_STATES = 5
TOPIC_IDS = 7
IS_KRAFT = 8
OFFLINE_REPLICAS = 4
METADATA_EPOCH = 5
LEADER_DURING_DELETE = -2
"""Leader of a partition that is told to be deleted (``LeaderAndIsr.LEADER_DURING_DELETE``)."""


class Channel(msgspec.Struct):
    """One broker's. partitions: those to tell of, by name. brokers: whether the list of live brokers is news.
    uncounted, uncounted_brokers: likewise, what has no metadata epoch yet. sent: the partitions in flight. call: in
    flight, -1 none. resting: since the last one failed."""

    partitions: dict[str, bool] = {}
    brokers: bool = False
    uncounted: dict[str, bool] = {}
    uncounted_brokers: bool = False
    sent: list[str] = []
    call: int = -1
    resting: bool = False

    @property
    def news(self) -> bool:
        """Whether there is anything to tell."""
        return self.brokers or bool(self.partitions)


class ControllerChannels(msgspec.Struct):
    """A channel to each broker that is not fenced. committed: the metadata log so far, for what is not committed is
    not told. deleted: last states of partitions that are no more, by name. epoch: controller epoch in which it is
    active, -1 standby. counts: whether there are metadata epochs. asked_epoch: the one in the log that is not committed
    yet, -1 none. told: the cluster as the last metadata epoch of this controller has it."""

    node_id: int = -1
    epoch: int = -1
    committed: MetadataState = msgspec.field(default_factory=MetadataState)
    deleted: dict[str, PartitionRegistration] = {}
    channels: dict[int, Channel] = {}
    counts: bool = False
    asked_epoch: int = -1
    told: MetadataState = msgspec.field(default_factory=MetadataState)

    def replay(self, step: Step, batch: Batch) -> None:
        """Take a committed batch."""
        if batch.is_control:
            return
        for index, record in enumerate(batch.records):
            said = from_bytes(MetadataRecord, payload(record))
            for changed in self.committed.replay(said, batch.base_offset + index):
                self._changed(changed)
            if said.metadata_epoch is not None and said.metadata_epoch.metadata_epoch == self.asked_epoch:
                self._counted(step)

    def load(self, snapshot: Snapshot) -> None:
        """Take up what a snapshot holds; a standby does, who tells nobody anything."""
        self.committed = MetadataState()
        load_records(self.committed, snapshot.records, snapshot.end - 1)

    def activate(self, node_id: int, epoch: int, counts: bool) -> None:
        """This controller became the active one: everybody is told everything. ``counts``: with metadata epochs."""
        self.node_id, self.epoch, self.counts = node_id, epoch, counts
        self.asked_epoch = -1
        self.channels = {}
        for broker_id in self.committed.brokers:
            if self.committed.is_alive(broker_id):
                self._tell_everything(broker_id)

    def deactivate(self) -> None:
        """This controller is a standby: it tells nobody anything. What is in flight ends as nobody's."""
        self.epoch = self.asked_epoch = -1
        self.channels = {}

    def _changed(self, changed: Changed) -> None:
        if isinstance(changed, TopicRemoval):
            for partition in changed.partitions:
                self.deleted[partition.tp] = msgspec.structs.replace(partition, leader=LEADER_DURING_DELETE)
        if self.epoch < 0:
            return
        if isinstance(changed, TopicRemoval):
            for channel in self.channels.values():
                self._note(channel, {partition.tp: True for partition in changed.partitions}, brokers=False)
            return
        if isinstance(changed, PartitionRegistration):
            for channel in self.channels.values():
                self._note(channel, {changed.tp: True}, brokers=False)
            return
        # Replicas of a broker that comes or goes are on line or off line with it.
        hosted = {tp: True for tp, each in self.committed.partitions.items() if changed.id in each.replicas}
        for channel in self.channels.values():
            self._note(channel, hosted, brokers=True)
        if changed.fenced:
            self.channels.pop(changed.id, None)
        else:
            self._tell_everything(changed.id)

    def _tell_everything(self, broker_id: int) -> None:
        channel = self.channels.setdefault(broker_id, Channel())
        self._note(channel, dict.fromkeys((*self.deleted, *self.committed.partitions), True), brokers=True)

    def _note(self, channel: Channel, partitions: dict[str, bool], brokers: bool) -> None:
        if self.counts:
            channel.uncounted |= partitions
            channel.uncounted_brokers = channel.uncounted_brokers or brokers
        else:
            channel.partitions |= partitions
            channel.brokers = channel.brokers or brokers

    # ---- metadata epochs ---------------------------------------------------------------------------------

    @property
    def wants_epoch(self) -> bool:
        """Whether there is news that has no metadata epoch, and none in the log that it will have."""
        uncounted = (channel.uncounted or channel.uncounted_brokers for channel in self.channels.values())
        return self.counts and self.asked_epoch < 0 and any(uncounted)

    def _counted(self, step: Step) -> None:
        """The metadata epoch that was asked for is committed: it is that of the cluster as it is now."""
        self.told = as_told(self.committed, self.asked_epoch)
        self.asked_epoch = -1
        epoch = self.told.metadata_epoch
        step.record(MetaMint(epoch, self.epoch, told_digest(self.told), znode(epoch)))
        for channel in self.channels.values():
            channel.partitions |= channel.uncounted
            channel.brokers = channel.brokers or channel.uncounted_brokers
            channel.uncounted, channel.uncounted_brokers = {}, False

    # ---- sending -----------------------------------------------------------------------------------------

    def poll(self, turn: NodeTurn) -> None:
        """Send to every broker that has something to hear of and nothing in flight."""
        step, net = turn.step, turn.net
        for broker_id, channel in self.channels.items():
            peer = node_name(broker_id)
            if not channel.news or channel.call >= 0 or channel.resting or not net.ready(step, peer, CONNECTION):
                continue
            version = net.version(peer, CONNECTION, Api.UpdateMetadata)
            if version is not None:
                request = self._request(broker_id, list(channel.partitions), version)
                channel.sent, channel.partitions, channel.brokers = list(channel.partitions), {}, False
                channel.call = net.send(step, peer, CONNECTION, request, version, f"{PREFIX}{broker_id}")

    def on_ended(self, turn: NodeTurn, ended: Ended, broker_id: int) -> None:
        """A call is over. One that failed is made again, with what has become news meanwhile; a refusal stands: a
        former controller has nothing to say, and a former registration of a broker's is followed by its next."""
        channel = self.channels.get(broker_id)
        if channel is None or channel.call != ended.call:
            return
        channel.call = -1
        if ended.response is None:
            channel.brokers = True
            channel.partitions |= dict.fromkeys(channel.sent, True)
            channel.resting = True
            turn.step.set_timer(f"{PREFIX}{broker_id}", RETRY_MS)
        elif ended.response.error_code == KafkaError.STALE_CONTROLLER_EPOCH:
            self.deactivate()

    def on_timer(self, broker_id: int) -> None:
        """The pause after a request that failed is over."""
        channel = self.channels.get(broker_id)
        if channel is not None:
            channel.resting = False

    @property
    def _told(self) -> MetadataState:
        """What requests are made of."""
        return self.told if self.counts else self.committed

    def _request(self, broker_id: int, partitions: list[str], version: int) -> UpdateMetadataRequest:
        told = self._told
        request = UpdateMetadataRequest(controller_id=self.node_id, controller_epoch=self.epoch)
        if self.counts and version >= METADATA_EPOCH:
            request.metadata_epoch = told.metadata_epoch
        if version >= IS_KRAFT:
            request.is_kraft_controller = True
        if version >= TOPIC_STATES:
            request.broker_epoch = self.committed.brokers[broker_id].epoch
        by_topic: dict[tuple[str, str], list[PartitionRegistration]] = {}
        # What is deleted comes first, so that a new topic of the same name is not taken for it.
        found = [told.partitions.get(tp) or self.deleted[tp] for tp in partitions]
        for partition in sorted(found, key=lambda each: each.leader != LEADER_DURING_DELETE):
            by_topic.setdefault((partition.topic, partition.topic_id), []).append(partition)
        for (topic, _), states in by_topic.items():
            if version < TOPIC_STATES:
                for partition in states:
                    state = self._state(partition, version)
                    state.topic_name = topic
                    request.ungrouped_partition_states.append(state)
                continue
            topic_state = UpdateMetadataRequest.UpdateMetadataTopicState(topic_name=topic)
            request.topic_states.append(topic_state)
            if version >= TOPIC_IDS:
                topic_state.topic_id = states[0].topic_id
            topic_state.partition_states = [self._state(partition, version) for partition in states]
        for live in sorted(told.brokers):
            if told.is_alive(live):
                request.live_brokers.append(UpdateMetadataRequest.UpdateMetadataBroker(id=live))
        return request

    def _state(
        self, partition: PartitionRegistration, version: int
    ) -> UpdateMetadataRequest.UpdateMetadataPartitionState:
        state = UpdateMetadataRequest.UpdateMetadataPartitionState(
            partition_index=partition.partition,
            controller_epoch=self.epoch,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=list(partition.isr),
            zk_version=partition.partition_epoch,
            replicas=list(partition.replicas),
        )
        if version >= OFFLINE_REPLICAS:
            alive = self._told.is_alive
            state.offline_replicas = [replica for replica in partition.replicas if not alive(replica)]
        return state


COMPONENT: Component[ControllerChannels, NodeTurn] = Component(
    timers={PREFIX: lambda channels, turn, broker_id: channels.on_timer(int(broker_id))},
    answers={PREFIX: lambda channels, turn, ended, broker_id: channels.on_ended(turn, ended, int(broker_id))},
)
