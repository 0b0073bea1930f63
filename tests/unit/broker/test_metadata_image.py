"""The image that a broker makes of the metadata log."""

from __future__ import annotations

from typing import Any

import pytest

from actors.broker.metadata_image import MetadataImage
from actors.log.batch import EMPTY_PREFIX_HASH, Batch, LogRecord, make_batch
from actors.node.effects import Record
from actors.node.step import Step
from actors.trace.events import MetaImage
from krift.v1.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from krift.v1.wire import to_bytes

NO_OP = MetadataRecord(no_op=NoOpRecord())
TOPIC = MetadataRecord(topic=TopicRecord(name="orders", topic_id="t"))
PARTITION = MetadataRecord(
    partition=PartitionRecord(topic_id="t", partition_id=0, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=4)
)


def log_of(*batches: list[MetadataRecord]) -> list[Batch]:
    made: list[Batch] = []
    for records in batches:
        ph, end = (made[-1].ph, made[-1].end_offset) if made else (EMPTY_PREFIX_HASH, 0)
        values = [LogRecord(0, "", b"", to_bytes(record)) for record in records]
        made.append(make_batch(ph, end, 1, values))
    return made


def change(**fields: Any) -> MetadataRecord:
    return MetadataRecord(partition_change=PartitionChangeRecord(topic_id="t", partition_id=0, **fields))


def images(step: Step) -> list[MetaImage]:
    return [e.event for e in step.effects if isinstance(e, Record) and isinstance(e.event, MetaImage)]


def test_naming_a_leader_raises_the_leader_epoch() -> None:
    """Shows that every change raises the partition epoch, and the leader epoch only if it names a leader, be it the
    same one or none."""
    image = MetadataImage()
    image.apply(Step(0), log_of([TOPIC, PARTITION], [change(isr=[1])], [change(leader=1)], [change(leader=-1)]))
    state = image.partitions["orders-0"]
    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ([1], -1, 6, 3)
    assert [each.tp for each in image.take_changes()] == ["orders-0"]
    assert image.take_changes() == []


def test_the_digest_depends_on_the_records_alone() -> None:
    """Shows that two brokers at one offset have one digest however the records reached them, and that no-ops alone
    are not put into the trace."""
    batches = log_of([TOPIC], [NO_OP], [PARTITION], [NO_OP])
    one, other, step = MetadataImage(), MetadataImage(), Step(0)
    one.apply(Step(0), batches)
    for batch in batches:
        other.apply(step, [batch])
    assert (one.offset, one.digest) == (other.offset, other.digest)
    assert [event.offset for event in images(step)] == [1, 3]


def test_a_gap_is_a_bug() -> None:
    """Shows that an image refuses records that do not follow what it has."""
    with pytest.raises(AssertionError):
        MetadataImage().apply(Step(0), log_of([TOPIC], [NO_OP])[1:])


def test_registrations() -> None:
    """Shows who is alive and who is active."""
    registered = MetadataRecord(register_broker=RegisterBrokerRecord(broker_id=2, broker_epoch=7, fenced=True))
    image = MetadataImage()

    def apply(*records: MetadataRecord) -> None:
        values = [LogRecord(0, "", b"", to_bytes(record)) for record in records]
        image.apply(Step(0), [make_batch(0, image.offset, 1, values)])

    def news(epoch: int, **fields: int) -> MetadataRecord:
        record = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=epoch, **fields)
        return MetadataRecord(broker_registration_change=record)

    apply(registered)
    assert (image.is_alive(2), image.alive_epoch(2)) == (False, None)
    apply(news(7, fenced=-1))
    assert (image.is_active(2), image.alive_epoch(2)) == (True, 7)
    apply(news(7, in_controlled_shutdown=1))
    assert (image.is_alive(2), image.is_active(2)) == (True, False)


def test_topic_configuration() -> None:
    """Shows which value counts: the topic's, the broker's own, that of all brokers, then what the broker was started
    with; and that a key can be taken back."""
    image = MetadataImage()

    def least(broker: int, topic: str = "orders") -> int:
        return int(image.config(broker, topic, "min.insync.replicas", 1))

    def apply(resource_type: str, name: str, **value: str) -> None:
        record = ConfigRecord(resource_type=resource_type, resource_name=name, name="min.insync.replicas", **value)
        values = [LogRecord(0, "", b"", to_bytes(MetadataRecord(config=record)))]
        image.apply(Step(0), [make_batch(0, image.offset, 1, values)])

    assert least(1) == 1
    apply("broker", "", value="4")
    assert least(1) == 4
    apply("broker", "1", value="3")
    assert (least(1), least(2)) == (3, 4)
    apply("topic", "orders", value="2")
    assert (least(1), least(1, "payments"), least(2, "")) == (2, 3, 4)
    assert (image.take_reconfigured(), image.take_reconfigured()) == (True, False)
    apply("topic", "orders")
    apply("broker", "")
    assert (least(1), least(2)) == (3, 1)
