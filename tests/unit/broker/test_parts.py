"""Small parts of the broker: handler slots, deadlines, checkpoints, boundaries, version negotiation, clean shutdown."""

from __future__ import annotations

from actors.broker.broker_node import BrokerNode
from actors.broker.checkpoints import parse_checkpoint, render_checkpoint
from actors.broker.request_channel import RequestChannel
from actors.broker.turn import Turn
from actors.log.batch import LogRecord
from actors.log.replica_log import ReplicaLog
from actors.node.effects import Close, Record
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.files import Files
from actors.node.messages import REQUESTS, AnyRequest, response_errors
from actors.node.step import Step
from actors.trace.events import RequestHandled
from krift.v1.admin import ElectLeadersRequest, IncrementalAlterConfigsRequest
from krift.v1.api_versions import ApiVersionsRequest
from krift.v1.delete_records import DeleteRecordsRequest
from krift.v1.groups import DescribeGroupsRequest, OffsetCommitRequest, OffsetFetchRequest
from krift.v1.list_offsets import ListOffsetsRequest
from krift.v1.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from krift.v1.produce import ProduceRequest
from krift.v1.quorum import VoteRequest
from krift.v1.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from krift.v1.transactions import (
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    TxnOffsetCommitRequest,
    TxnTopicPartitions,
    WriteTxnMarkersRequest,
)


def test_services_shorter_than_a_millisecond_add_up() -> None:
    """Shows that one handler with a service time of 300 us finishes ten requests after 3 ms, not after 10."""
    channel = RequestChannel(slots=1, service_us=300)
    for number in range(10):
        assert not channel.offer(Step(0), str(number), ApiVersionsRequest())
    done = {now_ms: [each.connection for each in channel.on_timer(Step(now_ms))] for now_ms in (1, 2, 3)}
    assert done == {1: ["0", "1", "2"], 2: ["3", "4", "5"], 3: ["6", "7", "8", "9"]}


def test_without_service_time_requests_are_handled_at_once() -> None:
    """Shows that the default model of a handler takes no time and keeps no queue."""
    channel = RequestChannel()
    assert channel.offer(Step(0), "c", ApiVersionsRequest())
    assert (channel.busy, channel.queue) == ([], [])


def _handled(step: Step) -> list[tuple[str, int, int, str, int]]:
    """(connection, ms in the queue, ms with a handler, path, untold) of what the trace is told."""
    events = [each.event for each in step.effects if isinstance(each, Record)]
    found = [event for event in events if isinstance(event, RequestHandled)]
    return [(each.connection, each.queue_ms, each.handler_ms, each.path, each.untold) for each in found]


def test_a_request_that_holds_its_handler_keeps_others_waiting() -> None:
    """Shows that with one handler the next request waits until the first one lets it go, and that both are told."""
    channel = RequestChannel(slots=1, timed=True)
    first = channel.offer(Step(5), "a", ApiVersionsRequest())
    assert first is not None
    channel.hold(first)
    assert channel.offer(Step(20), "b", ApiVersionsRequest()) is None
    assert channel.take_queued(Step(30)) is None
    step = Step(47)
    channel.release(step, "a")
    second = channel.take_queued(step)
    assert second is not None
    channel.tell(step, second, "at-once")
    assert _handled(step) == [("a", 0, 42, "held", 0), ("b", 27, 0, "at-once", 0)]


def test_a_handler_that_is_let_go_serves_the_queue_for_the_time_of_service() -> None:
    """Shows that a queued request begins its service when a held handler is released, and not before."""
    channel = RequestChannel(slots=2, service_us=3000, timed=True)
    assert channel.offer(Step(0), "a", ApiVersionsRequest()) is None
    (first,) = channel.on_timer(Step(3))
    channel.hold(first)
    for name in ("b", "c"):
        assert channel.offer(Step(4), name, ApiVersionsRequest()) is None
    assert [each.connection for each in channel.busy] == ["b"]
    step = Step(5)
    channel.release(step, "a")
    assert [(each.connection, each.done_us) for each in channel.busy] == [("b", 7000), ("c", 8000)]
    done = channel.on_timer(Step(8))
    step = Step(8)
    for each in done:
        channel.tell(step, each, "at-once")
    assert _handled(step) == [("b", 0, 4, "at-once", 0), ("c", 1, 3, "at-once", 0)]


