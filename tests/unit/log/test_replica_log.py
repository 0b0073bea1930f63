"""The replica's log: idempotent appends, reading, truncation, prefix hashes."""

import pytest

from actors.log.batch import LogRecord
from actors.log.leader_epoch_cache import EpochEntry
from actors.log.log_validator import LogConfig
from actors.log.recovery import load_log, recover_log
from actors.log.replica_log import ReplicaLog
from actors.log.retention import delete_old_segments
from actors.log.segments import LogBase
from actors.node.effects import Delete, Record, Write
from actors.node.errors import KafkaError
from actors.node.files import Files
from actors.node.step import Step
from actors.trace.events import LogDrop, LogLocalStart, LogRoll, LogStart, LogTrunc
from krift.v1.records import RecordBatch


def producer_batch(sequence: int, *uids: str, epoch: int = 0, producer_id: int = 7) -> RecordBatch:
    return RecordBatch(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        records=[LogRecord(timestamp_ms=100 + i, uid=uid) for i, uid in enumerate(uids)],
    )


def new_log() -> tuple[ReplicaLog, Step, Files]:
    return ReplicaLog("orders-0"), Step(0), Files()


def test_an_exact_duplicate_is_answered_with_its_old_offsets() -> None:
    """Shows that a duplicate is a success (Kafka: ProducerStateEntry.java), nothing appended."""
    log, step, files = new_log()
    log.append_as_leader(step, files, producer_batch(0, "a", "b"), 0)
    again = log.append_as_leader(step, files, producer_batch(0, "a", "b"), 0)
    assert (again.error, again.base_offset, again.last_offset) == (KafkaError.NONE, 0, 1)
    assert log.end_offset == 2


