"""The core that is healed when the chaos is over: who stays away, and what it takes to converge without them."""

from __future__ import annotations

import pytest

from actors.control import Resume
from actors.node.spec import REMOTE_STORE
from actors.trace.events import CtlFault, CtlPhase, CtlWindow, NodeDown, NodeUp, PartChange, QVoters
from chaos.core import staying
from chaos.errors import InputError
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from chaos.schedule import timeline
from tests.unit.chaos.stage import BASE, SECOND, Stage, plan_of

BROKER = "chaos: [{when: {at: 9s}, fault: {crash: broker-3}, for: 1s}]\n"
VOTERS = "chaos: [{when: {at: 9s}, fault: {crash: [controller-2, controller-3]}, for: 1s}]\n"
TWO = """
chaos:
  - {when: {at: 9s}, fault: {crash: [broker-2, controller-1]}, for: 1s}
  - {when: {at: 9s}, fault: {pause: broker-3}, for: 1s}
"""
RANDOM = "heal: {core: random}\n"
STAYS = 2
"""A seed with which every fault stays that the core can do without."""


def healed(more: str, isr: list[int] | None = None, seed: int | None = STAYS) -> Stage:
    """A run at the end of its chaos, with an ISR from 9.5 s on."""
    stage = Stage(plan_of(more, seed=seed))
    stage.reach_time_0()
    stage.run_until(9_500_000)
    for name in stage.crashed():
        stage.tell(name, NodeDown("crash"))
    if isr is not None:
        stage.elect(isr[0], 1, isr, "fence")
    stage.run_until(10 * SECOND)
    assert stage.conductor.phase == "healing"
    return stage


def test_a_broker_stays_away_and_the_others_converge() -> None:
    """Shows that nobody waits for who is away, that the window is of the others, and that the fault ends with the
    run."""
    stage = healed(BROKER + RANDOM)
    assert stage.restarted() == []
    assert stage.conductor.progress().waiting_for == "without its leader or its whole ISR: orders-0"
    stage.fenced(3, True)
    stage.change(1, 0, [1, 2], "fence")
    assert stage.conductor.phase == "stopping"
    window = stage.recorded(CtlWindow)[-1]
    assert window.phase == "open"
    assert "broker-3" not in window.core
    stage.complete_stops()
    stage.complete_stops()
    assert stage.conductor.status == "completed"
    assert stage.conductor.outcomes[0].phase == "in force"
    stage.conductor.end(stage.now_us)
    assert stage.conductor.outcomes[0].phase == "ended"
    assert stage.restarted() == []


def test_without_a_core_everybody_is_healed() -> None:
    """Shows what a scenario that says nothing gets."""
    assert healed(BROKER).restarted() == ["broker-3"]


def test_most_voters_are_healed() -> None:
    """Shows that a fault ends that silences as many voters as a quorum needs."""
    assert healed(VOTERS + RANDOM).restarted() == ["controller-2", "controller-3"]


def test_somebody_who_may_lead_is_healed() -> None:
    """Shows that a broker is brought back where all others are out of the ISR, and one that runs is left."""
    assert healed(BROKER + RANDOM, isr=[3]).restarted() == ["broker-3"]
    assert healed(BROKER + RANDOM, isr=[1, 3]).restarted() == []


@pytest.mark.parametrize(("eligible", "restarted"), [([3], ["broker-3"]), ([], [])])
def test_who_led_last_counts_only_where_nobody_is_eligible(eligible: list[int], restarted: list[str]) -> None:
    """Shows that an eligible replica is brought back although the last known leader runs, which may not lead then."""
    stage = Stage(plan_of(BROKER + RANDOM, seed=STAYS))
    stage.reach_time_0()
    stage.run_until(9_500_000)
    stage.tell("broker-3", NodeDown("crash"))
    change = PartChange("orders-0", 90, 1, -1, 1, 9, [], [1, 2, 3], "fence", elr=eligible, last_known_elr=[2])
    stage.tell("controller-1", change)
    stage.run_until(10 * SECOND)
    assert stage.restarted() == restarted


def test_as_many_are_healed_as_records_need_to_be_acknowledged() -> None:
    """Shows that min.insync.replicas counts as the controller last said it."""
    stage = Stage(plan_of(BROKER + RANDOM, seed=STAYS))
    stage.reach_time_0()
    view = stage.conductor.view.partitions["orders-0"]
    view.changes.records[-1] = view.changes.records[-1].__class__(
        **{name: getattr(view.changes.records[-1], name) for name in view.changes.records[-1].__struct_fields__}
        | {"min_isr": 3}
    )
    stage.run_until(10 * SECOND)
    assert stage.restarted() == ["broker-3"]


