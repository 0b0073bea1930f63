"""Q1, Q2, Q3, Q8 and Q9: the quorum."""

from __future__ import annotations

import pytest

from actors.node.spec import METADATA_PARTITION
from tests.unit.invariants.trace_builder import TraceBuilder

LEADER, FOLLOWER = "controller-1", "controller-2"


def voted(trace: TraceBuilder, node: str, epoch: int, candidate: int) -> str:
    """A vote as it should be: on disk before it is told."""
    trace.persist(node, epoch, voted=candidate)
    return trace.vote(node, epoch, candidate)


def committed(trace: TraceBuilder, *ends: int, node: str = LEADER, epoch: int = 1) -> None:
    """A leader's metadata log grows by one record to each end, and each is committed."""
    for end in ends:
        while trace.log_end(node, METADATA_PARTITION) < end:
            trace.append(node, "m", epoch=epoch, tp=METADATA_PARTITION)
        trace.high_watermark(node, end, epoch, METADATA_PARTITION)


# ---- Q1 --------------------------------------------------------------------------------------------------------


def test_one_leader_per_epoch_holds() -> None:
    """Shows that all who name one leader per epoch put Q1 to the test, also a zombie of an older epoch."""
    trace = TraceBuilder()
    trace.role(LEADER, 1, "leader", 101)
    trace.persist(FOLLOWER, 1, leader=101)
    trace.role(FOLLOWER, 2, "leader", 102)
    trace.role(LEADER, 1, "resigned", 101)
    result = trace.result("Q1")
    assert (result.status, result.tested) == ("held", 2)


def test_two_leaders_of_an_epoch() -> None:
    """Shows that a second leader of an epoch violates Q1, whoever tells of it, with both events as evidence."""
    trace = TraceBuilder()
    first = trace.role(LEADER, 7, "leader", 101)
    second = trace.persist("controller-2", 7, leader=103)
    result = trace.result("Q1")
    assert result.status == "violated"
    assert result.violations[0].events == [first, second]
    assert result.violations[0].sentence == (
        "the leader of quorum epoch 7 is controller-3 according to controller-2, and controller-1 according to "
        "controller-1"
    )


def test_an_epoch_without_a_known_leader_tests_nothing() -> None:
    """Shows that Q1 is vacuous where nobody names a leader."""
    trace = TraceBuilder()
    trace.role(LEADER, 7, "candidate")
    assert trace.result("Q1").status == "vacuous"


# ---- Q2 --------------------------------------------------------------------------------------------------------


def test_a_durable_vote_holds() -> None:
    """Shows that a vote on disk, told twice, and a vote in the next epoch are as promised."""
    trace = TraceBuilder()
    voted(trace, FOLLOWER, 7, 101)
    trace.vote(FOLLOWER, 7, 101)
    voted(trace, FOLLOWER, 8, 103)
    result = trace.result("Q2")
    assert (result.status, result.tested) == ("held", 3)


def test_two_votes_in_an_epoch() -> None:
    """Shows that a vote for somebody else in the same epoch violates Q2, over a restart too."""
    trace = TraceBuilder()
    first = voted(trace, FOLLOWER, 7, 101)
    trace.down(FOLLOWER)
    trace.up(FOLLOWER, "controller")
    second = voted(trace, FOLLOWER, 7, 103)
    result = trace.result("Q2")
    assert (result.status, result.violated) == ("violated", 1)
    assert result.violations[0].events == [first, second]
    assert result.violations[0].sentence == (
        "controller-2 granted its vote in epoch 7 to controller-3 after it had granted it to controller-1"
    )


def test_a_vote_before_the_disk_has_it() -> None:
    """Shows that a vote that is told before it is durable violates Q2, and so does another one on disk."""
    trace = TraceBuilder()
    early = trace.vote(FOLLOWER, 7, 101)
    result = trace.result("Q2")
    assert result.violations[0].events == [early]
    assert result.violations[0].sentence == (
        "controller-2 granted its vote in epoch 7 to controller-1 before the vote was on its disk"
    )
    other = TraceBuilder()
    other.persist(FOLLOWER, 7, voted=103)
    other.vote(FOLLOWER, 7, 101)
    assert other.result("Q2").violations[0].sentence.endswith("while its disk has a vote for controller-3")


def test_pre_votes_and_refusals_bind_nobody() -> None:
    """Shows that Q2 is about real votes alone."""
    trace = TraceBuilder()
    trace.vote(FOLLOWER, 7, 101, pre=True)
    trace.vote(FOLLOWER, 7, 103, granted=False)
    assert trace.result("Q2").status == "vacuous"


