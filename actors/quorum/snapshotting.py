"""What a member does with its snapshots: begin with them, make them, put one in the place of its log, clean up.

The cleaner moves the log start to the end of the oldest snapshot that is left, so a log that begins above 0 begins
where a snapshot ends (``KafkaMetadataLog.scala``).
"""

from __future__ import annotations

from typing import Literal

from actors.log.batch import Batch
from actors.log.metadata_log import drop_below, load_metadata_log, restart_at
from actors.log.replica_log import ReplicaLog
from actors.log.segments import LogBase
from actors.node.codec import decode
from actors.node.events import DiskImage
from actors.node.fault import FatalFault
from actors.node.spec import METADATA_PARTITION
from actors.node.turn import NodeTurn
from actors.quorum.raft_state import RaftState
from actors.quorum.roles import Follower, Leader
from actors.quorum.snapshots import (
    Freezing,
    Snapshot,
    SnapshotId,
    StoredSnapshot,
    load_snapshots,
    read_snapshot,
    write_snapshot,
)
from actors.trace.events import Kept, QClean, QFreeze, QSnap

CLEAN = "raft/clean-snapshots"
OLDEST_TOLD = 4
"""Of so many snapshots the trace is told when the cleaner looks at them: more are hardly ever too many at once."""

# ---- start -------------------------------------------------------------------------------------------------


def load(raft: RaftState, turn: NodeTurn, file: str, disk: DiskImage) -> None:
    """Read snapshots and log. A snapshot beyond the end of the log takes its place: the process died before the log was
    given up for it, or the log has lost what the snapshot has. FatalFault: no snapshot ends where the log begins."""
    snapshots = raft.snapshots
    snapshots.stored, broken = load_snapshots(disk)
    for each in broken:
        turn.files.delete(turn.step, each)
    snapshots.start_counting(turn.step.now_ms)
    entries = disk.get(file, [])
    raft.log = load_metadata_log(METADATA_PARTITION, file, entries, _base(raft, entries), turn.step.wall_ms)
    latest = snapshots.read_latest()
    if latest is not None and _is_beyond(latest.id, raft.log):
        restart_at(raft.log, turn.step, turn.files, latest.base, latest.epoch)
    _forget_below_start(raft, turn)
    _start_cleaner(raft, turn)


def _base(raft: RaftState, entries: list[bytes]) -> LogBase:
    """Where the log begins that has these entries: at 0, or where a snapshot ends."""
    if not entries:
        return LogBase()
    first: Batch = decode(entries[0], Batch)
    if first.base_offset == 0:
        return LogBase()
    for stored in raft.snapshots.stored:
        if stored.id.end == first.base_offset:
            return read_snapshot(stored.content).base
    raise FatalFault(f"the metadata log begins at {first.base_offset}, where no snapshot ends")


def _is_beyond(snapshot_id: SnapshotId, log: ReplicaLog) -> bool:
    """Whether a snapshot has what a log lacks (``KafkaMetadataLog.truncateToLatestSnapshot``)."""
    last_epoch = max(log.last_epoch, 0)
    return snapshot_id.epoch > last_epoch or (snapshot_id.epoch == last_epoch and snapshot_id.end > log.end_offset)


# ---- making ------------------------------------------------------------------------------------------------


def is_due(raft: RaftState, turn: NodeTurn) -> bool:
    """Whether so much was applied, or so long ago, that the state machine should make a snapshot
    (``SnapshotGenerator.publishLogDelta``)."""
    snapshots, config = raft.snapshots, raft.config
    latest = snapshots.latest
    if snapshots.freezing or not snapshots.bytes_since or (latest is not None and latest.end >= raft.delivered):
        return False
    if "snapshots-not-made" in turn.step.defects:
        return False
    waited_ms = turn.step.now_ms - snapshots.since_ms
    return snapshots.bytes_since >= config.snapshot_max_bytes or 0 < config.snapshot_interval_ms <= waited_ms


def create(raft: RaftState, turn: NodeTurn, records: list[bytes], digest: int) -> None:
    """Make a snapshot of what the state machine has applied: ``records`` are its state, ``digest`` that of the log."""
    applied = raft.delivered if "snapshot-of-log-end" not in turn.step.defects else raft.log.end_offset
    end = raft.log.boundary(applied)
    last = raft.log.read(end.offset - 1, end.offset, 1)[-1].records[-1]
    control = raft.control_records(end.offset)
    name = end.offset - ("snapshot-id-inclusive" in turn.step.defects)
    snapshot = Snapshot(name, end.epoch, last.timestamp_ms, end.ph, digest, control, records)
    raft.snapshots.start_counting(turn.step.now_ms)
    freeze(raft, turn, StoredSnapshot(snapshot.id, write_snapshot(snapshot)), "create")


def freeze(raft: RaftState, turn: NodeTurn, stored: StoredSnapshot, op: Literal["create", "fetch"]) -> None:
    """Make a whole snapshot durable, under its name."""
    number = turn.files.replace(turn.step, stored.id.file, stored.content)
    turn.files.sync(turn.step, stored.id.file)
    turn.step.record(QFreeze(op, stored.id.end))
    raft.snapshots.freezing.append(Freezing(stored, number, op, raft.quorum.epoch))


def on_synced(raft: RaftState, turn: NodeTurn, file: str, upto: int) -> None:
    """A snapshot is durable: it exists from now on."""
    snapshots = raft.snapshots
    for freezing in [each for each in snapshots.freezing if each.stored.id.file == file and each.number <= upto]:
        snapshots.freezing.remove(freezing)
        if freezing.op == "create":
            snapshots.add(freezing.stored)
            record(raft, turn, "create", read_snapshot(freezing.stored.content))
        else:
            _replace_log(raft, turn, freezing)
    _forget_below_start(raft, turn)
    _start_cleaner(raft, turn)


