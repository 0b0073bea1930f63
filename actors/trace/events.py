"""The typed events of the trace: one per state change or protocol decision. Each family has a module; this is the door
to them, and the registry.

A node emits the body (a ``TraceEvent``); its runtime adds the envelope (``Stamped``). ``tp`` is a topic
partition ("orders-0", the metadata log is "__cluster_metadata-0"; of a topic that was created after another one of its
name was deleted "orders-0@<topic id>"). Offsets named ``end``, ``new`` and ``to``
are exclusive ends.

Ghost data is what no rule of the protocol reads, and only Krift's own nodes can tell: ``ph``, the prefix hash at such a
boundary (``actors.log.batch``), and ``digest``. It is None in traces from elsewhere; an invariant that needs it is then
inconclusive (``Invariant.ghost``).
"""

from __future__ import annotations

from typing import get_args

import msgspec

from actors.trace.broker_events import (
    OVERTAKEN as OVERTAKEN,
    BrokerEvent,
    EpochTold as EpochTold,
    FetchRefused as FetchRefused,
    FetchTold as FetchTold,
    IsrLate as IsrLate,
    IsrPropose as IsrPropose,
    MetaImage as MetaImage,
    MetaState as MetaState,
    PartAssume as PartAssume,
    PartStop as PartStop,
    RepFetch as RepFetch,
    RepTruncate as RepTruncate,
)
from actors.trace.client_events import (
    ACKS_ALL as ACKS_ALL,
    OP_RETURNS as OP_RETURNS,
    AdminInvoke as AdminInvoke,
    AdminReturn as AdminReturn,
    BeginInvoke as BeginInvoke,
    BeginReturn as BeginReturn,
    ClientEvent,
    CommitInvoke as CommitInvoke,
    CommitReturn as CommitReturn,
    CommittedInvoke as CommittedInvoke,
    CommittedReturn as CommittedReturn,
    ConsPos as ConsPos,
    EndInvoke as EndInvoke,
    EndReturn as EndReturn,
    ErrorSeen as ErrorSeen,
    InitInvoke as InitInvoke,
    InitReturn as InitReturn,
    ListInvoke as ListInvoke,
    ListReturn as ListReturn,
    MetaView as MetaView,
    MetaWait as MetaWait,
    OpInvoke as OpInvoke,
    OpReturn as OpReturn,
    Outcome as Outcome,
    PollInvoke as PollInvoke,
    PollReturn as PollReturn,
    SendInvoke as SendInvoke,
    SendOffsetsInvoke as SendOffsetsInvoke,
    SendOffsetsReturn as SendOffsetsReturn,
    SendReturn as SendReturn,
)
from actors.trace.controller_events import (
    BrokerReg as BrokerReg,
    ConfigChange as ConfigChange,
    ControllerEvent,
    MetaMint as MetaMint,
    PartChange as PartChange,
    PartRemove as PartRemove,
)
from actors.trace.coordinator_events import CoordinatorEvent, CoordRefuse as CoordRefuse
from actors.trace.event_parts import (
    Kept as Kept,
    Lag as Lag,
    Polled as Polled,
    ReplyPartition as ReplyPartition,
    TraceEvent as TraceEvent,
    Waited as Waited,
)
from actors.trace.group_events import (
    GROUP_EXPIRED as GROUP_EXPIRED,
    MEMBERS_LEFT as MEMBERS_LEFT,
    NO_ENTRY as NO_ENTRY,
    REBALANCE_TIMEOUT as REBALANCE_TIMEOUT,
    ConsClose as ConsClose,
    ConsOwn as ConsOwn,
    ConsStall as ConsStall,
    Entry as Entry,
    GroupEvent,
    GrpCommit as GrpCommit,
    GrpFetch as GrpFetch,
    GrpGen as GrpGen,
    GrpLoad as GrpLoad,
    GrpOut as GrpOut,
)
from actors.trace.log_events import (
    LogAppend as LogAppend,
    LogDrop as LogDrop,
    LogEvent,
    LogFlush as LogFlush,
    LogHw as LogHw,
    LogLocalStart as LogLocalStart,
    LogRoll as LogRoll,
    LogStart as LogStart,
    LogTrunc as LogTrunc,
)
from actors.trace.quorum_events import (
    QApply as QApply,
    QClean as QClean,
    QEnd as QEnd,
    QFreeze as QFreeze,
    QHeard as QHeard,
    QPersist as QPersist,
    QRefuse as QRefuse,
    QRole as QRole,
    QSnap as QSnap,
    QSnapFetch as QSnapFetch,
    QuorumEvent,
    QVote as QVote,
    QVoters as QVoters,
    QWaited as QWaited,
    VotersCause as VotersCause,
)
from actors.trace.reader_events import (
    ReaderEvent,
    ReaderTaskPhase as ReaderTaskPhase,
    RemoteFetchEnd as RemoteFetchEnd,
    TierTask as TierTask,
)
from actors.trace.rpc_events import (
    DELETE_UP_TO_HIGH_WATERMARK as DELETE_UP_TO_HIGH_WATERMARK,
    DeletionPhase as DeletionPhase,
    FetchMisfit as FetchMisfit,
    RecordsDelete as RecordsDelete,
    RequestHandled as RequestHandled,
    RequestPath as RequestPath,
    Rpc as Rpc,
    RpcEvent,
    RpcPark as RpcPark,
    RpcQuiet as RpcQuiet,
    RpcReply as RpcReply,
)
from actors.trace.run_events import (
    BUSY_MACHINE as BUSY_MACHINE,
    DRIVER as DRIVER,
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
    RunEvent,
    RunMeta as RunMeta,
    RunRepeat as RunRepeat,
    Stall as Stall,
    StoreRuleChange as StoreRuleChange,
    Tick as Tick,
)
from actors.trace.tier_events import (
    StoreObject as StoreObject,
    TierEvent,
    TierPhase as TierPhase,
    TierSegment as TierSegment,
)
from actors.trace.transaction_events import (
    TransactionEvent,
    TransactionStateName as TransactionStateName,
    TxnAdded as TxnAdded,
    TxnGuard as TxnGuard,
    TxnLoad as TxnLoad,
    TxnLoaded as TxnLoaded,
    TxnMarkers as TxnMarkers,
    TxnState as TxnState,
    TxnTakenBack as TxnTakenBack,
    TxnVerify as TxnVerify,
)

AnyTraceEvent = (
    RunEvent
    | RpcEvent
    | QuorumEvent
    | LogEvent
    | ControllerEvent
    | BrokerEvent
    | ReaderEvent
    | GroupEvent
    | TransactionEvent
    | CoordinatorEvent
    | TierEvent
    | ClientEvent
)
"""The registry."""

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
