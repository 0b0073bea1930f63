"""Trace events of the quorum's members: votes, roles, voters, snapshots, what state machines are handed."""

from __future__ import annotations

from typing import Literal

from actors.trace.event_parts import Kept, TraceEvent, Waited


class QPersist(TraceEvent, frozen=True, tag="q.persist"):
    """A quorum-state file content became durable (recorded when its Sync was reported)."""

    directory_id: str
    epoch: int
    leader_id: int
    voted_for: int


class QVote(TraceEvent, frozen=True, tag="q.vote"):
    """A vote request was decided, by the voter (``candidate`` itself for its own vote). ``epoch``: the voter's;
    ``candidate_epoch``: the one that was asked for, -1 not told."""

    directory_id: str
    epoch: int
    candidate: int
    granted: bool
    pre: bool
    candidate_last_epoch: int
    candidate_end: int
    voter_last_epoch: int
    voter_end: int
    candidate_directory: str = ""
    candidate_epoch: int = -1


class QRole(TraceEvent, frozen=True, tag="q.role"):
    """A member of the quorum changed its role. ``votes``: ids that granted (leader only). ``log_epoch``: epoch of the
    last record of its log, 0 of an empty one, -1 if that was not recorded."""

    directory_id: str
    epoch: int
    role: Literal["unattached", "prospective", "candidate", "leader", "follower", "resigned"]
    leader_id: int
    log_end: int
    votes: list[int] = []
    log_epoch: int = -1


VotersCause = Literal["start", "append", "fetch", "truncate", "snapshot"]


class QVoters(TraceEvent, frozen=True, tag="q.voters"):
    """Another voter set is in force at a member of the quorum; only where kraft.version is 1 (KIP-853).

    offset: of the VotersRecord that holds it, -1 if the directory was formatted with it and no record has it yet; of a
    set that was found in a snapshot the last offset that this stands for. epoch: leader epoch of that record (or of the
    last in the snapshot), 0 with offset -1. leader_epoch: the member's own epoch at this moment. members:
    voter id -> directory id. log_end, high_watermark: of the member's log right after the change. cause: start (found
    on the disk when the incarnation began), append (it leads and wrote the record; of a new epoch's leader it is the
    set in force written down once more, if at all), fetch (copied from the leader), truncate (a newer record was cut
    off), snapshot (loaded from the leader).
    """

    directory_id: str
    offset: int
    epoch: int
    leader_epoch: int
    members: dict[str, str]
    log_end: int
    high_watermark: int
    cause: VotersCause


class QApply(TraceEvent, frozen=True, tag="q.apply"):
    """A member handed committed batches of the metadata log, offsets [start, end), to its state machine. ``ph``: prefix
    hash at ``end``, of what was handed out. ``size``: of these batches in bytes, 0 not told."""

    start: int
    end: int
    ph: int | None = None
    size: int = 0


class QFreeze(TraceEvent, frozen=True, tag="q.freeze"):
    """A member began to write a snapshot up to ``end``, which it makes (create) or has got from its leader (fetch). It
    exists once that is durable (``q.snap``); who stopped following the leader meanwhile gives up what it fetched."""

    op: Literal["create", "fetch"]
    end: int


class QSnap(TraceEvent, frozen=True, tag="q.snap"):
    """What became of a snapshot of the metadata log: of all records below ``end``, of which the last has ``epoch``.

    create: the node made it of what it has applied, and it is durable. fetch: the node has got all of it from its
    leader, it is durable, and the log begins there from now on (``log.start`` comes next). load: the node's state
    machine took up the state in it in place of its own; what it applies next begins at ``end``. delete: its file is
    gone. ``ph``: prefix hash at ``end``, ``digest``: hash over all records below (as in ``meta.image``), both as the
    snapshot carries them. ``leads``: the quorum epoch in which the node is the active leader, -1 none. ``state``: hash
    over the records that are in the snapshot, in any order, 0 not told.
    """

    directory_id: str
    op: Literal["create", "fetch", "load", "delete"]
    end: int
    epoch: int
    ph: int | None = None
    digest: int | None = None
    leads: int = -1
    state: int = 0


class QClean(TraceEvent, frozen=True, tag="q.clean"):
    """A member that has more than one snapshot of the metadata log looks which of them are to go; what goes is told by
    the events that come next (``log.start``, ``q.snap``).

    start, high_watermark: of its log; applied: up to where its state machine has been handed that. now_ms: its wall
    clock. log_size, snapshots_size: of the log, and of all snapshots, in bytes. oldest: of the snapshots, four at most.
    """

    start: int
    high_watermark: int
    applied: int
    now_ms: int
    log_size: int
    snapshots_size: int
    oldest: list[Kept]


class QSnapFetch(TraceEvent, frozen=True, tag="q.snap.fetch"):
    """A leader took note of a voter's FetchSnapshot: like a valid Fetch it keeps the leader in office. ``end``: of the
    snapshot; ``position``: of the first byte asked for, or -1: the voter's Fetch was answered with this snapshot's id,
    which keeps nobody in office."""

    follower: int
    leader_epoch: int
    end: int
    position: int


class QWaited(TraceEvent, frozen=True, tag="q.waited"):
    """A leader answered Fetches of the metadata log that had waited: with what it appended (append), because its high
    watermark moved (commit), or one whose time was over (expired)."""

    by: Literal["append", "commit", "expired"]
    fetches: list[Waited]


class QRefuse(TraceEvent, frozen=True, tag="q.refuse"):
    """A member refuses a request of another one for the quorum epoch that it names, ``asked``."""

    api: str
    asked: int
    error: int


class QEnd(TraceEvent, frozen=True, tag="q.end"):
    """A member takes note of an EndQuorumEpoch: the leader of ``leader_epoch`` has resigned. ``preferred``: who is to
    stand for election, the best first; ``directories``: theirs, "" not told."""

    leader: int
    leader_epoch: int
    preferred: list[int]
    directories: list[str]


class QHeard(TraceEvent, frozen=True, tag="q.heard"):
    """A follower got an answer from the leader that has resigned before, by what it knows (``q.end``): one that was on
    its way. Its fetch time-out begins anew."""

    leader: int
    leader_epoch: int


QuorumEvent = (
    QPersist
    | QVote
    | QRole
    | QVoters
    | QApply
    | QFreeze
    | QSnap
    | QClean
    | QSnapFetch
    | QWaited
    | QRefuse
    | QEnd
    | QHeard
)