def test_a_wiped_voter_is_excused_once() -> None:
    """Shows that a wiped disk excuses a second vote in an epoch from before, and nothing that comes after it."""
    trace = TraceBuilder()
    voted(trace, FOLLOWER, 7, 101)
    trace.up(FOLLOWER, "controller", wiped=True)
    voted(trace, FOLLOWER, 7, 103)
    result = trace.result("Q2")
    assert (result.status, result.excused) == ("excused", {"wiped": 1})
    trace.vote(FOLLOWER, 7, 101)
    assert trace.result("Q2").status == "violated"


def with_directories() -> TraceBuilder:
    """A quorum at kraft.version 1."""
    return TraceBuilder(features={"kraft.version": "1"})


def test_another_directory_is_another_voter() -> None:
    """Shows that at kraft.version 1 a voter with another directory may vote in any epoch without an excuse, and one
    with the same directory has none, whatever the schedule did to it."""
    trace = with_directories()
    trace.up(FOLLOWER, "controller")
    voted(trace, FOLLOWER, 7, 101)
    trace.up(FOLLOWER, "controller", wiped=True, directory="another")
    voted(trace, FOLLOWER, 7, 103)
    result = trace.result("Q2")
    assert (result.status, result.tested, result.excused) == ("held", 2, {})
    trace.up(FOLLOWER, "controller", wiped=True, directory="another")
    voted(trace, FOLLOWER, 7, 101)
    assert trace.result("Q2").status == "violated"


# ---- Q3 --------------------------------------------------------------------------------------------------------


def test_rising_epochs_hold() -> None:
    """Shows that epochs that rise on disk before they are acted on, over a restart too, hold Q3."""
    trace = TraceBuilder()
    for epoch in (1, 1, 4):
        trace.persist(FOLLOWER, epoch)
        trace.role(FOLLOWER, epoch, "follower", 101)
    trace.up(FOLLOWER, "controller")
    trace.role(FOLLOWER, 4, "follower", 101)
    result = trace.result("Q3")
    assert (result.status, result.tested) == ("held", 6)


def test_an_epoch_that_goes_back() -> None:
    """Shows that a lower epoch on disk, and a role in an epoch that is not on disk, violate Q3."""
    trace = TraceBuilder()
    first = trace.persist(FOLLOWER, 7)
    second = trace.persist(FOLLOWER, 0)
    result = trace.result("Q3")
    assert result.violations[0].events == [first, second]
    assert result.violations[0].sentence == "controller-2 stored epoch 0 while its disk had epoch 7"
    early = TraceBuilder()
    early.persist(FOLLOWER, 7)
    early.role(FOLLOWER, 8, "candidate")
    assert early.result("Q3").violations[0].sentence == (
        "controller-2 became candidate in epoch 8 while its disk had epoch 7"
    )


def test_a_wiped_disk_excuses_one_step_back() -> None:
    """Shows that after a wipe the first epoch on disk may be any, and the next may not go back."""
    trace = TraceBuilder()
    trace.persist(FOLLOWER, 7)
    trace.up(FOLLOWER, "controller", wiped=True)
    trace.persist(FOLLOWER, 2)
    trace.persist(FOLLOWER, 8)
    result = trace.result("Q3")
    assert (result.status, result.excused) == ("excused", {"wiped": 1})
    trace.persist(FOLLOWER, 3)
    assert trace.result("Q3").status == "violated"


def test_epochs_of_another_directory() -> None:
    """Shows that at kraft.version 1 epochs begin anew with another directory, and go on with the same one."""
    trace = with_directories()
    trace.up(FOLLOWER, "controller")
    trace.persist(FOLLOWER, 7)
    trace.up(FOLLOWER, "controller", wiped=True, directory="another")
    trace.persist(FOLLOWER, 2)
    trace.persist(FOLLOWER, 3)
    result = trace.result("Q3")
    assert (result.status, result.tested, result.excused) == ("held", 1, {})
    trace.up(FOLLOWER, "controller", wiped=True, directory="another")
    trace.persist(FOLLOWER, 2)
    assert trace.result("Q3").status == "violated"


def test_a_first_epoch_tests_nothing() -> None:
    """Shows that Q3 is vacuous for a voter that stored an epoch once."""
    trace = TraceBuilder()
    trace.persist(FOLLOWER, 7)
    assert trace.result("Q3").status == "vacuous"


# ---- Q8 --------------------------------------------------------------------------------------------------------