def test_requests_that_never_waited_are_counted() -> None:
    """Shows that the trace has the number of requests that were handled as they arrived, with the next one it tells."""
    channel, step = RequestChannel(slots=1, timed=True), Step(1)
    for name in ("a", "b", "c"):
        taken = channel.offer(step, name, ApiVersionsRequest())
        assert taken is not None
        channel.tell(step, taken, "parked" if name == "c" else "at-once")
    assert _handled(step) == [("c", 0, 0, "parked", 2)]


def test_without_remote_storage_nothing_is_told_of_handlers() -> None:
    """Shows that a broker without remote storage keeps the times of its handlers to itself."""
    channel = RequestChannel(slots=1)
    first = channel.offer(Step(5), "a", ApiVersionsRequest())
    assert first is not None
    channel.hold(first)
    step = Step(9)
    channel.release(step, "a")
    assert step.effects == []


def test_checkpoint_file() -> None:
    """Shows Kafka's text form of high watermark checkpoints, topics with dashes included."""
    offsets = {"a-b-0": 5, "orders-12": 0}
    content = render_checkpoint(offsets)
    assert content == b"0\n2\na-b 0 5\norders 12 0\n"
    assert (parse_checkpoint(content), parse_checkpoint(b"")) == (offsets, {})


def test_high_watermarks_lie_on_batch_boundaries() -> None:
    """Shows that an offset inside a batch counts as the boundary below it, and one beyond the log as its end."""
    log, step, files = ReplicaLog("t-0"), Step(0), Files()
    for count in (3, 2):
        log.append_records(step, files, [LogRecord(0) for _ in range(count)], 0)
    assert [log.boundary_at_or_below(offset) for offset in (0, 2, 3, 4, 5, 9)] == [0, 0, 3, 3, 5, 5]


def test_a_broker_closes_the_connection_of_an_api_that_it_does_not_serve() -> None:
    """Shows that a Vote which reaches a broker ends its connection, as Kafka's listener has it."""
    node, step = BrokerNode(), Step(0)
    node._handle(Turn(step, node), "c", VoteRequest())
    assert step.effects == [Close("c")]


def _of_transactions() -> list[AnyRequest]:
    topics = [TxnTopicPartitions(name="t", partitions=[0])]
    marker = WriteTxnMarkersRequest.WritableTxnMarker(topics=topics)
    offset = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0)
    committed = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="t", partitions=[offset])
    described = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
    return [
        AddPartitionsToTxnRequest(v3_and_below_topics=topics),
        WriteTxnMarkersRequest(markers=[marker]),
        TxnOffsetCommitRequest(topics=[committed]),
        DescribeProducersRequest(topics=[described]),
        DescribeTransactionsRequest(transactional_ids=["t"]),
    ]


def test_an_unsupported_version_is_refused_wherever_an_error_fits() -> None:
    """Shows that every API of a broker and of a controller has an answer to a version that nobody speaks."""
    produce = ProduceRequest()
    data = ProduceRequest.PartitionProduceData(index=0)
    produce.topic_data.append(ProduceRequest.TopicProduceData(name="t", partition_data=[data]))
    listed = ListOffsetsRequest()
    looked_up = ListOffsetsRequest.ListOffsetsPartition(partition_index=0)
    listed.topics.append(ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[looked_up]))
    deletion = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0)
    deleted = DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[deletion])
    ends = OffsetForLeaderEpochRequest()
    asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0)
    ends.topics.append(OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="t", partitions=[asked]))
    altered = IncrementalAlterConfigsRequest()
    altered.resources.append(IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name="t"))
    elected = ElectLeadersRequest()
    elected.topic_partitions.append(ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0]))
    committed = OffsetCommitRequest()
    position = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0)
    committed.topics.append(OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[position]))
    fetched = OffsetFetchRequest()
    fetched.topics.append(OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0]))
    requests = (
        *(produce, listed, ends, altered, elected, committed, fetched, DescribeGroupsRequest(groups=["g"])),
        CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t")]),
        DeleteTopicsRequest(topic_names=["t"]),
        CreatePartitionsRequest(topics=[CreatePartitionsRequest.CreatePartitionsTopic(name="t")]),
        DeleteRecordsRequest(topics=[deleted]),
        *_of_transactions(),
    )
    samples = {type(request): request for request in requests}
    for kind in REQUESTS.values():
        assert response_errors(error_response(samples.get(kind, kind()), KafkaError.UNSUPPORTED_VERSION)) == [35]
