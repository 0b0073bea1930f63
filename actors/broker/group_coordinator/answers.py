"""Answers of members that wait for the other members: JoinGroup and SyncGroup."""

from __future__ import annotations

from actors.broker.group_coordinator.group import GroupMember
from actors.broker.turn import Turn
from actors.node.messages import AnyResponse, check_fields
from actors.node.purgatory import NEVER_MS, DelayedOperation, Key
from krift.v1.groups import JoinGroupResponse, SyncGroupResponse

WITH_PROTOCOL_TYPE = 7
"""First version of JoinGroup whose answer has the protocol type, and may have no protocol."""
WITH_INSTANCE_ID = 5
SYNC_WITH_PROTOCOL = 5


class DelayedRebalance(DelayedOperation):
    """A JoinGroup or SyncGroup that waits. Its group knows of it, and says when that is over; a client that is gone is
    answered nothing."""

    version: int

    def try_complete(self, context: Turn, key: Key) -> bool:
        """Its group completes it by name."""
        return False


def park(turn: Turn, connection: str, version: int) -> None:
    """Let a JoinGroup or SyncGroup wait for its group."""
    turn.purgatory.park(turn.step, DelayedRebalance(connection, NEVER_MS, version))


def _complete(turn: Turn, connection: str) -> int | None:
    operation = turn.purgatory.remove(connection)
    if operation is None:
        return None
    assert isinstance(operation, DelayedRebalance)
    return operation.version


def answer_join(turn: Turn, member: GroupMember, response: JoinGroupResponse) -> bool:
    """Answer the JoinGroup of a member that waits for that; whether it did."""
    connection, member.awaiting_join = member.awaiting_join, ""
    version = _complete(turn, connection) if connection else None
    if version is not None:
        reply_join(turn, connection, version, response)
    return bool(connection)


def reply_join(turn: Turn, connection: str, version: int, response: JoinGroupResponse) -> None:
    """Send the answer to a JoinGroup."""
    if version < WITH_PROTOCOL_TYPE:
        response.protocol_type = None
        response.protocol_name = response.protocol_name or ""
    if version < WITH_INSTANCE_ID:
        for member in response.members:
            member.group_instance_id = None
    _reply(turn, connection, version, response)


def answer_sync(turn: Turn, member: GroupMember, response: SyncGroupResponse) -> bool:
    """Answer the SyncGroup of a member that waits for that; whether it did."""
    connection, member.awaiting_sync = member.awaiting_sync, ""
    version = _complete(turn, connection) if connection else None
    if version is not None:
        reply_sync(turn, connection, version, response)
    return bool(connection)


def reply_sync(turn: Turn, connection: str, version: int, response: SyncGroupResponse) -> None:
    """Send the answer to a SyncGroup."""
    if version < SYNC_WITH_PROTOCOL:
        response.protocol_type = response.protocol_name = None
    _reply(turn, connection, version, response)


def _reply(turn: Turn, connection: str, version: int, response: AnyResponse) -> None:
    check_fields(response, version)
    turn.step.reply(connection, response)
