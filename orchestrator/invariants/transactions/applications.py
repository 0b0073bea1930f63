"""What applications are promised of a transaction as a whole: T5 and T12."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.broker.coordinator_common.partitions import TRANSACTION_STATE_TOPIC
from actors.node.spec import node_name
from actors.trace.events import (
    BeginInvoke,
    EndInvoke,
    EndReturn,
    LogAppend,
    LogTrunc,
    NodeDown,
    PartChange,
    PartRemove,
    Stamped,
    TxnLoad,
    TxnMarkers,
    TxnState,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import PRODUCER_ID
from orchestrator.invariants.mirrors.loss import LOSS
from orchestrator.invariants.mirrors.partition_losses import PartitionLosses
from orchestrator.invariants.transactions.decided import (
    COMPLETE,
    DECISIONS,
    EPOCH_BUMP,
    EPOCH_SHARED,
    MARKER_OF_FORMER,
    REMEMBERED,
    Begins,
    LateEnds,
    sent_by,
)
from orchestrator.invariants.transactions.fates import Fate, Fates
from orchestrator.invariants.transactions.refused_ends import Held, goes_on_rightly, held, wrongly_refused


def _kind(commits: bool) -> str:
    return "committed" if commits else "aborted"


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A marker behind the data of a transaction. ``stands``: its leader had not been replaced; else nobody knows here
    whether it is in the log of the next one. ``former``: it was sent before this transaction began."""

    commits: bool
    by: Witness
    stands: bool = True
    former: bool = False


class Whole(State):
    """The transaction that a producer id has open, or had last: ``producer_epoch``: of its data, -1 none; ``data``:
    topic partition -> the first batch there; ``ends``: the same -> how it ended there. ``listed``: the partitions that
    the transaction has by its coordinator. ``losses``: of the transaction log; ``begun``: leader epoch of its partition
    when the transaction began, and how often disks had lost some of it. ``mended``: partitions whose leader appends
    again the markers that it has cut off (``kafka-7408``), of former transactions, too. ``led``: topic partition -> its
    newest leader epoch, and who was elected in it. ``removed``: partitions whose topic was."""

    producer_epoch: int = -1
    begins: Begins = msgspec.field(default_factory=Begins)
    complete: bool = False
    data: dict[str, Witness] = {}
    ends: dict[str, Ended] = {}
    listed: set[str] = set()
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)
    begun: tuple[int, int] = (-1, 0)
    mended: dict[str, bool] = {}
    led: dict[str, tuple[int, str]] = {}
    removed: set[str] = set()


