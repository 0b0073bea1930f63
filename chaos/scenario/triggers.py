"""Things that can be seen in a run: one registry of named predicates over trace events.

A scenario uses the names in ``when: {seen: ...}`` (a fault begins when it is seen), in ``until: {seen: ...}`` and in
``must-happen`` (without it the run proves nothing). Both runtimes evaluate them with ``matches``, which is pure.

Arguments that name nodes are selectors, which mean somebody only in a view of the cluster (``chaos.view``): as it was
just before the event. A live node has none. It stops where the event could be meant, and the conductor decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec

from actors.control import Predicate
from actors.node.errors import KafkaError, error_name
from actors.node.messages import Api
from actors.node.spec import node_id, node_name
from actors.trace.events import (
    AdminReturn,
    BrokerReg,
    ErrorSeen,
    GrpGen,
    GrpLoad,
    IsrPropose,
    LinkHit,
    LogAppend,
    LogHw,
    LogTrunc,
    MetaMint,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    QVote,
    QVoters,
    RepFetch,
    Rpc,
    RpcReply,
    Stamped,
    TraceEvent,
)
from actors.trace.group_events import GroupState
from chaos.scenario.selectors import KINDS, Meaning, NodeKind, may_mean, parse_selector, texts_of

ArgumentKind = Literal["tp", "log", "node", "int", "api", "error", "role", "call", "by"]

ASKED = "asked"
"""The trigger of an operator's answer, which ``expect`` has under the same name."""

OPERATOR, CONTROLLER = BY = ("operator", "controller")
"""Who decided on an unclean election: somebody who asked for it, or the controller by its configuration."""


def _recorder(event: Stamped) -> str:
    return event.node


class Argument(msgspec.Struct, frozen=True):
    """An argument of a trigger. kind: tp (``orders-0``), log (a tp, or ``__cluster_metadata-0``), node (one or more
    selectors), int, api (``ListOffsets``), error (``OFFSET_NOT_AVAILABLE``), role (of the quorum: ``candidate``),
    call (of the admin client: ``elect-leaders``), by (``operator`` or ``controller``). of a node: whom an event is
    about. among: the kinds of nodes that this can be."""

    name: str
    kind: ArgumentKind
    about: str
    required: bool = False
    of: Callable[[Stamped], str] = _recorder
    among: tuple[NodeKind, ...] = KINDS


class Trigger(msgspec.Struct, frozen=True):
    """A named predicate. ``type``: the one class of events it can match. ``test``: event and arguments -> seen."""

    name: str
    type: type[TraceEvent]
    about: str
    arguments: tuple[Argument, ...]
    test: Callable[[Stamped, dict[str, Any]], bool]


def _error(code: int, wanted: str) -> bool:
    return code == KafkaError[wanted].value


def _leader_elected(event: Stamped, _: dict[str, Any]) -> bool:
    body = cast(PartAssume, event.body)
    return body.role == "leader" and body.leader_epoch > 0


def _lagging_leader(event: Stamped, _: dict[str, Any]) -> bool:
    body = cast(PartAssume, event.body)
    return body.role == "leader" and body.leader_epoch_start > body.high_watermark


def _unclean_election(event: Stamped, arguments: dict[str, Any]) -> bool:
    body = cast(PartChange, event.body)
    by = OPERATOR if body.asked else CONTROLLER
    return body.cause == "unclean" and arguments.get("by") in (None, by)


def _asked(event: Stamped, arguments: dict[str, Any]) -> bool:
    body = cast(AdminReturn, event.body)
    if body.call != arguments["call"]:
        return False
    tp, answer = arguments.get("tp"), arguments.get("answer")
    if body.outcome != "ok" or not all(isinstance(each, str) for each in body.results.values()):
        # It failed as a whole, or is a description: one answer to all of it.
        name = error_name(body.error) if body.outcome != "ok" else KafkaError.NONE.name
        return tp is None and answer in (None, name)
    told = [error for name, error in body.results.items() if tp in (None, name)]
    return bool(told) and (answer is None or answer in told)


def _isr_shrunk(event: Stamped, _: dict[str, Any]) -> bool:
    body = cast(PartChange, event.body)
    return body.cause not in ("create", "unfence", "preferred") and len(body.isr) < len(body.replicas)


