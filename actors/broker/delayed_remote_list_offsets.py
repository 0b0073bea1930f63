"""ListOffsets that wait for remote storage (KIP-1075; ``DelayedRemoteListOffsets.java``, ``ReplicaManager``).

With ``kip-1075`` the request waits in the purgatory RemoteListOffsets, and its partitions are looked up side by side by
reader threads. Without it the request keeps its handler, which looks them up one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.broker import purgatory
from actors.broker.list_offsets_answer import TIMEOUT_SINCE, Found, ListOffsetsCall, PartitionStatus, RemoteLookup
from actors.broker.partition import find_partition
from actors.broker.remote_log import offset_reader
from actors.broker.remote_log.offset_reader import RemoteLogOffsetReader
from actors.broker.remote_log.reader_task import AwaitsRead
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.messages import API_NAMES, Api
from actors.node.purgatory import NEVER_MS, PREFIX, Key
from actors.trace.events import RpcPark

NOT_SUPPLIED = {"draft": -1, "kafka": 0}
"""TimeoutMs of a request that has none, by the value of ``kip-1075``: the proposal's text has -1, Kafka 0."""


class DelayedRemoteListOffsets(AwaitsRead):
    """A request of which partitions are being looked up. All its partitions are watched."""

    call: ListOffsetsCall

    timer = f"{PREFIX}RemoteListOffsets"

    @property
    def keys(self) -> Iterable[Key]:
        return [(purgatory.REMOTE_OFFSETS, status.tp) for status in self.call.statuses]

    @property
    def unfinished(self) -> list[PartitionStatus]:
        """The partitions that are not decided."""
        return [status for status in self.call.statuses if not status.completed]

    def try_complete(self, context: Turn, key: Key) -> bool:
        for status in self.unfinished:
            error = _lost(context, status.tp)
            if error:
                if "loss-leaves-reads" not in context.step.defects:
                    context.readers.of_offsets.give_up(context, status.task, expired=False, interrupt=False)
                status.settle(context, Found(error))
        return not self.unfinished

    def on_complete(self, context: Turn) -> None:
        self.call.answer(context)

    def on_expiration(self, context: Turn) -> None:
        defects, unfinished = context.step.defects, self.unfinished
        if "expiry-drops-finished" in defects:
            unfinished = [status for status in self.call.statuses if status.lookup is not None]
        for status in unfinished:
            status.settle(context, Found(KafkaError.REQUEST_TIMED_OUT))
            if "expiry-leaves-reads" not in defects:
                context.readers.of_offsets.give_up(context, status.task, expired=True, interrupt=True)
        if "expiry-answers-some" in defects:
            self.call.statuses = [status for status in self.call.statuses if status not in unfinished]
        self.call.answer(context)

    def on_read(self, context: Turn, task: RemoteLogOffsetReader) -> None:
        if _settle(context, self.call, task):
            purgatory.remote_offsets(context, task.tp)


class HeldListOffsets(AwaitsRead):
    """A request whose handler looks its partitions up, one after the other, however long that takes."""

    call: ListOffsetsCall

    def on_read(self, context: Turn, task: RemoteLogOffsetReader) -> None:
        _settle(context, self.call, task)
        self.go_on(context)

    def go_on(self, context: Turn) -> None:
        """Look the next partition up; after the last one answer, and let the handler go."""
        while (following := next((each for each in self.call.statuses if not each.completed), None)) is not None:
            if following.task:
                return
            _submit(context, self.call, following)
        if context.purgatory.remove(self.connection) is self:
            self.call.answer(context)
            context.channel.release(context.step, self.connection)


def begin(turn: Turn, call: ListOffsetsCall, timeout_ms: int) -> None:
    """Look up what remote storage has a part in. ``timeout_ms``: as in the request."""
    connection = call.connection
    if turn.settings.kip_1075 == "off" or "lookup-holds-handler" in turn.step.defects:
        assert turn.serving is not None, "a request is handled"
        turn.channel.hold(turn.serving)
        held = HeldListOffsets(connection, NEVER_MS, call)
        _record(turn, held, timeout_ms, -1)
        turn.purgatory.park(turn.step, held)
        held.go_on(turn)
        return
    supplied = call.version >= TIMEOUT_SINCE and timeout_ms > NOT_SUPPLIED[turn.settings.kip_1075]
    if "lookup-ignores-timeout" in turn.step.defects:
        supplied = False
    wait_ms = timeout_ms if supplied else turn.readers.list_offsets_timeout_ms(turn)
    delayed = DelayedRemoteListOffsets(connection, turn.step.now_ms + wait_ms, call)
    _record(turn, delayed, timeout_ms, wait_ms)
    turn.purgatory.park(turn.step, delayed)
    for status in delayed.unfinished:
        _submit(turn, call, status)
    turn.purgatory.try_complete(turn, connection, (purgatory.REMOTE_OFFSETS, ""))


def _record(turn: Turn, waiting: DelayedRemoteListOffsets | HeldListOffsets, timeout_ms: int, wait_ms: int) -> None:
    call = waiting.call
    turn.step.record(
        RpcPark(
            API_NAMES[Api.ListOffsets],
            call.version,
            call.client_id,
            call.connection,
            call.correlation_id,
            timeout_ms,
            wait_ms,
            [turn.replicas.partitions[status.tp].key for status in call.statuses if not status.completed],
            [status.told.tp for status in call.statuses if status.told is not None],
            isinstance(waiting, HeldListOffsets),
        )
    )


def _submit(turn: Turn, call: ListOffsetsCall, status: PartitionStatus) -> None:
    task = offset_reader.task_for(turn, call.connection, call.correlation_id, status)
    status.task = task.number
    if turn.readers.submit(turn, task) or "full-queue-waits" in turn.step.defects:
        return
    if "rejected-unanswered" in turn.step.defects:
        call.statuses.remove(status)
    else:
        # A RejectedExecutionException is none that Kafka has a code for.
        status.settle(turn, Found(KafkaError.UNKNOWN_SERVER_ERROR))


def _settle(turn: Turn, call: ListOffsetsCall, task: RemoteLogOffsetReader) -> bool:
    """A partition was looked up; whether this request waits for that."""
    status = next((each for each in call.statuses if each.task == task.number and not each.completed), None)
    if status is None or status.lookup is None:
        return False
    lookup = status.lookup
    if "late-answer-unlimited" in turn.step.defects:
        lookup = RemoteLookup(turn.replicas.partitions[status.tp].log.end_offset, lookup.refusal)
    status.settle(turn, lookup.conclude(task.error, task.found))
    return True


def _lost(turn: Turn, tp: str) -> KafkaError:
    """Why this broker cannot answer for a partition any more, NONE if it can."""
    partition, error = find_partition(turn, tp)
    if partition is not None and not partition.is_leader:
        return KafkaError.NOT_LEADER_OR_FOLLOWER
    return error
