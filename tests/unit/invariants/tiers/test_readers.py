"""R3 to R6: reads that end, a queue that is full, threads that are fair, handlers that are free."""

from __future__ import annotations

import pytest

from actors.trace.events import ConfigChange, MetaImage, ReaderTaskPhase, ReplyPartition, RequestHandled, RequestPath
from tests.unit.invariants.tiers.waiting import BROKER, REJECTED, TIMED_OUT, Waiting, failed, found
from tests.unit.invariants.trace_builder import TP


def test_reads_that_end() -> None:
    """Shows a read that is finished, one that is cancelled in the queue, and one that expires in its thread."""
    trace = Waiting()
    trace.read(1)
    trace.task(2, "enqueue", 2)
    trace.task(2, "cancel", 2)
    trace.task(3, "enqueue", 3)
    trace.task(3, "start", 3)
    trace.task(3, "expire", 3)
    trace.task(3, "free", 3)
    trace.answered(3, failed(TP, TIMED_OUT))
    trace.task(2, "free", 2)
    assert trace.of("R3") == ("held", 3)


def test_a_read_that_goes_on_after_the_answer() -> None:
    """Shows that a request must not be answered while a read for it is wanted, whether it runs or waits."""
    for started in (True, False):
        trace = Waiting()
        trace.task(1, "enqueue")
        if started:
            trace.task(1, "start")
        trace.answered(1, failed(TP, TIMED_OUT))
        assert trace.says("R3") == (
            "broker-1 answered the ListOffsets of list-offsets-1, but did not cancel its read 1 of orders-0"
        )
    other = Waiting()
    other.task(1, "enqueue")
    other.answered(2)
    assert other.of("R3")[0] == "vacuous"


def test_a_thread_that_is_not_free_after_expiry() -> None:
    """Shows that an interrupted read must leave its thread within two seconds, unless the broker was stopped. One that
    was cancelled without an interrupt may take as long as it likes, and so may one for a Fetch."""
    endings: tuple[tuple[ReaderTaskPhase, str, str], ...] = (
        ("expire", "list-offsets", "violated"),
        ("cancel", "list-offsets", "held"),
        ("expire", "fetch", "held"),
    )
    for phase, kind, status in endings:
        trace = Waiting()
        trace.task(1, "enqueue", kind=kind)
        trace.task(1, "start", kind=kind)
        trace.task(1, phase, kind=kind)
        trace.after(2500)
        trace.emit(BROKER, MetaImage(1))
        assert trace.of("R3")[0] == status, phase
    stopped = Waiting()
    stopped.task(1, "enqueue")
    stopped.task(1, "start")
    stopped.task(1, "expire")
    stopped.paused("start")
    stopped.after(2500)
    stopped.paused("stop")
    assert stopped.result("R3").excused == {"clock": 1}


@pytest.mark.parametrize(
    "phases",
    [
        ("enqueue", "enqueue"),
        ("start",),
        ("enqueue", "finish"),
        ("enqueue", "start", "cancel", "finish"),
        ("enqueue", "expire", "start"),
        ("enqueue", "start", "free"),
        ("enqueue", "cancel", "expire"),
    ],
)
def test_a_life_that_no_read_has(phases: tuple[ReaderTaskPhase, ...]) -> None:
    """Shows that a read which begins or ends twice, or ends without a beginning, violates R3."""
    trace = Waiting()
    for phase in phases:
        trace.task(1, phase)
    assert trace.of("R3")[0] == "violated"


def test_a_new_process_has_no_reads() -> None:
    """Shows that numbers begin again with a new process, and that its predecessor's reads are over."""
    trace = Waiting()
    trace.up(BROKER)
    trace.task(1, "enqueue")
    trace.down(BROKER)
    trace.up(BROKER)
    trace.read(1)
    assert trace.of("R3") == ("held", 1)


def _fill(trace: Waiting) -> None:
    """Two reads in the threads, and two in the queue."""
    for number in (1, 2, 3, 4):
        trace.task(number, "enqueue", number)
        if number < 3:
            trace.task(number, "start", number)


def test_a_full_queue() -> None:
    """Shows the fifth read, which is rejected, and whose partition is answered with an error."""
    trace = Waiting()
    _fill(trace)
    trace.task(5, "reject", 5)
    trace.answered(5, failed(TP, REJECTED))
    assert trace.of("R4") == ("held", 3)


def test_a_queue_without_a_limit() -> None:
    """Shows that a fifth read which is taken in violates R4; one that is given up keeps its place until it leaves."""
    trace = Waiting()
    _fill(trace)
    trace.task(4, "cancel", 4)
    trace.task(5, "enqueue", 5)
    assert trace.says("R4").startswith(
        "broker-1 accepted a read of orders-0 while 2 reads ran and 2 waited, with 2 threads and 2 places"
    )
    dropped = Waiting()
    _fill(dropped)
    dropped.task(4, "cancel", 4)
    dropped.task(1, "finish", 1)
    dropped.task(3, "start", 3)
    dropped.task(2, "finish", 2)
    dropped.task(4, "free", 4)
    dropped.task(5, "enqueue", 5)
    assert dropped.of("R4")[0] == "held"


