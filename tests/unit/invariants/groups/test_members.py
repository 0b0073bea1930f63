"""O2, O4 and O5: what members of a group may do."""

from __future__ import annotations

import pytest
from msgspec import structs

from actors.trace.events import GROUP_EXPIRED, GrpGen
from tests.unit.invariants.groups.stage import GROUP, OFFSETS, ONE, TWO, GroupTrace
from tests.unit.invariants.trace_builder import TP, TraceBuilder


def status(trace: TraceBuilder, invariant: str) -> tuple[str, int]:
    """What an invariant says, and how often it was tested."""
    result = trace.result(invariant)
    return result.status, result.tested


def sentence(trace: TraceBuilder, invariant: str) -> str:
    """Of the only violation."""
    (finding,) = trace.result(invariant).violations
    return finding.sentence


def test_a_run_without_groups_does_not_concern_them() -> None:
    """Shows that what is about groups is vacuous, and says why, where no consumer has one."""
    trace = GroupTrace(groups={})
    trace.stable(1)
    for name in ("O1", "O2", "O4", "O5", "O7", "L11"):
        assert (trace.result(name).status, trace.result(name).why) == ("vacuous", "no consumer has a group")


# ---- O2 ---------------------------------------------------------------------------------------------------------


def test_members_of_the_current_generation_commit() -> None:
    """Shows that O2 is held, tested, when members commit in their generation, also while the next one is prepared, and
    when a refused one is of another."""
    trace = GroupTrace()
    trace.stable(1)
    trace.decides(10)
    trace.gen("PreparingRebalance", 1)
    trace.decides(11, 1)
    trace.decides(12, -1, generation=0, error=22)
    trace.decides(-1, 2, "", -1)
    assert status(trace, "O2") == ("held", 2)


@pytest.mark.parametrize(
    ("state", "member", "generation", "says"),
    [
        ("Stable", "m1", 1, "whose generation is 2"),
        ("Stable", "m3", 2, "in whose generation 2 it is no member"),
        ("Stable", "", -1, "which has the members m1, m2"),
        ("Empty", "m1", 2, "which is Empty in generation 2"),
        ("Dead", "m1", 2, "which is Dead in generation 2"),
        ("CompletingRebalance", "m1", 2, "which is CompletingRebalance in generation 2"),
    ],
)
def test_whoever_is_no_member_now_cannot_commit(state: str, member: str, generation: int, says: str) -> None:
    """Shows each way in which a commit that was taken violates O2."""
    trace = GroupTrace()
    by = trace.gen(state, 2)
    taken = trace.decides(10, member=member, generation=generation)
    (finding,) = trace.result("O2").violations
    assert finding.sentence.endswith(f"in generation {generation} of group g, {says}")
    assert finding.events == [by, taken]


def test_a_group_without_members_commits() -> None:
    """Shows that a client that assigns partitions to itself may commit while the group is empty."""
    trace = GroupTrace()
    trace.gen("Empty", 2, "")
    trace.decides(10, member="", generation=-1)
    assert status(trace, "O2") == ("held", 1)


def test_what_a_coordinator_loaded_counts() -> None:
    """Shows that after a failover the members are those of the generation that was loaded, until another begins."""
    trace = GroupTrace()
    trace.stable(3)
    trace.loads(5, None, 1, 2, **{GROUP: ("Stable", 3)})
    trace.decides(10, generation=3, epoch=1, broker=2)
    assert status(trace, "O2") == ("held", 1)
    trace.decides(10, generation=2, epoch=1, broker=2)
    assert "whose generation is 3" in sentence(trace, "O2")


def test_a_generation_that_was_only_written() -> None:
    """Shows that the members of a generation whose coordinator was replaced before it knew that the assignment was
    committed are those that the next one found in its log, and nobody else."""
    trace = GroupTrace()
    trace.stable(3)
    trace.gen("CompletingRebalance", 4)
    trace.loads_stable(4, m1=TP)
    trace.decides(10, generation=4, epoch=1, broker=2)
    assert status(trace, "O2") == ("held", 1)
    trace.decides(10, member="m2", generation=4, epoch=1, broker=2)
    assert sentence(trace, "O2").endswith("in whose generation 4 it is no member")


def test_a_coordinator_cannot_load_other_members() -> None:
    """Shows that where a generation is known to have been stable, its members are those of then, whatever a
    coordinator says that it loaded."""
    trace = GroupTrace()
    trace.stable(3, m1=TP)
    trace.loads_stable(3, m1=TP, m2="orders-1")
    trace.decides(10, member="m2", generation=3, epoch=1, broker=2)
    assert "in whose generation 3 it is no member" in sentence(trace, "O2")


