"""H4 and H2: what the leader of a tiered log tells of its copies."""

from __future__ import annotations

import pytest

from actors.trace.events import ConfigChange, LogLocalStart, LogStart, ReplyPartition, RpcPark, TierSegment
from actors.trace.tier_events import FINISHED
from tests.unit.invariants.trace_builder import TP, TraceBuilder

TIERED, PENDING = -5, -6


class Copying(TraceBuilder):
    """Broker-1 leads, with five committed records."""

    def __init__(self) -> None:
        super().__init__()
        self.lead(1)
        for number in range(5):
            self.append("broker-1", f"r{number}")
        self.high_watermark("broker-1", 5)

    def knows(self, end: int, broker: int = 1) -> None:
        """A broker consumes that the records up to one are copied."""
        self.emit(f"broker-{broker}", TierSegment(TP, f"s{end}", "known", FINISHED, 0, end, {"0": 0}))

    def looks(self, start: int = 0, broker: int = 1) -> None:
        """A leader looks how far its log is copied, and where it begins."""
        self.emit(f"broker-{broker}", LogStart(TP, start, "remote", -1, high_watermark=5))

    def copies(self, end: int) -> None:
        """The leader has copied a segment."""
        self.emit("broker-1", TierSegment(TP, f"s{end}", "copied", FINISHED, 0, end, {"0": 0}))

    def answers(self, asked: int, offset: int, broker: int = 1, epoch: int = 0, replica_id: int = -1) -> TraceBuilder:
        """A client is answered."""
        told = ReplyPartition(TP, 0, offset, timestamp=asked, leader_epoch=epoch)
        self.reply(broker, "ListOffsets", told, replica_id=replica_id)
        return self


@pytest.mark.parametrize(("asked", "right"), [(TIERED, 2), (PENDING, 3)])
@pytest.mark.parametrize("made", [True, False])
def test_how_far_a_leader_goes_by_copies(asked: int, right: int, made: bool) -> None:
    """Shows that copies which a leader found when it looked, or made since, are all counted, and no others."""
    for offset in range(-1, 5):
        trace = Copying()
        if made:
            trace.looks()
            trace.copies(2)
        else:
            trace.knows(2)
            trace.looks()
        assert trace.answers(asked, offset).result("H4").status == ("held" if offset == right else "violated")


def test_in_words() -> None:
    """Shows how an answer is told of that leaves out the last record that was copied."""
    trace = Copying()
    trace.knows(2)
    trace.looks()
    trace.answers(TIERED, 1)
    assert trace.result("H4").violations[0].sentence == (
        "broker-1 answered ListOffsets for timestamp -5 of orders-0 with 1; the right answer is 2: its log ends at 5, "
        "and clients may see the records below 5"
    )


@pytest.mark.parametrize(("asked", "right"), [(TIERED, -1), (PENDING, 0)])
def test_nothing_is_copied(asked: int, right: int) -> None:
    """Shows that before the first copy nothing is tiered, and all is to be uploaded."""
    for offset in (-1, 0):
        trace = Copying()
        trace.looks()
        assert trace.answers(asked, offset).result("H4").status == ("held" if offset == right else "violated")


def test_a_leader_that_does_not_know_of_the_copies_that_there_are() -> None:
    """Shows that a leader without copies whose own part begins above the log start cannot tell what is to be
    uploaded."""
    for offset in (-1, 0):
        trace = Copying()
        trace.looks()
        trace.emit("broker-1", LogLocalStart(TP, 2, "retention-ms", 0))
        assert trace.answers(PENDING, offset).result("H4").status == ("held" if offset < 0 else "violated")


@pytest.mark.parametrize(("how", "status"), [("looked", "violated"), ("later", "held"), ("again", "held")])
def test_a_leader_that_has_not_looked(how: str, status: str) -> None:
    """Shows that nothing is asked of a leader that has not looked for copies in its leader epoch and its process yet,
    and that those which it hears of later are another leader's."""
    trace = Copying()
    if how != "later":
        trace.knows(2)
    trace.looks()
    if how == "later":
        trace.knows(2)
    epoch = 0
    if how == "again":
        trace.change(1, 1)
        trace.assume(1, 1, high_watermark=5)
        epoch = 1
    assert trace.answers(TIERED, -1, epoch=epoch).result("H4").status == status


