"""What a story tells of groups and of transactions, and when that matters more than partitions."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import (
    BeginInvoke,
    ConsOwn,
    EndInvoke,
    EndReturn,
    GrpGen,
    GrpLoad,
    InitInvoke,
    InitReturn,
    TxnLoad,
    TxnLoaded,
    TxnMarkers,
    TxnState,
)
from orchestrator.story.chronicle import LINES_MAX
from orchestrator.story.moments import Break
from tests.unit.story.stage import TP, Stage

OFFSETS, STATE = "__consumer_offsets-0", "__transaction_state-0"
BOTH = {"m1": "consumer-1", "m2": "consumer-2"}
APP = "producer-1"


class Coordinated(Stage):
    """A group ``g`` and the transactions of ``producer-1``, whose coordinator is broker-1."""

    def group(self, state: Any, generation: int, members: dict[str, str], reason: str = "", **shares: str) -> str:
        """The group is in a state; ``shares``: member -> its partitions in one word."""
        given = {member: tps.split() for member, tps in shares.items()}
        moved = GrpGen(OFFSETS, "g", state, generation, 0, members=members, assignment=given, reason=reason)
        return self.emit("broker-1", moved)

    def moves(self, before: Any, after: Any) -> str:
        """The transaction of producer-1 goes from a state to another one."""
        return self.emit("broker-1", TxnState(STATE, APP, 7, 1, before, after, [TP], 0, 5))

    def begins(self) -> Coordinated:
        """The chaos begins, and then a transaction."""
        self.begin()
        self.emit(APP, BeginInvoke("o1", APP, 1, 7, 0, 2))
        return self


def test_a_member_that_is_silent_is_removed() -> None:
    """Shows who is out of a group and why, what the others have afterwards, how long that took, and when the former
    member hears of it."""
    trace = Coordinated()
    trace.group("Stable", 1, BOTH, m1=TP, m2="orders-1")
    trace.begin()
    trace.group("PreparingRebalance", 1, BOTH, "updating metadata for member m2")
    trace.wall += 2_499_000
    one = {"m2": "consumer-2"}
    trace.group("CompletingRebalance", 2, one, "removing member m1 on heartbeat expiration")
    trace.group("Stable", 2, one, m2=f"{TP} orders-1")
    trace.emit("consumer-1", ConsOwn("g", "", -1, [], lost=[TP], reason="lost"))
    assert trace.story() == [
        "broker-1 removes consumer-1 from group g: no heartbeat came from it in time",
        "group g is stable in generation 2 after a rebalance of 2.501 s: consumer-2 has orders-0, orders-1",
        "consumer-1 learns that it is in group g no longer, and gives up orders-0",
    ]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("explicit LeaveGroup request for (m1) members", "consumer-1 leaves group g"),
        ("rebalance timeout", "broker-1 removes consumer-1 from group g: it did not join again in time"),
    ],
)
def test_why_a_member_is_in_its_group_no_longer(reason: str, told: str) -> None:
    """Shows the other reasons; a member that is there again under another id is not told of."""
    trace = Coordinated()
    trace.group("Stable", 1, BOTH)
    trace.begin()
    trace.group("PreparingRebalance", 1, {"m3": "consumer-2"}, reason)
    assert trace.story() == [told]


def test_a_coordinator_takes_over_what_it_finds() -> None:
    """Shows how the next coordinator finds a group, and which transactions it has to end; a broker that gives up says
    nothing."""
    trace = Coordinated().begin()
    trace.emit("broker-1", GrpLoad(OFFSETS, 0, False))
    trace.emit("broker-2", GrpLoad(OFFSETS, 1, True, 9, groups={"g": ("Stable", 3)}, members={"g": BOTH}))
    found = {
        APP: TxnLoaded("PrepareCommit", 7, 1, [TP]),
        "producer-2": TxnLoaded("CompleteCommit", 8, 1, []),
    }
    trace.emit("broker-2", TxnLoad(STATE, 1, True, 9, found))
    ends = f"to be ended: {APP} (PrepareCommit)"
    assert trace.story() == [
        "broker-2 takes over group g as its coordinator: Stable in generation 3, members consumer-1, consumer-2",
        f"broker-2 takes over {STATE} as transaction coordinator: 2 transactional ids, {ends}",
    ]


def test_an_abort_that_was_asked_for_is_not_told() -> None:
    """Shows that commits and aborts by the application are no news."""
    trace = Coordinated().begins()
    trace.emit(APP, EndInvoke("o2", APP, 1, 7, 0, False))
    trace.moves("Ongoing", "PrepareAbort")
    trace.moves("PrepareAbort", "CompleteAbort")
    trace.emit(APP, BeginInvoke("o3", APP, 2, 7, 1, 2))
    trace.emit(APP, EndInvoke("o4", APP, 2, 7, 1, True))
    trace.moves("Ongoing", "PrepareCommit")
    assert trace.story() == []


ITSELF = f"broker-1 aborts the transaction of {APP} itself"


def test_an_abort_that_nobody_asked_for_has_its_reason() -> None:
    """Shows a timeout, a producer that begins anew, and a commit that came too late; each transaction by itself."""
    trace = Coordinated().begins()
    trace.moves("PrepareEpochFence", "PrepareAbort")
    trace.wall += 1_000_000
    trace.emit(APP, EndInvoke("o2", APP, 1, 7, 0, True))
    trace.moves("Ongoing", "PrepareAbort")
    trace.wall += 1_000_000
    trace.emit(APP, BeginInvoke("o3", APP, 2, 7, 1, 2))
    trace.emit("producer-2", InitInvoke("o4", APP, 60_000))
    trace.moves("Ongoing", "PrepareAbort")
    trace.emit("producer-2", InitReturn("o4", "ok", 0, APP, 7, 3))
    trace.moves("Ongoing", "PrepareAbort")
    assert trace.story() == [
        f"{ITSELF}: its timeout is over",
        f"{ITSELF}: its timeout is over, although its application asks to commit it",
        f"{ITSELF}: a producer with this transactional id begins anew",
        f"{ITSELF}: its timeout is over",
    ]


def test_a_late_request_aborts_the_next_transaction() -> None:
    """Shows that an abort in the epoch of the open transaction is told as a late request: timeouts raise the epoch."""
    trace = Coordinated().begins()
    trace.emit(APP, BeginInvoke("o3", APP, 2, 7, 1, 1))
    trace.moves("CompleteAbort", "Ongoing")
    trace.moves("Ongoing", "PrepareAbort")
    assert trace.story() == [f"{ITSELF}: an EndTxn of an earlier transaction with the same epoch came late"]


def test_a_transaction_that_cannot_be_ended_is_told_in_words() -> None:
    """Shows what failed by a name that a reader knows, and not by the kind that the trace has."""
    trace = Coordinated().begins()
    fenced = KafkaError.INVALID_PRODUCER_EPOCH
    trace.emit(APP, EndReturn("o2", "fail", fenced, APP, 1, 7, 0, True, True))
    trace.emit(APP, InitReturn("o3", "fail", fenced, APP))
    assert trace.story() == [
        f"the end of a transaction of {APP} fails: INVALID_PRODUCER_EPOCH",
        f"initTransactions of {APP} fails: INVALID_PRODUCER_EPOCH",
    ]


def test_a_marker_that_is_given_up_is_told() -> None:
    """Shows the marker that no broker will write, and none of those that are sent."""
    trace = Coordinated().begins()
    trace.emit("broker-1", TxnMarkers(STATE, APP, 7, 1, True, 0, 2, [TP], "sent"))
    trace.emit("broker-1", TxnMarkers(STATE, APP, 7, 1, True, 0, 2, [TP], "dropped"))
    assert trace.story() == [f"broker-1 gives up the COMMIT marker of {APP} for {TP}"]


def long_story(*breaks: Break) -> list[str]:
    """Of a run with more leader changes than a story has lines, and with one removal from a group."""
    trace = Coordinated()
    trace.group("Stable", 1, BOTH)
    trace.change(1, 0, cause="create")
    trace.begin()
    for number in range(1, 2 * LINES_MAX):
        trace.wall += 1_000_000
        trace.change(1 + number % 3, number)
        if number == LINES_MAX:
            trace.group("PreparingRebalance", 1, {"m2": "consumer-2"}, "removing member m1 on heartbeat expiration")
    return trace.story(*breaks)


@pytest.mark.parametrize(("concerns", "told"), [(("groups",), True), ((), False)])
def test_groups_matter_where_a_promise_about_them_broke(concerns: tuple[str, ...], told: bool) -> None:
    """Shows that a short story keeps what happened to a group if its promise broke, and leaves it out for elections if
    another one did."""
    story = long_story(Break(20_000_000, "x VIOLATED: y", keys=("g",), concerns=concerns))
    assert any("broker-1 removes consumer-1 from group g" in line for line in story) is told


def test_other_partitions_matter_less() -> None:
    """Shows that of a long run the elections of the partition stay at which something broke, however far away, before
    those of other partitions that are near."""
    trace = Coordinated()
    for tp in (TP, "orders-1"):
        trace.change(1, 0, cause="create", tp=tp)
    trace.begin()
    trace.change(2, 1)
    for number in range(1, 2 * LINES_MAX):
        trace.wall += 1_000_000
        trace.change(1 + number % 3, number, tp="orders-1")
    far = f"{TP}: broker-2 is elected in leader epoch 1 (a clean election), ISR [1, 2, 3]"
    assert trace.story(Break(30_000_000, "x", keys=(TP,)))[0] == far
    assert trace.story(Break(30_000_000, "x"))[0] != far
