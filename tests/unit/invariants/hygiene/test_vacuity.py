"""X9: what no run of many has tested."""

from __future__ import annotations

import pytest

from orchestrator.invariants.hygiene.vacuity import NothingVacuous, Tested
from orchestrator.invariants.registry import INVARIANTS, OVER_RUNS


@pytest.mark.parametrize(
    ("tests", "status", "named"),
    [
        (Tested(tested=7, runs=3, vacuous=2), "held", []),
        (Tested(tested=0, runs=3, vacuous=3), "violated", ["P9"]),
        (Tested(tested=0, runs=3, vacuous=3, off=2), "violated", ["P9"]),
        (Tested(tested=0, runs=3, vacuous=3, off=3), "vacuous", []),
        (Tested(tested=0, runs=3, vacuous=2), "held", []),
        (Tested(tested=1, runs=3, vacuous=3), "held", []),
        (Tested(), "vacuous", []),
        (Tested(tested=0, runs=3, vacuous=3, untested=True), "held", []),
    ],
    ids=[
        "tested in one",
        "in none",
        "off in some",
        "off in all",
        "seen otherwise",
        "by repetition",
        "no run",
        "as said",
    ],
)
def test_nothing_is_vacuous_in_all_runs(tests: Tested, status: str, named: list[str]) -> None:
    """Shows what violates X9: an invariant that not one run tested, unless what it rests on was off in all of them, or
    it was not to be tested."""
    result = NothingVacuous().judge({"P9": tests})
    assert (result.status, [each.key for each in result.violations]) == (status, named)
    if named:
        assert result.violations[0].sentence == "P9 was vacuous in all of 3 runs: nothing tested it"


def test_a_file_must_be_right() -> None:
    """Shows that X9 is violated, too, by what a file says that no run of it tests, and some did, whether other
    runs are to test it or not."""
    for untested in (False, True):
        result = NothingVacuous().judge({"P9": Tested(4, 3, 1, untested=untested, belied={"mine": 2})})
        assert [each.sentence for each in result.violations] == [
            "P9 was tested by 2 of the runs of mine, whose file says that none tests it"
        ]
        assert result.status == "violated"


def test_it_is_no_promise_of_a_run() -> None:
    """Shows that X9 is not among what is checked over a trace, so that no scenario can demand it."""
    assert [each.id for each in OVER_RUNS] == ["X9"]
    assert "X9" not in INVARIANTS
