"""What every replica's log promises by itself, and against the log of the leader epoch in which it changes."""

from __future__ import annotations

import msgspec

from actors.trace.events import LogAppend, PartAssume, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror


class PrefixFact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The prefix hash that the first replica had at the end of a batch."""

    ph: int
    by: Witness


class Prefixes(State):
    """Leader epoch of a batch -> its last offset -> PrefixFact. ``count`` of these; at ``limit`` some are forgotten."""

    known: dict[int, dict[int, PrefixFact]] = {}
    count: int = 0
    limit: int = 1 << 12


class LogMatching(LogInvariant[Prefixes]):
    """If two replicas hold a batch of the same offset and leader epoch but differ below it, no divergence check finds
    the difference: it compares offset and epoch alone.

    Example: broker-3 keeps its own records 40-43 of epoch 3 where the leader has others, and appends the leader's
    batch 44-47 of epoch 4 on top: both logs say (47, epoch 4), and readers of the two see different records.
    """

    id = "P3"
    title = "Log matching: replicas with the same offset and leader epoch hold the same prefix"
    source = "KIP-101; KIP-279; KIP-320; Raft 5.3 (Log Matching)"
    tested_when = "a replica appends a batch whose end and leader epoch another append had"
    unseen = (
        "what lies below the high watermarks of all replicas: it was compared before it was forgotten",
        "the bytes on a disk, which may differ from what was appended: C11 and C3 see what is read",
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
            f"{body.batch_epoch}, and differ at or below it",
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
        state.limit = max(1 << 12, 2 * state.count)


class QuorumLogMatching(LogMatching):
    """Voters find out where their logs part by offset and epoch alone. Two logs that agree there and differ below
    never find out, and the two voters tell brokers different metadata.

    Example: controller-2 keeps its own record at offset 40, appends the leader's batch 41-44 of epoch 7 on top, and
    becomes leader of epoch 8: of offset 40 it tells the brokers something else than controller-1 did.
    """

    id = "Q6"
    title = "Log matching: metadata logs with the same offset and epoch hold the same prefix"
    source = "Raft 5.3 (Log Matching); KIP-595"
    tested_when = "a voter or broker appends a batch of the metadata log whose end and epoch another append had"


class LogsAreDenseAndOrdered(LogInvariant[State]):
    """Offsets and leader epochs are how replicas find out where their logs part. A hole, or an epoch that goes back or
    begins elsewhere than with its leader, makes them find the wrong place.

    Example: broker-2 appends 1,312 to a log that ends at 1,310; or it has the first record of epoch 5 at 1,250, while
    the leader of epoch 5 took it up at 1,204 (KAFKA-7415).
    """

    id = "P14"
    title = "Logs have no gaps, and their leader epochs rise, each from the offset at which its leader took over"
    source = "KIP-101; KIP-279; KAFKA-7415; KAFKA-10706"
    tested_when = "a replica of a data partition appends a batch, or takes up a role with a log that it had before"
    unseen = (
        "more than the last batch, or cut, that a process had told of and not written: one is excused as lost with it",
    )
    types = (LogAppend, PartAssume)
    before_types = (LogAppend, PartAssume)
    exemptions = {"crash": "The process ended between telling the trace of its last batch, or cut, and writing it."}

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def before(self, state: State, event: Stamped, mirror: LogMirror) -> Emissions:
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
            if lineage is None or lineage.start == body.base:
                return NOTHING
            wrong = (
                f"of leader epoch {body.batch_epoch} from {body.base:,} on, while {lineage.leader} took that epoch up "
                f"at {lineage.start:,}"
            )
        else:
            return NOTHING
        return self.violated(state.key, f"{event.node} appended a batch to {state.key} {wrong}", event)

    def _resumed(self, state: State, event: Stamped, body: PartAssume, mirror: LogMirror) -> Emissions:
        replica = mirror.replica(event.node)
        log = replica.log
        if log.end == 0 and body.log_end == 0:
            return NOTHING
        state.tested += 1
        if body.log_end == log.end:
            return NOTHING
        sentence = (
            f"{event.node} took up {state.key} in leader epoch {body.leader_epoch} with log end {body.log_end:,}, "
            f"while its log ended at {log.end:,}"
        )
        if replica.incarnation != event.incarnation and body.log_end in (log.end_before_last, log.cut_from):
            return self.excused("crash", state.key, sentence, event)
        return self.violated(state.key, sentence, event)


class OnlyTheLeaderWrites(LogInvariant[State]):
    """A broker that appends what producers send it without leading the partition gives offsets away that its leader
    gives to other records.

    Example: broker-1 has followed broker-2 since leader epoch 5, and appends a batch of producer-1 to orders-0 at 1,310
    all the same; broker-2 has another one there. A leader that does not know that it was replaced may append: it can
    neither commit nor acknowledge with acks=all.
    """

    id = "P15"
    title = "Only the leader of an epoch appends under it, from taking up that leadership until its next state"
    source = "KIP-320; KIP-101"
    tested_when = "a broker appends a batch as leader"
    unseen = (
        "what a replaced leader appends before it hears of that: it can neither commit nor acknowledge it (P6, P17)",
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
            f"which {by}" + (" and it no longer led" if lineage is not None and lineage.leader == event.node else ""),
            None if lineage is None else lineage.assumed,
            event,
        )
