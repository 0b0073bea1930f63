"""R7: whether remote storage is asked."""

from __future__ import annotations

import pytest

from actors.trace.events import LogStart, ReplyPartition, TierSegment
from actors.trace.tier_events import FINISHED
from tests.unit.invariants.tiers.waiting import BROKER, Waiting, found
from tests.unit.invariants.trace_builder import TP

TIERED = {"orders": {"config": {"remote.storage.enable": True}}}


def _trace(kip_1075: str = "kafka") -> Waiting:
    """Broker-1 leads, with ten records of leader epoch 0."""
    trace = Waiting(kip_1075, topics=TIERED)
    trace.lead(1, 0)
    trace.append(BROKER, *"abcdefghij")
    return trace


def _known(
    trace: Waiting, segment: str, latest: int, state: str = FINISHED, end: int = 3, epochs: tuple[int, ...] = (0,)
) -> None:
    told = {str(epoch): place for place, epoch in enumerate(epochs)}
    trace.emit(BROKER, TierSegment(TP, segment, "known", state, 0, end, told, latest))


def test_remote_storage_is_asked_and_answered() -> None:
    """Shows an offset that a read found, and that an offset without a read violates R7, with or without a copy."""
    trace = _trace()
    trace.read(1)
    trace.answered()
    assert trace.of("R7") == ("held", 1)
    trace.answered(2)
    assert trace.says("R7").endswith("without asking remote storage, which Kafka asks every time")


def test_a_topic_that_an_operator_creates_anew() -> None:
    """Shows that a topic of the same name need not be tiered."""
    trace = _trace()
    trace.answered(1, found(f"{TP}@other", 3))
    assert trace.of("R7") == ("vacuous", 0)


@pytest.mark.parametrize(("latest", "status"), [(4, "held"), (5, "violated"), (9, "violated")])
def test_the_greatest_timestamp_decides_in_the_draft(latest: int, status: str) -> None:
    """Shows the draft's rules: a time that is later than all copies may be looked for in the local log alone; one that
    is not must be looked for in remote storage. The time asked for is 5."""
    trace = _trace("draft")
    _known(trace, "s1", 1)
    _known(trace, "s2", latest)
    trace.answered()
    assert trace.of("R7") == (status, 1)


def test_no_known_copy_is_no_maximum() -> None:
    """Shows the draft's third rule: as long as no finished copy is known, remote storage is asked first."""
    for state in ("", "COPY_SEGMENT_STARTED", "DELETE_SEGMENT_STARTED"):
        trace = _trace("draft")
        if state:
            _known(trace, "s1", 4)
            _known(trace, "s1", 4, state)
        trace.answered()
        assert "although it knew no copies there" in trace.says("R7"), state
    asked = _trace("draft")
    asked.read(1)
    asked.answered()
    assert asked.of("R7") == ("held", 1)


@pytest.mark.parametrize(
    ("end", "epochs", "status"), [(3, (0,), "violated"), (3, (0, 2), "held"), (3, (4,), "held"), (10, (0,), "held")]
)
def test_copies_of_other_logs(end: int, epochs: tuple[int, ...], status: str) -> None:
    """Shows that a copy counts whose last record is in the broker's log, of the same leader epoch, and no other one."""
    trace = _trace("draft")
    _known(trace, "s1", 4)
    _known(trace, "s2", 9, end=end, epochs=epochs)
    trace.answered()
    assert trace.of("R7")[0] == status


def test_copies_below_the_log_start() -> None:
    """Shows that who knows copies of its log, all of which are below its start, knows how late they are."""
    for latest, status in ((4, "held"), (9, "violated")):
        trace = _trace("draft")
        _known(trace, "s1", latest)
        trace.emit(BROKER, LogStart(TP, 6, "retention-ms", 0, 10))
        trace.answered(1, found(TP, 7))
        assert trace.of("R7")[0] == status


@pytest.mark.parametrize(("epochs", "why"), [((0,), ""), ((1,), "although it knew no copies there")])
def test_copies_from_before_the_log_began_anew(epochs: tuple[int, ...], why: str) -> None:
    """Shows that a log which began anew above a copy shares the leader epoch that it began with, and no other one."""
    trace = _trace("draft")
    _known(trace, "s1", 4, epochs=epochs)
    trace.emit(BROKER, LogStart(TP, 20, "out-of-range", -1, 10))
    trace.append(BROKER, *"klm", hole=10)
    trace.answered(1, found(TP, 21))
    assert trace.of("R7")[0] == ("violated" if why else "held")
    assert not why or trace.says("R7").endswith(why)


def test_what_was_known_when_it_was_decided() -> None:
    """Shows that a partition is judged by the copies that were known when it was decided, even if its request waits
    for another one."""
    for late, status in ((True, "held"), (False, "violated")):
        trace = _trace("draft")
        _known(trace, "s1", 4 if late else 9)
        trace.park(1, ["orders-1"], decided=[TP])
        trace.read(1, 1, "orders-1")
        if late:
            _known(trace, "s2", 9)
        trace.answered(1, found(TP, 3), found("orders-1", 3))
        assert trace.of("R7")[0] == status


def test_without_the_proposal() -> None:
    """Shows that remote storage is asked even where a handler waits for it."""
    trace = _trace("off")
    trace.answered()
    assert trace.of("R7")[0] == "violated"


def test_what_a_new_process_knows() -> None:
    """Shows that a broker that was started again has to learn of the copies anew."""
    trace = _trace("draft")
    trace.up(BROKER)
    _known(trace, "s1", 4)
    trace.down(BROKER)
    trace.up(BROKER)
    trace.answered()
    assert trace.of("R7")[0] == "violated"


def test_what_is_not_about_tiers() -> None:
    """Shows that other topics, special timestamps, errors, and nothing found say nothing about R7."""
    other = Waiting()
    other.answered()
    assert other.of("R7")[0] == "vacuous"
    trace = _trace()
    trace.answered(1, ReplyPartition(TP, 0, 3, timestamp=-1, leader_epoch=0))
    trace.answered(2, ReplyPartition(TP, 7, -1, timestamp=5, leader_epoch=0))
    trace.answered(3, found(TP, -1))
    assert trace.of("R7")[0] == "vacuous"