class AllOrNothing(KeyedInvariant[Whole]):
    """An application does one thing in one transaction. A transfer between two accounts must not be done by half.

    Example: producer 7, epoch 3, has records in orders-0 and copies-1. Broker-1 appends a commit marker to orders-0,
    and broker-2 an abort marker to copies-1. Or the coordinator completes the transaction, and copies-1 has no marker
    after the records.
    """

    id = "T5"
    title = "A transaction ends in the same way on all partitions that have its records, before it is complete"
    source = "KIP-98; Jepsen's kafka workload; redpanda's tx_money"
    tested_when = (
        "a transaction with records in two or more partitions ends in a second one, or one with records completes"
    )
    route = PRODUCER_ID
    of_transactions = True
    types = (LogAppend, TxnState, TxnLoad, TxnMarkers)
    cases = {LogAppend: ("leader",)}
    exemptions = {"marker-of-former": MARKER_OF_FORMER, **LOSS}
    unseen = (
        "markers that a leader appended and lost: T4 checks that they are committed when the coordinator counts them",
        "lost records: C1 finds those that were acknowledged",
        "markers that a leader appends again after an unclean election: T10 checks those",
        "the kind of a marker that a leader appends which has been replaced: the log of its successor may lack it",
        "partitions of removed topics",
        "a coordinator that completes an earlier transaction again: T11 finds that its epoch goes back",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (LogTrunc, NodeDown, PartChange, PartRemove)

    def initial(self, key: str, profile: Profile) -> Whole:
        return Whole(key, losses=PartitionLosses(profile, (f"{TRANSACTION_STATE_TOPIC}-",)))

    def hear(self, state: Whole, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is PartChange:
            state.mended.pop(body.tp, None)
            state.led[body.tp] = max((body.leader_epoch, node_name(body.leader)), state.led.get(body.tp, (-1, "")))
            state.losses.take(event)
        elif type(body) is NodeDown:
            state.losses.take(event)
        elif type(body) is PartRemove:
            # Its marker goes to the topic that has the name by then, if there is one.
            state.removed.add(body.tp)
            for each in (state.data, state.ends):
                each.pop(body.tp, None)
        elif body.reason == "last-stable-offset":
            state.mended[body.tp] = True
        return NOTHING

    def step(self, state: Whole, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is LogAppend:
            if body.role != "leader" or body.tp in state.removed:
                return NOTHING
            if body.marker:
                return self._ended(state, event, body)
            if not state.complete and body.producer_epoch == state.producer_epoch:
                state.data.setdefault(body.tp, witness(event))
            return NOTHING
        if kind is TxnLoad:
            return self._loaded(state, event, body)
        if kind is TxnMarkers:
            for tp in body.partitions if body.outcome == "gone" else ():
                state.data.pop(tp, None)  # its topic was removed
            return NOTHING
        if body.coordinator_epoch < state.begun[0]:
            return NOTHING  # it was replaced before this transaction began, and learns late what became of one before
        state.begins.take(event, body)
        if body.to_state == "Ongoing" and (body.from_state != "Ongoing" or body.producer_epoch != state.producer_epoch):
            state.producer_epoch, state.complete, state.data, state.ends = body.producer_epoch, False, {}, {}
            state.begun = (body.coordinator_epoch, state.losses.count(body.tp))
        elif body.to_state in COMPLETE:
            earlier = str(body.producer_id) == state.key and body.producer_epoch < state.producer_epoch
            if not state.data or state.complete or earlier:
                return NOTHING
            return self._completed(state, event, body.tp, body.transactional_id, body.to_state)
        state.listed = set(body.partitions)
        return NOTHING

    def _loaded(self, state: Whole, event: Stamped, body: TxnLoad) -> Emissions:
        """The transaction may be complete in what was read: its coordinator wrote so, and was replaced before it knew
        that this is committed. Up to transaction.version 1 an earlier transaction can have the same epoch."""
        found: Emissions = NOTHING
        told = body.loaded and body.coordinator_epoch >= state.begun[0]
        for transactional_id, each in body.transactions.items() if told else ():
            if str(each.producer_id) != state.key:
                continue
            this = each.producer_epoch > state.producer_epoch or (
                each.producer_epoch == state.producer_epoch and state.data.keys() <= state.ends.keys()
            )
            if each.state in COMPLETE and state.data and this and not state.complete:
                found = self._completed(state, event, body.tp, transactional_id, each.state)
            state.listed = set(each.partitions)
        return found

    def _ended(self, state: Whole, event: Stamped, body: LogAppend) -> Emissions:
        before = state.ends.get(body.tp)
        if body.tp not in state.data or (before and before.stands) or body.producer_epoch < state.producer_epoch:
            return NOTHING
        if body.tp in state.mended:
            return NOTHING
        newest, leader = state.led.get(body.tp, (-1, ""))
        stands = body.leader_epoch >= newest or event.node == leader
        former = state.begins.is_of_former(event, body)
        new = state.ends[body.tp] = Ended(body.marker == "commit", witness(event), stands, former)
        state.tested += len(state.ends) > 1
        for tp, each in state.ends.items():
            if each.commits != new.commits and each.stands and new.stands:
                sentence = (
                    f"a transaction of producer id {state.key}, epoch {state.producer_epoch}, is "
                    f"{_kind(each.commits)} in {tp} and {_kind(new.commits)} in {body.tp}"
                )
                if each.former or new.former:
                    return self.excused("marker-of-former", state.key, sentence, each.by, event)
                return self.violated(state.key, sentence, each.by, event)
        return NOTHING

    def _completed(self, state: Whole, event: Stamped, log: str, transactional_id: str, to_state: str) -> Emissions:
        state.tested += 1
        state.complete = True
        commits = to_state == "CompleteCommit"
        named = f"the transaction of {transactional_id} (producer id {state.key}, epoch {state.producer_epoch})"
        for tp, first in state.data.items():
            end = state.ends.get(tp)
            if end is None:
                sentence = f"{event.node} counts {named} as complete, but {tp} has no marker of it"
                epoch, losses = state.begun
                if tp not in state.listed and (rule := state.losses.rule(log, epoch, since=losses)):
                    return self.excused(rule, state.key, sentence, first, event)
                return self.violated(state.key, sentence, first, event)
            if end.commits != commits and end.stands:
                sentence = f"{event.node} has {named} in state {to_state}, but it is {_kind(end.commits)} in {tp}"
                if end.former:
                    return self.excused("marker-of-former", state.key, sentence, end.by, event)
                return self.violated(state.key, sentence, end.by, event)
        return NOTHING


class Asked(msgspec.Struct, frozen=True, gc=False):
    """How an application asked for its transaction to end."""

    producer_epoch: int
    commit: bool
    by: Witness


class Begun(msgspec.Struct):
    """Of a producer epoch. ``version``: transaction.version of its producer; ``client``: who has begun the last
    transaction in it; ``times``: how many were begun in it; ``asked``: how the last of them is to end."""

    version: int = 0
    client: str = ""
    times: int = 0
    asked: Asked | None = None


class Wishes(State):
    """Of a producer id. ``begun``: producer epoch -> what its application did in it; each epoch for itself, since a
    process that was replaced goes on in its own until a broker fences it. ``late``: requests for an end that got no
    answer. ``fates``: how its transactions were decided. ``held``: what the last coordinator to say so has in memory;
    ``read``: it has read that in its log. ``losses``: of the transaction log; ``log``: its partition of this producer
    id, the leader epoch of that when the last transaction began, and how much disks had lost of it by then."""

    begun: dict[int, Begun] = {}
    late: LateEnds = msgspec.field(default_factory=LateEnds)
    fates: Fates = msgspec.field(default_factory=Fates)
    held: Held | None = None
    read: bool = False
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)
    log: tuple[str, int, int] = ("", -1, 0)

    def known(self, epoch: int) -> Begun:
        """What is known of an epoch, which may be nothing."""
        return self.begun.get(epoch, Begun())

    def noted(self, epoch: int) -> Begun:
        """What is known of an epoch, to be changed. Those are forgotten in which nothing has happened for longest: not
        the least ones, since they come again after an unclean election of the transaction log."""
        own = self.begun[epoch] = self.begun.pop(epoch, Begun())
        if len(self.begun) > REMEMBERED:
            del self.begun[next(iter(self.begun))]
        return own


class EndsAreAsAsked(KeyedInvariant[Wishes]):
    """An application that asks for a commit means everything since the beginning of the transaction. If a late or
    repeated request ends the next transaction, half of that one is committed. If the application receives the answer
    that its transaction is committed, and it was aborted, the application continues as if its work were done.

    Example: the answer to EndTxn of transaction 1 of app-1 is lost, and the producer sends EndTxn again. Transaction 2
    has begun when the request arrives, and broker-1 records PrepareCommit for it. Or the answer to app-1 confirms its
    commit, and the coordinator's decision was an abort. Or the timeout of a transaction aborted its first records, and
    app-1 commits the rest. The coordinator may abort a transaction at any time before its application asks for an end.

    A coordinator refuses a request as fenced, or as one that does not fit the state of the transaction, only by what it
    knows of the transactional id. If the application asks again because it got no answer, it is told what was decided.
    From transaction.version 2 on it is told the epoch of its next transaction, and goes on with that.
    """

    id = "T12"
    title = "A transaction is committed only at the request of its application, as a whole, and its end is as answered"
    source = "KIP-890, part 2; KAFKA-17754; Jepsen's report on bufstream 0.1.0"
    tested_when = "a coordinator decides to commit, or an application receives the answer to its request for an end"
    route = PRODUCER_ID
    of_transactions = True
    types = (BeginInvoke, EndInvoke, EndReturn, TxnState, TxnLoad)
    exemptions = {"epoch-shared": EPOCH_SHARED, **LOSS}
    unseen = (
        "transactions of producer ids whose application is not in the trace",
        "refusals of a producer id that the coordinator does not know (INVALID_PRODUCER_ID_MAPPING)",
        "below transaction.version 2, as many wrong decisions in an epoch as requests for that end got no answer",
        (
            "below transaction.version 2, whether the producer of an open transaction is fenced with reason: a "
            "coordinator fences it before that is written"
        ),
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (NodeDown, PartChange)

    def initial(self, key: str, profile: Profile) -> Wishes:
        return Wishes(key, losses=PartitionLosses(profile, (f"{TRANSACTION_STATE_TOPIC}-",)))

    def hear(self, state: Wishes, event: Stamped) -> Emissions:
        state.losses.take(event)
        return NOTHING

    def step(self, state: Wishes, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is BeginInvoke:
            own = state.noted(body.producer_epoch)
            own.version, own.client, own.times, own.asked = body.version, event.node, own.times + 1, None
        elif kind is EndInvoke:
            state.noted(body.producer_epoch).asked = Asked(body.producer_epoch, body.commit, witness(event))
        elif kind is EndReturn:
            state.late.note(body, REMEMBERED)
            return self._told(state, event, body) if body.asked else NOTHING
        elif kind is TxnState:
            state.held, state.read = held(event, state.key), False
            if body.to_state == "Ongoing" and body.from_state != "Ongoing":
                state.log = (body.tp, body.coordinator_epoch, state.losses.count(body.tp))
            state.fates.goes_on(body.to_state, body.coordinator_epoch)
            if body.to_state in DECISIONS and str(body.producer_id) == state.key:
                return self._decided(state, event, body.producer_epoch, DECISIONS[body.to_state], body.client_version)
        elif body.loaded:
            state.held, state.read = held(event, state.key), True
            for each in body.transactions.values():
                if str(each.producer_id) != state.key:
                    continue
                state.fates.goes_on(each.state, body.coordinator_epoch)
                if each.state in DECISIONS:
                    return self._decided(state, event, each.producer_epoch, DECISIONS[each.state], each.client_version)
        return NOTHING

    def _decided(self, state: Wishes, event: Stamped, epoch: int, commits: bool, version: int) -> Emissions:
        data_epoch = epoch - 1 if version >= EPOCH_BUMP else epoch
        asked = state.known(data_epoch).asked
        as_asked = asked is not None and asked.commit == commits
        if state.fates.is_told_again(event, data_epoch, commits, version, as_asked):
            return NOTHING
        last = state.fates.last[-1] if state.fates.last else None
        state.fates.note(event, data_epoch, commits, state.known(data_epoch).times)
        if not commits or not state.begun:
            return NOTHING
        state.tested += 1
        if asked is not None and asked.commit:
            return self._in_parts(state, event, last, state.fates.last[-1], version)
        sentence = (
            f"{event.node} decided to commit the transaction of producer id {state.key}, epoch {data_epoch}, "
            + (
                "but its application had asked to abort it"
                if asked is not None
                else "but its application had not asked for that"
            )
        )
        by = None if asked is None else asked.by
        if version < EPOCH_BUMP and state.late.take(int(state.key), data_epoch, True):
            return self.excused("epoch-shared", state.key, sentence, by, event)
        return self.violated(state.key, sentence, by, event)

    def _in_parts(self, state: Wishes, event: Stamped, last: Fate | None, new: Fate, version: int) -> Emissions:
        """What a transaction had until it was aborted does not come back with what it has had since."""
        if last is None or last.commits or (last.data_epoch, last.begins) != (new.data_epoch, new.begins):
            return NOTHING
        sentence = (
            f"{event.node} decided to commit the transaction of producer id {state.key}, epoch {new.data_epoch}, but "
            "it had already been aborted since its application began it"
        )
        if version < EPOCH_BUMP and state.late.take(int(state.key), new.data_epoch, False):
            return self.excused("epoch-shared", state.key, sentence, last.by, event)
        return self.violated(state.key, sentence, last.by, event)

    def _told(self, state: Wishes, event: Stamped, body: EndReturn) -> Emissions:
        begun = state.begun.get(body.producer_epoch)
        version = begun.version if begun is not None and begun.client == event.node else -1
        if version >= 0 and state.held is not None and (wrong := wrongly_refused(state.held, event, version)):
            state.tested += 1
            return self.violated(state.key, wrong, state.held.by, event)
        if body.outcome == "unknown":
            return NOTHING
        # Below transaction.version 2 the one before had the same epoch.
        shared = begun is not None and begun.version < EPOCH_BUMP
        own = [each for each in state.fates.last if not shared or begun is None or each.begins == begun.times]
        fate = next((each for each in reversed(own) if each.data_epoch == body.producer_epoch), None)
        told = (
            f"the answer to {event.node} says that its transaction (producer id {state.key}, epoch "
            f"{body.producer_epoch}) is "
        )
        if body.outcome == "ok":
            state.tested += 1
            if fate is not None and fate.commits == body.commit:
                return self._goes_on(state, event, body, version, fate)
            was = (
                "no coordinator had decided so"
                if fate is None
                else f"the coordinator's decision was {_kind(fate.commits)}"
            )
            by, sentence = None if fate is None else fate.by, f"{told}{_kind(body.commit)}; {was}"
            if fate is None and shared and (rule := self._forgotten(state, event, body.commit)):
                return self.excused(rule, state.key, sentence, event)
            return self.violated(state.key, sentence, by, event)
        if body.commit and fate is not None and fate.commits:
            state.tested += 1
            return self.violated(state.key, f"{told}not committed for certain; it was committed", fate.by, event)
        return NOTHING

    @staticmethod
    def _forgotten(state: Wishes, event: Stamped, commit: bool) -> str:
        """The rule by which a coordinator may not know of the transaction, so that it takes a request to end it for one
        about the transaction before, which is complete, had the same epoch, and ended as this one is to end."""
        known, (log, epoch, losses) = state.held, state.log
        if not state.read or known is None or not sent_by(event.cause, known.by):
            return ""
        if known.state != ("CompleteCommit" if commit else "CompleteAbort"):
            return ""
        return state.losses.rule(log, epoch, since=losses)

    def _goes_on(self, state: Wishes, event: Stamped, body: EndReturn, version: int, fate: Fate) -> Emissions:
        """From transaction.version 2 on the answer has the epoch of the producer's next transaction."""
        if version < EPOCH_BUMP or goes_on_rightly(body):
            return NOTHING
        sentence = (
            f"{event.node} ended its transaction with producer id {body.producer_id}, epoch {body.producer_epoch}, and "
            f"goes on with producer id {body.next_id}, epoch {body.next_epoch}"
        )
        return self.violated(state.key, sentence, fate.by, event)
