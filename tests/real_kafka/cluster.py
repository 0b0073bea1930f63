"""What the script needs of a cluster, whichever it is: connections, time, and processes that die and come back."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

Fields = dict[str, Any]
"""A message by Kafka's names of its fields, in lower case with underscores; lists of messages are lists of these."""

BROKERS = (1, 2, 3)
CONTROLLERS = (101, 102, 103)
CONFIG: Fields = {
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 1000,
    "unclean.leader.election.interval.ms": 10_000,
    "auto.leader.rebalance.enable": False,
}
"""Of every server: the defaults but for what the script would wait for, or be disturbed by."""


class Closed(Exception):
    """The server closed the connection in place of an answer, or nobody listens."""


class CannotBeAsked(Exception):
    """The cluster's protocol cannot express the question."""


@dataclass(frozen=True)
class Batch:
    """Records that a producer sends in one batch. ``timestamps``: one for each value, or one for all."""

    values: list[bytes]
    timestamps: list[int] = field(default_factory=list)
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_control: bool = False
    base_offset: int = 0
    corrupt: bool = False

    def timestamp(self, index: int, now_ms: int) -> int:
        """Of the record at this place."""
        return self.timestamps[min(index, len(self.timestamps) - 1)] if self.timestamps else now_ms


@dataclass(frozen=True)
class Topic:
    """A topic that a section needs: the replicas of each partition."""

    replicas: list[list[int]]
    config: dict[str, str] = field(default_factory=dict)


class Pending(Protocol):
    """A request that was sent."""

    def get(self) -> Any:
        """The answer, with Kafka's names of its fields. Raises Closed."""
        ...


class Connection(Protocol):
    """One connection to a server: requests are answered in order."""

    def send(self, api: str, version: int, fields: Fields) -> Pending:
        """Send a request. Raises CannotBeAsked."""
        ...

    def unsupported(self, api: str, version: int) -> str:
        """What becomes of a version that the server does not speak."""
        ...


class Cluster(Protocol):
    """Three brokers and three controllers."""

    cluster_id: str

    def begin(self, topics: dict[str, Topic]) -> None:
        """Make a section's topics, and wait until their replicas are in sync."""
        ...

    def connect(self, node: int) -> Connection:
        """A new connection, once the node listens. Raises Closed if it does not for long."""
        ...

    def now_ms(self) -> int:
        """Time that passes evenly."""
        ...

    def wall_ms(self) -> int:
        """What the clocks of the servers say."""
        ...

    def sleep(self, ms: int) -> None:
        """Let time pass."""
        ...

    def kill(self, *nodes: int) -> None:
        """End processes as a crash does."""
        ...

    def start(self, *nodes: int) -> None:
        """Start them again on their directories, and do not wait for them."""
        ...


def call(connection: Connection, api: str, version: int, **fields: Any) -> Any:
    """Ask and wait for the answer."""
    return connection.send(api, version, fields).get()


def wait(cluster: Cluster, condition: Callable[[], bool], limit_ms: int = 40_000, every_ms: int = 50) -> bool:
    """Whether a condition came true in time; servers that do not answer are asked again."""
    end_ms = cluster.now_ms() + limit_ms
    while cluster.now_ms() < end_ms:
        try:
            if condition():
                return True
        except (Closed, IndexError, StopIteration):
            pass
        cluster.sleep(every_ms)
    return False


def count_records(records: Any) -> int:
    """How many records an answer holds: in Kafka's format, or as Krift has them."""
    if records is None or not isinstance(records, bytes | bytearray | memoryview):
        return sum(len(batch.records) for batch in records or [])
    raw, at, count = bytes(records), 0, 0
    while at + 61 <= len(raw):
        size: int = struct.unpack_from(">i", raw, at + 8)[0]
        if at + 12 + size > len(raw):
            break
        count += struct.unpack_from(">i", raw, at + 57)[0]
        at += 12 + size
    return count
