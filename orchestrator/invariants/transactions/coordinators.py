"""What transaction coordinators do with a transactional id: T11 and T13."""

from __future__ import annotations

import msgspec

from actors.broker.transaction_coordinator.transaction_state import AT_REST, PREVIOUS
from actors.features import TRANSACTION_VERSION
from actors.trace.events import (
    ClockSet,
    NodeDown,
    PartChange,
    Stamped,
    TxnLoad,
    TxnLoaded,
    TxnMarkers,
    TxnState,
    TxnTakenBack,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.pauses import EARLY_US
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.mirrors.epoch_bumps import PRODUCER_EPOCH_MAX
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss import LOSS, LOST, UNCLEAN
from orchestrator.invariants.mirrors.partition_losses import LOSS_BUDGET, PartitionLosses
from orchestrator.invariants.transactions.decided import DECISIONS, EPOCH_BUMP
from orchestrator.invariants.transactions.late_aborts import HINDRANCES, LateAborts
from orchestrator.invariants.transactions.timeouts import Timeouts, timeouts_of

EXPIRATION = "transactional.id.expiration.ms"


class Step(msgspec.Struct, frozen=True, gc=False):
    """What a record of the transaction log has made of a transactional id. ``offset``: of the record, or ``loaded``: of
    the last one that a coordinator has read; ``coordinator_epoch``: of who told of it. ``timeout_ms``, ``start_ms``: of
    the transaction, and when it began; -1 unknown. ``client_version``: the transaction.version of its producer.
    ``losses``: how often disks had lost some of that log by then. ``update_ms``: when the record was written, by the
    clock of who wrote it; -1 unknown."""

    state: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[str, ...]
    offset: int
    coordinator_epoch: int
    by: Witness
    loaded: bool = False
    timeout_ms: int = -1
    start_ms: int = -1
    client_version: int = 0
    losses: int = 0
    update_ms: int = -1

    def is_same_as(self, other: Step) -> bool:
        """Whether they are one step, as far as state and producer tell."""
        same_producer = (self.producer_id, self.producer_epoch) == (other.producer_id, other.producer_epoch)
        return same_producer and self.state == other.state


class Ids(State):
    """``steps``: transactional id -> the newest step that is known. ``doubtful``: ids of which an unclean election may
    have taken that. ``taken_back``: transactional id -> steps that a coordinator took back, after the newest one that
    is known to be committed; their records stay in the log. ``timeouts``: of the producers. ``resigned``: broker -> the
    coordinator epoch that it gave up last, and has not taken up again. ``losses``: of the transaction log, which has
    the transaction.version of producers (``keeps_version``) in a cluster of version 1 or 2. ``clocks_set``: the clock
    of some broker was. ``aborts``: what tells when a timed-out transaction is to be aborted."""

    steps: dict[str, Step] = {}
    doubtful: set[str] = set()
    taken_back: dict[str, list[TxnTakenBack]] = {}
    timeouts: Timeouts = {}
    resigned: dict[str, int] = {}
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)
    keeps_version: bool = False
    clocks_set: bool = False
    aborts: LateAborts = msgspec.field(default_factory=LateAborts)

    def found_what_was_taken_back(self, transactional_id: str, known: Step) -> bool:
        """Whether a step is known from the log alone, where a coordinator that took it back had left its record."""
        return known.loaded and any(
            (each.state, each.producer_id, each.producer_epoch)
            == (known.state, known.producer_id, known.producer_epoch)
            and each.log_offset <= known.offset
            for each in self.taken_back.get(transactional_id, ())
        )

    def commit(self, transactional_id: str, offset: int) -> None:
        """A step is committed: no record before it matters any longer."""
        if transactional_id in self.taken_back:
            left = [each for each in self.taken_back[transactional_id] if each.log_offset > offset]
            if left:
                self.taken_back[transactional_id] = left
            else:
                del self.taken_back[transactional_id]


TAKEN_BACK = (
    "A coordinator could not commit the record of the step in time, and took the step back. The record stayed in the "
    "log, from which another coordinator read it before it was committed. Kafka's coordinators do the same."
)


