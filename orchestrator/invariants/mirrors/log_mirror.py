"""A mirror of all replicas' logs of one partition, built from the trace, and what follows from it.

* ``replicas``: what each replica's log holds, as (end, epoch, prefix hash, ...) per batch. A prefix hash at a
  boundary stands for everything below it, so two prefixes are compared by comparing one number.
* ``lineages``: the *lineage* of a leader epoch is the log its leader had when it took the epoch up, plus what it
  appended while it led. It is a fact about the epoch: it stays when that replica later truncates.
* committed boundaries: what some leader's high watermark has passed, with the prefix hash there.
* taint: an unclean election takes what the new leader lacks out of the committed part, and checking goes on at full
  strength for everything else. A leader that has not heard of the election goes on committing: only what it shares
  with the unclean leader counts. An unclean leader that never takes up its epoch hands the taint to the next one.
* records: what is known of each committed record, by its offset and by its name.
* transactions: which records of a replica's log, and of what was committed, are in a transaction, and how it ended.
* losses: what power losses and wiped disks took from replicas.

Forgetting keeps it small: below the lowest high watermark of all replicas, the *floor*, a prefix hash alone is kept.
With `kafka-7408` the lowest last stable offset, as logs may be cut down to that.
"""

from __future__ import annotations

import msgspec

from actors.node.isolation import READ_COMMITTED
from actors.node.list_timestamps import LATEST
from actors.node.spec import is_recreated, node_name
from actors.trace.events import (
    ListReturn,
    LogAppend,
    LogFlush,
    LogHw,
    LogLocalStart,
    LogStart,
    LogTrunc,
    NodeDown,
    PartAssume,
    PartChange,
    PartRemove,
    PollReturn,
    QRole,
    QVoters,
    ReplyPartition,
    RpcReply,
    SendReturn,
    Stamped,
    TraceEvent,
)
from actors.trace.metadata_history import NewestController
from orchestrator.invariants.folds.fold import witness
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, DELETED_REMEMBERED_US, remember
from orchestrator.invariants.mirrors.committed_records import CommittedRecords
from orchestrator.invariants.mirrors.hidden_transactions import Stand, stand_of
from orchestrator.invariants.mirrors.leader_epochs import Commit, Lineage, Taint, UncleanElection
from orchestrator.invariants.mirrors.log_prefix import EMPTY_LOG, NO_BOUNDARY, BatchFacts, Prefix, batch_facts
from orchestrator.invariants.mirrors.loss_budget import Loss, LossBudget
from orchestrator.invariants.mirrors.producer_state import Committed, ProducerStates, known_again
from orchestrator.invariants.mirrors.replica import Replica
from orchestrator.invariants.mirrors.told_watermarks import ToldWatermarks
from orchestrator.invariants.mirrors.transactions_of_log import Span, TransactionsOfLog
from orchestrator.invariants.mirrors.voter_sets import VoterSets, is_majority

WIPED = "The schedule wiped disks of voters: no majority was left that must have the entry."
"""When what a quorum committed may be gone."""

TRIM_AT = 1024
"""Batches of a replica at which the mirror looks for something to forget."""


LOGS: tuple[type[TraceEvent], ...] = (LogAppend, LogHw, LogTrunc, LogStart, LogLocalStart, NodeDown)
"""Types of the events that say what is in a log."""

ANEW = ("snapshot", "out-of-range", "truncation")
"""Reasons of a log's start for which all of it was given up."""

LEADERSHIP: tuple[type[TraceEvent], ...] = (PartAssume, PartChange, PartRemove, RpcReply)
"""Types of the events that say who leads a partition, in which leader epoch a broker answers, and when it ends."""

QUORUM_LEADERSHIP: tuple[type[TraceEvent], ...] = (QRole, QVoters, LogFlush)
"""The same for the metadata log; with who votes, and what is durable there."""


ANSWERS_REMEMBERED = 4096
FETCH_BY_ID = 13
PRODUCE_BY_ID = 13
"""Versions of Fetch and of Produce from which on topics go by their ids."""


