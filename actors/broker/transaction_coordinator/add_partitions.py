"""Serving AddPartitionsToTxn and AddOffsetsToTxn (``TransactionCoordinator``: handleAddPartitionsToTransaction,
handleVerifyPartitionsInTransaction; ``KafkaApis``)."""

from __future__ import annotations

import msgspec

from actors.broker.coordinator_common.partitions import GROUP_METADATA_TOPIC, partition_for
from actors.broker.coordinator_common.refusals import record_refusal_of_producer
from actors.broker.coordinator_common.writes import answer
from actors.broker.transaction_coordinator import replies
from actors.broker.transaction_coordinator.shard import TransactionShard
from actors.broker.transaction_coordinator.transaction_log import partitions_of
from actors.broker.transaction_coordinator.transaction_metadata import TransactionMetadata
from actors.broker.transaction_coordinator.transaction_state import AT_REST, ONGOING, PREPARED
from actors.broker.transaction_coordinator.transitions import DelayedTransition, Producer, write, written
from actors.broker.turn import Turn
from actors.log.producer_state import TransactionVersion
from actors.node.errors import KafkaError
from actors.node.messages import Api
from actors.node.spec import split_topic_partition
from actors.trace.events import TxnAdded
from krift.v1.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)

BATCHED = 4
"""First version in which brokers ask, for several transactions at once."""
WITH_EPOCH_BUMP = 5
"""First version of ``transaction.version`` 2."""

Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Errors = dict[str, KafkaError]
"""Topic partition -> how it went."""


class PendingAdd(msgspec.Struct):
    """An AddPartitionsToTxn that is being served. ``waiting``: how many of its transactions are not decided;
    ``errors``: transactional id -> of each of its partitions."""

    connection: str
    request: AddPartitionsToTxnRequest
    waiting: int
    errors: dict[str, Errors] = {}


class DelayedAdd(DelayedTransition):
    """Partitions that are in a transaction once that is committed. ``adding``: for which request."""

    adding: str

    def finish(self, context: Turn, error: KafkaError) -> None:
        """One transaction of the request is decided, unless that was said before."""
        pending = context.transactions.adding.get(self.adding)
        if pending is None:
            return
        asked = next(each for each in _asked(pending.request) if each.transactional_id == self.transactional_id)
        _decided(context, self.adding, asked, dict.fromkeys(partitions_of(asked.topics), error))


class DelayedAddOffsets(DelayedTransition):
    """The same for the offsets of a group."""

    reply_to: str
    request: AddOffsetsToTxnRequest

    def finish(self, context: Turn, error: KafkaError) -> None:
        """Answer, unless that was done before."""
        if not self.reply_to:
            return
        if error:
            replies.fail(context, self.reply_to, self.request, error)
        else:
            _offsets_added(context, self.reply_to, self.request, error)


# ---- AddPartitionsToTxn ------------------------------------------------------------------------------------


