"""A change of the voter set comes to an end."""

from __future__ import annotations

import msgspec

from actors.trace.events import LogHw, NodeDown, QRole, QVoters, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.routes import METADATA_LOG
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta
from orchestrator.invariants.mirrors.voter_sets import is_majority, named


class Membership(msgspec.Struct, frozen=True):
    """What a member has in force: offset of the record, names of the voters -> directories. directory: its
    own."""

    offset: int
    members: dict[str, str]
    directory: str
    by: Witness


class Changing(WindowState):
    """sets: of the members that are up. leads: controller -> the epoch that it leads. marks: leader -> its high
    watermark."""

    sets: dict[str, Membership] = {}
    leads: dict[str, int] = {}
    marks: dict[str, int] = {}


class VoterChangesEnd(WindowInvariant[Changing]):
    """While a change of the voters is neither committed nor undone, no other change can begin, and members count
    different majorities. Once no fault is left the change ends: the leader commits it and all members have it, or
    another leader does without it and all members truncate it.

    Example: controller-4 is added by a leader that is cut off, and two of four logs have the new voter set. The others
    elect a leader without it; controller-1 comes back, truncates the record, and still counts four voters.
    """

    id = "L9"
    title = "A change of the voters, once begun, is committed or undone on all members"
    source = "KIP-853; kafka-tlaplus, ReconfigurationNotStuck"
    tested_when = "the members agree on the voters in a window, after they disagreed, or after an open change"
    unseen = ("Members outside the core, and the answers to an operator meanwhile (Q19).",)
    route = METADATA_LOG
    types = (QVoters, QRole, LogHw, NodeDown)
    cases = {LogHw: ("leader",)}

    def initial(self, key: str, profile: Profile) -> Changing:
        return Changing(key, beta_us=beta(profile, self.id))

    def look(self, state: Changing, event: Stamped) -> None:
        self._judge(state, event)

    def step(self, state: Changing, event: Stamped) -> Emissions:
        body, node = event.body, event.node
        if type(body) is QVoters:
            state.sets[node] = Membership(body.offset, named(body.members), body.directory_id, witness(event))
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
        for other in [each for each in state.due if each != name]:
            self.void(state, other)  # another change could begin, or another leader has to end it
        if self._apart(state, leader):
            self.oblige(state, name, event)
        else:
            self.kept(state, name)

    def missed(self, state: Changing, name: str, obligation: Obligation) -> Emissions:
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
