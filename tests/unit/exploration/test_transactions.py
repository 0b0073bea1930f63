"""The exploration of a commit finds what is wrong by the shortest way, and nothing within the bounds of its model."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from orchestrator.exploration.broker import normalise
from orchestrator.exploration.broker_facts import BrokerFacts, Coordinated, Kept, Logged, Marked, Replica
from orchestrator.exploration.cluster import Stepped, Used
from orchestrator.exploration.models import MODELS, Model, must_see, with_nodes
from orchestrator.exploration.search import Found, Search
from orchestrator.exploration.story import evidence, tell
from orchestrator.exploration.transaction_promises import (
    ALL_TOLD,
    BROKER_SOUND,
    COORDINATORS_IN_ORDER,
    DECIDED_FIRST,
    DECISION_KEPT,
    LOG,
    ONE_HISTORY,
    ONE_OUTCOME,
    TOLD_WHAT_HOLDS,
    TRANSACTION_PROMISES,
    TransactionHistory,
    TransactionJudge,
)
from orchestrator.exploration.transactions import MARKERS, TOLD, TransactionCluster
from orchestrator.exploration.wire import Move
from orchestrator.invariants.registry import INVARIANTS

COMMIT = MODELS["transaction-commit"]


def _model(*budgets: Used, defects: tuple[str, ...] = (), replicas: int = 2, **changes: Any) -> Model:
    brokers = tuple(range(1, replicas + 1))
    model = msgspec.structs.replace(COMMIT, nodes=replicas, logs=brokers)
    return msgspec.structs.replace(with_nodes(model, {}, defects), budgets=budgets or COMMIT.budgets, **changes)


def _searched(model: Model) -> tuple[Search, Found]:
    search = Search(model)
    return search, search.run()


FOUND = {
    "transaction-before-hw": ((0, 0, 0, 1), DECIDED_FIRST, "T13"),
    "marker-of-other-kind": ((0, 0, 0, 1), DECIDED_FIRST, "T11"),
    "first-partition-told-alone": ((0, 0, 0, 1), ALL_TOLD, "T5"),
    "markers-counted-unanswered": ((0, 0, 1, 1), ALL_TOLD, "T4"),
    "decision-changed-at-load": ((1, 0, 0, 1), DECIDED_FIRST, ""),
}


@pytest.mark.parametrize(("defect", "budget", "promise", "invariant"), [(name, *how) for name, how in FOUND.items()])
def test_defects_are_found_by_the_shortest_way(defect: str, budget: Used, promise: str, invariant: str) -> None:
    """Shows that a defect is found with no schedule given, and that the trace of the way violates an invariant, unless
    the way ends before one looks: at a marker that nobody has appended."""
    search, found = _searched(_model(budget, defects=(defect,)))
    assert found.broken is not None
    assert found.broken.promise == promise
    assert len(tell(search.cluster, found.path)) == len(found.path) == found.depth
    violated = {finding.invariant for finding in evidence(search.cluster, [*found.opening, *found.path])}
    assert invariant in violated if invariant else not violated


def test_nothing_is_found_in_the_code_as_it_is() -> None:
    """Shows that all of a small space is seen, in it transactions that are committed and aborted, and that nothing is
    broken."""
    _, found = _searched(_model((0, 0, 0, 1)))
    assert found.broken is None
    assert found.exhausted
    assert {"commit completed", "abort completed"} <= set(found.reached)


def test_failovers_and_retried_markers_are_seen_early() -> None:
    """Shows that some thousands of states suffice for all that the model must see, that nothing is broken in them, and
    that the traces of the ways there violate no invariant of transactions."""
    model = _model(states=3_000)
    search, found = _searched(model)
    assert found.broken is None
    assert set(must_see(model)) == set(COMMIT.must) <= set(found.reached)
    for mark in COMMIT.must:
        assert evidence(search.cluster, search.way(mark)) == []


def test_what_narrower_bounds_rule_out_is_not_asked_for() -> None:
    """Shows that without elections and crashes nobody asks for a failover, and without drops for retried markers."""
    assert must_see(_model((0, 0, 0, 1))) == ["commit completed"]
    assert must_see(_model((0, 0, 1, 1))) == ["markers sent again", "commit completed", "connection dropped"]


@pytest.mark.parametrize(
    ("replicas", "elections", "moves"), [(3, 1, 5), (2, 2, 6)], ids=["three-replicas", "two-elections"]
)
def test_a_coordinator_that_takes_over_goes_by_what_it_read(replicas: int, elections: int, moves: int) -> None:
    """Shows what is beyond the bounds of the model, in the code as it is and in Kafka's: a new coordinator sends
    markers for a decision at the end of its log that another member of the ISR does not have yet."""
    search, found = _searched(_model((elections, 0, 0, 1), replicas=replicas))
    assert found.broken is not None
    assert found.broken.promise == DECIDED_FIRST
    assert "which may lead next" in found.broken.sentence
    story = tell(search.cluster, found.path)
    assert len(story) == moves
    assert story[-1].endswith("has t in PrepareCommit, producer epoch 1")


def test_a_broker_in_its_normal_form_stays_as_it_is() -> None:
    """Shows that bringing a broker into its normal form twice is bringing it there once."""
    search, _ = _searched(_model((1, 1, 1, 1), states=300))
    kind = search.cluster.places.kind
    for place in search.cluster.places.all:
        node = kind.unpack(0, place.node)
        assert all(old == new for old, new in normalise(node).items())
        assert kind.pack(node) == place.node


# ---- promises ----------------------------------------------------------------------------------------------

DECIDED = Kept("t", "PrepareCommit", 0, 1, ("orders-0",))
COMPLETED = Kept("t", "CompleteCommit", 0, 1, ())
COMMITTED, ABORTED = Marked(0, 1, True, 0), Marked(0, 1, False, 0)


def _log(*said: Kept | Marked | None) -> tuple[Logged, ...]:
    return tuple(Logged((offset + 1, 0, offset + 1), each) for offset, each in enumerate(said))


def _facts(
    log: tuple[Logged, ...], orders: tuple[Logged, ...] = (), leads: bool = False, **ids: Coordinated
) -> BrokerFacts:
    replicas = (
        (LOG, Replica(leads, 0, len(log), log)),
        ("orders-0", Replica(False, 0, 0, orders)),
        ("orders-1", Replica(False, 0, 0, ())),
    )
    return BrokerFacts(0, replicas, ((LOG, 0, True),) if leads else (), tuple(sorted(ids.items())))


class Judged:
    """A judge, and facts of its two brokers."""

    def __init__(self, *all_facts: BrokerFacts) -> None:
        cluster = TransactionCluster(_model().specs, (1, 2), ((2, 1), (1,)), 2)
        self.judge = TransactionJudge(cluster)
        cluster.places.facts = list(all_facts)
        self.all_facts = list(all_facts)

    def noted(self, *claims: tuple[Any, ...], history: TransactionHistory | None = None) -> str:
        """The promise that a move breaks, "" if none."""
        end = Stepped((0, 1), 0, 0, claims, "", -1, ())
        _, broken = self.judge.noted(history or self.judge.nothing_yet(), end, self.all_facts)
        return "" if broken is None else broken.promise

    def judged(self, *committed: Kept) -> str:
        """The promise that a state breaks in which this was committed in the transaction log, "" if none."""
        history = TransactionHistory(((LOG, _log(*committed)),), ())
        broken = self.judge.judged((0, 1, 0, 0, 0), Move("learn", -1, 0, ()), history)
        return "" if broken is None else broken.promise


def test_markers_and_answers_need_a_decision_in_every_in_sync_log() -> None:
    """Shows that a decision that one member of the ISR lacks is not durable, and that the other outcome is not it."""
    sent, told = (MARKERS, 0, 0, 1, True, 0), (TOLD, 0, 0, 1, True)
    everywhere, half = Judged(_facts(_log(DECIDED)), _facts(_log(DECIDED))), Judged(_facts(_log(DECIDED)), _facts(()))
    assert everywhere.noted(sent, told) == ""
    assert half.noted(sent) == DECIDED_FIRST
    assert half.noted(told) == TOLD_WHAT_HOLDS
    assert everywhere.noted((MARKERS, 0, 0, 1, False, 0)) == DECIDED_FIRST


def test_one_transaction_has_one_outcome() -> None:
    """Shows that two kinds of markers of one producer epoch are noticed, also if the first is gone by now."""
    assert Judged(_facts((), _log(COMMITTED)), _facts((), _log(COMMITTED))).noted() == ""
    assert Judged(_facts((), _log(COMMITTED)), _facts((), _log(ABORTED))).noted() == ONE_OUTCOME
    before = TransactionHistory((), (((0, 1), True),))
    assert Judged(_facts(()), _facts((), _log(ABORTED))).noted(history=before) == ONE_OUTCOME


def test_leaders_commit_one_history() -> None:
    """Shows that a leader that commits something else than was committed is noticed, and one that lacks it."""
    before = TransactionHistory(((LOG, _log(DECIDED)),), ())
    assert Judged(_facts(_log(COMPLETED), leads=True), _facts(())).noted(history=before) == ONE_HISTORY
    assert Judged(_facts((), leads=True), _facts(())).judged(DECIDED) == ONE_HISTORY


@pytest.mark.parametrize(
    ("state", "epoch", "promise"),
    [
        ("PrepareCommit", 1, ""),
        ("CompleteCommit", 1, ""),
        ("Empty", 2, ""),
        ("Ongoing", 0, DECISION_KEPT),
        ("PrepareAbort", 1, DECISION_KEPT),
    ],
)
def test_a_coordinator_goes_by_what_was_decided(state: str, epoch: int, promise: str) -> None:
    """Shows that a coordinator may have the decision, or what follows, and neither what was before nor the opposite."""
    known = Coordinated(state, 0, epoch, None)
    assert Judged(_facts(_log(DECIDED), leads=True, t=known), _facts(())).judged(DECIDED) == promise


def test_markers_come_in_the_order_of_coordinators() -> None:
    """Shows that a marker of a former coordinator after one of its successor is noticed."""
    late = _log(Marked(0, 1, True, 1), Marked(0, 1, True, 0))
    assert Judged(_facts((), late), _facts(())).judged() == COORDINATORS_IN_ORDER


def test_a_transaction_is_complete_when_all_partitions_know() -> None:
    """Shows that a completed transaction needs its marker in every in-sync log of each partition."""
    told, untold = _facts((), _log(COMMITTED)), _facts(())
    assert Judged(told, told).judged(DECIDED, COMPLETED) == ""
    assert Judged(told, untold).judged(DECIDED) == ""
    assert Judged(told, untold).judged(DECIDED, COMPLETED) == ALL_TOLD


def test_a_broker_alone_does_not_go_back() -> None:
    """Shows that leader epochs, a leader's high watermark and coordinator epochs that go back are noticed."""
    kind = TransactionCluster(_model().specs, (1, 2), ((2, 1), (1,)), 2).places.kind
    now = BrokerFacts(0, ((LOG, Replica(True, 3, 5, ())),), ((LOG, 3, True),), ())
    assert kind.wrong(now, now) == kind.wrong(None, now) == ""
    later = now._replace(coordinates=((LOG, 4, True),))
    assert "coordinator epoch" in kind.wrong(later, now)
    assert "leader epoch" in kind.wrong(now, now._replace(replicas=((LOG, Replica(True, 2, 5, ())),)))
    assert "high watermark" in kind.wrong(now, now._replace(replicas=((LOG, Replica(True, 3, 4, ())),)))


def test_each_promise_names_the_invariant_that_makes_it() -> None:
    """Shows that each promise leads to an invariant whose title says the same."""
    said = {promise: INVARIANTS[invariant].title for promise, invariant in TRANSACTION_PROMISES.items()}
    assert "only after it is committed in its log" in said[DECIDED_FIRST]
    assert "a decision is permanent" in said[DECISION_KEPT]
    assert "has every committed record" in said[ONE_HISTORY]
    assert "internal error" in said[BROKER_SOUND]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_hundred_thousand_states_hold() -> None:
    """Shows that the whole model has more than as many states, and that nothing is broken in any of them."""
    model = _model()
    _, found = _searched(model)
    assert found.broken is None
    assert found.exhausted
    assert found.states >= 200_000
    assert set(must_see(model)) <= set(found.reached)
