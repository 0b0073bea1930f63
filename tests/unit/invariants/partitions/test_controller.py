"""P2, P8, P9 and P21: what active controllers do to partitions; and the views that tell their logs apart."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import AdminInvoke, AdminReturn, BrokerReg, ConfigChange, LogHw, PartRemove
from tests.unit.invariants.trace_builder import BROKERS, TraceBuilder

ELIGIBLE = {"features": {"eligible.leader.replicas.version": "1"}}


def active(**profile: Any) -> TraceBuilder:
    """Controller-1 leads quorum epoch 1, all brokers are unfenced, and broker-1 leads orders-0 with all in the ISR."""
    trace = TraceBuilder(**profile)
    trace.vote("controller-1", 1, 101)
    trace.role("controller-1", 1, "leader", 101)
    trace.registered(*BROKERS)
    trace.change(1, 0)
    return trace


# ---- P2 --------------------------------------------------------------------------------------------------------


def test_epochs_that_move_forward() -> None:
    """Shows that each change of a known partition tests P2, and each state that a broker takes up after another."""
    trace = active()
    trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=1)
    trace.change(2, 1, (2,), partition_epoch=2)
    trace.assume(2, 0, leader=1)
    trace.assume(2, 1)
    result = trace.result("P2")
    assert (result.status, result.tested) == ("held", 3)


def test_epochs_that_do_not() -> None:
    """Shows a partition epoch that stands still, a leader epoch that goes back, and a leader in its predecessor's."""
    for change, says in (
        ({"leader": 2, "epoch": 1, "partition_epoch": 1}, "(elect): partition epoch 1 follows partition epoch 1"),
        ({"leader": 2, "epoch": 0, "partition_epoch": 2}, "(elect): leader epoch 0 follows leader epoch 1"),
        (
            {"leader": 3, "epoch": 1, "partition_epoch": 2},
            "(elect): broker-3 replaces broker-2 within leader epoch 1",
        ),
    ):
        trace = active()
        first = trace.change(2, 1, partition_epoch=1)
        second = trace.change(**change)  # type: ignore[arg-type]  # a table
        (finding,) = trace.result("P2").violations
        assert finding.sentence == f"the controller of quorum epoch 1 changed orders-0 {says}"
        assert (finding.key, finding.events) == ("orders-0", [first, second])


@pytest.mark.parametrize(
    ("leader", "epoch", "partition_epoch", "wrong"),
    [
        (1, 0, 2, ""),
        (2, 1, 2, ""),
        (-1, 1, 2, ""),
        (1, 1, 2, "leader epoch 1 follows leader epoch 0, although broker-1 stays"),
        (2, 2, 2, "leader epoch 2 follows leader epoch 0, not one by one"),
        (1, 0, 3, "partition epoch 3 follows partition epoch 1, not one by one"),
    ],
)
def test_epochs_rise_by_one(leader: int, epoch: int, partition_epoch: int, wrong: str) -> None:
    """Shows a leader epoch that rises though the leader stays, and epochs that leave others out; not where a new
    controller makes the first change, since the trace may lack the last one of its predecessor."""
    trace = active()
    trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=1)
    trace.change(leader, epoch, (1, 2), "fence", partition_epoch)
    says = [f"the controller of quorum epoch 1 changed orders-0 (fence): {wrong}"] if wrong else []
    assert [each.sentence for each in trace.result("P2").violations] == says
    first = active()
    first.change(1, 0, (1, 2), "alter-isr", partition_epoch=1)
    first.vote("controller-2", 2, 102, asks=(1, 25))
    first.role("controller-2", 2, "leader", 102)
    first.change(leader, epoch, (1, 2), "fence", partition_epoch, quorum_epoch=2, node="controller-2")
    assert (first.result("P2").status, first.result("P2").tested) == ("held", 2)


def test_a_broker_goes_back_to_an_older_state() -> None:
    """Shows that a broker may not; but a new incarnation begins anew."""
    trace = active()
    trace.assume(2, 2)
    trace.assume(2, 1, leader=1)
    assert trace.result("P2").violations[0].sentence == (
        "broker-2 took up orders-0 in leader epoch 1, partition epoch 1, after leader epoch 2, partition epoch 2"
    )
    trace = active()
    trace.assume(2, 2)
    trace.up("broker-2")
    trace.assume(2, 1, leader=1)
    assert trace.result("P2").status == "vacuous"


def test_what_a_controller_appended_and_lost_counts_for_nothing() -> None:
    """Shows that the next controller, whose log ended before, may use the epochs again, and that its predecessor, which
    does not know that it was replaced, goes on in a view of its own."""
    trace = active()
    trace.change(2, 1, (2, 3), partition_epoch=1, offset=20)
    trace.vote("controller-2", 2, 102, asks=(1, 20))
    trace.role("controller-2", 2, "leader", 102)
    trace.change(3, 1, (3,), partition_epoch=1, offset=21, quorum_epoch=2, node="controller-2")
    trace.change(2, 1, (2,), partition_epoch=2, offset=22)
    assert trace.result("P2").status == "held"
    trace.change(3, 1, (3, 1), partition_epoch=1, offset=23, quorum_epoch=2, node="controller-2")
    assert trace.result("P2").violations[0].sentence.startswith("the controller of quorum epoch 2")


def test_what_was_lost_stays_lost_after_a_leader_that_changed_nothing() -> None:
    """Shows that a record which the second controller's log lacks is not in the third's either, however long that is,
    although the second has said nothing."""
    trace = active()
    trace.change(2, 1, (2, 3), partition_epoch=1, offset=20)
    trace.vote("controller-2", 2, 102, asks=(1, 20))
    trace.role("controller-2", 2, "leader", 102)
    trace.vote("controller-3", 3, 103, asks=(2, 25))
    trace.role("controller-3", 3, "leader", 103)
    trace.change(3, 1, (3,), partition_epoch=1, offset=25, quorum_epoch=3, node="controller-3")
    assert trace.result("P2").status == "held"


def test_what_the_next_controller_has_in_its_log_counts() -> None:
    """Shows the same change violate P2 where the new controller's log has the one before it."""
    trace = active()
    trace.change(2, 1, (2, 3), partition_epoch=1, offset=20)
    trace.vote("controller-2", 2, 102, asks=(1, 21))
    trace.role("controller-2", 2, "leader", 102)
    trace.change(3, 1, (3,), partition_epoch=1, offset=21, quorum_epoch=2, node="controller-2")
    assert trace.result("P2").status == "violated"


