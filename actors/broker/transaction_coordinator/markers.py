"""Telling partitions how a transaction ended (``TransactionMarkerChannelManager.scala``,
``TransactionMarkerRequestCompletionHandler.scala``)."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.broker.transaction_coordinator.shard import TransactionShard
from actors.broker.transaction_coordinator.transaction_log import topics_of
from actors.broker.transaction_coordinator.transaction_metadata import TransactionMetadata, TxnTransitMetadata
from actors.broker.transaction_coordinator.transaction_state import COMPLETE_COMMIT, PREPARED
from actors.broker.transaction_coordinator.transitions import DelayedTransition, write, written
from actors.broker.turn import Turn
from actors.log.producer_state import TransactionVersion
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.spec import node_name, topic_partition
from actors.trace.events import TxnMarkers
from krift.v1.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse

CONNECTION = "markers"
PURPOSE = "transactions/markers/"
RETRY = "transactions/markers-retry"
RETRY_MS = 100
"""Pause before what failed is tried again. Kafka goes on at once, as fast as the network does."""
WITH_TRANSACTION_VERSION = 2

AGAIN = (
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError.NOT_LEADER_OR_FOLLOWER,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.KAFKA_STORAGE_ERROR,
)
"""The partition is told once more, at its present leader."""
CANCEL = (KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.TRANSACTION_COORDINATOR_FENCED)
"""No partition of the transaction is told any longer: another coordinator does, or nobody."""
GONE = (KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT, KafkaError.UNSUPPORTED_VERSION)
"""The partition cannot be told, so that nothing of the transaction can be in it."""

Outcome = Literal["sent", "done", "gone", "dropped", "again", "cancelled"]


class PendingCompleteTxn(msgspec.Struct, frozen=True):
    """A transaction whose partitions are being told. ``tp``, ``coordinator_epoch``: who decided that; ``transit``: what
    the transactional id becomes once all of them know."""

    transactional_id: str
    tp: str
    coordinator_epoch: int
    transit: TxnTransitMetadata


class MarkerEntry(msgspec.Struct, frozen=True):
    """A marker for some partitions of a transaction."""

    pending: PendingCompleteTxn
    producer_id: int
    producer_epoch: int
    commit: bool
    version: TransactionVersion
    partitions: list[str]


class SentMarkers(msgspec.Struct, frozen=True):
    """A WriteTxnMarkers that is under way."""

    broker: int
    entries: list[MarkerEntry]


class DelayedCompletion(DelayedTransition):
    """A transaction that is complete once that is committed."""

    def retries(self, error: KafkaError) -> bool:
        """It has to be written, sooner or later."""
        return error == KafkaError.COORDINATOR_NOT_AVAILABLE

    def finish(self, context: Turn, error: KafkaError) -> None:
        """Another coordinator that has read the log goes on with it."""
        if self.retries(error):
            pending = PendingCompleteTxn(self.transactional_id, self.tp, self.coordinator_epoch, self.transit)
            context.transactions.markers.append_again(context, pending)


class MarkerChannelManager(msgspec.Struct):
    """``pending``: transactional id -> the transaction whose partitions are being told. ``queued``: markers for the
    leaders that their partitions have by then. ``in_flight``: by a number. ``appends``: completions to be written
    again. ``numbers``: how many requests there were. ``failed``: markers that rest until the pause is over."""

    pending: dict[str, PendingCompleteTxn] = {}
    queued: list[MarkerEntry] = []
    failed: list[MarkerEntry] = []
    appends: list[PendingCompleteTxn] = []
    in_flight: dict[str, SentMarkers] = {}
    numbers: int = 0

    # ---- what is to be told ------------------------------------------------------------------------------

    def add_txn_markers_to_send(
        self, turn: Turn, shard: TransactionShard, metadata: TransactionMetadata, transit: TxnTransitMetadata
    ) -> None:
        """A transaction is decided: tell its partitions, and complete it at once if there are none."""
        pending = PendingCompleteTxn(metadata.transactional_id, shard.tp, shard.epoch, transit)
        self.pending[metadata.transactional_id] = pending
        entry = MarkerEntry(
            pending,
            metadata.producer_id,
            metadata.producer_epoch,
            transit.state == COMPLETE_COMMIT,
            metadata.client_version,
            list(metadata.partitions),
        )
        if "marker-of-other-kind" in turn.step.defects:
            entry = msgspec.structs.replace(entry, commit=not entry.commit)
        if "first-partition-told-alone" in turn.step.defects:
            del metadata.partitions[1:]
            entry = msgspec.structs.replace(entry, partitions=entry.partitions[:1])
        if entry.partitions:
            self.queued.append(entry)
        self.maybe_write_txn_completion(turn, metadata.transactional_id)

    def remove_markers_for(self, tp: str) -> None:
        """This broker no longer coordinates a partition of the transaction log, or in another epoch."""
        self.pending = {key: each for key, each in self.pending.items() if each.tp != tp}
        self.queued = [entry for entry in self.queued if entry.pending.tp != tp]
        self.failed = [entry for entry in self.failed if entry.pending.tp != tp]
        self.appends = [each for each in self.appends if each.tp != tp]

    def maybe_write_txn_completion(self, turn: Turn, transactional_id: str) -> None:
        """Complete a transaction whose partitions have all been told."""
        pending = self.pending.get(transactional_id)
        found = None if pending is None else _coordinated(turn, pending)
        if pending is None or found is None or found[1].partitions:
            return
        del self.pending[transactional_id]
        shard, _ = found
        written(turn, DelayedCompletion(*write(turn, shard, transactional_id, pending.transit)))

    def append_again(self, turn: Turn, pending: PendingCompleteTxn) -> None:
        """A completion could not be written."""
        self.appends.append(pending)
        turn.step.set_timer(RETRY, RETRY_MS)

    # ---- sending -----------------------------------------------------------------------------------------

    def poll(self, turn: Turn) -> None:
        """Send what is queued to the leaders of now. What belongs to a partition without one waits."""
        if not self.queued:
            return
        by_broker: dict[int, list[MarkerEntry]] = {}
        waiting: list[MarkerEntry] = []
        entries, self.queued = self.queued, []
        for entry in entries:
            for leader, partitions in self._leaders(turn, entry).items():
                part = msgspec.structs.replace(entry, partitions=partitions)
                (waiting if leader < 0 else by_broker.setdefault(leader, [])).append(part)
        for broker, parts in by_broker.items():
            if not self._send(turn, broker, parts):
                waiting += parts
        self.queued = waiting + self.queued

    def _leaders(self, turn: Turn, entry: MarkerEntry) -> dict[int, list[str]]:
        """The partitions of a marker by their leaders, -1 where there is none. One that is no more counts as told."""
        by_leader: dict[int, list[str]] = {}
        gone: list[str] = []
        for tp in entry.partitions:
            known = turn.image.partitions.get(tp)
            if known is None:
                gone.append(tp)
            else:
                leader = known.leader if known.leader in turn.image.brokers else -1
                by_leader.setdefault(leader, []).append(tp)
        found = _coordinated(turn, entry.pending) if gone else None
        if found is not None:
            for tp in gone:
                found[1].remove_partition(tp)
            _record(turn, entry, -1, gone, "gone")
            self.maybe_write_txn_completion(turn, entry.pending.transactional_id)
        return by_leader

    def _send(self, turn: Turn, broker: int, entries: list[MarkerEntry]) -> bool:
        peer = node_name(broker)
        if not turn.net.ready(turn.step, peer, CONNECTION):
            return False
        version = turn.net.version(peer, CONNECTION, Api.WriteTxnMarkers)
        if version is None:
            return False
        request = WriteTxnMarkersRequest()
        for entry in entries:
            marker = WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                transaction_result=entry.commit,
                topics=topics_of(entry.partitions),
                coordinator_epoch=entry.pending.coordinator_epoch,
            )
            if "markers-of-no-coordinator" in turn.step.defects:
                marker.coordinator_epoch = 0
            if version >= WITH_TRANSACTION_VERSION:
                marker.transaction_version = entry.version
            request.markers.append(marker)
            _record(turn, entry, broker, entry.partitions, "sent")
        self.numbers += 1
        self.in_flight[str(self.numbers)] = SentMarkers(broker, entries)
        turn.net.send(turn.step, peer, CONNECTION, request, version, f"{PURPOSE}{self.numbers}")
        return True

    # ---- what comes of it --------------------------------------------------------------------------------

    def on_ended(self, turn: Turn, ended: Ended, number: str) -> None:
        """Take the answer of a broker, for each transaction that was asked for; without one ask again."""
        sent = self.in_flight.pop(number)
        response: WriteTxnMarkersResponse | None = ended.response
        for entry in sent.entries:
            if _coordinated(turn, entry.pending) is None:
                self._cancel(turn, entry, sent.broker)
            elif response is None and "markers-counted-unanswered" in turn.step.defects:
                self._take(turn, entry, sent.broker, dict.fromkeys(entry.partitions, KafkaError.NONE))
            elif response is None and "markers-lost-at-disconnect" in turn.step.defects:
                continue
            elif response is None:
                self._again(turn, entry, sent.broker, entry.partitions, {})
            else:
                self._take(turn, entry, sent.broker, _errors(response, entry))

    def _take(self, turn: Turn, entry: MarkerEntry, broker: int, errors: dict[str, KafkaError]) -> None:
        found = _coordinated(turn, entry.pending)
        assert found is not None, "this broker coordinates the transaction"
        _, metadata = found
        parts: dict[Outcome, list[str]] = {"done": [], "gone": [], "dropped": [], "again": [], "cancelled": []}
        for tp, error in errors.items():
            parts[_outcome(turn, tp, error)].append(tp)
        for outcome in _TOLD:
            told = parts[outcome]
            if told and metadata.state in PREPARED:
                for tp in told:
                    metadata.remove_partition(tp)
                _record(turn, entry, broker, told, outcome, errors)
                if "complete-after-first-answer" in turn.step.defects:
                    metadata.partitions.clear()
        if parts["cancelled"]:
            self._cancel(turn, entry, broker, errors)
        elif parts["again"]:
            self._again(turn, entry, broker, parts["again"], errors)
        else:
            self.maybe_write_txn_completion(turn, entry.pending.transactional_id)

    def _cancel(self, turn: Turn, entry: MarkerEntry, broker: int, errors: dict[str, KafkaError] | None = None) -> None:
        """Give the transaction up, unless it is another one by now: it stays as it is decided, with its completion
        pending, until somebody reads the log again."""
        if self.pending.get(entry.pending.transactional_id) == entry.pending:
            del self.pending[entry.pending.transactional_id]
        _record(turn, entry, broker, entry.partitions, "cancelled", errors)

    def _again(
        self, turn: Turn, entry: MarkerEntry, broker: int, partitions: list[str], errors: dict[str, KafkaError]
    ) -> None:
        self.failed.append(msgspec.structs.replace(entry, partitions=list(partitions)))
        turn.step.set_timer(RETRY, RETRY_MS)
        _record(turn, entry, broker, partitions, "again", errors)

    def on_timer(self, turn: Turn) -> None:
        """The pause after a failure is over."""
        self.queued += self.failed
        appends, self.appends = self.appends, []
        if "failed-markers-kept" not in turn.step.defects:
            self.failed = []
        elif self.failed:
            turn.step.set_timer(RETRY, RETRY_MS)
        for pending in appends:
            found = _coordinated(turn, pending)
            if found is not None:
                shard, _ = found
                written(turn, DelayedCompletion(*write(turn, shard, pending.transactional_id, pending.transit)))


_TOLD: tuple[Outcome, ...] = ("done", "gone", "dropped")
"""With these a partition is in the transaction no more."""


def _outcome(turn: Turn, tp: str, error: KafkaError) -> Outcome:
    """What a partition's answer to a marker means."""
    if error == KafkaError.NOT_LEADER_OR_FOLLOWER and "refused-markers-given-up" in turn.step.defects:
        return "gone"
    if error == KafkaError.INVALID_PRODUCER_EPOCH and turn.settings.refused_marker == "drop":
        return "dropped"
    if error in CANCEL:
        return "cancelled"
    if error in AGAIN:
        return "again"
    assert not error or error in GONE, f"{tp} refused a marker with {error.name}"
    return "gone" if error else "done"


