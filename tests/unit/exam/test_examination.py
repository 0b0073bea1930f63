"""Which runs an exam takes, and what it makes of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from actors.defects.catalogue import DEFECTS
from actors.defects.defect import Defect
from orchestrator.campaigns.order import SimOrder
from orchestrator.exam.attempt import Attempt, Attempted, do as do_one
from orchestrator.exam.examination import ROUNDS, DefectExam, OddityExam
from orchestrator.exam.kept import FILE, Kept
from orchestrator.exam.marks import Marks
from orchestrator.exam.schedules import any_schedule
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.report.exam import conclusion, exam_json, exam_markdown
from orchestrator.sim_run import run_in_sim
from tests.unit.exam.attempts import Pretended, here, shown, small

RAISE = DEFECTS["raise"]
LIST_BEHIND = DEFECTS["list-behind"]


def sat(do: Pretended, *defects: Defect, runs: int = 60) -> DefectExam:
    exam = DefectExam(defects, small, runs)
    exam.sit(do)
    return exam


def test_two_defects_under_schedules_that_were_not_made_for_them() -> None:
    """Shows one defect that a single run kills, with how and how soon, and one that survives its small budget and is
    told by its name."""
    exam = DefectExam([LIST_BEHIND, DEFECTS["double-vote"]], small, runs=1)
    exam.sit(here)
    killed, alive = exam.marks(lambda defect: "small")
    assert (killed.killed, killed.kills, killed.runs, killed.first_run) == (True, 1, 1, 1)
    assert 0 < killed.first_us < 10_000_000
    assert killed.reproduce.endswith("--seed 1 --defect list-behind")
    assert (alive.killed, alive.kills, alive.runs, alive.reproduce) == (False, 0, 1, "")
    marks = Marks([killed, alive], [], exam.alarms, exam.clean_runs)
    assert (marks.survivors, marks.alarms, marks.passed) == (["double-vote"], [], False)
    assert f"  survivor:  double-vote, Q2 {INVARIANTS['Q2'].title}: not violated in 1 run" in conclusion(marks)


def test_a_dead_defect_is_laid_aside_and_one_alive_gets_all_its_runs() -> None:
    """Shows runs in rounds: as few as will do for the one, and 60 for the other, each of another seed."""
    do = Pretended(lambda attempt: shown(attempt, ["X3"] if attempt.subject == "raise" else []))
    killed, alive = sat(do, RAISE, LIST_BEHIND).marks(lambda defect: "")
    assert (killed.runs, killed.kills, alive.runs, alive.kills) == (ROUNDS[0], ROUNDS[0], 60, 0)
    mine = [attempt for attempt in do.asked if attempt.subject == "list-behind"]
    assert [attempt.order.seed for attempt in mine] == list(range(1, 61))
    assert {(attempt.order.defects, attempt.meant) for attempt in mine} == {(("list-behind",), "H6")}


def test_a_violation_counts_only_where_the_schedule_holds_without_the_defect() -> None:
    """Shows that a schedule which violates the invariant by itself kills nothing, and the next one does."""

    def show(attempt: Attempt) -> Attempted:
        return shown(attempt, ["X3"] if attempt.order.defects or attempt.order.seed == 1 else [])

    do = Pretended(show)
    exam = sat(do, RAISE)
    (mark,) = exam.marks(lambda defect: "")
    assert (mark.killed, mark.first_run, mark.kills, mark.runs) == (True, 2, 2, 2)
    assert [attempt.order.seed for attempt in do.asked if not attempt.order.defects] == [1, 2]
    assert exam.alarms == []


def test_what_a_setting_takes_the_ground_from_is_no_false_alarm() -> None:
    """Shows a voter that raises its epoch alone, in a schedule drawn with PreVote and run without it, as a defect asks
    for: L2 is violated, so that it kills nothing, and nobody promised it."""
    shown = do_one(Attempt("", 0, SimOrder("quorum", seed=65, settings=("features.kip-996=off",))))
    assert ("L2" in shown.violated, shown.unexpected) == (True, {})


def test_a_schedule_that_raises_an_alarm_without_a_defect_is_told() -> None:
    """Shows a false alarm with the invariant, the evidence and the command, and an exam that is not passed by it."""
    do = Pretended(lambda a: shown(a, ["X3"]) if a.order.defects else shown(a, (), ["P4"]))
    exam = sat(do, RAISE)
    marks = Marks(exam.marks(lambda defect: ""), [], exam.alarms, exam.clean_runs)
    (alarm,) = marks.alarms
    assert (alarm.where, alarm.invariant, alarm.sentence) == ("small.yaml", "P4", "it was broken")
    assert alarm.reproduce == "krift run small.yaml --runtime sim --seed 1"
    assert (marks.survivors, marks.passed, marks.clean_runs) == ([], False, 1)
    assert any("P4 in small.yaml: it was broken" in line for line in conclusion(marks))


def test_where_nothing_is_meant_for_a_defect_its_invariant_is_judged_alone() -> None:
    """Shows runs with a defect in which nothing else can be violated, and each schedule without a defect done once for
    all defects, before them, with every invariant."""

    def show(attempt: Attempt) -> Attempted:
        got = shown(attempt, [attempt.meant] if attempt.subject and attempt.order.seed == 2 else [])
        return msgspec.structs.replace(got, asked=["list-behind", "raise"])

    do = Pretended(show)
    exam = DefectExam([RAISE, LIST_BEHIND], any_schedule, runs=10, alone=True)
    exam.sit(do)
    assert [mark.first_run for mark in exam.marks(lambda _: "")] == [2, 2]
    assert {(attempt.alone, attempt.order.source) for attempt in do.asked if attempt.subject} == {(True, "everything")}
    clean = [attempt for attempt in do.asked if not attempt.subject]
    assert [(attempt.order.seed, attempt.alone) for attempt in clean] == [(1, False), (2, False)]
    alone, with_others = (Attempt("raise", 1, small(RAISE, 1), "X3", each) for each in (True, False))
    assert alone.key != with_others.key
    order = msgspec.structs.replace(small(RAISE, 1), defects=("list-behind",))
    violated = [set(do_one(Attempt("list-behind", 1, order, "X3", each)).violated) for each in (True, False)]
    assert violated[0] == set()
    assert "H6" in violated[1]


def test_a_run_in_which_nobody_looks_for_a_defect_is_not_done_again() -> None:
    """Shows that it counts as one that did not kill, and that the others are done."""

    def show(attempt: Attempt) -> Attempted:
        got = shown(attempt, [attempt.meant] if attempt.subject else [])
        return msgspec.structs.replace(got, asked=["raise"] if attempt.order.seed == 3 else [])

    do = Pretended(show)
    exam = DefectExam([RAISE, LIST_BEHIND], any_schedule, runs=5, alone=True)
    exam.sit(do)
    assert [(attempt.subject, attempt.number) for attempt in do.asked if attempt.subject] == [("raise", 3)]
    marks = {mark.name: (mark.first_run, mark.runs) for mark in exam.marks(lambda _: "")}
    assert marks == {"raise": (3, 3), "list-behind": (0, 5)}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.further)])
def test_a_run_in_which_nobody_looks_for_a_defect_is_the_same_with_it(seed: int) -> None:
    """Shows the same trace with all the defects at once for which nobody has looked, and another one with one that was
    looked for."""
    plan = any_schedule(RAISE, seed).plan()
    asked = do_one(Attempt("", 0, any_schedule(RAISE, seed))).asked
    unasked = [name for name in DEFECTS if name not in asked]
    assert len(unasked) > 20

    def digest(defects: list[str]) -> str:
        nodes = [msgspec.structs.replace(node, defects=defects) for node in plan.nodes]
        return run_in_sim(msgspec.structs.replace(plan, nodes=nodes), only=[]).verdict.digest

    without = digest([])
    assert digest(unasked) == without
    everywhere = ("epoch-reset", "hw-ignores-isr", "list-log-end", "ack-before-hw", "leader-counts-unflushed")
    assert any(digest([name]) != without for name in everywhere if name in asked)


def test_repetition_is_judged_by_two_runs_with_and_without_the_defect() -> None:
    """Shows the one defect that shows in no single run: done again, the run with it gives another trace."""
    exam = DefectExam([DEFECTS["unseeded-timers"]], small, runs=1)
    exam.sit(here)
    (mark,) = exam.marks(lambda defect: "")
    assert (mark.killed, mark.kills, exam.clean_runs, exam.alarms) == (True, 1, 1, [])


def test_an_oddity_that_does_not_occur_or_is_taken_for_wrong_is_told() -> None:
    """Shows that silence about what was not there is no pass, and that a violation is a false alarm."""

    def show(attempt: Attempt) -> Attempted:
        absent = "never seen: it" if attempt.subject == "acks-0-loss" else ""
        return shown(attempt, (), ["C1"] if attempt.subject == "acks-1-loss" else [], absent)

    exam = OddityExam(["acks-0-loss", "acks-1-loss"], seeds=2)
    exam.sit(Pretended(show))
    marks = Marks([], exam.marks(), exam.alarms)
    assert (marks.unproven, [alarm.where for alarm in marks.alarms]) == (["acks-0-loss"], ["acks-1-loss"] * 2)
    assert not marks.passed
    assert "  never:     acks-0-loss: never seen: it" in conclusion(marks)


def test_the_object_for_programs() -> None:
    """Shows the keys that are promised: numbers, and the names of survivors."""
    do = Pretended(lambda attempt: shown(attempt, ["X3"] if attempt.subject == "raise" else []))
    exam = sat(do, RAISE, LIST_BEHIND, runs=2)
    marks = Marks(exam.marks(lambda defect: "quorum"), [], exam.alarms, exam.clean_runs)
    found = msgspec.json.decode(exam_json(marks))
    assert {key: found[key] for key in ("defects", "killed", "survivors", "false_alarms")} == {
        "defects": 2,
        "killed": 1,
        "survivors": ["list-behind"],
        "false_alarms": 0,
    }
    assert found["detail"]["defects"][0]["kills"] == ROUNDS[0]
    text = exam_markdown(marks, ["krift", "exam"])
    assert f"| `raise` | X3 {INVARIANTS['X3'].title} | 1 of 1 | 1 | 1.0 s |" in text
    assert f"| `list-behind` | H6 {INVARIANTS['H6'].title} | SURVIVED 2 |" in text
    assert text.endswith("Made by `krift exam`.\n")


def test_an_exam_that_was_broken_off_goes_on(tmp_path: Path) -> None:
    """Shows that what is on disk is not done again, a torn last line is, and what other code did is thrown away."""
    do = Pretended(shown)
    sat(Kept(tmp_path, do), RAISE, runs=3)  # type: ignore[arg-type]
    assert len(do.asked) == 3
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-20])
    again = Pretended(shown)
    exam = sat(Kept(tmp_path, again), RAISE, runs=3)  # type: ignore[arg-type]
    assert (len(again.asked), exam.marks(lambda defect: "")[0].runs) == (1, 3)
    third = Kept(tmp_path, again)
    assert third.known == 3
    path.write_text("other code\n" + "\n".join(path.read_text().splitlines()[1:]))
    assert Kept(tmp_path, again).known == 0