def test_a_process_begins_with_nothing() -> None:
    """Shows that what a former process knew of copies does not count for the next one."""
    trace = Copying()
    trace.knows(2)
    trace.down("broker-1")
    trace.up("broker-1")
    trace.change(1, 1)
    trace.assume(1, 1, high_watermark=5)
    trace.looks()
    assert trace.answers(TIERED, -1, epoch=1).result("H4").status == "held"
    assert trace.answers(TIERED, 2, epoch=1).result("H4").violated == 1


@pytest.mark.parametrize(("start", "status"), [(3, "held"), (2, "violated")])
def test_copies_below_the_log_start(start: int, status: str) -> None:
    """Shows that a new leader may find no copy of the leader epochs of its log if all copies are of deleted records."""
    trace = Copying()
    trace.knows(2)
    trace.looks(start)
    assert trace.answers(TIERED, -1).result("H4").status == status


def test_what_may_not_be_seen() -> None:
    """Shows that a copied record above what a client may see is told as nothing, which a broker may see."""
    trace = Copying()
    trace.append("broker-1", "r5")
    trace.looks()
    trace.copies(5)
    assert trace.answers(TIERED, -1).result("H4").status == "held"
    assert trace.answers(TIERED, 5, replica_id=2).result("H4").status == "held"
    assert trace.answers(TIERED, 5).result("H4").violated == 1


def test_a_copy_that_is_made_while_a_request_waits() -> None:
    """Shows that the answer to a request that waits for another partition is about when it was asked."""
    trace = Copying()
    trace.looks()
    trace.emit("broker-1", RpcPark("ListOffsets", 11, "client", "c", 1, 0, 30000, ["orders-1"], [TP]))
    trace.copies(2)
    assert trace.answers(TIERED, -1).result("H4").status == "held"
    assert trace.answers(TIERED, -1).result("H4").violated == 1


@pytest.mark.parametrize("how", ["unclean", "switched", "of-another-log"])
def test_copies_that_may_be_of_another_log(how: str) -> None:
    """Shows that nothing is asked after an unclean election, after an operator has changed whether the log is tiered,
    and where a copy goes beyond the log; only what is too high is wrong."""
    trace = Copying()
    trace.knows(5 if how == "of-another-log" else 2)
    if how == "unclean":
        trace.change(1, 1, cause="unclean")
        trace.assume(1, 1, high_watermark=5)
    elif how == "switched":
        trace.emit("driver", ConfigChange(0, 0, "topic/orders", "remote.log.copy.disable", "true"))
    trace.looks()
    epoch = int(how == "unclean")
    assert trace.answers(TIERED, 1, epoch=epoch).result("H4").status == "held"
    assert trace.answers(TIERED, 3 if how != "of-another-log" else 6, epoch=epoch).result("H4").violated == 1


@pytest.mark.parametrize(
    ("asked", "knows", "status"),
    [
        (TIERED, False, "held"),
        (TIERED, True, "violated"),
        (PENDING, False, "held"),
        (PENDING, True, "violated"),
        (-3, False, "violated"),
    ],
)
def test_nothing_is_not_refused(asked: int, knows: bool, status: str) -> None:
    """Shows that a new leader that has not caught up may tell that it knows of no copy; one that knows of one has to
    refuse what clients may not see yet."""
    trace = Copying()
    if knows:
        trace.knows(4)
    trace.change(1, 1)
    trace.assume(1, 1, high_watermark=2)
    trace.looks()
    told = ReplyPartition(TP, 0, -1, timestamp=asked, leader_epoch=1, leader_epoch_start=5, high_watermark=2)
    trace.reply(1, "ListOffsets", told)
    result = trace.result("H2")
    assert result.violated == (status == "violated")
