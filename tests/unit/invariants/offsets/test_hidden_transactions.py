"""H1 and H6: last stable offsets of leaders that do not have the beginning of an open transaction."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from actors.trace.events import ListReturn, LogStart, PollReturn, ReplyPartition, RpcReply
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import TransactionTrace

CLIENT = "list-offsets-1"
BOTH = pytest.mark.parametrize("invariant", ["H1", "H6"])


class Deleting(TransactionTrace):
    """Broker-1 leads, broker-2 follows. Both have a plain record at 0, one of an open transaction at 1, and another
    plain one at 2, all committed. Clients read committed records."""

    def __init__(self, opens: bool = True) -> None:
        super().__init__()
        self.lead(1)
        self.assume(2, 0, leader=1)
        self.replicate("a", followers=[2])
        for broker in (1, 2):
            role: Any = "leader" if broker == 1 else "follower"
            if opens:
                self.write("t", broker=broker, role=role)
            else:
                self.append(f"broker-{broker}", "t", role=role)
        self.replicate("b", followers=[2])
        self.high_watermark("broker-1", 3)
        self.high_watermark("broker-2", 3, role="follower")

    def takes_over(self, broker: int, epoch: int, high_watermark: int = 3) -> None:
        """A broker is elected, and leads with its high watermark."""
        self.change(broker, epoch)
        self.assume(broker, epoch, high_watermark=high_watermark)

    def begins_at(self, broker: int, start: int, reason: Any = "delete-records") -> str:
        """A broker's log begins there."""
        return self.emit(f"broker-{broker}", LogStart(TP, start, reason, 0, high_watermark=start))

    def hears(self, broker: int, cause: str, high_watermark: int = 3) -> None:
        """A follower takes what its leader told it after an event."""
        self.cause = cause
        self.high_watermark(f"broker-{broker}", high_watermark, role="follower")
        self.cause = ""

    def asks(self, offset: int, broker: int, epoch: int) -> None:
        """A client is told the latest offset."""
        op = self.invoke(CLIENT, isolation=1)
        connection = f"{CLIENT}>broker-{broker} c1"
        told = ReplyPartition(TP, 0, offset, timestamp=-1, leader_epoch=epoch)
        number = self.operations
        answer = RpcReply("ListOffsets", 9, CLIENT, connection, number, -1, 1, 0, [told])
        self.cause = self.emit(f"broker-{broker}", answer)
        self.req = f"{connection}#1"
        self.emit(CLIENT, ListReturn(op, "ok", 0, TP, -1, 1, offset, epoch, f"broker-{broker}", 9, number))
        self.cause = self.req = ""


def excused(trace: TransactionTrace, invariant: str) -> tuple[str, dict[str, int]]:
    """Status of an invariant, and by which rules."""
    result = trace.result(invariant)
    return (result.status, result.excused)


@BOTH
@pytest.mark.parametrize("told", [1, 0])
def test_a_log_start_that_the_next_leader_has_not_heard_of(invariant: str, told: int) -> None:
    """Shows that the log start may be told in place of the beginning of an open transaction, and that beginning by the
    next leader; and nothing below it."""
    trace = Deleting()
    trace.begins_at(1, 3)
    trace.asks(3, broker=1, epoch=0)
    trace.takes_over(2, 1)
    trace.asks(told, broker=2, epoch=1)
    expected = ("excused", {"log-start-unheard": 1}) if told == 1 else ("violated", {})
    assert excused(trace, invariant) == expected


@BOTH
def test_no_transaction_is_open(invariant: str) -> None:
    """Shows that a log start that nobody has heard of excuses no answer that is lower for no reason."""
    trace = Deleting(opens=False)
    trace.begins_at(1, 3)
    trace.asks(3, broker=1, epoch=0)
    trace.takes_over(2, 1)
    trace.asks(1, broker=2, epoch=1)
    assert excused(trace, invariant) == ("violated", {})


