"""One line for each thing that a controller does."""

from __future__ import annotations

from typing import Any

from actors.metadata.registrations import LEADER_UNCHANGED, RECOVERY_UNCHANGED
from actors.node.errors import error_name
from actors.node.messages import AnyResponse
from actors.trace.events import BrokerReg, ConfigChange, MetaMint, PartChange, PartRemove, TraceEvent
from krift.v1.admin import (
    DescribeQuorumResponse,
    ElectLeadersResponse,
    IncrementalAlterConfigsResponse,
)
from krift.v1.controller import (
    AlterPartitionResponse,
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
)
from krift.v1.producer_ids import AllocateProducerIdsResponse
from krift.v1.records import MetadataRecord, PartitionChangeRecord, PartitionRecord
from krift.v1.topics import CreatePartitionsResponse, CreateTopicsResponse, DeleteTopicsResponse
from krift.v1.update_metadata import UpdateMetadataRequest
from krift.v1.wire import to_protobuf
from tests.datadriven.admin import describe_admin, plain
from tests.datadriven.topics import describe_topics


def describe_event(event: TraceEvent) -> str | None:
    """A line for a trace event of the controller; None for those of the quorum."""
    match event:
        case PartChange():
            return (
                f"* {event.offset} {event.tp} leader={event.leader} epoch={event.leader_epoch}/{event.partition_epoch}"
                f" isr={plain(event.isr)}{_eligible(event)} ({event.cause}{', asked' if event.asked else ''})"
            )
        case PartRemove():
            return f"* {event.offset} {event.tp} removed with topic {event.topic_id}"
        case ConfigChange():
            value = "deleted" if event.value is None else event.value
            return f"* {event.offset} {event.resource} {event.key}={value}"
        case BrokerReg():
            fenced = "fenced" if event.fenced else "unfenced"
            shutting_down = " shutting-down" if event.shutting_down else ""
            unclean = " unclean" if event.unclean else ""
            return f"* {event.offset} broker {event.broker}@{event.broker_epoch} {fenced}{shutting_down}{unclean}"
        case MetaMint():
            return f"* metadata epoch {event.epoch}: {event.znode}"
    return None


def describe_push(broker: str, request: UpdateMetadataRequest) -> str:
    """``=> broker-1 UpdateMetadata v8 controller epoch 1 metadata epoch 3: orders-0 led by 2@5; brokers [2,3]``."""
    states = [(topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states]
    states += [(state.topic_name, state) for state in request.ungrouped_partition_states]
    told = [f"{name}-{each.partition_index} led by {each.leader}@{each.leader_epoch}" for name, each in states]
    told.append(f"brokers {plain([live.id for live in request.live_brokers])}")
    counted = f" metadata epoch {request.metadata_epoch}" if request.metadata_epoch >= 0 else ""
    version, epoch = request.header.api_version, request.controller_epoch
    return f"=> {broker} UpdateMetadata v{version} controller epoch {epoch}{counted}: {'; '.join(told)}"


def _eligible(event: PartChange) -> str:
    elr = f" elr={plain(event.elr)}" if event.elr else ""
    return elr + (f" last-known={plain(event.last_known_elr)}" if event.last_known_elr else "")


def describe_reply(connection: str, response: AnyResponse | None) -> str:
    """A line per answer, with every partition."""
    who = connection.partition("/")[0]
    return f"{who} <- {'connection closed' if response is None else _response(response)}"


def _response(response: AnyResponse) -> str:
    error = getattr(response, "error_code", 0)
    if error:
        return error_name(error)
    match response:
        case BrokerRegistrationResponse():
            return f"epoch {response.broker_epoch}"
        case BrokerHeartbeatResponse():
            told = ["fenced" if response.is_fenced else "unfenced"]
            told += ["caught-up"] if response.is_caught_up else []
            told += ["shut-down"] if response.should_shut_down else []
            return " ".join(told)
        case AlterPartitionResponse():
            return "; ".join(_altered(data) for topic in response.topics for data in topic.partitions)
        case ElectLeadersResponse() | IncrementalAlterConfigsResponse() | DescribeQuorumResponse():
            return describe_admin(response)
        case CreateTopicsResponse() | DeleteTopicsResponse() | CreatePartitionsResponse():
            return describe_topics(response)
        case AllocateProducerIdsResponse():
            first = response.producer_id_start
            return f"producer ids {first}-{first + response.producer_id_len - 1}"
    return type(response).__name__


def _altered(data: AlterPartitionResponse.PartitionData) -> str:
    if data.error_code:
        return f"{data.partition_index}: {error_name(data.error_code)}"
    recovering = " recovering" if data.leader_recovery_state else ""
    return (
        f"{data.partition_index}: leader={data.leader_id} epoch={data.leader_epoch}/{data.partition_epoch}"
        f" isr={plain(list(data.isr))}{recovering}"
    )


def describe_record(record: MetadataRecord) -> str:
    """A record of the metadata log, with the fields that say something."""
    name, value = next(iter(_said(record).items()), ("nothing", None))
    if isinstance(value, PartitionChangeRecord | PartitionRecord):
        return f"{name} {_partition(value)}"
    # What protobuf writes is what is in the log: a field may be there though its value is zero.
    written = to_protobuf(record).ListFields()
    fields = " ".join(f"{field.name}={text}" for _, inner in written for field, text in inner.ListFields())
    return f"{name} {fields}".strip()


def _said(record: MetadataRecord) -> dict[str, Any]:
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not None}


def _partition(record: PartitionChangeRecord | PartitionRecord) -> str:
    said = [f"{record.topic_id}/{record.partition_id}"]
    if record.isr or (isinstance(record, PartitionChangeRecord) and record.isr_empty):
        said.append(f"isr={plain(record.isr)}")
    if isinstance(record, PartitionChangeRecord):
        for field, ids in (("elr", record.eligible_leader_replicas), ("last-known", record.last_known_elr)):
            said += [] if ids is None else [f"{field}={plain(ids.ids)}"]
    if isinstance(record, PartitionRecord) or record.leader != LEADER_UNCHANGED:
        said.append(f"leader={record.leader}")
    if isinstance(record, PartitionRecord):
        said.append(f"epoch={record.leader_epoch or 0}/{record.partition_epoch or 0}")
    if record.leader_recovery_state not in (None, RECOVERY_UNCHANGED):
        said.append(f"recovery={record.leader_recovery_state}")
    return " ".join(said)
