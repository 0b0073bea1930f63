"""Work that is shared out among processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.errors import InputError, Mistake, RunError
from orchestrator.files import NotWritten
from orchestrator.interrupts import Interrupts
from orchestrator.workers import AHEAD, Workers


def test_results_come_in_the_order_of_the_pieces(tmp_path: Path) -> None:
    """Shows that a piece whose result comes last does not change the order, and that more than one process works: the
    first piece waits for what only the second one makes."""
    made = tmp_path / "made"

    def work(piece: int) -> tuple[int, int]:
        if piece == 0:
            os.mkfifo(made)
            made.read_text()
        if piece == 1:
            while not made.exists():
                os.sched_yield()
            made.write_text("go on")
        return piece, os.getpid()

    with Workers(work, 2) as workers:
        found = list(workers.map(range(9)))
    assert [piece for piece, _ in found] == list(range(9))
    assert os.getpid() not in {process for _, process in found}
    assert found[0][1] != found[1][1]


def test_pieces_are_taken_as_they_are_needed() -> None:
    """Shows that no more are begun than a bound beyond the one that is waited for."""
    taken: list[int] = []

    def pieces() -> Iterator[int]:
        for number in range(100_000):
            taken.append(number)
            yield number

    with Workers(lambda piece: piece, 1) as workers:
        found = workers.map(pieces())
        assert next(found) == 0
        assert len(taken) <= AHEAD + 1


def test_results_that_wait_for_a_slow_one_are_few(tmp_path: Path) -> None:
    """Shows the same where the first piece takes long: the other process stops when so many results wait for it."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    taken: list[int] = []
    looked: list[int] = []

    def work(piece: int) -> int:
        if piece == 0:
            gate.read_text()
        return piece

    def pieces() -> Iterator[int]:
        for number in range(200):
            taken.append(number)
            yield number

    def look() -> None:
        """Let the first piece go on when nothing was begun between two looks."""
        looked.append(len(taken))
        if len(looked) > 3 and len(set(looked[-3:])) == 1 and gate.exists():
            assert len(taken) <= 2 * AHEAD
            gate.write_text("go on")
            gate.unlink()

    with Workers(work, 2) as workers:
        assert list(workers.map(pieces(), look)) == list(range(200))
    assert not gate.exists()


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (ValueError("no such number"), ValueError, None),
        (RunError("it broke"), RunError, 4),
        (InputError([Mistake("a.yaml", 3, "", "wrong")]), RunError, 4),
        (NotWritten(Path("a"), OSError(28, "full")), RunError, 4),
    ],
    ids=["as it is", "ours", "does not pickle", "cannot be made again"],
)
def test_what_is_raised_comes_in_its_place(error: Exception, kind: type[Exception], code: int | None) -> None:
    """Shows an exception in the order of the results, with its words, whether it bears pickling or not."""

    def work(piece: int) -> int:
        if piece == 2:
            raise error
        return piece

    with Workers(work, 2) as workers:
        found = workers.map(range(4))
        assert [next(found), next(found)] == [0, 1]
        with pytest.raises(kind) as raised:
            next(found)
    assert type(raised.value) is kind
    assert str(raised.value) == str(error)
    assert code is None or raised.value.exit_code == code  # type: ignore[attr-defined]


def test_a_process_that_dies_is_told() -> None:
    """Shows an error in place of a wait without end."""
    with Workers(lambda piece: os.kill(os.getpid(), signal.SIGKILL), 2) as workers:
        with pytest.raises(RunError, match="a process that did runs ended with -9"):
            list(workers.map([1]))


def test_an_interrupt_ends_what_is_being_done(tmp_path: Path) -> None:
    """Shows that a worker hears of it in what can be interrupted, gives its result, and begins nothing else; and that a
    signal to its group does not reach it."""
    begun = tmp_path / "begun"
    os.mkfifo(begun)

    def work(piece: int) -> str:
        with Interrupts() as interrupts:
            begun.write_text("here")
            while not interrupts.asked:
                os.sched_yield()
        return f"interrupted {piece}"

    told = []

    def tick() -> None:
        if not told:
            told.append(begun.read_text())
            workers.interrupt()

    with Workers(work, 1) as workers:
        assert list(workers.map(range(5), tick)) == ["interrupted 0"]
    assert told == ["here"]


def test_no_piece_is_begun_after_a_stop() -> None:
    """Shows that what had begun is finished, and gives its results."""
    with Workers(lambda piece: piece, 2) as workers:
        found = workers.map(range(100))
        assert next(found) == 0
        workers.stop()
        rest = list(found)
    assert rest == list(range(1, len(rest) + 1))
    assert len(rest) < 2 * AHEAD + 2


def test_they_end_with_their_parent(tmp_path: Path) -> None:
    """Shows that no process stays when the one that shares out work is killed in the middle of it."""
    alive, told = tmp_path / "alive", os.pipe()
    os.mkfifo(alive)
    parent = os.fork()
    if parent == 0:

        def work(piece: int) -> None:
            os.write(told[1], b"%d\n" % os.getpid())
            alive.open("w")  # until somebody reads, which nobody does
            os._exit(1)

        with Workers(work, 2) as workers:
            list(workers.map(range(2)))
        os._exit(1)
    os.close(told[1])
    workers_of_it = b""
    while workers_of_it.count(b"\n") < 2:
        workers_of_it += os.read(told[0], 100)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert os.read(told[0], 1) == b"", "the last end of the pipe is closed when the last process is gone"
    os.close(told[0])
