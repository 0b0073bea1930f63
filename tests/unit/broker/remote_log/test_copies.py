"""Which segments are copied, and which copies are deleted."""

from __future__ import annotations

import pytest

from actors.broker.list_offsets import of_copies
from actors.broker.remote_log.copied_offset import find_highest_remote_offset, find_log_start_offset
from actors.broker.remote_log.copy_task import candidates, epochs_in, segment_objects
from actors.broker.remote_log.expiration_task import find_expired
from actors.broker.remote_log.fetch_reader import piece_of
from actors.broker.remote_log.segment_metadata import SegmentMetadata, SegmentState
from actors.broker.remote_log.segment_metadata_cache import SegmentMetadataCache
from actors.log.leader_epoch_cache import EpochEntry
from actors.log.log_validator import DEFAULT_LOG_CONFIG, LogConfig
from actors.log.replica_log import ReplicaLog
from actors.log.segment_objects import (
    LEADER_EPOCH,
    LOG,
    OFFSET,
    PRODUCER_SNAPSHOT,
    TIMESTAMP,
    position_of_timestamp,
    read_batches,
    read_epochs,
    read_header,
    read_index,
)
from actors.log.segments import LogBase
from actors.node.files import Files
from actors.node.list_timestamps import EARLIEST_PENDING_UPLOAD, LATEST_TIERED
from actors.node.step import Step
from krift.v1.records import Record, RecordBatch
from krift.v1.remote_storage import RemoteLogSegmentId

FINISHED, DELETING = SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_STARTED


def log_of(*epochs: int, config: LogConfig = DEFAULT_LOG_CONFIG) -> ReplicaLog:
    """A log with a segment of two batches of two records for each leader epoch, and an empty one behind; the record at
    an offset has ten times that for its timestamp. All of it is committed."""
    log, files = ReplicaLog("orders-0", config=config), Files()
    for epoch in epochs:
        for _ in range(2):
            at = 10 * log.end_offset
            batch = RecordBatch(records=[Record(timestamp_ms=at, uid=f"r{at}"), Record(timestamp_ms=at + 10)])
            assert not log.append_as_leader(Step(at), files, batch, epoch).error
        log.roll(Step(10 * log.end_offset), files)
    log.high_watermark = log.end_offset
    return log


def copy(key: str, start: int, end: int, *epochs: tuple[int, int], state: SegmentState = FINISHED) -> SegmentMetadata:
    """A copy of 100 bytes whose newest record is as old as its end says."""
    where = RemoteLogSegmentId(topic="orders", topic_id="T", partition=0, segment_id=key)
    entries = tuple(EpochEntry(*each) for each in epochs)
    return SegmentMetadata(where, start, end, 10 * end, 1, 0, 100, entries, state)


def known(*copies: SegmentMetadata) -> SegmentMetadataCache:
    """What a broker knows."""
    highest: dict[int, int] = {}
    for each in copies:
        for entry in each.epochs:
            highest[entry.epoch] = max(highest.get(entry.epoch, -1), each.epoch_end(entry.epoch))
    return SegmentMetadataCache({each.key: each for each in copies}, highest)


@pytest.mark.parametrize(
    ("from_offset", "stable", "found"),
    [
        (0, 12, [(0, 4), (4, 8), (8, 12)]),
        (4, 12, [(4, 8), (8, 12)]),
        (5, 12, [(4, 8), (8, 12)]),
        (0, 11, [(0, 4), (4, 8)]),
        (0, 3, []),
        (12, 12, []),
    ],
)
def test_full_and_stable_segments_are_copied(from_offset: int, stable: int, found: list[tuple[int, int]]) -> None:
    """Shows that the active segment is not copied, nor one that ends above the last stable offset."""
    assert candidates(log_of(0, 0, 0), from_offset, stable, 0) == found


def test_a_lag_holds_up_what_is_behind() -> None:
    """Shows that a segment waits until it is old enough, or has enough bytes behind it, and those behind it with it."""
    old = LogConfig(remote_copy_lag_ms=50)
    assert candidates(log_of(0, 0, 0, config=old), 0, 12, 120) == [(0, 4), (4, 8)]
    size = log_of(0).segments[0].size_bytes
    big = LogConfig(remote_copy_lag_ms=10_000, remote_copy_lag_bytes=size)
    assert candidates(log_of(0, 0, 0, config=big), 0, 12, 120) == [(0, 4), (4, 8)]
    never = LogConfig(remote_copy_lag_ms=-1, retention_ms=-1)
    assert candidates(log_of(0, 0, config=never), 0, 8, 10**9) == []


def test_the_objects_of_a_segment() -> None:
    """Shows that batches, indexes, producers and leader epochs of a segment come back from its objects, and that a
    segment which is gone has none."""
    log = log_of(0, 2, 2)
    objects = segment_objects(log, 4, 8)
    assert objects is not None
    assert list(objects) == [LOG, OFFSET, TIMESTAMP, PRODUCER_SNAPSHOT, LEADER_EPOCH]
    assert read_batches(objects[LOG]) == log.batches[2:4]
    offsets, timestamps = read_index(objects[OFFSET]), read_index(objects[TIMESTAMP])
    second = offsets[1].position
    assert [piece_of(offsets, offset, 10**6)[0] for offset in (4, 5, 6, 7)] == [0, 0, second, second]
    assert [position_of_timestamp(timestamps, at) for at in (0, 50, 60, 70, 71)] == [0, 0, second, second, None]
    assert read_batches(objects[LOG][second:]) == log.batches[3:4]
    assert read_batches(objects[LOG][:-1]) == log.batches[2:3]
    assert read_header(objects[PRODUCER_SNAPSHOT]).base == log.segments[2].base
    assert read_epochs(objects[LEADER_EPOCH]) == [EpochEntry(0, 0), EpochEntry(2, 4)]
    assert epochs_in(log, 2, 6) == [EpochEntry(0, 2), EpochEntry(2, 4)]
    assert segment_objects(log, 5, 8) is None
    assert segment_objects(log, 12, 16) is None


