"""The leader's side of a Fetch between quorum members: check, park, answer (``KafkaRaftClient.handleFetchRequest``)."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.node.errors import KafkaError
from actors.node.messages import Api, request_version
from actors.node.purgatory import NEVER_MS
from actors.node.spec import METADATA_TOPIC, METADATA_TOPIC_ID
from actors.node.turn import NodeTurn
from actors.quorum.divergence import diverging_epoch, epoch_end_offset
from actors.quorum.leadership import update_high_watermark
from actors.quorum.raft_state import DelayedFetch, RaftState
from actors.quorum.roles import Leader
from actors.quorum.snapshots import SnapshotId
from actors.quorum.voter_set import ReplicaKey
from actors.trace.events import QSnapFetch, QWaited, RepFetch, Waited
from krift.v1.common import LeaderAndEpoch
from krift.v1.fetch import FetchRequest, FetchResponse

NODE_ENDPOINTS_VERSION = 17
"""First version of Fetch in which members of a quorum tell where the leader listens."""

NO_REPLICA = -1
"""Id of whoever fetches and is no replica."""

PARKED = "raft/parked/"
"""Prefix of the timers that end the parking of a Fetch: ``raft/parked/<connection>``."""


class FetchAnswer(msgspec.Struct, frozen=True):
    """What a Fetch deserves at this moment. valid: it fits this leader's log. diverging: (epoch, end offset).
    snapshot: what is to be fetched in place of the log."""

    error: KafkaError = KafkaError.NONE
    valid: bool = False
    diverging: tuple[int, int] | None = None
    snapshot: SnapshotId | None = None


def on_fetch_request(raft: RaftState, turn: NodeTurn, connection: str, request: FetchRequest) -> None:
    """Answer a Fetch of the metadata log, now or later."""
    version = request_version(request)
    refusal = raft.refusal(turn, Api.Fetch, request)
    if refusal:
        _refuse(raft, turn, connection, request, refusal)
        return
    if not is_metadata_fetch(request):
        _refuse(raft, turn, connection, request, KafkaError.INVALID_REQUEST)
        return
    answer = _validate(raft, turn, request)
    replica = _replica(request, version)
    if "diverging-epoch-start" in turn.step.defects and answer.diverging is not None:
        answer = FetchAnswer(diverging=(answer.diverging[0], epoch_end_offset(raft.log, answer.diverging[0] - 1)[1]))
    if answer.valid or answer.diverging is not None:
        _record_fetch(raft, turn, request, replica, answer)
    elif answer.snapshot is not None and raft.voters.has(replica):
        turn.step.record(QSnapFetch(replica.id, raft.quorum.epoch, answer.snapshot.end, -1))
    if answer.valid:
        _note_progress(raft, turn, request, replica)
    response = _response(raft, request, answer)
    if _is_due(raft, turn, request, answer):
        raft.answer(turn, connection, request, response)
        return
    raft.purgatory.park(turn.step, DelayedFetch(connection, NEVER_MS, request, response, raft.quorum.epoch))
    turn.step.set_timer(f"{PARKED}{connection}", request.max_wait_ms)


def is_metadata_fetch(request: FetchRequest) -> bool:
    """Whether a Fetch is for the one partition of the metadata log."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return False
    topic = request.topics[0]
    return topic.topic_id == METADATA_TOPIC_ID or topic.topic == METADATA_TOPIC


def last_fetched_epoch(fetch: FetchRequest.FetchPartition) -> int:
    """Epoch of the fetcher's last record, in whichever form it was given."""
    seed = fetch.seed_last_fetched_epoch
    return fetch.last_fetched_epoch if seed is None else max(fetch.last_fetched_epoch, seed)


def expire(raft: RaftState, turn: NodeTurn, connection: str) -> None:
    """A Fetch has waited as long as it may: it gets what there was when it came, whoever leads by now."""
    delayed = raft.purgatory.remove(connection)
    if delayed is not None:
        turn.step.record(QWaited("expired", [_waited(delayed)]))
        raft.answer(turn, connection, delayed.request, delayed.response)


def on_append(raft: RaftState, turn: NodeTurn) -> None:
    """Records were appended: answer every parked Fetch with what there is now."""
    if "append-wakes-nobody" not in turn.step.defects:
        _complete_all(raft, turn, "append")


def on_commit(raft: RaftState, turn: NodeTurn) -> None:
    """The high watermark moved: likewise."""
    if "commit-wakes-nobody" not in turn.step.defects:
        _complete_all(raft, turn, "commit")


