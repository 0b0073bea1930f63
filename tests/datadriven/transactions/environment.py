"""Verbs of the transcripts of transactions: the broker of ``tests/datadriven/groups``, which may coordinate, lead
partitions with transactions, or both. What it asks of itself it is asked, unless the script says ``alone``: then that
waits for an answer of the script's, as what it asks of others.

Producers go by their transactional ids; the script knows the id and the epoch that each was told last.
"""

from __future__ import annotations

from typing import Any

from actors.node.effects import Call
from actors.node.errors import KafkaError
from actors.node.events import Answered, Received
from actors.node.messages import AnyResponse, Api, check_fields
from actors.node.spec import split_topic_partition, topic_partition
from actors.trace.events import TraceEvent
from krift.v1.produce import ProduceRequest
from krift.v1.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from krift.v1.records import FeatureLevelRecord, MetadataRecord, Record, RecordBatch
from krift.v1.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    EndTxnResponse,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    TxnTopicPartitions,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.datadriven.groups import environment
from tests.datadriven.runner import Command
from tests.datadriven.transactions.rendering import describe_event, describe_reply, describe_request

OWN = "own/"


class TransactionScene(environment.GroupScene):
    """The stage. ``producers``: transactional id -> producer id and epoch, as last told; ``asked``: connection -> the
    transactional id that asks on it; ``alone``: what the broker asks of itself is held, too."""

    def __init__(self) -> None:
        super().__init__()
        self.producers: dict[str, tuple[int, int]] = {}
        self.asked: dict[str, str] = {}
        self.alone = False
        self.own: dict[str, Call] = {}

    def recorded(self, event: TraceEvent) -> None:
        text = describe_event(event)
        if text is not None:
            self.lines.append(text)

    def replied(self, connection: str, response: AnyResponse | None) -> None:
        if connection in self.own:
            call = self.own.pop(connection)
            assert response is not None
            self.give(Answered(call.call, response))
            return
        self.responses[connection] = response
        goes_on = isinstance(response, InitProducerIdResponse | EndTxnResponse) and not response.error_code
        if goes_on and response.producer_id >= 0:  # type: ignore[union-attr]
            self.producers[self.asked[connection]] = (response.producer_id, response.producer_epoch)  # type: ignore[union-attr]
        self.lines.append(describe_reply(connection, response))

    def called(self, call: Call) -> None:
        request: Any = call.request
        if call.peer == f"broker-{self.node_id}" and not self.alone and request.header.api_key != Api.ApiVersions:
            check_fields(request, request.header.api_version)
            connection = f"{OWN}{call.call}"
            self.own[connection] = call
            self.give(Received(connection, request))
            return
        held = len(self.held)
        super().called(call)
        if len(self.held) > held:
            self.lines[-1] = describe_request(call.peer, call.request)


