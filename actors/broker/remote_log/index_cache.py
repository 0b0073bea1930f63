"""Indexes of copied segments that a broker has read before (``RemoteIndexCache.java``)."""

from __future__ import annotations

import msgspec

from actors.log.segment_objects import IndexEntry

Index = list[IndexEntry]

KEPT = 1024
"""Indexes that are kept. Kafka keeps them up to a size, 1 GiB if nothing else is set."""


class RemoteIndexCache(msgspec.Struct):
    """``indexes``: "segment/object" -> the index, the one that was used least recently first."""

    indexes: dict[str, Index] = {}

    def get(self, segment: str, kind: str) -> Index | None:
        """An index that was read before."""
        name = f"{segment}/{kind}"
        found = self.indexes.pop(name, None)
        if found is not None:
            self.indexes[name] = found
        return found

    def put(self, segment: str, kind: str, index: Index) -> None:
        """Keep one."""
        self.indexes[f"{segment}/{kind}"] = index
        if len(self.indexes) > KEPT:
            del self.indexes[next(iter(self.indexes))]
