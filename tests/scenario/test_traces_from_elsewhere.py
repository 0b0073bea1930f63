"""Traces without ghost data, such as can be made of a real Kafka's logs, are judged as far as they tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import msgspec
import pytest

from actors.defects.catalogue import DEFECTS
from actors.trace.events import EVENT_TYPES, Stamped
from chaos.plan import Plan
from orchestrator.campaigns.order import SimOrder
from orchestrator.engines.in_process import InProcessEngine
from orchestrator.invariants.folds.conclusion import InvariantResult
from orchestrator.invariants.registry import INVARIANTS
from orchestrator.sim_run import run_in_sim
from orchestrator.trace.rows import decode_body
from tests.scenario.test_defects import PROOFS, plan_of

GHOSTS = ("ph", "digest")
RUNS = [("kip-207", "kafka", 6_000_001), ("everything", "", 6_000_002), ("unclean", "", 6_000_003)]
SHOW = ("isr-below-hw", "truncate-to-hw", "truncate-whole-epoch", "watermark-before-truncation", "lose-acked")
"""Defects that show where logs are compared."""


def stripped(event: Stamped) -> Stamped:
    """The event as a source tells it that knows of no ghost data: without these fields."""
    fields = msgspec.to_builtins(event.body)
    for name in GHOSTS:
        fields.pop(name, None)
    if fields["type"] == "poll.return":
        fields["records"] = [record[:3] for record in fields["records"]]
    return msgspec.structs.replace(event, body=decode_body(msgspec.json.encode(fields)))


def traced(plan: Plan, stop_at: str = "") -> list[Stamped]:
    """The trace of a run in the sim, which may end with the first violation of an invariant."""
    trace: list[Stamped] = []
    run_in_sim(plan, [trace.append], stop_at=stop_at, only=[stop_at] if stop_at else [])
    return sorted(trace, key=lambda event: event.order)


def judged(trace: Iterable[Stamped], only: Sequence[str] | None = None) -> dict[str, InvariantResult]:
    engine = InProcessEngine(only)
    engine.feed_all(trace)
    return {each.id: each for each in engine.results()}


@cache
def run(number: int) -> tuple[list[Stamped], dict[str, InvariantResult]]:
    """The trace of one of ``RUNS``, and what it says."""
    trace = traced(SimOrder(*RUNS[number]).plan())
    return trace, judged(trace)


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_who_needs_ghost_data_is_inconclusive_and_all_others_say_the_same(number: int) -> None:
    """Shows that a trace without prefix hashes and digests is judged: whoever needs them says that this source cannot
    tell, in place of that it held, and everybody else says to the word what they say with them."""
    trace, whole = run(number)
    blind = judged(map(stripped, trace))
    for name, invariant in INVARIANTS.items():
        if invariant.ghost and whole[name].tested:
            assert (blind[name].status, blind[name].violated) == ("inconclusive", 0)
            assert blind[name].why.startswith("this source cannot tell: ")
            assert blind[name].why.endswith(f" has no {invariant.ghost}")
        elif not invariant.ghost:
            assert blind[name] == whole[name]


def test_one_event_without_it_is_enough() -> None:
    """Shows that a single append without its prefix hash leaves log matching inconclusive at that log, and nothing
    else."""
    trace, whole = run(0)
    at = next(index for index, event in enumerate(trace) if event.type == "log.append" and event.tp == "orders-0")
    found = judged([*trace[:at], stripped(trace[at]), *trace[at + 1 :]])
    assert {name for name in found if found[name].status != whole[name].status} == {"P3"}
    assert [doubt.events for doubt in found["P3"].doubts] == [[trace[at].id]]


@pytest.mark.parametrize("name", SHOW)
def test_defects_that_show_without_it_are_caught_all_the_same(name: str) -> None:
    """Shows that logs are compared by what the trace tells of their batches: the same violations come out."""
    proof, meant = PROOFS[name], DEFECTS[name].caught_by
    trace = traced(plan_of(proof.scenario, proof.seeds[0], (name,)), meant)
    whole, blind = (judged(events, [meant])[meant] for events in (trace, map(stripped, trace)))
    assert (blind.status, blind) == ("violated", whole)


def test_what_seems_violated_is_no_violation_where_the_source_cannot_tell() -> None:
    """Shows that an invariant which finds something wrong, and also lacks ghost data, is inconclusive."""
    trace = traced(plan_of(PROOFS["follower-reorders-batch"].scenario, 1, ("follower-reorders-batch",)), "P3")
    assert judged(trace, ["P3"])["P3"].status == "violated"
    first = next(index for index, event in enumerate(trace) if event.type == "log.append" and event.tp == "orders-0")
    mixed = judged([*trace[:first], stripped(trace[first]), *trace[first + 1 :]], ["P3"])["P3"]
    assert (mixed.status, len(mixed.doubts)) == ("inconclusive", 1)


def test_ghost_data_is_optional_in_every_event() -> None:
    """Shows that no type of events insists on it."""
    for kind in EVENT_TYPES.values():
        fields = {each.name: each for each in msgspec.structs.fields(kind)}
        assert all(fields[name].default is None for name in GHOSTS if name in fields)
