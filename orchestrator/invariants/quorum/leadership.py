"""What KRaft promises: one leader per epoch, one vote per epoch, and a committed metadata log that stays."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import LogHw, LogTrunc, NodeUp, QPersist, QRole, QVote, Stamped
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, forget_least
from orchestrator.invariants.folds.routes import QUORUM, VOTER
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import WIPED, LogMirror
from orchestrator.invariants.mirrors.voter_sets import by_directory


class LeaderFact(msgspec.Struct, frozen=True):
    """Who was first said to lead an epoch, and by which event."""

    leader: int
    by: Witness


class EpochLeaders(State):
    """Quorum epoch -> leader."""

    leaders: dict[int, LeaderFact] = {}


class OneLeaderPerEpoch(KeyedInvariant[EpochLeaders]):
    """Two voters that both lead one epoch would both append to the metadata log under that epoch, and no epoch check
    could distinguish their records.

    Example: controller-1 and controller-3 each believe that they won epoch 7. A broker that fetches from controller-1
    gets a leader for orders-0 that a broker fetching from controller-3 never hears of. A leader of an *older* epoch
    that has not noticed its replacement is no violation.
    """

    id = "Q1"
    title = "One leader per quorum epoch"
    source = "Raft 5.2 (Election Safety); Kafka's RaftEventSimulationTest, SingleLeader"
    tested_when = "an epoch gets its first known leader"
    unseen = (("Answers and clients' metadata about the leader: the check uses only roles, and the state on disk."),)
    route = QUORUM
    types = (QRole, QPersist)

    def initial(self, key: str, profile: Profile) -> EpochLeaders:
        return EpochLeaders(key)

    def step(self, state: EpochLeaders, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is QRole or type(body) is QPersist
        if body.leader_id < 0:
            return NOTHING
        known = state.leaders.get(body.epoch)
        if known is None:
            state.leaders[body.epoch] = LeaderFact(body.leader_id, witness(event))
            forget_least(state.leaders, CHANGES_REMEMBERED)
            state.tested += 1
            return NOTHING
        if known.leader == body.leader_id:
            return NOTHING
        return self.violated(
            state.key,
            f"the leader of quorum epoch {body.epoch} is {node_name(body.leader_id)} according to {event.node}, and "
            f"{node_name(known.leader)} according to {known.by.node}",
            known.by,
            event,
        )


class IdentityState(State):
    """Of one node. by_directory: at kraft.version 1 a voter is its id and its directory: with another directory it is
    another one, of which nothing is known, and with the same one nothing excuses it. directory: the present one."""

    by_directory: bool = False
    directory: str = ""

    def is_another(self, body: NodeUp) -> bool:
        """Whether the incarnation that begins is another voter; where ids alone count, it never is."""
        before, self.directory = self.directory, body.directory_id
        return self.by_directory and before not in ("", body.directory_id)


class VoterState(IdentityState):
    """Of one voter: votes granted, votes on disk (epoch -> candidate, with the event), and those granted
    before its disk was wiped. incarnation: the one that has stored anything last; given: the epoch of a vote that it
    has stored since and told nobody of, -1 none."""

    granted: dict[int, LeaderFact] = {}
    persisted: dict[int, LeaderFact] = {}
    wiped: dict[int, LeaderFact] = {}
    incarnation: int = -1
    given: int = -1

    def forget(self) -> None:
        """Forget the oldest epochs: nobody stands in them any more."""
        for votes in (self.granted, self.persisted, self.wiped):
            forget_least(votes, CHANGES_REMEMBERED)


class OneDurableVotePerEpoch(KeyedInvariant[VoterState]):
    """A voter that votes twice in an epoch gives that epoch two majorities. A voter that answers before its vote is on
    disk forgets the vote in a crash, and votes twice. A voter that loses its vote on disk, or stores a vote that it did
    not grant, has the same effect.

    Example: controller-2 grants epoch 7 to controller-1, is killed before quorum-state is written, comes back and
    grants epoch 7 to controller-3. At kraft.version 1, a voter that comes back with another directory is another voter.
    """

    id = "Q2"
    title = "A voter grants one vote per epoch, and has exactly that vote on disk before it answers"
    source = "Raft 5.2; KIP-595; KIP-853"
    tested_when = "a real vote is granted, a candidate's own included"
    unseen = (
        (
            "The directory of a candidate: a vote for controller-3 counts as the same vote whichever disk it has, "
            "because the trace names candidates by their ids."
        ),
        (
            "A vote that the first write of an incarnation stores and no candidate gets: the former incarnation may "
            "have died before it answered."
        ),
    )
    route = VOTER
    types = (QVote, QPersist, NodeUp)
    exemptions = {"wiped": "The voter's disk was wiped between the two votes, at kraft.version 0."}

    def initial(self, key: str, profile: Profile) -> VoterState:
        return VoterState(key, by_directory=by_directory(profile))

    def step(self, state: VoterState, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is QVote:
            if body.granted and not body.pre:
                return self._vote(state, event, body)
            return self._not_given(state, event)
        if type(body) is QPersist:
            return self._stored(state, event, body)
        if type(body) is NodeUp:
            state.given = -1  # it may have ended between the two
            another = state.is_another(body)
            if body.wiped and not state.by_directory:
                state.wiped.update(state.granted)
                another = True
            if another:
                state.granted.clear()
                state.persisted.clear()
        return NOTHING

    def _stored(self, state: VoterState, event: Stamped, body: QPersist) -> Emissions:
        """What an incarnation stores first may be what it found, and what its predecessor had no time to tell of."""
        found = list(self._not_given(state, event))
        known = state.persisted.get(body.epoch)
        first, state.incarnation = event.incarnation != state.incarnation, event.incarnation
        if body.voted_for >= 0:
            if known is None:
                state.persisted[body.epoch] = LeaderFact(body.voted_for, witness(event))
                state.forget()
                if not first and body.epoch not in state.granted:
                    state.given = body.epoch
        elif known is not None and body.leader_id < 0:
            sentence = (
                f"the disk of {event.node} lost its vote for {node_name(known.leader)} in epoch {body.epoch} although "
                "it knows no leader of that epoch"
            )
            found.extend(self.violated(event.node, sentence, known.by, event))
        return found

    def _not_given(self, state: VoterState, event: Stamped) -> Emissions:
        """Something else follows upon a vote that was stored than that somebody is told of it."""
        epoch, state.given = state.given, -1
        if epoch < 0:
            return NOTHING
        known = state.persisted[epoch]
        sentence = (
            f"{event.node} stored a vote for {node_name(known.leader)} in epoch {epoch}, but it granted no vote in "
            "that epoch"
        )
        return self.violated(event.node, sentence, known.by, event)

    def _vote(self, state: VoterState, event: Stamped, body: QVote) -> Emissions:
        state.tested += 1
        state.given = -1 if body.epoch == state.given else state.given
        known = state.granted.setdefault(body.epoch, LeaderFact(body.candidate, witness(event)))
        if known.leader != body.candidate:
            return self.violated(event.node, _twice(event, body, known), known.by, event)
        stored = state.persisted.get(body.epoch)
        if stored is not None and stored.leader == body.candidate:
            lost = state.wiped.pop(body.epoch, known)
            if lost.leader != body.candidate:
                return self.excused("wiped", event.node, _twice(event, body, lost), lost.by, event)
            return NOTHING
        return self.violated(
            event.node,
            f"{event.node} granted its vote in epoch {body.epoch} to {node_name(body.candidate)} "
            + (
                "before the vote was on its disk"
                if stored is None
                else f"while its disk has a vote for {node_name(stored.leader)}"
            ),
            None if stored is None else stored.by,
            event,
        )


def _twice(event: Stamped, body: QVote, known: LeaderFact) -> str:
    return (
        f"{event.node} granted its vote in epoch {body.epoch} to {node_name(body.candidate)} "
        f"after it had granted it to {node_name(known.leader)}"
    )


class VotesGoToTheUpToDate(KeyedInvariant[State]):
    """A voter that votes for a candidate with less than its own log may elect a leader that lacks committed entries,
    and all others truncate to the leader's log.

    Example: controller-3 was cut off while the metadata log grew from 80 to 120. Controller-2, which has the whole log,
    votes for it, and the topics that were created in between are lost.
    """

    id = "Q4"
    standalone = True
    title = "Votes go only to candidates whose log is at least as up to date as the voter's"
    source = "Raft 5.4.1; KIP-595; KIP-996"
    tested_when = "a voter with a log grants another one a vote or a PreVote"
    unseen = ("Whether a candidate reports its real log: Q20 judges that.",)
    route = VOTER
    types = (QVote,)

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def step(self, state: State, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is QVote
        if not body.granted or body.voter_end == 0 or node_name(body.candidate) == event.node:
            return NOTHING
        state.tested += 1
        if (body.candidate_last_epoch, body.candidate_end) >= (body.voter_last_epoch, body.voter_end):
            return NOTHING
        return self.violated(
            event.node,
            f"{event.node}, whose log ends at {body.voter_end:,} with epoch {body.voter_last_epoch}, granted "
            f"{node_name(body.candidate)} its {'pre-vote' if body.pre else 'vote'} in epoch {body.epoch}, whose log "
            f"ends at {body.candidate_end:,} with epoch {body.candidate_last_epoch}",
            event,
        )


class VoterEpoch(IdentityState):
    """Of one voter: its latest epoch on disk, and the one before its disk was wiped."""

    epoch: int = -1
    by: Witness | None = None
    wiped_epoch: int = -1
    wiped_by: Witness | None = None


class EpochsNeverGoBack(KeyedInvariant[VoterEpoch]):
    """A voter whose epoch goes back can vote, or lead, again in an epoch that is over. A voter that acts in an epoch
    before the epoch is on disk goes back in a crash.

    Example: controller-2 comes back from a crash, does not read its quorum-state, and takes part in epoch 0 while epoch
    7 has a leader.
    """

    id = "Q3"
    title = "A voter's epoch never goes back, not even across a restart"
    source = "Kafka's RaftEventSimulationTest, MonotonicEpoch; KIP-595"
    tested_when = "a voter stores an epoch or takes a role, and has stored an epoch before"
    unseen = (
        (
            "Actions of a member under an older epoch than its own, between two changes of role: Q16, Q18 and X3 "
            "judge writes, fetches and claims."
        ),
    )
    route = VOTER
    types = (QPersist, QRole, NodeUp)
    exemptions = {"wiped": "The voter's disk was wiped, at kraft.version 0."}

    def initial(self, key: str, profile: Profile) -> VoterEpoch:
        return VoterEpoch(key, by_directory=by_directory(profile))

    def step(self, state: VoterEpoch, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is NodeUp:
            if state.is_another(body):
                state.epoch, state.by = -1, None
            elif body.wiped and state.epoch >= 0 and not state.by_directory:
                state.wiped_epoch, state.wiped_by = state.epoch, state.by
                state.epoch, state.by = -1, None
            return NOTHING
        assert type(body) is QPersist or type(body) is QRole
        before = state.epoch
        if before >= 0:
            state.tested += 1
        if type(body) is QPersist and body.epoch >= before:
            if body.epoch > before:
                state.epoch, state.by = body.epoch, witness(event)
            return self._after_wipe(state, event, body)
        if type(body) is QRole and body.epoch == before:
            return NOTHING
        did = f"became {body.role} in" if type(body) is QRole else "stored"
        had = f"while its disk had epoch {before}" if before >= 0 else "before any epoch was on its disk"
        sentence = f"{event.node} {did} epoch {body.epoch} {had}"
        found = self.violated(event.node, sentence, state.by, event)
        if type(body) is QPersist:
            state.epoch, state.by = body.epoch, witness(event)
        return found

    def _after_wipe(self, state: VoterEpoch, event: Stamped, body: QPersist) -> Emissions:
        """The first epoch that a voter stores after its disk was wiped may be any."""
        lost, by = state.wiped_epoch, state.wiped_by
        state.wiped_epoch = -1
        if body.epoch >= lost:
            return NOTHING
        sentence = f"{event.node} stored epoch {body.epoch} while its disk had had epoch {lost} before it was wiped"
        return self.excused("wiped", event.node, sentence, by, event)


class OwnEpochCommit(LogInvariant[State]):
    """A new leader that counts replicas of an older epoch's entries may declare them committed although another voter,
    whose log ends with a later epoch, can still be elected and truncate them (Raft, section 5.4.2).

    Example: the leader of epoch 4 finds an entry of epoch 2 on two of three voters and raises its high watermark past
    it. The third voter, whose last entry is of epoch 3, wins epoch 5 and overwrites the entry.
    """

    id = "Q8"
    title = "A quorum leader's high watermark moves only past an entry of its own epoch"
    source = "Raft 5.4.2; KIP-595, Fetch handling; KAFKA-12619"
    tested_when = "a quorum leader moves its high watermark"
    unseen = ("An entry of the leader's own epoch that is exposed without a majority: Q7 sees it.",)
    requires = ("kip-595.own-epoch-commit",)
    types = (LogHw,)
    cases = {LogHw: ("leader",)}

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def step(self, state: State, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is LogHw
        if body.role != "leader" or body.new == 0:
            return NOTHING
        log = mirror.replica(event.node).log
        batch = log.batch_at(body.new - 1)
        if batch is None and body.new <= log.end:
            return NOTHING  # long ago: every voter's high watermark has passed it
        state.tested += 1
        if batch is None:
            return self.violated(
                state.key,
                f"{event.node}, leader of epoch {body.leader_epoch}, moved its high watermark to {body.new:,}, "
                f"past the end of its log at {log.end:,}",
                event,
            )
        if batch.epoch == body.leader_epoch:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node}, leader of epoch {body.leader_epoch}, moved its high watermark to {body.new:,}, "
            f"past an entry of epoch {batch.epoch} but past no entry of its own epoch",
            event,
        )


class NodeMark(msgspec.Struct, frozen=True):
    """The high watermark of one incarnation of a node."""

    incarnation: int
    high_watermark: int
    by: Witness


class EpochMarks(msgspec.Struct):
    """Lowest and highest high watermark that the leader of an epoch had, with the events."""

    low: int
    low_by: Witness
    high: int
    high_by: Witness


class MetadataMarks(State):
    """Per node its own mark, per quorum epoch the leader's."""

    nodes: dict[str, NodeMark] = {}
    epochs: dict[int, EpochMarks] = {}