def test_a_leader_commits_in_its_own_epoch() -> None:
    """Shows that a high watermark past an entry of the leader's epoch holds Q8, with older ones below it."""
    trace = TraceBuilder()
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.append(LEADER, "m", epoch=2, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 2, 2, METADATA_PARTITION)
    result = trace.result("Q8")
    assert (result.status, result.tested) == ("held", 1)


def test_a_leader_commits_an_older_epoch() -> None:
    """Shows that a high watermark past nothing but entries of older epochs violates Q8."""
    trace = TraceBuilder()
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.append(LEADER, "m", epoch=2, tp=METADATA_PARTITION)
    event = trace.high_watermark(LEADER, 1, 2, METADATA_PARTITION)
    result = trace.result("Q8")
    assert (result.status, result.violations[0].events) == ("violated", [event])
    assert result.violations[0].sentence == (
        "controller-1, leader of epoch 2, moved its high watermark to 1, past an entry of epoch 1 but past no entry "
        "of its own epoch"
    )


def test_a_leader_commits_what_it_lacks() -> None:
    """Shows that a high watermark beyond the leader's log violates Q8: there is no entry of its own epoch there."""
    trace = TraceBuilder()
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 3, 1, METADATA_PARTITION)
    assert trace.result("Q8").violations[0].sentence.endswith("to 3, past the end of its log at 1")


def test_q8_is_about_leaders_with_the_rule() -> None:
    """Shows that a follower's high watermark is no test of Q8, and that Q8 is vacuous where the rule is off."""
    trace = TraceBuilder()
    trace.append(FOLLOWER, "m", epoch=1, tp=METADATA_PARTITION, role="follower")
    trace.high_watermark(FOLLOWER, 1, 2, METADATA_PARTITION, role="follower")
    assert trace.result("Q8").status == "vacuous"
    off = TraceBuilder(features={"kip-595.own-epoch-commit": "off"})
    off.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    off.high_watermark(LEADER, 1, 2, METADATA_PARTITION)
    assert (off.result("Q8").status, off.result("Q8").why) == ("vacuous", "kip-595.own-epoch-commit is off")


# ---- Q9 --------------------------------------------------------------------------------------------------------


def test_committed_metadata_stays() -> None:
    """Shows that rising high watermarks and the truncation of an uncommitted tail hold Q9."""
    trace = TraceBuilder()
    committed(trace, 1, 2)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.truncate(LEADER, 2, METADATA_PARTITION)
    result = trace.result("Q9")
    assert (result.status, result.tested) == ("held", 2)


def test_a_high_watermark_that_goes_down() -> None:
    """Shows that a node's own high watermark may not go down within an incarnation; after a restart it begins anew."""
    trace = TraceBuilder()
    committed(trace, 1, 2)
    trace.down(LEADER)
    trace.up(LEADER, "controller")
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION, role="follower")
    assert trace.result("Q9").status == "held"
    trace.high_watermark(LEADER, 2, 1, METADATA_PARTITION, role="follower")
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION, role="follower")
    assert trace.result("Q9").violations[0].sentence == "controller-1 lowered its metadata high watermark from 2 to 1"


def test_a_new_leader_below_what_was_committed() -> None:
    """Shows that a later epoch's high watermark below an earlier epoch's violates Q9, in either order of events."""
    sentence = "the high watermark of the metadata log is 1 in epoch 2, below 2, the high watermark of epoch 1"
    trace = TraceBuilder()
    committed(trace, 2)
    committed(trace, 1, node=FOLLOWER, epoch=2)
    assert trace.result("Q9").violations[0].sentence == sentence
    late = TraceBuilder()
    committed(late, 1, node=FOLLOWER, epoch=2)
    committed(late, 2)
    assert late.result("Q9").violations[0].sentence == sentence


def test_committed_metadata_is_cut() -> None:
    """Shows that a voter that held what was committed and cuts it violates Q9."""
    trace = TraceBuilder()
    committed(trace, 1, 2)
    event = trace.truncate(LEADER, 1, METADATA_PARTITION)
    result = trace.result("Q9")
    assert result.violations[0].events == [event]
    assert result.violations[0].sentence == (
        "controller-1 truncated the metadata log to 1 although it held committed entries up to 2"
    )


