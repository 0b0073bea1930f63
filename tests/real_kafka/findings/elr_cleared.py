"""All in-sync replicas of a partition die one after another, and min.insync.replicas is set while the partition waits
for one of its eligible leader replicas (KIP-966). That clears these, and the last known leader with them
(TopicDelta.java, maybeClearElr), so nobody may lead any more: all replicas come back, and the partition stays without a
leader. Only an unclean election helps. It takes the first live replica, though others have records that this one lacks.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.real_kafka.findings.stage import Stage

LEADERLESS_S = 30
OUTCOME = {
    "t has a leader while all replicas are alive": False,
    "t has a leader once the value is set back": False,
    "t has a leader after a preferred election": False,
    "t has a leader after restarts of all brokers and of the controller": False,
    "u, which nobody set anything on, has a leader": True,
    "brokers 1 and 2 are alive and have records of t then, broker 3 has none": True,
    "t has a leader after an unclean election": True,
    "records of u that are left, of five acknowledged with acks=all": 5,
    "records of t that are left, of five acknowledged with acks=all": 0,
}
SET_T = "--alter --entity-type topics --entity-name t --add-config min.insync.replicas="


def stage() -> Stage:
    """See Finding."""
    return Stage(3, 1)


def run(stage: Stage) -> dict[str, object]:
    """See Finding."""
    lose_all(stage)
    stage.tool("kafka-configs", f"{SET_T}1", ask=3)
    stage.show_log(101, "Removed ELRs", last=1)
    describe(stage)
    stage.start_again(2)
    led_by_2 = stage.until(stage.led_by("u", 2, ask=3))
    stage.transcript.did(f"u is led by 2 after {led_by_2} s")
    stage.show_log(101, "using ELR", last=1)
    stage.start_again(1)
    came_back = stage.until(in_sync(stage, "u", [1, 2, 3], ask=3))
    stage.transcript.did(f"all replicas of u are in sync after {came_back} s")
    told = [led(stage)]
    stage.tool("kafka-configs", f"{SET_T}2", ask=3)
    told.append(led(stage))
    stage.tool(
        "kafka-leader-election",
        "--election-type preferred --topic t --partition 0",
        ask=3,
        keep="rror|Exception|lection",
    )
    told.append(led(stage))
    for node in (1, 2, 3, 101):
        stage.signal(signal.SIGTERM, node)
        stage.start_again(node)
    told += [led(stage), stage.until(stage.led_by("u", ask=3)) is not None]
    describe(stage)
    sizes = {node: stage.bytes_of("t", node) for node in stage.brokers}
    stage.transcript.did("bytes of t-0: " + ", ".join(f"{stage.name(node)} {size}" for node, size in sizes.items()))
    told.append(sizes[1] > 0 and sizes[2] > 0 and not sizes[3])
    stage.tool("kafka-leader-election", "--election-type unclean --topic t --partition 0", ask=3)
    told.append(stage.until(stage.led_by("t", ask=3)) is not None)
    stage.show_log(101, "using an unclean election", last=1)
    describe(stage)
    return dict(zip(OUTCOME, [*told, left(stage, "u"), left(stage, "t")], strict=True))


def lose_all(stage: Stage) -> None:
    """Five records on replicas 1 and 2, and then neither of them; 3, which missed them, is back."""
    for topic in ("t", "u"):
        words = f"--create --topic {topic} --replica-assignment 3:1:2 --config min.insync.replicas=2"
        stage.tool("kafka-topics", words, ask=1)
    assert stage.until(in_sync(stage, "t", [1, 2, 3])) is not None
    assert stage.until(in_sync(stage, "u", [1, 2, 3])) is not None
    stage.signal(signal.SIGTERM, 3)
    for topic in ("t", "u"):
        assert stage.until(in_sync(stage, topic, [1, 2])) is not None
        words = f"--topic {topic} --request-required-acks all"
        stage.tool("kafka-console-producer", words, ask=1, stdin="a\nb\nc\nd\ne\n")
        stage.transcript.came(f"the end of {topic} is {stage.end_of(topic, ask=1)}")
    stage.signal(signal.SIGTERM, 2)
    assert stage.until(in_sync(stage, "t", [1])) is not None
    assert stage.until(in_sync(stage, "u", [1])) is not None
    stage.signal(signal.SIGKILL, 1)
    stage.start_again(3)
    for topic in ("t", "u"):
        assert stage.until(stage.led_by(topic, -1, ask=3)) is not None
    describe(stage)


def in_sync(stage: Stage, topic: str, replicas: list[int], ask: int = 1) -> Callable[[], bool]:
    """Whether these are the in-sync replicas."""
    return lambda: sorted(stage.partition(topic, ask=ask).isr_nodes) == replicas


def describe(stage: Stage) -> None:
    """Both topics, with their eligible leader replicas."""
    stage.tool("kafka-topics", "--describe", ask=3, keep="Partition: ")


def led(stage: Stage) -> bool:
    """Whether t gets a leader in some time."""
    took_s = stage.until(stage.led_by("t", ask=3), LEADERLESS_S)
    stage.transcript.did(
        f"t has had no leader for {LEADERLESS_S} s" if took_s is None else f"t has one after {took_s} s"
    )
    return took_s is not None


def left(stage: Stage, topic: str) -> int:
    """How many records a consumer can read."""
    said = stage.tool(
        "kafka-console-consumer",
        f"--topic {topic} --partition 0 --offset earliest --timeout-ms 8000",
        ask=3,
        keep="^.$|^Processed",
    )
    return len([line for line in said.splitlines() if len(line.strip()) == 1])
