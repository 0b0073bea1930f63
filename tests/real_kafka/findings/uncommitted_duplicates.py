"""A broker dies as a leader, with records in its log that no other has, and that it has acknowledged to nobody. Before
it is back, retention has taken the new leader's records at these offsets. It is told to cut its log where the new
leader's log begins (LeaderEpochFileCache.java, endOffsetFor of an epoch before all), and so keeps what it had before
that, until its log begins there as well; it knows these records' producer for ever after. Once it leads again, the
producer's retries are duplicates for it: it acknowledges records that are in no log."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

from tests.real_kafka.cluster import Batch
from tests.real_kafka.findings.stage import Stage
from tests.real_kafka.requests import batch, error, init_producer_id, list_offsets, produce, send_produce

OUTCOME = {
    "control: records of the producer that were acknowledged, of five": 5,
    "control: records of the producer that a consumer finds": 5,
    "records of the producer that were acknowledged with acks=all, of five": 5,
    "records of the producer that a consumer finds": 2,
    "the first of them are said to be where the log no longer is": True,
}
TOPIC, CONTROL = "orders", "control"
EARLIEST = -2
LARGE = "x" * 340_000
"""Three of these fill a segment of 1 MiB, beside a few small records."""
RETENTION = "--config segment.bytes=1048576 --config retention.bytes=1048576"
CONFIG = {
    "broker.session.timeout.ms": 9000,
    "log.initial.task.delay.ms": 1000,
    "log.retention.check.interval.ms": 1000,
}


def stage() -> Stage:
    """See Finding."""
    return Stage(3, 1, CONFIG)


def run(stage: Stage) -> dict[str, object]:
    """See Finding."""
    for topic, config in (CONTROL, ""), (TOPIC, RETENTION):
        words = f"--create --topic {topic} --replica-assignment 1:2:3 --config min.insync.replicas=2 {config}"
        stage.tool("kafka-topics", words, ask=2)
        in_sync(stage, topic)
        answer = produce(stage.connect(1), topic, batch(*(f"old-{i}" for i in range(10))))
        stage.transcript.did(f"Produce of ten records to broker-1, {topic}, acks=all: {error(answer.error_code)}")
    assert stage.until(lambda: not init_producer_id(stage.connect(1)).error_code) is not None
    producer = init_producer_id(stage.connect(1))
    stage.transcript.did(f"InitProducerId: producer id {producer.producer_id}, epoch {producer.producer_epoch}")
    die_with_records(stage, producer)
    for topic in (CONTROL, TOPIC):
        write_large(stage, topic)
    assert stage.until(lambda: start_of(stage, 2) > 0) is not None
    stage.transcript.did(f"retention: the log of broker-2 begins at {start_of(stage, 2)}")
    come_back(stage)
    control, found = retry(stage, CONTROL, producer), retry(stage, TOPIC, producer)
    return dict(zip(OUTCOME, [*control[:2], *found], strict=True))


def in_sync(stage: Stage, topic: str) -> None:
    """Wait until all replicas are."""
    assert stage.until(lambda: len(stage.partition(topic, ask=2).isr_nodes) == 3) is not None


def own(index: int, producer: Any) -> Batch:
    """One of the producer's five records, a batch by itself."""
    known = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    return batch(f"own-{index}", **known, base_sequence=index)


def die_with_records(stage: Stage, producer: Any) -> None:
    """Broker 1 gets records that the others, which hang, never do."""
    stage.signal(signal.SIGSTOP, 2, 3, why="they hang, for less than their sessions")
    stage.until(lambda: False, 1)  # Their Fetches that wait on broker 1 are answered by then.
    for topic in (CONTROL, TOPIC):
        for i in range(5):
            before = stage.bytes_of(topic, 1)
            send_produce(stage.connect(1), topic, own(i, producer), timeout_ms=60_000)
            assert stage.until(partial(grew, stage, topic, before), 2) is not None
        stage.transcript.did(f"Produce of own-0 to own-4 to broker-1, {topic}, each by itself, acks=all; they wait")
    stage.signal(signal.SIGKILL, 1)
    stage.signal(signal.SIGCONT, 2, 3)
    for topic in (CONTROL, TOPIC):
        assert stage.until(stage.led_by(topic, 2, ask=2)) is not None


def grew(stage: Stage, topic: str, before: int) -> bool:
    """Whether the log of broker 1 did."""
    return stage.bytes_of(topic, 1) > before


def write_large(stage: Stage, topic: str) -> None:
    """Seven large records, from the leader on: the third is the last of the first segment."""
    for _ in range(7):
        assert stage.until(lambda: not produce(stage.connect(2), topic, batch(LARGE)).error_code) is not None
    stage.transcript.did(f"Produce of seven large records to broker-2, {topic}, acks=all: {error(0)}")


def start_of(stage: Stage, node: int) -> int:
    """Where the log of a leader begins."""
    return int(list_offsets(stage.connect(node), TOPIC, EARLIEST).offset)


def come_back(stage: Stage) -> None:
    """Broker 1 follows, and leads again."""
    stage.start_again(1)
    for topic in (CONTROL, TOPIC):
        in_sync(stage, topic)
    stage.show_log(1, "Truncating to offset", "log start offset", last=4)
    for topic in (CONTROL, TOPIC):
        stage.tool("kafka-leader-election", f"--election-type preferred --topic {topic} --partition 0", ask=2)
        assert stage.until(stage.led_by(topic, 1, ask=1)) is not None


def retry(stage: Stage, topic: str, producer: Any) -> list[object]:
    """The producer's retries: how many are acknowledged, how many of its records are found, and whether the first is
    said to be below the log."""
    offsets = []
    for i in range(5):
        answer = produce(stage.connect(1), topic, own(i, producer))
        at = "" if answer.error_code else f", at offset {answer.base_offset}"
        stage.transcript.did(f"Produce of own-{i} to broker-1, {topic}, again: {error(answer.error_code)}{at}")
        offsets += [] if answer.error_code else [int(answer.base_offset)]
    words = f"--topic {topic} --partition 0 --offset earliest --timeout-ms 8000"
    found = stage.tool("kafka-console-consumer", words, ask=1, keep="^own|^Processed").split()
    below = offsets[0] < int(list_offsets(stage.connect(1), topic, EARLIEST).offset)
    return [len(offsets), len({word for word in found if word.startswith("own")}), below]
