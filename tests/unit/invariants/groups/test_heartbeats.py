"""O10: that members which are heard stay in their groups."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ClockSet, ConsOwn, ConsStall, CtlFault, CtlPhase, GrpGen, GrpOut, Rpc
from tests.unit.invariants.groups.stage import GROUP, OFFSETS, ONE, GroupTrace
from tests.unit.invariants.trace_builder import TP

LIMITS = {"session.timeout.ms": 1000, "max.poll.interval.ms": 3000}
UNKNOWN = KafkaError.UNKNOWN_MEMBER_ID


class Heartbeats(GroupTrace):
    """A member with an assignment, of broker-1's group. Times are milliseconds after the event before."""

    def __init__(self, epsilon_us: int = 0, **config: Any) -> None:
        super().__init__(nodes={ONE: {"config": {**LIMITS, **config}}}, epsilon_us=epsilon_us)
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
    assert (result.violated, result.tested) == (violated, 2)
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


def put_out(trace: Heartbeats, after_ms: int = 100, member: str = "m1", broker: int = 1, why: Any = "session") -> None:
    """A coordinator puts the member out."""
    trace.wall += 1000 * (after_ms - 1)
    trace.emit(f"broker-{broker}", GrpOut(OFFSETS, GROUP, 0, member, ONE, why))


@pytest.mark.parametrize(("after_ms", "violated"), [(985, 1), (995, 0)])
@pytest.mark.parametrize("since", ["", "died", "former", "leaves", "other", "stranger", "clock"])
def test_who_puts_out_a_member_that_was_heard(since: str, after_ms: int, violated: int) -> None:
    """Shows that a member must not be put out for its silence within its session, also when it has died, whatever its
    max.poll.interval.ms; that this is said of the same member and coordinator; and not where a clock was set."""
    trace = Heartbeats(**{"max.poll.interval.ms": 500})
    trace.owns(ONE, "", member="" if since == "stranger" else "m1")
    trace.call("Heartbeat")
    if since == "died":
        trace.down(ONE)
        after_ms -= 1
    elif since == "clock":
        trace.emit("broker-1", ClockSet("c", "start", 1, 0))
    member, broker = "m3" if since in ("former", "stranger") else "m1", 2 if since == "other" else 1
    put_out(trace, after_ms, member, broker, "leave" if since == "leaves" else "session")
    assert trace.wrong == (violated and since in ("", "died"))


@pytest.mark.parametrize(("after_ms", "violated"), [(985, 1), (1005, 0)])
def test_a_member_in_the_log_of_its_coordinator(after_ms: int, violated: int) -> None:
    """Shows that a coordinator knows a member for its session after it has read it from its log."""
    trace = Heartbeats()
    trace.owns(ONE, "")
    loaded = trace.loads_stable(1, m1="")
    told = trace.call("Heartbeat", UNKNOWN, after_ms=after_ms, broker=2)
    assert trace.wrong == violated
    if violated:
        (finding,) = trace.result("O10").violations
        assert finding.events == [loaded, told]
        assert "985 ms after it had read the member m1 from its log" in finding.sentence


@pytest.mark.parametrize(
    "why", ["other", "asked", "joined", "lost", "leaves", "restarts", "given-up", "refused", "clock"]
)
def test_who_need_not_know_a_member_in_its_log(why: str) -> None:
    """Shows that nothing is said of who was another member when the log was read, or is since; of what was asked before
    that; and of a broker that has given up what it read."""
    trace = Heartbeats()
    trace.owns(ONE, "", member="m3" if why == "other" else "m1")
    if why == "lost":
        trace.owns(ONE, "", reason="lost")
    elif why == "joined":
        trace.call("JoinGroup")
    elif why == "leaves":
        trace.call("LeaveGroup", outcome="disconnect")
    elif why == "refused":
        trace.call("Heartbeat", KafkaError.ILLEGAL_GENERATION)
    elif why == "restarts":
        trace.up(ONE)
    trace.loads_stable(1, m1="")
    if why == "given-up":
        trace.unloads(1, 2)
    elif why == "clock":
        trace.emit("broker-1", ClockSet("c", "start", 1, 0))
    trace.call("Heartbeat", UNKNOWN, broker=2, after_ms=3 if why == "asked" else 50)
    assert trace.wrong == 0


