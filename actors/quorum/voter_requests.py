"""What a follower asks of its leader about its own place in the voter set: a voter keeps what the set says of it right
(UpdateRaftVoter), and a controller that is to join by itself sees to it that it becomes a voter
(``KafkaRaftClient.pollFollowerAsVoter``, ``pollFollowerAsObserver``; KIP-853, KIP-1186)."""

from __future__ import annotations

from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, api_of
from actors.node.network_client import Ended
from actors.node.spec import node_name
from actors.node.turn import NodeTurn
from actors.quorum.quorum_state import UPDATE_VOTER
from actors.quorum.raft_state import CONNECTION, RaftState
from actors.quorum.roles import Follower
from actors.quorum.voter_changes import ACK_WHEN_COMMITTED_VERSION
from actors.quorum.voter_set import endpoint
from krift.v1.common import NodeEndpoint
from krift.v1.quorum import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

KIND = "voter-request"
"""Of the calls: ``raft/voter-request/<peer>``."""


def on_update_timer(raft: RaftState, turn: NodeTurn) -> None:
    """A period is over: look whether there is anything to ask for."""
    if isinstance(raft.quorum.role, Follower):
        raft.voter_request_due = True
        if "asks-to-join-once" not in turn.step.defects:
            turn.step.set_timer(UPDATE_VOTER, raft.config.update_voter_period_ms, wall=True)


def poll(raft: RaftState, turn: NodeTurn, role: Follower) -> None:
    """Send the request that is due, if there is one."""
    request = _request(raft)
    if request is None:
        raft.voter_request_due = False
        return
    leader = role.leader_id
    if not raft.can_call(turn, leader):
        return
    raft.voter_request_due = False
    version = turn.net.version(node_name(leader), CONNECTION, api_of(request))
    if version is None:
        return
    if isinstance(request, AddRaftVoterRequest) and version >= ACK_WHEN_COMMITTED_VERSION:
        # This node must copy the record before it can be committed: it cannot wait for that meanwhile.
        request.ack_when_committed = False
    raft.call(turn, leader, KIND, request, version)


def _request(raft: RaftState) -> AnyRequest | None:
    config, voters = raft.config, raft.voters
    me, mine = config.key, config.voter_node
    if raft.quorum.records.kraft_version < 1:
        return None
    if raft.is_voter:
        if voters.node(me.id) == mine:
            return None
        return UpdateRaftVoterRequest(
            cluster_id=config.cluster_id,
            current_leader_epoch=raft.quorum.epoch,
            voter_id=me.id,
            voter_directory_id=me.directory_id,
            listeners=[endpoint(me.id, config.host)],
            min_supported_k_raft_version=mine.min_kraft_version,
            max_supported_k_raft_version=mine.max_kraft_version,
        )
    if not config.auto_join:
        return None
    if voters.is_voter(me.id):
        # What this node was before its disk was replaced.
        former = voters.key(me.id)
        return RemoveRaftVoterRequest(
            cluster_id=config.cluster_id, voter_id=former.id, voter_directory_id=former.directory_id
        )
    return AddRaftVoterRequest(
        cluster_id=config.cluster_id,
        timeout_ms=config.request_timeout_ms,
        voter_id=me.id,
        voter_directory_id=me.directory_id,
        listeners=[endpoint(me.id, config.host)],
    )


def on_ended(raft: RaftState, turn: NodeTurn, ended: Ended, peer: int) -> None:
    """Take the answer. Whatever it says, the next period will show what is left to be asked for."""
    response = ended.response
    if response is None:
        return
    if isinstance(response, UpdateRaftVoterResponse):
        _on_updated(raft, turn, response)
    if response.error_code not in (KafkaError.NONE, KafkaError.REQUEST_TIMED_OUT):
        raft.back_off(turn, peer)


def _on_updated(raft: RaftState, turn: NodeTurn, response: UpdateRaftVoterResponse) -> None:
    """The answer to UpdateRaftVoter also tells who leads; one without an error is as good as that to a Fetch."""
    told = response.current_leader or UpdateRaftVoterResponse.CurrentLeader()
    endpoints = [NodeEndpoint(node_id=told.leader_id, host=told.host, port=told.port)] if told.host else []
    over = raft.learn_from_response(turn, response.error_code, told.leader_epoch, told.leader_id, endpoints)
    role = raft.quorum.role
    if not over and isinstance(role, Follower) and not raft.quorum.waiting:
        raft.heard_from_leader(turn, role)
