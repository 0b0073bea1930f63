"""Elections: votes given, votes asked for, and the timeouts that begin them (``KafkaRaftClient.java``)."""

from __future__ import annotations

from actors.node.errors import KafkaError
from actors.node.messages import Api, request_version
from actors.node.network_client import Ended
from actors.node.spec import node_name
from actors.node.turn import NodeTurn
from actors.quorum.quorum_state import ELECTION
from actors.quorum.raft_state import CONNECTION, RaftState
from actors.quorum.roles import Candidate, Follower, Prospective, Resigned, Unattached
from actors.quorum.voter_set import ReplicaKey
from actors.trace.events import QVote
from krift.v1.quorum import VoteRequest, VoteResponse

PRE_VOTE_VERSION = 2
"""First version of Vote that has PreVote."""

# ---- asked for a vote --------------------------------------------------------------------------------------


def on_vote_request(raft: RaftState, turn: NodeTurn, connection: str, request: VoteRequest) -> None:
    """Answer a Vote request."""
    error, granted = KafkaError.NONE, False
    refusal = raft.refusal(turn, Api.Vote, request)
    if request.pre_vote and not raft.config.pre_vote:
        refusal = KafkaError.UNSUPPORTED_VERSION
    if refusal:
        raft.answer(turn, connection, request, VoteResponse(error_code=refusal))
        return
    error = _validate(raft, turn, request)
    if not error:
        if request.replica_epoch > raft.quorum.epoch:
            # Even for a PreVote, and even if the request turns out to be meant for somebody else.
            raft.learn(turn, request.replica_epoch, -1)
        meant = raft.is_meant(request.voter_id, request.voter_directory_id)
        error = KafkaError.NONE if meant else KafkaError.INVALID_VOTER_KEY
    if not error:
        granted = _decide(raft, turn, request)
    response = VoteResponse(
        partition_error_code=error,
        leader_id=raft.quorum.leader_id,
        leader_epoch=raft.quorum.epoch,
        vote_granted=granted,
    )
    if request_version(request) >= 1:
        response.node_endpoints.extend(raft.leader_endpoints())
    raft.answer(turn, connection, request, response)


def _validate(raft: RaftState, turn: NodeTurn, request: VoteRequest) -> KafkaError:
    """Protocol errors of a Vote request, in Kafka's order; nothing changes where there is one."""
    illegal_epoch = (
        request.last_offset_epoch > request.replica_epoch
        if request.pre_vote
        else request.last_offset_epoch >= request.replica_epoch
    )
    if request.last_offset < 0 or request.last_offset_epoch < 0 or illegal_epoch:
        return KafkaError.INVALID_REQUEST
    if request.replica_epoch < raft.quorum.epoch:
        return raft.epoch_error(turn, Api.Vote, request.replica_epoch)
    return raft.refusal_of_sender(Api.Vote, request.replica_id)


def _decide(raft: RaftState, turn: NodeTurn, request: VoteRequest) -> bool:
    """Grant or refuse, and take note of what was decided."""
    defects = turn.step.defects
    candidate = ReplicaKey(request.replica_id, request.replica_directory_id)
    up_to_date = raft.is_up_to_date(request.last_offset_epoch, request.last_offset) or "vote-for-any" in defects
    if "vote-by-epoch" in defects:
        up_to_date = request.last_offset_epoch >= raft.last_epoch
    granted = raft.quorum.can_grant_vote(candidate, up_to_date, request.pre_vote, turn.step)
    role = raft.quorum.role
    stores = not request.pre_vote or "pre-vote-is-stored" in defects
    if granted and stores and isinstance(role, Unattached | Prospective) and role.voted != candidate:
        raft.quorum.add_vote(turn.step, raft.log_end, candidate)
    of_the_log = request.last_offset_epoch, request.last_offset
    _record_vote(raft, turn, candidate, request.replica_epoch, granted, request.pre_vote, *of_the_log)
    return granted


