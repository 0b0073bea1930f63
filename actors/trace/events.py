"""The typed events of the trace: one per state change or protocol decision.

A node emits the body (a ``TraceEvent``); its runtime adds the envelope (``Stamped``). ``tp`` is a topic
partition ("orders-0", the metadata log is "__cluster_metadata-0"). Offsets named ``end``, ``new`` and ``to``
are exclusive ends. ``ph`` is the prefix hash at such a boundary (``actors.log.prefix_hash``).
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from actors.trace.client_events import (
    OP_RETURNS as OP_RETURNS,
    AdminInvoke as AdminInvoke,
    AdminReturn as AdminReturn,
    ClientEvent,
    ConsPos as ConsPos,
    ErrorSeen as ErrorSeen,
    ListInvoke as ListInvoke,
    ListReturn as ListReturn,
    MetaView as MetaView,
    OpInvoke as OpInvoke,
    OpReturn as OpReturn,
    Outcome as Outcome,
    PollInvoke as PollInvoke,
    PollReturn as PollReturn,
    SendInvoke as SendInvoke,
    SendReturn as SendReturn,
)
from actors.trace.event_parts import Polled as Polled, ReplyPartition as ReplyPartition
from actors.trace.run_events import (
    ClockSet as ClockSet,
    CtlFault as CtlFault,
    CtlPhase as CtlPhase,
    CtlWindow as CtlWindow,
    DiskRuleChange as DiskRuleChange,
    LinkHit as LinkHit,
    LinkRuleChange as LinkRuleChange,
    NodeDown as NodeDown,
    NodeUp as NodeUp,
    RunEnd as RunEnd,
    RunMeta as RunMeta,
    RunRepeat as RunRepeat,
    Tick as Tick,
    TraceEvent as TraceEvent,
)

# ---- RPCs ------------------------------------------------------------------------------------------------


class Rpc(TraceEvent, frozen=True, tag="rpc"):
    """One exchange, by the caller, at its end. ``errors``: all error codes in the answer except NONE. ``timeout_ms``:
    what it was given; ``took_ms``: how long it took, by the caller's own clock."""

    api: str
    version: int
    dst: str
    connection: str
    correlation_id: int
    outcome: Literal["answered", "disconnect", "timeout"]
    errors: list[int]
    timeout_ms: int = 0
    took_ms: int = 0


class RpcQuiet(TraceEvent, frozen=True, tag="rpc.quiet"):
    """So many Fetches of this node were answered without an error and with nothing new, within one second of its own
    time; they are in the trace in no other way. ``beyond``: told again of a consumer's Fetches of which the position in
    this partition was beyond the high watermark that it was told last."""

    count: int
    beyond: str = ""


class RpcReply(TraceEvent, frozen=True, tag="rpc.reply"):
    """A server's answer to Produce or ListOffsets, by the server, before it leaves. ``replica_id``: as in the
    request (-1 client). ``acks``: Produce only, else 0."""

    api: str
    version: int
    src: str
    connection: str
    correlation_id: int
    replica_id: int
    isolation: int
    acks: int
    partitions: list[ReplyPartition]


