"""A path as people read it, and as the trace that its nodes would have left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from actors.trace.events import AnyTraceEvent, NodeDown, NodeUp, Stamped
from actors.trace.stamper import Stamper
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.exploration.cluster import Cluster, Step
from orchestrator.exploration.place import Input
from orchestrator.exploration.wire import Exchange
from orchestrator.invariants.folds.fold import Finding, Profile
from orchestrator.invariants.registry import INVARIANTS

STEP_US = 1_000


# ---- as people read it -------------------------------------------------------------------------------------


def tell(cluster: Cluster[Any, Any], path: Sequence[Step]) -> list[str]:
    """A line for each move of a path: what happened, and what came of it."""
    return [f"{_what(cluster, step)}{_came_of_it(cluster, step)}" for step in path]


def _what(cluster: Cluster[Any, Any], step: Step) -> str:
    index, event = step.move.steps[0] if step.move.steps else (-1, ("",))
    name = cluster.names[index]
    about = step.move.about[0] if step.move.about else None
    words = cluster.words
    match step.move.kind:
        case "timer":
            return f"{name}: its timer {event[1]} runs out"
        case "synced":
            return f"{name}: {event[1]} is synced"
        case "restart":
            return words.restarted(name, event)
    messages = cluster.places.messages.all
    if isinstance(about, Exchange):
        caller, callee, message = cluster.names[about.caller], cluster.names[about.callee], messages[about.message]
        if step.move.kind == "response":
            return f"{callee}'s answer reaches {caller}: {words.said(message)}"
        late = ", which has given it up" if step.move.kind == "orphan" else ""
        return f"{words.asked(message)} of {caller}{late} reaches {callee}"
    if step.move.kind not in ("drop", "failed"):
        return words.moved(step.move, name)
    assert isinstance(about, tuple)
    ends = f"{cluster.names[about[0]]} to {cluster.names[about[1]]}"
    if step.move.kind == "drop":
        return f"the connection {about[2]} from {ends} breaks"
    return f"{cluster.names[about[0]]} notices that its connection {about[2]} to {cluster.names[about[1]]} is gone"


def _came_of_it(cluster: Cluster[Any, Any], step: Step) -> str:
    news = []
    for index in dict.fromkeys(index for index, _ in step.move.steps):
        before = cluster.places.facts[step.before[index]]
        after = cluster.places.facts[step.end.places[index]]
        if changes := list(cluster.words.changes(before, after)):
            whose = "" if index == step.move.steps[0][0] else f"{cluster.names[index]} "
            news.append(f"{whose}{', '.join(changes)}")
    return f" -> {'; '.join(news)}" if news else ""


# ---- as a trace --------------------------------------------------------------------------------------------


def evidence(cluster: Cluster[Any, Any], path: Sequence[Step]) -> list[Finding]:
    """What the invariants of a family say of the trace that a path leaves, which begins with the first start of the
    nodes: those that are violated."""
    chosen = [name for name in INVARIANTS if name.startswith(cluster.family)]
    spec = cluster.places.specs[0]
    engine = InProcessEngine(chosen, Profile(voters=list(cluster.voters), features=spec.features, config=spec.config))
    engine.feed_all(_trace(cluster, path))
    return [
        violation
        for result in engine.results()
        if result.status == "violated"
        for violation in result.violations
        if violation.status == "violated"
    ]


def _trace(cluster: Cluster[Any, Any], path: Sequence[Step]) -> Iterator[Stamped]:
    stampers = {name: Stamper("explored", name, 0) for name in (*cluster.names, cluster.controller)}
    now_us, nodes = 0, range(len(cluster.names))

    def stamp(name: str, events: Sequence[AnyTraceEvent]) -> Iterator[Stamped]:
        nonlocal now_us
        for event in events:
            now_us += STEP_US
            yield stampers[name].stamp(event, now_us)

    yield from stamp(cluster.controller, cluster.published(-1, cluster.first_control))
    for index in nodes:
        outcome, events = cluster.places.records(index, -1, None)[0]
        yield from stamp(cluster.names[index], [_up(cluster, index), *events])
        place = outcome.place
        for _, event in cluster.awaited(index):
            yield from stamp(cluster.names[index], _events(cluster, index, place, event, None))
            place = cluster.places.step(index, place, event)[0].place
    for step in path:
        places = list(step.before[: len(nodes)])
        yield from stamp(cluster.controller, cluster.published(step.before[len(nodes) + 1], step.end.control))
        for index, event in step.move.steps:
            name = cluster.names[index]
            if event[0] == "restart":
                lost = cluster.lost(places[index], step.end.places[index])
                yield from stamp(name, [NodeDown("lossy" if lost else "crash", lost=lost)])
                stampers[name] = Stamper("explored", name, stampers[name].incarnation + 1, stampers[name].clock)
                yield from stamp(name, [_up(cluster, index)])
            yield from stamp(name, _events(cluster, index, places[index], event, step.end.places[index]))
            places[index] = cluster.places.step(index, places[index], event)[0].place


def _events(cluster: Cluster[Any, Any], index: int, place: int, event: Input, after: int | None) -> list[AnyTraceEvent]:
    """The events of one step, of the way that led to ``after``."""
    ways = cluster.places.records(index, place, event)
    return next((events for outcome, events in ways if outcome.place == after), ways[0][1])


def _up(cluster: Cluster[Any, Any], index: int) -> NodeUp:
    spec = cluster.places.specs[index]
    return NodeUp("broker" if spec.role == "broker" else "controller", spec.node_id, spec.directory_id, False, False)