def _isr_expanded(event: Stamped, _: dict[str, Any]) -> bool:
    body = cast(PartChange, event.body)
    return body.cause == "alter-isr" and len(body.isr) == len(body.replicas)


def _refused(error: KafkaError) -> Callable[[Stamped, dict[str, Any]], bool]:
    def test(event: Stamped, arguments: dict[str, Any]) -> bool:
        body = cast(RpcReply, event.body)
        if body.api != Api.ListOffsets.name or body.replica_id >= 0:
            return False
        tp = arguments.get("tp")
        return any(part.error == error and tp in (None, part.tp) for part in body.partitions)

    return test


def _quorum_leader(event: Stamped, arguments: dict[str, Any]) -> bool:
    body = cast(QRole, event.body)
    return body.role == "leader" and body.epoch >= int(arguments.get("epoch", 0))


def _quorum_role(event: Stamped, arguments: dict[str, Any]) -> bool:
    body = cast(QRole, event.body)
    voter = event.node.startswith("controller-")
    return voter and body.role == arguments["role"] and body.epoch >= int(arguments.get("epoch", 0))


def _vote_granted(event: Stamped, arguments: dict[str, Any]) -> bool:
    body = cast(QVote, event.body)
    other = body.candidate != node_id(event.node)
    return body.granted and not body.pre and other and body.epoch >= int(arguments.get("epoch", 0))


def _isr_proposed(event: Stamped, _: dict[str, Any]) -> bool:
    return cast(IsrPropose, event.body).outcome == "proposed"


def _diverging(event: Stamped, _: dict[str, Any]) -> bool:
    return cast(RepFetch, event.body).diverging_end >= 0


def _voters_appended(event: Stamped, _: dict[str, Any]) -> bool:
    return cast(QVoters, event.body).cause == "append"


def _committed(event: Stamped, arguments: dict[str, Any]) -> bool:
    body = cast(LogHw, event.body)
    return body.role == "leader" and body.new >= int(arguments["offset"])


def _log_reached(event: Stamped, arguments: dict[str, Any]) -> bool:
    return cast(LogAppend, event.body).last + 1 >= int(arguments["offset"])


def _fenced(fenced: bool) -> Callable[[Stamped, dict[str, Any]], bool]:
    def test(event: Stamped, _: dict[str, Any]) -> bool:
        return cast(BrokerReg, event.body).fenced is fenced

    return test


def _rpc(event: Stamped, arguments: dict[str, Any]) -> bool:
    body = cast(Rpc, event.body)
    if body.api != arguments["api"]:
        return False
    return "error" not in arguments or any(_error(code, arguments["error"]) for code in body.errors)


def _client_error(event: Stamped, arguments: dict[str, Any]) -> bool:
    body = cast(ErrorSeen, event.body)
    return _error(body.error, arguments["error"]) and arguments.get("api") in (None, body.api)


def _lost(what: str) -> Callable[[Stamped, dict[str, Any]], bool]:
    def test(event: Stamped, arguments: dict[str, Any]) -> bool:
        body = cast(LinkHit, event.body)
        return body.lost == what and arguments.get("api") in (None, body.api)

    return test


def _group_is(state: GroupState) -> Callable[[Stamped, dict[str, Any]], bool]:
    def test(event: Stamped, _: dict[str, Any]) -> bool:
        return cast(GrpGen, event.body).state == state

    return test


def _loaded(event: Stamped, _: dict[str, Any]) -> bool:
    body = cast(GrpLoad, event.body)
    return body.loaded and bool(body.groups)


def _restarted(event: Stamped, _: dict[str, Any]) -> bool:
    return event.incarnation > 0


def _always(_event: Stamped, _: dict[str, Any]) -> bool:
    return True


def _node(*among: NodeKind) -> Argument:
    return Argument("node", "node", "the node that records it", among=among)


