"""Rows of the trace."""

from __future__ import annotations

from actors.trace.events import NodeDown, Polled, PollReturn, ReplyPartition, RpcReply, Stamped
from orchestrator.trace.rows import COLUMNS, row_to_stamped, stamped_to_row


def test_a_row_gives_back_its_event() -> None:
    """Shows that nested structs, maps and array-like structs survive the way through a row."""
    bodies = [
        NodeDown("lossy", lost={"orders-0": 7}),
        PollReturn("c:1", "ok", 0, "orders-0", 3, 0, records=[Polled(3, 1, "producer-1:3")]),
        RpcReply("ListOffsets", 4, "list-offsets-1", "c#1", 9, -1, 0, 0, [ReplyPartition("orders-0", 5)]),
    ]
    for seq, body in enumerate(bodies):
        event = Stamped("r", "broker-1", 0, seq, 1_000, 2, "broker-2/0/5", "c#1", body)
        row = stamped_to_row(event)
        assert tuple(row) == COLUMNS
        assert row["type"] == event.type
        assert row_to_stamped(row) == event
