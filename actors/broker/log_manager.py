"""The logs of a broker as a whole: how they are read at its start, what is deleted of them, and the checkpoint of where
they begin (``LogManager.scala``)."""

from __future__ import annotations

import msgspec

from actors.broker.checkpoints import parse_starts, render_starts
from actors.broker.coordinator_common.partitions import INTERNAL_TOPICS
from actors.broker.turn import Turn
from actors.log.recovery import Damaged, load_log, logs_on_disk, recover_log
from actors.log.replica_log import ReplicaLog
from actors.log.retention import delete_old_segments
from actors.log.segments import LogBase
from actors.node.component import Component
from actors.node.events import DiskImage

START_CHECKPOINT_FILE = "log-start-offset-checkpoint"
RETENTION = "kafka-log-retention"
START_CHECKPOINT = "kafka-log-start-offset-checkpoint"


class LogManager(msgspec.Struct):
    """``checkpointed``: content of the checkpoint file."""

    checkpointed: bytes = b""

    def load(self, turn: Turn, disk: DiskImage, *, clean: bool) -> list[ReplicaLog]:
        """Read the logs, and unless the last incarnation ended well recover them. Each begins at its checkpoint, or
        with its first segment if that is later."""
        self.checkpointed = (disk.get(START_CHECKPOINT_FILE) or [b""])[0]
        starts, logs = parse_starts(self.checkpointed), list[ReplicaLog]()
        for tp, files in logs_on_disk(disk).items():
            logs.append(_load(turn, tp, files, starts.get(tp, LogBase()), clean=clean))
        turn.step.set_timer(RETENTION, turn.settings.log_initial_task_delay_ms)
        turn.step.set_timer(START_CHECKPOINT, turn.settings.log_initial_task_delay_ms)
        return logs

    def on_retention_timer(self, turn: Turn) -> None:
        """Every log.retention.check.interval.ms: delete what need not be retained. Internal topics are compacted."""
        turn.step.set_timer(RETENTION, turn.settings.log_retention_check_interval_ms)
        for partition in turn.replicas.partitions.values():
            if partition.role is not None and partition.topic not in INTERNAL_TOPICS:
                delete_old_segments(turn.step, turn.files, partition.log)

    def on_checkpoint_timer(self, turn: Turn) -> None:
        """Every log.flush.start.offset.checkpoint.interval.ms."""
        turn.step.set_timer(START_CHECKPOINT, turn.settings.log_start_checkpoint_interval_ms)
        self.checkpoint(turn)

    def checkpoint(self, turn: Turn) -> None:
        """Write where logs begin, of those that are tiered or begin within a segment, if that changed
        (``LogManager.checkpointLogStartOffsets``)."""
        starts, former = dict[str, LogBase](), parse_starts(self.checkpointed)
        for partition in turn.replicas.partitions.values():
            log, key = partition.log, partition.key
            if log.checkpointed_start >= 0 and key in former:
                starts[key] = former[key]  # perhaps of a tiered log, which is not known yet
            elif log.config.remote_storage or log.start_offset > log.base.offset:
                start = log.high_watermark if "start-checkpoint-ahead" in turn.step.defects else log.start_offset
                starts[key] = LogBase(start, log.ph_below(start))
        if (not starts and not self.checkpointed) or "log-starts-uncheckpointed" in turn.step.defects:
            return
        content = render_starts(starts)
        if content != self.checkpointed:
            self.checkpointed = content
            turn.files.replace(turn.step, START_CHECKPOINT_FILE, content)
            turn.files.sync(turn.step, START_CHECKPOINT_FILE)


def _load(turn: Turn, tp: str, files: DiskImage, start: LogBase, *, clean: bool) -> ReplicaLog:
    if clean:
        try:
            return load_log(turn.step, tp, files, start)
        except Damaged:
            pass  # recovered as well (``LogLoader.loadSegmentFiles``: where a segment's indexes are missing)
    return recover_log(turn.step, turn.files, tp, files, start)


COMPONENT: Component[LogManager, Turn] = Component(
    timers={
        RETENTION: lambda logs, turn, _: logs.on_retention_timer(turn),
        START_CHECKPOINT: lambda logs, turn, _: logs.on_checkpoint_timer(turn),
    },
)
