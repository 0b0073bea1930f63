"""Trace events of clients: what their applications asked for and were told, and what they learned on the way.

An operation is two events of its kind, ``OpInvoke`` and ``OpReturn``; each kind has a body of its own.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from actors.trace.event_parts import Polled, TraceEvent
from actors.trace.group_events import Entry

OpKind = Literal["send", "poll", "list", "admin", "commit", "committed", "init", "begin", "send-offsets", "end"]
"""What applications ask clients for: to send a record, to poll a partition, to list an offset, to administer, to commit
positions of a group, to look up its committed positions; to initialize transactions, to begin one, to send positions to
it, to end it."""
CommitHow = Literal["auto", "sync", "async"]
"""By whom positions are committed: by the consumer itself (enable.auto.commit), or by its application, which waits or
does not."""
Outcome = Literal["ok", "fail", "unknown"]
"""fail: it has definitely not happened."""


class OpInvoke(TraceEvent, frozen=True):
    """Base: an application began an operation. ``op`` is unique in the run."""

    kind: ClassVar[OpKind]
    op: str


ACKS_ALL = -1
"""acks=all, in ``SendInvoke.acks`` and wherever else acks are a number."""


class SendInvoke(OpInvoke, frozen=True, tag="send.invoke"):
    """``uid``: "<session>:<n>" with n rising in the order in which a producing session sends. ``digest``: of the
    payload (``actors.log.batch.payload_digest``). ``copy_of``: uid of the record that it is a copy of, or was made of;
    left out for all others. ``transactional_id``, ``transaction``: in which transaction it is sent, as its
    ``begin.invoke`` has them; left out outside of any. ``amount``: what it adds to the account that its partition is;
    left out where transactions are no transfers."""

    kind: ClassVar[OpKind] = "send"
    tp: str
    uid: str
    acks: int
    idempotent: bool = False
    digest: int | None = None
    copy_of: str | UnsetType = UNSET
    transactional_id: str | UnsetType = UNSET
    transaction: int | UnsetType = UNSET
    amount: int | UnsetType = UNSET


class PollInvoke(OpInvoke, frozen=True, tag="poll.invoke"):
    """``offset``: the consumer's position."""

    kind: ClassVar[OpKind] = "poll"
    tp: str
    offset: int
    isolation: int


class ListInvoke(OpInvoke, frozen=True, tag="list.invoke"):
    """``version``: of ListOffsets, the highest that the client speaks. ``replica_id``: -1: as a client; else as that
    broker, which is told the log end instead of what clients see."""

    kind: ClassVar[OpKind] = "list"
    tp: str
    timestamp: int
    isolation: int = 0
    version: int = -1
    replica_id: int = -1


class AdminInvoke(OpInvoke, frozen=True, tag="admin.invoke"):
    """``call``: elect-leaders, alter-config, describe-quorum, add-voter, remove-voter, create-topic, delete-topic,
    create-partitions or delete-records, of which ``arguments`` has ``offsets``: topic partition -> the offset before
    which records are deleted, -1 the high watermark."""

    kind: ClassVar[OpKind] = "admin"
    call: str
    arguments: dict[str, Any]


class CommitInvoke(OpInvoke, frozen=True, tag="commit.invoke"):
    """``member``, ``generation``: as sent. ``offsets``: topic partition -> entry (``actors.trace.group_events``)."""

    kind: ClassVar[OpKind] = "commit"
    group: str
    member: str
    generation: int
    offsets: dict[str, Entry]
    how: CommitHow


class CommittedInvoke(OpInvoke, frozen=True, tag="committed.invoke"):
    """``tps``: topic partitions whose committed positions are looked up."""

    kind: ClassVar[OpKind] = "committed"
    group: str
    tps: list[str]


class InitInvoke(OpInvoke, frozen=True, tag="init.invoke"):
    """``initTransactions``; ``timeout_ms``: transaction.timeout.ms."""

    kind: ClassVar[OpKind] = "init"
    transactional_id: str
    timeout_ms: int


class BeginInvoke(OpInvoke, frozen=True, tag="begin.invoke"):
    """``beginTransaction``. ``transaction``: its number among those of the node's incarnation, from 1.
    ``producer_id``, ``producer_epoch``: of the producer by then; ``version``: the transaction.version by which it
    goes (1 stands for 0, too)."""

    kind: ClassVar[OpKind] = "begin"
    transactional_id: str
    transaction: int
    producer_id: int
    producer_epoch: int
    version: int


