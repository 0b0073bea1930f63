"""R9: the limit and the refusal of a late answer."""

from __future__ import annotations

import pytest

from actors.trace.events import ReplyPartition
from tests.unit.invariants.tiers.waiting import BROKER, Waiting, failed, found
from tests.unit.invariants.trace_builder import TP


def _three_of_five() -> Waiting:
    """Broker-1 has five records, of which three are committed; a request waits."""
    trace = Waiting()
    trace.lead(1)
    trace.replicate("a", "b", "c")
    trace.append(BROKER, "d", "e")
    trace.high_watermark(BROKER, 3)
    trace.park()
    return trace


def test_an_offset_below_the_limit() -> None:
    """Shows an offset that was committed when it was asked for, and nothing where there is none."""
    trace = _three_of_five()
    trace.answered(1, found(TP, 2, limit=3))
    trace.park(2)
    trace.answered(2, found(TP, -1, limit=3))
    assert trace.of("R9") == ("held", 2)


def test_an_offset_that_was_not_committed_when_it_was_asked_for() -> None:
    """Shows that a later high watermark does not count for who asked before, and that a broker may see the log end."""
    trace = _three_of_five()
    trace.high_watermark(BROKER, 5)
    trace.answered(1, found(TP, 3))
    assert trace.says("R9") == (
        "broker-1 answered list-offsets-1 with offset 3 of orders-0, but clients might see only offsets below 3 when "
        "the request arrived"
    )
    replica = _three_of_five()
    replica.answered(1, found(TP, 4), replica_id=2)
    assert replica.of("R9") == ("held", 1)


def test_a_refusal_is_not_forgotten() -> None:
    """Shows that nothing is no answer of a leader whose high watermark was below its epoch's start when it was asked,
    although it has passed that since. An error is."""
    trace = _three_of_five()
    trace.high_watermark(BROKER, 5)
    trace.answered(1, found(TP, -1, leader_epoch_start=5))
    assert "but its high watermark was 3, below the start of its leader epoch, 5, when" in trace.says("R9")
    refused = _three_of_five()
    refused.answered(1, failed(TP, 78))
    assert refused.of("R9")[0] == "vacuous"
    unclean = {"unclean.leader.election.enable": True}
    for silent in (Waiting(kip_207="off"), Waiting(kip_207="seed", config=unclean)):
        silent.lead(1)
        silent.park()
        silent.answered(1, found(TP, -1, leader_epoch_start=5))
        assert silent.of("R9") == ("held", 1)


def test_who_did_not_wait() -> None:
    """Shows that an answer at once is not judged by R9."""
    trace = _three_of_five()
    trace.answered(2, found(TP, 4))
    assert trace.of("R9") == ("vacuous", 0)


@pytest.mark.parametrize(("waits", "leads", "broken"), [(True, 1, False), (False, 1, True), (True, 2, False)])
def test_a_late_refusal_is_no_long_one(waits: bool, leads: int, broken: bool) -> None:
    """Shows that H2 judges a late refusal by the high watermark that the leader had when it was asked, and says nothing
    of a leader that has led anew since."""
    trace = Waiting()
    trace.lead(1)
    trace.replicate("a", "b", "c")
    trace.append(BROKER, "d", "e")
    trace.high_watermark(BROKER, 3)
    trace.lead(1, 1)
    if waits:
        trace.park()
    if leads == 2:
        trace.lead(1, 2)
    trace.high_watermark(BROKER, 5, epoch=leads)
    refused = ReplyPartition(TP, 78, timestamp=5, leader_epoch=leads, leader_epoch_start=5, high_watermark=5)
    trace.answered(1, refused)
    assert trace.of("H2")[0] == ("violated" if broken else "vacuous" if leads == 2 else "held")
