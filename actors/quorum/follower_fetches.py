"""The side of a Fetch between quorum members that asks: a follower's, an observer's, and that of a member which looks
for the leader (``KafkaRaftClient.handleFetchResponse``)."""

from __future__ import annotations

from collections.abc import Collection

from actors.node.errors import KafkaError
from actors.node.fault import FatalFault
from actors.node.messages import Api
from actors.node.network_client import Ended
from actors.node.spec import METADATA_TOPIC, METADATA_TOPIC_ID, node_name
from actors.node.turn import NodeTurn
from actors.quorum import fetch_snapshots
from actors.quorum.divergence import cut_for_diverging_epoch, cut_for_next_offset
from actors.quorum.raft_config import FETCH_MAX_WAIT_MS
from actors.quorum.raft_state import FETCH_CONNECTION, RaftState
from actors.quorum.roles import Follower, Unattached
from actors.quorum.snapshots import SnapshotId
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.records import RecordBatch

SEED_VERSION = 12
"""The version of Fetch that KIP-595 was first proposed for."""
FETCH_BACKOFF = "raft/fetch-backoff"
FETCH_CONNECT = "raft/fetch-connect"
"""Timer that gives up on a drawn bootstrap server to which no connection comes about."""
BOOTSTRAP = "raft/bootstrap"
"""The choice of a random bootstrap server to fetch from."""


def poll(raft: RaftState, turn: NodeTurn, role: Follower | Unattached) -> None:
    """Send the next Fetch, if the last has ended and all that it brought is durable."""
    if raft.fetch_backoff or _is_fetching(raft):
        return
    unsynced = bool(raft.flushes) and "fetch-before-sync" not in turn.step.defects
    replacing = any(freezing.op == "fetch" for freezing in raft.snapshots.freezing)
    if unsynced or replacing:
        return
    leader = role.leader_id
    if isinstance(role, Follower) and not role.timed_out and turn.net.usable(node_name(leader), FETCH_CONNECTION):
        if turn.net.ready(turn.step, node_name(leader), FETCH_CONNECTION):
            _send_to_leader(raft, turn, role)
        return
    _poll_bootstrap(raft, turn)


def _send_to_leader(raft: RaftState, turn: NodeTurn, role: Follower) -> None:
    """Fetch on from the leader: its log, or the snapshot that it named in this epoch."""
    download = raft.snapshots.download
    if download is None or download.epoch != role.epoch:
        _send(raft, turn, role.leader_id)
    elif not fetch_snapshots.send(raft, turn, download, role.leader_id):
        _back_off(raft, turn)


def _is_fetching(raft: RaftState) -> bool:
    """Whether the Fetch in flight is one of the present term; one of an earlier term is no reason to wait."""
    return raft.fetch is not None and raft.fetch.term == raft.quorum.term


def _poll_bootstrap(raft: RaftState, turn: NodeTurn) -> None:
    """Fetch from a random bootstrap server: whoever it is will tell who leads."""
    if raft.bootstrap:
        return
    target = raft.fetch_target
    if target >= 0 and turn.net.usable(node_name(target), FETCH_CONNECTION):
        if turn.net.ready(turn.step, node_name(target), FETCH_CONNECTION):
            _send(raft, turn, target)
        return
    raft.fetch_target = -1
    usable = [
        server
        for server in raft.config.bootstrap
        if server != raft.config.node_id and turn.net.usable(node_name(server), FETCH_CONNECTION)
    ]
    if usable:
        raft.bootstrap = usable
        turn.step.choose(BOOTSTRAP, len(usable))


def on_bootstrap_chosen(raft: RaftState, turn: NodeTurn, value: int) -> None:
    """A bootstrap server was drawn."""
    raft.fetch_target = raft.bootstrap[value]
    raft.bootstrap = []
    turn.step.set_timer(FETCH_CONNECT, raft.config.request_timeout_ms)


def _send(raft: RaftState, turn: NodeTurn, peer: int) -> None:
    raft.fetch_target = -1
    version = turn.net.version(node_name(peer), FETCH_CONNECTION, Api.Fetch)
    if version is None:
        _back_off(raft, turn)
        return
    seed = raft.config.divergence == "seed" and version >= SEED_VERSION
    if seed:
        version = SEED_VERSION
    last_epoch = raft.quorum.epoch if "fetch-in-leader-epoch" in turn.step.defects else raft.last_epoch
    request = _fetch_request(raft, version, last_epoch, seed, turn.step.defects)
    raft.fetch_from(turn, peer, "fetch", request, version)