# ---- quorum ----------------------------------------------------------------------------------------------


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
    """A member of the quorum changed its role. ``votes``: ids that granted (leader only)."""

    directory_id: str
    epoch: int
    role: Literal["unattached", "prospective", "candidate", "leader", "follower", "resigned"]
    leader_id: int
    log_end: int
    votes: list[int] = []


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
    hash at ``end``, of what was handed out."""

    start: int
    end: int
    ph: int


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
    ph: int
    digest: int
    leads: int = -1
    state: int = 0


class QSnapFetch(TraceEvent, frozen=True, tag="q.snap.fetch"):
    """A leader took note of a voter's FetchSnapshot: like a valid Fetch it keeps the leader in office. ``end``: of the
    snapshot; ``position``: of the first byte asked for, or -1: the voter's Fetch was answered with this snapshot's id,
    which keeps nobody in office."""

    follower: int
    leader_epoch: int
    end: int
    position: int


# ---- logs ------------------------------------------------------------------------------------------------


class LogAppend(TraceEvent, frozen=True, tag="log.append"):
    """A batch was appended to a replica. ``batch_epoch``: leader epoch of the batch; ``leader_epoch``: epoch in
    which this replica appends it. ``ph``: prefix hash at ``last`` + 1. ``uids``: of the records, in order;
    ``timestamps``: likewise, by the leader alone, and not of the metadata log."""

    tp: str
    role: Literal["leader", "follower"]
    base: int
    last: int
    batch_epoch: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    control: bool
    ph: int
    uids: list[str]
    timestamps: list[int] = []


class LogFlush(TraceEvent, frozen=True, tag="log.flush"):
    """Everything below ``end`` of this replica survives power loss."""

    tp: str
    end: int


class LogTrunc(TraceEvent, frozen=True, tag="log.trunc"):
    """A replica cut its log from ``was`` to ``to``. ``ph``: prefix hash at ``to``."""

    tp: str
    was: int
    to: int
    reason: Literal["diverge", "high-watermark", "out-of-range", "recovery"]
    leader_epoch: int
    ph: int


class LogStart(TraceEvent, frozen=True, tag="log.start"):
    """A replica's log begins at ``new`` from now on. snapshot: a snapshot that ends there took the place of the whole
    log, which is empty now; retention: what a snapshot that ends there stands for was dropped. ``ph``: prefix hash at
    ``new``; ``epoch``: of the last record below it."""

    tp: str
    new: int
    reason: Literal["snapshot", "retention"]
    ph: int
    epoch: int


class LogHw(TraceEvent, frozen=True, tag="log.hw"):
    """A replica's high watermark changed. ``counted``: replica ids whose log ends the leader took the minimum
    (or the majority) of. ``log_end``, ``log_start``: of this replica, at this moment."""

    tp: str
    role: Literal["leader", "follower"]
    leader_epoch: int
    new: int
    ph: int
    log_end: int
    log_start: int
    counted: list[int] = []


# ---- partitions ------------------------------------------------------------------------------------------


class PartChange(TraceEvent, frozen=True, tag="part.change"):
    """The active controller's log got a new state of a partition, at ``offset`` of the metadata log (recorded
    when it is appended; it may still be lost with that controller).
    cause: create, elect, unclean, alter-isr, fence, unfence, controlled-shutdown, preferred, config.
    ``elr``, ``last_known_elr``: the eligible leader replicas and the last known leader (KIP-966), both empty while
    the feature is off. ``min_isr``: least ISR that the controller judges by at this offset, the topic's replication
    factor at most. ``asked``: an operator asked for it (ElectLeaders). ``members`` (alter-isr): broker id -> broker
    epoch by which the leader's request knew it, -1 where the request names none (KIP-903)."""

    tp: str
    offset: int
    quorum_epoch: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: list[int]
    replicas: list[int]
    cause: str
    elr: list[int] = []
    last_known_elr: list[int] = []
    min_isr: int = 1
    asked: bool = False
    members: dict[str, int] = {}


class ConfigChange(TraceEvent, frozen=True, tag="config.change"):
    """The active controller's log got a new value of a dynamic configuration key, at ``offset`` of the metadata log.
    ``resource``: "topic/orders", "broker/1", or "broker/" for the default of all brokers. ``value``: as text, None
    if the key is no longer set. What topics start with in their scenario comes this way too."""

    offset: int
    quorum_epoch: int
    resource: str
    key: str
    value: str | None


class PartAssume(TraceEvent, frozen=True, tag="part.assume"):
    """A broker took up a role for a partition. ``log_end``: its LEO; ``leader_epoch_start``: LEO with which it
    became leader of this leader epoch (-1 follower); ``ph``: prefix hash at ``log_end``."""

    tp: str
    role: Literal["leader", "follower"]
    leader: int
    leader_epoch: int
    partition_epoch: int
    log_end: int
    leader_epoch_start: int
    high_watermark: int
    ph: int
    metadata_offset: int


OVERTAKEN = "overtaken"
"""Outcome of a proposal that its leader has given up while it was on its way, and does not know of in the end."""


class IsrPropose(TraceEvent, frozen=True, tag="isr.propose"):
    """A leader asked for an ISR (outcome "proposed"; the same number once more: it sends it again), or learned what
    became of its proposal (an error name, or "accepted"), or gave it up while it was on its way ("overtaken": the
    metadata log brought another state; that it brought the one asked for is told by nothing but ``part.change``).
    ``members``: id -> broker epoch as the leader knew it when it made the proposal."""

    tp: str
    proposal: int
    leader_epoch: int
    partition_epoch: int
    isr: list[int]
    members: dict[str, int]
    high_watermark: int
    leader_epoch_start: int
    outcome: str


class RepFetch(TraceEvent, frozen=True, tag="rep.fetch"):
    """A leader took note of a follower's fetch: when the position that it holds for the follower changes, and when a
    fetch diverges or is refused. Of the metadata log: each valid fetch of a voter, for it keeps the leader in office,
    and each that diverges; there is no broker epoch then (-1)."""

    tp: str
    follower: int
    leader_epoch: int
    follower_epoch: int
    broker_epoch: int
    offset: int
    last_fetched_epoch: int
    diverging_epoch: int = -1
    diverging_end: int = -1
    error: int = 0


