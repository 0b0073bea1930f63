"""What a leader of the quorum does: begin and end its epoch, append, move the high watermark (``LeaderState.java``)."""

from __future__ import annotations

from actors.log.batch import LogRecord
from actors.node.errors import KafkaError
from actors.node.messages import Api, request_version
from actors.node.network_client import Ended
from actors.node.spec import node_name
from actors.node.turn import NodeTurn
from actors.quorum.control_records import BOOTSTRAP_OFFSET
from actors.quorum.quorum_state import BEGIN_QUORUM, FETCH_TIMEOUT
from actors.quorum.raft_state import CONNECTION, PendingRecords, RaftState
from actors.quorum.roles import Follower, Leader, Resigned
from actors.quorum.voter_set import ReplicaKey
from actors.trace.events import QEnd
from krift.v1.quorum import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from krift.v1.records import ControlRecord, KRaftVersionRecord, LeaderChangeMessage

APPEND_LINGER = "raft/append-linger"

# ---- the leader's log --------------------------------------------------------------------------------------


def start_epoch(raft: RaftState, turn: NodeTurn, role: Leader) -> None:
    """The leadership is durable: append the first records of the epoch. What a directory was formatted with gets into
    the log here, and what the voter set says of this leader is put right: nobody else would
    (``LeaderState.appendStartOfEpochControlRecords``)."""
    role.started = True
    message = LeaderChangeMessage(leader_id=raft.config.node_id, voters=raft.voters.ids, granting_voters=role.granting)
    records = [ControlRecord(leader_change=message)]
    control, entry = raft.quorum.records, raft.quorum.records.last_voters
    if entry is not None:
        voters = entry.voters.update_voter(raft.config.node_id, raft.config.voter_node) or entry.voters
        unwritten = entry.offset == BOOTSTRAP_OFFSET and "formatted-voters-unwritten" not in turn.step.defects
        if unwritten or voters != entry.voters:
            level = KRaftVersionRecord(k_raft_version=control.kraft_version)
            records += [ControlRecord(k_raft_version=level), ControlRecord(voters=voters.to_record())]
    raft.append_control(turn, role.epoch, records)


def accept(raft: RaftState, turn: NodeTurn, values: list[bytes]) -> int:
    """Take records to be appended as part of one batch; returns the offset of the last of them."""
    if not raft.pending.values:
        turn.step.set_timer(APPEND_LINGER, raft.config.append_linger_ms)
    raft.pending.values.extend(values)
    return raft.log.end_offset + len(raft.pending.values) - 1


def drain(raft: RaftState, turn: NodeTurn, role: Leader) -> bool:
    """Append what was accepted; False if there was nothing. The caller answers the parked fetches: they may have the
    records before this node has flushed them, but their acknowledgements are handled after that."""
    values = raft.pending.values
    if not values:
        return False
    raft.pending = PendingRecords()
    records = [LogRecord(turn.step.wall_ms, value=value) for value in values]
    raft.log.append_records(turn.step, turn.files, records, role.epoch)
    raft.flush(turn)
    return True


