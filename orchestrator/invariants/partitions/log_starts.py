"""P22 and H8: the log start of each replica, and the earliest offset that leaders report."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError
from actors.node.list_timestamps import EARLIEST, EARLIEST_LOCAL
from actors.trace.events import (
    FetchTold,
    LogAppend,
    LogDrop,
    LogLocalStart,
    LogRoll,
    LogStart,
    LogTrunc,
    NodeDown,
    PartAssume,
    PartChange,
    RpcReply,
    Stamped,
    TierSegment,
    TraceEvent,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import ANEW, LogMirror
from orchestrator.invariants.mirrors.loss import LOSS
from orchestrator.invariants.partitions.dropped_segments import DroppedSegments
from orchestrator.invariants.tiers.known_copies import (
    HOLES,
    METADATA_NEWS,
    UNSEEN_HOLE,
    Holes,
    KnownEnds,
    LostCopies,
    may_lose_metadata,
    of_process,
)

RETENTION = ("retention-ms", "retention-bytes")

OF_ANOTHER_LOG = (
    "The first copy may be of a log that an unclean election or disks have lost from there on. Kafka begins with the "
    "first copy of the leader's earliest epoch that has one, and does not compare it with the leader's log "
    "(RemoteLogManager.findLogStartOffset)."
)
INSIDE = "which is inside a segment: retention deletes whole segments only"


class Starts(State):
    """bases: broker -> the first offsets of its segments, above 0. highest: the highest log start that any replica had.
    own: broker -> the highest log start or local log start that it had, but for those that its processes found.
    copies: broker -> the ends of the copies that it knows. anew: broker -> the offset at which it restarted its log,
    until the first append. metadata_lost: an election may have shortened the metadata topic. lost: the copies of which
    it may have lost the metadata since, in one way or another. dropped: the segments that brokers have dropped."""

    bases: dict[str, list[int]] = {}
    highest: int = 0
    own: dict[str, int] = {}
    copies: dict[str, KnownEnds] = {}
    anew: dict[str, tuple[int, Witness]] = {}
    metadata_lost: bool = False
    lost: LostCopies = msgspec.field(default_factory=LostCopies)
    dropped: DroppedSegments = msgspec.field(default_factory=DroppedSegments)

    def of(self, event: Stamped) -> KnownEnds:
        """The copies that the process that recorded an event knows."""
        return of_process(self.copies, KnownEnds, event)

    def note(self, node: str, start: int) -> None:
        """A broker's log, or its own part of it, begins there."""
        self.own[node] = max(self.own.get(node, 0), start)

    def is_segment_end(self, event: Stamped, offset: int) -> bool:
        """Whether a segment of a broker, or a copy that it knows, ends there, so that retention may delete everything
        below."""
        return offset in self.bases.get(event.node, []) or offset in self.of(event).ends.values()


