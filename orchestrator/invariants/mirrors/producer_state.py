"""What a partition's logs say of idempotent producers, mirrored from the trace (``ProducerStateManager.java``)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.log.batch import add_sequence
from actors.node.errors import KafkaError
from actors.trace.events import LogAppend, ReplyPartition, Stamped, TxnGuard
from orchestrator.invariants.folds.fold import Witness, witness
from orchestrator.invariants.folds.memory import SESSIONS_REMEMBERED, forget_first, remember
from orchestrator.invariants.folds.uids import place_of
from orchestrator.invariants.mirrors.log_prefix import BatchFacts

NO_PRODUCER_STATE = "A leader without records of the producer id accepted a batch with any sequence number."
"""Exemption, where it follows from T2's of the same name."""

MUST_REMEMBER = 5
"""Batches of a producer that a leader knows again (``ProducerStateEntry.NUM_BATCHES_TO_RETAIN``)."""

REMEMBERED = 64
"""Batches of a producer that are remembered here: what a leader has to look back, and what truncations may take."""

SEQUENCE_ERRORS = frozenset(
    {
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.DUPLICATE_SEQUENCE_NUMBER,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.UNKNOWN_PRODUCER_ID,
    }
)
"""Errors by which a leader refuses a batch for its place in the producer's sequence."""


def known_again(batches: Sequence[BatchFacts]) -> list[BatchFacts]:
    """Of batches that a log had: those that its broker takes for duplicates when they come again."""
    known: dict[int, list[BatchFacts]] = {}
    for batch in reversed(batches):
        if batch.producer_id >= 0 and len(of_producer := known.setdefault(batch.producer_id, [])) < MUST_REMEMBER:
            of_producer.append(batch)
    return [batch for of_producer in known.values() for batch in of_producer]


class Sequences(msgspec.Struct, frozen=True, gc=False):
    """One batch of an idempotent producer in a replica's log: its sequence numbers, the offset ``end`` (exclusive), and
    the leader epoch in which the replica appended it."""

    producer_epoch: int
    first_sequence: int
    last_sequence: int
    end: int
    leader_epoch: int
    by: Witness


class ProducerEntry(msgspec.Struct):
    """One producer id in one log, oldest batch first. ``more``: there were batches before, which nobody remembers."""

    batches: list[Sequences] = []
    more: bool = False

    @property
    def last(self) -> Sequences | None:
        """The last batch; None where there is none, or it is not remembered."""
        return self.batches[-1] if self.batches else None

    def must_remember(self, end: int, leader_epoch: int) -> list[Sequences]:
        """The batches that the leader of an epoch must know again while its log ends at ``end``: the last five of the
        newest producer epoch."""
        known = [each for each in self.batches if each.end <= end and each.leader_epoch <= leader_epoch]
        return [each for each in known[-MUST_REMEMBER:] if each.producer_epoch == known[-1].producer_epoch]


class Verification(msgspec.Struct):
    """Of a producer id's transaction, by a leader. ``lowest``: base sequence of the batches that wait, in
    ``producer_epoch``; ``adds``: its first batch goes by ``transaction.version`` 2, and begins at sequence 0."""

    producer_epoch: int
    lowest: int
    adds: bool