STATES = ("Stable", "PreparingRebalance", "CompletingRebalance")
REBALANCING, OTHER_GENERATION, STRANGER = 27, 22, 25


@pytest.mark.parametrize(
    ("error", "states", "producer"),
    [
        (REBALANCING, ("Stable", "PreparingRebalance"), -1),
        (REBALANCING, STATES, 7),
        (OTHER_GENERATION, STATES, -1),
        (STRANGER, ("Stable",), -1),
    ],
)
def test_a_member_that_is_refused(error: int, states: tuple[str, ...], producer: int) -> None:
    """Shows that a coordinator may refuse a member's commit of the current generation only while that waits for its
    assignment, and never so in a transaction; who is known as a member outside of Stable is told by nobody."""
    for state in STATES:
        trace = GroupTrace()
        by = trace.gen(state, 2)
        refused = trace.decides(10, -1, generation=2, error=error, producer=producer)
        found = trace.result("O2").violations
        assert [each.events for each in found] == ([[by, refused]] if state in states else [])


def test_what_is_said_of_a_refusal() -> None:
    """Shows its sentence."""
    trace = GroupTrace()
    trace.gen("Stable", 2)
    trace.decides(10, -1, generation=2, error=STRANGER)
    assert sentence(trace, "O2") == (
        "broker-1 refused a commit for orders-0 by m1 in generation 2 of group g with UNKNOWN_MEMBER_ID, although the "
        "group was Stable in generation 2, of which that is a member"
    )


@pytest.mark.parametrize("error", [REBALANCING, OTHER_GENERATION, STRANGER])
def test_refusals_that_nobody_can_judge(error: int) -> None:
    """Shows that O2 says nothing of refusals by a coordinator of whose group nothing is known, or that has none."""
    trace = GroupTrace()
    trace.decides(10, -1, error=error)
    trace.stable(1)
    trace.decides(10, -1, epoch=1, error=error)
    for state in ("Empty", "Dead"):
        trace.gen(state, 1)
        trace.decides(10, -1, error=error)
    assert status(trace, "O2") == ("vacuous", 0)


def test_a_stranger_is_refused() -> None:
    """Shows that who is no member, or commits in another generation, is refused rightly; and a static member that may
    have another member id by now."""
    trace = GroupTrace()
    trace.stable(2)
    trace.decides(10, -1, "m3", 2, error=STRANGER)
    trace.decides(10, -1, "m1", 1, error=STRANGER)
    assert status(trace, "O2") == ("vacuous", 0)
    trace = GroupTrace(nodes={ONE: {"config": {"group.instance.id": "i"}}})
    trace.stable(2)
    trace.decides(10, -1, "m1", 2, error=STRANGER)
    assert status(trace, "O2") == ("vacuous", 0)
    trace.decides(10, -1, "m2", 2, error=STRANGER)
    assert status(trace, "O2") == ("violated", 1)


def test_a_member_that_was_loaded_is_refused() -> None:
    """Shows that the members are those that the coordinator itself has loaded."""
    trace = GroupTrace()
    trace.stable(3)
    trace.loads_stable(3, m1=TP)
    trace.decides(10, -1, "m2", 3, epoch=1, broker=2, error=STRANGER)
    assert status(trace, "O2") == ("vacuous", 0)
    trace.decides(10, -1, "m1", 3, epoch=1, broker=2, error=STRANGER)
    assert status(trace, "O2") == ("violated", 1)


