"""Whatever an operator asks for and whatever breaks, voter sets follow each other one change at a time."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from actors.quorum.quorum_state import role_name
from actors.quorum.raft_state import RaftState
from actors.quorum.roles import Leader
from actors.quorum.voter_set import VoterSet
from actors.trace.events import QRole, QVoters, TraceEvent
from tests.datadriven.quorum.environment import Environment
from tests.datadriven.runner import parse_command

NAMES = ("c1", "c2", "c3", "c4", "c5")
MEMBERS = st.sampled_from(NAMES)


class AnyChange(RuleBasedStateMachine):
    """Three voters and two spare controllers; changes asked of whoever leads, cuts, crashes, time."""

    def __init__(self) -> None:
        super().__init__()
        self.environment = Environment()
        self.leaders: dict[int, str] = {}
        self.environment.quorum.observer = self._observe

    def _observe(self, name: str, event: TraceEvent) -> None:
        if isinstance(event, QRole) and event.role == "leader":
            assert self.leaders.setdefault(event.epoch, name) == name
        if isinstance(event, QRole) and event.role in ("prospective", "candidate", "leader"):
            assert self._raft(name).is_voter, f"{name} stands and is no voter"
        if isinstance(event, QVoters) and event.cause == "append":
            before = self._raft(name).quorum.records.voter_sets[:-1]
            assert all(entry.offset < self._raft(name).high_watermark or entry.offset < 0 for entry in before)

    def _raft(self, name: str) -> RaftState:
        return self.environment.quorum.members[name].raft

    def _do(self, line: str) -> None:
        command = parse_command([line], 1)
        getattr(self.environment, f"verb_{command.verb.replace('-', '_')}")(command)
        self._check()

    def _check(self) -> None:
        for member in self.environment.quorum.members.values():
            raft = member.raft
            sets = [entry.voters for entry in raft.quorum.records.voter_sets]
            assert all(one.has_overlapping_majority(other) for one, other in pairwise(sets))
            role = raft.quorum.role
            if isinstance(role, Leader) and role.started:
                assert set(role.replicas) <= set(raft.voters.ids)
                others = {int(key.partition("/")[0]) for key in role.observers}
                assert not others & set(raft.voters.ids), "the same directory counts twice"

    @property
    def _leader(self) -> str | None:
        found = [
            (member.raft.epoch, f"c{name[-1]}")
            for name, member in self.environment.quorum.members.items()
            if role_name(member.raft.quorum.role) == "leader"
        ]
        return max(found)[1] if found else None

    @initialize()
    def start(self) -> None:
        """All start, and one is elected."""
        self._do("cluster voters=3 spare=2 features=(kraft.version=1)")
        self._do("start " + " ".join(NAMES))
        self._do("run ms=3000")

    @rule(voter=MEMBERS, added=st.booleans())
    def change(self, voter: str, added: bool) -> None:
        """An operator asks whoever leads."""
        if self._leader is not None:
            self._do(f"{'add' if added else 'remove'}-voter to={self._leader} voter={voter}")

    @rule(one=MEMBERS, other=MEMBERS)
    def cut(self, one: str, other: str) -> None:
        """Two members lose each other."""
        if one != other:
            self._do(f"cut {one} {other}")

    @rule()
    def heal(self) -> None:
        """All reach all again."""
        self._do("heal")

    @rule(member=MEMBERS, how=st.sampled_from(("crash", "power-loss")))
    def restart(self, member: str, how: str) -> None:
        """A member is killed, or loses its power and with it what was not synced, and comes back."""
        self._do(f"{how} {member}")
        self._do(f"start {member}")

    @rule(ms=st.sampled_from((5, 100, 2500)))
    def run_for(self, ms: int) -> None:
        """Time passes."""
        self._do(f"run ms={ms}")

    def teardown(self) -> None:
        """When all is well again there is one leader, and all have its voters."""
        if self.environment.quorum.members:
            self._do("heal")
            self._do("run ms=15000")
            assert self._leader is not None
            known: list[VoterSet] = [member.raft.voters for member in self.environment.quorum.members.values()]
            assert all(voters == known[0] for voters in known)


TestAnyChange = AnyChange.TestCase
TestAnyChange.settings = settings(max_examples=10, stateful_step_count=16, deadline=None)
