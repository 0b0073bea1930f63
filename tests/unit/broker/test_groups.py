"""The parts of the group coordinator that need no broker: tables, hashes, votes, records, what is committed."""

from __future__ import annotations

from typing import get_args

import pytest

from actors.broker.coordinator_common.partitions import _abs, java_hash_code
from actors.broker.coordinator_common.writes import coordinator_error
from actors.broker.group_coordinator import records
from actors.broker.group_coordinator.group import ClassicGroup, GroupMember
from actors.broker.group_coordinator.group_state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    PREVIOUS,
    STABLE,
)
from actors.broker.group_coordinator.offset_metadata import OffsetAndMetadata, OffsetChange, Offsets
from actors.node.errors import KafkaError, traits
from actors.trace.group_events import GroupState


def member(member_id: str, *protocols: str, instance: str | None = None) -> GroupMember:
    """A member that supports these assignors, the preferred one first."""
    return GroupMember(member_id, instance, "client", 60000, 10000, "consumer", [(name, b"") for name in protocols])


def group(*members: GroupMember) -> ClassicGroup:
    """A group with these members."""
    made = ClassicGroup("g", state=PREPARING_REBALANCE)
    for each in members:
        made.add(each)
    return made


def test_every_state_has_its_ways() -> None:
    """Shows that the table has every state, and that a group goes only by it (``ClassicGroupTest``:
    testCanRebalanceWhenStable, testStableToDeadTransition, testEmptyToStableIllegalTransition, ...)."""
    states = get_args(GroupState)
    assert set(PREVIOUS) == set(states)
    for target in states:
        for state in states:
            made = ClassicGroup("g", state=state)
            if state in PREVIOUS[target]:
                made.transition_to(target, 7)
                assert (made.state, made.previous_state, made.state_timestamp_ms) == (target, state, 7)
            else:
                with pytest.raises(AssertionError):
                    made.transition_to(target, 7)
    assert PREVIOUS[STABLE] == (COMPLETING_REBALANCE,)
    assert DEAD not in PREVIOUS[EMPTY]


def test_java_hash_code() -> None:
    """Shows that groups lie where Kafka puts them; the hash codes are those of a JVM."""
    known = {
        "": 0,
        "a": 97,
        "abc": 96354,
        "hello world": 1794106052,
        "polygenelubricants": -(2**31),
        "\U0001f600": 1772899,
    }
    assert {text: java_hash_code(text) for text in known} == known
    assert [_abs(number) for number in (-(2**31), -5, 5)] == [0, 5, 5]


def test_the_protocol_is_voted_for() -> None:
    """Shows that the assignor is one that all support, and that most prefer (``ClassicGroupTest.testSelectProtocol``,
    testSelectProtocolChoosesCompatibleProtocol)."""
    made = group(member("a", "range", "roundrobin"))
    assert made.select_protocol() == "range"
    made.add(member("b", "roundrobin", "range"))
    assert made.select_protocol() == "range"
    made.add(member("c", "roundrobin", "range"))
    assert made.select_protocol() == "roundrobin"
    made.add(member("d", "range", "sticky"))
    assert made.select_protocol() == "range"


def test_who_fits_in() -> None:
    """Shows which protocols a group takes (``ClassicGroupTest.testSupportsProtocols``)."""
    empty = ClassicGroup("g")
    assert not empty.supports_protocols("consumer", [])
    assert not empty.supports_protocols("", [("range", b"")])
    assert empty.supports_protocols("connect", [("range", b"")])
    made = group(member("a", "range", "roundrobin"), member("b", "roundrobin"))
    assert made.supports_protocols("consumer", [("roundrobin", b"")])
    assert not made.supports_protocols("consumer", [("range", b"")])
    assert not made.supports_protocols("connect", [("roundrobin", b"")])


