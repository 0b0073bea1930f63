"""What the replicas of a partition promise: a committed record stays, through elections and truncations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from actors.node.spec import node_name
from actors.trace.events import (
    OVERTAKEN,
    ClockSet,
    CtlFault,
    DiskRuleChange,
    IsrPropose,
    LogHw,
    LogTrunc,
    NodeDown,
    NodeUp,
    PartAssume,
    PartChange,
    RepFetch,
    Stamped,
    TraceEvent,
)
from actors.trace.metadata_history import NewestController
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.folds.known_findings import known_as
from orchestrator.invariants.mirrors.due_checkpoints import DueCheckpoints
from orchestrator.invariants.mirrors.leader_epochs import Commit, Lineage, Taint
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.log_prefix import NO_BOUNDARY
from orchestrator.invariants.mirrors.loss import LOST, UNCLEAN, taint_of_log
from orchestrator.invariants.mirrors.loss_budget import LossBudget, loss_budget
from orchestrator.invariants.mirrors.old_checkpoints import OLD_CHECKPOINT, OldCheckpoints
from orchestrator.invariants.mirrors.proposals import Made, made_by, proposed


class Completeness(State):
    """``newest``: highest leader epoch that was assumed; ``budget``: what disks may lose."""

    newest: int = -1
    budget: LossBudget = LossBudget()


class CleanLeaderHasEverything(LogInvariant[Completeness]):
    """A clean election that selects a replica without some committed record loses that record, which may have been
    acknowledged or read, although no operator has accepted a loss.

    Example: broker-1 committed up to 1,310 in leader epoch 4; broker-2 begins leader epoch 5 with a log that ends at
    1,204, and the election was not unclean.
    """

    id = "P4"
    title = "A cleanly elected leader has every committed record"
    source = "KIP-101; KIP-966; Raft 5.4 (Leader Completeness)"
    tested_when = "a leader's log at its election is compared with the committed records of an older leader epoch"
    unseen = (
        (
            "records committed by a leader whose high watermark is not in the trace, because the broker died before "
            "recording it"
        ),
    )
    types: ClassVar[tuple[type[TraceEvent], ...]] = (PartAssume, LogHw)
    cases = {LogHw: ("leader",)}
    exemptions: ClassVar[Mapping[str, str]] = {
        "unclean-election": UNCLEAN,
        "loss-budget": LOST,
    }

    def initial(self, key: str, profile: Profile) -> Completeness:
        return Completeness(key, budget=loss_budget(profile, key))

    def step(self, state: Completeness, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogHw:
            if body.role == "leader" and body.leader_epoch < state.newest:
                return self._committed_late(state, event, body, mirror)
            return NOTHING
        assert type(body) is PartAssume
        return self._elected(state, event, body.leader_epoch, mirror) if body.role == "leader" else NOTHING

    def _elected(self, state: Completeness, event: Stamped, epoch: int, mirror: LogMirror) -> Emissions:
        """A leader took up an epoch: it is to have what older ones committed."""
        lineage = mirror.lineages.get(epoch)
        if lineage is None or lineage.assumed.id != event.id:
            return NOTHING
        state.newest = max(state.newest, lineage.epoch)
        lost = next((taint for taint in mirror.taints if taint.epoch == lineage.epoch), None)
        if lost is not None:
            return self._given_up(state, lineage, lost, event, mirror.committed.end)
        if lineage.unclean:
            return NOTHING
        found: list[Any] = []
        for commit in mirror.commits.values():
            if commit.epoch < lineage.epoch:
                found.extend(self._compare(state, lineage, commit, mirror))
        return found

    def _committed_late(self, state: Completeness, event: Stamped, body: LogHw, mirror: LogMirror) -> Emissions:
        found: list[Any] = []
        commit = Commit(body.leader_epoch, body.new, mirror.ph_of(event, body), witness(event))
        for lineage in mirror.lineages.values():
            if lineage.epoch > commit.epoch:
                found.extend(self._compare(state, lineage, commit, mirror))
        return found

    def _given_up(
        self, state: Completeness, lineage: Lineage, lost: Taint, event: Stamped, committed: int
    ) -> Emissions:
        """``committed``: the end of what counts as committed now, with what an unclean leader brings back."""
        why = "an unclean election" if lineage.unclean else "losses of disks that are allowed"
        back = (
            f"; those that it knew as committed, up to {committed:,}, are committed again"
            if committed > lost.start
            else ""
        )
        return self.excused(
            lost.rule,
            state.key,
            f"{lineage.leader} leads {state.key} in leader epoch {lineage.epoch} from log end {lineage.start:,}, after "
            f"{why}; it has the committed records only up to {lost.start:,}{back}",
            event,
        )

    def _compare(self, state: Completeness, lineage: Lineage, commit: Commit, mirror: LogMirror) -> Emissions:
        log = mirror.lineage_log(lineage.epoch)
        same = None if log is None else log.matches(commit.end, commit.ph)
        if same is None:
            return NOTHING  # long ago: every replica's high watermark has passed it
        state.tested += 1
        if same and commit.end <= lineage.start:
            return NOTHING
        sentence = (
            f"{lineage.leader} leads {state.key} in leader epoch {lineage.epoch} from log end {lineage.start:,}, but "
            f"lacks records that {commit.by.node} committed, up to {commit.end:,}, in leader epoch {commit.epoch}"
        )
        proof = (commit.by, lineage.assumed)
        taint = mirror.taint_between(commit.epoch, lineage.epoch, commit.end)
        if taint is not None:
            return self.excused(taint.rule, state.key, sentence, *proof)
        if mirror.loss_excuses(commit.end - 1, state.budget):
            return self.excused("loss-budget", state.key, sentence, *proof)
        return self.violated(state.key, sentence, *proof)


class Fetched(msgspec.Struct):
    """What a leader knows of its followers in the leader epoch that it leads, and its own last high watermark. kept:
    whose position it has from an epoch before, in which it led, too."""

    leader_epoch: int
    high_watermark: int
    by: Witness
    offsets: dict[int, int] = {}
    kept: list[int] = []


class Watermarks(State):
    """``leaders``: per node; ``lowering``: node -> the truncation with which its high watermark has to go down.

    ``made``: the latest change of the partition, by the newest ``controller``. ``overtaken``: a proposal that its
    leader has given up, so that it does not know of what a controller makes of it. ``known``: the finding about
    positions that are kept, if it is one here. ``shut_down``: nodes that ended in good order, until they take it up.
    ``taken_up``: node -> the incarnation that took it up last. ``checkpoints``, ``due``: what a checkpoint may have, or
    must.
    """

    leaders: dict[str, Fetched] = {}
    lowering: dict[str, Witness] = {}
    controller: NewestController = msgspec.field(default_factory=NewestController)
    made: Made = (-1, -1, frozenset())
    overtaken: Made | None = None
    known: str = ""
    shut_down: dict[str, Witness] = {}
    taken_up: dict[str, int] = {}
    checkpoints: OldCheckpoints = msgspec.field(default_factory=OldCheckpoints)
    due: DueCheckpoints = msgspec.field(default_factory=DueCheckpoints)


class HighWatermarksAreSound(LogInvariant[Watermarks]):
    """The high watermark is the end of the records that consumers may see. If it goes back, or runs ahead of the ISR,
    consumers see records that later are missing.

    Example: broker-1 sets its high watermark of orders-0 to 1,310, its log end, while broker-2, a member of the ISR,
    has fetched only up to 1,204. Or broker-2 had fetched up to 1,310 two leader epochs ago and has truncated its log
    since, and broker-1, elected again in place, still counts it. A follower's high watermark may go down, but it must
    be one that some leader committed, and so must the initial one of a role, such as that of a checkpoint. A broker
    that shuts itself down checkpoints its high watermarks last, and the next start begins with them. After a crash it
    begins with those of its last checkpoint, which is written every replica.high.watermark.checkpoint.interval.ms: if
    broker-2 had 1,204 for half a minute, it must not begin with 900.
    """

    id = "P10"
    title = "While a leader leads, high watermarks only rise, and cover no record that an ISR member lacks"
    source = "KAFKA-14704; KAFKA-9491; KIP-497"
    tested_when = (
        "a replica of a data partition moves its high watermark, or a broker takes it up after it had shut itself "
        "down, or crashed later than its checkpoint was due"
    )
    unseen = (
        "the time at which a high watermark rises: P18 judges that",
        (
            "a high watermark that is too low after a crash, if the broker had a lower one than that within two "
            "intervals of its checkpoint, and a second"
        ),
        (
            "the same, if a pause, a wrong clock or a slow disk held its checkpoint up in that time, or its disk lost "
            "the log"
        ),
        "a high watermark that is too high after a checkpoint, until the broker moves it",
    )
    types = (LogHw, RepFetch, PartAssume, PartChange, IsrPropose)
    before_types = (LogTrunc, PartAssume)
    exemptions = {"unclean-election": UNCLEAN, "loss-budget": LOST, "old-checkpoint": OLD_CHECKPOINT}

    def initial(self, key: str, profile: Profile) -> Watermarks:
        known, checkpoints = known_as(profile, "finding-reelected-in-place"), OldCheckpoints.of(key, profile)
        return Watermarks(key, known=known, checkpoints=checkpoints, due=DueCheckpoints.of(key, profile))

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (NodeUp, NodeDown, CtlFault, ClockSet, DiskRuleChange)

    def hear(self, state: Watermarks, event: Stamped) -> Emissions:
        body = event.body
        if isinstance(body, CtlFault | ClockSet | DiskRuleChange):
            state.due.hinder(event, body)
            return NOTHING
        if type(body) is NodeDown:
            state.checkpoints.ended(event, body)
            state.due.ended(event, body)
        elif type(body) is NodeUp:
            state.due.began(event, body)
        if type(body) is NodeDown and body.mode == "clean":
            # One that has not come so far leaves the checkpoint as it was.
            if state.taken_up.get(event.node) == event.incarnation:
                state.shut_down[event.node] = witness(event)
        elif type(body) is NodeDown or (type(body) is NodeUp and body.wiped):
            state.shut_down.pop(event.node, None)
        return NOTHING

    def before(self, state: Watermarks, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is PartAssume:
            return self._begins(state, event, body, mirror)
        assert type(body) is LogTrunc
        replica = mirror.replica(event.node)
        if replica.incarnation == event.incarnation and replica.high_watermark > body.to:
            state.lowering[event.node] = witness(event)
        return NOTHING

    def step(self, state: Watermarks, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        cut = state.lowering.pop(event.node, None) if state.lowering else None
        if cut is not None and cut.incarnation == event.incarnation and type(body) is not LogHw:
            return self.violated(
                state.key,
                f"{event.node} truncated {state.key} below its high watermark, but did not lower the high watermark",
                cut,
                event,
            )
        if type(body) is RepFetch:
            leader = state.leaders.get(event.node)
            if leader is not None and leader.leader_epoch == body.leader_epoch:
                if body.error == 0 and body.diverging_epoch < 0:
                    leader.offsets[body.follower] = body.offset
                    if leader.kept:
                        leader.kept = [each for each in leader.kept if each != body.follower]
            return NOTHING
        if type(body) is LogHw:
            state.checkpoints.moved(event, body.new)
            state.due.moved(event, body.new)
            state.tested += 1
            if not body.log_start <= body.new <= body.log_end:
                return self.violated(
                    state.key,
                    f"{event.node} set its high watermark of {state.key} to {body.new:,}, "
                    f"outside its log of {body.log_start:,} to {body.log_end:,}",
                    event,
                )
            return (
                self._leader(state, event, body, mirror)
                if body.role == "leader"
                else self._follower(state, event, mirror, lowered=cut is not None)
            )
        if type(body) is PartAssume:
            if body.high_watermark > body.log_end:
                return self.violated(
                    state.key,
                    f"{event.node} took up {state.key} in leader epoch {body.leader_epoch} with high watermark "
                    f"{body.high_watermark:,}, beyond its log end {body.log_end:,}",
                    event,
                )
            state.checkpoints.moved(event, body.high_watermark)
            state.due.moved(event, body.high_watermark)
            if body.role == "leader":
                self._lead(state, event, body)
            else:
                state.leaders.pop(event.node, None)
            return self._taken_up(state, event, body, mirror)
        elif type(body) is PartChange and state.controller.says(body.quorum_epoch):
            state.made = made_by(body)
        elif type(body) is IsrPropose and body.outcome == OVERTAKEN:
            state.overtaken = proposed(body)
        return NOTHING

    def _begins(self, state: Watermarks, event: Stamped, body: PartAssume, mirror: LogMirror) -> Emissions:
        """A broker takes a partition up, perhaps for the first time since it shut itself down, or crashed."""
        by, due = state.shut_down.pop(event.node, None), state.due.take_up(event)
        state.taken_up[event.node] = event.incarnation
        if due is not None:
            state.tested += 1
            least = min(due.high_watermark, body.log_end)
            if body.high_watermark < least:
                return self.violated(
                    state.key,
                    f"{event.node} took up {state.key} with high watermark {body.high_watermark:,}, but its checkpoint "
                    f"had {least:,} at least when it crashed",
                    due.by,
                    event,
                )
        if by is None:
            return NOTHING
        state.tested += 1
        had = mirror.replica(event.node).high_watermark
        if body.high_watermark >= had:
            return NOTHING
        sentence = (
            f"{event.node} took up {state.key} with high watermark {body.high_watermark:,}, but it had {had:,} at its "
            f"clean shutdown"
        )
        return self.violated(state.key, sentence, by, event)

    def _lead(self, state: Watermarks, event: Stamped, body: PartAssume) -> None:
        """A leader that is elected again in place, without having followed in between, still knows where its followers
        were: Kafka's Partition.makeLeader keeps that. It is not always so any more: they may have cut their logs."""
        known = state.leaders.get(event.node)
        if known is not None and known.leader_epoch == body.leader_epoch:
            return
        kept = known.offsets if known is not None and known.by.incarnation == event.incarnation else {}
        state.leaders[event.node] = Fetched(body.leader_epoch, body.high_watermark, witness(event), kept, list(kept))

    def _taken_up(self, state: Watermarks, event: Stamped, body: PartAssume, mirror: LogMirror) -> Emissions:
        """The high watermark with which a role begins, which may come from a checkpoint, is one that a leader has
        committed."""
        end = body.high_watermark
        ph = mirror.replica(event.node).log.ph_at(end)
        known = mirror.committed.matches(end, ph) if ph != NO_BOUNDARY else None
        if known or (known is None and end <= mirror.committed.end):
            return NOTHING
        sentence = (
            f"{event.node} took up {state.key} in leader epoch {body.leader_epoch} with high watermark {end:,}, but up "
            f"to there its log is not the committed one (leaders committed up to {mirror.committed.end:,})"
        )
        taint = taint_of_log(mirror, event.node, end)
        if taint is not None:
            return self.excused(taint.rule, state.key, sentence, event)
        if end == body.log_end and state.checkpoints.has(event.node, end):
            return self.excused("old-checkpoint", state.key, sentence, event)
        return self.violated(state.key, sentence, event)

    def _leader(self, state: Watermarks, event: Stamped, body: LogHw, mirror: LogMirror) -> Emissions:
        leader = state.leaders.get(event.node)
        if leader is None or leader.leader_epoch != body.leader_epoch:
            return self.violated(
                state.key,
                f"{event.node} moved the high watermark of {state.key} as leader of epoch {body.leader_epoch}, "
                "which it never took up",
                event,
            )
        before, by = leader.high_watermark, leader.by
        leader.high_watermark, leader.by = body.new, witness(event)
        if body.new <= before:
            return self.violated(
                state.key,
                f"{event.node} lowered the high watermark of {state.key} from {before:,} to {body.new:,} "
                f"while it led epoch {body.leader_epoch}",
                by,
                event,
            )
        leader_epoch, _, isr = state.made
        known = leader_epoch == body.leader_epoch and state.made != state.overtaken
        needed = {*body.counted, *(isr if known else ())}
        for member in sorted(needed):
            if node_name(member) != event.node and leader.offsets.get(member, -1) < body.new:
                return self.violated(
                    state.key,
                    f"{event.node} (leader epoch {body.leader_epoch}) moved the high watermark of {state.key} to "
                    f"{body.new:,}, but {node_name(member)} of its ISR had fetched only up to "
                    f"{max(leader.offsets.get(member, 0), 0):,}",
                    event,
                )
        return self._kept(state, event, body, sorted(needed & {*leader.kept}), mirror)

    def _kept(self, state: Watermarks, event: Stamped, body: LogHw, members: list[int], mirror: LogMirror) -> Emissions:
        """Members that have not fetched in this epoch so far are to have what they are counted for: their logs tell."""
        ph = mirror.ph_of(event, body)
        for member in members:
            replica = mirror.replica(node_name(member))
            if replica.log.matches(body.new, ph) is not False:
                continue
            sentence = (
                f"{event.node} (leader epoch {body.leader_epoch}) moved the high watermark of {state.key} to "
                f"{body.new:,} by a fetch that {node_name(member)} of its ISR made in an older epoch; the log of that "
                f"follower ends at {replica.log.end:,}, and is not the leader's log up to there"
            )
            taint = next((each for each in mirror.taints if each.epoch > body.leader_epoch), None)
            if taint is not None:
                return self.excused(taint.rule, state.key, sentence, event)
            if mirror.lost_by(body.new - 1):
                return self.excused("loss-budget", state.key, sentence, event)
            return self.violated(state.key, sentence, event, known=state.known)
        return NOTHING

    def _follower(self, state: Watermarks, event: Stamped, mirror: LogMirror, lowered: bool) -> Emissions:
        body = event.body
        assert type(body) is LogHw
        ph = mirror.ph_of(event, body)
        same = mirror.committed.matches(body.new, ph)
        log = mirror.replica(event.node).log
        within_batch = ph is None and not log.batches and log.end == body.new <= mirror.committed.end
        if same or same is None or within_batch:  # an empty log begins where records were deleted up to
            return NOTHING
        sentence = (
            f"{event.node} set its high watermark of {state.key} to {body.new:,}, "
            f"but its log agrees with the committed one only up to {mirror.highest_committed_of(event.node):,} "
            f"(leaders committed up to {mirror.committed.end:,})"
        )
        # Its leader does not know of the election; or it has cut its log and keeps a part of what it said before, as it
        # gets to where the logs part by several cuts.
        taint = mirror.taint_below(body.new, body.leader_epoch)
        if taint is None and lowered:
            taint = taint_of_log(mirror, event.node, body.new)
        if taint is not None:
            return self.excused(taint.rule, state.key, sentence, event)
        return self.violated(state.key, sentence, event)


