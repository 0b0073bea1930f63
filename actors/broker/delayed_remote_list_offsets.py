"""ListOffsets that wait for remote storage (KIP-1075; ``DelayedRemoteListOffsets.java``, ``ReplicaManager``).

With ``kip-1075`` the request waits in the purgatory RemoteListOffsets, and its partitions are looked up side by side by
reader threads. Without it the request keeps its handler, which looks them up one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.broker import purgatory
from actors.broker.list_offsets_answer import Found, ListOffsetsCall, PartitionStatus
from actors.broker.partition import find_partition
from actors.broker.remote_log import offset_reader
from actors.broker.turn import Turn
from actors.node.errors import KafkaError
from actors.node.purgatory import NEVER_MS, PREFIX, DelayedOperation, Key

NOT_SUPPLIED = {"draft": -1, "kafka": 0}
"""TimeoutMs of a request that has none, by the value of ``kip-1075``: the proposal's text has -1, Kafka 0."""


class DelayedRemoteListOffsets(DelayedOperation):
    """A request of which partitions are being looked up. All its partitions are watched."""

    call: ListOffsetsCall

    timer = f"{PREFIX}RemoteListOffsets"
    outlives_connection = True

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
                context.readers.of_offsets.give_up(context, status.task, expired=False, interrupt=False)
                status.settle(context, Found(error))
        return not self.unfinished

    def on_complete(self, context: Turn) -> None:
        self.call.answer(context)

    def on_expiration(self, context: Turn) -> None:
        for status in self.unfinished:
            status.settle(context, Found(KafkaError.REQUEST_TIMED_OUT))
            context.readers.of_offsets.give_up(context, status.task, expired=True, interrupt=True)
        self.call.answer(context)

    def take(self, context: Turn, tp: str, error: KafkaError, found: Found | None) -> None:
        """A partition was looked up."""
        _settle(context, self.call, tp, error, found)
        purgatory.remote_offsets(context, tp)


class HeldListOffsets(DelayedOperation):
    """A request whose handler looks its partitions up, one after the other, however long that takes."""

    call: ListOffsetsCall

    outlives_connection = True

    def take(self, context: Turn, tp: str, error: KafkaError, found: Found | None) -> None:
        """A partition was looked up."""
        _settle(context, self.call, tp, error, found)
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
    if turn.settings.kip_1075 == "off":
        assert turn.serving is not None, "a request is handled"
        turn.channel.hold(turn.serving)
        held = HeldListOffsets(connection, NEVER_MS, call)
        turn.purgatory.park(turn.step, held)
        held.go_on(turn)
        return
    supplied = timeout_ms > NOT_SUPPLIED[turn.settings.kip_1075]
    wait_ms = timeout_ms if supplied else turn.readers.list_offsets_timeout_ms(turn)
    delayed = DelayedRemoteListOffsets(connection, turn.step.now_ms + wait_ms, call)
    turn.purgatory.park(turn.step, delayed)
    for status in delayed.unfinished:
        _submit(turn, call, status)
    turn.purgatory.try_complete(turn, connection, (purgatory.REMOTE_OFFSETS, call.statuses[0].tp))


def _submit(turn: Turn, call: ListOffsetsCall, status: PartitionStatus) -> None:
    task = offset_reader.task_for(turn, call.connection, call.correlation_id, status)
    status.task = task.number
    if not turn.readers.submit(turn, task):
        # A RejectedExecutionException is none that Kafka has a code for.
        status.settle(turn, Found(KafkaError.UNKNOWN_SERVER_ERROR))


def _settle(turn: Turn, call: ListOffsetsCall, tp: str, error: KafkaError, found: Found | None) -> None:
    for status in call.statuses:
        if status.tp == tp and status.lookup is not None and not status.completed:
            status.settle(turn, status.lookup.conclude(error, found))


def _lost(turn: Turn, tp: str) -> KafkaError:
    """Why this broker cannot answer for a partition any more, NONE if it can."""
    partition, error = find_partition(turn, tp)
    if partition is not None and not partition.is_leader:
        return KafkaError.NOT_LEADER_OR_FOLLOWER
    return error
