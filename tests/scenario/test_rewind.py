"""A consumer that asks ``offsetsForTimes`` and seeks (``workload: {consumer: {rewind: ...}}``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.trace.events import ConsPos, ListReturn, PollReturn
from chaos.scenario.resolve import resolve
from chaos.sources import find
from tests.scenario.test_library_in_sim import assert_expected, play

REWIND = Path(__file__).parent.parent / "parity/scenarios/rewind.yaml"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_consumer_goes_back_by_time_and_reads_again(seed: int) -> None:
    """Shows that positions move back to where the answers to timestamps say, that what was read is read once more, and
    that every promise to consumers holds all the same while a leader is away."""
    plan = resolve(find(str(REWIND)).loaded(seed), seed=seed)
    played = play(plan)
    assert_expected(plan, played)
    bodies = [event.body for event in played.result.trace]
    told = [body.offset for body in bodies if isinstance(body, ListReturn) and body.timestamp > 0]
    moves = [body for body in bodies if isinstance(body, ConsPos)]
    sought = [move for move in moves if move.reason == "seek"]
    assert sought and {move.new for move in sought} <= set(told)
    assert all(move.epoch == -1 for move in moves), "no position that was not read up to has an epoch"
    assert any(move.new < move.old for move in sought)
    offsets = [record.offset for body in bodies if isinstance(body, PollReturn) for record in body.records]
    assert len(offsets) > len(set(offsets)), "something was read twice"
