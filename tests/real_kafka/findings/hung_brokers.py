"""A consumer reads two partitions, each led by a broker that hangs; a third broker takes both over. The consumer gets
no record for minutes: the kernel of a stopped process still accepts connections, which wait for an answer to
ApiVersions until the request times out; the fetcher connects to both brokers again at once, and leastLoadedNode
(NetworkClient.java) prefers a node that is being connected to over one that it could connect to, so that nobody who is
alive is asked for metadata. How long that lasts differs, so three consumers are tried."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.real_kafka.findings.stage import Stage
from tests.real_kafka.real_cluster import JVM
from tests.real_kafka.requests import batch, error, produce

CONSUMERS, PATIENCE_S, LONG_S = 3, 240, 90
OUTCOME = {
    "before, every consumer got records of both partitions": True,
    "broker 3 leads both partitions and takes records": True,
    f"some consumer got no record for {LONG_S} s after that": True,
    "a consumer that is started then gets them at once": True,
    "every consumer has them once the brokers go on": True,
}


def stage() -> Stage:
    """See Finding."""
    return Stage(3, 1)


def run(stage: Stage) -> dict[str, object]:
    """See Finding."""
    stage.tool("kafka-topics", "--create --topic w --replica-assignment 1:3,2:3", ask=3)
    assert stage.until(lambda: all(len(stage.partition("w", i, ask=3).isr_nodes) == 2 for i in (0, 1))) is not None
    write(stage, 1, 2)
    consumers = [Consumer(stage, f"consumer {each + 1}") for each in range(CONSUMERS)]
    try:
        before = stage.until(lambda: all(each.partitions() == {0, 1} for each in consumers), 60) is not None
        consumers[0].show()
        return dict(zip(OUTCOME, [before, *hang(stage, consumers)], strict=True))
    finally:
        for each in consumers:
            each.end()


def hang(stage: Stage, consumers: list[Consumer]) -> list[bool]:
    """Stop the leaders, write to their successor, and wait for the consumers."""
    stage.signal(signal.SIGSTOP, 1, 2, why="both hang")
    took_over = stage.until(lambda: all(stage.led_by("w", 3, ask=3, index=i)() for i in (0, 1)))
    stage.transcript.did(f"broker-3 leads both partitions after {took_over} s")
    assert took_over is not None
    taken = write(stage, 3, 3)
    longest_s = patience(stage, consumers)
    another = Consumer(stage, "a consumer that is started now", ask=3)
    try:
        others = stage.until(lambda: len(another.lines()) == 4, 30) is not None
        another.show()
    finally:
        another.end()
    stage.signal(signal.SIGCONT, 1, 2, why="both go on")
    have_all = stage.until(lambda: all(len(each.lines()) >= 4 for each in consumers), 120) is not None
    consumers[0].show()
    return [taken, longest_s >= LONG_S, others, have_all]


def patience(stage: Stage, consumers: list[Consumer]) -> float:
    """Wait for a new record of each; how long the last had none."""
    begun_ms = stage.now_ms()
    left = list(consumers)

    def all_got() -> bool:
        for each in [each for each in left if len(each.lines()) > 2]:
            left.remove(each)
            stage.transcript.did(f"{each.name} gets a record {(stage.now_ms() - begun_ms) / 1000:.1f} s after these")
        return not left

    stage.until(all_got, LONG_S)
    if left:
        left[0].show_log()
    stage.until(all_got, PATIENCE_S - LONG_S)
    for each in left:
        stage.transcript.did(f"{each.name} has got no record for {PATIENCE_S} s")
    return (stage.now_ms() - begun_ms) / 1000


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
            logging = f"-Dlog4j2.configurationFile={stage.folder / 'log4j2.properties'}"
            command = ["java", *JVM, logging, "-cp", stage.class_path, str(source), bootstrap, "w", "2"]
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

    def show_log(self) -> None:
        """What it logged of connections since the last record, the last lines of it."""
        lines = self.out.read_text(encoding="utf-8", errors="replace").splitlines()
        shown = [line for line in lines if "NetworkClient" in line or "FetchSessionHandler" in line][-6:]
        self.stage.transcript.did(f"log of {self.name}", *shown)

    def end(self) -> None:
        """End the process, and wait until it is gone."""
        self.process.kill()
        self.process.wait()
