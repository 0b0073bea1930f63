"""A Fetch taken apart: what holds for the whole of it, what it asks of each partition, and what a partition answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.broker.partition import FollowerFetch, Partition
from actors.broker.turn import Turn
from actors.log.batch import Batch
from actors.log.transaction_index import AbortedTxn
from actors.node.errors import KafkaError
from actors.node.spec import topic_partition
from krift.v1.fetch import FetchRequest

FETCH_FROM_ANY_REPLICA = 11
"""From this version on consumers are served by followers too (KIP-392)."""
FETCH_SESSIONS = 7
"""Version that brought fetch sessions (KIP-227)."""
TOPIC_IDS = 13
"""Version from which on topics are named by their ids (KIP-516)."""


class FetchItem(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One partition of a Fetch. ``tp`` is empty where the topic id is unknown; ``topic_id`` where the request has a
    name."""

    tp: str
    topic: str
    topic_id: str
    index: int
    current_leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start: int
    max_bytes: int

    @property
    def key(self) -> str:
        """What names the partition within a fetch session."""
        return f"{self.topic_id or self.topic}-{self.index}"


class FetchParams(msgspec.Struct, frozen=True, gc=False):
    """What holds for a whole Fetch.

    ``replica_id`` -1: a consumer. ``deadline_ms``: when it is answered anyway. ``session``: none (whoever asks wants
    no fetch session), full (everything is asked for, a session may begin) or incremental (``session_id`` goes on,
    ``session_epoch`` is the epoch of this request). ``from_follower``: whether a replica asks; ``leader_only``: whether
    only the leader may answer (both follow from the rest, and are asked of every partition).
    ``isolation``: of a consumer, None of a replica, which reads whatever is in the log.
    """

    connection: str
    version: int
    correlation_id: int
    replica_id: int
    broker_epoch: int
    isolation: int | None
    min_bytes: int
    max_bytes: int
    deadline_ms: int
    session: Literal["none", "full", "incremental"]
    session_id: int
    session_epoch: int
    from_follower: bool
    leader_only: bool

    def follower_fetch(self, item: FetchItem) -> FollowerFetch:
        """What a follower's Fetch says about one partition."""
        return FollowerFetch(
            self.replica_id,
            self.broker_epoch,
            item.current_leader_epoch,
            item.offset,
            item.last_fetched_epoch,
            item.log_start,
        )


class ReadResult(msgspec.Struct, gc=False):
    """What one partition answers. ``valid``: a follower's fetch that the leader may take note of. ``beyond``: the
    position is above what may be read, where waiting would not help a client that comes from a leader that knew
    more. ``remote``: the position is below what this broker has itself. ``aborted``: of who reads what is committed,
    transactions that the batches may belong to. ``max_bytes``, ``at_least_one``: how much it may be. ``size_bytes``:
    how much Kafka sends, which fills ``max_bytes`` with a part of the next batch. ``segment``: base of the one that
    the position is in, -1 not looked up."""

    item: FetchItem
    error: KafkaError = KafkaError.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start: int = -1
    diverging: tuple[int, int] | None = None
    batches: list[Batch] = []
    aborted: list[AbortedTxn] = []
    partition: Partition | None = None
    valid: bool = False
    beyond: bool = False
    remote: bool = False
    max_bytes: int = 0
    at_least_one: bool = True
    size_bytes: int = 0
    segment: int = -1

    @property
    def has_grown(self) -> bool:
        """Whether there is something to read by now that was not there when it was read."""
        return (
            self.valid
            and not self.batches
            and self.partition is not None
            and self.item.offset < self.partition.log.end_offset
        )


def parse_params(turn: Turn, connection: str, request: FetchRequest) -> FetchParams:
    """What holds for the whole of ``request``."""
    header = request.header
    version = header.api_version
    replica_id, broker_epoch = request.replica_id, -1
    if version >= 15:
        state = request.replica_state
        replica_id, broker_epoch = (-1, -1) if state is None else (state.replica_id, state.replica_epoch)
    epoch = request.session_epoch
    return FetchParams(
        connection,
        version,
        header.correlation_id,
        replica_id,
        broker_epoch,
        None if replica_id >= 0 else request.isolation_level,
        request.min_bytes,
        request.max_bytes,
        turn.step.now_ms + request.max_wait_ms,
        "incremental" if epoch > 0 else "full" if epoch == 0 else "none",
        request.session_id,
        epoch,
        replica_id >= 0,
        replica_id >= 0 or version < FETCH_FROM_ANY_REPLICA,
    )


def parse_items(turn: Turn, request: FetchRequest) -> list[FetchItem]:
    """What ``request`` asks of each partition that it names, with topic ids resolved."""
    by_id = request.header.api_version >= TOPIC_IDS
    items: list[FetchItem] = []
    for topic in request.topics:
        topic_id = topic.topic_id
        name = topic_name(turn, topic_id) if by_id else topic.topic
        items += [
            FetchItem(
                topic_partition(name, p.partition) if name else "",
                name,
                topic_id,
                p.partition,
                p.current_leader_epoch,
                p.fetch_offset,
                p.last_fetched_epoch,
                p.log_start_offset,
                p.partition_max_bytes,
            )
            for p in topic.partitions
        ]
    return items


def topic_name(turn: Turn, topic_id: str) -> str:
    """The name of a topic, empty where this broker does not know the id."""
    found = turn.image.topics.get(topic_id)
    return "" if found is None else found.name
