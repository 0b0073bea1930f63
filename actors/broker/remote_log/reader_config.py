"""Configuration of what a broker reads from remote storage (``RemoteLogManagerConfig.java``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

READER_THREADS = "remote.log.reader.threads"
READER_MAX_PENDING = "remote.log.reader.max.pending.tasks"
OFFSET_READER_THREADS = "remote.log.offset.reader.threads"
OFFSET_READER_MAX_PENDING = "remote.log.offset.read.max.pending.tasks"
LIST_OFFSETS_TIMEOUT = "remote.list.offsets.request.timeout.ms"
STORE_TIMEOUT = "krift.remote.store.timeout.ms"


class ReaderConfig(msgspec.Struct, frozen=True):
    """The values that a broker starts with."""

    reader_threads: int = 10
    reader_max_pending: int = 100
    offset_reader_threads: int = 5
    offset_reader_max_pending: int = 100
    list_offsets_timeout_ms: int = 30000
    store_timeout_ms: int = 60000

    def threads_of(self, key: str) -> int:
        """The number of threads that a key is about."""
        return {READER_THREADS: self.reader_threads, OFFSET_READER_THREADS: self.offset_reader_threads}[key]


def reader_config_of(config: Mapping[str, Any]) -> ReaderConfig:
    """From a broker's configuration."""
    return ReaderConfig(
        config[READER_THREADS],
        config[READER_MAX_PENDING],
        config[OFFSET_READER_THREADS],
        config[OFFSET_READER_MAX_PENDING],
        config[LIST_OFFSETS_TIMEOUT],
        config[STORE_TIMEOUT],
    )
