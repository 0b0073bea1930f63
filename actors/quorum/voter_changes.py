"""Changes of the voter set, at the leader: AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (KIP-853;
``AddVoterHandler.java``, ``RemoveVoterHandler.java``, ``UpdateVoterHandler.java``).

One at a time: a change begins when the one before is committed, and when this leader has committed something of its own
epoch, so that no other leader's change can turn up behind it. So two sets that follow each other differ by one voter,
and every majority of the one shares a voter with every majority of the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.node.error_responses import error_response
from actors.node.errors import KafkaError
from actors.node.messages import Api, request_version
from actors.node.network_client import NetworkClient
from actors.node.spec import node_name
from actors.node.turn import NodeTurn
from actors.quorum import leader_fetches, leadership
from actors.quorum.control_records import BOOTSTRAP_OFFSET
from actors.quorum.raft_config import DIRECTORY_VERSIONS
from actors.quorum.raft_state import CONNECTION, RaftState, VoterChange
from actors.quorum.roles import Leader, ReplicaProgress
from actors.quorum.snapshots import read_snapshot
from actors.quorum.voter_set import ReplicaKey, VoterNode, VoterSet, voter_node
from krift.v1.common import NodeEndpoint
from krift.v1.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from krift.v1.records import ControlRecord

VOTER_CHANGE = "raft/voter-change"
"""Timer that ends the wait for a change to be committed."""

CAUGHT_UP_WITHIN_MS = 3_600_000
"""A replica that was caught up once, whenever that was, and fetched within this time can become a voter."""

ACK_WHEN_COMMITTED_VERSION = 1
"""First version of AddRaftVoter that can do without the commit."""


class Refused(Exception):
    """A request that is answered with an error, and why."""

    def __init__(self, error: KafkaError, reason: str) -> None:
        super().__init__(reason)
        self.error, self.reason = error, reason


def load(raft: RaftState, turn: NodeTurn) -> None:
    """At the start: the voters are static, or what the log says; below that, what the snapshot says at which the log
    begins, or what the directory was formatted with."""
    config, records = raft.config, raft.quorum.records
    if config.kraft_version == 0:
        records.static_voters = config.voters
        return
    base = raft.log.base.offset
    stored = [each for each in raft.snapshots.stored if each.id.end == base]
    if stored:
        records.load_snapshot(read_snapshot(stored[0].content))
    elif config.voters.ids:
        records.load(BOOTSTRAP_OFFSET, 0, config.voters, config.kraft_version)
    for batch in raft.log.batches if "logged-voters-unread" not in turn.step.defects else ():
        records.append(batch)
    if records.voter_sets:
        raft.record_voters(turn, "start")


# ---- requests ----------------------------------------------------------------------------------------------


def on_add_request(raft: RaftState, turn: NodeTurn, connection: str, request: AddRaftVoterRequest) -> None:
    """Begin to add a voter. Whether it can become one shows when a connection to it is there (``poll``)."""
    try:
        role = _leader(raft, turn, Api.AddRaftVoter, request)
        key = _key(request)
        _host(request.listeners, key.id)
        voters = _changeable(raft, turn, role)
        if voters.is_voter(key.id):
            raise Refused(KafkaError.DUPLICATE_VOTER, f"{key.id} is a voter already")
    except Refused as refused:
        response = AddRaftVoterResponse(error_code=refused.error, error_message=refused.reason)
        raft.answer(turn, connection, request, response)
        return
    _begin(raft, turn, VoterChange(connection, request, key))


def on_remove_request(raft: RaftState, turn: NodeTurn, connection: str, request: RemoveRaftVoterRequest) -> None:
    """Remove a voter, be it this leader."""
    try:
        role = _leader(raft, turn, Api.RemoveRaftVoter, request)
        key = _key(request)
        voters = _changeable(raft, turn, role).remove_voter(key)
        if voters is None:
            raise Refused(KafkaError.VOTER_NOT_FOUND, f"{key} is no voter, or the only one")
    except Refused as refused:
        response = RemoveRaftVoterResponse(error_code=refused.error, error_message=refused.reason)
        raft.answer(turn, connection, request, response)
        return
    change = VoterChange(connection, request, key)
    _begin(raft, turn, change)
    change.offset = _append(raft, turn, role, voters)


def on_update_request(raft: RaftState, turn: NodeTurn, connection: str, request: UpdateRaftVoterRequest) -> None:
    """Take over what a voter says of itself. The answer does not wait for the commit, and always tells who leads and
    where that one listens."""
    error = KafkaError.NONE
    try:
        role = _leader(raft, turn, Api.UpdateRaftVoter, request, request.current_leader_epoch)
        key = _key(request)
        voters = _changeable(raft, turn, role)
        supported = (request.min_supported_k_raft_version, request.max_supported_k_raft_version)
        node = VoterNode(key.directory_id, *supported, _host(request.listeners, key.id))
        level = raft.quorum.records.kraft_version
        if not node.min_kraft_version <= level <= node.max_kraft_version:
            raise Refused(KafkaError.INVALID_REQUEST, f"it does not support kraft.version {level}")
        updated = voters.update_voter(key.id, node)
        if updated is None:
            raise Refused(KafkaError.VOTER_NOT_FOUND, f"{key} is no voter")
        _append(raft, turn, role, updated)
    except Refused as refused:
        error = refused.error
    leader = UpdateRaftVoterResponse.CurrentLeader(leader_id=raft.quorum.leader_id, leader_epoch=raft.quorum.epoch)
    for known in raft.leader_endpoints():
        leader.host, leader.port = known.host, known.port
    raft.answer(turn, connection, request, UpdateRaftVoterResponse(error_code=error, current_leader=leader))


Request = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest


def _leader(raft: RaftState, turn: NodeTurn, api: Api, request: Request, epoch: int | None = None) -> Leader:
    """This leader's role. Raises Refused if it is none, or not in ``epoch``, or must not answer at all."""
    refusal = raft.refusal(turn, api, request)
    if refusal:
        raise Refused(refusal, "")
    # The switch epoch-check is for fetches: a change of the voters is never made for another epoch.
    error = raft.leader_error(turn, api, raft.quorum.epoch if epoch is None else epoch, checks_epoch=True)
    if error:
        raise Refused(error, "")
    role = raft.quorum.role
    assert isinstance(role, Leader)
    return role


