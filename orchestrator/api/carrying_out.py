"""Carries a scenario out in the sim, for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.trace.events import Stamped
from chaos.errors import InputError, Mistake
from chaos.plan import Plan
from chaos.scenario.resolve import resolve
from chaos.sources import find
from orchestrator.api.runs import Run, of_directory
from orchestrator.api.scenarios import Scenario
from orchestrator.run_dir import RunDir, check_root, utc_now
from orchestrator.runner import Session, Settings, explained, reproduce_command
from orchestrator.sim_run import run_in_sim
from orchestrator.trace.read import events_table

INTERRUPTED = "interrupted"
NOTHING: Mapping[str, Any] = {}


def run(
    scenario: str | Path | Scenario,
    *,
    variant: str = "",
    seed: int | None = None,
    settings: Mapping[str, Any] = NOTHING,
    defects: Sequence[str] = (),
    out: str | Path | None = None,
) -> Run:
    """Carry out one run in the sim, in this process, and judge it; a run of a few virtual seconds takes about one.

    ``scenario``: a file, a name of the library, or one that was built; of a nemesis ``seed`` is needed. ``variant``:
    needed where the scenario has variants, as each is a run of its own. ``seed``: the scenario's own if None.
    ``settings``: as ``--set`` of ``krift run``, {"features.kip-207": "off"}. ``defects``: bugs to plant. ``out``: keep
    the run in a new directory there, as ``krift run`` does; if None, it is in memory alone.

    The same arguments give the same trace. Raises InputError before anything is run, RunError if the run cannot be
    kept, KeyboardInterrupt after a Ctrl-C.
    """
    plan, again = _planned(
        scenario, variant, seed, [f"{key}={_as_option(value)}" for key, value in settings.items()], defects
    )
    return _in_memory(plan, again) if out is None else _kept(plan, again, Path(out))


def _planned(
    scenario: str | Path | Scenario, variant: str, seed: int | None, settings: Sequence[str], defects: Sequence[str]
) -> tuple[Plan, str]:
    """The plan of the run, and the command that does it again, "" where no command can."""
    if isinstance(scenario, Scenario):
        _check_variant(scenario.name, scenario.variants, variant)
        plan, word = scenario.plan(variant, seed, settings, defects), scenario.word
    else:
        source, word = find(str(scenario)), str(scenario)
        _check_variant(source.name, source.variants, variant)
        plan = resolve(source.loaded(seed), variant, seed, settings, defects)
    return plan, reproduce_command(word, plan, "sim", tuple(settings), tuple(defects)) if word else ""


def _as_option(value: Any) -> str:
    """A value as a command line has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_variant(name: str, variants: Sequence[str], given: str) -> None:
    """Raises InputError where variants are there to choose from and none is chosen."""
    if variants and not given:
        known = ", ".join(variants)
        raise InputError([Mistake(name, 0, "", "it has variants, each a run of its own", f"variant=, one of {known}")])


def _in_memory(plan: Plan, again: str) -> Run:
    events: list[Stamped] = []
    started = utc_now()
    done = run_in_sim(plan, [events.append])
    if done.status == INTERRUPTED:
        raise KeyboardInterrupt
    zero_us = done.zero_us if done.zero_us >= 0 else None
    verdict = explained(done.verdict, lambda: events, zero_us)
    return Run(
        verdict, lambda: events_table(events), status=done.status, detail=done.detail, again=again, started=started
    )


def _kept(plan: Plan, again: str, out: Path) -> Run:
    check_root(out)
    with Session(Settings("sim", out)) as session:
        done = session.carry_out(plan, again)
    if done.interrupted:
        raise KeyboardInterrupt
    assert done.directory is not None, "all are kept"
    directory = RunDir(done.directory)
    return of_directory(directory, directory.read_manifest())
