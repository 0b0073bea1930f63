"""X1 for coordinators: each error with its reason, and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from actors.node.errors import KafkaError as E
from actors.trace.coordinator_events import CoordRefuse
from actors.trace.events import TxnLoad, TxnState
from tests.unit.invariants.trace_builder import TraceBuilder

MEMBER = CoordRefuse(
    *("Heartbeat", "g", "__consumer_offsets-0", 0, "loaded", True),
    member="m1",
    generation=4,
    state="Stable",
    had_generation=4,
    is_member=True,
)
PRODUCER = CoordRefuse(
    *("EndTxn", "app-1", "__transaction_state-0", 0, "loaded", True),
    producer_id=7,
    producer_epoch=3,
    state="Ongoing",
    had_id=7,
    had_epoch=3,
)
PROFILE = {"config": {"group.max.size": 3}}
RIGHT: dict[str, tuple[CoordRefuse, E, dict[str, object]]] = {
    "another broker leads": (MEMBER, E.NOT_COORDINATOR, {"standing": "none", "leads": False}),
    "it leads no longer, and is still to give up": (MEMBER, E.NOT_COORDINATOR, {"leads": False}),
    "it reads the log": (PRODUCER, E.COORDINATOR_LOAD_IN_PROGRESS, {"standing": "loading"}),
    "there is no producer id": (PRODUCER, E.COORDINATOR_LOAD_IN_PROGRESS, {}),
    "nobody of that id": (MEMBER, E.UNKNOWN_MEMBER_ID, {"is_member": False}),
    "nobody has the instance id": (MEMBER, E.UNKNOWN_MEMBER_ID, {"instance": "i"}),
    "nobody of that id, with an instance id": (MEMBER, E.UNKNOWN_MEMBER_ID, {"instance": "i", "is_member": False}),
    "an older generation": (MEMBER, E.ILLEGAL_GENERATION, {"generation": 3}),
    "a rebalance": (MEMBER, E.REBALANCE_IN_PROGRESS, {"state": "PreparingRebalance"}),
    "a successor": (MEMBER, E.FENCED_INSTANCE_ID, {"instance": "i", "holder": "m2"}),
    "somebody new": (MEMBER, E.MEMBER_ID_REQUIRED, {"api": "JoinGroup", "member": "", "is_member": False}),
    "another producer id": (PRODUCER, E.INVALID_PRODUCER_ID_MAPPING, {"had_id": 8}),
    "no such id": (PRODUCER, E.INVALID_PRODUCER_ID_MAPPING, {"state": "", "had_id": -1, "had_epoch": -1}),
    "a newer epoch": (PRODUCER, E.PRODUCER_FENCED, {"had_epoch": 4}),
    "about to be fenced": (PRODUCER, E.PRODUCER_FENCED, {"pending": True}),
    "its end is under way": (PRODUCER, E.CONCURRENT_TRANSACTIONS, {"state": "PrepareCommit"}),
    "a state that is not committed": (PRODUCER, E.CONCURRENT_TRANSACTIONS, {"pending": True}),
    "nothing to end": (PRODUCER, E.INVALID_TXN_STATE, {"state": "Empty"}),
    "no place": (MEMBER, E.GROUP_MAX_SIZE_REACHED, {"api": "JoinGroup", "size": 3}),
    "for want of replicas": (PRODUCER, E.COORDINATOR_NOT_AVAILABLE, {}),
}
WRONG: dict[str, tuple[CoordRefuse, E, dict[str, object]]] = {
    "although it coordinates it": (MEMBER, E.NOT_COORDINATOR, {}),
    "although it has read its log": (MEMBER, E.COORDINATOR_LOAD_IN_PROGRESS, {}),
    "although it does not coordinate it": (PRODUCER, E.INVALID_PRODUCER_ID_MAPPING, {"standing": "none", "state": ""}),
    "although it had not read its log": (MEMBER, E.UNKNOWN_MEMBER_ID, {"standing": "loading", "is_member": False}),
    "although that is a member": (MEMBER, E.UNKNOWN_MEMBER_ID, {}),
    "although i belonged to m2": (
        MEMBER,
        E.UNKNOWN_MEMBER_ID,
        {"instance": "i", "holder": "m2", "is_member": False},
    ),
    "although the group was in generation 4": (MEMBER, E.ILLEGAL_GENERATION, {}),
    "although the group was CompletingRebalance": (MEMBER, E.REBALANCE_IN_PROGRESS, {"state": "CompletingRebalance"}),
    "although i belonged to m1": (MEMBER, E.FENCED_INSTANCE_ID, {"instance": "i", "holder": "m1"}),
    "although i belonged to no other member": (MEMBER, E.FENCED_INSTANCE_ID, {"instance": "i"}),
    "although it was m1": (MEMBER, E.MEMBER_ID_REQUIRED, {"api": "JoinGroup"}),
    "although it had producer id 7": (PRODUCER, E.INVALID_PRODUCER_ID_MAPPING, {}),
    "although it had producer id 7, epoch 3": (PRODUCER, E.PRODUCER_FENCED, {}),
    "although it was Ongoing, and nothing was under way": (PRODUCER, E.CONCURRENT_TRANSACTIONS, {}),
    "although 2 of 3 members were there": (MEMBER, E.GROUP_MAX_SIZE_REACHED, {"api": "JoinGroup", "size": 2}),
    "although it was Ongoing": (PRODUCER, E.INVALID_TXN_STATE, {}),
}


@pytest.mark.parametrize(("asked", "error", "facts"), RIGHT.values(), ids=RIGHT)
def test_a_refusal_with_its_reason(asked: CoordRefuse, error: E, facts: dict[str, object]) -> None:
    """Shows that each refusal is put to the test, and holds where what the coordinator had is its reason."""
    trace = TraceBuilder(**PROFILE)
    trace.emit("broker-1", msgspec.structs.replace(asked, error=error, **facts))
    assert (trace.result("X1").status, trace.result("X1").tested) == ("held", 1)


@pytest.mark.parametrize(("says", "wrong"), WRONG.items(), ids=WRONG)
def test_a_refusal_without_a_reason(says: str, wrong: tuple[CoordRefuse, E, dict[str, object]]) -> None:
    """Shows that the same error is a violation where it was otherwise, and that the evidence tells what was so."""
    asked, error, facts = wrong
    trace = TraceBuilder(**PROFILE)
    refused = trace.emit("broker-1", msgspec.structs.replace(asked, error=error, **facts))
    (violation,) = trace.result("X1").violations
    assert violation.events == [refused]
    assert violation.sentence.endswith(f" with {error.name} {says}")


def test_the_evidence_says_who_asked() -> None:
    """Shows the sentence of a member and of a producer."""
    trace = TraceBuilder()
    trace.emit("broker-1", msgspec.structs.replace(MEMBER, error=E.UNKNOWN_MEMBER_ID))
    trace.emit("broker-2", msgspec.structs.replace(PRODUCER, error=E.PRODUCER_FENCED))
    assert [each.sentence.partition(" with ")[0] for each in trace.result("X1").violations] == [
        "broker-1 answered Heartbeat of g by m1 in generation 4",
        "broker-2 answered EndTxn of app-1 for producer id 7, epoch 3",
    ]


TXN = "__transaction_state-0"
BEFORE: dict[str, list[TxnState | TxnLoad | None]] = {
    "began anew": [None],
    "read its log again": [TxnLoad(TXN, 1, True)],
    "gave it up": [TxnLoad(TXN, 0, False)],
    "other partition": [TxnLoad("__transaction_state-1", 1, True)],
    "asked twice": [TxnState(TXN, "app-1", 7, 4, "Empty", "Empty", [], 0, 2, 7, 4, asked_id=7, asked_epoch=3)],
    "began since": [
        TxnState(TXN, "app-1", 7, 4, "Empty", "Ongoing", ["orders-0"], 0, 2, 7, 4, asked_id=7, asked_epoch=4)
    ],
    "another since": [TxnState(TXN, "app-1", 7, 5, "Empty", "Empty", [], 0, 2, 7, 4)],
    "nothing": [],
}
FACTS: dict[str, dict[str, object]] = {
    "another one": {"producer_epoch": 2},
    "another id": {"producer_id": 8},
    "a later epoch": {"had_epoch": 5},
    "under way": {"pending": True},
    "not idle": {"state": "PrepareAbort"},
    "another error": {"error": E.COORDINATOR_NOT_AVAILABLE},
    "another call": {"api": "EndTxn"},
}


def given(
    since: Sequence[TxnState | TxnLoad | None] = (), facts: Mapping[str, object] = {}, asked: bool = True
) -> tuple[TraceBuilder, list[str]]:
    """A coordinator gave a producer the next epoch, and fences it when it asks once more; None: it has begun anew."""
    trace = TraceBuilder()
    trace.up("broker-1")
    gave = TxnState(TXN, "app-1", 7, 4, "CompleteAbort", "Empty", [], 0, 1, 7, 3, asked_id=7, asked_epoch=3)
    by = trace.emit("broker-1", gave if asked else msgspec.structs.replace(gave, asked_id=-1, asked_epoch=-1))
    for each in since:
        if each is None:
            trace.down("broker-1")
            trace.up("broker-1")
        else:
            by = trace.emit("broker-1", each)
    told = {"api": "InitProducerId", "state": "Empty", "had_epoch": 4, "error": E.PRODUCER_FENCED, **facts}
    return trace, [by, trace.emit("broker-1", msgspec.structs.replace(PRODUCER, **told))]


@pytest.mark.parametrize("since", BEFORE)
def test_a_producer_that_asks_once_more(since: str) -> None:
    """Shows that a producer which asks again for the epoch that it was given must not be fenced; but it may be by a
    coordinator that has read its log since, which does not say who was given the epoch, or if the epoch was used."""
    trace, _ = given(BEFORE[since])
    assert trace.result("X1").violated == (since in ("nothing", "other partition", "asked twice"))


def test_what_is_no_repetition() -> None:
    """Shows that only the producer that was given the epoch asks once more; and the evidence."""
    for facts in FACTS.values():
        assert not given(facts=facts)[0].result("X1").violated
    assert not given(asked=False)[0].result("X1").violated
    trace, events = given()
    (violation,) = trace.result("X1").violations
    assert violation.events == events
    assert violation.sentence == (
        "broker-1 answered InitProducerId of app-1 for producer id 7, epoch 3 with PRODUCER_FENCED although it had "
        "given it epoch 4 for that, which nobody has used since"
    )
