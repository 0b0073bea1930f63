"""A change of the voter set comes to an end."""

from __future__ import annotations

import msgspec

from actors.trace.events import ClockSet, CtlFault, LogHw, NodeDown, NodeUp, QRole, QVoters, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.routes import METADATA_LOG
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta
from orchestrator.invariants.mirrors.voter_sets import is_majority, named

AUTO_JOIN, FETCH_TIMEOUT = "controller.quorum.auto.join.enable", "controller.quorum.fetch.timeout.ms"
KRAFT_VERSION = "kraft.version"
JOIN = "join/"
"""Of the names of obligations: that a controller becomes a voter."""
OF_A_JOINER = 0
"""``target`` of these, which have a bound of their own."""


class Membership(msgspec.Struct, frozen=True):
    """What a member has in force: offset of the record, names of the voters -> directories. directory: its
    own."""

    offset: int
    members: dict[str, str]
    directory: str
    by: Witness


class Changing(WindowState):
    """sets: of the members that are up. leads: controller -> the epoch that it leads. marks: leader -> its high
    watermark. joins: whether controllers may join by themselves, as far as is known of what they are started with.
    clocks: controllers whose clock was set since they started: what they do by the clock may come late. join_us: the
    bound of who is to join."""

    join_us: int = 0
    profile: Profile = Profile()
    joins: bool = True
    clocks: set[str] = set()
    sets: dict[str, Membership] = {}
    leads: dict[str, int] = {}
    marks: dict[str, int] = {}


