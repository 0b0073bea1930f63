"""O10: that members which are heard stay in their groups."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ClockSet, Rpc
from tests.unit.invariants.groups.stage import ONE, GroupTrace

LIMITS = {"session.timeout.ms": 1000, "max.poll.interval.ms": 3000}
UNKNOWN = KafkaError.UNKNOWN_MEMBER_ID


class Heartbeats(GroupTrace):
    """A member with an assignment, of broker-1's group. Times are milliseconds after the event before."""

    def __init__(self, **config: Any) -> None:
        super().__init__(nodes={ONE: {"config": {**LIMITS, **config}}})
        self.wall = 10_000
        self.call("JoinGroup")
        self.call("SyncGroup")

    def call(self, api: str, *errors: int, after_ms: int = 5, broker: int = 1, outcome: Any = "answered") -> str:
        """A call of the member to a coordinator ends, which took no time."""
        self.wall += 1000 * (after_ms - 1)
        return self.emit(ONE, Rpc(api, 4, f"broker-{broker}", "coordinator", 1, outcome, list(errors)))

    @property
    def wrong(self) -> int:
        """How often O10 is violated."""
        return self.result("O10").violated


@pytest.mark.parametrize(("after_ms", "violated"), [(985, 1), (1005, 0)])
def test_a_member_that_was_heard(after_ms: int, violated: int) -> None:
    """Shows that a member is known for its session after a heartbeat that was answered without an error."""
    trace = Heartbeats()
    heard = trace.call("Heartbeat")
    told = trace.call("OffsetCommit", UNKNOWN, after_ms=after_ms)
    result = trace.result("O10")
    assert (result.violated, result.tested) == (violated, 1)
    if violated:
        (finding,) = result.violations
        assert finding.events == [heard, told]
        assert finding.sentence.startswith(
            "broker-1 answered the OffsetCommit of consumer-1 with UNKNOWN_MEMBER_ID 990 ms"
        )


def test_the_shorter_limit_counts() -> None:
    """Shows that a coordinator may remove a member that does not join a rebalance in time."""
    trace = Heartbeats(**{"max.poll.interval.ms": 500})
    trace.call("Heartbeat")
    trace.call("Heartbeat", KafkaError.REBALANCE_IN_PROGRESS, after_ms=300)
    trace.call("JoinGroup", UNKNOWN, after_ms=300)
    assert trace.wrong == 0
    trace = Heartbeats()
    trace.call("Heartbeat")
    trace.call("Heartbeat", KafkaError.REBALANCE_IN_PROGRESS, after_ms=300)
    trace.call("JoinGroup", UNKNOWN, after_ms=300)
    assert trace.wrong == 1


@pytest.mark.parametrize(
    "between", ["leaves", "closes", "joins", "other", "loads", "restarts", "fenced", "clock", "unheard"]
)
def test_who_need_not_know_a_member(between: str) -> None:
    """Shows that nothing is said of a member that has left, joins, or was fenced; of another coordinator, and one that
    read its log since; and where a clock was set."""
    trace = Heartbeats()
    trace.call("Heartbeat", outcome="timeout" if between == "unheard" else "answered")
    if between == "leaves":
        trace.call("LeaveGroup", outcome="disconnect")
    elif between == "closes":
        trace.owns(ONE, "", reason="leave")
    elif between == "joins":
        trace.call("JoinGroup")
        trace.call("Heartbeat")
    elif between == "loads":
        trace.loads(0)
    elif between == "restarts":
        trace.up("broker-1")
    elif between == "fenced":
        trace.call("Heartbeat", KafkaError.ILLEGAL_GENERATION)
    elif between == "clock":
        trace.emit("broker-1", ClockSet("c", "start", 1, 0))
    trace.call("Heartbeat", UNKNOWN, broker=2 if between == "other" else 1)
    assert trace.wrong == 0


def test_a_coordinator_that_is_loading() -> None:
    """Shows that a coordinator which has not read its log when it is asked has heard nobody, whatever it answers."""
    trace = Heartbeats()
    trace.loads(0)
    trace.call("Heartbeat", after_ms=1)
    trace.call("Heartbeat", UNKNOWN)
    assert trace.wrong == 0
