"""What a command is to work on: a run that is there, a scenario, or a failure of the store."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from chaos.errors import InputError, Mistake
from chaos.failure_store import read_failure
from chaos.plan import Plan
from chaos.scenario.loader import load_file, load_value
from chaos.scenario.resolve import resolve
from chaos.sources import Source, file_text
from chaos.words import varied
from orchestrator.cli.asked import Mistakes, Options, find_checked
from orchestrator.run_dir import LATEST, RunDir, open_run_dir
from orchestrator.runner import reproduce_command
from orchestrator.shrinking.result import Origin

SMALL = "shrunk.yaml"
"""In a run's directory: what krift shrink made of it."""


class Subject(msgspec.Struct, frozen=True):
    """A run that can be done again. directory: of the run, if it is one that was kept. text: of the file, if it is a
    scenario file."""

    plan: Plan
    origin: Origin
    directory: RunDir | None = None
    text: str = ""


class Choice(msgspec.Struct, frozen=True):
    """The options that choose a run of a scenario."""

    variant: str = ""
    seed: int | None = None
    settings: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()

    @property
    def given(self) -> bool:
        """Whether any of them was."""
        return self != Choice()


def find_subject(what: str, runs: Path, choice: Choice) -> Subject:
    """A run's directory or its name under ``runs``, the file of a stored failure, a scenario file, or a name of the
    library. Raises InputError if it is none of them, or is wrong; UsageError for options that it does not take."""
    if what.endswith(".json") and Path(what).is_file():
        _refuse(choice, "a stored failure")
        return _stored(Path(what))
    if what == LATEST or _is_run(Path(what)) or _is_run(runs / what):
        _refuse(choice, "a run")
        return _run(open_run_dir(runs, what))
    mistakes = Mistakes()
    variants = [choice.variant] if choice.variant else []
    source = find_checked(what, Options(variants, choice.seed, [choice.settings], choice.defects), mistakes)
    try:
        mistakes.tell()
    except InputError as error:
        raise _neither(what, runs, error) from None
    assert source is not None, "there would be a mistake to tell"
    return _scenario(source, choice)


def _is_run(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _refuse(choice: Choice, what: str) -> None:
    if choice.given:
        raise click.UsageError(
            f"{what} has its variant, seed, settings and defects: options for them go with scenarios"
        )


def _run(directory: RunDir) -> Subject:
    manifest = directory.read_manifest()
    plan = resolve(load_file(directory.scenario))
    return Subject(
        plan, Origin(f"run {manifest.run}", manifest.reproduce or f"krift run {directory.scenario}"), directory
    )


def _stored(path: Path) -> Subject:
    failure = read_failure(path)
    if isinstance(failure, str):
        raise InputError([Mistake(str(path), 0, "", failure, "an entry of the failure store")])
    source = f"{failure.source or failure.document.get('name')}, met {failure.found} by krift {failure.krift}"
    return Subject(resolve(load_value(failure.document, str(path))), Origin(source, f"krift shrink {path}"))


def _scenario(source: Source, choice: Choice) -> Subject:
    if source.variants and not choice.variant:
        known = ", ".join(source.variants)
        raise click.UsageError(f"{source.word} has variants, each a run of its own: give --variant, one of {known}")
    plan = resolve(source.loaded(choice.seed), choice.variant, choice.seed, choice.settings, choice.defects)
    again = reproduce_command(source.word, plan, "sim", choice.settings, choice.defects)
    text = file_text(source.word) if source.scenario is not None and not source.variants else ""
    return Subject(plan, Origin(f"{varied(plan.scenario, plan.variant)}, seed {plan.seed}", again), text=text)


def _neither(what: str, runs: Path, error: InputError) -> InputError:
    """What was meant as the name of a run deserves more than a word on scenarios."""
    first = error.mistakes[0]
    if first.file != what or not first.problem.startswith("no such"):
        return error
    expected = f"{first.expected}, the directory of a run, or its name under {runs}/"
    nothing = msgspec.structs.replace(first, problem="no such run, scenario or nemesis", expected=expected)
    return InputError([nothing, *error.mistakes[1:]])
