"""Q21: what an operator is told of the quorum."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import AdminInvoke, AdminReturn, Outcome, QVoters
from orchestrator.invariants.quorum import descriptions
from tests.unit.invariants.quorum.test_leadership import FOLLOWER, LEADER, committed
from tests.unit.invariants.trace_builder import TraceBuilder

KNOWN = {"101": 3, "102": 3, "103": -1}
"""Where the voters are after ``led``, as the leader knows: controller-3 has not fetched."""


def led() -> TraceBuilder:
    """Controller-1 leads epoch 1, has committed up to 3, and controller-2 has fetched up to there."""
    trace = TraceBuilder()
    trace.role(LEADER, 1, "leader", 101)
    committed(trace, 2)
    trace.asked(LEADER, 102, 2, 1, 1)
    committed(trace, 3)
    trace.asked(LEADER, 102, 3, 1, 1)
    return trace


def asks(trace: TraceBuilder, op: str = "a:1") -> None:
    """An operator asks."""
    trace.emit("admin-1", AdminInvoke(op, "describe-quorum", {}))


def told(trace: TraceBuilder, op: str = "a:1", outcome: Outcome = "ok", **changes: Any) -> str:
    """An operator is told what is true after ``led``, but for the changes."""
    answer = {"leader": 101, "leader_epoch": 1, "high_watermark": 3, "voters": KNOWN, "observers": {"1": 2}, **changes}
    return trace.emit("admin-1", AdminReturn(op, outcome, 0, "describe-quorum", answer))


def test_a_true_description() -> None:
    """Shows that what the leader knows tests Q21; and what it knew when it was asked, or at any time since."""
    trace = led()
    asks(trace)
    told(trace)
    asks(trace, "a:2")
    asks(trace, "a:3")
    committed(trace, 5)
    trace.asked(LEADER, 102, 4, 1, 1)
    trace.asked(LEADER, 103, 5, 1, 1)
    told(trace, "a:2")
    told(trace, "a:3", high_watermark=5, voters={"101": 0, "102": 4, "103": 5})
    result = trace.result("Q21")
    assert (result.status, result.tested) == ("held", 3)


@pytest.mark.parametrize(("switch", "violated"), [("off", 0), ("kafka", 1)])
def test_a_watermark_of_former_epochs(switch: str, violated: int) -> None:
    """Shows that a leader which counts entries of former epochs may know a high watermark that does not move: that is
    the one it had as a follower."""
    trace = TraceBuilder(features={"kip-595.own-epoch-commit": switch})
    trace.role(LEADER, 1, "leader", 101)
    asks(trace)
    told(trace, high_watermark=2, voters={"101": 3, "102": -1, "103": -1})
    assert trace.result("Q21").violated == violated
    committed(trace, 3)
    asks(trace)
    told(trace, high_watermark=2, voters={"101": 3, "102": -1, "103": -1})
    assert trace.result("Q21").violated == violated + 1


def test_no_description() -> None:
    """Shows that an operation with an unknown outcome, an error, and other operations test nothing."""
    trace = led()
    told(trace)
    asks(trace)
    told(trace, outcome="unknown", leader_epoch=7)
    asks(trace)
    trace.emit("admin-1", AdminReturn("a:1", "ok", 0, "describe-quorum", {}))
    trace.emit("admin-1", AdminInvoke("a:2", "alter-config", {}))
    told(trace, "a:2", leader_epoch=7)
    assert trace.result("Q21").status == "vacuous"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"leader_epoch": 2}, "in epoch 2, but nobody did"),
        ({"leader": 102}, "controller-2 leads the quorum in epoch 1, but controller-1 did"),
        ({"high_watermark": 4}, "with the high watermark 4; it had 3"),
        ({"high_watermark": 2}, "with the high watermark 2; it had 3"),
        ({"voters": {"101": 3, "102": 3}}, "with the voters controller-1, controller-2; it had controller-1, contr"),
        ({"voters": {**KNOWN, "102": 2}}, "and that controller-2 has its log up to 2; it had fetched up to 3"),
        ({"voters": {**KNOWN, "103": 3}}, "and that controller-3 has its log up to 3; it had fetched up to -1"),
    ],
)
def test_a_false_description(changes: dict[str, Any], says: str) -> None:
    """Shows each part of an answer that the leader never knew, or no longer when it was asked."""
    trace = led()
    asks(trace)
    answer = told(trace, **changes)
    (finding,) = trace.result("Q21").violations
    assert says in finding.sentence
    assert finding.sentence.startswith("admin-1 was told that ")
    assert finding.events[-1] == answer


def test_a_former_leader() -> None:
    """Shows that who was deposed before the question must not answer it; who was deposed since may have before."""
    before = led()
    before.role(LEADER, 2, "follower", 102)
    before.role(FOLLOWER, 2, "leader", 102)
    asks(before)
    told(before)
    assert before.result("Q21").violations[0].sentence.endswith("epoch 1, but that was over before it asked")
    since = led()
    asks(since)
    since.role(FOLLOWER, 2, "leader", 102)
    since.role(LEADER, 2, "follower", 102)
    told(since)
    assert since.result("Q21").status == "held"


def test_a_leader_without_a_high_watermark() -> None:
    """Shows that a new leader tells none before it knows one in its epoch, and none of another's."""
    for watermark, status in (-1, "held"), (3, "violated"):
        trace = led()
        trace.role(LEADER, 2, "unattached")
        trace.role(LEADER, 2, "leader", 101)
        asks(trace)
        told(trace, leader_epoch=2, high_watermark=watermark, voters=dict.fromkeys(KNOWN, -1))
        assert trace.result("Q21").status == status


def test_other_voters() -> None:
    """Shows that either set may be told that was in force since the question; where a voter has fetched to that joined
    in this epoch is judged once it has fetched as one."""
    trace = led()
    asks(trace)
    members = {"101": "dir-controller-1", "102": "dir-controller-2", "104": "dir-controller-4"}
    trace.emit(LEADER, QVoters("dir-controller-1", 3, 1, 1, members, 4, 3, "append"))
    told(trace)
    joined = {"101": 3, "102": 3, "104": 2}
    for op in ("a:2", "a:3"):
        asks(trace, op)
        told(trace, op, voters=joined)
        trace.asked(LEADER, 104, 2, 1, 1)
    assert trace.result("Q21").status == "held"
    for voters in (KNOWN, {**joined, "104": 3}):
        asks(trace, "a:4")
        told(trace, "a:4", voters=voters)
    assert trace.result("Q21").violated == 2


def test_what_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that of what is over only as much is kept as open questions need, and not more than a bound; and that
    epochs, and values, that are forgotten are not judged."""
    monkeypatch.setattr(descriptions, "VALUES_KEPT", 4)
    monkeypatch.setattr(descriptions, "OFFICES_KEPT", 2)
    monkeypatch.setattr(descriptions, "QUESTIONS_KEPT", 1)
    trace = led()
    asks(trace)
    committed(trace, *range(4, 20))
    told(trace, high_watermark=0)
    asks(trace, "a:2")
    asks(trace, "a:3")
    told(trace, "a:2", high_watermark=0)
    for epoch in (2, 3):
        trace.role(LEADER, epoch, "unattached")
        trace.role(LEADER, epoch, "leader", 101)
    told(trace, "a:3", high_watermark=0)
    result = trace.result("Q21")
    assert (result.status, result.tested) == ("held", 2)
