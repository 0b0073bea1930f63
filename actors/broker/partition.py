"""One replica of one topic partition: its role, the leader's view of the followers, ISR and high watermark
(``core/.../cluster/Partition.scala``, ``server/.../replica/Replica.java``).

The high watermark of a leader advances in ``Partition.maybe_increment_high_watermark``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.broker import unclean_recovery
from actors.broker.coordinator_common.partitions import UNTIERED_TOPICS
from actors.broker.turn import Turn
from actors.log.batch import Batch
from actors.log.control_records import EndTxnMarker
from actors.log.log_validator import LogConfig
from actors.log.producer_state import TransactionVersion
from actors.log.replica_log import AppendResult, ReplicaLog, told_hash
from actors.log.verification import UNVERIFIED
from actors.metadata.registrations import PartitionRegistration
from actors.node.errors import KafkaError
from actors.node.isolation import READ_COMMITTED
from actors.trace.events import OVERTAKEN, IsrPropose, Lag, PartAssume, RepFetch
from krift.v1.records import RecordBatch

UNKNOWN_OFFSET = -1
ALL_IN_SYNC = -1
"""The acks of an append that the ISR has to have."""


class RemoteReplica(msgspec.Struct):
    """What a leader knows of a follower. ``broker_epoch`` None: the follower has not fetched from this leader.

    ``fetched_epoch``: the leader epoch in which it last fetched (for the trace).
    """

    log_end: int = UNKNOWN_OFFSET
    log_start: int = UNKNOWN_OFFSET
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    last_fetch_ms: int = 0
    last_caught_up_ms: int = 0
    broker_epoch: int | None = None
    fetched_epoch: int = -1

    def is_caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether the follower holds everything, or did so less than ``lag_max_ms`` ago."""
        return self.log_end == leader_end or now_ms - self.last_caught_up_ms <= lag_max_ms


class PendingIsr(msgspec.Struct, frozen=True):
    """An AlterPartition that was not answered yet: the ISR proposed, the state it was proposed on, and the broker
    epochs sent with it."""

    kind: Literal["expand", "shrink"]
    proposal: int
    leader_epoch: int
    partition_epoch: int
    isr: list[int]
    members: dict[int, int]

    def became(self, state: PartitionRegistration) -> bool:
        """Whether a state of the metadata log, in the same leader epoch, is what was asked for."""
        return state.partition_epoch == self.partition_epoch + 1 and set(state.isr) == set(self.isr)


class FollowerFetch(msgspec.Struct, frozen=True, gc=False):
    """What a follower's Fetch says about itself and one partition."""

    replica_id: int
    broker_epoch: int
    current_leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start: int