def update_high_watermark(raft: RaftState, turn: NodeTurn, role: Leader, reporter: int) -> bool:
    """Move the high watermark to what a majority of the voters has, by the rule of the own epoch: only past the
    epoch's first offset. ``reporter``: whose log end has changed. True if it moved."""
    voters, defects = raft.voters.ids, turn.step.defects
    ends = {voter: role.replicas[voter].end_offset if voter in role.replicas else -1 for voter in voters}
    if "leader-counts-unflushed" in defects and raft.is_voter:
        ends[raft.config.node_id] = raft.log.end_offset
    if "removed-leader-counts" in defects and not raft.is_voter:
        ends[raft.config.node_id] = raft.log.end_offset
    reached = sorted(ends.values(), reverse=True)[len(voters) // 2]
    if "quorum-hw-regress" in defects and ends.get(reporter, -1) >= 0:
        reached = ends[reporter]
    if reached < 0:  # too few have fetched
        return False
    reached = raft.log.boundary_at_or_below(reached)
    own_epoch = raft.config.own_epoch_commit and "commit-old-epoch" not in defects
    if reached <= (role.epoch_start if own_epoch else raft.log.start_offset):
        return False
    if reached < raft.log.high_watermark and "quorum-hw-regress" not in defects:
        return False
    moved = not role.high_watermark_known or reached != raft.log.high_watermark
    role.high_watermark_known = True
    if moved:
        counted = sorted(voter for voter, end in ends.items() if end >= reached)
        raft.log.set_high_watermark(turn.step, "leader", role.epoch, reached, counted)
    return moved


# ---- BeginQuorumEpoch --------------------------------------------------------------------------------------


def on_begin_quorum_timer(raft: RaftState, turn: NodeTurn, role: Leader) -> None:
    """Remind the voters that have not fetched for half the fetch timeout."""
    period = raft.config.fetch_timeout_ms // 2
    for voter in raft.voters.others(raft.config.node_id):
        progress = role.replicas.get(voter)
        silent = progress is None or progress.last_fetch_ms < 0 or turn.step.wall_ms - progress.last_fetch_ms >= period
        if silent and voter not in role.begin_due:
            role.begin_due.append(voter)
    turn.step.set_timer(BEGIN_QUORUM, period, wall=True)


def poll_begin(raft: RaftState, turn: NodeTurn, role: Leader) -> None:
    """Send BeginQuorumEpoch to those who are due."""
    for peer in list(role.begin_due):
        if not raft.can_call(turn, peer):
            continue
        role.begin_due.remove(peer)
        version = turn.net.version(node_name(peer), CONNECTION, Api.BeginQuorumEpoch)
        if version is None:
            continue
        request = BeginQuorumEpochRequest(
            cluster_id=raft.config.cluster_id, leader_id=raft.config.node_id, leader_epoch=role.epoch
        )
        if version >= 1:
            request.voter_id = peer
            request.voter_directory_id = raft.voters.node(peer).directory_id
            request.leader_endpoints.extend(raft.leader_endpoints())
        raft.call(turn, peer, "begin", request, version)


def on_begin_request(raft: RaftState, turn: NodeTurn, connection: str, request: BeginQuorumEpochRequest) -> None:
    """Answer BeginQuorumEpoch: follow the leader that it announces."""
    refusal = raft.refusal(turn, Api.BeginQuorumEpoch, request)
    if refusal:
        raft.answer(turn, connection, request, BeginQuorumEpochResponse(error_code=refusal))
        return
    error = _learn_from_leader(raft, turn, Api.BeginQuorumEpoch, request)
    if not error and not raft.is_meant(request.voter_id, request.voter_directory_id):
        error = KafkaError.INVALID_VOTER_KEY
    response = BeginQuorumEpochResponse(
        partition_error_code=error, leader_id=raft.quorum.leader_id, leader_epoch=raft.quorum.epoch
    )
    if request_version(request) >= 1:
        response.node_endpoints.extend(raft.leader_endpoints())
    raft.answer(turn, connection, request, response)


def _learn_from_leader(
    raft: RaftState, turn: NodeTurn, api: Api, request: BeginQuorumEpochRequest | EndQuorumEpochRequest
) -> KafkaError:
    """What a request from a leader tells (``KafkaRaftClient.validateVoterOnlyRequest``)."""
    leader_id, epoch = request.leader_id, request.leader_epoch
    if epoch < raft.quorum.epoch:
        return raft.epoch_error(turn, api, epoch)
    refusal = raft.refusal_of_sender(api, leader_id)
    if refusal:
        return refusal
    has_endpoint = any(each.node_id == leader_id for each in request.leader_endpoints)
    raft.learn(turn, epoch, leader_id, has_endpoint)
    return KafkaError.NONE


def on_begin_ended(raft: RaftState, turn: NodeTurn, ended: Ended, peer: int) -> None:
    """Take the answer to BeginQuorumEpoch; a lost one is repeated with the period, unless the voter fetches."""
    response: BeginQuorumEpochResponse | None = ended.response
    if response is None:
        return
    if response.error_code:
        raft.back_off(turn, peer)
        return
    told = (response.partition_error_code, response.leader_epoch, response.leader_id, response.node_endpoints)
    raft.learn_from_response(turn, *told)


# ---- resignation -------------------------------------------------------------------------------------------


def poll_end(raft: RaftState, turn: NodeTurn, role: Resigned) -> None:
    """Send EndQuorumEpoch to the voters that have not acknowledged it."""
    for peer in role.unacknowledged:
        if not raft.can_call(turn, peer):
            continue
        version = turn.net.version(node_name(peer), CONNECTION, Api.EndQuorumEpoch)
        if version is None:
            raft.back_off(turn, peer)
            continue
        request = EndQuorumEpochRequest(
            cluster_id=raft.config.cluster_id, leader_id=raft.config.node_id, leader_epoch=role.epoch
        )
        if version == 0:
            request.preferred_successors.extend(role.preferred)
        else:
            request.leader_endpoints.extend(raft.leader_endpoints())
            request.preferred_candidates.extend(
                EndQuorumEpochRequest.ReplicaInfo(
                    candidate_id=voter, candidate_directory_id=raft.voters.node(voter).directory_id
                )
                for voter in role.preferred
            )
        raft.call(turn, peer, "end", request, version)


def on_end_request(raft: RaftState, turn: NodeTurn, connection: str, request: EndQuorumEpochRequest) -> None:
    """Answer EndQuorumEpoch: a follower of the sender stands for election, the sooner the better its log is."""
    refusal = raft.refusal(turn, Api.EndQuorumEpoch, request)
    if refusal:
        raft.answer(turn, connection, request, EndQuorumEpochResponse(error_code=refusal))
        return
    error = _learn_from_leader(raft, turn, Api.EndQuorumEpoch, request)
    if not error:
        _leader_resigned(raft, turn, request)
    response = EndQuorumEpochResponse(
        partition_error_code=error, leader_id=raft.quorum.leader_id, leader_epoch=raft.quorum.epoch
    )
    if request_version(request) >= 1:
        response.node_endpoints.extend(raft.leader_endpoints())
    raft.answer(turn, connection, request, response)


def _leader_resigned(raft: RaftState, turn: NodeTurn, request: EndQuorumEpochRequest) -> None:
    """A follower of the sender waits for its turn in place of its fetch time-out."""
    told = [ReplicaKey(info.candidate_id, info.candidate_directory_id) for info in request.preferred_candidates]
    preferred = told or [ReplicaKey(each, "") for each in request.preferred_successors]
    ids, directories = [each.id for each in preferred], [each.directory_id for each in preferred]
    raft.quorum.record(turn.step, QEnd(request.leader_id, request.leader_epoch, ids, directories))
    role = raft.quorum.role
    if not isinstance(role, Follower) or role.leader_id != request.leader_id:
        return
    if "resignation-is-ignored" in turn.step.defects:
        return
    role.resigned = True
    delay_ms = 0 if "all-successors-at-once" in turn.step.defects else election_delay_ms(raft, preferred)
    turn.step.set_timer(FETCH_TIMEOUT, delay_ms, wall=True)


def election_delay_ms(raft: RaftState, preferred: list[ReplicaKey]) -> int:
    """How long a follower waits after its leader resigned: nothing for the first in the list, or where the list is
    empty, then doubling up to the longest back-off, which is also for those not listed, with their directory if that
    is told (``KafkaRaftClient.endEpochElectionBackoff``)."""
    longest = raft.config.election_backoff_max_ms
    key = ReplicaKey(raft.config.node_id, raft.config.directory_id)
    position = next((place for place, each in enumerate(preferred) if key.matches(each)), len(preferred))
    if position == 0:
        return 0
    if position == len(preferred):
        return longest
    return min(longest, (longest >> (len(preferred) - 1)) << (position - 1))


def on_end_ended(raft: RaftState, turn: NodeTurn, ended: Ended, peer: int) -> None:
    """Take the answer to EndQuorumEpoch."""
    response: EndQuorumEpochResponse | None = ended.response
    if response is None:
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
    if isinstance(role, Resigned) and peer in role.unacknowledged and ended.request.leader_epoch == role.epoch:
        role.unacknowledged.remove(peer)
