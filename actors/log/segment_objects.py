"""The objects that a copied segment consists of in the remote store (``RemoteStorageManager.java``)."""

from __future__ import annotations

LOG = "LOG"
OFFSET = "OFFSET"
TIMESTAMP = "TIMESTAMP"
TRANSACTION = "TRANSACTION"
PRODUCER_SNAPSHOT = "PRODUCER_SNAPSHOT"
LEADER_EPOCH = "LEADER_EPOCH"

OBJECTS = (LOG, OFFSET, TIMESTAMP, TRANSACTION, PRODUCER_SNAPSHOT, LEADER_EPOCH)
"""In the order in which they are copied."""
