"""A leader that is late with metadata only is replaced and elected again, and hears of both at once. makeLeader
(Partition.scala) then takes it for the leader that it was, and goes on with its followers' log ends of two epochs ago,
though one has truncated since: the high watermark passes what that follower has no more, and a producer is told that
its records are acknowledged by all. The leader dies before the follower's next fetch, and a clean election loses them.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack
from functools import partial

from tests.real_kafka.cluster import Closed, Pending
from tests.real_kafka.findings.proxy import Proxy
from tests.real_kafka.findings.stage import Stage
from tests.real_kafka.real_cluster import free_ports
from tests.real_kafka.requests import batch, error, produce, produced, send_produce

OUTCOME = {
    "control: with metadata in time, the five records that waited were acknowledged": False,
    "the five records that waited were acknowledged, with acks=all and min.insync.replicas=2": True,
    "broker 3 was elected from the in-sync replicas": True,
    "records that are left, of five acknowledged before": 5,
    "records that are left, of the five acknowledged then": 0,
    "and with all brokers back": 0,
}
TOPIC = "orders"
FIRST, SECOND = [f"first-{i}" for i in range(5)], [f"second-{i}" for i in range(5)]
METADATA_OF_2, FETCHER_OF_1, FETCHER_OF_3 = "raft-client-2", "broker-1-fetcher-0", "broker-3-fetcher-0"


class Proxied(Stage):
    """With a proxy before the controller and one before broker 2, over which everybody but the script asks them."""

    def __init__(self) -> None:
        super().__init__(3, 1)
        self.advertised |= dict(zip((2, 101), free_ports(2), strict=True))
        self.proxies = {node: Proxy(self.advertised[node], self.ports[node]) for node in (2, 101)}
        self.begun = ExitStack()

    def __enter__(self) -> Proxied:
        with ExitStack() as begun:
            for proxy in self.proxies.values():
                begun.enter_context(proxy)
            super().__enter__()
            self.begun = begun.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.begun.close()

    def hold(self, node: int, client_id: str, why: str) -> None:
        """Hold the answers to a client's Fetch requests from now on."""
        self.transcript.did(f"hold answers to Fetch from {self.name(node)} to {client_id} ({why})")
        self.proxies[node].hold(client_id)

    def let_go(self, node: int, client_id: str, why: str) -> None:
        """Hold them no more."""
        kept = self.proxies[node].kept.pop(client_id, 0)
        self.transcript.did(f"{client_id} gets answers again ({why}); held until now: {kept}")
        self.proxies[node].let_go(client_id)


def stage() -> Stage:
    """See Finding."""
    return Proxied()


def run(stage: Stage) -> dict[str, object]:
    """See Finding."""
    assert isinstance(stage, Proxied)
    in_time = lag(stage, "control")
    elect_1(stage, "control")
    acknowledged = answered(stage, in_time)
    stage.let_go(2, FETCHER_OF_1, "the control is over")
    pending = lag(stage, TOPIC)
    stage.hold(101, METADATA_OF_2, "broker 2 hears of no change; its heartbeats pass")
    lead_and_die(stage)
    stage.hold(2, FETCHER_OF_3, "broker 3 gets nothing from broker 2")
    stage.let_go(101, METADATA_OF_2, "broker 2 hears of both elections")
    told = [acknowledged, answered(stage, pending)]
    show_sizes(stage)
    stage.signal(signal.SIGKILL, 2)
    stage.show_log(2, rf"Leader {TOPIC}-0 .* starts at", last=2)
    return dict(zip(OUTCOME, [*told, *after(stage)], strict=True))


