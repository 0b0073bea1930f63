"""What people read: one verdict, many side by side, on wide, narrow and no terminals."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from orchestrator.invariants.folds.conclusion import KEPT, KeyResult, count
from orchestrator.invariants.folds.fold import Finding
from orchestrator.report.console import Page
from orchestrator.report.text import one_line, print_contrast, print_verdict
from orchestrator.verdict import Expected, InvariantVerdict, Verdict, Violation

TOLD = (
    "list-offsets-2 was told 291 as the latest offset of orders-0 by broker-2 (leader epoch 1) after broker-1 "
    "(leader epoch 0) had told list-offsets-1 301"
)
OFF = Verdict(
    run="r1",
    scenario="kip-207",
    variant="off",
    about="Offsets go [backwards].",
    runtime="sim",
    seed=7,
    outcome="violated",
    expected=True,
    expects=Expected(["H1"], may=["H6"]),
    must_happen={"lagging-leader": True, "offset-not-available": False},
    digest="d1",
    invariants=[
        InvariantVerdict("P1", "One leader per leader epoch", "held", 2),
        InvariantVerdict(
            "H1",
            "The latest offset never goes back",
            "violated",
            1275,
            excused={"stale-leader": 3},
            violated=308,
            violations=[
                Violation("orders-0", TOLD, ["list-offsets-1/0/479", "list-offsets-2/0/738"], ["broker-1/0/595"], 164),
                Violation("orders-0", "list-offsets-1 was told less", ["list-offsets-1/0/751"], [], 1),
            ],
        ),
        InvariantVerdict("H2", "A new leader refuses", "vacuous", 0, "kip-207 is off"),
    ],
    events=11375,
    rpcs=2362,
    duration=18.0,
)
ON = msgspec.structs.replace(
    OFF,
    variant="seed",
    outcome="held",
    invariants=[
        OFF.invariants[0],
        InvariantVerdict("H1", "The latest offset never goes back", "held", 943),
        InvariantVerdict("H2", "A new leader refuses", "held", 10),
    ],
)


def test_a_verdict_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows every part: evidence once per sentence with a count, the rest counted, what the statuses mean, what was
    expected. Brackets of a scenario are no markup."""
    print_verdict(Page(), OFF)
    assert capsys.readouterr().out.splitlines() == [
        "kip-207 (off), sim, seed 7: Offsets go [backwards].",
        "",
        "H1 was violated 308 times (tested 1,275 times): The latest offset never goes back",
        f"  {TOLD}",
        "      164 times, first in the events list-offsets-1/0/479, list-offsets-2/0/738; caused by broker-1/0/595",
        "  list-offsets-1 was told less",
        "      once in the events list-offsets-1/0/751",
        "  and 143 times with other words or numbers (verdict.json has some of them)",
        "",
        "promise  status    tested  what is promised",
        "H1       violated   1,275  The latest offset never goes back (excused 3 times: stale-leader)",
        "P1       held           2  One leader per leader epoch",
        "H2       vacuous        0  A new leader refuses (kip-207 is off)",
        "",
        "violated      broken, with proof",
        "held          put to the test that often, never broken",
        "vacuous       nothing in this run tested it, so nothing is known",
        "",
        "recorded    11,375 events, 2,362 RPCs in 18.0 s of virtual time",
        "trace       d1",
        "expected    H1 violated; H6 may be violated",
        "must happen lagging-leader, offset-not-available (NEVER SEEN)",
        "outcome     violated, as expected",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_it_fits_the_terminal(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that evidence and tables are laid out for the width, and that no word is lost in it."""
    print_verdict(Page(width=width), OFF)
    print_contrast(Page(width=width), [OFF, ON])
    printed = capsys.readouterr().out
    told = printed.split("times):", 1)[1]
    for word in TOLD.replace("-", " ").split():
        assert word in told, word
    laid_out = [line for line in printed.splitlines() if line.startswith(("  ", "H1", "P1", "H2", "promise"))]
    assert all(cell_len(line) <= width for line in laid_out), laid_out


def test_runs_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that what differs is in the table, a column for each variant, and what is alike everywhere below it."""
    print_contrast(Page(), [OFF, ON])
    assert capsys.readouterr().out.splitlines() == [
        "promise       off, 1 run             seed, 1 run",
        "H1            violated (308 times)   held (943 tests)",
        "H2            vacuous                held (10 tests)",
        "as expected   yes                    yes",
        "held in every run: P1",
    ]


def test_many_runs_of_a_variant(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows how many runs came out how, and the least number of tests, so that no average hides a vacuous run."""
    odd = msgspec.structs.replace(ON, expected=False, invariants=[*ON.invariants[:1], *OFF.invariants[1:]])
    print_contrast(Page(), [ON, ON, odd])
    assert capsys.readouterr().out.splitlines() == [
        "promise       seed, 3 runs",
        "H1            violated 1 of 3, held 2 of 3; 943+ tests each",
        "H2            held 2 of 3, vacuous 1 of 3; 0+ tests each",
        "as expected   2 of 3",
        "held in every run: P1",
    ]


def test_a_run_as_a_line() -> None:
    """Shows a run among many, with the reason if it did not go as expected."""
    assert one_line(OFF) == "ok kip-207 (off), sim, seed 7: violated H1, held 1 of 3, 11,375 events"
    failed = msgspec.structs.replace(OFF, expected=False, unexpected=["H1 was violated: x"], undecided=["y"])
    assert one_line(failed).startswith("!! ")
    assert one_line(failed).endswith("; H1 was violated: x; y")


def test_a_text_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """Shows that control characters of a file somebody made are shown, not obeyed."""
    Page().say("a\x1b[2Jb\nc")
    assert capsys.readouterr().out == "a\\x1b[2Jb\nc\n"


def test_a_sentence_is_kept_once() -> None:
    """Shows that of many findings those that differ are kept, each with its number, and all are counted."""
    result = KeyResult("H1", "orders-0")
    for number in range(5 * KEPT):
        count(result, Finding("H1", "orders-0", "violated", f"told {number % 3}", [f"e{number}"]))
    assert [(each.sentence, each.events, each.times) for each in result.findings] == [
        ("told 0", ["e0"], 17),
        ("told 1", ["e1"], 17),
        ("told 2", ["e2"], 16),
    ]
    for number in range(5 * KEPT):
        count(result, Finding("H1", "orders-0", "violated", f"told {number + 3}", []))
        count(result, Finding("H1", "orders-0", "excused", "told 0", [], rule="stale-leader"))
    assert result.counts == {"violated": 10 * KEPT, "excused/stale-leader": 5 * KEPT}
    assert len(result.findings) == KEPT + 1
