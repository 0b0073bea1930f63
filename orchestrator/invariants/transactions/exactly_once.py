"""What applications that read, process and write exactly once are promised from end to end: T15."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.isolation import READ_COMMITTED
from actors.node.spec import node_name
from actors.trace.events import (
    BeginInvoke,
    CommittedReturn,
    EndInvoke,
    EndReturn,
    GrpCommit,
    LogAppend,
    LogStart,
    NodeDown,
    PartChange,
    PollReturn,
    SendInvoke,
    Stamped,
    TxnLoad,
    TxnLoaded,
    TxnState,
)
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Emission,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.folds.routes import RUN
from orchestrator.invariants.mirrors.loss import LOSS
from orchestrator.invariants.mirrors.partition_losses import Lost, PartitionLosses
from orchestrator.invariants.transactions.decided import (
    DECISIONS,
    EPOCH_BUMP,
    EPOCH_SHARED,
    MARKER_OF_FORMER,
    Begins,
    LateEnds,
)
from orchestrator.invariants.transactions.fates import Fates

REMEMBERED = 1 << 13
"""Input records of a group and partition that are remembered."""
TRANSACTIONAL_ID = "transactional.id"


class Parent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An input record. ``name``: group and partition."""

    name: str
    offset: int
    uid: str


class Sent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An output on its way to ``tp``. ``transactional_id``: of who sent it; ``at_us``: when."""

    transactional_id: str
    at_us: int
    by: Witness
    tp: str


class Output(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a reader of committed records got for an input record, and how it was sent."""

    tp: str
    offset: int
    uid: str
    by: Witness
    sent: Sent


class Inputs(msgspec.Struct):
    """Of a group and a partition that it reads, by offset and uid. ``given``: as a member sent its output last;
    ``visible``: the first output that a reader got."""

    given: dict[tuple[int, str], Sent] = {}
    visible: dict[tuple[int, str], Output] = {}


class Reading(msgspec.Struct):
    """Of a reader in one partition of outputs: since when it has read without a gap. ``end``: up to where; ``first``,
    ``last``: group and input partition -> the lowest and the highest input offset whose output it got."""

    session: str
    end: int
    first: dict[str, int] = {}
    last: dict[str, int] = {}


