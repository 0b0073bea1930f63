"""The typed events of the trace: one per state change or protocol decision.

A node emits the body (a ``TraceEvent``); its runtime adds the envelope (``Stamped``). ``tp`` is a topic
partition ("orders-0", the metadata log is "__cluster_metadata-0"). Offsets named ``end``, ``new`` and ``to``
are exclusive ends. ``ph`` is the prefix hash at such a boundary (``actors.log.prefix_hash``).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from actors.trace.event_parts import Polled as Polled
from actors.trace.event_parts import ReplyPartition as ReplyPartition


class TraceEvent(msgspec.Struct, frozen=True, tag_field="type", gc=False):
    """Base of all bodies; the tag is the event's type. ``gc=False``, here and elsewhere: a run makes millions of these,
    they can be in no reference cycle, and the collector need not look at them."""


# ---- run and runtime -------------------------------------------------------------------------------------


class RunMeta(TraceEvent, frozen=True, tag="run.meta"):
    """First event of a run, by the driver ("driver" is the node's name). ``profile``: features, config and
    versions as resolved, whole cluster."""

    scenario: str
    variant: str
    runtime: Literal["live", "sim"]
    seed: int
    nodes: list[str]
    profile: dict[str, Any]


class RunEnd(TraceEvent, frozen=True, tag="run.end"):
    """Last event of a run: for each "node/incarnation" the last sequence number it is known to have written,
    or -1 where the incarnation was killed and nobody can say."""

    final_seq: dict[str, int]


class RunRepeat(TraceEvent, frozen=True, tag="run.repeat"):
    """A run was carried out again: digests of the two traces. In no trace: it is made where traces are compared."""

    first: str
    second: str


class CtlFault(TraceEvent, frozen=True, tag="ctl.fault"):
    """The injector started or stopped a fault. ``targets`` are node names after selection."""

    fault: str
    kind: str
    phase: Literal["start", "stop"]
    targets: list[str]
    parameters: dict[str, Any]


class CtlWindow(TraceEvent, frozen=True, tag="ctl.window"):
    """A stability window opens or closes. While one is open the members of ``core`` are up, run, and reach one another,
    nothing is done to them, and who is not in it is silent: stopped, or cut off from everybody."""

    window: str
    phase: Literal["open", "close"]
    core: list[str]


class CtlPhase(TraceEvent, frozen=True, tag="ctl.phase"):
    """The run entered a phase (``chaos.conductor``): starting, warming, chaos (its beginning is time 0 of the
    scenario), healing, stopping, draining, finished. ``detail``: of a run that was given up how it ended and why ("did
    not converge: healing: ..."), else empty."""

    phase: str
    detail: str = ""


class LinkRuleChange(TraceEvent, frozen=True, tag="link.rule"):
    """The runtime that enforces a link rule installed or removed it. ``held``: messages that it has held back, slowed
    down or hit so far."""

    rule: str
    kind: Literal["hold", "delay", "drop", "duplicate", "reorder"]
    phase: Literal["start", "stop"]
    sources: list[str]
    targets: list[str]
    held: int


class LinkHit(TraceEvent, frozen=True, tag="link.hit"):
    """A link rule broke a connection, by whoever enforces the rule. ``number``: of the request on the connection that
    is lost, or whose answer is (``lost``); neither arrives, ever, nor does anything behind it. A request whose answer
    is lost is served, unless its server ends first."""

    rule: str
    kind: Literal["drop", "duplicate"]
    connection: str
    number: int
    api: str
    lost: Literal["request", "reply"]


class DiskRuleChange(TraceEvent, frozen=True, tag="disk.rule"):
    """The runtime of a node installed a disk rule, or removed it: Syncs take between ``delay_min_us`` and
    ``delay_max_us`` longer. ``synced``: Syncs that this incarnation has asked for under it so far."""

    rule: str
    phase: Literal["start", "stop"]
    delay_min_us: int
    delay_max_us: int
    synced: int


class ClockSet(TraceEvent, frozen=True, tag="clock.set"):
    """A fault made the clock of a node's machine wrong, or no longer does, by the node's runtime. What follows is the
    sum of all faults in force. offset_us: of the wall clock to the monotonic one that ``step`` is given. rate_ppm: how
    much too fast both run. Events are stamped with the true time, always."""

    fault: str
    phase: Literal["start", "stop"]
    offset_us: int
    rate_ppm: int


class NodeUp(TraceEvent, frozen=True, tag="node.up"):
    """An incarnation begins. ``wiped``: it came back with an empty disk; ``clean``: after a clean shutdown;
    ``torn``: files whose torn tail was dropped."""

    role: str
    node_id: int
    directory_id: str
    wiped: bool
    clean: bool
    torn: int = 0


class NodeDown(TraceEvent, frozen=True, tag="node.down"):
    """An incarnation ended. Written at collection for a killed one, one tick after its last event.
    mode: clean (it shut itself down), crash (process killed), lossy (something of its disk is gone, too), bug (it
    raised an exception: ``detail``), end (the run ended). ``lost``: tp -> first lost offset (lossy only).
    ``overdue``: its calls ("connection#number") that were open beyond their time-out then, as far as its runtime
    can say (end)."""

    mode: Literal["clean", "crash", "lossy", "bug", "end"]
    detail: str = ""
    lost: dict[str, int] = {}
    overdue: list[str] = []


class Tick(TraceEvent, frozen=True, tag="tick"):
    """Once a second, by every runtime: it is alive and its clock has come this far."""


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
    """A vote request was decided, by the voter (``candidate`` itself for its own vote)."""

    directory_id: str
    epoch: int
    candidate: int
    granted: bool
    pre: bool
    candidate_last_epoch: int
    candidate_end: int
    voter_last_epoch: int
    voter_end: int


class QRole(TraceEvent, frozen=True, tag="q.role"):
    """A member of the quorum changed its role. ``votes``: ids that granted (leader only)."""

    directory_id: str
    epoch: int
    role: Literal["unattached", "prospective", "candidate", "leader", "follower", "resigned"]
    leader_id: int
    log_end: int
    votes: list[int] = []


class QVoters(TraceEvent, frozen=True, tag="q.voters"):
    """Another voter set is in force at a member of the quorum; only where kraft.version is 1 (KIP-853).

    offset: of the VotersRecord that holds it, -1 if the directory was formatted with it and no record has it yet.
    epoch: leader epoch of that record, 0 with offset -1. leader_epoch: the member's own epoch at this moment. members:
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
    cause: Literal["start", "append", "fetch", "truncate", "snapshot"]


class QApply(TraceEvent, frozen=True, tag="q.apply"):
    """A member handed committed batches of the metadata log, offsets [start, end), to its state machine. ``ph``: prefix
    hash at ``end``, of what was handed out."""

    start: int
    end: int
    ph: int


# ---- logs ------------------------------------------------------------------------------------------------


class LogAppend(TraceEvent, frozen=True, tag="log.append"):
    """A batch was appended to a replica. ``batch_epoch``: leader epoch of the batch; ``leader_epoch``: epoch in
    which this replica appends it. ``ph``: prefix hash at ``last`` + 1. ``uids``: of the records, in order."""

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
    factor at most. ``asked``: an operator asked for it (ElectLeaders)."""

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


class IsrPropose(TraceEvent, frozen=True, tag="isr.propose"):
    """A leader asked for an ISR (outcome "proposed"), or learned what became of its proposal (an error name, or
    "accepted"). ``members``: id -> broker epoch as the leader knows it."""

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


# ---- clients ---------------------------------------------------------------------------------------------


class MetaView(TraceEvent, frozen=True, tag="meta.view"):
    """A client got a Metadata answer (or a leader hint): the leader epoch per partition that differs from what
    it had; ``accepted``: tps it took over."""

    server: str
    epochs: dict[str, int]
    accepted: list[str]


class OpInvoke(TraceEvent, frozen=True, tag="op.invoke"):
    """An application began an operation. ``op`` is unique in the run.
    send: ``uid``, "<session>:<n>" with n rising in the order in which a producing session sends, ``acks``, and
    ``digest`` of the payload (``actors.log.batch.payload_digest``); poll: ``offset``, ``isolation``; list:
    ``timestamp``, ``isolation``, ``version``, ``replica_id`` (-1: as a client; else as that broker, which is told the
    log end instead of what clients see).
    admin: ``admin`` has the operation (elect-leaders, alter-config, describe-quorum) under "call", and its arguments;
    ``tp`` is empty."""

    op: str
    kind: Literal["send", "poll", "list", "admin"]
    tp: str
    uid: str = ""
    acks: int = 0
    idempotent: bool = False
    offset: int = -1
    timestamp: int = 0
    isolation: int = 0
    version: int = -1
    replica_id: int = -1
    admin: dict[str, Any] = {}
    digest: int = 0


class OpReturn(TraceEvent, frozen=True, tag="op.return"):
    """An operation returned to the application. outcome: ok; fail (definitely did not happen); unknown.
    send: ``offset`` (no Produce answer tells the leader epoch in which it was given; its ``rpc.reply`` does); poll:
    ``records`` and ``leader_epoch`` (as asked for and checked by the leader, -1 unknown); list: ``offset``,
    ``leader_epoch`` (epoch of the replica that answered, carried in the trace even where the wire's version has no
    field for it). ``broker``: who answered. ``version`` and ``correlation_id``: of the answer to a send or list.
    ``error``: code of the last error, 0 none.
    admin: ``admin`` has the operation under "call" and, where it was answered, under "results" an error name by
    topic partition or resource; of describe-quorum what it was told."""

    op: str
    kind: Literal["send", "poll", "list", "admin"]
    tp: str
    outcome: Literal["ok", "fail", "unknown"]
    error: int = 0
    uid: str = ""
    acks: int = 0
    idempotent: bool = False
    offset: int = -1
    leader_epoch: int = -1
    broker: str = ""
    timestamp: int = 0
    isolation: int = 0
    version: int = -1
    correlation_id: int = -1
    records: list[Polled] = []
    admin: dict[str, Any] = {}


class ConsPos(TraceEvent, frozen=True, tag="cons.pos"):
    """A consumer's position moved other than by delivering. reason: assign, seek, reset, truncation."""

    tp: str
    old: int
    new: int
    epoch: int
    reason: Literal["assign", "seek", "reset", "truncation"]


class ErrorSeen(TraceEvent, frozen=True, tag="client.error"):
    """A client met a retriable error of an API and goes on; ``tp`` empty for errors of a whole request."""

    tp: str
    api: str
    version: int
    error: int
    broker: str


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
    | RpcReply
    | QPersist
    | QVote
    | QRole
    | QVoters
    | QApply
    | LogAppend
    | LogFlush
    | LogTrunc
    | LogHw
    | PartChange
    | ConfigChange
    | PartAssume
    | IsrPropose
    | RepFetch
    | BrokerReg
    | MetaImage
    | MetaView
    | OpInvoke
    | OpReturn
    | ConsPos
    | ErrorSeen
)

EVENT_TYPES: dict[str, type[TraceEvent]] = {
    str(kind.__struct_config__.tag): kind for kind in TraceEvent.__subclasses__()
}
"""Type name -> class, in the order of this file."""


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
