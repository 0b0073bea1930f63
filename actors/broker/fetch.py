"""Serving Fetch to followers and consumers: what one partition answers, and how a request waits
(``core/.../server/ReplicaManager.scala`` readFromLog, ``DelayedFetch.scala``)."""

from __future__ import annotations

from typing import ClassVar

from actors.broker.current_leader import current_leader
from actors.broker.fetch_request import TOPIC_IDS, FetchItem, FetchParams, ReadResult
from actors.broker.partition import Partition, find_partition
from actors.broker.purgatory import APPENDED, READABLE
from actors.broker.turn import Turn
from actors.log.replica_log import ReplicaLog
from actors.node.errors import KafkaError
from actors.node.isolation import READ_COMMITTED
from actors.node.messages import check_fields
from actors.node.purgatory import PREFIX, DelayedOperation, Key
from actors.trace.events import FetchRefused, FetchTold
from krift.v1.common import NodeEndpoint
from krift.v1.fetch import FetchResponse

OF_THE_LEADER = (KafkaError.NOT_LEADER_OR_FOLLOWER, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH)
"""Refusals by who leads, and in which leader epoch."""


def read_partition(
    turn: Turn, params: FetchParams, item: FetchItem, max_bytes: int, at_least_one: bool = True
) -> ReadResult:
    """Read at most ``max_bytes``, but perhaps ``at_least_one`` batch, without changing anything.

    Between what may be read and the log end the answer is empty, beyond it OFFSET_OUT_OF_RANGE (E-016).
    """
    result = ReadResult(item, max_bytes=min(item.max_bytes, max_bytes), at_least_one=at_least_one)
    if not item.tp:
        result.error = KafkaError.UNKNOWN_TOPIC_ID
        return result
    partition, result.error = find_partition(turn, item.tp, item.topic_id)
    if partition is None:
        return result
    result.partition = partition
    result.error = _check(partition, params, item)
    fenced = result.error == KafkaError.FENCED_LEADER_EPOCH
    if fenced and partition.is_leader and "fetch-unfenced" in turn.step.defects:
        result.error = KafkaError.NONE
    if result.error in OF_THE_LEADER and not params.from_follower and "consumers-unfenced" in turn.step.defects:
        result.error = KafkaError.NONE
    if result.error:
        return result
    log = partition.log
    result.high_watermark, result.log_start = log.high_watermark, log.start_offset
    result.last_stable_offset = partition.last_stable_offset
    if item.last_fetched_epoch >= 0:
        result.error, result.diverging = divergence(turn, partition, item.offset, item.last_fetched_epoch)
        if result.diverging is not None:
            return result
    start = log.start_offset
    if "below-start-served" in turn.step.defects and not params.from_follower:
        start = min(start, log.base.offset)
    if not start <= item.offset <= log.end_offset:
        result.error = KafkaError.OFFSET_OUT_OF_RANGE
    elif log.start_offset <= item.offset < log.local_start_offset:
        result.error = _moved(turn, params)
        result.valid = not result.error
        result.remote = result.valid and result.max_bytes > 0
        return result
    if result.error:
        return result
    if "start-out-of-range" in turn.step.defects and 0 < item.offset == log.start_offset and not params.from_follower:
        result.error = KafkaError.OFFSET_OUT_OF_RANGE
    if "range-ends-before-end" in turn.step.defects and log.high_watermark < item.offset == log.end_offset:
        result.error = KafkaError.NONE if params.from_follower else KafkaError.OFFSET_OUT_OF_RANGE
    result.valid = not result.error
    limit = partition.last_fetchable_offset(params.isolation)
    if "fetch-past-hw" in turn.step.defects:
        limit = log.end_offset
    if "open-transactions-fetched" in turn.step.defects and not params.from_follower:
        limit = log.high_watermark
    result.beyond = item.offset > limit and turn.settings.spinning_consumer == "kafka"
    result.segment, end = log.segment_around(item.offset)
    if item.offset < limit:
        _read(result, log, min(limit, end))
        if "fetch-drops-batch" in turn.step.defects and not params.from_follower:
            del result.batches[1:-1:2]
        if result.batches and params.isolation == READ_COMMITTED:
            result.aborted = log.aborted.collect(item.offset, result.batches[-1].end_offset)
    return result


def _read(result: ReadResult, log: ReplicaLog, limit: int) -> None:
    """Read below ``limit``, not beyond the end of a segment (``LocalLog.read``)."""
    result.batches = log.read(result.item.offset, limit, result.max_bytes, result.at_least_one)
    result.size_bytes = sum(batch.size_bytes for batch in result.batches)
    if result.batches and result.batches[-1].end_offset < limit:
        result.size_bytes = max(result.size_bytes, result.max_bytes)


def _moved(turn: Turn, params: FetchParams) -> KafkaError:
    """What is told of an offset that remote storage alone has: clients get the record from there, followers do not
    (``ReplicaManager.handleOffsetOutOfRangeError``), whatever the version of the Fetch."""
    if not params.from_follower:
        return KafkaError.NONE
    unsaid = "moved-unsaid" in turn.step.defects
    return KafkaError.OFFSET_OUT_OF_RANGE if unsaid else KafkaError.OFFSET_MOVED_TO_TIERED_STORAGE


