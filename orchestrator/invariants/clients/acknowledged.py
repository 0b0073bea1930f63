"""C1: acknowledged records stay."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.isolation import READ_COMMITTED
from actors.trace.events import ACKS_ALL, ConsPos, LogHw, MetaView, PartAssume, PollReturn, SendReturn, Stamped
from orchestrator.invariants.clients.one_value import named
from orchestrator.invariants.clients.renumbered import RENUMBERED, RULE, Renumbered
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.folds.known_findings import known_as
from orchestrator.invariants.folds.memory import (
    CHANGES_REMEMBERED,
    forget_first,
    forget_least,
    remember,
)
from orchestrator.invariants.folds.rows import REMEMBERED
from orchestrator.invariants.folds.uids import place_of
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.log_prefix import Prefix
from orchestrator.invariants.mirrors.loss import LOST, UNCLEAN, acknowledged_in, given_up, read_in
from orchestrator.invariants.mirrors.loss_budget import LossBudget, loss_budget


class Acknowledged(msgspec.Struct, frozen=True, gc=False):
    """A send that returned ok."""

    uid: str
    acks: int
    leader_epoch: int
    by: Witness


class GivenUp(msgspec.Struct, gc=False):
    """A record whose loss is excused, by ``rule``. back: leader epoch since which leaders have it again, -1 none."""

    uid: str
    rule: str
    back: int = -1


class Toll(msgspec.Struct, gc=False):
    """Records that one event showed to be gone, as ``rule`` allows ("" none does). at_us: when the first was found."""

    rule: str
    by: Witness | None
    at_us: int
    number: int = 0


class Stretch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Offsets in [start, end) that a consumer has read without a jump, from the leader of one epoch."""

    start: int
    end: int
    leader_epoch: int


class Reader(msgspec.Struct):
    """What one consumer has read without a jump, from the leader of one epoch: offsets in [start, end), and earlier
    such stretches, as far as none goes on where another one was; ``isolation``: of its polls."""

    start: int = -1
    end: int = -1
    leader_epoch: int = -1
    earlier: list[Stretch] = []
    isolation: int = 0

    def jump(self, to: int) -> None:
        """It goes on elsewhere, or with another leader."""
        if self.end > self.start >= 0:
            start, end, apart = self.start, self.end, []
            for each in self.earlier:
                if each.leader_epoch == self.leader_epoch and each.start <= end and start <= each.end:
                    start, end = min(start, each.start), max(end, each.end)
                else:
                    apart.append(each)
            self.earlier = [*apart, Stretch(start, end, self.leader_epoch)][-CHANGES_REMEMBERED:]
        self.start = self.end = to

    def passed(self, offset: int) -> list[int]:
        """The leader epochs in which this consumer must have seen ``offset``."""
        stretches = [Stretch(self.start, self.end, self.leader_epoch), *self.earlier]
        return [each.leader_epoch for each in stretches if 0 <= each.start <= offset < each.end]


class Sends(State):
    """``recent``: offset -> acknowledged send, as far as a new leader's log could still lack it; ``unread``: those
    that no consumer has got so far; ``aborted``: those of aborted transactions, the most recent ones, which only a
    reader of all records gets; ``read``: per offset, from ``read_from`` on, whether a consumer got it. ``given_up``:
    offset -> record whose loss is excused: each counts once, however many leaders lack it. ``elected``: leader epoch
    in which some of these came back -> when it was taken up. ``broken``: offset -> record that is lost though nothing
    allows it. ``tolls``: rule and event -> how many records it showed to be gone. ``now_us``: of the newest event that
    may show such. ``known``: what an answer to a record is that its broker left behind, "" with that finding's mend."""

    recent: dict[int, Acknowledged] = {}
    unread: dict[int, Acknowledged] = {}
    aborted: dict[int, Acknowledged] = {}
    read: bytearray = msgspec.field(default_factory=bytearray)
    read_from: int = 0
    readers: dict[str, Reader] = {}
    floor: int = 0
    budget: LossBudget = LossBudget()
    given_up: dict[int, GivenUp] = {}
    elected: dict[int, int] = {}
    broken: dict[int, str] = {}
    tolls: dict[str, Toll] = {}
    now_us: int = -1
    renumbered: Renumbered = msgspec.field(default_factory=Renumbered)
    known: str = ""

    def was_read(self, offset: int) -> bool:
        """Whether a consumer got it, as far as that is remembered."""
        place = offset - self.read_from
        return 0 <= place < len(self.read) and bool(self.read[place])

    def reach(self, offset: int) -> None:
        """Have a place for what is read there."""
        place = offset - self.read_from
        if place >= len(self.read):
            self.read.extend(bytes(max(place + 1 - len(self.read), READ_AT_A_TIME)))
        if place > 2 * REMEMBERED:
            gone = place - REMEMBERED
            del self.read[:gone]
            self.read_from += gone


