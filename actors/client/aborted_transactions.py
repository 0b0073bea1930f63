"""What a consumer leaves out that reads committed transactions alone (``CompletedFetch.java``)."""

from __future__ import annotations

from collections import deque

from actors.log.control_records import ControlRecordType, marker_of
from krift.v1.fetch import FetchResponse
from krift.v1.records import RecordBatch


class AbortedTransactions:
    """The aborted transactions of one answer, while its batches are gone through in order: a batch is left out from
    where its producer's aborted transaction begins until its marker.

    ``any_marker``: the defect any-marker-ends-abort."""

    def __init__(self, told: list[FetchResponse.AbortedTransaction], any_marker: bool = False) -> None:
        self._later = deque(sorted(told, key=lambda each: each.first_offset))
        self._open: set[int] = set()
        self._any_marker = any_marker

    def leaves_out(self, batch: RecordBatch) -> bool:
        """Whether the application is not given the records of the next batch for that."""
        if batch.producer_id < 0:
            return False
        last_offset = batch.base_offset + len(batch.records) - 1
        while self._later and self._later[0].first_offset <= last_offset:
            self._open.add(self._later.popleft().producer_id)
        if batch.is_control:
            marker = marker_of(batch.records)
            if marker is not None and marker.type == ControlRecordType.ABORT:
                self._open.discard(batch.producer_id)
            if self._any_marker:
                self._open.clear()
            return False
        return batch.is_transactional and batch.producer_id in self._open
