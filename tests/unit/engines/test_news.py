"""The news of a run is compacted, and no key misses anything by it."""

from __future__ import annotations

import pytest

from actors.trace.events import CtlFault, CtlPhase, NodeDown, NodeUp, Stamped, TraceEvent
from orchestrator.engines import news
from orchestrator.engines.in_process import check
from orchestrator.engines.news import compacted
from tests.harness.pieces import check_in_pieces, recorded

RUNS = {
    "leader-crash": ("parity/scenarios/leader-crash", "list-behind"),
    "bounce": ("parity/scenarios/bounce", ""),
}


def stamped(seq: int, body: TraceEvent, node: str = "driver") -> Stamped:
    return Stamped("run", node, 0, seq, seq, 0, "", "", body)


def test_the_last_of_each_subject_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a fault that is over goes, one that lasts stays, of phases and of a node's ends the last one stays,
    and that the newest events all do."""
    monkeypatch.setattr(news, "RECENT", 2)
    over = [stamped(1, CtlFault("f1", "crash", "start", ["broker-1"], {}))]
    lasting = stamped(2, CtlFault("f2", "crash", "start", ["broker-2"], {}))
    over += [stamped(3, CtlPhase("chaos")), stamped(4, NodeDown("crash"), "broker-1")]
    over.append(stamped(5, CtlFault("f1", "crash", "stop", ["broker-1"], {})))
    phase, down = stamped(6, CtlPhase("healing")), stamped(7, NodeDown("crash"), "broker-1")
    recent = [stamped(8, CtlPhase("chaos")), stamped(9, CtlPhase("healing"))]
    events = sorted([*over, lasting, phase, down, *recent], key=lambda event: event.seq)
    assert compacted(events) == [lasting, phase, down, *recent]


def test_news_of_all_kinds_has_a_subject() -> None:
    """Shows that there is a subject for each type of events that some fold wants to hear of whatever its key."""
    from orchestrator.engines.routing import news_types

    assert news_types(None) <= set(news.SUBJECTS)
    assert NodeUp in news.SUBJECTS


@pytest.mark.parametrize("name", RUNS)
def test_results_stay_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a run whose news is compacted again and again is judged as it is without that, at once and in pieces
    with all states put aside in between."""
    events = recorded(*RUNS[name])
    expected = check(events)
    monkeypatch.setattr(news, "RECENT", 4)
    assert check(events) == expected
    pieces = [list(events[start : start + 2000]) for start in range(0, len(events), 2000)]
    assert check_in_pieces(pieces, shards=2) == expected
