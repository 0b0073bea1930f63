"""Answers to requests that wait for the transaction log."""

from __future__ import annotations

from actors.broker.coordinator_common.refusals import record_refusal_of_producer
from actors.broker.coordinator_common.writes import answer, answer_error
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, api_of
from krift.v1.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from krift.v1.transactions import AddOffsetsToTxnRequest, EndTxnRequest, EndTxnResponse

TransactionRequest = InitProducerIdRequest | EndTxnRequest | AddOffsetsToTxnRequest
FENCED_SINCE: dict[type[AnyRequest], int] = {InitProducerIdRequest: 4}
"""First version that knows PRODUCER_FENCED; of all others 2."""
END_TXN_WITH_ID = 5


def told_as(request: AnyRequest, error: KafkaError) -> KafkaError:
    """An error as a client of the request's version knows it: a fenced producer was told INVALID_PRODUCER_EPOCH."""
    old = request.header.api_version < FENCED_SINCE.get(type(request), 2)
    return KafkaError.INVALID_PRODUCER_EPOCH if old and error == KafkaError.PRODUCER_FENCED else error


def refuse(turn: Turn, connection: str, request: TransactionRequest, error: KafkaError) -> None:
    """Answer with an error that was found when the request came."""
    if request.transactional_id:
        producer = (request.producer_id, request.producer_epoch)
        record_refusal_of_producer(turn, api_of(request), request.transactional_id, producer, error)
    fail(turn, connection, request, error)


def fail(turn: Turn, connection: str, request: TransactionRequest, error: KafkaError) -> None:
    """Answer with an error that came of the request."""
    answer_error(turn, connection, request, told_as(request, error))


def initialized(turn: Turn, connection: str, request: InitProducerIdRequest, producer_id: int, epoch: int) -> None:
    """Answer an InitProducerId."""
    answer(turn, connection, request, InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))


def ended(turn: Turn, connection: str, request: EndTxnRequest, producer_id: int, epoch: int) -> None:
    """Answer an EndTxn; from version 5 on with what the producer goes on with."""
    response = EndTxnResponse()
    if request.header.api_version >= END_TXN_WITH_ID:
        response.producer_id, response.producer_epoch = producer_id, epoch
    answer(turn, connection, request, response)
