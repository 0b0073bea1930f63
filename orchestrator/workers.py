"""Work shared out among processes of this machine, one a core: pieces of work, whose results come in their order.

The processes are forked, so that they begin at once with all that is imported. They end with this process, however it
does, and have no part in the terminal's signals: an interrupt reaches them through ``interrupt``.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

import msgspec

from chaos.errors import RunError

PieceT = TypeVar("PieceT")
ResultT = TypeVar("ResultT")

TICK_S = 0.25
AHEAD = 8
"""Results that may wait for one before them, for each process."""
END_S = 10.0


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Failed(msgspec.Struct, frozen=True):
    """In place of a result: what was raised."""

    error: BaseException


class Worker:
    """A process, and what it is doing: the number of a piece, None if nothing."""

    def __init__(self, process: Any, connection: Connection) -> None:
        self.process = process
        self.connection = connection
        self.doing: int | None = None


class Workers(Generic[PieceT, ResultT]):
    """A context manager. ``work``: done with each piece, in a process of its own; it may be a closure, as it is not
    sent there. Pieces and results must pickle."""

    def __init__(self, work: Callable[[PieceT], ResultT], number: int) -> None:
        assert number > 0, "somebody has to do it"
        self._work = work
        self._number = number
        self._workers: list[Worker] = []
        self._stopped = False

    def __enter__(self) -> Workers[PieceT, ResultT]:
        context = multiprocessing.get_context("fork")
        for _ in range(self._number):
            ours, theirs = context.Pipe()
            # The ends that this process keeps would, in a child, keep the others from hearing that it has gone.
            kept = [*(worker.connection for worker in self._workers), ours]
            process = context.Process(target=_serve, args=[theirs, kept, self._work], daemon=True)
            process.start()
            theirs.close()
            self._workers.append(Worker(process, ours))
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.connection.close()
            worker.process.kill()
        for worker in self._workers:
            worker.process.join(END_S)

    def stop(self) -> None:
        """Begin no other piece."""
        self._stopped = True

    def interrupt(self) -> None:
        """Begin no other piece, and let what is being done hear a SIGINT."""
        self.stop()
        for worker in self._workers:
            if worker.doing is not None:
                os.kill(worker.process.pid, signal.SIGINT)

    def map(self, pieces: Iterable[PieceT], tick: Callable[[], None] = lambda: None) -> Iterator[ResultT]:
        """The results in the order of the pieces, of which one is taken when somebody can begin it; after
        ``stop`` of those that had begun. ``tick`` is called a few times a second. Raises what ``work`` raises, in
        its place, and RunError if a process dies."""
        todo = enumerate(pieces)
        found: dict[int, ResultT | Failed] = {}
        begun, following, more = 0, 0, True
        while True:
            for worker in self._workers:
                room = begun - following < AHEAD * self._number
                if more and not self._stopped and worker.doing is None and room:
                    more = self._hand_out(worker, todo)
                    begun += more
            busy = [worker for worker in self._workers if worker.doing is not None]
            if not busy:
                return
            tick()
            for worker in self._answering(busy):
                assert worker.doing is not None, "it is busy"
                found[worker.doing] = self._answer(worker)
                worker.doing = None
            while following in found:
                result = found.pop(following)
                following += 1
                if isinstance(result, Failed):
                    raise result.error
                yield result

    @staticmethod
    def _hand_out(worker: Worker, todo: Iterator[tuple[int, PieceT]]) -> bool:
        """Give a worker the next piece, if there is one."""
        for number, piece in todo:
            worker.connection.send(piece)
            worker.doing = number
            return True
        return False

    @staticmethod
    def _answering(busy: list[Worker]) -> list[Worker]:
        ready = wait([worker.connection for worker in busy], TICK_S)
        return [worker for worker in busy if worker.connection in ready]

    @staticmethod
    def _answer(worker: Worker) -> Any:
        try:
            return worker.connection.recv()
        except (EOFError, ConnectionError):
            worker.process.join(END_S)
            raise RunError(f"a process that did runs ended with {worker.process.exitcode}") from None


def _serve(connection: Connection, others: Iterable[Connection], work: Callable[[Any], Any]) -> None:
    """The life of a process: piece by piece, until nobody gives one any more."""
    for each in others:
        each.close()
    # Whoever does something that can be interrupted hears of it by a handler of its own.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    pieces: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_listen, args=[connection, pieces], daemon=True).start()
    while True:
        piece = pieces.get()
        try:
            answer: object = work(piece)
        except BaseException as error:  # noqa: BLE001  (told to whoever waits for the piece)
            answer = Failed(_sendable(error))
        try:
            connection.send(answer)
        except (BrokenPipeError, ConnectionError):
            os._exit(0)


def _listen(connection: Connection, pieces: SimpleQueue[Any]) -> None:
    """Take pieces while there is somebody to give them. Its end ends what is being done, too."""
    try:
        while True:
            pieces.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)


def _sendable(error: BaseException) -> BaseException:
    """The error if it comes out of a pickle as it was, else one that says the same."""
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  (an error's own constructor may raise anything)
        again = None
    if type(again) is type(error) and str(again) == str(error):
        return error
    return RunError(str(error) or type(error).__name__)