def test_only_the_newest_epochs_are_kept() -> None:
    """Shows that a view is forgotten after some elections, and what its controller then says is judged no more."""
    trace = active()
    for epoch in range(2, 20):
        trace.vote("controller-2", epoch, 102, asks=(epoch - 1, 10 + epoch))
        trace.role("controller-2", epoch, "leader", 102)
        trace.change(1, 0, partition_epoch=epoch, quorum_epoch=epoch, node="controller-2")
    trace.change(1, 0, partition_epoch=0)
    assert trace.result("P2").status == "held"


# ---- P8 --------------------------------------------------------------------------------------------------------


def test_an_isr_that_was_asked_for() -> None:
    """Shows that a change that a proposal asked for tests P8, and so does what the leader is told."""
    trace = active()
    trace.propose(1, (1, 2))
    trace.change(1, 0, (2, 1), "alter-isr", partition_epoch=1)
    trace.propose(1, (1, 2), outcome="accepted")
    result = trace.result("P8")
    assert (result.status, result.tested) == ("held", 2)


def test_an_isr_that_nobody_asked_for() -> None:
    """Shows an ISR out of the blue, one that was proposed on another state, and one that another broker proposed."""
    nobody = active()
    nobody.change(1, 0, (1, 2), "alter-isr", partition_epoch=1)
    assert nobody.result("P8").violations[0].sentence == (
        "the controller changed the ISR of orders-0 from [1, 2, 3] to [1, 2] in partition epoch 0, leader epoch 0, "
        "but no leader had proposed that"
    )
    stale = active()
    asked = stale.propose(1, (1,))
    stale.change(1, 0, (1, 2), "fence", partition_epoch=1)
    taken = stale.change(1, 0, (1,), "alter-isr", partition_epoch=2)
    (finding,) = stale.result("P8").violations
    assert finding.sentence.endswith("but broker-1 had proposed that for partition epoch 0 of leader epoch 0")
    assert finding.events == [asked, taken]
    other = active()
    other.propose(2, (1, 2))
    other.change(1, 0, (1, 2), "alter-isr", partition_epoch=1)
    assert other.result("P8").status == "violated"


def test_an_answer_to_another_proposal() -> None:
    """Shows that a leader may take an answer to its outstanding proposal alone, of this process, and that nobody is
    told of a change that was not made."""
    late = active()
    late.propose(1, (1, 2), proposal=1)
    waiting = late.propose(1, (1, 3), proposal=2)
    told = late.propose(1, (1, 2), proposal=1, outcome="INVALID_UPDATE_VERSION")
    (finding,) = late.result("P8").violations
    assert finding.events == [waiting, told]
    assert finding.sentence.endswith("while it waited for one to proposal 2")
    restarted = active()
    restarted.propose(1, (1, 2))
    restarted.up("broker-1")
    restarted.propose(1, (1, 2), outcome="INELIGIBLE_REPLICA")
    assert restarted.result("P8").status == "violated"
    nothing = active()
    nothing.propose(1, (1, 2), outcome="accepted")
    assert nothing.result("P8").violations[0].sentence.endswith("while it waited for no answer")
    made_up = active()
    made_up.propose(1, (1, 2))
    made_up.propose(1, (1, 2), outcome="accepted")
    assert made_up.result("P8").violations[0].sentence.endswith("but no controller made that change")


@pytest.mark.parametrize("outcome", ["INVALID_UPDATE_VERSION", "FENCED_LEADER_EPOCH", "NOT_CONTROLLER"])
def test_a_state_that_is_over(outcome: str) -> None:
    """Shows that a leader asks for nothing more on a state of which it was told that it is over, until it knows a newer
    one; after another error it asks the same again."""
    trace = active()
    trace.propose(1, (1, 2), proposal=1)
    trace.propose(1, (1, 2), proposal=1, outcome=outcome)
    before = len(trace.events)
    trace.propose(1, (1, 2), proposal=2)
    result = trace.result("P8")
    if outcome == "NOT_CONTROLLER":
        assert result.status == "held"
        return
    assert result.violations[0].sentence == (
        "broker-1 proposed the ISR [1, 2] of orders-0 for partition epoch 0, leader epoch 0, although an earlier "
        f"proposal for these had been refused with {outcome}"
    )
    del trace.events[before:]
    trace.propose(1, (1, 2), proposal=2, partition_epoch=1)
    assert trace.result("P8").status == "held"


def test_an_isr_under_other_broker_epochs() -> None:
    """Shows that the controller goes by the broker epochs that the leader sent; before version 3 it gets none."""
    for spoken, status in ({}, "violated"), ({"AlterPartition": [0, 2]}, "held"):
        trace = active(versions=spoken)
        asked = trace.propose(1, (1, 2))
        changed = trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=1, members={"1": 7, "2": -1})
        result = trace.result("P8")
        assert (result.status, result.tested) == (status, 1)
        for finding in result.violations:
            assert finding.sentence == (
                "the controller changed the ISR of orders-0 to [1, 2] by broker epochs 7 of broker-1, -1 of broker-2; "
                "broker-1 had proposed it with 7 of broker-1, 7 of broker-2"
            )
            assert finding.events == [asked, changed]


def knows_two(trace: TraceBuilder) -> str:
    """Broker-1 is told that its ISR is the one of partition epoch 1."""
    trace.assume(1, 0)
    trace.propose(1, (1, 2), proposal=1)
    trace.change(1, 0, (1, 2), "alter-isr", partition_epoch=1)
    return trace.propose(1, (1, 2), proposal=1, outcome="accepted")


def test_a_leader_that_goes_back() -> None:
    """Shows that a leader asks for nothing on a state that is older than what it knows: by the answer to a proposal, or
    since it proposed on a newer one."""
    told = active()
    knows = knows_two(told)
    asks = told.propose(1, (1, 2, 3), proposal=2)
    (finding,) = told.result("P8").violations
    assert finding.events == [knows, asks]
    assert finding.sentence == (
        "broker-1 proposed the ISR [1, 2, 3] of orders-0 for partition epoch 0, leader epoch 0, but knew partition "
        "epoch 1 of it already"
    )
    proposed = active()
    proposed.propose(1, (1, 2), proposal=1, partition_epoch=4)
    proposed.propose(1, (1, 2), proposal=2, partition_epoch=3)
    assert proposed.result("P8").violated == 1


