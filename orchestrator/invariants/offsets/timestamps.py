"""H4: lookups of offsets by timestamp, judged by the log of the broker that answers."""

from __future__ import annotations

import struct
from bisect import bisect_left

import msgspec

from actors.node.isolation import READ_COMMITTED
from actors.node.list_timestamps import EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from actors.trace.events import (
    LogAppend,
    LogHw,
    LogStart,
    ReplyPartition,
    RpcPark,
    RpcReply,
    Stamped,
    TierSegment,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile
from orchestrator.invariants.folds.memory import DELETED_UNSEEN
from orchestrator.invariants.folds.rows import Rows
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.log_prefix import BatchFacts, Prefix
from orchestrator.invariants.mirrors.replica import Replica
from orchestrator.invariants.offsets.list_offsets import FROM_THE_START
from orchestrator.invariants.tiers.known_copies import WENT_BACK, OwnStarts
from orchestrator.invariants.tiers.led_copies import NO_COPY, ByCopies, CopiesInvariant

BATCHES_REMEMBERED = 4096
"""Batches of which the timestamps are kept before those are forgotten that all replicas have."""


_STAMP = struct.Struct("<?qqi")


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """A record that is later than all before it."""

    offset: int
    timestamp: int
    epoch: int


FORGOTTEN = Stamp(-2, -2, -2)
"""In the place of a record of which nothing is remembered."""
NOTHING_FOUND = Stamp(-1, -1, -1)
"""An answer without a record."""


class Limits(msgspec.Struct, frozen=True, gc=False):
    """How much of a broker's log may be seen: by brokers, by readers of committed records alone, and by other clients.
    ``start``: where it begins, ``local_start``: where what the broker has itself; ``copied``: the last offset that it
    goes by as copied, of several any, () nobody can say."""

    end: int
    stable: int
    high_watermark: int
    start: int
    local_start: int
    copied: tuple[int, ...] = ()

    def of(self, body: RpcReply) -> int:
        """By who is answered."""
        if body.replica_id != -1:
            return self.end
        return self.stable if body.isolation == READ_COMMITTED else self.high_watermark


REQUESTS_REMEMBERED = 4096
"""Requests that wait for remote storage."""


class Stamps(ByCopies):
    """batches: (base offset, leader epoch) -> timestamps of the records, as their leader appended them; kept: how many
    were left when some were forgotten last. rising: of the
    committed records below ``upto`` those that are later than all before them, in order: the answer to any timestamp is
    one of them. copied: the last offset of all segments of which a copy was begun, -1 none. deleted: the highest log
    start of a leader that deleted copies: another one may find no more than it left. waiting: connection -> the request
    on it that waits for remote storage, and what could be seen when it began to: its answer is about that, in all
    partitions."""

    batches: dict[tuple[int, int], list[int]] = {}
    kept: int = 0
    rising: Rows = msgspec.field(default_factory=lambda: Rows(_STAMP.size))
    upto: int = 0
    copied: int = -1
    deleted: int = 0
    waiting: dict[str, tuple[int, Limits]] = {}
    starts: OwnStarts = msgspec.field(default_factory=OwnStarts)

    @property
    def numbers(self) -> range:
        """Of the rising stamps that are remembered."""
        return range(self.rising.start, self.rising.end)

    def stamp(self, number: int) -> Stamp:
        """One of them."""
        _, *fields = _STAMP.unpack_from(self.rising.data, self.rising.place(number))
        return Stamp(*fields)

    def offset_of(self, number: int) -> int:
        """The offset of one of them."""
        return self.stamp(number).offset

    def timestamp_of(self, number: int) -> int:
        """The timestamp of one of them."""
        return self.stamp(number).timestamp


class LookupsMeanWhatTheySay(CopiesInvariant[Stamps]):
    """An application that begins to read at a point in time assumes that no later record lies before the reported
    offset, and that the record at that offset is committed.

    Example: orders-0 has records of 12:00:01 at 40, 12:00:03 at 41 and 12:00:02 at 42. For 12:00:02, its leader answers
    41: the first record, in the order of the log, that is as late. With a high watermark of 41 it answers that there is
    none, though 40 is committed. The greatest timestamp is at 41, and the latest offset is the high watermark. At
    read_committed the last stable offset replaces the high watermark, and T7 judges the latest offset; a client that
    asks as a broker sees the whole log.
    """

    id = "H4"
    title = (
        "ListOffsets returns the first offset whose record is as late as the timestamp asked for, if clients may see it"
    )
    source = (
        "KIP-79; KIP-734; KIP-1005; KIP-1023; KAFKA-5522; Kafka's UnifiedLog.fetchOffsetByTimestamp, "
        "Partition.fetchOffsetForTimestamp"
    )
    tested_when = "a broker answers a ListOffsets without an error"
    exemptions = {
        "log-start-moved": "The log start moved while the request waited for remote storage. Kafka looks for copies of "
        "the leader epoch at the former start, finds no such epoch any more, and searches the local log alone: the "
        "answer may be a later record.",
        **WENT_BACK,
    }
    types = (LogAppend, LogHw, LogStart, RpcPark, RpcReply, TierSegment)
    cases = {LogAppend: ("leader",), RpcReply: ("ListOffsets",)}
    unseen = (
        DELETED_UNSEEN,
        "Timestamps in the log of a follower, before it leads and answers.",
        (
            "The timestamp and the leader epoch that a client returns to its application; only the broker's answer is "
            "checked."
        ),
        (
            "The record with the greatest timestamp, if the log starts above 0 or the broker has only a part of it "
            "locally."
        ),
        (
            "An answer to LATEST_TIERED or EARLIEST_PENDING_UPLOAD that is too low, where a leader has not yet looked "
            "for copies in its leader epoch, after an unclean election or a loss that replication cannot replace, and "
            "where an operator changes whether the log is tiered."
        ),
    )

    def initial(self, key: str, profile: Profile) -> Stamps:
        return Stamps(key, profile=profile)

    def forget(self, state: Stamps, offset: int) -> None:
        numbers = state.numbers
        if numbers:  # the newest one says what the next ones are later than
            below = numbers.start + bisect_left(numbers, offset, key=state.offset_of)
            state.rising.forget(min(below, numbers[-1]))

    def step(self, state: Stamps, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        self.follow(state, event, mirror)
        if type(body) is LogAppend:
            if body.role == "leader":
                state.batches[body.base, body.batch_epoch] = body.timestamps
        elif type(body) is LogHw:
            if mirror.newly_committed:
                self._commit(state, mirror)
        elif type(body) is LogStart:
            state.starts.take(event, body)
        elif type(body) is TierSegment:
            state.copied = max(state.copied, body.end)
            if body.phase == "deleting":
                state.deleted = max(state.deleted, body.log_start)
        elif type(body) is RpcPark:
            state.waiting[body.connection] = (body.correlation_id, self._limits(state, event, mirror))
            if len(state.waiting) > REQUESTS_REMEMBERED:
                del state.waiting[next(iter(state.waiting))]
        elif type(body) is RpcReply and body.api == "ListOffsets":
            number, limits = state.waiting.pop(body.connection, (-1, None))
            if limits is None or number != body.correlation_id:
                limits = self._limits(state, event, mirror)
            for told in body.partitions:
                if told.tp == state.key and not told.error and told.leader_epoch >= 0:
                    if wrong := self._wrong(state, event, limits, told, mirror):
                        sentence = f"{event.node} {wrong}"
                        replica = mirror.replica(event.node)
                        back = state.starts.went_back(event.node, limits.start)
                        moved = back or replica.start > limits.start
                        if moved and self._is_local(state, replica, limits, limits.of(body), told):
                            rule = "log-start-went-back" if back else "log-start-moved"
                            return self.excused(rule, state.key, sentence, event)
                        return self.violated(state.key, sentence, event)
        return NOTHING

    def _is_local(self, state: Stamps, replica: Replica, limits: Limits, limit: int, told: ReplyPartition) -> bool:
        """Whether an answer is right for the part of the log that the broker itself had since it was asked, from its
        beginning then to that now."""
        asked = told.timestamp
        if asked < 0:
            return False
        if told.offset < 0:
            now = self._found_above(state, replica.log, replica.local_start, asked)
            return now in (None, FORGOTTEN) or now.offset >= limit
        if told.offset < limits.local_start:
            return False
        places = (limits.local_start, told.offset, replica.local_start)
        first, here, last = (self._found_above(state, replica.log, place, asked) for place in places)
        if FORGOTTEN in (first, here, last):
            return True
        if here != Stamp(told.offset, told.found_timestamp, told.found_epoch):
            return False
        return here == first or last is None or told.offset <= last.offset

    def _limits(self, state: Stamps, event: Stamped, mirror: LogMirror) -> Limits:
        replica = mirror.replica(event.node)
        known = (replica.log.end, replica.last_stable_offset, replica.high_watermark)
        return Limits(*known, replica.start, replica.local_start, state.copies.last(event, mirror))

    def _commit(self, state: Stamps, mirror: LogMirror) -> None:
        for batch in mirror.newly_committed:
            if batch.base < state.upto:  # what an unclean election gave up
                numbers = state.numbers
                state.rising.cut(numbers.start + bisect_left(numbers, batch.base, key=state.offset_of))
            state.upto = batch.end
            numbers = state.numbers
            for stamp in self._later(state, batch, state.timestamp_of(numbers[-1]) if numbers else -1):
                state.rising.put(state.rising.end, _STAMP.pack(True, stamp.offset, stamp.timestamp, stamp.epoch))
        if len(state.batches) > max(BATCHES_REMEMBERED, 2 * state.kept):
            state.batches = {place: each for place, each in state.batches.items() if place[0] >= mirror.floor}
            state.kept = len(state.batches)

    def _later(self, state: Stamps, batch: BatchFacts, than: int) -> list[Stamp]:
        """The records of a batch that are later than ``than`` and all before them."""
        found: list[Stamp] = []
        for offset, timestamp in enumerate(state.batches.get((batch.base, batch.epoch), ()), batch.base):
            if timestamp > than:
                than = timestamp
                found.append(Stamp(offset, timestamp, batch.epoch))
        return found

    def _found(self, state: Stamps, replica: Replica, timestamp: int, start: int) -> Stamp | None:
        """The first record from the log start on that is as late, or has the greatest timestamp; None if there is
        none."""
        log = replica.log
        if timestamp == MAX_TIMESTAMP and replica.local_start:
            return FORGOTTEN
        if start:
            return self._found_above(state, log, start, timestamp)
        numbers = state.numbers[: bisect_left(state.numbers, log.floor, key=state.offset_of)]
        if timestamp != MAX_TIMESTAMP and numbers and state.timestamp_of(numbers[-1]) >= timestamp:
            index = bisect_left(numbers, timestamp, key=state.timestamp_of)
            return FORGOTTEN if index == 0 and numbers.start > 0 else state.stamp(numbers[index])
        latest = state.stamp(numbers[-1]) if numbers else None
        for batch in log.batches:
            for stamp in self._later(state, batch, -1 if latest is None else latest.timestamp):
                if stamp.timestamp >= timestamp != MAX_TIMESTAMP:
                    return stamp
                latest = stamp
        return latest if timestamp == MAX_TIMESTAMP else None

    @staticmethod
    def _found_above(state: Stamps, log: Prefix, start: int, timestamp: int) -> Stamp | None:
        """The first record at the log start or behind that is as late."""
        if log.floor > start:
            return FORGOTTEN
        for batch in log.batches:
            known = state.batches.get((batch.base, batch.epoch))
            if known is None and batch.end > start and not batch.control:
                return FORGOTTEN
            for offset, stamp in enumerate(known or (), batch.base):
                if offset >= start and stamp >= timestamp:
                    return Stamp(offset, stamp, batch.epoch)
        return None

    @staticmethod
    def _copies_end(state: Stamps, limits: Limits, limit: int, told: ReplyPartition) -> tuple[int, int, int]:
        """How far the copies reach, or where the first record is that has none: as the leader knows. Where nobody can
        say what that is, it may be less than there is. What cannot be copied, or seen, is nothing."""
        asked = told.timestamp
        assert asked in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD), f"no version knows {asked}"
        rights = [_of_copies(asked, last, limits, limit) for last in limits.copied]
        if rights:
            return (told.offset if told.offset in rights else rights[0], -1, -1)
        if told.offset < 0:
            return (-1, -1, -1)
        most = state.copied if told.timestamp == LATEST_TIERED else max(state.copied + 1, limits.start)
        return (min(told.offset, most), -1, -1) if told.offset < limit else (-1, -1, -1)

    def _wrong(self, state: Stamps, event: Stamped, limits: Limits, told: ReplyPartition, mirror: LogMirror) -> str:
        """What is wrong with an answer to who could see so much of the log, or ""."""
        body = event.body
        assert type(body) is RpcReply
        limit = limits.of(body)
        replica = mirror.replica(event.node)
        state.tested += 1
        asked = told.timestamp
        if asked >= 0 or asked == MAX_TIMESTAMP:
            return self._look_up_wrong(state, replica, limits, limit, told)
        if asked == LATEST:
            right, answer = (limit, -1, -1), (told.offset, told.found_timestamp, -1)
        elif asked in FROM_THE_START:
            start = limits.local_start if asked == EARLIEST_LOCAL else limits.start
            right, answer = (start, -1, -1), (told.offset, told.found_timestamp, -1)
        else:
            right, answer = self._copies_end(state, limits, limit, told), (told.offset, told.found_timestamp, -1)
        return "" if answer == right else _in_words(state.key, asked, answer, replica.log.end, limit, right)

    def _look_up_wrong(self, state: Stamps, replica: Replica, limits: Limits, limit: int, told: ReplyPartition) -> str:
        """The same of a look-up. It may be right for where the log began when it was asked for, or begins now, or did
        in between: what it searched may have been deleted meanwhile."""
        asked = told.timestamp
        first = self._found(state, replica, asked, limits.start)
        start = max(replica.start, min(state.deleted, replica.local_start))
        last = first if start <= limits.start else self._found(state, replica, asked, start)
        if FORGOTTEN in (first, last):
            return ""
        rights = [each if each is not None and each.offset < limit else NOTHING_FOUND for each in (first, last)]
        answer = Stamp(told.offset, told.found_timestamp, told.found_epoch)
        if answer in rights:
            return ""
        between = first is not None and first.offset < answer.offset < min(start, limit)
        if between and self._found_above(state, replica.log, answer.offset, asked) in (answer, FORGOTTEN):
            return ""
        given, right = ((each.offset, each.timestamp, each.epoch) for each in (answer, rights[0]))
        return _in_words(state.key, asked, given, replica.log.end, limit, right)


def _of_copies(asked: int, last: int, limits: Limits, limit: int) -> int:
    """What a leader tells that goes by ``last`` as the last offset that was copied; -1 nothing."""
    if asked == EARLIEST_PENDING_UPLOAD:
        if last == NO_COPY and limits.start < limits.local_start:
            return -1  # it does not know of the copies that there must be
        last = max(last + 1, limits.start)
    return last if last < limit else -1


def _in_words(
    key: str, asked: int, answer: tuple[int, int, int], end: int, limit: int, right: tuple[int, int, int]
) -> str:
    return (
        f"answered ListOffsets for timestamp {asked} of {key} with {_named(answer)}; the right answer is "
        f"{_named(right)}: its log ends at {end:,}, and clients may see the records below {limit:,}"
    )


def _named(answer: tuple[int, int, int]) -> str:
    offset, timestamp, epoch = answer
    if offset < 0:
        return "nothing"
    return f"{offset:,}" + (f" (timestamp {timestamp}, leader epoch {epoch})" if timestamp >= 0 else "")
