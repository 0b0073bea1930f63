"""What the trace says of the records in a snapshot."""

from __future__ import annotations

from actors.quorum.snapshots import Snapshot


def snapshot(*records: bytes, control: tuple[bytes, ...] = ()) -> Snapshot:
    """One up to 7."""
    return Snapshot(7, 1, 0, 0, 0, list(control), list(records))


def test_the_hash_is_over_the_records_in_any_order() -> None:
    """Shows that the order of the records does not count, and that each of them, and where one ends, does."""
    assert snapshot(b"a", b"b").state == snapshot(b"b", b"a").state
    different = [snapshot(), snapshot(b"a"), snapshot(b"a", b"b"), snapshot(b"ab"), snapshot(b"b", control=(b"a",))]
    assert len({each.state for each in different}) == len(different)