def _complete_all(raft: RaftState, turn: NodeTurn, by: Literal["append", "commit"]) -> None:
    delayed = _take_all(raft, turn)
    if delayed:
        turn.step.record(QWaited(by, [_waited(each) for each in delayed]))
    for each in delayed:
        response = _response(raft, each.request, _validate(raft, turn, each.request))
        raft.answer(turn, each.connection, each.request, response)


def _waited(delayed: DelayedFetch) -> Waited:
    """What the trace is told of a Fetch that has waited."""
    request = delayed.request
    fetch, first = request.topics[0].partitions[0], delayed.response.responses[0].partitions[0]
    last = first.records[-1] if first.records else None
    end = fetch.fetch_offset if last is None else last.base_offset + len(last.records)
    follower = _replica(request, request_version(request)).id
    return Waited(follower, delayed.epoch, fetch.fetch_offset, fetch.high_watermark, end, first.high_watermark)


def refuse_all(raft: RaftState, turn: NodeTurn) -> None:
    """This node has resigned, or follows another leader: nobody waits here any longer. Where the leadership ends
    without either, by the Vote of a later epoch, what is parked stays so until it expires or a leader is known
    (``KafkaRaftClient.transitionToResigned``, ``onBecomeFollower``, ``transitionToUnattached``)."""
    for each in _take_all(raft, turn):
        response = _response(raft, each.request, FetchAnswer(KafkaError.NOT_LEADER_OR_FOLLOWER))
        raft.answer(turn, each.connection, each.request, response)


def _take_all(raft: RaftState, turn: NodeTurn) -> list[DelayedFetch]:
    delayed = raft.purgatory.take_all()
    for each in delayed:
        turn.step.cancel_timer(f"{PARKED}{each.connection}")
    return delayed


def _validate(raft: RaftState, turn: NodeTurn, request: FetchRequest) -> FetchAnswer:
    """Check a Fetch in Kafka's order."""
    fetch = request.topics[0].partitions[0]
    last_epoch = last_fetched_epoch(fetch)
    if request.max_wait_ms < 0 or fetch.fetch_offset < 0 or not 0 <= last_epoch <= fetch.current_leader_epoch:
        return FetchAnswer(KafkaError.INVALID_REQUEST)
    epoch = raft.quorum.epoch if "quorum-fetch-unfenced" in turn.step.defects else fetch.current_leader_epoch
    error = raft.leader_error(turn, Api.Fetch, epoch, raft.config.check_epoch)
    if error:
        return FetchAnswer(error)
    latest = raft.snapshots.latest
    if latest is not None and _needs_snapshot(raft, fetch.fetch_offset, last_epoch):
        return FetchAnswer(snapshot=latest)
    looks = raft.config.divergence != "off" and "divergence-unseen" not in turn.step.defects
    diverging = diverging_epoch(raft.log, fetch.fetch_offset, last_epoch) if looks else None
    return FetchAnswer(valid=diverging is None, diverging=diverging)


def _needs_snapshot(raft: RaftState, offset: int, epoch: int) -> bool:
    """Whether a replica whose log ends at ``offset`` with ``epoch`` is told to fetch a snapshot: where the log does not
    go back so far, or not to that epoch (``RaftLog.validateOffsetAndEpoch``). An empty one always is; that is
    faster."""
    earliest, start = raft.snapshots.earliest, raft.log.start_offset
    assert earliest is not None
    if offset == 0 or offset < start:
        return True
    parts = epoch < earliest.epoch or (offset == start and epoch != earliest.epoch)
    return parts and raft.config.divergence != "off"


def _replica(request: FetchRequest, version: int) -> ReplicaKey:
    """Who fetches; its directory is "" below version 17."""
    replica_id = request.replica_id
    if version >= 15:
        replica_id = NO_REPLICA if request.replica_state is None else request.replica_state.replica_id
    return ReplicaKey(replica_id, request.topics[0].partitions[0].replica_directory_id)


def _record_fetch(
    raft: RaftState, turn: NodeTurn, request: FetchRequest, replica: ReplicaKey, answer: FetchAnswer
) -> None:
    """Put a fetch into the trace, unless it is one of an observer's that all is well with."""
    if answer.diverging is None and not raft.voters.has(replica):
        return
    fetch = request.topics[0].partitions[0]
    diverging = (-1, -1) if answer.diverging is None else answer.diverging
    asked = (fetch.current_leader_epoch, -1, fetch.fetch_offset, fetch.last_fetched_epoch)
    turn.step.record(RepFetch(raft.log.tp, replica.id, raft.quorum.epoch, *asked, *diverging))


