"""O9: for whom a coordinator waits, and for how long; and whom it leaves waiting when it resigns (X6)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import REBALANCE_TIMEOUT, ClockSet, ConsOwn, CtlFault, CtlPhase, GrpGen, GrpLoad, GrpOut
from tests.unit.invariants.groups.stage import GROUP, OFFSETS, ONE, PROFILE, TWO, GroupTrace
from tests.unit.invariants.trace_builder import TP

SECOND_US = 1_000_000
SESSION_US, JOIN_US, SYNC_US = 5 * SECOND_US, 6 * SECOND_US, 10 * SECOND_US
"""The bounds that follow from the timers below: their sums, and two seconds."""


def begun(static: bool = False) -> GroupTrace:
    """Both members are up; consumer-2 is a static one, or not."""
    timers = {"session.timeout.ms": 3000, "max.poll.interval.ms": 3000}
    nodes: dict[str, Any] = {ONE: {"config": timers}, TWO: {"config": dict(timers)}}
    if static:
        nodes[TWO]["config"]["group.instance.id"] = "two"
    config = {"group.initial.rebalance.delay.ms": 1000, "offsets.commit.timeout.ms": 5000}
    trace = GroupTrace(**PROFILE, nodes=nodes, config=config)
    trace.up(ONE, "group-consumer")
    trace.up(TWO, "group-consumer")
    return trace


def after(trace: GroupTrace, us: int) -> None:
    """So much later something happens that is about nobody."""
    trace.wall += us
    trace.emit("driver", CtlPhase("running"))


def fault(trace: GroupTrace, kind: str, phase: Any, *targets: str) -> None:
    """A fault begins or ends."""
    link = {"from": list(targets[:1]), "to": list(targets[1:]), "both_ways": False}
    trace.emit("driver", CtlFault("f1", kind, phase, list(targets), link))


def sentence(trace: GroupTrace) -> str:
    """What O9 says against the trace."""
    (finding,) = trace.result("O9").violations
    return finding.sentence


def test_a_coordinator_that_waits_as_it_should() -> None:
    """Shows that O9 is held, tested by the end of each wait, when nobody is waited for beyond the bounds."""
    trace = begun()
    trace.gen("PreparingRebalance", 1)
    after(trace, JOIN_US - SECOND_US)
    trace.gen("CompletingRebalance", 1)
    after(trace, SYNC_US - SECOND_US)
    trace.stable(1)
    trace.down(TWO)
    after(trace, SESSION_US - SECOND_US)
    out(trace, "session")
    trace.gen("PreparingRebalance", 1, "m1")
    assert (trace.result("O9").status, trace.result("O9").tested) == ("held", 4)


@pytest.mark.parametrize(
    ("state", "bound_us", "verb"), [("PreparingRebalance", JOIN_US, "join"), ("CompletingRebalance", SYNC_US, "sync")]
)
def test_a_rebalance_that_does_not_end(state: str, bound_us: int, verb: str) -> None:
    """Shows that a rebalance which lasts longer than its members may take violates O9, whatever happens on links; and
    that nothing is said where the coordinator gave the group up, or is dead, or was stopped meanwhile."""
    for what in ("", "links", "resigned", "dead", "paused"):
        trace = begun()
        trace.gen(state, 1)
        if what == "links":
            fault(trace, "partition", "start", ONE)
        elif what == "resigned":
            trace.gen("Dead", 1)
        elif what == "dead":
            trace.down("broker-1")
        elif what == "paused":
            fault(trace, "pause", "start", "broker-1")
            after(trace, 2 * SECOND_US)
            fault(trace, "pause", "stop", "broker-1")
            after(trace, bound_us - 2 * SECOND_US)
            assert trace.result("O9").violated == 0
        after(trace, bound_us + SECOND_US)
        assert trace.result("O9").violated == (what in ("", "links", "paused"))
        if not what:
            assert sentence(trace).endswith(f"longer than its members are given to {verb}")


def test_static_members_are_waited_for() -> None:
    """Shows that a group with a static member may wait for longer: it stays a member though it does not join."""
    trace = begun(static=True)
    trace.gen("PreparingRebalance", 1)
    after(trace, 5 * JOIN_US)
    assert trace.result("O9").violated == 0


@pytest.mark.parametrize("how", ["dead", "left", "dead-before-load", "back-before-load"])
def test_a_member_that_is_gone(how: str) -> None:
    """Shows that a group which stays stable with a member that died, or left, for longer than the member's session
    violates O9, also with a coordinator that has only loaded it, and also if the client is up again by then."""
    trace = begun()
    trace.stable(1)
    if how.endswith("load"):
        trace.down("broker-1")
    if how == "left":
        trace.owns(TWO, "", 1, "leave")
    else:
        trace.down(TWO)
    if how == "back-before-load":
        trace.up(TWO, "group-consumer")
    if how.endswith("load"):
        trace.loads_stable(1, epoch=1, broker=2, m1=TP, m2="orders-1")
    after(trace, SESSION_US - SECOND_US)
    assert trace.result("O9").violated == 0
    after(trace, 2 * SECOND_US)
    assert sentence(trace).endswith("although its member m2 is gone")


@pytest.mark.parametrize("link", [(TWO, "broker-1"), ("broker-1", TWO), (TWO, "broker-2")])
def test_what_a_member_that_is_gone_has_sent(link: tuple[str, str]) -> None:
    """Shows that a member's session is over no sooner than the coordinator has what the member sent before it died, and
    that faults on other links change nothing."""
    trace = begun()
    trace.stable(1)
    fault(trace, "drop", "start", *link)
    trace.down(TWO)
    after(trace, 2 * SESSION_US)
    assert trace.result("O9").violated == ("broker-1" not in link)
    fault(trace, "drop", "stop", *link)
    after(trace, SESSION_US - SECOND_US)
    assert trace.result("O9").violated == ("broker-1" not in link)
    after(trace, 2 * SECOND_US)
    assert trace.result("O9").violated == 1


SETTLED_US, SERVED_US = SECOND_US, SECOND_US // 4
"""How long undisturbed servers may still be busy with what was before, and with requests that have arrived."""


@pytest.mark.parametrize("static", [False, True])
def test_a_member_whose_client_is_cut_off(static: bool) -> None:
    """Shows that a group which stays stable with a member that is up, and cut off from its coordinator for longer than
    its session, violates O9; no sooner, and not if the coordinator acts."""
    for put_out in (False, True):
        trace = begun(static)
        trace.stable(1)
        fault(trace, "partition", "start", TWO, "broker-1")
        after(trace, SESSION_US + SERVED_US - SECOND_US)
        assert trace.result("O9").violated == 0
        if put_out:
            out(trace, "session")
            trace.gen("PreparingRebalance", 1, "m1")
        after(trace, 2 * SECOND_US)
        assert trace.result("O9").violated == (not put_out)
        if not put_out:
            assert sentence(trace).endswith("although its member m2 is cut off from it")


def test_a_member_that_died_behind_a_partition() -> None:
    """Shows that it does not matter whether who is cut off is up."""
    trace = begun()
    trace.stable(1)
    fault(trace, "partition", "start", TWO, "broker-1")
    trace.down(TWO)
    after(trace, SESSION_US + SERVED_US + SECOND_US)
    assert sentence(trace).endswith("although its member m2 is cut off from it")


@pytest.mark.parametrize(
    ("kind", "link", "violated"),
    [
        ("partition", (TWO, "broker-1"), 1),
        ("partition", ("broker-1", TWO), 0),
        ("partition", (TWO, "broker-2"), 0),
        ("drop", (TWO, "broker-1"), 0),
    ],
)
def test_who_may_still_be_heard(kind: str, link: tuple[str, str], violated: int) -> None:
    """Shows that a member counts as silent only if nothing arrives from its client at the coordinator."""
    trace = begun()
    trace.stable(1)
    fault(trace, kind, "start", *link)
    after(trace, 3 * SESSION_US)
    assert trace.result("O9").violated == violated


@pytest.mark.parametrize("healed", [False, True])
def test_a_partition_that_heals_and_comes_back(healed: bool) -> None:
    """Shows that the time counts from when nothing arrives any more: a second partition of the link takes over from the
    first one, but what waited arrives when there is none for a moment."""
    trace = begun()
    trace.stable(1)
    fault(trace, "partition", "start", TWO, "broker-1")
    after(trace, SESSION_US - SECOND_US)
    link = {"from": [TWO], "to": ["broker-1"], "both_ways": False}
    turns = [("f1", "stop"), ("f2", "start")] if healed else [("f2", "start"), ("f1", "stop")]
    for name, phase in turns:
        trace.emit("driver", CtlFault(name, "partition", phase, [TWO, "broker-1"], link))
    after(trace, SESSION_US + SERVED_US - SECOND_US)
    assert trace.result("O9").violated == (not healed)


@pytest.mark.parametrize(
    ("what", "violated"),
    [
        ("nothing", 1),
        ("before", 1),
        ("just-before", 0),
        ("since", 0),
        ("still", 0),
        ("died", 0),
        ("client-link", 1),
        ("client-paused", 1),
        ("loaded", 0),
        ("clock", 0),
        ("namesake", 0),
    ],
)
def test_a_coordinator_that_may_have_requests_in_hand(what: str, violated: int) -> None:
    """Shows that nothing is said where requests may wait at the coordinator for a commit: while servers are disturbed,
    or have been since the group became stable, or just before, or if the coordinator has only read its log; nor where
    its clock was set, or another client may be the same static member. What happens to other clients is no matter."""
    trace = begun(static=what == "namesake")
    disturbing = {"since": "broker-3", "client-paused": ONE}.get(what, "broker-2")
    link = {"from": ["broker-2"], "to": [ONE if what == "client-link" else "broker-3"], "both_ways": True}
    kind = "partition" if what == "client-link" else "pause"
    if what in ("before", "just-before", "still", "client-link"):
        trace.emit("driver", CtlFault("f9", kind, "start", [disturbing], link))
    if what in ("before", "just-before"):
        trace.emit("driver", CtlFault("f9", kind, "stop", [disturbing], link))
        after(trace, SETTLED_US + SECOND_US // 10 if what == "before" else SETTLED_US // 2)
    if what == "clock":
        trace.emit("broker-1", ClockSet("c", "start", 1, 0))
    if what == "namesake":
        trace = GroupTrace(
            **PROFILE,
            nodes={
                each: {"config": {"session.timeout.ms": 3000, "group.instance.id": "two"}}
                for each in (TWO, "consumer-3")
            },
        )
        trace.up(ONE, "group-consumer")
        trace.up(TWO, "group-consumer")
    if what == "loaded":
        trace.loads_stable(1, epoch=1, broker=1, m1=TP, m2="orders-1")
    else:
        trace.stable(1)
    fault(trace, "partition", "start", TWO, "broker-1")
    if what in ("since", "client-paused"):
        trace.emit("driver", CtlFault("f9", "pause", "start", [disturbing], {}))
        trace.emit("driver", CtlFault("f9", "pause", "stop", [disturbing], {}))
    if what == "died":
        trace.down("broker-3")
    after(trace, 20 * SESSION_US)
    assert trace.result("O9").violated == violated


def test_a_client_that_left_and_stands_still() -> None:
    """Shows that what a client has sent before it left may arrive when it goes on after a pause."""
    trace = begun()
    trace.stable(1)
    trace.owns(TWO, "", 1, "leave")
    fault(trace, "pause", "start", TWO)
    after(trace, 2 * SESSION_US)
    fault(trace, "pause", "stop", TWO)
    after(trace, SESSION_US - SECOND_US)
    assert trace.result("O9").violated == 0
    after(trace, 2 * SECOND_US)
    assert trace.result("O9").violated == 1


def test_a_member_that_is_back_under_another_id() -> None:
    """Shows that a client which is up again does not bring back its former member id, and that its new one is no
    stranger."""
    for members in ({"m1": ONE, "m2": TWO}, {"m1": ONE, "m3": TWO}):
        trace = begun()
        trace.stable(1)
        trace.down(TWO)
        trace.up(TWO, "group-consumer")
        if "m2" not in members:
            out(trace, "session")
        trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "Stable", 1, 0, members=members))
        after(trace, SESSION_US + SECOND_US)
        assert trace.result("O9").violated == ("m2" in members)


@pytest.mark.parametrize("static", [False, True])
def test_a_static_member_that_begins_anew(static: bool) -> None:
    """Shows that a static member which left and joins again has a session of its own from then on, even if the
    coordinator does not tell of it yet, and that this ends as well; a dynamic one has no place that it could take."""
    trace = begun(static)
    trace.stable(1)
    trace.owns(TWO, "", 1, "leave")
    after(trace, SESSION_US - SECOND_US)
    trace.emit(TWO, ConsOwn(GROUP, "", -1, [], [], [], [], "join"))
    after(trace, SESSION_US - SECOND_US)
    assert trace.result("O9").violated == (not static)
    after(trace, 2 * SECOND_US)
    assert trace.result("O9").violated == 1


def test_a_generation_with_who_did_not_join() -> None:
    """Shows that a dynamic member that did not join must not be in the next generation, and that a static one may when
    its time to join is over."""
    for static, ms, violated in ((False, 3000, 1), (True, 2990, 1), (True, 2996, 0)):
        trace = begun(static)
        trace.gen("PreparingRebalance", 1)
        trace.wall += 1000 * ms
        members = {"m1": ONE, "m2": TWO}
        trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "CompletingRebalance", 2, 0, members=members, absent=["m2"]))
        assert trace.result("O9").violated == violated
        if static and violated:
            assert sentence(trace) == (
                "broker-1 formed generation 2 of group g before m2 had joined, 2,991 ms after the rebalance began, "
                "though a member may take 3,000 ms"
            )
    assert "formed generation 2 of group g with m2, which had sent no JoinGroup for it" in _first(begun())


def _first(trace: GroupTrace) -> str:
    members = {"m1": ONE, "m2": TWO}
    trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "CompletingRebalance", 2, 0, members=members, absent=["m2"]))
    return sentence(trace)


def out(trace: GroupTrace, why: Any, member: str = "m2", broker: int = 1, **more: bool) -> None:
    """A coordinator puts a member out."""
    client = ONE if member == "m1" else TWO
    trace.emit(f"broker-{broker}", GrpOut(OFFSETS, GROUP, 0, member, client, why, **more))


@pytest.mark.parametrize(("ms", "violated"), [(2990, 1), (2996, 0)])
def test_a_rebalance_that_ends_early(ms: int, violated: int) -> None:
    """Shows that a rebalance must not go on without members before their max.poll.interval.ms, by the reason that the
    coordinator gives; one that goes on as all have joined, or that the coordinator has begun in another way, may."""
    for reason in (REBALANCE_TIMEOUT, "initial rebalance delay"):
        trace = begun()
        trace.gen("PreparingRebalance", 1)
        out(trace, "leave")
        trace.wall += 1000 * (ms - 1)
        trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "CompletingRebalance", 2, 0, members={"m1": ONE}, reason=reason))
        assert trace.result("O9").violated == (violated and reason == REBALANCE_TIMEOUT)
        if trace.result("O9").violated:
            assert sentence(trace).endswith("though a member may take 3,000 ms")


def test_how_long_members_of_old_clients_may_take() -> None:
    """Shows that where a JoinGroup may have version 0, a member may take no longer than its session to join again; and
    that nothing is said of members that nobody knows, nor of a broker whose clock was set."""
    for what, violated in (("", 1), ("old", 0), ("unknown", 0), ("clock", 0)):
        trace = begun()
        if what:
            nodes = {ONE: {"config": {"session.timeout.ms": 1000, "max.poll.interval.ms": 3000}}}
            members = [TWO] if what == "unknown" else [ONE]
            versions = {"JoinGroup": [0, 0]} if what == "old" else {}
            groups = {GROUP: {"members": members, "partitions": [TP]}}
            trace = GroupTrace(nodes=nodes, versions=versions, groups=groups)
        if what == "clock":
            trace.emit("broker-1", ClockSet("c", "start", 1, 0))
        states: list[tuple[Any, str]] = [("PreparingRebalance", ""), ("Empty", REBALANCE_TIMEOUT)]
        for state, reason in states:
            trace.emit("broker-1", GrpGen(OFFSETS, GROUP, state, 1, 0, members={"m1": ONE}, reason=reason))
            trace.wall += 1_100_000
        assert trace.result("O9").violated == violated


@pytest.mark.parametrize(("ms", "violated"), [(2990, 1), (2996, 0)])
@pytest.mark.parametrize("since", ["formed", "loaded", "synced", "other-broker", "clock"])
def test_who_is_put_out_early(since: str, ms: int, violated: int) -> None:
    """Shows that a member has its whole session after its generation is formed, or its coordinator has read its log,
    and its max.poll.interval.ms to sync; that what another broker has told is no measure, nor a clock that was set."""
    trace = begun()
    if since in ("loaded", "other-broker"):
        trace.loads_stable(1, epoch=1, broker=1 if since == "loaded" else 2, m1=TP, m2="orders-1")
    else:
        trace.gen("CompletingRebalance", 1)
    if since == "clock":
        trace.emit("broker-1", ClockSet("c", "start", 1, 0))
    trace.wall += 1000 * ms
    out(trace, "sync" if since == "synced" else "session")
    result = trace.result("O9")
    assert (result.violated, result.tested) == (violated and since not in ("other-broker", "clock"), 1)


def test_who_waits_for_an_answer() -> None:
    """Shows that a member which waits for an answer must not be put out for its silence, once it has been in a
    generation; a new one may be, five minutes after its client started."""
    trace = begun()
    out(trace, "session", waits=True)
    assert sentence(trace).endswith("though it waited for the answer to its JoinGroup or SyncGroup")
    for later_ms, violated in ((299_900, 1), (300_000, 0)):
        trace = begun()
        trace.wall += 1000 * later_ms
        out(trace, "session", waits=True, is_new=True)
        assert trace.result("O9").violated == violated


def test_who_is_put_out_of_a_rebalance() -> None:
    """Shows that a static member must not be put out for not joining, a dynamic one may be; and that both may leave."""
    for static in (False, True):
        trace = begun(static)
        trace.gen("CompletingRebalance", 1)
        out(trace, "leave")
        assert trace.result("O9").violated == 0
        out(trace, "join")
        assert trace.result("O9").violated == static


@pytest.mark.parametrize(("ms", "violated"), [(2990, 1), (2996, 0)])
@pytest.mark.parametrize("where", ["", "other-broker", "clock"])
def test_who_is_put_out_before_it_can_join(where: str, ms: int, violated: int) -> None:
    """Shows that a member must not be put out for not joining before its max.poll.interval.ms is over, whatever the
    reason of the generation; that the rebalance of another broker is no measure, nor a clock that was set."""
    trace = begun()
    trace.gen("PreparingRebalance", 1, broker=2 if where == "other-broker" else 1)
    if where == "clock":
        trace.emit("broker-1", ClockSet("c", "start", 1, 0))
    trace.wall += 1000 * ms
    out(trace, "join")
    assert trace.result("O9").violated == (violated and not where)
    if violated and not where:
        assert sentence(trace).endswith(
            "out of group g 2,991 ms after its rebalance began, for it had not joined, though a member may take "
            "3,000 ms"
        )


@pytest.mark.parametrize("why", ["", "loaded", "out", "dead", "restarted", "other-broker", "back", "newer-epoch"])
def test_a_member_that_vanishes(why: str) -> None:
    """Shows that a coordinator which has a member, also from its log, must put it out before it is no member any more;
    and that this is not said of another coordinator, or one that has begun anew. A dynamic client that is a member
    under another id does not take the place of its former member."""
    trace = begun()
    broker, epoch = 2 if why == "other-broker" else 1, 1 if why == "newer-epoch" else 0
    if why == "loaded":
        told = trace.loads_stable(1, epoch=0, broker=1, m1=TP, m2="orders-1")
    else:
        told = trace.stable(1)
    if why == "out":
        out(trace, "leave")
    elif why == "dead":
        trace.gen("Dead", 1)
    elif why == "restarted":
        trace.down("broker-1")
        trace.up("broker-1")
    members = {"m1": ONE, "m3": TWO} if why == "back" else {"m1": ONE}
    moved = trace.emit(f"broker-{broker}", GrpGen(OFFSETS, GROUP, "PreparingRebalance", 1, epoch, members=members))
    result = trace.result("O9")
    assert result.violated == (why in ("", "loaded", "back", "newer-epoch"))
    if result.violated:
        assert result.violations[0].events == [told, moved]
        assert sentence(trace) == (
            "broker-1 moved group g to PreparingRebalance in generation 1 without the member m2, which it had before "
            "and did not put out"
        )


@pytest.mark.parametrize("why", ["back", "back-and-out", "namesake", "other", "gone"])
def test_a_static_member_under_another_id(why: str) -> None:
    """Shows that a static member may come back under another id, also as another client, and also if it is put out
    before anything is told of it; and that another member does not take its place."""
    nodes: dict[str, Any] = {ONE: {"config": {}}, TWO: {"config": {"group.instance.id": "two"}}}
    nodes["consumer-3"] = {"config": {"group.instance.id": "two" if why == "namesake" else "three"}}
    trace = GroupTrace(**PROFILE, nodes=nodes)
    trace.stable(1)
    if why == "back-and-out":
        out(trace, "leave", member="m3")
    third = {"m3": "consumer-3"}
    new = {"back": {"m3": TWO}, "namesake": third, "other": third}.get(why, {})
    trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "PreparingRebalance", 1, 0, members={"m1": ONE, **new}))
    assert trace.result("O9").violated == (why in ("other", "gone"))


@pytest.mark.parametrize(("size", "violated"), [(3, 0), (4, 1)])
def test_who_is_refused_for_the_size_of_its_group(size: int, violated: int) -> None:
    """Shows that a member may vanish where the group has had as many others as it may have members: those that it has
    now, and those that are put out since."""
    trace = GroupTrace(**PROFILE, config={"group.max.size": size})
    trace.stable(1)
    out(trace, "leave", member="m4")
    members = {"m1": ONE, "m3": "consumer-3"}
    trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "CompletingRebalance", 2, 0, members=members))
    assert trace.result("O9").violated == violated


def test_a_deposed_coordinator_is_not_heard() -> None:
    """Shows that the word of a coordinator of a lower leader epoch changes nothing."""
    trace = begun()
    trace.gen("Stable", 1, epoch=1, broker=2)
    trace.gen("PreparingRebalance", 1)
    after(trace, 2 * JOIN_US)
    assert trace.result("O9").violated == 0


def test_who_waits_when_the_coordinator_resigns() -> None:
    """Shows that a coordinator which gives up an offsets partition tests X6, and violates it if a member is left
    without an answer."""
    trace = begun()
    trace.unloads()
    assert (trace.result("X6").status, trace.result("X6").tested) == ("held", 1)
    trace.emit("broker-1", GrpLoad(OFFSETS, 0, False, 5, waiting=["m1", "m2"]))
    (finding,) = trace.result("X6").violations
    assert finding.sentence == f"broker-1 gave up {OFFSETS}, and did not answer m1, m2"


DELAY_US = SECOND_US
"""How long a group that was empty waits for more members, once."""


def first_rebalance(trace: GroupTrace, us: int, members: str = "m1", **more: int) -> int:
    """A group forms its first generation so long after it began to; whether O9 is violated by that."""
    trace.gen("PreparingRebalance", more.get("before", 0), "")
    after(trace, us)
    trace.gen("CompletingRebalance", 1 + more.get("before", 0), members)
    return trace.result("O9").violated


@pytest.mark.parametrize(("members", "joined"), [("", 0), ("m1", 1), ("m1 m2", 2)])
def test_a_first_rebalance_that_lasts(members: str, joined: int) -> None:
    """Shows that an empty group waits for one initial delay, and for one more for each member that joins meanwhile."""
    bound_us = (1 + joined) * DELAY_US + 2 * SECOND_US
    assert not first_rebalance(begun(), bound_us - SECOND_US // 10, members)
    trace = begun()
    assert first_rebalance(trace, bound_us + SECOND_US // 10, members)
    ms = f"{1000 * (1 + joined):,}"
    assert sentence(trace).endswith(f"began, with {joined} new members since, though it may wait {ms} ms for so many")


def test_who_has_extended_a_first_rebalance() -> None:
    """Shows that a member which has joined and is out again extends the rebalance, and one who was there does not;
    and that who joined in the last delay of an earlier first rebalance may extend the next one."""
    late_us = DELAY_US + 2 * SECOND_US + SECOND_US // 2
    for what, violated in (("", 1), ("out", 0), ("there", 1), ("carried", 0), ("not-carried", 1)):
        trace = begun()
        members = "m1"
        if what.endswith("carried"):
            trace.gen("PreparingRebalance", 0, "m1")
            trace.gen("CompletingRebalance", 1, "m1 m2" if what == "carried" else "m1")
            for member in ("m1", "m2"):
                out(trace, "leave", member)
            trace.gen("PreparingRebalance", 1, "")
            trace.gen("Empty", 2, "")
        trace.gen("PreparingRebalance", 2 if what.endswith("carried") else 0, members)
        if what == "out":
            out(trace, "leave")
        after(trace, late_us)
        trace.gen("CompletingRebalance", 3, members)
        assert trace.result("O9").violated == violated


@pytest.mark.parametrize("what", ["loaded-empty", "loaded-stable", "clock", "paused", "stays-paused", "restarted"])
def test_whose_first_rebalance_it_is(what: str) -> None:
    """Shows that a rebalance is the first one if the coordinator has read that the group is empty, not if it has read
    of members; and that a clock that was set, a pause and another incarnation excuse."""
    trace = begun()
    before = 0
    if what.startswith("loaded"):
        before = 4
        if what == "loaded-empty":
            trace.loads(5, epoch=0, broker=1, **{GROUP: ("Empty", 4)})
        else:
            trace.loads_stable(4, epoch=0, broker=1, m1=TP)
            out(trace, "leave", "m1")
    if what == "clock":
        trace.emit("broker-1", ClockSet("c", "start", 1, 0))
    trace.gen("PreparingRebalance", before, "")
    if what == "restarted":
        trace.down("broker-1")
        trace.up("broker-1")
    if what.endswith("paused"):
        fault(trace, "pause", "start", "broker-1")
    after(trace, 4 * SECOND_US)
    if what == "paused":
        fault(trace, "pause", "stop", "broker-1")
    trace.gen("CompletingRebalance", before + 1, "")
    assert trace.result("O9").violated == (what == "loaded-empty")


@pytest.mark.parametrize(("config", "violated"), [({"group.max.size": 1}, 1), ({"group.max.size": 2}, 0), ({}, 0)])
def test_a_generation_with_too_many_members(config: dict[str, int], violated: int) -> None:
    """Shows that a generation has no more members than group.max.size says, and that a larger one is evidence."""
    trace = GroupTrace(**PROFILE, config=config)
    trace.gen("PreparingRebalance", 0)
    trace.gen("CompletingRebalance", 1)
    assert trace.result("O9").violated == violated
    if violated:
        assert sentence(trace).endswith("formed generation 1 of group g with 2 members, though group.max.size is 1")


def test_a_static_member_that_has_not_joined_is_one_more() -> None:
    """Shows that a group may have more members than that while a static one keeps its place."""
    trace = GroupTrace(**PROFILE, config={"group.max.size": 1}, nodes={TWO: {"config": {"group.instance.id": "two"}}})
    trace.gen("PreparingRebalance", 0)
    trace.gen("CompletingRebalance", 1)
    assert trace.result("O9").violated == 0


@pytest.mark.parametrize(("other", "violated"), [("two", 0), ("one", 1)])
def test_one_of_two_clients_with_an_instance_id_dies(other: str, violated: int) -> None:
    """Shows that a coordinator waits for nobody whose place another client has: the group has the client id of the
    first one for both."""
    nodes = {
        ONE: {"config": {"group.instance.id": other}},
        TWO: {"config": {"group.instance.id": "two", "session.timeout.ms": 3000}},
    }
    trace = GroupTrace(**PROFILE, nodes=nodes)
    trace.up(ONE, "group-consumer")
    trace.up(TWO, "group-consumer")
    trace.stable(1)
    trace.down(TWO)
    after(trace, 60 * SECOND_US)
    assert trace.result("O9").violated == violated
