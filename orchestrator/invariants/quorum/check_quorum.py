"""What the quorum owes in time: a leader that is cut off steps down, and one with which nothing is wrong stays."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import node_name
from actors.trace.events import (
    ClockSet,
    CtlFault,
    CtlWindow,
    DiskRuleChange,
    LogAppend,
    NodeDown,
    QRole,
    QSnapFetch,
    QVote,
    QVoters,
    RepFetch,
    Stamped,
)
from chaos.faults.clock import ClockFault
from chaos.faults.kinds import kinds_of
from chaos.faults.process import NodePause
from orchestrator.invariants.folds.bounds import SLACK_US, by_node_us, longest_ms
from orchestrator.invariants.folds.broken_links import BrokenLinks
from orchestrator.invariants.folds.fold import (
    NOTHING,
    Deadline,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.folds.hindered_timers import HinderedTimers
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, forget_first
from orchestrator.invariants.folds.routes import METADATA_LOG
from orchestrator.invariants.liveness.cluster import CONTROLLER
from orchestrator.invariants.mirrors.voter_sets import VoterSets, is_majority

FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"


class Term(msgspec.Struct):
    """A leader in office. fetched: voters that have fetched since ``since_us``, which is when enough had, or when the
    term, or the time that counts, began."""

    epoch: int
    since_us: int
    by: Witness
    fetched: set[str] = set()


class Terms(State):
    """terms: by leader. timers: whose are wrong. timeouts_us: node -> 1.5 times the fetch timeout; the longest one
    under ""."""

    terms: dict[str, Term] = {}
    timers: HinderedTimers = msgspec.field(default_factory=HinderedTimers)
    timeouts_us: dict[str, int] = {}
    voters: VoterSets = msgspec.field(default_factory=VoterSets)


class CutOffLeadersStepDown(KeyedInvariant[Terms]):
    """A leader from which no majority fetches cannot commit, and does not learn that another leader was elected. While
    it stays in office, it gives outdated answers to the brokers and clients that reach it.

    Example: controller-1 leads epoch 7 and is cut off from controller-2 and controller-3, but not from broker-1. The
    two elect another leader, and broker-1 fetches from controller-1 for good. A stopped process measures no time, and
    one with a clock jump or a slow disk measures the wrong time: the time then starts again. A member that only fetches
    a snapshot counts as well.
    """

    id = "Q17"
    title = "A quorum leader gives up its leadership when no majority has fetched for 1.5 times the fetch timeout"
    source = "KIP-595, Leader Progress Timeout; KAFKA-15489"
    tested_when = "a leader gives up its leadership after that time"
    unseen = (
        "Leaders while a clock, a pause or a slow disk falsifies their time, and for the same period after it.",
        (
            "Whether voters' own fetches keep a leader in office within the time: the check only finds a leader that "
            "stays too long."
        ),
    )
    route = METADATA_LOG
    types = (QRole, RepFetch, QSnapFetch, QVoters, NodeDown)

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlFault, ClockSet, DiskRuleChange)

    def initial(self, key: str, profile: Profile) -> Terms:
        timeouts = {node: own_us * 3 // 2 for node, own_us in by_node_us(profile, FETCH_TIMEOUT).items()}
        return Terms(key, timeouts_us=timeouts, voters=VoterSets.starting_with(profile.voters))

    # ---- what keeps a node's time from being right -------------------------------------------------------------

    def hear(self, state: Terms, event: Stamped) -> Emissions:
        body: Any = event.body
        found: list[Any] = []
        for node, late_us in state.timers.take(event, body):
            term = state.terms.get(node)
            if term is not None:
                term.since_us, term.fetched = event.wall + late_us, set()
                found.extend(self._arm(state, node, term))
        return found

    # ---- the terms ----------------------------------------------------------------------------------------------

    def step(self, state: Terms, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is RepFetch:
            if not body.error and body.diverging_end < 0:
                self._fetched(state, event, node_name(body.follower))
        elif type(body) is QSnapFetch:
            if body.position >= 0:
                self._fetched(state, event, node_name(body.follower))
        elif type(body) is QVoters:
            return self._voters_changed(state, event, body)
        elif type(body) is NodeDown:
            state.terms.pop(event.node, None)
        elif type(body) is QRole:
            if body.role == "leader":
                term = state.terms[event.node] = Term(body.epoch, event.wall, witness(event))
                return self._arm(state, event.node, term)
            ended = state.terms.pop(event.node, None)
            if ended is not None and event.wall >= self._due_us(state, event.node, ended) - SLACK_US:
                state.tested += 1
        return NOTHING

    def _voters_changed(self, state: Terms, event: Stamped, body: QVoters) -> Emissions:
        """Other voters count from now on. Of a leader that was the only one nobody had to fetch until then."""
        alone = list(state.voters.of(event.node)) == [event.node]
        state.voters.take(event, body)
        term = state.terms.get(event.node)
        if term is None:
            return NOTHING
        term.fetched.intersection_update(state.voters.of(event.node))
        if not alone:
            return NOTHING  # the deadline that was asked for looks again
        term.since_us = event.wall
        return self._arm(state, event.node, term)

    def _fetched(self, state: Terms, event: Stamped, follower: str) -> None:
        """Once a majority has, the leader may stay; the deadline that was asked for looks again."""
        term, voters = state.terms.get(event.node), state.voters.of(event.node)
        if term is None or follower not in voters or follower == event.node:
            return
        term.fetched.add(follower)
        if is_majority(len(term.fetched) + (event.node in voters), voters):
            term.since_us, term.fetched = event.wall, set()

    def _due_us(self, state: Terms, node: str, term: Term) -> int:
        return term.since_us + state.timeouts_us.get(node, state.timeouts_us[""]) + SLACK_US

    def _arm(self, state: Terms, node: str, term: Term) -> Emissions:
        if state.timers.are_wrong(node) or list(state.voters.of(node)) == [node]:
            return NOTHING
        return (Deadline(self._due_us(state, node, term)),)

    def expire(self, state: Terms, at_us: int) -> Emissions:
        found: list[Any] = []
        for node, term in list(state.terms.items()):
            if not self._arm(state, node, term):
                continue
            due_us = self._due_us(state, node, term)
            if due_us > at_us:
                found.append(Deadline(due_us))
                continue
            del state.terms[node]
            state.tested += 1
            seconds = (due_us - term.since_us) / 1_000_000
            found.extend(
                self.violated(
                    state.key,
                    f"{node} still led epoch {term.epoch} {seconds:g} s after the last time that a majority of the "
                    f"{len(state.voters.of(node))} voters had fetched from it",
                    term.by,
                )
            )
        return found


ELECTION_TIMEOUT = "controller.quorum.election.timeout.ms"
REQUEST_TIMEOUT = "controller.quorum.request.timeout.ms"
PRE_VOTE = "kip-996"
PRE_VOTE_VERSION = 2
"""First version of Vote that has PreVote."""


class Standing(msgspec.Struct, frozen=True):
    """What a voter last said of itself."""

    epoch: int
    role: str
    leader: int
    by: Witness


class InOffice(msgspec.Struct, frozen=True):
    """A leader with which, in a window, nothing is wrong."""

    epoch: int
    leader: str
    by: Witness


class Calm(State):
    """roles: of the voters that are up. fetched_us: "leader/epoch" -> voter -> when it fetched last. copied_us: voter
    -> (epoch, when it last appended what its leader sent). pre_votes: candidate -> its epoch -> who would vote, and
    when that was said; promise_us: for how long it counts. earned: epochs above the leader's that a candidate raised
    with a majority of these, said before the leader was seen to be well. core, since_us: of
    the window; well: its leader. recent_us: how long a fetch keeps a follower and a check-quorum from their time-outs.
    calm_from_us: when the timers that a clock has jumped over are over. links: what was under way when a fault of
    those between two voters ended may be lost, and waited for.
    """

    roles: dict[str, Standing] = {}
    fetched_us: dict[str, dict[str, int]] = {}
    copied_us: dict[str, tuple[int, int]] = {}
    pre_votes: dict[str, dict[int, dict[str, int]]] = {}
    promise_us: int = 0
    earned: set[int] = set()
    core: set[str] = set()
    since_us: int = -1
    well: InOffice | None = None
    recent_us: int = 0
    calm_from_us: int = 0
    links: BrokenLinks = msgspec.field(default_factory=BrokenLinks)
    old_peer: bool = False
    voters: VoterSets = msgspec.field(default_factory=VoterSets)


class LeaderIsLeftInPeace(KeyedInvariant[Calm]):
    """A leader that a majority follows is sufficient. A voter that comes back from a cut with a higher epoch deposes
    it, all voters elect again, and meanwhile no metadata can change: PreVote prevents this.

    Example: controller-3 was cut off for 10 s and raised its epoch from 4 to 9; controller-1 leads epoch 4 and both
    others fetch from it. As soon as controller-3 is back, controller-1 has to resign, in a window without any fault.
    """

    id = "L2"
    title = "A quorum leader that a majority follows keeps its epoch as long as nothing is wrong"
    source = "KIP-996; KIP-595, disruptive voters"
    promised_by = PRE_VOTE
    tested_when = "a stability window ends with the leader of its beginning, or of its first calm moment"
    unseen = (
        (
            "Voters that stand without raising an epoch: a follower that requests PreVotes in vain, and leaders "
            "outside windows."
        ),
    )
    route = METADATA_LOG
    types = (QRole, QVote, QVoters, LogAppend, RepFetch, NodeDown)
    cases = {LogAppend: ("follower",)}
    exemptions = {
        "old-peer": ("A voter does not support PreVote, at all or after a bounce: then candidates do without it.")
    }

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlWindow, CtlFault)

    def initial(self, key: str, profile: Profile) -> Calm:
        timeouts_us = by_node_us(profile, FETCH_TIMEOUT)
        ranges = [profile.versions, *(section.get("versions", {}) for section in profile.nodes.values())]
        spoken = [each["Vote"] for each in ranges if "Vote" in each] + profile.bounced_versions.get("Vote", [])
        election_ms, request_ms = longest_ms(profile, ELECTION_TIMEOUT), longest_ms(profile, REQUEST_TIMEOUT)
        return Calm(
            key,
            recent_us=min(timeouts_us[node] for node in ("", *map(node_name, profile.voters))) // 2,
            # An election takes up to twice its timeout.
            promise_us=(2 * election_ms + request_ms) * 1000 + SLACK_US,
            old_peer=any(newest < PRE_VOTE_VERSION for _, newest in spoken) or PRE_VOTE in profile.bounced,
            voters=VoterSets.starting_with(profile.voters),
        )

    def hear(self, state: Calm, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is CtlFault:
            state.links.take(body, event.wall)
            if body.kind in kinds_of(ClockFault):
                # A leader whose clock jumps ahead believes that nobody has fetched for long.
                state.calm_from_us = event.wall + state.recent_us
            if body.kind in kinds_of(ClockFault, NodePause):
                # By a candidate's own time what it was promised is no older than before.
                for promises in (each for name in body.targets for each in state.pre_votes.get(name, {}).values()):
                    promises.update(dict.fromkeys(promises, event.wall))
            return NOTHING
        assert type(body) is CtlWindow
        self._end(state)
        if body.phase == "open":
            state.core, state.since_us = set(body.core), event.wall
            self._look(state, event)
        return NOTHING

    def finish(self, state: Calm, horizon_us: int) -> Emissions:
        self._end(state)
        return NOTHING

    def _end(self, state: Calm) -> None:
        if state.well is not None:
            state.tested += 1
        state.core, state.since_us, state.well = set(), -1, None

    def step(self, state: Calm, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is LogAppend:
            if body.role == "follower" and event.node.startswith(CONTROLLER):
                state.copied_us[event.node] = (body.leader_epoch, event.wall)
        elif type(body) is RepFetch:
            if not body.error and body.diverging_end < 0:
                contacts = state.fetched_us.setdefault(f"{event.node}/{body.leader_epoch}", {})
                forget_first(state.fetched_us, CHANGES_REMEMBERED)
                contacts[node_name(body.follower)] = event.wall
        elif type(body) is QVote:
            self._voted(state, event, body)
        elif type(body) is QVoters:
            state.voters.take(event, body)
            if state.well is not None and state.well.leader not in state.voters.of(state.well.leader):
                state.well = None
        elif type(body) is NodeDown:
            state.roles.pop(event.node, None)
        elif type(body) is QRole:
            if not event.node.startswith(CONTROLLER):
                return NOTHING
            state.roles[event.node] = Standing(body.epoch, body.role, body.leader_id, witness(event))
            if body.role in ("candidate", "leader"):
                self._raised(state, event, body)
            well = state.well
            if well is not None and event.node in state.core and body.epoch > well.epoch:
                return self._disturbed(state, well, event, body)
        self._look(state, event)
        return NOTHING

    def _voted(self, state: Calm, event: Stamped, body: QVote) -> None:
        if not body.pre or not body.granted or state.well is not None:
            return
        promises = state.pre_votes.setdefault(node_name(body.candidate), {}).setdefault(body.epoch, {})
        promises[event.node] = event.wall

    def _raised(self, state: Calm, event: Stamped, body: QRole) -> None:
        """A candidate raised its epoch, as a majority had just promised to vote for it, or not; or an epoch has its
        leader, and those up to it are over."""
        promises = state.pre_votes.get(event.node, {}).pop(body.epoch - 1, {})
        fresh = {voter for voter, at_us in promises.items() if event.wall - at_us <= state.promise_us}
        if fresh and is_majority(len(fresh | {event.node}), state.voters.of(event.node)):
            state.earned.add(body.epoch)
        if body.role == "leader":
            state.earned = {epoch for epoch in state.earned if epoch > body.epoch}
            for name, promised in state.pre_votes.items():
                state.pre_votes[name] = {epoch: each for epoch, each in promised.items() if epoch >= body.epoch}

    def _look(self, state: Calm, event: Stamped) -> None:
        """Whether a leader is seen to be well: most voters follow it, fetched of late, and got what they fetched."""
        if state.since_us < 0 or state.well is not None or event.wall < state.calm_from_us:
            return
        for leader, standing in state.roles.items():
            if standing.role != "leader" or leader not in state.core:
                continue
            fetched = state.fetched_us.get(f"{leader}/{standing.epoch}", {})
            followers = [
                voter
                for voter, known in state.roles.items()
                if voter in state.core
                and (known.epoch, known.role, known.leader) == (standing.epoch, "follower", standing.leader)
                and event.wall - fetched.get(voter, -1 << 60) <= state.recent_us
                and fetched[voter] >= state.links.touched_us(leader, voter)
                and state.copied_us.get(voter, (-1, 0))[0] == standing.epoch
                and event.wall - state.copied_us[voter][1] <= state.recent_us
            ]
            voters = state.voters.of(leader)
            # One that is no voter any more resigns as soon as its removal is committed.
            if leader in voters and is_majority(sum(each in voters for each in (leader, *followers)), voters):
                state.well = InOffice(standing.epoch, leader, standing.by)

    def _disturbed(self, state: Calm, well: InOffice, event: Stamped, body: QRole) -> Emissions:
        state.well, state.since_us = None, -1
        if body.epoch in state.earned:
            return NOTHING
        state.tested += 1
        sentence = (
            f"{event.node} became {body.role} in epoch {body.epoch} while {well.leader}, leader of epoch {well.epoch}, "
            "had a majority of the voters as followers and no fault was active"
        )
        if state.old_peer:
            return self.excused("old-peer", state.key, sentence, well.by, event)
        return self.violated(state.key, sentence, well.by, event)
