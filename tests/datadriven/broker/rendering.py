"""One line for each thing that a broker does."""

from __future__ import annotations

from actors.node.errors import error_name
from actors.node.messages import AnyRequest, AnyResponse, Api
from actors.trace.events import (
    IsrPropose,
    LogAppend,
    LogHw,
    LogLocalStart,
    LogRoll,
    LogStart,
    LogTrunc,
    PartAssume,
    RecordsDelete,
    RepFetch,
    RequestHandled,
    RpcPark,
    RpcReply,
    TierTask,
    TraceEvent,
)
from krift.v1.admin import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from krift.v1.api_versions import ApiVersionsResponse
from krift.v1.controller import AlterPartitionRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest
from krift.v1.delete_records import DeleteRecordsResponse
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from krift.v1.metadata import MetadataResponse
from krift.v1.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from krift.v1.produce import ProduceResponse
from krift.v1.producer_ids import AllocateProducerIdsRequest, InitProducerIdResponse
from krift.v1.records import RecordBatch
from krift.v1.remote_storage import FetchIndexRequest, FetchLogSegmentRequest
from krift.v1.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from krift.v1.update_metadata import UpdateMetadataResponse
from tests.datadriven.admin import describe_admin, describe_admin_request
from tests.datadriven.topics import describe_topics, describe_topics_request


def describe_event(event: TraceEvent) -> str | None:
    """A line for a trace event; None for those of the quorum, and those that a message shows as well."""
    match event:
        case PartAssume():
            start = f" epoch-start={event.leader_epoch_start}" if event.role == "leader" else f" of {event.leader}"
            return (
                f"* {event.tp} {event.role}{start} epoch={event.leader_epoch}/{event.partition_epoch}"
                f" end={event.log_end} hw={event.high_watermark}"
            )
        case LogAppend() if event.tp != "__cluster_metadata-0":
            return f"* {event.tp} append {event.base}-{event.last} epoch={event.batch_epoch} as {event.role}"
        case LogTrunc() if event.tp != "__cluster_metadata-0":
            return f"* {event.tp} truncate {event.was} to {event.to} ({event.reason})"
        case LogRoll():
            return f"* {event.tp} new segment at {event.base}"
        case LogStart() if event.tp != "__cluster_metadata-0":
            behind = " behind the leader's prefix" if event.reason == "out-of-range" and event.ph is not None else ""
            return f"* {event.tp} starts at {event.new} ({event.reason}){behind}"
        case LogLocalStart():
            return f"* {event.tp} local log starts at {event.new} ({event.reason}), log at {event.log_start}"
        case LogHw() if event.tp != "__cluster_metadata-0":
            counted = f" counted={event.counted}" if event.counted else ""
            return f"* {event.tp} high watermark {event.new}{counted}"
        case IsrPropose():
            members = ",".join(f"{broker}@{epoch}" for broker, epoch in event.members.items())
            return f"* {event.tp} isr {members} {event.outcome} (proposal {event.proposal})"
        case RepFetch():
            return _describe_fetch(event)
        case TierTask():
            return _describe_task(event)
        case RpcPark():
            decided = f", has {', '.join(event.decided)}" if event.decided else ""
            how = "holds its handler" if event.held else f"waits {event.wait_ms} ms"
            return f"* {event.connection} {how} for {', '.join(event.tps)}{decided}"
        case RequestHandled():
            return (
                f"* {event.api} of {event.connection} {event.path}: queue {event.queue_ms} handler {event.handler_ms}"
            )
        case RecordsDelete():
            return _describe_deletion(event)
        case RpcReply():
            return None
    return None


def _describe_deletion(event: RecordsDelete) -> str | None:
    """That of which nothing is waited for is in the answer."""
    if event.phase == "end" or event.low_watermark >= event.offset:
        return None
    alive = ",".join(map(str, event.alive))
    return f"* {event.tp} low watermark {event.low_watermark} of {event.offset} (alive: {alive})"


def _describe_task(event: TierTask) -> str:
    text = f"* {event.tp} read {event.task} {event.phase}"
    if event.error:
        text += f" {error_name(event.error)}"
    if event.interrupt:
        text += " with an interrupt"
    return f"{text} (running {event.running} queued {event.queued})"


