"""What an unclean election leaves of transactions: T10."""

from __future__ import annotations

import msgspec

from actors.features import KAFKA_7408
from actors.node.spec import is_recreated
from actors.trace.events import (
    LogAppend,
    LogHw,
    LogTrunc,
    PartAssume,
    PartChange,
    Stamped,
    TxnLoad,
    TxnMarkers,
    TxnState,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.folds.known_findings import known_as
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.transactions_of_log import MARKERS_REMEMBERED, Span
from orchestrator.invariants.transactions.decided import EPOCH_BUMP, Coordinated
from orchestrator.invariants.transactions.halves import Transactions


class Owed(msgspec.Struct, frozen=True, gc=False):
    """A marker that was cut off, and is to be appended again."""

    producer_id: int
    producer_epoch: int
    commits: bool
    coordinator_epoch: int


class Beginning(msgspec.Struct):
    """A leader that was elected uncleanly and begins. ``owed``: the markers that it has cut off, in order;
    ``forgotten``: there are more of them, which the mirror remembers no more."""

    node: str
    incarnation: int
    by: Witness
    leader_epoch: int = -1
    owed: list[Owed] = []
    forgotten: bool = False


class Elections(State):
    """``coordinated``: what coordinators have open, and have decided; ``written``: what producers have written in
    transactions; ``told``: producer id -> epoch of the last marker of which a coordinator counts this partition as
    told. ``mends``: `kafka-7408` is on; ``known``: the finding about it, if it is."""

    coordinated: Coordinated = msgspec.field(default_factory=Coordinated)
    written: Transactions = msgspec.field(default_factory=Transactions)
    told: dict[int, int] = {}
    beginning: Beginning | None = None
    mends: bool = False
    known: str = ""


class NothingIsLeftOpen(LogInvariant[Elections]):
    """A leader whose log has the records of a transaction and lacks its marker has it open. The coordinator counts the
    marker as written and never sends it again, so read_committed consumers stop there for ever. A leader whose log has
    some records of a transaction and lacks others must not commit it, because readers at read_committed would get only
    a part.

    Example: broker-2, which has the records of producer 7 at 41 and 42 of orders-0 and not the marker at 43, is elected
    uncleanly. It must truncate its log to its last stable offset, 41. Of the transaction of producer 9, whose records
    are below 41, it had the marker at 44. It must append that marker again, in its own leader epoch, since a follower
    may have the former one at the same offset. Had producer 9 records at 43, too, these would be lost, and the marker
    would commit the others: half a transaction.
    """

    id = "T10"
    title = "After an unclean election transactions are whole or gone, and their markers are still there"
    source = "KAFKA-7408; KIP-704"
    tested_when = "a broker that was elected uncleanly begins to lead a partition with transactions"
    of_transactions = True
    types = (TxnState, TxnLoad, TxnMarkers, PartAssume, PartChange, LogHw)
    before_types = (LogTrunc, LogAppend)
    exemptions = {
        "kafka-7408-off": "The feature is off: in Kafka a transaction stays open if the new leader lacks its marker, "
        "and is committed by half if it lacks some of its records.",
        "unclean-election": "The new leader had none of the records that are lost, with the feature or without. Before "
        "transaction.version 2 it takes the next ones of the producer, which does not learn of that, and commits them.",
    }
    unseen = (
        "below transaction.version 2, a transaction that stays open while its producer has another one open there",
        "transactions that a coordinator lost by an unclean election of its own partition: T9 finds them open",
        "the truncation of a log whose broker has restarted: its high watermark is that of its checkpoint",
        "a transaction that is gone from one partition and is committed on another one: each log is judged alone",
        "half of the positions that a group has committed in a transaction",
        f"a leader that cuts off more than {MARKERS_REMEMBERED} markers of a producer",
    )

    def initial(self, key: str, profile: Profile) -> Elections:
        known = known_as(profile, "kafka-7408-half")
        return Elections(key, mends=profile.feature(KAFKA_7408) not in ("", "off"), known=known)

    def before(self, state: Elections, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogTrunc:
            return self._cut(state, event, body, mirror) if body.reason == "last-stable-offset" else NOTHING
        assert type(body) is LogAppend
        begins = state.beginning
        if begins is not None and begins.node == event.node:
            if begins.leader_epoch >= 0 and body.marker and begins.forgotten:
                return NOTHING
            if begins.leader_epoch >= 0 and body.marker and begins.owed:
                return self._again(state, begins, body, event)
            return (*self._judge(state, event, mirror), *self._appended(state, event, body, mirror))
        return self._appended(state, event, body, mirror)

    def _again(self, state: Elections, begins: Beginning, body: LogAppend, event: Stamped) -> Emissions:
        """A leader appends a marker while it owes some."""
        owed = begins.owed.pop(0)
        sentence = f"{event.node} appended a marker of producer id {body.producer_id} to {state.key} at {body.base:,}"
        if (owed.producer_id, owed.producer_epoch, owed.commits, owed.coordinator_epoch) != (
            *(body.producer_id, body.producer_epoch, body.marker == "commit", body.coordinator_epoch),
        ):
            sentence += f", but first it had to append again the truncated marker of producer id {owed.producer_id}"
        elif body.batch_epoch != begins.leader_epoch:
            sentence += f" in leader epoch {body.batch_epoch}, although it leads in leader epoch {begins.leader_epoch}"
        else:
            return NOTHING
        state.beginning = None
        return self.violated(state.key, sentence, begins.by, event)

    def step(self, state: Elections, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is TxnMarkers:
            if body.outcome == "done" and state.key in body.partitions:
                state.told[body.producer_id] = body.producer_epoch
        elif type(body) is PartAssume:
            return self._assumed(state, event, body, mirror)
        elif type(body) in (LogHw, PartChange):
            if type(body) is PartChange or (state.beginning is not None and state.beginning.node == event.node):
                return self._judge(state, event, mirror)
        else:
            state.coordinated.take(state.key, event, mirror)
        return NOTHING

    def _appended(self, state: Elections, event: Stamped, body: LogAppend, mirror: LogMirror) -> Emissions:
        """A leader appends something of a transaction that is not a marker which it owes."""
        if body.role != "leader" or not body.transactional or is_recreated(state.key):
            return NOTHING
        if not body.marker:
            state.written.append(body)
            return NOTHING
        half = state.written.end(body, mirror.replica(event.node).log)
        if half is None:
            return NOTHING
        state.tested += 1
        lost = "were lost by an unclean election" if not half.cut else "were truncated after an unclean election"
        sentence = (
            f"the marker that {event.node} appended at {body.base:,} of {state.key} commits {half.has:,} of "
            f"{half.has + half.lacks:,} records of a transaction of producer id {body.producer_id}; the others {lost}"
        )
        if not state.mends:
            return self.excused("kafka-7408-off", state.key, sentence, half.by, event)
        if half.cut:
            return self.violated(state.key, sentence, half.by, event, known=state.known)
        producer = state.coordinated.producers.get(body.producer_id)
        if producer is not None and producer.version < EPOCH_BUMP:
            return self.excused("unclean-election", state.key, sentence, half.by, event)
        return self.violated(state.key, sentence, half.by, event)

    def _cut(self, state: Elections, event: Stamped, body: LogTrunc, mirror: LogMirror) -> Emissions:
        replica = mirror.replica(event.node)
        markers = [
            (each.offset, Owed(producer_id, each.producer_epoch, each.commits, each.coordinator_epoch))
            for producer_id, known in replica.transactions.markers.items()
            for each in known
            if each.offset >= body.to
        ]
        owed = [each for _, each in sorted(markers, key=lambda marker: marker[0])]
        forgotten = replica.transactions.marker_forgotten >= body.to
        state.beginning = Beginning(event.node, event.incarnation, witness(event), owed=owed, forgotten=forgotten)
        sentence = f"{event.node} truncated {state.key} from {body.was:,} to {body.to:,}"
        if not mirror.is_recovering(event.node, body.leader_epoch):
            return self.violated(state.key, f"{sentence}, although it was not elected uncleanly", event)
        if replica.incarnation == event.incarnation and body.to < (stable := replica.last_stable_offset):
            return self.violated(state.key, f"{sentence}, below its last stable offset {stable:,}", event)
        state.written.cut(replica.log, body.to)
        halves = [each for each in replica.transactions.ended if each.commits and each.first < body.to <= each.marker]
        return tuple(found for each in halves for found in self._halved(state, event, sentence, each, body.to))

    def _halved(self, state: Elections, event: Stamped, sentence: str, span: Span, to: int) -> Emissions:
        """A committed transaction that begins below the cut, and whose marker is above it."""
        lost = sum(end - base for base, end in span.ranges if base >= to)
        if not lost:
            return NOTHING
        state.written.tell(span.producer_id, span.first)
        whole = sum(end - base for base, end in span.ranges)
        part = f"{lost:,} of {whole:,} records of the committed transaction of producer id {span.producer_id} with it"
        return self.violated(state.key, f"{sentence}, and {part}", event, known=state.known)

    def _assumed(self, state: Elections, event: Stamped, body: PartAssume, mirror: LogMirror) -> Emissions:
        begins = state.beginning
        if body.role != "leader":
            if begins is not None and begins.node == event.node:
                state.beginning = None
            return NOTHING
        lineage = mirror.lineages.get(body.leader_epoch)
        if begins is not None and (begins.node, begins.incarnation) == (event.node, event.incarnation):
            begins.leader_epoch = body.leader_epoch
        elif lineage is not None and lineage.unclean and lineage.leader == event.node:
            state.beginning = Beginning(event.node, event.incarnation, witness(event), body.leader_epoch)
        else:
            return NOTHING
        state.written.begin(event, mirror.replica(event.node).log)
        return NOTHING

    def _judge(self, state: Elections, event: Stamped, mirror: LogMirror) -> Emissions:
        """A leader goes on to something else than its markers."""
        begins = state.beginning
        if begins is None or begins.leader_epoch < 0 or is_recreated(state.key):
            return NOTHING
        state.beginning = None
        transactions = mirror.replica(begins.node).transactions
        if begins.forgotten or not (transactions.any or transactions.markers):
            return NOTHING
        state.tested += 1
        who = f"{begins.node}, leader of {state.key} in leader epoch {begins.leader_epoch} after an unclean election"
        if begins.owed:
            lacks = f"{who}, did not append again the truncated marker of producer id {begins.owed[0].producer_id}"
            return self.violated(state.key, lacks, begins.by, event)
        for span in transactions.open.values():
            if not self._is_dangling(state, span):
                continue
            sentence = (
                f"{who}, still has the transaction of producer id {span.producer_id}, epoch {span.producer_epoch}, "
                f"open from {span.first:,} on, but a coordinator counts its marker as written"
            )
            if not state.mends:
                return self.excused("kafka-7408-off", state.key, sentence, begins.by)
            return self.violated(state.key, sentence, begins.by, event)
        return NOTHING

    def _is_dangling(self, state: Elections, span: Span) -> bool:
        """Whether nobody is going to end it: its coordinator has, as far as it knows."""
        told, producer = state.told.get(span.producer_id, -1), state.coordinated.producers.get(span.producer_id)
        if producer is not None and producer.is_open and producer.epoch == span.producer_epoch:
            return False
        if producer is not None and producer.version >= EPOCH_BUMP:
            return told > span.producer_epoch
        decided = producer is None or not producer.decisions or producer.decisions[-1].producer_epoch <= told
        return decided and told >= span.producer_epoch
