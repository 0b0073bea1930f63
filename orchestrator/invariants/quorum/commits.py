"""What is committed in the metadata log: on whose disks it is, who is handed it, and how logs meet again."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actors.node.spec import node_name
from actors.trace.events import (
    LogFlush,
    LogHw,
    LogTrunc,
    QApply,
    QSnap,
    QVoters,
    RepFetch,
    Stamped,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.fetched_ends import FetchedEnds
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import WIPED, LogMirror
from orchestrator.invariants.mirrors.log_prefix import Prefix
from orchestrator.invariants.mirrors.voter_sets import is_majority
from orchestrator.invariants.partitions.replica_logs import PrefixFact


class Progress(State):
    """fetched: what leaders know of the voters."""

    fetched: FetchedEnds = msgspec.field(default_factory=FetchedEnds)


class CommittedIsDurable(LogInvariant[Progress]):
    """A quorum survives a power loss of its members because committed entries are on the disks of a majority. If the
    high watermark counts entries that are only in memory, the next outage of that majority takes them back. The leader
    counts itself with its synced log, and the others by their fetches in the leader's epoch. The offset that a member
    reports as synced is in its log.

    Example: controller-2 continues to fetch, which acknowledges offsets up to 120, while only those up to 112 are on
    its disk. Controller-1 takes 120 for committed and loses power together with controller-2. The voters are those in
    the leader's log, and the leader does not count itself if it is not among them.
    """

    id = "Q7"
    title = "A quorum leader's high watermark covers only records that a majority of the voters has on disk"
    source = "KIP-595; Kafka's RaftEventSimulationTest, MajorityReachedHighWatermark; KAFKA-10533"
    tested_when = "a quorum leader moves its high watermark"
    unseen = (
        "The position with which a new voter counts that has not fetched since it became one.",
        "A high watermark that stays behind the logs of a majority.",
    )
    types = (LogHw, LogFlush, RepFetch, QVoters)
    cases = {LogHw: ("leader",)}
    exemptions = {
        "disk-lost": (
            "The disk of a voter that had the record was wiped, or lost synced data, and does not have the record "
            "again."
        )
    }

    def initial(self, key: str, profile: Profile) -> Progress:
        return Progress(key)

    def step(self, state: Progress, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogHw:
            voters = mirror.voters.of(event.node)
            if body.role != "leader" or not voters:
                return NOTHING
            state.tested += 1
            return [*self._on_disks(state, event, body, mirror, voters), *self._counted(state, event, body, mirror)]
        if isinstance(body, RepFetch | QVoters):
            state.fetched.take(event, body)
        elif type(body) is LogFlush and body.end > (end := mirror.replica(event.node).log.end):
            sentence = f"{event.node} has the metadata log on its disk up to {body.end:,}, but its log ends at {end:,}"
            return self.violated(state.key, sentence, event)
        return NOTHING

    def _counted(self, state: Progress, event: Stamped, body: LogHw, mirror: LogMirror) -> Emissions:
        """Each of the voters that the leader counted, by what it knows of them."""
        known = state.fetched.of(event.node, body.leader_epoch)
        did = f"{event.node}, leader of epoch {body.leader_epoch}, moved its high watermark to {body.new:,} counting"
        for name in map(node_name, body.counted):
            if name == event.node:
                flushed = mirror.replica(name).flushed
                if flushed < body.new:
                    sentence = f"{did} itself, but its disk had the log only up to {flushed:,}"
                    return self.violated(state.key, sentence, event)
                continue
            end, by = known.ends.get(name, (-1, None))
            if end < body.new and (by is not None or not known.changed):
                had = f"had fetched only up to {end:,}" if by is not None else "had not fetched"
                return self.violated(state.key, f"{did} {name}, which {had} in this epoch", by, event)
        return NOTHING

    def _on_disks(
        self, state: Progress, event: Stamped, body: LogHw, mirror: LogMirror, voters: Collection[str]
    ) -> Emissions:
        durable, lost, ph = [], [], mirror.ph_of(event, body)
        for voter in sorted(voters):
            replica = mirror.replica(voter)
            if replica.flushed >= body.new and replica.log.matches(body.new, ph) is not False:
                durable.append(voter)
            elif replica.log.end < body.new and any(loss.start < body.new <= loss.end for loss in replica.losses):
                lost.append(voter)
        if is_majority(len(durable), voters):
            return NOTHING
        sentence = (
            f"{event.node}, leader of epoch {body.leader_epoch}, moved its high watermark to {body.new:,}; of the "
            f"{len(voters)} voters, {', '.join(durable) or 'none'} had the log on disk up to there"
        )
        if is_majority(len(durable) + len(lost), voters):
            return self.excused("disk-lost", state.key, sentence, event)
        return self.violated(state.key, sentence, event)


FACTS_REMEMBERED = 1 << 12


class Applied(msgspec.Struct):
    """What one incarnation of a member knows: its high watermark, and what its state machine was handed."""

    incarnation: int
    high_watermark: int = 0
    end: int = 0
    by: Witness | None = None


class Application(State):
    """members: by node. facts: end of what was handed out -> its prefix hash, by whom first; at ``limit`` of them those
    that are long committed are forgotten."""

    members: dict[str, Applied] = {}
    facts: dict[int, PrefixFact] = {}
    limit: int = msgspec.field(default_factory=lambda: FACTS_REMEMBERED)


class StateMachinesAgree(LogInvariant[Application]):
    """Controllers and brokers apply the committed log. A node that is handed an uncommitted entry, one entry twice, or
    only a part of the log, has another view of the cluster than the rest.

    Example: broker-2 applies the fencing of broker-3 from offset 118, which only the old leader had. The new leader
    never had that entry, and only broker-2 takes broker-3 for fenced (KAFKA-10632 has entries that were never handed
    out).
    """

    id = "Q11"
    title = "State machines are handed the same log: every entry, in order, once, and only after it is committed"
    source = "Raft 5.4.3 (State Machine Safety); KAFKA-10632; Kafka's RaftEventSimulationTest, ConsistentCommittedData"
    tested_when = "a member hands committed entries to its state machine"
    unseen = ("Whether the state built from the log is right: M8 compares images.",)
    types = (QApply, QSnap, LogHw)
    exemptions = {"loss-budget": WIPED}
    ghost = "prefix hash"

    def initial(self, key: str, profile: Profile) -> Application:
        return Application(key)

    def step(self, state: Application, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        member = state.members.get(event.node)
        if member is None or member.incarnation != event.incarnation:
            member = state.members[event.node] = Applied(event.incarnation)
        if type(body) is LogHw:
            member.high_watermark = body.new
            return NOTHING
        if type(body) is QSnap:
            if body.op == "load":
                member.end, member.by = body.end, witness(event)
                member.high_watermark = max(member.high_watermark, body.end)
            return NOTHING
        assert type(body) is QApply
        state.tested += 1
        before, by = member.end, member.by
        member.end, member.by = body.end, witness(event)
        if body.start != before:
            return self.violated(
                state.key,
                f"{event.node} applied the metadata log from {body.start:,} on to its state machine, but the next "
                f"offset was {before:,}",
                by,
                event,
            )
        if body.end > member.high_watermark:
            return self.violated(
                state.key,
                f"{event.node} applied the metadata log up to {body.end:,} to its state machine, but its high "
                f"watermark was {member.high_watermark:,}",
                event,
            )
        return self._compare(state, event, body, mirror)

    def _compare(self, state: Application, event: Stamped, body: QApply, mirror: LogMirror) -> Emissions:
        if body.ph is None:
            return self.cannot_tell(state.key, event)
        fact = state.facts.setdefault(body.end, PrefixFact(body.ph, witness(event)))
        if len(state.facts) > state.limit:
            state.facts = {end: each for end, each in state.facts.items() if end > mirror.floor}
            state.limit = max(FACTS_REMEMBERED, 2 * len(state.facts))
        if fact.ph != body.ph:
            who, other = f"{fact.by.node} applied", fact.by
        elif body.end <= mirror.committed.end and mirror.committed.matches(body.end, body.ph) is False:
            who, other = "was committed", None
        else:
            return NOTHING
        sentence = f"{event.node} applied the metadata log up to {body.end:,}; it differs from the log that {who}"
        if mirror.taint_below(body.end) is not None:
            return self.excused("loss-budget", state.key, sentence, other, event)
        return self.violated(state.key, sentence, other, event)


class Told(msgspec.Struct, frozen=True):
    """What a leader told a follower of where their logs part: an epoch, and where that ends in the leader's log."""

    leader_epoch: int
    epoch: int
    end: int
    by: Witness