def _describe_fetch(event: RepFetch) -> str:
    outcome = ""
    if event.error:
        outcome = f" refused {error_name(event.error)}"
    elif event.diverging_epoch >= 0:
        outcome = f" diverges ({event.diverging_epoch},{event.diverging_end})"
    return f"* {event.tp} follower {event.follower} at {event.offset}{outcome}"


def describe_reply(connection: str, response: AnyResponse | None) -> str:
    """A line per answer, with every partition."""
    if response is None:
        return f"{connection} <- nothing"
    parts: list[str] = []
    match response:
        case ProduceResponse():
            for topic in response.responses:
                parts += [_produced(data, response) for data in topic.partition_responses]
        case FetchResponse():
            if response.error_code:
                parts.append(error_name(response.error_code))
            for fetched in response.responses:
                topic = fetched.topic or fetched.topic_id.removeprefix("id-")
                prefix = f"{topic}-" if response.session_id else ""
                parts += [prefix + _fetched(data) for data in fetched.partitions]
            if response.session_id:
                parts = [f"session {response.session_id}", *(parts or ["nothing new"])]
        case ListOffsetsResponse():
            for listed in response.topics:
                parts += [_listed(data) for data in listed.partitions]
        case MetadataResponse():
            parts = _metadata(response)
        case ApiVersionsResponse():
            parts = [error_name(response.error_code)] if response.error_code else []
            parts += [f"{Api(each.api_key).name} {each.min_version}-{each.max_version}" for each in response.api_keys]
        case UpdateMetadataResponse():
            parts = [error_name(response.error_code) if response.error_code else "NONE"]
        case DeleteRecordsResponse():
            parts = [
                f"{data.partition_index}: low watermark {data.low_watermark}"
                if not data.error_code
                else f"{data.partition_index}: {error_name(data.error_code)}"
                for topic in response.topics
                for data in topic.partitions
            ]
        case OffsetForLeaderEpochResponse():
            for ends in response.topics:
                parts += [_epoch_end(data) for data in ends.partitions]
        case InitProducerIdResponse():
            parts = [error_name(response.error_code)]
            if not response.error_code:
                parts = [f"producer id {response.producer_id} epoch {response.producer_epoch}"]
        case ElectLeadersResponse() | IncrementalAlterConfigsResponse() | DescribeQuorumResponse():
            parts = [describe_admin(response)]
        case CreateTopicsResponse() | DeleteTopicsResponse() | CreatePartitionsResponse():
            parts = [describe_topics(response)]
        case _:
            parts = [str(response).replace("\n", " ").strip()]
    return f"{connection} <- {'; '.join(parts)}"


def _produced(data: ProduceResponse.PartitionProduceResponse, response: ProduceResponse) -> str:
    if not data.error_code:
        return f"{data.index}: offset {data.base_offset}"
    text = f"{data.index}: {error_name(data.error_code)}"
    if data.base_offset >= 0:
        text += f" offset {data.base_offset}"
    if data.record_errors:
        text += f" records {[each.batch_index for each in data.record_errors]}"
    if data.current_leader is not None:
        nodes = [node.node_id for node in response.node_endpoints]
        text += f" leader={data.current_leader.leader_id} epoch={data.current_leader.leader_epoch} nodes={nodes}"
    if data.log_start_offset > 0:
        text += f" log start {data.log_start_offset}"
    return text


def _fetched(data: FetchResponse.PartitionData) -> str:
    text = f"{data.partition_index}: "
    if data.error_code:
        text += error_name(data.error_code)
        if data.current_leader is not None:
            text += f" leader={data.current_leader.leader_id} epoch={data.current_leader.leader_epoch}"
        return text
    if data.diverging_epoch is not None:
        return f"{text}diverging ({data.diverging_epoch.epoch},{data.diverging_epoch.end_offset})"
    return f"{text}{describe_batches(list(data.records))} hw={data.high_watermark}"


def describe_batches(batches: list[RecordBatch]) -> str:
    """``0-4e0,5-9e1``: offsets and leader epoch of each batch."""
    spans = [f"{b.base_offset}-{b.base_offset + len(b.records) - 1}e{b.partition_leader_epoch}" for b in batches]
    return ",".join(spans) or "empty"


