"""From a failing run to an incident of the library: a scenario file under a name, with the failure's story."""

from __future__ import annotations

import re

import msgspec

from chaos.errors import InputError, Mistake
from chaos.incidents.library import NAME_EXPECTED
from chaos.plan import Plan
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from chaos.scenario.scalars import NAME_PATTERN
from chaos.shrink.lean import lean
from chaos.shrink.measure import size_of
from chaos.sources import is_taken
from orchestrator.shrinking.failure import Failure, failure_in
from orchestrator.shrinking.result import Origin, Shrunk, tell
from orchestrator.sim_run import SimRun, run_in_sim

NAME_MAX = 63


class Promoted(msgspec.Struct, frozen=True):
    """An incident to be. text: of its file. doubts: why its run does not end as the file expects; none if it does."""

    name: str
    about: str
    text: str
    doubts: list[str]


def promote(plan: Plan, origin: Origin, text: str, name: str = "") -> Promoted | None:
    """An incident from a run; None if it does not fail in the sim. ``text``: the scenario file that it comes from, ""
    if there is none: one that already goes as it expects stays as it is, but for its name. Raises InputError: the name
    is not usable or taken; KeyboardInterrupt if a signal cut a run short."""
    if name:
        check_name(name)
    run = _run(plan)
    failure = failure_in(run)
    if failure is None:
        return None
    if not name:
        check_name(name := _name_of(plan, failure))
    if not text or run.exit_code != 0:
        document = {**lean(plan.document), "name": name}
        size = size_of(document)
        told = tell(
            Shrunk(failure=failure, document=document, before=size, after=size, runs=0, other_seeds=(0, 0)), origin
        )
        text = told.text
    else:
        text = _renamed(text, name)
    loaded = load_text(text, f"{name}.yaml")
    again = _run(resolve(loaded))
    why = [*again.verdict.unexpected, *again.verdict.undecided, again.detail]
    return Promoted(name, loaded.scenario.about or failure.sentence, text, why if again.exit_code else [])


def check_name(name: str) -> None:
    """Raises InputError for a name that is not legal, or means something already."""
    if re.match(NAME_PATTERN, name) is None:
        raise InputError([Mistake(f"--name {name}", 0, "", "not a legal name", NAME_EXPECTED)])
    if is_taken(name):
        problem = "there is an incident or a nemesis of that name"
        raise InputError([Mistake(f"--name {name}", 0, "", problem, "another name")])


def _name_of(plan: Plan, failure: Failure) -> str:
    kind = (failure.invariant or "broken").lower()
    return f"{plan.scenario[: NAME_MAX - len(kind) - 1]}-{kind}"


def _renamed(text: str, name: str) -> str:
    """The file with another name in it, and everything else, comments too, as it was."""
    line = load_text(text).document.lines[("name",)] - 1
    lines = text.splitlines(keepends=True)
    lines[line] = re.sub(r"^(\s*[\"']?name[\"']?\s*:\s*).*?(\r?\n?)$", rf"\g<1>{name}\g<2>", lines[line])
    return "".join(lines)


def _run(plan: Plan) -> SimRun:
    run = run_in_sim(plan)
    if run.status == "interrupted":
        raise KeyboardInterrupt
    return run
