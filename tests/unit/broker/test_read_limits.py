"""How far a partition may be read, by who asks."""

from __future__ import annotations

import pytest

from actors.broker.broker_node import BrokerNode
from actors.broker.fetch import read_partition
from actors.broker.fetch_request import parse_items, parse_params
from actors.broker.list_offsets import CONSUMER, DEBUGGING, Query, look_up
from actors.broker.partition import Partition
from actors.broker.turn import Turn
from actors.log.batch import LogRecord
from actors.log.replica_log import ReplicaLog
from actors.node.errors import KafkaError
from actors.node.files import Files
from actors.node.isolation import READ_COMMITTED, READ_UNCOMMITTED
from actors.node.list_timestamps import LATEST
from actors.node.step import Step
from krift.v1.common import RequestHeader
from krift.v1.fetch import FetchRequest

TP = "orders-0"
END, WATERMARK = 3, 2
FOLLOWER = 2


def leading() -> tuple[Partition, Turn]:
    """A leader of leader epoch 0 with three batches of one record, of which two are committed."""
    log = ReplicaLog(TP)
    for number in range(END):
        log.append_records(Step(0), Files(), [LogRecord(0, f"a:{number}")], 0)
    log.high_watermark = WATERMARK
    node = BrokerNode()
    partition = Partition(TP, log, "orders", role="leader", leader_epoch=0, leader_epoch_start=0)
    partition.remotes = {FOLLOWER: None}  # type: ignore[dict-item]  # it is only asked whether the follower is there
    node.replicas.partitions[TP] = partition
    return partition, Turn(Step(0), node)


def fetched_end(turn: Turn, replica_id: int, isolation: int) -> int:
    """Where a Fetch from offset 0 ends."""
    asked = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        header=RequestHeader(api_version=12),
        replica_id=replica_id,
        isolation_level=isolation,
        max_bytes=1 << 20,
        topics=[FetchRequest.FetchTopic(topic="orders", partitions=[asked])],
    )
    params, items = parse_params(turn, "c", request), parse_items(turn, request)
    result = read_partition(turn, params, items[0], 1 << 20)
    assert not result.error
    return result.batches[-1].end_offset


def listed_end(turn: Turn, replica_id: int, isolation: int) -> int:
    """The latest offset that ListOffsets tells."""
    found = look_up(turn, TP, Query(replica_id, isolation, 7, 0, LATEST))
    assert found.error == KafkaError.NONE
    return found.offset


def test_clients_read_to_what_is_committed_and_brokers_to_the_log_end() -> None:
    """Shows FetchIsolation.java's three limits, the last stable offset being the high watermark while there are no
    transactions."""
    partition, _ = leading()
    limits = [partition.last_fetchable_offset(isolation) for isolation in (None, READ_UNCOMMITTED, READ_COMMITTED)]
    assert limits == [END, WATERMARK, WATERMARK]


@pytest.mark.parametrize("isolation", [READ_UNCOMMITTED, READ_COMMITTED])
def test_fetch_and_list_offsets_have_the_same_limit(isolation: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that both ask the one function, with nothing of their own: with another limit both answers move."""
    _, turn = leading()
    assert fetched_end(turn, -1, isolation) == listed_end(turn, CONSUMER, isolation) == WATERMARK
    assert fetched_end(turn, FOLLOWER, isolation) == END
    assert listed_end(turn, FOLLOWER, isolation) == listed_end(turn, DEBUGGING, isolation) == END
    asked: list[int | None] = []
    monkeypatch.setattr(Partition, "last_fetchable_offset", lambda _, level: asked.append(level) or 1)
    assert fetched_end(turn, -1, isolation) == listed_end(turn, CONSUMER, isolation) == 1
    assert fetched_end(turn, FOLLOWER, isolation) == listed_end(turn, FOLLOWER, isolation) == 1
    assert asked == [isolation, isolation, None, None]
