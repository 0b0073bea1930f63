"""What every replica's log promises by itself, and against the log of the leader epoch in which it changes."""

from __future__ import annotations

import msgspec

from actors.trace.events import LogAppend, NodeDown, PartAssume, Stamped, TraceEvent
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror

FACTS_REMEMBERED = 1 << 12


class PrefixFact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The prefix hash that the first replica had at the end of a batch."""

    ph: int
    by: Witness


class Prefixes(State):
    """Leader epoch of a batch -> its last offset -> PrefixFact. ``count`` of these; at ``limit`` some are forgotten."""

    known: dict[int, dict[int, PrefixFact]] = {}
    count: int = 0
    limit: int = msgspec.field(default_factory=lambda: FACTS_REMEMBERED)


class LogMatching(LogInvariant[Prefixes]):
    """If two replicas hold a batch of the same offset and leader epoch but differ below it, no divergence check finds
    the difference: it compares only offset and epoch.

    Example: broker-3 keeps its own records 40-43 of epoch 3 where the leader has others, and appends the leader's batch
    44-47 of epoch 4 on top. Both logs have (47, epoch 4), and readers of the two see different records.
    """

    id = "P3"
    title = "Log matching: replicas with the same offset and leader epoch hold the same prefix"
    source = "KIP-101; KIP-279; KIP-320; Raft 5.3 (Log Matching)"
    tested_when = "a replica appends a batch whose end and leader epoch another append had"
    unseen = (
        "records below the high watermarks of all replicas: they were compared before they were dropped from the state",
        "the bytes on a disk, which may differ from the appended ones: C11 and C3 judge the records that are read",
    )
    types = (LogAppend,)
    ghost = "prefix hash"

    def initial(self, key: str, profile: Profile) -> Prefixes:
        return Prefixes(key)

    def step(self, state: Prefixes, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is LogAppend
        if body.ph is None:
            return self.cannot_tell(state.key, event)
        facts = state.known.get(body.batch_epoch)
        if facts is None:
            facts = state.known[body.batch_epoch] = {}
        known = facts.get(body.last)
        if known is None:
            facts[body.last] = PrefixFact(body.ph, witness(event))
            state.count += 1
            if state.count > state.limit:
                self._forget(state, mirror.floor)
            return NOTHING
        state.tested += 1
        if known.ph == body.ph:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} and {known.by.node} hold offset {body.last:,} of {state.key} in leader epoch "
            f"{body.batch_epoch}, but their logs differ at or below that offset",
            known.by,
            event,
        )

    def _forget(self, state: Prefixes, floor: int) -> None:
        """What the high watermarks of all replicas have passed is compared no more."""
        for epoch, facts in list(state.known.items()):
            kept = {last: fact for last, fact in facts.items() if last >= floor}
            if kept:
                state.known[epoch] = kept
            else:
                del state.known[epoch]
        state.count = sum(len(facts) for facts in state.known.values())
        state.limit = max(FACTS_REMEMBERED, 2 * state.count)


class QuorumLogMatching(LogMatching):
    """Voters find the point at which their logs diverge by offset and epoch alone. Two logs that agree there and differ
    below never detect the difference, and the two voters give brokers different metadata.

    Example: controller-2 keeps its own record at offset 40, appends the leader's batch 41-44 of epoch 7 on top, and
    becomes leader of epoch 8. Its record at offset 40 differs from the one that controller-1 served to the brokers.
    """

    id = "Q6"
    title = "Log matching: metadata logs with the same offset and epoch hold the same prefix"
    source = "Raft 5.3 (Log Matching); KIP-595"
    tested_when = "a voter or broker appends a batch of the metadata log whose end and epoch another append had"


class LogEnds(State):
    """``taken_up``: node -> the incarnation that took the partition up last. ``shut_down``: node -> the clean shutdown
    of that one, until the node takes it up again."""

    taken_up: dict[str, int] = {}
    shut_down: dict[str, Witness] = {}


class LogsAreDenseAndOrdered(LogInvariant[LogEnds]):
    """Replicas find the point at which their logs diverge by offsets and leader epochs. A gap, or an epoch that goes
    back or begins elsewhere than with its leader, makes them find the wrong point.

    Example: broker-2 appends 1,312 to a log that ends at 1,310; or its first record of epoch 5 is at 1,250, while the
    leader of epoch 5 took over at 1,204 (KAFKA-7415). Or broker-2 shuts itself down with a log that ends at 1,310, and
    its next start reads the log only up to 1,309.
    """

    id = "P14"
    title = "Logs have no gaps, and their leader epochs rise, each from the offset at which its leader took over"
    source = "KIP-101; KIP-279; KAFKA-7415; KAFKA-10706"
    tested_when = "a replica of a data partition appends a batch, or takes a role with an existing log"
    unseen = (
        "more than one recorded batch, or truncation, that a process had not written: one is excused as lost with it",
    )
    types = (LogAppend, PartAssume)
    before_types = (LogAppend, PartAssume)
    exemptions = {
        "crash": (
            "The process ended, but not by a clean shutdown, between recording its last batch, or truncation, in the "
            "trace and writing it."
        )
    }

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (NodeDown,)

    def initial(self, key: str, profile: Profile) -> LogEnds:
        return LogEnds(key)

    def hear(self, state: LogEnds, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is NodeDown
        if body.mode != "clean":
            state.shut_down.pop(event.node, None)
        elif state.taken_up.get(event.node) == event.incarnation:
            state.shut_down[event.node] = witness(event)
        return NOTHING

    def before(self, state: LogEnds, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        replica = mirror.replica(event.node)
        log = replica.log
        if type(body) is PartAssume:
            return self._resumed(state, event, body, mirror)
        assert type(body) is LogAppend
        state.tested += 1
        epoch, end = log.last_epoch, log.end
        if body.base != end:
            wrong = f"at {body.base:,}, while its log ended at {end:,}"
        elif body.batch_epoch < epoch:
            wrong = f"of leader epoch {body.batch_epoch} after one of epoch {epoch}"
        elif body.batch_epoch > epoch:
            lineage = mirror.lineages.get(body.batch_epoch)
            begins_here = epoch < 0 < end and not log.batches and end == replica.local_start
            if lineage is None or lineage.start == body.base or (begins_here and lineage.start < body.base):
                return NOTHING
            wrong = (
                f"of leader epoch {body.batch_epoch} at {body.base:,}, but {lineage.leader} began that epoch at log "
                f"end {lineage.start:,}"
            )
        else:
            return NOTHING
        return self.violated(state.key, f"{event.node} appended a batch to {state.key} {wrong}", event)

    def _resumed(self, state: LogEnds, event: Stamped, body: PartAssume, mirror: LogMirror) -> Emissions:
        by = state.shut_down.pop(event.node, None)
        state.taken_up[event.node] = event.incarnation
        replica = mirror.replica(event.node)
        log = replica.log
        if log.end == 0 and body.log_end == 0:
            return NOTHING
        state.tested += 1
        # A log that starts inside a segment keeps what its disk has of that, though all from the log start on is lost.
        loss = replica.losses[-1] if replica.losses and replica.incarnation != event.incarnation else None
        if body.log_end == log.end or (loss is not None and not log.batches and body.log_end == loss.start):
            return NOTHING
        sentence = (
            f"{event.node} took up {state.key} in leader epoch {body.leader_epoch} with log end {body.log_end:,}, "
            f"while its log ended at {log.end:,}"
        )
        if by is not None:
            return self.violated(state.key, f"{sentence} at its clean shutdown", by, event)
        if replica.incarnation != event.incarnation and body.log_end in (log.end_before_last, log.cut_from):
            return self.excused("crash", state.key, sentence, event)
        return self.violated(state.key, sentence, event)


class OnlyTheLeaderWrites(LogInvariant[State]):
    """A broker that appends producers' records without leading the partition uses offsets to which the leader assigns
    other records.

    Example: broker-1 has followed broker-2 since leader epoch 5, and appends a batch of producer-1 to orders-0 at 1,310
    all the same; broker-2 has another batch there. A leader that does not know of its replacement may append: it can
    neither commit nor acknowledge with acks=all.
    """

    id = "P15"
    title = "Only the leader of an epoch appends under it, from taking up that leadership until its next state"
    source = "KIP-320; KIP-101"
    tested_when = "a broker appends a batch as leader"
    unseen = (
        (
            "appends of a replaced leader before it learns of its replacement: it can neither commit nor acknowledge "
            "them (P6, P17)"
        ),
    )
    types = (LogAppend,)
    before_types = (LogAppend,)
    cases = {LogAppend: ("leader",)}

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def before(self, state: State, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is LogAppend
        if body.role != "leader":
            return NOTHING
        state.tested += 1
        lineage = mirror.lineages.get(body.batch_epoch)
        if mirror.replica(event.node).leads == body.batch_epoch and lineage is not None:
            if lineage.assumed.node == event.node and lineage.assumed.incarnation == event.incarnation:
                return NOTHING
        by = "nobody took up" if lineage is None else f"{lineage.leader} took up"
        return self.violated(
            state.key,
            f"{event.node} appended offset {body.base:,} to {state.key} as leader of epoch {body.batch_epoch}, "
            f"which {by}" + (", but it no longer led" if lineage is not None and lineage.leader == event.node else ""),
            None if lineage is None else lineage.assumed,
            event,
        )
