"""What an operator does, from the scenario to what the cluster makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.trace.events import AdminReturn, ConfigChange, LogHw, PartChange, Stamped
from chaos.scenario.loader import load_file, load_value
from chaos.scenario.resolve import resolve
from orchestrator.report.headline import headlines
from orchestrator.sim_run import SimRun, run_in_sim
from tests.scenario.test_library_in_sim import play

SCENARIOS = Path(__file__).parent / "operator"


def trace_of(name: str) -> list[Stamped]:
    """The trace of one of the scenarios here."""
    return play(resolve(load_file(SCENARIOS / f"{name}.yaml"))).result.trace


def results(trace: list[Stamped]) -> list[Any]:
    """What the operator was told, operation by operation."""
    told = [event.body for event in trace if isinstance(event.body, AdminReturn)]
    assert {body.outcome for body in told} == {"ok"}
    return [body.results for body in told]


def test_preferred_leaders_are_elected_when_the_operator_asks() -> None:
    """Shows that the partition that had moved comes back, and that one that had not is told of as not needed."""
    trace = trace_of("elect-preferred")
    assert results(trace) == [{"orders-0": "NONE", "orders-1": "ELECTION_NOT_NEEDED"}]
    asked = [event.body for event in trace if isinstance(event.body, PartChange) and event.body.asked]
    assert [(body.tp, body.leader, body.cause) for body in asked] == [("orders-0", 1, "preferred")]


def test_an_unclean_election_concerns_what_the_operator_names() -> None:
    """Shows that one partition goes on at once, without what its leader alone had, while the other waits for that
    leader, which is elected although it may have lost records: nobody else is eligible either."""
    trace = trace_of("elect-unclean")
    assert results(trace) == [{"orders-0": "NONE"}]
    changes = [event.body for event in trace if isinstance(event.body, PartChange)]
    unclean = [(body.tp, body.leader, body.isr, body.asked) for body in changes if body.cause == "unclean"]
    assert unclean == [("orders-0", 2, [2], True), ("payments-0", 1, [1], False)]
    assert {body.leader for body in changes if body.tp == "payments-0"} == {1, -1}


def test_a_new_least_isr_counts_at_once() -> None:
    """Shows that the high watermark stands while the ISR is too small, moves when the operator lowers the least ISR,
    and stands again when a value of the whole cluster takes the topic's place."""
    trace = trace_of("configure")
    assert results(trace) == [
        {"topic/orders": "NONE"},
        {"topic/orders": "NONE"},
        {"broker/": "NONE"},
        {"broker/1": "NONE", "broker/2": "NONE", "broker/3": "NONE"},
    ]
    marks = [(event.wall, event.body) for event in trace if isinstance(event.body, LogHw) and event.tp == "orders-0"]
    moved = [wall for wall, body in marks if body.role == "leader"]
    set_at = [event.wall for event in trace if isinstance(event.body, ConfigChange) and event.wall > moved[0]]
    lowered, deleted, raised = set_at[:3]
    changes = [(event.wall, len(event.body.isr)) for event in trace if isinstance(event.body, PartChange)]
    alone = next(wall for wall, size in changes if size == 1)
    together = next(wall for wall, size in changes if size > 1 and wall > raised)
    heard = 200_000
    assert not [wall for wall in moved if alone + heard < wall < lowered]
    assert [wall for wall in moved if lowered + heard < wall < deleted]
    assert [wall for wall in moved if deleted + heard < wall < raised]
    assert not [wall for wall in moved if raised + heard < wall < together]
    assert [wall for wall in moved if wall > together]


def test_the_quorum_is_described_as_its_leader_sees_it() -> None:
    """Shows that a voter which does not fetch is told of with the end that it had."""
    (told,) = results(trace_of("describe-quorum"))
    ends = told["voters"]
    leader = str(told["leader"])
    assert leader != "103"
    assert ends["103"] < ends[leader]
    assert ends["101"] + ends["102"] > 2 * ends["103"]


def judged(name: str) -> SimRun:
    """A run of one of the scenarios here, with its verdict."""
    return run_in_sim(resolve(load_file(SCENARIOS / f"{name}.yaml")))


def test_what_an_allowed_election_lost_is_told() -> None:
    """Shows that nobody says that all held where an unclean election gave up acknowledged records: their number is in
    the headline, the story has the election and the truncation, and C1 is excused, by record."""
    run = judged("elect-unclean-acks-all")
    verdict = run.verdict
    assert (run.exit_code, verdict.unexpected, verdict.undecided) == (0, [], [])
    lost = next(each for each in verdict.invariants if each.id == "C1")
    assert (lost.status, lost.excused) == ("excused", {"unclean-election": 175})
    assert lost.tested > 175
    assert headlines(verdict)[0].startswith("LOST: 175 records of orders-0 acknowledged with acks=all")
    story = [moment.text for moment in verdict.story]
    assert len(story) <= 20
    asked, elected, cut = (
        next(number for number, text in enumerate(story) if each in text)
        for each in (
            "an operator asks for an unclean election of orders-0",
            "UNCLEAN election",
            "truncates 175 records",
        )
    )
    assert asked < elected < cut
    assert "that an operator asked for" in story[elected]


def test_what_had_no_effect_is_told() -> None:
    """Shows the request that changed nothing, and the end that was never seen; the answers are as expected."""
    verdict = judged("elect-unclean-acks-all").verdict
    until, request = verdict.remarks
    assert until.startswith("f2 (crash) lasted to the end of the chaos: its end (when seen: leader-elected(")
    assert request.endswith("unclean election of orders-0 had no effect: orders-0 ELECTION_NOT_NEEDED")
    assert list(verdict.asked.values()) == [True, True]


def test_an_answer_that_nobody_got_is_unexpected() -> None:
    """Shows that expect: {asked: ...} is no wish: the run ends with 1 where the answer was another one."""
    document = dict(resolve(load_file(SCENARIOS / "elect-unclean-acks-all.yaml")).document)
    document["expect"] = {
        "asked": [{"call": "elect-leaders", "tp": "orders-0", "answer": "ELIGIBLE_LEADERS_NOT_AVAILABLE"}]
    }
    run = run_in_sim(resolve(load_value(document)))
    assert run.exit_code == 1
    (wrong,) = run.verdict.unexpected
    assert wrong.startswith("no operator was answered so: asked(call=elect-leaders, tp=orders-0, answer=ELIGIBLE_")


def test_an_operators_unclean_election_is_told_from_the_controllers() -> None:
    """Shows that who decided can be named: that of the operator is not seen as one by the controller."""
    document = dict(resolve(load_file(SCENARIOS / "elect-unclean-acks-all.yaml")).document)
    document["must-happen"] = [{"unclean-election": {"tp": "orders-0", "by": by}} for by in ("operator", "controller")]
    run = run_in_sim(resolve(load_value(document)))
    assert run.verdict.must_happen == {
        "unclean-election(tp=orders-0, by=operator)": True,
        "unclean-election(tp=orders-0, by=controller)": False,
    }
