"""O7: what coordinators have in memory, beside the log of the offsets partition that they lead."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.trace.events import (
    NO_ENTRY,
    Entry,
    GrpCommit,
    GrpFetch,
    GrpGen,
    GrpLoad,
    LogAppend,
    LogHw,
    NodeDown,
    Stamped,
    TraceEvent,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.loss import LOSS
from orchestrator.invariants.mirrors.replica import Replica

REPLACED = 256
"""As many records are remembered that another leader's have replaced."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """What a record of the offsets partition says of a position. A tombstone has ``NO_ENTRY``. ``producer_id``: of one
    that takes effect when a transaction is committed, -1 of all others; of two the one that comes later in the log
    counts, whenever it takes effect. ``marker``: of the marker that has committed it, -1 it needs none, or nobody knows
    of one."""

    group: str
    tp: str
    coordinator_epoch: int
    log_offset: int
    entry: Entry
    by: Witness
    producer_id: int = -1
    marker: int = -1


class Loaded(msgspec.Struct, frozen=True, gc=False):
    """In which leader epoch a broker has loaded the partition, and up to where."""

    coordinator_epoch: int
    end: int


class Stable(msgspec.Struct, frozen=True, gc=False):
    """A generation whose assignment is committed. members: by their ids; earlier: what they were in the same
    generation, before a static member came back under another id. assignment, subscribed: member id -> partitions, and
    topics; empty where the trace does not tell what the log has."""

    generation: int
    coordinator_epoch: int
    by: Witness
    members: tuple[str, ...] = ()
    earlier: tuple[tuple[str, ...], ...] = ()
    assignment: dict[str, list[str]] = {}
    subscribed: dict[str, list[str]] = {}


class Emptied(msgspec.Struct, frozen=True, gc=False):
    """A generation without members. Its coordinator has to write it before it does anything else."""

    group: str
    generation: int
    incarnation: int
    by: Witness


class Memory(State):
    """Of one offsets partition. settled: group -> topic partition -> the newest record that is committed; pending:
    those of which nobody knows, in the order of the trace; replaced: those of which the committed log has another
    record in their place, which an unclean election may bring back. doubtful: group and partition -> rule by which
    what was settled is gone; taints: how many of the log's are in that. loaded: by broker. stable: by group; empty:
    groups that are; removed: those that are gone since a step of a broker. unwritten: broker -> the empty generation
    that it has just formed."""

    settled: dict[str, dict[str, Record]] = {}
    pending: list[Record] = []
    replaced: list[Record] = []
    doubtful: dict[str, str] = {}
    taints: int = 0
    loaded: dict[str, Loaded] = {}
    stable: dict[str, Stable] = {}
    empty: dict[str, int] = {}
    removed: dict[str, tuple[tuple[str, str, str], Stable]] = {}
    unwritten: dict[str, Emptied] = {}

    def settle(self, mirror: LogMirror) -> None:
        """Sort out what has become of records below what is committed."""
        for taint in mirror.taints[self.taints :]:
            self.pending, self.replaced = [*self.replaced, *self.pending], []
            for group, records in self.settled.items():
                for tp, record in records.items():
                    if max(record.log_offset, record.marker) >= taint.start:
                        self.doubtful[_name(group, tp)] = taint.rule
                        if record.log_offset < taint.start and record not in self.pending:
                            # The record is still there, without its marker: another one may commit it, or abort it.
                            self.pending.append(record)
        self.taints = len(mirror.taints)
        left: list[Record] = []
        for record in self.pending:
            if record.log_offset >= mirror.committed.end:
                left.append(record)
                continue
            batch = mirror.committed.batch_at(record.log_offset)
            if batch is not None and batch.epoch != record.coordinator_epoch:
                self.replaced.append(record)
                continue
            fate = "plain" if record.producer_id < 0 else mirror.transactions.fate(record.log_offset)
            if fate == "open":
                left.append(record)
            if fate in ("open", "aborted"):
                continue
            known = self.settled.setdefault(record.group, {})
            name = _name(record.group, record.tp)
            if record.tp not in known or record.log_offset > known[record.tp].log_offset or name in self.doubtful:
                marker = -1 if record.producer_id < 0 else mirror.transactions.marker_of(record.log_offset)
                known[record.tp] = msgspec.structs.replace(record, marker=marker)
                self.doubtful.pop(name, None)
        self.pending = left
        del self.replaced[:-REPLACED]

    def entries(self, replica: Replica, end: int) -> dict[str, dict[str, Record]]:
        """What the log of a replica has below ``end``: group -> topic partition -> its last record."""
        found = {group: dict(records) for group, records in self.settled.items()}
        for record in [*self.replaced, *self.pending]:
            if record.log_offset >= end or not _has(replica, record):
                continue
            if record.producer_id < 0 or replica.transactions.fate_below(record.log_offset, end) == "plain":
                known = found.setdefault(record.group, {})
                if record.tp not in known or record.log_offset > known[record.tp].log_offset:
                    known[record.tp] = record
        return found


def _name(group: str, tp: str) -> str:
    return f"{group} {tp}"


def _has(replica: Replica, record: Record) -> bool:
    batch = replica.log.batch_at(record.log_offset)
    return batch is not None and batch.epoch == record.coordinator_epoch


class MemoryEqualsTheLog(LogInvariant[Memory]):
    """The log of the offsets partition is the agreed state of a group; a coordinator serves from memory. If the two
    diverge, members continue elsewhere after the next failover, or the commits can no longer be attributed.

    Example: broker-3 takes over __consumer_offsets-7 and loads its log up to 41, though it ends at 52, and answers
    consumer-1 that 25 of orders-0 is committed; 40 is at offset 47. Or broker-1 still answers, although it follows
    broker-3 by now. The memory must equal the log up to the high watermark, or up to the end of the load, whichever is
    later. A position in a transaction counts from the offset of the marker that commits it. The check does not rely on
    the coordinator's own report of its log: it uses the trace of the log.

    Or the last member of the group leaves, and broker-1 does not write that: the next coordinator has that member, and
    waits for it. Or broker-1 writes who is in generation 5 and not what each has: consumer-2, which joins again at the
    next coordinator, finds its generation there and is assigned nothing.
    """

    id = "O7"
    title = "A coordinator's memory agrees with the log of its offsets partition"
    source = "KAFKA-5600; Kafka's GroupMetadataManager, CoordinatorRuntime"
    tested_when = (
        "a coordinator loads an offsets partition, appends a commit, answers which positions are committed, or forms a "
        "generation without members"
    )
    types = (GrpCommit, GrpFetch, GrpGen, GrpLoad, LogAppend, LogHw)
    cases = {LogAppend: ("leader",), LogHw: ("leader",)}
    of_groups = True
    exemptions = LOSS
    unseen = (
        "Answers of a replaced coordinator that does not know of its replacement.",
        "Members of a loaded group that no earlier generation had: O2 and O4 know those.",
        "Assignments of a loaded group whose leader was asked for them twice in that generation.",
        "Whether an expired position was due to expire: O12 judges that.",
        "What is in the record of a generation without members: that one is written is all that the trace tells.",
    )

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (NodeDown,)

    def initial(self, key: str, profile: Profile) -> Memory:
        return Memory(key)

    def hear(self, state: Memory, event: Stamped) -> Emissions:
        """A process that the end of the run has ended has done all its steps; another one may end within a step."""
        assert type(event.body) is NodeDown
        if event.body.mode != "end":
            state.unwritten.pop(event.node, None)
        return self._wrote(state, event) if state.unwritten else NOTHING

    def step(self, state: Memory, event: Stamped, mirror: LogMirror) -> Emissions:
        found = self._wrote(state, event) if state.unwritten else NOTHING
        return [*found, *self._took(state, event, mirror)] if found else self._took(state, event, mirror)

    def _wrote(self, state: Memory, event: Stamped) -> Emissions:
        """After an empty generation, the coordinator's next event of this partition is that of its record."""
        emptied = state.unwritten.pop(event.node, None)
        if emptied is None or emptied.incarnation != event.incarnation:
            return NOTHING
        state.tested += 1
        if type(event.body) is LogAppend:
            return NOTHING
        sentence = (
            f"{event.node} formed generation {emptied.generation} of group {emptied.group}, which has no members, and "
            f"did not write that to {state.key}"
        )
        return self.violated(state.key, sentence, emptied.by, event)

    def _took(self, state: Memory, event: Stamped, mirror: LogMirror) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is LogAppend:
            return NOTHING
        if kind is LogHw:
            if state.pending and mirror.newly_committed:
                state.settle(mirror)
        elif kind is GrpGen:
            self._moved(state, event, body)
            # A broker that does not lead cannot write.
            if body.state == "Empty" and mirror.replica(event.node).leads == body.coordinator_epoch:
                emptied = Emptied(body.group, body.generation, event.incarnation, witness(event))
                state.unwritten[event.node] = emptied
        elif kind is GrpLoad:
            if body.loaded:
                return self._loaded(state, event, body, mirror)
            state.loaded.pop(event.node, None)
            for group, (step, stable) in state.removed.items():
                if step == step_of(event):
                    state.stable.setdefault(group, stable)  # the coordinator resigned, and the group is as it was
                    state.empty.setdefault(group, body.coordinator_epoch)
            state.removed.clear()
        elif body.offsets_tp != state.key or body.error:
            return NOTHING  # what is committed of a partition is routed to that partition, too
        elif kind is GrpCommit:
            return self._appended(state, event, body, mirror)
        else:
            return self._told(state, event, body, mirror)
        return NOTHING

    def _moved(self, state: Memory, event: Stamped, body: GrpGen) -> None:
        if body.state == "Dead" and body.group in state.empty and body.group in state.stable:
            # It begins anew if it comes again, unless its coordinator resigns in this step.
            state.removed[body.group] = (step_of(event), state.stable.pop(body.group))
        state.empty.pop(body.group, None)
        if body.state == "Empty":
            state.empty[body.group] = body.coordinator_epoch
        known = state.stable.get(body.group)
        if body.state == "Stable" and (known is None or body.generation >= known.generation):
            members, earlier = tuple(sorted(body.members)), tuple[tuple[str, ...], ...]()
            if known is not None and known.generation == body.generation and known.members != members:
                earlier = (*known.earlier, known.members)[-REPLACED:]
            given = {} if body.rewritten else dict(body.assignment)
            place = (body.generation, body.coordinator_epoch, witness(event))
            state.stable[body.group] = Stable(*place, members, earlier, given, dict(body.subscribed))

    # ---- who coordinates ------------------------------------------------------------------------------------

    def _in_office(self, state: Memory, event: Stamped, epoch: int, mirror: LogMirror) -> str:
        """What keeps a broker from being the coordinator in a leader epoch, "" nothing does."""
        leads = mirror.replica(event.node).leads
        if leads != epoch:
            return f"which leads it in leader epoch {leads}" if leads >= 0 else "which does not lead it"
        loaded = state.loaded.get(event.node)
        # One that is elected again in place goes on with what it has.
        return "" if loaded is not None and loaded.coordinator_epoch <= epoch else "which has not loaded it"

    def _appended(self, state: Memory, event: Stamped, body: GrpCommit, mirror: LogMirror) -> Emissions:
        state.tested += 1
        entry = [body.offset, body.leader_epoch, body.metadata_epoch] if body.offset >= 0 else NO_ENTRY
        place = (body.coordinator_epoch, body.log_offset)
        record = Record(body.group, body.tp, *place, entry, witness(event), body.producer_id)
        wrong = self._in_office(state, event, body.coordinator_epoch, mirror)
        replica = mirror.replica(event.node)
        if not wrong and body.log_offset >= replica.log.floor and not _has(replica, record):
            wrong = f"whose log has no such commit at {body.log_offset:,}"
        if wrong:
            sentence = (
                f"a commit of {body.tp} for group {body.group} in leader epoch {body.coordinator_epoch} of {state.key} "
                f"was accepted by {event.node}, {wrong}"
            )
            return self.violated(state.key, sentence, event)
        state.pending.append(record)
        if body.log_offset < mirror.committed.end:
            state.settle(mirror)
        return NOTHING

    # ---- what it has ----------------------------------------------------------------------------------------

    def _told(self, state: Memory, event: Stamped, body: GrpFetch, mirror: LogMirror) -> Emissions:
        state.tested += 1
        if wrong := self._in_office(state, event, body.coordinator_epoch, mirror):
            sentence = (
                f"a look-up for group {body.group} in leader epoch {body.coordinator_epoch} of {state.key} was "
                f"answered by {event.node}, {wrong}"
            )
            return self.violated(state.key, sentence, event)
        if _superseded(mirror, body.coordinator_epoch):
            return NOTHING
        state.settle(mirror)
        replica = mirror.replica(event.node)
        if body.stable_end > replica.high_watermark:
            sentence = (
                f"{event.node} answered group {body.group} with stable offsets up to {body.stable_end:,} of "
                f"{state.key}, but its high watermark there was {replica.high_watermark:,}"
            )
            return self.violated(state.key, sentence, event)
        committed = max(state.loaded[event.node].end, replica.high_watermark)
        log = state.entries(replica, body.stable_end if body.stable_end >= 0 else committed)
        records = log.get(body.group, {})
        gone = {each.tp for each in state.pending if each.group == body.group and each.entry == NO_ENTRY}
        for tp, entry in body.offsets.items():
            if entry == NO_ENTRY and tp in gone:
                continue  # what expires leaves memory before its tombstone is committed
            if tp in records and 0 <= body.stable_end < committed and _may_be_newer(records[tp], body.stable_end):
                continue  # it was asked for before that took effect, and answered afterwards
            if found := self._differs(state, event, "told", (body.group, tp), entry, records.get(tp)):
                return found
        return NOTHING

    def _loaded(self, state: Memory, event: Stamped, body: GrpLoad, mirror: LogMirror) -> Emissions:
        state.tested += 1
        replica = mirror.replica(event.node)
        state.loaded[event.node] = Loaded(body.coordinator_epoch, body.end)
        if replica.leads != body.coordinator_epoch:
            sentence = (
                f"{event.node} loaded {state.key} in leader epoch {body.coordinator_epoch}, which it does not lead"
            )
            return self.violated(state.key, sentence, event)
        if body.end != replica.log.end:
            sentence = f"{event.node} loaded {state.key} up to {body.end:,}, but its log ends at {replica.log.end:,}"
            return self.violated(state.key, sentence, event)
        if _superseded(mirror, body.coordinator_epoch):
            return NOTHING
        state.settle(mirror)
        log = state.entries(replica, body.end)
        for group in sorted({*log, *body.offsets}):
            records, told = log.get(group, {}), body.offsets.get(group, {})
            for tp in sorted({*records, *told}):
                if found := self._differs(state, event, "loaded", (group, tp), told.get(tp, NO_ENTRY), records.get(tp)):
                    return found
        return self._groups(state, event, body, mirror)

    def _differs(
        self, state: Memory, event: Stamped, did: str, of: tuple[str, str], entry: Entry, record: Record | None
    ) -> Emissions:
        """The finding if memory is another than the log."""
        expected = NO_ENTRY if record is None else record.entry
        if list(entry) == list(expected):
            return NOTHING
        group, tp = of
        where = "" if record is None else f" at {record.log_offset:,}"
        sentence = (
            f"{event.node} {did} {_shown(entry)} as the committed offset of group {group} for {tp}, but the log of "
            f"{state.key} has {_shown(expected)}{where}"
        )
        by = None if record is None else record.by
        if rule := state.doubtful.get(_name(group, tp), ""):
            return self.excused(rule, state.key, sentence, by, event)
        return self.violated(state.key, sentence, by, event)

    def _groups(self, state: Memory, event: Stamped, body: GrpLoad, mirror: LogMirror) -> Emissions:
        for group, stable in state.stable.items():
            if stable.coordinator_epoch >= body.coordinator_epoch:
                continue
            wrong = _outdated(body, group, stable)
            if not wrong:
                continue
            sentence = f"{event.node} {wrong} in leader epoch {stable.coordinator_epoch} of {state.key}"
            taint = mirror.taint_below(1 << 62, stable.coordinator_epoch)
            if taint is not None:
                return self.excused(taint.rule, state.key, sentence, stable.by, event)
            return self.violated(state.key, sentence, stable.by, event)
        return NOTHING


