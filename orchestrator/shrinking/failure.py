"""What a run failed with, and whether another one fails the same way."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from orchestrator.campaigns.signature import shape
from orchestrator.sim_run import SimRun
from orchestrator.verdict import NOT_CARRIED_OUT, InvariantVerdict

Sameness = Literal["sentence", "invariant"]

_LISTS = re.compile(r"(\S+#\S*?)((,| and|,? or) \1)+")
"""The same several times, such as "broker-#, broker-# and broker-#": in a smaller cluster there are fewer of them."""


class Failure(msgspec.Struct, frozen=True):
    """How a run failed. invariant: that was violated, "" if the run could not be carried out. shape: of the sentence
    that says so, without numbers and names, however many; "" if any sentence of the invariant will do. sentence: in
    full."""

    invariant: str
    shape: str
    sentence: str

    def is_shown_by(self, run: SimRun) -> bool:
        """Whether a run fails the same way: the same invariant is violated and, as long as the shape matters, in the
        same words but for numbers and names. What else is violated, and what the scenario expects, does not matter."""
        if not self.invariant:
            return run.exit_code == NOT_CARRIED_OUT and _shape(f"{run.status}: {run.detail}") == self.shape
        found = _of(run, self.invariant)
        if found is None or found.status != "violated":
            return False
        return not self.shape or any(_shape(each.sentence) == self.shape for each in found.violations)


def failure_in(run: SimRun, same: Sameness = "sentence") -> Failure | None:
    """The violation that came first in a run, one that its scenario does not expect before one that it does; or why it
    could not be carried out; None if it did not fail."""
    if run.exit_code == NOT_CARRIED_OUT:
        return Failure("", _shape(f"{run.status}: {run.detail}"), f"{run.status}: {run.detail}")
    violated = [each for each in run.verdict.invariants if each.status == "violated"]
    if not violated:
        return None
    first = min(violated, key=lambda each: (each.weight != "unexpected", run.first.get(each.id, run.end_us)))
    sentence = first.worst.sentence
    return Failure(first.id, _shape(sentence) if same == "sentence" else "", sentence)


def _of(run: SimRun, invariant: str) -> InvariantVerdict | None:
    return next((each for each in run.verdict.invariants if each.id == invariant), None)


def _shape(sentence: str) -> str:
    return _LISTS.sub(r"\1", shape(sentence))
