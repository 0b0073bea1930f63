"""What a coordinator knows of one partition of the transaction log (``TransactionStateManager.scala``:
TxnMetadataCacheEntry)."""

from __future__ import annotations

import msgspec

from actors.broker.transaction_coordinator.transaction_metadata import TransactionMetadata


class TransactionShard(msgspec.Struct):
    """The transactional ids of a partition that this broker leads. ``epoch``: leader epoch in which it does, which is
    the coordinator epoch. ``loading``: its log was not read yet."""

    tp: str
    epoch: int
    loading: bool = True
    transactions: dict[str, TransactionMetadata] = {}