@pytest.mark.parametrize(
    ("asked", "generation", "who", "producer", "earlier"),
    [
        ([(10, 2)], 2, ONE, -1, -1),
        ([(10, 1), (10, 2)], 2, ONE, -1, -1),
        ([(10, 1)], 2, ONE, -1, 1),
        ([(10, 0), (10, 1), (11, 2)], 2, ONE, -1, 1),
        ([(9, 1)], 2, ONE, -1, -1),  # nobody asked for that, as far as is remembered
        ([(10, 3)], 2, ONE, -1, -1),  # generations of another group of that name
        ([(10, -1)], 2, ONE, -1, -1),
        ([(10, 1)], 2, TWO, -1, -1),
        ([(10, 1)], 2, "", -1, -1),
        ([(10, 1)], 2, ONE, 7, -1),
        ([(10, 1), *((20 + each, 1) for each in range(64))], 2, ONE, -1, -1),
    ],
)
def test_the_generation_in_which_a_commit_was_asked_for(
    asked: list[tuple[int, int]], generation: int, who: str, producer: int, earlier: int
) -> None:
    """Shows that a commit which its client asked for in an earlier generation violates O2, unless it asked for the same
    in this one, too, or the trace does not tell."""
    trace = GroupTrace()
    trace.gen("Stable", generation)
    for offset, number in asked:
        trace.commits(offset, generation=number)
    cause = f"{who}/0/9" if who else ""
    trace.decides(10, generation=generation, asked=cause, producer=producer)
    assert trace.result("O2").violated == (earlier >= 0)
    if earlier >= 0:
        assert sentence(trace, "O2").endswith(f"of group g, though it was asked for in generation {earlier}")


# ---- O4 ---------------------------------------------------------------------------------------------------------


def test_a_partition_is_handed_on_when_it_was_given_up() -> None:
    """Shows that O4 is held when an owner gives up before the next one is assigned the partition."""
    trace = GroupTrace()
    trace.stable(1, m1=f"{TP} orders-1")
    trace.owns(ONE, f"{TP} orders-1")
    trace.owns(ONE, "", reason="revoke")
    trace.stable(2)
    trace.owns(ONE, TP, 2)
    trace.owns(TWO, "orders-1", 2)
    assert status(trace, "O4") == ("held", 5)


def test_an_assignment_that_overlaps() -> None:
    """Shows that a partition with two owners in a generation violates O4, and one that is given to no member."""
    trace = GroupTrace()
    trace.stable(1, m1=TP, m2=f"{TP} orders-1")
    assert sentence(trace, "O4") == f"broker-1 assigned {TP} both to m1 and to m2 in generation 1 of group g"
    trace = GroupTrace()
    trace.gen("Stable", 1, "m1", m1="orders-1", m2=TP)
    assert "which is no member" in sentence(trace, "O4")


def test_an_owner_that_did_not_give_up() -> None:
    """Shows that a partition that a member of the generation still has must not be another's; and that one which was
    put out of the group excuses it."""
    trace = GroupTrace()
    trace.stable(1, m1=TP)
    before = trace.owns(ONE, TP)
    after = trace.stable(2, m1="orders-1", m2=TP)
    (finding,) = trace.result("O4").violations
    assert finding.events == [before, after]
    trace = GroupTrace()
    trace.stable(1, m1=TP)
    trace.owns(ONE, TP)
    trace.stable(2, m2=TP)
    assert trace.result("O4").excused == {"fenced": 1}
    trace = GroupTrace()
    trace.stable(1, m1=TP)
    trace.owns(ONE, TP)
    trace.down(ONE)
    trace.stable(2, m2=TP)
    assert trace.result("O4").excused == {}


def test_an_owner_that_has_joined_anew() -> None:
    """Shows that a client which has joined under another member id since knows that it was put out; and that one which
    had that id before, and which the coordinator still counts, need not know."""
    for old, says in (("", f"{ONE}, as member m1, still owns it, though it has joined anew as m3"), ("m3", "")):
        trace = GroupTrace()
        for member in filter(None, (old, "m1")):
            trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "PreparingRebalance", 0, 0, members={member: ONE}))
        trace.stable(1, m1=TP)
        trace.owns(ONE, TP)
        members, given = {"m2": TWO, "m3": ONE}, {"m2": [TP], "m3": ["orders-1"]}
        trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "Stable", 2, 0, members=members, assignment=given))
        assert trace.result("O4").excused == ({} if says else {"fenced": 1})
        assert "".join(each.sentence for each in trace.result("O4").violations).endswith(says)


def test_a_member_takes_what_it_was_not_given() -> None:
    """Shows that a member's own word is compared with what was committed."""
    trace = GroupTrace()
    by = trace.stable(1)
    taken = trace.owns(ONE, f"{TP} orders-1")
    (finding,) = trace.result("O4").violations
    assert finding.events == [by, taken]
    assert finding.sentence.endswith(f"its assignment is {TP}")


