"""Property: a replica's log and its files never disagree, whatever is appended, rolled, deleted and cut."""

from hypothesis import given, strategies as st

from actors.log.batch import LogRecord
from actors.log.log_validator import LogConfig
from actors.log.recovery import load_log, logs_on_disk, recover_log
from actors.log.replica_log import ReplicaLog
from actors.log.retention import delete_old_segments
from actors.log.segments import LogBase
from actors.node.codec import decode, encode
from actors.node.events import DiskImage
from actors.node.files import Files
from actors.node.step import Step
from krift.v1.records import RecordBatch
from tests.harness.host import Host

actions = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("append"), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("truncate"), st.integers(0, 12), st.booleans()),
        st.tuples(st.just("commit"), st.integers(0, 12), st.just(False)),
        st.tuples(st.just("delete"), st.integers(0, 12), st.just(False)),
    ),
    max_size=30,
)
ABOUT_TWO_BATCHES = 200


class Syncless(Host):
    """A host whose node does not hear of Syncs."""

    def synced(self, file: str) -> None:
        pass


def carry_out(log: ReplicaLog, taken: list[tuple[str, int, bool]]) -> DiskImage:
    """Do it to a log, and to a disk."""
    step, files, host, epoch = Step(0), Files(), Syncless(), 0
    for number, (kind, n, bump) in enumerate(taken):
        epoch += bump
        if kind == "append":
            records = [LogRecord(1, f"{number}:{i}") for i in range(n)]
            batch = RecordBatch(producer_id=n, base_sequence=number, is_transactional=bump, records=records)
            log.append_transactional(step, files, batch, epoch, None)
        elif kind == "truncate":
            log.truncate_to(step, files, n, "diverge", epoch)
        elif kind == "commit":
            log.set_high_watermark(step, "leader", epoch, max(log.high_watermark, log.boundary_at_or_below(n)), [])
        else:
            log.increment_start_offset(step, min(n, log.high_watermark), "delete-records")
            delete_old_segments(step, files, log)
        assert log.start_offset <= log.last_stable_offset <= log.high_watermark <= log.end_offset
        assert log.base.offset <= log.start_offset
        assert sum(each.size_bytes for each in log.segments) == sum(each.size_bytes for each in log.batches)
    host.carry_out(step.effects, 0)
    return logs_on_disk(host.disk).get("t-0", {log.active.file: []})


@given(actions)
def test_log_and_files_agree(taken: list[tuple[str, int, bool]]) -> None:
    """Shows that the files, with the checkpoint of the log start, give the log back, whether its process ended well or
    not, but for the leader epoch of a log that was emptied; and that a snapshot of the state does too."""
    log = ReplicaLog("t-0", config=LogConfig(segment_bytes=ABOUT_TWO_BATCHES))
    disk = carry_out(log, taken)
    assert decode(encode(log), ReplicaLog) == log
    log.epochs.truncate_from_end(log.end_offset)
    start = LogBase(log.start_offset, log.ph_at(log.boundary_at_or_below(log.start_offset)))
    for again in (load_log(Step(0), "t-0", disk, start), recover_log(Step(0), Files(), "t-0", disk, start)):
        again.config, again.high_watermark = log.config, log.high_watermark
        again.producers.advance(log.high_watermark)
        assert again == log


@given(actions, st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_what_is_recovered_was_in_the_log(
    taken: list[tuple[str, int, bool]], segment: int, entry: int, checkpointed: bool
) -> None:
    """Shows that a log of whose files something is lost goes as far as they are whole, with the same prefix hashes, and
    that its files are those of the log that was recovered."""
    log = ReplicaLog("t-0", config=LogConfig(segment_bytes=ABOUT_TWO_BATCHES))
    disk = carry_out(log, taken)
    name = sorted(disk)[segment % len(disk)]
    disk[name] = disk[name][:entry]
    start = LogBase()
    if checkpointed:
        start = LogBase(log.start_offset, log.ph_at(log.boundary_at_or_below(log.start_offset)))
    host, step = Syncless(), Step(0)
    host.disk = {file: list(entries) for file, entries in disk.items()}
    again = recover_log(step, Files(), "t-0", disk, start)
    assert again.start_offset >= start.offset
    assert again.end_offset <= log.end_offset
    for batch in again.batches:
        assert batch.ph == log.ph_at(batch.end_offset)
    host.carry_out(step.effects, 0)
    left = logs_on_disk(host.disk).get("t-0", {again.active.file: []})
    assert load_log(Step(0), "t-0", left, start) == again


@given(actions, actions)
def test_equal_prefix_hashes_mean_equal_prefixes(
    left: list[tuple[str, int, bool]], right: list[tuple[str, int, bool]]
) -> None:
    """Shows that two logs have one prefix hash at a boundary exactly when they hold the same up to it."""
    logs = []
    for taken in (left, right):
        log, step, files = ReplicaLog("t-0"), Step(0), Files()
        for kind, n, bump in taken:
            if kind == "append":
                log.append_records(step, files, [LogRecord(0, f"{i}") for i in range(n)], int(bump))
            elif kind == "truncate":
                log.truncate_to(step, files, n, "diverge", 0)
        logs.append(log)
    a, b = logs
    for first, second in zip(a.batches, b.batches, strict=False):
        same = [x.records for x in a.batches[: a.batches.index(first) + 1]] == [
            x.records for x in b.batches[: b.batches.index(second) + 1]
        ] and [x.epoch for x in a.batches[: a.batches.index(first) + 1]] == [
            x.epoch for x in b.batches[: b.batches.index(second) + 1]
        ]
        assert (first.ph == second.ph) == same