def test_what_stays_is_drawn_from_the_seed() -> None:
    """Shows that of two faults none, one or the other may stay, never both where that is too many, and that a seed
    decides it once and for all."""
    found = {seed: tuple(healed(TWO + RANDOM, seed=seed).conductor.injector.away) for seed in range(1, 80)}
    assert {frozenset(away) for away in found.values()} == {
        frozenset(),
        frozenset({"broker-2", "controller-1"}),
        frozenset({"broker-3"}),
        frozenset({"broker-2", "broker-3", "controller-1"}),
    }
    again = {seed: tuple(healed(TWO + RANDOM, seed=seed).conductor.injector.away) for seed in (3, 4, 5)}
    assert all(set(found[seed]) == set(away) for seed, away in again.items())


def test_one_broker_may_stay_hung() -> None:
    """Shows that of two paused brokers one is resumed, as consumers never leave two that are hung; and that one may be
    crashed beside it."""
    for faults, most in (("{pause: broker-2}", 1), ("{crash: broker-2}", 2)):
        chaos = f"""
chaos:
  - {{when: {{at: 9s}}, fault: {faults}, for: 1s}}
  - {{when: {{at: 9s}}, fault: {{pause: broker-3}}, for: 1s}}
"""
        away = [healed(chaos + RANDOM, seed=seed).conductor.injector.away for seed in range(1, 20)]
        assert max(map(len, away)) == most


def test_the_remote_store_is_healed() -> None:
    """Shows that no core does without the remote store: a broker that needs a copy waits until it answers."""
    stage = healed(BROKER)
    view, store = stage.conductor.view, frozenset({REMOTE_STORE})
    assert not any(staying({"f1": store}, (), view, [], (), seed) for seed in range(20))
    assert any(staying({"f1": frozenset({"broker-3"})}, (), view, [], (), seed) for seed in range(20))


def test_a_core_may_be_named() -> None:
    """Shows that a fault on a member ends, and that one on others stays as long as the run lasts."""
    stage = healed(TWO + "heal: {core: [controllers, broker-1, broker-2]}\n")
    assert stage.restarted() == ["broker-2", "controller-1"]
    assert stage.of(Resume) == []
    assert stage.conductor.injector.away == {"broker-3"}


def test_a_drawn_core_gets_whom_it_cannot_do_without() -> None:
    """Shows that a shrink of the ISR that was under way when the chaos ended, to a broker that is away, brings it
    back."""
    stage = healed(BROKER + RANDOM)
    assert stage.restarted() == []
    stage.change(3, 1, [3], "alter-isr")
    assert stage.restarted() == ["broker-3"]
    assert stage.conductor.progress().waiting_for == "not back: broker-3"


@pytest.mark.parametrize(
    ("topic", "own", "restarted"),
    [("orders", "", []), ("orders", ", config: {unclean.leader.election.enable: false}", ["broker-3"]),
     ("__transaction_state", "", ["broker-3"])],
)  # fmt: skip
def test_who_elects_uncleanly_needs_nobody_back(topic: str, own: str, restarted: list[str]) -> None:
    """Shows that a partition waits for no eligible replica where any other may lead, by the configuration of its own
    topic; that of transactions is made so that it never elects uncleanly."""
    base = BASE.replace("{replicas: [[1, 2, 3]]}", f"{{replicas: [[1, 2, 3]]{own}}}")
    base = base.replace("cluster:\n", "cluster:\n  config: {unclean.leader.election.enable: true}\n")
    stage = Stage(plan_of(BROKER + RANDOM, base, STAYS))
    stage.reach_time_0()
    stage.elect(1, 0, [1, 2, 3], "create", "__transaction_state-0")
    stage.run_until(9_500_000)
    stage.tell("broker-3", NodeDown("crash"))
    stage.run_until(10 * SECOND)
    assert stage.restarted() == []
    stage.change(-1, 1, [3], "fence", f"{topic}-0")
    assert stage.restarted() == restarted


def test_a_drawn_core_gets_the_voters_that_it_lacks_when_the_voters_become_others() -> None:
    """Shows that a removal of a voter that was under way when the chaos ended, and leaves a core of half the voters,
    brings those back that are away."""
    stage = healed("chaos: [{when: {at: 9s}, fault: {crash: [broker-3, controller-3]}, for: 1s}]\n" + RANDOM)
    assert stage.restarted() == []
    left = {"101": "a", "103": "c"}
    stage.tell("controller-1", QVoters("a", 20, 2, 2, left, 21, 20, "append"))
    assert stage.restarted() == ["broker-3", "controller-3"]


