"""The frontier of a growing trace, case by case."""

from __future__ import annotations

from actors.trace.events import DRIVER
from orchestrator.engines.frontier import NOTHING_MORE, Frontier, Piece, Silence


def piece(node: str, incarnation: int, first: int, last: int, wall: int, over: bool = False) -> Piece:
    return Piece(node, incarnation, first, last, wall, wall, over)


def frontier(*pieces: Piece, patience_us: int = -1, nodes: tuple[str, ...] = ("a", "b")) -> Frontier:
    """After some pieces of two nodes have come."""
    found = Frontier(patience_us)
    found.expect(nodes)
    for each in pieces:
        found.take(each)
    return found


def test_it_waits_for_everybody() -> None:
    """Shows that it is the least clock, of those too that have said nothing yet, and that nothing is passed before the
    run has said who takes part."""
    unknown = Frontier()
    unknown.take(piece("a", 0, 0, 9, 90))
    assert (unknown.advance(), unknown.at) == ([], 0)
    found = frontier(piece("a", 0, 0, 9, 90))
    assert (found.advance(), found.at) == ([], 0)
    found.take(piece("b", 0, 0, 3, 40))
    assert (found.advance(), found.at) == ([], 40)


def test_it_stops_at_a_gap_until_that_is_closed() -> None:
    """Shows that what lies behind a gap counts once the gap is closed, in whatever pieces, some of them twice."""
    found = frontier(piece("a", 0, 0, 9, 90), piece("b", 0, 0, 3, 30), piece("b", 0, 6, 9, 80))
    found.advance()
    assert found.at == 30
    for each in (piece("b", 0, 2, 4, 45), piece("b", 0, 5, 6, 55)):
        found.take(each)
    found.advance()
    assert found.at == 80


def test_it_waits_for_the_next_incarnation_until_the_run_ends() -> None:
    """Shows that a node which is down holds it back, as its next incarnation may not have arrived; that the end of the
    run says whether there is one; and that an incarnation that wrote nothing is passed over then."""
    found = frontier(piece("a", 0, 0, 9, 90), piece("b", 0, 0, 3, 30, over=True))
    found.advance()
    assert found.at == 30
    found.end({"a/0": 9, "b/0": 3, "b/2": 1})
    found.advance()
    assert found.at == 30
    found.take(piece("b", 2, 0, 1, 95, over=True))
    found.advance()
    assert found.at == NOTHING_MORE


def test_patience_ends() -> None:
    """Shows who is named when patience is over: one that never came and one that fell silent, once; not one that is
    down, nor one whose event is lost, nor one that has gone on in another incarnation."""
    silent = frontier(piece("a", 0, 0, 9, 90), piece("b", 0, 0, 3, 30), patience_us=20, nodes=("a", "b", "never"))
    assert silent.advance() == [Silence("b", 0, 30), Silence("never", 0, 0)]
    assert silent.at == 90
    silent.take(piece("a", 0, 10, 11, 120))
    assert (silent.advance(), silent.at) == ([], 120)

    down = frontier(piece("a", 0, 0, 9, 90), piece("b", 0, 0, 3, 30, over=True), patience_us=20)
    assert (down.advance(), down.at) == ([], 90)
    gap = frontier(piece("a", 0, 0, 9, 90), piece("b", 0, 0, 3, 30), piece("b", 0, 5, 9, 80), patience_us=20)
    assert (gap.advance(), gap.at) == ([], 80)
    killed = frontier(piece("a", 0, 0, 9, 90), piece("b", 0, 0, 3, 30), piece("b", 1, 0, 9, 85), patience_us=20)
    assert (killed.advance(), killed.at) == ([], 85)
    unseen = frontier(piece("a", 0, 0, 9, 90), piece("b", 0, 0, 3, 30, True), piece("b", 2, 0, 9, 88), patience_us=20)
    assert (unseen.advance(), unseen.at) == ([], 88)


def test_a_collected_trace_is_known_up_to_the_first_part_that_is_missing() -> None:
    """Shows that the parts of a collected trace decide alone, in whichever order they come: nodes that are silent for
    long hold nothing back, and nothing behind a part that is missing is taken for known."""
    found = Frontier()
    found.expect(["broker-1", DRIVER])
    found.take_part(0, 10)
    found.take_part(2, 30)
    assert found.advance() == []
    assert found.at == 10
    found.take_part(1, 15)
    found.take_part(1, 20)
    found.advance()
    assert found.at == 30
