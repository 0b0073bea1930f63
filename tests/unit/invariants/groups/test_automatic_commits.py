"""O11: that members commit in time, and before they revoke."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import (
    ClockSet,
    CommitInvoke,
    CommitReturn,
    ConsClose,
    ConsPos,
    ErrorSeen,
    MetaView,
    Polled,
    PollReturn,
    Rpc,
)
from tests.unit.invariants.groups.stage import GROUP, ONE, TWO, GroupTrace, entry
from tests.unit.invariants.trace_builder import TP

OTHER = "orders-1"


class Revoking(GroupTrace):
    """consumer-1 owns two partitions, and has committed by itself."""

    def __init__(self, how: Any = "auto", **profile: Any) -> None:
        super().__init__(**profile)
        self.up(ONE, "group-consumer")
        self.at = 0
        self.owns(ONE, f"{TP} {OTHER}")
        self.asks(TP, OTHER, how=how)

    def asks(self, *tps: str, how: Any = "auto") -> str:
        """The member commits these partitions."""
        self.ops += 1
        return self.emit(
            ONE, CommitInvoke(f"commit-{self.ops}", GROUP, "m1", 1, {tp: entry(self.at) for tp in tps}, how)
        )

    def given(self, times: int = 2, tp: str = TP, outcome: Any = "ok", records: bool = True) -> str:
        """The application polls, and is given a record each time."""
        for _ in range(times):
            self.at += 1
            told = [Polled(self.at, 0, f"r{self.at}")] if records else []
            self.ops += 1
            last = self.emit(ONE, PollReturn(f"poll-{self.ops}", outcome, 0, tp, self.at, 0, records=told))
        return last

    def begins_to_close(self, stable: bool = True, error: int = 0) -> str:
        """Its application begins to close it."""
        return self.emit(ONE, ConsClose(GROUP, "m1", 1, stable, error))

    def revokes(self, node: str = ONE) -> str:
        """A member gives up all that it owns, to join again."""
        return self.owns(node, "", reason="revoke")


@pytest.mark.parametrize("commits", [False, True])
def test_a_member_commits_before_it_revokes(commits: bool) -> None:
    """Shows that a member which commits by itself, and revokes a partition without a commit of what its application was
    given, violates O11."""
    trace = Revoking()
    given = trace.given()
    if commits:
        trace.asks(TP, OTHER)
    revoked = trace.revokes()
    result = trace.result("O11")
    assert (result.violated, result.tested) == (not commits, 1)
    if not commits:
        (finding,) = result.violations
        assert finding.events == [given, revoked]
        assert finding.sentence == (
            f"consumer-1, as member m1 of group g, revoked {TP} without a commit after the last records that its "
            "application was given"
        )


def test_each_partition_is_committed() -> None:
    """Shows that a commit of another partition is none of this one, and that records which come after it need another
    commit."""
    trace = Revoking()
    trace.given()
    trace.given(tp=OTHER)
    trace.asks(OTHER)
    trace.given(tp=OTHER)
    trace.revokes()
    (finding,) = trace.result("O11").violations
    assert f"revoked {TP}, {OTHER} without" in finding.sentence


@pytest.mark.parametrize(
    "why", ["by-hand", "another", "lost", "leave", "assign", "nothing", "once", "restarted", "before"]
)
def test_who_need_not_commit(why: str) -> None:
    """Shows that nothing is said of members that do not commit by themselves, that lose what they own, are closed, or
    keep it while they join; and of partitions whose records were given to a former process, or to a former owner."""
    trace = Revoking("sync" if why == "by-hand" else "auto")
    trace.given(1 if why == "once" else 2, records=why != "nothing")
    if why == "another":
        trace.owns(TWO, TP)
        trace.revokes(TWO)
    elif why in ("lost", "leave"):
        trace.owns(ONE, "", reason=why)
    elif why == "assign":
        trace.owns(ONE, OTHER, reason=why)
    else:
        if why == "restarted":
            trace.down(ONE)
            trace.up(ONE, "group-consumer")
        elif why == "before":
            trace.owns(ONE, OTHER)
            trace.owns(ONE, f"{TP} {OTHER}")
        trace.revokes()
    assert trace.result("O11").violated == 0


@pytest.mark.parametrize("then", [1, 2])
@pytest.mark.parametrize("why", ["view", "metadata", "other-call", "error", "error-elsewhere", "moved", "failed"])
def test_a_position_that_may_not_be_valid(why: str, then: int) -> None:
    """Shows that a position need not be committed after the client has heard of leaders or of an error of it, or the
    position was moved, before the application was given records twice again."""
    trace = Revoking()
    trace.given()
    if why == "view":
        trace.emit(ONE, MetaView("broker-1", {TP: 1}, [TP]))
    elif why in ("metadata", "other-call"):
        api = "Metadata" if why == "metadata" else "Heartbeat"
        trace.emit(ONE, Rpc(api, 9, "broker-1", "data", 1, "answered", []))
    elif why.startswith("error"):
        tp = TP if why == "error" else OTHER
        trace.emit(ONE, ErrorSeen(tp, "Fetch", 12, KafkaError.OFFSET_OUT_OF_RANGE, "broker-1"))
    elif why == "moved":
        trace.emit(ONE, ConsPos(TP, 2, 1, 0, "truncation"))
    else:
        trace.given(1, outcome="fail", records=False)
    if then == 2:
        trace.given()
    else:
        trace.given(1)
    trace.revokes()
    assert trace.result("O11").violated == (then == 2 or why in ("other-call", "error-elsewhere"))


@pytest.mark.parametrize("commits", ["", "before", "after", "late"])
def test_a_member_commits_before_it_is_closed(commits: str) -> None:
    """Shows that a member which commits by itself, and is closed without a commit of what its application was given
    before that, violates O11, whether it has committed just before, or at the beginning of the close."""
    trace = Revoking()
    given = trace.given()
    if commits == "before":
        trace.asks(TP)
    trace.begins_to_close()
    if commits == "after":
        trace.asks(TP)
        trace.given(tp=TP)
        trace.given(tp=OTHER)
    elif commits == "late":
        trace.asks(OTHER)
    gone = trace.owns(ONE, "", reason="leave")
    result = trace.result("O11")
    left = commits in ("", "late")
    assert (result.violated, result.tested) == (left, 1)
    if left:
        (finding,) = result.violations
        assert finding.events == [given, gone]
        assert finding.sentence == (
            f"consumer-1, as member m1 of group g, was closed, and gave up {TP} without a commit after the last "
            "records that its application was given"
        )


@pytest.mark.parametrize("why", ["", "by-hand", "joins", "error", "lost", "once", "view", "restarted", "made-anew"])
def test_who_need_not_commit_when_it_is_closed(why: str) -> None:
    """Shows that nothing is said of the close of a member that does not commit by itself, that is joining, was told of
    an error for good, has lost what it owned, or has no position that is certainly valid; nor of one that died in a
    close, or was made anew after it."""
    trace = Revoking("sync" if why == "by-hand" else "auto")
    trace.given(1 if why == "once" else 2)
    if why == "view":
        trace.emit(ONE, MetaView("broker-1", {TP: 1}, [TP]))
    trace.begins_to_close(why != "joins", KafkaError.FENCED_INSTANCE_ID if why == "error" else 0)
    if why == "restarted":
        trace.down(ONE)
        trace.up(ONE, "group-consumer")
    elif why == "made-anew":
        trace.owns(ONE, TP, reason="join")
    trace.owns(ONE, "", reason="lost" if why == "lost" else "leave")
    assert trace.result("O11").violated == (not why)


class Reading(Revoking):
    """consumer-1 has committed by itself, once, and reads on. It commits each two seconds, and sends a heartbeat each
    second."""

    def __init__(self, how: Any = "auto", ended: bool = True) -> None:
        config = {"auto.commit.interval.ms": 2000, "heartbeat.interval.ms": 1000, "session.timeout.ms": 10_000}
        super().__init__(how, nodes={ONE: {"config": config}})
        self.since_us = self.wall
        if ended:
            told = (GROUP, "m1", 1, {TP: entry(self.at)}, "auto", {TP: 0})
            self.emit(ONE, CommitReturn(f"commit-{self.ops}", "ok", 0, *told))
        self.given()
        self.calls()

    def calls(self, *errors: int, api: str = "Heartbeat", outcome: Any = "answered") -> str:
        """A call to the coordinator ends, which took no time."""
        return self.emit(ONE, Rpc(api, 4, "broker-1", "coordinator", 1, outcome, list(errors)))

    def after(self, ms: int) -> None:
        """The next event comes so long after the commit."""
        self.wall = self.since_us + 1000 * ms - self.apart


@pytest.mark.parametrize("commits", [False, True])
def test_a_member_commits_each_interval(commits: bool) -> None:
    """Shows that a member which has not committed a second after its interval, though its application is given records,
    violates O11 as soon as a heartbeat tells that it knew its coordinator."""
    trace = Reading()
    trace.after(2500)
    trace.calls()
    trace.after(3001)
    given = trace.given(1)
    if commits:
        trace.asks(TP)
    trace.after(4007)
    told = trace.calls()
    result = trace.result("O11")
    assert (result.violated, result.tested) == (not commits, 1)
    if not commits:
        (finding,) = result.violations
        assert finding.events == [given, told]
        assert finding.sentence == (
            "consumer-1 has committed nothing by itself for 4,007 ms, though its application was given records, and it "
            "knew its coordinator; its auto.commit.interval.ms is 2,000 ms"
        )


@pytest.mark.parametrize("why", ["by-hand", "open", "unheard", "early", "once", "coordinator-died", "clock"])
def test_whose_commit_is_not_due(why: str) -> None:
    """Shows that a member need not have committed by itself if it does not do so, or waits for the end of a commit, or
    may have lost its coordinator, or has no position that it could commit."""
    trace = Reading("sync" if why == "by-hand" else "auto", ended=why != "open")
    trace.after(2500)
    if why != "unheard":
        trace.calls()
    if why == "once":
        trace.emit(ONE, MetaView("broker-1", {TP: 1}, [TP]))
    elif why == "coordinator-died":
        trace.down("broker-1")
    elif why == "clock":
        trace.emit("broker-1", ClockSet("c", "start", 1, 0))
    trace.after(2999 if why == "early" else 3001)
    trace.given(1)
    trace.after(4007)
    trace.calls()
    assert trace.result("O11").violated == 0


@pytest.mark.parametrize(
    "why",
    ["", "soon", "late", "refused", "failed", "joins", "revoked", "assigned", "view", "moved", "error", "restarted"],
)
def test_what_comes_between_a_commit_that_is_due_and_a_heartbeat(why: str) -> None:
    """Shows that a heartbeat says nothing of a commit if it was sent at once, or after so long that the member may have
    lost its coordinator meanwhile; nor after a call that failed or was refused, after the member has joined, begun anew
    or got another assignment, and where its position may not be valid any more."""
    trace = Reading()
    trace.after(2500)
    trace.calls()
    trace.after(3001)
    trace.given(1)
    if why in ("refused", "failed"):
        errors = [KafkaError.REBALANCE_IN_PROGRESS] if why == "refused" else []
        trace.calls(*errors, api="OffsetFetch", outcome="timeout" if why == "failed" else "answered")
    elif why == "joins":
        trace.calls(api="JoinGroup")
    elif why in ("revoked", "assigned"):
        trace.owns(ONE, TP, reason="lost" if why == "revoked" else "assign")
    elif why == "view":
        trace.emit(ONE, MetaView("broker-1", {TP: 1}, [TP]))
    elif why == "moved":
        trace.emit(ONE, ConsPos(TP, 2, 1, 0, "truncation"))
    elif why == "error":
        trace.emit(ONE, ErrorSeen(TP, "Fetch", 12, KafkaError.OFFSET_OUT_OF_RANGE, "broker-1"))
    elif why == "restarted":
        trace.down(ONE)
        trace.up(ONE, "group-consumer")
    trace.after({"soon": 4005, "late": 4600}.get(why, 4100))
    trace.calls()
    assert trace.result("O11").violated == (not why)
