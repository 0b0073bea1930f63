"""FetchSnapshot, both sides: a leader hands out a snapshot piece by piece, and a follower whose log ends before the
leader's begins puts it in the place of its log (``KafkaRaftClient.handleFetchSnapshotRequest``)."""

from __future__ import annotations

from actors.node.errors import KafkaError
from actors.node.fault import FatalFault
from actors.node.messages import Api, request_version
from actors.node.network_client import Ended
from actors.node.spec import METADATA_TOPIC, node_name
from actors.node.turn import NodeTurn
from actors.quorum import snapshotting
from actors.quorum.leader_fetches import count_for_check_quorum
from actors.quorum.raft_state import FETCH_CONNECTION, RaftState
from actors.quorum.roles import Follower, Leader
from actors.quorum.snapshots import Download, SnapshotId, StoredSnapshot
from actors.quorum.voter_set import ReplicaKey
from actors.trace.events import QSnapFetch
from krift.v1.common import LeaderAndEpoch
from krift.v1.quorum import FetchSnapshotRequest, FetchSnapshotResponse, SnapshotId as WireSnapshotId

# ---- the leader's side -------------------------------------------------------------------------------------


def on_fetch_snapshot_request(raft: RaftState, turn: NodeTurn, connection: str, request: FetchSnapshotRequest) -> None:
    """Answer with a piece of a snapshot."""
    refusal = raft.refusal(turn, Api.FetchSnapshot, request)
    if refusal:
        raft.answer(turn, connection, request, FetchSnapshotResponse(error_code=refusal))
        return
    response = _piece(raft, turn, request)
    response.current_leader = LeaderAndEpoch(leader_id=raft.quorum.leader_id, leader_epoch=raft.quorum.epoch)
    if request_version(request) >= 1:
        response.node_endpoints.extend(raft.leader_endpoints())
    role = raft.quorum.role
    if isinstance(role, Leader) and not response.partition_error_code:
        key = ReplicaKey(request.replica_id, request.replica_directory_id)
        if raft.voters.has(key) and key.id != raft.config.node_id:
            turn.step.record(QSnapFetch(key.id, role.epoch, _id(request.snapshot_id).end, request.position))
            count_for_check_quorum(raft, turn, role, key.id)
    raft.answer(turn, connection, request, response)


def _piece(raft: RaftState, turn: NodeTurn, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Check a request in Kafka's order."""
    if request.topic != METADATA_TOPIC or request.partition != 0:
        return FetchSnapshotResponse(partition_error_code=KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
    error = raft.leader_error(turn, Api.FetchSnapshot, request.current_leader_epoch, raft.config.check_epoch)
    if error:
        return FetchSnapshotResponse(partition_error_code=error)
    wanted = _id(request.snapshot_id)
    stored = raft.snapshots.find(wanted)
    if stored is None or not stored.id.end:
        # The one with which a quorum is formatted ends at 0; what it holds gets into the log by the first leader.
        return FetchSnapshotResponse(partition_error_code=KafkaError.SNAPSHOT_NOT_FOUND)
    position, size = request.position, len(stored.content)
    if not 0 <= position < size:
        return FetchSnapshotResponse(partition_error_code=KafkaError.POSITION_OUT_OF_RANGE)
    return FetchSnapshotResponse(
        snapshot_id=_wire_id(wanted),
        size=size,
        position=position,
        unaligned_records=stored.content[position : position + request.max_bytes],
    )


def _id(told: WireSnapshotId | None) -> SnapshotId:
    return SnapshotId(0, 0) if told is None else SnapshotId(told.end_offset, told.epoch)


def _wire_id(snapshot_id: SnapshotId) -> WireSnapshotId:
    return WireSnapshotId(end_offset=snapshot_id.end, epoch=snapshot_id.epoch)


# ---- the follower's side -----------------------------------------------------------------------------------


def begin(raft: RaftState, role: Follower, snapshot_id: SnapshotId) -> None:
    """The leader answered a Fetch with a snapshot: fetch that, from its beginning unless it is under way."""
    under_way = raft.snapshots.download
    if raft.snapshots.find(snapshot_id) is not None:
        return
    if under_way is None or under_way.id != snapshot_id or under_way.epoch != role.epoch:
        raft.snapshots.download = Download(snapshot_id, role.epoch)


def send(raft: RaftState, turn: NodeTurn, download: Download, leader: int) -> bool:
    """Ask the leader for the next piece; False if it does not speak FetchSnapshot."""
    version = turn.net.version(node_name(leader), FETCH_CONNECTION, Api.FetchSnapshot)
    if version is None:
        return False
    request = FetchSnapshotRequest(
        cluster_id=raft.config.cluster_id,
        replica_id=raft.config.node_id,
        max_bytes=raft.config.fetch_snapshot_max_bytes,
        topic=METADATA_TOPIC,
        current_leader_epoch=raft.quorum.epoch,
        snapshot_id=_wire_id(download.id),
        position=len(download.content),
    )
    if version >= 1:
        request.replica_directory_id = raft.config.directory_id
    raft.fetch_from(turn, leader, "snapshot", request, version)
    return True


def on_fetch_snapshot_ended(raft: RaftState, turn: NodeTurn, ended: Ended) -> bool:
    """Take the end of the FetchSnapshot in flight; False if the follower should pause before it goes on."""
    if raft.fetch_ended(ended) is None:
        return True
    response: FetchSnapshotResponse | None = ended.response
    if response is None or response.error_code:
        return False
    error, leader = response.partition_error_code, response.current_leader or LeaderAndEpoch()
    of_snapshots = error in (KafkaError.SNAPSHOT_NOT_FOUND, KafkaError.POSITION_OUT_OF_RANGE)
    known = (raft.quorum.epoch, raft.quorum.leader_id)
    common = KafkaError.NONE if of_snapshots else error
    if raft.learn_from_response(turn, common, leader.leader_epoch, leader.leader_id, response.node_endpoints):
        return known != (raft.quorum.epoch, raft.quorum.leader_id)
    role, download = raft.quorum.role, raft.snapshots.download
    if raft.quorum.waiting or not isinstance(role, Follower) or download is None or download.epoch != role.epoch:
        return True
    told = _id(response.snapshot_id)
    if error == KafkaError.SNAPSHOT_NOT_FOUND or min(told.end, told.epoch) < 0:
        # The leader has deleted it, and has a newer one: its answer to the next Fetch tells.
        raft.snapshots.download = None
    elif error:
        return False  # nobody expects that
    else:
        _take(raft, turn, download, response)
    raft.heard_from_leader(turn, role)
    return True


def _take(raft: RaftState, turn: NodeTurn, download: Download, response: FetchSnapshotResponse) -> None:
    """Take over a piece. Raises FatalFault for one of another snapshot, or of another place in it."""
    got, at = _id(response.snapshot_id), len(download.content)
    if got != download.id or response.position != at:
        raise FatalFault(f"got bytes {response.position}- of snapshot {got.file}, not {at}- of {download.id.file}")
    download.content += response.unaligned_records
    if len(download.content) == response.size:
        raft.snapshots.download = None
        snapshotting.freeze(raft, turn, StoredSnapshot(download.id, download.content), "fetch")