def test_a_drawn_core_gets_a_voter_that_it_lacks_when_another_one_has_lost_its_disk() -> None:
    """Shows that a node that comes back with a new directory is no voter any more, so that one that is away is brought
    back, and that until then there is no window."""
    stage = healed("chaos: [{when: {at: 9s}, fault: {crash: [broker-3, controller-3]}, for: 1s}]\n" + RANDOM)
    told = {"101": "d", "102": "d", "103": "d"}
    stage.tell("controller-1", QVoters("d", 2, 1, 1, told, 3, 3, "append"))
    assert stage.restarted() == [] and stage.recorded(CtlWindow)[-1].phase == "open"
    stage.tell("controller-2", NodeUp("controller", 102, "new", True, False), incarnation=1)
    assert stage.restarted() == ["broker-3", "controller-3"]
    assert stage.recorded(CtlWindow)[-1].phase == "close"
    stage.tell("controller-3", NodeUp("controller", 103, "d", False, False), incarnation=1)
    assert stage.recorded(CtlWindow)[-1].phase == "open"


def test_a_quorum_that_is_lost_does_not_heal() -> None:
    """Shows that no cluster is blamed that has lost the disks of most of its voters."""
    stage = healed(BROKER + RANDOM + "budgets: {heal: 5s}\n")
    stage.tell("controller-1", QVoters("d", 2, 1, 1, {"101": "d", "102": "d", "103": "d"}, 3, 3, "append"))
    for name in ("controller-2", "controller-3"):
        stage.tell(name, NodeUp("controller", 102, "new", True, False), incarnation=1)
    stage.run_until(15 * SECOND)
    assert stage.conductor.status == "did not heal"


def test_nobody_waits_for_who_cannot_stop_where_it_is() -> None:
    """Shows that a broker that was asked to stop, and is cut off from who must let it go, is not waited for."""
    stops = """
chaos:
  - {when: {at: 8s}, fault: {partition: {isolate: broker-3}}, for: 2s}
  - {when: {at: 9s}, action: {controlled-shutdown: {targets: broker-3}}, for: 500ms}
"""
    stage = healed(stops + "heal: {core: [controllers, broker-1, broker-2]}\n")
    assert stage.conductor.injector.awaited == {"broker-3": 0}
    assert stage.conductor.progress().waiting_for == "without its leader or its whole ISR: orders-0"


def test_a_trigger_ends_nothing_that_stays() -> None:
    """Shows that what a fault waited for to end it no longer does once it stays."""
    until = "chaos: [{when: {at: 9s}, fault: {pause: broker-3}, until: {seen: isr-shrunk}}]\n"
    stage = healed(until + RANDOM)
    stage.change(1, 0, [1, 2], "fence")
    assert stage.of(Resume) == []


def test_running_out_of_time_has_three_names() -> None:
    """Shows that a cluster that does not converge is told from a node that is not back, and from a partition that
    nobody may lead any more."""
    budget = "budgets: {heal: 5s}\n"
    slow = healed(BROKER + budget)
    slow.run_until(15 * SECOND)
    assert (slow.conductor.status, slow.conductor.detail) == ("did not heal", "healing: not back: broker-3")
    stage = healed(BROKER + RANDOM + budget)
    stage.run_until(15 * SECOND)
    assert stage.conductor.status == "did not converge"
    assert stage.recorded(CtlPhase)[-1].detail == (
        "did not converge: healing: without its leader or its whole ISR: orders-0"
    )
    assert stage.recorded(CtlFault)[-1].phase == "start"
    lost = healed(BROKER + "heal: {core: [controllers, broker-1, broker-2]}\n" + budget, isr=[3])
    lost.run_until(15 * SECOND)
    assert lost.conductor.status == "did not heal"


@pytest.mark.parametrize("core", ["random", "[controllers, broker-1]"])
def test_a_resolved_scenario_heals_the_same(core: str) -> None:
    """Shows that what is written down for a run has the core as it was given, and that ``any`` is drawn."""
    plan = plan_of(f"heal: {{core: {core}}}\n")
    assert f"end of the chaos: a core is healed: {core.strip('[]')}\n" in timeline(plan)
    assert resolve(load_text(plan.yaml(), "again.yaml")).core == plan.core


def test_any_is_drawn_when_the_scenario_is_resolved() -> None:
    """Shows that the resolved scenario names who was drawn."""
    plan = plan_of('heal: {core: ["any(2)", controllers]}\n')
    assert len(plan.drawn["heal.core[0]"]) == 2
    assert resolve(load_text(plan.yaml(), "again.yaml")).core == plan.core


@pytest.mark.parametrize(
    ("core", "message"),
    [
        ("broker-9", "heal.core[0]: unknown node broker-9"),
        ("clients", "heal.core[0]: clients is no controller or broker"),
        ("some", "heal.core: 'some' is not a selector"),
    ],
)
def test_a_wrong_core_gets_its_message(core: str, message: str) -> None:
    """Shows that a core is made of controllers and brokers that are there."""
    with pytest.raises(InputError) as caught:
        load_text(f"{BASE}heal: {{core: {core}}}\n", "mine.yaml")
    assert message in str(caught.value)
