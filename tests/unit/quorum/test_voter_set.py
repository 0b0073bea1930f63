"""Voter sets and their history in the log (KIP-853)."""

from __future__ import annotations

import pytest

from actors.log.batch import EMPTY_PREFIX_HASH, Batch, LogRecord, make_batch
from actors.quorum.control_records import BOOTSTRAP_OFFSET, ControlRecords
from actors.quorum.voter_set import ReplicaKey, VoterNode, VoterSet, endpoint, voters_of_record
from krift.v1.records import ControlRecord, KRaftVersionRecord, LeaderChangeMessage
from krift.v1.wire import to_bytes


def a_set(*directories: str) -> VoterSet:
    """Voters 101, 102, ... with these directories."""
    nodes = {101 + index: VoterNode(directory, 0, 1, f"host-{index}") for index, directory in enumerate(directories)}
    return VoterSet(list(nodes), nodes)


def test_a_voter_is_its_id_and_its_directory_where_the_set_has_that() -> None:
    """Shows that another directory of the same id is no voter, unless the directory is unknown."""
    assert a_set("a").has(ReplicaKey(101, "a")) and not a_set("a").has(ReplicaKey(101, "b"))
    assert not a_set("a").has(ReplicaKey(101)) and not a_set("a").has(ReplicaKey(102, "a"))
    assert VoterSet([101]).has(ReplicaKey(101, "b")) and VoterSet([101]).is_only_voter(ReplicaKey(101, "b"))
    assert not a_set("a").is_only_voter(ReplicaKey(101, "b")) and not a_set("a", "b").is_only_voter(
        ReplicaKey(101, "a")
    )


def test_one_voter_comes_goes_or_changes() -> None:
    """Shows what makes another set, and what makes none."""
    pair, node = a_set("a", "b"), VoterNode("c", 0, 1, "host-2")
    assert pair.add_voter(103, node) == a_set("a", "b", "c")
    assert pair.add_voter(102, node) is None
    assert a_set("a", "b", "c").remove_voter(ReplicaKey(103, "c")) == pair
    assert pair.remove_voter(ReplicaKey(102, "x")) is None and pair.remove_voter(ReplicaKey(104, "x")) is None
    assert a_set("a").remove_voter(ReplicaKey(101, "a")) is None, "the last one stays"
    moved = pair.update_voter(102, VoterNode("b", 0, 1, "elsewhere"))
    assert moved is not None and moved.endpoint(102) == endpoint(102, "elsewhere") and moved.ids == pair.ids
    assert pair.update_voter(102, VoterNode("x")) is None and pair.update_voter(103, VoterNode("c")) is None


def test_a_record_has_all_of_a_set() -> None:
    """Shows that a set survives being written down."""
    assert voters_of_record(a_set("a", "b").to_record()) == a_set("a", "b")


def test_sets_that_differ_by_one_share_a_voter_in_every_two_majorities() -> None:
    """Shows that one voter may come and one go, no more; another directory is both."""
    assert a_set("a", "b").has_overlapping_majority(a_set("a", "b", "c"))
    assert a_set("a", "b", "c").has_overlapping_majority(a_set("a", "b", "x"))
    assert not a_set("a", "b", "c").has_overlapping_majority(a_set("a", "x", "y"))
    assert not a_set("a").has_overlapping_majority(a_set("a", "b", "c"))


# ---- the history -------------------------------------------------------------------------------------------


def batch(offset: int, epoch: int, *records: ControlRecord, control: bool = True) -> Batch:
    """A batch with these records."""
    lines = [LogRecord(0, value=to_bytes(record)) for record in records]
    return make_batch(EMPTY_PREFIX_HASH, offset, epoch, lines, is_control=control)


def voters(*directories: str) -> ControlRecord:
    """A VotersRecord."""
    return ControlRecord(voters=a_set(*directories).to_record())


def a_history() -> ControlRecords:
    """Formatted with two voters; a leader wrote that down at 2, a third voter came at 7."""
    records = ControlRecords()
    records.load(BOOTSTRAP_OFFSET, 0, a_set("a", "b"), 1)
    level = ControlRecord(k_raft_version=KRaftVersionRecord(k_raft_version=1))
    assert records.append(batch(0, 1, ControlRecord(leader_change=LeaderChangeMessage()), level, voters("a", "b")))
    assert not records.append(batch(3, 1, voters("x"), control=False)), "what looks like one is none in another batch"
    assert records.append(batch(7, 2, voters("a", "b", "c")))
    return records


def test_the_last_record_is_in_force_until_it_is_cut_off() -> None:
    """Shows that the history goes with the log: forward as it is appended, back as it is truncated."""
    records = a_history()
    assert records.voters == a_set("a", "b", "c") and records.kraft_version == 1
    assert not records.truncate_new(8)
    assert records.truncate_new(7)
    assert records.voters == a_set("a", "b") and records.last_voters is not None and records.last_voters.offset == 2
    assert records.truncate_new(0) and records.kraft_version == 1
    assert records.last_voters is not None and records.last_voters.offset == BOOTSTRAP_OFFSET


def test_what_held_at_an_offset_is_known_as_long_as_it_is_kept() -> None:
    """Shows that a snapshot finds the voters of its own end, and what is forgotten with the log before it."""
    records = a_history()
    at = [records.voters_at(offset) for offset in (-1, 2, 6, 7)]
    assert [entry.offset for entry in at if entry is not None] == [BOOTSTRAP_OFFSET, 2, 2, 7]
    nothing = ControlRecords()
    nothing.truncate_old(9)
    assert nothing == ControlRecords() and nothing.voters_at(9) is None and ControlRecords().kraft_version_at(9) == 0
    assert [records.kraft_version_at(offset) for offset in (0, 1)] == [1, 1]
    records.truncate_old(6)
    assert [entry.offset for entry in records.voter_sets] == [2, 7] and len(records.kraft_versions) == 1
    records.truncate_old(7)
    assert [entry.offset for entry in records.voter_sets] == [7] and records.kraft_version == 1


def test_a_snapshot_takes_the_place_of_the_history() -> None:
    """Shows that nothing of what was before is left, and that a directory may be formatted without voters."""
    records = a_history()
    records.load(20, 3, a_set("a"), 1)
    assert records.voters == a_set("a") and records.voters_at(7) is None
    records.load(BOOTSTRAP_OFFSET, 0, VoterSet(), 0)
    assert records.last_voters is None and records.voters == VoterSet()


def test_sets_that_could_decide_without_one_another_never_follow_each_other() -> None:
    """Shows that such a record is a bug, and told of as one."""
    with pytest.raises(AssertionError, match="cannot be followed"):
        a_history().append(batch(8, 2, voters("a", "y", "z")))
