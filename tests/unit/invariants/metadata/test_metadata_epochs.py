"""M3, M6 and M7: what metadata epochs promise."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import (
    CommitInvoke,
    CommittedReturn,
    ConsPos,
    CtlFault,
    ErrorSeen,
    MetaImage,
    MetaMint,
    MetaView,
    MetaWait,
    NodeUp,
)
from orchestrator.invariants.folds.conclusion import InvariantResult
from tests.unit.invariants.trace_builder import TP, TraceBuilder

CLIENT = "consumer-1"
SEED: dict[str, Any] = {
    "features": {"kip-232": "seed"},
    "groups": {"g": {"members": [CLIENT], "partitions": [TP]}},
}


class Counted(TraceBuilder):
    """A cluster that counts metadata epochs."""

    def __init__(self, **profile: Any) -> None:
        super().__init__(**{**SEED, **profile})
        self.emit(CLIENT, NodeUp("consumer", -1, "", False, False))

    def mints(self, epoch: int, controller: int = 1, controller_epoch: int = 1, digest: int = 7) -> str:
        """A controller mints one."""
        return self.emit(f"controller-{controller}", MetaMint(epoch, controller_epoch, digest))

    def view(self, epoch: int, accepted: bool = True) -> str:
        """The client is told."""
        body = MetaView("broker-1", {}, [], metadata_epoch=epoch, metadata_accepted=accepted)
        return self.emit(CLIENT, body)

    def looks_up(self, offset: int, epoch: int, outcome: Any = "ok") -> str:
        """It is told what is committed."""
        return self.emit(CLIENT, CommittedReturn("op", outcome, 0, "g", [TP], {TP: [offset, 0, epoch]}))

    def waits(self, epoch: int, has: int, reached: bool = True) -> str:
        """A wait for metadata ends."""
        return self.emit(CLIENT, MetaWait(epoch, has, reached))

    def seeks(self, offset: int, epoch: int) -> str:
        """Its application goes back to what it has kept."""
        return self.emit(CLIENT, ConsPos(TP, -1, offset, -1, "seek", metadata_epoch=epoch))


# ---- M3 ---------------------------------------------------------------------------------------------------------


def test_epochs_rise_from_controller_to_controller() -> None:
    """Shows that M3 is held, tested, where each epoch is minted once and clients are told of minted ones."""
    trace = Counted()
    trace.view(-1)
    trace.mints(1)
    trace.mints(2)
    trace.view(2)
    trace.mints(3, 2, 2)
    trace.view(2, accepted=False)
    assert (trace.result("M3").status, trace.result("M3").tested) == ("held", 4)
    assert TraceBuilder(features={"kip-232": "kafka"}).result("M3").why == "kip-232 is not seed"


@pytest.mark.parametrize(
    ("mints", "says"),
    [
        ([(5, 1, 1, 7), (5, 2, 2, 8)], "which controller-1 had minted for another cluster in controller epoch 1"),
        ([(5, 1, 1, 7), (5, 1, 1, 7)], "which controller-1 had minted in controller epoch 1"),
        ([(5, 1, 1, 7), (4, 1, 1, 7)], "after 5"),
        ([(5, 1, 1, 7), (4, 2, 2, 7)], "after 5 in controller epoch 1"),
        ([(5, 2, 2, 7), (6, 1, 1, 7)], "although 5 was minted in controller epoch 2"),
    ],
)
def test_an_epoch_that_is_minted_wrongly(mints: list[tuple[int, int, int, int]], says: str) -> None:
    """Shows each way in which minting violates M3; and that a controller's disk that was wiped before excuses it."""
    trace = Counted()
    ids = [trace.mints(epoch, who, term, digest) for epoch, who, term, digest in mints]
    (finding,) = trace.result("M3").violations
    assert finding.sentence.endswith(f", {says}")
    assert finding.events == ids
    for target, excused in (("controller-3", {"wiped": 1}), ("broker-3", {})):
        trace = Counted()
        trace.emit("driver", CtlFault("f", "wipe", "start", [target], {}))
        for epoch, who, term, digest in mints:
            trace.mints(epoch, who, term, digest)
        assert trace.result("M3").excused == excused


def test_clients_are_told_of_no_other_epoch() -> None:
    """Shows that a metadata epoch that nobody has minted violates M3."""
    trace = Counted()
    trace.mints(1)
    trace.view(2)
    assert trace.result("M3").violations[0].sentence == (
        "broker-1 gave consumer-1 metadata epoch 2, but no controller has minted it"
    )


# ---- M6 ---------------------------------------------------------------------------------------------------------


def test_a_broker_does_not_go_back() -> None:
    """Shows that a broker which tells of what a former controller sent, after its successor's, violates M3, whoever
    hears of it first; two updates of one controller may come in any order, and two lives of a broker differ."""
    for first, second, violated in ((1, 2, 0), (2, 1, 0), (1, 3, 0), (3, 1, 1)):
        for late in (False, True):
            trace = Counted()
            trace.mints(1)
            trace.mints(2)
            trace.mints(3, 2, 2)
            told = [(trace.emit("broker-1", MetaImage(at)), epoch) for at, epoch in ((10, first), (11, second))]
            for cause, epoch in reversed(told) if late else told:
                trace.cause = cause
                trace.view(epoch)
            assert trace.result("M3").violated == violated, (first, second, late)
    again = Counted()
    again.mints(1)
    again.mints(2, 2, 2)
    for epoch in (2, 1):
        again.cause = again.up("broker-1")
        again.view(epoch)
    assert again.result("M3").violated == 0


