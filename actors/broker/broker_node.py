"""A broker: an observer of the metadata quorum, the replicas it hosts, and the requests it serves
(``core/.../server/{BrokerServer,KafkaApis}.scala``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from actors.broker import (
    alter_partition,
    forwarding,
    lifecycle,
    log_manager,
    producer_ids,
    replica_fetcher,
    replica_manager,
    request_channel,
    transaction_verification,
)
from actors.broker.clean_shutdown import CleanShutdown
from actors.broker.configuration import incremental_alter_configs
from actors.broker.coordinator_common.find_coordinator import find_coordinator
from actors.broker.delayed_remote_fetch import DelayedRemoteFetch
from actors.broker.delayed_remote_list_offsets import DelayedRemoteListOffsets, HeldListOffsets
from actors.broker.delete_records import DelayedDeleteRecords, delete_records
from actors.broker.describe_producers import describe_producers
from actors.broker.fetch import DelayedFetch
from actors.broker.fetch_session import FetchSessionCache
from actors.broker.forwarding import ForwardedRequest, ForwardingManager, OwnRequest
from actors.broker.group_coordinator import coordinator as group_coordinator, loading as group_loading
from actors.broker.group_coordinator.answers import DelayedRebalance
from actors.broker.group_coordinator.coordinator import GroupCoordinator
from actors.broker.group_coordinator.join_group import join_group
from actors.broker.group_coordinator.listing import describe_groups, list_groups
from actors.broker.group_coordinator.membership import heartbeat, leave_group
from actors.broker.group_coordinator.offset_commit import offset_commit
from actors.broker.group_coordinator.offset_fetch import DelayedOffsetFetch, offset_fetch
from actors.broker.group_coordinator.storing import DelayedAssignment, DelayedStaticMember
from actors.broker.group_coordinator.sync_group import sync_group
from actors.broker.group_coordinator.txn_offset_commit import DelayedTxnOffsetCommit, txn_offset_commit
from actors.broker.group_coordinator.writes import DelayedAnswer
from actors.broker.lifecycle import BrokerLifecycle
from actors.broker.list_offsets import list_offsets
from actors.broker.log_manager import LogManager
from actors.broker.metadata import metadata
from actors.broker.metadata_image import MetadataImage
from actors.broker.offset_for_leader_epoch import offset_for_leader_epoch
from actors.broker.produce import DelayedProduce
from actors.broker.producer_ids import ProducerIdManager
from actors.broker.remote_log import readers, remote_log_manager, remote_log_metadata
from actors.broker.remote_log.readers import RemoteLogReaders
from actors.broker.remote_log.remote_log_manager import RemoteLogManager
from actors.broker.replica_manager import ReplicaManager
from actors.broker.request_channel import RequestChannel, TakenRequest
from actors.broker.transaction_coordinator import coordinator as transaction_coordinator, loading as transaction_loading
from actors.broker.transaction_coordinator.add_partitions import (
    DelayedAdd,
    DelayedAddOffsets,
    add_offsets_to_txn,
    add_partitions_to_txn,
)
from actors.broker.transaction_coordinator.coordinator import TransactionCoordinator
from actors.broker.transaction_coordinator.end_txn import DelayedEnd, end_txn
from actors.broker.transaction_coordinator.init_producer_id import DelayedInit, init_producer_id
from actors.broker.transaction_coordinator.listing import describe_transactions, list_transactions
from actors.broker.transaction_coordinator.markers import DelayedCompletion
from actors.broker.transaction_coordinator.timeouts import DelayedRemoval
from actors.broker.transaction_verification import AddPartitionsToTxnManager
from actors.broker.transactional_produce import DelayedTransactionalProduce
from actors.broker.turn import Settings, Turn, settings_of
from actors.broker.update_metadata import PushedMetadata
from actors.broker.write_txn_markers import DelayedMarkers, write_txn_markers
from actors.metadata.image_records import records_of
from actors.metadata.metadata_state import MetadataState
from actors.metadata.state_hash import state_hash
from actors.node import network_client, purgatory
from actors.node.api_versions import api_versions_response, speaks
from actors.node.component import Component, Components
from actors.node.effects import AnyEffect
from actors.node.events import (
    Answered,
    AnyEvent,
    Chosen,
    ClockStepped,
    Disconnected,
    DiskImage,
    Failed,
    Invoked,
    Received,
    Started,
    Synced,
    TimedOut,
)
from actors.node.fault import FatalFault
from actors.node.files import Files
from actors.node.messages import AnyRequest, Api, api_of
from actors.node.network_client import Ended, NetworkClient
from actors.node.purgatory import Purgatory
from actors.node.spec import ClusterSpec, NodeSpec
from actors.node.step import Step
from actors.quorum import raft_client
from actors.quorum.raft_client import RaftClient
from actors.trace.events import MetaState
from actors.versions import BROKER_APIS, PUSHED_BROKER_APIS
from krift.v1.api_versions import ApiVersionsRequest
from krift.v1.records import MetadataRecord
from krift.v1.wire import from_bytes

IO_THREADS = "num.io.threads"

AnyOperation = (
    DelayedProduce
    | DelayedFetch
    | DelayedRemoteFetch
    | DelayedDeleteRecords
    | ForwardedRequest
    | OwnRequest
    | DelayedRebalance
    | DelayedAnswer
    | DelayedAssignment
    | DelayedStaticMember
    | DelayedOffsetFetch
    | DelayedInit
    | DelayedAdd
    | DelayedAddOffsets
    | DelayedEnd
    | DelayedCompletion
    | DelayedRemoval
    | DelayedMarkers
    | DelayedTransactionalProduce
    | DelayedTxnOffsetCommit
    | DelayedRemoteListOffsets
    | HeldListOffsets
)
"""What may wait at a broker."""

RAISE_AT = 100
"""The defect raise strikes at this request."""


class BrokerNode(msgspec.Struct):
    """All of a broker's state. ``requests``: how many were handled. ``published``: whether the replicas follow the
    image yet, which they do once the broker has caught up with its own registration."""

    spec: NodeSpec = NodeSpec("", "broker", -1, "", ClusterSpec("", [], []))
    settings: Settings = Settings()
    files: Files = msgspec.field(default_factory=Files)
    net: NetworkClient = msgspec.field(default_factory=lambda: NetworkClient("", {}, 0, 0, 0))
    raft: RaftClient = msgspec.field(default_factory=RaftClient)
    channel: RequestChannel = msgspec.field(default_factory=RequestChannel)
    image: MetadataImage = msgspec.field(default_factory=MetadataImage)
    pushed: PushedMetadata = msgspec.field(default_factory=PushedMetadata)
    lifecycle: BrokerLifecycle = msgspec.field(default_factory=BrokerLifecycle)
    clean_shutdown: CleanShutdown = msgspec.field(default_factory=CleanShutdown)
    purgatory: Purgatory[AnyOperation] = msgspec.field(default_factory=Purgatory)
    logs: LogManager = msgspec.field(default_factory=LogManager)
    replicas: ReplicaManager = msgspec.field(default_factory=ReplicaManager)
    producer_ids: ProducerIdManager = msgspec.field(default_factory=ProducerIdManager)
    forwarding: ForwardingManager = msgspec.field(default_factory=ForwardingManager)
    groups: GroupCoordinator = msgspec.field(default_factory=GroupCoordinator)
    transactions: TransactionCoordinator = msgspec.field(default_factory=TransactionCoordinator)
    verification: AddPartitionsToTxnManager = msgspec.field(default_factory=AddPartitionsToTxnManager)
    remote_log: RemoteLogManager = msgspec.field(default_factory=RemoteLogManager)
    readers: RemoteLogReaders = msgspec.field(default_factory=RemoteLogReaders)
    wall_offset_ms: int = 0
    requests: int = 0
    published: bool = False

    def step(self, now_ms: int, event: AnyEvent) -> list[AnyEffect]:
        """See ``actors.node.contract.Node``."""
        if isinstance(event, ClockStepped):
            self.wall_offset_ms = event.offset_ms
        step = Step(now_ms, self.spec.defects, self.wall_offset_ms)
        if not self.lifecycle.is_shutting_down:
            try:
                if isinstance(event, Started):
                    self._start(step, event)
                else:
                    self._go_on(Turn(step, self), event)
            except FatalFault as fault:
                step.exit(clean=False, detail=str(fault), fatal=True)
        elif isinstance(event, Synced):
            if self.clean_shutdown.on_synced(step, self.files, event, self.lifecycle.broker_epoch):
                step.exit(clean=True)
        return step.effects

    def _go_on(self, turn: Turn, event: AnyEvent) -> None:
        self._take(turn, event)
        self._serve_queued(turn)
        if self.lifecycle.is_shutting_down:
            self._shut_down(turn)
            return
        self._poll(turn, everything=type(event) not in (Received, Disconnected))
        if self._serve_queued(turn):
            self._poll(turn, everything=False)

    # ---- inputs ------------------------------------------------------------------------------------------

    def _start(self, step: Step, event: Started) -> None:
        self._configure(step, event.spec)
        turn = Turn(step, self)
        self.raft.start(turn, event.spec, event.disk)
        previous_broker_epoch = self.clean_shutdown.read(event.disk)
        life = f"{event.spec.name}/{event.incarnation}"
        self.lifecycle.start(turn, life, previous_broker_epoch)
        self._load(turn, life, event.disk)
        self._poll(turn, everything=True)

    def _configure(self, step: Step, spec: NodeSpec) -> None:
        config: dict[str, Any] = spec.config
        step.defects = spec.defects
        self.spec = spec
        self.settings = settings_of(spec)
        self.net = NetworkClient(
            spec.name,
            {api: list(bounds) for api, bounds in spec.versions.items()},
            config["reconnect.backoff.ms"],
            config["reconnect.backoff.max.ms"],
            config["request.timeout.ms"],
        )
        self.channel = RequestChannel(config[IO_THREADS], config["krift.request.service.us"], spec.cluster.remote_store)
        self.readers.start(self.settings.kip_1075, self.settings.readers)

    def _load(self, turn: Turn, life: str, disk: DiskImage) -> None:
        """``life``: names the incarnation among all."""
        self.groups.start(life)
        self.transactions.start(life)
        self.remote_log.start(life)
        logs = self.logs.load(turn, disk, clean=self.clean_shutdown.found)
        self.replicas.load(turn, disk, logs)
        self.replicas.sessions = FetchSessionCache(self.settings.fetch_session_cache_slots, life)

    def _take(self, turn: Turn, event: AnyEvent) -> None:
        match event:
            case Received():
                self._receive(turn, event)
            case Answered():
                COMPONENTS.on_ended(self, turn, self.net.on_answered(turn.step, event))
            case Failed():
                COMPONENTS.on_ended(self, turn, self.net.on_failed(turn.step, event))
            case TimedOut():
                COMPONENTS.on_timer(self, turn, event.timer)
            case Disconnected():
                self.purgatory.disconnected(event.connection)
            case Synced():
                self.raft.on_synced(turn, event)
            case Chosen():
                COMPONENTS.on_chosen(self, turn, event)
            case Invoked():
                self._invoked(turn, event)
            case ClockStepped():
                pass  # noted before the step began; timers and time-outs are the runtime's
            case Started():
                raise AssertionError("a node starts once")

    def _receive(self, turn: Turn, event: Received) -> None:
        if not self.published:
            # The port is not open before the broker has caught up: the peer's connection is refused.
            turn.step.close(event.connection)
        elif (taken := self.channel.offer(turn.step, event.connection, event.request)) is not None:
            self._serve(turn, taken)

    def on_service_over(self, turn: Turn) -> None:
        """Request handlers are done with what they were at."""
        for done in self.channel.on_timer(turn.step):
            self._serve(turn, done)

    def _serve_queued(self, turn: Turn) -> bool:
        """Handle what waited for a handler, as long as one is free; whether there was anything."""
        served = False
        while (taken := self.channel.take_queued(turn.step)) is not None:
            served = True
            self._serve(turn, taken)
        return served

    # ---- requests ----------------------------------------------------------------------------------------

    def _serve(self, turn: Turn, taken: TakenRequest) -> None:
        """Handle a request; one that is not held by then leaves its handler."""
        turn.serving = taken
        self._handle(turn, taken.connection, taken.request)
        turn.serving = None
        if taken.connection not in self.channel.held:
            parked = isinstance(self.purgatory.parked.get(taken.connection), DelayedRemoteListOffsets)
            self.channel.tell(turn.step, taken, "parked" if parked else "at-once")

    def _handle(self, turn: Turn, connection: str, request: AnyRequest) -> None:
        self.requests += 1
        if "raise" in turn.step.defects and self.requests == RAISE_AT:
            raise RuntimeError("the defect raise")
        api = api_of(request)
        if api not in self._apis or (api != Api.ApiVersions and not speaks(self.spec.versions, request)):
            # Kafka's listener closes the connection on which an API or version arrives that it does not serve.
            turn.step.close(connection)
            return
        HANDLERS[api](self, turn, connection, request)

    def _api_versions(self, turn: Turn, connection: str, request: ApiVersionsRequest) -> None:
        image = self.image
        answer = api_versions_response(self.spec, self._apis, request, image.features, image.offset - 1)
        turn.step.reply(connection, answer)

    @property
    def _is_pushed(self) -> bool:
        return self.settings.metadata_propagation == "push"

    @property
    def _apis(self) -> tuple[Api, ...]:
        return PUSHED_BROKER_APIS if self._is_pushed else BROKER_APIS

    @property
    def _cache(self) -> MetadataState:
        """What clients are told from."""
        return self.pushed.cache if self._is_pushed else self.image

    # ---- controller and metadata -------------------------------------------------------------------------

    def on_controller(self, turn: Turn, ended: Ended) -> None:
        """The controller has answered a registration or a heartbeat, or has not."""
        self.lifecycle.on_ended(turn, ended)
        turn.broker_epoch = self.lifecycle.broker_epoch
        if self.lifecycle.is_caught_up and not self.published:
            self._take_up(turn)
            self.lifecycle.set_ready_to_unfence(turn)

    def _take_up(self, turn: Turn) -> None:
        """The image has this broker's registration: its replicas are taken up, and its port opens."""
        self.published = True
        self.clean_shutdown.remove(turn)
        self.replicas.remove_strays(turn)
        self._publish(turn)

    def _publish(self, turn: Turn) -> None:
        removed = self.image.take_removed()
        group_loading.on_partitions_deleted(turn, removed)
        transaction_loading.on_partitions_deleted(turn, list(removed))
        self.replicas.remove(turn, list(removed))
        self.replicas.apply(turn, self.image.take_changes())
        if self.image.take_reconfigured():
            if "limits-not-taken-up" not in turn.step.defects:
                self.replicas.reconfigure(turn)
            threads: int = self.image.config(self.settings.node_id, "", IO_THREADS, self.spec.config[IO_THREADS])
            self.channel.resize(turn.step, threads)
            self.readers.reconfigure(turn)

    def _poll(self, turn: Turn, everything: bool) -> None:
        """Let every component go on with what it could not do before. Requests of others change nothing that the
        quorum, the lifecycle or the fetchers wait for."""
        if everything:
            self._poll_quorum(turn)
            self.replicas.fetchers.poll(turn)
            self.remote_log.poll(turn, self.forwarding)
            self.readers.poll(turn)
        self.replicas.isr_changes.poll(turn)
        self.transactions.markers.poll(turn)
        self.verification.poll(turn)
        self.producer_ids.poll(turn)
        self.forwarding.poll(turn)

    def _poll_quorum(self, turn: Turn) -> None:
        self.raft.poll(turn)
        self.raft.take_leader_changes()
        self._follow_metadata(turn)
        self.lifecycle.poll(turn)

    def _follow_metadata(self, turn: Turn) -> None:
        snapshot = self.raft.take_snapshot(turn)
        if snapshot is not None:
            self.image.load(turn.step, snapshot)
        commits = self.raft.take_commits(turn)
        if "image-stops-when-fenced" in turn.step.defects and self.lifecycle.state == "running":
            commits = commits if self.image.is_alive(self.settings.node_id) else []
        if commits:
            self.image.apply(turn.step, commits)
        if self.published and (commits or snapshot is not None):
            self._publish(turn)
        if commits and self.raft.is_snapshot_due(turn):
            image = self.image
            turn.step.record(MetaState("snapshot", image.offset, image.digest, state_hash(image)))
            records = records_of(image, turn.step.defects)
            if "snapshot-without-configs" in turn.step.defects:
                records = [each for each in records if from_bytes(MetadataRecord, each).config is None]
            self.raft.create_snapshot(turn, records, image.digest)

    # ---- operations --------------------------------------------------------------------------------------

    def _invoked(self, turn: Turn, event: Invoked) -> None:
        if event.kind != "shutdown":
            turn.step.complete(event.operation, {"error": f"a broker knows no operation {event.kind}"})
            return
        turn.step.complete(event.operation, {})
        self.replicas.in_controlled_shutdown = turn.settings.controlled_shutdown
        self.lifecycle.begin_shutdown(turn)

    def _shut_down(self, turn: Turn) -> None:
        """The end, whether the controller agreed or not: nothing follows but what the next start needs."""
        if not self.published:
            # No replica was taken up, so what the last incarnation left is as it was.
            turn.step.exit(
                clean=self.clean_shutdown.found and not self.lifecycle.failure, detail=self.lifecycle.failure
            )
            return
        if "watermarks-lost-at-shutdown" not in turn.step.defects:
            self.replicas.checkpoint(turn)
        self.logs.checkpoint(turn)
        logs = [file for partition in self.replicas.partitions.values() for file in partition.log.files]
        checkpoints = [replica_manager.CHECKPOINT_FILE]
        if self.logs.checkpointed:
            checkpoints.append(log_manager.START_CHECKPOINT_FILE)
        self.clean_shutdown.begin(turn, [*logs, *checkpoints])