_NODE = _node(*KINDS)
_BY_BROKER = _node("broker")
_BY_CONTROLLER = _node("controller")
_BY_CLIENT = _node("client")
_BY_SERVER = _node("controller", "broker")
_TP = Argument("tp", "tp", "the topic partition")
_TP_NAMED = Argument("tp", "tp", "the topic partition that the answer is about")
_LOG = Argument("tp", "log", "the topic partition, or the metadata log")
_OFFSET = Argument("offset", "int", "exclusive end", required=True)
_NEEDS_LOG = Argument("tp", "log", "the topic partition, or the metadata log", required=True)
_BROKER = Argument(
    "broker", "node", "the broker", of=lambda event: node_name(cast(BrokerReg, event.body).broker), among=("broker",)
)
_SERVER = Argument(
    "to", "node", "the node that serves", of=lambda event: cast(Rpc, event.body).dst, among=("controller", "broker")
)
_EPOCH = Argument("epoch", "int", "in this quorum epoch or a later one")
_API = Argument("api", "api", "the API", required=True)

TRIGGERS: dict[str, Trigger] = {
    trigger.name: trigger
    for trigger in (
        Trigger(
            "leader-elected",
            PartAssume,
            "A broker took up the leadership of a partition after an election.",
            (_TP, _BY_BROKER),
            _leader_elected,
        ),
        Trigger(
            "lagging-leader",
            PartAssume,
            "A broker became leader with a high watermark below the log end it starts with: what KIP-207 is about.",
            (_TP, _BY_BROKER),
            _lagging_leader,
        ),
        Trigger(
            "unclean-election",
            PartChange,
            "The controller elected a leader outside the ISR.",
            (_TP, Argument("by", "by", "operator: by a request; controller: by its configuration")),
            _unclean_election,
        ),
        Trigger(
            "isr-shrunk",
            PartChange,
            "The controller's log got a state of a partition whose ISR lacks a replica.",
            (_TP,),
            _isr_shrunk,
        ),
        Trigger(
            "isr-proposed",
            IsrPropose,
            "A leader asks the controller for another ISR.",
            (_TP, _BY_BROKER),
            _isr_proposed,
        ),
        Trigger(
            "diverging",
            RepFetch,
            "A leader reports to a follower where their logs diverge.",
            (_LOG, _BY_SERVER),
            _diverging,
        ),
        Trigger("isr-expanded", PartChange, "An ISR has all its replicas again.", (_TP,), _isr_expanded),
        Trigger(
            "offset-not-available",
            RpcReply,
            "A broker refused a client's ListOffsets with OFFSET_NOT_AVAILABLE.",
            (_TP, _BY_BROKER),
            _refused(KafkaError.OFFSET_NOT_AVAILABLE),
        ),
        Trigger(
            "leader-not-available",
            RpcReply,
            "A broker refused a client's ListOffsets with LEADER_NOT_AVAILABLE.",
            (_TP, _BY_BROKER),
            _refused(KafkaError.LEADER_NOT_AVAILABLE),
        ),
        Trigger(
            "quorum-leader-elected",
            QRole,
            "A voter became leader of the quorum.",
            (_BY_CONTROLLER, _EPOCH),
            _quorum_leader,
        ),
        Trigger(
            "quorum-role",
            QRole,
            "A controller took up a role of the quorum.",
            (Argument("role", "role", "the role", required=True), _BY_CONTROLLER, _EPOCH),
            _quorum_role,
        ),
        Trigger(
            "vote-granted",
            QVote,
            "A voter granted another one its vote, which is no PreVote; it is not on its disk yet.",
            (_BY_CONTROLLER, _EPOCH),
            _vote_granted,
        ),
        Trigger(
            "voters-appended",
            QVoters,
            "A leader of the quorum wrote a voter set into its log (kraft.version 1); a new leader does so, too.",
            (_BY_CONTROLLER,),
            _voters_appended,
        ),
        Trigger(
            "committed",
            LogHw,
            "A leader's high watermark reached an offset.",
            (_NEEDS_LOG, _OFFSET, _BY_SERVER),
            _committed,
        ),
        Trigger(
            "log-reached",
            LogAppend,
            "A replica's log reached an offset.",
            (_NEEDS_LOG, _OFFSET, _BY_SERVER),
            _log_reached,
        ),
        Trigger("truncated", LogTrunc, "A replica cut its log.", (_LOG, _BY_SERVER), _always),
        Trigger("broker-fenced", BrokerReg, "The active controller fenced a broker.", (_BROKER,), _fenced(True)),
        Trigger("broker-unfenced", BrokerReg, "The active controller unfenced a broker.", (_BROKER,), _fenced(False)),
        Trigger(
            "rpc",
            Rpc,
            "An exchange ended (with nth: the n-th of its kind), at the caller.",
            (
                _API,
                _NODE,
                _SERVER,
                Argument("error", "error", "an error code in the answer"),
            ),
            _rpc,
        ),
        Trigger(
            "client-error",
            ErrorSeen,
            "A client met a retriable error.",
            (
                Argument("error", "error", "the error", required=True),
                Argument("api", "api", "the API"),
                _TP,
                _BY_CLIENT,
            ),
            _client_error,
        ),
        Trigger(
            "request-lost",
            LinkHit,
            "A link fault broke a connection, and a request was lost with it.",
            (Argument("api", "api", "the API"),),
            _lost("request"),
        ),
        Trigger(
            "reply-lost",
            LinkHit,
            "A link fault broke a connection before the answer to a request.",
            (Argument("api", "api", "the API"),),
            _lost("reply"),
        ),
        Trigger(
            "rebalance-begun",
            GrpGen,
            "A group rebalances: its coordinator waits for its members to join.",
            (_BY_BROKER,),
            _group_is("PreparingRebalance"),
        ),
        Trigger(
            "members-joined",
            GrpGen,
            "The members of a group have joined, and none has its assignment yet.",
            (_BY_BROKER,),
            _group_is("CompletingRebalance"),
        ),
        Trigger(
            "group-stable",
            GrpGen,
            "The assignment of a group is committed, and its members get theirs.",
            (_BY_BROKER,),
            _group_is("Stable"),
        ),
        Trigger(
            "coordinator-loaded",
            GrpLoad,
            "A broker has loaded an offsets partition in which there is a group.",
            (_BY_BROKER,),
            _loaded,
        ),
        Trigger(
            "epoch-minted",
            MetaMint,
            "The active controller made a new metadata epoch, and has not pushed it to any broker (`kip-232: seed`).",
            (_BY_CONTROLLER,),
            _always,
        ),
        Trigger(
            ASKED,
            AdminReturn,
            "What an operator asked for was answered, or given up.",
            (
                Argument("call", "call", "what was asked for, such as elect-leaders", required=True),
                _TP_NAMED,
                Argument("answer", "error", "the answer, NONE where it was done"),
            ),
            _asked,
        ),
        Trigger("node-restarted", NodeUp, "A node came back as a new incarnation.", (_NODE,), _restarted),
        Trigger("node-down", NodeDown, "An incarnation ended.", (_NODE,), _always),
    )
}


