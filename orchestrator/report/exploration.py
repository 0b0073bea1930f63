"""What an exploration came to, as text and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from chaos.words import some
from orchestrator.exploration.models import SUBJECTS, Model
from orchestrator.exploration.search import Found
from orchestrator.invariants.folds.fold import Finding
from orchestrator.report.console import Page


class Explored(msgspec.Struct, frozen=True):
    """``story``: of the shortest path to what was broken. ``findings``: what the invariants say of it. ``missing``:
    what the model must see, and did not. ``outcome``: held, violated, inconclusive or interrupted.
    ``shown``: the way to ``show``, which was asked for."""

    model: Model
    found: Found
    outcome: str
    missing: list[str]
    opening: list[str]
    story: list[str]
    findings: list[Finding]
    show: str = ""
    shown: list[str] = []


def bounds(model: Model) -> str:
    """What a model is bounded by, in words."""
    names = SUBJECTS[model.subject].budgets
    ways = [
        " and ".join(
            f"{count} {several if count > 1 else one}"
            for count, (several, one) in zip(caps, names, strict=True)
            if count
        )
        or "nothing of that"
        for caps in model.budgets
    ]
    epochs = f"up to epoch {model.epochs}, " if model.epochs else ""
    return f"{epochs}with at most {', or '.join(ways)}"


def print_exploration(page: Page, explored: Explored) -> None:
    """The text of the command."""
    found, model = explored.found, explored.model
    page.say(f"{model.name}: {model.about[0].lower()}{model.about[1:].rstrip('.')}; {bounds(model)}")
    whole = "all there are" if found.exhausted else f"all within {some(found.depth, 'move')} and some more"
    subject = SUBJECTS[model.subject]
    rate = found.states / max(found.seconds, 0.001)
    page.say(
        f"{found.states:,} distinct states ({whole}), {found.transitions:,} transitions, "
        f"{some(found.node_steps, 'step')} of a {subject.node}, {found.seconds:.1f} s, {rate:,.0f} states/s"
    )
    page.say("reached, with the number of new states and the moves to the first:")
    for mark, (times, depth) in sorted(found.reached.items(), key=lambda item: (item[1][1], item[0])):
        page.say(f"  {mark:32} {times:>9,} {depth:>4}")
    if explored.shown:
        page.say(f"the shortest way to {explored.show}, {subject.begins}:")
        _print_story(page, explored.shown)
    if found.broken is not None:
        _print_broken(page, explored)
    elif explored.outcome == "interrupted":
        page.say("interrupted; nothing is broken in what was seen")
    elif explored.missing:
        page.say(f"inconclusive: never seen: {', '.join(explored.missing)}")
    else:
        page.say("nothing is broken")


def _print_broken(page: Page, explored: Explored) -> None:
    broken = explored.found.broken
    assert broken is not None
    subject = SUBJECTS[explored.model.subject]
    page.say(f"broken: {broken.promise} ({subject.promises[broken.promise]}): {broken.sentence}")
    if explored.opening:
        page.say(f"the shortest way, after {some(len(explored.opening), 'move')} {subject.opening}:")
    else:
        page.say(f"the shortest way, {subject.begins}:")
    _print_story(page, explored.story)
    for finding in explored.findings:
        page.say(f"  {finding.invariant} of its trace: {finding.sentence}")


def _print_story(page: Page, story: list[str]) -> None:
    for number, line in enumerate(story, 1):
        page.say(f"  {number:>2}. {line}")


def exploration_json(explored: Explored) -> str:
    """One object."""
    found, model = explored.found, explored.model
    value: dict[str, Any] = {
        "schema": "krift/exploration/v1",
        "model": model.name,
        "outcome": explored.outcome,
        "features": model.specs[0].features,
        "defects": model.specs[0].defects,
        "epochs": model.epochs,
        "budgets": [
            {several: count for count, (several, _) in zip(caps, SUBJECTS[model.subject].budgets, strict=True)}
            for caps in model.budgets
        ],
        "reduced": model.reduced,
        "looking": model.looking,
        "states": found.states,
        "exhausted": found.exhausted,
        "transitions": found.transitions,
        "depth": found.depth,
        "node_steps": found.node_steps,
        "seconds": round(found.seconds, 1),
        "reached": {mark: {"states": times, "depth": depth} for mark, (times, depth) in found.reached.items()},
        "missing": explored.missing,
        "shown": explored.shown,
        "broken": None,
    }
    if found.broken is not None:
        value["broken"] = {
            "promise": found.broken.promise,
            "invariant": SUBJECTS[model.subject].promises[found.broken.promise],
            "sentence": found.broken.sentence,
            "opening": explored.opening,
            "story": explored.story,
            "findings": [msgspec.to_builtins(finding) for finding in explored.findings],
        }
    return msgspec.json.encode(value).decode() + "\n"