def _note_progress(raft: RaftState, turn: NodeTurn, request: FetchRequest, replica: ReplicaKey) -> None:
    """A valid Fetch says how far the replica's log goes, and that it is alive."""
    role = raft.quorum.role
    if not isinstance(role, Leader) or replica.id < 0 or replica.id == raft.config.node_id:
        return
    offset, leader_end = request.topics[0].partitions[0].fetch_offset, raft.log.end_offset
    progress = role.progress(raft.voters, replica)
    if offset >= leader_end:
        progress.last_caught_up_ms = turn.step.wall_ms
    elif offset >= progress.leader_end_at_last_fetch >= 0:
        progress.last_caught_up_ms = progress.last_fetch_ms
    progress.end_offset = leader_end if "leader-counts-sent" in turn.step.defects else offset
    progress.last_fetch_ms = turn.step.wall_ms
    progress.leader_end_at_last_fetch = leader_end
    if not raft.voters.has(replica):
        if "check-quorum-counts-observers" in turn.step.defects:
            count_for_check_quorum(raft, turn, role, replica.id)
        return
    if replica.id in role.begin_due:
        role.begin_due.remove(replica.id)
    count_for_check_quorum(raft, turn, role, replica.id)
    if update_high_watermark(raft, turn, role, replica.id):
        on_commit(raft, turn)


def count_for_check_quorum(raft: RaftState, turn: NodeTurn, role: Leader, replica_id: int) -> None:
    """A voter has fetched: a majority that does lets the leader go on."""
    if replica_id not in role.fetched:
        role.fetched.append(replica_id)
    mine = 1 if raft.is_voter else 0
    if len(role.fetched) >= raft.voters.majority - mine:
        role.fetched = []
        raft.quorum.start_check_quorum(turn.step)


def _is_due(raft: RaftState, turn: NodeTurn, request: FetchRequest, answer: FetchAnswer) -> bool:
    """Whether the answer is to be given at once."""
    if not answer.valid or request.max_wait_ms == 0:
        return True
    if "fetch-waits-anyway" in turn.step.defects:
        return False
    fetch = request.topics[0].partitions[0]
    return fetch.fetch_offset < raft.log.end_offset or fetch.high_watermark < _known_high_watermark(raft)


def _known_high_watermark(raft: RaftState) -> int:
    """The leader's high watermark, -1 before its rule held for the first time."""
    role = raft.quorum.role
    return raft.log.high_watermark if isinstance(role, Leader) and role.high_watermark_known else -1


def _response(raft: RaftState, request: FetchRequest, answer: FetchAnswer) -> FetchResponse:
    version = request_version(request)
    data = FetchResponse.PartitionData(error_code=answer.error, high_watermark=_known_high_watermark(raft))
    if version >= 5:
        data.log_start_offset = raft.log.start_offset
    if version >= 12:
        data.current_leader = LeaderAndEpoch(leader_id=raft.quorum.leader_id, leader_epoch=raft.quorum.epoch)
        if answer.diverging is not None and request.topics[0].partitions[0].seed_last_fetched_epoch is not None:
            data.error_code, data.seed_next_fetch_offset = KafkaError.OFFSET_OUT_OF_RANGE, answer.diverging[1]
        elif answer.diverging is not None:
            epoch, end_offset = answer.diverging
            data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end_offset)
        if answer.snapshot is not None:
            snapshot_id = FetchResponse.SnapshotId(end_offset=answer.snapshot.end, epoch=answer.snapshot.epoch)
            data.snapshot_id = snapshot_id
    if answer.valid:
        fetch = request.topics[0].partitions[0]
        batches = raft.log.read(
            fetch.fetch_offset, raft.log.end_offset, min(request.max_bytes, raft.config.fetch_max_bytes)
        )
        data.records = [batch.to_message() for batch in batches]
    topic = FetchResponse.FetchableTopicResponse(partitions=[data])
    if version >= 13:
        topic.topic_id = METADATA_TOPIC_ID
    else:
        topic.topic = METADATA_TOPIC
    response = FetchResponse(responses=[topic])
    if version >= NODE_ENDPOINTS_VERSION:
        response.node_endpoints.extend(raft.leader_endpoints())
    return response


def _refuse(raft: RaftState, turn: NodeTurn, connection: str, request: FetchRequest, error: KafkaError) -> None:
    """Answer with an error of the whole request; a version without a place for it gets an empty answer."""
    response = FetchResponse()
    if request_version(request) >= 7:
        response.error_code = error
    raft.answer(turn, connection, request, response)