def _said(state: str, producer_id: int, epoch: int) -> str:
    return f"{state} (producer id {producer_id}, epoch {epoch})"


class StatesFollowTheRule(KeyedInvariant[Ids]):
    """A decided transaction must reach its end under every coordinator, and a fenced producer must stay fenced. Both
    depend on the steps of a transactional id: each step follows from the previous one, even across coordinators.

    Example: broker-1 records PrepareCommit for app-1 at offset 17 of __transaction_state-3 and crashes. Broker-2, which
    has read the log up to 18, continues with PrepareAbort. Or app-1, which had producer epoch 4, receives epoch 3. Or
    the transaction of app-1 begins anew with each partition, and its timeout is never over. Or a former process of
    app-1, which has epoch 4, adds a partition to the transaction that app-1 has open in epoch 5. Or app-1 asks for a
    timeout of 6 s, and its coordinator gives its transactions 15 minutes, or aborts one after 3 s, or after 12 s. Or a
    former process of app-1 asks for its next epoch, and its coordinator gives it one, which fences the present process.
    Or the transaction of app-1 is complete, and its coordinator sends the marker to orders-0 once more, which ends the
    next transaction there. Or broker-2 finds the PrepareCommit of broker-1 without orders-1, which then gets no marker.
    Or the coordinator raises the epoch of app-1 each time that it fails to abort a timed-out transaction. Or it removes
    app-1 a second after its last transaction, and the next process of app-1 gets another producer id, which fences
    nobody.
    """

    id = "T11"
    title = "The states of a transactional id follow the rules, a decision is permanent, and epochs only rise"
    source = (
        "Kafka's TransactionState, TransactionMetadata.completeTransitionTo, TransactionMarkerChannelManager, "
        "TransactionStateManager.removeExpiredTransactionalIds; "
        "KAFKA-9600; KAFKA-10080; KAFKA-16352"
    )
    tested_when = (
        "a coordinator changes the state of a transactional id whose earlier state is known, loads it, or sends its "
        "markers"
    )
    route = PARTITION
    of_transactions = True
    types = (TxnState, TxnTakenBack, TxnLoad, TxnMarkers, PartChange, NodeDown)
    exemptions = {"unclean-election": UNCLEAN, LOSS_BUDGET: LOST, "taken-back": TAKEN_BACK}
    unseen = (
        "ids that a coordinator does not find in its log: an expired id is legitimately absent",
        "steps whose coordinator crashed before it recorded them, except the last one before a load",
        "whether a step may be gone from the log of a later coordinator: P4 judges what its leader lacks",
        "coordinator epochs: P1 and P15 judge those of the log, T4 those of markers",
        "markers of a coordinator that does not know of its successor: it does not know of later steps either",
        "partitions that a second load lacks: what the first one has read was perhaps not committed",
        "when an id expires in a run in which the clock of a broker is set",
        "by how much an epoch rises from a coordinator to the next one, which may have read several steps",
        (
            "aborts that are late where a clock was set, the coordinator's process or disk was hindered, or a replica "
            "of its log was out of the ISR while the transaction was open"
        ),
    )

    def initial(self, key: str, profile: Profile) -> Ids:
        version, changes = profile.feature(TRANSACTION_VERSION), TRANSACTION_VERSION in profile.bounced
        losses, keeps_version = PartitionLosses(profile, prefixes=(key,)), version in ("1", "2") and not changes
        return Ids(key, timeouts=timeouts_of(profile), losses=losses, keeps_version=keeps_version)

    @property
    def news(self) -> tuple[type, ...]:
        return HINDRANCES

    def hear(self, state: Ids, event: Stamped) -> Emissions:
        state.aborts.hinders(event, event.body)
        if type(event.body) is ClockSet:
            state.clocks_set = state.clocks_set or event.node.startswith("broker-")
        return NOTHING

    def step(self, state: Ids, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is TxnState:
            if body.tp != state.key:
                return NOTHING
            timeout = self._timeout(state, event, body.transactional_id, body.timeout_ms)
            asked = self._initialized if body.to_state == "Empty" else self._asked
            alone = [*timeout, *asked(state, event, body), *self._timed(state, event, body)]
            state.aborts.used_us[body.transactional_id] = event.wall
            return [*alone, *self._moved(state, event, body)]
        if type(body) is NodeDown:
            state.losses.take(event)
            return NOTHING
        if type(body) is PartChange:
            state.losses.take(event)
            if body.tp == state.key:
                state.aborts.changed(event, body)
            if body.cause == "unclean":
                state.doubtful = set(state.steps)
            return NOTHING
        if type(body) is TxnTakenBack:
            if body.tp == state.key:
                state.taken_back.setdefault(body.transactional_id, []).append(body)
                state.aborts.used_us[body.transactional_id] = event.wall
            return NOTHING
        if type(body) is TxnMarkers:
            return self._sent(state, event, body) if body.tp == state.key and body.outcome == "sent" else NOTHING
        assert type(body) is TxnLoad
        if body.tp != state.key:
            return NOTHING
        if not body.loaded:
            state.resigned[event.node] = body.coordinator_epoch
            return NOTHING
        if body.coordinator_epoch <= state.resigned.get(event.node, -1):
            del state.resigned[event.node]
        state.aborts.loaded_us[event.node] = event.wall
        log = (body.end, body.coordinator_epoch)
        return [
            wrong
            for transactional_id, found in body.transactions.items()
            for wrong in (
                *self._timeout(state, event, transactional_id, found.timeout_ms),
                *self._loaded(state, event, log, transactional_id, found),
            )
        ]

    def _timeout(self, state: Ids, event: Stamped, transactional_id: str, timeout_ms: int) -> Emissions:
        """The timeout of a transaction is one that a producer of its id has."""
        own = state.timeouts.get(transactional_id)
        if timeout_ms < 0 or own is None or timeout_ms in own:
            return NOTHING
        sentence = f"{event.node} has {transactional_id} with a timeout of {timeout_ms:,} ms"
        told = " or ".join(f"{each:,} ms" for each in dict.fromkeys(own))
        return self.violated(state.key, f"{sentence}, but its producer asks for {told}", event)

    def _asked(self, state: Ids, event: Stamped, body: TxnState) -> Emissions:
        """Only the producer of a transaction adds to it, or ends it."""
        asked, had = (body.asked_id, body.asked_epoch), (body.former_id, body.former_epoch)
        if body.asked_epoch < 0 or asked == had:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} took {body.transactional_id} from {body.from_state} to {body.to_state} for producer id "
            f"{asked[0]}, epoch {asked[1]}, although it had producer id {had[0]}, epoch {had[1]}",
            event,
        )

    def _initialized(self, state: Ids, event: Stamped, body: TxnState) -> Emissions:
        """A producer gets an epoch that nobody had, if it is the present one, or does not say who it is."""
        if body.update_ms < 0 or body.former_epoch < 0:
            return NOTHING  # the trace does not tell who asked, or there was nobody before
        why = _wrong_initialization(body)
        if not why:
            return NOTHING
        asked = f", for producer id {body.asked_id}, epoch {body.asked_epoch}" if body.asked_epoch >= 0 else ""
        return self.violated(
            state.key,
            f"{event.node} gave {body.transactional_id} producer id {body.producer_id}, epoch {body.producer_epoch}, "
            f"after producer id {body.former_id}, epoch {body.former_epoch}{asked}: {why}",
            event,
        )

    def _timed(self, state: Ids, event: Stamped, body: TxnState) -> Emissions:
        """A transaction begins when it gets its first partition, or ends without one, and is aborted by its timeout
        only after that. All this is by the clocks of coordinators, which have it in their log."""
        if body.update_ms < 0:
            return NOTHING
        begins = body.to_state in ("Ongoing", "PrepareAbort") and body.from_state in AT_REST
        if begins and body.start_ms != body.update_ms:
            return self.violated(
                state.key,
                f"{event.node} took {body.transactional_id} from {body.from_state} to {body.to_state} at "
                f"{body.update_ms:,} ms, but has it that the transaction began at {body.start_ms:,} ms",
                event,
            )
        if body.timed_out and body.update_ms <= body.start_ms + body.timeout_ms:
            return self.violated(
                state.key,
                f"{event.node} aborts the transaction of {body.transactional_id} at {body.update_ms:,} ms, as its "
                f"timeout of {body.timeout_ms:,} ms is over, but it began at {body.start_ms:,} ms",
                event,
            )
        if body.timed_out and (late_us := state.aborts.late_us(event, body, state.losses.profile)) > 0:
            return self.violated(
                state.key,
                f"{event.node} aborts the transaction of {body.transactional_id}, which began at {body.start_ms:,} ms "
                f"with a timeout of {body.timeout_ms:,} ms, at {body.update_ms:,} ms: {late_us // 1000:,} ms too late",
                event,
            )
        return NOTHING

    def _moved(self, state: Ids, event: Stamped, body: TxnState) -> Emissions:
        known = state.steps.get(body.transactional_id)
        if known is not None and known.offset >= body.log_offset and body.transactional_id not in state.doubtful:
            if body.coordinator_epoch <= known.coordinator_epoch:
                return NOTHING  # a coordinator that is replaced learns late of what its successor has read
            known = None  # a log that was lost begins anew
        new = Step(
            *(body.to_state, body.producer_id, body.producer_epoch, tuple(sorted(body.partitions))),
            *(body.log_offset, body.coordinator_epoch, witness(event)),
            timeout_ms=body.timeout_ms,
            start_ms=body.start_ms,
            client_version=body.client_version,
            losses=state.losses.count(state.key),
            update_ms=body.update_ms,
        )
        if body.to_state == "Dead":
            state.steps.pop(body.transactional_id, None)
        else:
            state.steps[body.transactional_id] = new
        if known is None:
            return NOTHING
        state.tested += 1
        why = _wrong(known, new, body.client_version)
        if not why and body.from_state != known.state:
            why = f"took it from {body.from_state}"
        if not why and body.to_state == "Dead":
            why = _too_young(state, known, event)
        if why:
            return self._violation(state, event, body.transactional_id, known, new, why)
        state.doubtful.discard(body.transactional_id)
        state.commit(body.transactional_id, body.log_offset)
        return NOTHING

    def _loaded(
        self, state: Ids, event: Stamped, log: tuple[int, int], transactional_id: str, found: TxnLoaded
    ) -> Emissions:
        """The log as a new coordinator has read it has the last step that is known, or the next one, too. ``log``: its
        end, and the leader epoch."""
        end, epoch = log
        known = state.steps.get(transactional_id)
        if known is not None and known.offset >= end and transactional_id not in state.doubtful:
            return NOTHING  # who read it had not the end of the log, and does not coordinate by now
        partitions = tuple(sorted(found.partitions))
        new = Step(
            *(found.state, found.producer_id, found.producer_epoch, partitions, end - 1, epoch, witness(event)),
            loaded=True,
            timeout_ms=found.timeout_ms,
            start_ms=found.start_ms,
            client_version=found.client_version,
            losses=state.losses.count(state.key),
        )
        if known is not None and new.is_same_as(known):
            # A load renews nothing, and brings nothing back.
            new = msgspec.structs.replace(new, update_ms=known.update_ms, losses=known.losses)
        state.steps[transactional_id] = new
        if known is None:
            return NOTHING
        state.tested += 1
        if not new.is_same_as(known):
            why = _wrong(known, new, found.client_version)
        elif not (why := _wrong_time(known, new)) and (why := _lacking(known, new, state.keeps_version)):
            if rule := state.losses.rule(state.key, None, known.offset, known.losses):
                return self.excused(
                    rule, state.key, _sentence(event, transactional_id, known, new, why), known.by, event
                )
        return self._violation(state, event, transactional_id, known, new, why) if why else NOTHING

    def _sent(self, state: Ids, event: Stamped, body: TxnMarkers) -> Emissions:
        """A coordinator tells partitions of a decision until all of them know, and only as long as it coordinates."""
        producer = (body.producer_id, body.producer_epoch)
        marker = f"{event.node} sends a marker ({'commit' if body.commit else 'abort'}) of {body.transactional_id} "
        marker += f"(producer id {producer[0]}, epoch {producer[1]}) to {', '.join(body.partitions)}"
        if body.coordinator_epoch <= state.resigned.get(event.node, -1):
            state.tested += 1
            epoch = f"in coordinator epoch {body.coordinator_epoch}"
            return self.violated(state.key, f"{marker}, although it does not coordinate any longer {epoch}", event)
        known = state.steps.get(body.transactional_id)
        if known is None or known.coordinator_epoch != body.coordinator_epoch:
            return NOTHING  # who sends it, or the trace, does not know of the last step
        if body.transactional_id in state.doubtful:
            return NOTHING
        state.tested += 1
        if DECISIONS.get(known.state) is body.commit and (known.producer_id, known.producer_epoch) == producer:
            return NOTHING
        has = _said(known.state, known.producer_id, known.producer_epoch)
        return self.violated(state.key, f"{marker}, but it has that id in {has}", known.by, event)

    def _violation(
        self, state: Ids, event: Stamped, transactional_id: str, known: Step, new: Step, why: str
    ) -> Emissions:
        sentence = _sentence(event, transactional_id, known, new, why)
        if transactional_id in state.doubtful:
            state.doubtful.discard(transactional_id)
            return self.excused("unclean-election", state.key, sentence, known.by, event)
        if state.found_what_was_taken_back(transactional_id, known):
            return self.excused("taken-back", state.key, sentence, known.by, event)
        return self.violated(state.key, sentence, known.by, event)


