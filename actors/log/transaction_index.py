"""The aborted transactions of a log, in the order in which they were ended (``TransactionIndex.java``,
``AbortedTxn.java``)."""

from __future__ import annotations

import msgspec


class AbortedTxn(msgspec.Struct, frozen=True, gc=False):
    """One that was aborted: its first record, its marker, and the last stable offset that its end has led to."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex(msgspec.Struct):
    """``txns``: by the offsets of their markers, which rise."""

    txns: list[AbortedTxn] = []

    def append(self, txn: AbortedTxn) -> None:
        """One more was aborted."""
        assert not self.txns or self.txns[-1].last_offset < txn.last_offset, "markers rise"
        self.txns.append(txn)

    def truncate_to(self, offset: int) -> None:
        """Forget those whose markers are at ``offset`` or above."""
        self.txns = [txn for txn in self.txns if txn.last_offset < offset]

    def drop_below(self, offset: int) -> None:
        """Forget those whose markers are below ``offset``, as their segments went."""
        self.txns = [txn for txn in self.txns if txn.last_offset >= offset]

    def collect(self, fetch_offset: int, upper_bound: int) -> list[AbortedTxn]:
        """Those that records in [fetch_offset, upper_bound) may belong to. Once one is found whose end has made all
        below ``upper_bound`` stable, no later one can (``TransactionIndex.collectAbortedTxns``)."""
        found = []
        for txn in self.txns:
            if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound:
                break
        return found
