"""A ListOffsets as a broker works on it: what is known about each partition so far, and the answer made of that."""

from __future__ import annotations

import msgspec

from actors.broker.reply_trace import reply_partition, trace_key
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.messages import API_NAMES, Api, check_fields
from actors.node.spec import topic_partition
from actors.trace.events import ReplyPartition, RpcReply
from krift.v1.list_offsets import ListOffsetsResponse

LEADER_EPOCH_SINCE = 4
"""Version of ListOffsets that brought leader epochs."""
TIMEOUT_SINCE = 10
"""Version of ListOffsets that brought TimeoutMs (KIP-1075)."""

NO_LIMIT = -1


class Found(msgspec.Struct, frozen=True):
    """An answer about one partition; -1 everywhere where there is none."""

    error: KafkaError = KafkaError.NONE
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


NOTHING = Found()


class RemoteLookup(msgspec.Struct, frozen=True):
    """A look-up that remote storage has a part in. ``limit``: how far whoever asks could read when it was asked, and
    ``refusal``: the error that KIP-207 had for it then; both go for the answer, however late it is."""

    limit: int
    refusal: KafkaError

    def conclude(self, error: KafkaError, found: Found | None) -> Found:
        """What is answered, now that the look-up failed with ``error``, or found something or nothing."""
        if error:
            return Found(error)
        if found is not None and found.offset < self.limit:
            return found
        return Found(self.refusal) if self.refusal else NOTHING


class PartitionStatus(msgspec.Struct):
    """One partition of the request (``ListOffsetsPartitionStatus.java``). told: what the trace says of its part, once
    that is decided. ``lookup``: under way since it was asked; task: number of the read that is made for it, 0 none."""

    topic: str
    index: int
    timestamp: int
    current_leader_epoch: int
    found: Found = NOTHING
    told: ReplyPartition | None = None
    lookup: RemoteLookup | None = None
    task: int = 0

    @property
    def tp(self) -> str:
        """The partition."""
        return topic_partition(self.topic, self.index)

    @property
    def completed(self) -> bool:
        """Whether it is decided."""
        return self.told is not None

    def settle(self, turn: Turn, found: Found) -> None:
        """Decide it."""
        self.found = found
        hosted = turn.replicas.partitions.get(self.tp)
        self.told = reply_partition(
            hosted,
            self.tp if hosted is not None else trace_key(turn, self.tp),
            found.error,
            offset=found.offset,
            timestamp=self.timestamp,
            asked_epoch=self.current_leader_epoch,
            found=(found.timestamp, found.leader_epoch),
            limit=NO_LIMIT if self.lookup is None else self.lookup.limit,
        )


class ListOffsetsCall(msgspec.Struct):
    """A request that is worked on."""

    connection: str
    client_id: str
    version: int
    correlation_id: int
    replica_id: int
    isolation: int
    statuses: list[PartitionStatus] = []

    def answer(self, turn: Turn) -> None:
        """Answer it: all its partitions are decided."""
        response = ListOffsetsResponse()
        topics: dict[str, ListOffsetsResponse.ListOffsetsTopicResponse] = {}
        told: list[ReplyPartition] = []
        for status in self.statuses:
            assert status.told is not None, f"nothing is decided about {status.tp}"
            told.append(status.told)
            if status.topic not in topics:
                topics[status.topic] = ListOffsetsResponse.ListOffsetsTopicResponse(name=status.topic)
                response.topics.append(topics[status.topic])
            topics[status.topic].partitions.append(self._data(turn, status))
        check_fields(response, self.version)
        turn.step.record(
            RpcReply(
                API_NAMES[Api.ListOffsets],
                self.version,
                self.client_id,
                self.connection,
                self.correlation_id,
                self.replica_id,
                self.isolation,
                0,
                told,
            )
        )
        turn.step.reply(self.connection, response)

    def _data(self, turn: Turn, status: PartitionStatus) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
        found = status.found
        data = ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=status.index, error_code=int(found.error)
        )
        if not found.error:
            data.timestamp, data.offset = found.timestamp, found.offset
            if self.version >= LEADER_EPOCH_SINCE:
                data.leader_epoch = found.leader_epoch
            hosted = turn.replicas.partitions.get(status.tp)
            if self.replica_id >= 0 and hosted is not None and 0 < found.offset == hosted.log.start_offset:
                data.prefix_hash = hosted.log.known_ph_at(found.offset)
        return data
