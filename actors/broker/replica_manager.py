"""The replicas of a broker: roles from metadata, produce, fetch, ISR, high watermark checkpoints
(``core/.../server/ReplicaManager.scala``)."""

from __future__ import annotations

import msgspec

from actors.broker import (
    alter_partition,
    delayed_remote_fetch,
    fetch as fetches,
    leadership,
    produce as produces,
    purgatory,
    replica_fetcher,
    transactional_produce,
)
from actors.broker.alter_partition import REVERT, WAIT_FOR_METADATA, AlterItem, AlterOutcome, AlterPartitionManager
from actors.broker.checkpoints import parse_checkpoint, render_checkpoint
from actors.broker.fetch import DelayedFetch
from actors.broker.fetch_request import FetchParams, ReadResult, parse_items, parse_params
from actors.broker.fetch_session import FetchSessionCache
from actors.broker.partition import Partition, PendingIsr, find_partition
from actors.broker.produce import DelayedProduce, PartitionAppend
from actors.broker.replica_fetcher import ReplicaFetcherManager
from actors.broker.turn import Turn
from actors.log.batch import add_sequence
from actors.log.replica_log import ReplicaLog
from actors.log.verification import UNVERIFIED
from actors.metadata.registrations import PartitionRegistration
from actors.node.component import Component
from actors.node.errors import KafkaError
from actors.node.events import DiskImage
from actors.node.network_client import Ended
from actors.node.spec import split_topic_partition
from actors.trace.events import IsrLate, PartStop
from krift.v1.fetch import FetchRequest
from krift.v1.produce import ProduceRequest
from krift.v1.records import RecordBatch

CHECKPOINT_FILE = "replication-offset-checkpoint"
CHECKPOINT_TIMER = "highwatermark-checkpoint"
ISR_TIMER = "isr-expiration"