def _outdated(body: GrpLoad, group: str, stable: Stable) -> str:
    """What a coordinator that has read the log should have known of a group, "" if it does."""
    told = body.groups.get(group)
    was = f"but generation {stable.generation} of it was stable"
    if told is None:
        return f"loaded no group {group}, {was}"
    if told[1] < stable.generation:
        return f"loaded group {group} in generation {told[1]}, {was}"
    if told[1] > stable.generation:
        return ""
    if told[0] != "Stable":
        return f"loaded group {group} without members in generation {told[1]}, {was}" if stable.members else ""
    members = tuple(sorted(body.members.get(group, {})))
    if members in stable.earlier:
        return f"loaded group {group} with the members {', '.join(members)}, {was} with {', '.join(stable.members)}"
    assignment = body.assignment.get(group, {})
    if wrong := _other_assignment(stable, members, assignment):
        member, before = wrong
        has = f"{_listed(assignment.get(member, []))} as the assignment of member {member}"
        return f"loaded group {group} in generation {told[1]} with {has}, {was} with {_listed(before)} as that"
    topics = body.subscribed.get(group, {})
    for member in members:
        before = stable.subscribed.get(member, [])
        if member in topics and sorted(topics[member]) != sorted(before) and before:
            has = f"{_listed(topics[member])} as the topics of member {member}"
            return f"loaded group {group} in generation {told[1]} with {has}, {was} with {_listed(before)} as that"
    return ""


