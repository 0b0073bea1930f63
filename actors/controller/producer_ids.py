"""Blocks of producer ids that the controller hands to brokers (``ProducerIdControlManager.java``)."""

from __future__ import annotations

from actors.controller.changes import Change
from krift.v1.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from krift.v1.records import MetadataRecord, ProducerIdsRecord

PRODUCER_ID_BLOCK_SIZE = 1000


def allocate_producer_ids(
    next_producer_id: int, request: AllocateProducerIdsRequest
) -> tuple[list[Change], AllocateProducerIdsResponse]:
    """The next block for a broker, and the record that nobody gets it again."""
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=next_producer_id + PRODUCER_ID_BLOCK_SIZE,
    )
    response = AllocateProducerIdsResponse(producer_id_start=next_producer_id, producer_id_len=PRODUCER_ID_BLOCK_SIZE)
    return [Change(MetadataRecord(producer_ids=record))], response
