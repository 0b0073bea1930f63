"""Tiered storage at a broker: a task that copies and one that deletes for each partition that it leads, and how far is
copied for those that it follows (``RemoteLogManager.java``)."""

from __future__ import annotations

import msgspec

from actors.broker.forwarding import ForwardingManager
from actors.broker.partition import Partition
from actors.broker.remote_log.copied_offset import find_highest_remote_offset
from actors.broker.remote_log.copy_task import CopyTask
from actors.broker.remote_log.expiration_task import ExpirationTask
from actors.broker.remote_log.remote_log_metadata import RemoteLogMetadataManager
from actors.broker.turn import Turn
from actors.node.component import Component
from actors.node.network_client import Ended

TASK = "remote-log-task/"
"""Prefix of the timers that begin the runs: ``remote-log-task/<kind>/<partition>``."""
COPY, EXPIRE = "remote-copy/", "remote-expire/"
"""Prefixes of the purposes of a partition's calls."""


class PartitionTasks(msgspec.Struct):
    """The tasks of a partition, for one leader epoch. leads: whether this broker leads in it; else it has no tasks, and
    looks at ``due_ms`` how far others have copied."""

    key: str
    leader_epoch: int
    leads: bool
    due_ms: int = 0
    copy: CopyTask = msgspec.field(default_factory=CopyTask)
    expiration: ExpirationTask = msgspec.field(default_factory=ExpirationTask)


class RemoteLogManager(msgspec.Struct):
    """metadata: what is known of copied segments. tasks: by the partition's name."""

    metadata: RemoteLogMetadataManager = msgspec.field(default_factory=RemoteLogMetadataManager)
    tasks: dict[str, PartitionTasks] = {}

    def start(self, life: str) -> None:
        """Begin an incarnation; ``life`` names it among all."""
        self.metadata.life = life

    def poll(self, turn: Turn, forwarding: ForwardingManager) -> None:
        """Let everything go on that can."""
        if not turn.settings.remote_log.enabled or turn.broker_epoch < 0:
            return
        self.metadata.poll(turn, forwarding)
        partitions = turn.replicas.partitions
        for tp in [tp for tp in self.tasks if tp not in partitions or not partitions[tp].remote_storage]:
            del self.tasks[tp]
        for tp, partition in partitions.items():
            if partition.remote_storage and partition.role is not None:
                self._advance(turn, tp, partition)

    def _advance(self, turn: Turn, tp: str, partition: Partition) -> None:
        tasks = self.tasks.get(tp)
        now = (partition.key, partition.leader_epoch, partition.is_leader)
        if tasks is None or (tasks.key, tasks.leader_epoch, tasks.leads) != now:
            tasks = self.tasks[tp] = PartitionTasks(*now)
        if not tasks.leads:
            self._follow(turn, tp, partition, tasks)
            return
        copy, expiration, now_ms = tasks.copy, tasks.expiration, turn.step.now_ms
        ready = self.metadata.is_ready(turn, partition)
        if copy.at != "waiting" or copy.due_ms <= now_ms:
            skips = copy.at == "waiting" and (not ready or partition.log.config.copies_disabled)
            if skips or copy.advance(turn, partition, self.metadata, f"{COPY}{tp}"):
                copy.due_ms = self._later(turn, f"copy/{tp}")
        if expiration.running or expiration.due_ms <= now_ms:
            skips = not expiration.running and not ready
            if skips or expiration.advance(turn, partition, self.metadata, f"{EXPIRE}{tp}", copy.copying):
                expiration.due_ms = self._later(turn, f"expire/{tp}")

    def _follow(self, turn: Turn, tp: str, partition: Partition, tasks: PartitionTasks) -> None:
        """See how far others have copied: what is not copied must stay here."""
        if tasks.due_ms > turn.step.now_ms:
            return
        if self.metadata.is_ready(turn, partition):
            log = partition.log
            log.highest_remote_offset = find_highest_remote_offset(turn.readers.segments_of(partition), log)
        tasks.due_ms = self._later(turn, f"follow/{tp}")

    def _later(self, turn: Turn, name: str) -> int:
        interval_ms = turn.settings.remote_log.task_interval_ms
        turn.step.set_timer(f"{TASK}{name}", interval_ms)
        return turn.step.now_ms + interval_ms

    def on_ended(self, turn: Turn, ended: Ended, tp: str, kind: str) -> None:
        """A call of a task ended, if there still is one."""
        tasks = self.tasks.get(tp)
        if kind == EXPIRE and "deletion-answer-untaken" in turn.step.defects:
            return
        if tasks is not None:
            (tasks.copy if kind == COPY else tasks.expiration).store.on_ended(ended)


COMPONENT: Component[RemoteLogManager, Turn] = Component(
    timers={TASK: lambda manager, turn, _: None},  # whatever is due goes on with the next poll
    answers={
        COPY: lambda manager, turn, ended, tp: manager.on_ended(turn, ended, tp, COPY),
        EXPIRE: lambda manager, turn, ended, tp: manager.on_ended(turn, ended, tp, EXPIRE),
    },
)
