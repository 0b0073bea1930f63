"""C10: readers get transfers whole or not at all."""

from __future__ import annotations

import pytest

from actors.trace.events import BeginInvoke, ConsPos, PartChange, Polled, PollReturn, SendInvoke
from tests.unit.invariants.transactions.stage import STATE, TransactionTrace

ACCOUNTS = ("orders-0", "orders-1")
READER = "consumer-1"


class Bank(TransactionTrace):
    """App-1 makes transfers from orders-0 to orders-1; consumer-1 reads both at read_committed."""

    def __init__(self, least: int = 1) -> None:
        config = {"min.insync.replicas": least}
        reader = {"config": {"isolation.level": "read_committed"}}
        super().__init__(transactional=["app-1"], config=config, nodes={READER: reader})
        self.state("Empty", "Ongoing")

    def transfer(self, number: int, amount: int = 3, version: int = 2) -> None:
        """Transfer ``number`` takes an amount by the record "n-" and adds it by "n+"."""
        self.emit("app-1", BeginInvoke(f"b{number}", "app-1", number, 7, number, version))
        for tp, uid, moved in zip(ACCOUNTS, (f"{number}-", f"{number}+"), (-amount, amount), strict=True):
            body = SendInvoke(uid, tp, uid, -1, transactional_id="app-1", transaction=number, amount=moved)
            self.emit("app-1", body)

    def gets(self, tp: str, offset: int, *uids: str, node: str = READER) -> None:
        """A reader gets records from an offset on."""
        records = [Polled(offset + at, 0, uid) for at, uid in enumerate(uids)]
        self.emit(node, PollReturn("op", "ok", 0, tp, offset, 1, 0, "broker-1", records=records))


def bank(numbers: range = range(3), version: int = 2) -> Bank:
    trace = Bank()
    for number in numbers:
        trace.transfer(number, version=version)
    return trace


def test_all_of_them() -> None:
    """Shows that C10 is held, tested by each transfer, if the reader gets both records of it."""
    trace = bank()
    trace.gets(ACCOUNTS[0], 0, "0-", "1-", "2-")
    trace.gets(ACCOUNTS[1], 0, "0+", "1+", "2+")
    result = trace.result("C10")
    assert (result.status, result.tested) == ("held", 3)


def test_half_of_one() -> None:
    """Shows that C10 is violated if the reader has passed a transfer, and got half of it."""
    trace = bank()
    trace.gets(ACCOUNTS[0], 0, "0-", "1-", "2-")
    trace.gets(ACCOUNTS[1], 0, "0+", "2+")
    (finding,) = trace.result("C10").violations
    assert finding.sentence == (
        "consumer-1 got amounts of transaction 1 of app-1 with the sum -3, but a transfer has the sum 0: it did not "
        "get 1+"
    )


def test_a_record_twice() -> None:
    """Shows that C10 is violated if the reader gets a record at two offsets, and not if it reads one again."""
    trace = bank(range(1))
    trace.gets(ACCOUNTS[0], 0, "0-")
    trace.gets(ACCOUNTS[1], 0, "0+")
    trace.gets(ACCOUNTS[1], 0, "0+")
    assert trace.result("C10").status == "held"
    trace.gets(ACCOUNTS[1], 5, "0+")
    assert trace.result("C10").violations[0].sentence == (
        "consumer-1 got amounts of transaction 0 of app-1 with the sum +3, but a transfer has the sum 0: it got a "
        "record twice"
    )


def test_a_reader_that_is_not_there_yet() -> None:
    """Shows that half a transfer is no violation before the reader has come past the other half."""
    trace = bank()
    trace.gets(ACCOUNTS[0], 0, "0-", "1-", "2-")
    trace.gets(ACCOUNTS[1], 0, "0+")
    assert (trace.result("C10").status, trace.result("C10").tested) == ("held", 1)


@pytest.mark.parametrize("moved", [True, False])
def test_a_reader_that_went_elsewhere(moved: bool) -> None:
    """Shows that what a reader leaves out by moving its position is not missing."""
    trace = bank()
    trace.gets(ACCOUNTS[0], 0, "0-", "1-", "2-")
    trace.gets(ACCOUNTS[1], 0, "0+")
    if moved:
        trace.emit(READER, ConsPos(ACCOUNTS[1], 1, 2, 0, "seek"))
    trace.gets(ACCOUNTS[1], 2, "2+")
    assert trace.result("C10").status == ("held" if moved else "violated")


@pytest.mark.parametrize(("offset", "status"), [(0, "violated"), (9, "held")])
def test_a_reader_that_begins_behind_it(offset: int, status: str) -> None:
    """Shows that who begins behind the beginning of an account may lack what is before."""
    trace = bank(range(2))
    trace.gets(ACCOUNTS[0], 0, "0-", "1-")
    trace.gets(ACCOUNTS[1], offset, "1+")
    assert trace.result("C10").status == status


def test_what_nobody_promises() -> None:
    """Shows that C10 does not judge transfers below transaction.version 2, nor who reads everything."""
    trace = bank(version=1)
    trace.gets(ACCOUNTS[0], 0, "0-", "1-", "2-")
    trace.gets(ACCOUNTS[1], 0, "0+", "2+")
    assert trace.result("C10").status == "vacuous"
    trace = bank()
    trace.gets(ACCOUNTS[0], 0, "0-", "1-", "2-", node="consumer-2")
    trace.gets(ACCOUNTS[1], 0, "0+", "2+", node="consumer-2")
    assert trace.result("C10").status == "vacuous"


@pytest.mark.parametrize(("least", "status"), [(1, "excused"), (2, "violated")])
def test_what_a_disk_that_loses_its_end_excuses(least: int, status: str) -> None:
    """Shows that one disk excuses half a transfer only if no second replica must have what it lost."""
    trace = Bank(least)
    for number in range(3):
        trace.transfer(number)
    trace.down("broker-2", "lossy", lost={ACCOUNTS[1]: 1})
    trace.gets(ACCOUNTS[0], 0, "0-", "1-", "2-")
    trace.gets(ACCOUNTS[1], 0, "0+", "2+")
    assert trace.result("C10").status == status


@pytest.mark.parametrize(
    ("elected", "before", "status"),
    [
        (ACCOUNTS[0], False, "excused"),
        (STATE, False, "excused"),
        ("other-0", False, "violated"),
        (ACCOUNTS[0], True, "violated"),
    ],
)
def test_what_an_unclean_election_excuses(elected: str, before: bool, status: str) -> None:
    """Shows that one of an account, or of the coordinator, excuses half a transfer that had begun by then."""
    trace = Bank()
    body = PartChange(elected, 5, 1, 2, 1, 1, [2], [1, 2, 3], "unclean")
    if before:
        trace.emit("controller-1", body)
    for number in range(3):
        trace.transfer(number)
    if not before:
        trace.emit("controller-1", body)
    trace.gets(ACCOUNTS[0], 0, "0-", "1-", "2-")
    trace.gets(ACCOUNTS[1], 0, "0+", "2+")
    assert trace.result("C10").status == status
