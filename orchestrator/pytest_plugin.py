"""The pytest plugin: a team keeps what it has met as tests (docs/programs.md).

::

    def test_no_offset_goes_back(krift_run):
        krift_run("incidents/offsets.yaml", seed=7)

pytest loads this module in every project that has Krift installed: nothing of Krift is imported before a test asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from orchestrator.api import Case, Run, Scenario

OPTION = "--krift-out"


class KriftRun(Protocol):
    """What the fixture ``krift_run`` is."""

    def __call__(
        self,
        scenario: str | Path | Scenario | Case,
        *,
        variant: str = "",
        seed: int | None = None,
        settings: Mapping[str, Any] = ...,
        defects: Sequence[str] = (),
    ) -> Run:
        """Carry a scenario out in the sim, as ``krift.run`` does; the test fails, with the run's story, if what came of
        it is not what the scenario expects. Of a ``Case`` the variant is known."""
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("krift").addoption(
        OPTION, metavar="DIR", help="keep the runs of krift_run in DIR, with their traces, as krift run does"
    )


@pytest.fixture
def krift_run(request: pytest.FixtureRequest) -> KriftRun:
    """Carries out a scenario in the sim; the test fails, with the run's story, if what came of it is not what the
    scenario expects."""
    from orchestrator.api import Case, run

    out = request.config.getoption(OPTION)

    def carry_out(
        scenario: str | Path | Scenario | Case,
        *,
        variant: str = "",
        seed: int | None = None,
        settings: Mapping[str, Any] | None = None,
        defects: Sequence[str] = (),
    ) -> Run:
        __tracebackhide__ = True
        if isinstance(scenario, Case):
            variant = variant or scenario.variant
        word = scenario.scenario if isinstance(scenario, Case) else scenario
        done = run(word, variant=variant, seed=seed, settings=settings or {}, defects=defects, out=out)
        if not done.as_expected:
            pytest.fail(_why(done), pytrace=False)
        return done

    return carry_out


def _why(done: Run) -> str:
    """The story of a run that did not go as expected, and how to do it again."""
    lines = [done.report()]
    if done.detail:
        lines.append(f"status      {done.status}: {done.detail}\n")
    if done.again:
        lines.append(f"again       {done.again}\n")
    if done.directory is not None:
        lines.append(f"kept in     {done.directory}\n")
    return "".join(lines)