def test_a_leader_that_does_not_go_back() -> None:
    """Shows that it may go on from what it knows, send a proposal again, and begin anew with a new leader epoch or a
    new incarnation."""
    goes_on = active()
    knows_two(goes_on)
    goes_on.propose(1, (1, 2, 3), proposal=2, partition_epoch=1)
    again = active()
    again.propose(1, (1, 2), proposal=1, partition_epoch=4)
    again.assume(1, 0)
    again.propose(1, (1, 2), proposal=1, partition_epoch=4)
    elected = active()
    knows_two(elected)
    elected.propose(1, (1, 2, 3), epoch=1, proposal=2)
    restarted = active()
    knows_two(restarted)
    restarted.up("broker-1")
    restarted.assume(1, 0)
    restarted.propose(1, (1, 2, 3), proposal=1)
    for trace in (goes_on, again, elected, restarted):
        assert not trace.result("P8").violated


# ---- P9 --------------------------------------------------------------------------------------------------------


def test_fenced_brokers_are_out_of_the_isr_first() -> None:
    """Shows that P9 is tested when a partition changes and when a broker is fenced."""
    trace = active()
    trace.change(1, 0, (1, 2), "fence", partition_epoch=1)
    trace.registered(3, fenced=True)
    result = trace.result("P9")
    assert (result.status, result.tested) == ("held", 3)


def test_a_fenced_broker_in_charge() -> None:
    """Shows a broker that is fenced while it is in an ISR, one that leads, and one that nobody has registered."""
    member = active()
    changed = member.change(1, 0, (1, 2, 3), "alter-isr", partition_epoch=1)
    fenced = member.registered(3, fenced=True, offset=30)
    (finding,) = member.result("P9").violations
    assert (
        finding.sentence
        == "broker-3 is in the ISR [1, 2, 3] of orders-0, but is fenced at offset 30 of the metadata log"
    )
    assert finding.events == [changed, fenced]
    leader = active()
    leader.registered(1, fenced=True, offset=30)
    assert leader.result("P9").violations[0].sentence.startswith("broker-1 leads orders-0 in leader epoch 0, but is")
    unknown = TraceBuilder()
    unknown.role("controller-1", 1, "leader", 101)
    unknown.change(1, 0, (1,))
    assert (
        unknown.result("P9").violations[0].sentence.endswith("but is not registered at offset 10 of the metadata log")
    )


@pytest.mark.parametrize(("elr", "violated", "excused"), [("0", 0, {"last-member": 1}), ("1", 1, {})])
def test_the_last_member_stays(elr: str, violated: int, excused: dict[str, int]) -> None:
    """Shows that the last member of an ISR may be fenced, if nobody leads; not if somebody does, nor where a fenced
    member becomes an eligible leader replica, and the ISR empty."""
    trace = active(features={"eligible.leader.replicas.version": elr})
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=1)
    trace.change(-1, 1, (1,), "fence", partition_epoch=2)
    trace.registered(1, fenced=True)
    assert (trace.result("P9").violated, trace.result("P9").excused) == (violated, excused)
    led = active()
    led.change(1, 0, (1,), "alter-isr", partition_epoch=1)
    led.registered(1, fenced=True)
    assert led.result("P9").status == "violated"


def test_a_broker_epoch_that_was_replaced() -> None:
    """Shows that a registration under an older broker epoch violates P9."""
    trace = active()
    trace.change(1, 0, (1, 2), "fence", partition_epoch=1)
    trace.registered(3, epoch=20, fenced=True, incarnation=1)
    trace.registered(3, epoch=7, fenced=True, incarnation=2)
    assert trace.result("P9").violations[0].sentence == (
        "the controller gave broker-3 broker epoch 7 after broker epoch 20: broker epochs must rise"
    )


@pytest.mark.parametrize(
    ("incarnation", "epoch", "fenced", "shutting_down", "wrong"),
    [
        (1, 20, True, False, ""),
        (1, 7, True, False, "gave broker-3/1 broker epoch 7, which broker-3/0 had"),
        (1, 20, False, False, "registered broker-3/1, a new incarnation of broker-3, as unfenced: it begins as fenced"),
        (
            1,
            20,
            True,
            True,
            "registered broker-3/1, a new incarnation of broker-3, as shutting down: it begins as fenced",
        ),
        (0, 7, False, True, ""),
        (0, 20, True, False, "gave broker-3/0 broker epoch 20 in place of its own, 7"),
    ],
)
def test_each_incarnation_has_its_own_broker_epoch(
    incarnation: int, epoch: int, fenced: bool, shutting_down: bool, wrong: str
) -> None:
    """Shows that a new incarnation gets a new broker epoch and starts fenced, and that the same one keeps its own; and
    that a controller is not judged by what it inherited, of which the trace may lack the end."""
    body = BrokerReg(3, epoch, f"broker-3/{incarnation}", fenced, shutting_down, False, 30)
    trace = active()
    trace.change(1, 0, (1, 2), "fence", partition_epoch=1)
    trace.emit("controller-1", body)
    assert [each.sentence for each in trace.result("P9").violations] == ([f"the controller {wrong}"] if wrong else [])
    inherited = active()
    inherited.change(1, 0, (1, 2), "fence", partition_epoch=1)
    inherited.vote("controller-1", 3, 101, asks=(1, 25))
    inherited.role("controller-1", 3, "leader", 101)
    inherited.emit("controller-1", body)
    assert inherited.result("P9").status == "held"


def test_a_member_by_what_it_was_in_a_former_life() -> None:
    """Shows that an ISR holds a broker under the broker epoch that it has now; a request without any says nothing."""
    for epoch, violated in ((7, 1), (20, 0), (-1, 0)):
        trace = active()
        trace.change(1, 0, (1, 2), "fence", partition_epoch=1)
        trace.registered(3, epoch=20, fenced=True, incarnation=1)
        anew = trace.registered(3, epoch=20, incarnation=1)
        changed = trace.change(1, 0, cause="alter-isr", partition_epoch=2, members={"1": 7, "2": 7, "3": epoch})
        result = trace.result("P9")
        assert result.violated == violated
        for finding in result.violations:
            assert finding.events == [anew, changed]
            assert finding.sentence == (
                "the ISR [1, 2, 3] of orders-0 took in broker-3 under broker epoch 7, but that broker is registered "
                "under broker epoch 20"
            )


