"""P22 and H8: where logs begin, and what clients are told of it."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError
from actors.trace.events import (
    FetchTold,
    LogAppend,
    LogLocalStart,
    LogRoll,
    LogStart,
    LogTrunc,
    RpcReply,
    Stamped,
    TierSegment,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import ANEW, LogMirror
from orchestrator.invariants.tiers.known_copies import KnownEnds, of_process

EARLIEST, EARLIEST_LOCAL = -2, -4
RETENTION = ("retention-ms", "retention-bytes")


class Starts(State):
    """bases: broker -> where segments of its log begin, above 0. highest: the highest log start of any replica. copies:
    broker -> where the copies end that it knows of. anew: broker -> where its log began anew, until it is appended to.
    """

    bases: dict[str, list[int]] = {}
    highest: int = 0
    copies: dict[str, KnownEnds] = {}
    anew: dict[str, tuple[int, Witness]] = {}

    def of(self, event: Stamped) -> KnownEnds:
        """What the process that recorded an event knows of copies."""
        return of_process(self.copies, KnownEnds, event)

    def is_segment_end(self, event: Stamped, offset: int) -> bool:
        """Whether a segment of a broker, or a copy that it knows of, ends there: what is below may go as a whole."""
        return offset in self.bases.get(event.node, []) or offset in self.of(event).ends.values()


class LogStartsAreBelowTheWatermark(LogInvariant[Starts]):
    """What is at or above the high watermark is not committed: who deletes it may delete what nobody has read yet, and
    a log start above the high watermark sends consumers and followers to offsets that may never be.

    Example: broker-1 leads orders-0 with segments from 0 and 40 on, a high watermark of 55 and a log end of 60. Both
    segments are older than retention.ms, and it begins its log at 40: what is from 40 on is not all committed.

    Of a tiered log, what a broker has itself goes in the same way, while the log start stays. Retention of copies moves
    the log start to the end of a copy that the broker knows of, in whichever state: it also deletes a copy that a
    leader left unfinished.
    """

    id = "P22"
    title = (
        "No log begins above its own high watermark; retention drops whole segments, and a follower goes by its leader"
    )
    source = "KIP-107; Kafka's UnifiedLog.deletableSegments, maybeIncrementLogStartOffset"
    tested_when = (
        "the start of a data log, or of a broker's part of it, moves up, or a log that began anew gets its first batch"
    )
    types = (LogStart, LogLocalStart, LogRoll, LogTrunc, TierSegment)
    before_types = (LogStart, LogLocalStart, LogTrunc, LogAppend)
    unseen = (
        "segments that go before their time, or too many of them: the trace has no sizes, and clocks of its own",
        "what the checkpoint of a log start says after a restart: P12 judges what is recovered",
    )

    def initial(self, key: str, profile: Profile) -> Starts:
        return Starts(key)

    def before(self, state: Starts, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogAppend:
            return self._continued(state, event, mirror) if event.node in state.anew else NOTHING
        if type(body) is LogTrunc:
            state.bases[event.node] = [base for base in state.bases.get(event.node, []) if base <= body.to]
            return NOTHING
        assert isinstance(body, LogStart | LogLocalStart)
        stays = body.reason == "remote" and body.new <= mirror.replica(event.node).start
        if body.reason in ANEW or body.reason == "load" or (type(body) is LogStart and stays):
            return NOTHING
        state.tested += 1
        if wrong := self._wrong(state, event, body, mirror):
            what = "log" if type(body) is LogStart else "part of the log"
            return self.violated(
                state.key, f"{event.node} began its {what} of {state.key} at {body.new:,}, {wrong}", event
            )
        return NOTHING

    def step(self, state: Starts, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogRoll:
            state.bases.setdefault(event.node, []).append(body.base)
        elif type(body) is LogStart:
            state.highest = max(state.highest, body.new)
            state.anew.pop(event.node, None)
            if body.reason in ANEW:
                state.anew[event.node] = (body.new, witness(event))
            if body.reason in ANEW or body.reason == "load":
                state.bases.setdefault(event.node, []).append(body.new)
            elif body.reason in RETENTION:
                self._forget_below(state, event.node, body.new)
        elif type(body) is LogLocalStart:
            self._forget_below(state, event.node, body.new)
            if body.reason in ("load", "remote"):
                state.bases.setdefault(event.node, []).append(body.new)
        elif type(body) is TierSegment and body.phase == "known":
            # Of any state: retention also takes a copy whose leader went away before it was finished.
            state.of(event).consume(body)
        return NOTHING

    def _continued(self, state: Starts, event: Stamped, mirror: LogMirror) -> Emissions:
        """A log that began anew began with its high watermark there: nobody else could say what is committed below."""
        start, by = state.anew.pop(event.node)
        state.tested += 1
        watermark = mirror.replica(event.node).high_watermark
        if watermark >= start:
            return NOTHING
        sentence = (
            f"{event.node} appended to its log of {state.key}, which began anew at {start:,}, above its high watermark "
            f"{watermark:,}"
        )
        return self.violated(state.key, sentence, by, event)

    @staticmethod
    def _forget_below(state: Starts, node: str, offset: int) -> None:
        state.bases[node] = [base for base in state.bases.get(node, []) if base >= offset]

    def _wrong(self, state: Starts, event: Stamped, body: LogStart | LogLocalStart, mirror: LogMirror) -> str:
        replica = mirror.replica(event.node)
        if body.new > replica.high_watermark and body.reason != "remote":
            return f"above its high watermark {replica.high_watermark:,}"
        if type(body) is LogLocalStart and body.reason == "remote":
            if body.log_start > state.highest:
                return f"and all of it at {body.log_start:,}, while no log has begun above {state.highest:,}"
            return ""
        if type(body) is LogLocalStart:
            own = state.bases.get(event.node, [])
            return "" if body.new in own else "within a segment, of which retention leaves nothing or everything"
        if body.reason in RETENTION and not state.is_segment_end(event, body.new):
            return "within a segment, of which retention leaves nothing or everything"
        if body.reason == "leader" and body.new > state.highest:
            return f"as its leader is said to do, while no log has begun above {state.highest:,}"
        return ""


class Told(msgspec.Struct, frozen=True):
    """The earliest offset that a leader told last, in one leader epoch and one life: of the log, or of its own part."""

    leader_epoch: int
    incarnation: int
    offset: int
    by: Witness


class Earliest(State):
    """By broker and timestamp."""

    told: dict[str, Told] = {}


class EarliestIsTruthful(LogInvariant[Earliest]):
    """A consumer that begins at the earliest offset reads from there on. If that is refused as out of range, it asks
    again, and reads nothing; if the earliest offset goes back, it reads what was deleted, or gaps.

    Example: broker-1, leader of orders-0, answers ListOffsets for EARLIEST with 40, and a consumer fetches from 40. The
    broker's log still begins at 40, and it answers OFFSET_OUT_OF_RANGE.

    Where a log begins is known from the trace, not from the answers.
    """

    id = "H8"
    title = "A position within a leader's log is not out of range, and the earliest offset it reports never goes back"
    source = "KIP-107; KIP-122; Kafka's UnifiedLog.fetchOffsetByTimestamp, Partition.readRecords"
    tested_when = (
        "a leader whose log begins above 0 reports the earliest offset, or calls a consumer's position out of range"
    )
    types = (RpcReply, FetchTold)
    cases = {RpcReply: ("ListOffsets",)}
    unseen = (
        "a log start that is lost with a process: it is that of the checkpoint then, which is older",
        "a log start of 0: M4 and P26 judge positions in such logs",
    )

    def initial(self, key: str, profile: Profile) -> Earliest:
        return Earliest(key)

    def step(self, state: Earliest, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is RpcReply:
            return self._listed(state, event, body, mirror) if body.api == "ListOffsets" else NOTHING
        assert type(body) is FetchTold
        replica = mirror.replica(event.node)
        if body.error != KafkaError.OFFSET_OUT_OF_RANGE or not body.leads or body.replica_id >= 0 or not replica.start:
            return NOTHING
        state.tested += 1
        if body.last_epoch >= 0 or not replica.start <= body.offset <= replica.log.end:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node}, leader of epoch {body.leader_epoch} of {state.key}, called {body.offset:,} out of range, "
            f"while its log began at {replica.start:,} and ended at {replica.log.end:,}",
            event,
        )

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
                    f"{what}, while that was {begins:,}",
                    event,
                )
            same = last is not None and (last.leader_epoch, last.incarnation) == (now.leader_epoch, now.incarnation)
            if last is not None and same and now.offset < last.offset:
                return self.violated(
                    state.key,
                    f"{event.node}, leader of epoch {now.leader_epoch} of {state.key}, reported {now.offset:,} as the "
                    f"{what} after {last.offset:,}",
                    last.by,
                    event,
                )
        return NOTHING
