"""DescribeQuorum: what the leader knows of the quorum's members (``KafkaRaftClient.handleDescribeQuorumRequest``;
KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from actors.node.errors import KafkaError
from actors.node.messages import request_version
from actors.node.spec import METADATA_TOPIC
from actors.node.turn import NodeTurn
from actors.quorum.raft_state import RaftState
from actors.quorum.roles import Leader, ReplicaProgress
from actors.quorum.voter_set import ReplicaKey
from krift.v1.admin import DescribeQuorumRequest, DescribeQuorumResponse

OBSERVER_SESSION_MS = 300_000
"""An observer that has not fetched for so long is no longer told of."""


def on_describe_request(raft: RaftState, turn: NodeTurn, connection: str, request: DescribeQuorumRequest) -> None:
    """Answer at once; only the leader knows anything to tell."""
    raft.answer(turn, connection, request, _response(raft, turn, request))


def _response(raft: RaftState, turn: NodeTurn, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    version = request_version(request)
    bounds = raft.config.versions.get("DescribeQuorum")
    if bounds is not None and not bounds[0] <= version <= bounds[1]:
        return DescribeQuorumResponse(error_code=KafkaError.UNSUPPORTED_VERSION)
    if not _is_for_metadata(request):
        return _refusal(request, KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
    role = raft.quorum.role
    if not isinstance(role, Leader) or not role.started:
        return _refusal(request, KafkaError.NOT_LEADER_OR_FOLLOWER)
    response = DescribeQuorumResponse()
    high_watermark = raft.log.high_watermark if role.high_watermark_known else -1
    if "described-by-log-end" in turn.step.defects:
        high_watermark = raft.log.end_offset
    data = DescribeQuorumResponse.PartitionData(
        leader_id=raft.config.node_id, leader_epoch=role.epoch, high_watermark=high_watermark
    )
    response.topics.append(DescribeQuorumResponse.TopicData(topic_name=METADATA_TOPIC, partitions=[data]))
    for voter in raft.voters.ids:
        known = role.replicas.get(voter, ReplicaProgress(directory_id=raft.voters.node(voter).directory_id))
        data.current_voters.append(_describe(raft, turn, voter, known, version))
    for key in sorted(role.observers, key=lambda key: (int(key.partition("/")[0]), key)):
        known, replica_id = role.observers[key], int(key.partition("/")[0])
        if replica_id == raft.config.node_id or turn.step.wall_ms - known.last_fetch_ms < OBSERVER_SESSION_MS:
            data.observers.append(_describe(raft, turn, replica_id, known, version))
    if version >= 2:
        for voter in raft.voters.ids:
            response.nodes.append(DescribeQuorumResponse.Node(node_id=voter, listeners=[raft.voters.endpoint(voter)]))
    return response


def _is_for_metadata(request: DescribeQuorumRequest) -> bool:
    asked = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    return asked == [(METADATA_TOPIC, 0)]


def _refusal(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    response = DescribeQuorumResponse()
    for topic in request.topics:
        answer = DescribeQuorumResponse.TopicData(topic_name=topic.topic_name)
        response.topics.append(answer)
        for partition in topic.partitions:
            answer.partitions.append(
                DescribeQuorumResponse.PartitionData(partition_index=partition.partition_index, error_code=error)
            )
    return response


def _describe(
    raft: RaftState, turn: NodeTurn, replica_id: int, known: ReplicaProgress, version: int
) -> DescribeQuorumResponse.ReplicaState:
    """The leader itself is always caught up."""
    mine = ReplicaKey(replica_id, known.directory_id) == raft.config.key
    end = raft.log.end_offset if "described-as-caught-up" in turn.step.defects else known.end_offset
    state = DescribeQuorumResponse.ReplicaState(replica_id=replica_id, log_end_offset=end)
    if version >= 2:
        state.replica_directory_id = known.directory_id
    if version >= 1:
        state.last_fetch_timestamp = turn.step.wall_ms if mine else known.last_fetch_ms
        state.last_caught_up_timestamp = turn.step.wall_ms if mine else known.last_caught_up_ms
    return state