def test_sequences_must_follow_each_other() -> None:
    """Shows rows 3, 6, 7 and 8: old epoch, new epoch not at 0, gap, and the first batch of an unknown producer."""
    log, step, files = new_log()
    assert log.append_as_leader(step, files, producer_batch(5, "a"), 0).error == KafkaError.NONE
    assert log.append_as_leader(step, files, producer_batch(7, "b"), 0).error == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (
        log.append_as_leader(step, files, producer_batch(3, "b", epoch=1), 0).error
        == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert log.append_as_leader(step, files, producer_batch(0, "b", epoch=1), 0).error == KafkaError.NONE
    assert log.append_as_leader(step, files, producer_batch(6, "c"), 0).error == KafkaError.INVALID_PRODUCER_EPOCH


def test_a_defect_takes_any_sequence() -> None:
    """Shows that the defect skip-sequence-check changes behaviour in its one place."""
    log, _, files = new_log()
    step = Step(0, ("skip-sequence-check",))
    log.append_as_leader(step, files, producer_batch(0, "a"), 0)
    assert log.append_as_leader(step, files, producer_batch(9, "b"), 0).error == KafkaError.NONE


def test_sequences_wrap_to_zero() -> None:
    """Shows that 2^31 - 1 is followed by 0."""
    log, step, files = new_log()
    log.append_as_leader(step, files, producer_batch(2**31 - 1, "a"), 0)
    assert log.append_as_leader(step, files, producer_batch(0, "b"), 0).error == KafkaError.NONE


def test_truncation_rebuilds_producer_state_and_lowers_the_high_watermark() -> None:
    """Shows that what was cut may be produced again with the same sequences."""
    log, step, files = new_log()
    log.append_as_leader(step, files, producer_batch(0, "a"), 0)
    log.append_as_leader(step, files, producer_batch(1, "b"), 1)
    log.set_high_watermark(step, "leader", 1, 2, [1])
    log.truncate_to(step, files, 1, "diverge", 2)
    assert (log.end_offset, log.high_watermark, log.last_epoch, log.epochs.latest_epoch) == (1, 1, 0, 0)
    assert log.append_as_leader(step, files, producer_batch(1, "b"), 2).base_offset == 1
    assert log.end_offset == 2


def test_a_batch_of_a_later_epoch_is_not_appended() -> None:
    """Shows E-076: a follower in epoch 4 leaves out the batch of epoch 5."""
    leader, step, files = new_log()
    for epoch in (3, 4, 5):
        leader.append_records(step, files, [LogRecord(0, f"u{epoch}")], epoch)
    follower = ReplicaLog("orders-0")
    sent = [batch.to_message() for batch in leader.read(0, 3, 1000)]
    assert follower.append_as_follower(step, files, sent, 4) == 2
    assert follower.end_ph == leader.ph_at(2)


def test_reading_respects_limits_but_returns_at_least_one_batch() -> None:
    """Shows max bytes, the exclusive limit offset, and a start inside a batch."""
    log, step, files = new_log()
    for n in range(4):
        log.append_as_leader(step, files, producer_batch(2 * n, f"a{n}", f"b{n}"), 0)
    assert [b.base_offset for b in log.read(3, 8, 1)] == [2]
    assert [b.base_offset for b in log.read(0, 5, 10_000)] == [0, 2]
    assert log.read(8, 8, 10_000) == []
    assert log.find_by_timestamp(101) == (1, 101, 0)
    assert log.find_by_timestamp(500) is None


def test_a_log_read_back_from_its_file_is_the_same_log() -> None:
    """Shows that the entries written are all that a restart needs."""
    log, step, files = new_log()
    log.append_as_leader(step, files, producer_batch(0, "a", "b"), 0)
    log.append_as_leader(step, files, producer_batch(2, "c"), 3)
    entries = [e for w in step.effects if isinstance(w, Write) for e in getattr(w.operation, "entries", [])]
    again = load_log(Step(0), "orders-0", {log.active.file: entries}, LogBase())
    assert again == log
    assert any(isinstance(effect, Record) for effect in step.effects)


def tiered_log(copied: int) -> tuple[ReplicaLog, Step, Files]:
    """A log of four committed segments with one record each, of two leader epochs, and an empty one behind; remote
    storage has what is below ``copied``."""
    log, step, files = new_log()
    log.config = LogConfig(segment_bytes=80, local_retention_bytes=0, remote_storage=True)
    for epoch, number in ((0, 0), (0, 1), (3, 2), (3, 3)):
        assert not log.append_as_leader(step, files, producer_batch(number, f"r{number}"), epoch).error
    log.roll(step, files)
    log.high_watermark, log.highest_remote_offset = log.end_offset, copied - 1
    return log, step, files


@pytest.mark.parametrize("copied", [0, 2, 4])
def test_a_tiered_log_keeps_what_is_not_copied(copied: int) -> None:
    """Shows that local retention drops what remote storage has, and nothing else; and that neither the log start moves
    nor leader epochs are forgotten."""
    log, step, files = tiered_log(copied)
    assert not delete_old_segments(step, files, log)
    assert (log.start_offset, log.local_start_offset, log.end_offset) == (0, copied, 4)
    assert log.epochs.entries == [EpochEntry(0, 0), EpochEntry(3, 2)]
    told = [each.event.new for each in step.effects if isinstance(each, Record) and type(each.event) is LogLocalStart]
    assert told == ([copied] if copied else [])


@pytest.mark.parametrize("tiered", [True, False])
def test_a_log_says_where_it_begins_before_its_segments_go(tiered: bool) -> None:
    """Shows that a log has said where it begins, or its own part of it, before retention deletes the first file."""
    log, _, files = tiered_log(4)
    log.config = LogConfig(segment_bytes=80, retention_bytes=0, local_retention_bytes=0, remote_storage=tiered)
    step = Step(0)
    delete_old_segments(step, files, log)
    kinds = [
        type(each.event) if isinstance(each, Record) else type(each.operation)
        for each in step.effects
        if isinstance(each, Record | Write)
    ]
    assert kinds == [LogLocalStart if tiered else LogStart, LogDrop, *[Delete] * 4]


def test_a_cut_below_what_a_tiered_log_has_itself_says_why() -> None:
    """Shows that a log which begins anew, as the last stable offset of its leader is in remote storage alone, says that
    this is the reason of the cut (``UnifiedLog.truncateTo``)."""
    log, step, files = tiered_log(3)
    delete_old_segments(step, files, log)
    assert (log.local_start_offset, log.end_offset) == (3, 4)
    log.cut_to_stable(step, files, 2, 7)
    assert (log.start_offset, log.end_offset, log.high_watermark) == (2, 2, 2)
    events = [each.event for each in step.effects if isinstance(each, Record)]
    cuts = [(each.was, each.to, each.reason) for each in events if isinstance(each, LogTrunc)]
    assert cuts == [(4, 2, "last-stable-offset")]


def test_what_is_active_is_copied_before_it_goes() -> None:
    """Shows that the active segment of a tiered log is full when it is its turn to go, and stays until it is copied."""
    log, step, files = tiered_log(4)
    assert not log.append_as_leader(step, files, producer_batch(4, "r4"), 3).error
    log.high_watermark = log.end_offset
    delete_old_segments(step, files, log)
    assert ([each.base.offset for each in log.segments], log.local_start_offset) == ([4, 5], 4)
    log.highest_remote_offset = 4
    delete_old_segments(step, files, log)
    assert ([each.base.offset for each in log.segments], log.local_start_offset) == ([5], 5)


@pytest.mark.parametrize(("tiered", "start", "epochs"), [(True, 0, [(0, 0), (3, 2)]), (False, 2, [(3, 2)])])
def test_a_log_start_below_the_first_segment_is_read_back(
    tiered: bool, start: int, epochs: list[tuple[int, int]]
) -> None:
    """Shows that a tiered log begins at its checkpoint, with the leader epochs from there on, and any other with its
    first segment."""
    log, step, files = tiered_log(2)
    delete_old_segments(step, files, log)
    disk: dict[str, list[bytes]] = {}
    for write in (each for each in step.effects if isinstance(each, Write)):
        disk.setdefault(write.file, []).extend(getattr(write.operation, "entries", []))
    found = {file: entries for file, entries in sorted(disk.items()) if file in log.files}
    again = load_log(Step(0), "orders-0", found, LogBase())
    assert (again.start_offset, again.high_watermark, again.end_offset) == (2, 2, 4)
    again.config = log.config if tiered else LogConfig()
    again.settle_start(Step(0))
    assert (again.start_offset, again.local_start_offset) == (start, 2)
    assert [(each.epoch, each.start_offset) for each in again.epochs.entries] == epochs


@pytest.mark.parametrize(("written", "told"), [(2, [2]), (3, [])])
def test_a_segment_that_a_crash_left_unsaid(written: int, told: list[int]) -> None:
    """Shows that a process which finds an empty segment behind others tells of it: the one before may have ended
    between making its file and saying so. Of a segment with batches it has said so."""
    log, step, files = new_log()
    for sequence in range(2):
        assert not log.append_as_leader(step, files, producer_batch(sequence, f"r{sequence}"), 0).error
    log.roll(step, files)
    assert not log.append_as_leader(step, files, producer_batch(2, "r2"), 0).error
    disk: dict[str, list[bytes]] = {}
    writes = [each for each in step.effects if isinstance(each, Write)]
    for write in writes[: written + 1]:
        disk.setdefault(write.file, []).extend(getattr(write.operation, "entries", []))
    found, after = dict(sorted(disk.items())), Step(0)
    again = recover_log(after, Files(), "orders-0", found, LogBase())
    assert [each.base.offset for each in again.segments] == [0, 2]
    events = [each.event for each in after.effects if isinstance(each, Record)]
    assert [each.base for each in events if isinstance(each, LogRoll)] == told
