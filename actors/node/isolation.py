"""Isolation levels: how much of a partition a client wants to see (``IsolationLevel.java``)."""

from __future__ import annotations

READ_UNCOMMITTED = 0
"""All that is committed to the log."""
READ_COMMITTED = 1
"""Of that what is in no open transaction."""