def test_a_member_takes_what_was_only_written() -> None:
    """Shows that an assignment which the next coordinator found in its log is as good as one that was committed before,
    and that it has to be a proper one; and that it counts for nothing beside one that was committed."""
    trace = GroupTrace()
    trace.loads_stable(4, m1=TP, m2="orders-1")
    trace.owns(ONE, TP, 4)
    assert status(trace, "O4") == ("held", 1)
    trace.owns(TWO, f"{TP} orders-1", 4)
    assert sentence(trace, "O4").endswith("its assignment is orders-1")
    trace = GroupTrace()
    trace.loads_stable(4, m1=TP, m2=TP)
    assert sentence(trace, "O4") == f"broker-2 assigned {TP} both to m1 and to m2 in generation 4 of group g"
    trace = GroupTrace()
    trace.stable(4)
    trace.loads_stable(4, m1=f"{TP} orders-1", m2="")
    trace.owns(ONE, f"{TP} orders-1", 4)
    assert sentence(trace, "O4").endswith(f"its assignment is {TP}")


# ---- O5 ---------------------------------------------------------------------------------------------------------


def test_generations_rise() -> None:
    """Shows that O5 is held where generations rise, also when one that never was stable comes again."""
    trace = GroupTrace()
    trace.stable(1)
    trace.gen("PreparingRebalance", 1)
    trace.gen("CompletingRebalance", 2)
    trace.gen("CompletingRebalance", 2, epoch=1, broker=2)
    trace.stable(2, epoch=1, broker=2)
    trace.owns(ONE, TP, 1)
    trace.owns(ONE, TP, 2)
    assert status(trace, "O5") == ("held", 5)


def test_an_assignment_of_no_generation() -> None:
    """Shows that a member takes nothing only in a generation that was stable, or that a coordinator found in its log,
    and of which it is a member; one that may be too old to be remembered is not judged."""
    trace = GroupTrace()
    trace.stable(1)
    trace.gen("CompletingRebalance", 2)
    trace.owns(TWO, "", 2)
    assert sentence(trace, "O4") == "consumer-2, as m2, took nothing in generation 2 of group g, which was never stable"
    trace = GroupTrace()
    trace.gen("CompletingRebalance", 2)
    trace.loads_stable(2, m1=TP, m2="")
    trace.owns(TWO, "", 2)
    assert trace.result("O4").violated == 0
    trace.owns(TWO, "", 2, member="m3")
    assert sentence(trace, "O4").endswith("as m3, took nothing in generation 2 of group g, in which it is no member")
    for first, violated in ((2, 0), (1, 1)):
        trace = GroupTrace()
        for generation in range(first, first + 64):
            if generation != 5:
                trace.stable(generation, m1=TP, m2="")
        trace.stable(70, m1=TP, m2="")
        trace.owns(TWO, "", 1 if first == 2 else 5)
        assert trace.result("O4").violated == violated


def test_an_assignment_that_the_coordinator_cannot_read() -> None:
    """Shows that members of a group whose assignments nobody can read may take nothing."""
    trace = GroupTrace()
    trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "Stable", 2, 0, members={"m1": ONE, "m2": TWO}))
    trace.owns(TWO, "", 2)
    assert trace.result("O4").violated == 0


READS = {"m1": ["orders"], "m2": ["orders"], "m3": ["orders"]}
PAYMENTS = {"m1": ["orders", "payments"], "m2": ["orders"], "m3": ["payments"]}


@pytest.mark.parametrize(
    ("protocol", "reads", "given", "says"),
    [
        ("range", READS, {"m1": "orders-0 orders-1", "m2": "orders-2 orders-3", "m3": "orders-4"}, ""),
        (
            "range",
            READS,
            {"m1": "orders-0 orders-1 orders-2", "m2": "orders-3", "m3": "orders-4"},
            "m1 has 3 instead of 1 or 2 of the 5 partitions of orders",
        ),
        ("range", READS, {"m1": "orders-0 orders-1"}, "m1 has 2 instead of 0 or 1 of the 2 partitions of orders"),
        ("range", PAYMENTS, {"m1": "orders-0 payments-0 payments-1", "m2": "orders-1", "m3": "payments-2"}, ""),
        (
            "range",
            PAYMENTS,
            {"m1": "orders-0 payments-0", "m2": "orders-1", "m3": "payments-1 payments-2 payments-3"},
            "m1 has 1 instead of 2 of the 4 partitions of payments",
        ),
        ("roundrobin", READS, {"m1": "orders-0", "m2": "orders-1"}, ""),
        (
            "roundrobin",
            READS,
            {"m1": "orders-0 orders-1"},
            "m1 has 2 instead of 0 or 1 of the 2 partitions",
        ),
        ("roundrobin", PAYMENTS, {"m1": "orders-0 payments-0 orders-1"}, ""),
        ("roundrobin", {}, {"m1": "orders-0 orders-1"}, ""),  # a trace that does not tell
        ("another", READS, {"m1": "orders-0 orders-1"}, ""),
        (
            "cooperative-sticky",
            READS,
            {"m1": "orders-0 orders-1"},
            "m1 has 2 instead of 0 or 1 of the 2 partitions",
        ),
    ],
)
def test_shares(protocol: str, reads: dict[str, list[str]], given: dict[str, str], says: str) -> None:
    """Shows that each member of a generation must have what the assignor gives it, where the trace tells what they
    read."""
    trace = GroupTrace()
    trace.emit("broker-1", shared(protocol, 2, given, reads))
    assert trace.result("O4").violated == bool(says)
    if says:
        assert sentence(trace, "O4") == f"generation 2 of group g is assigned by {protocol}, and {says}"


