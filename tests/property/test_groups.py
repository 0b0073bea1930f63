"""A group stays in order whatever its members do, and whenever its coordinator is deposed."""

from __future__ import annotations

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.broker.group_coordinator.answers import DelayedRebalance
from actors.broker.group_coordinator.group_state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from krift.v1.groups import JoinGroupResponse, OffsetCommitResponse, SyncGroupResponse
from tests.datadriven.groups.environment import Environment
from tests.datadriven.runner import parse_command
from tests.harness.examples import examples

NAMES = st.sampled_from(["a", "b", "c", "s1", "s2"])
"""Members; those with an s are static."""


class OneGroup(RuleBasedStateMachine):
    """One broker that coordinates one group, and members that do anything in any order. ``epoch``:
    leader epoch of the offsets partition."""

    def __init__(self) -> None:
        super().__init__()
        self.environment = Environment()
        self.scene = self.environment.group_scene
        self.replicated = False
        self.epoch = 0
        self.unanswered: set[str] = set()

    def do(self, line: str) -> None:
        """A verb of the transcripts."""
        command = parse_command([line], 0)
        self.scene.responses.clear()
        getattr(self.environment, "verb_" + command.verb.replace("-", "_"))(command)

    def _free(self, name: str) -> bool:
        return name not in self.scene.node.purgatory.parked

    def _instance(self, name: str) -> str:
        return f"instance={name}" if name.startswith("s") else ""

    @initialize(replicated=st.booleans())
    def begin(self, replicated: bool) -> None:
        """A coordinator whose partition has followers, which may be slow, or none."""
        isr = "isr=(1,2)" if replicated else "isr=(1)"
        self.replicated = replicated
        self.do("start")
        self.do("topic orders leader=1 isr=(1)")
        self.do(f"topic __consumer_offsets leader=1 {isr} replicas=(1,2)")
        self.do("advance ms=10")

    @rule(name=NAMES, other=st.booleans())
    def join(self, name: str, other: bool) -> None:
        """A member joins, or joins again, perhaps with something new."""
        if self._free(name):
            protocols = "(range,roundrobin)" if other else "(range)"
            self.do(f"join {name} protocols={protocols} session=6000 rebalance=9000 {self._instance(name)}")

    @rule(name=NAMES)
    def sync(self, name: str) -> None:
        """A member asks for its assignment; if it leads it assigns something to everybody."""
        if self._free(name):
            known = [each for each in ("a", "b", "c", "s1", "s2") if each in self.scene.members]
            assigned = ",".join(f"{each}:orders-{index}" for index, each in enumerate(known))
            self.do(f"sync {name} assign=({assigned}) {self._instance(name)}")

    @rule(name=NAMES)
    def heartbeat(self, name: str) -> None:
        """A member is alive."""
        if self._free(f"{name}-h"):
            self.do(f"heartbeat {name} on={name}-h {self._instance(name)}")

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        """A member leaves. If it waits for its assignment, as where somebody else has it leave, that is never answered
        (``GroupMetadataManager.classicGroupLeaveToClassicGroup``)."""
        if self._free(f"{name}-l"):
            syncing = name in self._waiting() and name in self._known()
            self.do(f"leave {name} on={name}-l")
            if syncing and name in self._waiting() - self._known():
                self.unanswered.add(name)

    @rule(name=NAMES, offset=st.integers(0, 9))
    def commit(self, name: str, offset: int) -> None:
        """A member commits."""
        if self._free(f"{name}-c"):
            self.do(f"commit {name} orders-0@{offset} on={name}-c {self._instance(name)}")

    @rule(ms=st.sampled_from([1, 500, 3000, 6000, 9000]))
    def wait(self, ms: int) -> None:
        """Time passes."""
        self.do(f"advance ms={ms}")

    @rule()
    def replicate(self) -> None:
        """The follower has everything."""
        log = self.scene.node.replicas.partitions["__consumer_offsets-0"].log
        if self.replicated and self._leads:
            self.do(
                f"fetch __consumer_offsets-0 follower=2 epoch={self.epoch} at={log.end_offset} wait=0"
                f" last={max(log.last_epoch, 0)}"
            )

    @rule(name=NAMES)
    def disconnect(self, name: str) -> None:
        """A member's connection is gone, with whatever it waits for."""
        self.do(f"disconnect {name}")
        self.unanswered.discard(name)

    @rule(again=st.booleans())
    def depose(self, again: bool) -> None:
        """Another broker leads, and this one again; or it is elected in place."""
        if not again:
            self.do("change __consumer_offsets-0 leader=2")
            self.epoch += 1
            assert not self.scene.node.groups.shards
        self.do("change __consumer_offsets-0 leader=1")
        self.epoch += 1

    @property
    def _leads(self) -> bool:
        return self.scene.node.replicas.partitions["__consumer_offsets-0"].is_leader

    @invariant()
    def answers_agree(self) -> None:
        """Answers are whole: of members only the leader is told, and with an error nobody is assigned anything."""
        for response in self.scene.responses.values():
            if isinstance(response, JoinGroupResponse) and not response.error_code:
                assert response.member_id and response.generation_id > 0
                assert bool(response.members) <= (response.leader == response.member_id)
            if isinstance(response, SyncGroupResponse):
                assert not (response.error_code and response.assignment)
            if isinstance(response, OffsetCommitResponse):
                assert response.topics

    @invariant()
    def in_order(self) -> None:
        """The group is what its state says, and who waits is known to it."""
        for shard in self.scene.node.groups.shards.values():
            for group in shard.groups.values():
                members = group.members.values()
                assert all(not (each.awaiting_join and each.awaiting_sync) for each in members)
                assert set(group.static_members.values()) == {
                    each.member_id for each in members if each.group_instance_id is not None
                }
                assert not set(group.pending_join) & set(group.members)
                assert set(group.pending_sync) <= set(group.members)
                assert (group.leader in group.members) if group.members else group.leader is None
                assert bool(group.members) or group.state in (EMPTY, PREPARING_REBALANCE)
                assert group.members == {} or group.state != EMPTY
                if group.state in (COMPLETING_REBALANCE, STABLE):
                    assert group.protocol is not None
                    assert not any(each.awaiting_join for each in members) or group.state == STABLE
                if group.state == STABLE:
                    assert not any(each.awaiting_sync for each in members)
        assert self._waiting() <= self._known() | self.unanswered, "somebody waits whom nobody will answer"
        assert not self.scene.node.purgatory.unwatched()

    def _waiting(self) -> set[str]:
        """Connections of members that wait for their group."""
        parked = self.scene.node.purgatory.parked
        return {connection for connection, operation in parked.items() if isinstance(operation, DelayedRebalance)}

    def _known(self) -> set[str]:
        """Connections that groups are going to answer."""
        groups = [group for shard in self.scene.node.groups.shards.values() for group in shard.groups.values()]
        members = [each for group in groups for each in group.members.values()]
        return {each.awaiting_join or each.awaiting_sync for each in members}


TestOneGroup = OneGroup.TestCase
OneGroup.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=40)
