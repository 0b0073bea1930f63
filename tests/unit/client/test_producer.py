"""The producer node: batching, idempotence, retries, outcomes."""

from __future__ import annotations

from typing import Any

from actors.client.producer import ProducerNode
from actors.node.effects import Call
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.trace.events import ErrorSeen, MetaView, SendInvoke, SendReturn
from krift.v1.common import LeaderAndEpoch
from krift.v1.produce import ProduceRequest, ProduceResponse
from krift.v1.producer_ids import InitProducerIdResponse
from tests.unit.client.driver import TOPIC_ID, Driver, spec


def producer(rate: float = 100, partitions: int = 1, **config: Any) -> Driver:
    """A producer that has its metadata and is started; keys use _ for a dot."""
    keys = {key.replace("_", "."): value for key, value in config.items()}
    driver = Driver(ProducerNode(), spec("producer-1", {"rate": rate}, keys, partitions=partitions))
    driver.leaders = dict.fromkeys(range(partitions), (1, 0))
    driver.start()
    return driver


def with_id(driver: Driver) -> Driver:
    """Give the producer its id, 7."""
    driver.answer(driver.take(Api.InitProducerId), InitProducerIdResponse(producer_id=7, producer_epoch=0))
    return driver


def batch(call: Call) -> tuple[int, int, list[str]]:
    """Epoch, base sequence and uids of the one batch in a Produce call."""
    assert isinstance(call.request, ProduceRequest)
    wire = call.request.topic_data[0].partition_data[0].records
    assert wire is not None
    return wire.producer_epoch, wire.base_sequence, [record.uid for record in wire.records]


def answer(driver: Driver, call: Call, error: int = 0, offset: int = -1, leader: tuple[int, int] | None = None) -> None:
    """Answer a Produce call for orders-0."""
    response = ProduceResponse()
    topic = ProduceResponse.TopicProduceResponse(topic_id=TOPIC_ID)
    response.responses.append(topic)
    partition = ProduceResponse.PartitionProduceResponse(index=0, error_code=error, base_offset=offset)
    topic.partition_responses.append(partition)
    if leader is not None:
        partition.current_leader = LeaderAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
    driver.answer(call, response)


def uids(*numbers: int) -> list[str]:
    return [f"producer-1:{number}" for number in numbers]


def test_records_go_out_at_the_rate_and_linger_together() -> None:
    """Shows that 100 records a second are one every 10 ms, and that linger.ms gathers them into batches."""
    driver = with_id(producer(linger_ms=25))
    driver.advance(25)
    call = driver.take(Api.Produce)
    assert batch(call) == (0, 0, uids(0, 1, 2))
    assert call.request.topic_data[0].topic_id == TOPIC_ID  # type: ignore[attr-defined]
    answer(driver, call, offset=40)
    returned = driver.events_of(SendReturn)
    assert [(event.uid, event.outcome, event.offset) for event in returned] == [
        ("producer-1:0", "ok", 40),
        ("producer-1:1", "ok", 41),
        ("producer-1:2", "ok", 42),
    ]
    driver.advance(975)
    assert len(driver.events_of(SendInvoke)) == 101


def test_rate_above_one_per_millisecond_does_not_drift() -> None:
    """Shows that several records are sent per tick where the rate asks for it: 2500/s for 0.4 s are 1000."""
    driver = with_id(producer(rate=2500, linger_ms=1000))
    driver.advance(400)
    # at 0 ms: 0; then two or three records each ms, the last one at 400 ms
    assert len(driver.events_of(SendInvoke)) in (1001, 1002, 1003)


def test_five_requests_are_pipelined() -> None:
    """Shows that max.in.flight.requests.per.connection bounds what is on a connection, and 5 is the default."""
    driver = with_id(producer(linger_ms=0))
    driver.advance(200)
    assert [batch(call)[1] for call in driver.open(Api.Produce)] == [0, 1, 2, 3, 4]


def test_nothing_is_sent_without_a_producer_id() -> None:
    """Shows that an idempotent producer asks for its id first, again after an error, and sends nothing before."""
    driver = producer(linger_ms=0)
    driver.advance(50)
    call = driver.take(Api.InitProducerId)
    driver.answer(call, InitProducerIdResponse(error_code=KafkaError.COORDINATOR_LOAD_IN_PROGRESS))
    assert not driver.open(Api.Produce)
    driver.advance(120)
    with_id(driver)
    assert driver.open(Api.Produce)