def _listed(data: ListOffsetsResponse.ListOffsetsPartitionResponse) -> str:
    if data.error_code:
        return f"{data.partition_index}: {error_name(data.error_code)}"
    told = f"{data.partition_index}: offset {data.offset} timestamp {data.timestamp} epoch {data.leader_epoch}"
    return told if data.prefix_hash < 0 else f"{told} with its prefix hash"


def _epoch_end(data: OffsetForLeaderEpochResponse.EpochEndOffset) -> str:
    if data.error_code:
        return f"{data.partition}: {error_name(data.error_code)}"
    return f"{data.partition}: epoch {data.leader_epoch} ends at {data.end_offset}"


def _metadata(response: MetadataResponse) -> list[str]:
    parts = [f"brokers {[broker.node_id for broker in response.brokers]}"]
    parts += [f"metadata epoch {response.metadata_epoch}"] if response.metadata_epoch >= 0 else []
    for topic in response.topics:
        if topic.error_code:
            parts.append(f"{topic.name or topic.topic_id}: {error_name(topic.error_code)}")
        for data in topic.partitions:
            error = f" {error_name(data.error_code)}" if data.error_code else ""
            offline = f" offline={list(data.offline_replicas)}" if data.offline_replicas else ""
            parts.append(
                f"{topic.name}-{data.partition_index}:{error} leader={data.leader_id} epoch={data.leader_epoch}"
                f" isr={list(data.isr_nodes)}{offline}"
            )
    return parts


def describe_request(peer: str, request: AnyRequest) -> str:
    """A line for a call that the broker makes."""
    return f"-> {peer} {_request(request)}"


def _request(request: AnyRequest) -> str:
    match request:
        case FetchRequest():
            asked = [
                f"{p.partition}@{p.fetch_offset} epoch={p.current_leader_epoch} last-epoch={p.last_fetched_epoch}"
                for topic in request.topics
                for p in topic.partitions
            ]
            forgotten = [str(index) for topic in request.forgotten_topics_data for index in topic.partitions]
            session = f" session={request.session_id}/{request.session_epoch}" if request.session_id else ""
            forgets = f" forgets {','.join(forgotten)}" if forgotten else ""
            return f"Fetch{session} {'; '.join(asked) or 'nothing else'}{forgets}"
        case ListOffsetsRequest():
            listed = [
                f"{p.partition_index} timestamp={p.timestamp} epoch={p.current_leader_epoch}"
                for topic in request.topics
                for p in topic.partitions
            ]
            return f"ListOffsets replica={request.replica_id} {'; '.join(listed)}"
        case FetchIndexRequest() if request.segment is not None:
            return f"FetchIndex {request.segment.segment_id} {request.object}"
        case FetchLogSegmentRequest() if request.segment is not None:
            return f"FetchLogSegment {request.segment.segment_id} from {request.start_position}"
        case OffsetForLeaderEpochRequest():
            ends = [
                f"{p.partition} of={p.leader_epoch} epoch={p.current_leader_epoch}"
                for topic in request.topics
                for p in topic.partitions
            ]
            return f"OffsetForLeaderEpoch replica={request.replica_id} {'; '.join(ends)}"
        case AlterPartitionRequest():
            changes = [_altered(p) for topic in request.topics for p in topic.partitions]
            return f"AlterPartition {'; '.join(changes)}"
        case AllocateProducerIdsRequest():
            return "AllocateProducerIds"
        case ElectLeadersRequest() | IncrementalAlterConfigsRequest() | DescribeQuorumRequest():
            return describe_admin_request(request)
        case CreateTopicsRequest() | DeleteTopicsRequest() | CreatePartitionsRequest():
            return describe_topics_request(request)
        case BrokerRegistrationRequest():
            return f"BrokerRegistration v{request.header.api_version} previous-epoch={request.previous_broker_epoch}"
        case BrokerHeartbeatRequest():
            wants = [name for name in ("want_fence", "want_shut_down") if getattr(request, name)]
            return " ".join(["BrokerHeartbeat", f"epoch={request.broker_epoch}", *wants])
    return type(request).__name__


def _altered(data: AlterPartitionRequest.PartitionData) -> str:
    isr = ",".join(f"{member.broker_id}@{member.broker_epoch}" for member in data.new_isr_with_epochs)
    return f"{data.partition_index} isr={isr or list(data.new_isr)} epoch={data.leader_epoch}/{data.partition_epoch}"
