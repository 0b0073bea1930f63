"""Q22: Fetches of the metadata log that wait at a leader."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import LogStart, QFreeze, QWaited, Waited
from orchestrator.invariants.quorum import waiting_fetches
from tests.unit.invariants.quorum.test_leadership import FOLLOWER, LEADER
from tests.unit.invariants.trace_builder import METADATA_PARTITION, TraceBuilder

ANY = 2**63 - 1
"""The high watermark in the Fetch of who does not ask for a newer one."""


class Led(TraceBuilder):
    """Controller-1 leads epoch 1, where it has appended up to 3 and committed up to 2."""

    def __init__(self) -> None:
        super().__init__()
        self.role(LEADER, 1, "leader", 101)
        self.append(LEADER, "a", "b", "c", epoch=1, tp=METADATA_PARTITION)
        self.commit(2)

    def commit(self, end: int, epoch: int = 1) -> str:
        """The leader's high watermark moves."""
        return self.high_watermark(LEADER, end, epoch, METADATA_PARTITION)

    def more(self, epoch: int = 1, node: str = LEADER) -> str:
        """The leader appends a record."""
        return self.append(node, "m", epoch=epoch, tp=METADATA_PARTITION)

    def waited(self, by: Any = "expired", at: int = 3, known: int = 2, end: int = -1, told: int = 2, **how: int) -> str:
        """A Fetch is answered that was at ``at``, when the leader's high watermark was ``told``."""
        fetch = Waited(how.get("who", 102), how.get("epoch", 1), at, known, at if end < 0 else end, told)
        return self.emit(LEADER, QWaited(by, [fetch]))

    def sentences(self) -> list[str]:
        """What is wrong."""
        return [each.sentence for each in self.result("Q22").violations]


def test_a_fetch_that_waits_in_vain() -> None:
    """Shows that a Fetch for which nothing came tests Q22, also that of a client, and of a member that does not ask for
    high watermarks, and of one that knows a newer one than a new leader."""
    trace = Led()
    trace.waited()
    trace.waited(who=-1, known=ANY)
    trace.waited(known=5)
    result = trace.result("Q22")
    assert (result.status, result.tested) == ("held", 3)


def test_records_that_came() -> None:
    """Shows a Fetch that expires after an append, and one that a commit ends instead."""
    trace = Led()
    appended = trace.more()
    late = trace.waited()
    (found,) = trace.result("Q22").violations
    assert found.events == [appended, late]
    assert found.sentence == (
        "controller-1 let the Fetch of controller-2 at 3 wait in quorum epoch 1 after it had appended records up to 4"
    )
    trace.waited("commit")
    assert trace.result("Q22").violated == 2


def test_a_high_watermark_that_came() -> None:
    """Shows a Fetch that expires after a commit, and one that an append ends instead."""
    trace = Led()
    moved = trace.commit(3)
    late = trace.waited(known=ANY)
    (found,) = trace.result("Q22").violations
    assert found.events == [moved, late]
    assert found.sentence == (
        "controller-1 let the Fetch of controller-2 at 3 wait in quorum epoch 1 after its high watermark had moved "
        "from 2 to 3"
    )
    trace.waited("append")
    assert trace.result("Q22").violated == 2


@pytest.mark.parametrize("by", ["expired", "append", "commit"])
def test_what_was_there_already(by: Any) -> None:
    """Shows a Fetch that had no reason to wait, whatever ended that: there were records, or a high watermark, for
    it."""
    trace = Led()
    trace.waited(by, at=2, end=3)
    trace.waited(by, known=1)
    records, watermark = trace.sentences()
    assert records.endswith("at 2 wait in quorum epoch 1, although it had records for it up to 3")
    assert watermark.endswith("1, although its high watermark was 2 and that of controller-2 1")


def test_what_ends_a_wait_is_new() -> None:
    """Shows that a Fetch which an append ends was not late for that append, nor one that a commit ends for that."""
    trace = Led()
    trace.more()
    trace.waited("append")
    trace.commit(4)
    trace.waited("commit", at=4)
    result = trace.result("Q22")
    assert (result.status, result.tested) == ("held", 2)


def test_an_office_that_ended() -> None:
    """Shows that a Fetch may outlive the office in which it came: what the node appends and commits in a later one, or
    another leader does, is not for it; what came before the end of its own office is."""
    trace = Led()
    trace.role(LEADER, 2, "unattached", -1, 3)
    trace.role(FOLLOWER, 2, "leader", 102)
    trace.more(2, FOLLOWER)
    trace.waited()
    trace.role(LEADER, 3, "leader", 101, 3)
    trace.more(3)
    trace.commit(4, 3)
    trace.waited()
    assert trace.result("Q22").status == "held"
    trace.waited(epoch=3, told=-1, at=4, known=ANY)
    (sentence,) = trace.sentences()
    assert sentence.endswith("at 4 wait in quorum epoch 3 after its high watermark had moved from -1 to 4")
    trace = Led()
    trace.more()
    trace.role(LEADER, 2, "unattached", -1, 4)
    trace.waited()
    assert len(trace.sentences()) == 1


def test_an_office_that_nobody_knows() -> None:
    """Shows that nothing is held against a leader whose election the trace lacks, or that was long ago, but what it
    says itself."""
    trace = Led()
    for epoch in range(2, 2 + waiting_fetches.OFFICES_KEPT):
        trace.role(LEADER, epoch, "leader", 101, 3)
    trace.waited(at=0)
    trace.waited(at=0, epoch=99)
    assert trace.result("Q22").status == "held"
    trace.waited(at=0, end=1, epoch=99)
    assert len(trace.sentences()) == 1


def test_a_high_watermark_that_its_sender_never_had() -> None:
    """Shows a Fetch that names more than the highest high watermark of its sender: that of its log, of an earlier
    process, or of a snapshot that it has taken, or was about to take."""
    trace = Led()
    moved = trace.high_watermark(FOLLOWER, 2, 1, METADATA_PARTITION, role="follower")
    trace.waited()
    trace.up(FOLLOWER, "controller")
    trace.high_watermark(FOLLOWER, 1, 1, METADATA_PARTITION, role="follower")
    trace.waited()
    trace.waited(known=ANY)
    assert trace.result("Q22").status == "held"
    late = trace.waited(known=3)
    (found,) = trace.result("Q22").violations
    assert found.events == [moved, late]
    assert found.sentence == (
        "controller-1 let the Fetch of controller-2 at 3 wait in quorum epoch 1, which named 3 as its high watermark, "
        "but that had come to 2"
    )
    for taken in (LogStart(METADATA_PARTITION, 3, "snapshot", 1), QFreeze("fetch", 3)):
        trace = Led()
        trace.high_watermark(FOLLOWER, 2, 1, METADATA_PARTITION, role="follower")
        trace.emit(FOLLOWER, taken)
        trace.waited(known=3)
        assert trace.result("Q22").status == "held"
        trace.waited(known=4)
        assert len(trace.sentences()) == 1
