"""Leader epochs of a log: what end offset an epoch has (Kafka: LeaderEpochFileCache.java)."""

from actors.log.leader_epoch_cache import EpochEntry, LeaderEpochCache


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    built = LeaderEpochCache()
    for epoch, start in entries:
        built.assign(epoch, start)
    return built


def test_end_offsets_follow_the_table() -> None:
    """Shows each row of the rule: undefined, newest, beyond, below the first, between (E-063's log)."""
    epochs = cache((0, 0), (3, 2), (4, 8), (7, 13), (9, 14))
    assert epochs.end_offset_for(-1, 17) == (-1, -1)
    assert epochs.end_offset_for(9, 17) == (9, 17)
    assert epochs.end_offset_for(11, 17) == (-1, -1)
    assert epochs.end_offset_for(2, 17) == (0, 2)
    assert epochs.end_offset_for(6, 17) == (4, 13)
    assert cache((5, 10)).end_offset_for(3, 20) == (3, 10)
    assert cache().end_offset_for(0, 0) == (-1, -1)


def test_truncation_drops_epochs_that_begin_behind_it() -> None:
    """Shows that an epoch is forgotten when its first offset is cut, and kept when only a tail is."""
    epochs = cache((0, 0), (3, 2), (4, 8))
    epochs.truncate_from_end(8)
    assert epochs.latest_epoch == 3
    epochs.truncate_from_end(3)
    assert epochs.latest_epoch == 3
    assert epochs.epoch_at(1) == 0
    assert epochs.epoch_at(2) == 3


def test_a_log_start_that_moves_lifts_the_first_entry() -> None:
    """Shows which epochs a new log start leaves: those that reach beyond it, the first of them beginning there."""
    kept = {
        0: [(0, 0), (3, 2), (4, 8)],
        1: [(0, 1), (3, 2), (4, 8)],
        2: [(3, 2), (4, 8)],
        5: [(3, 5), (4, 8)],
        9: [(4, 9)],
    }
    for start, entries in kept.items():
        cache = LeaderEpochCache([EpochEntry(0, 0), EpochEntry(3, 2), EpochEntry(4, 8)])
        cache.truncate_from_start(start)
        assert [(entry.epoch, entry.start_offset) for entry in cache.entries] == entries
    empty = LeaderEpochCache([EpochEntry(3, 2)])
    empty.truncate_from_start(1)
    assert empty.entries == [EpochEntry(3, 2)]


def test_a_lower_epoch_that_begins_later_replaces_the_higher_ones() -> None:
    """Shows that epochs and offsets rise together whatever is appended (LeaderEpochFileCacheTest
    shouldEnforceMonotonicallyIncreasingEpochs, shouldEnforceOffsetsIncreaseMonotonically)."""
    assert cache((1, 5), (2, 6), (1, 7)).entries == [EpochEntry(1, 7)]
    assert cache((2, 6), (3, 5)).entries == [EpochEntry(3, 5)]
    assert cache((2, 6), (2, 7)).entries == [EpochEntry(2, 6)]
