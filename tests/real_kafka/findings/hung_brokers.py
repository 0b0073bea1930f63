"""A consumer reads two partitions, each led by a broker that hangs; a third broker takes both over. The consumer gets
no record: the kernel of a stopped process still accepts connections, which wait for an answer to ApiVersions until the
request times out; the fetcher connects to both brokers again at once, and NetworkClient.leastLoadedNode prefers a node
that is being connected to over one that it could connect to, so that nobody who is alive is asked for metadata."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.real_kafka.findings.stage import Stage
from tests.real_kafka.real_cluster import JVM
from tests.real_kafka.requests import batch, error, produce

SILENT_S = 150
OUTCOME = {
    "before, the consumer got records of both partitions": True,
    "broker 3 leads both partitions and takes records": True,
    f"the consumer got a record in {SILENT_S} s since": False,
    "a consumer that is started now gets them": True,
    "the consumer gets them once the brokers go on": True,
}


def stage() -> Stage:
    """See Finding."""
    return Stage(3, 1)


def run(stage: Stage) -> dict[str, object]:
    """See Finding."""
    stage.tool("kafka-topics", "--create --topic w --replica-assignment 1:3,2:3", ask=3)
    assert stage.until(lambda: all(len(stage.partition("w", i, ask=3).isr_nodes) == 2 for i in (0, 1))) is not None
    write(stage, 1, 2)
    consumer = Consumer(stage, "the consumer")
    try:
        before = stage.until(lambda: consumer.partitions() == {0, 1}, 60) is not None
        consumer.show()
        return dict(zip(OUTCOME, [before, *hang(stage, consumer)], strict=True))
    finally:
        consumer.end()


def hang(stage: Stage, consumer: Consumer) -> list[bool]:
    """Stop the leaders, write to their successor, and wait for the consumer."""
    had = len(consumer.lines())
    stage.signal(signal.SIGSTOP, 1, 2, why="both hang")
    took_over = stage.until(lambda: all(stage.led_by("w", 3, ask=3, index=i)() for i in (0, 1)))
    stage.transcript.did(f"broker-3 leads both partitions after {took_over} s")
    assert took_over is not None
    taken = write(stage, 3, 3)
    got_s = stage.until(lambda: len(consumer.lines()) > had, SILENT_S)
    stage.transcript.did(
        f"the consumer has got no record for {SILENT_S} s" if got_s is None else f"one after {got_s} s"
    )
    consumer.show()
    another = Consumer(stage, "a consumer that is started now", ask=3)
    try:
        others = stage.until(lambda: len(another.lines()) == had + 2, 60) is not None
        another.show()
    finally:
        another.end()
    stage.signal(signal.SIGCONT, 1, 2, why="both go on")
    goes_on = stage.until(lambda: len(consumer.lines()) >= had + 2, 120) is not None
    consumer.show()
    return [taken, got_s is not None, others, goes_on]


def write(stage: Stage, *leaders: int) -> bool:
    """A record into each partition with acks=all; whether the leaders took them."""
    codes = []
    for index, leader in enumerate(leaders):
        answer = produce(stage.connect(leader), "w", batch(f"by-{leader}"), partition=index)
        stage.transcript.did(f"Produce to w-{index} at {stage.name(leader)}: {error(answer.error_code)}")
        codes.append(answer.error_code)
    return not any(codes)


class Consumer:
    """The Java consumer with its defaults, as a process of its own."""

    def __init__(self, stage: Stage, name: str, ask: int | None = None) -> None:
        self.stage, self.name = stage, name
        self.out = stage.folder / f"{len(list(stage.folder.iterdir()))}-consumer.txt"
        asked = [ask] if ask else list(stage.brokers)
        bootstrap = ",".join(f"127.0.0.1:{stage.ports[node]}" for node in asked)
        source = Path(__file__).with_name("Consumer.java")
        stage.transcript.did(f"$ java Consumer.java {bootstrap} w 2 &")
        with self.out.open("wb") as out:
            command = ["java", *JVM, "-cp", stage.class_path, str(source), bootstrap, "w", "2"]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def lines(self) -> list[str]:
        """Its records: partition, offset, value."""
        text = self.out.read_text(encoding="utf-8", errors="replace")
        return [line for line in text.splitlines() if line[:2] in ("0 ", "1 ")]

    def partitions(self) -> set[int]:
        """Those that it got records of."""
        return {int(line[0]) for line in self.lines()}

    def show(self) -> None:
        """All that it got so far, in the transcript."""
        self.stage.transcript.did(f"{self.name} has got (partition, offset, value)", *sorted(self.lines()))

    def end(self) -> None:
        """End the process, and wait until it is gone."""
        self.process.kill()
        self.process.wait()