class ProducerLog(msgspec.Struct):
    """Of one log, by producer id. ``cut_in``: the highest leader epoch in which it was cut, -1 none. ``markers``: of
    transactions: offset ``end`` (exclusive) and producer epoch. ``verifying``: the verifications that wait for the
    coordinator, or for the first batch after its answer, by process and partition alone. ``forgotten``: the highest id
    of which nothing is remembered because others came since, -1 none; ids rise. ``anew``: where the log began with
    nothing last, without producers."""

    forgotten: int = -1
    anew: int = 0
    entries: dict[int, ProducerEntry] = {}
    markers: dict[int, list[tuple[int, int]]] = {}
    cut_in: int = -1
    verifying: dict[int, Verification] = {}

    def append(self, event: Stamped, body: LogAppend) -> None:
        """A batch of an idempotent producer came to the end of the log."""
        entry = self.entries.get(body.producer_id)
        if entry is None:
            entry = self.entries[body.producer_id] = ProducerEntry()
            if body.producer_id <= self.forgotten:
                entry.more = True
            self._forget()
        last = add_sequence(body.base_sequence, body.last - body.base)
        entry.batches.append(
            Sequences(body.producer_epoch, body.base_sequence, last, body.last + 1, body.leader_epoch, witness(event))
        )
        if len(entry.batches) > 2 * REMEMBERED:
            del entry.batches[:REMEMBERED]
            entry.more = True

    def _forget(self) -> None:
        """Forget who has appended nothing for longest."""
        while len(self.entries) > SESSIONS_REMEMBERED:
            oldest = min(self.entries, key=self._end_of)
            for known in (self.entries, self.markers, self.verifying):
                known.pop(oldest, None)
            self.forgotten = max(self.forgotten, oldest)
        for each in (self.markers, self.verifying):
            forget_first(each, 2 * SESSIONS_REMEMBERED)

    def _end_of(self, producer_id: int) -> int:
        last = self.entries[producer_id].last
        return -1 if last is None else last.end

    def has_forgotten(self, producer_id: int) -> bool:
        """Whether the log may have something of a producer id that is not remembered."""
        return producer_id <= self.forgotten and producer_id not in self.entries

    def append_marker(self, body: LogAppend) -> None:
        """A marker of a transaction came to the end of the log."""
        known = self.markers.setdefault(body.producer_id, [])
        known.append((body.last + 1, body.producer_epoch))
        del known[:-REMEMBERED]

    def verify(self, body: TxnGuard) -> None:
        """One more batch waits for the coordinator's answer (``VerificationStateEntry.java``)."""
        known = self.verifying.get(body.producer_id)
        if known is None:
            known = self.verifying[body.producer_id] = Verification(body.producer_epoch, body.base_sequence, body.adds)
        elif body.producer_epoch > known.producer_epoch:
            known.producer_epoch, known.lowest = body.producer_epoch, body.base_sequence
        elif body.producer_epoch == known.producer_epoch:
            known.lowest = min(known.lowest, body.base_sequence)

    def end_verification(self, body: LogAppend) -> None:
        """Something of a transaction came to the end of the log. Under ``transaction.version`` 2 a marker of the epoch
        for which batches wait has ended the transaction before theirs (``UnifiedLog.updateProducers``)."""
        known = self.verifying.get(body.producer_id)
        if known is not None and not (known.adds and body.control and body.producer_epoch == known.producer_epoch):
            del self.verifying[body.producer_id]

    def marked(self, producer_id: int, end: int) -> int:
        """The producer epoch of the newest marker of a producer id below ``end``, -1 if there is none."""
        return max((epoch for at, epoch in self.markers.get(producer_id, ()) if at <= end), default=-1)

    def cut(self, end: int, leader_epoch: int = -1) -> None:
        """The log ends at ``end`` now."""
        self.cut_in = max(self.cut_in, leader_epoch)
        for known in self.markers.values():
            while known and known[-1][0] > end:
                known.pop()
        for producer_id, entry in list(self.entries.items()):
            while entry.batches and entry.batches[-1].end > end:
                entry.batches.pop()
            if not entry.batches and not entry.more:
                del self.entries[producer_id]

    def begin_anew(self, start: int) -> None:
        """All of the log was given up: it begins there, and knows no producer."""
        self.cut(0)
        self.anew = start

    def begin_behind_unknown(self, start: int) -> None:
        """The same, but with the producers of a copy in remote storage, which only others know."""
        self.begin_anew(start)
        self.forgotten = 1 << 62

    def up_to(self, end: int) -> ProducerLog:
        """What another log knows that begins behind a copy of this one up to there: of each producer the last batch
        (``ProducerStateManager.loadFromSnapshot``)."""
        found = ProducerLog(self.forgotten, self.anew, cut_in=self.cut_in)
        for producer_id, entry in self.entries.items():
            below = [each for each in entry.batches if each.end <= end]
            if below or entry.more:
                found.entries[producer_id] = ProducerEntry(below[-1:], more=True)
        for producer_id, known in self.markers.items():
            found.markers[producer_id] = [each for each in known if each[0] <= end]
        return found

    def wrongly_refused(self, told: ReplyPartition) -> str:
        """Why a leader had no reason to refuse a batch as it did (``ProducerAppendInfo.java``), "" if it had one, or if
        that cannot be said: its log was cut since it decided."""
        if told.error not in SEQUENCE_ERRORS or told.producer_id < 0 or self.cut_in > told.leader_epoch >= 0:
            return ""
        if self.has_forgotten(told.producer_id):
            return ""
        entry = self.entries.get(told.producer_id, ProducerEntry())
        end = told.log_end if told.log_end >= 0 else 1 << 62
        known = entry.must_remember(end, told.leader_epoch)
        waits = self.verifying.get(told.producer_id)
        of = f"of producer id {told.producer_id}"
        marked = self.marked(told.producer_id, end)
        if marked > (known[-1].producer_epoch if known else -1):
            # A marker of a newer epoch leaves no sequence number behind: 0 is next.
            if told.error == KafkaError.INVALID_PRODUCER_EPOCH:
                wrong = told.producer_epoch >= marked
            else:
                wrong = told.error != KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER or not told.base_sequence
            return f"although the last entry {of} in its log is a marker of epoch {marked}" if wrong else ""
        if not known:
            late = told.error == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER and told.base_sequence > 0
            excused = entry.more or (late and waits is not None and (waits.adds or waits.lowest < told.base_sequence))
            return "" if excused else f"although its log has no record {of}"
        last = known[-1]
        if told.error == KafkaError.INVALID_PRODUCER_EPOCH:
            older = told.producer_epoch < last.producer_epoch
            return "" if older else f"although its log has no newer epoch than {told.producer_epoch} {of}"
        if told.error != KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return "although Kafka's leaders have no reason for this error"
        sequence = told.base_sequence
        if told.producer_epoch != last.producer_epoch:
            began = told.producer_epoch > last.producer_epoch and sequence == 0
            return f"although sequence 0 {of} is right at the beginning of epoch {told.producer_epoch}" if began else ""
        if sequence == add_sequence(last.last_sequence, 1):
            # While a transaction is verified, nothing is taken above the lowest sequence that waits: that may be one of
            # a batch that was sent again, and that the log has.
            return (
                ""
                if waits is not None and waits.lowest < sequence
                else f"although sequence {sequence} {of} was the next one"
            )
        for each in known:
            if (each.first_sequence, each.last_sequence) == (sequence, told.last_sequence):
                return (
                    f"although sequences {sequence} to {told.last_sequence} {of} are a repetition of the batch that "
                    f"ends at offset {each.end:,}, one of the last {MUST_REMEMBER}"
                )
        return ""


