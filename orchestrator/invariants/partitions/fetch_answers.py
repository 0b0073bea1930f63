"""That a broker does not sit on a Fetch which it could answer, and tells consumers errors for their reasons."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError, error_name
from actors.trace.events import (
    FetchTold,
    LogAppend,
    LogHw,
    LogStart,
    RepFetch,
    Stamped,
    TierSegment,
    TraceEvent,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.tiers.known_copies import HOLES, METADATA_NEWS, UNSEEN_HOLE, Holes

E = KafkaError


class Grown(msgspec.Struct):
    """One replica. end: of its log; waiting: followers that have fetched from there. log_by, mark_by: what moved its
    end, and its high watermark, last. start: where its log starts; passed: where it started when its high watermark
    moved last, and start_by: what has moved it since."""

    end: int = 0
    start: int = 0
    passed: int = 0
    start_by: Witness | None = None
    waiting: set[int] = set()
    log_by: Witness | None = None
    mark_by: Witness | None = None


class Readers(State):
    """``replicas``: by broker."""

    replicas: dict[str, Grown] = {}
    holes: Holes = msgspec.field(default_factory=Holes)


class FetchesAreAnsweredAtOnce(LogInvariant[Readers]):
    """A Fetch without records waits at the broker, up to fetch.max.wait.ms. If the broker does not check it when a
    record arrives, each record is delayed by that time. A consumer that is refused without a reason looks for a leader,
    or for a position, that it already has.

    Example: two consumers wait at 1,310 of orders-0, the high watermark moves to 1,311, and broker-1 answers the first
    of them; the second one gets the record 400 ms later. Or a consumer at 1,310, which an earlier leader had served,
    gets OFFSET_OUT_OF_RANGE from the next one, whose log ends at 1,310 and whose high watermark is 1,204 (KAFKA-9835).
    Or the topic is deleted while a consumer waits, which hears of it at the end of that time alone.
    """

    id = "P26"
    title = "A waiting Fetch is answered as soon as possible, and a consumer is refused only for a reason"
    source = "Kafka's DelayedFetch.tryComplete; Partition.readRecords; KIP-320"
    tested_when = (
        "a leader appends while a follower waits at its log end, or a broker refuses a consumer or lets a Fetch wait "
        "to the end"
    )
    unseen = (
        "a late answer to a Fetch before its timeout",
        "answers to consumers without an error: C8 and M10 judge those",
        "refusals of followers: P16 and P23 judge those",
        UNSEEN_HOLE,
    )
    types = (FetchTold, LogAppend, LogHw, LogStart, RepFetch, TierSegment)
    exemptions = {
        "deleted-meanwhile": "The log start has passed the position of a consumer that waits, and the high watermark "
        "has not moved since. Kafka checks Fetches when that moves (Partition.tryCompleteDelayedRequests).",
        **HOLES,
    }
    cases = {LogAppend: ("leader",)}

    def initial(self, key: str, profile: Profile) -> Readers:
        return Readers(key)

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return METADATA_NEWS

    def hear(self, state: Readers, event: Stamped) -> Emissions:
        state.holes.hear(event)
        return NOTHING

    def step(self, state: Readers, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        replica = state.replicas.get(event.node)
        if replica is None:
            replica = state.replicas[event.node] = Grown()
        if type(body) is RepFetch:
            if not body.error and body.diverging_epoch < 0:
                (replica.waiting.add if body.offset >= replica.end else replica.waiting.discard)(body.follower)
        elif type(body) is LogHw:
            replica.mark_by = witness(event)
            replica.passed = replica.start
        elif type(body) is LogStart:
            replica.start, replica.start_by = body.new, witness(event)
        elif type(body) is LogAppend:
            if body.role == "leader":
                state.tested += bool(replica.waiting)
                replica.end, replica.log_by = body.last + 1, witness(event)
                replica.waiting.clear()
        elif type(body) is TierSegment:
            state.holes.consume(event, body)
        else:
            assert type(body) is FetchTold
            state.tested += 1
            return self._late(state, replica, event, body) if body.late else self._refused(state, event, body, mirror)
        return NOTHING

    def _late(self, state: Readers, replica: Grown, event: Stamped, body: FetchTold) -> Emissions:
        who = "a consumer" if body.replica_id < 0 else f"broker-{body.replica_id}"
        if body.error:
            told = f"and then answered with {error_name(body.error)}"
        elif body.replica_id < 0:
            told = f"although its high watermark was {body.high_watermark:,}"
        else:
            told = f"although its log ended at {body.log_end:,}"
        sentence = (
            f"{event.node} let the Fetch of {who} at {body.offset:,} of {state.key} wait for its whole max wait time, "
        )
        out_of_range = body.error == E.OFFSET_OUT_OF_RANGE and body.replica_id < 0
        if out_of_range and replica.passed <= body.offset < replica.start:
            return self.excused("deleted-meanwhile", state.key, sentence + told, replica.start_by, event)
        return self.violated(
            state.key,
            sentence + told,
            replica.mark_by if body.replica_id < 0 else replica.log_by,
            event,
        )

    def _refused(self, state: Readers, event: Stamped, body: FetchTold, mirror: LogMirror) -> Emissions:
        why = ""
        if body.error == E.OFFSET_OUT_OF_RANGE:
            if body.log_start <= body.offset <= body.log_end and body.last_epoch < 0:
                why = f"its log begins at {body.log_start:,} and ends at {body.log_end:,}"
        elif body.error == E.NOT_LEADER_OR_FOLLOWER:
            if body.leads:
                why = f"it led leader epoch {body.leader_epoch}"
        elif body.error in (E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH):
            older = 0 <= body.asked_epoch < body.leader_epoch
            newer = body.asked_epoch > body.leader_epoch
            if not (older if body.error == E.FENCED_LEADER_EPOCH else newer):
                why = f"the request named leader epoch {body.asked_epoch} and the broker knew {body.leader_epoch}"
        if not why:
            return NOTHING
        sentence = (
            f"{event.node} answered the Fetch of a consumer at {body.offset:,} of {state.key} with "
            f"{error_name(body.error)}, although {why}"
        )
        if body.error == E.OFFSET_OUT_OF_RANGE:
            rule, by = state.holes.why(event.node, mirror.replica(event.node), body.offset)
            if rule:
                return self.excused(rule, state.key, sentence, by, event)
        return self.violated(state.key, sentence, event)
