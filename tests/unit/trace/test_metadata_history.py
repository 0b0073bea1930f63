"""What the trace tells of the metadata log: what stands, and what was lost with the controller that appended it."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from actors.trace.events import QRole
from actors.trace.metadata_history import NOBODY, Elections, History, NewestController


class Record(msgspec.Struct, frozen=True):
    """One of the metadata log."""

    quorum_epoch: int
    offset: int


def leads(epoch: int, log_end: int, log_epoch: int = -1) -> QRole:
    """A controller is elected."""
    return QRole("directory", epoch, "leader", 101, log_end, log_epoch=log_epoch)


def test_what_a_replaced_leader_appended_behind_its_successors_log_is_lost() -> None:
    """Shows that a record is lost where the log of a later leader ended before it, whichever of the two is heard of
    first; and that what was before it holds again."""
    stands, lost = Record(1, 10), Record(1, 12)
    for order in itertools.permutations([stands, lost, leads(2, 12)]):
        elections, history = Elections(), History[Record](8)
        for each in order:
            if isinstance(each, QRole):
                assert elections.take("controller-2", each)
                history.forget_lost(elections)
            else:
                history.add(each, elections)
        assert history.records == [stands]
        assert history.newest is stands


def test_what_the_next_leader_has_kept_stands_again() -> None:
    """Shows that a leader from which nobody copied takes nothing away for good: a record that its log lacked stands
    where the next leader's log ends in that record's epoch, behind it; and what that leader alone appended is lost."""
    kept, beyond, of_second = Record(1, 12), Record(1, 14), Record(2, 10)
    for order in itertools.permutations([kept, beyond, of_second, leads(2, 10, 1), leads(3, 14, 1)]):
        elections, history = Elections(), History[Record](8)
        for each in order:
            if isinstance(each, QRole):
                elections.take("controller-2", each)
                history.forget_lost(elections)
            else:
                history.add(each, elections)
        assert (history.records, history.lost) == ([kept], [beyond, of_second])
    elections, history = Elections(), History[Record](8)
    assert history.add(kept, elections) and not history.forget_lost(elections)
    for role, newest in (
        (leads(2, 10, 1), None),
        (leads(3, 14, 1), kept),
        (leads(4, 14, 3), kept),
        (leads(5, 11, 2), None),
    ):
        elections.take("controller-2", role)
        assert history.forget_lost(elections) is (role.epoch != 4)
        assert history.newest is newest
    history.keep(lambda each: each.offset > 12)
    elections.take("controller-1", leads(6, 20, 1))
    assert not history.forget_lost(elections)


def test_the_log_of_a_leader_is_made_of_those_before_it() -> None:
    """Shows that what a leader's log has of older leaders is what its last record's leader had of them; where it is not
    known who appended that, what it has are all records before its end."""
    elections = Elections()
    for each in (leads(1, 0, 0), leads(2, 10, 1), leads(4, 20, 2), leads(5, 18, 2)):
        elections.take("controller-1", each)
    stands = [Record(1, 9), Record(2, 17), Record(5, 18), Record(6, 9)]
    lost = [Record(1, 10), Record(2, 18), Record(3, 12), Record(4, 20)]
    assert [elections.is_lost(each) for each in (*stands, *lost)] == [False] * 4 + [True] * 4
    elections.take("controller-1", leads(5, 19, 5))
    assert elections.is_lost(Record(4, 19)) and not elections.is_lost(Record(5, 19)), "somebody leads twice in an epoch"
    elections.take("controller-1", leads(8, 30, 7))
    assert not elections.is_lost(Record(6, 29)) and elections.is_lost(Record(6, 30))


def test_a_leaders_own_records_and_those_of_later_ones_stand() -> None:
    """Shows that an election takes nothing from the leader that is elected, nor from later ones."""
    elections = Elections()
    elections.take("controller-1", leads(3, 20))
    assert not elections.is_lost(Record(3, 20))
    assert not elections.is_lost(Record(4, 30))
    assert not elections.is_lost(Record(2, 19))
    assert elections.is_lost(Record(2, 20))


def test_records_are_in_the_order_of_the_log() -> None:
    """Shows that the newest is the last of the log, not the one heard of last, and that only so many are kept."""
    elections, history = Elections(), History[Record](2)
    assert history.newest is None
    assert history.add(Record(2, 5), elections)
    assert not history.add(Record(1, 9), elections)
    assert history.add(Record(2, 6), elections)
    assert history.records == [Record(2, 5), Record(2, 6)]
    assert not history.forget_lost(elections)


def test_who_never_led_appends_in_no_epoch() -> None:
    """Shows the epoch that a controller led last, also when it leads no more; one that never did has none."""
    elections = Elections()
    assert elections.epoch_of("controller-1") == NOBODY
    elections.take("controller-1", leads(5, 0))
    assert not elections.take("controller-1", QRole("directory", 6, "follower", 102, 9))
    assert elections.epoch_of("controller-1") == 5


@pytest.mark.parametrize(("epochs", "believed"), [([1, 1, 2], [True] * 3), ([2, 1, 2, 3], [True, False, True, True])])
def test_a_controller_that_was_replaced_is_not_believed(epochs: list[int], believed: list[bool]) -> None:
    """Shows that what an older controller goes on to say is told from what the newest says."""
    newest = NewestController()
    assert [newest.says(each) for each in epochs] == believed
