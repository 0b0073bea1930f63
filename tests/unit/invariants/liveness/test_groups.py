"""L11, and what groups are to L6 and L7."""

from __future__ import annotations

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import MEMBERS_LEFT, ConsPos, CtlPhase, ErrorSeen, GrpGen, PartChange
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.groups.stage import GROUP, OFFSETS, ONE, TWO, GroupTrace
from tests.unit.invariants.trace_builder import TP

BOUND_US = bound_us(Profile(), "L11")
CORE = ("broker-1", ONE, TWO)


def begun(*core: str, **profile: object) -> GroupTrace:
    """Both members are up, and a window is open."""
    trace = GroupTrace(**profile)
    trace.up(ONE, "group-consumer")
    trace.up(TWO, "group-consumer")
    trace.window("open", *(core or CORE))
    return trace


def settles(trace: GroupTrace, generation: int = 1) -> None:
    """The group becomes stable, and its members take what they are given."""
    trace.stable(generation)
    trace.owns(ONE, TP, generation)
    trace.owns(TWO, "orders-1", generation)


def later(trace: GroupTrace) -> None:
    """The bound is over."""
    trace.wall += BOUND_US + 1_000_000
    trace.emit("driver", CtlPhase("running"))


def test_a_group_that_gets_together() -> None:
    """Shows that L11 is held, tested, each time that a group becomes stable within the bound, with everything owned."""
    trace = begun()
    trace.gen("PreparingRebalance", 0)
    settles(trace)
    later(trace)
    trace.gen("PreparingRebalance", 1)
    settles(trace, 2)
    later(trace)
    assert (trace.result("L11").status, trace.result("L11").tested) == ("held", 2)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("state", "it is PreparingRebalance"),
        ("member", "consumer-2 is no member"),
        ("owner", "nobody owns orders-1"),
        ("restart", "nobody owns orders-1"),
    ],
)
def test_a_group_that_does_not_get_together(what: str, says: str) -> None:
    """Shows each way in which a group whose members are all there violates L11: it is not stable, a member is missing,
    a partition is nobody's."""
    trace = begun()
    trace.gen("PreparingRebalance", 0)
    if what == "member":
        trace.stable(1, m1=f"{TP} orders-1")
        trace.owns(ONE, f"{TP} orders-1")
    elif what == "owner":
        trace.stable(1, m1=TP, m2="")
        trace.owns(ONE, TP)
        trace.owns(TWO, "")
    elif what == "restart":
        settles(trace)
        trace.down(TWO)
        trace.up(TWO, "group-consumer")
    later(trace)
    (finding,) = trace.result("L11").violations
    assert finding.sentence.startswith("group g of consumer-1, consumer-2 did not become stable within ")
    assert finding.sentence.endswith(says)


def test_who_may_be_waited_for() -> None:
    """Shows that nothing is due while a member is not in the core, nor after clients are told to stop; and that a
    member that is down is not missed."""
    cut = begun("broker-1", ONE)
    cut.gen("PreparingRebalance", 0)
    later(cut)
    stopping = begun()
    stopping.gen("PreparingRebalance", 0)
    stopping.emit("driver", CtlPhase("stopping"))
    later(stopping)
    for trace in (cut, stopping):
        assert trace.result("L11").violated == 0
    down = begun()
    down.gen("PreparingRebalance", 0)
    down.down(TWO)
    down.stable(1, m1=f"{TP} orders-1")
    down.owns(ONE, f"{TP} orders-1")
    later(down)
    assert (down.result("L11").status, down.result("L11").tested) == ("held", 1)


def test_the_others_go_on_without_who_left() -> None:
    """Shows that the partitions of a member that left of itself go to the others within the bound, which begins anew
    with each that comes or goes."""
    for goes, violated in ((0, 1), (1, 0)):
        trace = begun()
        settles(trace)
        trace.owns(TWO, "", 1, "leave")
        trace.wall += BOUND_US - 1_000_000
        for each in range(goes):
            trace.owns(TWO, "", 1 + each, "assign")
            trace.owns(TWO, "", 1 + each, "leave")
        trace.wall += 2_000_000
        trace.emit("driver", CtlPhase("running"))
        assert trace.result("L11").violated == violated


@pytest.mark.parametrize(
    ("reason", "stalling", "violated"),
    [
        (f"{MEMBERS_LEFT} (m2) members", [TWO], 0),
        (f"{MEMBERS_LEFT} (m2) members", [ONE], 1),
        ("removing member m2 on heartbeat expiration", [TWO], 1),
    ],
)
def test_members_whose_applications_do_not_poll(reason: str, stalling: list[str], violated: int) -> None:
    """Shows that the bound begins anew with each member that asks to leave as its application does not poll, and with
    none whose application always does, or that its coordinator gives up."""
    trace = begun(stalling=stalling)
    settles(trace)
    for each in range(3):
        one = GrpGen(OFFSETS, GROUP, "PreparingRebalance", 2 + each, 0, members={"m1": ONE}, reason=reason)
        trace.emit("broker-1", one)
        trace.gen("PreparingRebalance", 2 + each)
        trace.wall += BOUND_US // 2
    trace.emit("driver", CtlPhase("running"))
    assert trace.result("L11").violated == violated