def _check(partition: Partition, params: FetchParams, item: FetchItem) -> KafkaError:
    if params.version >= TOPIC_IDS and partition.topic_id != item.topic_id:
        return KafkaError.INCONSISTENT_TOPIC_ID
    error = partition.check_epoch(item.current_leader_epoch, leader_only=params.leader_only)
    if error or not params.from_follower or params.replica_id in partition.remotes:
        return error
    # A replica that is not in the assignment may be ahead of this broker's metadata (E-059).
    known = item.current_leader_epoch >= 0
    return KafkaError.UNKNOWN_LEADER_EPOCH if known else KafkaError.NOT_LEADER_OR_FOLLOWER


def divergence(
    turn: Turn, partition: Partition, offset: int, last_fetched_epoch: int
) -> tuple[KafkaError, tuple[int, int] | None]:
    """Where the fetcher's log parts from this one: (epoch, end) if it does, OFFSET_OUT_OF_RANGE where this log
    cannot tell, or where the offset lies below the log start (that check wins, E-064)."""
    epoch, end = partition.log.epoch_end_offset(last_fetched_epoch)
    if epoch < 0 or end < 0 or offset < partition.log.start_offset:
        return (KafkaError.OFFSET_OUT_OF_RANGE, None)
    if epoch >= last_fetched_epoch and end >= offset:
        return (KafkaError.NONE, None)
    if "diverging-unsaid" in turn.step.defects:
        return (KafkaError.NONE, None)
    if "diverging-out-of-range" in turn.step.defects:
        return (KafkaError.OFFSET_OUT_OF_RANGE, None)
    if "diverging-at-epoch-start" in turn.step.defects:
        end = max(partition.log.epoch_end_offset(epoch - 1)[1], 0)
    return (KafkaError.NONE, (epoch, end))


def read_all(turn: Turn, params: FetchParams, items: list[FetchItem]) -> list[ReadResult]:
    """Read every partition within the request's limit; the first batch that is found goes out whatever its size. What
    is to be read from remote storage counts with all that it may be (``ReplicaManager.readFromLog``)."""
    results: list[ReadResult] = []
    left = params.max_bytes
    found = False
    for item in items:
        result = read_partition(turn, params, item, left, not found)
        size = result.max_bytes if result.remote else result.size_bytes
        found = found or size > 0
        left = max(0, left - size)
        results.append(result)
    return results


def must_answer(params: FetchParams, results: list[ReadResult], now_ms: int) -> bool:
    """Whether a Fetch is answered at once: enough bytes, an error, a divergence, a position beyond what may be read,
    nothing asked, or no time to wait."""
    if params.deadline_ms <= now_ms or not results:
        return True
    size = 0
    for result in results:
        if result.error or result.diverging is not None or result.beyond:
            return True
        size += result.size_bytes
    return size >= params.min_bytes


def refuse(turn: Turn, params: FetchParams, error: KafkaError) -> None:
    """The answer to a Fetch whose session is not what its sender believes."""
    turn.step.record(FetchRefused(params.connection, params.correlation_id, int(error)))
    response = FetchResponse(error_code=int(error))
    check_fields(response, params.version)
    turn.step.reply(params.connection, response)


def answer(turn: Turn, params: FetchParams, results: list[ReadResult]) -> None:
    """Send the response: of a session, what is new in it. With errors 6 and 74, from version 16 on, it says who leads
    (KIP-951)."""
    error, session_id, told = turn.replicas.sessions.settle(turn, params, results)
    if error:
        refuse(turn, params, error)
        return
    for result in told:
        if result.error and not params.from_follower:
            record_told(turn, params, result)
    response = FetchResponse()
    if session_id:
        response.session_id = session_id
    topic: FetchResponse.FetchableTopicResponse | None = None
    last: tuple[str, str] | None = None
    for result in told:
        item = result.item
        if topic is None or last != (item.topic, item.topic_id):
            topic = FetchResponse.FetchableTopicResponse()
            response.responses.append(topic)
            last = (item.topic, item.topic_id)
            if params.version >= TOPIC_IDS:
                topic.topic_id = item.topic_id
            else:
                topic.topic = item.topic
        topic.partitions.append(_answer_partition(turn, params, result, response.node_endpoints))
    check_fields(response, params.version)
    turn.step.reply(params.connection, response)


