"""The threads that read from remote storage, and the queue in front of them (``RemoteStorageThreadPool.java``).

It behaves as Java's ThreadPoolExecutor with as many core threads as threads. A task that is given up while it is queued
keeps its place until a thread comes to it; one that runs goes on to its end, unless it is interrupted.
"""

from __future__ import annotations

import msgspec

from actors.broker.remote_log.fetch_reader import RemoteLogReader
from actors.broker.remote_log.offset_reader import RemoteLogOffsetReader
from actors.broker.remote_log.store_calls import connection_of
from actors.broker.turn import Turn
from actors.node.network_client import Ended
from actors.trace.events import ReaderTaskPhase, TierTask

PURPOSE = "remote-read/"
"""Prefix of the purposes of calls: ``remote-read/<pool>/<thread>``."""

AnyReaderTask = RemoteLogOffsetReader | RemoteLogReader
"""What may be read."""


class ReaderPool(msgspec.Struct):
    """One pool. running: thread -> the task that it carries out. A pool that shrinks lets its threads end what they
    are at."""

    name: str
    threads: int
    max_pending: int
    running: dict[int, AnyReaderTask] = {}
    queue: list[AnyReaderTask] = []

    # ---- in ----------------------------------------------------------------------------------------------

    def submit(self, turn: Turn, task: AnyReaderTask) -> bool:
        """Take a task in; False: no thread is free and the queue is full, and nothing was done."""
        if self._has_free_thread:
            self._record(turn, task, "enqueue")
            self._run(turn, task)
            return True
        if len(self.queue) >= self.max_pending and "reader-queue-unbounded" not in turn.step.defects:
            self._record(turn, task, "reject")
            return False
        self.queue.append(task)
        self._record(turn, task, "enqueue")
        return True

    def poll(self, turn: Turn) -> None:
        """Let each thread go on that waited for a connection."""
        for thread, task in list(self.running.items()):
            if self.running.get(thread) is task:
                self._advance(turn, thread, task)

    def on_ended(self, turn: Turn, ended: Ended, thread: int) -> None:
        """The call of a thread ended."""
        task = self.running.get(thread)
        if task is not None:
            task.on_ended(turn, ended)
            self._advance(turn, thread, task)

    # ---- out ---------------------------------------------------------------------------------------------

    def give_up(self, turn: Turn, number: int, *, expired: bool, interrupt: bool) -> None:
        """Nobody wants the result of a task any more (``Future.cancel``); nothing if it is done."""
        task = next((each for each in (*self.running.values(), *self.queue) if each.number == number), None)
        if task is None or task.given_up:
            return
        task.given_up = True
        self._record(turn, task, "expire" if expired else "cancel", interrupt=interrupt)
        thread = next((thread for thread, each in self.running.items() if each is task), None)
        if interrupt and thread is not None and "reader-uninterrupted" not in turn.step.defects:
            turn.net.renew(turn.step, connection_of(self.purpose(thread)))
            self._leave(turn, thread, task)

    def resize(self, turn: Turn, threads: int) -> None:
        """As many threads from now on. New ones begin at once; one that is too many ends its task first."""
        self.threads = threads
        self._take_next(turn)

    # ---- threads -----------------------------------------------------------------------------------------

    @property
    def _has_free_thread(self) -> bool:
        return len(self.running) < self.threads

    def purpose(self, thread: int) -> str:
        """The purpose of a thread's calls to the store."""
        return f"{PURPOSE}{self.name}/{thread}"

    def _run(self, turn: Turn, task: AnyReaderTask) -> None:
        thread = next(number for number in range(len(self.running) + 1) if number not in self.running)
        self.running[thread] = task
        self._record(turn, task, "start")
        self._advance(turn, thread, task)

    def _advance(self, turn: Turn, thread: int, task: AnyReaderTask) -> None:
        if not task.advance(turn, self.purpose(thread)):
            return
        if task.given_up:
            self._leave(turn, thread, task)
            return
        del self.running[thread]
        self._record(turn, task, "finish")
        task.on_done(turn)
        self._take_next(turn)

    def _leave(self, turn: Turn, thread: int, task: AnyReaderTask) -> None:
        del self.running[thread]
        self._record(turn, task, "free")
        self._take_next(turn)

    def _take_next(self, turn: Turn) -> None:
        while self.queue and self._has_free_thread:
            task = self.queue.pop(-1 if "reader-last-come-first" in turn.step.defects else 0)
            if task.given_up:
                self._record(turn, task, "free")
            else:
                self._run(turn, task)

    def _record(self, turn: Turn, task: AnyReaderTask, phase: ReaderTaskPhase, *, interrupt: bool = False) -> None:
        turn.step.record(
            TierTask(
                task.key,
                self.name,
                task.number,
                task.kind,
                phase,
                task.connection,
                task.correlation_id,
                len(self.running),
                len(self.queue),
                self.threads,
                self.max_pending,
                interrupt,
                int(task.error) if phase == "finish" else 0,
                task.timestamp,
            )
        )