class VoterChangesEnd(WindowInvariant[Changing]):
    """While a change of the voters is neither committed nor undone, no other change can begin, and members count
    different majorities. Once no fault is left the change ends: the leader commits it and all members have it, or
    another leader does without it and all members truncate it. A controller that is to join by itself
    (controller.quorum.auto.join.enable) looks every two controller.quorum.fetch.timeout.ms whether it is a voter, and
    asks its leader to become one, as the leader may refuse it and an operator may remove it. So it is one after three
    such periods, counted anew after each change and each election.

    Example: controller-4 is added by a leader that is cut off, and two of four logs have the new voter set. The others
    elect a leader without it; controller-1 comes back, truncates the record, and still counts four voters. Or
    controller-4 asks to become a voter while controller-5 does, is refused, and does not ask again.
    """

    id = "L9"
    title = (
        "A change of the voters, once begun, is committed or undone on all members; who is to join by itself becomes a "
        "voter"
    )
    source = "KIP-853; KIP-1186; kafka-tlaplus, ReconfigurationNotStuck"
    tested_when = (
        "the members agree on the voters in a window, after they disagreed, or after an open change; or a controller "
        "that is to join by itself becomes a voter in a window"
    )
    unseen = (
        "Members outside the core, and the answers to an operator meanwhile (Q19).",
        (
            "Controllers that are to join, after their clock was set, until they start anew; those with the disk of "
            "another cluster; and all, after a bounce that sets controller.quorum.auto.join.enable or "
            "controller.quorum.fetch.timeout.ms."
        ),
    )
    route = METADATA_LOG
    types = (QVoters, QRole, LogHw, NodeUp, NodeDown)
    cases = {LogHw: ("leader",)}

    def initial(self, key: str, profile: Profile) -> Changing:
        joins = profile.feature(KRAFT_VERSION) == "1"  # on all nodes, from the first to the last moment
        join_us = beta(profile, f"{self.id}/join")
        return Changing(key, beta_us=beta(profile, self.id), join_us=join_us, profile=profile, joins=joins)

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, ClockSet)

    def hear(self, state: Changing, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is ClockSet:
            state.clocks.add(event.node)
            self._judge(state, event)
            return self.arm(state)
        if type(body) is CtlFault and not {AUTO_JOIN, FETCH_TIMEOUT}.isdisjoint(body.parameters.get("config", {})):
            state.joins = False
            self._judge(state, event)
        return super().hear(state, event)

    def look(self, state: Changing, event: Stamped) -> None:
        self._judge(state, event)

    def step(self, state: Changing, event: Stamped) -> Emissions:
        body, node = event.body, event.node
        if type(body) is QVoters:
            state.sets[node] = Membership(body.offset, named(body.members), body.directory_id, witness(event))
        elif type(body) is NodeUp:
            state.clocks.discard(node)
        elif type(body) is NodeDown:
            state.sets.pop(node, None)
            state.leads.pop(node, None)
        elif type(body) is QRole:
            state.leads.pop(node, None)
            if body.role == "leader":
                state.leads[node] = body.epoch
                state.marks.pop(node, None)
        elif type(body) is LogHw:
            if body.role != "leader" or node not in state.leads:
                return NOTHING
            state.marks[node] = body.new
            if not state.due:
                return NOTHING
        self._judge(state, event)
        return self.arm(state)

    def _leader(self, state: Changing) -> str:
        """Who leads the newest epoch in the core, if most of the voters in its log are there, too; "" nobody."""
        leaders = [node for node in state.leads if node in state.core and node in state.sets]
        if not leaders:
            return ""
        newest = max(leaders, key=lambda node: state.leads[node])
        voters = state.sets[newest].members
        there = sum(self._is_there(state, name, directory) for name, directory in voters.items())
        return newest if is_majority(there, voters) else ""

    def _is_there(self, state: Changing, name: str, directory: str) -> bool:
        known = state.sets.get(name)
        return name in state.core and known is not None and known.directory == directory

    def _apart(self, state: Changing, leader: str) -> list[str]:
        """Members in the core that have other voters than a leader; the leader itself where its set is open."""
        its = state.sets[leader]
        there = [each for each in state.sets if each in state.core]
        found = [each for each in there if state.sets[each].members != its.members]
        return found if state.marks.get(leader, 0) > its.offset else [leader, *found]

    def _judge(self, state: Changing, event: Stamped) -> None:
        leader = self._leader(state) if state.since_us >= 0 else ""
        if not leader:
            state.due.clear()
            return
        its = state.sets[leader]
        name = f"{leader}/{state.leads[leader]}/{its.offset}"
        joiners = [f"{JOIN}{name}/{each}" for each in sorted(state.sets) if self._is_to_join(state, leader, each)]
        for other in [each for each in state.due if each != name and each not in joiners]:
            if other.startswith(JOIN) and self._has_joined(its, other.rpartition("/")[2], state):
                self.kept(state, other)
            self.void(state, other)  # another change could begin, or another leader has to end it
        if self._apart(state, leader):
            self.oblige(state, name, event)
        else:
            self.kept(state, name)
        for joins in joiners:
            self.oblige(state, joins, event, OF_A_JOINER)

    def _is_to_join(self, state: Changing, leader: str, node: str) -> bool:
        """Whether a member of the core should become a voter by itself, as it knows who the voters are, and the leader
        may add one: it has committed the voters, in its epoch."""
        if not state.joins or node == leader or node not in state.core or node in state.clocks:
            return False
        if state.marks.get(leader, 0) <= max(state.sets[leader].offset, 0):
            return False
        own, its = state.sets[node], state.sets[leader]
        if not node.startswith("controller-") or own.members != its.members:
            return False
        if "cluster_id" in state.profile.nodes.get(node, {}):
            return False  # a stranger, whom no leader listens to
        asks = state.profile.setting(AUTO_JOIN, node, False) is True
        return asks and its.members.get(node) != own.directory

    def _has_joined(self, its: Membership, node: str, state: Changing) -> bool:
        own = state.sets.get(node)
        return own is not None and its.members.get(node) == own.directory

    def due_us(self, state: Changing, obligation: Obligation) -> int:
        bound_us = state.join_us if obligation.target == OF_A_JOINER else state.beta_us
        return max(obligation.since_us, state.since_us) + bound_us

    def next_due_us(self, state: Changing) -> int:
        return min(self.due_us(state, each) for each in state.due.values())

    def missed(self, state: Changing, name: str, obligation: Obligation) -> Emissions:
        if name.startswith(JOIN):
            return self._outside(state, name)
        leader = name.partition("/")[0]
        its = state.sets[leader]
        apart = [
            f"{each} still has {', '.join(sorted(state.sets[each].members))}"
            for each in sorted(self._apart(state, leader))
            if each != leader
        ]
        return self.violated(
            state.key,
            f"the voter set {', '.join(sorted(its.members))}, which {leader}, leader of epoch {state.leads[leader]}, "
            f"wrote at offset {its.offset:,}, was not {'adopted by every voter' if apart else 'committed'} "
            f"{self.within(state)}{': ' if apart else ''}{'; '.join(apart)}",
            its.by,
            *(state.sets[each].by for each in self._apart(state, leader)[:2]),
        )

    def _outside(self, state: Changing, name: str) -> Emissions:
        """A controller is to join by itself, and has not."""
        _, leader, epoch, _, node = name.split("/")
        its = state.sets[leader]
        return self.violated(
            state.key,
            f"{node} is to become a voter by itself, and has not within {state.join_us / 1_000_000:g} s, in which "
            f"{leader} led in epoch {epoch} and the voters stayed {', '.join(sorted(its.members))}",
            its.by,
            state.sets[node].by,
        )