def _other_assignment(
    stable: Stable, members: tuple[str, ...], assignment: dict[str, list[str]]
) -> tuple[str, list[str]] | None:
    """A member of a generation that has another assignment than it had, and what it had. A static member that came back
    under another id since has what it had under the former."""
    if not stable.assignment:
        return None
    came = [member for member in members if member not in stable.members]
    left = [member for member in stable.members if member not in members]
    for member in members:
        before = stable.assignment.get(member, [])
        if member not in came and sorted(assignment.get(member, [])) != sorted(before):
            return member, before
    if len(came) != len(left):
        return None
    had = sorted((sorted(stable.assignment.get(member, [])), member) for member in left)
    has = sorted((sorted(assignment.get(member, [])), member) for member in came)
    return next(((new, before) for (now, new), (before, _) in zip(has, had, strict=True) if now != before), None)


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "nothing"


def _may_be_newer(record: Record, end: int) -> bool:
    """Whether a record may have taken effect at or above an offset."""
    return record.log_offset >= end or record.producer_id >= 0


def step_of(event: Stamped) -> tuple[str, str, str]:
    """What the events of one step have in common: the message that it takes, or else its time. Where a barrier stops a
    live node within a step, what comes after that has a later time."""
    if event.cause or event.req:
        return event.node, event.cause, event.req
    return event.node, "", str(event.wall)


def _superseded(mirror: LogMirror, epoch: int) -> bool:
    """Whether another broker has taken up a later leader epoch."""
    return any(newer > epoch for newer in mirror.lineages)


def _shown(entry: Entry) -> str:
    offset, leader_epoch, metadata_epoch = entry
    if offset < 0:
        return "nothing"
    metadata = f", metadata epoch {metadata_epoch}" if metadata_epoch >= 0 else ""
    return f"{offset:,} (leader epoch {leader_epoch}{metadata})"
