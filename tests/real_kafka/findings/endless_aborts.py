"""A transactional producer's batch is refused with OUT_OF_ORDER_SEQUENCE_NUMBER: because the leader's log lacks records
that were acknowledged (an unclean election lost them); or because the leader knows the producer, after an idle time
longer than producer.id.expiration.ms, only from the marker of a transaction that was aborted before its record was
sent. If the refusal arrives before the application calls commitTransaction() or abortTransaction(), the producer raises
its epoch with the abort, and begins again at sequence 0. If it arrives later, it does not (TransactionManager.java,
maybeTransitionToErrorState): abortTransaction() succeeds, the next transaction is refused too, and so on without end.
It arrives later when the application commits as soon as it has sent. With transaction.version=2 the end of every
transaction raises the epoch."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.real_kafka.findings.stage import Stage
from tests.real_kafka.real_cluster import JVM

PATIENCE_S = 15
REFUSED = "OutOfOrderSequenceException"
OUTCOME = {
    "with transaction.version=1, a producer that commits at once commits nothing in 15 s and many attempts": True,
    "each gets OutOfOrderSequenceException, and abortTransaction() succeeds": True,
    "a producer that waits for the answer and half a second more before it aborts goes on after one abort": True,
    "a new producer with the same transactional.id commits at its first attempt": True,
    "the same befalls one that was forgotten and then aborted a transaction before its record was sent": True,
    "one that was forgotten alone commits at its first attempt": True,
    "with transaction.version=2, a producer that commits at once commits at its first attempt": True,
}
CONFIG = {
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 1,
    "producer.id.expiration.check.interval.ms": 1000,
}
ANY = "--entity-type brokers --entity-default"


def stage() -> Stage:
    """See Finding."""
    return Stage(3, 1, CONFIG, features={"transaction.version": 1})


def run(stage: Stage) -> dict[str, object]:
    """See Finding."""
    stage.tool("kafka-topics", "--create --topic orders --replica-assignment 1:2", ask=3)
    stage.tool("kafka-topics", "--create --topic bills --replica-assignment 3", ask=3)
    in_sync(stage, 1, 2)
    producers: list[Producer] = []
    try:
        told = [*with_lost_records(stage, producers), *with_nothing_lost(stage, producers)]
        stage.tool("kafka-features", "upgrade --feature transaction.version=2", ask=3)
        stage.start_again(1)
        in_sync(stage, 1, 2)
        producers.append(last := Producer(stage, "orders", "version-2"))
        lose(stage, [last], 2, 1)
        return dict(zip(OUTCOME, [*told, all_commit(last.commit(3))], strict=True))
    finally:
        for each in producers:
            each.end()


def with_lost_records(stage: Stage, producers: list[Producer]) -> list[bool]:
    """Acknowledged records are lost; how each way to use a producer goes on."""
    at_once, pausing = Producer(stage, "orders", "at-once"), Producer(stage, "orders", "pausing", pause="500")
    waiting = Producer(stage, "orders", "waiting", pause="0")
    producers += [at_once, pausing, waiting]
    lose(stage, producers, 1, 2)
    refused = at_once.commit(1)
    stage.show_log(2, REFUSED, last=1)
    paused = pausing.commit(3)
    waiting.commit(3)
    at_once.end()
    producers.append(anew := Producer(stage, "orders", "at-once"))
    return [*endless(refused), one_abort(paused), all_commit(anew.commit(3))]


def with_nothing_lost(stage: Stage, producers: list[Producer]) -> list[bool]:
    """The broker forgets idle producers; one of them aborts a transaction before its record was sent."""
    aborting, idle = Producer(stage, "bills", "aborting", linger_ms=10_000), Producer(stage, "bills", "idle")
    producers += [aborting, idle]
    aborting.commit(3)
    idle.commit(3)
    stage.tool("kafka-configs", f"--alter {ANY} --add-config producer.id.expiration.ms=1000", ask=3)
    assert stage.until(lambda: known(stage) == 0, 120) is not None
    stage.transcript.did("broker-3 has forgotten the producers of bills-0")
    stage.tool("kafka-configs", f"--alter {ANY} --delete-config producer.id.expiration.ms", ask=3)
    aborting.abort()
    assert stage.until(lambda: known(stage) == 1, 10) is not None
    stage.tool("kafka-transactions", "describe-producers --topic bills --partition 0", ask=3)
    refused = aborting.commit(1)
    stage.show_log(3, REFUSED, last=1)
    return [all(endless(refused)), all_commit(idle.commit(3))]


def lose(stage: Stage, producers: list[Producer], leader: int, follower: int) -> None:
    """Each commits three transactions on both replicas, and three on the leader alone, which dies; the other leads."""
    replicated = stage.end_of("orders", ask=leader) + 6 * len(producers)
    for each in producers:
        each.commit(3)
    assert stage.until(lambda: stage.end_of("orders", ask=leader) == replicated) is not None
    stage.signal(signal.SIGTERM, follower)
    in_sync(stage, leader)
    for each in producers:
        each.commit(3)
    stage.signal(signal.SIGKILL, leader)
    stage.start_again(follower)
    assert stage.until(stage.led_by("orders", -1, ask=3)) is not None
    stage.tool("kafka-leader-election", "--election-type unclean --topic orders --partition 0", ask=3)
    assert stage.until(stage.led_by("orders", follower, ask=3)) is not None
    assert stage.until(lambda: stage.end_of("orders", ask=follower) >= replicated) is not None
    end = stage.end_of("orders", ask=follower)
    stage.transcript.did(f"{stage.name(follower)} leads orders-0, and its log ends at {end}")


def in_sync(stage: Stage, *replicas: int) -> None:
    """Wait until these are in sync."""
    assert stage.until(lambda: sorted(stage.partition("orders", ask=3).isr_nodes) == sorted(replicas)) is not None


def known(stage: Stage) -> int:
    """How many producers the leader of bills knows."""
    place = f"127.0.0.1:{stage.ports[3]}"
    words = f"kafka-transactions --bootstrap-server {place} describe-producers --topic bills --partition 0"
    head, *rows = stage.run_tool(words.split(), "").strip().splitlines()
    assert "ProducerId" in head
    return len(rows)


def endless(attempts: list[str]) -> tuple[bool, bool]:
    """Whether there were many attempts and none succeeded, and whether all were refused."""
    nothing = len(attempts) >= 10 and not any(committed(each) for each in attempts)
    return nothing, all(REFUSED in each for each in attempts)


def one_abort(attempts: list[str]) -> bool:
    """Whether the first was refused, and all others succeeded."""
    return REFUSED in attempts[0] and all_commit(attempts[1:])


def all_commit(attempts: list[str]) -> bool:
    """Whether each of three transactions was committed at the first attempt."""
    return len(attempts) == 3 and all(committed(each) for each in attempts)


def committed(attempt: str) -> bool:
    """Whether the attempt succeeded."""
    return attempt.endswith(" committed")


class Producer:
    """A process of its own, with the Java producer and its defaults but for linger.ms."""

    def __init__(self, stage: Stage, topic: str, name: str, *, pause: str = "-", linger_ms: int = 5) -> None:
        self.stage, self.name = stage, name
        self.out = stage.folder / f"{len(list(stage.folder.iterdir()))}-transactions.txt"
        bootstrap = ",".join(f"127.0.0.1:{stage.ports[node]}" for node in stage.brokers)
        settings = [bootstrap, topic, name, pause, str(PATIENCE_S), f"linger.ms={linger_ms}"]
        stage.transcript.did(f"$ java Transactions.java {' '.join(settings)} &")
        with self.out.open("wb") as out:
            logging = f"-Dlog4j2.configurationFile={stage.folder / 'log4j2.properties'}"
            source = str(Path(__file__).with_name("Transactions.java"))
            command = ["java", *JVM, logging, "-cp", stage.class_path, source, *settings]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out)

    def commit(self, count: int) -> list[str]:
        """Let it commit so many transactions, or give up; its attempts."""
        return self._do(str(count))

    def abort(self) -> None:
        """Let it abort a transaction whose record was not sent yet."""
        self._do("abort")

    def _do(self, word: str) -> list[str]:
        """Let it do this; what it says goes into the transcript, of many lines only the first and the last ones."""
        before = self._lines()
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()
        assert self.stage.until(lambda: self._lines().count("done") > before.count("done"), 150) is not None, (
            self._lines()
        )
        said = [line for line in self._lines()[len(before) :] if line != "done"]
        shown = [said[0], f"({len(said) - 4} more)", *said[-3:]] if len(said) > 5 else said
        self.stage.transcript.did(f"{self.name}: {len(said)} {'attempts' if len(said) > 1 else 'attempt'}", *shown)
        return said

    def _lines(self) -> list[str]:
        text = self.out.read_text(encoding="utf-8", errors="replace")
        return [line for line in text.splitlines() if line == "done" or line.startswith("transaction ")]

    def end(self) -> None:
        """End the process, and wait until it is gone."""
        self.process.kill()
        self.process.wait()
