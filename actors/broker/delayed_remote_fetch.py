"""Fetches of consumers below the local log start, which wait for remote storage (``DelayedRemoteFetch.java``,
``ReplicaManager.processRemoteFetches``)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from actors.broker import purgatory
from actors.broker.fetch import answer
from actors.broker.fetch_request import FetchParams, ReadResult
from actors.broker.partition import find_partition
from actors.broker.purgatory import READABLE
from actors.broker.remote_log.fetch_reader import RemoteLogReader
from actors.broker.remote_log.reader_task import AwaitsRead
from actors.broker.remote_log.readers import READER
from actors.broker.remote_log.remote_log_config import FETCH_MAX_WAIT
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.isolation import READ_COMMITTED
from actors.node.purgatory import PREFIX, Key
from actors.trace.events import RemoteFetchEnd


class DelayedRemoteFetch(AwaitsRead):
    """A Fetch of which partitions are being read from remote storage. results: of all its partitions, as far as they
    are known; tasks: read that it waits for -> the place of its result."""

    params: FetchParams
    results: list[ReadResult]
    tasks: dict[int, int] = msgspec.field(default_factory=dict)

    timer: ClassVar[str] = f"{PREFIX}remote-fetch"

    @property
    def keys(self) -> list[Key]:
        return [(READABLE, result.item.tp) for result in self.results if result.remote]

    @property
    def _open(self) -> list[ReadResult]:
        """What it waits for."""
        return [self.results[place] for place in self.tasks.values()]

    def try_complete(self, context: Turn, key: Key) -> bool:
        """Whether every read is done, or a partition of them is no longer to be had here."""
        if "first-read-answers" in context.step.defects and len(self.tasks) < len(self.keys):
            return True
        return not self.tasks or any(_lost(context, self.params, result.item.tp) for result in self._open)

    def on_complete(self, context: Turn) -> None:
        for result in self._open:
            error = _lost(context, self.params, result.item.tp)
            if error:
                result.error, result.batches = error, []
        self._answer(context, expired=False)

    def on_expiration(self, context: Turn) -> None:
        """What is not there yet is answered with nothing; the client asks again."""
        self._answer(context, expired=True)

    def _answer(self, context: Turn, *, expired: bool) -> None:
        if "expired-fetch-keeps-reads" not in context.step.defects:
            for task in self.tasks:
                context.readers.pools[READER].give_up(context, task, expired=expired, interrupt=False)
        answer(context, self.params, self.results)
        context.step.record(RemoteFetchEnd(self.connection, self.params.correlation_id, expired))

    def on_read(self, context: Turn, task: RemoteLogReader) -> None:
        place = self.tasks.pop(task.number, None)
        if place is None:
            return
        result = self.results[place]
        result.error, result.batches, result.aborted = task.error, task.batches, task.aborted
        if "reads-wake-no-fetch" not in context.step.defects:
            context.purgatory.try_complete(context, self.connection, (READABLE, task.tp))


def begin(turn: Turn, params: FetchParams, results: list[ReadResult]) -> None:
    """Read what lies below the local log start, and answer when that is there, or remote.fetch.max.wait.ms is over. A
    read for which there is no room fails at once."""
    delayed = DelayedRemoteFetch(params.connection, _deadline_ms(turn, params), params, results)
    tasks = []
    for place, result in enumerate(results):
        if result.remote:
            task = _task(turn, params, result)
            delayed.tasks[task.number] = place
            tasks.append(task)
    turn.purgatory.park(turn.step, delayed)
    for task in tasks:
        if not turn.readers.pools[READER].submit(turn, task):
            rejected = results[delayed.tasks.pop(task.number)]
            if "rejected-fetch-untold" not in turn.step.defects:
                rejected.error = KafkaError.UNKNOWN_SERVER_ERROR
    purgatory.readable(turn, tasks[0].tp)


def _deadline_ms(turn: Turn, params: FetchParams) -> int:
    """When the Fetch is answered at the latest, however long its client would wait for data."""
    if "remote-fetch-waits-as-asked" in turn.step.defects:
        return params.deadline_ms
    static = turn.settings.remote_log.fetch_max_wait_ms
    if "remote-fetch-wait-of-start" in turn.step.defects:
        return turn.step.now_ms + static
    return turn.step.now_ms + int(turn.image.config(turn.settings.node_id, "", FETCH_MAX_WAIT, static))


def _task(turn: Turn, params: FetchParams, result: ReadResult) -> RemoteLogReader:
    partition, item = result.partition, result.item
    assert partition is not None, "it was read"
    return RemoteLogReader(
        turn.readers.next_task(),
        params.connection,
        params.correlation_id,
        item.tp,
        partition.key,
        offset=item.offset,
        max_bytes=result.max_bytes,
        at_least_one=result.at_least_one,
        committed=params.isolation == READ_COMMITTED,
    )


def _lost(turn: Turn, params: FetchParams, tp: str) -> KafkaError:
    """Why a partition is no longer to be read here, if so."""
    partition, error = find_partition(turn, tp)
    if partition is None or error:
        return error
    return partition.check_epoch(-1, leader_only=params.leader_only)
