"""Property: whatever coordinators and leaders answer, a transactional producer asks one thing at a time, sends nothing
to a partition that is not in the transaction, ends a transaction when nothing is open any more, and tells its
application what it knows."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st

from actors.client.transactional_producer import TransactionalProducerNode
from actors.client.transactions.reactions import REACTIONS, reaction_to
from actors.client.transactions.requests import APIS
from actors.client.transactions.states import ANY, SOURCES
from actors.node.effects import Call
from actors.node.errors import KafkaError
from actors.node.messages import Api, api_of
from actors.trace.events import (
    BeginInvoke,
    EndInvoke,
    EndReturn,
    InitReturn,
    OpInvoke,
    OpReturn,
    SendInvoke,
    SendReturn,
)
from krift.v1.groups import FindCoordinatorResponse
from krift.v1.produce import ProduceRequest, ProduceResponse
from krift.v1.producer_ids import InitProducerIdResponse
from krift.v1.transactions import AddPartitionsToTxnResponse, EndTxnResponse
from tests.unit.client.driver import Driver, spec

PARTITIONS = 2
_UNTIL_IT_GOES_ON = 150
"""Answers, 20 ms apart, within which a transaction ends: it may be of a new producer, which the application makes a
second after it had to close the one before."""
COORDINATED = (Api.InitProducerId, Api.AddPartitionsToTxn, Api.EndTxn)

_ERRORS = sorted(
    {
        *(error for table in REACTIONS.values() for error in table),
        *(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.INVALID_TXN_STATE),
        *(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.REQUEST_TIMED_OUT),
    }
)
_ACTS = st.one_of(
    st.just(("answer", 0)),
    st.just(("answer", 0)),
    st.just(("answer", 0)),
    st.tuples(st.just("answer"), st.sampled_from(_ERRORS)),
    st.just(("fail", 0)),
    st.tuples(st.just("advance"), st.sampled_from((20, 120, 1000))),
)


class Coordinator:
    """Scripted brokers: what each of them was asked is checked, and answered with an error or without.

    epoch: of the last id that was given. added: partitions of the transaction that is going on. ended: numbers of
    EndTxn answered with success, as (commit, epoch)."""

    def __init__(self, v2: bool) -> None:
        self.v2 = v2
        self.driver = Driver(
            TransactionalProducerNode(),
            spec(
                "producer-1",
                {
                    "rate": 50,
                    "transaction_records": 3,
                    "aborts_percent": 25,
                    "hold_after": 0,
                    "hold_every_ms": 700,
                    "hold_ms": 90,
                    "last_hold_ms": 0,
                },
                {"linger.ms": 0, "delivery.timeout.ms": 3000, "request.timeout.ms": 1000},
                partitions=PARTITIONS,
            ),
        )
        self.epoch = 0
        self.added: set[int] = set()
        self.ended: list[bool] = []
        self.driver.leaders = dict.fromkeys(range(PARTITIONS), (1, 0))
        if v2:
            self.driver.node.net.features_epoch = 1
            self.driver.node.net.finalized_features = {"transaction.version": 2}
        self.driver.start()

    def act(self, what: str, value: int) -> None:
        """One thing happens; then what must hold of every moment is looked at."""
        if what == "advance":
            self.driver.advance(value)
        elif self.driver.calls:
            call = self.driver.calls.pop(min(self.driver.calls))
            if what == "fail":
                self.driver.fail(call)
            else:
                self.driver.answer(call, self._answer(call, value))
        self._check()

    def _check(self) -> None:
        asked = [call for call in self.driver.calls.values() if api_of(call.request) in COORDINATED]
        assert len(asked) <= 1, "one request to the coordinator at a time"
        node: Any = self.driver.node
        transaction = node.sender.transactions.transaction
        assert transaction.state in SOURCES
        for call in asked:
            if api_of(call.request) == Api.EndTxn:
                assert not node.sender.accumulator.has_open(), "the end waits for every batch"
        for call in self.driver.open(Api.Produce):
            assert isinstance(call.request, ProduceRequest)
            assert call.request.transactional_id == "producer-1"
            for data in call.request.topic_data[0].partition_data:
                assert data.records is not None and data.records.is_transactional
                assert self.v2 or data.index in self.added, "only what was added is sent to"

    def _answer(self, call: Call, error: int) -> Any:
        request: Any = call.request
        match api_of(call.request):
            case Api.FindCoordinator:
                found = FindCoordinatorResponse.Coordinator(key="producer-1", node_id=1, error_code=error)
                return FindCoordinatorResponse(coordinators=[found])
            case Api.InitProducerId:
                self.epoch += not error
                given_id = (-1, -1) if error else (7, self.epoch)
                if not error:
                    self.added.clear()
                return InitProducerIdResponse(error_code=error, producer_id=given_id[0], producer_epoch=given_id[1])
            case Api.AddPartitionsToTxn:
                return self._added(request, error)
            case Api.EndTxn:
                if not error:
                    self.ended.append(request.committed)
                    self.added.clear()
                response = EndTxnResponse(error_code=error)
                if self.v2 and not error:
                    self.epoch += 1
                    response.producer_id, response.producer_epoch = 7, self.epoch
                return response
        assert api_of(call.request) == Api.Produce
        topic = ProduceResponse.TopicProduceResponse(topic_id=request.topic_data[0].topic_id)
        topic.name = request.topic_data[0].name
        for data in request.topic_data[0].partition_data:
            part = ProduceResponse.PartitionProduceResponse(index=data.index, error_code=error)
            part.base_offset = -1 if error else 5
            topic.partition_responses.append(part)
        return ProduceResponse(responses=[topic])

    def _added(self, request: Any, error: int) -> AddPartitionsToTxnResponse:
        response = AddPartitionsToTxnResponse()
        topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(name="orders")
        response.results_by_topic_v3_and_below.append(topic)
        for index in request.v3_and_below_topics[0].partitions:
            self.added |= set() if error else {index}
            result = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(partition_index=index)
            result.partition_error_code = error
            topic.results_by_partition.append(result)
        return response


@settings(max_examples=25, deadline=None)
@given(v2=st.booleans(), acts=st.lists(_ACTS, min_size=20, max_size=120))
def test_a_transactional_producer_keeps_its_rules(v2: bool, acts: list[tuple[str, int]]) -> None:
    """Shows it for answers in any order, and that once nothing fails any more it works on."""
    stage = Coordinator(v2)
    for act in acts:
        stage.act(*act)
    committed = len(stage.ended)
    for _ in range(_UNTIL_IT_GOES_ON):
        stage.act("answer", 0)
        stage.act("advance", 20)
    assert len(stage.ended) > committed, "it goes on"
    _check_operations(stage)


def _check_operations(stage: Coordinator) -> None:
    trace = stage.driver.trace
    open_operations: list[str] = []
    transaction = 0
    for event in trace:
        if isinstance(event, SendInvoke):
            assert event.transaction == transaction, "a send is in the transaction that is open"
        elif isinstance(event, OpInvoke):
            assert not open_operations, "an application waits for what it has asked for"
            open_operations.append(event.op)
            if isinstance(event, BeginInvoke):
                assert event.transaction == transaction + 1
                transaction = event.transaction
            if isinstance(event, EndInvoke):
                assert event.transaction == transaction
        elif isinstance(event, OpReturn) and not isinstance(event, SendReturn):
            assert open_operations.pop() == event.op
            assert isinstance(event, EndReturn | InitReturn) or event.outcome == "ok"
    told = [event.commit for event in trace if isinstance(event, EndReturn) and event.outcome == "ok" and event.asked]
    assert len(told) <= len(stage.ended), "nobody is told of an end that there was not"
    sent = [event.op for event in trace if isinstance(event, SendInvoke)]
    returned = [event.op for event in trace if isinstance(event, SendReturn)]
    assert len(returned) == len(set(returned)) and set(returned) <= set(sent), "each send returns at most once"


def test_the_table_of_states_is_that_of_kafka() -> None:
    """Shows the states from which there is no way back, and that every state is reached."""
    reached = {"UNINITIALIZED"}
    for _ in ANY:
        reached |= {target for target in SOURCES if reached & set(SOURCES[target])}
    assert reached == set(ANY)
    assert all("FATAL_ERROR" not in SOURCES[target] for target in ANY if target != "FATAL_ERROR")


def test_every_error_has_a_reaction() -> None:
    """Shows that a retriable error is never fatal, and that nobody aborts for one that fences it."""
    for kind in APIS:
        for error in KafkaError:
            if not error:
                continue
            reaction = reaction_to(kind, error)
            if error == KafkaError.PRODUCER_FENCED and kind != "find-coordinator":
                assert reaction == "fenced"
            if error == KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                assert reaction == "retry"