class SendOffsetsInvoke(OpInvoke, frozen=True, tag="offsets.invoke"):
    """``sendOffsetsToTransaction``. ``offsets``: topic partition -> entry."""

    kind: ClassVar[OpKind] = "send-offsets"
    transactional_id: str
    transaction: int
    group: str
    member: str
    generation: int
    offsets: dict[str, Entry]


class EndInvoke(OpInvoke, frozen=True, tag="end.invoke"):
    """``commitTransaction``, or ``abortTransaction``."""

    kind: ClassVar[OpKind] = "end"
    transactional_id: str
    transaction: int
    producer_id: int
    producer_epoch: int
    commit: bool


class OpReturn(TraceEvent, frozen=True):
    """Base: an operation returned to the application. ``error``: code of the last error, 0 none."""

    kind: ClassVar[OpKind]
    op: str
    outcome: Outcome
    error: int


class SendReturn(OpReturn, frozen=True, tag="send.return"):
    """``uid``, ``acks``, ``idempotent``: as it was invoked. ``offset``: of the record, -1 not told. ``leader_epoch``:
    in which it was given; no Produce answer tells it, so it is -1 and the ``rpc.reply`` has it. ``broker``: who
    answered; ``version``, ``correlation_id``: of the answer."""

    kind: ClassVar[OpKind] = "send"
    tp: str
    uid: str
    acks: int
    idempotent: bool = False
    offset: int = -1
    leader_epoch: int = -1
    broker: str = ""
    version: int = -1
    correlation_id: int = -1


class PollReturn(OpReturn, frozen=True, tag="poll.return"):
    """``records``, with ``leader_epoch`` (as asked for and checked by the leader, -1 unknown) and ``broker``, who had
    them; or of a truncation without a reset policy where the leader's log parts from what was read
    (``divergent_offset``, ``divergent_epoch``). ``offset``, ``isolation``: as it was invoked. ``log_start``: of the
    leader's log, left out at 0, and where the answer does not say."""

    kind: ClassVar[OpKind] = "poll"
    tp: str
    offset: int
    isolation: int
    leader_epoch: int = -1
    broker: str = ""
    version: int = -1
    records: list[Polled] = []
    divergent_offset: int = -1
    divergent_epoch: int = -1
    log_start: int | UnsetType = UNSET


class ListReturn(OpReturn, frozen=True, tag="list.return"):
    """``offset``: that was told, -1 none; ``leader_epoch``: of the replica that answered, carried in the trace even
    where the wire's version has no field for it. ``timestamp``, ``isolation``: as it was invoked. ``broker``: who
    answered; ``version``, ``correlation_id``: of the answer."""

    kind: ClassVar[OpKind] = "list"
    tp: str
    timestamp: int
    isolation: int = 0
    offset: int = -1
    leader_epoch: int = -1
    broker: str = ""
    version: int = -1
    correlation_id: int = -1


class AdminReturn(OpReturn, frozen=True, omit_defaults=True, tag="admin.return"):
    """``results``: where it was answered, an error name by topic partition, resource, topic or controller; of
    describe-quorum what it was told. ``low_watermarks``: of delete-records, where the logs of a topic partition begin,
    as its leader has answered."""

    kind: ClassVar[OpKind] = "admin"
    call: str
    results: dict[str, Any]
    low_watermarks: dict[str, int] = {}


class CommitReturn(OpReturn, frozen=True, tag="commit.return"):
    """``group``, ``member``, ``generation``, ``offsets``, ``how``: as it was invoked. ``errors``: topic partition ->
    code, 0 for what is committed; what is missing was not answered."""

    kind: ClassVar[OpKind] = "commit"
    group: str
    member: str
    generation: int
    offsets: dict[str, Entry]
    how: CommitHow
    errors: dict[str, int] = {}


class CommittedReturn(OpReturn, frozen=True, tag="committed.return"):
    """``group``, ``tps``: as it was invoked. ``offsets``: topic partition -> entry, ``NO_ENTRY`` where nothing is
    committed."""

    kind: ClassVar[OpKind] = "committed"
    group: str
    tps: list[str]
    offsets: dict[str, Entry] = {}


class InitReturn(OpReturn, frozen=True, tag="init.return"):
    """``producer_id``, ``producer_epoch``: that the producer was given, -1 none."""

    kind: ClassVar[OpKind] = "init"
    transactional_id: str
    producer_id: int = -1
    producer_epoch: int = -1


class BeginReturn(OpReturn, frozen=True, tag="begin.return"):
    """The producer can always begin a transaction when its application asks: nobody else is asked for it."""

    kind: ClassVar[OpKind] = "begin"
    transactional_id: str
    transaction: int