def _sentence(event: Stamped, transactional_id: str, known: Step, new: Step, why: str) -> str:
    return (
        f"{event.node} has {transactional_id} in {_said(new.state, new.producer_id, new.producer_epoch)} after "
        f"{_said(known.state, known.producer_id, known.producer_epoch)}: {why}"
    )


def _too_young(state: Ids, known: Step, event: Stamped) -> str:
    """What is wrong with the end of an id that nobody has used since a step; "" if nothing is. A tombstone is committed
    some time after it is written, so that the id seems older than it was."""
    profile = state.losses.profile
    expires_ms = profile.number(EXPIRATION, event.node)
    rested_us = event.wall - 1000 * known.update_ms
    if known.update_ms < 0 or state.clocks_set or rested_us >= 1000 * expires_ms - EARLY_US - profile.epsilon_us:
        return ""
    if state.losses.rule(state.key, None, known.offset, known.losses):
        return ""  # that step may be gone, and an older one is the last
    return f"it was used {rested_us // 1000:,} ms before, and expires after {expires_ms:,} ms"


def _lacking(known: Step, new: Step, keeps_version: bool) -> str:
    """What the log does not have of a committed step, as a new coordinator has read it; "" if it has everything. A
    record that the former one did not live to tell of may have added partitions to an open transaction."""
    if known.loaded:
        return ""
    left = [tp for tp in known.partitions if tp not in new.partitions]
    if left or (known.state in DECISIONS and known.partitions != new.partitions):
        return f"its partitions were {', '.join(known.partitions)}, and now are {', '.join(new.partitions) or 'none'}"
    if keeps_version and known.client_version != new.client_version:
        return f"its transaction.version was {known.client_version}, and now is {new.client_version}"
    return ""