@pytest.mark.parametrize(("epoch", "violated"), [(1, 0), (2, 1)])
def test_a_node_in_an_older_epoch_does_not_know_what_was_committed_in_a_newer(epoch: int, violated: int) -> None:
    """Shows that who still follows the leader of an older epoch may cut what the leader of a newer one has committed
    without it, and that who follows that one may not."""
    trace = TraceBuilder()
    for node in (LEADER, FOLLOWER, "broker-1"):
        trace.append(node, "a", "b", epoch=0, tp=METADATA_PARTITION, role="leader" if node == LEADER else "follower")
    trace.role(LEADER, 2, "leader", 101, 2)
    trace.high_watermark(LEADER, 2, 2, METADATA_PARTITION)
    trace.truncate("broker-1", 0, METADATA_PARTITION, epoch=epoch)
    assert trace.result("Q9").violated == violated


def test_a_divergent_tail_may_be_cut_below_what_is_committed() -> None:
    """Shows that cutting entries that differ from the committed ones is no violation of Q9."""
    trace = TraceBuilder()
    trace.append(FOLLOWER, "other", epoch=1, tp=METADATA_PARTITION)
    committed(trace, 1, 2, epoch=2)
    trace.truncate(FOLLOWER, 0, METADATA_PARTITION)
    assert trace.result("Q9").status == "held"


def test_one_high_watermark_tests_nothing() -> None:
    """Shows that a single high watermark leaves Q9 vacuous."""
    trace = TraceBuilder()
    committed(trace, 1)
    assert trace.result("Q9").status == "vacuous"


# ---- Q4 --------------------------------------------------------------------------------------------------------


def test_votes_for_a_log_that_has_everything() -> None:
    """Shows that a vote, or pre-vote, for a log with a newer epoch, or one as long, tests Q4; a voter's own, and one
    without a log, do not."""
    trace = TraceBuilder()
    trace.vote("controller-2", 4, 101, asks=(3, 10), has=(2, 90))
    trace.vote("controller-3", 4, 101, pre=True, asks=(3, 10), has=(3, 10))
    trace.vote("controller-1", 4, 101, asks=(3, 10), has=(3, 10))
    trace.vote("controller-2", 5, 103)
    trace.vote("controller-2", 5, 103, granted=False, asks=(1, 1), has=(3, 10))
    result = trace.result("Q4")
    assert (result.status, result.tested) == ("held", 2)


def test_a_vote_for_less_than_the_voter_has() -> None:
    """Shows that a shorter log, or one that ends with an older epoch, must not get a vote, not beforehand either."""
    trace = TraceBuilder()
    event = trace.vote("controller-2", 4, 101, asks=(3, 9), has=(3, 10))
    trace.vote("controller-3", 4, 101, pre=True, asks=(2, 90), has=(3, 10))
    first, second = trace.result("Q4").violations
    assert (first.events, first.key) == ([event], "controller-2")
    assert first.sentence == (
        "controller-2, whose log ends at 10 with epoch 3, granted controller-1 its vote in epoch 4, whose log ends at "
        "9 with epoch 3"
    )
    assert "granted controller-1 its pre-vote" in second.sentence


def test_a_vote_that_is_stored_was_given() -> None:
    """Shows that a stored vote which nobody was granted violates Q2, unless it is what an incarnation begins with, or
    the process ended before it could tell."""
    trace = TraceBuilder()
    trace.up(FOLLOWER, "controller")
    trace.persist(FOLLOWER, 7)
    stored = trace.persist(FOLLOWER, 7, voted=101)
    told = trace.vote(FOLLOWER, 7, 101, pre=True)
    found = trace.result("Q2").violations[0]
    assert (found.events, found.sentence) == (
        [stored, told],
        "controller-2 stored a vote for controller-1 in epoch 7, but it granted no vote in that epoch",
    )
    trace.events.pop()
    trace.up(FOLLOWER, "controller")
    trace.persist(FOLLOWER, 7, voted=101)
    trace.persist(FOLLOWER, 8)
    assert trace.result("Q2").status == "vacuous"


def test_a_vote_on_disk_stays_until_there_is_a_leader() -> None:
    """Shows that a voter may not forget a vote of an epoch without a leader, and may where it knows of one."""
    trace = TraceBuilder()
    stored = trace.persist(FOLLOWER, 7, voted=101)
    trace.vote(FOLLOWER, 7, 101)
    trace.persist(FOLLOWER, 7, 103)
    assert trace.result("Q2").status == "held"
    forgot = trace.persist(FOLLOWER, 7)
    found = trace.result("Q2").violations[0]
    assert (found.events, found.sentence) == (
        [stored, forgot],
        "the disk of controller-2 lost its vote for controller-1 in epoch 7 although it knows no leader of that epoch",
    )