def test_after_a_failure_batches_go_again_one_by_one_in_order() -> None:
    """Shows the in-order retry: all five in flight fail, and each is sent again only after the one before."""
    driver = with_id(producer(linger_ms=0))
    driver.advance(40)
    calls = [driver.take(Api.Produce) for _ in range(5)]
    answer(driver, calls[0], KafkaError.NOT_ENOUGH_REPLICAS)
    for call in calls[1:]:
        answer(driver, call, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    driver.stop()
    order = []
    for offset in range(5):
        driver.advance(2000)
        assert len(driver.open(Api.Produce)) == 1
        call = driver.take(Api.Produce)
        order.append(batch(call)[1:])
        answer(driver, call, offset=offset)
    assert order == [(number, uids(number)) for number in range(5)]
    assert driver.results["op-stop"] == {"sent": 5, "acked": 5}


def test_a_gap_in_the_sequence_raises_the_epoch() -> None:
    """Shows that OUT_OF_ORDER for the batch right after the acknowledged one makes the producer start a new epoch."""
    driver = with_id(producer(linger_ms=0))
    answer(driver, driver.take(Api.Produce), offset=0)
    driver.advance(10)
    driver.stop()
    answer(driver, driver.take(Api.Produce), KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    driver.advance(2000)
    assert batch(driver.take(Api.Produce)) == (1, 0, uids(1))


def test_a_definite_error_fails_and_raises_the_epoch() -> None:
    """Shows that a batch that was certainly not written returns fail, and that the gap is closed by a new epoch."""
    driver = with_id(producer(linger_ms=0))
    answer(driver, driver.take(Api.Produce), KafkaError.MESSAGE_TOO_LARGE)
    assert driver.events_of(SendReturn)[0].outcome == "fail"
    driver.advance(10)
    assert batch(driver.take(Api.Produce)) == (1, 0, uids(1))


def test_an_error_after_an_unknown_attempt_stays_unknown() -> None:
    """Shows that a definite refusal does not undo an earlier attempt whose end nobody saw."""
    driver = with_id(producer(linger_ms=0, retries=1))
    driver.stop()
    driver.fail(driver.take(Api.Produce), "disconnect")
    driver.advance(2000)
    answer(driver, driver.take(Api.Produce), KafkaError.NOT_ENOUGH_REPLICAS)
    returned = driver.events_of(SendReturn)[0]
    assert (returned.outcome, returned.error) == ("unknown", KafkaError.NOT_ENOUGH_REPLICAS)
    assert driver.results["op-stop"] == {"sent": 1, "acked": 0}


def test_delivery_timeout_gives_up_with_unknown_outcome() -> None:
    """Shows that delivery.timeout.ms ends a send, and that later batches wait until its sequence is resolved."""
    driver = with_id(producer(linger_ms=0, delivery_timeout_ms=500, rate=10))
    driver.fail(driver.take(Api.Produce), "timeout")
    driver.down = {"broker-1", "broker-2", "broker-3"}
    driver.advance(500)
    returned = driver.events_of(SendReturn)
    assert [(event.uid, event.outcome, event.error) for event in returned] == [
        ("producer-1:0", "unknown", KafkaError.REQUEST_TIMED_OUT)
    ]
    driver.down = set()
    driver.advance(1200)
    epoch, sequence, _ = batch(driver.take(Api.Produce))
    assert (epoch, sequence) == (1, 0)


def test_a_named_leader_is_used_at_once() -> None:
    """Shows KIP-951: NOT_LEADER_OR_FOLLOWER with the current leader makes the batch go there without a pause."""
    driver = with_id(producer(linger_ms=0, rate=1))
    answer(driver, driver.take(Api.Produce), KafkaError.NOT_LEADER_OR_FOLLOWER, leader=(2, 5))
    assert driver.events_of(MetaView)[-2:] != []
    assert driver.take(Api.Produce).peer == "broker-2"
    assert [(event.tp, event.error) for event in driver.events_of(ErrorSeen)] == [("orders-0", 6)]


def test_acks_0_returns_without_an_answer() -> None:
    """Shows that acks=0 counts as success when it is sent, without an offset and without a producer id."""
    driver = producer(linger_ms=0, acks="0")
    returned = driver.events_of(SendReturn)[0]
    assert (returned.outcome, returned.offset, returned.acks, returned.idempotent) == ("ok", -1, 0, False)
    call = driver.take(Api.Produce)
    assert batch(call)[1] == -1
    driver.answer(call, ProduceResponse())
    assert len(driver.events_of(SendReturn)) == 1