def leaves(trace: TraceBuilder, broker: int, leaves: bool = True, fenced: bool = False) -> str:
    """The controller registers that a broker shuts down."""
    body = BrokerReg(broker, 7, f"broker-{broker}/0", fenced, leaves, False, 12)
    return trace.emit("controller-1", body)


@pytest.mark.parametrize("cause", ["alter-isr", "fence"])
@pytest.mark.parametrize("leaving", [1, 2])
def test_who_shuts_down_joins_no_isr(cause: str, leaving: int) -> None:
    """Shows an ISR that a leader asked for, with a broker in it that shuts down, be it a former member or a new one;
    what the controller changes by itself leaves former members where they are."""
    trace = active()
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=1)
    stops = leaves(trace, leaving)
    changed = trace.change(1, 0, (1, 2), cause, partition_epoch=2)
    found = trace.result("P9").violations
    says = f"the controller accepted the ISR [1, 2] of orders-0, but broker-{leaving} is registered as shutting down"
    assert [(each.sentence, each.events) for each in found] == (
        [(says, [stops, changed])] if cause == "alter-isr" else []
    )


@pytest.mark.parametrize(
    ("isr", "leader", "wrong"), [((2, 3), 2, True), ((1,), -1, True), ((1, 2, 3), 1, False)], ids=str
)
@pytest.mark.parametrize("told", [True, False])
def test_a_controlled_shutdown_is_registered_first(isr: tuple[int, ...], leader: int, wrong: bool, told: bool) -> None:
    """Shows a broker that leaves an ISR, or as its last member loses the leadership, for a shutdown of which its
    registration says nothing."""
    trace = active()
    trace.change(1, 0, isr if leader < 0 else (1, 2, 3), "alter-isr", partition_epoch=1)
    if told:
        leaves(trace, 1)
    trace.change(leader, 1, isr, "controlled-shutdown", partition_epoch=2)
    says = (
        "the controller took broker-1 out of orders-0 for its controlled shutdown, but had not registered it as "
        "shutting down"
    )
    assert [each.sentence for each in trace.result("P9").violations] == ([says] if wrong and not told else [])


def test_shutdowns_after_another_controller() -> None:
    """Shows that nothing is said by what an earlier controller registered, as it may not have told of all."""
    for told in (True, False):
        trace = active()
        leaves(trace, 1, leaves=told)
        trace.vote("controller-1", 3, 101, asks=(1, 25))
        trace.role("controller-1", 3, "leader", 101)
        trace.change(2, 1, (2, 3), "alter-isr" if told else "controlled-shutdown", partition_epoch=2, quorum_epoch=3)
        trace.change(2, 1, (1, 2), "alter-isr", partition_epoch=3, quorum_epoch=3)
        assert trace.result("P9").status == "held"


def test_a_controller_that_was_cut_off_fences_everybody_for_itself() -> None:
    """Shows that what it appends is nothing to the next controller, whose log it never reached."""
    trace = active()
    trace.vote("controller-2", 2, 102, asks=(1, 20))
    trace.role("controller-2", 2, "leader", 102)
    trace.change(-1, 1, (1,), "fence", partition_epoch=1, offset=20)
    trace.registered(2, 3, fenced=True, offset=21)
    trace.change(2, 1, (2, 3), "elect", partition_epoch=1, offset=20, quorum_epoch=2, node="controller-2")
    assert trace.result("P9").status == "held"


# ---- P21 -------------------------------------------------------------------------------------------------------


def test_elections_from_the_pool() -> None:
    """Shows the elections that need nobody's leave: from the ISR, from one that a leader has just asked for, and where
    the ISR is empty from the eligible leader replicas."""
    trace = active()
    trace.change(2, 1, (2, 3))
    trace.change(2, 1, (2,), "alter-isr", partition_epoch=2)
    trace.emit("controller-1", BrokerReg(2, 7, "broker-2/0", False, True, False, 12))
    trace.change(3, 2, (2, 3), "alter-isr", partition_epoch=3)
    trace.registered(2)
    trace.change(-1, 3, (), "fence", partition_epoch=4, elr=[2])
    trace.change(2, 4, (2,), "unfence", partition_epoch=5)
    trace.change(2, 4, (2,), "alter-isr", partition_epoch=6, elr=[3])
    trace.change(3, 5, (3,), "fence", partition_epoch=7)
    result = trace.result("P21")
    assert (result.status, result.tested) == ("held", 5)


def test_a_leader_from_elsewhere() -> None:
    """Shows one from outside the ISR, an eligible leader replica while the ISR has members, and a dead one."""
    outside = active()
    before = outside.change(1, 0, (1, 2), "alter-isr", partition_epoch=1)
    elected = outside.change(3, 1, (3,), partition_epoch=2)
    (finding,) = outside.result("P21").violations
    assert finding.sentence == (
        "the controller elected broker-3 for orders-0 in leader epoch 1 (elect), from outside the ISR [1, 2]"
    )
    assert finding.events == [before, elected]
    early = active()
    early.change(1, 0, (1,), "alter-isr", partition_epoch=1, elr=[2])
    early.change(2, 1, (1, 2), partition_epoch=2)
    assert early.result("P21").violations[0].sentence.endswith("the ISR [1] and the eligible leader replicas [2]")
    able = active()
    able.change(1, 0, (1, 3), "alter-isr", partition_epoch=1, elr=[2])
    able.change(2, 1, (2,), "fence", partition_epoch=2)
    assert (
        able.result("P21")
        .violations[0]
        .sentence.endswith("from the eligible leader replicas, although [1, 3] of the ISR could lead")
    )
    dead = active()
    dead.registered(2, fenced=True)
    dead.change(2, 1, (2, 3))
    assert dead.result("P21").violations[0].sentence.endswith("(elect), which is fenced")


def elect(kind: str, *partitions: str) -> AdminInvoke:
    """An operator asks for leaders."""
    return AdminInvoke("a", "elect-leaders", {"type": kind, "partitions": list(partitions)})


