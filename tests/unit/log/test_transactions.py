"""What a replica's log knows of transactions: producers, markers, the last stable offset, and who aborted what."""

from __future__ import annotations

import pytest

from actors.log.control_records import ControlRecordType, EndTxnMarker
from actors.log.producer_state import PRODUCER_EPOCH_MAX, TransactionVersion
from actors.log.recovery import load_log
from actors.log.replica_log import AppendResult, ReplicaLog
from actors.log.segments import LogBase
from actors.log.transaction_index import AbortedTxn
from actors.node.codec import encode
from actors.node.errors import KafkaError
from actors.node.files import Files
from actors.node.step import Step
from krift.v1.records import Record, RecordBatch

COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT


class Log:
    """A leader's log that transactions are written to; offsets count records."""

    def __init__(self, version: TransactionVersion = 0) -> None:
        self.log, self.step, self.files = ReplicaLog("orders-0"), Step(0), Files()
        self.version = version
        self.next: dict[tuple[int, int], int] = {}

    def writes(
        self, producer: int, count: int = 1, epoch: int = 0, sequence: int | None = None, transactional: bool = True
    ) -> AppendResult:
        """A batch of a producer, with the sequence that comes next if none is given."""
        key = (producer, epoch)
        base = self.next.get(key, 0) if sequence is None else sequence
        records = [Record(timestamp_ms=1, uid=f"{producer}:{epoch}:{base + each}") for each in range(count)]
        batch = RecordBatch(
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=base,
            is_transactional=transactional,
            records=records,
        )
        guard = None
        if transactional:
            guard, error = self.log.producers.start_verification(producer, epoch, base, self.version == 2)
            if error:
                return AppendResult(error)
        result = self.log.append_as_leader(self.step, self.files, batch, 0, guard=guard)
        if not result.error:
            self.next[key] = base + count
        return result

    def ends(self, producer: int, how: ControlRecordType, epoch: int = 0, coordinator_epoch: int = 0) -> AppendResult:
        """A marker."""
        marker = EndTxnMarker(how, coordinator_epoch)
        return self.log.append_marker(self.step, self.files, (producer, epoch), marker, "m", 0, self.version)

    def replicated(self, offset: int) -> int:
        """The high watermark moves; the last stable offset then."""
        self.log.set_high_watermark(self.step, "leader", 0, offset, [1])
        return self.log.last_stable_offset


def test_the_last_stable_offset_waits_for_markers_that_are_replicated() -> None:
    """Shows that an open transaction holds it back, and one that has ended until its marker is below the high
    watermark (ProducerStateManagerTest.testFirstUnstableOffset)."""
    log = Log()
    log.writes(9, 99, transactional=False)
    log.writes(1, 6)
    log.writes(2, 4)
    log.ends(1, COMMIT)
    producers = log.log.producers
    assert (producers.first_undecided_offset, producers.first_unstable_offset) == (105, 99)
    assert log.replicated(105) == 99
    assert log.replicated(109) == 99
    assert log.replicated(110) == 105
    log.writes(9, 2, transactional=False)
    log.ends(2, ABORT)
    assert (producers.first_undecided_offset, log.log.last_stable_offset) == (None, 105)
    assert log.replicated(112) == 105
    assert log.replicated(113) == 113
    assert producers.first_unstable_offset is None


def test_aborted_transactions_are_indexed() -> None:
    """Shows that an aborted transaction is kept with the last stable offset that follows from its end, a committed one
    not at all (UnifiedLogTest.testTransactionIndexUpdated), and which of them a range of offsets needs."""
    log = Log()
    for producer in (1, 2, 3, 4):
        log.writes(producer, 5)
    log.ends(1, ABORT)
    log.ends(3, COMMIT)
    log.writes(2, 3)
    log.ends(2, ABORT)
    log.ends(4, COMMIT)
    first, second = AbortedTxn(1, 0, 20, 5), AbortedTxn(2, 5, 25, 15)
    assert log.log.aborted.txns == [first, second]
    assert log.log.aborted.collect(0, 5) == [first]
    assert log.log.aborted.collect(3, 20) == [first, second]
    assert log.log.aborted.collect(21, 27) == [second]
    assert log.log.aborted.collect(26, 27) == []


def test_a_truncation_takes_transactions_along() -> None:
    """Shows that what a log no longer has is open and aborted no more, and that what it keeps is open again
    (UnifiedLogTest.testTruncateBelowFirstUnstableOffset)."""
    log = Log()
    log.writes(9, 3, transactional=False)
    log.writes(1, 2)
    log.ends(1, ABORT)
    log.replicated(6)
    log.log.truncate_to(log.step, log.files, 5, "diverge", 1)
    assert log.log.producers.first_unstable_offset == 3
    assert log.log.aborted.txns == []
    log.log.truncate_to(log.step, log.files, 0, "diverge", 1)
    assert (log.log.producers.first_unstable_offset, log.log.producers.entries) == (None, {})


