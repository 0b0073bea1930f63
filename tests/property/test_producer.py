"""Property: whatever becomes of its requests, an idempotent producer writes each record once and in order, and tells
its application no more than it knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings, strategies as st

from actors.client.producer import ProducerNode
from actors.log.batch import EMPTY_PREFIX_HASH, take_batch
from actors.log.producer_state import ProducerStateManager
from actors.node.effects import Call
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.trace.events import SendInvoke, SendReturn
from krift.v1.produce import ProduceRequest, ProduceResponse
from krift.v1.producer_ids import InitProducerIdResponse
from tests.unit.client.driver import TOPIC_ID, Driver, spec

PARTITIONS = 2

BEFORE_APPEND = (KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.CORRUPT_MESSAGE, KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
AFTER_APPEND = (KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


@dataclass
class ToyLeader:
    """One log per partition, that every broker has whole; ``leader`` may append, the others refuse.

    Its checks are those of the broker's log. ``poisoned``: records that are always refused, before anything else.
    """

    leader: int = 1
    epoch: int = 0
    logs: dict[int, list[str]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    producers: dict[int, ProducerStateManager] = field(default_factory=dict)
    poisoned: frozenset[int] = frozenset()

    def process(self, broker: str, request: ProduceRequest, refusal: int = 0) -> ProduceResponse:
        """What a broker does with a request; ``refusal``: an error that it has for every partition."""
        response = ProduceResponse()
        topic = ProduceResponse.TopicProduceResponse(topic_id=TOPIC_ID)
        response.responses.append(topic)
        for data in request.topic_data[0].partition_data:
            answer = ProduceResponse.PartitionProduceResponse(index=data.index)
            topic.partition_responses.append(answer)
            if broker != f"broker-{self.leader}":
                answer.error_code = KafkaError.NOT_LEADER_OR_FOLLOWER
            elif refusal and refusal not in AFTER_APPEND:
                answer.error_code = refusal
            else:
                answer.error_code, answer.base_offset = self._append(data.index, data.records)
                answer.error_code = answer.error_code or refusal
        return response

    def _append(self, index: int, wire: Any) -> tuple[int, int]:
        uids = [record.uid for record in wire.records]
        if any(int(uid.rpartition(":")[2]) in self.poisoned for uid in uids):
            return KafkaError.MESSAGE_TOO_LARGE, -1
        state = self.producers.setdefault(index, ProducerStateManager())
        end = self.ends.get(index, 0)
        identity = wire.producer_id, wire.producer_epoch, wire.base_sequence
        if wire.producer_id >= 0:
            duplicate = state.find_duplicate(*identity, len(uids))
            if duplicate is not None:
                return 0, duplicate.base_offset
            error = state.check(*identity)
            if error:
                return error, -1
        state.update(take_batch(EMPTY_PREFIX_HASH, end, 0, wire))
        self.logs.setdefault(index, []).extend(uids)
        self.ends[index] = end + len(uids)
        return 0, end


class Ordeal:
    """A producer, the toy leader, and the network between them. ``ghosts``: requests of connections that are gone,
    which a broker may still find in its socket."""

    def __init__(self, config: dict[str, Any], poisoned: frozenset[int] = frozenset()) -> None:
        node_spec = spec("producer-1", {"rate": 100}, config, partitions=PARTITIONS)
        self.driver = Driver(ProducerNode(), node_spec)
        self.leader = ToyLeader(poisoned=poisoned)
        self.ghosts: list[Call] = []
        self.learn()
        self.driver.start()
        if self.driver.open(Api.InitProducerId):
            call = self.driver.take(Api.InitProducerId)
            self.driver.answer(call, InitProducerIdResponse(producer_id=7, producer_epoch=0))

    def learn(self) -> None:
        """Metadata shows the present leader."""
        self.driver.leaders = dict.fromkeys(range(PARTITIONS), (self.leader.leader, self.leader.epoch))

    def serve(self, broker: str, refusal: int = 0, lost: bool = False) -> None:
        """A broker takes its oldest request; the answer arrives, or is lost with the connection."""
        calls = self._calls(broker)
        if calls:
            response = self.leader.process(broker, _produce(calls[0]), refusal)
            if lost:
                self.cut(broker, kept=0, taken=1)
            else:
                self.driver.calls.pop(calls[0].call)
                self.driver.answer(calls[0], response)

    def cut(self, broker: str, kept: int, timeout: bool = False, taken: int = 0) -> None:
        """A connection breaks. Of the requests on it, ``taken`` were served and ``kept`` more will be, perhaps."""
        calls = self._calls(broker)
        self.ghosts += calls[taken : taken + kept]
        for at, call in enumerate(calls):
            self.driver.fail(call, "timeout" if timeout and at == 0 else "disconnect")

    def serve_ghost(self) -> None:
        """A broker finds a request of a connection that is gone; nobody waits for the answer."""
        if self.ghosts:
            ghost = self.ghosts.pop(0)
            self.leader.process(ghost.peer, _produce(ghost))

    def move(self, to: int, known: bool) -> None:
        """The leader dies, and its connections; another broker leads, with all that was written."""
        if to != self.leader.leader:
            old = f"broker-{self.leader.leader}"
            self.leader.leader, self.leader.epoch = to, self.leader.epoch + 1
            if known:
                self.learn()
            self.cut(old, kept=0)

    def _calls(self, broker: str) -> list[Call]:
        return [call for call in self.driver.open(Api.Produce) if call.peer == broker]

    def settle(self) -> None:
        """All is well again, until the producer is done. That can take until delivery.timeout.ms: a batch renumbered
        while it was on the wire may be taken under its old number, and those behind it find no place in the new
        epoch (TransactionManager.java canRetry: a batch that was renumbered is sent again without a new epoch)."""
        self.learn()
        self.driver.stop()
        for _ in range(2600):
            if "op-stop" in self.driver.results:
                break
            self.driver.advance(50)
            while self.driver.open(Api.Produce):
                self.serve(self.driver.open(Api.Produce)[0].peer)

    def judge(self) -> None:
        """Everything returned; what is in the logs is in order and there once; and what was told is true."""
        assert "op-stop" in self.driver.results
        sent = {event.uid: event.tp for event in self.driver.events_of(SendInvoke)}
        told = {event.uid: event for event in self.driver.events_of(SendReturn)}
        assert sorted(sent) == sorted(told)
        assert len(told) == len(self.driver.events_of(SendReturn))
        for index in range(PARTITIONS):
            log = self.leader.logs.get(index, [])
            numbers = [int(uid.rpartition(":")[2]) for uid in log]
            assert numbers == sorted(set(numbers)), (index, numbers)
            mine = {uid for uid, tp in sent.items() if tp == f"orders-{index}"}
            assert mine >= set(log)
            assert {uid for uid in mine if told[uid].outcome == "ok"} <= set(log)
            assert not {uid for uid in mine if told[uid].outcome == "fail"} & set(log)
            for uid in mine:
                if told[uid].outcome == "ok" and told[uid].offset >= 0:
                    assert log[told[uid].offset] == uid


def _produce(call: Call) -> ProduceRequest:
    assert isinstance(call.request, ProduceRequest)
    return call.request


brokers = st.integers(1, 3)
pauses = st.tuples(st.just("advance"), st.sampled_from([1, 10, 40, 150, 600]))
harmless = (
    st.tuples(st.just("serve"), st.just(0)),
    st.tuples(st.just("serve"), st.sampled_from(BEFORE_APPEND)),
    st.tuples(st.just("cut"), st.just(0)),
    st.tuples(st.just("timeout"), st.just(0)),
    st.tuples(st.just("move"), brokers),
    st.tuples(st.just("move unseen"), brokers),
    st.tuples(st.just("learn"), st.just(0)),
)
"""Torments after which an unanswered batch was not written."""

confusing = (
    st.tuples(st.just("serve"), st.sampled_from(AFTER_APPEND)),
    st.tuples(st.just("lose"), st.sampled_from((0, *AFTER_APPEND))),
    st.tuples(st.just("cut"), st.integers(1, 5)),
    st.tuples(st.just("timeout"), st.integers(1, 5)),
    st.tuples(st.just("ghost"), st.just(0)),
)
"""Torments that leave a batch written, or still to be written, without an answer."""


LATE_FAILURE: list[tuple[str, int]] = [
    *[("advance", 1)] * 7,
    *[("serve", 0)] * 4,
    *[("move", 2), ("advance", 600), ("learn", 0), ("advance", 150), ("cut", 0), ("advance", 1)],
    ("serve", KafkaError.REQUEST_TIMED_OUT),
]
"""A batch that was given up long ago fails while others, written but unanswered, wait behind it."""


def lists_of(*kinds: st.SearchStrategy[tuple[str, int]]) -> st.SearchStrategy[list[tuple[str, int]]]:
    """Long lists of torments, with time passing between them."""
    return st.lists(st.one_of(pauses, pauses, *kinds), min_size=20, max_size=90)


configs: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "linger.ms": st.sampled_from([0, 25]),
        "delivery.timeout.ms": st.sampled_from([300, 600, 1500, 120000]),
        "max.in.flight.requests.per.connection": st.sampled_from([5, 1]),
    }
)


def torment(ordeal: Ordeal, taken: list[tuple[str, int]]) -> None:
    """Carry out a list of torments. Each hits the broker whose request waits longest."""
    for kind, value in taken:
        waiting = ordeal.driver.open(Api.Produce)
        broker = waiting[0].peer if waiting else f"broker-{ordeal.leader.leader}"
        match kind:
            case "advance":
                ordeal.driver.advance(value)
            case "serve" | "lose":
                ordeal.serve(broker, value, lost=kind == "lose")
            case "cut" | "timeout":
                ordeal.cut(broker, kept=value, timeout=kind == "timeout")
            case "ghost":
                ordeal.serve_ghost()
            case "learn":
                ordeal.learn()
            case _:
                ordeal.move(value, known=kind == "move")


def begin(ordeal: Ordeal) -> None:
    """A first batch of each partition is written in peace: a leader without any state of a producer takes whatever
    sequence number comes first."""
    ordeal.driver.advance(50)
    for _ in range(10):
        ordeal.serve("broker-1")


@given(lists_of(*harmless, *confusing), configs)
@example(LATE_FAILURE, {"linger.ms": 0, "delivery.timeout.ms": 300, "max.in.flight.requests.per.connection": 5})
@settings(max_examples=150)
def test_an_idempotent_producer_writes_once_and_in_order(taken: list[tuple[str, int]], config: dict[str, Any]) -> None:
    """Shows that lost answers, broken connections, requests that come to light late, and leaders that refuse, change
    and time out neither double nor reorder what is written; that every send returns; and that it returns ok only if
    it was written, and fail only if it was not."""
    ordeal = Ordeal(config)
    begin(ordeal)
    torment(ordeal, taken)
    ordeal.settle()
    ordeal.judge()


@given(lists_of(*harmless), configs, st.frozensets(st.integers(10, 60), min_size=1, max_size=3))
@settings(max_examples=60)
def test_a_record_that_no_leader_takes_leaves_no_trace(
    taken: list[tuple[str, int]], config: dict[str, Any], poisoned: frozenset[int]
) -> None:
    """Shows that records which are always refused fail, alone with their batch, and that the new epoch which closes
    the gap doubles and reorders nothing. What is written but unanswered at that moment would be written twice, by
    Kafka's own producer too (see producer_epoch.txt), so no answer is lost here."""
    ordeal = Ordeal(config, poisoned)
    begin(ordeal)
    torment(ordeal, taken)
    ordeal.settle()
    ordeal.judge()