def _wrong(known: Step, new: Step, version: int) -> str:
    """What is wrong with a step, "" if nothing is."""
    if known.state not in PREVIOUS[new.state]:  # type: ignore[index]  # states have no other names
        return "there is no such transition"
    if new.producer_id == known.producer_id:
        risen_by = new.producer_epoch - known.producer_epoch
        if risen_by < 0:
            return "the epoch goes back"
        if risen_by > 1 and new.coordinator_epoch == known.coordinator_epoch:
            return f"the epoch rises by {risen_by} in one step"
    elif new.producer_epoch != 0:
        return "another producer id begins with epoch 0"
    if new.state in DECISIONS:
        risen = new.producer_epoch > known.producer_epoch or known.producer_epoch >= PRODUCER_EPOCH_MAX - 1
        if version >= EPOCH_BUMP and not risen:
            return "each transaction must have its own epoch"
        if known.partitions != new.partitions:
            return f"its partitions were {', '.join(known.partitions)}, and now are {', '.join(new.partitions)}"
    left = [tp for tp in known.partitions if tp not in new.partitions]
    if new.state == known.state == "Ongoing" and left:
        return f"the transaction lost its partition {', '.join(left)}"
    return _wrong_time(known, new)


def _wrong_initialization(body: TxnState) -> str:
    """What is wrong with what a producer is given, "" if nothing is. Who names the epoch before the present one tries
    again: it may be given the present one once more."""
    if body.producer_id != body.former_id:
        return "" if body.former_epoch >= PRODUCER_EPOCH_MAX - 1 else "the producer id had epochs left"
    asked, had = (body.asked_id, body.asked_epoch), (body.former_id, body.former_epoch)
    if body.asked_epoch < 0 or asked == had:
        return "" if body.producer_epoch == body.former_epoch + 1 else "it is not the next epoch"
    if body.asked_id != body.former_id:  # it had used up its epochs, and did not hear of its new id
        return "" if body.asked_epoch >= PRODUCER_EPOCH_MAX - 1 else "that is fenced"
    retries = body.asked_epoch == body.former_epoch - 1 and body.producer_epoch == body.former_epoch
    return "" if retries else "that is fenced"


