"""What a consumer leaves out that reads committed transactions alone."""

from __future__ import annotations

import msgspec

from actors.client.aborted_transactions import AbortedTransactions
from actors.log.control_records import ControlRecordType, EndTxnMarker
from krift.v1.fetch import FetchResponse
from krift.v1.records import Record, RecordBatch


def data(base_offset: int, producer_id: int, transactional: bool = True) -> RecordBatch:
    return RecordBatch(
        base_offset=base_offset, producer_id=producer_id, is_transactional=transactional, records=[Record(uid="a")]
    )


def marker(base_offset: int, producer_id: int, kind: ControlRecordType) -> RecordBatch:
    return msgspec.structs.replace(EndTxnMarker(kind, 0).to_batch(producer_id, 0, 0, "m"), base_offset=base_offset)


def aborted(*txns: tuple[int, int]) -> AbortedTransactions:
    told = [FetchResponse.AbortedTransaction(producer_id=who, first_offset=first) for who, first in txns]
    return AbortedTransactions(told)


def test_records_are_left_out_from_the_first_one_to_the_marker() -> None:
    """Shows that an aborted transaction is left out until its marker, what its producer wrote before and after is not,
    nor what others wrote between (FetcherTest.testReturnAbortedTransactionsInUncommittedMode and others)."""
    txns = aborted((2, 11), (1, 4))
    batches = [
        (data(0, 1), False),
        (marker(1, 1, ControlRecordType.COMMIT), False),
        (data(3, 2), False),
        (data(4, 1), True),
        (data(5, 1), True),
        (data(6, 3), False),
        (data(7, -1, transactional=False), False),
        (marker(8, 1, ControlRecordType.ABORT), False),
        (data(9, 1), False),
        (data(11, 2), True),
    ]
    assert [txns.leaves_out(batch) for batch, _ in batches] == [hidden for _, hidden in batches]


def test_a_producer_may_be_aborted_twice() -> None:
    """Shows that the next aborted transaction of a producer is left out, too, and what lies between is not
    (FetcherTest.testMultipleAbortMarkers, testReadCommittedWithCommittedAndAbortedTransactions)."""
    txns = aborted((1, 0), (1, 4))
    assert txns.leaves_out(data(0, 1))
    txns.leaves_out(marker(1, 1, ControlRecordType.ABORT))
    assert not txns.leaves_out(data(2, 1))
    txns.leaves_out(marker(3, 1, ControlRecordType.COMMIT))
    assert txns.leaves_out(data(4, 1))
