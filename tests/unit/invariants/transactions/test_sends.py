"""T17: what was sent in a transaction is acknowledged before that is committed."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import SendInvoke, SendReturn
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import APP, TransactionTrace

ANEW = f"{TP}@second"
"""The same partition of a topic that was made anew."""


class Sends(TransactionTrace):
    """An application that sends records in transactions."""

    def __init__(self) -> None:
        super().__init__(transactional=["producer-1"])

    def sent(self, uid: str, transaction: int = 1, tp: str = TP) -> None:
        self.emit(
            "producer-1", SendInvoke(f"send {uid} {tp}", tp, uid, -1, transactional_id=APP, transaction=transaction)
        )

    def returns(self, uid: str, outcome: Any = "ok", tp: str = TP) -> None:
        self.emit("producer-1", SendReturn(f"send {uid} {tp}", outcome, 0 if outcome == "ok" else 7, tp, uid, -1))


def test_everything_is_acknowledged() -> None:
    """Shows that T17 is held, and tested, if every send has returned, in each transaction."""
    trace = Sends()
    for number in (1, 2):
        trace.sent(f"a{number}", number)
        trace.returns(f"a{number}")
        trace.app_told(True, number=number)
    result = trace.result("T17")
    assert (result.status, result.tested) == ("held", 2)


def test_a_send_that_is_under_way() -> None:
    """Shows that a commit before its acknowledgement violates T17, though that comes later."""
    trace = Sends()
    for uid in ("a", "b"):
        trace.sent(uid)
    trace.returns("a")
    trace.app_told(True)
    trace.returns("b")
    (finding,) = trace.result("T17").violations
    assert finding.sentence == (
        "producer-1 was told that its transaction 1 is committed, but its send of b to orders-0 had not returned"
    )


@pytest.mark.parametrize(
    ("outcome", "how"), [("fail", "had failed"), ("unknown", "had returned without an acknowledgement")]
)
def test_a_send_that_failed(outcome: str, how: str) -> None:
    """Shows that a commit in spite of it violates T17."""
    trace = Sends()
    trace.sent("a")
    trace.returns("a", outcome)
    trace.sent("b")
    trace.returns("b")
    trace.app_told(True)
    (finding,) = trace.result("T17").violations
    assert finding.sentence.endswith(f"committed, but its send of a to orders-0 {how}")


@pytest.mark.parametrize(("commit", "outcome"), [(False, "ok"), (True, "fail"), (True, "unknown")])
def test_other_ends(commit: bool, outcome: str) -> None:
    """Shows that T17 is held if the application is not told that the transaction is committed."""
    trace = Sends()
    trace.sent("a")
    trace.returns("a", "fail")
    trace.sent("b")
    trace.app_told(commit, outcome)
    assert trace.result("T17").status != "violated"


def test_sends_of_another_transaction() -> None:
    """Shows that an earlier transaction's sends, and those of an earlier incarnation, are none of this one's."""
    trace = Sends()
    trace.sent("a")
    trace.returns("a", "fail")
    trace.app_told(False)
    trace.app_told(True, number=2)
    trace.sent("b", 3)
    trace.down("producer-1")
    trace.up("producer-1", "client")
    trace.app_told(True, number=3)
    assert trace.result("T17").status != "violated"


@pytest.mark.parametrize(("outcome", "status"), [("ok", "held"), ("fail", "violated")])
def test_a_topic_that_is_made_anew(outcome: str, status: str) -> None:
    """Shows that a record is judged by its send to the new topic if it is sent there again."""
    trace = Sends()
    trace.sent("a")
    trace.returns("a", "unknown")
    trace.sent("a", tp=ANEW)
    trace.returns("a", outcome, ANEW)
    trace.app_told(True)
    assert trace.result("T17").status == status