class Committed(msgspec.Struct, frozen=True, gc=False):
    """A committed batch of a producer id, the first or the last: its offset ``end`` (exclusive), and the epoch of the
    leader that committed it."""

    end: int
    leader_epoch: int
    by: Witness


ENDS_REMEMBERED = 1 << 12
"""Ends of batches that are remembered to tell which batch an answer is about."""


class Acknowledged(msgspec.Struct):
    """Sequence numbers of a producer epoch that leaders have acknowledged: all below ``all_below``, and some ranges
    above it, first -> last."""

    all_below: int = 0
    above: dict[int, int] = {}

    def add(self, first: int, last: int) -> None:
        """A batch was acknowledged."""
        self.above[first] = max(last, self.above.get(first, last))
        while (found := min(self.above, default=self.all_below + 1)) <= self.all_below:
            self.all_below = max(self.all_below, self.above.pop(found) + 1)


class ProducerStates(msgspec.Struct):
    """``nodes``: replica -> what its log has. ``unchecked``: (offset, leader epoch) of batches that a leader took at
    whatever sequence number they had, since its log had nothing of their producer id. ``begun``: "producer id/epoch"
    -> wall of the first append of a batch by a leader; ``lowest``: the lowest number of a record in one. ``refused``:
    "producer id/epoch" of which a leader rightly refused a batch for its place in the sequence, or may have: whether
    all before it had been acknowledged, so that what the leader lacks can come no more. ``acknowledged``: of those.
    ``ends``: offset -> the batches that leaders appended up to there (exclusive): "producer id/epoch", first and last
    sequence number. ``committed``, ``latest``: by producer id, the first batch and the last."""

    nodes: dict[str, ProducerLog] = {}
    unchecked: list[tuple[int, int]] = []
    begun: dict[str, int] = {}
    lowest: dict[str, int] = {}
    refused: dict[str, bool] = {}
    acknowledged: dict[str, Acknowledged] = {}
    ends: dict[int, list[tuple[str, int, int]]] = {}
    committed: dict[int, Committed] = {}
    latest: dict[int, Committed] = {}

    def last(self, node: str, producer_id: int) -> Sequences | None:
        """The last batch of a producer id in a replica's log, None where it has nothing of it."""
        log = self.nodes.get(node)
        entry = None if log is None else log.entries.get(producer_id)
        return None if entry is None else entry.last

    def append(self, event: Stamped, body: LogAppend) -> None:
        """A batch of an idempotent producer came to the end of a log."""
        log = self.nodes.get(event.node)
        if log is None:
            log = self.nodes[event.node] = ProducerLog()
        if body.role == "leader":
            if (
                body.base_sequence
                and body.producer_id not in log.entries
                and not log.has_forgotten(body.producer_id)
                and self.must_have(event.node, body.producer_id, body.leader_epoch) is None
            ):
                self.unchecked.append((body.base, body.batch_epoch))
                del self.unchecked[:-SESSIONS_REMEMBERED]
            name = named(body.producer_id, body.producer_epoch)
            self.begun.setdefault(name, event.wall)
            forget_first(self.begun, SESSIONS_REMEMBERED)
            if body.uids and not body.control:
                number = place_of(body.uids[0])[1]
                remember(self.lowest, name, min(number, self.lowest.get(name, number)), SESSIONS_REMEMBERED)
            last = add_sequence(body.base_sequence, body.last - body.base)
            self.ends.setdefault(body.last + 1, []).append((name, body.base_sequence, last))
            forget_first(self.ends, ENDS_REMEMBERED)
        log.append(event, body)

    def cut(self, node: str, end: int, leader_epoch: int = -1) -> None:
        """A replica's log ends at ``end`` now."""
        log = self.nodes.get(node)
        if log is not None:
            log.cut(end, leader_epoch)

    def begin_anew(self, node: str, start: int) -> None:
        """A replica gave up all of its log, which begins there, and knows no producer."""
        self.nodes.setdefault(node, ProducerLog()).begin_anew(start)

    def begin_behind_copy(self, node: str, leader: str, start: int) -> None:
        """A replica gave up all of its log, and begins behind a copy of its leader's, with the producers up to it."""
        self.nodes[node] = self.nodes.get(leader, ProducerLog()).up_to(start)

    def must_have(self, node: str, producer_id: int, leader_epoch: int) -> Witness | None:
        """By what the log of the leader of an epoch must have something of a producer id, None if it need not: all was
        committed later, or lies below where the log began anew."""
        log = self.nodes.get(node)
        begins = 0 if log is None else log.anew
        known = (self.latest if begins else self.committed).get(producer_id)
        return None if known is None or known.leader_epoch > leader_epoch or known.end <= begins else known.by

    def commit(self, producer_id: int, batch: Committed) -> None:
        """A batch of a producer id was committed."""
        self.committed.setdefault(producer_id, batch)
        self.latest[producer_id] = batch
        for known in (self.committed, self.latest):
            forget_first(known, SESSIONS_REMEMBERED)

    def give_up(self, offset: int) -> None:
        """What was committed from an offset on is so no more."""
        self.committed = {each: batch for each, batch in self.committed.items() if batch.end <= offset}
        self.latest = {each: batch for each, batch in self.latest.items() if batch.end <= offset}

    def answered(self, node: str, told: ReplyPartition, anew: bool) -> None:
        """A leader answered about a batch. ``anew``: of a topic that was made anew, so that leaders of the former one
        may have acknowledged what came before it."""
        if not told.error and told.last_offset >= 0:
            for name, first, last in self.ends.get(told.last_offset + 1, ()):
                self._acknowledge(name, first, last)
        if told.error not in SEQUENCE_ERRORS or told.producer_id < 0:
            return
        name, log = named(told.producer_id, told.producer_epoch), self.nodes.get(node)
        if not (ProducerLog() if log is None else log).wrongly_refused(told):
            # The other errors do not say that something before is missing.
            known = self.acknowledged.get(name, Acknowledged())
            gap = told.error == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER and told.base_sequence > known.all_below
            last = anew or not gap
            remember(self.refused, name, last or self.refused.get(name, False), SESSIONS_REMEMBERED)
        if told.error == KafkaError.DUPLICATE_SEQUENCE_NUMBER:
            self._acknowledge(name, told.base_sequence, told.last_sequence)

    def _acknowledge(self, name: str, first: int, last: int) -> None:
        self.acknowledged.setdefault(name, Acknowledged()).add(first, last)
        forget_first(self.acknowledged, SESSIONS_REMEMBERED)


def named(producer_id: int, producer_epoch: int) -> str:
    """Name of a producer id's epoch."""
    return f"{producer_id}/{producer_epoch}"
