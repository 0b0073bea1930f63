"""The news of a run is compacted, and no key misses anything by it."""

from __future__ import annotations

import pytest

from actors.trace.events import CtlFault, CtlPhase, NodeDown, NodeUp, PartChange, Stamped, TraceEvent
from orchestrator.engines import news
from orchestrator.engines.in_process import check
from orchestrator.engines.news import News, compacted
from orchestrator.invariants.folds.routes import GROUP, PARTITION
from orchestrator.invariants.registry import folds
from tests.harness.pieces import check_in_pieces, recorded

RUNS = {
    "leader-crash": ("parity/scenarios/leader-crash", "list-behind"),
    "bounce": ("parity/scenarios/bounce", ""),
}


def stamped(seq: int, body: TraceEvent, node: str = "driver") -> Stamped:
    return Stamped("run", node, 0, seq, seq, 0, "", "", body)


def changed(tp: str) -> PartChange:
    return PartChange(tp, 5, 1, 1, 0, 0, [1], [1], "create")


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


def test_changes_of_a_partition_do_not_concern_the_others() -> None:
    """Shows that the folds of other partitions hear nothing of a partition's change, unless it is of a topic that
    holds transactions, or copies, of all of them; groups hear of each. Else N partitions cost N times N."""
    told = News(folds())
    changes = [
        stamped(number, changed(tp))
        for number, tp in enumerate(["orders-0", "__transaction_state-0", "__remote_log_metadata-3", "__orders-0"])
    ]
    heard = [set(told.add(change)) for change in changes]
    assert [PARTITION.name in routes for routes in heard] == [False, True, True, False]
    assert all(GROUP.name in routes for routes in heard)
    assert told.of(PARTITION.name) == changes[1:3]
    assert told.of(GROUP.name) == told.all == changes


def test_an_event_that_nobody_wants_to_hear_is_not_kept() -> None:
    """Shows that neither an event that is no news stays, nor one that concerns no route: only P22 is judged, by
    partition."""
    told = News(folds(["P22"]))
    assert not told.add(stamped(1, CtlPhase("chaos")))
    assert not told.add(stamped(2, changed("orders-0")))
    assert told.add(stamped(3, changed("__remote_log_metadata-0")))
    assert len(told.all) == 1


def test_what_was_put_aside_is_heard_by_the_same_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the news of each route is the same when it is made from what was put aside, compacted or not."""
    monkeypatch.setattr(news, "RECENT", 2)
    told = News(folds())
    for number in range(8):
        told.add(stamped(number, changed(f"__transaction_state-{number % 2}")))
    for compact in (False, True):
        if compact:
            assert told.is_long
            told.compact()
            assert len(told.all) == 4
            assert not told.is_long
        again = News(folds(), told.all, told.kept)
        assert again.of(PARTITION.name) == told.of(PARTITION.name) == told.all