def _wrong_time(known: Step, new: Step) -> str:
    """What puts off the end of an open transaction, another beginning or another timeout; "" if nothing does."""
    if known.state != "Ongoing":
        return ""
    for name, before, now in (
        ("beginning", known.start_ms, new.start_ms),
        ("timeout", known.timeout_ms, new.timeout_ms),
    ):
        if before >= 0 and before != now >= 0:
            return f"the {name} of the transaction was {before:,} ms, and now is {now:,} ms"
    return ""


class DecisionsAreCommittedFirst(LogInvariant[State]):
    """A coordinator answers requests and sends markers according to the records in its log. If such a record is lost
    with the coordinator, the next one may decide otherwise, and partitions receive different markers.

    Example: broker-1 acts on PrepareCommit of app-1 at offset 17 of __transaction_state-3, whose high watermark is 17,
    and answers EndTxn. It crashes, and in the log of broker-2 app-1 is Ongoing.
    """

    id = "T13"
    title = "A coordinator acts on a new state of a transactional id only after it is committed in its log"
    source = "KIP-98; Kafka's TransactionStateManager.appendTransactionToLog"
    tested_when = "a coordinator acts on a state that it has written"
    of_transactions = True
    types = (TxnState,)
    exemptions = LOSS
    unseen = (
        "uncommitted records at the end of the log on which a new coordinator acts: Kafka's does the same",
        "the content of the record: T11 compares it with the next coordinator's load",
        "the time of the answer to EndTxn: T12 judges the answers",
    )

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def step(self, state: State, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is TxnState
        if body.tp != state.key:
            return NOTHING
        state.tested += 1
        committed = mirror.committed
        sentence = (
            f"{event.node} has {body.transactional_id} in "
            f"{_said(body.to_state, body.producer_id, body.producer_epoch)} by offset {body.log_offset:,} of "
            f"{state.key}"
        )
        if body.log_offset >= committed.end:
            sentence += f", but leaders had committed only up to {committed.end:,}"
        else:
            batch = committed.batch_at(body.log_offset)
            if batch is None or batch.epoch == body.coordinator_epoch:
                return NOTHING
            sentence += (
                f", but the committed batch there is of leader epoch {batch.epoch}, not {body.coordinator_epoch}"
            )
        taint = mirror.taint_below(body.log_offset + 1, body.coordinator_epoch)
        if taint is not None:
            return self.excused(taint.rule, state.key, sentence, taint.by, event)
        return self.violated(state.key, sentence, event)
