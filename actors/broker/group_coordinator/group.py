"""A classic group and its members (``classic/{ClassicGroup,ClassicGroupMember}.java``)."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actors.broker.group_coordinator.group_state import DEAD, EMPTY, PREPARING_REBALANCE, PREVIOUS
from actors.node.errors import KafkaError
from actors.trace.group_events import GroupState
from krift.v1.groups import ConsumerProtocolSubscription, JoinGroupRequest, JoinGroupResponse
from krift.v1.wire import DecodeError, from_bytes

CONSUMER = "consumer"
"""Protocol type of consumers, whose metadata and assignments the coordinator can read."""

Protocols = list[tuple[str, bytes]]
"""Names of assignors with the member's metadata for each, the preferred one first."""


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """What a member says that it supports."""
    return [(each.name, each.metadata) for each in request.protocols]


class GroupMember(msgspec.Struct):
    """A member. ``awaiting_join``, ``awaiting_sync``: connection on which its JoinGroup or SyncGroup waits, "" none.
    ``is_new``: it has never been in a generation. Times are milliseconds."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: str = ""
    awaiting_sync: str = ""
    is_new: bool = False

    def metadata(self, protocol: str) -> bytes:
        """What it says under an assignor's name; AssertionError for one that it does not support."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support {protocol}")

    def vote(self, candidates: list[str]) -> str:
        """Which of the candidates it prefers; AssertionError if it supports none."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"member {self.member_id} supports none of {candidates}")

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether it is alive as it waits for an answer, though it sends no heartbeats."""
        return not self.is_new and bool(self.awaiting_join or self.awaiting_sync)


class InitialRebalance(msgspec.Struct, frozen=True):
    """How long a group that was empty waits for more members: now, and at most after that. Milliseconds."""

    delay_ms: int
    remaining_ms: int