class Answers(State):
    """told: follower -> the last answer of that kind. strangers: nodes whose disks belong to another cluster."""

    told: dict[str, Told] = {}
    strangers: list[str] = []


class DivergenceIsExact(LogInvariant[Answers]):
    """A follower truncates its log by its leader's answer. If the answer reaches too far, the follower keeps entries
    that the leader never had; if it does not reach far enough, the follower drops entries that may be committed;
    without an answer it appends to a log that differs from the leader's.

    Example: the leader of epoch 5 has epoch 1 up to 3, epoch 3 up to 6 and epoch 5 from there. The right answer to a
    fetch from 6 with last epoch 2 is epoch 1 up to 3. The follower truncates to that offset, or, if it lacks that
    epoch, to the end of its older entries: it may need several rounds.

    The leader ignores a fetch that was made in another epoch, since it was meant for another leader's log, and a fetch
    by a member of another cluster, whose log is unrelated.
    """

    id = "Q18"
    title = (
        "A leader accepts fetches of its own cluster and epoch only, and reports divergence exactly where logs diverge"
    )
    source = "KIP-595, Fetch; Kafka's KafkaRaftClientTest, testLeaderImmediatelySendsDivergingEpoch"
    tested_when = "a fetch diverges, or a follower truncates its log because of that"
    unseen = (
        "Matching fetches of observers, and the records in an answer: Q6 finds records that were appended wrongly.",
        "Answers with OFFSET_OUT_OF_RANGE or a snapshot's id, where the log does not reach back so far.",
    )
    types = (RepFetch, LogTrunc)
    before_types = (LogTrunc,)

    def initial(self, key: str, profile: Profile) -> Answers:
        return Answers(key, strangers=[name for name, own in profile.nodes.items() if "cluster_id" in own])

    def step(self, state: Answers, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is LogTrunc:
            return NOTHING
        assert type(body) is RepFetch
        follower = node_name(body.follower)
        foreign = "" if body.error else _foreign(body, follower, state.strangers)
        if foreign:
            state.tested += 1
            sentence = f"{event.node}, leader of epoch {body.leader_epoch}, counted a fetch {foreign}"
            return self.violated(state.key, sentence, event)
        given = (body.diverging_epoch, body.diverging_end)
        if given == (-1, -1):
            state.told.pop(follower, None)
        else:
            state.tested += 1
            state.told[follower] = Told(body.leader_epoch, *given, witness(event))
        log = mirror.lineage_log(body.leader_epoch)
        if body.error or log is None or not _is_remembered(log, body):
            return NOTHING
        batch = log.batch_at(body.offset - 1) if body.offset else None
        fits = body.offset == 0 or (batch is not None and batch.epoch == body.last_fetched_epoch)
        right = (-1, -1) if fits else _end_of_epoch(log, body.last_fetched_epoch)
        if right is None or given == right:
            return NOTHING
        if given == (-1, -1):
            state.tested += 1
        return self.violated(
            state.key,
            f"{event.node}, leader of epoch {body.leader_epoch}, answered the fetch of {follower} from {body.offset:,} "
            f"with last epoch {body.last_fetched_epoch}: {_in_words(given)}; the right answer is {_in_words(right)}",
            event,
        )

    def before(self, state: Answers, event: Stamped, mirror: LogMirror) -> Emissions:
        """A follower cuts its log: where that is by its leader's answer and its own log (Kafka's
        ReplicatedLog.truncateToEndOffset)."""
        body = event.body
        assert type(body) is LogTrunc
        told = state.told.pop(event.node, None)
        if body.reason != "diverge" or told is None or told.leader_epoch != body.leader_epoch:
            return NOTHING
        state.tested += 1
        log = mirror.replica(event.node).log
        own = _end_of_epoch(log, told.epoch)
        if own is None:
            return NOTHING
        epoch, end = own
        end = min(end, told.end) if epoch == told.epoch else end
        if body.to == end:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} truncated its log to {body.to:,} after its leader had answered that epoch {told.epoch} ends "
            f"at {told.end:,}; the right offset is {end:,}",
            told.by,
            event,
        )


def _foreign(fetch: RepFetch, follower: str, strangers: Collection[str]) -> str:
    """Why a fetch was not meant for this leader, "" if it was."""
    if follower in strangers:
        return f"by {follower}, which belongs to another cluster"
    if fetch.follower_epoch in (-1, fetch.leader_epoch):
        return ""
    return f"that {follower} made in epoch {fetch.follower_epoch}"


def _is_remembered(log: Prefix, fetch: RepFetch) -> bool:
    """Whether what the answer rests on was not forgotten."""
    return log.floor == 0 or (fetch.offset > log.floor and fetch.last_fetched_epoch > log.floor_epoch)


def _end_of_epoch(log: Prefix, epoch: int) -> tuple[int, int] | None:
    """The largest epoch of a log that is not above ``epoch``, and its exclusive end; None if there is none."""
    for index in range(len(log.batches) - 1, -1, -1):
        if log.batches[index].epoch <= epoch:
            return log.batches[index].epoch, log.ends[index]
    return None


def _in_words(answer: tuple[int, int]) -> str:
    return "no divergence" if answer == (-1, -1) else f"epoch {answer[0]} up to {answer[1]:,}"