def test_the_leader_is_who_is_there() -> None:
    """Shows who leads: the first member; after it the next; and of those who joined one, if the leader did not
    (``ClassicGroupTest.testElectNewJoinedLeader``)."""
    made = group(member("a", "range"), member("b", "range", instance="i"), member("c", "range"))
    assert made.leader == "a"
    made.remove("a")
    assert made.leader == "b"
    assert not made.maybe_elect_new_joined_leader()
    made.members["c"].awaiting_join = "c"
    assert made.maybe_elect_new_joined_leader()
    assert made.leader == "c"


def test_static_members() -> None:
    """Shows that an instance id has one member, which another one replaces and fences
    (``ClassicGroupTest.testReplaceGroupInstance``)."""
    made = group(member("a", "range", instance="i"))
    assert made.validate_member("a", "i") == KafkaError.NONE
    made.members["a"].assignment = b"mine"
    assert made.replace_static_member("i", "a", "b").assignment == b"mine"
    assert made.leader == "b"
    assert made.validate_member("a", "i") == KafkaError.FENCED_INSTANCE_ID
    assert made.validate_member("a", None) == KafkaError.UNKNOWN_MEMBER_ID
    assert made.validate_member("b", "j") == KafkaError.UNKNOWN_MEMBER_ID


def test_records_and_back() -> None:
    """Shows that what the log has of a group and of an offset is what was written, a metadata epoch too; a value that
    was written without one reads -1."""
    made = group(member("a", "range", instance="i"), member("b", "range"))
    made.protocol, made.generation = "range", 3
    record = records.group_metadata(made, {"a": b"x"}).encode(5, "u")
    decoded = records.decode(record)
    assert decoded.key.group_metadata is not None
    assert not isinstance(decoded.value, records.OffsetCommitValue)
    assert decoded.value is not None
    loaded = records.group_of("g", decoded.value, 9)
    assert (loaded.state, loaded.generation, loaded.leader) == (STABLE, 3, "a")
    assert {each.member_id: each.assignment for each in loaded.members.values()} == {"a": b"x", "b": b""}
    assert loaded.static_members == {"i": "a"}
    for value in (OffsetAndMetadata(5, 2, "m", 7, 8, "id", 9), OffsetAndMetadata(5)):
        found = records.decode(records.offset_commit("g", "orders-with-dash-0", value).encode(5, "u"))
        assert isinstance(found.value, records.OffsetCommitValue)
        assert records.offset_commit("g", "orders-with-dash-0", value) == found
    assert OffsetAndMetadata(5).to_value().metadata_epoch == -1
    assert records.decode(records.group_tombstone("g").encode(5, "u")).value is None


def test_what_is_committed() -> None:
    """Shows that others are told only what lies below the high watermark, tombstones included."""
    offsets = Offsets()
    offsets.write(OffsetChange(0, "g", "orders-0", OffsetAndMetadata(5)))
    offsets.write(OffsetChange(1, "g", "orders-0", OffsetAndMetadata(6)))
    offsets.write(OffsetChange(2, "g", "orders-0", None))
    assert offsets.written == {}
    seen = []
    for high_watermark in (0, 1, 2, 3):
        offsets.advance(high_watermark)
        seen.append(offsets.committed.get("g", {}).get("orders-0"))
    assert seen == [None, OffsetAndMetadata(5), OffsetAndMetadata(6), None]


def test_what_clients_are_told_of_the_log() -> None:
    """Shows how errors of the offsets partition are told (``CoordinatorOperationExceptionHelperTest``)."""
    assert coordinator_error(KafkaError.REQUEST_TIMED_OUT) == KafkaError.COORDINATOR_NOT_AVAILABLE
    assert coordinator_error(KafkaError.NOT_LEADER_OR_FOLLOWER) == KafkaError.NOT_COORDINATOR
    assert coordinator_error(KafkaError.MESSAGE_TOO_LARGE) == KafkaError.UNKNOWN_SERVER_ERROR
    assert coordinator_error(KafkaError.ILLEGAL_GENERATION) == KafkaError.ILLEGAL_GENERATION
    assert not traits(KafkaError.INVALID_METADATA_EPOCH).retriable
