"""What consumers are promised: they go forward without gaps, and what they get is committed, whole and stays."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right

import msgspec

from actors.node.isolation import READ_COMMITTED, READ_UNCOMMITTED
from actors.node.spec import is_recreated
from actors.trace.events import ConsOwn, ConsPos, LogHw, MetaView, PartAssume, Polled, PollReturn, SendInvoke, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, committed_alone, witness
from orchestrator.invariants.folds.memory import DELETED_UNSEEN, remember
from orchestrator.invariants.folds.rows import REMEMBERED, WITNESS, Names, Rows
from orchestrator.invariants.folds.window import OffsetWindow, offsets_of, uids_of
from orchestrator.invariants.mirrors.committed_records import CommittedRecords
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import FETCH_BY_ID, LogMirror
from orchestrator.invariants.mirrors.log_prefix import BatchFacts
from orchestrator.invariants.mirrors.loss import LOSS, read_in, way_of_loss
from orchestrator.invariants.mirrors.loss_budget import LossBudget, loss_budget
from orchestrator.invariants.mirrors.transactions_of_log import RANGES_REMEMBERED, TransactionsOfLog


def _is_read(body: PollReturn) -> bool:
    return body.outcome == "ok" and bool(body.records)


class Progress(msgspec.Struct, frozen=True):
    """Where a consumer goes on reading, and the event that put it there. isolation: of a group, the highest with which
    a member may have gone on from there. begun: its first position in this topic, from which it has read nothing
    yet."""

    position: int
    by: Witness
    isolation: int = 0
    begun: bool = False


class Membership(msgspec.Struct, frozen=True):
    """In which group a consumer reads, and whether the partition is its own."""

    group: str
    owns: bool
    by: Witness


class Passable(msgspec.Struct):
    """Batches without a record for a reader that were ever committed, those of logs that were given up since too: where
    they begin -> where they end, in one log or another. ``aborted``: those who read all get them."""

    control: dict[int, list[int]] = {}
    aborted: dict[int, list[int]] = {}

    def take(self, mirror: LogMirror) -> None:
        """What an event has committed."""
        for batch in mirror.newly_committed:
            if batch.control:
                self._put(self.control, batch.base, batch.end)
        for span in mirror.newly_ended:
            for base, end in () if span.commits else span.ranges:
                self._put(self.aborted, base, end)

    def _put(self, known: dict[int, list[int]], base: int, end: int) -> None:
        ends = known.get(base, [])
        remember(known, base, ends if end in ends else [*ends, end], RANGES_REMEMBERED)

    def leads(self, start: int, end: int, isolation: int) -> bool:
        """Whether they lead a reader from one position to another."""
        kinds = (self.control, self.aborted) if isolation == READ_COMMITTED else (self.control,)
        reached, at = [start], 0
        while at < len(reached):
            ends = {each for kind in kinds for each in kind.get(reached[at], ()) if each <= end}
            reached.extend(ends.difference(reached))
            at += 1
        return end in reached


class Positions(State):
    """consumers: per consumer; ``members``: those in groups. ``frontiers``: per group up to where it was given records,
    or was to begin. committed_alone: consumers that read committed records. passable: by who has no record to get."""

    consumers: dict[str, Progress] = {}
    members: dict[str, Membership] = {}
    frontiers: dict[str, Progress] = {}
    committed_alone: set[str] = set()
    passable: Passable = msgspec.field(default_factory=Passable)

    def place(self, group: str, event: Stamped, position: int) -> None:
        """A member is to begin at a position. It may go on without a record, where it reads none of those that follow:
        its group then commits a later position, with no poll that tells of the member's isolation."""
        isolation = READ_COMMITTED if event.node in self.committed_alone else READ_UNCOMMITTED
        before = self.frontiers.get(group)
        if before is None or position > before.position:
            self.frontiers[group] = Progress(position, witness(event), isolation)
        elif isolation > before.isolation:
            self.frontiers[group] = Progress(before.position, before.by, isolation)