class Span(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a reader got without a gap: the lowest and the highest input offset. ``until_us``: when the log of the
    inputs lost its end, after which an offset is another record's; -1 it did not."""

    first: int
    last: int
    until_us: int = -1

    def passes(self, offset: int, sent: Sent) -> bool:
        """Whether the output of an input at ``offset``, that was ``sent`` then, should have been among what it got."""
        return self.first < offset < self.last and (self.until_us < 0 or sent.at_us <= self.until_us)


class Deleted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Since when the log of the inputs has started at ``start``, or later."""

    at_us: int
    start: int


class Decision(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of a coordinator on a transaction. ``shared``: a request for an earlier transaction of the same epoch got no
    answer, and asked for this end: it may have come late."""

    commits: bool
    shared: bool = False


class Processing(State):
    """``group_of``: member that processes -> its group; ``id_of``: the same -> its transactional id. ``homes``: group,
    or transactional id -> the partition that holds it. ``reads``: member -> uid -> where it was read last; more than
    once where a poll has it more than once, of which those sent already are gone. ``parents``: uid of an output -> its
    input, and when it was sent. ``passed``: group and input partition -> what readers got of it. ``decisions``:
    transactional id -> when its transactions were decided -> how. ``fates``: the same by producer id, to know a
    decision that is told again. ``late``: requests for an end that got no answer. ``asked``: producer id and epoch ->
    the end that its application has asked for. ``cut_us``: partition -> when its log may have lost its end last.
    ``deleted``: partition -> where its log started, each higher than the one before. ``leaders``: partition -> its
    leader, "" none. ``commits``: group and input partition -> the position that it committed last."""

    group_of: dict[str, str] = {}
    id_of: dict[str, str] = {}
    homes: dict[str, str] = {}
    reads: dict[str, dict[str, list[tuple[str, int]]]] = {}
    parents: dict[str, tuple[Parent, Sent]] = {}
    inputs: dict[str, Inputs] = {}
    readers: dict[str, Reading] = {}
    passed: dict[str, list[Span]] = {}
    losses: list[Lost] = []
    disks: PartitionLosses = msgspec.field(default_factory=PartitionLosses)
    decisions: dict[str, dict[int, Decision]] = {}
    fates: dict[int, Fates] = {}
    late: LateEnds = msgspec.field(default_factory=LateEnds)
    asked: dict[tuple[int, int], bool] = {}
    cut_us: dict[str, int] = {}
    deleted: dict[str, list[Deleted]] = {}
    leaders: dict[str, str] = {}
    commits: dict[str, int] = {}
    begins: Begins = msgspec.field(default_factory=Begins)


class ExactlyOnce(KeyedInvariant[Processing]):
    """An application reads a record, writes an output for it, and commits both in one transaction. A reader of the
    outputs at read_committed finds one for each record: a second one is an order shipped twice, and a missing one is an
    order that nobody ships.

    Example: processor-1 of group copier makes producer-1:57, at 41 of orders-0, into processor-1:12, and commits.
    Processor-2 takes orders-0 over, begins at 41 again, and commits processor-2:3. Consumer-2 gets both. Or
    processor-1 aborts, continues at 42, and consumer-2 gets outputs of 40 and 42, and none of 41.
    """

    id = "T15"
    title = "Each record that a group reads, processes and writes in transactions has one committed output"
    source = "KIP-98; KIP-129; KIP-447; Jepsen's kafka workload"
    tested_when = "a consumer at read_committed gets the output of a record"
    route = RUN
    of_transactions = True
    types = (
        *(PollReturn, SendInvoke, GrpCommit, CommittedReturn, TxnState, TxnLoad, LogAppend, LogStart),
        *(BeginInvoke, EndInvoke, EndReturn),
    )
    cases = {LogAppend: ("leader",)}
    exemptions = {
        "marker-of-former": MARKER_OF_FORMER,
        "epoch-shared": EPOCH_SHARED,
        "zombie": "A replaced group coordinator that does not know of its replacement gave a member positions from "
        "before the group's last commit.",
        **LOSS,
    }
    unseen = (
        "Records whose output no consumer at read_committed reads past, such as the last ones of a run.",
        f"A second output more than {REMEMBERED:,} records of a partition later.",
        "The content of an output: each output names its input.",
        "Below transaction.version 2, what follows from a decision while a request for that end may still come late.",
        "A record that was deleted before the group could process it again, after its transaction was aborted.",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (PartChange, NodeDown)

    def initial(self, key: str, profile: Profile) -> Processing:
        group_of = {
            member: group
            for group, each in profile.groups.items()
            for member in each["members"]
            if member in profile.transactional
        }
        id_of = {
            member: str(profile.setting(TRANSACTIONAL_ID, member) or member)  # as the processor itself decides
            for member in group_of
        }
        return Processing(key, group_of=group_of, id_of=id_of, disks=PartitionLosses(profile))

    def hear(self, state: Processing, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is PartChange:
            state.leaders[body.tp] = node_name(body.leader) if body.leader >= 0 else ""
        for lost in state.disks.take(event):
            self._lose(state, lost)
        return NOTHING

    @staticmethod
    def _lose(state: Processing, lost: Lost) -> None:
        """The log of a partition may have lost its end: the inputs that get its offsets now are others."""
        state.losses.append(lost)
        state.cut_us[lost.tp] = lost.at_us
        for reading in state.readers.values():
            for name in [name for name in reading.first if name.endswith(f" {lost.tp}")]:
                span = Span(reading.first.pop(name), reading.last.pop(name), lost.at_us)
                state.passed.setdefault(name, []).append(span)

    def step(self, state: Processing, event: Stamped) -> Emissions:
        body: Any = event.body
        if not state.group_of:
            return NOTHING
        if type(body) is LogAppend:
            if body.marker and state.begins.is_of_former(event, body):
                state.losses.append(Lost(event.wall, body.tp, "marker-of-former"))
            return NOTHING
        if type(body) is GrpCommit:
            state.homes[f"group {body.group}"] = body.offsets_tp
            if not body.error:
                state.commits[f"{body.group} {body.tp}"] = body.offset
            return NOTHING
        if type(body) is CommittedReturn:
            self._positions(state, event, body)
            return NOTHING
        if type(body) is LogStart:
            starts = state.deleted.setdefault(body.tp, [])
            if not starts or body.new > starts[-1].start:
                starts.append(Deleted(event.wall, body.new))
                del starts[:-REMEMBERED]
            return NOTHING
        if type(body) is TxnState:
            state.homes[body.transactional_id] = body.tp
            self._moved(state, event, body.transactional_id, body, body.to_state)
            state.begins.take(event, body)
            return NOTHING
        if type(body) is TxnLoad:
            for name, each in body.transactions.items():
                self._moved(state, event, name, each, each.state)
            return NOTHING
        if type(body) is BeginInvoke or type(body) is EndInvoke or type(body) is EndReturn:
            self._asked(state, body)
            return NOTHING
        if type(body) is SendInvoke:
            self._sent(state, event, body)
            return NOTHING
        if body.outcome != "ok":
            return NOTHING
        if event.node in state.group_of:
            reads = state.reads.setdefault(event.node, {})
            places: dict[str, list[tuple[str, int]]] = {}
            for record in body.records:
                places.setdefault(record.uid, []).append((body.tp, record.offset))
            for uid, where in places.items():
                _remember(reads, uid, where)
        return self._read(state, event, body) if body.isolation == READ_COMMITTED else NOTHING

    @staticmethod
    def _asked(state: Processing, body: BeginInvoke | EndInvoke | EndReturn) -> None:
        """An application begins a transaction, asks for its end, or is told of that."""
        if type(body) is EndReturn:
            state.late.note(body, REMEMBERED)
        elif type(body) is EndInvoke:
            _remember(state.asked, (body.producer_id, body.producer_epoch), body.commit)
        else:
            state.asked.pop((body.producer_id, body.producer_epoch), None)

    @staticmethod
    def _moved(state: Processing, event: Stamped, name: str, now: TxnState | TxnLoaded, to_state: str) -> None:
        """A coordinator has moved a transactional id on, or finds it in its log so: whoever decided its transaction may
        not have lived to say so."""
        fates = state.fates.get(now.producer_id) or Fates()
        _remember(state.fates, now.producer_id, fates)
        assert isinstance(event.body, TxnState | TxnLoad)
        fates.goes_on(to_state, event.body.coordinator_epoch)
        if to_state not in DECISIONS:
            return
        producer, commits, version = (now.producer_id, now.producer_epoch), DECISIONS[to_state], now.client_version
        as_asked = state.asked.get(producer) is commits
        if fates.is_told_again(event, now.producer_epoch, commits, version, as_asked):
            return
        fates.note(event, now.producer_epoch, commits)
        # A late request certainly decided the transaction, and comes no more, if the application has not asked so.
        may = state.late.may_come if as_asked else state.late.take
        decision = Decision(commits, version < EPOCH_BUMP and may(*producer, commits))
        _remember(state.decisions.setdefault(name, {}), event.wall, decision)

    @staticmethod
    def _positions(state: Processing, event: Stamped, body: CommittedReturn) -> None:
        """A member is told where its group continues, perhaps by a coordinator that was replaced."""
        broker = event.req.partition(">")[2].partition(":")[0]
        leader = state.leaders.get(state.homes.get(f"group {body.group}", ""))
        if event.node not in state.group_of or leader in (None, broker):
            return
        for tp, (offset, *_) in body.offsets.items():
            if offset < state.commits.get(f"{body.group} {tp}", -1):
                state.losses.append(Lost(event.wall, tp, "zombie"))

    def _sent(self, state: Processing, event: Stamped, body: SendInvoke) -> None:
        group = state.group_of.get(event.node)
        if group is None or not isinstance(body.copy_of, str):
            return
        places = state.reads.get(event.node, {}).get(body.copy_of)
        if not places:
            return
        place = places.pop(0) if len(places) > 1 else places[0]
        parent = Parent(f"{group} {place[0]}", place[1], body.copy_of)
        sent = Sent(state.id_of[event.node], event.wall, witness(event), body.tp)
        _remember(state.parents, body.uid, (parent, sent))
        inputs = state.inputs.setdefault(parent.name, Inputs())
        _remember(inputs.given, (parent.offset, parent.uid), sent)

    def _read(self, state: Processing, event: Stamped, body: PollReturn) -> Emissions:
        reading = self._reading(state, event, body)
        found: list[Emission] = []
        for record in body.records:
            parent, sent = state.parents.get(record.uid, (None, None))
            if parent is None or sent is None:
                continue
            offset = parent.offset
            if sent.at_us > state.cut_us.get(parent.name.split(" ")[1], -1):
                # What was sent before has an offset of the log of then.
                reading.first.setdefault(parent.name, offset)
                reading.last[parent.name] = max(offset, reading.last.get(parent.name, -1))
            output = Output(body.tp, record.offset, record.uid, witness(event), sent)
            visible, place = state.inputs[parent.name].visible, (offset, parent.uid)
            known = visible.get(place)
            if known is None:
                state.tested += 1
                _remember(visible, place, output)
            elif (known.tp, known.offset, known.uid) != (output.tp, output.offset, output.uid):
                group, tp = parent.name.split(" ")
                sentence = (
                    f"{parent.uid} at {offset:,} of {tp} has two committed outputs for group {group}: {known.uid} at "
                    f"{known.offset:,} and {output.uid} at {output.offset:,} of {output.tp}"
                )
                found.extend(self._judged(state, parent, sentence, known.sent, known.by, event))
        return found

    def _reading(self, state: Processing, event: Stamped, body: PollReturn) -> Reading:
        """The reader, from the beginning if it goes on elsewhere than where it was, or records were deleted there."""
        session, who = f"{event.node}/{event.incarnation}", f"{event.node} {body.tp}"
        reading = state.readers.get(who)
        if reading is None or reading.session != session or not self._goes_on(state, body, reading.end):
            reading = self._begin(state, who, session, body.offset)
        if body.records:
            reading.end = max(reading.end, body.records[-1].offset + 1)
        return reading

    @staticmethod
    def _goes_on(state: Processing, body: PollReturn, end: int) -> bool:
        """Whether a poll brings what is next for a reader that has read up to ``end``."""
        starts = state.deleted.get(body.tp)
        return end <= body.offset and not (starts and end < starts[-1].start)

    def _begin(self, state: Processing, who: str, session: str, offset: int) -> Reading:
        self._end(state, state.readers.pop(who, None))
        reading = state.readers[who] = Reading(session, offset)
        return reading

    def _end(self, state: Processing, reading: Reading | None) -> None:
        for name, first in reading.first.items() if reading is not None else ():
            assert reading is not None
            state.passed.setdefault(name, []).append(Span(first, reading.last[name]))

    def finish(self, state: Processing, horizon_us: int) -> Emissions:
        found: list[Emission] = []
        for reading in state.readers.values():
            self._end(state, reading)
        state.readers.clear()
        for name, spans in state.passed.items():
            inputs = state.inputs[name]
            for (offset, uid), sent in inputs.given.items():
                if (offset, uid) in inputs.visible or not any(span.passes(offset, sent) for span in spans):
                    continue
                group, tp = name.split(" ")
                if self._is_deleted(state, inputs, tp, offset, sent):
                    continue
                sentence = (
                    f"{uid} at {offset:,} of {tp} has no committed output for group {group}, but later records have"
                )
                found.extend(self._judged(state, Parent(name, offset, uid), sentence, sent, sent.by))
        return found

    @staticmethod
    def _is_deleted(state: Processing, inputs: Inputs, tp: str, offset: int, sent: Sent) -> bool:
        """Whether an input was deleted before its group could process it again: its transaction was aborted, and the
        group had not gone on to later inputs by then. It may have been deleted before its output was sent."""
        gone_us = next((each.at_us for each in state.deleted.get(tp, ()) if each.start > offset), -1)
        if gone_us < 0:
            return False
        decided = _decided(state, sent)
        if decided is None:
            return True
        aborted_us, decision = decided
        later = (each.at_us for (at, _), each in inputs.given.items() if at > offset)
        return not decision.commits and not any(aborted_us < at_us < gone_us for at_us in later)

    def _judged(
        self, state: Processing, parent: Parent, sentence: str, sent: Sent, *by: Witness | Stamped
    ) -> Emissions:
        """Excused if a log may have lost since the (first) output was sent what says that it was processed: that of the
        input or the output, of the group's positions, or of the decisions on the transactions of its members; or if
        a transaction ended there by the marker of another one, or by a request for another one."""
        group, tp = parent.name.split(" ")
        members = [member for member, its in state.group_of.items() if its == group]
        homes = {state.homes.get(name, "") for name in (f"group {group}", *(state.id_of[each] for each in members))}
        tps = {tp, sent.tp, *homes}
        rule = next((each.rule for each in state.losses if each.tp in tps and each.at_us >= sent.at_us), "")
        decided = _decided(state, sent)
        if not rule and decided is not None and decided[1].shared:
            rule = "epoch-shared"
        if rule:
            return self.excused(rule, state.key, sentence, *by)
        return self.violated(state.key, sentence, *by)


def _decided(state: Processing, sent: Sent) -> tuple[int, Decision] | None:
    """How and when the transaction in which an output was sent was decided; None if it was not yet."""
    decisions = state.decisions.get(sent.transactional_id, {})
    return next(((at_us, decision) for at_us, decision in decisions.items() if at_us >= sent.at_us), None)


def _remember(known: dict[Any, Any], name: Any, value: Any) -> None:
    known[name] = value
    if len(known) > REMEMBERED:
        del known[next(iter(known))]
