"""Keys that are shared out among several engines, and together find what one finds."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from actors.trace.events import LogAppend, NodeUp, RpcReply, RunEnd, RunMeta, Stamped
from orchestrator.engines.in_process import InProcessEngine, check
from orchestrator.engines.routing import branches
from orchestrator.engines.shares import Shares, Targets, shared_out
from orchestrator.invariants.folds.conclusion import InvariantResult, conclude
from orchestrator.invariants.folds.fold import Kind, Profile, profile_of_run
from orchestrator.invariants.registry import folds, invariants_of
from tests.unit.invariants.random_trace import random_trace


def kind_of(event: Stamped) -> Kind:
    """What the columns of a trace say of an event."""
    return Kind(type(event.body), event.tp, event.node, event.cause.partition("/")[0])


def check_in_shares(events: list[Stamped], number: int) -> list[InvariantResult]:
    """As the batch engine does it, without Spark."""
    census = Counter(map(kind_of, events))
    shares = shared_out(census, number)
    targets = Targets(shares)
    sent = {(kind, share) for kind in census for share in targets.of(kind)}
    profile = next((profile_of_run(each.body) for each in events if type(each.body) is RunMeta), Profile())
    ordered = sorted(events, key=lambda event: event.order)
    found = []
    for share in range(number):
        engine = InProcessEngine(None, profile, lambda *at, share=share: shares.owner(*at) == share)  # type: ignore[misc]  # bound at once
        engine.feed_all(event for event in ordered if (kind_of(event), share) in sent)
        found += engine.key_results(max(event.wall for event in events))
    return conclude(invariants_of(folds()), found, profile)


@pytest.mark.parametrize("number", [1, 2, 5, 40])
def test_shares_find_together_what_one_engine_finds(number: int) -> None:
    """Shows that it is all the same among how many engines the keys of a trace are shared out."""
    for seed in range(6):
        events = random_trace(Random(seed), 400)
        assert check_in_shares(events, number) == check(events)


def test_what_the_columns_tell_leaves_no_key_out() -> None:
    """Shows for all events of random traces that the keys which their columns allow for have all that they have."""
    for seed in range(10):
        for event in random_trace(Random(seed), 300):
            for branch in branches(None).values():
                if type(event.body) in branch.types:
                    allowed = branch.route.keys_of_kind(kind_of(event))
                    assert allowed is None or set(branch.route.keys(event)) <= set(allowed), (branch.route.name, event)


def test_a_key_with_too_much_to_do_is_shared_out_by_its_folds() -> None:
    """Shows that the folds of one partition, which alone has more than a half of all there is to do, get to two shares
    of nearly the same weight; and that who has few events has one share."""
    census = {
        Kind(LogAppend, "orders-0", "broker-1", ""): 10_000,
        Kind(LogAppend, "orders-1", "broker-1", ""): 10,
        Kind(NodeUp, "", "broker-1", ""): 1,
    }
    shares = shared_out(census, 2)
    assert set(shares.owners["partition"]["orders-0"].values()) == {0, 1}
    assert len(set(shares.owners["partition"]["orders-1"].values())) == 1


def test_who_gets_an_event() -> None:
    """Shows that an event gets to the share of its partition, with its body; that its body stays behind where nobody
    reads it; and that what may be about any key gets to all shares."""
    append, reply, end = (
        Kind(kind, tp, "broker-1", "") for kind, tp in ((LogAppend, "orders-0"), (RpcReply, ""), (RunEnd, ""))
    )
    shares = Shares(
        3, {"partition": {"orders-0": dict.fromkeys((fold.name for fold in branches(None)["partition"].folds), 2)}}
    )
    targets = Targets(shares)
    found = {(kind.type, share): reads for kind in (append, reply, end) for share, reads in targets.of(kind).items()}
    assert found[LogAppend, 2]
    assert {share for kind, share in found if kind is RpcReply} == {0, 1, 2}
    assert {share for kind, share in found if kind is RunEnd} == {0, 1, 2}
    only_trace = shares.at(branches(None)["trace"], ["broker-1"]) - {2}
    assert all(found.get((LogAppend, share)) is False for share in only_trace)