class ConsumersGoForward(LogInvariant[Positions]):
    """A consumer that goes back delivers records to its application twice; one that jumps ahead silently skips records.

    Example: consumer-1 got offsets 38 to 40 of orders-0; the next poll returns 44, though producer-1:41 to
    producer-1:43 are at 41 to 43; or it returns 40 again. A jump that the consumer itself reports (a position that
    was assigned, reset or sought) starts a new sequence. Offsets of control records are no gap, and for a consumer
    at read_committed neither are those of aborted records; a consumer that has passed them stays there, even if an
    election gives up that log and its successor has records at those offsets. A group counts as one consumer: a new
    owner of a partition begins at the group's committed position, which is not beyond the records that some member
    was given; and a former owner gets no more records of it.
    """

    id = "C5"
    title = "A consumer's offsets rise, and it skips no record, until its position is moved"
    source = "Jepsen's kafka workload (int-poll-skip, poll-skip, nonmonotonic-poll)"
    tested_when = (
        "a poll returns records to a consumer whose position is known, or a consumer begins at its group's committed "
        "position"
    )
    types = (PollReturn, ConsPos, ConsOwn, MetaView, LogHw, PartAssume)
    cases = {LogHw: ("leader",)}
    unseen = (
        "the end of reading: L6 judges a consumer that stops",
        (
            "the first position of a consumer that fetches by name in a topic that was created again: an answer may be "
            "from either topic"
        ),
        "the position of a consumer that returns to a former topic: it has one position for all topics of a name",
        "the first position of group members after the topic was removed: the commit may belong to the next topic",
        (
            "whether a moved position is right: a reset or a truncation starts a new sequence, and H9, M4 and M10 "
            "judge those"
        ),
    )

    def initial(self, key: str, profile: Profile) -> Positions:
        return Positions(key, committed_alone=committed_alone(profile))

    def step(self, state: Positions, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is PollReturn:
            return self._read(state, event, body, mirror) if _is_read(body) else NOTHING
        if type(body) is ConsPos:
            state.consumers[event.node] = Progress(body.new, witness(event), begun=event.node not in state.consumers)
            return self._placed(state, event, body, mirror) if event.node in state.members else NOTHING
        if type(body) is ConsOwn:
            state.members[event.node] = Membership(body.group, state.key in body.owned, witness(event))
            return NOTHING
        if type(body) is MetaView:
            state.consumers.pop(event.node, None)
            return NOTHING
        if mirror.newly_committed:
            state.passable.take(mirror)
        return NOTHING

    def _placed(self, state: Positions, event: Stamped, body: ConsPos, mirror: LogMirror) -> Emissions:
        """A member of a group begins somewhere. Where that is none of what its group has committed, it tells of it as
        every consumer does."""
        group = state.members[event.node].group
        frontier = state.frontiers.get(group)
        state.place(group, event, body.new)
        if body.reason != "committed" or frontier is None or mirror.removed:
            return NOTHING
        state.tested += 1
        left_out = _left_out(mirror.transactions, frontier.position, body.new, frontier.isolation)
        if left_out < 0 or left_out >= mirror.committed.end:
            return NOTHING
        if state.passable.leads(frontier.position, body.new, frontier.isolation):
            return NOTHING
        sentence = (
            f"{event.node} begins to read {state.key} at offset {body.new:,}, but group {group} had got only the "
            f"records below {frontier.position:,}: offset {left_out:,} is left out"
        )
        return self.violated(state.key, sentence, frontier.by, event)

    def _as_member(self, state: Positions, event: Stamped, end: int, isolation: int) -> Emissions:
        """A member of a group was given records."""
        member = state.members[event.node]
        frontier = state.frontiers.get(member.group)
        if frontier is None or end > frontier.position:
            state.frontiers[member.group] = Progress(end, witness(event), isolation)
        if member.owns:
            return NOTHING
        sentence = f"{event.node} got records of {state.key} up to {end:,} after it had given up the partition"
        return self.violated(state.key, sentence, member.by, event)

    def _read(self, state: Positions, event: Stamped, body: PollReturn, mirror: LogMirror) -> Emissions:
        offsets = offsets_of(body.records)
        if event.node in state.members and (found := self._as_member(state, event, offsets[-1] + 1, body.isolation)):
            return found
        before = state.consumers.get(event.node)
        state.consumers[event.node] = Progress(offsets[-1] + 1, witness(event))
        if before is not None and before.begun and is_recreated(state.key) and body.version < FETCH_BY_ID:
            return NOTHING
        expected = offsets[0] if before is None else before.position
        state.tested += before is not None
        if offsets == list(range(expected, expected + len(offsets))):
            return NOTHING
        by = None if before is None else before.by
        # Without a record to return it may have passed what another log has at those offsets by now. Then it asks from
        # behind them, where one that leaves records of an answer out has asked for those.
        if expected < body.offset <= offsets[0] and state.passable.leads(expected, body.offset, body.isolation):
            expected = body.offset
        for offset in offsets:
            if offset < expected:
                sentence = (
                    f"{event.node} got offset {offset:,} of {state.key} again: it had already read up to {expected:,}"
                )
                return self.violated(state.key, sentence, by, event)
            left_out = _left_out(mirror.transactions, expected, offset, body.isolation)
            # A leader that was replaced serves its own log.
            if (
                left_out >= 0
                and _left_out(mirror.replica(body.broker).transactions, expected, offset, body.isolation) >= 0
            ):
                batch = mirror.committed.batch_at(left_out)
                sentence = (
                    f"{event.node} had read {state.key} up to {expected:,} and then got offset {offset:,}: it left out "
                    f"offset {left_out:,}" + (f", which holds {batch.uid_at(left_out)}" if batch is not None else "")
                )
                return self.violated(state.key, sentence, by, event)
            expected = offset + 1
        return NOTHING


def _left_out(log: TransactionsOfLog, start: int, end: int, isolation: int) -> int:
    """The first offset of [start, end) that a reader must have got, -1 if there is none."""
    start = log.hidden_until(max(start, log.forgotten), isolation)
    return start if start < end else -1


_POLL = struct.Struct(f"<?qi{WITNESS}")
_PAYLOAD = struct.Struct(f"<?I{WITNESS}")


class Poll(msgspec.Struct, frozen=True, gc=False):
    """A poll that was the first to get what is at an offset and above, from the leader of an epoch."""

    leader_epoch: int
    by: Witness


class Reads(State):
    """``read``: what was got first at each offset, and ``polls``, in order of their first offsets, by which;
    ``positions``: per consumer, its process and how far that has read."""

    read: OffsetWindow = msgspec.field(default_factory=OffsetWindow)
    polls: Rows = msgspec.field(default_factory=lambda: Rows(_POLL.size))
    nodes: Names = msgspec.field(default_factory=Names)
    positions: dict[str, tuple[int, int]] = {}
    budget: LossBudget = LossBudget()

    def poll_of(self, offset: int) -> Poll | None:
        """The poll that got what is at an offset first."""
        index = bisect_right(self._numbers(), offset, key=self._first_of) - 1 + self.polls.start
        place = self.polls.place(index)
        if place < 0:
            return None
        _, _, leader_epoch, *packed = _POLL.unpack_from(self.polls.data, place)
        return Poll(leader_epoch, self.nodes.unpack(*packed))

    def _numbers(self) -> range:
        return range(self.polls.start, self.polls.end)

    def _first_of(self, index: int) -> int:
        first: int = _POLL.unpack_from(self.polls.data, self.polls.place(index))[1]
        return first

    def learn(self, records: list[Polled], leader_epoch: int, event: Stamped, committed: OffsetWindow) -> None:
        """Records that follow one another were got. What lies at and above them was given up, if it was another."""
        first, end = records[0].offset, self.read.end
        names = committed.own(first, uids_of(records))
        if first < end and any(known and known != uid for known, uid in zip(self._known(records), names, strict=True)):
            self.read.cut(first)
            self.polls.cut(bisect_left(self._numbers(), first, key=self._first_of) + self.polls.start)
            end = first
        if records[-1].offset >= end:
            row = _POLL.pack(True, max(first, end), leader_epoch, *self.nodes.pack(witness(event)))
            self.polls.put(self.polls.end, row)
        self.read.put(first, names)

    def forget(self, offset: int) -> None:
        """What is below an offset was deleted long ago. The poll that has it stays, if it has more."""
        self.read.forget(offset)
        self.polls.forget(bisect_right(self._numbers(), offset, key=self._first_of) - 1 + self.polls.start)

    def _known(self, records: list[Polled]) -> list[str]:
        return self.read.between(records[0].offset, records[-1].offset + 1)


class ReadsRepeat(LogInvariant[Reads]):
    """Every later consumer gets the record that an earlier one got. Otherwise two applications that read the same
    partition disagree for ever, and one that reads it again after a crash reaches another state.

    Example: consumer-1 got producer-1:57 at offset 41 of orders-0. Consumer-2 gets producer-1:58 there, or jumps from
    40 to 42.
    """

    id = "C7"
    title = "Every later reader of an offset gets the record that an earlier consumer got there"
    source = "kafka-tlaplus, ConsistentReadProperty; KAFKA-9835"
    tested_when = "a poll returns records at offsets, or passes offsets, whose record some consumer got before"
    types = (PollReturn, ConsPos)
    exemptions = LOSS
    unseen = (
        DELETED_UNSEEN,
        f"records that a consumer got more than {REMEMBERED:,} offsets ago",
        "records that disks lost and regained: a loss within the budget excuses its offsets for good",
    )

    def initial(self, key: str, profile: Profile) -> Reads:
        return Reads(key, budget=loss_budget(profile, key))

    def forget(self, state: Reads, offset: int) -> None:
        state.forget(offset)

    def step(self, state: Reads, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is ConsPos:
            state.positions[event.node] = (event.incarnation, body.new)
            return NOTHING
        assert type(body) is PollReturn
        if not _is_read(body):
            return NOTHING
        records = body.records
        first, end = records[0].offset, records[-1].offset + 1
        process, position = state.positions.get(event.node, (-1, first))
        if process != event.incarnation:
            position = first
        state.positions[event.node] = (event.incarnation, end)
        found: list[object] = []
        if position < first:
            found.extend(self._passed_by(state, position, first, event, mirror))
        if end - first == len(records):
            known = state.read.between(first, end)
            if known == uids_of(records):
                state.tested += 1
                return found  # type: ignore[return-value]  # extended with emissions alone
            found.extend(self._take(state, records, known, event, mirror))
        else:
            for record in records:
                found.extend(self._passed_by(state, first, record.offset, event, mirror))
                first = record.offset + 1
                found.extend(self._take(state, [record], [state.read.at(record.offset)], event, mirror))
        return found  # type: ignore[return-value]  # extended with emissions alone

    def _take(
        self, state: Reads, records: list[Polled], known: list[str], event: Stamped, mirror: LogMirror
    ) -> Emissions:
        """Compare records that follow one another with what is known of their offsets, and learn from them."""
        state.tested += any(known)
        assert type(event.body) is PollReturn
        epoch = read_in(event.body, mirror)
        for name, record in zip(known, records, strict=True):
            if name and name != record.uid:
                poll = state.poll_of(record.offset)
                sentence = (
                    f"{event.node} got {record.uid or 'no record'} at offset {record.offset:,} of {state.key}, where "
                    f"{poll.by.node if poll else 'a consumer'} had got {name}"
                )
                found = self._gone(state, record.offset, sentence, poll, epoch, event, mirror)
                if poll is None or epoch >= poll.leader_epoch:
                    state.learn(records, epoch, event, mirror.records.names)
                return found
        state.learn(records, epoch, event, mirror.records.names)
        return NOTHING

    def _passed_by(self, state: Reads, start: int, end: int, event: Stamped, mirror: LogMirror) -> Emissions:
        assert type(event.body) is PollReturn
        committed_alone = event.body.isolation == READ_COMMITTED
        for offset in range(max(start, state.read.start), min(end, state.read.end)):
            if known := state.read.at(offset):
                if committed_alone and mirror.transactions.fate(offset) in ("aborted", "unknown"):
                    continue  # somebody got it who reads all; whether anybody else may is for T6
                state.tested += 1
                poll = state.poll_of(offset)
                sentence = (
                    f"{event.node} read {state.key} past offset {offset:,} and got no record there, where "
                    f"{poll.by.node if poll else 'a consumer'} had got {known}"
                )
                return self._gone(state, offset, sentence, poll, read_in(event.body, mirror), event, mirror)
        return NOTHING

    def _gone(
        self,
        state: Reads,
        offset: int,
        sentence: str,
        poll: Poll | None,
        leader_epoch: int,
        event: Stamped,
        mirror: LogMirror,
    ) -> Emissions:
        by, epoch = (None, -1) if poll is None else (poll.by, poll.leader_epoch)
        if rule := way_of_loss(mirror, offset, state.budget, epoch, leader_epoch):
            return self.excused(rule, state.key, sentence, by, event)
        return self.violated(state.key, sentence, by, event)


class Budgeted(State):
    """What disks may lose."""

    budget: LossBudget = LossBudget()


class OnlyCommittedIsShown(LogInvariant[Budgeted]):
    """A record above the high watermark may still disappear with its leader. A consumer that got it acts on a record
    that never existed. A record below the log start was deleted, perhaps because nobody may read it any more.

    Example: broker-1 (high watermark 1,204) returns offset 1,210 to consumer-1 and crashes; broker-2 takes over without
    it.
    """

    id = "C8"
    title = "Consumers get committed records, and nothing else"
    source = "KAFKA-9196; KAFKA-14704"
    tested_when = "a poll returns records"
    types = (PollReturn,)
    exemptions = LOSS
    unseen = (
        "records in a Fetch that the consumer does not return",
        "a high watermark that is too high: this check takes it for the committed end (P6 and P10 judge it)",
    )

    def initial(self, key: str, profile: Profile) -> Budgeted:
        return Budgeted(key, budget=loss_budget(profile, key))

    def step(self, state: Budgeted, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is PollReturn
        if not _is_read(body):
            return NOTHING
        records = body.records
        state.tested += 1
        if isinstance(body.log_start, int) and records[0].offset < body.log_start:
            sentence = (
                f"{event.node} got {records[0].uid} at offset {records[0].offset:,} of {state.key} from {body.broker}, "
                f"whose log starts at {body.log_start:,}"
            )
            return self.violated(state.key, sentence, event)
        if records[-1].offset < mirror.committed.end and mirror.records.are(records):
            return NOTHING
        for record in records:
            known = mirror.records.names.at(record.offset)
            if record.offset >= mirror.committed.end:
                holds = f"but leaders had committed only the records below {mirror.committed.end:,}"
            elif known and known != record.uid:
                holds = f"where {known} is committed"
            else:
                continue
            sentence = f"{event.node} got {record.uid} at offset {record.offset:,} of {state.key}, {holds}"
            if rule := way_of_loss(mirror, record.offset, state.budget, read_in(body, mirror)):
                return self.excused(rule, state.key, sentence, event)
            return self.violated(state.key, sentence, event)
        return NOTHING


class SentPayload(msgspec.Struct, frozen=True, gc=False):
    """What an application sent."""

    digest: int
    by: Witness


UNCOMMITTED = 1 << 14
"""Records of one partition that were sent and not committed, at most, of which the payload is remembered."""


class Payloads(State):
    """``sent``: uid -> what was sent under that name, as long as it is not committed; ``rows``: the same of committed
    records, by offset; ``nodes``: what numbers in rows stand for."""

    sent: dict[str, SentPayload] = {}
    rows: Rows = msgspec.field(default_factory=lambda: Rows(_PAYLOAD.size))
    nodes: Names = msgspec.field(default_factory=Names)

    def send(self, uid: str, payload: SentPayload) -> None:
        """An application sent a record."""
        self.sent[uid] = payload
        if len(self.sent) > UNCOMMITTED:
            del self.sent[next(iter(self.sent))]

    def commit(self, batch: BatchFacts, records: CommittedRecords) -> None:
        """A batch was committed: what was sent moves to the offsets of its records."""
        for offset, uid in enumerate(batch.uids, batch.base):
            was = records.replaced.get(offset)
            if was is not None and was.uid != uid and (given_up := self.at(offset)) is not None:
                self.send(was.uid, given_up)
            payload = self.sent.pop(uid, None)
            if payload is None and (before := records.again.get(offset)) is not None:
                payload = self.at(before.offset) if records.names.at(before.offset) == uid else None
            if payload is None:
                self.rows.clear(offset)
            else:
                self.rows.put(offset, _PAYLOAD.pack(True, payload.digest, *self.nodes.pack(payload.by)))

    def of(self, uid: str, offset: int, records: CommittedRecords) -> SentPayload | None:
        """What was sent under a name, which is said to be at an offset; None if that is not remembered."""
        if records.names.at(offset) == uid:
            return self.at(offset)
        copy = records.copy_of(uid)
        return self.sent.get(uid) if copy is None or records.names.at(copy.offset) != uid else self.at(copy.offset)

    def at(self, offset: int) -> SentPayload | None:
        """What was sent of the committed record at an offset."""
        place = self.rows.place(offset)
        if place < 0:
            return None
        _, digest, *packed = _PAYLOAD.unpack_from(self.rows.data, place)
        return SentPayload(digest, self.nodes.unpack(*packed))


class PayloadsArriveWhole(LogInvariant[Payloads]):
    """A consumer gets the same key, value and timestamp that the producer sent.

    Example: consumer-1 gets producer-1:57 with the value of producer-1:63, because the producer reused the memory of a
    batch while that batch was still on its way to the broker.
    """

    id = "C11"
    title = "A record arrives with the payload with which it was sent"
    source = "KAFKA-19012; TigerBeetle's storage checker"
    tested_when = "a consumer gets a record whose sending is in the trace"
    types = (SendInvoke, PollReturn, LogHw, PartAssume)
    cases = {LogHw: ("leader",)}
    ghost = "digest of payloads"
    unseen = (
        DELETED_UNSEEN,
        f"records whose send is not in the trace, or that are more than {REMEMBERED:,} offsets back",
    )

    def initial(self, key: str, profile: Profile) -> Payloads:
        return Payloads(key)

    def forget(self, state: Payloads, offset: int) -> None:
        state.rows.forget(offset)

    def step(self, state: Payloads, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is SendInvoke:
            if body.digest is None:
                return self.cannot_tell(state.key, event)
            state.send(body.uid, SentPayload(body.digest, witness(event)))
            return NOTHING
        if type(body) in (LogHw, PartAssume):  # an unclean leader may bring back what it had committed before
            for batch in mirror.newly_committed:
                state.commit(batch, mirror.records)
            return NOTHING
        assert type(body) is PollReturn
        for record in body.records:
            payload = state.of(record.uid, record.offset, mirror.records)
            if payload is None:
                continue
            if record.digest is None:
                return self.cannot_tell(state.key, event)
            state.tested += 1
            if payload.digest != record.digest:
                sentence = (
                    f"{event.node} got {record.uid} at offset {record.offset:,} of {state.key} with payload digest "
                    f"{record.digest:08x}, but {payload.by.node} had sent payload digest {payload.digest:08x}"
                )
                return self.violated(state.key, sentence, payload.by, event)
        return NOTHING
