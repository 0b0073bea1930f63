"""Copied segments: their states, which of them belong to a log, and what is found of them."""

from __future__ import annotations

from itertools import product

import pytest

from actors.broker.remote_log.lineage import is_within, with_records
from actors.broker.remote_log.segment_metadata import (
    TRANSITIONS,
    SegmentMetadata,
    SegmentState,
    is_valid_transition,
    metadata_of,
)
from actors.broker.remote_log.segment_metadata_cache import SegmentMetadataCache
from actors.log.leader_epoch_cache import EpochEntry
from krift.v1.remote_storage import RemoteLogMetadata, RemoteLogSegmentId, RemoteLogSegmentMetadataUpdateRecord
from krift.v1.wire import from_bytes, to_bytes

STARTED, FINISHED, DELETING, DELETED = SegmentState


def epochs(*entries: tuple[int, int]) -> tuple[EpochEntry, ...]:
    """Epoch and start offset of each."""
    return tuple(EpochEntry(*entry) for entry in entries)


def segment(key: str, start: int, end: int, *entries: tuple[int, int]) -> SegmentMetadata:
    """A copy that begins; of epoch 0 if nothing is said."""
    where = RemoteLogSegmentId(topic="orders", topic_id="T", partition=0, segment_id=key)
    return SegmentMetadata(where, start, end, 100 + end, 1, 5, 10, epochs(*(entries or ((0, start),))))


def moved(cache: SegmentMetadataCache, each: SegmentMetadata, *states: SegmentState) -> list[bool]:
    """Add it and go through states; whether each was legal."""
    told = [cache.add(each)]
    for state in states:
        record = RemoteLogSegmentMetadataUpdateRecord(
            segment=each.id, broker_id=2, event_timestamp_ms=6, remote_log_segment_state=int(state)
        )
        told.append(cache.update(record))
    return told


def test_the_table_of_states() -> None:
    """Shows every legal transition of Kafka's table, and that all others are none."""
    legal = {
        (None, STARTED),
        (STARTED, FINISHED),
        (STARTED, DELETING),
        (FINISHED, DELETING),
        (DELETING, DELETED),
        *((state, state) for state in SegmentState),
    }
    found = {pair for pair in product((None, *SegmentState), SegmentState) if is_valid_transition(*pair)}
    assert found == legal
    assert set(TRANSITIONS) == {None, *SegmentState}


def test_a_record_says_all_of_a_segment() -> None:
    """Shows that a segment comes back from the bytes of its record."""
    each = segment("a", 3, 9, (1, 3), (4, 7))
    record = from_bytes(RemoteLogMetadata, to_bytes(RemoteLogMetadata(segment=each.to_record()))).segment
    assert record is not None
    assert metadata_of(record) == each


def test_a_segment_of_many_epochs_holds_each_record_once() -> None:
    """Shows where each epoch of a segment ends in it, and which records it has."""
    each = segment("a", 3, 9, (1, 3), (4, 7))
    assert (each.epoch_end(1), each.epoch_end(4)) == (6, 9)
    assert [offset for offset in range(12) if each.holds(1, offset)] == [3, 4, 5, 6]
    assert not each.holds(2, 5)


def test_states_that_do_not_follow_change_nothing() -> None:
    """Shows that a cache refuses what its table does not have, forgets what was deleted, and keeps how far was
    copied."""
    cache = SegmentMetadataCache()
    assert moved(cache, segment("a", 0, 4), DELETED, FINISHED, FINISHED, STARTED) == [True, False, True, True, False]
    assert cache.find(0, 4) == cache.segments["a"]
    assert not cache.add(segment("a", 0, 4))
    assert moved(cache, segment("b", 5, 9), DELETING, FINISHED, DELETED, DELETED) == [True, True, False, True, False]
    assert list(cache.segments) == ["a"]
    assert cache.highest == {0: 4}
    moved(cache, segment("c", 5, 7), FINISHED, DELETING, DELETED)
    assert (cache.highest, cache.find(0, 6)) == ({0: 7}, None)


def test_what_is_read_is_finished() -> None:
    """Shows that a copy that is under way, or being deleted, is listed and not found; of two the later one is found."""
    cache = SegmentMetadataCache()
    moved(cache, segment("b", 5, 9))
    moved(cache, segment("a", 0, 4), FINISHED)
    moved(cache, segment("x", 0, 4), FINISHED, DELETING)
    moved(cache, segment("d", 2, 6), FINISHED)
    assert [each.key for each in cache.of_epoch(0)] == ["a", "x", "d", "b"]
    found = [cache.find(0, offset) for offset in (1, 3, 6, 7)]
    assert [each and each.key for each in found] == ["a", "d", "d", None]
    assert [each.key for each in cache.finished_within(7, epochs((0, 0)))] == ["a", "d"]


LINEAGE = epochs((1, 10), (3, 20), (5, 40))


@pytest.mark.parametrize(
    ("start", "end", "entries", "within"),
    [
        (10, 15, [(1, 10)], True),
        (12, 19, [(1, 12)], True),
        (12, 20, [(1, 12)], False),  # it goes on where epoch 3 begins here
        (0, 15, [(0, 0), (1, 8)], True),  # it begins before the log, and so does its first epoch that the log has
        (0, 9, [(0, 0)], False),
        (15, 39, [(1, 15), (3, 20)], True),
        (15, 39, [(1, 15), (3, 21)], False),
        (15, 39, [(1, 15), (2, 18), (3, 20)], False),
        (15, 45, [(1, 15), (5, 40)], False),
        (18, 30, [(3, 18)], False),
        (40, 49, [(5, 40)], True),
        (40, 50, [(5, 40)], False),  # beyond the log end
        (40, 44, [(6, 40)], False),
        (15, 39, [(1, 15), (2, 20), (3, 20)], True),  # epoch 2 has no records
    ],
)
def test_the_lineage_of_a_segment(start: int, end: int, entries: list[tuple[int, int]], within: bool) -> None:
    """Shows which segments belong to a log with leader epochs 1 from 10, 3 from 20 and 5 from 40, that ends at 50."""
    assert is_within(segment("a", start, end, *entries), 50, LINEAGE) is within


def test_epochs_without_records_do_not_count() -> None:
    """Shows that of the epochs that begin at one offset the last has the records there."""
    assert with_records(epochs((0, 0), (1, 5), (2, 5), (4, 9), (5, 9))) == list(epochs((0, 0), (2, 5), (5, 9)))
    assert with_records([]) == []
    assert not is_within(segment("a", 0, 3), 9, [])
