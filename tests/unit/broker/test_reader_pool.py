"""The threads that read from remote storage: who gets one, who waits, who is refused, and what becomes of reads that
are given up."""

from __future__ import annotations

from typing import ClassVar

from actors.broker.broker_node import BrokerNode
from actors.broker.remote_log.reader_pool import ReaderPool
from actors.broker.remote_log.reader_task import ReaderTask, TaskKind
from actors.broker.turn import Turn
from actors.node.effects import Record
from actors.node.network_client import Ended
from actors.node.step import Step
from actors.trace.events import TierTask

Life = list[tuple[int, str]]


class Read(ReaderTask):
    """A read that ends when the test says so."""

    over: bool = False
    handed_over: bool = False

    kind: ClassVar[TaskKind] = "fetch"

    def advance(self, turn: Turn, purpose: str) -> bool:
        return self.over

    def on_ended(self, turn: Turn, ended: Ended) -> None:
        raise AssertionError("it asks nobody")

    def on_done(self, turn: Turn) -> None:
        self.handed_over = True


def _turn() -> Turn:
    return Turn(Step(0), BrokerNode())


def _read(number: int) -> Read:
    return Read(number, f"client>{number}", number, "orders-0", "orders-0")


def _life(turn: Turn) -> Life:
    """(task, phase) of everything that was recorded."""
    events = [each.event for each in turn.step.effects if isinstance(each, Record)]
    return [(event.task, event.phase) for event in events if isinstance(event, TierTask)]


def _full(threads: int, reads: int) -> tuple[Turn, ReaderPool, list[Read]]:
    """A pool that has got so many reads, with a turn that has recorded nothing of that."""
    pool, tasks = ReaderPool("reader", threads, 10), [_read(number) for number in range(1, reads + 1)]
    for task in tasks:
        assert pool.submit(_turn(), task)  # type: ignore[arg-type]  # a kind of the test's own
    return _turn(), pool, tasks


def _numbers(pool: ReaderPool) -> tuple[list[int], list[int]]:
    return sorted(task.number for task in pool.running.values()), [task.number for task in pool.queue]


def test_a_full_queue_refuses_and_changes_nothing() -> None:
    """Shows that of two threads and a queue of one the fourth read is rejected at once, and leaves the others alone."""
    pool, turn = ReaderPool("reader", 2, 1), _turn()
    taken = [pool.submit(turn, _read(number)) for number in (1, 2, 3, 4)]  # type: ignore[arg-type]
    assert taken == [True, True, True, False]
    assert _numbers(pool) == ([1, 2], [3])
    assert _life(turn)[-2:] == [(3, "enqueue"), (4, "reject")]


def test_reads_start_in_the_order_of_their_arrival() -> None:
    """Shows that a thread that has ended its read hands its result over and takes the one that waits longest."""
    turn, pool, tasks = _full(1, 3)
    tasks[0].over = True
    pool.poll(turn)
    assert tasks[0].handed_over
    assert _numbers(pool) == ([2], [3])
    assert _life(turn) == [(1, "finish"), (2, "start")]


def test_an_interrupted_read_frees_its_thread_at_once() -> None:
    """Shows that expiry interrupts a read that runs: its connection to the store is given up, and the next one runs."""
    turn, pool, tasks = _full(1, 2)
    pool.give_up(turn, 1, expired=True, interrupt=True)
    assert _life(turn) == [(1, "expire"), (1, "free"), (2, "start")]
    assert turn.net.renewed == {"remote-read-reader-0": 1}
    assert not tasks[0].handed_over


def test_a_cancelled_read_goes_on_to_its_end() -> None:
    """Shows that a read that is cancelled without an interrupt keeps its thread until its end, and tells nobody."""
    turn, pool, tasks = _full(1, 2)
    pool.give_up(turn, 1, expired=False, interrupt=False)
    pool.poll(turn)
    assert _life(turn) == [(1, "cancel")]
    tasks[0].over = True
    pool.poll(turn)
    assert _life(turn)[1:] == [(1, "free"), (2, "start")]
    assert not tasks[0].handed_over


def test_a_read_that_is_given_up_in_the_queue_keeps_its_place() -> None:
    """Shows Java's ThreadPoolExecutor: a cancelled task fills the queue until a thread comes to it, which drops it."""
    turn, pool, tasks = _full(1, 3)
    pool.max_pending = 2
    pool.give_up(turn, 2, expired=True, interrupt=True)
    assert not pool.submit(turn, _read(4))  # type: ignore[arg-type]
    tasks[0].over = True
    pool.poll(turn)
    assert _life(turn) == [(2, "expire"), (4, "reject"), (1, "finish"), (2, "free"), (3, "start")]


def test_a_read_is_given_up_once_and_not_when_it_is_done() -> None:
    """Shows that a second cancellation, or one that comes after the end, does nothing."""
    turn, pool, tasks = _full(1, 1)
    pool.give_up(turn, 1, expired=False, interrupt=False)
    pool.give_up(turn, 1, expired=True, interrupt=True)
    tasks[0].over = True
    pool.poll(turn)
    pool.give_up(turn, 1, expired=True, interrupt=True)
    assert _life(turn) == [(1, "cancel"), (1, "free")]


def test_a_pool_that_grows_takes_what_waits() -> None:
    """Shows that new threads begin at once with what is in the queue."""
    turn, pool, _ = _full(1, 4)
    pool.resize(turn, 3)
    assert _numbers(pool) == ([1, 2, 3], [4])


def test_a_pool_that_shrinks_ends_what_it_is_at() -> None:
    """Shows that of three threads two go away when their reads have ended, and take no more."""
    turn, pool, tasks = _full(3, 4)
    pool.resize(turn, 1)
    assert _numbers(pool) == ([1, 2, 3], [4])
    tasks[0].over = tasks[1].over = True
    pool.poll(turn)
    assert _numbers(pool) == ([3], [4])
    tasks[2].over = True
    pool.poll(turn)
    assert _numbers(pool) == ([4], [])


def test_threads_have_connections_of_their_own() -> None:
    """Shows that no two reads that run at the same time share a connection to the store, whoever came and went."""
    turn, pool, tasks = _full(2, 3)
    tasks[0].over = True
    pool.poll(turn)
    assert {thread: task.number for thread, task in pool.running.items()} == {1: 2, 0: 3}
    assert [pool.purpose(thread) for thread in pool.running] == ["remote-read/reader/1", "remote-read/reader/0"]