def test_a_commit_has_the_metadata_epoch_of_its_consumer() -> None:
    """Shows that a commit with another metadata epoch than that of the answer that the member took over last violates
    M6, and that -1 is right until it has taken one over, and again after a restart."""

    def commits(epoch: int, *views: tuple[int, bool], again: bool = False) -> InvariantResult:
        trace = Counted()
        for seen, accepted in views:
            trace.view(seen, accepted=accepted)
        if again:
            trace.up(CLIENT, "consumer")
        offsets = {"bills-0": [3, -1, epoch], TP: [10, -1, epoch]}
        trace.emit(CLIENT, CommitInvoke("op", "g", CLIENT, 1, offsets, "sync"))
        return trace.result("M6")

    views = ((5, True), (7, True), (6, False), (-1, True))
    for epoch, violated in ((7, 0), (5, 1), (6, 1), (-1, 1)):
        assert commits(epoch, *views).violated == violated, epoch
    assert commits(-1).violated == commits(-1, *views, again=True).violated == 0
    assert commits(7, *views, again=True).violated == 1
    assert commits(-1, *views).violations[0].sentence == (
        "consumer-1 commits bills-0 with metadata epoch -1 while its own metadata has epoch 7"
    )


def test_a_consumer_waits_for_the_metadata_of_a_commit() -> None:
    """Shows that M6 is held, tested, when the first poll of a partition comes with metadata that is new enough; and
    that a position without an epoch, or a failed look-up, asks for nothing."""
    trace = Counted()
    trace.view(5)
    trace.looks_up(10, 7)
    trace.view(6)
    trace.view(9, accepted=False)
    trace.view(7)
    trace.polled(CLIENT, (10, "a"))
    trace.looks_up(10, -1)
    trace.polled(CLIENT, (11, "b"))
    trace.looks_up(10, 9, "fail")
    trace.polled(CLIENT, (12, "c"))
    assert (trace.result("M6").status, trace.result("M6").tested) == ("held", 1)


@pytest.mark.parametrize("how", ["poll", "reset", "error"])
def test_a_consumer_that_does_not_wait(how: str) -> None:
    """Shows that whatever proves a Fetch of the partition with older metadata violates M6; what was refused does not
    count."""
    trace = Counted()
    trace.view(5)
    by = trace.looks_up(10, 7)
    trace.view(7, accepted=False)
    if how == "poll":
        event = trace.polled(CLIENT, (10, "a"))
    elif how == "reset":
        event = trace.moved(CLIENT, 0, "reset", 10)
    else:
        event = trace.emit(CLIENT, ErrorSeen(TP, "Fetch", 12, 6, "broker-1"))
    (finding,) = trace.result("M6").violations
    assert finding.events == [by, event]
    assert finding.sentence.endswith("committed with metadata epoch 7 while its own metadata had epoch 5")


def test_what_else_ends_the_wait() -> None:
    """Shows that an application that seeks, or a new incarnation, need not wait."""
    trace = Counted()
    trace.looks_up(10, 7)
    trace.moved(CLIENT, 3, "seek")
    trace.polled(CLIENT, (3, "a"))
    trace.looks_up(10, 7)
    trace.emit(CLIENT, ErrorSeen(TP, "ListOffsets", 7, 6, "broker-1"))
    trace.down(CLIENT)
    trace.up(CLIENT, "consumer")
    trace.polled(CLIENT, (3, "a"))
    assert trace.result("M6").status == "vacuous"


# ---- M7 ---------------------------------------------------------------------------------------------------------


def test_an_application_waits_before_it_seeks() -> None:
    """Shows that M7 is held, tested, when what was kept with a position was waited for; and that it asks nothing of one
    that was kept without an epoch."""
    trace = Counted()
    trace.view(5)
    trace.polled(CLIENT, (9, "a"))
    trace.down(CLIENT)
    trace.up(CLIENT, "consumer")
    trace.view(5)
    trace.waits(6, 5, reached=False)
    trace.view(6)
    trace.waits(6, 6)
    trace.seeks(10, 6)
    trace.seeks(77, -1)
    trace.moved(CLIENT, 3, "seek")
    assert (trace.result("M7").status, trace.result("M7").tested) == ("held", 3)


def test_an_application_that_does_not_wait() -> None:
    """Shows that a seek with older metadata violates M7, also if what was kept is older than what it knew when it came
    there, and so does a seek without a wait, and a wait that ends with a wrong word."""
    trace = Counted()
    trace.view(5)
    trace.seeks(10, 6)
    assert trace.result("M7").violations[0].sentence.endswith("but its metadata has epoch 5")
    trace = Counted()
    trace.view(6)
    trace.seeks(10, 6)
    assert trace.result("M7").violations[0].sentence.endswith("but it has waited for no metadata epoch")
    trace = Counted()
    trace.view(7)
    by = trace.polled(CLIENT, (9, "a"))
    trace.down(CLIENT)
    trace.up(CLIENT, "consumer")
    trace.view(5)
    trace.waits(5, 5)
    event = trace.seeks(10, 5)
    (finding,) = trace.result("M7").violations
    assert finding.events == [by, event]
    for has, reached in ((5, True), (6, False)):
        trace = Counted()
        trace.view(has)
        trace.waits(6, has, reached)
        assert trace.result("M7").violated == 1