def _fetch_request(
    raft: RaftState, version: int, last_epoch: int, seed: bool, defects: Collection[str]
) -> FetchRequest:
    request = FetchRequest(max_wait_ms=FETCH_MAX_WAIT_MS, max_bytes=raft.config.fetch_max_bytes)
    partition = FetchRequest.FetchPartition(fetch_offset=raft.log.end_offset)
    topic = FetchRequest.FetchTopic()
    request.topics.append(topic)
    if version >= 9:
        partition.current_leader_epoch = raft.quorum.epoch
    if seed:
        request.seed_cluster_id = raft.config.cluster_id
        partition.seed_last_fetched_epoch = last_epoch
    elif version >= 12:
        request.cluster_id = raft.config.cluster_id
        partition.last_fetched_epoch = last_epoch
    if version >= 13:
        topic.topic_id = METADATA_TOPIC_ID
    else:
        topic.topic = METADATA_TOPIC
    if version >= 15:
        request.replica_state = FetchRequest.ReplicaState(replica_id=raft.config.node_id)
    else:
        request.replica_id = raft.config.node_id
    if version >= 17:
        partition.replica_directory_id = raft.config.directory_id
    if version >= 18:
        knows_all = "fetch-names-log-end" in defects
        partition.high_watermark = (raft.log.end_offset if knows_all else raft.log.high_watermark) or -1
    topic.partitions.append(partition)
    return request


def on_fetch_snapshot_ended(raft: RaftState, turn: NodeTurn, ended: Ended) -> None:
    """Take the end of the FetchSnapshot in flight."""
    if not fetch_snapshots.on_fetch_snapshot_ended(raft, turn, ended):
        _back_off(raft, turn)


def on_fetch_ended(raft: RaftState, turn: NodeTurn, ended: Ended) -> None:
    """Take the end of the Fetch in flight; the end of one that was given up is ignored."""
    fetch = raft.fetch_ended(ended)
    if fetch is None:
        return
    response: FetchResponse | None = ended.response
    if response is None:
        _back_off(raft, turn)
        return
    if response.error_code or not response.responses or not response.responses[0].partitions:
        _back_off(raft, turn)
        return
    data = response.responses[0].partitions[0]
    told = data.current_leader
    epoch, leader_id = (fetch.epoch, -1) if told is None else (told.leader_epoch, told.leader_id)
    known = (raft.quorum.epoch, raft.quorum.leader_id)
    error = KafkaError.NONE if data.seed_next_fetch_offset is not None else data.error_code
    if raft.learn_from_response(turn, error, epoch, leader_id, response.node_endpoints):
        if known == (raft.quorum.epoch, raft.quorum.leader_id):
            _back_off(raft, turn)
        return
    role = raft.quorum.role
    # What arrives together with the news of a leader is fetched again, once the role it belongs to is durable.
    if raft.quorum.waiting or not isinstance(role, Follower) or fetch.offset != raft.log.end_offset:
        return
    _take(raft, turn, role, data)


def _take(raft: RaftState, turn: NodeTurn, role: Follower, data: FetchResponse.PartitionData) -> None:
    """Take over what the leader sent: where to cut the log, a snapshot's name, or batches and the high watermark."""
    diverging, snapshot = data.diverging_epoch, data.snapshot_id
    if diverging is not None:
        _truncate(raft, turn, cut_for_diverging_epoch(raft.log, diverging.epoch, diverging.end_offset))
    elif data.seed_next_fetch_offset is not None:
        _truncate(raft, turn, cut_for_next_offset(raft.log, data.seed_next_fetch_offset))
    elif snapshot is not None and max(snapshot.end_offset, snapshot.epoch) >= 0:
        if min(snapshot.end_offset, snapshot.epoch) < 0:  # that is no snapshot's name
            _back_off(raft, turn)
            return
        fetch_snapshots.begin(raft, role, SnapshotId(snapshot.end_offset, snapshot.epoch))
    else:
        batches = list(data.records)
        if not _joins(raft, batches):
            batches = []
            _back_off(raft, turn)
        appended = raft.log.append_as_follower(turn.step, turn.files, batches, role.epoch)
        if appended:
            for batch in raft.log.batches[-appended:]:
                raft.take_control_batch(turn, batch, "fetch")
            raft.flush(turn)
        new = raft.log.boundary_at_or_below(min(data.high_watermark, raft.log.end_offset))
        if new > raft.log.high_watermark:
            raft.log.set_high_watermark(turn.step, "follower", role.epoch, new, [])
    raft.heard_from_leader(turn, role)


def _joins(raft: RaftState, batches: list[RecordBatch]) -> bool:
    """Whether what the leader sent goes on where the log ends. A batch that begins below means that the logs differ,
    and that nobody looked: it is not taken, and this member comes no further."""
    return raft.config.divergence != "off" or not batches or batches[0].base_offset == raft.log.end_offset


def _truncate(raft: RaftState, turn: NodeTurn, offset: int) -> None:
    """Cut the log back towards the leader's; several rounds may be needed. Raises FatalFault if committed records would
    be cut (``KafkaRaftLog.truncateToEndOffset``)."""
    committed = raft.log.high_watermark
    if offset < committed:
        raise FatalFault(f"asked to cut the metadata log at {offset}, below its high watermark {committed}")
    raft.truncate(turn, offset)


def on_connect_timeout(raft: RaftState) -> None:
    """No connection to the drawn bootstrap server came about: draw again."""
    raft.fetch_target = -1


def _back_off(raft: RaftState, turn: NodeTurn) -> None:
    raft.fetch_backoff = True
    turn.step.set_timer(FETCH_BACKOFF, raft.config.retry_backoff_ms)
