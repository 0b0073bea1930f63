"""A path as people read it, and as the trace that its voters would have left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from actors.node.errors import KafkaError
from actors.node.messages import AnyRequest, AnyResponse, api_of
from actors.node.spec import METADATA_PARTITION
from actors.trace.events import AnyTraceEvent, NodeDown, NodeUp, Stamped
from actors.trace.stamper import Stamper
from krift.v1.fetch import FetchRequest, FetchResponse
from krift.v1.quorum import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.exploration.cluster import QUORUM_STATE_SYNCED, Cluster, Exchange
from orchestrator.exploration.place import Facts, Input
from orchestrator.exploration.search import Step
from orchestrator.invariants.folds.fold import Finding, Profile
from orchestrator.invariants.registry import INVARIANTS

QUORUM_FAMILY = "Q"
STEP_US = 1_000

# ---- as people read it -------------------------------------------------------------------------------------


def tell(cluster: Cluster, path: Sequence[Step]) -> list[str]:
    """A line for each move of a path: what happened, and what came of it."""
    return [f"{_what(cluster, step)}{_came_of_it(cluster, step)}" for step in path]


def _what(cluster: Cluster, step: Step) -> str:
    voter, event = step.move.steps[0] if step.move.steps else (-1, ("",))
    name = cluster.names[voter]
    about = step.move.about[0] if step.move.about else None
    match step.move.kind:
        case "timer":
            return f"{name}: its timer {event[1]} runs out"
        case "synced":
            return f"{name}: {event[1]} is synced"
        case "append":
            return f"{name}: appends a record"
        case "restart":
            survived = ", ".join(f"{writes} unsynced writes of {file}" for file, writes in event[1:] if writes)
            return f"{name} crashes and comes back with what was synced" + (f" and {survived}" if survived else "")
    messages = cluster.places.messages.all
    if isinstance(about, Exchange):
        caller, callee, message = cluster.names[about.caller], cluster.names[about.callee], messages[about.message]
        if step.move.kind == "response":
            return f"{callee}'s answer reaches {caller}: {_said(message)}"
        late = ", which has given it up" if step.move.kind == "orphan" else ""
        return f"{_asked(message)} of {caller}{late} reaches {callee}"
    assert isinstance(about, tuple)
    ends = f"{cluster.names[about[0]]} to {cluster.names[about[1]]}"
    if step.move.kind == "drop":
        return f"the connection {about[2]} from {ends} breaks"
    return f"{cluster.names[about[0]]} notices that its connection {about[2]} to {cluster.names[about[1]]} is gone"


def _asked(request: AnyRequest) -> str:
    if isinstance(request, VoteRequest):
        return f"{'PreVote' if request.pre_vote else 'Vote'} (epoch {request.replica_epoch})"
    if isinstance(request, FetchRequest):
        fetch = request.topics[0].partitions[0]
        return f"Fetch (epoch {fetch.current_leader_epoch}, from {fetch.fetch_offset})"
    assert isinstance(request, BeginQuorumEpochRequest | EndQuorumEpochRequest)
    return f"{api_of(request).name} (epoch {request.leader_epoch})"


def _said(response: AnyResponse) -> str:
    if isinstance(response, FetchResponse):
        return _fetched(response)
    assert isinstance(response, VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse)
    error = KafkaError(response.error_code or response.partition_error_code)
    if error:
        return f"{error.name}, epoch {response.leader_epoch}"
    if isinstance(response, VoteResponse):
        return f"{'granted' if response.vote_granted else 'refused'}, epoch {response.leader_epoch}"
    return f"heard, epoch {response.leader_epoch}"


def _fetched(response: FetchResponse) -> str:
    data = response.responses[0].partitions[0]
    if data.error_code:
        epoch = -1 if data.current_leader is None else data.current_leader.leader_epoch
        return f"{KafkaError(data.error_code).name}, epoch {epoch}"
    if data.diverging_epoch is not None:
        return f"diverging from epoch {data.diverging_epoch.epoch}, which ends at {data.diverging_epoch.end_offset}"
    held = ", ".join(f"{batch.base_offset} of epoch {batch.partition_leader_epoch}" for batch in data.records)
    return f"{held or 'no records'}, high watermark {data.high_watermark}"


def _came_of_it(cluster: Cluster, step: Step) -> str:
    news = []
    for voter in dict.fromkeys(voter for voter, _ in step.move.steps):
        before = cluster.places.facts[step.before[voter]]
        after = cluster.places.facts[step.end.places[voter]]
        if changes := list(_changes(before, after)):
            whose = "" if voter == step.move.steps[0][0] else f"{cluster.names[voter]} "
            news.append(f"{whose}{', '.join(changes)}")
    return f" -> {'; '.join(news)}" if news else ""


def _changes(before: Facts, after: Facts) -> Iterator[str]:
    if (after.role, after.epoch) != (before.role, before.epoch):
        yield f"{after.role} in epoch {after.epoch}"
    if after.voted not in (before.voted, -1):
        yield f"votes for {after.voted}"
    if after.leading and not before.leading:
        yield "leads"
    if after.log != before.log:
        yield f"log {_log(after)}"
    if after.high_watermark != before.high_watermark:
        yield f"high watermark {after.high_watermark}"
    if after.waiting:
        yield "waits for quorum-state to be synced"


def _log(facts: Facts) -> str:
    return " ".join(f"{end - 1}@{epoch}" for end, epoch, _ in facts.log) or "empty"


# ---- as a trace --------------------------------------------------------------------------------------------


def evidence(cluster: Cluster, path: Sequence[Step]) -> list[Finding]:
    """What the invariants of the quorum say of the trace that a path leaves, which begins with the first start of the
    voters: those that are violated."""
    chosen = [name for name in INVARIANTS if name.startswith(QUORUM_FAMILY)]
    spec = cluster.places.specs[0]
    engine = InProcessEngine(chosen, Profile(voters=cluster.ids, features=spec.features, config=spec.config))
    engine.feed_all(_trace(cluster, path))
    return [
        violation
        for result in engine.results()
        if result.status == "violated"
        for violation in result.violations
        if violation.status == "violated"
    ]


def _trace(cluster: Cluster, path: Sequence[Step]) -> Iterator[Stamped]:
    stampers = [Stamper("explored", name, 0) for name in cluster.names]
    now_us = 0

    def stamp(voter: int, events: Sequence[AnyTraceEvent]) -> Iterator[Stamped]:
        nonlocal now_us
        for event in events:
            now_us += STEP_US
            yield stampers[voter].stamp(event, now_us)

    for voter in range(len(cluster.names)):
        outcome, events = cluster.places.records(voter, -1, None)[0]
        yield from stamp(voter, [_up(cluster, voter), *events])
        yield from stamp(voter, _events(cluster, voter, outcome.place, QUORUM_STATE_SYNCED, None))
    for step in path:
        place = list(step.before[: len(cluster.names)])
        for voter, event in step.move.steps:
            if event[0] == "restart":
                lost = _lost(cluster, place[voter], step.end.places[voter])
                yield from stamp(voter, [NodeDown("lossy" if lost else "crash", lost=lost)])
                stampers[voter] = Stamper(
                    "explored", cluster.names[voter], stampers[voter].incarnation + 1, stampers[voter].clock
                )
                yield from stamp(voter, [_up(cluster, voter)])
            yield from stamp(voter, _events(cluster, voter, place[voter], event, step.end.places[voter]))
            place[voter] = cluster.places.step(voter, place[voter], event)[0].place


def _events(cluster: Cluster, voter: int, place: int, event: Input, after: int | None) -> list[AnyTraceEvent]:
    """The events of one step, of the way that led to ``after``."""
    ways = cluster.places.records(voter, place, event)
    return next((events for outcome, events in ways if outcome.place == after), ways[0][1])


def _up(cluster: Cluster, voter: int) -> NodeUp:
    spec = cluster.places.specs[voter]
    return NodeUp("controller", spec.node_id, spec.directory_id, False, False)


def _lost(cluster: Cluster, before: int, after: int) -> dict[str, int]:
    had, has = cluster.places.facts[before], cluster.places.facts[after]
    return {METADATA_PARTITION: has.end} if has.end < had.end else {}
