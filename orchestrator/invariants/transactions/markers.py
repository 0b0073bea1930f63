"""How transactions end on a partition, and what may be written in them: T4 and T8."""

from __future__ import annotations

import msgspec

from actors.config import CONFIG
from actors.node.errors import KafkaError
from actors.node.spec import is_recreated
from actors.trace.events import (
    LogAppend,
    PartChange,
    Stamped,
    TxnAdded,
    TxnGuard,
    TxnLoad,
    TxnMarkers,
    TxnState,
    TxnVerify,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness
from orchestrator.invariants.mirrors.epoch_bumps import PRODUCER_EPOCH_MAX
from orchestrator.invariants.mirrors.leader_epochs import Taint
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss import LOST, UNCLEAN
from orchestrator.invariants.mirrors.transactions_of_log import MARKERS_REMEMBERED
from orchestrator.invariants.transactions.decided import (
    EPOCH_BUMP,
    MARKER_OF_FORMER,
    REMEMBERED,
    UNMARKED_REMEMBERED,
    Coordinated,
    Decision,
    Producer,
    sent_before,
    sent_by,
)
from orchestrator.invariants.transactions.denials import DENIALS, Denials

CANNOT_HAVE = (KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT, KafkaError.UNSUPPORTED_VERSION)
"""Answers to a marker by which its partition has nothing of a transaction."""
VERIFICATION = "transaction.partition.verification.enable"

RECREATED = "partitions of a topic that was created again under the same name: a coordinator knows them only by name"


class Appended(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A marker that the leader of an epoch appended."""

    offset: int
    leader_epoch: int
    producer_epoch: int
    commits: bool


class Ends(State):
    """``coordinated``: what coordinators have decided. ``appended``: by producer id, the newest markers, whether or not
    they are still in any log."""

    coordinated: Coordinated = msgspec.field(default_factory=Coordinated)
    appended: dict[int, list[Appended]] = {}

    def append(self, body: LogAppend) -> None:
        """A leader appended a marker."""
        known = self.appended.setdefault(body.producer_id, [])
        known.append(Appended(body.base, body.leader_epoch, body.producer_epoch, body.marker == "commit"))
        del known[:-MARKERS_REMEMBERED]

    def given_up(self, body: TxnMarkers, mirror: LogMirror) -> Taint | None:
        """By what a marker is gone that some leader had appended; None if there was none, or nothing took it."""
        for each in self.appended.get(body.producer_id, ()):
            if (each.producer_epoch, each.commits) == (body.producer_epoch, body.commit):
                if taint := mirror.taint_below(each.offset + 1, each.leader_epoch):
                    return taint
        return None


def _named(producer_id: int, epoch: int) -> str:
    return f"producer id {producer_id}, epoch {epoch}"


def _kind(commits: bool) -> str:
    return "commit" if commits else "abort"


def _is_former(event: Stamped, producer: Producer | None, newest: Decision) -> bool | None:
    """Whether a marker is of an earlier transaction than the newest one in its epoch, where transactions have the same
    epoch: then it tells by when it was sent. None: the trace does not say."""
    if newest.version >= EPOCH_BUMP or producer is None:
        return None
    if sent_before(event.cause, newest.by):
        return True
    if not sent_by(event.cause, newest.by):
        return None
    return producer.is_open  # the one that is decided has its markers: it is complete


def _of_no_coordinator(body: LogAppend, producer: Producer | None, own: list[Decision]) -> str:
    """What is wrong with the coordinator epoch of a marker, "" if nothing is: who decided so, or has read it, sends it
    with its own one. ``own``: the decisions in its producer epoch, as far as they are remembered."""
    epochs = sorted({each.coordinator_epoch for each in own})
    forgotten = producer is not None and body.producer_epoch <= producer.forgotten
    if body.coordinator_epoch in epochs or (forgotten and body.coordinator_epoch >= 0):
        return ""
    told = " or ".join(str(each) for each in epochs)
    return f", of coordinator epoch {body.coordinator_epoch}, but its coordinator had epoch {told}"


class MarkersAreAsDecided(LogInvariant[Ends]):
    """A partition learns the end of a transaction only from its marker. A marker of the wrong kind shows aborted
    records, or hides committed ones; a late marker ends the next transaction.

    Example: the coordinator of app-1 has decided to commit the transaction of producer 7, epoch 3, and broker-1 appends
    an abort marker of producer 7, epoch 4, to orders-0. Or a former coordinator's marker arrives after that of its
    successor, and broker-1 appends it. Or the coordinator counts the marker of orders-0 as written, and the log of
    orders-0 has none, so that its transaction stays open and read_committed consumers stop there. Or it sends no marker
    to orders-0 at all, though the partition exists. Or its markers do not have its coordinator epoch, so that no leader
    can tell them from those of a former coordinator.
    """

    id = "T4"
    title = "A transaction ends on each of its partitions as its coordinator decided, and not by an older coordinator"
    source = "Kafka's ProducerAppendInfo.appendEndTxnMarker; KAFKA-10080; KIP-98; KIP-890"
    tested_when = "a leader appends a marker, or a coordinator counts one as written or gives its partition up"
    of_transactions = True
    types = (TxnState, TxnLoad, TxnMarkers)
    before_types = (LogAppend,)
    cases = {LogAppend: ("leader",)}
    exemptions = {
        "marker-of-former": MARKER_OF_FORMER,
        "unclean-election": UNCLEAN,
        "loss-budget": LOST,
    }
    unseen = (
        RECREATED,
        "markers written by an operator: Krift has no such tool",
        f"a marker that comes when its producer's next {REMEMBERED} transactions of the partition are decided",
        "markers that a leader appends again after its unclean election: T10 judges them",
    )

    def initial(self, key: str, profile: Profile) -> Ends:
        return Ends(key)

    def before(self, state: Ends, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is LogAppend
        if body.role != "leader" or not body.marker or is_recreated(state.key):
            return NOTHING
        state.append(body)
        if mirror.given_up == event.node:
            return NOTHING
        state.tested += 1
        commits, transactions = body.marker == "commit", mirror.replica(event.node).transactions
        producer = state.coordinated.producers.get(body.producer_id)
        decisions = [] if producer is None else producer.decisions
        named = f"{event.node} appended a marker ({body.marker}) of {_named(body.producer_id, body.producer_epoch)}"
        sentence = f"{named} to {state.key} at {body.base:,}"
        last = transactions.last_marker(body.producer_id)
        if last is not None and body.coordinator_epoch < last.coordinator_epoch:
            older = f", of coordinator epoch {body.coordinator_epoch} after one of {last.coordinator_epoch}"
            return self.violated(state.key, sentence + older, event)
        own = [each for each in decisions if each.producer_epoch == body.producer_epoch]
        span = transactions.open.get(body.producer_id)
        if not own:
            if producer is not None and body.producer_epoch <= producer.forgotten:
                late = span is not None and body.producer_epoch <= span.producer_epoch
                if not late or producer.version < EPOCH_BUMP:
                    return NOTHING
            return self.violated(state.key, f"{sentence}, but no coordinator had decided so", event)
        former = _is_former(event, producer, own[-1])
        alike = [each for each in own if each.commits == commits]
        if (former is False and own[-1].commits != commits) or (former is None and not alike):
            return self.violated(
                state.key, f"{sentence}; the coordinator's decision was {_kind(not commits)}", own[-1].by, event
            )
        if why := _of_no_coordinator(body, producer, own):
            return self.violated(state.key, f"{sentence}{why}", own[-1].by, event)
        if span is None:
            return NOTHING
        if own[-1].version >= EPOCH_BUMP:
            # Each transaction has an epoch of its own, which tells also for a leader that was replaced.
            # Those of an exhausted producer id come with the last epoch under any circumstances.
            late = body.producer_epoch <= span.producer_epoch and body.producer_epoch != PRODUCER_EPOCH_MAX
        else:
            late = alike[-1] is not decisions[-1] if former is None else former
        return self._late(state, event, sentence, own[-1]) if late else NOTHING

    def _late(self, state: Ends, event: Stamped, sentence: str, decision: Decision) -> Emissions:
        sentence += "; the marker belongs to an earlier transaction, but it ended the one that was open"
        if decision.version < EPOCH_BUMP:
            return self.excused("marker-of-former", state.key, sentence, decision.by, event)
        return self.violated(state.key, sentence, decision.by, event)

    def step(self, state: Ends, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is not TxnMarkers:
            state.coordinated.take(state.key, event, mirror)
            return NOTHING
        if state.key not in body.partitions or is_recreated(state.key) or mirror.removed:
            return NOTHING
        if body.outcome == "gone":
            return self._given_up(state, event, body)
        if body.outcome != "done":
            return NOTHING
        state.tested += 1
        transactions, named = mirror.transactions, _named(body.producer_id, body.producer_epoch)
        known = transactions.markers.get(body.producer_id, [])
        if any((each.producer_epoch, each.commits) == (body.producer_epoch, body.commit) for each in known):
            return NOTHING
        sentence = (
            f"{event.node} counts the marker ({_kind(body.commit)}) of {body.transactional_id} ({named}) in "
            f"{state.key} as written, but no such marker is committed there"
        )
        if taint := state.given_up(body, mirror):
            return self.excused(taint.rule, state.key, sentence, event, taint.by)
        return self.violated(state.key, sentence, event)

    def _given_up(self, state: Ends, event: Stamped, body: TxnMarkers) -> Emissions:
        """A coordinator counts a partition as gone that exists."""
        if body.errors.get(state.key, 0) in CANNOT_HAVE:
            return NOTHING
        state.tested += 1
        named = f"the transaction of {body.transactional_id} ({_named(body.producer_id, body.producer_epoch)})"
        return self.violated(
            state.key, f"{event.node} sends no marker of {named} to {state.key}, although that partition exists", event
        )


class Writes(State):
    """``coordinated``: what coordinators have open. ``verifies``: leaders ask them before they append. ``denials``: of
    what they are told then."""

    coordinated: Coordinated = msgspec.field(default_factory=Coordinated)
    verifies: bool = True
    denials: Denials = msgspec.field(default_factory=Denials)


class WritesAreInOpenTransactions(LogInvariant[Writes]):
    """A record in a transaction that is unknown to its coordinator is never decided: the last stable offset stays there
    for ever, and no read_committed consumer reads past it. And if a coordinator denies a leader a partition that is in
    the transaction, its producer aborts that for no reason, and the next one, too. A coordinator that answers a
    producer has committed first that its partitions are in the transaction, or the one that holds the group of its
    offsets: its successor has to know.

    Example: the batch of producer 7, epoch 3, was in flight to broker-1 when its transaction was aborted by the
    timeout. The abort marker is in the log of orders-0 when the batch arrives, and broker-1 appends it. Until the
    marker of a decided transaction is in the leader's log, a batch may still come: that marker ends it, too. Or the
    transaction of producer 7 has orders-0 and copies-1, and its coordinator tells the leader of copies-1 that it has
    not.
    """

    id = "T8"
    title = "A leader appends to a transaction only while its coordinator has it open with this partition"
    source = "KIP-890; KAFKA-14402; KAFKA-12671; Kafka's TransactionCoordinator.handleVerifyPartitionsInTransaction"
    tested_when = (
        "a leader appends the first batch of a transaction, its coordinator answers whether it may, or that partitions "
        "are in it"
    )
    of_transactions = True
    types = (TxnState, TxnLoad, TxnGuard, TxnVerify, TxnAdded)
    before_types = (LogAppend,)
    cases = {LogAppend: ("leader",)}
    exemptions = {
        "unverified": (
            f"{VERIFICATION} is off, and the producer's transaction.version is below 2: the leader does not ask the "
            "coordinator."
        )
    }
    unseen = (
        RECREATED,
        (
            "a batch of a transaction without a marker on some replica that comes when its producer's next "
            f"{UNMARKED_REMEMBERED:,} transactions of the partition are decided"
        ),
        "denials of a coordinator that is being replaced, or was asked before it had the partition in the transaction",
        "denials of a producer epoch: below transaction.version 2 a fence raises it before that is written",
        "what a replaced coordinator says is added",
    )

    def initial(self, key: str, profile: Profile) -> Writes:
        verifies = profile.setting(VERIFICATION, default=CONFIG[VERIFICATION].default)
        return Writes(key, verifies=verifies is True)

    def before(self, state: Writes, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is LogAppend
        if body.role != "leader" or not body.transactional or body.marker or is_recreated(state.key):
            return NOTHING
        transactions = mirror.replica(event.node).transactions
        span = transactions.open.get(body.producer_id)
        if span is not None and span.producer_epoch == body.producer_epoch:
            return NOTHING
        state.tested += 1
        producer = state.coordinated.producers.get(body.producer_id)
        by: Witness | None = None
        if producer is not None and producer.is_open and producer.epoch == body.producer_epoch:
            return NOTHING
        decision = None if producer is None else producer.ended.get(body.producer_epoch)
        if decision is not None:
            if not decision.is_marked(body.producer_id, event.node, mirror):
                return NOTHING  # the leader may have been paused since its coordinator answered
            by = decision.by
        elif producer is not None and body.producer_epoch <= producer.unmarked:
            return NOTHING
        why = "but no coordinator had added the partition to it" if by is None else "but the marker of its end is there"
        sentence = (
            f"{event.node} appended a batch at {body.base:,} of {state.key} in a transaction of "
            f"{_named(body.producer_id, body.producer_epoch)}, {why}"
        )
        if not state.verifies and (producer is None or producer.version < EPOCH_BUMP):
            return self.excused("unverified", state.key, sentence, by, event)
        return self.violated(state.key, sentence, by, event)

    @property
    def news(self) -> tuple[type, ...]:
        return (PartChange,)

    def hear(self, state: Writes, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is PartChange
        state.denials.hear(body)
        return NOTHING

    def step(self, state: Writes, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is TxnGuard:
            state.denials.guard(event, state.coordinated.producers.get(body.producer_id))
        elif type(body) is TxnVerify:
            return self._answered(state, event, body, mirror)
        elif type(body) is TxnAdded:
            return self._added(state, event, body)
        else:
            state.coordinated.take(state.key, event, mirror)
        return NOTHING

    def _answered(self, state: Writes, event: Stamped, body: TxnVerify, mirror: LogMirror) -> Emissions:
        """A coordinator has answered a leader that asked for a partition."""
        since = state.denials.answered(event, state.coordinated.producers.get(body.producer_id))
        if since is None or is_recreated(state.key) or mirror.removed:
            return NOTHING
        state.tested += 1
        if body.error not in DENIALS:
            return NOTHING
        return self.violated(
            state.key,
            f"{since.node} denied {event.node} with {KafkaError(body.error).name} that {state.key} is in the "
            f"transaction of {_named(body.producer_id, body.producer_epoch)}, but it has it there",
            since,
            event,
        )

    def _added(self, state: Writes, event: Stamped, body: TxnAdded) -> Emissions:
        """A coordinator says that it has the partition in an open transaction: then its log has it there."""
        producer = state.coordinated.producers.get(body.producer_id)
        if state.key not in body.partitions or is_recreated(state.key):
            return NOTHING
        if producer is not None and body.coordinator_epoch < producer.coordinator_epoch:
            return NOTHING
        state.tested += 1
        if producer is not None and producer.is_open and producer.epoch == body.producer_epoch:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} answered that {state.key} is in the transaction of {body.transactional_id} "
            f"({_named(body.producer_id, body.producer_epoch)}), but had not committed that",
            None if producer is None else producer.by,
            event,
        )