_NAMING = {
    name: [argument for argument in trigger.arguments if argument.kind == "node"] for name, trigger in TRIGGERS.items()
}
"""Trigger -> its arguments that name nodes."""


def matches(predicate: Predicate, event: Stamped, meant: Meaning | None = None) -> bool:
    """Whether ``event`` is what ``predicate`` names. ``meant``: whom a selector means in the view just before it;
    without a view, whether it could be. Pure; raises KeyError only for a name not in the registry."""
    trigger = TRIGGERS[predicate.name]
    if type(event.body) is not trigger.type:
        return False
    arguments = predicate.arguments
    for argument in _NAMING[trigger.name]:
        if argument.name in arguments and not _is_named(arguments[argument.name], argument.of(event), meant):
            return False
    # A reply or an answer is about several partitions: its test looks at them itself.
    if trigger.type not in (RpcReply, AdminReturn) and arguments.get("tp") not in (None, event.tp):
        return False
    return trigger.test(event, arguments)


def _is_named(wanted: str | list[str], node: str, meant: Meaning | None) -> bool:
    if wanted == node:
        return True
    selectors = map(parse_selector, texts_of(wanted))
    if meant is None:
        return any(may_mean(selector, node) for selector in selectors)
    return any(node in meant(selector) for selector in selectors)


def describe(predicate: Predicate) -> str:
    """``committed(tp=orders-0, offset=100)``."""
    if not predicate.arguments:
        return predicate.name
    shown = ((name, value if isinstance(value, list) else [value]) for name, value in predicate.arguments.items())
    return f"{predicate.name}({', '.join(f'{name}=' + ' or '.join(map(str, values)) for name, values in shown)})"