HANDLERS: dict[Api, Callable[[BrokerNode, Turn, str, Any], None]] = {
    Api.Produce: lambda node, turn, *asked: node.replicas.produce(turn, *asked),
    Api.Fetch: lambda node, turn, *asked: node.replicas.fetch(turn, *asked),
    Api.ListOffsets: lambda node, turn, *asked: list_offsets(turn, *asked),
    Api.Metadata: lambda node, turn, connection, request: metadata(turn, connection, request, node._cache),
    Api.UpdateMetadata: lambda node, turn, *asked: node.pushed.update(turn, *asked),
    Api.OffsetCommit: lambda node, turn, *asked: offset_commit(turn, *asked),
    Api.OffsetFetch: lambda node, turn, *asked: offset_fetch(turn, *asked),
    Api.FindCoordinator: lambda node, turn, connection, request: find_coordinator(
        turn, connection, request, node._cache, node.forwarding
    ),
    Api.JoinGroup: lambda node, turn, *asked: join_group(turn, *asked),
    Api.Heartbeat: lambda node, turn, *asked: heartbeat(turn, *asked),
    Api.LeaveGroup: lambda node, turn, *asked: leave_group(turn, *asked),
    Api.SyncGroup: lambda node, turn, *asked: sync_group(turn, *asked),
    Api.DescribeGroups: lambda node, turn, *asked: describe_groups(turn, *asked),
    Api.ListGroups: lambda node, turn, *asked: list_groups(turn, *asked),
    Api.ApiVersions: lambda node, turn, *asked: node._api_versions(turn, *asked),
    Api.InitProducerId: lambda node, turn, *asked: init_producer_id(turn, *asked),
    Api.AddPartitionsToTxn: lambda node, turn, *asked: add_partitions_to_txn(turn, *asked),
    Api.AddOffsetsToTxn: lambda node, turn, *asked: add_offsets_to_txn(turn, *asked),
    Api.EndTxn: lambda node, turn, *asked: end_txn(turn, *asked),
    Api.WriteTxnMarkers: lambda node, turn, *asked: write_txn_markers(turn, *asked),
    Api.TxnOffsetCommit: lambda node, turn, *asked: txn_offset_commit(turn, *asked),
    Api.DescribeProducers: lambda node, turn, *asked: describe_producers(turn, *asked),
    Api.DescribeTransactions: lambda node, turn, *asked: describe_transactions(turn, *asked),
    Api.ListTransactions: lambda node, turn, *asked: list_transactions(turn, *asked),
    Api.OffsetForLeaderEpoch: lambda node, turn, *asked: offset_for_leader_epoch(turn, *asked),
    Api.CreateTopics: lambda node, turn, *asked: node.forwarding.forward(turn, *asked),
    Api.DeleteTopics: lambda node, turn, *asked: node.forwarding.forward(turn, *asked),
    Api.CreatePartitions: lambda node, turn, *asked: node.forwarding.forward(turn, *asked),
    Api.DeleteRecords: lambda node, turn, *asked: delete_records(turn, *asked),
    Api.ElectLeaders: lambda node, turn, *asked: node.forwarding.forward(turn, *asked),
    Api.IncrementalAlterConfigs: lambda node, turn, *asked: incremental_alter_configs(node.forwarding, turn, *asked),
    Api.DescribeQuorum: lambda node, turn, *asked: node.forwarding.forward(turn, *asked),
    Api.AddRaftVoter: lambda node, turn, *asked: node.forwarding.forward(turn, *asked),
    Api.RemoveRaftVoter: lambda node, turn, *asked: node.forwarding.forward(turn, *asked),
}
"""Who takes which request, with its connection: every API of the registry that a broker serves."""