def test_a_read_takes_whole_batches() -> None:
    """Shows which bytes are asked for: at most as many as wanted, but one batch at least, from the offset on."""
    objects = segment_objects(log_of(0), 0, 4)
    assert objects is not None
    index = read_index(objects[OFFSET])
    second = index[1].position
    assert piece_of(index, 0, 10**6) == (0, -1)
    assert piece_of([*index, *index], 3, 10**6)[0] == second
    longer = [*index, index[1].__class__(4, 2 * second), index[1].__class__(6, 3 * second)]
    assert piece_of(longer, 0, 1) == (0, second - 1)
    assert piece_of(longer, 2, 2 * second) == (second, -1)


def test_how_far_a_log_was_copied() -> None:
    """Shows that the newest leader epoch of the log counts of which anything was copied, and no further than the log
    has it; and that a log begins with its first copy, or locally (E-180)."""
    log = log_of(0, 2, 5)
    assert find_highest_remote_offset(known(), log) == -1
    assert find_highest_remote_offset(known(copy("a", 0, 3, (0, 0)), copy("b", 4, 7, (2, 4))), log) == 7
    assert find_highest_remote_offset(known(copy("a", 0, 9, (0, 0))), log) == 3
    assert find_highest_remote_offset(known(copy("x", 0, 9, (1, 0))), log) == -1
    assert find_log_start_offset(known(copy("b", 4, 7, (2, 4))), log) == 4
    log.start_offset = 2
    assert find_log_start_offset(known(copy("x", 0, 9, (1, 0))), log) == 2


A, B, C = copy("a", 0, 3, (0, 0)), copy("b", 4, 7, (0, 4)), copy("c", 8, 11, (0, 8))


def keys(found: list[SegmentMetadata]) -> list[str]:
    """Their ids."""
    return [each.key for each in found]


def test_copies_expire_from_the_oldest_on() -> None:
    """Shows retention by time and by size, and where the log begins then; nothing goes behind one that stays, and none
    that is being copied."""
    by_time = log_of(0, 0, 0, config=LogConfig(retention_ms=50))
    found = find_expired(known(A, B, C), by_time, 125, "")
    assert (keys(found.segments), found.start, found.why) == (["a", "b"], 8, "retention-ms")
    assert keys(find_expired(known(A, B, C), by_time, 125, "b").segments) == ["a"]
    by_size = log_of(0, 0, 0, config=LogConfig(retention_bytes=150))
    by_size.highest_remote_offset = 11
    by_size.segments[-1].size_bytes = 0
    found = find_expired(known(A, B, C), by_size, 125, "")
    assert (keys(found.segments), found.start, found.why) == (["a"], 4, "retention-bytes")
    assert find_expired(known(), by_time, 125, "").segments == []


def test_what_is_below_the_log_start_goes() -> None:
    """Shows that a copy wholly below the log start is deleted whatever its age, and the log begins where it did."""
    log = log_of(0, 0, 0, config=LogConfig(retention_ms=-1))
    log.increment_start_offset(Step(0), 6, "delete-records")
    found = find_expired(known(A, B, C), log, 10**9, "")
    assert (keys(found.segments), found.start) == (["a"], -1)


def test_leftovers_and_other_lineages_go() -> None:
    """Shows that a deletion that was begun is ended, that a copy of leader epochs before the log is deleted, and that
    one of another lineage is passed over."""
    log = log_of(3, 3, config=LogConfig(retention_ms=-1))
    begun = copy("d", 0, 3, (3, 0), state=DELETING)
    before = copy("e", 0, 9, (1, 0))
    other = copy("f", 0, 5, (3, 0), (4, 5))
    found = find_expired(known(begun, before, other), log, 10**9, "")
    assert (keys(found.segments), found.start) == (["d", "e"], -1)


def test_what_is_told_of_copies() -> None:
    """Shows LATEST_TIERED and EARLIEST_PENDING_UPLOAD of a tiered log: nothing copied, two epochs copied, and a log
    start behind the copies, when the last one has no epoch any more."""
    log = log_of(0, 2, 5)

    def told(timestamp: int) -> tuple[int, int]:
        found = of_copies(log, timestamp)
        return (found.offset, found.leader_epoch)

    assert (told(LATEST_TIERED), told(EARLIEST_PENDING_UPLOAD)) == ((-1, -1), (0, 0))
    log.highest_remote_offset = 7
    assert (told(LATEST_TIERED), told(EARLIEST_PENDING_UPLOAD)) == ((7, 2), (8, 5))
    log.increment_start_offset(Step(0), 9, "delete-records")
    assert (told(LATEST_TIERED), told(EARLIEST_PENDING_UPLOAD)) == ((7, -1), (9, 5))
    log.highest_remote_offset = -1
    log.segments[0].base = LogBase(10)
    assert told(EARLIEST_PENDING_UPLOAD) == (-1, -1)