def _asked(request: AddPartitionsToTxnRequest) -> list[Transaction]:
    """The transactions, in the form of version 4; before that there is one, of a client."""
    if request.header.api_version >= BATCHED:
        return request.transactions
    return [
        Transaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def add_partitions_to_txn(turn: Turn, connection: str, request: AddPartitionsToTxnRequest) -> None:
    """Add partitions to transactions, or look whether they are in them; answered when all is committed."""
    asked = _asked(request)
    if not asked:
        answer(turn, connection, request, AddPartitionsToTxnResponse())
        return
    adding = turn.transactions.next_uid()
    turn.transactions.adding[adding] = PendingAdd(connection, request, len(asked))
    for transaction in asked:
        _add(turn, adding, request.header.api_version, transaction)


def _add(turn: Turn, adding: str, api_version: int, asked: Transaction) -> None:
    partitions = partitions_of(asked.topics)
    unknown = [tp for tp in partitions if tp not in turn.image.partitions]
    if unknown:
        errors = dict.fromkeys(partitions, KafkaError.OPERATION_NOT_ATTEMPTED)
        _decided(turn, adding, asked, errors | dict.fromkeys(unknown, KafkaError.UNKNOWN_TOPIC_OR_PARTITION))
        return
    shard, metadata, error = find_transaction(turn, asked.transactional_id)
    if shard is None or metadata is None:
        _refuse(turn, adding, asked, error)
    elif asked.verify_only:
        _decided(turn, adding, asked, _verify(turn, metadata, asked, partitions))
    else:
        epoch = asked.producer_epoch
        if metadata.state == ONGOING and "older-add-taken" in turn.step.defects:
            epoch = max(epoch, metadata.producer_epoch)
        refusal = _refusal(metadata, asked.producer_id, epoch, partitions)
        if refusal is not None:
            _refuse(turn, adding, asked, refusal)
            return
        version: TransactionVersion = 2 if api_version >= WITH_EPOCH_BUMP else 0
        transit = metadata.prepare_add_partitions(partitions, turn.step.wall_ms, version)
        if "timeout-from-last-partition" in turn.step.defects:
            transit = msgspec.structs.replace(transit, start_ms=turn.step.wall_ms)
        if metadata.state in AT_REST and metadata.start_ms >= 0 and "beginning-of-former" in turn.step.defects:
            transit = msgspec.structs.replace(transit, start_ms=metadata.start_ms)
        by = (asked.producer_id, asked.producer_epoch)
        written(turn, DelayedAdd(*write(turn, shard, asked.transactional_id, transit, by), adding))
        if adding in turn.transactions.adding and "partitions-added-before-commit" in turn.step.defects:
            _decided(turn, adding, asked, dict.fromkeys(partitions, KafkaError.NONE))


def _refuse(turn: Turn, adding: str, asked: Transaction, error: KafkaError) -> None:
    """One transaction gets no partition, or has them already (NONE)."""
    if error and asked.transactional_id and not asked.verify_only:
        producer = (asked.producer_id, asked.producer_epoch)
        record_refusal_of_producer(turn, Api.AddPartitionsToTxn, asked.transactional_id, producer, error)
    _decided(turn, adding, asked, dict.fromkeys(partitions_of(asked.topics), error))


def find_transaction(
    turn: Turn, transactional_id: str
) -> tuple[TransactionShard | None, TransactionMetadata | None, KafkaError]:
    """A transactional id that a producer was initialized with; else INVALID_PRODUCER_ID_MAPPING, INVALID_REQUEST for
    one that is empty, or why this broker does not know."""
    if not transactional_id:
        return None, None, KafkaError.INVALID_REQUEST
    shard, error = turn.transactions.find(turn, transactional_id)
    metadata = None if shard is None else shard.transactions.get(transactional_id)
    return shard, metadata, error if shard is None else KafkaError.INVALID_PRODUCER_ID_MAPPING


def _refusal(
    metadata: TransactionMetadata, producer_id: int, producer_epoch: int, partitions: list[str]
) -> KafkaError | None:
    """Why partitions are not added; NONE if they are there already, None if they are to be."""
    if metadata.pending is not None:
        return KafkaError.CONCURRENT_TRANSACTIONS
    if metadata.producer_id != producer_id:
        return KafkaError.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch != producer_epoch:
        return KafkaError.PRODUCER_FENCED
    if metadata.state in PREPARED:
        return KafkaError.CONCURRENT_TRANSACTIONS
    there = metadata.state == ONGOING and set(partitions) <= set(metadata.partitions)
    return KafkaError.NONE if there else None


def _verify(turn: Turn, metadata: TransactionMetadata, asked: Transaction, partitions: list[str]) -> Errors:
    """Whether the partitions are in the transaction. What is pending does not matter: who asks looks again when it
    appends."""
    if metadata.producer_id != asked.producer_id:
        return dict.fromkeys(partitions, KafkaError.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != asked.producer_epoch:
        return dict.fromkeys(partitions, KafkaError.PRODUCER_FENCED)
    if metadata.state in PREPARED:
        return dict.fromkeys(partitions, KafkaError.CONCURRENT_TRANSACTIONS)
    missing, there = KafkaError.TRANSACTION_ABORTABLE, metadata.partitions
    if "first-partition-verified-alone" in turn.step.defects:
        there = there[:1]
    return {tp: KafkaError.NONE if tp in there else missing for tp in partitions}


def _decided(turn: Turn, adding: str, asked: Transaction, errors: Errors) -> None:
    """One transaction is; answer with the last one."""
    if errors and not asked.verify_only and not any(errors.values()):
        _record_added(turn, asked.transactional_id, (asked.producer_id, asked.producer_epoch), list(errors))
    pending = turn.transactions.adding[adding]
    pending.errors[asked.transactional_id] = {tp: replies.told_as(pending.request, e) for tp, e in errors.items()}
    pending.waiting -= 1
    if pending.waiting:
        return
    del turn.transactions.adding[adding]
    response = AddPartitionsToTxnResponse()
    for transaction in _asked(pending.request):
        results = _results(pending.errors[transaction.transactional_id])
        if pending.request.header.api_version >= BATCHED:
            response.results_by_transaction.append(
                AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id, topic_results=results
                )
            )
        else:
            response.results_by_topic_v3_and_below = results
    answer(turn, pending.connection, pending.request, response)


def _record_added(turn: Turn, transactional_id: str, producer: Producer, partitions: list[str]) -> None:
    shard, _ = turn.transactions.find(turn, transactional_id)
    assert shard is not None, "who has added partitions coordinates"
    turn.step.record(TxnAdded(shard.tp, transactional_id, *producer, partitions, shard.epoch))


def _results(errors: Errors) -> list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = {}
    for tp, error in errors.items():
        name, index = split_topic_partition(tp)
        if name not in topics:
            topics[name] = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(name=name)
        result = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
            partition_index=index, partition_error_code=error
        )
        topics[name].results_by_partition.append(result)
    return list(topics.values())


# ---- AddOffsetsToTxn ---------------------------------------------------------------------------------------


def add_offsets_to_txn(turn: Turn, connection: str, request: AddOffsetsToTxnRequest) -> None:
    """Add the partition of ``__consumer_offsets`` that holds a group to a transaction; answered when committed."""
    tp = partition_for(turn, GROUP_METADATA_TOPIC, request.group_id)
    shard, metadata, error = find_transaction(turn, request.transactional_id)
    if shard is None or metadata is None:
        _offsets_added(turn, connection, request, error)
        return
    refusal = _refusal(metadata, request.producer_id, request.producer_epoch, [tp])
    if refusal is not None:
        _offsets_added(turn, connection, request, refusal)
        return
    transit = metadata.prepare_add_partitions([tp], turn.step.wall_ms, 0)
    by = (request.producer_id, request.producer_epoch)
    hasty = "offsets-added-before-commit" in turn.step.defects
    reply_to = "" if hasty else connection
    written(turn, DelayedAddOffsets(*write(turn, shard, request.transactional_id, transit, by), reply_to, request))
    if hasty:
        _offsets_added(turn, connection, request, KafkaError.NONE)


def _offsets_added(turn: Turn, connection: str, request: AddOffsetsToTxnRequest, error: KafkaError) -> None:
    if error:
        replies.refuse(turn, connection, request, error)
    else:
        producer = (request.producer_id, request.producer_epoch)
        tp = partition_for(turn, GROUP_METADATA_TOPIC, request.group_id)
        _record_added(turn, request.transactional_id, producer, [tp])
        answer(turn, connection, request, AddOffsetsToTxnResponse())