def _replace_log(raft: RaftState, turn: NodeTurn, freezing: Freezing) -> None:
    """What was fetched is durable: the log begins at its end. Who stopped following meanwhile has no use for it. Raises
    FatalFault if the log has more, as where a disk was lost."""
    stored, role = freezing.stored, raft.quorum.role
    if not isinstance(role, Follower) or role.epoch != freezing.epoch:
        turn.files.delete(turn.step, stored.id.file)
        return
    if not _is_beyond(stored.id, raft.log):
        raise FatalFault(f"fetched a snapshot up to {stored.id.end} for a log that ends at {raft.log.end_offset}")
    snapshot = read_snapshot(stored.content)
    raft.snapshots.add(stored)
    record(raft, turn, "fetch", snapshot)
    restart_at(raft.log, turn.step, turn.files, snapshot.base, role.epoch)
    for flush in raft.flushes:
        flush.end = raft.log.end_offset
    if snapshot.control:
        raft.quorum.records.load_snapshot(snapshot)
        raft.record_voters(turn, "snapshot")


def record(
    raft: RaftState, turn: NodeTurn, op: Literal["create", "fetch", "load", "delete"], snapshot: Snapshot
) -> None:
    """Tell the trace of a snapshot."""
    role, me = raft.quorum.role, raft.config.node_id
    active = isinstance(role, Leader) and (raft.announced_leader, raft.announced_epoch) == (me, role.epoch)
    leads = role.epoch if active else -1
    end = (snapshot.end, snapshot.epoch, snapshot.ph, snapshot.digest)
    turn.step.record(QSnap(raft.config.directory_id, op, *end, leads, snapshot.state))


# ---- cleaning ----------------------------------------------------------------------------------------------


def _start_cleaner(raft: RaftState, turn: NodeTurn) -> None:
    """The oldest snapshot can go only when there is another one."""
    if len(raft.snapshots.stored) > 1 and not raft.snapshots.cleaning:
        raft.snapshots.cleaning = True
        turn.step.set_timer(CLEAN, raft.config.clean_interval_ms)


def clean(raft: RaftState, turn: NodeTurn) -> None:
    """Drop the oldest snapshots, and the log below the end of what is left, as far as retention says
    (``KafkaMetadataLog.maybeClean``)."""
    raft.snapshots.cleaning = False
    if len(raft.snapshots.stored) > 1:
        _record_look(raft, turn)
    if raft.config.retention_bytes >= 0 and "snapshots-of-any-size" not in turn.step.defects:
        _clean_by_size(raft, turn, raft.config.retention_bytes)
    while len(raft.snapshots.stored) > 1 and _is_too_old(raft, turn) and _drop_oldest(raft, turn):
        pass
    _start_cleaner(raft, turn)


def _record_look(raft: RaftState, turn: NodeTurn) -> None:
    log, stored = raft.log, raft.snapshots.stored
    oldest = []
    for each in stored[:OLDEST_TOLD]:
        below = sum(batch.size_bytes for batch in log.batches if batch.end_offset <= each.id.end)
        oldest.append(Kept(each.id.end, len(each.content), read_snapshot(each.content).last_contained_ms, below))
    sizes = sum(batch.size_bytes for batch in log.batches), sum(len(each.content) for each in stored)
    ends = log.start_offset, log.high_watermark, raft.delivered
    turn.step.record(QClean(*ends, turn.step.wall_ms, *sizes, oldest))


def _clean_by_size(raft: RaftState, turn: NodeTurn, limit: int) -> None:
    log, snapshots = raft.log, raft.snapshots
    size = sum(batch.size_bytes for batch in log.batches) + sum(len(stored.content) for stored in snapshots.stored)
    while len(snapshots.stored) > 1 and size > limit:
        oldest, start = snapshots.stored[:2]
        freed = len(oldest.content) + log.bytes_between(log.start_offset, start.id.end, size)
        if not _drop_oldest(raft, turn):
            return
        size -= freed


def _is_too_old(raft: RaftState, turn: NodeTurn) -> bool:
    limit_ms = raft.config.retention_ms
    oldest = read_snapshot(raft.snapshots.stored[0].content)
    if "snapshots-of-any-age" in turn.step.defects:
        limit_ms = 0
    return 0 <= limit_ms < turn.step.wall_ms - oldest.last_contained_ms


def _drop_oldest(raft: RaftState, turn: NodeTurn) -> bool:
    """Begin the log where the second oldest snapshot ends; False if it must not yet."""
    end = raft.snapshots.stored[1].id.end
    if not raft.log.start_offset < end <= min(raft.log.high_watermark, raft.delivered):
        return False
    drop_below(raft.log, turn.step, turn.files, end)
    _forget_below_start(raft, turn)
    return True


def _forget_below_start(raft: RaftState, turn: NodeTurn) -> None:
    """Remove the snapshots that end before the log starts, and forget the voters of then: nobody is given them any
    more."""
    raft.quorum.records.truncate_old(raft.log.start_offset)
    for stored in [each for each in raft.snapshots.stored if each.id.end < raft.log.start_offset]:
        raft.snapshots.stored.remove(stored)
        turn.files.delete(turn.step, stored.id.file)
        record(raft, turn, "delete", read_snapshot(stored.content))
