"""Snapshots of the metadata log in whole runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.trace.events import LogStart, QApply, QSnap, Rpc, Stamped
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.sim_run import run_in_sim

REJOIN = (Path(__file__).parent / "snapshots" / "rejoin.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("seed", [1, 2])
def test_who_was_down_for_long_rejoins_by_a_snapshot(seed: int) -> None:
    """Shows a voter and a broker whose logs end before the leader's begins: each fetches a snapshot in pieces, begins
    its log at the snapshot's end, loads the state, and is handed what comes after; every promise holds."""
    events: list[Stamped] = []
    run = run_in_sim(resolve(load_text(REJOIN), seed=seed), [events.append])
    assert (run.status, run.verdict.unexpected, run.verdict.undecided) == ("completed", [], [])
    assert {each.status for each in run.verdict.invariants} <= {"held", "vacuous"}
    fetched = [event for event in events if isinstance(event.body, QSnap) and event.body.op == "fetch"]
    assert {event.node.partition("-")[0] for event in fetched if event.incarnation} == {"broker", "controller"}
    for event in (event for event in fetched if event.incarnation):
        own = [each for each in events if (each.node, each.incarnation) == (event.node, event.incarnation)]
        pieces = [each for each in own if isinstance(each.body, Rpc) and each.body.api == "FetchSnapshot"]
        assert len(pieces) > 1
        body, later = event.body, own[own.index(event) :]
        assert isinstance(body, QSnap)
        (start,) = [each.body for each in later[:2] if isinstance(each.body, LogStart)]
        assert (start.new, start.ph, start.epoch, start.reason) == (body.end, body.ph, body.epoch, "snapshot")
        assert [each.body.end for each in later if isinstance(each.body, QSnap) and each.body.op == "load"] == [
            body.end
        ]
        applied = next(each.body for each in later if isinstance(each.body, QApply))
        assert applied.start == body.end


def test_snapshots_of_one_name_stand_for_the_same() -> None:
    """Shows that whoever makes a snapshot that ends at an offset, the active controller, a standby or a broker, has the
    same prefix hash and the same digest of what it applied; and that a log begins above 0 only where one ends."""
    made: dict[tuple[int, int], set[tuple[int, int]]] = {}
    makers: set[tuple[str, bool]] = set()
    starts: dict[str, int] = {}

    def look(event: Stamped) -> None:
        body = event.body
        if isinstance(body, QSnap):
            made.setdefault((body.end, body.epoch), set()).add((body.ph, body.digest))
            if body.op == "create":
                makers.add((event.node.partition("-")[0], body.leads >= 0))
        elif isinstance(body, LogStart):
            assert body.new > starts.get(event.node, 0)
            starts[event.node] = body.new
            assert (body.new, body.epoch) in made

    run_in_sim(resolve(load_text(REJOIN), seed=3), [look])
    assert len(made) > 5
    assert all(len(contents) == 1 for contents in made.values())
    assert makers == {("broker", False), ("controller", False), ("controller", True)}
    assert len(starts) == 6