def _key(request: Request) -> ReplicaKey:
    if request.voter_id < 0 or not request.voter_directory_id:
        raise Refused(KafkaError.INVALID_REQUEST, "the request names no voter with its directory")
    return ReplicaKey(request.voter_id, request.voter_directory_id)


def _host(listeners: Iterable[NodeEndpoint], voter: int) -> str:
    """Where a voter says that it listens."""
    hosts = [each.host for each in listeners if each.node_id == voter and each.host]
    if not hosts:
        raise Refused(KafkaError.INVALID_REQUEST, "the request does not say where the voter listens")
    return hosts[0]


def _changeable(raft: RaftState, turn: NodeTurn, role: Leader) -> VoterSet:
    """The voters, if they may be changed now; Kafka's order."""
    waits = "voter-changes-overlap" not in turn.step.defects
    if raft.voter_change is not None and waits:
        raise Refused(KafkaError.REQUEST_TIMED_OUT, "another change of the voters is under way")
    if not role.high_watermark_known:
        raise Refused(KafkaError.REQUEST_TIMED_OUT, "nothing of this epoch is committed yet")
    level, entry = raft.quorum.records.kraft_version, raft.quorum.records.last_voters
    if level < 1:
        raise Refused(KafkaError.UNSUPPORTED_VERSION, f"kraft.version is {level}")
    if entry is None or (entry.offset >= raft.log.high_watermark and waits):
        raise Refused(KafkaError.REQUEST_TIMED_OUT, "the last change of the voters is not committed yet")
    return entry.voters


# ---- on its way --------------------------------------------------------------------------------------------


def _begin(raft: RaftState, turn: NodeTurn, change: VoterChange) -> None:
    raft.voter_change = change
    turn.step.set_timer(VOTER_CHANGE, raft.config.request_timeout_ms)


def poll(raft: RaftState, turn: NodeTurn, role: Leader) -> None:
    """Go on with a voter that is to be added, as soon as it says what it supports."""
    change = raft.voter_change
    if change is None or change.offset >= 0:
        return
    name = node_name(change.voter.id)
    if not turn.net.usable(name, CONNECTION):
        _end(raft, turn, KafkaError.REQUEST_TIMED_OUT, "the new voter cannot be reached")
        return
    if not turn.net.ready(turn.step, name, CONNECTION):
        return
    level = raft.quorum.records.kraft_version
    if not supports_reconfiguration(turn.net, name):
        _end(raft, turn, KafkaError.INVALID_REQUEST, f"the new voter does not support kraft.version {level}")
        return
    known = role.observers.get(str(change.voter))
    if not _is_caught_up(turn.step.wall_ms, known) and "voters-unread" not in turn.step.defects:
        _end(raft, turn, KafkaError.REQUEST_TIMED_OUT, "the new voter is lagging behind")
        return
    request = change.request
    assert isinstance(request, AddRaftVoterRequest)
    host = _host(request.listeners, change.voter.id)
    node = voter_node(change.voter.directory_id, host)
    voters = raft.voters.add_voter(change.voter.id, node)
    if voters is None:
        raise AssertionError(f"{change.voter} became a voter while it was being added")
    change.offset = _append(raft, turn, role, voters)
    if not _waits_for_commit(request):
        _answer(raft, turn, change, KafkaError.NONE, "")


