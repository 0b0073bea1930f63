"""X2: who is in reach answers, a coordinator what its members ask of it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.spec import REMOTE_STORE
from actors.trace.events import CommitInvoke, CommitReturn, CtlFault, CtlPhase, NodeDown, PartChange, Rpc
from chaos.faults.store import SlowStore
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from orchestrator.invariants.liveness.progress import REPLICATED_FIRST
from tests.unit.invariants.trace_builder import TP, TraceBuilder

SECOND = 1_000_000
OFFSETS = "__consumer_offsets-0"
MEMBER, COORDINATOR = "consumer-1", "broker-1"
CORE = ("broker-1", "broker-2", "broker-3", MEMBER)
STEADY_S = bound_us(Profile(), "L4") // SECOND + 1


class Member(TraceBuilder):
    """A member of a group whose coordinator is broker-1, in a window that has been open for so many seconds."""

    def __init__(self, open_s: int = STEADY_S, core: tuple[str, ...] = CORE, **config: Any) -> None:
        super().__init__(config=config, groups={"g": {"members": [MEMBER, "consumer-2"], "partitions": [TP]}})
        replicas = [1, 2, 3]
        self.emit("controller-1", PartChange(OFFSETS, 10, 1, 1, 0, 0, replicas, replicas, "create"))
        self.wall += 10 * SECOND
        self.window("open", *core)
        self.wall += open_s * SECOND

    def ends(self, number: int, api: str, took_ms: int, outcome: Any = "timeout", after_ms: int = 0, **how: Any) -> str:
        """A call on the member's connection to its coordinator ends, so long after the last event."""
        self.wall += 1000 * after_ms - self.apart
        fields = {"timeout_ms": took_ms, "took_ms": took_ms, "errors": [], **how}
        dst, connection = fields.pop("dst", COORDINATOR), fields.pop("connection", "coordinator")
        return self.emit(MEMBER, Rpc(api, 3, dst, connection, number, outcome, **fields))

    def commits(self, after_ms: int, told_ms: int, group: str = "g", by: str = COORDINATOR, error: int = 0) -> None:
        """Another member asks to commit, so long after the last event, and is told what came of it after that."""
        self.wall += 1000 * after_ms - self.apart
        self.emit("consumer-2", CommitInvoke("op", group, "m2", 1, {TP: [5, 0, -1]}, "sync"))
        self.wall += 1000 * told_ms - self.apart
        self.cause = f"{by}/0/7"
        told = (group, "m2", 1, {TP: [5, 0, -1]}, "sync", {TP: error})
        self.emit("consumer-2", CommitReturn("op", "fail" if error else "ok", error, *told))
        self.cause = ""

    def later(self) -> str:
        """Says what violates X2, once everything that ended with a call has been told of; "" nothing."""
        self.wall += 2 * SECOND
        self.emit("driver", CtlPhase("running"))
        violations = self.result("X2").violations
        return violations[0].sentence if violations else ""


@pytest.mark.parametrize(
    ("api", "violated"),
    [
        ("Heartbeat", True),
        ("LeaveGroup", True),
        ("OffsetCommit", True),
        ("OffsetFetch", True),
        ("JoinGroup", False),
        ("SyncGroup", False),
    ],
)
def test_what_a_coordinator_answers_by_itself(api: str, violated: bool) -> None:
    """Shows that a coordinator answers everything that does not wait for other members."""
    trace = Member()
    event = trace.ends(1, api, 2000, after_ms=2000)
    assert (trace.later() != "") == violated
    if violated:
        (finding,) = trace.result("X2").violations
        assert finding.events == [event]
        assert finding.sentence == (
            f"broker-1 did not answer the {api} of consumer-1 for 2,000 ms, while both were up and in reach"
        )


@pytest.mark.parametrize(
    ("open_s", "config", "took_ms", "violated"),
    [
        (STEADY_S, {}, 1000, True),
        (0, {}, 2000, False),
        (0, {}, 5900, False),
        (0, {}, 6000, True),
        (0, {"offsets.commit.timeout.ms": 500}, 1400, False),
        (0, {"offsets.commit.timeout.ms": 500}, 1500, True),
    ],
)
def test_how_long_a_commit_may_take(open_s: int, config: dict[str, Any], took_ms: int, violated: bool) -> None:
    """Shows that a coordinator which may wait for replicas has offsets.commit.timeout.ms and a second."""
    trace = Member(open_s, **config)
    trace.ends(1, "Heartbeat", took_ms, after_ms=took_ms)
    assert (trace.later() != "") == violated


@pytest.mark.parametrize(
    ("after_ms", "told_ms", "how", "violated"),
    [
        (250, 1500, {}, True),
        (240, 1500, {}, False),
        (250, 1510, {}, False),
        (250, 1500, {"group": "another"}, False),
        (250, 1500, {"by": "broker-2"}, False),
        (250, 1500, {"error": 16}, False),
    ],
)
def test_what_was_asked_for_later_is_acknowledged(
    after_ms: int, told_ms: int, how: dict[str, Any], violated: bool
) -> None:
    """Shows that a coordinator which has acknowledged a commit must have answered what its group had asked of it before
    that: all of it is committed. It may not have come to it where the two were under way at the same time, and a
    refusal, another coordinator, or one of another group, which may be in another partition, says nothing."""
    trace = Member(0)
    trace.commits(after_ms, told_ms, **how)
    trace.ends(1, "Heartbeat", 2000, after_ms=2000 - after_ms - told_ms)
    assert (trace.later() != "") == violated


