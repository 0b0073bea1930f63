"""Q23: that a voter which hears of no leader stands for election in time."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import node_id, node_name
from actors.quorum.raft_config import FETCH_MAX_WAIT_MS
from actors.trace.events import (
    ClockSet,
    CtlFault,
    DiskRuleChange,
    NodeDown,
    NodeUp,
    QEnd,
    QHeard,
    QRole,
    QVote,
    QVoters,
    RepFetch,
    Stamped,
)
from chaos.faults.kinds import kinds_of
from chaos.faults.process import NodeBounce, NodeShutdown
from orchestrator.invariants.folds.bounds import NEVER_US, SLACK_US, by_node_us, longest_ms
from orchestrator.invariants.folds.broken_links import PARTITIONS, BrokenLinks, Cuts
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
from orchestrator.invariants.folds.routes import METADATA_LOG
from orchestrator.invariants.mirrors.fetched_ends import FetchedEnds
from orchestrator.invariants.mirrors.voter_sets import VoterSets
from orchestrator.invariants.quorum.check_quorum import ELECTION_TIMEOUT, FETCH_TIMEOUT
from orchestrator.invariants.quorum.successors import ends_known, misplaced

BACKOFF_MAX = "controller.quorum.election.backoff.max.ms"

SIM_SLACK_US = 100_000
"""By how much a voter may be late in the sim besides, where nothing takes longer than its timers say: what was on its
way when a fault began still arrives."""

PARKED_US = 1000 * FETCH_MAX_WAIT_MS
"""How long a leader may still answer a voter whose requests do not reach it any more."""

LEAVING = kinds_of(NodeShutdown, NodeBounce)
"""Faults by which a process shuts down in good order. From then on it stands for no election."""


EARLY_US = 20_000
"""By how much a voter may seem to be early, as events have the time at which they are recorded."""

AT_ONCE_US = 1_000
"""Within this time a role and a resignation are recorded together: when the role is durable. The voter has heard of
the resignation earlier than that."""


class Turn(msgspec.Struct):
    """A follower that was told of its leader's resignation. told_us: when. delay_us: how long it waits then. exact:
    whether it is known that it cannot have begun to wait earlier."""

    told_us: int
    delay_us: int
    exact: bool
    by: Witness

    def due_us(self, slack_us: int) -> int:
        """When it stands for election at the latest."""
        return self.told_us + self.delay_us + slack_us


class Waiting(msgspec.Struct):
    """A voter in a role in which it waits. leader: of its epoch, "" where it follows nobody. since_us: when it took up
    the role, gave another one its vote, or had the right time again. turn: the leader has told it that it resigned."""

    role: str
    epoch: int
    leader: str
    directory: str
    since_us: int
    by: Witness
    turn: Turn | None = None


def turn_us(voter: int, directory: str, body: QEnd, longest_us: int) -> int:
    """How long a follower waits after its leader resigned: the first of its successors not at all, the others the
    longer the later they stand in the list, and those that are not in it longest
    (``KafkaRaftClient.endEpochElectionBackoff``)."""
    for place, (each, known) in enumerate(zip(body.preferred, body.directories, strict=True)):
        if each == voter and (not known or not directory or known == directory):
            if place == 0:
                return 0
            base_ms = (longest_us // 1000) >> (len(body.preferred) - 1)
            return min(longest_us, 1000 * (base_ms << (place - 1)))
    return longest_us if body.preferred else 0


class Stand(State):
    """waiting: by voter. leads: node -> epoch that it leads; stopped_us: node -> when it led no more. timers: whose are
    wrong. leaving: who shuts down. cuts, delays: of the links. fetched: what leaders know of the voters. fetch_us,
    elect_us, backoff_us: the time-outs and the longest back-off, by node, the longest one under "". armed_us: the next
    deadline that was asked for."""

    waiting: dict[str, Waiting] = {}
    leads: dict[str, int] = {}
    stopped_us: dict[str, int] = {}
    timers: HinderedTimers = msgspec.field(default_factory=HinderedTimers)
    leaving: set[str] = set()
    cuts: Cuts = msgspec.field(default_factory=Cuts)
    delays: BrokenLinks = msgspec.field(default_factory=BrokenLinks)
    voters: VoterSets = msgspec.field(default_factory=VoterSets)
    fetched: FetchedEnds = msgspec.field(default_factory=FetchedEnds)
    fetch_us: dict[str, int] = {}
    elect_us: dict[str, int] = {}
    backoff_us: dict[str, int] = {}
    slack_us: int = SLACK_US
    armed_us: int = NEVER_US

    def since_us(self, voter: str) -> int:
        """Since when a voter has waited in vain; ``NEVER_US`` as long as it need not."""
        waiting = self.waiting[voter]
        if self.is_hindered(voter):
            return NEVER_US
        if not waiting.leader:
            return waiting.since_us
        silent = [self.cuts.since_us(waiting.leader, voter)]
        if (cut_us := self.cuts.since_us(voter, waiting.leader)) >= 0:
            silent.append(cut_us + PARKED_US)
        if self.leads.get(waiting.leader) != waiting.epoch:
            silent.append(self.stopped_us.get(waiting.leader, 0))
        silent = [each for each in silent if each >= 0]
        if not silent:
            return NEVER_US
        return max(waiting.since_us, min(silent), self.delays.whole_since_us(voter, waiting.leader))

    def due_us(self, voter: str) -> int:
        """When it stands for election at the latest; ``NEVER_US`` while nothing makes it."""
        since_us, turn = self.since_us(voter), self.waiting[voter].turn
        if since_us < NEVER_US or turn is None:
            timeouts = self.fetch_us if self.waiting[voter].leader else self.elect_us
            since_us = min(NEVER_US, since_us + timeouts.get(voter, timeouts[""]) + self.slack_us)
        if turn is None or self.is_hindered(voter):
            return since_us
        return min(since_us, turn.due_us(self.slack_us))

    def is_hindered(self, voter: str) -> bool:
        """Whether it may stand at another time than its timers say, or not at all."""
        return self.timers.are_wrong(voter) or voter in self.leaving


class VotersStandInTime(KeyedInvariant[Stand]):
    """The quorum has a leader again because the voters that miss it stand for election. If one of them waits for longer
    than its time-out, others may stand in its place, and nobody notices; if it is the only one that can win, the
    cluster has no controller.

    Example: controller-1 leads epoch 7 and is killed. Controller-2 follows it, and still does five seconds later,
    although controller.quorum.fetch.timeout.ms is 2000. Or controller-2 has asked for votes in epoch 8, got none, and
    asks no more: a candidate waits for controller.quorum.election.timeout.ms, and up to twice as long. Or controller-1
    resigns, and tells controller-2 and controller-3, in this order, that they may succeed it: controller-2 stands at
    once, and controller-3 after controller.quorum.election.backoff.max.ms at the latest, but not at once, too. It must
    have named controller-2 first because that one has more of its log, as far as it knows: the other one cannot win.
    """

    id = "Q23"
    title = (
        "A voter that cannot hear from a leader stands for election when its time-out is over; who has the most of the "
        "log stands first for a leader that resigns"
    )
    source = "KIP-595; KIP-996; Kafka's KafkaRaftClient.pollFollowerAsVoter, pollCandidate, endEpochElectionBackoff"
    tested_when = (
        "a voter stands for election that waited for a leader, that its leader could not reach, or told to; or hears "
        "in which order a leader that resigned named its successors"
    )
    unseen = (
        "Followers whose leader leads, and whose links to it are whole: what else they hear is not in the trace.",
        "Voters while a clock, a pause or a slow disk falsifies their time, and for the same period after it.",
        "The order of successors after other voters came into force in the leader's epoch.",
    )
    route = METADATA_LOG
    types = (QRole, QVote, QVoters, QEnd, QHeard, RepFetch, NodeUp, NodeDown)

    @property
    def news(self) -> tuple[type, ...]:
        return (CtlFault, ClockSet, DiskRuleChange)

    def initial(self, key: str, profile: Profile) -> Stand:
        state = Stand(key, voters=VoterSets.starting_with(profile.voters))
        state.fetch_us = by_node_us(profile, FETCH_TIMEOUT)
        backoff_us = 1000 * longest_ms(profile, BACKOFF_MAX)
        for node, election_us in by_node_us(profile, ELECTION_TIMEOUT).items():
            state.elect_us[node] = 2 * election_us + backoff_us
        state.backoff_us = by_node_us(profile, BACKOFF_MAX)
        state.slack_us = SIM_SLACK_US if profile.runtime == "sim" else SLACK_US
        return state

    # ---- what keeps a voter from hearing, or from measuring its time -------------------------------------------

    def hear(self, state: Stand, event: Stamped) -> Emissions:
        body: Any = event.body
        for node, late_us in state.timers.take(event, body):
            if (waiting := state.waiting.get(node)) is not None:
                waiting.since_us = event.wall + late_us
                waiting.turn = None
        if type(body) is CtlFault:
            if body.kind in PARTITIONS:
                state.cuts.take(body, event.wall)
            else:
                state.delays.take(body, event.wall)
            if body.kind in LEAVING and body.phase == "start":
                state.leaving.update(body.targets)  # until another process comes up: the fault may be over before
        return self._arm(state)

    # ---- the roles ----------------------------------------------------------------------------------------------

    def step(self, state: Stand, event: Stamped) -> Emissions:
        body = event.body
        found: Emissions = NOTHING
        if type(body) is QRole:
            found = self._takes_up(state, event, body)
        elif type(body) is RepFetch:
            state.fetched.take(event, body)
            return NOTHING
        elif type(body) is QEnd:
            self._may_stand(state, event, body)
            found = self._named(state, event, body)
        elif type(body) is QHeard:
            if (waiting := state.waiting.get(event.node)) is not None:
                waiting.turn = None
                waiting.since_us = event.wall
        elif type(body) is QVote:
            waiting = state.waiting.get(event.node)
            if waiting is not None and body.granted and not body.pre:
                waiting.since_us = event.wall
        elif type(body) is QVoters:
            state.voters.take(event, body)
            state.fetched.take(event, body)
            if event.node not in state.voters.of(event.node):
                state.waiting.pop(event.node, None)
        elif isinstance(body, NodeUp | NodeDown):
            if type(body) is NodeUp:
                state.leaving.discard(event.node)
            state.waiting.pop(event.node, None)
            self._stops(state, event)
        return [*found, *self._arm(state)]

    def _takes_up(self, state: Stand, event: Stamped, body: QRole) -> Emissions:
        found = self._stands(state, event) if body.role in ("prospective", "candidate") else NOTHING
        node = event.node
        state.waiting.pop(node, None)
        if body.role == "leader":
            state.leads[node] = body.epoch
            return found
        self._stops(state, event)
        if state.voters.of(node).get(node) in ("", body.directory_id):
            leader = node_name(body.leader_id) if body.role == "follower" else ""
            now = Waiting(body.role, body.epoch, leader, body.directory_id, event.wall, witness(event))
            state.waiting[node] = now
        return found

    def _stands(self, state: Stand, event: Stamped) -> Emissions:
        waiting = state.waiting.get(event.node)
        if waiting is None:
            return NOTHING
        turn = waiting.turn
        if turn is None or state.is_hindered(event.node):
            state.tested += state.since_us(event.node) < NEVER_US
            return NOTHING
        state.tested += 1
        after_us = event.wall - turn.told_us
        if not turn.exact or after_us >= turn.delay_us - EARLY_US:
            return NOTHING
        sentence = (
            f"{event.node} stood for election in epoch {waiting.epoch} {after_us / 1_000_000:g} s after it heard that "
            f"it may succeed {waiting.leader}, and its turn is {turn.delay_us / 1_000_000:g} s after that"
        )
        return self.violated(state.key, sentence, witness(event), turn.by)

    def _may_stand(self, state: Stand, event: Stamped, body: QEnd) -> None:
        """A follower hears that its leader has resigned."""
        waiting, node = state.waiting.get(event.node), event.node
        if waiting is None or (waiting.leader, waiting.epoch) != (node_name(body.leader), body.leader_epoch):
            return
        longest_us = state.backoff_us.get(node, state.backoff_us[""])
        delay_us = turn_us(node_id(node), waiting.directory, body, longest_us)
        earlier = waiting.turn is not None or event.wall - waiting.since_us <= AT_ONCE_US
        waiting.turn = Turn(event.wall, delay_us, not earlier, witness(event))

    def _named(self, state: Stand, event: Stamped, body: QEnd) -> Emissions:
        ends = ends_known(state.fetched, body)
        state.tested += bool(ends) and len(body.preferred) > 1
        wrong = misplaced(ends, body)
        return NOTHING if wrong is None else self.violated(state.key, wrong[0], *wrong[1], event)

    @staticmethod
    def _stops(state: Stand, event: Stamped) -> None:
        if state.leads.pop(event.node, None) is not None:
            state.stopped_us[event.node] = event.wall

    # ---- when it is due -----------------------------------------------------------------------------------------

    def _arm(self, state: Stand) -> Emissions:
        due_us = min(map(state.due_us, state.waiting), default=NEVER_US)
        if due_us >= state.armed_us:
            return NOTHING
        state.armed_us = due_us
        return (Deadline(due_us),)

    def expire(self, state: Stand, at_us: int) -> Emissions:
        state.armed_us = NEVER_US
        found: list[Any] = []
        for voter in [each for each in state.waiting if state.due_us(each) <= at_us]:
            sentence, by = self._late(state, voter)
            del state.waiting[voter]
            state.tested += 1
            found.extend(self.violated(state.key, sentence, *by))
        return [*found, *self._arm(state)]

    @staticmethod
    def _late(state: Stand, voter: str) -> tuple[str, list[Witness]]:
        """What a voter that is due has not done, and the events that show it."""
        waiting, due_us, since_us = state.waiting[voter], state.due_us(voter), state.since_us(voter)
        what = f"followed {waiting.leader}" if waiting.leader else f"was {waiting.role}"
        why, by = "its election time-out began", [waiting.by]
        if waiting.leader:
            why = "it could hear from it last"
        if waiting.turn is not None and waiting.turn.due_us(state.slack_us) == due_us:
            since_us, why, by = waiting.turn.told_us, "it heard that it may succeed it", [waiting.by, waiting.turn.by]
        return f"{voter} still {what} in epoch {waiting.epoch} {(due_us - since_us) / 1_000_000:g} s after {why}", by
