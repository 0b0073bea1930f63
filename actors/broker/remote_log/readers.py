"""Who reads from remote storage at a broker: the pools, by the value of ``kip-1075``
(``RemoteLogManager.java``, remoteStorageReaderThreadPool).

off: a look-up of an offset keeps its request handler, so there are as many readers of that kind as handlers. draft: a
pool of their own. kafka: the pool that serves remote Fetches.
"""

from __future__ import annotations

import msgspec

from actors.broker.partition import Partition
from actors.broker.remote_log.index_cache import RemoteIndexCache
from actors.broker.remote_log.lineage import with_records
from actors.broker.remote_log.reader_config import (
    LIST_OFFSETS_TIMEOUT,
    OFFSET_READER_THREADS,
    READER_THREADS,
    ReaderConfig,
)
from actors.broker.remote_log.reader_pool import PURPOSE, AnyReaderTask, ReaderPool
from actors.broker.remote_log.segment_metadata_cache import SegmentMetadataCache
from actors.broker.turn import Turn
from actors.node.component import Component
from actors.node.network_client import Ended

READER = "remote-log-reader"
OFFSET_READER = "remote-log-offset-reader"
HANDLERS = "request-handler"
UNBOUNDED = 1 << 30
"""Threads of the pool that stands for the request handlers: those are counted at the broker's door."""


class RemoteLogReaders(msgspec.Struct):
    """The pools of a broker with remote storage. ``tasks``: how many reads there have been. ``segments``: what is known
    of the copies of each partition, by its topic's id and its number."""

    pools: dict[str, ReaderPool] = {}
    tasks: int = 0
    indexes: RemoteIndexCache = msgspec.field(default_factory=RemoteIndexCache)
    segments: dict[str, SegmentMetadataCache] = {}

    def start(self, kip_1075: str, config: ReaderConfig) -> None:
        """Begin an incarnation."""
        self.pools = {READER: ReaderPool(READER, config.reader_threads, config.reader_max_pending)}
        if kip_1075 == "off":
            self.pools[HANDLERS] = ReaderPool(HANDLERS, UNBOUNDED, 0)
        elif kip_1075 == "draft":
            self.pools[OFFSET_READER] = ReaderPool(
                OFFSET_READER, config.offset_reader_threads, config.offset_reader_max_pending
            )

    @property
    def of_offsets(self) -> ReaderPool:
        """The pool that looks offsets up."""
        return self.pools.get(HANDLERS) or self.pools.get(OFFSET_READER) or self.pools[READER]

    def segments_of(self, partition: Partition) -> SegmentMetadataCache:
        """What is known of the copies of a partition."""
        return self.segments.setdefault(segments_key(partition), SegmentMetadataCache())

    def max_timestamp(self, partition: Partition) -> int | None:
        """The greatest timestamp in remote storage, None if that is not known: the maxTimestamp of the proposal's
        draft."""
        log = partition.log
        copies = self.segments_of(partition).finished_within(log.end_offset, with_records(log.epochs.entries))
        return max((each.max_timestamp_ms for each in copies), default=None)

    def next_task(self) -> int:
        """The number of the next read."""
        self.tasks += 1
        return self.tasks

    def reconfigure(self, turn: Turn) -> None:
        """A configuration changed in the metadata log."""
        config = turn.settings.readers
        for name, key, static in (
            (READER, READER_THREADS, config.reader_threads),
            (OFFSET_READER, OFFSET_READER_THREADS, config.offset_reader_threads),
        ):
            pool = self.pools.get(name)
            threads: int = turn.image.config(turn.settings.node_id, "", key, static)
            if "reader-threads-of-start" in turn.step.defects:
                threads = static
            if pool is not None and pool.threads != threads:
                pool.resize(turn, threads)

    def list_offsets_timeout_ms(self, turn: Turn) -> int:
        """For how long a look-up may take of which the request does not say so."""
        static = turn.settings.readers.list_offsets_timeout_ms
        if "lookup-timeout-of-start" in turn.step.defects:
            return static
        return int(turn.image.config(turn.settings.node_id, "", LIST_OFFSETS_TIMEOUT, static))

    def submit(self, turn: Turn, task: AnyReaderTask) -> bool:
        """Let an offset be looked up; False: it was rejected."""
        return self.of_offsets.submit(turn, task)

    def poll(self, turn: Turn) -> None:
        """Let every thread go on that waited for a connection."""
        for pool in self.pools.values():
            if pool.running:
                pool.poll(turn)

    def on_ended(self, turn: Turn, ended: Ended, argument: str) -> None:
        """A call to the store ended."""
        name, _, thread = argument.partition("/")
        self.pools[name].on_ended(turn, ended, int(thread))


def segments_key(partition: Partition) -> str:
    """What a partition is called here: a topic that comes after another one of its name has copies of its own."""
    return f"{partition.topic_id}/{partition.index}"


COMPONENT: Component[RemoteLogReaders, Turn] = Component(
    answers={PURPOSE: lambda readers, turn, ended, argument: readers.on_ended(turn, ended, argument)}
)
