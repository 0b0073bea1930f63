"""A broker answers a Fetch whose position is beyond its high watermark at once, with nothing (DelayedFetch.java, case
F). A new leader learns the high watermark later than consumers did, and while too few replicas are in sync it stays
where it is: so a consumer that had read everything asks again and again, as fast as it is answered, for as long as
that lasts."""

from __future__ import annotations

import signal
import time

from tests.real_kafka.findings.stage import Stage
from tests.real_kafka.requests import batch, error, fetch, produce

WAIT_MS, LOOK_S = 100, 5.0
OUTCOME = {
    "at the high watermark, Fetches in 5 s are about as many as fetch.max.wait.ms allows": True,
    "after the failover the consumer's position is beyond the high watermark": True,
    "Fetches in 5 s are twenty times as many then, or more": True,
}


def stage() -> Stage:
    """See Finding."""
    return Stage(3, 1)


def run(stage: Stage) -> dict[str, object]:
    """See Finding."""
    stage.tool(
        "kafka-topics", "--create --topic orders --replica-assignment 1:2:3 --config min.insync.replicas=2", ask=3
    )
    assert stage.until(lambda: len(stage.partition("orders", ask=3).isr_nodes) == 3) is not None
    stage.signal(signal.SIGKILL, 3)
    assert stage.until(lambda: sorted(stage.partition("orders", ask=2).isr_nodes) == [1, 2]) is not None
    answer = produce(stage.connect(1), "orders", batch(*map(str, range(5))))
    stage.transcript.did(f"Produce of five records to broker-1, acks=all: {error(answer.error_code)}")
    calm, _ = fetches(stage, 1, 5)
    answer = produce(stage.connect(1), "orders", batch(*map(str, range(5, 10))))
    stage.signal(signal.SIGKILL, 1, why=f"after five more, acks=all: {error(answer.error_code)}; a consumer has them")
    assert stage.until(stage.led_by("orders", 2, ask=2), 20) is not None
    stage.transcript.did("broker-2 leads, alone in the ISR")
    spun, high_watermark = fetches(stage, 2, 10)
    return dict(zip(OUTCOME, [calm <= LOOK_S * 1000 / WAIT_MS, high_watermark < 10, spun >= 20 * calm], strict=True))


def fetches(stage: Stage, leader: int, offset: int) -> tuple[int, int]:
    """How many Fetches at this offset are answered in five seconds, one after the other; the high watermark told."""
    connection, number, told = stage.connect(leader), 0, -1
    end = time.monotonic() + LOOK_S
    while time.monotonic() < end:
        answer = fetch(connection, "orders", offset)
        number, told = number + 1, answer.high_watermark
        assert not answer.error_code and not answer.records
    asked = f"a consumer's Fetches from {stage.name(leader)} at offset {offset}, fetch.max.wait.ms={WAIT_MS}"
    stage.transcript.did(f"{asked}: {number:,} in {LOOK_S:g} s; high watermark {told}")
    return number, told
