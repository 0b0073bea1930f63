"""Being a member of a group: joining, heartbeats, leaving (``AbstractCoordinator.java``, ``Heartbeat.java``)."""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.client.coordinator_lookup import COORDINATOR
from actors.node.errors import KafkaError, traits
from actors.node.messages import Api
from actors.node.network_client import Ended, NetworkClient
from actors.node.step import Step
from actors.trace.events import ErrorSeen
from krift.v1.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)

JOIN = "group/join"
SYNC = "group/sync"
HEARTBEAT = "group/heartbeat"
LEAVE = "group/leave"
REJOIN = "group/rejoin"
"""Timer: the pause after a failed attempt to join."""

CONSUMER = "consumer"
"""The protocol type."""
JOIN_GROUP_TIMEOUT_LAPSE_MS = 5000

E = KafkaError
_AT_ONCE = (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.REBALANCE_IN_PROGRESS, E.MEMBER_ID_REQUIRED)
"""After these errors a member joins again without a pause."""
_LOST_PLACE = (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.FENCED_INSTANCE_ID)

MemberState = Literal["UNJOINED", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE"]


class Generation(msgspec.Struct, frozen=True):
    """Of a group as its member knows it. ``id`` -1, ``member`` "": none."""

    id: int = -1
    member: str = ""
    protocol: str = ""


NO_GENERATION = Generation()


class GroupSettings(msgspec.Struct, frozen=True):
    """What a member is configured with; times in milliseconds. ``instance``: group.instance.id, "" a dynamic member."""

    group: str = ""
    instance: str = ""
    session_ms: int = 45000
    rebalance_ms: int = 300000
    heartbeat_ms: int = 3000
    backoff_ms: int = 100
    request_timeout_ms: int = 30000
    leave_on_close: bool = True


class GroupMembership(msgspec.Struct):
    """See the module. Whoever owns it knows the coordinator, and acts upon the error codes that it returns.

    joining: the call of the attempt to join that is under way, 0 none; calls: those that are under way, with the
    generation in which they were sent. pausing: the pause after a failed attempt is not over. needs_prepare: what is
    owned has to be committed and given up before the next attempt. fatal: code of the error that ended the membership
    for good, 0 none. due_ms, session_end_ms, poll_end_ms: when the next heartbeat is due, when the coordinator has been
    silent for too long, and when the application has.
    """

    settings: GroupSettings = msgspec.field(default_factory=GroupSettings)
    state: MemberState = "UNJOINED"
    generation: Generation = NO_GENERATION
    rejoin_needed: bool = True
    rejoin_reason: str = ""
    needs_prepare: bool = True
    joining: int = 0
    pausing: bool = False
    fatal: int = 0
    calls: dict[int, Generation] = {}
    due_ms: int = 0
    session_end_ms: int = 0
    poll_end_ms: int = 0

    @property
    def joined(self) -> bool:
        """Whether it sends heartbeats."""
        return self.state in ("COMPLETING_REBALANCE", "STABLE")

    @property
    def settled(self) -> bool:
        """Whether it has its assignment and need not join again, as far as it knows."""
        return self.state == "STABLE" and not self.rejoin_needed and not self.joining

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next opportunity."""
        self.rejoin_needed, self.rejoin_reason = True, reason

    def reset(self, reason: str, forget_member: bool) -> None:
        """It is no member of any generation any more (``resetStateAndRejoin``)."""
        self.state = "UNJOINED"
        self.generation = NO_GENERATION if forget_member else Generation(member=self.generation.member)
        self.needs_prepare = True
        self.request_rejoin(reason)

    # ---- joining ------------------------------------------------------------------------------------------

    def send_join(self, step: Step, net: NetworkClient, peer: str, protocols: list[tuple[str, bytes]]) -> None:
        """``protocols``: name and subscription of each assignor, the preferred one first."""
        version = self._version(net, peer, Api.JoinGroup, 5)
        if version is None:
            return
        settings = self.settings
        request = JoinGroupRequest(group_id=settings.group, session_timeout_ms=settings.session_ms)
        request.member_id = self.generation.member
        request.protocol_type = CONSUMER
        for name, metadata in protocols:
            request.protocols.append(JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata))
        if version >= 1:
            request.rebalance_timeout_ms = settings.rebalance_ms
        if settings.instance:
            request.group_instance_id = settings.instance
        if version >= 8:
            request.reason = self.rejoin_reason
        self.state = "PREPARING_REBALANCE"
        timeout = max(settings.request_timeout_ms, settings.rebalance_ms + JOIN_GROUP_TIMEOUT_LAPSE_MS)
        self.joining = net.send(step, peer, COORDINATOR, request, version, JOIN, timeout)
        self.calls[self.joining] = self.generation

    def _version(self, net: NetworkClient, peer: str, api: Api, static: int) -> int | None:
        """``static``: first version that a static member can be told by (``UnsupportedVersionException`` below)."""
        version = net.version(peer, COORDINATOR, api)
        if version is None or (self.settings.instance and version < static):
            self.fatal = E.UNSUPPORTED_VERSION
            return None
        return version

    def on_joined(self, step: Step, ended: Ended) -> tuple[int, JoinGroupResponse | None]:
        """Take the end of a JoinGroup; returns its error, and the answer if the member is to go on with SyncGroup."""
        sent = self.calls.pop(ended.call, None)
        if sent is None:
            return 0, None
        self.joining = 0
        response: JoinGroupResponse | None = ended.response
        error = E.NETWORK_EXCEPTION if response is None else response.error_code
        if error:
            step.record(ErrorSeen("", Api.JoinGroup.name, ended.version, error, ended.peer))
        if error == E.UNKNOWN_MEMBER_ID and self.generation == sent:
            self.reset("encountered UNKNOWN_MEMBER_ID from JOIN_GROUP response", forget_member=True)
        elif error == E.MEMBER_ID_REQUIRED and response is not None:
            self.generation = Generation(member=response.member_id)
            self.request_rejoin(f"need to re-join with the given member-id: {response.member_id}")
        elif not error and response is not None and (response.protocol_type or CONSUMER) != CONSUMER:
            error = E.INCONSISTENT_GROUP_PROTOCOL
        elif not error and self.state != "PREPARING_REBALANCE":
            error = E.ILLEGAL_GENERATION
        if error or response is None:
            self.join_failed(step, error)
            return error, None
        self.state = "COMPLETING_REBALANCE"
        self.due_ms = step.now_ms + self.settings.heartbeat_ms
        self.session_end_ms = step.now_ms + self.settings.session_ms
        self.polled(step.now_ms)
        self.generation = Generation(response.generation_id, response.member_id, response.protocol_name or "")
        return 0, response

    def join_failed(self, step: Step, error: int) -> None:
        """An attempt to join came to nothing."""
        self.joining = 0
        if error != E.MEMBER_ID_REQUIRED:
            self.request_rejoin(f"rebalance failed due to {E(error).name}")
        if error in _AT_ONCE:
            return
        if not traits(error).retriable:
            self.fatal = error
            return
        self.pausing = True
        step.set_timer(REJOIN, self.settings.backoff_ms)

    def on_pause_over(self) -> None:
        """The pause after a failed attempt is over."""
        self.pausing = False

    def send_sync(self, step: Step, net: NetworkClient, peer: str, assignments: dict[str, bytes]) -> None:
        """``assignments``: by member id; {} unless it leads."""
        version = self._version(net, peer, Api.SyncGroup, 3)
        if version is None:
            return
        request = SyncGroupRequest(group_id=self.settings.group, generation_id=self.generation.id)
        request.member_id = self.generation.member
        if self.settings.instance:
            request.group_instance_id = self.settings.instance
        if version >= 5:
            request.protocol_type, request.protocol_name = CONSUMER, self.generation.protocol
        for member, assignment in assignments.items():
            part = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            request.assignments.append(part)
        self.joining = net.send(step, peer, COORDINATOR, request, version, SYNC)
        self.calls[self.joining] = self.generation

    def on_synced(self, step: Step, ended: Ended) -> tuple[int, bytes | None]:
        """Take the end of a SyncGroup; returns its error, and the assignment if it has one."""
        sent = self.calls.pop(ended.call, None)
        if sent is None:
            return 0, None
        self.joining = 0
        error = E.NETWORK_EXCEPTION if ended.response is None else ended.response.error_code
        if error:
            step.record(ErrorSeen("", Api.SyncGroup.name, ended.version, error, ended.peer))
        if error in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION) and self.generation == sent:
            forget = error != E.ILLEGAL_GENERATION
            self.reset(f"encountered {E(error).name} from SYNC_GROUP response", forget)
        elif not error and (self.generation.id < 0 or self.state != "COMPLETING_REBALANCE"):
            error = E.ILLEGAL_GENERATION
        elif not error and (ended.response.protocol_name or self.generation.protocol) != self.generation.protocol:
            error = E.INCONSISTENT_GROUP_PROTOCOL
        if error:
            self.join_failed(step, error)
            return error, None
        self.state, self.rejoin_needed, self.rejoin_reason = "STABLE", False, ""
        self.needs_prepare = True
        assignment: bytes = ended.response.assignment
        return 0, assignment

    # ---- heartbeats ---------------------------------------------------------------------------------------

    def polled(self, now_ms: int) -> None:
        """The application called poll."""
        self.poll_end_ms = now_ms + self.settings.rebalance_ms

    def send_heartbeat(self, step: Step, net: NetworkClient, peer: str) -> None:
        """Say that it is alive."""
        seldom = "heartbeats-once-a-session" in step.defects
        self.due_ms = step.now_ms + (self.settings.session_ms if seldom else self.settings.heartbeat_ms)
        version = self._version(net, peer, Api.Heartbeat, 3)
        if version is None:
            return
        request = HeartbeatRequest(group_id=self.settings.group, generation_id=self.generation.id)
        request.member_id = self.generation.member
        if self.settings.instance:
            request.group_instance_id = self.settings.instance
        self.calls[net.send(step, peer, COORDINATOR, request, version, HEARTBEAT)] = self.generation

    def on_heartbeat(self, step: Step, ended: Ended) -> int:
        """Take the end of a heartbeat; returns its error."""
        sent = self.calls.pop(ended.call, None)
        if sent is None:
            return 0
        error = E.NETWORK_EXCEPTION if ended.response is None else ended.response.error_code
        if not error or error == E.REBALANCE_IN_PROGRESS:
            self.session_end_ms = step.now_ms + self.settings.session_ms
        else:
            self.due_ms = step.now_ms + self.settings.backoff_ms
        if error:
            step.record(ErrorSeen("", Api.Heartbeat.name, ended.version, error, ended.peer))
        if error == E.REBALANCE_IN_PROGRESS and self.state == "STABLE" and "rebalance-unheard" not in step.defects:
            self.request_rejoin("group is already rebalancing")
        elif error in _LOST_PLACE and self.generation == sent:
            self.reset(f"encountered {E(error).name} from HEARTBEAT response", error != E.ILLEGAL_GENERATION)
            if error == E.FENCED_INSTANCE_ID:
                self.fatal = error
        return error

    # ---- leaving ------------------------------------------------------------------------------------------

    def leave(self, step: Step, net: NetworkClient, peer: str, reason: str) -> int:
        """Tell the coordinator, if it knows of a dynamic member here; returns the call, 0 none. ``peer``: "" where the
        coordinator is unknown."""
        call = 0
        known = peer and self.state != "UNJOINED" and self.generation.member
        version = net.version(peer, COORDINATOR, Api.LeaveGroup) if known and not self.settings.instance else None
        if version is not None:
            request = LeaveGroupRequest(group_id=self.settings.group)
            if version >= 3:
                member = LeaveGroupRequest.MemberIdentity(member_id=self.generation.member)
                if version >= 5:
                    member.reason = reason
                request.members.append(member)
            else:
                request.member_id = self.generation.member
            call = net.send(step, peer, COORDINATOR, request, version, LEAVE)
        self.reset("consumer pro-actively leaving the group", forget_member=True)
        return call