class RepTruncate(TraceEvent, frozen=True, tag="rep.truncate"):
    """A follower of ``leader_epoch`` has acted on what its leader told it of where their logs part, whether or not that
    cut anything (``log.trunc`` came before, if so). diverge: the leader named the epoch ``told_epoch`` that ends at
    ``told_end``; high-watermark: it named none (-1, -1), or nobody was asked; out-of-range: ``told_end`` is the end of
    its log. ``was``, ``to``: the follower's log end before and after; ``epoch``: the newest leader epoch that it goes
    on with, -1 none."""

    tp: str
    reason: Literal["diverge", "high-watermark", "out-of-range"]
    leader_epoch: int
    told_epoch: int
    told_end: int
    was: int
    to: int
    epoch: int


class FetchTold(TraceEvent, frozen=True, tag="fetch.told"):
    """What a broker told a Fetch about a partition, where that needs a reason: an error, to a consumer; or ``late``, to
    anybody whose Fetch has waited until its time was over, and could be told this before: records, an error, a
    divergence, or nothing to one whose position is beyond what it may read.

    ``replica_id``: -1 consumer. ``offset``, ``asked_epoch``, ``last_epoch``: as in the request. leads: whether the
    broker believes to; ``leader_epoch``, ``high_watermark``, ``log_start``, ``log_end``: of its replica."""

    tp: str
    replica_id: int
    offset: int
    asked_epoch: int
    last_epoch: int
    error: int
    late: bool
    leads: bool
    leader_epoch: int
    high_watermark: int
    log_start: int
    log_end: int


class EpochTold(TraceEvent, frozen=True, tag="epoch.told"):
    """A broker answered OffsetForLeaderEpoch about a partition without an error: ``epoch`` ends at ``end`` in its log,
    (-1, -1) where it cannot tell. ``replica_id``: as in the request (-1 client). ``asked_epoch``: that was asked for.
    ``leader_epoch``: of the broker; ``current_leader_epoch``: in which it was asked, -1 any."""

    tp: str
    replica_id: int
    leader_epoch: int
    current_leader_epoch: int
    asked_epoch: int
    epoch: int
    end: int


class BrokerReg(TraceEvent, frozen=True, tag="broker.reg"):
    """The active controller's view of a broker's registration changed, at ``offset`` of the metadata log."""

    broker: int
    broker_epoch: int
    incarnation: str
    fenced: bool
    shutting_down: bool
    unclean: bool
    offset: int


class MetaImage(TraceEvent, frozen=True, tag="meta.image"):
    """A broker applied the metadata log up to (exclusive) ``offset``. Recorded when something but a no-op was
    in it. ``digest``: hash over all records below ``offset``."""

    offset: int
    digest: int


AnyTraceEvent = (
    RunMeta
    | RunEnd
    | RunRepeat
    | CtlFault
    | CtlWindow
    | CtlPhase
    | LinkRuleChange
    | LinkHit
    | DiskRuleChange
    | ClockSet
    | NodeUp
    | NodeDown
    | Tick
    | Rpc
    | RpcQuiet
    | RpcReply
    | QPersist
    | QVote
    | QRole
    | QVoters
    | QApply
    | QSnap
    | QSnapFetch
    | LogAppend
    | LogFlush
    | LogTrunc
    | LogStart
    | LogHw
    | PartChange
    | ConfigChange
    | PartAssume
    | IsrPropose
    | RepFetch
    | RepTruncate
    | FetchTold
    | EpochTold
    | BrokerReg
    | MetaImage
    | ClientEvent
)

EVENT_TYPES: dict[str, type[TraceEvent]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyTraceEvent)}
"""Type name -> class, in the order of ``AnyTraceEvent``."""


class Stamped(msgspec.Struct, frozen=True, gc=False):
    """An event with its envelope: one row of the trace.

    run: run id. node, incarnation, seq: identify the event. wall (microseconds since the epoch, or since the
    start of a sim run) and logical: hybrid logical clock. cause: id of the last event of the node whose message
    triggered this step, or "". req: "connection#number" of the request that this step serves or whose
    answer it handles, or "". body: the event.
    """

    run: str
    node: str
    incarnation: int
    seq: int
    wall: int
    logical: int
    cause: str
    req: str
    body: AnyTraceEvent

    @property
    def id(self) -> str:
        """``node/incarnation/seq``."""
        return f"{self.node}/{self.incarnation}/{self.seq}"

    @property
    def type(self) -> str:
        """Type name of the body."""
        return str(self.body.__struct_config__.tag)

    @property
    def tp(self) -> str:
        """The topic partition the event is about, or ""."""
        return getattr(self.body, "tp", "")

    @property
    def order(self) -> tuple[int, int, str, int, int]:
        """The total order of the trace: happened-before implies it."""
        return (self.wall, self.logical, self.node, self.incarnation, self.seq)