class SendOffsetsReturn(OpReturn, frozen=True, tag="offsets.return"):
    """ok: the positions take effect with the transaction. ``group``, ``offsets``: as it was invoked."""

    kind: ClassVar[OpKind] = "send-offsets"
    transactional_id: str
    transaction: int
    group: str
    offsets: dict[str, Entry]


class EndReturn(OpReturn, frozen=True, tag="end.return"):
    """ok: the transaction is ended as ``commit`` says; fail: it is certainly not. ``producer_id``,
    ``producer_epoch``: with which it was. ``asked``: the coordinator was asked, as there was something to end.
    ``next_id``, ``next_epoch``: with which the producer goes on. ``unanswered``: how many requests for it got no
    answer, each of which may come to a coordinator later; left out if none."""

    kind: ClassVar[OpKind] = "end"
    transactional_id: str
    transaction: int
    producer_id: int
    producer_epoch: int
    commit: bool
    asked: bool
    next_id: int = -1
    next_epoch: int = -1
    unanswered: int | UnsetType = UNSET


OP_RETURNS = (
    SendReturn,
    PollReturn,
    ListReturn,
    AdminReturn,
    CommitReturn,
    CommittedReturn,
    InitReturn,
    BeginReturn,
    SendOffsetsReturn,
    EndReturn,
)
"""Of all kinds."""


class MetaView(TraceEvent, frozen=True, tag="meta.view"):
    """A client was told of leaders: the leader epoch per partition that differs from what it had; ``accepted``: tps it
    took over. ``leaders``: who leads, for the same partitions as ``epochs`` (-1 nobody). ``topic_ids``: topic -> id,
    where it is another one than the client knew. source: metadata (a Metadata answer, to a request for all that it
    uses: what is neither accepted nor differs it no longer knows), hint (in an answer that refuses, KIP-951), heard (of
    a newer leader epoch alone, in an answer of another API: there is nothing to take over).

    ``metadata_epoch``, ``metadata_accepted`` (KIP-232, seed): of a Metadata answer, and whether it was taken over for
    it; both are left out where the client does not judge answers by it. ``brokers``: ids in a Metadata answer that was
    taken over, where they are others than the client had."""

    server: str
    epochs: dict[str, int]
    accepted: list[str]
    leaders: dict[str, int] = {}
    topic_ids: dict[str, str] = {}
    source: Literal["metadata", "hint", "heard"] = "metadata"
    metadata_epoch: int | UnsetType = UNSET
    metadata_accepted: bool | UnsetType = UNSET
    brokers: list[int] | UnsetType = UNSET


class MetaWait(TraceEvent, frozen=True, tag="meta.wait"):
    """A wait for metadata came to its end (``wait_for_metadata_update``, KIP-232). ``epoch``: that was waited for;
    ``metadata_epoch``: of the client's metadata then; ``reached``: it was not lower, in time."""

    epoch: int
    metadata_epoch: int
    reached: bool


class ConsPos(TraceEvent, frozen=True, tag="cons.pos"):
    """A consumer's position moved other than by delivering. ``epoch``: leader epoch that it has with it, -1 none.
    reason: assign, seek, reset, truncation, committed (it is what the group has committed). ``metadata_epoch``: kept
    outside Kafka with a position to which the application goes back; left out for all others."""

    tp: str
    old: int
    new: int
    epoch: int
    reason: Literal["assign", "seek", "reset", "truncation", "committed"]
    metadata_epoch: int | UnsetType = UNSET


class ErrorSeen(TraceEvent, frozen=True, omit_defaults=True, tag="client.error"):
    """A client met a retriable error of an API and goes on; ``tp`` empty for errors of a whole request. ``uid``: the
    first record of a batch that was refused, and is sent again. ``leader``, ``leader_epoch``: whom the answer names as
    the present leader (KIP-951), -1 nobody; ``endpoints``: ids of the brokers whose addresses it has."""

    tp: str
    api: str
    version: int
    error: int
    broker: str
    uid: str = ""
    leader: int = -1
    leader_epoch: int = -1
    endpoints: list[int] = []


ClientEvent = (
    SendInvoke
    | PollInvoke
    | ListInvoke
    | AdminInvoke
    | CommitInvoke
    | CommittedInvoke
    | InitInvoke
    | BeginInvoke
    | SendOffsetsInvoke
    | EndInvoke
    | SendReturn
    | PollReturn
    | ListReturn
    | AdminReturn
    | CommitReturn
    | CommittedReturn
    | InitReturn
    | BeginReturn
    | SendOffsetsReturn
    | EndReturn
    | MetaView
    | MetaWait
    | ConsPos
    | ErrorSeen
)
