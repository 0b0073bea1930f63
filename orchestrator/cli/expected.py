"""Whether what a scenario expects, and a nemesis says of itself, can be decided by this version of krift."""

from __future__ import annotations

from chaos.errors import InputError, Mistake
from chaos.nemesis.library import LoadedNemesis
from chaos.plan import Plan
from chaos.scenario.loader import Loaded
from chaos.scenario.yaml_tree import Document, Path_, dotted
from orchestrator.invariants.registry import INVARIANTS


def check_expected(loaded: Loaded, plan: Plan) -> None:
    """What must hold, or must be violated, has to be something that is checked; a run could not decide it. ``may``
    demands nothing."""
    document = loaded.document
    wrong = []
    for key in ("violated", "held", "excused"):
        for index, name in enumerate(getattr(plan.expect, key)):
            own: Path_ = ("variants", plan.variant, "expect", key, index)
            path: Path_ = own if own in document.lines else own[2:]
            if name not in INVARIANTS:
                wrong.append(_not_checked(document, path, name))
    if wrong:
        raise InputError(wrong)


def check_untested(loaded: LoadedNemesis) -> None:
    """What no run of a nemesis tests has to be something that one could test."""
    names = [name for name in loaded.nemesis.untested if name not in INVARIANTS]
    if names:
        raise InputError([_not_checked(loaded.document, ("untested", name), name) for name in names])


def _not_checked(document: Document, path: Path_, name: str) -> Mistake:
    problem = f"{name} is not checked by this version of krift"
    return Mistake(document.file, document.line(path), dotted(path), problem, f"one of {', '.join(INVARIANTS)}")