def test_a_log_that_is_loaded_knows_its_transactions() -> None:
    """Shows that everything is derived from what is on the disk."""
    log = Log()
    log.writes(1, 2)
    log.ends(1, ABORT, coordinator_epoch=3)
    log.writes(2, 2)
    entries = [encode(batch) for batch in log.log.batches]
    again = load_log(log.step, "orders-0", {log.log.active.file: entries}, LogBase())
    assert again.aborted == log.log.aborted
    assert again.producers.entries == log.log.producers.entries
    assert again.producers.ongoing == log.log.producers.ongoing
    assert again.producers.unreplicated == log.log.producers.unreplicated
    assert again.producers.entries[1].coordinator_epoch == 3
    assert again.producers.first_undecided_offset == 3


@pytest.mark.parametrize(("version", "error"), [(0, KafkaError.NONE), (2, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)])
def test_the_first_sequence_of_an_unknown_producer(version: TransactionVersion, error: KafkaError) -> None:
    """Shows that any is taken before transaction.version 2, and 0 alone from then on
    (ProducerStateManagerTest.testAllowNonZeroSequenceForTransactionsV1WithEmptyState, ...V2WithEmptyState)."""
    log = Log(version)
    assert log.writes(1, sequence=5).error == error
    assert log.writes(2).error == KafkaError.NONE


def test_a_producer_in_a_transaction_writes_nothing_else() -> None:
    """Shows that a batch outside of the open transaction is refused, and one after its end is not."""
    log = Log()
    log.writes(1)
    assert log.writes(1, transactional=False).error == KafkaError.INVALID_TXN_STATE
    log.ends(1, COMMIT)
    assert log.writes(1, transactional=False).error == KafkaError.NONE


def test_sequences_begin_anew_with_the_epoch_of_a_marker() -> None:
    """Shows that a marker with a higher epoch makes the next batch begin at 0
    (ProducerStateManagerTest.testOutOfSequenceAfterControlRecordEpochBump)."""
    log = Log()
    log.writes(1)
    log.writes(1)
    log.ends(1, ABORT, epoch=1)
    assert log.writes(1, epoch=1, sequence=2).error == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.writes(1, epoch=2, sequence=2).error == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.writes(1, epoch=1, sequence=0).error == KafkaError.NONE


@pytest.mark.parametrize(
    ("version", "epoch", "error"),
    [
        (0, 4, KafkaError.INVALID_PRODUCER_EPOCH),
        (0, 5, KafkaError.NONE),
        (0, 6, KafkaError.NONE),
        (2, 5, KafkaError.INVALID_PRODUCER_EPOCH),
        (2, 6, KafkaError.NONE),
    ],
)
def test_the_epoch_of_a_marker(version: TransactionVersion, epoch: int, error: KafkaError) -> None:
    """Shows that a marker has at least the epoch of its transaction, and under transaction.version 2 a higher one."""
    log = Log(version)
    log.writes(1, epoch=5)
    assert log.ends(1, COMMIT, epoch=epoch).error == error


def test_a_marker_again() -> None:
    """Shows that under transaction.version 2 a marker may be written again once it has ended its transaction, and with
    the last epoch of all at any time (ProducerStateManagerTest.testIdempotentTransactionMarkerRetryTV2)."""
    log = Log(2)
    log.writes(1, epoch=5)
    log.ends(1, COMMIT, epoch=6)
    end = log.log.end_offset
    assert log.ends(1, COMMIT, epoch=6).error == KafkaError.NONE
    assert (log.log.end_offset, log.log.producers.first_unstable_offset) == (end + 1, 0)
    log.writes(2, epoch=PRODUCER_EPOCH_MAX)
    assert log.ends(2, COMMIT, epoch=PRODUCER_EPOCH_MAX).error == KafkaError.NONE


def test_a_former_coordinator_is_fenced() -> None:
    """Shows that the coordinator epoch of markers never goes down, transaction or none."""
    log = Log()
    log.writes(1)
    log.ends(1, COMMIT, coordinator_epoch=2)
    assert log.ends(1, COMMIT, coordinator_epoch=1).error == KafkaError.TRANSACTION_COORDINATOR_FENCED
    assert log.ends(1, COMMIT, coordinator_epoch=2).error == KafkaError.NONE
    assert log.ends(2, ABORT, coordinator_epoch=0).error == KafkaError.NONE


def test_an_open_transaction_outlives_the_epoch_of_its_producer() -> None:
    """Shows what a lost marker leads to (KAFKA-7408): the next transaction of the producer joins the one that was left
    open, and its marker ends both."""
    log = Log()
    log.writes(1, 2)
    log.writes(1, 2, epoch=1)
    assert log.log.producers.ongoing == {0: 1}
    log.ends(1, COMMIT, epoch=1)
    assert (log.log.producers.ongoing, log.log.aborted.txns) == ({}, [])
