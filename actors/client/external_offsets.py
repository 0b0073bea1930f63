"""An application that keeps its positions outside Kafka, and begins there when it starts again (step 5 of KIP-232 as it
was first proposed, version 16; ``KafkaConsumer.java``, "Storing Offsets Outside Kafka").

What it keeps with an offset, and what it does before it seeks there, is what ``kip-232`` gives it: with ``seed`` the
metadata epoch, for which it waits; with ``kafka`` the leader epoch of the record before, with which it seeks once it
knows of the partition (a consumer remembers no leader epoch of a partition that it has not heard of); with ``off``
nothing, and it seeks at once.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from actors.client.metadata_cache import MetadataCache
from actors.client.subscription_state import TopicPartitionState
from actors.client.workload import Every
from actors.node.events import DiskImage
from actors.node.files import Files
from actors.node.step import Step
from actors.trace.events import MetaWait

FILE = "external-offsets"
"""The application's own storage."""
SAVE = "external-offsets/save"
WAIT = "metadata/wait"


class Saved(msgspec.Struct, frozen=True):
    """A position as it was kept, -1 what is not known; with the id of its topic if that is kept."""

    offset: int
    leader_epoch: int = -1
    metadata_epoch: int = -1
    topic_id: str | UnsetType = UNSET


_DECODER = msgspec.json.Decoder(dict[str, Saved])


class MetadataWait(msgspec.Struct):
    """The consumer's ``waitForMetadataUpdate``. epoch: that is waited for, -1: nobody waits. operation: that is
    completed with {"reached": whether it came in time}, "" none."""

    epoch: int = -1
    operation: str = ""

    def begin(self, step: Step, metadata: MetadataCache, epoch: int, timeout_ms: int, operation: str = "") -> None:
        """Wait until the consumer has received metadata whose epoch is not below ``epoch``, or the time is over."""
        self.epoch, self.operation = epoch, operation
        metadata.await_epoch(epoch)
        step.set_timer(WAIT, timeout_ms)

    def poll(self, step: Step, metadata: MetadataCache) -> bool:
        """Whether the wait has just ended with such metadata."""
        early = "wait-ends-with-any-metadata" in step.defects and metadata.updates > 0
        if self.epoch < 0 or (metadata.metadata_epoch < self.epoch and not early):
            return False
        step.cancel_timer(WAIT)
        self._end(step, metadata, reached=True)
        return True

    def on_timeout(self, step: Step, metadata: MetadataCache) -> None:
        """The time is over."""
        if self.epoch >= 0:
            self._end(step, metadata, reached=False)

    def _end(self, step: Step, metadata: MetadataCache, reached: bool) -> None:
        step.record(MetaWait(self.epoch, metadata.metadata_epoch, reached))
        if self.operation:
            step.complete(self.operation, {"reached": reached})
        self.epoch, self.operation, metadata.awaited_epoch = -1, "", -1


class ExternalOffsets(msgspec.Struct):
    """The application's part. every_ms: so often it saves, 0: it keeps nothing. wait_ms: so long it waits for metadata
    at a time; it waits again then. saved: by topic partition. files: of the application."""

    every_ms: int = 0
    wait_ms: int = 0
    saved: dict[str, Saved] = {}
    wait: MetadataWait = msgspec.field(default_factory=MetadataWait)
    saves: Every = msgspec.field(default_factory=Every)
    files: Files = msgspec.field(default_factory=Files)

    def restore(self, disk: DiskImage) -> None:
        """Read what was saved before."""
        kept = disk.get(FILE)
        if self.every_ms and kept:
            self.saved = _DECODER.decode(kept[-1])

    def begin(self, step: Step) -> None:
        """Save from now on."""
        if self.every_ms:
            self.saves = Every(self.every_ms, step.now_ms)
            step.set_timer(SAVE, self.every_ms)

    def may_seek(
        self, step: Step, metadata: MetadataCache, positions: list[TopicPartitionState]
    ) -> list[TopicPartitionState]:
        """Which of the partitions whose saved positions the application has yet to seek to it may seek to now."""
        if not positions:
            return []
        if metadata.kip_232 == "kafka":
            return [each for each in positions if self.saved[each.tp].leader_epoch < 0 or metadata.knows(each.tp)]
        if metadata.kip_232 == "off":
            return positions
        if self.wait.epoch >= 0:
            return positions if self.wait.poll(step, metadata) else []
        epoch = max((self.saved[each.tp].metadata_epoch for each in positions), default=-1)
        if epoch >= 0 and "seeks-without-waiting" not in step.defects:
            self.wait.begin(step, metadata, epoch, self.wait_ms)
            return []
        return positions

    def save(self, step: Step, metadata: MetadataCache, positions: dict[str, TopicPartitionState]) -> None:
        """Keep every position that is known, with what belongs to it."""
        step.set_timer(SAVE, self.saves.delay_ms(step.now_ms))
        before = dict(self.saved)
        for tp, position in positions.items():
            if position.state in ("fetching", "validating") and position.offset >= 0:
                leader_epoch = position.epoch if metadata.kip_232 == "kafka" else -1
                self.saved[tp] = Saved(
                    position.offset, leader_epoch, metadata.metadata_epoch, position.topic_id or UNSET
                )
        if self.saved != before:
            self.files.replace(step, FILE, msgspec.json.encode(self.saved))
            self.files.sync(step, FILE)