COMPONENT: Component[BrokerNode, Turn] = Component(
    timers={request_channel.TIMER: lambda node, turn, _: node.on_service_over(turn)},
    answers={
        lifecycle.REGISTER: lambda node, turn, ended, _: node.on_controller(turn, ended),
        lifecycle.HEARTBEAT: lambda node, turn, ended, _: node.on_controller(turn, ended),
    },
)
"""What concerns the broker as a whole."""

COMPONENTS: Components[BrokerNode, Turn] = Components()
"""Who takes the timers, answers and choices of a broker."""
COMPONENTS.add(COMPONENT, lambda node: node)
COMPONENTS.add(network_client.COMPONENT, lambda node: node.net)
COMPONENTS.add(raft_client.COMPONENT, lambda node: node.raft)
COMPONENTS.add(purgatory.COMPONENT, lambda node: node.purgatory)
COMPONENTS.add(lifecycle.COMPONENT, lambda node: node.lifecycle)
COMPONENTS.add(log_manager.COMPONENT, lambda node: node.logs)
COMPONENTS.add(remote_log_manager.COMPONENT, lambda node: node.remote_log)
COMPONENTS.add(remote_log_metadata.COMPONENT, lambda node: node.remote_log.metadata)
COMPONENTS.add(replica_manager.COMPONENT, lambda node: node.replicas)
COMPONENTS.add(replica_fetcher.COMPONENT, lambda node: node.replicas.fetchers)
COMPONENTS.add(alter_partition.COMPONENT, lambda node: node.replicas.isr_changes)
COMPONENTS.add(producer_ids.COMPONENT, lambda node: node.producer_ids)
COMPONENTS.add(forwarding.COMPONENT, lambda node: node.forwarding)
COMPONENTS.add(group_coordinator.COMPONENT, lambda node: node.groups)
COMPONENTS.add(transaction_coordinator.COMPONENT, lambda node: node.transactions)
COMPONENTS.add(transaction_verification.COMPONENT, lambda node: node.verification)
COMPONENTS.add(readers.COMPONENT, lambda node: node.readers)