class Served(msgspec.Struct, frozen=True, gc=False):
    """What a server knew when it answered about the partition: its leader epoch, and whether its high watermark was
    still below that epoch's start. ``stand``: of its log, if it told the last stable offset."""

    leader_epoch: int
    lagging: bool
    stand: Stand | None = None


class LogMirror(msgspec.Struct):
    """The mirror of one partition, ``tp``; see the module's docstring. ``isr``: as the newest ``controller`` has it.
    ``removed_in``: quorum epoch in which its topic was removed, -1 it was not. ``floor``: every replica's high
    watermark has passed it (last stable offset if ``cut_to_stable``); what is below was forgotten."""

    tp: str = ""
    cut_to_stable: bool = False
    floor: int = EMPTY_LOG
    replicas: dict[str, Replica] = {}
    lineages: dict[int, Lineage] = {}
    commits: dict[int, Commit] = {}
    committed: Prefix = msgspec.field(default_factory=Prefix)
    taints: list[Taint] = []
    budget: LossBudget = LossBudget()
    isr: list[int] = []
    removed_in: int = -1
    controller: NewestController = msgspec.field(default_factory=NewestController)
    unclean: dict[int, UncleanElection] = {}
    told: ToldWatermarks = msgspec.field(default_factory=ToldWatermarks)
    recovering: str = ""
    """Who was elected uncleanly, as long as it has not told the newest controller that its log is in order."""
    giving_up: str = ""
    """Who of those has cut its log, and not taken up its epoch."""
    given_up: str = ""
    """The same, as long as it has not told the controller: what it appends are the markers that it has cut off."""
    starts: dict[int, int] = {}
    """When the log was told to begin later than ever -> where; the newest ones."""
    newly_committed: list[BatchFacts] = []
    """What the event just taken has committed, in offset order."""
    records: CommittedRecords = msgspec.field(default_factory=CommittedRecords)
    """Of topic partitions; records of the metadata log have no names."""
    producers: ProducerStates = msgspec.field(default_factory=ProducerStates)
    transactions: TransactionsOfLog = msgspec.field(default_factory=TransactionsOfLog)
    """Of what was committed."""
    newly_ended: list[Span] = []
    """The transactions of which the event just taken has committed the marker."""
    voters: VoterSets = msgspec.field(default_factory=VoterSets)
    """Of the metadata log."""
    taken_up: dict[str, tuple[int, int]] = {}
    """Broker -> incarnation and number of the event by which it took the partition up for the first time."""
    answers: dict[str, Served] = {}
    """"connection/correlation id" -> what the server knew that answered this request; the most recent ones."""

    @property
    def removed(self) -> bool:
        """Whether its topic was, as far as the newest controller tells: a later one that goes on with the partition
        has not heard of that."""
        return self.removed_in >= 0

    # ---- reading -----------------------------------------------------------------------------------------

    def replica(self, node: str) -> Replica:
        """The replica on a node; an empty one at first."""
        found = self.replicas.get(node)
        if found is None:
            found = self.replicas[node] = Replica()
        return found

    def lineage_log(self, epoch: int) -> Prefix | None:
        """The lineage of a leader epoch as boundaries; None: nobody assumed it so far."""
        lineage = self.lineages.get(epoch)
        if lineage is None:
            return None
        return self.replica(lineage.leader).log if lineage.frozen is None else lineage.frozen

    def taint_between(self, older: int, newer: int, offset: int) -> Taint | None:
        """The election in (older, newer] of leader epochs whose leader lacked, and might lack, ``offset`` (an exclusive
        end) of what the leader of ``older`` had. A leader that does not know of the election goes on in its older
        epoch, and commits what the election already gave up: so logs decide, not what was committed at the time."""
        for taint in self.taints:
            if older < taint.epoch <= newer and offset > self._kept(older, taint):
                return taint
        return None

    def taint_below(self, end: int, since: int = -1) -> Taint | None:
        """The first election after the leader epoch ``since`` that gave up something of what is below ``end``."""
        return next((taint for taint in self.taints if end > taint.start and taint.epoch > since), None)

    def _kept(self, older: int, taint: Taint) -> int:
        """Up to where the log of a leader epoch is the one with which an unclean leader began."""
        log, unclean = self.lineage_log(older), self.lineage_log(taint.epoch)
        if log is None or unclean is None:
            return taint.start
        return log.shared_with(unclean, self.lineages[taint.epoch].start)

    def epoch_of_answer(self, node: str, offset: int, uid: str) -> int:
        """The newest leader epoch of a broker in which its log had a record at an offset; -1 none. An answer to a send
        that was tried again may come in a later leader epoch than that of the record."""
        for epoch, lineage in sorted(self.lineages.items(), reverse=True):
            log = self.lineage_log(epoch) if lineage.leader == node else None
            batch = None if log is None else log.batch_at(offset)
            if batch is not None and batch.uid_at(offset) == uid:
                return epoch
        return -1

    def epoch_start(self, event: Stamped, told: ReplyPartition) -> int:
        """Where the log of a broker ended when it took up the leader epoch in which it answers: its log tells, not the
        broker, unless it took that epoch up before the trace, or in a life before."""
        lineage = self.lineages.get(told.leader_epoch)
        if lineage is None or (lineage.leader, lineage.assumed.incarnation) != (event.node, event.incarnation):
            return told.leader_epoch_start
        return lineage.start

    def served(self, event: Stamped, body: SendReturn | ListReturn) -> Served | None:
        """What the server knew whose answer an operation returns; None where the trace does not say."""
        return self.answers.get(f"{event.req.rpartition('#')[0]}/{body.correlation_id}")

    def left_behind(self, leader_epoch: int, offset: int, uid: str) -> bool:
        """Whether the leader of an epoch knows the producer of this record at this offset from a log that it gave up,
        whose record there was not committed as far as it knew."""
        lineage = self.lineages.get(leader_epoch)
        left = [] if lineage is None else self.replica(lineage.leader).left_behind
        return any(each.base <= offset < each.end and each.uid_at(offset) == uid for each in left)

    def is_of_another(self, event: Stamped) -> bool:
        """Whether an operation that a client takes to be about this partition ended with what another topic of the same
        name answered: requests by name cannot tell them apart. Then no broker says to have answered for this one, or
        the broker that did had not yet taken it up."""
        body = event.body
        if type(body) is PollReturn and 0 <= body.version < FETCH_BY_ID:
            return self.removed or (is_recreated(self.tp) and not self._taken_up_before(body.broker, event.cause))
        if not isinstance(body, SendReturn | ListReturn) or body.outcome != "ok":
            return False
        by_name = type(body) is SendReturn and is_recreated(self.tp) and 0 <= body.version < PRODUCE_BY_ID
        return (self.removed or by_name) and self.served(event, body) is None

    def _taken_up_before(self, node: str, cause: str) -> bool:
        """Whether a broker had taken this partition up when it answered, as its leader or as a follower, of which
        consumers fetch, too; where the answer was kept for later, and has another cause, whether it has by now."""
        first = self.taken_up.get(node)
        by, _, event = cause.partition("/")
        if first is None or by != node:
            return first is not None
        incarnation, seq = map(int, event.split("/"))
        return first <= (incarnation, seq)

    def deleted_long_ago(self, at_us: int) -> int:
        """Below which offset everything was deleted so long ago that it may be forgotten."""
        long_ago = [start for told_us, start in self.starts.items() if told_us <= at_us - DELETED_REMEMBERED_US]
        return max(long_ago, default=0)

    def ph_of(self, event: Stamped, body: LogHw) -> int | None:
        """Prefix hash at a high watermark: as told, or else that of the log whose it is; None where nobody can say."""
        if body.ph is not None:
            return body.ph
        ph = self.replica(event.node).log.ph_at(body.new)
        return None if ph == NO_BOUNDARY else ph

    def kept_uncleanly(self, node: str) -> int | None:
        """The boundary up to which a replica had what was committed when it was elected uncleanly, in an epoch that
        nobody has taken up so far: once somebody does, that is a taint. None if it was not."""
        epoch = max(self.unclean, default=-1)
        if epoch <= max(self.lineages, default=-1) or self.unclean[epoch].leader != node:
            return None
        return self.unclean[epoch].kept

    def newest_led(self, node: str) -> int:
        """The newest leader epoch that a broker has taken up, -1 none."""
        return max((epoch for epoch, lineage in self.lineages.items() if lineage.leader == node), default=-1)

    def loss_excuses(self, offset: int, budget: LossBudget) -> bool:
        """Whether a committed record may be gone because of what disks lost."""
        lost = [loss for replica in self.replicas.values() if (loss := _loss_of(replica, offset)) is not None]
        if budget.quorum:
            voters = self.voters.newest
            without = sum(self.highest_committed_of(voter) <= offset for voter in voters)
            # A voter that came back with another directory is no voter, and cannot vote for what it forgot.
            return bool(lost) and not self.voters.with_directories and is_majority(without, voters)
        return len(lost) >= budget.min_isr or (not budget.elr and any(loss.alone for loss in lost))

    def lost_by(self, offset: int) -> bool:
        """Whether some disk lost an offset."""
        return any(_loss_of(replica, offset) is not None for replica in self.replicas.values())

    def highest_committed_of(self, node: str) -> int:
        """The highest committed boundary at which a replica's log equals what was committed."""
        log = self.replica(node).log
        return self.committed.shared_with(log, min(log.end, self.committed.end))

    # ---- following the trace -----------------------------------------------------------------------------

    def apply(self, event: Stamped) -> None:
        """Take an event. ``newly_committed`` is about this event alone."""
        body = event.body
        if self.newly_committed:
            self.newly_committed, self.newly_ended = [], []
            self.records.forget_news()
        if type(body) is LogAppend:
            self._append(event, body)
        elif type(body) is RpcReply:
            self._answer(event, body)
        elif type(body) is LogHw:
            self._high_watermark(event, body)
        elif type(body) is LogTrunc:
            self._truncate(event.node, body.to, body.leader_epoch)
            if body.reason == "last-stable-offset":
                self.giving_up = self.given_up = event.node
        elif type(body) is LogStart:
            self._start(event, body)
        elif type(body) is LogLocalStart:
            self._start_locally(event, body)
        elif type(body) is PartAssume:
            self.taken_up.setdefault(event.node, (event.incarnation, event.seq))
            self._resume(event, body.log_end)
            replica = self.replica(event.node)
            replica.high_watermark, replica.away = body.high_watermark, False
            if body.role == "leader":
                self._lead(event, body.leader_epoch, replica.log.end)
            else:
                self._stop_leading(event.node)
        elif type(body) is QRole:
            self._resume(event, body.log_end)
            if body.role == "leader":
                self._lead(event, body.epoch, body.log_end)
            else:
                self._stop_leading(event.node)
        elif type(body) is PartChange:
            self._change(body)
        elif type(body) is PartRemove:
            if self.controller.says(body.quorum_epoch):
                self.removed_in = body.quorum_epoch
        elif type(body) is NodeDown:
            self._lose(event.node, body)
        elif type(body) is LogFlush:
            replica = self.replica(event.node)
            replica.flushed = max(replica.flushed, min(body.end, replica.log.end))  # there is no more to be on a disk
        elif type(body) is QVoters:
            self.voters.take(event, body)

    def _answer(self, event: Stamped, body: RpcReply) -> None:
        for told in body.partitions:
            if told.tp == self.tp and (told.producer_id >= 0 or told.last_offset >= 0):
                self.producers.answered(event.node, told, is_recreated(self.tp))
            if told.tp == self.tp and told.leader_epoch >= 0:
                lagging = told.high_watermark < self.epoch_start(event, told)
                stable = told.timestamp == LATEST and body.isolation == READ_COMMITTED and body.api == "ListOffsets"
                stand = stand_of(self.replica(event.node)) if stable else None
                self.answers[f"{body.connection}/{body.correlation_id}"] = Served(told.leader_epoch, lagging, stand)
        if len(self.answers) > ANSWERS_REMEMBERED:  # the older ones have arrived, or never will
            del self.answers[next(iter(self.answers))]

    def _append(self, event: Stamped, body: LogAppend) -> None:
        replica = self.replica(event.node)
        replica.incarnation = event.incarnation
        replica.follows = body.leader_epoch if body.role == "follower" else -1
        log = replica.log
        batch = batch_facts(body, log)
        if batch.producer_id >= 0:
            self.producers.append(event, body)
        replica.append(batch)
        if body.role == "follower":
            self._hear(event, replica)
        if len(log.ends) >= TRIM_AT and len(log.ends) % TRIM_AT == 0:
            self._forget()

    def _hear(self, event: Stamped, replica: Replica) -> None:
        """A follower took what its leader told it, and with that where the leader's log began, as far as it has what
        is below."""
        node, _, number = event.cause.partition("/")
        leader = self.replicas.get(node)
        if leader is not None and leader is not replica and leader.had > replica.start:
            incarnation, seq = map(int, number.split("/"))
            replica.hear(event.incarnation, min(leader.start_at(incarnation, seq), replica.log.end))

    def _truncate(self, node: str, to: int, leader_epoch: int) -> None:
        replica = self.replica(node)
        self._freeze(replica)
        replica.cut(to)
        replica.start, replica.local_start = min(replica.start, to), min(replica.local_start, to)
        replica.heard = min(replica.heard, to)
        self.producers.cut(node, to, leader_epoch)
        replica.follows = -1
        replica.high_watermark = min(replica.high_watermark, to)
        replica.flushed = min(replica.flushed, to)

    def _start(self, event: Stamped, body: LogStart) -> None:
        """A snapshot took the place of a log, or the log was given up and begins anew: of what is below, all that is
        known is the prefix hash at its end. What retention drops is still known here."""
        replica = self.replica(event.node)
        replica.begin(event.incarnation, event.seq, body.new, body.reason in ANEW)
        if body.new > max(self.starts.values(), default=0):
            remember(self.starts, event.wall, body.new, CHANGES_REMEMBERED)
        anew = body.reason in ANEW or body.reason == "load"
        replica.local_start = body.new if anew else max(replica.local_start, body.new)
        if body.reason not in ANEW and body.new <= replica.log.end:
            return
        if body.reason != "out-of-range" or body.new != replica.log.end:  # else its leader's log begins where it ends
            self.producers.begin_anew(event.node, body.new)
            replica.transactions, replica.began = TransactionsOfLog(forgotten=body.new), body.new
            replica.left_behind = []
        elif left := [each for each in replica.log.batches if each.end > replica.high_watermark]:
            replica.left_behind = known_again(left)
        self._begin_anew(event, body.new, body.ph, [(body.epoch, body.new - 1)])

    def _start_locally(self, event: Stamped, body: LogLocalStart) -> None:
        """What is below the local start is still known here, but for the log of a follower that begins anew."""
        replica = self.replica(event.node)
        replica.begin(event.incarnation, event.seq, body.log_start, body.reason == "remote")
        replica.local_start = body.new
        if body.reason == "remote":
            leader = self.lineages[max(self.lineages)].leader if self.lineages else ""
            self.producers.begin_behind_copy(event.node, leader, body.new)
            if leader:
                replica.transactions = self.replica(leader).transactions.up_to(body.new)
            self._begin_anew(event, body.new, body.ph, [(int(epoch), start) for epoch, start in body.epochs.items()])

    def _begin_anew(self, event: Stamped, start: int, ph: int | None, epochs: list[tuple[int, int]]) -> None:
        replica = self.replica(event.node)
        self._freeze(replica)
        ph = self.committed.ph_at(start) if ph is None else ph
        replica.log = Prefix(start, None if ph == NO_BOUNDARY or start == EMPTY_LOG else ph, epochs)
        replica.flushed = start
        replica.follows = -1

    def is_recovering(self, node: str, leader_epoch: int) -> bool:
        """Whether a broker was elected uncleanly, in this leader epoch or an earlier one, and has not told a controller
        yet that its log is in order. A controller that nobody follows may have gone on since."""
        election = self.unclean.get(leader_epoch)
        if election is None:
            return self.recovering == node
        return election.leader == node and not election.recovered

    def _change(self, body: PartChange) -> None:
        before = self.unclean.get(body.leader_epoch)
        if body.cause == "unclean":
            leader = node_name(body.leader)
            kept = self.highest_committed_of(leader)
            self.unclean[body.leader_epoch] = UncleanElection(body.partition_epoch, body.quorum_epoch, leader, kept)
        elif before is not None and before.replaced_by(body):
            del self.unclean[body.leader_epoch]
        elif before is not None and body.cause == "alter-isr":
            before.recovered = True
        if not self.controller.says(body.quorum_epoch):
            return
        if body.quorum_epoch > self.removed_in:
            self.removed_in = -1
        self.isr = body.isr
        if body.cause == "unclean":
            self.recovering, self.given_up = node_name(body.leader), ""
        elif body.cause == "alter-isr":
            self.recovering = self.given_up = ""
        if len(body.isr) == 1:
            replica = self.replicas.get(node_name(body.isr[0]))
            for loss in () if replica is None else replica.losses:
                loss.alone = loss.alone or loss.end > self.replica(node_name(body.isr[0])).log.end

    def _resume(self, event: Stamped, log_end: int) -> None:
        """What a process recorded last, a batch or a cut, it may not have written any more."""
        replica = self.replica(event.node)
        if replica.started_in != event.incarnation:
            replica.start = replica.local_start = replica.heard = 0
            replica.started_in = event.incarnation  # a process whose log begins at 0 says nothing
        if replica.incarnation != event.incarnation:
            replica.incarnation, replica.follows = event.incarnation, -1
            if replica.kept is not None and replica.log.end < log_end == replica.kept.end:
                replica.log = replica.kept
            replica.kept = None
            if replica.log.end < log_end <= replica.log.cut_from:
                replica.undo_cut(log_end)
        if log_end < replica.log.end:
            self._freeze(replica)
            replica.cut(log_end)
            self.producers.cut(event.node, log_end)
            replica.high_watermark = min(replica.high_watermark, log_end)
            replica.flushed = min(replica.flushed, log_end)
            for election in self.unclean.values():
                if election.leader == event.node:
                    election.kept = min(election.kept, log_end)

    def _lose(self, node: str, body: NodeDown) -> None:
        replica = self.replicas.get(node)
        if replica is None:
            return
        self._freeze(replica)
        first = body.lost.get(self.tp, replica.log.end)
        whole = not self.budget.quorum and self.tp in body.lost and first <= replica.local_start
        if first < (replica.flushed if self.budget.quorum else replica.log.end):
            replica.away = True
            alone = [node_name(member) for member in self.isr] == [node]
            replica.losses.append(Loss(first, replica.log.end, replica.log.end_ph, alone, whole))
        replica.cut(first)
        replica.kept = None
        if whole:
            replica.kept = replica.log.copy()
            first = replica.start = replica.local_start = 0  # with the header of its first segment, or all of its files
            replica.cut(first)
        self.producers.cut(node, first)
        replica.high_watermark = min(replica.high_watermark, first)
        replica.flushed = min(replica.flushed, first)

    def _lead(self, event: Stamped, epoch: int, log_end: int) -> None:
        replica = self.replica(event.node)
        if replica.leads == epoch:
            return
        self._stop_leading(event.node)
        replica.leads = epoch
        if epoch in self.lineages:
            return  # a second leader of the epoch is for P1 and Q1 to tell
        before = max((known for known in self.lineages if known < epoch), default=-1)
        unclean = any(before < each <= epoch for each in self.unclean) or self.giving_up == event.node
        self.giving_up = ""
        self.lineages[epoch] = Lineage(epoch, event.node, log_end, witness(event), unclean)
        self._forget_lineages()
        shared = self.committed.shared_with(replica.log, self.committed.end)
        if unclean:
            self._taint(epoch, event, shared, "unclean-election")
            if replica.high_watermark > shared:  # what it had committed before somebody else was elected is so again
                self._commit(event, replica.log, epoch, (end := replica.high_watermark), replica.log.ph_at(end))
        elif shared < self.committed.end and self.loss_excuses(shared, self.budget):
            self._taint(epoch, event, shared, "loss-budget")

    def _forget_lineages(self) -> None:
        """Leader epochs that have had many successors, and whose leader has heard of one, matter to nobody."""
        if len(self.lineages) > CHANGES_REMEMBERED:
            for epoch in sorted(self.lineages)[:-CHANGES_REMEMBERED]:
                if self.replica(self.lineages[epoch].leader).leads != epoch:
                    del self.lineages[epoch]
        while len(self.unclean) > CHANGES_REMEMBERED:
            del self.unclean[min(self.unclean)]
        while len(self.taints) > CHANGES_REMEMBERED:
            one, other = self.taints[:2]
            self.taints[:2] = [Taint(other.epoch, min(one.start, other.start), other.by, other.rule)]

    def _stop_leading(self, node: str) -> None:
        replica = self.replica(node)
        self._freeze(replica)
        replica.leads = -1

    def _freeze(self, replica: Replica) -> None:
        lineage = self.lineages.get(replica.leads)
        if lineage is not None and lineage.frozen is None and self.replica(lineage.leader) is replica:
            lineage.frozen = replica.log.copy()

    def _high_watermark(self, event: Stamped, body: LogHw) -> None:
        replica = self.replica(event.node)
        replica.high_watermark = body.new
        replica.regain(body.new)
        if body.role != "leader":
            self._hear(event, replica)
            return
        log, new, ph = replica.log, body.new, self.ph_of(event, body)
        self.told.take(body.leader_epoch, new)
        for taint in self.taints:
            if taint.epoch > body.leader_epoch and new > (kept := self._kept(body.leader_epoch, taint)):
                new, ph = kept, log.ph_at(kept)
        self._commit(event, log, body.leader_epoch, new, ph)

    def _commit(self, event: Stamped, log: Prefix, epoch: int, new: int, ph: int | None) -> None:
        by = witness(event)
        top = self.commits.get(epoch)
        if top is None or new > top.end:
            self.commits[epoch] = Commit(epoch, new, ph, by)
            if len(self.commits) > CHANGES_REMEMBERED:
                # Of the two oldest the one that reached further stands for both.
                one, other = sorted(self.commits)[:2]
                del self.commits[one if self.commits[one].end <= self.commits[other].end else other]
        if new > self.committed.end:
            self.newly_committed = log.between(self.committed.end, new)
            if not self.budget.quorum:
                self.records.commit(self.newly_committed, epoch, by)
            for batch in self.newly_committed:
                self.committed.append(batch)
                if batch.control or batch.txn is not None:
                    ended = self.transactions.append(batch.base, batch.end, batch.txn, batch.control)
                    if ended is not None:
                        self.newly_ended.append(ended)
                if batch.producer_id >= 0:
                    self.producers.commit(batch.producer_id, Committed(batch.end, epoch, by))

    def _taint(self, epoch: int, event: Stamped, shared: int, rule: str) -> None:
        """What older epochs committed and the new leader lacks, what is not ``shared``, is no longer committed."""
        self.taints.append(Taint(epoch, shared, witness(event), rule))
        self.committed.cut(shared)
        self.transactions.cut(shared)
        self.producers.give_up(shared)
        for older, commit in list(self.commits.items()):
            if older < epoch and commit.end > shared:
                if shared == EMPTY_LOG or not self.committed.batches:
                    del self.commits[older]
                else:
                    self.commits[older] = Commit(older, shared, self.committed.batches[-1].ph, commit.by)

    def _forget(self) -> None:
        replicas = self.replicas.values()
        reached = [each.last_stable_offset if self.cut_to_stable else each.high_watermark for each in replicas]
        floor = min(*reached, *(each.log.end for each in replicas))
        self.floor = max(self.floor, floor)
        for replica in replicas:
            replica.log.trim(floor)
            replica.transactions.forget(floor)
        for lineage in self.lineages.values():
            if lineage.frozen is not None:
                lineage.frozen.trim(floor)
        self.committed.trim(floor)
        self.transactions.forget(floor)


def _loss_of(replica: Replica, offset: int) -> Loss | None:
    """What took an offset from a replica, if anything did."""
    return next((loss for loss in replica.losses if (loss.whole or loss.start <= offset) and offset < loss.end), None)