def test_a_replica_that_is_out_of_reach() -> None:
    """Shows that a window without a replica of an offsets partition never has a coordinator answer at once; and that
    nothing is asked of one that is not in it."""
    away = Member(core=("broker-1", "broker-2", MEMBER))
    away.ends(1, "OffsetCommit", 2000, after_ms=2000)
    assert away.later() == ""
    away.ends(2, "OffsetCommit", 6000, after_ms=6000)
    assert away.later() != ""
    silent = Member(core=("broker-2", "broker-3", MEMBER))
    silent.ends(1, "OffsetCommit", 6000, after_ms=6000)
    assert silent.later() == ""
    nothing = Member(core=("broker-1", MEMBER))
    nothing.events = [each for each in nothing.events if type(each.body) is not PartChange]
    nothing.ends(1, "OffsetCommit", 2000, after_ms=2000)
    assert nothing.later() == "", "where no offsets partition is known"


@pytest.mark.parametrize(("ago_ms", "waited"), [(900, ""), (1000, "1,000 ms"), (1500, "1,500 ms"), (2500, "2,000 ms")])
def test_a_request_behind_one_that_was_answered(ago_ms: int, waited: str) -> None:
    """Shows that a coordinator's time for a request begins when the one before it on that connection is answered."""
    trace = Member()
    trace.ends(1, "JoinGroup", 2000, "answered", after_ms=3000)
    trace.ends(2, "Heartbeat", 2000, after_ms=ago_ms)
    said = trace.later()
    assert f"for {waited}, while" in said if waited else said == ""


@pytest.mark.parametrize(
    ("number", "how", "violated"),
    [
        (1, {}, False),
        (3, {}, True),
        (1, {"dst": "broker-2"}, True),
        (1, {"connection": "data"}, True),
    ],
)
def test_a_request_behind_one_that_was_open(number: int, how: dict[str, Any], violated: bool) -> None:
    """Shows that a time-out ends what was under way on the connection, too: what had been sent before was in the way,
    what was sent after it or to another broker was not."""
    trace = Member()
    trace.ends(2, "LeaveGroup", 2000, after_ms=2000)
    trace.ends(number, "JoinGroup", 2500, "disconnect", timeout_ms=9000, **how)
    assert (trace.later() != "") == violated


def test_a_request_that_was_sent_before_the_window() -> None:
    """Shows that what may have been lost on its way before a window is not asked for, even where another one before it
    was answered in the window."""
    for answered in (True, False):
        trace = Member(0)
        if answered:
            trace.ends(1, "JoinGroup", 2000, "answered", after_ms=1000)
        trace.ends(2, "Heartbeat", 8000, after_ms=6500)
        assert trace.later() == ""
        trace.ends(3, "Heartbeat", 8000, after_ms=8000)
        assert trace.later() != ""


def test_who_ends_tells_of_nothing_more() -> None:
    """Shows that nothing is said where the node ended at once: what was in the way may not have been told of."""
    trace = Member()
    trace.ends(2, "LeaveGroup", 2000, after_ms=2000)
    trace.emit(MEMBER, NodeDown("clean"))
    assert trace.later() == ""


def test_a_connection_that_is_not_made() -> None:
    """Shows that ApiVersions waits for nothing, to a coordinator either, and is judged at once."""
    trace = Member(0)
    trace.ends(1, "ApiVersions", 1000, after_ms=1000)
    assert trace.result("X2").violations[0].sentence.startswith("broker-1 did not answer the ApiVersions of consumer-1")


@pytest.mark.parametrize(
    ("api", "open_s", "violated"),
    [
        *[(api, 1, False) for api in sorted(REPLICATED_FIRST)],
        *[(api, STEADY_S, True) for api in sorted(REPLICATED_FIRST)],
        ("FindCoordinator", 1, True),
    ],
)
def test_what_waits_for_an_isr(api: str, open_s: int, violated: bool) -> None:
    """Shows that an answer about a transaction may wait for replicas that are in the ISR and silent, until they must
    have left it; and that nothing else may."""
    trace = Member(open_s)
    trace.ends(1, api, 2000, after_ms=2500, connection="mirror")
    assert (trace.later() != "") == violated


@pytest.mark.parametrize(
    ("stored", "reaches", "violated"), [(False, True, True), (True, True, True), (True, False, False)]
)
def test_a_look_up_that_needs_the_remote_store(stored: bool, reaches: bool, violated: bool) -> None:
    """Shows that a broker need not answer a ListOffsets while a fault keeps the remote store from it, if there is
    one."""
    core = (*CORE, REMOTE_STORE) if reaches else CORE
    trace = Member(core=core, **{"remote.log.storage.system.enable": stored})
    trace.ends(1, "ListOffsets", 1000, after_ms=1000, connection="client")
    assert (trace.later() != "") == violated


@pytest.mark.parametrize(("after_ms", "violated"), [(2000, False), (6000, True)])
def test_a_remote_store_that_was_slow(after_ms: int, violated: bool) -> None:
    """Shows that the store may take long for what it was asked before the end of a fault, and not later."""
    trace = Member(core=(*CORE, REMOTE_STORE), **{"remote.log.storage.system.enable": True})
    for phase in ("start", "stop"):
        trace.emit("driver", CtlFault("f1", SlowStore.kind, phase, [REMOTE_STORE], {"delay_max_us": 3 * SECOND}))
    trace.ends(1, "ListOffsets", 1000, after_ms=after_ms, connection="client")
    assert (trace.later() != "") == violated
