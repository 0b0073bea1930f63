"""The fixture ``krift_run``, in a project of its own."""

from __future__ import annotations

import pandas as pd
import pytest

import krift
from tests.unit.cli.command import SCENARIO

pytest_plugins = ["pytester"]

# Imported here: pytester forgets what is imported in its runs, and C extensions bear that only once.
assert pd.NA is not None
assert krift.run is not None

TESTS = """
import krift
import pytest

@pytest.mark.parametrize("case", krift.cases("incidents"), ids=str)
def test_incident(krift_run, case):
    run = krift_run(case)
    assert len(run.events("rpc")) == run.verdict.rpcs
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with one incident."""
    pytester.mkdir("incidents").joinpath("small.yaml").write_text(SCENARIO, encoding="utf-8")
    pytester.makepyfile(TESTS)
    return pytester


def test_a_run_as_expected_passes(project: pytest.Pytester) -> None:
    """Shows a passed test for a scenario that does what it expects, under the case's name."""
    result = project.runpytest_inprocess("-v", "-p", "no:xdist")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*::test_incident?small? PASSED*"])


def test_a_run_that_is_not_as_expected_fails_with_its_story(project: pytest.Pytester) -> None:
    """Shows the story, the violation and the command that does it again in the failure, and no traceback."""
    with (project.path / "incidents" / "small.yaml").open("a", encoding="utf-8") as file:
        file.write("defects: [consumer-mislabel]\n")
    result = project.runpytest_inprocess("-p", "no:xdist")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "small, sim, seed 3: Nothing is broken.",
            "VIOLATED with the planted defect: *",
            "what happened, in seconds since time 0, *",
            "*VIOLATED*",
            "outcome     violated: the planted defect was caught by C3, as planned",
            "again       krift run incidents/small.yaml --runtime sim --seed 3",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_an_undecided_run_fails(project: pytest.Pytester) -> None:
    """Shows that what must happen and did not fails a test, too: it showed nothing."""
    with (project.path / "incidents" / "small.yaml").open("a", encoding="utf-8") as file:
        file.write("must-happen: [offset-not-available]\n")
    result = project.runpytest_inprocess("-p", "no:xdist")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*undecided: never seen: offset-not-available*"])


def test_runs_are_kept_where_it_is_asked(project: pytest.Pytester) -> None:
    """Shows that --krift-out keeps runs with their traces."""
    project.runpytest_inprocess("-p", "no:xdist", "--krift-out", "kept").assert_outcomes(passed=1)
    assert krift.load(out=project.path / "kept").events("rpc").shape[0] > 0


def test_a_mistake_is_the_tests_error(project: pytest.Pytester) -> None:
    """Shows that a scenario with a mistake ends the collection with the mistake."""
    (project.path / "incidents" / "small.yaml").write_text(SCENARIO.replace("brokers: 1", "brokers: none"))
    result = project.runpytest_inprocess("-p", "no:xdist")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*small.yaml:9: cluster.brokers: 'none' is of the wrong type; expected a whole number*"]
    )