@pytest.mark.parametrize(
    ("error", "unwelcome", "violated"),
    [
        (KafkaError.GROUP_MAX_SIZE_REACHED, [TWO], 0),
        (KafkaError.FENCED_INSTANCE_ID, [TWO], 0),
        (KafkaError.GROUP_MAX_SIZE_REACHED, [], 1),
        (KafkaError.REBALANCE_IN_PROGRESS, [TWO], 1),
    ],
)
def test_members_that_may_be_turned_away(error: KafkaError, unwelcome: list[str], violated: int) -> None:
    """Shows that a group gets together without whom it has no place for, and that no other refusal is taken for
    that."""
    trace = begun(unwelcome=unwelcome)
    trace.emit(TWO, ErrorSeen("", "JoinGroup", 9, error, "broker-1"))
    trace.gen("Stable", 1, "m1", m1=f"{TP} orders-1")
    trace.owns(ONE, f"{TP} orders-1", 1)
    later(trace)
    assert trace.result("L11").violated == violated


def test_a_member_that_asks_to_leave_once() -> None:
    """Shows that a group is still expected to get together after that."""
    trace = begun()
    settles(trace)
    reason = f"{MEMBERS_LEFT} (m2) members"
    trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "PreparingRebalance", 2, 0, members={"m1": ONE}, reason=reason))
    trace.gen("PreparingRebalance", 2)
    later(trace)
    assert trace.result("L11").violated == 1


@pytest.mark.parametrize("member", ["m2", "m3"])
def test_a_coordinator_does_not_say_that_who_left_is_back(member: str) -> None:
    """Shows that a coordinator that has not given up a consumer which left does not say that it is back, even if it
    took it up under another id before that, and says so now; and that the consumer does which is made anew."""
    for back in (False, True):
        trace = begun()
        settles(trace)
        trace.owns(TWO, "", 1, "leave")
        if back:
            trace.owns(TWO, "", -1, "join")
        members = {"m1": ONE, member: TWO}
        trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "PreparingRebalance", 1, 0, members=members))
        trace.stable(2, m1=f"{TP} orders-1")
        trace.owns(ONE, f"{TP} orders-1", 2)
        later(trace)
        assert trace.result("L11").violated == back


def test_a_coordinator_goes_on_with_what_it_loaded() -> None:
    """Shows that a group that its coordinator gave up is together again when the next one has loaded it, as no state is
    entered then; and that it is not with a member missing."""
    for members in ("m1 m2", "m1"):
        trace = begun()
        settles(trace)
        trace.gen("Dead", 1)
        trace.unloads()
        trace.loads_stable(1, epoch=1, broker=2, **dict.fromkeys(members.split(), TP))
        later(trace)
        assert trace.result("L11").violated == (members == "m1")


def test_a_zombie_coordinator_says_nothing() -> None:
    """Shows that the newest coordinator's word counts."""
    trace = begun()
    trace.gen("PreparingRebalance", 1, epoch=1, broker=2)
    trace.stable(1, epoch=0)
    trace.owns(ONE, TP)
    trace.owns(TWO, "orders-1")
    later(trace)
    assert trace.result("L11").violated == 1


def test_a_consumer_need_not_read_what_it_gave_up() -> None:
    """Shows that L6 is about partitions that a consumer has: it pursues one that it was given, and none that it gave
    up."""
    for gives_up in (False, True):
        trace = begun()
        trace.lead(1)
        trace.replicate("a")
        trace.high_watermark("broker-1", 1)
        trace.owns(ONE, TP)
        trace.moved(ONE, 0, "committed")
        if gives_up:
            trace.owns(ONE, "orders-1", 2)
        later(trace)
        trace.wall += 300_000_000
        trace.emit("driver", CtlPhase("running"))
        assert trace.result("L6").violated == (not gives_up)


def test_what_a_member_gave_up_of_a_topic_that_was_made_anew() -> None:
    """Shows that a group assigns partitions by their names: who gave one up need not read the one of that name which
    came later."""
    anew = f"{TP}@AAAAAAAAAAAAAAAAAAAAAA"
    for gives_up in (False, True):
        trace = begun()
        trace.emit("controller-1", PartChange(anew, 5, 1, 1, 0, 0, [1, 2, 3], [1, 2, 3], "create"))
        trace.owns(ONE, TP)
        trace.emit(ONE, ConsPos(anew, -1, 0, 0, "committed"))
        trace.high_watermark("broker-1", 1, tp=anew)
        if gives_up:
            trace.owns(ONE, "orders-1", 2)
        later(trace)
        trace.wall += 300_000_000
        trace.emit("driver", CtlPhase("running"))
        assert trace.result("L6").violated == (not gives_up)


