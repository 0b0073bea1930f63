"""What is missing in a trace is never taken for kept: without an event, no invariant that looks at its like is plainly
held."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from actors.trace.events import EVENT_TYPES, NodeDown, RunEnd, RunMeta, Stamped
from orchestrator.engines.in_process import check
from orchestrator.engines.saved import load_state, save_state
from orchestrator.invariants.folds.fold import Emission, Finding, Profile
from orchestrator.invariants.folds.mirror_fold import MirrorFold, MirrorInvariant
from orchestrator.invariants.folds.routes import TRACE
from orchestrator.invariants.hygiene.trace import NodeTrace, TraceIsWhole
from orchestrator.invariants.registry import folds
from tests.harness.pieces import recorded

pytestmark = pytest.mark.xdist_group("recorded")
"""One process has the tests that look at the same runs."""
CRASH = "parity/scenarios/leader-crash"
BOUNCE = "parity/scenarios/bounce"
OPERATOR = "parity/scenarios/operator"
VOTERS = "scenario/voters/change-that-is-lost"
SNAPSHOTS = "scenario/snapshots/rejoin"
LINKS = "parity/scenarios/link-faults"
DISKS = "parity/scenarios/disk-faults"
TRANSACTIONS = "scenario/defects/late-batch"
TIERS = "scenario/tiers/store-and-leader"
DELETIONS = "parity/scenarios/delete-records"
FETCHES = "scenario/defects/remote-fetches"


def types_of_folds() -> dict[str, set[str]]:
    """Id of an invariant -> types of all events that its fold takes or hears of, for itself or for others; beside a
    mirror, those that it takes, or the mirror."""
    taken: dict[str, set[str]] = {}
    for fold in folds():
        kinds = (*fold.event_types, *fold.news)
        for each in fold.invariants:
            own = kinds
            if isinstance(fold, MirrorFold) and isinstance(each, MirrorInvariant):
                own = (*each.types, *fold.follows, *each.news)
            taken[each.id] = {str(kind.__struct_config__.tag) for kind in own}
    return taken


TAKEN = types_of_folds()


def wrongly_held(left: Sequence[Stamped], missing: Sequence[Stamped]) -> list[str]:
    """Invariants that are held over a trace although events of types that they look at are missing. The others are not
    judged, but for X4, which says what is missing."""
    types = {event.type for event in missing}
    looking = {name for name, taken in TAKEN.items() if taken & types}
    return [each.id for each in check(left, {*looking, "X4"}) if each.status == "held" and each.id in looking]


def with_killed(events: Sequence[Stamped]) -> list[Stamped]:
    """The trace as a live run has it: with which event a killed process ended, nobody can say."""
    killed = {
        f"{event.node}/{event.incarnation}": -1
        for event in events
        if type(event.body) is NodeDown and event.body.mode == "crash"
    }
    assert killed
    return [
        msgspec.structs.replace(event, body=RunEnd({**event.body.final_seq, **killed}))
        if type(event.body) is RunEnd
        else event
        for event in events
    ]


@pytest.mark.parametrize("name", [CRASH, BOUNCE, LINKS, DISKS, OPERATOR])
def test_every_event_is_missed(name: str) -> None:
    """Shows of every single event of a trace that X4 notices when it is not there, and calls in doubt what is judged
    by events of its type."""
    fold = TraceIsWhole()
    by_key: dict[str, list[Stamped]] = {}
    for event in with_killed(recorded(name)) if name == CRASH else recorded(name):
        for key in TRACE.keys(event):
            by_key.setdefault(key, []).append(event)
    unnoticed: list[str] = []
    for key, events in by_key.items():
        state = fold.initial(key, Profile())
        for number, event in enumerate(events):
            if event.node == key:
                without = load_state(save_state(state), fold, key, Profile())
                if not doubted_by(fold, without, events[number + 1 :], event):
                    unnoticed.append(f"{event.id} {event.type}")
            assert not fold.step(state, event)
        assert not fold.finish(state, 0)
    assert unnoticed == []


def doubted_by(fold: TraceIsWhole, state: NodeTrace, rest: Sequence[Stamped], missing: Stamped) -> bool:
    def doubts(emissions: Sequence[Emission]) -> bool:
        return any(isinstance(each, Finding) and missing.type in each.clouds for each in emissions)

    return any(doubts(fold.step(state, event)) for event in rest) or doubts(fold.finish(state, 0))


def test_an_event_of_each_type() -> None:
    """Shows for an event of each type, somewhere in the trace, that no invariant is held whose fold looks at such
    events, X4 included; and that a trace without gaps holds most of them."""
    events = list(recorded(CRASH))
    random, by_type = Random(5), dict[str, list[int]]()
    for number, event in enumerate(events):
        by_type.setdefault(event.type, []).append(number)
    assert len(by_type) > 20
    assert sum(each.status == "held" for each in check(events)) > 35
    for numbers in by_type.values():
        number = random.choice(numbers)
        assert wrongly_held(events[:number] + events[number + 1 :], [events[number]]) == [], events[number]


@pytest.mark.parametrize("killed", [False, True])
def test_chunks_and_nodes(killed: bool) -> None:
    """Shows the same for all that goes missing with a file: the first part of a node's trace, the last one, all of an
    incarnation, of a node, of the driver; where it is known with what a killed process ended, and where it is not."""
    events = with_killed(recorded(CRASH)) if killed else list(recorded(CRASH))
    for node, incarnation in [("broker-1", 0), ("broker-1", 1), ("controller-1", 0), ("producer-1", 0), ("driver", 0)]:
        own = [event for event in events if (event.node, event.incarnation) == (node, incarnation)]
        half = len(own) // 2
        for missing in (own[:half], own[half:], own):
            gone = {event.id for event in missing}
            left = [event for event in events if event.id not in gone]
            assert wrongly_held(left, missing) == [], (node, incarnation, len(missing))


def test_without_run_meta_nothing_is_held() -> None:
    """Shows that a trace that does not say how the cluster was set up proves nothing, whatever else it has."""
    events = recorded(CRASH)
    for left in (
        [event for event in events if type(event.body) is not RunMeta],
        [event for event in events if event.node != "driver"],
    ):
        assert not [each.id for each in check(left) if each.status == "held"]


def test_roles_record_what_gaps_are_taken_to_hide() -> None:
    """Shows that the runs above, and four with transactions, with a remote store and with deletions, record events of
    every type, but one that is in no trace, one that only live nodes record, and those of groups, of metadata epochs,
    of topics that are deleted, of decisions that are taken back, of Fetches that are refused as a whole, of answers
    that fit no fetch session and of late answers of leaders that have resigned."""
    names = (CRASH, BOUNCE, LINKS, DISKS, OPERATOR, VOTERS, SNAPSHOTS, TRANSACTIONS, TIERS, FETCHES, DELETIONS)
    seen = {event.type for name in names for event in recorded(name)}
    groups = {
        each
        for each in EVENT_TYPES
        if each.startswith(("grp.", "cons.own", "cons.stall", "cons.close", "commit.", "committed.", "offsets."))
    }
    elsewhere = {"run.repeat", "node.stall", "meta.wait", "meta.mint", "txn.taken-back", "fetch.refused"}
    elsewhere |= {"fetch.misfit", "part.remove", "part.stop", "q.heard"}
    assert set(EVENT_TYPES) - seen == {*elsewhere, *groups}