class Environment(environment.Environment):
    """One transcript's broker, and what its producers know."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions = self.group_scene = self.scene = TransactionScene()

    def verb_feature(self, command: Command) -> str:
        """feature transaction.version=2: a feature's level, from now on."""
        records = [
            MetadataRecord(feature_level=FeatureLevelRecord(name=name, feature_level=command.number(name)))
            for name in command.arguments
        ]
        self.scene.commit(records)
        return self.scene.told()

    def verb_epoch(self, command: Command) -> str:
        """epoch t 32766: as if the producer of a transactional id had begun so often already; it knows of that."""
        transactional_id, epoch = command.words[0], int(command.words[1])
        [metadata] = [
            shard.transactions[transactional_id]
            for shard in self.scene.node.transactions.shards.values()
            if transactional_id in shard.transactions
        ]
        metadata.producer_epoch = epoch
        self.transactions.producers[transactional_id] = (metadata.producer_id, epoch)
        return ""

    def verb_alone(self, command: Command) -> str:
        """alone [off]: what the broker asks of itself is held from now on."""
        self.transactions.alone = not command.has("off")
        return ""

    def _producer(self, command: Command) -> tuple[int, int]:
        """Producer id and epoch: as last told, or as the script says."""
        producer_id, epoch = self.transactions.producers.get(command.words[0], (-1, -1))
        return command.number("pid", producer_id), command.number("pepoch", epoch)

    def _ask(self, command: Command, request: Any, version: int) -> str:
        connection = command.text("on", f"p-{command.words[0]}")
        self.transactions.asked[connection] = command.words[0]
        return self.scene.receive(connection, request, version)

    def _topics(self, partitions: list[str]) -> list[TxnTopicPartitions]:
        topics: dict[str, TxnTopicPartitions] = {}
        for tp in partitions:
            name, index = split_topic_partition(tp)
            topics.setdefault(name, TxnTopicPartitions(name=name)).partitions.append(index)
        return list(topics.values())

    # ---- what producers ask ------------------------------------------------------------------------------

    def verb_init_producer_id(self, command: Command) -> str:
        """init-producer-id t [timeout=60000] [pid= pepoch=] [v=5] [on=p-t]: a producer begins; with pid and pepoch it
        says who it is. ``empty`` is the empty id, ``none`` none."""
        name = {"empty": "", "none": None}.get(command.words[0], command.words[0])
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=command.number("timeout", 60000))
        if "pid" in command.arguments:
            request.producer_id = command.number("pid")
        if "pepoch" in command.arguments:
            request.producer_epoch = command.number("pepoch")
        return self._ask(command, request, command.number("v", 5))

    def verb_add_partitions_to_txn(self, command: Command) -> str:
        """add-partitions-to-txn t orders-0 ... [v=3] [pid= pepoch=] [verify] [on=p-t]: from version 4 on as brokers
        ask."""
        version = command.number("v", 3)
        producer_id, epoch = self._producer(command)
        topics = self._topics([word for word in command.words[1:] if word != "verify"])
        request = AddPartitionsToTxnRequest()
        if version >= 4:
            request.transactions.append(
                AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=command.words[0],
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    verify_only=command.has("verify"),
                    topics=topics,
                )
            )
        else:
            request.v3_and_below_transactional_id = command.words[0].replace("empty", "")
            request.v3_and_below_producer_id, request.v3_and_below_producer_epoch = producer_id, epoch
            request.v3_and_below_topics = topics
        return self._ask(command, request, version)

    def verb_add_offsets_to_txn(self, command: Command) -> str:
        """add-offsets-to-txn t [group=g] [v=4] [pid= pepoch=] [on=p-t]: a group's offsets are in the transaction."""
        producer_id, epoch = self._producer(command)
        request = AddOffsetsToTxnRequest(
            transactional_id=command.words[0],
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=command.text("group", "g"),
        )
        return self._ask(command, request, command.number("v", 4))

    def verb_end_txn(self, command: Command) -> str:
        """end-txn t commit|abort [v=4] [pid= pepoch=] [on=p-t]: from version 5 on under transaction.version 2."""
        producer_id, epoch = self._producer(command)
        request = EndTxnRequest(
            transactional_id=command.words[0],
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=command.has("commit"),
        )
        return self._ask(command, request, command.number("v", 4))

    def verb_txn_offset_commit(self, command: Command) -> str:
        """txn-offset-commit t orders-0@5[:LEADER-EPOCH] ... [group=g] [v=4] [generation=-1] [member=] [pid= pepoch=]
        [on=p-t]: offsets that are committed with the transaction."""
        version = command.number("v", 4)
        producer_id, epoch = self._producer(command)
        request = TxnOffsetCommitRequest(
            transactional_id=command.words[0],
            group_id=command.text("group", "g"),
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        if version >= 3:
            request.generation_id = command.number("generation", -1)
            request.member_id = command.text("member", "")
        for word in command.words[1:]:
            tp, _, entry = word.partition("@")
            name, index = split_topic_partition(tp)
            numbers = [int(each) for each in entry.split(":")]
            data = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=numbers[0], committed_metadata=command.text("text", "")
            )
            if len(numbers) > 1:
                data.committed_leader_epoch = numbers[1]
            request.topics.append(TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=[data]))
        return self._ask(command, request, version)

    def verb_send(self, command: Command) -> str:
        """send t orders-0 ... seq=0 [n=1] [acks=-1] [v=11] [pid= pepoch=] [timeout=30000] [plain] [on=p-t]: a Produce
        with a batch of the transaction for each partition; ``plain``: without a transaction."""
        version = command.number("v", 11)
        producer_id, epoch = self._producer(command)
        plain = command.has("plain")
        request = ProduceRequest(acks=command.number("acks", -1), timeout_ms=command.number("timeout", 30000))
        if not plain:
            request.transactional_id = command.text("id", command.words[0])
        sequence, count = command.number("seq"), command.number("n", 1)
        for tp in [word for word in command.words[1:] if word != "plain"]:
            name, index = split_topic_partition(tp)
            batch = RecordBatch(
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=not plain,
                records=[Record(timestamp_ms=0, uid=f"{tp}:{sequence + n}", value=b"v") for n in range(count)],
            )
            data = ProduceRequest.PartitionProduceData(index=index, records=batch)
            topic = ProduceRequest.TopicProduceData(partition_data=[data])
            if version >= 13:
                topic.topic_id = self.topic_id(name)
            else:
                topic.name = name
            request.topic_data.append(topic)
        return self._ask(command, request, version)

    # ---- what others ask, and answer ---------------------------------------------------------------------

    def verb_write_txn_markers(self, command: Command) -> str:
        """write-txn-markers t commit|abort orders-0 ... [cepoch=0] [tv=0] [v=2] [pid= pepoch=] [on=k1]: a coordinator
        tells how a transaction ended."""
        version = command.number("v", 2)
        producer_id, epoch = self._producer(command)
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=command.has("commit"),
            topics=self._topics(command.words[2:]),
            coordinator_epoch=command.number("cepoch", 0),
        )
        if version >= 2:
            marker.transaction_version = command.number("tv", 0)
        request = WriteTxnMarkersRequest(markers=[marker])
        return self.scene.receive(command.text("on", "k1"), request, version)

    def verb_marked(self, command: Command) -> str:
        """marked [orders-0=NOT_LEADER_OR_FOLLOWER ...] [old]: a leader answers the broker's newest WriteTxnMarkers, or
        its oldest; NONE for what is not named."""
        call = self._held(Api.WriteTxnMarkers, command)
        request: Any = call.request
        response = WriteTxnMarkersResponse()
        for marker in request.markers:
            result = WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=marker.producer_id)
            response.markers.append(result)
            for each in marker.topics:
                topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=each.name)
                result.topics.append(topic)
                for index in each.partitions:
                    error = KafkaError[command.text(topic_partition(each.name, index), "NONE")]
                    told = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=error
                    )
                    topic.partitions.append(told)
        self.scene.answer(call, response)
        return self.scene.told()

    def verb_verified(self, command: Command) -> str:
        """verified [error=NAME] [top=NAME] [old]: a coordinator answers the broker's newest AddPartitionsToTxn."""
        call = self._held(Api.AddPartitionsToTxn, command)
        request: Any = call.request
        error = KafkaError[command.text("error", "NONE")]
        response = AddPartitionsToTxnResponse(error_code=KafkaError[command.text("top", "NONE")])
        for asked in request.transactions if not response.error_code else []:
            result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult(transactional_id=asked.transactional_id)
            response.results_by_transaction.append(result)
            for each in asked.topics:
                partitions = [
                    AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=error
                    )
                    for index in each.partitions
                ]
                topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
                    name=each.name, results_by_partition=partitions
                )
                result.topic_results.append(topic)
        self.scene.answer(call, response)
        return self.scene.told()

    def verb_read(self, command: Command) -> str:
        """read orders-0 at=0 [on=c1]: a Fetch of a consumer that reads committed; the last stable offset, and whose
        records it is to leave out."""
        log = self.scene.node.replicas.partitions[command.words[0]].log
        stable = log.last_stable_offset
        aborted = log.aborted.collect(command.number("at", 0), stable)
        told = [f"{txn.producer_id} {txn.first_offset}-{txn.last_offset}@{txn.last_stable_offset}" for txn in aborted]
        undecided = log.producers.first_undecided_offset
        return f"stable {stable} high watermark {log.high_watermark} undecided {undecided} aborted {told}"

    # ---- looking -----------------------------------------------------------------------------------------

    def verb_describe_transactions(self, command: Command) -> str:
        """describe-transactions t ... [on=a1]: an operator looks at transactional ids."""
        names = [word.replace("empty", "") for word in command.words]
        request = DescribeTransactionsRequest(transactional_ids=names)
        return self.scene.receive(command.text("on", "a1"), request, 0)

    def verb_list_transactions(self, command: Command) -> str:
        """list-transactions [states=(Ongoing)] [pids=(1)] [longer=-1] [v=1] [on=a1]: an operator looks at all."""
        version = command.number("v", 1)
        request = ListTransactionsRequest(
            state_filters=command.many("states", "()"), producer_id_filters=command.numbers("pids", "()")
        )
        if version >= 1:
            request.duration_filter = command.number("longer", -1)
        return self.scene.receive(command.text("on", "a1"), request, version)

    def verb_describe_producers(self, command: Command) -> str:
        """describe-producers orders-0 ... [on=a1]: an operator looks at the producers of partitions."""
        request = DescribeProducersRequest()
        for tp in command.words:
            name, index = split_topic_partition(tp)
            request.topics.append(DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[index]))
        return self.scene.receive(command.text("on", "a1"), request, 0)