@BOTH
def test_the_first_answer_was_not_the_log_start(invariant: str) -> None:
    """Shows that an answer other than the log start binds the next leader."""
    trace = Deleting()
    trace.begins_at(1, 2)
    trace.asks(3, broker=1, epoch=0)
    trace.takes_over(2, 1)
    trace.asks(1, broker=2, epoch=1)
    assert excused(trace, invariant) == ("violated", {})


@BOTH
@pytest.mark.parametrize("later", [True, False])
def test_a_log_start_that_the_next_leader_was_told(invariant: str, later: bool) -> None:
    """Shows that a leader that took something of what its predecessor told after it had moved its log start has heard
    of that; what it took of before says nothing."""
    trace = Deleting()
    before = trace.events[-1].id.replace("broker-2", "broker-1")
    moved = trace.begins_at(1, 3)
    trace.hears(2, moved if later else before)
    trace.asks(3, broker=1, epoch=0)
    trace.takes_over(2, 1)
    trace.asks(1, broker=2, epoch=1)
    expected = ("violated", {}) if later else ("excused", {"log-start-unheard": 1})
    assert excused(trace, invariant) == expected


@BOTH
@pytest.mark.parametrize("restarted", [True, False])
def test_a_log_start_that_a_restart_lost(invariant: str, restarted: bool) -> None:
    """Shows that a leader that had the log start may have lost it in a restart; without one it still has it."""
    trace = Deleting()
    moved = trace.begins_at(1, 3)
    trace.hears(2, moved)
    trace.begins_at(2, 3, "leader")
    trace.asks(3, broker=1, epoch=0)
    if restarted:
        trace.up("broker-2")
    trace.takes_over(2, 1)
    trace.asks(1, broker=2, epoch=1)
    expected = ("excused", {"log-start-went-back": 1}) if restarted else ("violated", {})
    assert excused(trace, invariant) == expected


def behind(anew: bool) -> Deleting:
    """Broker-1 begins its log behind the beginning of the open transaction, anew or because records were deleted, has
    one record more, as broker-2 has, and leads."""
    trace = Deleting()
    if anew:
        trace.truncate("broker-1", 0)
        trace.logs[TP, "broker-1"] = list(trace.logs[TP, "broker-2"])
    trace.begins_at(1, 3, "out-of-range" if anew else "delete-records")
    trace.takes_over(1, 1)
    trace.replicate("c", epoch=1, followers=[2])
    trace.high_watermark("broker-1", 4, epoch=1)
    trace.high_watermark("broker-2", 4, epoch=1, role="follower")
    return trace


@BOTH
@pytest.mark.parametrize("anew", [True, False])
def test_a_log_that_began_behind_a_transaction(invariant: str, anew: bool) -> None:
    """Shows that a log that began anew behind the beginning of a transaction does not know of it; one that has dropped
    that beginning does."""
    trace = behind(anew)
    trace.asks(4, broker=1, epoch=1)
    trace.takes_over(2, 2, high_watermark=4)
    trace.asks(1, broker=2, epoch=2)
    expected = ("excused", {"began-behind": 1}) if anew else ("violated", {})
    assert excused(trace, invariant) == expected


@pytest.mark.parametrize("anew", [True, False])
def test_records_that_were_read_behind_a_transaction(anew: bool) -> None:
    """Shows the same for records that a consumer of committed records had read from such a log."""
    trace = behind(anew)
    trace.polled("consumer-1", (3, "c"), broker=1, epoch=1)
    read = trace.events[-1]
    assert isinstance(read.body, PollReturn)
    trace.events[-1] = replace(read, body=replace(read.body, isolation=1))
    trace.takes_over(2, 2, high_watermark=4)
    trace.asks(1, broker=2, epoch=2)
    assert excused(trace, "H6") == (("excused", {"began-behind": 1}) if anew else ("violated", {}))