class ReplicaManager(msgspec.Struct):
    """All hosted partitions. ``sessions``: of those that fetch here. ``checkpointed``: content of the checkpoint file.
    ``in_controlled_shutdown``: this broker is about to stop, and does not take up following any more."""

    partitions: dict[str, Partition] = {}
    sessions: FetchSessionCache = msgspec.field(default_factory=FetchSessionCache)
    fetchers: ReplicaFetcherManager = msgspec.field(default_factory=ReplicaFetcherManager)
    isr_changes: AlterPartitionManager = msgspec.field(default_factory=AlterPartitionManager)
    checkpointed: bytes = b""
    appends: int = 0
    in_controlled_shutdown: bool = False

    # ---- start -------------------------------------------------------------------------------------------

    def load(self, turn: Turn, disk: DiskImage, logs: list[ReplicaLog]) -> None:
        """Take the logs that were found. A high watermark starts at its checkpoint, within the log
        (ReplicaManager.scala)."""
        entries = disk.get(CHECKPOINT_FILE) or [b""]
        self.checkpointed = entries[0]
        checkpoint = parse_checkpoint(self.checkpointed)
        for log in logs:
            tp = log.tp
            if "producers-forgotten-at-start" in turn.step.defects:
                log.producers.rebuild([])
            log.high_watermark = log.bounded_high_watermark(checkpoint.get(tp, 0))
            log.producers.advance(log.high_watermark)
            if log.start_offset:
                log.record_start(turn.step, "load")
            # Under its key until it is known which topic of its name is there.
            self.partitions[tp] = Partition(tp, log)
        turn.step.set_timer(CHECKPOINT_TIMER, turn.settings.hw_checkpoint_interval_ms)
        self._arm_isr_timer(turn)

    def _arm_isr_timer(self, turn: Turn) -> None:
        seldom = "isr-looked-at-seldom" in turn.step.defects
        turn.step.set_timer(ISR_TIMER, turn.settings.replica_lag_time_max_ms // (1 if seldom else 2))

    # ---- roles -------------------------------------------------------------------------------------------

    def apply(self, turn: Turn, changes: list[PartitionRegistration]) -> None:
        """Take up the roles that metadata gives this broker."""
        for state in changes:
            if turn.settings.node_id not in state.replicas:
                continue
            tp = state.tp
            partition = self.partitions.get(tp)
            if partition is None:
                key = turn.image.key(state, turn.settings.cluster)
                partition = self.partitions[tp] = Partition(tp, ReplicaLog(key))
            if state.leader == turn.settings.node_id:
                self._lead(turn, partition, state)
            else:
                self._follow(turn, partition, state)

    def remove_strays(self, turn: Turn) -> None:
        """At the start, before any role: a log whose topic is not in the metadata, or whose name another topic has by
        now, is removed with its directory (``LogManager.isStrayKraftReplica``, KAFKA-14616); the others go by their
        names from here on. A partition that this broker is no longer assigned to is removed, too."""
        image, cluster, node_id = turn.image, turn.settings.cluster, turn.settings.node_id
        hosted = [each for each in image.partitions.values() if node_id in each.replicas]
        names = {image.key(each, cluster): each.tp for each in hosted}
        found, self.partitions = self.partitions, {}
        for key, partition in found.items():
            if key not in names and "stray-log-taken-up" in turn.step.defects:
                others = [
                    other
                    for other in names
                    if other not in found and split_topic_partition(other) == split_topic_partition(key)
                ]
                key = partition.log.tp = others[0] if others else key
            if key in names:
                partition.tp = names[key]
                self.partitions[partition.tp] = partition
            else:
                partition.log.delete(turn.step, turn.files)

    def remove(self, turn: Turn, names: list[str]) -> None:
        """Topics were removed: stop their replicas, and delete the logs (``ReplicaManager.stopPartitions``). Whoever
        waits for one of them looks again. ``names`` may have found others by now, which stay."""
        for tp in names:
            partition, now = self.partitions.get(tp), turn.image.partitions.get(tp)
            if partition is None or "replicas-outlive-topic" in turn.step.defects:
                continue
            if now is not None and turn.image.key(now, turn.settings.cluster) == partition.key:
                continue
            turn.step.record(PartStop(partition.key))
            self.fetchers.stop(tp)
            self.isr_changes.forget(tp)
            del self.partitions[tp]
            if partition.log.active.file in turn.files.states or partition.log.batches:
                partition.log.delete(turn.step, turn.files)
            if "removal-leaves-waiting" not in turn.step.defects:
                purgatory.wake_all(turn, tp)

    def _lead(self, turn: Turn, partition: Partition, state: PartitionRegistration) -> None:
        was_epoch, was_recovering = partition.leader_epoch, partition.recovering
        if not partition.make_leader(turn, state):
            return
        self._report_recovered(turn, partition)
        looks = partition.leader_epoch == was_epoch or "new-leader-looks-at-no-watermark" not in turn.step.defects
        moved = looks and partition.maybe_increment_high_watermark(turn)
        if partition.leader_epoch != was_epoch or partition.recovering != was_recovering:
            leadership.changed(turn, partition)
        elif moved:
            purgatory.wake_all(turn, partition.tp)
        purgatory.committed(turn, partition.tp)

    def _report_recovered(self, turn: Turn, partition: Partition) -> None:
        """Tell the controller that the log of a leader that was elected uncleanly is in order."""
        if partition.recovering and partition.pending is None:
            self._propose(turn, partition, list(partition.isr))

    def _follow(self, turn: Turn, partition: Partition, state: PartitionRegistration) -> None:
        if partition.make_follower(turn, state):
            leadership.changed(turn, partition)
        if self.stays_out(turn, state):
            self.fetchers.stop(partition.tp)

    def stays_out(self, turn: Turn, state: PartitionRegistration) -> bool:
        """Whether this broker, which is about to stop, was asked out of the ISR, and must not work its way in again."""
        return self.in_controlled_shutdown and (state.leader < 0 or turn.settings.node_id not in state.isr)

    def reconfigure(self, turn: Turn) -> None:
        """A configuration changed in the metadata log."""
        for partition in self.partitions.values():
            if partition.role is not None:
                partition.configure(turn)
                self._advance(turn, partition)

    def _advance(self, turn: Turn, partition: Partition) -> None:
        """Move the leader's high watermark if it can, and wake who waits for that."""
        if partition.maybe_increment_high_watermark(turn):
            purgatory.committed(turn, partition.tp)
            purgatory.readable(turn, partition.tp)
            purgatory.started(turn, partition.tp)

    # ---- produce -----------------------------------------------------------------------------------------

    def produce(self, turn: Turn, connection: str, request: ProduceRequest) -> None:
        """Append to each partition and answer at once, or wait for the high watermark (acks=all)."""
        produce, batches = produces.parse_produce(turn, connection, request)
        if produce.acks not in (-1, 0, 1):
            for append in produce.appends:
                append.error = KafkaError.INVALID_REQUIRED_ACKS
            produces.answer(turn, produce)
        elif any(batch.is_transactional for batch in batches):
            transactional_produce.append_transactional(turn, request.transactional_id, produce, batches)
        else:
            self.append_all(turn, produce, batches, {})

    def append_all(
        self, turn: Turn, produce: DelayedProduce, batches: list[RecordBatch], guards: dict[str, int]
    ) -> None:
        """Append what was not refused before, and go on with the Produce. ``guards``: of partitions whose transaction
        was verified."""
        for append, batch in zip(produce.appends, batches, strict=True):
            if not append.error:
                self._append(turn, produce, append, batch, guards.get(append.tp, UNVERIFIED))
        waiting = [append for append in produce.appends if append.waiting]
        for append in waiting:
            produces.settle(turn, produce, append.tp)
        if any(append.waiting for append in waiting):
            turn.purgatory.park(turn.step, produce)
        else:
            produces.answer(turn, produce)

    def _append(
        self, turn: Turn, produce: DelayedProduce, append: PartitionAppend, batch: RecordBatch, guard: int
    ) -> None:
        partition, append.error = find_partition(turn, append.tp)
        if not batch.records and append.error != KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
            # Seen before it is looked at who leads (ProduceRequest.validateRecords).
            append.error = KafkaError.INVALID_RECORD
            return
        if partition is None:
            append.decided = produces.told(turn, None, append)
            return
        self.appends += 1
        loses = "lose-acked" in turn.step.defects or ("lose-acks-1" in turn.step.defects and produce.acks == 1)
        if loses and partition.is_leader and self.appends % produces.LOST_EVERY == 0:
            result = produces.pretend_to_append(partition, batch)
        else:
            verified = turn.settings.transactions.partition_verification
            result = partition.append(turn, batch, produce.acks, guard if verified else None)
        append.error, append.base_offset, append.last_offset = result.error, result.base_offset, result.last_offset
        append.record_errors = result.record_errors
        if append.error not in produces.WITHOUT_LOG_START:
            append.log_start = partition.log.start_offset
        if result.error:
            if result.error in (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.INVALID_PRODUCER_EPOCH):
                last = add_sequence(batch.base_sequence, len(batch.records) - 1)
                append.refused = (batch.producer_id, batch.producer_epoch, batch.base_sequence, last)
            append.decided = produces.told(turn, partition, append)
            return
        if produce.acks == produces.ALL:
            append.appended = (len(partition.isr), partition.effective_min_isr)
        append.key = partition.key
        append.waiting = produce.acks == produces.ALL and "ack-before-hw" not in turn.step.defects
        self.appended(turn, partition)

    def appended(self, turn: Turn, partition: Partition) -> None:
        """Something was appended: the high watermark may move, and followers may read."""
        # Also after a duplicate (Partition.appendRecordsToLeader): a replica that was waited for may have been fenced.
        self._advance(turn, partition)
        purgatory.appended(turn, partition.tp)

    # ---- fetch -------------------------------------------------------------------------------------------

    def fetch(self, turn: Turn, connection: str, request: FetchRequest) -> None:
        """Serve a Fetch of a follower or a consumer: at once, or parked until there is something to say."""
        params = parse_params(turn, connection, request)
        error, params, items = self.sessions.begin(turn, params, parse_items(turn, request), request)
        if error:
            fetches.refuse(turn, params, error)
            return
        results = fetches.read_all(turn, params, items)
        if params.from_follower:
            for result in results:
                self._follower_fetched(turn, params, result)
        if any(result.remote for result in results):
            delayed_remote_fetch.begin(turn, params, results)
            return
        if fetches.must_answer(params, results, turn.step.now_ms):
            fetches.answer(turn, params, results)
            return
        delayed = DelayedFetch(connection, params.deadline_ms, params, items, [result.segment for result in results])
        more = any(result.batches or (params.from_follower and result.has_grown) for result in results)
        if more and delayed.try_complete(turn, delayed.keys[0]):
            # There is no more to be had from a segment; or what this very Fetch has committed let a coordinator append,
            # when the Fetch was not watching yet (DelayedOperationPurgatory.tryCompleteElseWatch looks once more, too).
            delayed.on_complete(turn)
        else:
            turn.purgatory.park(turn.step, delayed)

    def _follower_fetched(self, turn: Turn, params: FetchParams, result: ReadResult) -> None:
        """Let the leader take note of where a follower is; the answer still holds the high watermark from before."""
        partition = result.partition
        if partition is None or not result.valid:
            fetches.record_refused(turn, params, result)
            return
        remote = partition.remotes[params.replica_id]
        was, low_watermark = remote.log_end, self._awaited_low_watermark(turn, partition)
        result.error = partition.update_follower(turn, params.follower_fetch(result.item))
        if result.error:
            result.batches = []
            return
        if low_watermark is not None and partition.low_watermark(turn) > low_watermark:
            purgatory.started(turn, partition.tp)
        isr = partition.expanded_isr(turn, params.replica_id)
        if isr is not None:
            self._propose(turn, partition, isr)
        if remote.log_end != was and "hw-on-append-only" not in turn.step.defects:
            self._advance(turn, partition)

    def _awaited_low_watermark(self, turn: Turn, partition: Partition) -> int | None:
        """The low watermark, if a DeleteRecords waits for it to move; else nobody needs to know."""
        if not turn.purgatory.watching((purgatory.STARTED, partition.tp)):
            return None
        return partition.low_watermark(turn)

    def on_fetched(self, turn: Turn, ended: Ended, leader: int) -> None:
        """A Fetch of this broker as a follower ended."""
        for tp in self.fetchers.on_fetched(turn, ended, leader):
            purgatory.readable(turn, tp)

    def on_listed(self, turn: Turn, ended: Ended, leader: int) -> None:
        """A ListOffsets of this broker as a follower ended."""
        for tp in self.fetchers.on_listed(turn, ended, leader):
            purgatory.readable(turn, tp)

    def on_epochs_listed(self, turn: Turn, ended: Ended, leader: int) -> None:
        """An OffsetForLeaderEpoch of this broker as a follower ended."""
        for tp in self.fetchers.on_epochs_listed(turn, ended, leader):
            purgatory.readable(turn, tp)

    def on_stored(self, turn: Turn, ended: Ended, leader: int) -> None:
        """A call to the remote store of this broker as a follower ended."""
        for tp in self.fetchers.on_stored(turn, ended, leader):
            purgatory.readable(turn, tp)

    # ---- ISR ---------------------------------------------------------------------------------------------

    def _propose(self, turn: Turn, partition: Partition, isr: list[int]) -> None:
        if self.isr_changes.is_queued(partition.tp):
            return
        pending = partition.propose(turn, isr, self.isr_changes.next_proposal())
        self._submit(partition, pending)

    def _submit(self, partition: Partition, pending: PendingIsr) -> None:
        self.isr_changes.submit(
            AlterItem(
                partition.tp,
                partition.topic_id,
                partition.index,
                pending.proposal,
                pending.leader_epoch,
                pending.partition_epoch,
                pending.members,
            )
        )

    def on_isr_timer(self, turn: Turn) -> None:
        """Twice per replica.lag.time.max.ms: drop from each ISR who lags."""
        self._arm_isr_timer(turn)
        for partition in self.partitions.values():
            isr = partition.shrunk_isr(turn)
            if isr is not None:
                self._propose(turn, partition, isr)
            self._report_recovered(turn, partition)

    def on_altered(self, turn: Turn, ended: Ended) -> None:
        """The controller answered an AlterPartition, or did not."""
        for outcome in self.isr_changes.on_ended(turn, ended):
            partition = self.partitions.get(outcome.tp)
            pending = None if partition is None else partition.pending
            if partition is None:
                continue
            if pending is not None and pending.proposal == outcome.proposal:
                self._settle_proposal(turn, partition, pending, outcome)
            else:
                # The metadata log was faster, or the partition is led elsewhere.
                turn.step.record(IsrLate(outcome.tp, outcome.proposal, outcome.error.value))
                self._report_recovered(turn, partition)

    def _settle_proposal(self, turn: Turn, partition: Partition, pending: PendingIsr, outcome: AlterOutcome) -> None:
        partition.record_proposal(turn, pending, outcome.error.name if outcome.error else "accepted")
        if not outcome.error:
            recovered = partition.recovering
            if partition.commit_isr(turn, outcome.leader_epoch, outcome.partition_epoch, outcome.isr):
                if recovered:
                    leadership.changed(turn, partition)
                self._advance(turn, partition)
                purgatory.committed(turn, partition.tp)
        elif outcome.error in REVERT:
            if "waits-after-ineligible" not in turn.step.defects:
                partition.pending = None
        elif outcome.error not in WAIT_FOR_METADATA or "outdated-proposal-again" in turn.step.defects:
            # The same, with the broker epochs of when it was made: a member that was started anew since must not get
            # in by what its former life had (KAFKA-15221; Partition.submitAlterPartition).
            partition.record_proposal(turn, pending, "proposed")
            self._submit(partition, pending)

    # ---- high watermark checkpoints ----------------------------------------------------------------------

    def on_checkpoint_timer(self, turn: Turn) -> None:
        """Every replica.high.watermark.checkpoint.interval.ms."""
        turn.step.set_timer(CHECKPOINT_TIMER, turn.settings.hw_checkpoint_interval_ms)
        if "watermarks-checkpointed-at-shutdown-only" not in turn.step.defects:
            self.checkpoint(turn)

    def checkpoint(self, turn: Turn) -> None:
        """Write the high watermarks if any changed, and let them survive power loss (``CheckpointFile.java``)."""
        logs = {partition.key: partition.log for partition in self.partitions.values()}
        if "checkpoint-of-log-ends" in turn.step.defects:
            content = render_checkpoint({tp: log.end_offset for tp, log in logs.items()})
        else:
            content = render_checkpoint({tp: log.high_watermark for tp, log in logs.items()})
        if content != self.checkpointed:
            self.checkpointed = content
            turn.files.replace(turn.step, CHECKPOINT_FILE, content)
            turn.files.sync(turn.step, CHECKPOINT_FILE)


COMPONENT: Component[ReplicaManager, Turn] = Component(
    timers={
        CHECKPOINT_TIMER: lambda replicas, turn, _: replicas.on_checkpoint_timer(turn),
        ISR_TIMER: lambda replicas, turn, _: replicas.on_isr_timer(turn),
    },
    answers={
        replica_fetcher.FETCH: lambda replicas, turn, ended, leader: replicas.on_fetched(turn, ended, int(leader)),
        replica_fetcher.LIST: lambda replicas, turn, ended, leader: replicas.on_listed(turn, ended, int(leader)),
        replica_fetcher.EPOCHS: lambda replicas, turn, ended, leader: replicas.on_epochs_listed(
            turn, ended, int(leader)
        ),
        replica_fetcher.TIER: lambda replicas, turn, ended, leader: replicas.on_stored(turn, ended, int(leader)),
        alter_partition.PURPOSE: lambda replicas, turn, ended, _: replicas.on_altered(turn, ended),
    },
)
