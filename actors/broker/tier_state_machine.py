"""How a follower goes on whose next record its leader has in remote storage alone (``TierStateMachine.java``).

The leader says where what it has itself begins, and of which leader epoch the record before that is. The copy with that
record brings the leader epochs and the state of the producers up to its end. The follower gives up all that it has, and
begins there. Whatever fails, it fetches again after the usual pause, and is told the same.
"""

from __future__ import annotations

import msgspec

from actors.broker.partition import Partition
from actors.broker.remote_log.segment_metadata import SegmentMetadata
from actors.broker.remote_log.store_calls import StoreCall
from actors.broker.turn import Turn
from actors.log.leader_epoch_cache import EpochEntry
from actors.log.segment_objects import LEADER_EPOCH, PRODUCER_SNAPSHOT, read_epochs, read_header
from krift.v1.remote_storage import FetchIndexRequest


class TierStateMachine(msgspec.Struct):
    """``log_start``: of the leader's log. ``local_start``: where what it has itself begins, -1 not told yet;
    ``epoch``: the leader epoch there. ``segment``: the copy with the record before; ``epochs``: of its leaders, up to
    its end."""

    log_start: int
    local_start: int = -1
    epoch: int = -1
    segment: SegmentMetadata | None = None
    epochs: list[EpochEntry] | None = None
    store: StoreCall = msgspec.field(default_factory=StoreCall)

    def locate(self, turn: Turn, partition: Partition, epoch: int) -> bool:
        """Find the copy with the last record that the leader does not have itself, which is of this leader epoch.
        False: this broker knows of none, or not that the topic is tiered."""
        if not partition.remote_storage:
            return False
        self.segment = turn.readers.segments_of(partition).find(epoch, self.local_start - 1)
        return self.segment is not None

    def epoch_before(self, epoch: int, end: int) -> int:
        """The leader epoch of the record before the leader's own part, as the leader has told where the epoch before
        that of its first record ends."""
        return epoch if end > self.local_start - 1 else self.epoch

    def advance(self, turn: Turn, purpose: str) -> bool:
        """Ask the store for the next object, as soon as that is possible; True: that ended."""
        assert self.segment is not None, "the copy was found"
        if self.store.request is None:
            kind = LEADER_EPOCH if self.epochs is None else PRODUCER_SNAPSHOT
            self.store.ask(FetchIndexRequest(segment=self.segment.id, object=kind))
        return self.store.advance(turn, purpose)

    def take(self, turn: Turn, partition: Partition) -> bool | None:
        """Take in what the store has answered. True: the log begins anew; False: there is no such object, or it cannot
        be read; None: there is more to ask for."""
        answer = self.store.take()
        if answer is None:
            return False
        try:
            if self.epochs is None:
                self.epochs = read_epochs(bytes(answer.data))
                return None
            header = read_header(bytes(answer.data))
        except msgspec.MsgspecError:
            return False
        epochs = [] if "follower-forgets-epochs" in turn.step.defects else self.epochs
        start = header.base.offset if "follower-forgets-log-start" in turn.step.defects else self.log_start
        partition.log.begin_behind_copy(turn.step, turn.files, header, epochs, start, partition.leader_epoch)
        return True
