"""Reading records from remote storage for a Fetch (``RemoteLogReader.java``, ``RemoteLogManager.read``)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from actors.broker.partition import Partition
from actors.broker.remote_log.reader_task import ReaderTask, TaskKind
from actors.broker.remote_log.segment_metadata import SegmentMetadata
from actors.broker.remote_log.store_calls import StoreCall
from actors.broker.turn import Turn
from actors.log.batch import Batch
from actors.log.segment_objects import (
    OFFSET,
    TRANSACTION,
    IndexEntry,
    read_batches,
    read_index,
    read_transactions,
)
from actors.log.transaction_index import AbortedTxn, TransactionIndex
from actors.node.errors import KafkaError
from actors.node.network_client import Ended
from krift.v1.remote_storage import FetchIndexRequest, FetchLogSegmentRequest

At = Literal["locate", "index", "log", "transactions", "done"]


class RemoteLogReader(ReaderTask):
    """One read, from ``offset`` on, of at most ``max_bytes`` but perhaps of one batch at least. committed: with aborted
    transactions that the batches may belong to. segment: the one that is asked for now."""

    offset: int = 0
    max_bytes: int = 0
    at_least_one: bool = True
    committed: bool = False
    at: At = "locate"
    segment: SegmentMetadata | None = None
    store: StoreCall = msgspec.field(default_factory=StoreCall)
    batches: list[Batch] = msgspec.field(default_factory=list)
    aborted: list[AbortedTxn] = msgspec.field(default_factory=list)

    kind: ClassVar[TaskKind] = "fetch"

    def advance(self, turn: Turn, purpose: str) -> bool:
        while not self.error and self.at != "done":
            partition = turn.replicas.partitions.get(self.tp)
            if partition is None:
                self.error = KafkaError.NOT_LEADER_OR_FOLLOWER
            elif self.store.request is not None:
                if not self.store.advance(turn, purpose):
                    return False
                self._take(turn, partition)
            elif self.at == "locate":
                self._locate(turn, partition)
            else:
                self._ask(turn)
        return True

    def on_ended(self, turn: Turn, ended: Ended) -> None:
        self.store.on_ended(ended)

    def _locate(self, turn: Turn, partition: Partition) -> None:
        """The copy with the record, by the leader epoch that the log has there."""
        self.segment = segment_with(turn, partition, self.offset)
        if turn.remote_log.metadata.is_behind(turn, partition):
            self.error = KafkaError.REPLICA_NOT_AVAILABLE
        elif self.segment is None:
            self.error = KafkaError.OFFSET_OUT_OF_RANGE
        else:
            self.at = "index"

    def _ask(self, turn: Turn) -> None:
        assert self.segment is not None, "a segment is read"
        segment = self.segment
        if self.at == "transactions":
            self.store.ask(FetchIndexRequest(segment=segment.id, object=TRANSACTION))
            return
        index = turn.readers.indexes.get(segment.key, OFFSET)
        if index is None:
            self.store.ask(FetchIndexRequest(segment=segment.id, object=OFFSET))
            return
        self.at = "log"
        start, end = piece_of(index, self.offset, self.max_bytes)
        self.store.ask(FetchLogSegmentRequest(segment=segment.id, start_position=start, end_position=end))

    def _take(self, turn: Turn, partition: Partition) -> None:
        """The store has answered, or has not: that is a RemoteStorageException, for which Kafka has no code."""
        assert self.segment is not None, "a segment is read"
        answer = self.store.take()
        try:
            data = b"" if answer is None else bytes(answer.data)
            if self.at == "index":
                turn.readers.indexes.put(self.segment.key, OFFSET, read_index(data))
            elif self.at == "log":
                found = [batch for batch in read_batches(data) if batch.end_offset > self.offset]
                too_large = bool(found) and not self.at_least_one and found[0].size_bytes > self.max_bytes
                self.batches = [] if too_large else found
                if not found:
                    self.error = KafkaError.UNKNOWN_SERVER_ERROR
                elif self.committed and not too_large:
                    self._next_transactions(turn, partition, self.segment)
                else:
                    self.at = "done"
            else:
                self._collect(turn, partition, read_transactions(data))
        except msgspec.MsgspecError:
            self.error = KafkaError.UNKNOWN_SERVER_ERROR

    # ---- aborted transactions ----------------------------------------------------------------------------

    def _next_transactions(self, turn: Turn, partition: Partition, segment: SegmentMetadata | None) -> None:
        """Go on with the next index of aborted transactions from this segment on: the marker of a transaction may be in
        a later one. After the last copy there is the local log."""
        while segment is not None and segment.txn_index_empty:
            segment = segment_with(turn, partition, segment.end_offset + 1)
        if segment is None:
            end = self.batches[-1].end_offset
            self._add(partition.log.aborted.collect(self.offset, end))
            self.at = "done"
        else:
            self.segment, self.at = segment, "transactions"

    def _collect(self, turn: Turn, partition: Partition, txns: list[AbortedTxn]) -> None:
        end = self.batches[-1].end_offset
        self._add(TransactionIndex(txns).collect(self.offset, end))
        if any(txn.last_stable_offset >= end for txn in txns):
            self.at = "done"
            return
        assert self.segment is not None, "a segment is read"
        self._next_transactions(turn, partition, segment_with(turn, partition, self.segment.end_offset + 1))

    def _add(self, found: list[AbortedTxn]) -> None:
        self.aborted += [txn for txn in found if txn not in self.aborted]


def segment_with(turn: Turn, partition: Partition, offset: int) -> SegmentMetadata | None:
    """The copy that has the record of this log at an offset."""
    epoch = partition.log.epochs.epoch_at(offset)
    return turn.readers.segments_of(partition).find(epoch, offset)


def piece_of(index: list[IndexEntry], offset: int, max_bytes: int) -> tuple[int, int]:
    """The first and the last byte of what is to be read from an offset on: whole batches, at most ``max_bytes`` of
    them but one at least. Last byte -1: to the end."""
    place = max((number for number, entry in enumerate(index) if entry.key <= offset), default=0)
    start = index[place].position if index else 0
    for following in index[place + 2 :]:
        if following.position - start > max_bytes:
            return (start, index[index.index(following) - 1].position - 1)
    return (start, -1)
