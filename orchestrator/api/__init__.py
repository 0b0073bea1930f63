"""Krift for programs: load a run, carry one out in the sim, build a scenario; events come as DataFrames.

Programs write ``import krift``, whose names are those of ``__all__`` here: ``hatch_build.py`` makes that package of
this list (docs/decisions/0014-import-krift.md). What is not named there may change with any version.
"""

from __future__ import annotations

from chaos.errors import InputError, KriftError, Mistake, RunError
from orchestrator.api.carrying_out import run
from orchestrator.api.cases import Case, cases
from orchestrator.api.runs import Run, load
from orchestrator.api.scenarios import Scenario
from orchestrator.story.moments import Moment, Step
from orchestrator.verdict import Expected, InvariantVerdict, Verdict, Violation
from orchestrator.version import __version__

__all__ = [
    "Case",
    "Expected",
    "InputError",
    "InvariantVerdict",
    "KriftError",
    "Mistake",
    "Moment",
    "Run",
    "RunError",
    "Scenario",
    "Step",
    "Verdict",
    "Violation",
    "__version__",
    "cases",
    "load",
    "run",
]
