"""Whether what a scenario expects can be decided by this version of krift."""

from __future__ import annotations

from chaos.errors import InputError, Mistake
from chaos.plan import Plan
from chaos.scenario.loader import Loaded
from chaos.scenario.yaml_tree import Path_, dotted
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
                problem = f"{name} is not checked by this version of krift"
                expected = f"one of {', '.join(INVARIANTS)}"
                wrong.append(Mistake(document.file, document.line(path), dotted(path), problem, expected))
    if wrong:
        raise InputError(wrong)