class LogStartsAreBelowTheWatermark(LogInvariant[Starts]):
    """Records at or above the high watermark are not committed, and no consumer has read them: retention must not
    delete them. A log start above the high watermark sends consumers and followers to offsets that may never exist.

    Example: broker-1 leads orders-0. Its segments begin at 0 and 40, its high watermark is 55, and its log ends at 60.
    Both segments are older than retention.ms. Broker-1 may move the log start to 40, but not to 60, because the second
    segment has uncommitted records.

    In a tiered topic, local retention deletes a broker's own segments by the same rules. The log start then stays.
    Retention of copies moves the log start to the end of a copy that the broker knows, in any state: it also deletes a
    copy that a leader has left unfinished.

    A new leader of a tiered topic moves its log start to the first copy. Records below it must have been deleted, and
    each deletion moves the log start of some replica first: a leader that finds a higher one gives up records that
    nobody has deleted.

    A follower whose log ends below the leader's log start empties its log and begins at that start. One that begins
    further up has given up records that nobody has deleted.

    A process that starts begins its log where the broker's log has begun before, or where its own part of it has: a
    checkpoint that is ahead of that hides records that nobody has deleted. It does not begin below what the broker
    has dropped: the files of those segments are gone.
    """

    id = "P22"
    title = (
        "No log starts above its own high watermark; retention deletes whole segments; followers adopt a leader's start"
    )
    source = "KIP-107; Kafka's UnifiedLog.deletableSegments, maybeIncrementLogStartOffset"
    tested_when = (
        "the log start or the local log start of a replica moves up, or a replica that emptied its log and restarted "
        "it at another offset does so, or appends its first batch, or a process finds a log that begins above 0, or "
        "one of which an earlier process had dropped segments"
    )
    types = (LogStart, LogLocalStart, LogRoll, LogTrunc, LogDrop, PartAssume, NodeDown, TierSegment)
    before_types = (LogStart, LogLocalStart, LogTrunc, LogAppend, PartAssume)
    exemptions = {
        **dict.fromkeys(LOSS, OF_ANOTHER_LOG),
        "metadata-lost": "An unclean election, or retention, shortened the metadata topic, so that the leader does not "
        "know the first copies.",
    }
    unseen = (
        "segments that retention deletes too early, or in too large a number: L17 and R13 judge the limits",
        "a restarted broker whose checkpoint has an older log start: P12 judges the recovered log",
    )

    def initial(self, key: str, profile: Profile) -> Starts:
        return Starts(key)

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return METADATA_NEWS

    def hear(self, state: Starts, event: Stamped) -> Emissions:
        assert isinstance(event.body, METADATA_NEWS)
        elected = type(event.body) is PartChange and may_lose_metadata(event.body)
        state.metadata_lost = state.metadata_lost or elected
        state.lost.hear(event, event.body)
        return NOTHING

    def before(self, state: Starts, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogAppend:
            if event.node in state.dropped.begun:
                state.dropped.appended(event, body)
            return self._continued(state, event, mirror) if event.node in state.anew else NOTHING
        if type(body) is PartAssume:
            return self._came_back(state, event, body)
        if type(body) is LogTrunc:
            state.bases[event.node] = [base for base in state.bases.get(event.node, []) if base <= body.to]
            return NOTHING
        assert isinstance(body, LogStart | LogLocalStart)
        stays = body.reason == "remote" and body.new <= mirror.replica(event.node).start
        if type(body) is LogStart and body.reason == "load":
            return (*self._came_back(state, event, body), *self._found(state, event, body))
        if type(body) is LogStart and body.reason == "out-of-range":
            return self._restarted(state, event, body)
        if body.reason in ANEW or body.reason == "load" or (type(body) is LogStart and stays):
            return NOTHING
        state.tested += 1
        if wrong := self._wrong(state, event, body, mirror):
            what = "log start" if type(body) is LogStart else "local log start"
            return self._judged(state, event, body, mirror, f"{event.node} moved the {what} of {state.key} to {wrong}")
        return NOTHING

    def _came_back(self, state: Starts, event: Stamped, body: LogStart | PartAssume) -> Emissions:
        """A process finds its log, whose beginning its predecessors may have dropped."""
        back = state.dropped.back(event, body)
        if back is None:
            return NOTHING
        state.tested += 1
        start, drop = back
        if start >= drop.base:
            return NOTHING
        sentence = (
            f"{event.node} started with {state.key} from {start:,} on, but an earlier process had dropped its segments "
            f"below {drop.base:,}"
        )
        return self.violated(state.key, sentence, drop.by, event)

    def _found(self, state: Starts, event: Stamped, body: LogStart) -> Emissions:
        state.tested += 1
        own = state.own.get(event.node, 0)
        if body.new <= own:
            return NOTHING
        sentence = (
            f"{event.node} started with {state.key} from {body.new:,} on, but neither its log nor its own part of it "
            f"had ever begun above {own:,}"
        )
        return self.violated(state.key, sentence, event)

    def _restarted(self, state: Starts, event: Stamped, body: LogStart) -> Emissions:
        """A follower whose log ends below its leader's begins anew where that one begins, be it the leader's own part
        of a tiered log that it found when it started."""
        state.tested += 1
        highest = max((state.highest, *state.own.values()))
        if body.new <= highest:
            return NOTHING
        sentence = (
            f"{event.node} began its log of {state.key} anew at {body.new:,}, as its leader's log start, but no "
            f"replica ever had one above {highest:,}"
        )
        return self.violated(state.key, sentence, event)

    def _judged(
        self, state: Starts, event: Stamped, body: LogStart | LogLocalStart, mirror: LogMirror, sentence: str
    ) -> Emissions:
        if type(body) is LogStart and body.reason == "remote":
            taint = mirror.taint_below(body.new + 1)
            if taint is not None:
                return self.excused(taint.rule, state.key, sentence, taint.by, event)
            if state.metadata_lost or state.lost.has(state.highest, -1, state.of(event).ends):
                return self.excused("metadata-lost", state.key, sentence, event)
        return self.violated(state.key, sentence, event)

    def step(self, state: Starts, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        state.dropped.take(state.key, event)
        if type(body) is LogRoll:
            state.bases.setdefault(event.node, []).append(body.base)
        elif type(body) is LogStart:
            if body.reason != "load":
                state.highest = max(state.highest, body.new)
                state.note(event.node, body.new)
            state.anew.pop(event.node, None)
            if body.reason in ANEW:
                state.anew[event.node] = (body.new, witness(event))
            if body.reason in ANEW or body.reason == "load":
                state.bases.setdefault(event.node, []).append(body.new)
            elif body.reason in RETENTION:
                self._forget_below(state, event.node, body.new)
        elif type(body) is LogLocalStart:
            if body.reason != "load":
                state.note(event.node, max(body.new, body.log_start))
            self._forget_below(state, event.node, body.new)
            if body.reason in ("load", "remote"):
                state.bases.setdefault(event.node, []).append(body.new)
        elif type(body) is TierSegment and body.phase == "known":
            # Of any state: retention also deletes a copy whose leader went away before it had finished it.
            state.of(event).consume(body)
            state.lost.consume(event, body)
        return NOTHING

    def _continued(self, state: Starts, event: Stamped, mirror: LogMirror) -> Emissions:
        """A restarted log has its high watermark at its start: no record says how much below it is committed."""
        start, by = state.anew.pop(event.node)
        if by.incarnation != event.incarnation:
            return NOTHING  # a crash may have undone it
        state.tested += 1
        watermark = mirror.replica(event.node).high_watermark
        if watermark >= start:
            return NOTHING
        sentence = (
            f"{event.node} appended to its log of {state.key}, which it had begun anew at {start:,}, while its high "
            f"watermark was {watermark:,}"
        )
        return self.violated(state.key, sentence, by, event)

    @staticmethod
    def _forget_below(state: Starts, node: str, offset: int) -> None:
        state.bases[node] = [base for base in state.bases.get(node, []) if base >= offset]

    def _wrong(self, state: Starts, event: Stamped, body: LogStart | LogLocalStart, mirror: LogMirror) -> str:
        """Where a log must not begin, and why; "" if it may."""
        why = self._why_local(state, event, body) if type(body) is LogLocalStart else self._why(state, event, body)
        replica = mirror.replica(event.node)
        if body.new > replica.high_watermark and body.reason != "remote":
            why = f"above its high watermark {replica.high_watermark:,}"
        return f"{body.new:,}, {why}" if why else ""

    @staticmethod
    def _why_local(state: Starts, event: Stamped, body: LogLocalStart) -> str:
        if body.reason != "remote":
            return "" if body.new in state.bases.get(event.node, []) else INSIDE
        if body.log_start > state.highest:
            return f"and the log start to {body.log_start:,}, but no replica ever had one above {state.highest:,}"
        return ""

    @staticmethod
    def _why(state: Starts, event: Stamped, body: LogStart | LogLocalStart) -> str:
        if body.reason in RETENTION and not state.is_segment_end(event, body.new):
            return INSIDE
        found = {"leader": "as its leader's log start", "remote": "where it found the first copy"}.get(body.reason)
        if found and body.new > state.highest:
            return f"{found}, but no replica ever had one above {state.highest:,}"
        return ""


class Told(msgspec.Struct, frozen=True):
    """The last earliest offset that a leader reported, in one leader epoch and one incarnation: of the log, or of its
    local part."""

    leader_epoch: int
    incarnation: int
    offset: int
    by: Witness


class Earliest(State):
    """``told``: by broker and timestamp."""

    told: dict[str, Told] = {}
    holes: Holes = msgspec.field(default_factory=Holes)


class EarliestIsTruthful(LogInvariant[Earliest]):
    """A consumer without a position begins at the earliest offset. If the leader refuses that offset as out of range,
    the consumer asks for the earliest offset again, and reads nothing. If the earliest offset goes back, the consumer
    begins at deleted records, or at a gap.

    Example: broker-1, leader of orders-0, answers ListOffsets for EARLIEST with 40, and a consumer fetches from 40. The
    log of broker-1 still starts at 40, but its answer is OFFSET_OUT_OF_RANGE. Or broker-1 answers the next ListOffsets
    for EARLIEST with 30.

    The check takes the log start from the trace, not from the answers.
    """

    id = "H8"
    title = "No leader calls a position inside its log out of range, and its earliest offset never goes back"
    source = "KIP-107; KIP-122; Kafka's UnifiedLog.fetchOffsetByTimestamp, Partition.readRecords"
    tested_when = (
        "a leader reports an earliest offset above 0, or calls a consumer's position out of range while its log "
        "start is "
        "above 0"
    )
    exemptions = HOLES
    types = (RpcReply, FetchTold, TierSegment)
    cases = {RpcReply: ("ListOffsets",)}
    unseen = (
        (
            "a log start that was not in the checkpoint yet when its process ended: the next process begins with an "
            "older one"
        ),
        "logs that start at 0: M4 and P26 judge positions in them",
        UNSEEN_HOLE,
    )

    def initial(self, key: str, profile: Profile) -> Earliest:
        return Earliest(key)

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return METADATA_NEWS

    def hear(self, state: Earliest, event: Stamped) -> Emissions:
        state.holes.hear(event)
        return NOTHING

    def step(self, state: Earliest, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is RpcReply:
            return self._listed(state, event, body, mirror) if body.api == "ListOffsets" else NOTHING
        if type(body) is TierSegment:
            state.holes.consume(event, body)
            return NOTHING
        assert type(body) is FetchTold
        replica = mirror.replica(event.node)
        if body.error != KafkaError.OFFSET_OUT_OF_RANGE or not body.leads or body.replica_id >= 0 or not replica.start:
            return NOTHING
        state.tested += 1
        if body.last_epoch >= 0 or not replica.start <= body.offset <= replica.log.end:
            return NOTHING
        sentence = (
            f"{event.node}, leader of epoch {body.leader_epoch} of {state.key}, answered that offset {body.offset:,} "
            f"is out of range, but its log starts at {replica.start:,} and ends at {replica.log.end:,}"
        )
        rule, by = state.holes.why(event.node, replica, body.offset)
        if rule:
            return self.excused(rule, state.key, sentence, by, event)
        return self.violated(state.key, sentence, event)

    def _listed(self, state: Earliest, event: Stamped, body: RpcReply, mirror: LogMirror) -> Emissions:
        for told in body.partitions:
            local = told.timestamp == EARLIEST_LOCAL
            if told.tp != state.key or told.error or not (local or told.timestamp == EARLIEST) or told.leader_epoch < 0:
                continue
            state.tested += told.offset > 0
            what = "earliest local offset" if local else "earliest offset"
            now = Told(told.leader_epoch, event.incarnation, told.offset, witness(event))
            last = state.told.get(f"{event.node} {what}")
            state.told[f"{event.node} {what}"] = now
            replica = mirror.replica(event.node)
            begins = replica.local_start if local else replica.start
            if told.offset > begins and replica.started_in == event.incarnation:
                return self.violated(
                    state.key,
                    f"{event.node}, leader of epoch {now.leader_epoch} of {state.key}, reported {now.offset:,} as the "
                    f"{what}, but it was {begins:,}",
                    event,
                )
            same = last is not None and (last.leader_epoch, last.incarnation) == (now.leader_epoch, now.incarnation)
            if last is not None and same and now.offset < last.offset:
                return self.violated(
                    state.key,
                    f"{event.node}, leader of epoch {now.leader_epoch} of {state.key}, reported {now.offset:,} as the "
                    f"{what} after it had reported {last.offset:,}",
                    last.by,
                    event,
                )
        return NOTHING
