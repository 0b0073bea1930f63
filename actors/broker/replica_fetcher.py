"""Following: one fetcher per leader broker (``AbstractFetcherThread.scala``, ``ReplicaFetcherThread.scala``).

A fetcher has at most one request in flight. A log that parted from the leader's is found out by the Fetch itself
(DivergingEpoch) and cut back; with a leader whose Fetch is older than that, by OffsetForLeaderEpoch before the first
Fetch. A position outside the leader's log is settled with ListOffsets, and one of which remote storage alone has the
record with what is stored there.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.broker.fetch_request import TOPIC_IDS
from actors.broker.list_offsets_answer import TIMEOUT_SINCE
from actors.broker.partition import Partition
from actors.broker.tier_state_machine import TierStateMachine
from actors.broker.turn import Turn
from actors.log.segments import LogBase
from actors.node.component import Component
from actors.node.errors import KafkaError
from actors.node.fetch_session_handler import FetchSessionHandler, PartitionRequest
from actors.node.list_timestamps import EARLIEST, EARLIEST_LOCAL, LATEST
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.spec import node_name, topic_partition
from actors.trace.events import RepTruncate
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.list_offsets import ListOffsetsRequest
from krift.v1.offset_for_leader_epoch import OffsetForLeaderEpochRequest

CONNECTION = "fetcher"
FETCH = "replica-fetch/"
LIST = "replica-list/"
EPOCHS = "replica-epochs/"
TIER = "replica-tier/"
BACKOFF = "fetcher-backoff/"
Told = Literal["diverge", "high-watermark", "out-of-range"]
"""Why a follower cuts its log."""
TRUNCATION_ON_FETCH = 12
"""Version from which on a Fetch finds out where logs part (KIP-595)."""


SESSION_LOST = (KafkaError.NONE, KafkaError.FETCH_SESSION_ID_NOT_FOUND, KafkaError.INVALID_FETCH_SESSION_EPOCH)
"""Errors of a Fetch as a whole after which everything is asked for at once; NONE: the answer fits no session."""


class FetchState(msgspec.Struct):
    """A partition that is being followed. ``run``: number of this attempt at following, so that an answer to an
    earlier one is not taken for one to this. ``truncating``: a leader whose Fetch does not tell must say first where
    the logs part. ``delay_ms``: its last pause, which stays until something is appended: a truncation begins it anew
    (``PartitionFetchState``). ``answered``: a Fetch brought something to append, or nothing, since following began or
    was set right. ``out_of_range``: timestamp to ask the leader for (0: all is well). ``tier``: its next record is in
    remote storage."""

    tp: str
    leader_epoch: int
    run: int
    truncating: bool
    delayed_until_ms: int = 0
    delay_ms: int = 0
    answered: bool = False
    out_of_range: int = 0
    tier: TierStateMachine | None = None

    @property
    def asks_for(self) -> int:
        """The timestamp that the leader is to be asked for, 0 none."""
        return EARLIEST_LOCAL if self.tier is not None and self.tier.local_start < 0 else self.out_of_range


class LeaderFetcher(msgspec.Struct):
    """The partitions followed at one leader, in one fetch session. ``sent``: what the request in flight asked for:
    tp -> (run, offset)."""

    leader: int
    states: dict[str, FetchState] = {}
    busy: bool = False
    sent: dict[str, tuple[int, int]] = {}
    session: FetchSessionHandler = msgspec.field(default_factory=FetchSessionHandler)
    backoff_due_ms: int = -1


class ReplicaFetcherManager(msgspec.Struct):
    """All fetchers, by the leader's id."""

    fetchers: dict[int, LeaderFetcher] = {}
    runs: int = 0

    # ---- what to follow ----------------------------------------------------------------------------------

    def start(self, turn: Turn, partition: Partition) -> None:
        """Follow the leader that ``partition`` names, from where its log ends.

        A log without any leader epoch cannot be compared and is cut to its high watermark first (E-074).
        """
        self.stop(partition.tp)
        if partition.leader < 0 or partition.leader not in turn.image.brokers:
            return
        log = partition.log
        if log.epochs.latest_epoch < 0 or "truncate-to-hw" in turn.step.defects:
            cut(turn, partition, log.high_watermark, "high-watermark")
        self.runs += 1
        fetcher = self.fetchers.get(partition.leader)
        if fetcher is None:
            fetcher = self.fetchers[partition.leader] = LeaderFetcher(partition.leader)
        truncating = log.epochs.latest_epoch >= 0
        fetcher.states[partition.tp] = FetchState(partition.tp, partition.leader_epoch, self.runs, truncating)

    def stop(self, tp: str) -> None:
        """Follow nobody for this partition. A fetcher stays as long as its Fetch is in flight."""
        for leader, fetcher in list(self.fetchers.items()):
            fetcher.states.pop(tp, None)
            if not fetcher.states and not fetcher.busy:
                del self.fetchers[leader]

    # ---- sending -----------------------------------------------------------------------------------------

    def poll(self, turn: Turn) -> None:
        """Send a request for every fetcher that has something to ask and nothing in flight."""
        for fetcher in self.fetchers.values():
            if fetcher.busy or not fetcher.states:
                continue
            now_ms = turn.step.now_ms
            states = [state for state in fetcher.states.values() if state.delayed_until_ms <= now_ms]
            if not states or not turn.net.ready(turn.step, node_name(fetcher.leader), CONNECTION):
                continue
            lost = next((state for state in states if state.asks_for), None)
            if lost is not None:
                self._send_list_offsets(turn, fetcher, turn.replicas.partitions[lost.tp], lost)
                continue
            moved = next((state for state in states if state.tier is not None), None)
            if moved is not None and moved.tier is not None:
                self._read_tier(turn, fetcher, moved, moved.tier)
                continue
            version = turn.net.version(node_name(fetcher.leader), CONNECTION, Api.Fetch)
            if version is None:
                continue
            unsettled = [] if version >= TRUNCATION_ON_FETCH else [state for state in states if state.truncating]
            if unsettled:
                self._send_epochs(turn, fetcher, unsettled)
            else:
                self._send_fetch(turn, fetcher, states, version)

    def _send_fetch(self, turn: Turn, fetcher: LeaderFetcher, states: list[FetchState], version: int) -> None:
        settings = turn.settings
        request = FetchRequest(
            max_wait_ms=settings.replica_fetch_wait_max_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
        )
        if version >= 15:
            request.replica_state = FetchRequest.ReplicaState(
                replica_id=settings.node_id, replica_epoch=turn.broker_epoch
            )
        else:
            request.replica_id = settings.node_id
        partitions, fetcher.sent = turn.replicas.partitions, {}
        wanted: dict[str, PartitionRequest] = {}
        for state in states:
            partition = partitions[state.tp]
            log = partition.log
            end = log.end_offset
            wanted[state.tp] = PartitionRequest(
                partition.topic,
                partition.topic_id if version >= TOPIC_IDS else "",
                partition.index,
                end,
                settings.replica_fetch_max_bytes,
                state.leader_epoch,
                log.epochs.latest_epoch,
                end if "follower-tells-end-for-start" in turn.step.defects else log.start_offset,
            )
            fetcher.sent[state.tp] = (state.run, end)
        fetcher.session.build(request, version, wanted)
        fetcher.busy = True
        peer, purpose = node_name(fetcher.leader), f"{FETCH}{fetcher.leader}"
        turn.net.send(turn.step, peer, CONNECTION, request, version, purpose, settings.replica_socket_timeout_ms)

    def _send_list_offsets(self, turn: Turn, fetcher: LeaderFetcher, partition: Partition, state: FetchState) -> None:
        peer = node_name(fetcher.leader)
        version = turn.net.version(peer, CONNECTION, Api.ListOffsets)
        if version is None:
            return
        request = ListOffsetsRequest(replica_id=turn.settings.node_id)
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition.index, timestamp=state.asks_for)
        request.topics.append(ListOffsetsRequest.ListOffsetsTopic(name=partition.topic, partitions=[asked]))
        if version >= 4:
            asked.current_leader_epoch = state.leader_epoch
        if version >= TIMEOUT_SINCE and turn.settings.kip_1075 == "draft":
            request.timeout_ms = -1  # the proposal's default, where Kafka's is 0
        fetcher.sent = {state.tp: (state.run, partition.log.end_offset)}
        fetcher.busy = True
        purpose = f"{LIST}{fetcher.leader}"
        turn.net.send(turn.step, peer, CONNECTION, request, version, purpose, turn.settings.replica_socket_timeout_ms)

    def _send_epochs(self, turn: Turn, fetcher: LeaderFetcher, states: list[FetchState]) -> None:
        """Ask where the leader's log has the end of each log's last epoch; of a log whose next record is in remote
        storage, of the epoch before that of the leader's own part."""
        peer = node_name(fetcher.leader)
        version = turn.net.version(peer, CONNECTION, Api.OffsetForLeaderEpoch)
        if version is None:
            return
        request = OffsetForLeaderEpochRequest()
        if version >= 3:
            request.replica_id = turn.settings.node_id
        partitions, fetcher.sent = turn.replicas.partitions, {}
        topics: dict[str, OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = {}
        for state in states:
            partition = partitions[state.tp]
            if partition.topic not in topics:
                topics[partition.topic] = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=partition.topic)
                request.topics.append(topics[partition.topic])
            topics[partition.topic].partitions.append(
                OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                    partition=partition.index,
                    current_leader_epoch=state.leader_epoch,
                    leader_epoch=partition.log.epochs.latest_epoch if state.tier is None else state.tier.epoch - 1,
                )
            )
            fetcher.sent[state.tp] = (state.run, partition.log.end_offset)
        fetcher.busy = True
        purpose = f"{EPOCHS}{fetcher.leader}"
        turn.net.send(turn.step, peer, CONNECTION, request, version, purpose, turn.settings.replica_socket_timeout_ms)

    def _read_tier(self, turn: Turn, fetcher: LeaderFetcher, state: FetchState, tier: TierStateMachine) -> None:
        """Go on towards what remote storage has. As in Kafka nothing else is fetched from this leader meanwhile."""
        if tier.segment is None:
            self._send_epochs(turn, fetcher, [state])
            return
        partition = turn.replicas.partitions[state.tp]
        if tier.advance(turn, f"{TIER}{fetcher.leader}"):
            self._take_tier(turn, fetcher, partition, state, tier)
        elif tier.store.call:
            fetcher.busy, fetcher.sent = True, {state.tp: (state.run, partition.log.end_offset)}

    # ---- receiving ---------------------------------------------------------------------------------------

    def on_fetched(self, turn: Turn, ended: Ended, leader: int) -> list[str]:
        """Take the end of a Fetch; the partitions whose log or high watermark changed."""
        fetcher = self._idle(leader)
        sent, fetcher.sent = fetcher.sent, {}
        response: FetchResponse | None = ended.response
        answers = fetcher.session.take(turn.step, ended)
        if answers is None:
            if response is None or response.error_code not in SESSION_LOST:
                self._delay_all(turn, fetcher)
                if "fetcher-gives-up" in turn.step.defects:
                    for tp in sent:
                        fetcher.states.pop(tp, None)
            return []
        changed: list[str] = []
        for tp, data in answers:
            run, offset = sent.get(tp, (-1, -1))
            state, partition = fetcher.states.get(tp), turn.replicas.partitions.get(tp)
            if "answer-of-former-leader" in turn.step.defects and not data.error_code:
                state = next((each.states[tp] for each in self.fetchers.values() if tp in each.states), None)
                run = -1 if state is None else state.run
            if state is None or partition is None or state.run != run or partition.log.end_offset != offset:
                continue
            if self._take(turn, fetcher, partition, state, data):
                changed.append(tp)
        return changed

    def _idle(self, leader: int) -> LeaderFetcher:
        fetcher = self.fetchers[leader]
        fetcher.busy = False
        if not fetcher.states:
            del self.fetchers[leader]
        return fetcher

    def _take(
        self,
        turn: Turn,
        fetcher: LeaderFetcher,
        partition: Partition,
        state: FetchState,
        data: FetchResponse.PartitionData,
    ) -> bool:
        error = KafkaError(data.error_code)
        if error == KafkaError.OFFSET_OUT_OF_RANGE:
            state.out_of_range = LATEST
        elif error == KafkaError.OFFSET_MOVED_TO_TIERED_STORAGE:
            state.tier = TierStateMachine(data.log_start_offset)
        elif error == KafkaError.FENCED_LEADER_EPOCH:
            # Parked as failed until metadata brings another leader epoch.
            del fetcher.states[state.tp]
        elif error:
            self._delay(turn, fetcher, state.tp, state.run)
        elif data.diverging_epoch is not None:
            if "watermark-before-truncation" in turn.step.defects:
                append_fetched(turn, partition, data)
            truncate_diverged(turn, partition, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            self._pause_again(turn, fetcher, state)
            return True
        else:
            return self._append(turn, partition, state, data)
        return False

    @staticmethod
    def _append(turn: Turn, partition: Partition, state: FetchState, data: FetchResponse.PartitionData) -> bool:
        end = partition.log.end_offset
        changed = append_fetched(turn, partition, data)
        if partition.log.end_offset != end or not state.answered:
            state.answered, state.delay_ms = True, 0
        return changed

    def on_listed(self, turn: Turn, ended: Ended, leader: int) -> list[str]:
        """Take the leader's answer about its log end or start after OFFSET_OUT_OF_RANGE.

        A log that is longer than the leader's is cut to the leader's end: that may lose data, as documented. One that
        ends before the leader's begins anew there (``AbstractFetcherThread.fetchOffsetAndTruncate``).
        """
        fetcher = self._idle(leader)
        sent, fetcher.sent = fetcher.sent, {}
        [(tp, (run, end))] = sent.items()
        state, partition = fetcher.states.get(tp), turn.replicas.partitions.get(tp)
        if state is None or partition is None or state.run != run or partition.log.end_offset != end:
            return []
        data = None if ended.response is None else ended.response.topics[0].partitions[0]
        if data is None or data.error_code:
            if data is not None and data.error_code == KafkaError.FENCED_LEADER_EPOCH:
                del fetcher.states[tp]
            else:
                self._delay(turn, fetcher, tp, run)
            return []
        if state.tier is not None:
            state.tier.local_start, state.tier.epoch = data.offset, data.leader_epoch
            if state.tier.epoch == 0:
                self._locate(turn, fetcher, partition, state, state.tier, 0)
            return []
        if state.out_of_range == LATEST and data.offset >= end and "restart-at-leaders-end" not in turn.step.defects:
            state.out_of_range = EARLIEST
            return []
        log = partition.log
        if state.out_of_range == LATEST and data.offset < end:
            cut(turn, partition, data.offset, "out-of-range", (-1, data.offset))
        elif data.offset > end:
            base = LogBase(data.offset, data.prefix_hash)
            log.truncate_fully_and_start_at(turn.step, turn.files, base, partition.leader_epoch, "out-of-range")
        state.out_of_range = 0
        state.answered, state.delay_ms = True, 0
        return [tp]

    def on_epochs_listed(self, turn: Turn, ended: Ended, leader: int) -> list[str]:
        """Take the leader's answer about the ends of epochs: cut each log back to where it may meet the leader's."""
        fetcher = self._idle(leader)
        sent, fetcher.sent = fetcher.sent, {}
        if ended.response is None:
            for tp, (run, _) in sent.items():
                self._delay(turn, fetcher, tp, run)
            return []
        changed: list[str] = []
        for topic in ended.response.topics:
            for data in topic.partitions:
                tp = topic_partition(topic.topic, data.partition)
                run, _ = sent.get(tp, (-1, -1))
                state, partition = fetcher.states.get(tp), turn.replicas.partitions.get(tp)
                if state is None or partition is None or state.run != run:
                    continue
                if data.error_code == KafkaError.FENCED_LEADER_EPOCH:
                    del fetcher.states[tp]
                elif data.error_code:
                    self._delay(turn, fetcher, tp, run)
                elif state.tier is not None:
                    epoch = state.tier.epoch_before(data.leader_epoch, data.end_offset)
                    self._locate(turn, fetcher, partition, state, state.tier, epoch)
                else:
                    if settle_epoch(turn, partition, state, data.leader_epoch, data.end_offset):
                        changed.append(tp)
                    self._pause_again(turn, fetcher, state)
        return changed

    def _locate(
        self,
        turn: Turn,
        fetcher: LeaderFetcher,
        partition: Partition,
        state: FetchState,
        tier: TierStateMachine,
        epoch: int,
    ) -> None:
        if not tier.locate(turn, partition, epoch):
            self._delay(turn, fetcher, state.tp, state.run)

    def on_stored(self, turn: Turn, ended: Ended, leader: int) -> list[str]:
        """Take the remote store's answer about the copy behind which the leader's own part begins."""
        fetcher = self._idle(leader)
        sent, fetcher.sent = fetcher.sent, {}
        [(tp, (run, end))] = sent.items()
        state, partition = fetcher.states.get(tp), turn.replicas.partitions.get(tp)
        if state is None or partition is None or state.run != run or partition.log.end_offset != end:
            return []
        assert state.tier is not None, "it was asked for the sake of that"
        state.tier.store.on_ended(ended)
        return self._take_tier(turn, fetcher, partition, state, state.tier)

    def _take_tier(
        self, turn: Turn, fetcher: LeaderFetcher, partition: Partition, state: FetchState, tier: TierStateMachine
    ) -> list[str]:
        done = tier.take(turn, partition)
        if done is None:
            return []
        if not done:
            self._delay(turn, fetcher, state.tp, state.run)
            return []
        state.tier, state.answered, state.delay_ms = None, True, 0
        return [state.tp]

    # ---- back-off ----------------------------------------------------------------------------------------

    def _delay_all(self, turn: Turn, fetcher: LeaderFetcher) -> None:
        """A Fetch failed as a whole: every partition of its leader pauses that does not do so already, also one that
        came after it was sent (``AbstractFetcherThread.processFetchRequest``)."""
        for tp, state in fetcher.states.items():
            if not state.delayed_until_ms:
                self._delay(turn, fetcher, tp, state.run)

    def _delay(self, turn: Turn, fetcher: LeaderFetcher, tp: str, run: int) -> None:
        state = fetcher.states.get(tp)
        if state is None or state.run != run:
            return
        state.tier = None
        state.delay_ms = turn.settings.replica_fetch_backoff_ms
        self._pause_again(turn, fetcher, state)

    @staticmethod
    def _pause_again(turn: Turn, fetcher: LeaderFetcher, state: FetchState) -> None:
        """Pause for as long as last time, if nothing was appended since. Kafka does so after a truncation, too: the
        pause is taken over into the new state, which counts it from now."""
        if not state.delay_ms:
            return
        state.delayed_until_ms = turn.step.now_ms + state.delay_ms
        if fetcher.backoff_due_ms < 0:
            fetcher.backoff_due_ms = state.delayed_until_ms
            turn.step.set_timer(f"{BACKOFF}{fetcher.leader}", state.delay_ms)

    def on_timer(self, turn: Turn, leader: int) -> None:
        """The earliest pause of a fetcher is over."""
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            return
        now_ms = turn.step.now_ms
        due_ms, fetcher.backoff_due_ms = fetcher.backoff_due_ms, -1
        later = []
        for state in fetcher.states.values():
            # A clock that was set back must not prolong the pause that this timer measured.
            if 0 < state.delayed_until_ms <= max(now_ms, due_ms):
                state.delayed_until_ms = 0
            elif state.delayed_until_ms:
                later.append(state.delayed_until_ms)
        if later:
            fetcher.backoff_due_ms = min(later)
            turn.step.set_timer(f"{BACKOFF}{leader}", max(0, min(later) - now_ms))


COMPONENT: Component[ReplicaFetcherManager, Turn] = Component(
    timers={BACKOFF: lambda fetchers, turn, leader: fetchers.on_timer(turn, int(leader))}
)
"""What leaders answer is the replica manager's to take, as consumers may wait for it."""


def on_leadership(turn: Turn, partition: Partition) -> None:
    """Follow the leader of a new epoch, unless that is this broker."""
    replicas, tp = turn.replicas, partition.tp
    if partition.is_leader or replicas.stays_out(turn, turn.image.partitions[tp]):
        replicas.fetchers.stop(tp)
    else:
        replicas.fetchers.start(turn, partition)


def append_fetched(turn: Turn, partition: Partition, data: FetchResponse.PartitionData) -> bool:
    """Append what the leader sent and take over its high watermark, capped by the own log end, which may go down, and
    its log start, which may not; whether something was appended, or the high watermark moved in any of it."""
    log = partition.log
    was = log.high_watermark
    log.take_prefix_hash(turn.step, turn.files, data.prefix_hash)
    if log.start_offset < data.log_start_offset == log.end_offset:
        begin_at_leaders_start(turn, partition, data)
    appended = log.append_as_follower(turn.step, turn.files, list(data.records), partition.leader_epoch)
    new = log.bounded_high_watermark(data.high_watermark)
    log.set_high_watermark(turn.step, "follower", partition.leader_epoch, new, [])
    if "follower-keeps-log-start" not in turn.step.defects:
        log.increment_start_offset(turn.step, min(data.log_start_offset, log.high_watermark), "leader")
    return appended > 0 or new != was


def begin_at_leaders_start(turn: Turn, partition: Partition, data: FetchResponse.PartitionData) -> None:
    """Nothing of this log is left, as the leader's begins where it ends. What lies above the high watermark the leader
    may never have had: it answers where its log begins, whatever was there, when it is asked about an epoch that is
    older than its log (``LeaderEpochFileCache.endOffsetFor``)."""
    log = partition.log
    if turn.settings.uncommitted_duplicates == "forget" and log.high_watermark < log.end_offset:
        base = LogBase(log.end_offset, data.prefix_hash)
        log.truncate_fully_and_start_at(turn.step, turn.files, base, partition.leader_epoch, "truncation")
    else:
        log.begin_behind_all(turn.step, turn.files, data.prefix_hash, partition.leader_epoch)


def settle_epoch(turn: Turn, partition: Partition, state: FetchState, epoch: int, end: int) -> bool:
    """Act on the leader's (epoch, end) for this log's last epoch; whether the log was cut.

    If the leader knows nothing of the epoch only what is committed can be kept. If this log lacks the epoch that the
    leader named, the question is asked again about what is left."""
    log = partition.log
    was = log.end_offset
    if end < 0:
        cut(turn, partition, log.high_watermark, "high-watermark")
        state.truncating = False
    else:
        state.truncating = not truncate_diverged(turn, partition, epoch, end)
    if log.epochs.latest_epoch < 0:
        state.truncating = False
    return log.end_offset != was


def truncate_diverged(turn: Turn, partition: Partition, epoch: int, end: int) -> bool:
    """Cut the log back to where it may meet the leader's, whose epoch ``epoch`` (the largest at or below the last
    one here) ends at ``end``. False if this log has no such epoch: the next Fetch, or the next
    OffsetForLeaderEpoch, finds out more."""
    log = partition.log
    own_epoch, own_end = log.epoch_end_offset(epoch)
    if "truncate-whole-epoch" in turn.step.defects:
        own_end = log.epochs.end_offset_for(own_epoch - 1, log.end_offset)[1]
    if own_epoch < 0:
        to = min(end, log.end_offset)
    elif own_epoch != epoch:
        to = min(own_end, log.end_offset)
    else:
        to = min(own_end, end, log.end_offset)
    if "diverging-epoch-ignored" in turn.step.defects:
        to = min(end, log.end_offset)
    if "truncate-fully" in turn.step.defects:
        to = log.start_offset
    cut(turn, partition, to, "diverge", (epoch, end))
    return own_epoch in (-1, epoch)


def cut(turn: Turn, partition: Partition, to: int, reason: Told, told: tuple[int, int] = (-1, -1)) -> None:
    """Truncate by what the leader ``told``, and drop leader epochs that began at or behind the end: one may have begun
    without a record."""
    log = partition.log
    was, kept = log.end_offset, list(log.epochs.entries)
    log.truncate_to(turn.step, turn.files, to, reason, partition.leader_epoch)
    log.epochs.truncate_from_end(log.end_offset)
    if "epochs-outlive-truncation" in turn.step.defects:
        log.epochs.entries = kept
    if told != (-1, -1) or log.end_offset != was:
        latest = log.epochs.latest_epoch
        turn.step.record(RepTruncate(partition.key, reason, partition.leader_epoch, *told, was, log.end_offset, latest))