def lag(stage: Proxied, topic: str) -> Pending:
    """Broker 2 leads, broker 1 is preferred, and lags; a Produce with acks=all waits for it, which broker 3 has."""
    words = f"--create --topic {topic} --replica-assignment 2:1:3 --config min.insync.replicas=2"
    stage.tool("kafka-topics", words, ask=3)
    assert stage.until(lambda: len(stage.partition(topic, ask=3).isr_nodes) == 3) is not None
    order = stage.file(f'{{"version":1,"partitions":[{{"topic":"{topic}","partition":0,"replicas":[1,2,3]}}]}}')
    stage.tool("kafka-reassign-partitions", f"--execute --reassignment-json-file {order}", ask=3, keep="^Success")
    assert stage.until(lambda: list(stage.partition(topic, ask=3).replica_nodes) == [1, 2, 3]) is not None
    answer = produce(stage.connect(2), topic, batch(*FIRST))
    stage.transcript.did(f"Produce of five records to broker-2, acks=all: {error(answer.error_code)}")
    sizes = partial(stage.bytes_of, topic)
    assert stage.until(lambda: sizes(1) == sizes(3) == sizes(2) > 0) is not None
    describe(stage, topic)
    stage.hold(2, FETCHER_OF_1, "broker 1 lags, in the ISR")
    pending = send_produce(stage.connect(2), topic, batch(*SECOND), timeout_ms=60_000)
    stage.transcript.did("Produce of five more records to broker-2, acks=all; it waits for broker-1")
    assert stage.until(lambda: sizes(3) == sizes(2) > sizes(1)) is not None
    return pending


def elect_1(stage: Proxied, topic: str) -> None:
    """Broker 1 leads, broker 3 truncates to its log."""
    stage.tool("kafka-leader-election", f"--election-type preferred --topic {topic} --partition 0", ask=3)
    assert stage.until(stage.led_by(topic, 1, ask=3), 20) is not None


def answered(stage: Proxied, pending: Pending) -> bool:
    """Whether the records that waited are acknowledged."""
    try:
        code = produced(pending.get()).error_code
    except Closed:
        stage.transcript.did("the connection of the pending Produce is closed")
        return False
    stage.transcript.did(f"the pending Produce is answered: {error(code)}")
    return not code


def lead_and_die(stage: Proxied) -> None:
    """Broker 1 leads, broker 3 truncates to its log; broker 1 dies, and broker 2 is elected again."""
    show_sizes(stage)
    elect_1(stage, TOPIC)
    assert stage.until(lambda: stage.bytes_of(TOPIC, 3) == stage.bytes_of(TOPIC, 1), 20) is not None
    show_sizes(stage)
    stage.show_log(3, "runcating", last=1)
    stage.signal(signal.SIGKILL, 1)
    assert stage.until(stage.led_by(TOPIC, 2, ask=3), 20) is not None
    describe(stage)


def after(stage: Proxied) -> list[object]:
    """Who leads when broker 2 is dead, and what a consumer reads then, and once all are back."""
    took_s = stage.until(stage.led_by(TOPIC, 3, ask=3), 30)
    stage.transcript.did(f"broker-3 leads after {took_s} s")
    describe(stage)
    elected = f"Setting new leader for topicId {stage.topic_id(TOPIC, ask=3)}, partition 0 to"
    stage.show_log(101, elected)
    clean = bool(stage.logged(101, f"{elected} 3 using a clean election"))
    found = read(stage)
    for client in (FETCHER_OF_1, FETCHER_OF_3):
        stage.let_go(2, client, "the end of the fault")
    stage.start_again(1, 2)
    assert stage.until(lambda: len(stage.partition(TOPIC, ask=3).isr_nodes) == 3) is not None
    describe(stage)
    again = read(stage)
    return [clean, count(found, FIRST), count(found, SECOND), count(again, SECOND)]


def read(stage: Proxied) -> list[str]:
    """All records, with a consumer."""
    words = f"--topic {TOPIC} --partition 0 --offset earliest --timeout-ms 8000"
    return stage.tool("kafka-console-consumer", words, ask=3, keep="^first|^second|^Processed").split()


def count(found: list[str], of: list[str]) -> int:
    """How many of them were found."""
    return len(set(found) & set(of))


def show_sizes(stage: Proxied) -> None:
    """The logs, side by side."""
    told = (f"{stage.name(node)} {stage.bytes_of(TOPIC, node)}" for node in stage.brokers)
    stage.transcript.did(f"bytes of {TOPIC}-0: {', '.join(told)}")


def describe(stage: Proxied, topic: str = TOPIC) -> None:
    """Leader and ISR, as broker 3 has them."""
    found = stage.partition(topic, ask=3)
    told = f"leader {found.leader_id}, leader epoch {found.leader_epoch}, ISR {sorted(map(int, found.isr_nodes))}"
    stage.transcript.did(f"Metadata of broker-3 on {topic}-0: {told}")