def shared(
    protocol: str, generation: int, given: dict[str, str], reads: dict[str, list[str]], epoch: int = 0
) -> GrpGen:
    """A stable generation of three members."""
    members = {"m1": ONE, "m2": TWO, "m3": "consumer-3"}
    assignment = {member: given.get(member, "").split() for member in members}
    stable = GrpGen(OFFSETS, GROUP, "Stable", generation, epoch, "m1", protocol, members, assignment)
    return structs.replace(stable, subscribed=reads)


def test_what_has_to_be_given_up_first() -> None:
    """Shows that a cooperative assignor may leave out partitions that somebody had before, which may be anybody's; who
    has more than a share of all has too many."""
    before = {"m1": "orders-0 orders-1", "m2": "orders-2 orders-3", "m3": "orders-4 orders-5"}
    everything = {"m1": "orders-0 orders-1 orders-2", "m2": "orders-3 orders-4 orders-5"}
    for earlier, given, violated in (
        (before, {"m1": "orders-0 orders-1", "m2": "orders-2"}, 0),
        (before, {"m1": "orders-0 orders-1 orders-2"}, 1),
        (before, {"m1": "orders-0 orders-1", "m2": "orders-2 orders-3 orders-4 orders-5"}, 1),
        ({}, {"m1": "orders-0 orders-1", "m2": "orders-2"}, 1),
        (everything, {"m1": "orders-0 orders-1", "m2": "orders-3 orders-4"}, 0),
    ):
        trace = GroupTrace()
        trace.emit("broker-1", shared("another", 1, earlier, READS))
        trace.emit("broker-1", shared("cooperative-sticky", 2, given, READS))
        assert trace.result("O4").violated == violated, given


def test_shares_of_one_generation_are_judged_once() -> None:
    """Shows that a static member that comes back with other subscriptions keeps what it has, while the next coordinator
    may form the generation anew."""
    given = {"m1": "orders-0 orders-1", "m2": "orders-2", "m3": "orders-3"}
    reads = {**READS, "m1": ["payments"]}
    for epoch, violated in ((0, 0), (1, 1)):
        trace = GroupTrace()
        trace.emit("broker-1", shared("range", 2, given, READS))
        again = {"m1": "orders-0", "m2": "orders-1 orders-2 orders-3"}
        trace.emit("broker-1", shared("range", 2, again, reads, epoch))
        assert trace.result("O4").violated == violated


def test_a_generation_that_goes_back() -> None:
    """Shows each way in which generations go back, or stay where a new one is formed: under one coordinator, from one
    to the next, whichever is recorded first, and at a member."""
    trace = GroupTrace()
    trace.stable(2)
    trace.gen("PreparingRebalance", 1)
    assert sentence(trace, "O5").endswith("after generation 2")
    trace = GroupTrace()
    trace.stable(2)
    trace.gen("PreparingRebalance", 1, epoch=1, broker=2)
    assert sentence(trace, "O5").endswith("although generation 2 had been stable before")
    trace = GroupTrace()
    trace.gen("PreparingRebalance", 1, epoch=1, broker=2)
    trace.stable(2)
    assert sentence(trace, "O5").endswith("though its next coordinator went on with generation 1")
    trace = GroupTrace()
    trace.stable(2)
    trace.gen("PreparingRebalance", 2)
    trace.gen("CompletingRebalance", 2)
    assert sentence(trace, "O5").endswith("after generation 2")
    trace = GroupTrace()
    trace.stable(2)
    trace.gen("PreparingRebalance", 2)
    trace.gen("Empty", 2, "")
    assert sentence(trace, "O5").endswith("after generation 2")
    trace = GroupTrace()
    trace.stable(2)
    trace.gen("CompletingRebalance", 2, epoch=1, broker=2)
    assert sentence(trace, "O5").endswith("although generation 2 had been stable before")
    trace = GroupTrace()
    trace.owns(ONE, TP, 3)
    trace.owns(ONE, TP, 2)
    assert sentence(trace, "O5").endswith("after the one in generation 3")
    trace = GroupTrace()
    trace.owns(ONE, TP, 3)
    trace.owns(ONE, "", 3, "lost")
    trace.owns(ONE, TP, 2)
    assert trace.result("O5").violated == 0