def _is_caught_up(now_ms: int, known: ReplicaProgress | None) -> bool:
    """Whether a replica can become a voter (``LeaderState.isReplicaCaughtUp``)."""
    if known is None or known.last_caught_up_ms < 0 or known.last_fetch_ms < 0:
        return False
    return known.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS


def supports_reconfiguration(net: NetworkClient, name: str) -> bool:
    """Whether a connected peer can be a voter at kraft.version 1: whether it speaks of directories."""
    spoken = {api: net.version(name, CONNECTION, api) for api in DIRECTORY_VERSIONS}
    return all((spoken[api] or 0) >= least for api, least in DIRECTORY_VERSIONS.items())


def _append(raft: RaftState, turn: NodeTurn, role: Leader, voters: VoterSet) -> int:
    """Write the new voters, behind everything that was accepted before; they are in force at once."""
    leadership.drain(raft, turn, role)
    offset = raft.append_control(turn, role.epoch, [ControlRecord(voters=voters.to_record())])
    leader_fetches.on_append(raft, turn)
    return offset


def _waits_for_commit(request: AddRaftVoterRequest) -> bool:
    return request_version(request) < ACK_WHEN_COMMITTED_VERSION or request.ack_when_committed


def advance(raft: RaftState, turn: NodeTurn, role: Leader) -> None:
    """The high watermark may have moved: a change that it has passed is over. A leader that removed itself goes then,
    but in Kafka only while the removal waits for that (``RemoveVoterHandler.highWatermarkUpdated``; finding
    removed-leader-zombie)."""
    change = raft.voter_change
    reached = raft.log.end_offset if "voters-before-commit" in turn.step.defects else raft.log.high_watermark
    done = change is not None and 0 <= change.offset < reached
    if done:
        _end(raft, turn, KafkaError.NONE, "")
    goes = raft.config.removed_resigns or (done and change is not None and _is_removal(change))
    if goes and _is_removed(raft, role) and "removed-leader-stays" not in turn.step.defects:
        raft.quorum.transition_to_resigned(turn.step, raft.log_end)


def _is_removal(change: VoterChange) -> bool:
    return isinstance(change.request, RemoveRaftVoterRequest)


def _is_removed(raft: RaftState, role: Leader) -> bool:
    """Whether it is committed that this leader is no voter any more."""
    entry = raft.quorum.records.last_voters
    if entry is None or raft.is_voter or not role.high_watermark_known:
        return False
    return entry.offset < raft.log.high_watermark


def on_timeout(raft: RaftState, turn: NodeTurn) -> None:
    """The wait is over; what was appended stays, and may be committed yet."""
    if raft.voter_change is not None:
        _end(raft, turn, KafkaError.REQUEST_TIMED_OUT, "")


def abandon(raft: RaftState, turn: NodeTurn) -> None:
    """The leadership is over, and with it what this node knows of the change."""
    if raft.voter_change is not None:
        _end(raft, turn, KafkaError.NOT_LEADER_OR_FOLLOWER, "")


def on_disconnected(raft: RaftState, connection: str) -> None:
    """Nobody waits for the answer any more; the change goes on."""
    if raft.voter_change is not None and raft.voter_change.connection == connection:
        raft.voter_change.connection = ""


def _end(raft: RaftState, turn: NodeTurn, error: KafkaError, reason: str) -> None:
    change, raft.voter_change = raft.voter_change, None
    turn.step.cancel_timer(VOTER_CHANGE)
    if change is not None:
        _answer(raft, turn, change, error, reason)


def _answer(raft: RaftState, turn: NodeTurn, change: VoterChange, error: KafkaError, reason: str) -> None:
    connection, change.connection = change.connection, ""
    if connection:
        response = error_response(change.request, error)
        response.error_message = reason
        raft.answer(turn, connection, change.request, response)
