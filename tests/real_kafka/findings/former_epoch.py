"""An application keeps its position outside Kafka, with the leader epoch of the record before it. Its topic is deleted,
and made anew under its name: leader epochs begin at 0 again. When the application seeks to where it was, the leader
epoch that its consumer has seen last is raised to that of the former topic (Metadata.java,
updateLastSeenEpochIfNewer), and from then on whatever brokers tell it of the new topic is older and is ignored
(updateLatestMetadata): it knows no leader, and gets no record and no error."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.real_kafka.findings.stage import Stage
from tests.real_kafka.real_cluster import JVM
from tests.real_kafka.requests import batch, error, metadata, produce

PATIENCE_S = 60
OUTCOME = {
    "the former topic is read in a later leader epoch than the new one begins with": True,
    "with group.protocol=classic the application gets no record of the new topic for 60 s": True,
    "with group.protocol=consumer the application gets no record of the new topic for 60 s": True,
    "without the leader epoch it gets them at once": True,
    "all get records when an election has raised the leader epoch to the former one": True,
}


def stage() -> Stage:
    """See Finding."""
    return Stage(2, 1)


def run(stage: Stage) -> dict[str, object]:
    """See Finding."""
    create(stage)
    stage.signal(signal.SIGTERM, 1)
    assert stage.until(stage.led_by("orders", 2, ask=2)) is not None
    stage.start_again(1)
    assert stage.until(lambda: len(stage.partition("orders", ask=2).isr_nodes) == 2) is not None
    write(stage, 2, "former", 5)
    first = Application(stage, "the application", 0, "-")
    assert stage.until(lambda: len(first.records()) == 5) is not None
    first.show()
    first.end()
    position, former = (int(word) for word in first.records()[-1].split()[:2])
    stage.tool("kafka-topics", "--delete --topic orders", ask=2)
    assert stage.until(lambda: bool(metadata(stage.connect(2), "orders").topics[0].error_code)) is not None
    create(stage)
    new = int(stage.partition("orders", ask=2).leader_epoch)
    write(stage, 1, "new", 10)
    again = [
        Application(stage, f"the application with group.protocol={protocol}", position + 1, str(former), protocol)
        for protocol in ("classic", "consumer")
    ]
    without = Application(stage, "the application without a leader epoch", position + 1, "-")
    try:
        return dict(zip(OUTCOME, [former > new, *reads(stage, again, without, former)], strict=True))
    finally:
        for each in (*again, without):
            each.end()


def reads(stage: Stage, again: list[Application], without: Application, former: int) -> list[bool]:
    """What each gets of the new topic, and what when its leader epoch is that of the former one."""
    at_once = stage.until(lambda: len(without.records()) == 5, 30) is not None
    without.show()
    stage.until(lambda: all(each.records() for each in again), PATIENCE_S)
    nothing = [not each.records() for each in again]
    for each in again:
        each.show()
    while int(stage.partition("orders", ask=2).leader_epoch) < former:
        leader = int(stage.partition("orders", ask=2).leader_id)
        stage.signal(signal.SIGTERM, leader)
        other = 3 - leader
        assert stage.until(stage.led_by("orders", other, ask=other)) is not None
        stage.transcript.did(
            f"{stage.name(other)} leads in leader epoch {stage.partition('orders', ask=other).leader_epoch}"
        )
        stage.start_again(leader)
        assert stage.until(lambda: len(stage.partition("orders", ask=2).isr_nodes) == 2) is not None
    after = stage.until(lambda: all(each.records() for each in again), PATIENCE_S) is not None
    for each in again:
        each.show()
    return [*nothing, at_once, after]


def create(stage: Stage) -> None:
    """The topic, led by broker-1."""
    stage.tool("kafka-topics", "--create --topic orders --replica-assignment 1:2", ask=2)
    assert stage.until(lambda: len(stage.partition("orders", ask=2).isr_nodes) == 2) is not None
    told = stage.partition("orders", ask=2)
    leader = f"{stage.name(told.leader_id)} leads in leader epoch {told.leader_epoch}"
    stage.transcript.did(f"orders has the id {stage.topic_id('orders', ask=2)}; {leader}")


def write(stage: Stage, leader: int, value: str, count: int) -> None:
    """So many records."""
    answer = produce(stage.connect(leader), "orders", batch(*[value] * count))
    stage.transcript.did(f"Produce of {count} records to {stage.name(leader)}: {error(answer.error_code)}")
    assert not answer.error_code


class Application:
    """A process of its own, with the Java consumer and its defaults but for where it begins without a position."""

    def __init__(self, stage: Stage, name: str, position: int, epoch: str, protocol: str = "classic") -> None:
        self.stage, self.name = stage, name
        self.out = stage.folder / f"{len(list(stage.folder.iterdir()))}-application.txt"
        bootstrap = ",".join(f"127.0.0.1:{stage.ports[node]}" for node in stage.brokers)
        settings = [bootstrap, "orders", str(position), epoch]
        settings += ["auto.offset.reset=earliest", f"group.protocol={protocol}"]
        stage.transcript.did(f"$ java Application.java {' '.join(settings)} &")
        with self.out.open("wb") as out:
            logging = f"-Dlog4j2.configurationFile={stage.folder / 'log4j2.properties'}"
            source = str(Path(__file__).with_name("Application.java"))
            command = ["java", *JVM, logging, "-cp", stage.class_path, source, *settings]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def records(self) -> list[str]:
        """As it prints them: offset, leader epoch, value."""
        text = self.out.read_text(encoding="utf-8", errors="replace")
        return [line.removeprefix("record ") for line in text.splitlines() if line.startswith("record ")]

    def show(self) -> None:
        """What it has got, and what it logged last of its position."""
        lines = self.out.read_text(encoding="utf-8", errors="replace").splitlines()
        logged = [line for line in lines if "SubscriptionState" in line or "Seeking" in line or "rror" in line][-4:]
        got = self.records() or ["no record"]
        self.stage.transcript.did(f"{self.name} has got (offset, leader epoch, value)", *got, *logged)

    def end(self) -> None:
        """End the process, and wait until it is gone."""
        self.process.kill()
        self.process.wait()
