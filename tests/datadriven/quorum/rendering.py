"""One line for each thing that happens in a quorum."""

from __future__ import annotations

from actors.config import LONG_MAX
from actors.node.errors import error_name
from actors.node.messages import AnyMessage
from actors.node.spec import node_name
from actors.trace.events import (
    LogAppend,
    LogFlush,
    LogHw,
    LogStart,
    LogTrunc,
    QPersist,
    QRole,
    QSnap,
    QVote,
    QVoters,
    TraceEvent,
)
from krift.v1.common import LeaderAndEpoch
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    SnapshotId,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoteRequest,
    VoteResponse,
)


def short(name: str) -> str:
    """``c1`` for controller-1, ``b1`` for broker-1."""
    role, _, number = name.partition("-")
    return f"{role[0]}{number}" if number else name


def who(node_id: int) -> str:
    """The short name of a node id; ``none`` for -1."""
    return "none" if node_id < 0 else short(node_name(node_id))


def describe_event(name: str, event: TraceEvent) -> str | None:
    """A line for a trace event; None for those that the messages show already."""
    me = short(name)
    match event:
        case QPersist():
            return f"{me} persist epoch={event.epoch} leader={who(event.leader_id)} voted={who(event.voted_for)}"
        case QVote():
            kind, verdict = "pre-vote" if event.pre else "vote", "granted" if event.granted else "refused"
            return f"{me} {kind} {verdict} to {who(event.candidate)} epoch={event.epoch}"
        case QRole():
            votes = f" votes={','.join(who(vote) for vote in event.votes)}" if event.votes else ""
            return f"{me} role {event.role} epoch={event.epoch} leader={who(event.leader_id)}{votes}"
        case QVoters():
            members = ",".join(f"{who(int(voter))}/{directory}" for voter, directory in event.members.items())
            return f"{me} voters ({members}) at {event.offset} by {event.cause}"
        case LogAppend():
            kind = "control " if event.control else ""
            return f"{me} append {kind}{event.base}-{event.last} epoch={event.batch_epoch}"
        case LogFlush():
            return f"{me} flush end={event.end}"
        case LogTrunc():
            return f"{me} truncate {event.was} to {event.to}"
        case LogStart():
            return f"{me} log starts at {event.new} ({event.reason})"
        case QSnap():
            return f"{me} snapshot {event.op} ({event.end},{event.epoch})"
        case LogHw():
            counted = f" counted={','.join(who(replica) for replica in event.counted)}" if event.counted else ""
            return f"{me} high watermark {event.new}{counted}"
    return None


def describe_message(source: str, target: str, message: AnyMessage) -> str | None:
    """A line for a request or a response; None for version negotiation."""
    text = _request(message) or _response(message)
    return None if text is None else f"{short(source)} -> {short(target)} {text}"


def _request(message: AnyMessage) -> str | None:
    match message:
        case VoteRequest():
            kind = "PreVote" if message.pre_vote else "Vote"
            last = f"({message.last_offset_epoch},{message.last_offset})"
            return f"{kind} v{message.header.api_version} epoch={message.replica_epoch} last={last}"
        case BeginQuorumEpochRequest():
            return f"BeginQuorumEpoch v{message.header.api_version} epoch={message.leader_epoch}"
        case EndQuorumEpochRequest():
            preferred = [info.candidate_id for info in message.preferred_candidates] or message.preferred_successors
            names = ",".join(who(voter) for voter in preferred)
            return f"EndQuorumEpoch v{message.header.api_version} epoch={message.leader_epoch} preferred=({names})"
        case AddRaftVoterRequest():
            ack = "" if message.ack_when_committed else " no-ack"
            return f"AddRaftVoter v{message.header.api_version} {_voter(message)}{ack}"
        case RemoveRaftVoterRequest():
            return f"RemoveRaftVoter v{message.header.api_version} {_voter(message)}"
        case UpdateRaftVoterRequest():
            hosts = ",".join(listener.host for listener in message.listeners)
            return f"UpdateRaftVoter v{message.header.api_version} {_voter(message)} host={hosts}"
        case FetchRequest():
            fetch = message.topics[0].partitions[0]
            wish = f" hw={fetch.high_watermark}" if fetch.high_watermark != LONG_MAX else ""
            where = f"offset={fetch.fetch_offset} last-epoch={fetch.last_fetched_epoch}"
            if fetch.seed_last_fetched_epoch is not None:
                where = f"offset={fetch.fetch_offset} seed-last-epoch={fetch.seed_last_fetched_epoch}"
            return f"Fetch v{message.header.api_version} epoch={fetch.current_leader_epoch} {where}{wish}"
        case FetchSnapshotRequest():
            wanted = _snapshot(message.snapshot_id)
            where = f"epoch={message.current_leader_epoch} snapshot={wanted} position={message.position}"
            return f"FetchSnapshot v{message.header.api_version} {where}"
    return None


