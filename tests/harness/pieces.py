"""A growing trace, checked shard by shard in this process as the streaming engine does it in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from actors.trace.events import NodeUp, RunEnd, RunMeta, Stamped
from chaos.scenario.resolve import resolve
from chaos.sources import find
from orchestrator.engines.frontier import Arrival, pieces_of, row_of
from orchestrator.engines.shard import Shard
from orchestrator.engines.shares import Shares, Targets
from orchestrator.invariants.folds.conclusion import InvariantResult, conclude
from orchestrator.invariants.folds.fold import Kind, Profile, profile_of_run
from orchestrator.invariants.registry import folds, invariants_of
from orchestrator.sim_run import run_in_sim

SCENARIOS = Path(__file__).parents[1]


def check_in_pieces(
    batches: Sequence[Sequence[Stamped]], shards: int = 3, patience_us: int = -1
) -> list[InvariantResult]:
    """Check a trace that arrives in ``batches``: after each one every shard is put aside, and a new one goes on."""
    saved = put_aside(batches, shards, patience_us)
    results = [each for number in range(shards) for each in _loaded(number, saved[number], shards, patience_us).close()]
    metas = [event.body for batch in batches for event in batch if type(event.body) is RunMeta]
    return conclude(invariants_of(folds()), results, profile_of_run(metas[0]) if metas else Profile())


def put_aside(batches: Sequence[Sequence[Stamped]], shards: int = 3, patience_us: int = -1) -> list[bytes]:
    """What each shard knows after the last of ``batches``."""
    saved: list[bytes | None] = [None] * shards
    for batch in batches:
        routed = _routed(batch, shards)
        for number in range(shards):
            shard = _loaded(number, saved[number], shards, patience_us)
            shard.take(routed[number], [Arrival(pieces_of(map(row_of, batch)))])
            shard.advance()
            saved[number] = shard.saved()
    return [each for each in saved if each is not None]


def _loaded(number: int, saved: bytes | None, shards: int, patience_us: int) -> Shard:
    shard = Shard(number, shards, patience_us=patience_us)
    if saved is not None:
        shard.load(saved)
    return shard


def _routed(batch: Sequence[Stamped], shards: int) -> list[list[Stamped]]:
    targets = Targets(Shares(shards), None, (RunMeta, RunEnd, NodeUp))
    found: list[list[Stamped]] = [[] for _ in range(shards)]
    for event in batch:
        kind = Kind(type(event.body), event.tp, event.node, event.cause.partition("/")[0])
        for share in targets.of(kind):
            found[share].append(event)
    return found


@cache
def recorded(scenario: str, defect: str = "", seed: int = 1) -> tuple[Stamped, ...]:
    """The trace of a run of a scenario (a file under tests/, or an incident), with a defect or without."""
    events: list[Stamped] = []
    path = SCENARIOS / f"{scenario}.yaml"
    source = find(str(path) if path.exists() else scenario).loaded(seed)
    run_in_sim(resolve(source, seed=seed, defects=[defect] if defect else []), [events.append], only=[])
    return tuple(events)