def test_a_consumer_that_is_back_need_not_read_what_it_had() -> None:
    """Shows that L6 does not expect of a member that crashed that it reads what it was assigned before, until it is
    assigned that again."""
    for again in (False, True):
        trace = begun()
        trace.lead(1)
        trace.replicate("a")
        trace.high_watermark("broker-1", 1)
        trace.owns(ONE, TP)
        trace.moved(ONE, 0, "committed")
        trace.down(ONE)
        trace.up(ONE, "group-consumer")
        if again:
            trace.owns(ONE, TP, 2)
            trace.moved(ONE, 0, "committed")
        later(trace)
        trace.wall += 300_000_000
        trace.emit("driver", CtlPhase("running"))
        assert trace.result("L6").violated == again


def test_a_commit_returns() -> None:
    """Shows that L7 is about commits, too, and not about the look-ups of positions, which have no timeout."""
    trace = begun()
    trace.committed(trace.commits(1), 1)
    trace.looks_up()
    trace.wall += 300_000_000
    trace.emit("driver", CtlPhase("running"))
    assert (trace.result("L7").status, trace.result("L7").tested) == ("held", 1)
    trace.commits(2)
    trace.wall += 300_000_000
    trace.emit("driver", CtlPhase("running"))
    assert trace.result("L7").violated == 1


def test_a_member_may_commit_for_as_long_as_it_may_take_to_join() -> None:
    """Shows that L7 gives a member that commits by itself max.poll.interval.ms, and no other commit that."""
    for how, seconds, violated in (("sync", 100, 1), ("auto", 100, 0), ("auto", 400, 1)):
        trace = begun()
        trace.commits(1, how=how)
        trace.wall += seconds * 1_000_000
        trace.emit("driver", CtlPhase("running"))
        assert trace.result("L7").violated == violated, (how, seconds)


def fenced(trace: GroupTrace) -> None:
    """The second consumer is told that another member has its instance id."""
    trace.emit(TWO, ErrorSeen("", "SyncGroup", 5, KafkaError.FENCED_INSTANCE_ID, "broker-2"))


@pytest.mark.parametrize(("newest", "is_fenced"), [("m3", True), ("m3", False), ("consumer-2-m3", True)])
def test_a_static_member_that_the_next_coordinator_fences(newest: str, is_fenced: bool) -> None:
    """Shows that a static member is excused whose newest id died with its coordinator, and which the next one fences
    as it has it under the former id; one that has no instance id joins again, as does one that nobody fenced."""
    trace = begun()
    settles(trace)
    trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "CompletingRebalance", 2, 0, members={"m1": ONE, newest: TWO}))
    trace.unloads()
    trace.loads_stable(1, epoch=1, broker=2, m1=TP, m2="orders-1")
    trace.stable(3, 1, 2, m1=f"{TP} orders-1")
    trace.owns(ONE, f"{TP} orders-1", 3)
    if is_fenced:
        fenced(trace)
    later(trace)
    excused = newest == "m3" and is_fenced
    assert trace.result("L11").excused == ({"fenced-static-member": 1} if excused else {})
    assert trace.result("L11").violated == (not excused)


@pytest.mark.parametrize("loads", [1, 2])
def test_a_static_member_that_a_former_coordinator_took_in(loads: int) -> None:
    """Shows the same of a member whose newest id is from a coordinator that was no longer in office, whether or not
    another one loads the group afterwards."""
    trace = begun()
    settles(trace)
    trace.loads_stable(1, epoch=1, broker=2, m1=TP, m2="orders-1")
    trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "CompletingRebalance", 2, 0, members={"m3": TWO}))
    if loads == 2:
        trace.loads_stable(1, epoch=2, broker=3, m1=TP, m2="orders-1")
    trace.stable(3, loads, loads + 1, m1=f"{TP} orders-1")
    trace.owns(ONE, f"{TP} orders-1", 3)
    fenced(trace)
    later(trace)
    assert trace.result("L11").excused == {"fenced-static-member": 1}


@pytest.mark.parametrize("disconnected", [False, True])
def test_a_static_member_whose_older_request_came_last(disconnected: bool) -> None:
    """Shows that a static member is excused that got the id of its newer JoinGroup, after which the coordinator took up
    an older one from a connection that the member had lost; and that two ids without such a connection excuse nobody.
    """
    trace = begun()
    settles(trace)
    if disconnected:
        trace.emit(TWO, ErrorSeen("", "Heartbeat", 4, KafkaError.NETWORK_EXCEPTION, "broker-1"))
    trace.stable(1, m1=TP, m3="orders-1")
    trace.stable(1, m1=TP, m4="orders-1")
    fenced(trace)
    trace.stable(2, m1=f"{TP} orders-1")
    trace.owns(ONE, f"{TP} orders-1", 2)
    later(trace)
    assert trace.result("L11").excused == ({"fenced-static-member": 1} if disconnected else {})
    assert trace.result("L11").violated == (not disconnected)


def test_who_makes_a_new_consumer_is_to_be_a_member() -> None:
    """Shows that a group whose member left and made a new consumer is not whole before that one is a member, even if no
    coordinator ever heard of it."""
    for back in (False, True):
        trace = begun()
        settles(trace)
        trace.owns(TWO, "", 1, "leave")
        trace.stable(2, m1=f"{TP} orders-1")
        trace.owns(ONE, f"{TP} orders-1", 2)
        if back:
            trace.owns(TWO, "", -1, "join")
        later(trace)
        assert trace.result("L11").violated == back
