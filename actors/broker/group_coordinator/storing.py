"""What a group waits for until it is committed: an assignment, and a static member under a new member id."""

from __future__ import annotations

from actors.broker.coordinator_common.writes import coordinator_error
from actors.broker.group_coordinator import rebalance
from actors.broker.group_coordinator.answers import answer_join
from actors.broker.group_coordinator.group import ClassicGroup, GroupMember, Protocols
from actors.broker.group_coordinator.group_state import COMPLETING_REBALANCE, DEAD, PREPARING_REBALANCE, STABLE
from actors.broker.group_coordinator.tracing import record_state
from actors.broker.group_coordinator.writes import DelayedGroupWrite
from actors.broker.turn import Turn
from krift.v1.groups import JoinGroupResponse

SKIPPING_ASSIGNMENT = 9
"""First version of JoinGroup that can tell a leader to leave the assignment as it is."""


class DelayedAssignment(DelayedGroupWrite):
    """The assignment of a generation (member id -> bytes), which its leader ``member_id`` gave."""

    group_id: str
    generation: int
    member_id: str
    assignment: dict[str, bytes]

    def on_complete(self, context: Turn) -> None:
        """The group is stable; or, if it could not be stored, it rebalances. Neither if it has gone on meanwhile."""
        shard = context.groups.shards.get(self.tp)
        group = None if shard is None else shard.groups.get(self.group_id)
        if shard is None or group is None:
            return
        if group.state != COMPLETING_REBALANCE or group.generation != self.generation:
            return
        if not self.error:
            reason = f"assignment of the leader {self.member_id} stored"
            rewritten = any(self._is_of(other) for other in context.purgatory.parked.values())
            rebalance.set_assignment(context, shard, group, self.assignment, reason, rewritten)
            return
        error = coordinator_error(self.error)
        rebalance.reset_assignment(context, group, error)
        reason = f"error {error.name} when storing group assignment during SyncGroup (member: {self.member_id})"
        rebalance.maybe_prepare_rebalance_or_complete_join(context, shard, group, reason)

    def _is_of(self, other: object) -> bool:
        """Whether it is one more assignment of this generation, which waits behind this one."""
        return (
            isinstance(other, DelayedAssignment)
            and (other.tp, other.group_id, other.generation) == (self.tp, self.group_id, self.generation)
            and other is not self
        )


class DelayedStaticMember(DelayedGroupWrite):
    """A static member that came back under ``new_id``, with what it was before. ``version``: of its JoinGroup.
    ``leader``: of the group before that."""

    group_id: str
    version: int
    group_instance_id: str
    old_id: str
    new_id: str
    leader: str
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int

    def on_complete(self, context: Turn) -> None:
        """The member goes on in the present generation; or, if that could not be stored, it is as it was before."""
        shard = context.groups.shards.get(self.tp)
        group = None if shard is None else shard.groups.get(self.group_id)
        member = None if group is None else group.members.get(self.new_id)
        if shard is None or group is None or member is None:
            return
        if self.error:
            self._revert(context, group, member)
            return
        if group.state == STABLE:
            record_state(context, shard, group, f"{self.old_id} is {self.new_id} from now on")
        self._join(context, group, member)

    def _revert(self, turn: Turn, group: ClassicGroup, member: GroupMember) -> None:
        response = rebalance.join_response(group, "")
        response.leader, response.error_code = self.leader, coordinator_error(self.error)
        answer_join(turn, member, response)
        member.protocols = self.protocols
        member.rebalance_timeout_ms, member.session_timeout_ms = self.rebalance_timeout_ms, self.session_timeout_ms
        old = group.replace_static_member(self.group_instance_id, self.new_id, self.old_id)
        rebalance.reschedule_heartbeat(turn, group, old)

    def _join(self, turn: Turn, group: ClassicGroup, member: GroupMember) -> None:
        response: JoinGroupResponse = rebalance.join_response(group, self.new_id)
        if self.version < SKIPPING_ASSIGNMENT:
            # The leader from before, so that a leader that came back does not assign anew.
            response.leader = self.leader
        elif group.is_leader(self.new_id):
            if group.state in (PREPARING_REBALANCE, DEAD):
                return  # it waits for the next generation by now
            response.members, response.skip_assignment = group.current_members(), True
        answer_join(turn, member, response)