def _record_vote(
    raft: RaftState,
    turn: NodeTurn,
    candidate: ReplicaKey,
    epoch: int,
    granted: bool,
    pre_vote: bool,
    last_epoch: int,
    end_offset: int,
) -> None:
    raft.quorum.record(
        turn.step,
        QVote(
            raft.config.directory_id,
            raft.quorum.epoch,
            candidate.id,
            granted,
            pre_vote,
            last_epoch,
            end_offset,
            raft.last_epoch,
            raft.log.end_offset,
            candidate.directory_id,
            epoch,
        ),
    )


# ---- standing for election ---------------------------------------------------------------------------------


def on_election_timeout(raft: RaftState, turn: NodeTurn) -> None:
    """The election timer is over in the present role."""
    role = raft.quorum.role
    if isinstance(role, Unattached):
        if raft.may_stand:
            stand_for_election(raft, turn)
    elif isinstance(role, Prospective):
        _on_prospective_timeout(raft, turn)
    elif isinstance(role, Candidate):
        if "candidate-waits-on" not in turn.step.defects:
            _on_candidate_timeout(raft, turn, role)
    elif isinstance(role, Resigned):
        _on_resigned_timeout(raft, turn, role)


def on_fetch_timeout(raft: RaftState, turn: NodeTurn) -> None:
    """A follower has not heard from its leader for the fetch timeout, or its leader told it not to wait for that."""
    role = raft.quorum.role
    if not isinstance(role, Follower):
        return
    if (raft.may_stand and "never-stand" not in turn.step.defects) or "observer-stands" in turn.step.defects:
        stand_for_election(raft, turn)
    else:
        role.timed_out = True


def on_check_quorum_timeout(raft: RaftState, turn: NodeTurn) -> None:
    """A majority has not fetched from this leader for too long. It resigns; as KIP-595 was first proposed it stands for
    the next epoch instead, to learn from the answers who leads, and PreVote does not come into it."""
    if raft.config.leader_progress == "seed" and raft.is_voter:
        become_candidate(raft, turn)
    else:
        raft.quorum.transition_to_resigned(turn.step, raft.log_end)


def stand_for_election(raft: RaftState, turn: NodeTurn) -> None:
    """Ask whether this node could win, or without PreVote raise the epoch at once."""
    if raft.config.pre_vote:
        raft.quorum.transition_to_prospective(turn.step, raft.log_end)
    else:
        become_candidate(raft, turn)


def become_candidate(raft: RaftState, turn: NodeTurn) -> None:
    """Raise the epoch, with this node's own vote."""
    raft.quorum.transition_to_candidate(turn.step, raft.log_end)
    record_own_vote(raft, turn)


def record_own_vote(raft: RaftState, turn: NodeTurn) -> None:
    """Trace the vote that a candidate gave itself."""
    _record_vote(raft, turn, raft.config.key, raft.quorum.epoch, True, False, raft.last_epoch, raft.log.end_offset)


def _on_prospective_timeout(raft: RaftState, turn: NodeTurn) -> None:
    """Too few have answered. Unattached, as whom it learns who leads if it is told, but not for long: the time-out that
    it takes along is over, so it asks again at once. Only a refusal by a majority makes it wait anew
    (``QuorumState.transitionToUnattached``)."""
    raft.quorum.lose_pre_vote(turn.step, raft.log_end)
    if isinstance(raft.quorum.role, Unattached):
        stand_for_election(raft, turn)


def _on_resigned_timeout(raft: RaftState, turn: NodeTurn, role: Resigned) -> None:
    """Whoever resigned leaves its epoch behind, and takes a time-out along that is over, too."""
    alone = raft.voters.is_only_voter(raft.config.key)
    # A lone voter that is resigned has just started, and nobody else can have led in its epoch.
    if not alone and (raft.config.pre_vote or not raft.may_stand):
        raft.quorum.transition_to_unattached(turn.step, raft.log_end, role.epoch + 1)
    if raft.may_stand:
        stand_for_election(raft, turn)


def _on_candidate_timeout(raft: RaftState, turn: NodeTurn, role: Candidate) -> None:
    if raft.config.pre_vote:
        raft.quorum.transition_to_prospective(turn.step, raft.log_end)
    elif role.backing_off:
        become_candidate(raft, turn)
    else:
        _start_backing_off(raft, turn, role)