class CommittedIsNotTruncated(LogInvariant[State]):
    """A replica that truncates committed records and is elected before it has fetched them again loses them for all.

    Example: broker-2 holds orders-0 up to 1,310, all committed, and knows a high watermark of 1,204. As a follower of a
    new leader it truncates to its high watermark (as Kafka did before KIP-101). The leader crashes, broker-2 is
    elected, and offsets 1,204-1,309 are lost. Truncating a *divergent* end is required and is no violation.
    """

    id = "P11"
    title = "Committed records are never truncated"
    source = "KIP-101"
    tested_when = "a replica of a data partition truncates its log"
    unseen = ("records that vanish without a truncation: P14 finds a log that is shorter than before",)
    exemptions = {
        "kafka-7408": (
            "With `kafka-7408` a leader that was elected uncleanly drops its log at and above its last stable offset."
        )
    }
    types = ()
    before_types = (LogTrunc,)

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def before(self, state: State, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is LogTrunc
        state.tested += 1
        held = mirror.highest_committed_of(event.node)
        if held <= body.to:
            return NOTHING
        sentence = (
            f"{event.node} truncated {state.key} from {body.was:,} to {body.to:,} ({body.reason}, leader epoch "
            f"{body.leader_epoch}) although it held committed records up to {held:,}"
        )
        if body.reason == "last-stable-offset" and mirror.is_recovering(event.node, body.leader_epoch):
            return self.excused("kafka-7408", state.key, sentence, event)
        return self.violated(state.key, sentence, event)