def test_a_coordinator_that_is_loading() -> None:
    """Shows that a coordinator which has not read its log when it is asked has heard nobody, whatever it answers."""
    trace = Heartbeats()
    trace.loads(0)
    trace.call("Heartbeat", after_ms=1)
    trace.call("Heartbeat", UNKNOWN)
    assert trace.wrong == 0


@pytest.mark.parametrize("how", ["formed", "stable", "loaded"])
@pytest.mark.parametrize("errors", [(), (KafkaError.ILLEGAL_GENERATION,)])
def test_a_heartbeat_of_a_former_generation(how: str, errors: tuple[int, ...]) -> None:
    """Shows that a coordinator that has formed a generation, or has read it from its log, must refuse the heartbeats of
    a member that is in a former one."""
    trace = Heartbeats()
    trace.owns(ONE, TP, 4)
    broker = 2 if how == "loaded" else 1
    if how == "loaded":
        known = trace.loads_stable(5, m2="")
    else:
        known = trace.gen("CompletingRebalance" if how == "formed" else "Stable", 5, "m2")
    told = trace.call("Heartbeat", *errors, after_ms=50, broker=broker)
    result = trace.result("O10")
    assert (result.violated, result.tested) == (not errors, 2)
    if not errors:
        (finding,) = result.violations
        assert finding.events == [known, told]
        assert finding.sentence == (
            f"broker-{broker} answered the heartbeat of consumer-1, which was in generation 4, without an error, "
            "although it had group g in generation 5 by then"
        )


@pytest.mark.parametrize(
    "why",
    ["same", "asked", "commit", "joins", "leaves", "lost", "restarts", "fenced", "unloads", "dead", "died", "clock"],
)
def test_whose_heartbeats_need_not_be_refused(why: str) -> None:
    """Shows that nothing is said of what was sent before the generation was formed, of other requests, of a member that
    may be in another generation by now, and of a broker that may not have that generation any more."""
    trace = Heartbeats()
    trace.owns(ONE, TP, 5 if why == "same" else 4)
    trace.gen("CompletingRebalance", 5, "m2")
    if why == "joins":
        trace.call("JoinGroup", outcome="timeout")
    elif why == "leaves":
        trace.call("LeaveGroup", outcome="timeout")
    elif why == "lost":
        trace.owns(ONE, "", -1, "lost")
    elif why == "restarts":
        trace.up(ONE, "group-consumer")
    elif why == "fenced":
        trace.call("Heartbeat", KafkaError.ILLEGAL_GENERATION)
    elif why == "unloads":
        trace.unloads()
    elif why == "dead":
        trace.gen("Dead", 5, "m2")
    elif why == "died":
        trace.down("broker-1")
    elif why == "clock":
        trace.emit("broker-1", ClockSet("c", "start", 1, 0))
    trace.call("OffsetCommit" if why == "commit" else "Heartbeat", after_ms=3 if why == "asked" else 50)
    assert trace.wrong == 0


@pytest.mark.parametrize(("epsilon_us", "violated"), [(40_000, 1), (45_000, 0)])
def test_a_heartbeat_by_the_clock_of_another_machine(epsilon_us: int, violated: int) -> None:
    """Shows that a heartbeat may have been sent before its generation was over, by as much as clocks may differ."""
    trace = Heartbeats(epsilon_us)
    trace.owns(ONE, TP, 4)
    trace.gen("CompletingRebalance", 5, "m2")
    trace.call("Heartbeat", after_ms=50)
    assert trace.wrong == violated