@pytest.mark.parametrize(
    ("kind", "partitions", "tp", "status"),
    [
        ("unclean", ["other-0", "orders-0"], "orders-0", "held"),
        ("unclean", [], "orders-0", "held"),
        ("unclean", ["orders-0"], "orders-0@id", "held"),
        ("unclean", ["orders-1"], "orders-0", "violated"),
        ("preferred", ["orders-0"], "orders-0", "violated"),
        ("preferred", [], "orders-0", "violated"),
    ],
)
def test_what_an_operator_allows(kind: str, partitions: list[str], tp: str, status: str) -> None:
    """Shows that an operator allows an unclean election only by asking for it, of that partition or of all."""
    trace = active()
    trace.change(1, 0, tp=tp)
    trace.change(1, 0, (1,), "alter-isr", partition_epoch=1, tp=tp)
    trace.emit("admin-1", elect(kind, *partitions))
    trace.change(3, 1, (3,), "unclean", partition_epoch=2, asked=True, tp=tp)
    trace.registered(1, fenced=True)
    result = trace.result("P21")
    assert result.status == status
    if status == "violated":
        assert result.violations[0].sentence.endswith(
            "uncleanly, from outside the ISR [1], although no operator had asked for that"
        )


NOT_NEEDED = {"orders-0": "ELECTION_NOT_NEEDED"}


def led_by(leader: int, **how: Any) -> TraceBuilder:
    """Another replica than the preferred one leads orders-0, or none, when an operator asks for leaders."""
    trace = active(**how)
    trace.change(leader, 1, (2, 3) if leader >= 0 else (), partition_epoch=1)
    return trace


def answered(trace: TraceBuilder, results: dict[str, str] | None = None) -> str:
    """What the operator is told."""
    told = NOT_NEEDED if results is None else results
    return trace.emit("admin-1", AdminReturn("a", "ok", 0, "elect-leaders", told))


def test_an_election_that_is_refused_as_nobody_needs_it() -> None:
    """Shows that another replica than the preferred one led, and where anybody will do, nobody."""
    for kind, leader in (("preferred", 2), ("preferred", -1), ("unclean", -1)):
        trace = led_by(leader)
        asked = trace.events[-1].id
        trace.emit("admin-1", elect(kind, "orders-0", "orders-1"))
        told = answered(trace)
        (found,) = trace.result("P21").violations
        assert found.events == [asked, told]
        assert found.sentence == (
            "admin-1 was told that orders-0 needs no election, although no controller has known it with the leader "
            "that was asked for since then"
        )


def test_an_election_that_nobody_needs() -> None:
    """Shows the preferred leader, at the time of the call or at any time until the answer, as after an answer that was
    lost; any leader, for who asks for an unclean election; and other answers."""
    trace = active()
    trace.emit("admin-1", elect("preferred", "orders-0"))
    answered(trace)
    assert (trace.result("P21").status, trace.result("P21").tested) == ("held", 1)
    trace = active()
    trace.emit("admin-1", elect("preferred", "orders-0"))
    trace.change(2, 1, (2, 3), partition_epoch=1)
    answered(trace)
    assert trace.result("P21").violated == 0
    trace = led_by(2)
    trace.change(2, 1, (1, 2, 3), "alter-isr", partition_epoch=2)
    trace.emit("admin-1", elect("preferred", "orders-0"))
    trace.change(1, 2, (1, 2, 3), "preferred", partition_epoch=3)
    trace.change(2, 3, (2, 3), partition_epoch=4)
    answered(trace)
    assert trace.result("P21").violated == 0
    for kind, results in (("unclean", NOT_NEEDED), ("preferred", {"orders-0": "NONE"}), ("preferred", {})):
        trace = led_by(2)
        trace.emit("admin-1", elect(kind, "orders-0"))
        answered(trace, results)
        assert trace.result("P21").violated == 0


@pytest.mark.parametrize("doubt", ["crash", "crash-before", "removed", "former", "elected", "all", "unknown"])
def test_an_election_of_which_nobody_can_say_whether_it_is_needed(doubt: str) -> None:
    """Shows a controller that ended abruptly, before the call or since, a topic that is removed, a controller that has
    been replaced and does not know it, one that is elected and lacks the change, partitions that were not named, and
    one that the trace does not know."""
    trace = led_by(2)
    if doubt == "crash-before":
        trace.down("controller-1")
    if doubt == "former":
        trace = active()
        trace.vote("controller-2", 2, 102, asks=(1, 25))
        trace.role("controller-2", 2, "leader", 102)
        trace.change(2, 1, (2, 3), partition_epoch=1, node="controller-2", quorum_epoch=2)
    trace.emit("admin-1", elect("preferred", *{"all": [], "unknown": ["orders-9"]}.get(doubt, ["orders-0"])))
    if doubt == "crash":
        trace.down("controller-1")
    elif doubt == "removed":
        trace.emit("controller-1", PartRemove("orders-0", 99, 1, "id"))
    elif doubt == "elected":
        trace.vote("controller-2", 2, 102, asks=(1, 11))
        trace.role("controller-2", 2, "leader", 102, 11)
    answered(trace)
    assert trace.result("P21").violated == 0


def test_what_is_allowed_anyway_needs_no_operator() -> None:
    """Shows elections at an operator's request for the preferred leader, where the configuration allows anybody, or
    the last known leader is the only one left."""
    anybody = active(config={UNCLEAN: True})
    anybody.change(1, 0, (1,), "alter-isr", partition_epoch=1)
    anybody.emit("admin-1", elect("preferred"))
    anybody.change(3, 1, (3,), "unclean", partition_epoch=2, asked=True)
    anybody.registered(1, fenced=True)
    last = active(**ELIGIBLE)
    last.change(-1, 1, (), "fence", partition_epoch=1, last_known_elr=[1])
    last.emit("admin-1", elect("preferred"))
    last.change(1, 2, (1,), "unclean", partition_epoch=2, asked=True)
    assert (anybody.result("P21").status, last.result("P21").status) == ("held", "held")


def test_unclean_elections_need_leave() -> None:
    """Shows who may allow one: the topic, else the brokers' default, else the controller, or an operator; each at the
    offset of the election."""
    key = "unclean.leader.election.enable"
    for topic, brokers, controller, asked, status in (
        (None, None, False, False, "violated"),
        (None, None, True, False, "held"),
        (None, "true", False, False, "held"),
        ("false", "true", True, False, "violated"),
        (None, None, False, True, "held"),
    ):
        trace = active(config={key: controller})
        if topic is not None:
            trace.emit("controller-1", ConfigChange(12, 1, "topic/orders", key, topic))
        if brokers is not None:
            trace.emit("controller-1", ConfigChange(13, 1, "broker/", key, brokers))
        trace.change(1, 0, (1,), "alter-isr", partition_epoch=1)
        if asked:
            trace.emit("admin-1", elect("unclean", "orders-0"))
        trace.change(3, 1, (3,), "unclean", partition_epoch=2, asked=asked)
        trace.registered(1, fenced=True)
        assert trace.result("P21").status == status
    late = active()
    late.change(1, 0, (1,), "alter-isr", partition_epoch=1)
    late.change(3, 1, (3,), "unclean", partition_epoch=2)
    late.emit("controller-1", ConfigChange(40, 1, "broker/", key, "true"))
    assert (
        late.result("P21")
        .violations[0]
        .sentence.endswith("uncleanly, from outside the ISR [1], although unclean.leader.election.enable is false")
    )


