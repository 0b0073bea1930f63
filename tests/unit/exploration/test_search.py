"""The exploration finds what is wrong by the shortest way, finds nothing else, and leaves nothing out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.node.codec import decode, encode
from orchestrator.exploration.cluster import Used
from orchestrator.exploration.models import MODELS, Model, with_nodes
from orchestrator.exploration.promises import (
    COMMITTED_PREFIX,
    COMPLETENESS,
    DURABLE_MAJORITY,
    ELECTION_SAFETY,
    ONE_VOTE,
    OWN_EPOCH,
    QUORUM_PROMISES,
    VOTE_KEPT,
    Committed,
    History,
    Promises,
)
from orchestrator.exploration.search import Search
from orchestrator.exploration.story import evidence, tell
from orchestrator.exploration.voter import VoterNode, normalise
from orchestrator.exploration.wire import BROKEN, ORPHAN, RESPONSE, Exchange
from orchestrator.invariants.registry import INVARIANTS


def _model(
    name: str, *budgets: Used, defects: tuple[str, ...] = (), pre_vote: bool = True, nodes: int = 3, **changes: Any
) -> Model:
    features = {} if pre_vote else {"kip-996": "off"}
    model = msgspec.structs.replace(MODELS[name], nodes=nodes)
    return msgspec.structs.replace(with_nodes(model, features, defects), budgets=budgets, **changes)


FOUND = {
    "double-vote": (_model("election", (2, 0, 0, 0), epochs=1, defects=("double-vote",)), ONE_VOTE, "Q2", 12),
    "vote-before-sync": (
        _model("election", (1, 1, 0, 0), epochs=1, defects=("vote-before-sync",)),
        VOTE_KEPT,
        "Q2",
        6,
    ),
    "half-elects": (
        _model("election", (2, 0, 0, 0), epochs=1, defects=("half-elects",), nodes=2),
        ELECTION_SAFETY,
        "Q5",
        10,
    ),
    "commit-old-epoch": (
        _model("replication", (1, 0, 0, 0), defects=("commit-old-epoch",), pre_vote=False),
        OWN_EPOCH,
        "Q8",
        13,
    ),
}


@pytest.mark.parametrize(("model", "promise", "invariant", "moves"), FOUND.values(), ids=FOUND)
def test_defects_are_found_by_the_shortest_way(model: Model, promise: str, invariant: str, moves: int) -> None:
    """Shows that a defect is found with no schedule given, by so many moves, and that the trace of these moves violates
    the invariant that is meant for it."""
    search = Search(model)
    found = search.run()
    assert found.broken is not None
    assert found.broken.promise == promise
    assert len(found.path) == len(tell(search.cluster, found.path)) == moves
    assert invariant in {finding.invariant for finding in evidence(search.cluster, [*found.opening, *found.path])}


def test_voters_in_the_log_are_explored_too() -> None:
    """Shows that disks are formatted with the voters where kraft.version is 1: all of a small space is seen, and in it
    a leader, by as many moves as where they are static."""
    model = msgspec.structs.replace(MODELS["election"], nodes=2, epochs=1, budgets=((1, 0, 0, 0),))
    ways = []
    for level in ("0", "1"):
        search = Search(with_nodes(model, {"kraft.version": level}, []))
        found = search.run()
        assert found.broken is None and found.exhausted
        ways.append(len(search.way("leader")))
    assert ways[0] == ways[1] > 0


def test_nothing_is_found_in_the_code_as_it_is() -> None:
    """Shows that all of a small space is seen, crashes and broken connections in it, that leaders are, and that
    nothing is broken."""
    search = Search(_model("election", (1, 0, 1, 0), (0, 1, 0, 0), epochs=1))
    found = search.run()
    assert found.broken is None
    assert found.exhausted
    assert found.path == []
    assert {"leader", "crash", "connection dropped", "request of one that gave up"} <= set(found.reached)


@pytest.mark.parametrize("mark", ["second leader", "crash", "connection dropped"])
def test_the_folds_agree_that_nothing_is_wrong(mark: str) -> None:
    """Shows that the trace of a way to something that is reached violates no invariant of the quorum, and that what is
    said to be reached is."""
    search = Search(_model("replication", (1, 0, 0, 0), (0, 1, 1, 0), states=4_000, pre_vote=False))
    assert mark in search.run().reached
    path = search.way(mark)
    assert evidence(search.cluster, path) == []
    leaders = {facts.leader_id for facts in (search.cluster.places.facts[place] for place in path[-1].end.places)}
    assert (len(leaders - {-1}) > 1) == (mark == "second leader")


def test_no_outcome_is_left_out_by_the_reduction() -> None:
    """Shows that with and without the reduction voters come to the same facts with the same histories, and that it
    leaves out states."""
    seen, states = [], []
    for reduced in (True, False):
        search = Search(_model("election", (1, 0, 0, 0), (0, 1, 0, 0), epochs=1, reduced=reduced))
        assert search.run().exhausted
        facts = search.cluster.places.facts
        outcomes = {(tuple(facts[place] for place in state[:3]), search.histories[state[-1]]) for state in search.seen}
        seen.append({outcome for outcome in outcomes if not any(facts.waiting for facts in outcome[0])})
        states.append(len(search.seen))
    assert seen[0] == seen[1]
    assert states[0] < states[1]


def test_a_voter_in_its_normal_form_stays_as_it_is() -> None:
    """Shows that bringing a voter into its normal form twice is bringing it there once."""
    search = Search(_model("replication", (1, 1, 1, 0), states=300))
    search.run()
    for place in search.cluster.places.all:
        node: VoterNode = decode(place.node, VoterNode)
        assert all(old == new for old, new in normalise(node).items())
        assert encode(node) == place.node


def test_a_search_comes_to_an_end_when_it_is_asked_to() -> None:
    """Shows that a search that was stopped tells what it saw, and does not claim to have seen all."""
    search = Search(_model("election", (2, 0, 0, 0)), lambda progress: search.stop())
    found = search.run()
    assert found.interrupted
    assert not found.exhausted
    assert 0 < found.states < 1000


def test_voters_that_look_for_a_leader_draw_whom_they_ask() -> None:
    """Shows that a voter that looks for its leader may ask any other one: three voters begin in eight ways."""
    for looking, starts in ((True, 8), (False, 1)):
        search = Search(_model("election", (0, 0, 0, 0), looking=looking, fetching=True, states=starts))
        search.run()
        assert len(search.cluster.first()) == starts


def test_a_leader_without_what_was_committed_is_noticed() -> None:
    """Shows that leader completeness, the one committed prefix and the disks of a majority are judged."""
    search = Search(_model("replication", (0, 0, 0, 0)))
    search.run()
    promises = Promises(search.cluster.names, search.cluster.ids)
    state = next(iter(search.seen))
    leader = search.cluster.places.facts[state[0]]
    assert leader.leading
    committed = (Committed((1, 1, 4711), 0),)
    history = History(((1, 101),), ((1, 101),) * 3, committed)
    broken = promises.alone(0, leader, history)
    assert broken is not None
    assert broken.promise == "leader completeness"
    broken = promises.alone(0, leader._replace(high_watermark=1), history)
    assert broken is not None
    assert broken.promise == "there is one committed prefix"
    broken = promises.on_disks([leader] * 3, history)
    assert broken is not None
    assert broken.promise == "every committed entry is on the disks of a majority"
    other = leader._replace(log=((1, 1, 4711),))
    broken = promises.together(0, 1, leader, other)
    assert broken is not None
    assert broken.promise == "log matching"
    _, broken = promises.noted(history, 1, leader)
    assert broken is not None
    assert broken.promise == "one leader per epoch"


def test_a_crash_takes_what_its_voter_has_to_do_with_and_nothing_else() -> None:
    """Shows that the request of one that is gone is lost if its callee crashes, and arrives all the same if its caller
    does so once more, or somebody else; and that a response is lost with its caller alone."""
    cluster = Search(_model("election", (0, 1, 1, 0))).cluster
    lost = [
        Exchange(0, 2, "c", 0, ORPHAN, 0),
        Exchange(2, 0, "c", 1, RESPONSE, 0),
        Exchange(2, 1, "c", 1, BROKEN, -1),
    ]
    left = [
        Exchange(0, 1, "c", 0, ORPHAN, 0),
        Exchange(0, 2, "c", 2, RESPONSE, 0),
        Exchange(1, 2, "c", 2, BROKEN, -1),
        Exchange(2, 1, "c", 0, ORPHAN, 0),
    ]
    state = (*cluster.first()[0].places, cluster.wires.number((*lost, *left)), 0, 0)
    crash = next(
        each for each in cluster.moves(state, (False, True, False, False)) if each.steps[0][0] == 2 and each.cost == 1
    )
    assert sorted(cluster.wires.all[crash.wire]) == left


def test_each_promise_names_the_invariant_that_makes_it() -> None:
    """Shows that each promise leads to an invariant of the quorum whose title says the same."""
    said = {promise: INVARIANTS[invariant].title for promise, invariant in QUORUM_PROMISES.items()}
    assert "has every entry that was committed" in said[COMPLETENESS]
    assert "a majority of the voters has on disk" in said[DURABLE_MAJORITY]
    assert "permanent" in said[COMMITTED_PREFIX]
