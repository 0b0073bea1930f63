"""What clients send is kept as they sent it: on the wire, in logs, on disks, and in what is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.live.disk import Disk
from actors.log.batch import LOG_APPEND_TIME, batch_size_bytes, extend_prefix_hash, payload_digest
from actors.log.recovery import load_log, logs_on_disk
from actors.log.replica_log import ReplicaLog
from actors.log.segments import LogBase
from actors.node.codec import encode
from actors.node.effects import Write
from actors.node.files import Files
from actors.node.messages import AnyMessage
from actors.node.step import Step
from actors.sim.carriage import by_wire
from krift.v1.fetch import FetchResponse
from krift.v1.produce import ProduceRequest
from krift.v1.records import Record, RecordBatch, RecordHeader
from krift.v1.wire import from_protobuf, to_protobuf

TP = "orders-0"
HEADERS = [
    RecordHeader("trace-id", b"\x01"),
    RecordHeader("empty", b""),
    RecordHeader("null"),
    RecordHeader("trace-id"),
]
RECORDS = [
    Record(100, "a:0", None, b"value"),
    Record(101, "a:1", b"", b"value"),
    Record(102, "a:2", b"key", None, HEADERS),
    Record(103, "a:3", b"key", b"", HEADERS[::-1]),
]
BATCH = RecordBatch(producer_id=7, producer_epoch=1, base_sequence=0, is_transactional=True, records=RECORDS)


def by_live_codec(message: AnyMessage) -> AnyMessage:
    """As between live nodes: gRPC serializes the message that the runtime made, and parses it there."""
    made: Any = to_protobuf(message)
    arrived: AnyMessage = from_protobuf(type(made).FromString(made.SerializeToString()))
    return arrived


def produced(batch: RecordBatch) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=0, records=batch)
    return ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="orders", partition_data=[partition])])


def fetched(batches: list[RecordBatch]) -> FetchResponse:
    partition = FetchResponse.PartitionData(partition_index=0, records=batches)
    return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="orders", partitions=[partition])])


@pytest.mark.parametrize("carried", [by_wire, by_live_codec])
def test_records_arrive_as_they_were_sent(carried: Any, tmp_path: Path) -> None:
    """Shows that a null key is none that is empty, likewise values, that headers keep their order and their values, and
    that a batch stays transactional: from a producer to the leader's log and disk, to a follower's, and to whoever
    fetches; and that all logs have the same prefix hash."""
    leader, step, files = ReplicaLog(TP), Step(0), Files()
    sent = carried(produced(BATCH)).topic_data[0].partition_data[0].records
    assert sent == BATCH
    leader.append_as_leader(step, files, sent, 3)
    appended = leader.batches[0].to_message()
    assert appended == msgspec.structs.replace(BATCH, partition_leader_epoch=3)

    answer = carried(fetched([appended]))
    assert answer.responses[0].partitions[0].records == [appended]
    follower = ReplicaLog(TP)
    follower.append_as_follower(Step(0), Files(), answer.responses[0].partitions[0].records, 3)
    assert (follower.batches, follower.end_ph) == (leader.batches, leader.end_ph)

    disk = Disk(tmp_path)
    disk.load()
    for number, each in enumerate((each for each in step.effects if isinstance(each, Write)), 1):
        disk.write(each.file, number, each.operation)
    again = load_log(Step(0), TP, logs_on_disk(Disk(tmp_path).load())[TP], LogBase())
    assert (again.batches, again.end_ph) == (leader.batches, leader.end_ph)


@pytest.mark.parametrize("carried", [by_wire, by_live_codec])
def test_control_batches_and_types_of_timestamps_arrive(carried: Any) -> None:
    """Shows that a follower's copy of a batch has all attributes of the leader's."""
    batch = msgspec.structs.replace(
        BATCH, is_control=True, timestamp_type=LOG_APPEND_TIME, base_sequence=-1, partition_leader_epoch=3
    )
    follower = ReplicaLog(TP)
    follower.append_as_follower(Step(0), Files(), carried(fetched([batch])).responses[0].partitions[0].records, 3)
    kept = follower.batches[0]
    assert (kept.is_control, kept.is_transactional, kept.timestamp_type) == (True, True, LOG_APPEND_TIME)
    assert kept.to_message() == batch
    assert msgspec.msgpack.decode(encode(kept), type=type(kept)) == kept


OTHERS = {
    "null key": {"key": None},
    "null value": {"value": None},
    "no headers": {"headers": []},
    "other order": {"headers": HEADERS[::-1]},
    "null header": {"headers": [RecordHeader("id"), *HEADERS[1:]]},
    "timestamp": {"timestamp_ms": 1},
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_difference_in_a_record_makes_another_one(what: str) -> None:
    """Shows that prefix hashes and digests of payloads tell records apart that differ in one thing alone."""
    record = Record(0, "a:0", b"", b"", HEADERS)
    other = msgspec.structs.replace(record, **OTHERS[what])
    assert payload_digest(record) != payload_digest(other)
    assert extend_prefix_hash(0, 0, RecordBatch(records=[record])) != extend_prefix_hash(
        0, 0, RecordBatch(records=[other])
    )


def test_a_difference_in_the_attributes_makes_another_batch() -> None:
    """Shows that each attribute is in the prefix hash."""
    batches = [
        RecordBatch(records=RECORDS),
        RecordBatch(records=RECORDS, is_control=True),
        RecordBatch(records=RECORDS, is_transactional=True),
        RecordBatch(records=RECORDS, timestamp_type=LOG_APPEND_TIME),
    ]
    assert len({extend_prefix_hash(0, 0, batch) for batch in batches}) == len(batches)


def test_headers_count_towards_the_size() -> None:
    """Shows that what fetch limits count has headers in it, and null counts as empty."""
    plain, null = Record(0, "", b"key", b""), Record(0, "", b"key", None)
    headed = msgspec.structs.replace(plain, headers=[RecordHeader("k", b"12345")])
    assert batch_size_bytes([plain]) == batch_size_bytes([null]) < batch_size_bytes([headed])