def test_a_read_is_rejected_where_there_is_room() -> None:
    """Shows that a rejection violates R4 where a thread is free, or a place in the queue, as they are at that time."""
    trace = Waiting()
    trace.task(1, "reject")
    assert trace.says("R4").startswith("broker-1 rejected a read of orders-0 while 0 reads ran and 0 waited")
    grown = Waiting()
    _fill(grown)
    _configured(grown, "3")
    grown.task(5, "reject", 5, threads=3)
    (_, found) = grown.result("R4").violations  # the first is what _configured takes in
    assert found.sentence.startswith("broker-1 rejected a read of orders-0 while 2 reads ran and 3 waited")


def _configured(trace: Waiting, threads: str | None, resource: str = "broker/1", image: int = 6) -> None:
    """The number of threads changes in the metadata log, and the broker takes that over in a step of its own."""
    trace.emit("controller-101", ConfigChange(5, 1, resource, "remote.log.reader.threads", threads))
    trace.cause = "controller-101/0/1"
    trace.emit(BROKER, MetaImage(image))
    trace.task(7, "enqueue", 7)
    trace.task(7, "cancel", 7)
    trace.cause = ""


@pytest.mark.parametrize(
    ("resource", "value", "image", "threads", "violated"),
    [
        ("broker/1", "3", 6, 3, False),
        ("broker/1", "3", 6, 2, True),
        ("broker/1", "3", 5, 2, False),
        ("broker/1", "3", 5, 3, True),
        ("broker/", "3", 6, 2, True),
        ("broker/2", "3", 6, 2, False),
        ("broker/1", None, 6, 2, False),
    ],
)
def test_a_pool_has_the_threads_of_its_setting(
    resource: str, value: str | None, image: int, threads: int, violated: bool
) -> None:
    """Shows that a pool has the threads which the broker's image of the metadata gives it; in the step that takes over
    a new image it may still have those of before."""
    trace = Waiting()
    _configured(trace, value, resource, image)
    trace.task(1, "enqueue", threads=threads)
    assert trace.of("R4")[0] == ("violated" if violated else "vacuous")
    assert not violated or trace.says("R4").startswith(
        f"the pool remote-log-reader of broker-1 has {threads} threads, with remote.log.reader.threads = "
    )


@pytest.mark.parametrize("answer", [found(TP, 3), failed(TP, TIMED_OUT)])
def test_a_rejected_read_is_an_error(answer: ReplyPartition) -> None:
    """Shows that a partition whose read was rejected must not wait for the end of its request's time."""
    trace = Waiting()
    _fill(trace)
    trace.task(5, "reject", 5)
    trace.answered(5, answer)
    assert trace.says("R4").endswith("for orders-0, whose read it had rejected")


def test_rejected_reads_of_fetches() -> None:
    """Shows that the rejected read of a Fetch says nothing of a later look-up on its connection."""
    trace = Waiting()
    _fill(trace)
    trace.task(5, "reject", 5, kind="fetch")
    trace.answered(5, found(TP, 3))
    assert trace.of("R4")[0] == "held"


def test_reads_are_taken_in_order() -> None:
    """Shows the order of arrival, from which those that were given up are left out."""
    trace = Waiting()
    _fill(trace)
    trace.task(1, "finish", 1)
    trace.task(3, "start", 3)
    assert trace.of("R6") == ("held", 1)
    trace.task(5, "enqueue", 5)
    trace.task(6, "enqueue", 6)
    trace.task(4, "cancel", 4)
    trace.task(2, "finish", 2)
    trace.task(4, "free", 4)
    trace.task(5, "start", 5)
    assert trace.of("R6") == ("held", 2)


def test_a_read_that_is_overtaken() -> None:
    """Shows that a thread which takes the newest read violates R6; other pools do not count."""
    trace = Waiting()
    _fill(trace)
    trace.task(1, "finish", 1)
    trace.task(4, "start", 4)
    assert trace.says("R6") == "a thread of broker-1 took read 4 although read 3 had waited longer"


def _handled(trace: Waiting, handler_ms: int, path: RequestPath = "parked") -> None:
    trace.emit(BROKER, RequestHandled("ListOffsets", "c", 1, 0, handler_ms, path, 0, 0, 0))


def test_handlers_are_free() -> None:
    """Shows a request that leaves its handler to wait, within the time of service and a little more."""
    trace = Waiting(config={"krift.request.service.us": 2000})
    _handled(trace, 2)
    _handled(trace, 252)
    assert trace.of("R5") == ("held", 2)
    _handled(trace, 253, "held")
    assert trace.says("R5") == "one ListOffsets occupied a request handler of broker-1 for 253 ms"


def test_handlers_without_the_proposal() -> None:
    """Shows that R5 does not hold without KIP-1075, and that what needs no remote storage is no test of it."""
    off = Waiting("off")
    _handled(off, 9000, "held")
    assert off.of("R5") == ("violated", 1)
    trace = Waiting()
    _handled(trace, 0, "at-once")
    assert trace.of("R5") == ("vacuous", 0)


def test_a_handler_of_a_broker_that_was_stopped() -> None:
    """Shows that a pause of the broker explains a handler that was busy during it, and no other one."""
    trace = Waiting()
    trace.after(1000)
    trace.paused("start")
    trace.after(1000)
    trace.paused("stop")
    _handled(trace, 900)
    assert trace.result("R5").excused == {"clock": 1}
    trace.after(2000)
    _handled(trace, 900)
    assert trace.of("R5")[0] == "violated"
