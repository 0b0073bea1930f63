"""H7: the latest offset that a client at read_committed gets."""

from __future__ import annotations

import pytest

from actors.trace.events import ListReturn, ReplyPartition, RpcReply
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import TransactionTrace

CLIENT, CONNECTION = "list-offsets-1", "list-offsets-1>broker-1 c1"


class Asking(TransactionTrace):
    """A client asks broker-1, which leads from the beginning and has a record of an open transaction at 0 and a plain
    one behind it, both committed."""

    def __init__(self) -> None:
        super().__init__()
        self.lead(1)
        self.begins()
        self.write("a")
        self.append("broker-1", "b")
        self.high_watermark("broker-1", 2)

    def answers(self, offset: int, isolation: int = 1, broker: int = 1, epoch: int = 0) -> None:
        """A leader answers, to a request at an isolation level."""
        told = ReplyPartition(TP, 0, offset, timestamp=-1, leader_epoch=epoch)
        self.emit(f"broker-{broker}", RpcReply("ListOffsets", 9, CLIENT, CONNECTION, 1, -1, isolation, 0, [told]))

    def returns(self, op: str, offset: int) -> None:
        """The answer gets to the application."""
        self.req = f"{CONNECTION}#1"
        self.emit(CLIENT, ListReturn(op, "ok", 0, TP, -1, 1, offset, 0, "broker-1", 9, 1))
        self.req = ""

    def commits(self) -> None:
        """The transaction is committed, with its marker."""
        self.decides(True)
        self.ends("commit")
        self.high_watermark("broker-1", 3)


@pytest.mark.parametrize(("told", "status"), [(0, "held"), (2, "violated")])
def test_an_open_transaction(told: int, status: str) -> None:
    """Shows that H7 is held by the beginning of the open transaction, and violated by the high watermark."""
    trace = Asking()
    op = trace.invoke(CLIENT, isolation=1)
    trace.answers(told)
    trace.returns(op, told)
    result = trace.result("H7")
    assert (result.status, result.tested) == (status, 1)


def test_a_request_without_the_isolation_level() -> None:
    """Shows that a client which wants committed records and does not ask for them violates H7, and not T7, which goes
    by the request."""
    trace = Asking()
    op = trace.invoke(CLIENT, isolation=1)
    trace.answers(2, isolation=0)
    trace.returns(op, 2)
    assert trace.result("T7").status == "vacuous"
    (finding,) = trace.result("H7").violations
    assert finding.sentence == (
        "list-offsets-1, at read_committed, got 2 as the latest offset of orders-0 from broker-1 (leader epoch 0), "
        "but the last stable offset was 0 during the request"
    )


@pytest.mark.parametrize(("told", "status"), [(0, "held"), (3, "held"), (4, "violated")])
def test_a_transaction_that_ends_meanwhile(told: int, status: str) -> None:
    """Shows that the last stable offset of any moment between the question and the answer is right."""
    trace = Asking()
    op = trace.invoke(CLIENT, isolation=1)
    trace.commits()
    trace.answers(told)
    trace.returns(op, told)
    assert trace.result("H7").status == status


def test_an_answer_from_before_the_question() -> None:
    """Shows that H7 is violated by what was right before the client asked."""
    trace = Asking()
    trace.commits()
    op = trace.invoke(CLIENT, isolation=1)
    trace.answers(0)
    trace.returns(op, 0)
    assert trace.result("H7").violations[0].sentence.endswith("but the last stable offset was 3 during the request")


def test_a_leader_that_came_after_the_question() -> None:
    """Shows that an answer is judged by what was so since its leader took up its epoch: of a log that lacks the marker,
    what the former leader had does not count."""
    trace = Asking()
    trace.append("broker-2", "a", role="follower", producer=7)
    trace.commits()
    op = trace.invoke(CLIENT, isolation=1)
    trace.lead(2, 1)
    trace.answers(0, broker=2, epoch=1)
    trace.returns(op, 0)
    assert (trace.result("H7").status, trace.result("H7").tested) == ("held", 1)


def test_what_is_not_judged() -> None:
    """Shows that H7 does not judge who reads everything, answers of unknown leaders, and logs without
    transactions."""
    trace = Asking()
    op = trace.invoke(CLIENT)
    trace.answers(2, isolation=0)
    trace.returns(op, 2)
    trace.returns(trace.invoke(CLIENT, isolation=1), 2)
    assert trace.result("H7").status == "vacuous"
    trace = Asking()
    trace.events = [each for each in trace.events if getattr(each.body, "producer_id", -1) != 7]
    op = trace.invoke(CLIENT, isolation=1)
    trace.answers(1)
    trace.returns(op, 1)
    assert trace.result("H7").status == "vacuous"