def _start_backing_off(raft: RaftState, turn: NodeTurn, role: Candidate) -> None:
    """Without PreVote a loser waits a random while, longer after each election, before it stands again."""
    role.backing_off = True
    slots = (2 << min(role.retries - 1, 10)) - 1
    longest = min(slots * raft.config.retry_backoff_ms, raft.config.election_backoff_max_ms)
    turn.step.set_timer(ELECTION, 0, longest, wall=True)


def advance(raft: RaftState, turn: NodeTurn) -> None:
    """Go on where an election is decided. A candidate's own vote must be durable before it counts."""
    quorum = raft.quorum
    role = quorum.role
    if isinstance(role, Prospective) and role.election.is_granted(raft.voters):
        become_candidate(raft, turn)
    elif isinstance(role, Candidate) and not quorum.waiting:
        half = "half-elects" in turn.step.defects and 2 * len(role.election.granting) >= len(raft.voters.ids)
        if role.election.is_granted(raft.voters) or half or "same-epoch-leader" in turn.step.defects:
            quorum.transition_to_leader(turn.step, raft.log_end)


def poll(raft: RaftState, turn: NodeTurn, role: Prospective | Candidate) -> None:
    """Ask the voters that have not answered, as long as they can still elect this node
    (``KafkaRaftClient.maybeSendVoteRequests``)."""
    if role.election.is_rejected(raft.voters) or (isinstance(role, Candidate) and role.backing_off):
        return
    pre_vote = isinstance(role, Prospective)
    kind = "pre-vote" if pre_vote else "vote"
    for peer in role.election.unrecorded(raft.voters):
        if not raft.can_call(turn, peer):
            continue
        version = turn.net.version(node_name(peer), CONNECTION, Api.Vote)
        if version is None:
            raft.back_off(turn, peer)
        elif pre_vote and version < PRE_VOTE_VERSION:
            # The peer cannot be asked beforehand, so this voter goes without.
            become_candidate(raft, turn)
            return
        else:
            raft.call(turn, peer, kind, _vote_request(raft, turn, peer, version, pre_vote), version)


def _vote_request(raft: RaftState, turn: NodeTurn, peer: int, version: int, pre_vote: bool) -> VoteRequest:
    request = VoteRequest(
        cluster_id=raft.config.cluster_id,
        replica_epoch=raft.quorum.epoch,
        replica_id=raft.config.node_id,
        last_offset_epoch=raft.last_epoch,
        last_offset=raft.log.end_offset + ("log-end-overstated" in turn.step.defects),
    )
    if version >= 1:
        request.voter_id = peer
        request.replica_directory_id = raft.config.directory_id
        request.voter_directory_id = raft.voters.node(peer).directory_id
    if version >= PRE_VOTE_VERSION:
        request.pre_vote = pre_vote
    return request


def on_vote_ended(raft: RaftState, turn: NodeTurn, ended: Ended, peer: int) -> None:
    """Count an answer, if it is one to the election that still goes on."""
    response: VoteResponse | None = ended.response
    if response is None:
        return
    role = raft.quorum.role
    if KafkaError.UNSUPPORTED_VERSION in (response.error_code, response.partition_error_code):
        if isinstance(role, Prospective):
            become_candidate(raft, turn)
        return
    if response.error_code:
        raft.back_off(turn, peer)
        return
    told = (response.partition_error_code, response.leader_epoch, response.leader_id, response.node_endpoints)
    if raft.learn_from_response(turn, *told):
        if response.partition_error_code:
            raft.back_off(turn, peer)
        return
    role = raft.quorum.role
    if not isinstance(role, Prospective | Candidate):
        return
    role.election.record(peer, response.vote_granted)
    if role.election.is_rejected(raft.voters):
        if isinstance(role, Prospective):
            raft.quorum.lose_pre_vote(turn.step, raft.log_end)
        elif not raft.config.pre_vote and not role.backing_off:
            _start_backing_off(raft, turn, role)
