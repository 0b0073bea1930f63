"""One run of the exam, and what it showed: a pure function, so that any machine may do it."""

from __future__ import annotations

import inspect
import time

import msgspec

from chaos.oddities.evidence import EVIDENCE
from orchestrator.campaigns.order import SimOrder
from orchestrator.invariants.folds.conclusion import is_off
from orchestrator.invariants.folds.fold import Profile, profile_of
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.repeats import repeat
from orchestrator.runner import REPEAT, repeat_result
from orchestrator.sim_run import SimRun, run_in_sim
from orchestrator.verdict import NOT_CARRIED_OUT


class Attempt(msgspec.Struct, frozen=True):
    """A run to be done. subject: the defect or the oddity that it is about, "" for a drawn schedule without a defect.
    number: which of the subject's runs it is, from 1. meant: the invariant whose violation ends the run, "" if
    none does. alone: no other one is judged."""

    subject: str
    number: int
    order: SimOrder
    meant: str = ""
    alone: bool = False

    @property
    def key(self) -> str:
        """Names the run among those of an exam."""
        return f"{self.subject}/{self.meant}{'/alone' if self.alone else ''}/{self.order.key}"


class Attempted(msgspec.Struct, frozen=True):
    """What a run showed. violated: invariant -> virtual time of its first violation that is no known finding,
    microseconds from the run's beginning. unexpected: what was violated and is not allowed in this schedule -> the
    first evidence, a sentence. undecided: why the run proves nothing, "" if it does. virtual_us: its length; wall_s:
    time that it took. asked: in a run without a defect, all that some node looked whether it has: with any other one
    the run is the very same."""

    attempt: Attempt
    violated: dict[str, int]
    unexpected: dict[str, str]
    undecided: str
    virtual_us: int
    wall_s: float
    asked: list[str] = []


class Asked(list[str]):
    """A node's defects, none, that note what is looked for in them."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.names = names

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return False


def do(attempt: Attempt) -> Attempted:
    """Carry out a run of the exam."""
    began = time.perf_counter()
    kind = EVIDENCE.get(attempt.subject)
    evidence = kind() if kind is not None else None
    observers = [evidence] if evidence is not None else []
    only = [attempt.meant] if attempt.alone else None
    plan, asked = attempt.order.plan(), set[str]()
    if not plan.defects:
        nodes = [msgspec.structs.replace(node, defects=Asked(asked)) for node in plan.nodes]
        plan = msgspec.structs.replace(plan, nodes=nodes)
    run = run_in_sim(plan, observers, stop_at=attempt.meant, only=only)
    violated = {
        each.id: run.first_unknown[each.id]
        for each in run.verdict.invariants
        if each.status == "violated" and each.id in run.first_unknown
    }
    profile = profile_of(plan.profile())
    unexpected = {
        each.id: each.worst.sentence
        for each in run.verdict.invariants
        if each.status == "violated" and each.weight == "unexpected" and _is_promised(each.id, profile)
    }
    if attempt.meant == REPEAT and (differs := _not_repeated(run)):
        violated[REPEAT], unexpected[REPEAT] = run.end_us, differs
    spent = time.perf_counter() - began
    undecided = _undecided(run)
    if not undecided and evidence is not None and not evidence.seen:
        undecided = f"never seen: {inspect.getdoc(evidence)}"
    return Attempted(attempt, violated, unexpected, undecided, run.end_us, spent, sorted(asked))


def _is_promised(invariant: str, profile: Profile) -> bool:
    """Whether anybody promises it in such a run: some defects need settings that take the ground from a promise."""
    feature = INVARIANTS[invariant].promised_by
    return not feature or not is_off(profile, feature)


def _not_repeated(run: SimRun) -> str:
    """The evidence that a run goes otherwise when it is done again, "" if it does not."""
    found = repeat_result(run.verdict.digest, repeat(run.plan).digest)
    return found.violations[0].sentence if found.violations else ""


def _undecided(run: SimRun) -> str:
    if run.exit_code == NOT_CARRIED_OUT:
        return f"{run.status}: {run.detail}"
    return run.verdict.undecided[0] if run.verdict.undecided else ""