def test_the_generation_of_another_broker_or_group() -> None:
    """Shows that a heartbeat is judged by what its coordinator has of its group, and that it goes on to be."""
    trace = Heartbeats()
    trace.owns(ONE, TP, 4)
    trace.gen("CompletingRebalance", 5, "m2", broker=2)
    trace.emit("broker-1", GrpGen(OFFSETS, "h", "CompletingRebalance", 5, 0))
    trace.call("Heartbeat", after_ms=50)
    assert trace.wrong == 0
    trace.call("Heartbeat", after_ms=50, broker=2)
    assert trace.wrong == 1


def comes_back(trace: Heartbeats) -> str:
    """The application makes a new consumer."""
    return trace.emit(ONE, ConsOwn(GROUP, "", -1, [], [], [], [], "join"))


@pytest.mark.parametrize("then", ["join", "finished"])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_member_that_is_closed_leaves(leaves: bool, then: str) -> None:
    """Shows that a member which is closed sends a LeaveGroup, whatever comes of that, before its application makes
    another one, or all clients have come to their ends."""
    trace = Heartbeats()
    trace.call("Heartbeat")
    if then == "finished":
        trace.emit("driver", CtlPhase("draining"))
    closed = trace.owns(ONE, "", reason="leave")
    if leaves:
        trace.call("LeaveGroup", outcome="timeout")
    last = comes_back(trace) if then == "join" else trace.emit("driver", CtlPhase("finished"))
    result = trace.result("O10")
    assert (result.violated, result.tested) == (not leaves, 2)
    if not leaves:
        (finding,) = result.violations
        assert finding.events == [closed, last]
        assert finding.sentence == (
            "consumer-1 was closed, and sent no LeaveGroup for its member m1 of group g, although it knew its "
            "coordinator"
        )


@pytest.mark.parametrize(
    ("why", "violated"),
    [
        ("", 1),
        ("static", 0),
        ("stays", 0),
        ("unheard", 0),
        ("silent", 0),
        ("refused", 0),
        ("failed", 0),
        ("sent-before", 0),
        ("heard-again", 1),
        ("coordinator-died", 0),
        ("other-died", 1),
        ("none", 0),
        ("died", 0),
        ("clock", 0),
    ],
)
def test_who_need_not_leave(why: str, violated: int) -> None:
    """Shows that a static member does not leave, nor one that is no member, dies, or may have lost its coordinator: its
    last heartbeat was not answered, or long ago, or a call has failed since that heartbeat was sent."""
    config: dict[str, Any] = {"static": {"group.instance.id": "one"}}.get(why, {})
    trace = Heartbeats(**({"internal.leave.group.on.close": False} if why == "stays" else config))
    if why != "unheard":
        trace.call("Heartbeat")
    if why == "refused":
        trace.call("Heartbeat", KafkaError.REBALANCE_IN_PROGRESS)
    elif why in ("failed", "sent-before", "heard-again"):
        trace.call("OffsetCommit", outcome="timeout")
        if why != "failed":
            trace.call("Heartbeat", after_ms=3 if why == "sent-before" else 50)
    elif why.endswith("-died"):
        trace.down("broker-1" if why == "coordinator-died" else "broker-2")
    trace.wall += 995_000 if why == "silent" else 900_000
    trace.owns(ONE, "", -1 if why == "none" else 1, "leave")
    if why == "died":
        trace.up(ONE, "group-consumer")
    elif why == "clock":
        trace.emit("broker-1", ClockSet("c", "start", 1, 0))
    comes_back(trace)
    assert trace.wrong == violated


@pytest.mark.parametrize("how", ["before", "given-up"])
def test_the_end_of_a_run_that_says_nothing_of_a_member(how: str) -> None:
    """Shows that the end of a run does not tell that a member had left by then which was closed before all clients were
    told to come to their ends, nor if they were not waited for."""
    trace = Heartbeats()
    trace.call("Heartbeat")
    if how == "before":
        trace.owns(ONE, "", reason="leave")
    trace.emit("driver", CtlPhase("draining"))
    if how == "given-up":
        trace.owns(ONE, "", reason="leave")
    trace.emit("driver", CtlPhase("finished", "did not drain: draining: consumer-1" if how == "given-up" else ""))
    assert trace.wrong == 0