@pytest.mark.parametrize(
    ("isr", "elr", "fenced", "able"),
    [
        ([1], [], 1, None),
        ([1], [], 2, [1]),
        ([1], [], None, [1]),
        ([1, 2], [], 1, [1, 2]),
        ([1], [2], 1, [1, 2]),
        ([], [2], None, [2]),
        ([], [2], 2, None),
    ],
)
def test_nobody_is_elected_uncleanly_while_another_could_lead(
    isr: list[int], elr: list[int], fenced: int | None, able: list[int] | None
) -> None:
    """Shows that a member of the ISR, or of the ELR if that is empty, that is active has to be elected, whatever is
    allowed; unless it is fenced in the very step of the election, which is recorded behind it."""
    trace = active(**ELIGIBLE, config={"unclean.leader.election.enable": True})
    trace.change(isr[0] if isr else -1, 1, isr, "alter-isr", partition_epoch=1, elr=elr)
    trace.change(3, 2, (3,), "unclean", partition_epoch=2, asked=True)
    if fenced is not None:
        trace.registered(fenced, fenced=True)
    found = trace.result("P21")
    assert found.status == ("held" if able is None else "violated")
    if able is not None:
        assert found.violations[0].sentence.endswith(f"uncleanly, although {able} could lead")


@pytest.mark.parametrize(
    ("profile", "elr", "last_known", "status"),
    [
        (ELIGIBLE, [], [1], "held"),
        (ELIGIBLE, [2], [1], "violated"),
        (ELIGIBLE, [], [1, 2], "violated"),
        (ELIGIBLE, [], [2], "violated"),
        ({}, [], [1], "violated"),
    ],
)
def test_the_last_known_leader_needs_no_leave(
    profile: dict[str, Any], elr: list[int], last_known: list[int], status: str
) -> None:
    """Shows that where nobody is left who may be elected, the only one who led last comes back, unclean as that is; not
    while somebody is eligible, nor one of several, nor in a cluster that remembers nobody."""
    trace = active(**profile)
    trace.change(-1, 1, (), "fence", partition_epoch=1, elr=elr, last_known_elr=last_known)
    trace.change(1, 2, (1,), "unclean", partition_epoch=2)
    assert (trace.result("P21").status, trace.result("P21").tested) == (status, 2)
    if elr:
        assert trace.result("P21").violations[0].sentence.endswith("the last known leader, although [2] is eligible")


@pytest.mark.parametrize(
    ("broker", "unclean", "req", "status"),
    [
        (2, True, "c#1", "held"),
        (2, False, "c#1", "violated"),
        (3, True, "c#1", "violated"),
        (2, True, "c#2", "violated"),
    ],
)
def test_the_last_known_leader_when_the_eligible_one_is_eligible_no_more(
    broker: int, unclean: bool, req: str, status: str
) -> None:
    """Shows that the last known leader may be elected in the step in which the one eligible replica registers after an
    unclean shutdown, which is recorded behind the election; not if another broker does, or in another step."""
    trace = active(**ELIGIBLE)
    trace.change(-1, 1, (), "fence", partition_epoch=1, elr=[2], last_known_elr=[1])
    trace.req = "c#1"
    trace.change(1, 2, (1,), "unclean", partition_epoch=2)
    trace.req = req
    trace.emit("controller-1", BrokerReg(broker, 60, "i", True, False, unclean, 60))
    assert trace.result("P21").status == status


@pytest.mark.parametrize(
    ("cause", "node", "status"),
    [
        ("fence", "controller-1", "held"),
        ("unclean", "controller-1", "held"),
        ("alter-isr", "controller-1", "violated"),
        ("alter-isr", "controller-2", "held"),
    ],
)
def test_the_step_that_fences_whoever_could_lead(cause: str, node: str, status: str) -> None:
    """Shows that only what becomes of other partitions of the same broker may come between an unclean election and the
    fencing of the one who could lead, and whatever another controller does; not that time passes, as it does for a live
    node that stands at a barrier."""
    trace = active(config={"unclean.leader.election.enable": True})
    trace.change(1, 1, (1,), "alter-isr", partition_epoch=1)
    trace.change(3, 2, (3,), "unclean", partition_epoch=2)
    trace.wall += 5_000_000
    trace.change(3, 1, (3,), cause, tp="other-0", node=node)
    trace.registered(1, fenced=True)
    assert trace.result("P21").status == status


@pytest.mark.parametrize(
    ("mode", "between", "status"),
    [("crash", False, "held"), ("lossy", False, "held"), ("crash", True, "violated"), ("end", False, "violated")],
)
def test_a_controller_that_crashes_within_the_step(
    mode: Literal["crash", "lossy", "end"], between: bool, status: str
) -> None:
    """Shows that a controller which crashes right behind an unclean election never came to the fencing of the one who
    could lead; not if it went on to something else first, or ended in good order."""
    trace = active(config={"unclean.leader.election.enable": True})
    trace.change(1, 1, (1,), "alter-isr", partition_epoch=1)
    trace.change(3, 2, (3,), "unclean", partition_epoch=2)
    if between:
        trace.emit("controller-1", LogHw(METADATA_PARTITION, "leader", 1, 24, 24, 0))
    trace.down("controller-1", mode)
    assert trace.result("P21").status == status


def test_an_unclean_leader_is_alone_and_alive() -> None:
    """Shows that others may not be in the ISR with it, and that it must not be fenced."""
    for isr, fenced, says in (
        ((3, 1), False, "uncleanly, but with the ISR [3, 1], not the leader alone"),
        ((3,), True, "which is fenced"),
    ):
        trace = active(config={"unclean.leader.election.enable": True})
        trace.registered(3, fenced=fenced)
        trace.change(3, 1, isr, "unclean")
        assert trace.result("P21").violations[0].sentence.endswith(says)


