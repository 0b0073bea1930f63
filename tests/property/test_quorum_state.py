"""Whatever happens to a quorum member, its roles change by the table only, and no promise precedes its Sync."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, product

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from actors.node.step import Step
from actors.quorum.quorum_state import (
    TIMERS,
    TRANSITIONS,
    TRANSITIONS_OF_SEED_PROGRESS,
    TRANSITIONS_WITHOUT_PRE_VOTE,
    OffsetAndEpoch,
    QuorumState,
    is_legal,
    role_name,
)
from actors.quorum.raft_config import UNCONFIGURED
from actors.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from actors.quorum.voter_set import VoterSet
from actors.trace.events import QPersist, QRole, QVote, TraceEvent
from tests.datadriven.quorum.environment import Environment
from tests.datadriven.quorum.members import Member
from tests.datadriven.runner import Command, parse_command

EPOCH = 5
ROLES: list[Role] = [
    Unattached(EPOCH),
    Prospective(EPOCH),
    Candidate(EPOCH),
    Leader(EPOCH, 0, [101]),
    Follower(EPOCH, 102),
    Resigned(EPOCH),
]


def at_epoch(role: Role, epoch: int) -> Role:
    """A role of the same kind in another epoch."""
    changed: Role = type(role)(**{**{name: getattr(role, name) for name in role.__struct_fields__}, "epoch": epoch})
    return changed


@pytest.mark.parametrize("seed_progress", [False, True])
@pytest.mark.parametrize("pre_vote", [True, False])
@pytest.mark.parametrize(("source", "target"), list(product(ROLES, ROLES)), ids=role_name)
def test_only_the_table_is_legal(source: Role, target: Role, pre_vote: bool, seed_progress: bool) -> None:
    """Shows that a change of role is refused, and leaves everything as it was, unless the table has it."""
    pair = (role_name(source), role_name(target))
    rule_ = TRANSITIONS.get(pair) or (None if pre_vote else TRANSITIONS_WITHOUT_PRE_VOTE.get(pair))
    if seed_progress:
        rule_ = rule_ or TRANSITIONS_OF_SEED_PROGRESS.get(pair)
    allowed = {
        None: set(),
        "same": {0},
        "next": {1},
        "higher": {1, 2},
        "same or higher": {0, 1, 2},
    }[rule_]
    for difference in (-1, 0, 1, 2):
        changed = at_epoch(target, EPOCH + difference)
        assert is_legal(source, changed, pre_vote, seed_progress) == (difference in allowed)
        voters, progress = VoterSet([101, 102, 103]), "seed" if seed_progress else "kafka"
        config = replace(UNCONFIGURED, node_id=101, voters=voters, pre_vote=pre_vote, leader_progress=progress)
        state = QuorumState(config, source)
        if difference not in allowed:
            with pytest.raises(AssertionError):
                state._change(Step(0), changed, OffsetAndEpoch(0, 0))
            assert state.role == source and not state.waiting


# ---- every event in every state ----------------------------------------------------------------------------

WAYS: dict[str, list[str]] = {
    "unattached": [],
    "prospective": ["timeout c1 election"],
    "candidate": ["timeout c1 election", "answer c2 to=c1 granted epoch=4"],
    "leader": ["timeout c1 election", "answer c2 to=c1 granted epoch=4", "answer c2 to=c1 granted epoch=5"],
    "follower": ["begin to=c1 from=c2 epoch=5"],
    "resigned": [
        "timeout c1 election",
        "answer c2 to=c1 granted epoch=4",
        "answer c2 to=c1 granted epoch=5",
        "timeout c1 check-quorum",
    ],
}
"""How c1, whose log ends at (3, 6) in epoch 4, gets into each role."""

RESPONSE_ERRORS = ("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "INVALID_REQUEST", "UNSUPPORTED_VERSION")
EPOCHS = (3, 4, 5, 6)


def spell(pattern: str, **choices: Iterable[object]) -> list[str]:
    """All ways to fill in a command."""
    return [pattern.format(**dict(zip(choices, values, strict=True))) for values in product(*choices.values())]


EVENTS = [
    *spell("vote to=c1 from=c3 epoch={e} last={last}{pre}", e=(*EPOCHS, 9), last=("(3,6)", "(1,9)"), pre=("", " pre")),
    *spell("begin to=c1 from={leader} epoch={e}", e=EPOCHS, leader=("c1", "c2", "c3", "c9")),
    *spell("end to=c1 from={leader} epoch={e} preferred=(c1,c3)", e=EPOCHS, leader=("c2", "c3")),
    *spell("fetch to=c1 from=c3 epoch={e} offset={o} last-epoch=3", e=EPOCHS, o=(0, 6, 7)),
    *spell("answer c3 to=c1{word} epoch={e} leader={leader}", word=("", " granted"), e=EPOCHS, leader=("none", "c2")),
    *spell("answer c2 to=c1 epoch=7 leader={leader} error={error}", leader=("none", "c3"), error=RESPONSE_ERRORS),
    *spell("answer c2 fetch to=c1 epoch={e} leader={leader} hw=3", e=EPOCHS, leader=("none", "c1", "c2", "c3")),
    *spell("timeout c1 {timer}", timer=("election", "fetch", "check-quorum", "begin-quorum")),
    "lose c1 to=c2",
    "lose c1 fetch to=c2 reason=disconnect",
    "shutdown c1",
    "append c1",
    "crash c1",
]


def perform(environment: Environment, line: str) -> None:
    """Carry out a command of the transcripts; one that does not apply (no such timer or request) does nothing."""
    command = parse_command([line], 1)
    try:
        getattr(environment, f"verb_{command.verb.replace('-', '_')}")(command)
    except KeyError:
        assert command.verb == "timeout"
    except AssertionError as error:
        if "no such request" not in str(error):
            raise


class Recorder(Environment):
    """An environment that keeps the trace of c1, None where an incarnation begins, and watches what it lets out."""

    def __init__(self) -> None:
        super().__init__()
        self.pre_vote = True
        self.seed_progress = False
        self.events: list[TraceEvent | None] = []
        self.quorum.observer = lambda name, event: self.events.append(event)
        self.quorum.replying = lambda name: self._no_reply_too_early()

    def _no_reply_too_early(self) -> None:
        assert not self.unsynced, "a reply left while quorum-state was not durable"

    def verb_start(self, command: Command) -> str:
        """Begin an incarnation."""
        self.events.append(None)
        return super().verb_start(command)

    @property
    def member(self) -> Member | None:
        """c1, if it runs."""
        return self.quorum.members.get("controller-1")

    @property
    def unsynced(self) -> bool:
        """Whether c1 has a role that is not durable, its Sync being held."""
        return self.member is not None and any(s.file == "quorum-state" for s in self.member.held_syncs)

    def check(self) -> None:
        """What must hold of the trace so far."""
        roles = [event for event in self.events if event is None or isinstance(event, QRole)]
        for before, after in pairwise(roles):
            if after is None:
                continue
            if before is None:
                assert after.role not in ("prospective", "leader")
                continue
            table = TRANSITIONS if self.pre_vote else TRANSITIONS | TRANSITIONS_WITHOUT_PRE_VOTE
            if self.seed_progress:
                table = table | TRANSITIONS_OF_SEED_PROGRESS
            assert (before.role, after.role) in table and after.epoch >= before.epoch, (before, after)
        votes: dict[int, int] = {}
        persisted: set[tuple[int, int]] = set()
        epoch = -1
        for event in self.events:
            if isinstance(event, QPersist):
                assert event.epoch >= epoch
                epoch = event.epoch
                persisted.add((event.epoch, event.voted_for))
            if isinstance(event, QRole):
                assert event.epoch == epoch, event
            if isinstance(event, QVote) and event.granted and not event.pre:
                assert votes.setdefault(event.epoch, event.candidate) == event.candidate
                assert (event.epoch, event.candidate) in persisted
        self.check_timers()

    def check_timers(self) -> None:
        """Exactly the timers of its role run, so that no role can be stuck; but for who shuts down, and does nothing
        more about a time-out: its shutdown has one of its own (``KafkaRaftClient.pollUnattached``)."""
        if self.member is None or self.member.raft.quorum.waiting:
            return
        raft = self.member.raft
        running = {name for name in self.member.timers if any(name in timers for timers in TIMERS.values())}
        due = set(TIMERS[role_name(raft.quorum.role)])
        assert running == due or (raft.shutting_down and running < due)


def member_in(role: str) -> Recorder:
    """c1 in a role; c2 and c3 are scripted."""
    environment = Recorder()
    perform(environment, "disk c1 epoch=4 log=(1:3,3:3)")
    perform(environment, "start c1")
    for line in WAYS[role]:
        perform(environment, line)
    assert environment.member is not None
    assert role_name(environment.member.raft.quorum.role) == role
    return environment


@pytest.mark.parametrize("role", list(WAYS))
def test_every_event_in_every_role(role: str) -> None:
    """Shows that each kind of event, met in each role, leads along the table and leaves the right timers running."""
    for event in EVENTS:
        environment = member_in(role)
        perform(environment, event)
        environment.check()


# ---- any sequence of events --------------------------------------------------------------------------------


class AnyOrder(RuleBasedStateMachine):
    """One voter, two scripted peers, any order of events, and Syncs that take their time."""

    def __init__(self) -> None:
        super().__init__()
        self.environment = Recorder()

    @initialize(pre_vote=st.booleans(), progress=st.sampled_from(["off", "seed", "kafka"]))
    def start(self, pre_vote: bool, progress: str) -> None:
        """Begin in epoch 4, with or without PreVote, and with each form of the leader's progress time-out."""
        self.environment.pre_vote, self.environment.seed_progress = pre_vote, progress == "seed"
        self.environment.quorum.features = {
            "kip-996": "kafka" if pre_vote else "off",
            "kip-595.leader-progress": progress,
        }
        perform(self.environment, "disk c1 epoch=4 log=(1:3,3:3)")
        perform(self.environment, "start c1")

    @property
    def running(self) -> bool:
        """Whether c1 runs."""
        return self.environment.member is not None

    @precondition(lambda self: self.running)
    @rule(event=st.sampled_from(EVENTS), epoch=st.integers(-2, 3))
    def event(self, event: str, epoch: int) -> None:
        """Any event, in the neighbourhood of the epoch that c1 has reached."""
        member = self.environment.member
        assert member is not None
        words = [
            f"epoch={max(0, member.raft.epoch + epoch)}" if word.startswith("epoch=") else word
            for word in event.split()
        ]
        perform(self.environment, " ".join(words))

    @precondition(lambda self: self.running)
    @rule()
    def hold_syncs(self) -> None:
        """The disk becomes slow."""
        perform(self.environment, "hold-syncs c1")

    @precondition(lambda self: self.running)
    @rule()
    def sync(self) -> None:
        """The disk catches up."""
        perform(self.environment, "sync c1")

    @precondition(lambda self: not self.running)
    @rule()
    def restart(self) -> None:
        """Come back from what was written."""
        perform(self.environment, "start c1")

    @invariant()
    def holds(self) -> None:
        """The trace so far keeps every promise."""
        self.environment.check()


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestAnyOrder = AnyOrder.TestCase