@pytest.mark.parametrize(("after_ms", "violated"), [(3495, 0), (3515, 1)])
def test_heartbeats_come_at_their_interval(after_ms: int, violated: int) -> None:
    """Shows that each heartbeat, whatever its answer, comes within the interval and half a second after the answer to
    the one before, or to the JoinGroup."""
    for api in ("Heartbeat", "JoinGroup"):
        trace = Heartbeats(**{"session.timeout.ms": 45_000, "max.poll.interval.ms": 90_000})
        before = trace.call(api)
        late = trace.call("Heartbeat", UNKNOWN, after_ms=after_ms)
        found = [each for each in trace.result("O10").violations if "consumer-1 sent a heartbeat" in each.sentence]
        assert len(found) == violated
        for finding in found:
            assert finding.events == [before, late]
            assert finding.sentence == (
                "consumer-1 sent a heartbeat 3,515 ms after its coordinator had answered the call before, and its "
                "heartbeat.interval.ms is 3,000 ms"
            )


@pytest.mark.parametrize(("after_ms", "violated"), [(4995, 0), (5015, 1)])
def test_heartbeats_of_a_live_run(after_ms: int, violated: int) -> None:
    """Shows that a machine may be busy with other things in a live run."""
    trace = Heartbeats(**{"session.timeout.ms": 45_000, "max.poll.interval.ms": 90_000})
    trace.live()
    trace.call("Heartbeat")
    trace.call("Heartbeat", after_ms=after_ms)
    assert trace.wrong == violated


def test_a_heartbeat_that_is_answered_late() -> None:
    """Shows that the time of the sending counts, not that of the answer."""
    trace = Heartbeats(**{"session.timeout.ms": 45_000, "max.poll.interval.ms": 90_000})
    trace.call("Heartbeat")
    trace.wall += 9_000_000
    trace.emit(ONE, Rpc("Heartbeat", 4, "broker-1", "coordinator", 1, "answered", [], took_ms=6_000))
    assert trace.wrong == 0


@pytest.mark.parametrize(
    "between", ["fails", "refused", "leaves", "closes", "looks up", "restarts", "paused", "paused twice", "goes"]
)
def test_when_no_heartbeat_is_due(between: str) -> None:
    """Shows that nothing is due after a call that failed or was refused, a look-up of the coordinator, or its end; and
    of a process that is paused, or was. A rebalance that the answer tells of changes nothing."""
    trace = Heartbeats(**{"session.timeout.ms": 45_000, "max.poll.interval.ms": 90_000})
    trace.call("Heartbeat", *([KafkaError.REBALANCE_IN_PROGRESS] if between == "goes" else []))
    if between == "fails":
        trace.call("Heartbeat", outcome="disconnect")
    elif between == "refused":
        trace.call("OffsetCommit", KafkaError.NOT_COORDINATOR)
    elif between == "leaves":
        trace.call("LeaveGroup")
    elif between == "closes":
        trace.owns(ONE, "", reason="lost")
    elif between == "looks up":
        trace.emit(ONE, Rpc("FindCoordinator", 4, "broker-2", "bootstrap", 1, "answered", []))
    elif between == "restarts":
        trace.up("broker-1")
    elif between == "paused":
        trace.emit("driver", CtlFault("f1", "pause", "start", [ONE], {}))
        trace.call("Heartbeat")
        trace.emit("driver", CtlFault("f1", "pause", "stop", [ONE], {}))
    elif between == "paused twice":
        for fault in ("f1", "f2"):
            trace.emit("driver", CtlFault(fault, "pause", "start", [ONE], {}))
        trace.emit("driver", CtlFault("f1", "pause", "stop", [ONE], {}))
        trace.call("Heartbeat")
    trace.call("Heartbeat", after_ms=20_000)
    assert trace.wrong == (between == "goes")