class CommittedMetadataStays(LogInvariant[MetadataMarks]):
    """Brokers act on committed entries. If these can disappear, brokers keep leaders, replicas and producer ids that
    the cluster no longer knows.

    Example: controller-1 committed up to 120 in epoch 4; the leader of epoch 5 begins with a high watermark of 112, or
    a voter truncates to 115 although it held the committed entries up to 120.
    """

    id = "Q9"
    title = "Committed metadata is permanent: the high watermark never goes back, and nothing below it is truncated"
    source = "Kafka's RaftEventSimulationTest, MonotonicHighWatermark; KAFKA-12460"
    tested_when = "a node moves its high watermark in the metadata log again, or truncates that log"
    unseen = (
        (
            "Truncations by a node that never held an entry that only another node knew to be committed: they lose "
            "nothing."
        ),
    )
    types = (LogHw, LogTrunc)
    before_types = (LogTrunc,)
    exemptions = {"loss-budget": WIPED}

    def initial(self, key: str, profile: Profile) -> MetadataMarks:
        return MetadataMarks(key)

    def before(self, state: MetadataMarks, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        assert type(body) is LogTrunc
        state.tested += 1
        # What the leader of a later epoch committed it did without this node, which still is in an older one.
        ends = [commit.end for epoch, commit in mirror.commits.items() if epoch <= body.leader_epoch]
        held = min(mirror.highest_committed_of(event.node), max(ends, default=0))
        if held <= body.to:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} truncated the metadata log to {body.to:,} although it held committed entries up to {held:,}",
            event,
        )

    def step(self, state: MetadataMarks, event: Stamped, mirror: LogMirror) -> Emissions:
        body = event.body
        if type(body) is not LogHw:
            return NOTHING
        return [
            *self._own(state, event, body),
            *(self._among_leaders(state, event, body, mirror) if body.role == "leader" else ()),
        ]

    def _own(self, state: MetadataMarks, event: Stamped, body: LogHw) -> Emissions:
        known = state.nodes.get(event.node)
        state.nodes[event.node] = NodeMark(event.incarnation, body.new, witness(event))
        if known is None or known.incarnation != event.incarnation:
            return NOTHING
        state.tested += 1
        if body.new >= known.high_watermark:
            return NOTHING
        return self.violated(
            state.key,
            f"{event.node} lowered its metadata high watermark from {known.high_watermark:,} to {body.new:,}",
            known.by,
            event,
        )

    def _among_leaders(self, state: MetadataMarks, event: Stamped, body: LogHw, mirror: LogMirror) -> Emissions:
        here = state.epochs.get(body.leader_epoch)
        by = witness(event)
        if here is None:
            state.epochs[body.leader_epoch] = EpochMarks(body.new, by, body.new, by)
            if len(state.epochs) > CHANGES_REMEMBERED:
                # Of the two oldest the one that reached further stands for both.
                one, other = sorted(state.epochs)[:2]
                del state.epochs[one if state.epochs[one].high <= state.epochs[other].high else other]
        elif body.new > here.high:
            here.high, here.high_by = body.new, by
        elif body.new < here.low:
            here.low, here.low_by = body.new, by
        for epoch, marks in state.epochs.items():
            if epoch < body.leader_epoch and marks.high > body.new:
                older, newer, first, second = epoch, body.leader_epoch, marks.high, body.new
                proof = marks.high_by
            elif epoch > body.leader_epoch and body.new > marks.low:
                older, newer, first, second = body.leader_epoch, epoch, body.new, marks.low
                proof = marks.low_by
            else:
                continue
            sentence = (
                f"the high watermark of the metadata log is {second:,} in epoch {newer}, below {first:,}, the high "
                f"watermark of epoch {older}"
            )
            if mirror.taint_between(older, newer, first) is not None:
                return self.excused("loss-budget", state.key, sentence, proof, event)
            return self.violated(state.key, sentence, proof, event)
        return NOTHING
