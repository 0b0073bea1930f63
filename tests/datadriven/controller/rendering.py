"""One line for each thing that a controller does."""

from __future__ import annotations

from typing import Literal

from google.protobuf.message import Message

from actors.node.errors import error_name
from actors.trace.events import BrokerReg, ConfigChange, PartChange, TraceEvent
from krift.v1.admin_pb2 import (
    DescribeQuorumResponse,
    ElectLeadersResponse,
    IncrementalAlterConfigsResponse,
)
from krift.v1.controller_pb2 import (
    AlterPartitionResponse,
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
)
from krift.v1.producer_ids_pb2 import AllocateProducerIdsResponse
from krift.v1.records_pb2 import MetadataRecord, PartitionChangeRecord, PartitionRecord


def plain(ids: list[int]) -> str:
    """``[1,2]``."""
    return f"[{','.join(str(number) for number in ids)}]"


def describe_event(event: TraceEvent) -> str | None:
    """A line for a trace event of the controller; None for those of the quorum."""
    match event:
        case PartChange():
            return (
                f"* {event.offset} {event.tp} leader={event.leader} epoch={event.leader_epoch}/{event.partition_epoch}"
                f" isr={plain(event.isr)}{_eligible(event)} ({event.cause}{', asked' if event.asked else ''})"
            )
        case ConfigChange():
            value = "deleted" if event.value is None else event.value
            return f"* {event.offset} {event.resource} {event.key}={value}"
        case BrokerReg():
            fenced = "fenced" if event.fenced else "unfenced"
            shutting_down = " shutting-down" if event.shutting_down else ""
            unclean = " unclean" if event.unclean else ""
            return f"* {event.offset} broker {event.broker}@{event.broker_epoch} {fenced}{shutting_down}{unclean}"
    return None


def _eligible(event: PartChange) -> str:
    elr = f" elr={plain(event.elr)}" if event.elr else ""
    return elr + (f" last-known={plain(event.last_known_elr)}" if event.last_known_elr else "")


def describe_reply(connection: str, response: Message | None) -> str:
    """A line per answer, with every partition."""
    who = connection.partition("/")[0]
    return f"{who} <- {'connection closed' if response is None else _response(response)}"


def _response(response: Message) -> str:
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
        case ElectLeadersResponse():
            elected = response.replica_election_results
            return "; ".join(_elected(each.topic, data) for each in elected for data in each.partition_result) or "none"
        case IncrementalAlterConfigsResponse():
            return "; ".join(map(_altered_resource, response.responses))
        case DescribeQuorumResponse():
            return _quorum(response)
        case AllocateProducerIdsResponse():
            first = response.producer_id_start
            return f"producer ids {first}-{first + response.producer_id_len - 1}"
    return type(response).__name__


def _altered_resource(each: IncrementalAlterConfigsResponse.AlterConfigsResourceResponse) -> str:
    kind = {2: "topic", 4: "broker"}.get(each.resource_type, str(each.resource_type))
    return f"{kind}/{each.resource_name} {error_name(each.error_code)}"


def _elected(topic: str, data: ElectLeadersResponse.PartitionResult) -> str:
    return f"{topic}-{data.partition_id} {error_name(data.error_code)}"


def _quorum(response: DescribeQuorumResponse) -> str:
    data = response.topics[0].partitions[0]
    if data.error_code:
        return f"{response.topics[0].topic_name}-{data.partition_index} {error_name(data.error_code)}"

    def replica(state: DescribeQuorumResponse.ReplicaState) -> str:
        directory = f" {state.replica_directory_id}" if state.HasField("replica_directory_id") else ""
        times = (
            f" fetched={state.last_fetch_timestamp} caught-up={state.last_caught_up_timestamp}"
            if state.HasField("last_fetch_timestamp")
            else ""
        )
        return f"\n    {state.replica_id}{directory} end={state.log_end_offset}{times}"

    voters = "".join(map(replica, data.current_voters))
    observers = "".join(map(replica, data.observers))
    nodes = f"\n  nodes {plain([node.node_id for node in response.nodes])}" if response.nodes else ""
    return (
        f"leader={data.leader_id} epoch={data.leader_epoch} high-watermark={data.high_watermark}"
        f"\n  voters{voters}\n  observers{observers}{nodes}"
    )


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
    name = record.WhichOneof("record") or "nothing"
    value = getattr(record, name)
    if isinstance(value, PartitionChangeRecord | PartitionRecord):
        return f"{name} {_partition(value)}"
    fields = " ".join(f"{field.name}={text}" for field, text in value.ListFields())
    return f"{name} {fields}".strip()


_FIELDS: dict[str, Literal["eligible_leader_replicas", "last_known_elr"]] = {
    "elr": "eligible_leader_replicas",
    "last-known": "last_known_elr",
}


def _partition(record: PartitionChangeRecord | PartitionRecord) -> str:
    said = [f"{record.topic_id}/{record.partition_id}"]
    if record.isr or (isinstance(record, PartitionChangeRecord) and record.isr_empty):
        said.append(f"isr={plain(list(record.isr))}")
    if isinstance(record, PartitionChangeRecord):
        for field, ids in (("elr", record.eligible_leader_replicas), ("last-known", record.last_known_elr)):
            said += [f"{field}={plain(list(ids.ids))}"] if record.HasField(_FIELDS[field]) else []
    if record.HasField("leader"):
        said.append(f"leader={record.leader}")
    if isinstance(record, PartitionRecord):
        said.append(f"epoch={record.leader_epoch}/{record.partition_epoch}")
    if record.HasField("leader_recovery_state"):
        said.append(f"recovery={record.leader_recovery_state}")
    return " ".join(said)
