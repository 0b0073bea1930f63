"""The controller's state machine on top of the quorum's log (``QuorumController.java``).

Every controller replays the log. The active one also makes it: a request turns into records, these are appended and
replayed at once, and the answer waits until they are committed. When it loses the leadership, what was not committed
is dropped and everybody who waits is told NOT_CONTROLLER.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from actors.controller.alter_partition import alter_partition
from actors.controller.broker_registry import (
    is_clean,
    is_new_incarnation,
    registration,
    registration_change,
    validate_registration,
)
from actors.controller.changes import Change
from actors.controller.configuration_control import incremental_alter_configs
from actors.controller.controller_channels import ControllerChannels
from actors.controller.controller_config import MIN_ISR, UNCLEAN_ELECTION, UNCONFIGURED, ControllerConfig
from actors.controller.controller_state import ControllerState
from actors.controller.controller_turn import ControllerTurn
from actors.controller.create_partitions import create_partitions
from actors.controller.create_topics import create_topics
from actors.controller.deferred_events import COMMITTED, DeferredEvent, DrawnRequest, reply
from actors.controller.delete_topics import delete_topics
from actors.controller.elect_leaders import elect_leaders
from actors.controller.elections import ElectionRules, PartitionChangeBuilder, leader_and_isr_updates
from actors.controller.heartbeats import BrokerControlState, BrokerHeartbeatManager
from actors.controller.producer_ids import allocate_producer_ids
from actors.controller.replica_placement import SEEDS, Draws
from actors.controller.topics import bootstrap_records, topic_records
from actors.metadata.image_records import (
    EMPTY_DIGEST,
    extend_digest,
    load_records,
    metadata_epoch_record,
    records_of,
)
from actors.metadata.registrations import FENCE, NO_LEADER, UNFENCE, PartitionRegistration
from actors.metadata.state_hash import state_hash
from actors.node.component import Component
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.fault import FatalFault
from actors.node.messages import Api, api_of, request_version
from actors.node.purgatory import NEVER_MS, Purgatory
from actors.node.step import Step
from actors.quorum.raft_client import RaftClient
from actors.quorum.snapshots import Snapshot
from actors.trace.events import MetaState
from krift.v1.admin import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from krift.v1.controller import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from krift.v1.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from krift.v1.records import MetadataRecord, NoOpRecord
from krift.v1.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

STALE_BROKERS = "controller/stale-brokers"
NO_OP = "controller/no-op"
UNCLEAN = "controller/unclean-elections"
REBALANCE = "controller/rebalance"
DRAW = "controller/draw/"
"""Prefix of the choice that a request needs: ``controller/draw/<connection>``."""

NEXT_PASS_MS = 10
"""Pause before the next pass when one has fenced a broker (``PeriodicTask``'s immediate period)."""

ControllerRequest = (
    BrokerRegistrationRequest
    | BrokerHeartbeatRequest
    | AlterPartitionRequest
    | AllocateProducerIdsRequest
    | ElectLeadersRequest
    | IncrementalAlterConfigsRequest
    | CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
)
ControllerResponse = (
    BrokerRegistrationResponse
    | BrokerHeartbeatResponse
    | AlterPartitionResponse
    | AllocateProducerIdsResponse
    | ElectLeadersResponse
    | IncrementalAlterConfigsResponse
    | CreateTopicsResponse
    | DeleteTopicsResponse
    | CreatePartitionsResponse
)


class Controller(msgspec.Struct):
    """One controller, active or standby.

    active_epoch: quorum epoch in which it is active, -1 standby. next_offset: where its next record will be;
    last_appended: offset of the last record of its own in this epoch, -1 none; committed: end of what is known to be
    committed.
    """

    config: ControllerConfig = UNCONFIGURED
    state: ControllerState = msgspec.field(default_factory=ControllerState)
    heartbeats: BrokerHeartbeatManager = msgspec.field(default_factory=BrokerHeartbeatManager)
    purgatory: Purgatory[DeferredEvent | DrawnRequest] = msgspec.field(default_factory=Purgatory)
    channels: ControllerChannels = msgspec.field(default_factory=ControllerChannels)
    active_epoch: int = -1
    next_offset: int = 0
    last_appended: int = -1
    committed: int = 0

    @property
    def active(self) -> bool:
        """Whether this is the active controller, as far as it knows."""
        return self.active_epoch >= 0

    # ---- following the quorum ----------------------------------------------------------------------------

    def follow(self, turn: ControllerTurn) -> None:
        """Take what the quorum has decided: commits first, then who leads. Called at the end of each step."""
        raft = turn.raft
        if self.active and not (raft.is_leader and raft.epoch == self.active_epoch):
            self._deactivate(turn.step, raft)
        snapshot = raft.take_snapshot(turn)
        if snapshot is not None:
            self._load(turn.step, snapshot)
        commits = raft.take_commits(turn)
        for batch in commits:
            if batch.epoch != self.active_epoch:
                self.state.replay_batch(batch)
            if self.config.pushes_metadata:
                self.channels.replay(turn.step, batch)
            self.committed = batch.end_offset
        if commits and raft.is_snapshot_due(turn):
            # What a standby has is what is committed; an active controller's own state is ahead of it.
            state = _committed(raft) if self.active else self.state
            digest = _digest(raft)
            turn.step.record(MetaState("snapshot", raft.delivered, digest, state_hash(state)))
            raft.create_snapshot(turn, records_of(state, turn.step.defects), digest)
        if self.active:
            self.purgatory.check(turn, COMMITTED)
        if self.active:
            # A change of the voters takes an offset that the controller did not ask for.
            self.next_offset = raft.next_offset
        for change in raft.take_leader_changes(turn.step.defects):
            if change.leader_id == self.config.node_id and raft.is_leader:
                self._activate(turn)
        if self.active and self.channels.wants_epoch:
            self._count_metadata_epoch(turn)

    def _count_metadata_epoch(self, turn: ControllerTurn) -> None:
        """Raise the metadata epoch by one, in the log. Only the leader of the quorum's newest epoch gets a record
        committed, and it has all that were committed before, so no epoch is given twice."""
        counted = self.channels.told if "epoch-not-durable" in turn.step.defects else self.state
        epoch = counted.metadata_epoch + 1
        self.channels.asked_epoch = epoch
        self._append(turn, [Change(metadata_epoch_record(epoch))])

    def _load(self, step: Step, snapshot: Snapshot) -> None:
        """Take up what a snapshot holds in place of the state so far. Raises FatalFault where this is the active
        controller (``QuorumController.handleLoadSnapshot``)."""
        if self.active:
            raise FatalFault("asked to load a snapshot, but this is the active controller")
        self.state = ControllerState()
        load_records(self.state, snapshot.records, snapshot.end - 1)
        if self.config.pushes_metadata:
            self.channels.load(snapshot)
        self.committed = snapshot.end
        step.record(MetaState("load", snapshot.end, snapshot.digest, state_hash(self.state)))

    def _activate(self, turn: ControllerTurn) -> None:
        step, raft = turn.step, turn.raft
        step.record(MetaState("active", raft.delivered, _digest(raft), state_hash(self.state)))
        self.active_epoch = raft.epoch
        self.next_offset = raft.end_offset
        self.last_appended = -1
        self.heartbeats = BrokerHeartbeatManager(self.config.session_timeout_ms)
        self.heartbeats.activate(step.now_ms, self.state)
        for timer, period_ms in self._periods().items():
            if period_ms:
                step.set_timer(timer, period_ms)
        if not self.state.features:
            self._append(turn, bootstrap_records(self.config))
        self._create_topics(turn)
        if self.config.pushes_metadata:
            self.channels.activate(self.config.node_id, raft.epoch, self.config.counts_metadata_epochs)

    def _deactivate(self, step: Step, raft: RaftClient) -> None:
        """Drop what was not committed. Snapshot and log hold all of it, so the committed state is made from there."""
        self.active_epoch = -1
        self.channels.deactivate()
        self.state = _committed(raft)
        step.record(MetaState("standby", raft.delivered, _digest(raft), state_hash(self.state)))
        for timer in self._periods():
            step.cancel_timer(timer)
        for event in self.purgatory.take_all():
            event.on_failure(step)

    # ---- requests ----------------------------------------------------------------------------------------

    def on_request(self, turn: ControllerTurn, connection: str, request: ControllerRequest) -> None:
        """Serve a request of a broker, or of an operator; the answer may go out in a later step."""
        if not self.active or not turn.raft.is_leader:
            reply(turn.step, connection, request, error_response(request, KafkaError.NOT_CONTROLLER))
        else:
            HANDLERS[api_of(request)](self, turn, connection, request)

    def register_broker(self, turn: ControllerTurn, connection: str, request: BrokerRegistrationRequest) -> None:
        """Serve BrokerRegistration."""
        self._finish(turn, connection, request, *self._register_broker(turn.step, request))

    def elect_leaders(self, turn: ControllerTurn, connection: str, request: ElectLeadersRequest) -> None:
        """Serve ElectLeaders."""
        self._finish(turn, connection, request, *elect_leaders(request, self.state, self._rules(turn.step)))

    def incremental_alter_configs(
        self, turn: ControllerTurn, connection: str, request: IncrementalAlterConfigsRequest
    ) -> None:
        """Serve IncrementalAlterConfigs."""
        done = incremental_alter_configs(request, self.state, self.config, turn.step.defects)
        self._finish(turn, connection, request, *done)

    def draw(
        self, turn: ControllerTurn, connection: str, request: CreateTopicsRequest | CreatePartitionsRequest
    ) -> None:
        """Ask for what CreateTopics and CreatePartitions need: ids of topics, and where the placing of replicas
        begins."""
        self.purgatory.park(turn.step, DrawnRequest(connection, NEVER_MS, request))
        turn.step.choose(f"{DRAW}{connection}", SEEDS)

    def on_drawn(self, turn: ControllerTurn, seed: int, connection: str) -> None:
        """Serve CreateTopics or CreatePartitions, unless who asked is gone, or was told NOT_CONTROLLER."""
        if not isinstance(self.purgatory.parked.get(connection), DrawnRequest):
            return
        drawn = self.purgatory.remove(connection)
        assert drawn is not None
        request, draws, defects = drawn.request, Draws(seed), turn.step.defects
        if not turn.raft.is_leader:
            reply(turn.step, connection, request, error_response(request, KafkaError.NOT_CONTROLLER))
        elif isinstance(request, CreateTopicsRequest):
            done = create_topics(request, self.state, self.config, draws, defects)
            self._finish(turn, connection, request, *done)
        else:
            assert isinstance(request, CreatePartitionsRequest)
            self._finish(turn, connection, request, *create_partitions(request, self.state, draws, defects))

    def delete_topics(self, turn: ControllerTurn, connection: str, request: DeleteTopicsRequest) -> None:
        """Serve DeleteTopics."""
        self._finish(turn, connection, request, *delete_topics(request, self.state, self.config))

    def alter_partition(self, turn: ControllerTurn, connection: str, request: AlterPartitionRequest) -> None:
        """Serve AlterPartition."""
        if self._knows_sender(turn, connection, request):
            rules, version = self._rules(turn.step), request_version(request)
            self._finish(turn, connection, request, *alter_partition(request, version, self.state, rules))

    def allocate_producer_ids(self, turn: ControllerTurn, connection: str, request: AllocateProducerIdsRequest) -> None:
        """Serve AllocateProducerIds."""
        if self._knows_sender(turn, connection, request):
            self._finish(turn, connection, request, *allocate_producer_ids(self.state.next_producer_id, request))

    def _knows_sender(
        self,
        turn: ControllerTurn,
        connection: str,
        request: AlterPartitionRequest | AllocateProducerIdsRequest | BrokerHeartbeatRequest,
    ) -> bool:
        """Whether a broker asks under its present epoch; if not, it is told so."""
        known = self.state.has_epoch(request.broker_id, request.broker_epoch)
        if not known:
            self._finish(turn, connection, request, [], error_response(request, KafkaError.STALE_BROKER_EPOCH))
        return known

    def on_disconnected(self, connection: str) -> None:
        """Forget the answers that nobody waits for."""
        self.purgatory.remove(connection)

    def _finish(
        self,
        turn: ControllerTurn,
        connection: str,
        request: ControllerRequest,
        changes: list[Change],
        response: ControllerResponse,
    ) -> int:
        """Append, and answer when the records are committed; returns the offset of the last record so far. An answer
        without records of its own waits for all that were appended, since it may tell of them; a refusal of the whole
        request tells of nothing and waits for nothing (``ControllerWriteEvent``)."""
        self._append(turn, changes)
        waits = self.last_appended >= self.committed and "reply-before-commit" not in turn.step.defects
        if getattr(response, "error_code", 0) or not waits:
            reply(turn.step, connection, request, response)
        else:
            event = DeferredEvent(connection, NEVER_MS, self.last_appended, request, response)
            self.purgatory.park(turn.step, event)
        self._create_topics(turn)
        return self.next_offset - 1

    def _append(self, turn: ControllerTurn, changes: list[Change]) -> None:
        """Append records as one batch and replay them at once."""
        if not changes:
            return
        last = turn.raft.append(turn, [change.record for change in changes])
        if last != self.next_offset + len(changes) - 1:
            raise AssertionError(f"{len(changes)} records for offset {self.next_offset} went to {last}")
        for change in changes:
            state, cluster = self.state, self.config.cluster
            least_isr = self._least_isr(turn.step)
            state.replay_own(turn.step, change, self.next_offset, self.active_epoch, cluster, least_isr)
            self.next_offset += 1
        self.last_appended = last

    # ---- brokers -----------------------------------------------------------------------------------------

    def _register_broker(
        self, step: Step, request: BrokerRegistrationRequest
    ) -> tuple[list[Change], BrokerRegistrationResponse]:
        state = self.state
        existing = state.brokers.get(request.broker_id)
        session = existing is not None and self.heartbeats.has_valid_session(existing.id, existing.epoch, step.now_ms)
        session = session and "id-of-the-living" not in step.defects
        error = validate_registration(state, request, self.config.cluster_id, session)
        if error:
            return [], BrokerRegistrationResponse(error_code=error)
        change = registration(state, request, self.next_offset, step.defects)
        new_incarnation = is_new_incarnation(state, request)
        # What the former incarnation leaves behind comes first, so that no log has the new one without it.
        cleanup = self._clean_up_after(step, request) if new_incarnation else []
        self.heartbeats.register(request.broker_id, new_incarnation)
        record = change.record.register_broker
        assert record is not None
        return [*cleanup, change], BrokerRegistrationResponse(broker_epoch=record.broker_epoch)

    def _clean_up_after(self, step: Step, request: BrokerRegistrationRequest) -> list[Change]:
        """What a broker's start anew means for the partitions (``ReplicationControlManager.handleBrokerShutdown``). One
        whose former incarnation did not shut down cleanly may have lost records, so it is eligible for nothing; where
        there are no eligible leader replicas that entails what fencing does."""
        broker_id, state = request.broker_id, self.state
        if not state.elr_enabled or is_clean(state, request):
            return self._leader_and_isr_updates(step, "fence", removed=broker_id)
        concerned = [*state.with_broker_in_isr(broker_id), *state.with_broker_in_elr(broker_id)]
        return leader_and_isr_updates(concerned, self._rules(step), "unclean-shutdown", unclean=broker_id)

    def broker_heartbeat(self, turn: ControllerTurn, connection: str, request: BrokerHeartbeatRequest) -> None:
        """Serve BrokerHeartbeat."""
        if not self._knows_sender(turn, connection, request):
            return
        step, state = turn.step, self.state
        broker = state.brokers[request.broker_id]
        self.heartbeats.track(broker.id, broker.epoch, step.now_ms)
        leads = state.has_leaderships(broker.id) and "let-go-while-leading" not in step.defects
        current = self.heartbeats.current_state(broker)
        if "busy-metadata-log" in step.defects and broker.fenced:
            broker = msgspec.structs.replace(broker, offset=self.next_offset)
        following = self.heartbeats.next_state(broker, request, leads, state)
        if "let-go-unheard" in step.defects and following is BrokerControlState.CONTROLLED_SHUTDOWN and not leads:
            following = BrokerControlState.SHUTDOWN_NOW
        changes = [] if following is current else self._transition(step, broker.id, following)
        # Replaying the record that unfences a broker, Kafka forgets what the broker has said; it will say it again.
        unfenced = following is BrokerControlState.UNFENCED and bool(changes)
        self.heartbeats.touch(broker.id, following.fenced, -1 if unfenced else request.current_metadata_offset)
        response = BrokerHeartbeatResponse(
            is_caught_up=request.current_metadata_offset >= broker.offset,
            is_fenced=following.fenced,
            should_shut_down=following is BrokerControlState.SHUTDOWN_NOW,
        )
        last = self._finish(turn, connection, request, changes, response)
        if following is BrokerControlState.CONTROLLED_SHUTDOWN:
            self.heartbeats.begin_controlled_shutdown(broker.id, last, "shutdown-offset-moves" in step.defects)
        elif following is BrokerControlState.SHUTDOWN_NOW and "session-outlives-shutdown" not in step.defects:
            self.heartbeats.remove_session(broker.id)

    def _transition(self, step: Step, broker_id: int, following: BrokerControlState) -> list[Change]:
        """The records that take a broker into another state, in the order in which Kafka writes them."""
        state = self.state
        if following is BrokerControlState.UNFENCED:
            unfenced = registration_change(state, broker_id, fenced=UNFENCE)
            if "no-election-at-return" in step.defects:
                return [unfenced]
            return [unfenced, *self._leader_and_isr_updates(step, "unfence", added=broker_id)]
        if following is BrokerControlState.CONTROLLED_SHUTDOWN:
            updates = self._leader_and_isr_updates(step, "controlled-shutdown", removed=broker_id)
            if state.brokers[broker_id].in_controlled_shutdown or "shutdown-unregistered" in step.defects:
                return updates
            return [registration_change(state, broker_id, in_controlled_shutdown=1), *updates]
        return self._fence(step, broker_id)

    def _fence(self, step: Step, broker_id: int) -> list[Change]:
        fenced = registration_change(self.state, broker_id, fenced=FENCE)
        if "fence-keeps-isr" in step.defects:
            return [fenced]
        return [*self._leader_and_isr_updates(step, "fence", removed=broker_id), fenced]

    def _leader_and_isr_updates(
        self, step: Step, cause: str, *, removed: int = NO_LEADER, added: int = NO_LEADER
    ) -> list[Change]:
        """What a broker's loss (``removed``) or return (``added``) means for the partitions."""
        state = self.state
        concerned = state.without_leader() if added != NO_LEADER else state.with_broker_in_isr(removed)
        return leader_and_isr_updates(concerned, self._rules(step), cause, removed=removed, added=added)

    # ---- what decides elections --------------------------------------------------------------------------

    def _rules(self, step: Step) -> ElectionRules:
        state = self.state
        recounts = self.config.elr_cleared == "recount-elr"
        return ElectionRules(
            state.is_active, self._unclean_enabled, self._least_isr(step), state.elr_enabled, recounts, step.defects
        )

    def _unclean_enabled(self, topic: str) -> bool:
        config = self.config
        return bool(self.state.config(config.node_id, topic, UNCLEAN_ELECTION, config.unclean_election))

    def _least_isr(self, step: Step) -> Callable[[PartitionRegistration], int]:
        return self._min_isr_of_file if "controllers-own-min-isr" in step.defects else self._min_isr

    def _min_isr_of_file(self, partition: PartitionRegistration) -> int:
        return min(self.config.min_isr, len(partition.replicas))

    def _min_isr(self, partition: PartitionRegistration) -> int:
        """The least ISR of a partition: never more than it has replicas
        (``ReplicationControlManager.getTopicEffectiveMinIsr``)."""
        config = self.config
        least: int = self.state.config(config.node_id, partition.topic, MIN_ISR, config.min_isr)
        return min(least, len(partition.replicas))

    # ---- timers ------------------------------------------------------------------------------------------

    def _periods(self) -> dict[str, int]:
        """What the active controller does by the clock, and how often."""
        config = self.config
        return {
            STALE_BROKERS: config.stale_check_ms,
            NO_OP: config.no_op_interval_ms,
            UNCLEAN: config.unclean_interval_ms,
            REBALANCE: config.rebalance_interval_ms,
        }

    def on_period(self, turn: ControllerTurn, timer: str, act: Callable[[Controller, ControllerTurn], bool]) -> None:
        """What the active controller does by the clock; ``act`` tells whether the next pass follows soon."""
        if self.active and turn.raft.is_leader:
            soon = act(self, turn)
            if timer != STALE_BROKERS or "stale-looked-for-once" not in turn.step.defects:
                often = timer == REBALANCE and "preferred-elected-too-often" in turn.step.defects
                period_ms = self._periods()[timer] // (10 if often else 1)
                turn.step.set_timer(timer, NEXT_PASS_MS if soon else period_ms)

    def fence_stale_broker(self, turn: ControllerTurn) -> bool:
        """Fence one broker whose session is over; True if a session was."""
        step = turn.step
        early_ms = self.config.session_timeout_ms // 2 if "fenced-at-half-time" in step.defects else 0
        expired = self.heartbeats.take_expired(step.now_ms + early_ms)
        if expired is None:
            return False
        broker_id, session = expired
        broker = self.state.brokers[broker_id]
        if broker.epoch == session.broker_epoch and not broker.fenced:
            self._append(turn, self._fence(step, broker_id))
            self.heartbeats.fence(broker_id)
        return True

    def write_no_op(self, turn: ControllerTurn) -> bool:
        """Show that the quorum still commits."""
        if "no-op-records-unwritten" not in turn.step.defects:
            self._append(turn, [Change(MetadataRecord(no_op=NoOpRecord()))])
        return False

    def elect_unclean_leaders(self, turn: ControllerTurn) -> bool:
        """Elect whoever is left, where the configuration allows it."""
        self._append(turn, self._unclean_elections(turn.step))
        return False

    def elect_preferred_leaders(self, turn: ControllerTurn) -> bool:
        """Give partitions back to their preferred leaders."""
        if "preferred-unheeded" not in turn.step.defects:
            self._append(turn, self._preferred_elections(turn.step))
        return False

    def _unclean_elections(self, step: Step) -> list[Change]:
        """A leader for the partitions that wait for one, where the configuration allows anybody."""
        waiting = [each for each in self.state.without_leader() if self._unclean_enabled(each.topic)]
        return leader_and_isr_updates(waiting, self._rules(step), "elect")

    def _preferred_elections(self, step: Step) -> list[Change]:
        """Give partitions back to the first replica of their assignment, where it is eligible."""
        changes, rules = [], self._rules(step)
        for partition in self.state.partitions.values():
            if partition.leader in (NO_LEADER, partition.replicas[0]):
                continue
            change = PartitionChangeBuilder(partition, rules, "preferred", "preferred").build()
            if change is not None:
                changes.append(change)
        return changes

    # ---- topics ------------------------------------------------------------------------------------------

    def _create_topics(self, turn: ControllerTurn) -> None:
        """Create the topics of the scenario once all their replicas are active, and never a second time."""
        state = self.state
        for topic in self.config.cluster.topics:
            if topic.topic_id in state.topics or topic.topic_id in state.removed or topic.name in state.topic_ids:
                continue
            replicas = {replica for partition in topic.replicas for replica in partition}
            if all(state.is_active(replica) for replica in sorted(replicas)):
                self._append(turn, topic_records(topic))


HANDLERS: dict[Api, Callable[[Controller, ControllerTurn, str, Any], None]] = {
    Api.BrokerRegistration: Controller.register_broker,
    Api.BrokerHeartbeat: Controller.broker_heartbeat,
    Api.AlterPartition: Controller.alter_partition,
    Api.AllocateProducerIds: Controller.allocate_producer_ids,
    Api.ElectLeaders: Controller.elect_leaders,
    Api.IncrementalAlterConfigs: Controller.incremental_alter_configs,
    Api.CreateTopics: Controller.draw,
    Api.DeleteTopics: Controller.delete_topics,
    Api.CreatePartitions: Controller.draw,
}
"""What the active controller answers, and who does, with the connection and the request."""

COMPONENT: Component[Controller, ControllerTurn] = Component(
    timers={
        STALE_BROKERS: lambda controller, turn, _: controller.on_period(
            turn, STALE_BROKERS, Controller.fence_stale_broker
        ),
        NO_OP: lambda controller, turn, _: controller.on_period(turn, NO_OP, Controller.write_no_op),
        UNCLEAN: lambda controller, turn, _: controller.on_period(turn, UNCLEAN, Controller.elect_unclean_leaders),
        REBALANCE: lambda controller, turn, _: controller.on_period(
            turn, REBALANCE, Controller.elect_preferred_leaders
        ),
    },
    choices={DRAW: lambda controller, turn, value, connection: controller.on_drawn(turn, value, connection)},
)


def _committed(raft: RaftClient) -> ControllerState:
    """The state that everything makes which was handed out so far."""
    state, snapshot = ControllerState(), raft.snapshots.read_latest()
    if snapshot is not None:
        load_records(state, snapshot.records, snapshot.end - 1)
    for batch in raft.log.read(0 if snapshot is None else snapshot.end, raft.delivered, 2**62):
        state.replay_batch(batch)
    return state


def _digest(raft: RaftClient) -> int:
    """The digest of all that was handed out so far."""
    snapshot = raft.snapshots.read_latest()
    start, digest = (0, EMPTY_DIGEST) if snapshot is None else (snapshot.end, snapshot.digest)
    return extend_digest(digest, raft.log.read(start, raft.delivered, 2**62))