def _snapshot(told: SnapshotId | FetchResponse.SnapshotId | None) -> str:
    return "(0,0)" if told is None else f"({told.end_offset},{told.epoch})"


def _voter(message: AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest) -> str:
    return f"{who(message.voter_id)}/{message.voter_directory_id}"


def _error(*codes: int) -> str:
    return "".join(f" {error_name(code)}" for code in codes if code)


def _response(message: AnyMessage) -> str | None:
    match message:
        case VoteResponse():
            error = _error(message.error_code, message.partition_error_code)
            verdict = "granted" if message.vote_granted else "refused"
            return f"=Vote{error or ' ' + verdict} epoch={message.leader_epoch} leader={who(message.leader_id)}"
        case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
            name = type(message).__name__.removesuffix("Response")
            error = _error(message.error_code, message.partition_error_code)
            return f"={name}{error} epoch={message.leader_epoch} leader={who(message.leader_id)}"
        case AddRaftVoterResponse() | RemoveRaftVoterResponse():
            name = type(message).__name__.removesuffix("Response")
            reason = f" ({message.error_message})" if message.error_message else ""
            return f"={name}{_error(message.error_code)}{reason}"
        case UpdateRaftVoterResponse():
            leader = message.current_leader or UpdateRaftVoterResponse.CurrentLeader()
            error = _error(message.error_code)
            where = f" host={leader.host}" if leader.host else ""
            return f"=UpdateRaftVoter{error} epoch={leader.leader_epoch} leader={who(leader.leader_id)}{where}"
        case FetchSnapshotResponse():
            return f"=FetchSnapshot{_fetch_snapshot_response(message)}"
        case FetchResponse():
            return f"=Fetch{_fetch_response(message)}"
    return None


def _fetch_response(message: FetchResponse) -> str:
    if message.error_code or not message.responses:
        return _error(message.error_code)
    data = message.responses[0].partitions[0]
    text = _error(data.error_code)
    leader = data.current_leader or LeaderAndEpoch()
    text += f" epoch={leader.leader_epoch} leader={who(leader.leader_id)} hw={data.high_watermark}"
    if data.diverging_epoch is not None:
        text += f" diverging=({data.diverging_epoch.epoch},{data.diverging_epoch.end_offset})"
    if data.seed_next_fetch_offset is not None:
        text += f" next={data.seed_next_fetch_offset}"
    if data.snapshot_id is not None:
        text += f" snapshot={_snapshot(data.snapshot_id)}"
    if data.records:
        last = data.records[-1]
        text += f" records={data.records[0].base_offset}-{last.base_offset + len(last.records) - 1}"
    return text


def _fetch_snapshot_response(message: FetchSnapshotResponse) -> str:
    if message.error_code:
        return _error(message.error_code)
    leader = message.current_leader or LeaderAndEpoch()
    text = f"{_error(message.partition_error_code)} epoch={leader.leader_epoch} leader={who(leader.leader_id)}"
    if message.partition_error_code:
        return text
    got = _snapshot(message.snapshot_id)
    end = message.position + len(message.unaligned_records)
    return f"{text} snapshot={got} bytes={message.position}-{end} of {message.size}"
