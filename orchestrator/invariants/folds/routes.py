"""The ways in which folds cut the trace by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.broker.coordinator_common.partitions import REMOTE_LOG_METADATA_TOPIC, UNTIERED_TOPICS
from actors.node.spec import METADATA_PARTITION, node_name, partition_name, split_topic_partition
from actors.trace.events import (
    AdminInvoke,
    AdminReturn,
    BrokerReg,
    CommitInvoke,
    CommitReturn,
    CommittedReturn,
    ConfigChange,
    ConsOwn,
    EpochTold,
    FetchTold,
    GrpCommit,
    GrpFetch,
    GrpLoad,
    IsrPropose,
    LogAppend,
    LogStart,
    MetaImage,
    MetaState,
    MetaView,
    NodeDown,
    NodeUp,
    PartChange,
    PartRemove,
    QApply,
    QClean,
    QEnd,
    QFreeze,
    QHeard,
    QPersist,
    QRole,
    QSnap,
    QSnapFetch,
    QVote,
    QVoters,
    QWaited,
    Rpc,
    RpcPark,
    RpcReply,
    RunEnd,
    Stamped,
    StoreObject,
    TierSegment,
    TxnAdded,
    TxnLoad,
    TxnMarkers,
    TxnState,
)
from orchestrator.invariants.folds.fold import Kind, Route

_NONE: tuple[str, ...] = ()


def _of_group(body: Any) -> Sequence[str]:
    """The partitions that an event of a group is about: those that are read, and the one that holds the group."""
    kind = type(body)
    if kind is GrpCommit:
        return (body.tp, body.offsets_tp)
    if kind is GrpFetch:
        return (body.offsets_tp,)
    if kind is ConsOwn:
        return list(dict.fromkeys([*body.owned, *body.added, *body.revoked, *body.lost]))
    return list(body.tps if kind is CommittedReturn else body.offsets)


def _of_transaction(body: Any) -> Sequence[str]:
    """The partition that holds a transactional id, and those that are in its transaction."""
    if type(body) is TxnLoad:
        return list(dict.fromkeys([body.tp, *(tp for each in body.transactions.values() for tp in each.partitions)]))
    return list(dict.fromkeys([body.tp, *body.partitions]))


_OF_TRANSACTIONS = frozenset({TxnState, TxnLoad, TxnMarkers, TxnAdded})
"""Likewise."""

_OF_GROUPS = frozenset({GrpCommit, GrpFetch, ConsOwn, CommitInvoke, CommitReturn, CommittedReturn})
"""Types that are about several partitions."""


def _partition_keys(event: Stamped) -> Sequence[str]:
    body = event.body
    if type(body) is RpcReply:
        # A partition that was asked for by an id that nobody knows has no name.
        return list(dict.fromkeys([told.tp for told in body.partitions if told.tp]))
    if type(body) is RpcPark:
        return list(dict.fromkeys([*body.tps, *(tp for tp in body.decided if tp)]))
    if type(body) is NodeDown:
        return [tp for tp in body.lost if tp != METADATA_PARTITION]
    if type(body) is QRole:
        return _NONE
    if type(body) in _OF_GROUPS:
        return _of_group(body)
    if type(body) in _OF_TRANSACTIONS:
        return _of_transaction(body)
    if type(body) is MetaView:  # of what a client takes another topic for, by its name
        return [tp for tp in body.accepted if split_topic_partition(partition_name(tp))[0] in body.topic_ids]
    tp: str = body.tp  # type: ignore[union-attr]  # every other type on this route has a partition
    return (tp,) if tp and tp != METADATA_PARTITION else _NONE


_OF_THE_QUORUM = frozenset(
    {QRole, QVote, QPersist, QVoters, QApply, QFreeze, QSnap, QClean, QSnapFetch, QWaited, QEnd, QHeard}
    | {
        AdminInvoke,
        AdminReturn,
        NodeUp,
        NodeDown,
        ConfigChange,
        BrokerReg,
        PartChange,
        PartRemove,
        IsrPropose,
        MetaImage,
        MetaState,
        MetaView,
    }
)
"""Types that concern the metadata log whatever partition they are about: what members do, what controllers write and
tell, what operators ask for."""


def _metadata_keys(event: Stamped) -> Sequence[str]:
    body = event.body
    if type(body) in _OF_THE_QUORUM:
        return (METADATA_PARTITION,)
    return (METADATA_PARTITION,) if event.tp == METADATA_PARTITION else _NONE


def _list_keys(event: Stamped) -> Sequence[str]:
    body = event.body
    if type(body) is RpcReply:
        named = dict.fromkeys([told.tp for told in body.partitions if told.tp])
        return list(named) if body.api == "ListOffsets" else _NONE
    if type(body) is NodeDown:
        return [tp for tp in body.lost if tp != METADATA_PARTITION]
    return (event.tp,) if event.tp != METADATA_PARTITION else _NONE


def _quorum_keys(_event: Stamped) -> Sequence[str]:
    return ("quorum",)


def _controller_keys(_event: Stamped) -> Sequence[str]:
    return ("controller",)


def _node_keys(event: Stamped) -> Sequence[str]:
    cause = event.cause
    if not cause:
        body = event.body
        if type(body) is RunEnd:
            return list(dict.fromkeys([event.node, *(name.partition("/")[0] for name in body.final_seq)]))
        return (event.node,)
    origin = cause[: cause.find("/")]
    return (event.node,) if origin == event.node else (event.node, origin)


def _run_keys(_event: Stamped) -> Sequence[str]:
    return ("run",)


def _own_node(event: Stamped) -> Sequence[str]:
    return (event.node,)


def _caller_keys(event: Stamped) -> Sequence[str]:
    if type(event.body) is not LogAppend:
        return (event.node,)
    origin = event.cause.partition("/")[0]
    return (origin,) if origin else _NONE


def _client_keys(event: Stamped) -> Sequence[str]:
    body = event.body
    if type(body) is RpcReply:
        return (body.src,) if body.api in ("ListOffsets", "Produce") else _NONE
    if isinstance(body, EpochTold | FetchTold):
        client = event.req.partition(">")[0]
        return (client,) if client and body.replica_id < 0 else _NONE
    return (event.node,)


def _group_keys(event: Stamped) -> Sequence[str]:
    body: Any = event.body
    if type(body) is GrpLoad:
        return list(dict.fromkeys([*body.groups, *body.offsets]))
    return (body.group,)


def _producer_keys(event: Stamped) -> Sequence[str]:
    body: Any = event.body
    kind = type(body)
    if kind is LogAppend:
        return (str(body.producer_id),) if body.transactional and body.producer_id >= 0 else _NONE
    if kind is TxnLoad:
        return list(dict.fromkeys(str(each.producer_id) for each in body.transactions.values()))
    return (str(body.producer_id),)


def _broker_keys(event: Stamped) -> Sequence[str]:
    body = event.body
    if type(body) is BrokerReg:
        return (node_name(body.broker),)
    return (event.node,) if type(body) is NodeUp and body.role == "broker" else _NONE


# ---- the same, as far as the columns of a trace tell ------------------------------------------------------------


def _partition_keys_of(kind: Kind) -> Sequence[str] | None:
    if kind.type in (RpcReply, RpcPark, NodeDown, MetaView) or kind.type in _OF_GROUPS or kind.type in _OF_TRANSACTIONS:
        return None
    return (kind.tp,) if kind.tp and kind.tp != METADATA_PARTITION else _NONE


def _metadata_keys_of(kind: Kind) -> Sequence[str]:
    return (METADATA_PARTITION,) if kind.type in _OF_THE_QUORUM or kind.tp == METADATA_PARTITION else _NONE


def _list_keys_of(kind: Kind) -> Sequence[str] | None:
    if kind.type is RpcReply or kind.type is NodeDown:
        return None
    return (kind.tp,) if kind.tp != METADATA_PARTITION else _NONE


def _node_keys_of(kind: Kind) -> Sequence[str] | None:
    return None if kind.type is RunEnd else (kind.node, kind.origin)


def _own_node_of(kind: Kind) -> Sequence[str]:
    return (kind.node,)


def _caller_keys_of(kind: Kind) -> Sequence[str]:
    if kind.type is not LogAppend:
        return (kind.node,)
    return (kind.origin,) if kind.origin else _NONE


def _client_keys_of(kind: Kind) -> Sequence[str] | None:
    return None if kind.type in (RpcReply, EpochTold, FetchTold) else (kind.node,)


def _broker_keys_of(kind: Kind) -> Sequence[str] | None:
    return None if kind.type is BrokerReg else (kind.node,)


def _concerns_all_partitions(news: Stamped) -> bool:
    """Whether the folds of any partition hear of it: of a partition's changes, only if it is one of the brokers' own
    topics, which hold transactions and copies of all others. Else each change of N partitions would go to N keys. Of
    where logs begin, only that of the topic with the metadata of copies."""
    body = news.body
    if type(body) is LogStart:
        return _concerns_all_copies(news)
    return type(body) is not PartChange or split_topic_partition(body.tp)[0] in UNTIERED_TOPICS


PARTITION = Route(
    "partition",
    _partition_keys,
    about="topic partition, except the metadata log",
    keys_of_kind=_partition_keys_of,
    hears=_concerns_all_partitions,
)
"""By topic partition, except the metadata log. Of other partitions' changes, those of the brokers' own topics are news
there; its own ones are events of the key."""

METADATA_LOG = Route(
    "metadata-log",
    _metadata_keys,
    about="the metadata log, its members and its writers",
    keys_of_kind=_metadata_keys_of,
)
"""The metadata log: one key."""

LIST_OFFSETS = Route(
    "list-offsets",
    _list_keys,
    about="topic partition, except the metadata log; only operations and answers of ListOffsets",
    keys_of_kind=_list_keys_of,
)
"""By topic partition, except the metadata log; only operations and answers of ListOffsets."""

BROKER = Route(
    "broker",
    _broker_keys,
    about="broker that started, or that the controller fenced or unfenced",
    keys_of_kind=_broker_keys_of,
)
"""By the broker that a registration is about."""

GROUP = Route("group", _group_keys, about="group")
"""By group: what its coordinators and its members do."""

PRODUCER_ID = Route("producer-id", _producer_keys, about="producer id of transactions")
"""By producer id: what is in its transactions, and what their coordinators and their application make of them."""

QUORUM = Route("quorum", _quorum_keys, about="the quorum", keys_of_kind=lambda _: ("quorum",))
"""Elections of the quorum: one key, few events."""

CONTROLLER = Route(
    "controller", _controller_keys, about="the active controllers", keys_of_kind=lambda _: ("controller",)
)
"""What controllers decide, with what brokers ask of them and make of it: one key, few events."""

VOTER = Route("voter", _own_node, about="voter", keys_of_kind=_own_node_of)
"""By voter: at kraft.version 0 a voter is known by its id, whatever directory it has: a wiped one is still the same."""

TRACE = Route(
    "trace",
    _node_keys,
    (NodeUp, NodeDown, RunEnd, Rpc, RpcReply),
    about="node, and the node whose event was the cause",
    keys_of_kind=_node_keys_of,
)
"""By node, and by the node whose event was the cause."""

RUN = Route("run", _run_keys, about="the run", keys_of_kind=lambda _: ("run",))
"""The whole run: one key."""

CLIENT = Route(
    "client",
    _client_keys,
    about="node that recorded the event, or that is answered in it",
    keys_of_kind=_client_keys_of,
)
"""By client, with what it was answered to ListOffsets and Produce, and to what the trace tells of its Fetches and
OffsetForLeaderEpochs."""


def _segment_keys(event: Stamped) -> Sequence[str]:
    body = event.body
    assert isinstance(body, StoreObject | TierSegment), "no other types are on this route"
    return (body.segment,)


def _concerns_all_copies(news: Stamped) -> bool:
    """Of where logs begin, copies are concerned with the topic that has their metadata alone."""
    body = news.body
    return type(body) is not LogStart or split_topic_partition(body.tp)[0] == REMOTE_LOG_METADATA_TOPIC


SEGMENT = Route("segment", _segment_keys, about="copy of a segment", hears=_concerns_all_copies)
"""By copy of a segment, of which each has an id of its own."""

NODE = Route("node", _own_node, about="node that recorded the event", keys_of_kind=_own_node_of)
"""By the node that recorded the event."""

CALLER = Route(
    "caller", _caller_keys, about="node that recorded the event, or that asked for it", keys_of_kind=_caller_keys_of
)
"""By node, with the appends whose cause is its request."""
