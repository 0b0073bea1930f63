"""R14: a Fetch that waits for remote storage is answered when its reads are done, or its time is over."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import (
    ConfigChange,
    CtlFault,
    MetaImage,
    PartAssume,
    PartRemove,
    ReaderTaskPhase,
    RemoteFetchEnd,
)
from chaos.faults.clock import SkewedClock
from chaos.faults.process import NodePause
from tests.unit.invariants.tiers.waiting import BROKER, Waiting, connection
from tests.unit.invariants.trace_builder import TP

MAX_WAIT = "remote.fetch.max.wait.ms"
OTHER = "orders-1"


class RemoteFetches(Waiting):
    """Broker-1, which has taken over its settings, and lets Fetches wait for 300 ms."""

    def __init__(self, wait_ms: int = 300) -> None:
        super().__init__(config={MAX_WAIT: wait_ms})
        self.up(BROKER)
        self.image(1)

    def image(self, offset: int) -> None:
        """The broker takes metadata over, in a step of its own."""
        self.cause = f"image {offset}"
        self.emit(BROKER, MetaImage(offset))
        self.cause = ""

    def read_on(self, number: int, *phases: ReaderTaskPhase, tp: str = TP, request: int = 1) -> None:
        """A read goes on."""
        for phase in phases:
            self.task(number, phase, request, tp, kind="fetch")

    def ended(self, expired: bool = False, request: int = 1) -> RemoteFetches:
        """The Fetch was answered."""
        self.emit(BROKER, RemoteFetchEnd(connection(request), request, expired))
        return self


def _answered(after_ms: int, expired: bool, *, wait_ms: int = 300) -> RemoteFetches:
    """A Fetch whose only read ends, or is given up, when it is answered."""
    trace = RemoteFetches(wait_ms)
    trace.read_on(1, "enqueue", "start")
    trace.after(after_ms - 2)
    trace.read_on(1, "expire" if expired else "finish")
    return trace.ended(expired)


def test_reads_that_end_in_time_and_one_that_does_not() -> None:
    """Shows a Fetch that is answered with its last read, one that is answered when its time is over, with a part of its
    reads, and one of which all reads are rejected."""
    trace = RemoteFetches()
    trace.read_on(1, "enqueue", "start")
    trace.read_on(2, "enqueue", tp=OTHER)
    trace.after(100)
    trace.read_on(1, "finish")
    trace.read_on(2, "start", tp=OTHER)
    trace.after(100)
    trace.read_on(2, "finish", tp=OTHER)
    trace.ended()
    trace.read_on(3, "enqueue", "start", request=2)
    trace.read_on(4, "enqueue", tp=OTHER, request=2)
    trace.after(200)
    trace.read_on(3, "finish", request=2)
    trace.read_on(4, "start", tp=OTHER, request=2)
    trace.after(97)
    trace.read_on(4, "expire", tp=OTHER, request=2)
    trace.ended(expired=True, request=2)
    trace.read_on(4, "free", tp=OTHER, request=2)
    trace.read_on(5, "reject", request=3)
    trace.ended(request=3)
    assert trace.of("R14") == ("held", 3)


@pytest.mark.parametrize(
    ("after_ms", "expired", "status"),
    [
        (300, True, "held"),
        (298, True, "held"),
        (302, True, "held"),
        (296, True, "violated"),
        (304, True, "violated"),
        (500, True, "violated"),
        (200, False, "held"),
        (304, False, "violated"),
    ],
)
def test_the_time_of_a_fetch(after_ms: int, expired: bool, status: str) -> None:
    """Shows that a Fetch ends at its time to the tick, not before it without its reads, and not after it."""
    assert _answered(after_ms, expired).of("R14")[0] == status


def test_a_live_broker_may_take_a_moment() -> None:
    """Shows that real processes may answer up to two seconds later, and not before the time is over."""
    for after_ms, status in ((290, "violated"), (2200, "held"), (2400, "violated")):
        trace = _answered(after_ms, expired=True)
        trace.live()
        assert trace.of("R14")[0] == status, after_ms


def test_the_sentence_of_a_wrong_time() -> None:
    """Shows that it names who waited, for how long, and the setting."""
    assert _answered(200, expired=True).says("R14") == (
        "broker-1 answered the remote Fetch of list-offsets-1 after 200 ms, with remote.fetch.max.wait.ms = 300"
    )


def test_a_fetch_that_is_not_answered() -> None:
    """Shows that R14 does not wait for an answer that does not come, but for one of a process that has died, or whose
    clock stood still."""
    for befalls, status in (("", "violated"), ("death", "vacuous"), ("pause", "vacuous")):
        trace = RemoteFetches()
        trace.read_on(1, "enqueue", "start")
        if befalls == "death":
            trace.down(BROKER)
            trace.up(BROKER)
        elif befalls == "pause":
            trace.paused("start")
        trace.after(400)
        trace.emit("broker-2", MetaImage(3))
        assert trace.of("R14")[0] == status, befalls
    silent = RemoteFetches()
    silent.read_on(1, "enqueue", "start", "finish")
    silent.after(400)
    silent.emit("broker-2", MetaImage(3))
    assert silent.says("R14") == (
        "broker-1 had not answered the remote Fetch of list-offsets-1 2 ms after remote.fetch.max.wait.ms = 300"
    )


@pytest.mark.parametrize("kind", [NodePause.kind, SkewedClock.kind])
def test_a_broker_without_a_right_clock(kind: str) -> None:
    """Shows that an answer at a wrong time is excused if a fault stopped the broker, or changed its clock, while the
    Fetch waited, and not if that was over before, or befell another node."""
    for when, whom, status in (
        ("before", BROKER, "violated"),
        ("within", BROKER, "excused"),
        ("around", BROKER, "excused"),
        ("within", "broker-2", "violated"),
    ):
        trace = RemoteFetches()
        fault = _fault(kind, whom)
        if when != "within":
            trace.emit("driver", fault("start"))
        if when == "before":
            trace.emit("driver", fault("end"))
        trace.read_on(1, "enqueue", "start")
        if when == "within":
            trace.emit("driver", fault("start"))
            trace.emit("driver", fault("end"))
        trace.after(600)
        trace.read_on(1, "expire")
        trace.ended(expired=True)
        assert trace.of("R14")[0] == status, (when, whom)


def _fault(kind: str, node: str) -> Any:
    return lambda phase: CtlFault("f1", kind, phase, [node], {})


def test_no_clock_excuses_a_fetch_that_waits_for_nothing() -> None:
    """Shows that a Fetch whose reads have all ended, or were rejected, must not wait for its time, nor keep its reads
    after that, whatever befell the clock."""
    for phases in (("enqueue", "start", "finish"), ("reject",)):
        trace = RemoteFetches()
        trace.paused("start")
        trace.read_on(1, *phases)
        trace.paused("end")
        trace.after(300)
        trace.ended(expired=True)
        assert trace.says("R14") == (
            "broker-1 answered the remote Fetch of list-offsets-1 only when its time was over, although all its reads "
            "had ended"
        )
    kept = RemoteFetches()
    kept.paused("start")
    kept.read_on(1, "enqueue", "start")
    kept.after(300)
    kept.ended(expired=True)
    assert kept.says("R14") == (
        "broker-1 answered the remote Fetch of list-offsets-1 as its time was over, but did not give up its read 1 of "
        "orders-0"
    )


@pytest.mark.parametrize("cancelled", [True, False])
def test_an_answer_with_the_first_read_alone(cancelled: bool) -> None:
    """Shows that a Fetch must not be answered while one of its reads is open, whether it is cancelled or goes on."""
    trace = RemoteFetches()
    trace.read_on(1, "enqueue", "start")
    trace.read_on(2, "enqueue", tp=OTHER)
    trace.read_on(1, "finish")
    if cancelled:
        trace.read_on(2, "cancel", tp=OTHER)
    assert trace.ended().says("R14") == (
        "broker-1 answered the remote Fetch of list-offsets-1 before its read 2 of orders-1 had ended"
    )


@pytest.mark.parametrize(
    ("lost", "tp", "status"),
    [
        ("follows", OTHER, "held"),
        ("follows", TP, "violated"),
        ("follows before", OTHER, "violated"),
        ("removed", OTHER, "held"),
        ("removed before", OTHER, "held"),
        ("removed", TP, "violated"),
    ],
)
def test_a_partition_that_is_lost(lost: str, tp: str, status: str) -> None:
    """Shows that a Fetch ends when the broker has another role of a partition whose read is open, or when its topic was
    removed, of which the broker may learn late; not by a partition that was read before, or a role from before."""
    trace = RemoteFetches()

    def lose() -> None:
        if "removed" in lost:
            trace.emit("controller-101", PartRemove(tp, 9, 1, "id"))
        else:
            trace.emit(BROKER, PartAssume(tp, "follower", 2, 1, 1, 9, -1, 5, 10))

    if "before" in lost:
        lose()
    trace.read_on(1, "enqueue", "start")
    trace.read_on(2, "enqueue", tp=OTHER)
    trace.read_on(1, "finish")
    if "before" not in lost:
        lose()
    trace.read_on(2, "cancel", tp=OTHER)
    assert trace.ended().of("R14")[0] == status


def test_a_setting_that_changes() -> None:
    """Shows that the time goes by the setting that the broker has taken over when the Fetch begins to wait: its own
    before that of all brokers. In the step in which it takes one over it may go by either, and before it has taken any
    over nothing is known."""
    for resource, asked_ms in (("broker/1", 100), ("broker/", 100), ("broker/2", 300)):
        trace = RemoteFetches()
        trace.emit("controller-101", ConfigChange(5, 1, resource, MAX_WAIT, "100"))
        trace.read_on(1, "enqueue", "start")
        trace.after(298)
        trace.read_on(1, "expire")
        trace.ended(expired=True)
        trace.image(6)
        trace.read_on(2, "enqueue", "start", request=2)
        trace.after(asked_ms - 2)
        trace.read_on(2, "expire", request=2)
        trace.ended(expired=True, request=2)
        assert trace.of("R14") == ("held", 2), resource
    taking = RemoteFetches()
    taking.emit("controller-101", ConfigChange(5, 1, "broker/", MAX_WAIT, "100"))
    taking.cause = "image 6"
    taking.emit(BROKER, MetaImage(6))
    taking.read_on(1, "enqueue", "start")
    taking.cause = ""
    taking.after(298)
    taking.read_on(1, "expire")
    assert taking.ended(expired=True).of("R14")[0] == "held"
    new = RemoteFetches()
    new.down(BROKER)
    new.up(BROKER)
    new.read_on(1, "enqueue", "start")
    new.after(700)
    new.read_on(1, "expire")
    assert new.ended(expired=True).of("R14")[0] == "held"


def test_what_is_no_remote_fetch() -> None:
    """Shows that look-ups of offsets, and the end of a Fetch that nobody saw begin, test nothing."""
    trace = RemoteFetches()
    trace.read(1)
    trace.ended(expired=True)
    trace.read_on(2, "enqueue", "start", request=2)
    trace.ended(expired=True, request=3)
    assert trace.of("R14")[0] == "vacuous"