class Partition(msgspec.Struct):
    """A hosted replica.

    role None: on disk, but not (yet) assigned by metadata. ``isr`` is the committed ISR, as the controller last
    confirmed it, kept by leaders only. ``leader_epoch_start``: log end with which this broker became leader of
    ``leader_epoch``, -1 on followers (Kafka: leaderEpochStartOffset; KIP-207 rests on it). recovering: it was elected
    uncleanly, and serves nobody before the controller knows that its log is in order (``unclean_recovery``).
    """

    tp: str
    log: ReplicaLog
    topic: str = ""
    topic_id: str = ""
    index: int = 0
    role: Literal["leader", "follower"] | None = None
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    leader_epoch_start: int = UNKNOWN_OFFSET
    recovering: bool = False
    replicas: list[int] = []
    isr: list[int] = []
    min_isr: int = 1
    pending: PendingIsr | None = None
    remotes: dict[int, RemoteReplica] = {}

    # ---- questions ---------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """What the partition is called on the disk and in the trace (``MetadataState.key``); ``tp`` is its name."""
        return self.log.tp

    @property
    def is_leader(self) -> bool:
        """Whether this broker believes that it leads."""
        return self.role == "leader"

    @property
    def serves(self) -> bool:
        """Whether it leads, and may do what leaders do."""
        return self.is_leader and not self.recovering

    @property
    def remote_storage(self) -> bool:
        """Whether its log is tiered."""
        return self.log.config.remote_storage

    @property
    def maximal_isr(self) -> list[int]:
        """The ISR that is safe to count for the high watermark: of a pending change, the larger side."""
        if self.pending is not None and self.pending.kind == "expand":
            return self.pending.isr
        return self.isr

    @property
    def effective_min_isr(self) -> int:
        """min.insync.replicas, but never more than there are replicas."""
        return min(self.min_isr, len(self.remotes) + 1)

    @property
    def last_stable_offset(self) -> int:
        """Below it no transaction is open: without transactions the high watermark."""
        return self.log.last_stable_offset

    def last_fetchable_offset(self, isolation: int | None) -> int:
        """How far whoever asks may read (exclusive): a client at an isolation level to the high watermark, or to the
        last stable offset; None, which is a broker, to the log end (``Partition.fetchOffsetForTimestamp``,
        ``FetchIsolation.java``). Fetch and ListOffsets go by this. Where leader epochs end is told of the whole log,
        whoever asks."""
        if isolation is None:
            return self.log.end_offset
        return self.last_stable_offset if isolation == READ_COMMITTED else self.log.high_watermark

    def alive_replicas(self, turn: Turn) -> list[int]:
        """The other replicas whose brokers are alive, as far as this one knows (``MetadataCache.hasAliveBroker``)."""
        brokers = turn.image.brokers
        return [each for each in self.remotes if (broker := brokers.get(each)) is not None and not broker.fenced]

    def low_watermark(self, turn: Turn) -> int:
        """The least log start of this leader and of the other replicas whose brokers are alive, -1 if one has not told
        (``Partition.lowWatermarkIfLeader``)."""
        starts = [self.remotes[each].log_start for each in self.alive_replicas(turn)]
        return min([self.log.start_offset, *starts])

    def check_epoch(self, current_leader_epoch: int, *, leader_only: bool) -> KafkaError:
        """The epoch a request carries comes first, leadership second (E-005)."""
        if current_leader_epoch >= 0:
            if current_leader_epoch < self.leader_epoch:
                return KafkaError.FENCED_LEADER_EPOCH
            if current_leader_epoch > self.leader_epoch:
                return KafkaError.UNKNOWN_LEADER_EPOCH
        if self.role is None or (leader_only and not self.is_leader):
            return KafkaError.NOT_LEADER_OR_FOLLOWER
        return KafkaError.NONE

    # ---- roles -------------------------------------------------------------------------------------------

    def make_leader(self, turn: Turn, state: PartitionRegistration) -> bool:
        """Take up leadership, or only note a new ISR or assignment; False if ``state`` is older than what is known.

        A pending ISR change is given up: the metadata log overtook it. It may bring what was asked for; or the ISR that
        the leader was told of by the controller already, while the proposal, made after that, is on its way: Kafka's
        Partition.makeLeader does so.
        """
        if state.partition_epoch < self.partition_epoch:
            return False
        was_leader = self.is_leader
        new_epoch = state.leader_epoch > self.leader_epoch
        if was_leader and not new_epoch and "isr-in-new-epochs-only" in turn.step.defects:
            return False
        if self.pending is not None and was_leader and not new_epoch and not self.pending.became(state):
            self.record_proposal(turn, self.pending, OVERTAKEN)
        self._assign(turn, state)
        self.isr = list(state.isr)
        markers: list[Batch] = []
        if new_epoch or not was_leader:
            begins_anew = not self.recovering and unclean_recovery.is_due(turn, state)
            markers = unclean_recovery.begin(turn, self.log, state.leader_epoch) if begins_anew else []
            self.leader_epoch_start = self._start_of_epoch(turn)
            if "producers-forgotten-in-office" in turn.step.defects:
                self.log.producers.rebuild([])
            if "epoch-start-unnoted" not in turn.step.defects:
                self.log.epochs.assign(state.leader_epoch, self.log.end_offset)
            keeps = was_leader and not begins_anew and not self._forgets(turn, state)
            all_caught_up = "outsiders-begin-caught-up" in turn.step.defects
            for replica_id, remote in self.remotes.items():
                self._reset_remote(remote, turn.step.wall_ms, keeps, all_caught_up or replica_id in self.isr)
        elif "epoch-start-moves-with-isr" in turn.step.defects:
            self.leader_epoch_start = self.log.end_offset
        self.role = "leader"
        self.leader, self.leader_epoch, self.partition_epoch = state.leader, state.leader_epoch, state.partition_epoch
        self.recovering = unclean_recovery.is_due(turn, state)
        if new_epoch or not was_leader:
            self._record_assumed(turn)
            unclean_recovery.go_on(turn, self.log, markers, self.leader_epoch)
        return True

    def _start_of_epoch(self, turn: Turn) -> int:
        if "epoch-starts-at-watermark" in turn.step.defects:
            return self.log.high_watermark
        if "epoch-starts-with-the-last" in turn.step.defects:
            return self.log.epochs.entries[-1].start_offset if self.log.epochs.entries else self.log.end_offset
        return self.log.end_offset

    def make_follower(self, turn: Turn, state: PartitionRegistration) -> bool:
        """Follow (or, without a leader, wait); returns whether fetching must start anew."""
        if state.partition_epoch < self.partition_epoch:
            return False
        new_epoch = state.leader_epoch > self.leader_epoch
        changed = new_epoch or self.role != "follower"
        self._assign(turn, state)
        self.isr, self.remotes = [], {}
        self.role = "follower"
        self.leader_epoch_start = UNKNOWN_OFFSET
        self.recovering = False
        self.leader, self.leader_epoch, self.partition_epoch = state.leader, state.leader_epoch, state.partition_epoch
        if changed:
            self._record_assumed(turn)
        return changed

    def _assign(self, turn: Turn, state: PartitionRegistration) -> None:
        self.topic, self.topic_id, self.index = state.topic, state.topic_id, state.partition
        self.replicas = list(state.replicas)
        self.pending = None
        self.configure(turn)
        others = [replica for replica in state.replicas if replica != turn.settings.node_id]
        self.remotes = {replica: self.remotes.get(replica, RemoteReplica()) for replica in others}

    def configure(self, turn: Turn) -> None:
        """Read the topic's configuration."""
        settings, defects = turn.settings, turn.step.defects

        def value(key: str, static: int) -> int:
            if "limits-of-brokers-first" in defects:
                static = turn.image.config(settings.node_id, self.topic, key, static)
                return int(turn.image.config(settings.node_id, "", key, static))
            if "retention-of-file" in defects and key in ("retention.ms", "retention.bytes"):
                return static
            return int(turn.image.config(settings.node_id, self.topic, key, static))

        self.min_isr = value("min.insync.replicas", settings.min_insync_replicas)
        if "min-isr-of-its-own" in defects:
            self.min_isr = settings.min_insync_replicas
        enabled = turn.image.config(settings.node_id, self.topic, "remote.storage.enable", False)
        tiered = settings.cluster.remote_store and self.topic not in UNTIERED_TOPICS and bool(enabled)
        limits = settings.log_config
        self.log.config = LogConfig(
            value("max.message.bytes", limits.max_message_bytes),
            value("message.timestamp.before.max.ms", limits.timestamp_before_max_ms),
            value("message.timestamp.after.max.ms", limits.timestamp_after_max_ms),
            value("segment.bytes", limits.segment_bytes),
            value("segment.ms", limits.segment_ms),
            value("retention.bytes", limits.retention_bytes),
            value("retention.ms", limits.retention_ms),
            value("remote.copy.lag.ms", limits.remote_copy_lag_ms),
            value("remote.copy.lag.bytes", limits.remote_copy_lag_bytes),
            value("local.retention.bytes", limits.local_retention_bytes),
            value("local.retention.ms", limits.local_retention_ms),
            tiered,
            bool(turn.image.config(settings.node_id, self.topic, "remote.log.copy.disable", False)),
        )
        self.log.settle_start(turn.step)

    def _forgets(self, turn: Turn, state: PartitionRegistration) -> bool:
        """Whether a leader that is elected again begins anew with its followers: with a mend of reelected-in-place."""
        mend = turn.settings.reelected_in_place
        return mend == "every-epoch" or (mend == "skipped-epoch" and state.leader_epoch > self.leader_epoch + 1)

    def _reset_remote(self, remote: RemoteReplica, now_ms: int, keeps: bool, in_sync: bool) -> None:
        remote.last_caught_up_ms = now_ms if in_sync else 0
        if keeps:
            # Elected again in place: what the followers held is taken to be known (``Partition.makeLeader``). If others
            # led in between, they may have truncated since (finding reelected-in-place).
            remote.leader_end_at_last_fetch = self.log.end_offset
            remote.last_fetch_ms = now_ms if in_sync else 0
            return
        remote.log_start = remote.log_end = remote.leader_end_at_last_fetch = UNKNOWN_OFFSET
        remote.last_fetch_ms = 0
        remote.broker_epoch = None

    def _record_assumed(self, turn: Turn) -> None:
        turn.step.record(
            PartAssume(
                self.key,
                "leader" if self.is_leader else "follower",
                self.leader,
                self.leader_epoch,
                self.partition_epoch,
                self.log.end_offset,
                self.leader_epoch_start,
                self.log.high_watermark,
                turn.image.offset,
                told_hash(self.log.end_ph),
            )
        )

    # ---- high watermark ----------------------------------------------------------------------------------

    def maybe_increment_high_watermark(self, turn: Turn) -> bool:
        """Advance the leader's high watermark to the least log end that counts; True if it moved.

        It stays where it is while the committed ISR is smaller than min.insync.replicas (KIP-966), and it never
        goes back while this broker leads.
        """
        small = len(self.isr) < self.effective_min_isr and "commits-below-min-isr" not in turn.step.defects
        if not self.is_leader or small:
            return False
        new = self.log.end_offset
        counted = [turn.settings.node_id]
        for replica_id, remote in self.remotes.items():
            if "hw-ignores-isr" in turn.step.defects or not self._counts(turn, replica_id, remote):
                continue
            counted.append(replica_id)
            new = min(new, remote.log_end)
        new = self.log.boundary_at_or_below(new)
        if new <= self.log.high_watermark:
            return False
        if "hw-needs-own-epoch" in turn.step.defects and new <= self.leader_epoch_start:
            return False
        self.log.set_high_watermark(turn.step, "leader", self.leader_epoch, new, counted)
        return True

    def _counts(self, turn: Turn, replica_id: int, remote: RemoteReplica) -> bool:
        """Members of the maximal ISR count, and so does who is caught up and will join it soon."""
        if "hw-of-the-caught-up" in turn.step.defects:
            return remote.log_end == self.log.end_offset
        if replica_id in self.maximal_isr:
            return True
        lag_max_ms = turn.settings.replica_lag_time_max_ms
        caught_up = remote.is_caught_up(self.log.end_offset, turn.step.wall_ms, lag_max_ms)
        if "watermark-waits-for-fenced" in turn.step.defects:
            return caught_up
        if "watermark-waits-for-laggards" in turn.step.defects:
            return self._may_join(turn, replica_id, remote)
        return caught_up and self._may_join(turn, replica_id, remote)

    # ---- appending ---------------------------------------------------------------------------------------

    def append(self, turn: Turn, batch: RecordBatch, acks: int, guard: int | None = None) -> AppendResult:
        """A producer's batch, on the leader: NOT_LEADER_OR_FOLLOWER elsewhere, NOT_ENOUGH_REPLICAS for acks=all
        while the committed ISR is too small, or what the log says of the sequence numbers, and by ``guard`` of the
        transaction."""
        if not self.serves and "follower-takes-produce" not in turn.step.defects:
            return AppendResult(KafkaError.NOT_LEADER_OR_FOLLOWER)
        needed = self.effective_min_isr + ("needs-one-replica-more" in turn.step.defects)
        if acks == -1 and len(self.isr) < needed and "append-below-min-isr" not in turn.step.defects:
            if "refuse-after-append" in turn.step.defects:
                self.log.append_as_leader(turn.step, turn.files, batch, self.leader_epoch, guard)
            if "hide-reason" in turn.step.defects:
                return AppendResult(KafkaError.UNKNOWN_SERVER_ERROR)
            return AppendResult(KafkaError.NOT_ENOUGH_REPLICAS)
        return self.log.append_as_leader(turn.step, turn.files, batch, self.leader_epoch, guard)

    def append_transactional(self, turn: Turn, batch: RecordBatch, guard: int | None) -> AppendResult:
        """A batch of a transaction that a coordinator of this broker writes for its producer: without sequence, and
        without waiting for the ISR."""
        if not self.serves:
            return AppendResult(KafkaError.NOT_LEADER_OR_FOLLOWER)
        return self.log.append_transactional(turn.step, turn.files, batch, self.leader_epoch, guard)

    def append_marker(
        self,
        turn: Turn,
        producer: tuple[int, int],
        marker: EndTxnMarker,
        version: TransactionVersion,
        acks: int = ALL_IN_SYNC,
    ) -> AppendResult:
        """The marker that ends a transaction of ``producer`` (id and epoch): refused as a batch is, or by what the log
        says of the epochs."""
        if not self.serves:
            return AppendResult(KafkaError.NOT_LEADER_OR_FOLLOWER)
        if acks == ALL_IN_SYNC and len(self.isr) < self.effective_min_isr:
            return AppendResult(KafkaError.NOT_ENOUGH_REPLICAS)
        uid = turn.transactions.next_uid()
        log = self.log
        return log.append_marker(turn.step, turn.files, producer, marker, uid, self.leader_epoch, version)

    def start_verification(
        self, producer: tuple[int, int], sequence: int, supports_epoch_bump: bool
    ) -> tuple[int, KafkaError]:
        """Begin to verify a transaction of ``producer`` (id and epoch) with its coordinator
        (``Partition.maybeStartTransactionVerification``)."""
        if not self.serves:
            return UNVERIFIED, KafkaError.NOT_LEADER_OR_FOLLOWER
        return self.log.producers.start_verification(*producer, sequence, supports_epoch_bump)

    def has_reached(self, required_offset: int) -> tuple[bool, KafkaError]:
        """Whether acks=all may be answered for everything below ``required_offset``, and with what."""
        if not self.serves:
            return (True, KafkaError.NOT_LEADER_OR_FOLLOWER)
        if self.log.high_watermark < required_offset:
            return (False, KafkaError.NONE)
        if len(self.maximal_isr) < self.effective_min_isr:
            return (True, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return (True, KafkaError.NONE)

    # ---- followers' fetches ------------------------------------------------------------------------------

    def update_follower(self, turn: Turn, fetch: FollowerFetch) -> KafkaError:
        """Take note of a valid fetch of a replica in the assignment; NOT_LEADER_OR_FOLLOWER, and nothing noted, if
        a newer incarnation of that broker is known (E-062)."""
        remote = self.remotes[fetch.replica_id]
        alive_epoch = turn.image.alive_epoch(fetch.replica_id)
        dead = fetch.broker_epoch != -1 and alive_epoch is not None and alive_epoch > fetch.broker_epoch
        if dead and "former-lives-fetch" not in turn.step.defects:
            self.record_fetch(turn, fetch, KafkaError.NOT_LEADER_OR_FOLLOWER)
            return KafkaError.NOT_LEADER_OR_FOLLOWER
        now_ms = turn.step.wall_ms
        leader_end = self.log.end_offset
        if fetch.offset >= leader_end:
            remote.last_caught_up_ms = max(remote.last_caught_up_ms, now_ms)
        elif fetch.offset >= remote.leader_end_at_last_fetch:
            remote.last_caught_up_ms = max(remote.last_caught_up_ms, remote.last_fetch_ms)
        elif fetch.offset > remote.log_end and "caught-up-by-progress" in turn.step.defects:
            remote.last_caught_up_ms = now_ms
        news = (
            remote.log_end != fetch.offset
            or remote.broker_epoch != fetch.broker_epoch
            or remote.fetched_epoch != self.leader_epoch
        )
        remote.log_end = fetch.offset
        remote.log_start = fetch.log_start
        remote.leader_end_at_last_fetch = max(leader_end, remote.leader_end_at_last_fetch)
        remote.last_fetch_ms = now_ms
        remote.broker_epoch = fetch.broker_epoch
        remote.fetched_epoch = self.leader_epoch
        if news:
            self.record_fetch(turn, fetch)
        return KafkaError.NONE

    def record_fetch(
        self,
        turn: Turn,
        fetch: FollowerFetch,
        error: KafkaError = KafkaError.NONE,
        diverging: tuple[int, int] = (-1, -1),
    ) -> None:
        """Put a follower's fetch into the trace."""
        turn.step.record(
            RepFetch(
                self.key,
                fetch.replica_id,
                self.leader_epoch,
                fetch.current_leader_epoch,
                fetch.broker_epoch,
                fetch.offset,
                fetch.last_fetched_epoch,
                diverging[0],
                diverging[1],
                int(error),
            )
        )

    # ---- ISR ---------------------------------------------------------------------------------------------

    def _may_join(self, turn: Turn, replica_id: int, remote: RemoteReplica) -> bool:
        """Unfenced, not shutting down, and fetching under its present broker epoch (KIP-841, KIP-903)."""
        if "isr-with-the-fenced" in turn.step.defects:
            return remote.broker_epoch is not None
        if remote.broker_epoch is None or not turn.image.is_active(replica_id):
            return False
        if "isr-under-unheard-epoch" in turn.step.defects:
            return True
        return remote.broker_epoch == -1 or remote.broker_epoch == turn.image.alive_epoch(replica_id)

    def expanded_isr(self, turn: Turn, replica_id: int) -> list[int] | None:
        """The ISR with ``replica_id``, if it has earned its place: it holds everything below the high watermark, and
        everything that this leader began its epoch with."""
        if self.pending is not None or not self.is_leader or replica_id in self.isr:
            return None
        if "isr-never-expands" in turn.step.defects:
            return None
        remote = self.remotes[replica_id]
        if not self._may_join(turn, replica_id, remote):
            return None
        if remote.log_end < self.log.high_watermark and "isr-below-hw" not in turn.step.defects:
            return None
        if remote.log_end < self.leader_epoch_start and "isr-without-epoch-start" not in turn.step.defects:
            return None
        if "isr-swaps-members" in turn.step.defects:
            return [turn.settings.node_id, replica_id]
        return [*self.isr, replica_id]

    def shrunk_isr(self, turn: Turn) -> list[int] | None:
        """The ISR without the replicas that lag for too long, if there are any."""
        if self.pending is not None or not self.is_leader or "isr-never-shrinks" in turn.step.defects:
            return None
        end, now_ms, lag_max_ms = self.log.end_offset, turn.step.wall_ms, turn.settings.replica_lag_time_max_ms
        if "isr-shrinks-at-once" in turn.step.defects:
            lag_max_ms = -1
        lagging = [
            replica_id
            for replica_id in self.isr
            if replica_id in self.remotes and not self.remotes[replica_id].is_caught_up(end, now_ms, lag_max_ms)
        ]
        return [replica_id for replica_id in self.isr if replica_id not in lagging] if lagging else None

    def propose(self, turn: Turn, isr: list[int], proposal: int) -> PendingIsr:
        """Make ``isr`` the pending ISR under the number ``proposal``."""
        members = {replica_id: self._epoch_of(turn, replica_id) for replica_id in isr}
        kind: Literal["expand", "shrink"] = "expand" if len(isr) > len(self.isr) else "shrink"
        self.pending = PendingIsr(kind, proposal, self.leader_epoch, self.partition_epoch, isr, members)
        gone = [each for each in self.isr if each not in isr and each in self.remotes]
        lagging = {str(each): self._lag_of(turn, each) for each in gone}
        self.record_proposal(turn, self.pending, "proposed", lagging)
        return self.pending

    def _lag_of(self, turn: Turn, replica_id: int) -> Lag:
        remote, now_ms = self.remotes[replica_id], turn.step.wall_ms
        silent_ms = now_ms - remote.last_fetch_ms if remote.broker_epoch is not None else -1
        return Lag(remote.log_end, self.log.end_offset, silent_ms, now_ms - remote.last_caught_up_ms)

    def _epoch_of(self, turn: Turn, replica_id: int) -> int:
        if replica_id == turn.settings.node_id:
            return turn.broker_epoch
        remote = self.remotes.get(replica_id)
        return -1 if remote is None or remote.broker_epoch is None else remote.broker_epoch

    def commit_isr(self, turn: Turn, leader_epoch: int, partition_epoch: int, isr: list[int]) -> bool:
        """The controller accepted the pending ISR; an answer from another leader epoch, or older than what the
        metadata log has brought since, is ignored. Returns whether it was taken."""
        if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        self.pending = None
        self.isr = list(isr)
        self.partition_epoch = partition_epoch
        self.recovering = False
        return True

    def record_proposal(
        self, turn: Turn, pending: PendingIsr, outcome: str, lagging: dict[str, Lag] | None = None
    ) -> None:
        """Put a proposal, or what became of it, into the trace."""
        turn.step.record(
            IsrPropose(
                self.key,
                pending.proposal,
                pending.leader_epoch,
                pending.partition_epoch,
                list(pending.isr),
                {str(replica_id): epoch for replica_id, epoch in pending.members.items()},
                self.log.high_watermark,
                self.leader_epoch_start,
                outcome,
                lagging or {},
            )
        )


def find_partition(turn: Turn, tp: str, topic_id: str = "") -> tuple[Partition | None, KafkaError]:
    """The hosted partition; else NOT_LEADER_OR_FOLLOWER for one that metadata knows, or that this broker is about to
    lead (``recovering``), UNKNOWN_TOPIC_OR_PARTITION for any other. ``topic_id``: of who asks by id; where the name has
    become another topic's, and that is not hosted, UNKNOWN_TOPIC_ID."""
    partition = turn.replicas.partitions.get(tp)
    if partition is not None and partition.recovering:
        return (None, KafkaError.NOT_LEADER_OR_FOLLOWER)
    if partition is not None and partition.role is not None:
        return (partition, KafkaError.NONE)
    known = turn.image.partitions.get(tp)
    if known is not None:
        former = bool(topic_id) and known.topic_id != topic_id
        return (None, KafkaError.UNKNOWN_TOPIC_ID if former else KafkaError.NOT_LEADER_OR_FOLLOWER)
    return (None, KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