def test_the_ordeal_is_one() -> None:
    """Shows that the checks above can fail: without idempotence one lost answer doubles a batch, and one refused
    request among five lets the others overtake it."""
    config = {"linger.ms": 0, "enable.idempotence": False}
    lost: list[tuple[str, int]] = [("lose", 0)]
    refused: list[tuple[str, int]] = [("serve", KafkaError.NOT_ENOUGH_REPLICAS), ("serve", 0), ("serve", 0)]
    for taken, written in ((lost, [0, 2, 4, 6, 8, 6]), (refused, [0, 2, 4, 8, 6])):
        ordeal = Ordeal(config)
        begin(ordeal)
        ordeal.driver.advance(40)
        torment(ordeal, taken)
        ordeal.settle()
        numbers = [int(uid.rpartition(":")[2]) for uid in ordeal.leader.logs[0]]
        assert numbers == written
        assert numbers != sorted(set(numbers))


def test_a_leader_without_state_takes_any_sequence() -> None:
    """Shows a gap that Kafka leaves (ProducerAppendInfo.java checkSequence): while the first batch hangs at the old
    leader, the second is the first that the new one hears of. The first finds no place any more, and since it was
    sent, nobody is told that it was not written."""
    config = {"linger.ms": 0, "metadata.max.age.ms": 15, "retry.backoff.ms": 5, "delivery.timeout.ms": 2000}
    ordeal = Ordeal(config)
    ordeal.leader.leader, ordeal.leader.epoch = 2, 1
    ordeal.learn()
    ordeal.driver.advance(20)
    ordeal.serve("broker-2")
    ordeal.settle()
    told = {event.uid: event for event in ordeal.driver.events_of(SendReturn)}
    assert ordeal.leader.logs[0] == ["producer-1:2"]
    assert [told[f"producer-1:{number}"].outcome for number in (0, 2)] == ["unknown", "ok"]
