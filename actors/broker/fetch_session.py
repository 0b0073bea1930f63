"""Incremental fetch sessions (KIP-227): what a fetcher asked for and was told is remembered, so that requests name
only what changed, and answers only what is new (``server/.../server/FetchSession.java``)."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import msgspec

from actors.broker.fetch_request import FETCH_SESSIONS, TOPIC_IDS, FetchItem, FetchParams, ReadResult, topic_name
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.fetch_session_handler import INVALID_SESSION_ID, next_epoch
from actors.node.spec import topic_partition
from krift.v1.fetch import FetchRequest

EVICTION_MS = 120_000
"""A session that was idle for longer may be evicted by any other; one that is younger only by a more valuable one."""


class CachedPartition(msgspec.Struct):
    """A partition of a session: what was last asked of it, and what was last told of it (-1: nothing that counts)."""

    item: FetchItem
    high_watermark: int = -1
    log_start: int = -1

    def is_news(self, result: ReadResult, defects: Sequence[str] = ()) -> bool:
        """Whether the fetcher has to hear of ``result``, which is taken for told. What fails or diverges is told
        every time, and once more when that is over."""
        news = bool(result.batches)
        if result.high_watermark != self.high_watermark:
            self.high_watermark = result.high_watermark
            news = True
        if result.log_start != self.log_start:
            self.log_start = result.log_start
            news = True
        if "session-tells-of-records-only" in defects:
            news = bool(result.batches)
        if result.error or result.diverging is not None:
            self.high_watermark = -1
            news = True
        return news


class FetchSession(msgspec.Struct):
    """``epoch``: of the request that comes next. ``privileged``: a follower's. ``size``: number of partitions when it
    was last used; ``by_privileged``, ``by_all``: who could evict it then. ``unresolved``: a topic id is unknown yet."""

    id: int
    privileged: bool
    uses_topic_ids: bool
    created_ms: int
    epoch: int
    partitions: dict[str, CachedPartition]
    used_ms: int = 0
    size: int = 0
    by_privileged: bool = False
    by_all: bool = False
    unresolved: bool = False

    @property
    def value(self) -> tuple[bool, int, int]:
        """Sessions of followers are worth more than those of consumers, large ones more than small ones."""
        return (self.privileged, self.size, self.id)

    def touch(self, now_ms: int) -> None:
        """The session is used."""
        settled = now_ms - self.created_ms > EVICTION_MS
        self.used_ms, self.size = now_ms, len(self.partitions)
        self.by_privileged, self.by_all = settled or not self.privileged, settled

    def update(self, turn: Turn, items: list[FetchItem], request: FetchRequest) -> None:
        """Take in what an incremental request changes."""
        for item in items:
            cached = self.partitions.get(item.key)
            if cached is None:
                self.partitions[item.key] = CachedPartition(item)
            else:
                cached.item = item
            self.unresolved = self.unresolved or not item.tp
        for topic in () if "forgotten-partitions-stay" in turn.step.defects else request.forgotten_topics_data:
            for index in topic.partitions:
                self.partitions.pop(f"{topic.topic_id or topic.topic}-{index}", None)
        if self.unresolved:
            self._resolve(turn)

    def _resolve(self, turn: Turn) -> None:
        """Topic ids that were unknown may be known by now."""
        self.unresolved = False
        for cached in self.partitions.values():
            item = cached.item
            name = "" if item.tp else topic_name(turn, item.topic_id)
            if name:
                cached.item = msgspec.structs.replace(item, tp=topic_partition(name, item.index), topic=name)
            self.unresolved = self.unresolved or not cached.item.tp

    def news(self, results: list[ReadResult], defects: Sequence[str] = ()) -> list[ReadResult]:
        """Those of ``results``, one for each partition in order, that the fetcher has to hear of. What brought records
        comes last the next time, so that no partition keeps the others from being read."""
        told: list[ReadResult] = []
        for (key, cached), result in zip(list(self.partitions.items()), results, strict=True):
            if not cached.is_news(result, defects):
                continue
            told.append(result)
            if result.batches:
                del self.partitions[key]
                self.partitions[key] = cached
        return told


class FetchSessionCache(msgspec.Struct):
    """All sessions of a broker by id, the longest unused first.

    ``slots``: how many there may be. ``seed``: of their ids, which should not come again in another life of the broker.
    """

    slots: int = 0
    seed: str = ""
    count: int = 0
    sessions: dict[int, FetchSession] = {}

    def begin(
        self, turn: Turn, params: FetchParams, items: list[FetchItem], request: FetchRequest
    ) -> tuple[KafkaError, FetchParams, list[FetchItem]]:
        """What a request amounts to with its session: what it asks of which partitions, or why it is refused."""
        if params.session != "incremental":
            if params.session_id != INVALID_SESSION_ID:
                self.sessions.pop(params.session_id, None)
            return (KafkaError.NONE, params, items)
        session = self.sessions.get(params.session_id)
        if session is None:
            return (KafkaError.FETCH_SESSION_ID_NOT_FOUND, params, [])
        if session.epoch != params.session_epoch:
            return (KafkaError.INVALID_FETCH_SESSION_EPOCH, params, [])
        if session.uses_topic_ids != (params.version >= TOPIC_IDS):
            return (KafkaError.FETCH_SESSION_TOPIC_ID_ERROR, params, [])
        session.update(turn, items, request)
        if not session.partitions:
            del self.sessions[session.id]
            return (KafkaError.NONE, msgspec.structs.replace(params, session="none"), items)
        session.touch(turn.step.now_ms)
        session.epoch = next_epoch(session.epoch)
        self.sessions[session.id] = self.sessions.pop(session.id)
        return (KafkaError.NONE, params, [cached.item for cached in session.partitions.values()])

    def settle(
        self, turn: Turn, params: FetchParams, results: list[ReadResult]
    ) -> tuple[KafkaError, int, list[ReadResult]]:
        """(error, session id, what is told) of the answer to a request that ``begin`` let pass.

        A full Fetch may begin a session; the id 0 says that there is none. A session that was evicted meanwhile is
        missed by the request that follows.
        """
        if params.session == "full":
            return (KafkaError.NONE, self._create(turn.step.now_ms, params, results), results)
        session = self.sessions.get(params.session_id) if params.session == "incremental" else None
        if session is None:
            return (KafkaError.NONE, params.session_id if params.session == "incremental" else 0, results)
        if session.epoch != next_epoch(params.session_epoch):
            return (KafkaError.INVALID_FETCH_SESSION_EPOCH, INVALID_SESSION_ID, [])
        return (KafkaError.NONE, session.id, session.news(results, turn.step.defects))

    def _create(self, now_ms: int, params: FetchParams, results: list[ReadResult]) -> int:
        """Begin a session if there is a slot, or one to be had; its id, or 0."""
        if params.version < FETCH_SESSIONS:
            return INVALID_SESSION_ID
        size = len(results)
        if len(self.sessions) >= self.slots and not self._evict(now_ms, (params.from_follower, size, 0)):
            return INVALID_SESSION_ID
        partitions: dict[str, CachedPartition] = {}
        for result in results:
            told = (-1, -1) if result.error else (result.high_watermark, result.log_start)
            partitions[result.item.key] = CachedPartition(result.item, *told)
        session = FetchSession(
            self._new_id(), params.from_follower, params.version >= TOPIC_IDS, now_ms, next_epoch(0), partitions
        )
        session.unresolved = any(not result.item.tp for result in results)
        session.touch(now_ms)
        self.sessions[session.id] = session
        return session.id

    def _evict(self, now_ms: int, value: tuple[bool, int, int]) -> bool:
        """Make room for a session of this value: a stale one goes first, else the least valuable one of those that
        may be evicted, if it is worth less."""
        oldest = next(iter(self.sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            del self.sessions[oldest.id]
            return True
        evictable = [s for s in self.sessions.values() if (s.by_privileged if value[0] else s.by_all)]
        least = min(evictable, key=lambda session: session.value, default=None)
        if least is None or value < least.value:
            return False
        del self.sessions[least.id]
        return True

    def _new_id(self) -> int:
        """An id from 1 to 2^31 - 1 that is not in use."""
        while True:
            self.count += 1
            number = crc32(f"{self.seed}/{self.count}".encode()) & 0x7FFFFFFF
            if number and number not in self.sessions:
                return number