def _coordinated(turn: Turn, pending: PendingCompleteTxn) -> tuple[TransactionShard, TransactionMetadata] | None:
    """The transaction, if this broker still coordinates it in the epoch in which it was decided."""
    shard, _ = turn.transactions.find(turn, pending.transactional_id)
    metadata = None if shard is None else shard.transactions.get(pending.transactional_id)
    if shard is None or metadata is None or shard.epoch != pending.coordinator_epoch:
        return None
    return shard, metadata


def _errors(response: WriteTxnMarkersResponse, entry: MarkerEntry) -> dict[str, KafkaError]:
    """What a broker says of the partitions of a marker."""
    found = {
        topic_partition(topic.name, partition.partition_index): KafkaError(partition.error_code)
        for marker in response.markers
        if marker.producer_id == entry.producer_id
        for topic in marker.topics
        for partition in topic.partitions
    }
    return {tp: found[tp] for tp in entry.partitions}


def _record(
    turn: Turn,
    entry: MarkerEntry,
    broker: int,
    partitions: list[str],
    outcome: Outcome,
    errors: dict[str, KafkaError] | None = None,
) -> None:
    told = {tp: int(error) for tp, error in (errors or {}).items() if error and tp in partitions}
    turn.step.record(
        TxnMarkers(
            entry.pending.tp,
            entry.pending.transactional_id,
            entry.producer_id,
            entry.producer_epoch,
            entry.commit,
            entry.pending.coordinator_epoch,
            broker,
            list(partitions),
            outcome,
            told,
        )
    )