@pytest.mark.parametrize(
    ("change", "better"),
    [
        ((2, 1, (1, 2, 3), "alter-isr"), "broker-1 leads and could go on: the ISR is [1, 2, 3]"),
        ((2, 1, (1, 2), "fence"), "broker-1 leads and could go on: the ISR is [1, 2]"),
        ((-1, 1, (1, 2), "fence"), "broker-1 leads and could go on: the ISR is [1, 2]"),
        ((3, 1, (2, 3), "fence"), "broker-2 comes first of those that could lead: the ISR is [2, 3]"),
        ((-1, 1, (2, 3), "fence"), "broker-2 comes first of those that could lead: the ISR is [2, 3]"),
        ((3, 1, (1, 2, 3), "preferred"), "broker-1 leads and could go on: the ISR is [1, 2, 3]"),
        ((1, 0, (1, 2), "fence"), ""),
        ((2, 1, (2, 3), "fence"), ""),
        ((2, 1, (2, 3), "controlled-shutdown"), ""),
    ],
)
def test_who_leads_stays_and_else_the_first_that_can(
    change: tuple[int, int, tuple[int, ...], str], better: str
) -> None:
    """Shows that a leader that stays in the ISR goes on to lead, else the first of the assignment in the ISR, and
    somebody in any case; not where this rests on what a controller wrote that ended abruptly, as it may have written
    more than it told."""
    trace = active()
    before = trace.change(1, 0, partition_epoch=1)
    changed = trace.change(*change, 2)
    found = trace.result("P21").violations
    assert [each.sentence.partition("although ")[2] for each in found] == ([better] if better else [])
    assert all(each.events == [before, changed] for each in found)
    for is_abrupt in (True, False):
        next_one = active()
        next_one.change(1, 0, partition_epoch=1)
        next_one.down("controller-1", "crash" if is_abrupt else "clean")
        next_one.vote("controller-2", 2, 102, asks=(1, 25))
        next_one.role("controller-2", 2, "leader", 102)
        next_one.change(*change, 2, quorum_epoch=2, node="controller-2")
        assert (next_one.result("P21").status == "violated") == (bool(better) and not is_abrupt)


def test_who_may_be_passed_over() -> None:
    """Shows that nobody has to lead who is fenced, shuts down, or leaves as the last member of an ISR; that the
    preferred leader may take over from another one; and that a broker which is unfenced in this step has to."""
    gone = active()
    gone.change(1, 0, (1, 2), "fence", partition_epoch=1)
    gone.registered(3, fenced=True)
    gone.emit("controller-1", BrokerReg(2, 7, "broker-2/0", False, True, False, 12))
    gone.change(1, 0, (1,), "controlled-shutdown", partition_epoch=2)
    gone.change(-1, 1, (1,), "fence", partition_epoch=3)
    gone.registered(1, fenced=True)
    gone.registered(1)
    gone.change(1, 2, (1,), "unfence", partition_epoch=4)
    assert (gone.result("P21").status, gone.result("P21").tested) == ("held", 3)
    back = active()
    back.change(2, 1, (2, 3), "fence", partition_epoch=1)
    back.change(2, 1, cause="alter-isr", partition_epoch=2)
    back.change(1, 2, cause="preferred", partition_epoch=3)
    assert back.result("P21").status == "held"
    for shutting_down in (False, True):
        nobody = active()
        nobody.change(1, 0, (1,), "alter-isr", partition_epoch=1)
        nobody.change(-1, 1, (1,), "fence", partition_epoch=2)
        nobody.registered(1, fenced=True)
        nobody.emit("controller-1", BrokerReg(1, 7, "broker-1/0", False, shutting_down, False, 13))
        nobody.change(-1, 1, (1,), "unfence", partition_epoch=3)
        assert nobody.result("P21").violations[0].sentence == (
            "the controller elected nobody for orders-0 in leader epoch 1 (unfence), although broker-1 comes first of "
            "those that could lead: the ISR is [1]"
        )


def test_the_first_of_the_eligible_leader_replicas() -> None:
    """Shows that they are elected in the order of the assignment, too, if the ISR is empty; not one that may have lost
    records and leaves with the change."""
    for elected, elr, cause, status in (
        (2, [3], "unfence", "held"),
        (3, [2], "unfence", "violated"),
        (3, [2], "unclean-shutdown", "held"),
        (3, [], "unclean-shutdown", "held"),
    ):
        trace = active(**ELIGIBLE)
        trace.change(-1, 1, (), "fence", partition_epoch=1, elr=[2, 3])
        # Nobody of them was alive.
        trace.change(elected, 2, (elected,), cause, partition_epoch=2, elr=elr)
        found = [each for each in trace.result("P21").violations if f"elected broker-{elected}" in each.sentence]
        assert ("violated" if found else "held") == status


@pytest.mark.parametrize("cause", ["fence", "unclean"])
def test_who_shuts_down_is_not_elected(cause: str) -> None:
    """Shows a leader that shuts down, elected from the ISR or uncleanly; not one that leads already, nor where this
    rests on what a controller wrote that ended abruptly."""
    trace = active(config={UNCLEAN: True})
    trace.registered(1, fenced=True)
    leaves(trace, 2)
    isr = (2,) if cause == "unclean" else (2, 3)
    trace.change(2, 1, isr, cause, partition_epoch=1)
    trace.change(2, 1, (2,), "fence", partition_epoch=2)
    assert [each.sentence.partition("), ")[2] for each in trace.result("P21").violations] == ["which is shutting down"]
    next_one = active(config={UNCLEAN: True})
    next_one.registered(1, fenced=True)
    leaves(next_one, 2)
    next_one.down("controller-1")
    next_one.vote("controller-2", 2, 102, asks=(1, 25))
    next_one.role("controller-2", 2, "leader", 102)
    next_one.change(2, 1, (2, 3), "fence", partition_epoch=1, quorum_epoch=2, node="controller-2")
    assert next_one.result("P21").status == "held"


def test_who_shuts_down_and_is_unfenced() -> None:
    """Shows that it may be elected in that very step, whatever its registration says, and in no later one."""
    for req, status in (("c#1", "held"), ("c#2", "violated")):
        trace = active()
        trace.registered(1, fenced=True)
        leaves(trace, 2, fenced=True)
        trace.change(-1, 1, (1,), "fence", partition_epoch=1)
        trace.change(-1, 1, (2,), "fence", partition_epoch=2)
        trace.req = "c#1"
        leaves(trace, 2)
        trace.change(-1, 2, (2,), "unfence", partition_epoch=3)
        trace.req = req
        trace.change(2, 3, (2,), "unfence", partition_epoch=4)
        found = [each for each in trace.result("P21").violations if "elected broker-2" in each.sentence]
        assert ("violated" if found else "held") == status