def _answer_partition(
    turn: Turn, params: FetchParams, result: ReadResult, endpoints: list[NodeEndpoint]
) -> FetchResponse.PartitionData:
    version = params.version
    data = FetchResponse.PartitionData(partition_index=result.item.index, error_code=int(result.error))
    if result.error:
        hinted = (KafkaError.NOT_LEADER_OR_FOLLOWER, KafkaError.FENCED_LEADER_EPOCH)
        if version >= 16 and result.error in hinted:
            data.current_leader = current_leader(turn, result.item.tp, result.partition, endpoints)
        if result.error == KafkaError.OFFSET_MOVED_TO_TIERED_STORAGE:
            data.log_start_offset = result.log_start
        return data
    data.high_watermark = result.high_watermark
    if version >= 4:
        data.last_stable_offset = result.last_stable_offset
    if version >= 5:
        data.log_start_offset = result.log_start
    if result.diverging is not None and version >= 12:
        epoch, end_offset = result.diverging
        data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if result.partition is not None and params.from_follower:
        log, offset = result.partition.log, result.item.offset
        if 0 < offset in (log.start_offset, result.item.log_start):
            data.prefix_hash = log.ph_at(log.boundary_at_or_below(offset))
    if result.batches:
        data.records = [batch.to_message() for batch in result.batches]
        data.aborted_transactions = [
            FetchResponse.AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in result.aborted
        ]
    return data


# ---- purgatory -------------------------------------------------------------------------------------------


class DelayedFetch(DelayedOperation, gc=False):
    """A Fetch that waits for data, at followers' until the log grows, at consumers' until the high watermark moves. It
    goes on by being read again. segments: in which each position was when it was read."""

    params: FetchParams
    items: list[FetchItem]
    segments: list[int]

    timer: ClassVar[str] = f"{PREFIX}fetch"

    @property
    def keys(self) -> list[Key]:
        """Each of its partitions."""
        happening = APPENDED if self.params.from_follower else READABLE
        return [(happening, item.tp) for item in self.items]

    def try_complete(self, context: Turn, key: Key) -> bool:
        """Whether there is enough to read, or something else to say."""
        available = 0
        for item, segment in zip(self.items, self.segments, strict=True):
            ready, size = _available(context, self.params, item, segment)
            available += size
            if ready or available >= self.params.min_bytes:
                return True
        return False

    def on_complete(self, context: Turn) -> None:
        """Read again, and answer."""
        self._answer(context, read_all(context, self.params, self.items))

    def on_expiration(self, context: Turn) -> None:
        """Answer with what there is."""
        results = read_all(context, self.params, self.items)
        record_late(context, self.params, results)
        self._answer(context, results)

    def _answer(self, turn: Turn, results: list[ReadResult]) -> None:
        for result in results:
            record_refused(turn, self.params, result)
        answer(turn, self.params, results)


def _available(turn: Turn, params: FetchParams, item: FetchItem, segment: int) -> tuple[bool, int]:
    """(whether this partition alone completes the Fetch, bytes that can be read). A Fetch waits for no more than the
    rest of the segment that its position is in, however little that is."""
    partition, error = find_partition(turn, item.tp, item.topic_id)
    if partition is None or error or _check(partition, params, item):
        return (True, 0)
    if item.last_fetched_epoch >= 0:
        failed, diverging = divergence(turn, partition, item.offset, item.last_fetched_epoch)
        if failed or diverging is not None:
            return (True, 0)
    log = partition.log
    if not log.start_offset <= item.offset <= log.end_offset:
        return (True, 0)
    if item.offset < log.local_start_offset:
        return (True, 0)
    limit = partition.last_fetchable_offset(params.isolation)
    if item.offset > limit:
        return (turn.settings.spinning_consumer == "kafka", 0)
    newest, _ = log.segment_around(limit)
    if item.offset == limit or segment > newest:
        return (False, 0)
    if 0 <= segment < newest:
        return (True, 0)
    size = log.bytes_between(item.offset, limit, max(1, min(item.max_bytes, params.min_bytes)))
    return (False, min(size, item.max_bytes))


def record_refused(turn: Turn, params: FetchParams, result: ReadResult) -> None:
    """Put a follower's fetch that diverges or is refused into the trace."""
    partition = result.partition
    if partition is None or not params.from_follower or not (result.error or result.diverging is not None):
        return
    fetch = params.follower_fetch(result.item)
    partition.record_fetch(turn, fetch, result.error, result.diverging or (-1, -1))


def record_told(turn: Turn, params: FetchParams, result: ReadResult, *, late: bool = False) -> None:
    """Put into the trace what is told of a partition that this broker has, or had when the Fetch came."""
    partition, item = result.partition, result.item
    if partition is None:
        if late:
            asked = (item.tp, params.replica_id, item.offset, item.current_leader_epoch, item.last_fetched_epoch)
            request = (params.connection, params.correlation_id)
            turn.step.record(FetchTold(*asked, int(result.error), True, False, -1, -1, -1, -1, *request))
        return
    log = partition.log
    turn.step.record(
        FetchTold(
            partition.key,
            params.replica_id,
            item.offset,
            item.current_leader_epoch,
            item.last_fetched_epoch,
            int(result.error),
            late,
            partition.is_leader,
            partition.leader_epoch,
            log.high_watermark,
            log.start_offset,
            log.end_offset,
            params.connection,
            params.correlation_id,
        )
    )


def record_late(turn: Turn, params: FetchParams, results: list[ReadResult]) -> None:
    """Put into the trace what a Fetch has waited for to the end, though it was there: nothing, if all is well."""
    enough = sum(result.size_bytes for result in results) >= params.min_bytes
    for result in results:
        told = result.error or result.diverging is not None or result.beyond
        if told or (enough and result.batches):
            record_told(turn, params, result, late=True)
