"""The registry of things that can be seen."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.control import Predicate
from actors.trace.events import (
    AdminReturn,
    AnyTraceEvent,
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
    ReplyPartition,
    Rpc,
    RpcReply,
    VotersCause,
)
from actors.trace.group_events import GroupState
from chaos.must_happen import happened
from chaos.scenario.triggers import TRIGGERS, matches
from tests.unit.chaos.stage import plan_of, stamped


def assume(epoch: int, start: int = 5, hw: int = 5) -> PartAssume:
    return PartAssume("orders-0", "leader", 2, epoch, epoch, 9, start, hw, 1)


def change(cause: str, isr: list[int]) -> PartChange:
    return PartChange("orders-0", 9, 1, 2, 1, 1, isr, [1, 2, 3], cause)


def refusal(error: int, replica: int = -1, api: str = "ListOffsets") -> RpcReply:
    return RpcReply(api, 5, "list-offsets-1", "c", 1, replica, 0, 0, [ReplyPartition("orders-0", error)])


def rpc(*errors: int, api: str = "Fetch") -> Rpc:
    return Rpc(api, 12, "broker-1", "c", 1, "answered", list(errors))


HW = LogHw("orders-0", "leader", 0, 7, 9, 0)
APPEND = LogAppend("orders-0", "leader", 3, 6, 0, 0, -1, -1, -1, False, [])
ROLE = QRole("d", 3, "leader", 101, 0)
SEEN = ErrorSeen("orders-0", "ListOffsets", 5, 78, "broker-2")
LOST = LinkHit("f1/1", "drop", "consumer-1>broker-1:data:0.0", 7, "Fetch", "request")
ANSWER_LOST = LinkHit("f1/1", "duplicate", "consumer-1>broker-1:data:0.0", 7, "Fetch", "reply")


def voters(cause: VotersCause) -> QVoters:
    """A voter set is in force at a member."""
    return QVoters("d", 5, 2, 2, {"101": "a"}, 6, 5, cause)


def vote(candidate: int, granted: bool = True, pre: bool = False) -> QVote:
    """A vote of controller-2 (id 102) in epoch 3."""
    return QVote("d", 3, candidate, granted, pre, 2, 9, 2, 9)


def proposal(outcome: str) -> IsrPropose:
    return IsrPropose("orders-0", 1, 2, 3, [1, 2], {"1": 5, "2": 6}, 7, 4, outcome)


def followed(diverging_end: int) -> RepFetch:
    return RepFetch("orders-0", 3, 2, 2, 6, 9, 1, 1, diverging_end)


def group(state: GroupState) -> GrpGen:
    return GrpGen("__consumer_offsets-0", "g", state, 3, 1)


ELECTED = AdminReturn("a", "ok", 84, "elect-leaders", {"orders-0": "NONE", "orders-1": "ELECTION_NOT_NEEDED"})
DESCRIBED = AdminReturn("a", "ok", 0, "describe-quorum", {"leader": 101, "voters": {"101": 7}})

CASES: list[tuple[str, dict[str, Any], AnyTraceEvent, bool]] = [
    ("leader-elected", {}, assume(1), True),
    ("leader-elected", {}, assume(0), False),
    ("leader-elected", {"tp": "orders-1"}, assume(1), False),
    ("leader-elected", {"node": "broker-2"}, assume(1), True),
    ("leader-elected", {"node": "broker-3"}, assume(1), False),
    ("lagging-leader", {}, assume(1, 5, 4), True),
    ("lagging-leader", {}, assume(1, 5, 5), False),
    ("unclean-election", {}, change("unclean", [2]), True),
    ("unclean-election", {}, change("elect", [2, 3]), False),
    ("unclean-election", {"by": "controller"}, change("unclean", [2]), True),
    ("unclean-election", {"by": "operator"}, change("unclean", [2]), False),
    ("unclean-election", {"by": "operator"}, msgspec.structs.replace(change("unclean", [2]), asked=True), True),
    ("asked", {"call": "elect-leaders"}, ELECTED, True),
    ("asked", {"call": "alter-config"}, ELECTED, False),
    ("asked", {"call": "elect-leaders", "answer": "ELECTION_NOT_NEEDED"}, ELECTED, True),
    ("asked", {"call": "elect-leaders", "tp": "orders-0", "answer": "ELECTION_NOT_NEEDED"}, ELECTED, False),
    ("asked", {"call": "elect-leaders", "tp": "orders-1", "answer": "ELECTION_NOT_NEEDED"}, ELECTED, True),
    ("asked", {"call": "elect-leaders", "tp": "orders-2"}, ELECTED, False),
    (
        "asked",
        {"call": "elect-leaders", "answer": "REQUEST_TIMED_OUT"},
        AdminReturn("a", "unknown", 7, "elect-leaders", {}),
        True,
    ),
    ("asked", {"call": "describe-quorum", "answer": "NONE"}, DESCRIBED, True),
    ("isr-shrunk", {}, change("alter-isr", [1, 2]), True),
    ("isr-shrunk", {}, change("create", [1, 2]), False),
    ("isr-expanded", {}, change("alter-isr", [2, 1, 3]), True),
    ("isr-expanded", {}, change("alter-isr", [2, 1]), False),
    ("offset-not-available", {}, refusal(78), True),
    ("offset-not-available", {"tp": "orders-1"}, refusal(78), False),
    ("offset-not-available", {}, refusal(78, replica=3), False),
    ("offset-not-available", {}, refusal(5), False),
    ("leader-not-available", {"tp": "orders-0"}, refusal(5), True),
    ("leader-not-available", {}, refusal(5, api="Produce"), False),
    ("voters-appended", {}, voters("append"), True),
    ("voters-appended", {}, voters("fetch"), False),
    ("voters-appended", {"node": "broker-3"}, voters("append"), False),
    ("quorum-leader-elected", {}, ROLE, True),
    ("quorum-leader-elected", {"epoch": 4}, ROLE, False),
    ("quorum-role", {"role": ROLE.role}, ROLE, True),
    ("quorum-role", {"role": "candidate"}, ROLE, False),
    ("quorum-role", {"role": ROLE.role, "epoch": 4}, ROLE, False),
    ("vote-granted", {}, vote(101), True),
    ("vote-granted", {"epoch": 4}, vote(101), False),
    ("vote-granted", {}, vote(102), False),
    ("vote-granted", {}, vote(101, granted=False), False),
    ("vote-granted", {}, vote(101, pre=True), False),
    ("isr-proposed", {"tp": "orders-0"}, proposal("proposed"), True),
    ("isr-proposed", {}, proposal("accepted"), False),
    ("diverging", {}, followed(4), True),
    ("diverging", {}, followed(-1), False),
    ("committed", {"tp": "orders-0", "offset": 7}, HW, True),
    ("committed", {"tp": "orders-0", "offset": 8}, HW, False),
    ("log-reached", {"tp": "orders-0", "offset": 7}, APPEND, True),
    ("log-reached", {"tp": "orders-0", "offset": 8}, APPEND, False),
    ("truncated", {}, LogTrunc("orders-0", 9, 5, "diverge", 1), True),
    ("broker-fenced", {"broker": "broker-1"}, BrokerReg(1, 1, "i", True, False, False, 3), True),
    ("broker-fenced", {}, BrokerReg(1, 1, "i", False, False, False, 3), False),
    ("broker-unfenced", {}, BrokerReg(1, 1, "i", False, False, False, 3), True),
    ("rpc", {"api": "Fetch"}, rpc(), True),
    ("rpc", {"api": "Fetch", "error": "FENCED_LEADER_EPOCH"}, rpc(6, 74), True),
    ("rpc", {"api": "Fetch", "error": "FENCED_LEADER_EPOCH"}, rpc(6), False),
    ("rpc", {"api": "Produce"}, rpc(), False),
    ("rpc", {"api": "Fetch", "to": "broker-2"}, rpc(), False),
    ("request-lost", {}, LOST, True),
    ("request-lost", {"api": "Produce"}, LOST, False),
    ("reply-lost", {}, LOST, False),
    ("reply-lost", {"api": "Fetch"}, ANSWER_LOST, True),
    ("client-error", {"error": "OFFSET_NOT_AVAILABLE"}, SEEN, True),
    ("client-error", {"error": "OFFSET_NOT_AVAILABLE", "api": "Fetch"}, SEEN, False),
    ("rebalance-begun", {}, group("PreparingRebalance"), True),
    ("rebalance-begun", {}, group("CompletingRebalance"), False),
    ("members-joined", {}, group("CompletingRebalance"), True),
    ("members-joined", {}, group("Stable"), False),
    ("group-stable", {"node": "broker-2"}, group("Stable"), True),
    ("group-stable", {}, group("Empty"), False),
    ("coordinator-loaded", {}, GrpLoad("__consumer_offsets-0", 1, True, 5, groups={"g": ("Stable", 3)}), True),
    ("coordinator-loaded", {}, GrpLoad("__consumer_offsets-0", 1, True, 5), False),
    ("coordinator-loaded", {}, GrpLoad("__consumer_offsets-0", 1, False, 5), False),
    ("epoch-minted", {}, MetaMint(4, 2), True),
    ("epoch-minted", {"node": "controller-1"}, MetaMint(4, 2), False),
    ("node-restarted", {}, NodeUp("broker", 2, "d", False, False), False),
    ("node-down", {}, NodeDown("crash"), True),
]


@pytest.mark.parametrize(("name", "arguments", "body", "seen"), CASES)
def test_triggers_match(name: str, arguments: dict[str, Any], body: AnyTraceEvent, seen: bool) -> None:
    """Shows for each trigger an event that it names and one, as near as can be, that it does not."""
    node = "controller-2" if isinstance(body, QRole | QVote | MetaMint) else "broker-2"
    assert matches(Predicate(name, arguments), stamped(node, body)) is seen


def test_every_trigger_is_tried() -> None:
    """Shows that no trigger is without a case above, and that each has words for the docs."""
    assert {name for name, *_ in CASES} == set(TRIGGERS)
    assert all(trigger.about.endswith(".") for trigger in TRIGGERS.values())


def test_an_event_of_another_type_never_matches() -> None:
    """Shows that a trigger looks at events of its own type only."""
    assert not matches(Predicate("rpc", {"api": "Fetch"}), stamped("broker-2", HW))


def test_a_restart_is_a_later_incarnation() -> None:
    """Shows that the first start of a node is no restart."""
    up = NodeUp("broker", 2, "d", False, False)
    assert matches(Predicate("node-restarted"), stamped("broker-2", up, incarnation=1))


def test_happened_looks_through_a_trace_once() -> None:
    """Shows which of several names were seen, over an iterator that is read no further than needed."""
    events = iter([stamped("broker-2", HW), stamped("controller-2", ROLE), stamped("list-offsets-1", SEEN)])
    plan = plan_of("must-happen: [quorum-leader-elected, {committed: {tp: orders-0, offset: 1}}]")
    assert happened(plan, events) == {"quorum-leader-elected": True, "committed(tp=orders-0, offset=1)": True}
    assert next(events).body is SEEN
    assert happened(plan_of("must-happen: [truncated]"), [stamped("broker-2", HW)]) == {"truncated": False}


def test_without_a_view_a_selector_may_mean_whoever_it_could_ever_mean() -> None:
    """Shows where a live node stops, which knows nothing of the cluster: at what could be meant, and nothing else."""
    down = NodeDown("crash")
    led = Predicate("node-down", {"node": ["leader(orders-0)", "controller-2"]})
    assert [
        matches(led, stamped(node, down)) for node in ("broker-3", "controller-2", "controller-1", "producer-1")
    ] == [
        True,
        True,
        False,
        False,
    ]
    resigned = Predicate("node-down", {"node": "voters(resigned)"})
    assert matches(resigned, stamped("controller-1", down)) and not matches(resigned, stamped("broker-1", down))
    assert not matches(Predicate("node-down", {"node": "clients"}), stamped("broker-1", down))


def test_selectors_mean_whom_they_mean_in_the_view() -> None:
    """Shows each argument that names nodes with a view: whoever records the event, the server, the fenced broker."""
    view = {"leader(orders-0)": ["broker-2"], "followers(orders-0)": ["broker-1", "broker-3"]}

    def seen(name: str, arguments: dict[str, Any], node: str, body: AnyTraceEvent) -> bool:
        return matches(Predicate(name, arguments), stamped(node, body), lambda selector: view[str(selector)])

    fenced = BrokerReg(1, 1, "i", True, False, False, 3)
    assert seen("broker-fenced", {"broker": "followers(orders-0)"}, "controller-1", fenced)
    assert not seen("broker-fenced", {"broker": "leader(orders-0)"}, "controller-1", fenced)
    assert seen("rpc", {"api": "Fetch", "to": ["leader(orders-0)", "followers(orders-0)"]}, "consumer-1", rpc())
    assert not seen("rpc", {"api": "Fetch", "to": "leader(orders-0)"}, "consumer-1", rpc())
    cut = LogTrunc("orders-0", 9, 5, "diverge", 1)
    assert seen("truncated", {"node": "leader(orders-0)"}, "broker-2", cut)
    assert not seen("truncated", {"node": "followers(orders-0)"}, "broker-2", cut)


def test_what_must_happen_is_told_by_the_cluster_as_it_was_before() -> None:
    """Shows that who goes down counts as the leader that it was until then, also where nobody is told of it before."""
    plan = plan_of("must-happen: [{node-down: {node: voters(leader)}}, {node-down: {node: leader(orders-0)}}]")
    new = PartAssume("orders-0", "leader", 2, 1, 1, 9, 5, 5, 1)
    trace = [
        stamped("controller-1", NodeUp("controller", 101, "d", False, False)),
        stamped("controller-1", QRole("d", 1, "leader", 101, 0)),
        stamped("broker-1", NodeDown("crash")),
        stamped("broker-2", new),
        stamped("controller-2", NodeDown("crash")),
    ]
    assert list(happened(plan, trace).values()) == [False, False]
    assert list(happened(plan, [*trace, stamped("controller-1", NodeDown("crash"))]).values()) == [True, False]
    assert list(happened(plan, [*trace, stamped("broker-2", NodeDown("crash"))]).values()) == [False, True]