UNCLEAN = "unclean.leader.election.enable"


def waiting(isr: list[int], elr: list[int], last_known: list[int], **profile: Any) -> TraceBuilder:
    """Orders-0 has no leader, and broker-2 is fenced."""
    trace = active(**profile)
    trace.registered(2, fenced=True)
    trace.change(-1, 1, isr, "fence", partition_epoch=1, elr=elr, last_known_elr=last_known)
    trace.req = "c#1"
    return trace


@pytest.mark.parametrize(
    ("profile", "isr", "elr", "last_known", "why"),
    [
        ({}, [2], [], [], "is in the ISR [2]"),
        ({}, [3], [2], [], ""),
        (ELIGIBLE, [], [2], [1], "is one of the eligible leader replicas [2], and the ISR is empty"),
        (ELIGIBLE, [], [3], [2], ""),
        (ELIGIBLE, [], [], [2], "led it last, and nobody is eligible"),
        (ELIGIBLE, [], [], [2, 1], ""),
        ({**ELIGIBLE, "bounced": {"eligible.leader.replicas.version": ["0"]}}, [], [], [2], ""),
        ({}, [], [], [2], ""),
        ({}, [3], [], [], ""),
        ({"config": {UNCLEAN: True}}, [3], [], [], f"is one of the replicas [1, 2, 3], and {UNCLEAN} is true"),
    ],
)
def test_who_comes_back_is_elected_at_once(
    profile: dict[str, Any], isr: list[int], elr: list[int], last_known: list[int], why: str
) -> None:
    """Shows a broker that is unfenced, and the partition that waits for it gets no leader in that step; not where
    it may not lead."""
    trace = waiting(isr, elr, last_known, **profile)
    back = trace.registered(2)
    trace.req = "c#2"
    trace.change(2, 2, (2,), "elect", partition_epoch=2)
    found = [each for each in trace.result("P21").violations if "unfenced" in each.sentence]
    assert [each.sentence for each in found] == (
        [f"the controller unfenced broker-2 and elected nobody for orders-0, although broker-2 {why}"] if why else []
    )
    assert all(each.events[1] == back for each in found)


@pytest.mark.parametrize(
    ("topic", "own", "brokers", "wrong"),
    [(None, None, "true", 1), (None, "false", "true", 0), ("false", "true", "true", 0), ("true", "false", None, 1)],
)
def test_who_comes_back_where_unclean_elections_are_allowed(
    topic: str | None, own: str | None, brokers: str | None, wrong: int
) -> None:
    """Shows the topic's value come before the controller's own, and that before the brokers' default."""
    trace = active()
    for offset, resource, value in ((12, "topic/orders", topic), (13, "broker/101", own), (14, "broker/", brokers)):
        if value is not None:
            trace.emit("controller-1", ConfigChange(offset, 1, resource, UNCLEAN, value))
    trace.registered(1, 2, fenced=True)
    trace.change(-1, 1, (1,), "fence", partition_epoch=1)
    trace.registered(2)
    assert trace.result("P21").violated == wrong


def test_what_a_return_asks_of_a_controller() -> None:
    """Shows the election in the same step, behind those of other partitions; and that a registration which unfences
    nobody asks for none: of a new incarnation, of one that was not fenced, or of one that stays fenced."""
    trace = waiting([2], [], [])
    trace.change(-1, 1, (2,), "fence", tp="other-0")
    trace.registered(2)
    trace.change(2, 2, (2,), "unfence", tp="other-0")
    trace.change(2, 2, (2,), "unfence", partition_epoch=2)
    trace.req = "c#2"
    trace.registered(2)
    assert trace.result("P21").status == "held"
    for fenced, incarnation in ((True, 0), (False, 1)):
        other = waiting([2], [], [])
        other.registered(2, fenced=fenced, incarnation=incarnation)
        assert other.result("P21").status == "held"
    nobody = active()
    nobody.change(-1, 1, (2,), "fence", partition_epoch=1)
    nobody.emit("controller-1", BrokerReg(2, 7, "broker-2/0", False, True, False, 12))
    assert nobody.result("P21").violated == 1  # the first change alone: broker-2 could lead


@pytest.mark.parametrize(("mode", "between", "wrong"), [("crash", False, 0), ("crash", True, 1), ("end", False, 1)])
def test_a_controller_that_crashes_before_it_elects(mode: Literal["crash", "end"], between: bool, wrong: int) -> None:
    """Shows that a controller which crashes right behind the unfencing may have written more than it told; not if it
    went on to something else first, or ended in good order."""
    trace = waiting([2], [], [])
    trace.registered(2)
    if between:
        trace.emit("controller-1", LogHw(METADATA_PARTITION, "leader", 1, 24, 24, 0))
    trace.down("controller-1", mode)
    assert trace.result("P21").violated == wrong


@pytest.mark.parametrize(("mode", "wrong"), [("crash", 0), ("clean", 1)])
def test_a_return_after_a_controller_that_ended_abruptly(mode: Literal["crash", "clean"], wrong: int) -> None:
    """Shows that what it wrote is not relied on, as it may have written more than it told."""
    trace = waiting([2], [], [])
    trace.down("controller-1", mode)
    trace.vote("controller-2", 2, 102, asks=(1, 25))
    trace.role("controller-2", 2, "leader", 102)
    trace.registered(2, node="controller-2", offset=26)
    assert trace.result("P21").violated == wrong


def test_an_unclean_election_marks_the_leader_as_recovering() -> None:
    """Shows one that does not, one that does, one that does not tell, and a clean one, which need not."""
    for cause, recovering, held in (
        ("unclean", False, False),
        ("unclean", True, True),
        ("unclean", None, True),
        ("elect", False, True),
    ):
        trace = active(config={"unclean.leader.election.enable": True})
        first = trace.change(1, 0, isr=[1] if cause == "unclean" else [1, 2])
        trace.registered(1, fenced=True)
        end = trace.change(2, 1, isr=[2], cause=cause, recovering=recovering)
        result = trace.result("P21")
        assert (result.status, result.tested) == ("held" if held else "violated", 1), (cause, recovering)
        if not held:
            (found,) = result.violations
            assert found.events == [first, end]
            assert found.sentence == (
                "the controller elected broker-2 for orders-0 in leader epoch 1 (unclean), without marking it as "
                "recovering"
            )