def test_a_group_that_was_removed_begins_anew() -> None:
    """Shows that an empty group which is dead frees its generations, and one that was not empty does not."""
    trace = GroupTrace()
    trace.stable(4)
    trace.gen("Empty", 5, "")
    trace.gen("Dead", 5, "")
    trace.gen("PreparingRebalance", 0)
    assert trace.result("O5").violated == 0
    trace = GroupTrace()
    trace.stable(4)
    trace.gen("Dead", 4)
    trace.gen("PreparingRebalance", 0, epoch=1, broker=2)
    assert trace.result("O5").violated == 1


def test_an_offsets_partition_that_lost_something() -> None:
    """Shows that an unclean election of the offsets partition, or what disks lost of it, excuses that the next
    coordinator begins below; not what one coordinator does by itself."""
    trace = GroupTrace()
    trace.stable(2)
    trace.elected_uncleanly(2, 1)
    trace.gen("PreparingRebalance", 1, epoch=1, broker=2)
    assert trace.result("O5").excused == {"unclean-election": 1}
    trace = GroupTrace()
    trace.stable(2)
    trace.down("broker-1", "lossy", lost={OFFSETS: 3})
    trace.gen("PreparingRebalance", 1, epoch=1, broker=2)
    assert trace.result("O5").excused == {"loss-budget": 1}
    trace.gen("PreparingRebalance", 0, epoch=1, broker=2)
    assert trace.result("O5").violated == 1


@pytest.mark.parametrize("unclean", [False, True])
def test_what_the_offsets_partition_lost_before(unclean: bool) -> None:
    """Shows that neither an unclean election nor a loss before a generation excuses that the next coordinator begins
    below it."""
    trace = GroupTrace()
    if unclean:
        trace.elected_uncleanly(1, 1)
    else:
        trace.down("broker-1", "lossy", lost={OFFSETS: 0})
        trace.up("broker-1")
    trace.gen("Stable", 2, epoch=1)
    trace.gen("PreparingRebalance", 1, epoch=2, broker=2)
    result = trace.result("O5")
    assert (result.violated, result.excused) == (1, {})


def test_a_static_member_that_is_late_keeps_what_it_has() -> None:
    """Shows that O4 excuses a static member that did not join again before the rebalance timed out, and nobody else."""
    for instance, reason, excused in (
        ("i1", "rebalance timeout", {"static": 1}),
        ("i1", "joined", {}),
        ("", "rebalance timeout", {}),
    ):
        trace = GroupTrace(nodes={ONE: {"config": {"group.instance.id": instance}}})
        trace.stable(1, m1=TP, m2="orders-1")
        trace.owns(ONE, TP)
        members = {"m1": ONE, "m2": TWO}
        trace.emit("broker-1", GrpGen(OFFSETS, GROUP, "CompletingRebalance", 2, 0, members=members, reason=reason))
        trace.stable(2, m1="orders-1", m2=TP)
        assert (trace.result("O4").excused, trace.result("O4").violated) == (excused, not excused)


@pytest.mark.parametrize(
    ("state", "reason", "wrong"), [("Empty", GROUP_EXPIRED, 0), ("Empty", "", 1), ("Stable", GROUP_EXPIRED, 1)]
)
def test_a_group_that_the_next_coordinator_removes(state: str, reason: str, wrong: int) -> None:
    """Shows that the generations of a group begin anew once a coordinator that has read it as empty has removed it,
    and not if it has only given it up, or if the group had members."""
    trace = GroupTrace()
    trace.stable(1)
    if state == "Empty":
        trace.gen("Empty", 2, "")
    trace.emit("broker-2", GrpGen(OFFSETS, GROUP, "Dead", 2, 1, reason=reason))
    trace.gen("PreparingRebalance", 0, epoch=1, broker=2)
    assert trace.result("O5").violated == wrong
