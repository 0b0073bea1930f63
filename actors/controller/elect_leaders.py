"""ElectLeaders: an operator asks for elections (``ReplicationControlManager.electLeaders``; KIP-183, KIP-460)."""

from __future__ import annotations

from actors.controller.changes import Change
from actors.controller.controller_state import ControllerState
from actors.controller.elections import Election, ElectionRules, PartitionChangeBuilder
from actors.metadata.registrations import NO_LEADER
from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from krift.v1.admin import ElectLeadersRequest, ElectLeadersResponse

PREFERRED = 0
UNCLEAN = 1
MESSAGES = {
    KafkaError.ELECTION_NOT_NEEDED: "The partition has the leader that it should have.",
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is not available.",
    KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No replica that could lead is available.",
}


def elect_leaders(
    request: ElectLeadersRequest, state: ControllerState, rules: ElectionRules
) -> tuple[list[Change], ElectLeadersResponse]:
    """The elections that are possible, and what became of each partition. Who asks for all partitions is not told of
    those that have the leader they should have."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        text = f"Unknown election type {request.election_type}"
        return [], error_response(request, KafkaError.INVALID_REQUEST, text)
    changes: list[Change] = []
    response = ElectLeadersResponse()
    for topic, indexes in _asked(request, state):
        answer = ElectLeadersResponse.ReplicaElectionResult(topic=topic)
        response.replica_election_results.append(answer)
        for index in indexes:
            error = _elect(topic, index, request.election_type, state, rules, changes)
            if error != KafkaError.ELECTION_NOT_NEEDED or not request.all_partitions:
                result = ElectLeadersResponse.PartitionResult(partition_id=index, error_code=error)
                answer.partition_result.append(result)
                if error:
                    result.error_message = MESSAGES.get(error, f"No such partition as {topic}-{index}")
    return changes, response


def _asked(request: ElectLeadersRequest, state: ControllerState) -> list[tuple[str, list[int]]]:
    if request.all_partitions:
        return [(topic.name, topic.partitions) for topic in state.topics.values()]
    return [(each.topic, list(each.partitions)) for each in request.topic_partitions]


def _elect(
    topic: str, index: int, election_type: int, state: ControllerState, rules: ElectionRules, changes: list[Change]
) -> KafkaError:
    """Elect a leader of one partition, whatever the configuration says of unclean elections."""
    partition = state.partition(state.topic_ids.get(topic, ""), index)
    if partition is None:
        return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    unclean = election_type == UNCLEAN
    any_will_do = unclean or "any-leader-will-do" in rules.defects
    if partition.leader != NO_LEADER and (any_will_do or partition.leader == partition.replicas[0]):
        return KafkaError.ELECTION_NOT_NEEDED
    anybody = unclean or "preferred-elected-uncleanly" in rules.defects
    election: Election = "unclean" if anybody else "preferred"
    cause = "elect" if unclean else "preferred"
    change = PartitionChangeBuilder(partition, rules, cause, election, asked=True).build()
    if change is None and "unheld-election-confirmed" in rules.defects:
        return KafkaError.NONE
    if change is None:
        return KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else KafkaError.PREFERRED_LEADER_NOT_AVAILABLE
    changes.append(change)
    return KafkaError.NONE