class ClassicGroup(msgspec.Struct):
    """``members``: in the order in which they came. ``static_members``: group.instance.id -> member id.
    ``pending_join``: member ids that were given out and have not joined. ``pending_sync``: who has not synced in this
    generation, with ``pending_sync_generation``. ``state_timestamp_ms``: wall clock of the last transition, -1 unknown.
    ``subscribed_topics``: None if that is not known. ``initial``: the group waits for its first members. ``seen_at``:
    from this end of the offsets partition on there is a group in it."""

    group_id: str
    state: GroupState = EMPTY
    previous_state: GroupState = EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = -1
    members: dict[str, GroupMember] = {}
    static_members: dict[str, str] = {}
    pending_join: list[str] = []
    pending_sync: list[str] = []
    pending_sync_generation: int = -1
    new_member_added: bool = False
    subscribed_topics: list[str] | None = None
    initial: InitialRebalance | None = None
    seen_at: int = 0

    # ---- questions ---------------------------------------------------------------------------------------

    def is_leader(self, member_id: str) -> bool:
        """Whether the member assigns for all."""
        return self.leader == member_id

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now."""
        return self.state in PREVIOUS[PREPARING_REBALANCE]

    @property
    def awaiting_join(self) -> int:
        """How many members wait for the answer to their JoinGroup."""
        return sum(1 for member in self.members.values() if member.awaiting_join)

    @property
    def has_all_members_joined(self) -> bool:
        """Whether nobody is waited for any more, in a rebalance."""
        return not self.pending_join and self.awaiting_join == len(self.members)

    @property
    def not_yet_rejoined(self) -> list[GroupMember]:
        """Members that have not joined in this rebalance."""
        return [member for member in self.members.values() if not member.awaiting_join]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that a member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether its members are consumers."""
        return self.protocol_type == CONSUMER

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether who comes with these protocols can be a member: an empty group takes any, another one who has its
        type, and an assignor that all members support."""
        if self.state == EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(self._is_supported(name) for name, _ in protocols)

    def _is_supported(self, protocol: str) -> bool:
        return all(any(name == protocol for name, _ in member.protocols) for member in self.members.values())

    def select_protocol(self) -> str:
        """The assignor that most members prefer, of those that all support; among equals the one voted for first."""
        first = next(iter(self.members.values()))
        candidates = [name for name, _ in first.protocols if self._is_supported(name)]
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = member.vote(candidates)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=votes.__getitem__)

    def validate_member(
        self, member_id: str, group_instance_id: str | None, defects: Collection[str] = ()
    ) -> KafkaError:
        """NONE, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has the instance id now."""
        if group_instance_id is not None:
            existing = self.static_members.get(group_instance_id)
            if existing is None:
                return KafkaError.UNKNOWN_MEMBER_ID
            if existing != member_id:
                untold = "fenced-told-as-unknown" in defects
                return KafkaError.UNKNOWN_MEMBER_ID if untold else KafkaError.FENCED_INSTANCE_ID
        return KafkaError.NONE if member_id in self.members else KafkaError.UNKNOWN_MEMBER_ID

    def accepts(self, member_id: str, max_size: int) -> bool:
        """Whether the group has a place for who joins, "" somebody new."""
        if self.state in (EMPTY, DEAD):
            return True
        member = self.members.get(member_id)
        has_place = member is not None and (self.state != PREPARING_REBALANCE or bool(member.awaiting_join))
        return has_place or self.size < max_size

    @property
    def size(self) -> int:
        """Members that have joined the rebalance that is under way or, without one, all of them."""
        return self.awaiting_join if self.state == PREPARING_REBALANCE else len(self.members)

    def is_subscribed(self, topic: str) -> bool:
        """Whether the members read a topic, as far as the coordinator can tell."""
        return self.uses_consumer_protocol if self.subscribed_topics is None else topic in self.subscribed_topics

    def current_members(self) -> list[JoinGroupResponse.JoinGroupResponseMember]:
        """What the leader is told of everybody."""
        assert self.protocol is not None
        return [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol),
            )
            for member in self.members.values()
        ]

    # ---- members -----------------------------------------------------------------------------------------

    def add(self, member: GroupMember) -> None:
        """A member joins for the first time, or is loaded. The first one makes the group of its protocol type, and
        leads it."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, "one member to an instance id"
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._no_longer_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """A member, or a member id that was given out, is gone; who came next leads."""
        removed = self.members.pop(member_id, None)
        if removed is not None and removed.group_instance_id is not None:
            del self.static_members[removed.group_instance_id]
        if self.is_leader(member_id):
            self.leader = next(iter(self.members), None)
        self._no_longer_pending(member_id)
        if member_id in self.pending_sync:
            self.pending_sync.remove(member_id)

    def _no_longer_pending(self, member_id: str) -> None:
        if member_id in self.pending_join:
            self.pending_join.remove(member_id)

    def replace_static_member(self, group_instance_id: str, old: str, new: str) -> GroupMember:
        """The instance comes back under a new member id, and has its former assignment: the new member. Whoever waits
        under the old id was answered before."""
        removed = self.members.pop(old)
        member = msgspec.structs.replace(removed, member_id=new, awaiting_join="", awaiting_sync="", is_new=False)
        self.members[new] = member
        if self.is_leader(old):
            self.leader = new
        self.static_members[group_instance_id] = new
        return member

    def maybe_elect_new_joined_leader(self) -> bool:
        """Whether the leader has joined, or somebody who has and who leads from now on."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join:
            return True
        for member in self.members.values():
            if member.awaiting_join:
                self.leader = member.member_id
                return True
        return False

    # ---- transitions -------------------------------------------------------------------------------------

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Go into another state; ``now_ms`` of the wall clock. AssertionError where the table has no such way."""
        assert self.state in PREVIOUS[state], f"group {self.group_id}: from {self.state} to {state}"
        self.previous_state, self.state, self.state_timestamp_ms = self.state, state, now_ms

    def compute_subscribed_topics(self) -> list[str] | None:
        """All topics that the members name in the metadata for the assignor in use; None if that cannot be told."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return []
        if self.protocol is None:
            return None
        topics: dict[str, bool] = {}
        for member in self.members.values():
            try:
                subscription = from_bytes(ConsumerProtocolSubscription, member.metadata(self.protocol))
            except DecodeError:
                return None
            topics |= dict.fromkeys(subscription.topics, True)
        return sorted(topics)
