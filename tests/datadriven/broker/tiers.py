"""Verbs about remote storage: copies that the broker knows of, and a store that the script answers for."""

from __future__ import annotations

from msgspec.structs import replace

from actors.broker.remote_log.segment_metadata import SegmentMetadata, SegmentState
from actors.log.batch import Batch
from actors.log.leader_epoch_cache import EpochEntry
from actors.log.segment_objects import LEADER_EPOCH, PRODUCER_SNAPSHOT, IndexEntry
from actors.log.segments import LogBase, SegmentHeader
from actors.node.codec import encode
from actors.node.effects import Call
from actors.node.errors import KafkaError
from actors.node.messages import AnyResponse
from actors.node.spec import REMOTE_STORE, split_topic_partition
from krift.v1.remote_storage import (
    FetchIndexRequest,
    FetchIndexResponse,
    FetchLogSegmentRequest,
    FetchLogSegmentResponse,
    RemoteLogSegmentId,
)
from tests.datadriven.broker.scene import Scene
from tests.datadriven.runner import Command


class Tiers:
    """By the segment's id: ``copies``, the log data that the store has; ``others``: the leader epochs up to its end,
    and the state of the producers there."""

    def __init__(self) -> None:
        self.copies: dict[str, list[Batch]] = {}
        self.others: dict[str, dict[str, bytes]] = {}

    def copied(self, scene: Scene, command: Command) -> str:
        """The leader has copied a part of its log, as its broker knows of it."""
        tp, key = command.words[0], command.words[1]
        partition = scene.node.replicas.partitions[tp]
        first, last = command.number("from"), command.number("to")
        self.copies[key] = [each for each in partition.log.batches if first <= each.base_offset <= last]
        self.others[key] = {
            LEADER_EPOCH: encode([each for each in partition.log.epochs.entries if each.start_offset <= last]),
            PRODUCER_SNAPSHOT: encode(
                SegmentHeader(partition.log.boundary(last + 1), partition.log.producers.snapshot())
            ),
        }
        topic, index = split_topic_partition(tp)
        inside = {batch.epoch: batch.base_offset for batch in reversed(self.copies[key])}
        metadata = SegmentMetadata(
            RemoteLogSegmentId(topic=topic, topic_id=partition.topic_id, partition=index, segment_id=key),
            first,
            last,
            max(record.timestamp_ms for batch in self.copies[key] for record in batch.records),
            1,
            0,
            1,
            tuple(EpochEntry(epoch, start) for epoch, start in reversed(inside.items())),
            SegmentState.COPY_SEGMENT_FINISHED,
        )
        scene.node.readers.segments_of(partition).segments[key] = metadata
        partition.log.highest_remote_offset = max(partition.log.highest_remote_offset, last)
        partition.log.highest_remote_offset = last
        return ""

    def relabelled(self, scene: Scene, command: Command) -> str:
        """What the broker knows of a copy is something else."""
        cache = scene.node.readers.segments_of(scene.node.replicas.partitions[command.words[0]])
        known = cache.segments[command.words[1]]
        epochs = [each.split("@") for each in command.many("epochs", "()")]
        entries = tuple(EpochEntry(int(epoch), int(start)) for epoch, start in epochs) or known.epochs
        state = SegmentState[f"COPY_SEGMENT_{command.text('state', 'finished').upper()}"]
        cache.segments[known.key] = replace(known, epochs=entries, state=state)
        return ""

    def trimmed(self, scene: Scene, command: Command) -> str:
        """What the broker itself has begins at an offset, since the rest is copied, and committed therefore."""
        log, to = scene.node.replicas.partitions[command.words[0]].log, command.number("to")
        log.active.base = LogBase(to, log.ph_at(to), log.epochs.epoch_at(to - 1))
        log.batches = [batch for batch in log.batches if batch.base_offset >= to]
        log.active.measure(log.batches)
        log.high_watermark = max(log.high_watermark, to)
        return ""

    def stored(self, scene: Scene, command: Command) -> str:
        """The store answers what it was asked first."""
        in_flight = scene.node.net.in_flight
        call = next(each for each in scene.held if each.peer == REMOTE_STORE and each.call in in_flight)
        error = KafkaError[command.text("error", "NONE")]
        scene.answer(call, self._answer(call, error, b"?" if command.has("garbage") else b""))
        return scene.told()

    def _answer(self, call: Call, error: KafkaError, garbage: bytes) -> AnyResponse:
        request = call.request
        if isinstance(request, FetchIndexRequest):
            if error or garbage:
                return FetchIndexResponse(error_code=error, data=garbage)
            assert request.segment is not None
            if request.object in self.others[request.segment.segment_id]:
                return FetchIndexResponse(data=self.others[request.segment.segment_id][request.object])
            batches = self.copies[request.segment.segment_id]
            return FetchIndexResponse(data=_timestamps(batches))
        assert isinstance(request, FetchLogSegmentRequest)
        if error or garbage:
            return FetchLogSegmentResponse(error_code=error, data=garbage)
        assert request.segment is not None
        return FetchLogSegmentResponse(
            data=b"".join(_entries(self.copies[request.segment.segment_id]))[request.start_position :]
        )


def _entries(batches: list[Batch]) -> list[bytes]:
    """As the log data has them: each behind its length."""
    encoded = [encode(batch) for batch in batches]
    return [len(entry).to_bytes(4, "big") + entry for entry in encoded]


def _timestamps(batches: list[Batch]) -> bytes:
    """The time index."""
    index, position, latest = list[IndexEntry](), 0, -1
    for batch, entry in zip(batches, _entries(batches), strict=True):
        latest = max(latest, *(record.timestamp_ms for record in batch.records))
        index.append(IndexEntry(latest, position))
        position += len(entry)
    return encode(index)