READ_AT_A_TIME = 1024


class AcknowledgedIsNotLost(LogInvariant[Sends]):
    """This is the promise of acks=all.

    Example: producer-1 has the acknowledgement that its record producer-1:57 is at offset 41 of orders-0. Broker-2
    takes over with a log in which offset 41 holds another record; or all consumers read past 41 and none of them got
    the record. A record of a transaction is acknowledged before the transaction ends: after an abort, consumers at
    read_committed do not get it, and consumers at read_uncommitted still do.
    """

    id = "C1"
    title = "A record acknowledged with acks=all stays at its offset, and every reader that passes it reads it"
    source = "acks=all, min.insync.replicas; Jepsen's kafka workload (lost-write)"
    tested_when = "a send with acks=all is acknowledged with an offset"
    types = (SendReturn, PollReturn, ConsPos, MetaView, PartAssume, LogHw)
    cases = {LogHw: ("leader",)}
    unseen = (
        "records of producers with acks=0, which get no offset",
        "a record that consumers pass while they take the topic for a former one of its name",
        "a record at the end that no consumer passes: L6 judges that consumers get there",
        "records that disks lost and regained: a loss within the budget excuses its offsets for good",
        f"a record that nobody has read when {REMEMBERED:,} others are unread, too",
    )
    exemptions = {
        "acks<=1": (
            "The producer requested less than acks=all, and another leader followed, or a disk lost the record."
        ),
        "unclean-election": UNCLEAN,
        "loss-budget": LOST,
        RULE: RENUMBERED,
    }
    not_promised = ("acks<=1",)

    def initial(self, key: str, profile: Profile) -> Sends:
        known = known_as(profile, "finding-uncommitted-duplicates")
        return Sends(key, budget=loss_budget(profile, key), known=known)

    def step(self, state: Sends, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is SendReturn:
            if body.outcome == "ok" and body.offset >= 0:
                return self._acknowledged(state, event, body, mirror)
            state.renumbered.note(body)
        elif type(body) is PollReturn:
            if body.outcome == "ok" and body.records:
                self._read(state, event, body, mirror)
        elif type(body) is ConsPos:
            state.readers.setdefault(event.node, Reader()).jump(body.new)
        elif type(body) is MetaView:
            # It took the partition for one of another topic, whose records its polls may have told of under that name.
            if event.node in state.readers:
                state.readers[event.node].jump(-1)
        elif type(body) is PartAssume:
            return self._new_leader(state, event, body, mirror) if body.role == "leader" else NOTHING
        else:
            if mirror.newly_ended:
                self._ended(state, mirror)
            if mirror.committed.floor > state.floor:
                state.floor = mirror.committed.floor
                state.recent = {offset: sent for offset, sent in state.recent.items() if offset >= state.floor}
            if state.renumbered.failing:
                return state.renumbered.judge(self, state.key, mirror)
        return NOTHING

    def _ended(self, state: Sends, mirror: LogMirror) -> None:
        """Markers are committed: what is aborted need not be read by everybody."""
        for span in mirror.newly_ended:
            for base, end in () if span.commits else span.ranges:
                for offset in range(base, end):
                    sent = state.unread.pop(offset, None)
                    if sent is not None:
                        state.aborted[offset] = sent
        while len(state.aborted) > REMEMBERED:
            del state.aborted[next(iter(state.aborted))]

    def _acknowledged(self, state: Sends, event: Stamped, body: SendReturn, mirror: LogMirror) -> Emissions:
        offset = body.offset
        leader_epoch = acknowledged_in(event, body, mirror)
        sent = Acknowledged(body.uid, body.acks, leader_epoch, witness(event))
        state.now_us = event.wall
        if body.acks == ACKS_ALL:
            state.tested += 1
        if state.renumbered.failing and self._is_taken_for_another(state, sent, offset, mirror):
            return NOTHING
        if offset >= state.floor:
            state.recent[offset] = sent
        if not state.was_read(offset):
            aborted = mirror.transactions.any and mirror.transactions.fate(offset) == "aborted"
            (state.aborted if aborted else state.unread)[offset] = sent
            forget_first(state.unread, REMEMBERED)
        # What is committed may come from a leader which did not know that an unclean election had replaced it.
        log = mirror.lineage_log(leader_epoch) or mirror.replica(body.broker).log
        where = f"the log of {body.broker} at that time"
        if offset < log.floor:
            return self._look_below(state, sent, offset, where, mirror)
        found = self._look(state, sent, offset, log, where, leader_epoch, mirror)
        if found or leader_epoch < 0:
            return found
        for lineage in mirror.lineages.values():
            if lineage.epoch > leader_epoch:
                found = self._in_lineage(state, sent, offset, lineage.epoch, mirror)
                if found:
                    return found
        return NOTHING

    def _look_below(self, state: Sends, sent: Acknowledged, offset: int, where: str, mirror: LogMirror) -> Emissions:
        """The log of who acknowledged begins above the record: what was committed there tells."""
        held = mirror.records.at(offset)
        if held is None or held.uid == sent.uid or given_up(mirror, held.copy.leader_epoch, sent.leader_epoch, offset):
            return NOTHING
        sentence = (
            f"record {sent.uid} was acknowledged to {sent.by.node} at offset {offset:,} of {state.key}; "
            f"{named(held.uid)} was committed there, and {where} begins above it"
        )
        known = state.known if mirror.left_behind(sent.leader_epoch, offset, sent.uid) else ""
        return self._lost(state, sent, offset, sentence, held.copy.leader_epoch, mirror, held.copy.by, known)

    def _is_taken_for_another(self, state: Sends, sent: Acknowledged, offset: int, mirror: LogMirror) -> bool:
        """Whether a leader may have taken a record for one whose sequence number it was given."""
        held, session = mirror.records.at(offset), place_of(sent.uid)[0]
        if held is None or held.uid == sent.uid or place_of(held.uid)[0] != session:
            return False
        if given_up(mirror, held.copy.leader_epoch, sent.leader_epoch, offset):
            return False
        sentence = (
            f"record {sent.uid} was acknowledged to {sent.by.node} at offset {offset:,} of {state.key}; record "
            f"{held.uid} is committed there"
        )
        return state.renumbered.doubted(mirror, session, [offset], sentence, sent.by, held.copy.by)

    def _new_leader(self, state: Sends, event: Stamped, body: PartAssume, mirror: LogMirror) -> Emissions:
        lineage = mirror.lineages.get(body.leader_epoch)
        if lineage is None or lineage.assumed.id != event.id:
            return NOTHING
        state.now_us = event.wall
        found: list[Any] = []
        for offset, sent in state.recent.items():
            if sent.leader_epoch <= lineage.epoch:  # a leader that takes up late need not have what later ones append
                found.extend(self._in_lineage(state, sent, offset, lineage.epoch, mirror))
        log = mirror.lineage_log(lineage.epoch)
        assert log is not None
        for offset, lost in state.given_up.items():
            if offset < log.floor:
                continue
            if not _has(log, offset, lost.uid):
                lost.back = -1
            elif lost.back < 0:
                lost.back = lineage.epoch
                state.elected[lineage.epoch] = event.wall
                forget_least(state.elected, CHANGES_REMEMBERED)
        return found

    def _in_lineage(self, state: Sends, sent: Acknowledged, offset: int, epoch: int, mirror: LogMirror) -> Emissions:
        log = mirror.lineage_log(epoch)
        lineage = mirror.lineages[epoch]
        if log is None:
            return NOTHING
        where = f"the log of {lineage.leader}, leader of epoch {epoch},"
        return self._look(state, sent, offset, log, where, epoch, mirror, lineage.assumed)

    def _look(
        self,
        state: Sends,
        sent: Acknowledged,
        offset: int,
        log: Prefix,
        where: str,
        epoch: int,
        mirror: LogMirror,
        proof: Witness | None = None,
    ) -> Emissions:
        if offset < log.floor:
            return NOTHING
        if _has(log, offset, sent.uid):
            return NOTHING
        batch = log.batch_at(offset)
        holds = "lacks that offset" if batch is None else f"has {named(batch.uid_at(offset))} there"
        sentence = (
            f"record {sent.uid} was acknowledged to {sent.by.node} at offset {offset:,} of {state.key}; {where} {holds}"
        )
        return self._lost(state, sent, offset, sentence, epoch, mirror, proof)

    def _lost(
        self,
        state: Sends,
        sent: Acknowledged,
        offset: int,
        sentence: str,
        epoch: int,
        mirror: LogMirror,
        proof: Witness | None,
        finding: str = "",
    ) -> Emissions:
        rule = self._excuse(state, sent, offset, epoch, mirror)
        if not rule:
            if state.broken.get(offset) != sent.uid:
                remember(state.broken, offset, sent.uid, REMEMBERED)
                _charge(state, rule, proof)
            return self.violated(state.key, sentence, sent.by, proof, known=finding)
        known = state.given_up.get(offset)
        if known is not None and known.uid == sent.uid:
            return NOTHING
        remember(state.given_up, offset, GivenUp(sent.uid, rule), REMEMBERED)
        _charge(state, rule, proof)
        return self.excused(rule, state.key, sentence, sent.by, proof)

    def _excuse(self, state: Sends, sent: Acknowledged, offset: int, epoch: int, mirror: LogMirror) -> str:
        """The rule by which a record may be missing in a leader epoch, "" none."""
        if sent.acks != ACKS_ALL and (epoch != sent.leader_epoch or epoch < 0 or mirror.lost_by(offset)):
            return "acks<=1"
        taint = mirror.taint_between(sent.leader_epoch, epoch, offset + 1)
        if taint is not None:
            return taint.rule
        return "loss-budget" if mirror.loss_excuses(offset, state.budget) else ""

    def _read(self, state: Sends, event: Stamped, body: PollReturn, mirror: LogMirror) -> None:
        unread = state.unread
        last = body.records[-1].offset
        state.reach(last)
        read, start = state.read, state.read_from
        for record in body.records:
            offset = record.offset
            if offset >= start:
                read[offset - start] = 1
            if offset in unread:
                del unread[offset]
            elif state.aborted:
                state.aborted.pop(offset, None)
        reader = state.readers.get(event.node)
        if reader is None:
            reader = state.readers[event.node] = Reader()
        leader_epoch = read_in(body, mirror)
        if reader.start < 0:
            reader.start = body.records[0].offset
        elif leader_epoch != reader.leader_epoch:
            reader.jump(reader.end)
        reader.leader_epoch, reader.isolation = leader_epoch, body.isolation
        reader.end = max(reader.end, last + 1)

    @staticmethod
    def _must_have_seen(reader: Reader, sent: Acknowledged, offset: int, mirror: LogMirror) -> bool:
        """Whether a consumer read past a record: what it read before an unclean election is another log."""
        return any(not given_up(mirror, epoch, sent.leader_epoch, offset) for epoch in reader.passed(offset))

    def finish(self, state: Sends, mirror: LogMirror) -> Emissions:
        found: list[Any] = []
        newest = max(mirror.lineages, default=-1)
        state.now_us = -1
        readers = sorted(state.readers.items())
        everything = [each for each in readers if each[1].isolation != READ_COMMITTED]
        for unread, who in ((state.unread, readers), (state.aborted, everything)):
            for offset, sent in sorted(unread.items()):
                past = next((c for c, reader in who if self._must_have_seen(reader, sent, offset, mirror)), None)
                if past is not None:
                    sentence = (
                        f"record {sent.uid} was acknowledged to {sent.by.node} at offset {offset:,} of {state.key}; "
                        f"{past} read past that offset, and no consumer got the record"
                    )
                    found.extend(self._lost(state, sent, offset, sentence, newest, mirror, None))
        for offset, lost in state.given_up.items():
            found.extend(self._regained(state, offset, lost, newest, mirror))
        for toll in state.tolls.values():
            found.extend(self.lost(toll.rule, state.key, toll.number, toll.at_us, toll.by))
        found.extend(state.renumbered.judge(self, state.key, mirror, at_end=True))
        return found

    def _regained(self, state: Sends, offset: int, lost: GivenUp, newest: int, mirror: LogMirror) -> Emissions:
        """Whether a record that was missing is in the newest leader's log."""
        log = mirror.lineage_log(newest)
        if log is None or not (_has(log, offset, lost.uid) if offset >= log.floor else lost.back >= 0):
            return NOTHING
        by = mirror.lineages[newest if lost.back < 0 else lost.back]
        how = " after an unclean election" if by.unclean else ""
        sentence = f"{by.leader}, leader of {state.key} in leader epoch {by.epoch}{how}, has these records"
        return self.regained(lost.rule, state.key, sentence, state.elected.get(lost.back, -1), by.assumed)


def _charge(state: Sends, rule: str, proof: Witness | None) -> None:
    """One more record is gone. ``proof``: the event that shows it."""
    by = f"{rule} {proof.id if proof is not None else ''}"
    toll = state.tolls.get(by)
    if toll is None:
        toll = state.tolls[by] = Toll(rule, proof, state.now_us)
    toll.number += 1


def _has(log: Prefix, offset: int, uid: str) -> bool:
    batch = log.batch_at(offset)
    return batch is not None and batch.uid_at(offset) == uid