def stalls(trace: Heartbeats, phase: Any = "begin", after_ms: int = 5) -> str:
    """The application of the member does not poll any more, or polls again."""
    trace.wall += 1000 * (after_ms - 1)
    return trace.emit(ONE, ConsStall(GROUP, phase))


STALLING = {"session.timeout.ms": 45_000, "max.poll.interval.ms": 2_000, "heartbeat.interval.ms": 15_000}
LAST_MS = 2_505
"""How long after the begin of a stall a heartbeat may be answered that took no time, with the rounding of times."""


@pytest.mark.parametrize(("after_ms", "violated"), [(LAST_MS, 0), (LAST_MS + 1, 1)])
@pytest.mark.parametrize("errors", [(), (KafkaError.REBALANCE_IN_PROGRESS,)])
def test_a_member_whose_application_does_not_poll(after_ms: int, violated: int, errors: tuple[int, ...]) -> None:
    """Shows that a member sends no heartbeat any more when its application has not polled for max.poll.interval.ms,
    whatever the answer, and half a second after that."""
    trace = Heartbeats(**STALLING)
    begun = stalls(trace)
    sent = trace.call("Heartbeat", *errors, after_ms=after_ms)
    assert trace.wrong == violated
    for finding in trace.result("O10").violations:
        assert finding.events == [begun, sent]
        assert finding.sentence == (
            "consumer-1 sent a heartbeat although its application had not polled for 2,501 ms, and its "
            "max.poll.interval.ms is 2,000 ms"
        )


def test_when_a_stall_tests_a_member() -> None:
    """Shows that a member is tested by a stall that is too long, if it had sent heartbeats in it."""
    for stalled_ms, beats, tested in ((3000, 1, 1), (2000, 1, 0), (3000, 0, 0)):
        trace = Heartbeats(**STALLING)
        trace.call("Heartbeat")
        stalls(trace)
        for _ in range(beats):
            trace.call("Heartbeat")
        before = trace.result("O10").tested
        stalls(trace, "end", after_ms=stalled_ms)
        assert trace.result("O10").tested - before == tested
        assert trace.wrong == 0


@pytest.mark.parametrize(
    ("between", "violated"),
    [("nothing", 1), ("fails", 1), ("polls", 0), ("joins", 0), ("restarts", 0), ("paused", 0), ("clock", 0)],
)
def test_who_may_send_heartbeats_after_a_stall(between: str, violated: int) -> None:
    """Shows that the time counts from when the member joined, if that was later; that nothing is said of a member that
    polls again or begins anew, of a process that was paused, and where a clock was set. An attempt to join that fails
    is none."""
    trace = Heartbeats(**STALLING)
    stalls(trace)
    trace.call("Heartbeat", after_ms=1500)
    if between == "fails":
        trace.call("JoinGroup", outcome="disconnect")
    elif between == "polls":
        stalls(trace, "end")
    elif between == "joins":
        trace.call("JoinGroup")
    elif between == "restarts":
        trace.up(ONE, "group-consumer")
    elif between == "paused":
        for phase in ("start", "stop"):
            trace.emit("driver", CtlFault("f1", "pause", phase, [ONE], {}))
    elif between == "clock":
        trace.emit("broker-1", ClockSet("c", "start", 1, 0))
    trace.call("Heartbeat", after_ms=1500)
    assert trace.wrong == violated


@pytest.mark.parametrize(("before_ms", "violated"), [(5, 0), (100, 1)])
def test_a_heartbeat_that_is_answered_after_a_stall(before_ms: int, violated: int) -> None:
    """Shows that the time of the sending counts; one that may have been sent at the end of the stall is not judged."""
    trace = Heartbeats(**STALLING)
    stalls(trace)
    stalls(trace, "end", after_ms=4_000)
    trace.wall += 19_000
    trace.emit(ONE, Rpc("Heartbeat", 4, "broker-1", "coordinator", 1, "answered", [], took_ms=20 + before_ms))
    assert trace.wrong == violated
