"""Q7, Q11 and Q18: what is committed in the metadata log."""

from __future__ import annotations

import pytest

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import QSnap, QVoters, RepFetch
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from tests.unit.invariants.quorum.test_elections import copied
from tests.unit.invariants.quorum.test_leadership import FOLLOWER, LEADER, committed
from tests.unit.invariants.trace_builder import TraceBuilder

# ---- Q7 --------------------------------------------------------------------------------------------------------


def appended(*flushed: str, wiped: str = "") -> TraceBuilder:
    """Two voters have one record; those named have it on disk, and one loses its disk. Then it is committed."""
    trace = TraceBuilder()
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    copied(trace, FOLLOWER, 1)
    for node in flushed:
        if node not in (LEADER, FOLLOWER):
            copied(trace, node, 1)
        trace.flush(node, 1)
    if wiped:
        trace.down(wiped, "lossy", lost={METADATA_PARTITION: 0})
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    return trace


def test_committed_is_on_a_majority_of_disks() -> None:
    """Shows that two of three disks are enough, and that a broker's is none of them."""
    result = appended(LEADER, FOLLOWER).result("Q7")
    assert (result.status, result.tested) == ("held", 1)
    trace = appended(LEADER, "broker-1")
    found = trace.result("Q7").violations[0]
    assert (found.events, found.sentence) == (
        [trace.events[-1].id],
        (
            "controller-1, leader of epoch 1, moved its high watermark to 1; of the 3 voters, controller-1 had the "
            "log on disk up to there"
        ),
    )


def test_a_flush_of_another_log_does_not_count() -> None:
    """Shows that a voter which has other entries there, or cut what it had flushed, does not have it on disk."""
    trace = TraceBuilder()
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.append(FOLLOWER, "other", epoch=1, tp=METADATA_PARTITION, role="follower")
    trace.append("controller-3", "m", epoch=1, tp=METADATA_PARTITION, role="follower")
    for node in (LEADER, FOLLOWER, "controller-3"):
        trace.flush(node, 1)
    trace.truncate("controller-3", 0, METADATA_PARTITION)
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    assert trace.result("Q7").status == "violated"


def test_a_wiped_disk_had_it() -> None:
    """Shows that a disk that lost what it had synced excuses, and that one which had not synced it does not."""
    assert appended(LEADER, FOLLOWER, wiped=FOLLOWER).result("Q7").excused == {"disk-lost": 1}
    assert appended(LEADER, wiped=FOLLOWER).result("Q7").status == "violated"


def test_a_wiped_disk_that_has_it_again() -> None:
    """Shows that a loss excuses nothing once the voter has fetched it again, and not synced it."""
    trace = appended(LEADER, FOLLOWER, wiped=FOLLOWER)
    last = trace.events.pop()
    trace.seqs[LEADER, 0] -= 1
    trace.logs[METADATA_PARTITION, FOLLOWER] = [(0, 0)]
    copied(trace, FOLLOWER, 1)
    trace.emit(LEADER, last.body)
    assert trace.result("Q7").status == "violated"


def test_whoever_is_counted_has_it() -> None:
    """Shows that a leader may count itself as far as its disk goes, and others as far as they have fetched in its
    epoch, whatever a majority of disks has; a voter that is new may have fetched before it was one."""
    for flushed, fetched, epoch, new_voters, says in (
        (1, 1, 1, False, ""),
        (0, 1, 1, False, "counting itself, but its disk had the log only up to 0"),
        (1, 0, 1, False, "counting controller-2, which had fetched only up to 0 in this epoch"),
        (1, 1, 2, False, "counting controller-2, which had not fetched in this epoch"),
        (1, 1, 2, True, ""),
        (1, 0, 1, True, "counting controller-2, which had fetched only up to 0 in this epoch"),
    ):
        trace = TraceBuilder()
        trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
        copied(trace, FOLLOWER, 1)
        copied(trace, "controller-3", 1)
        for node in (FOLLOWER, "controller-3"):
            trace.flush(node, 1)
        trace.flush(LEADER, flushed)
        trace.asked(LEADER, 102, fetched, 1, 1)
        if new_voters:
            members = {str(voter): f"dir-controller-{voter - 100}" for voter in (101, 102, 103)}
            trace.emit(LEADER, QVoters("dir", 0, 1, epoch, members, 1, 0, "append"))
        if new_voters and epoch == 1:
            trace.asked(LEADER, 102, fetched, 1, 1)
        trace.high_watermark(LEADER, 1, epoch, METADATA_PARTITION, counted=(101, 102))
        result = trace.result("Q7")
        assert [found.sentence.partition(" to 1 ")[2] for found in result.violations] == ([says] if says else [])


def test_a_cut_that_a_process_told_of_may_not_have_been_made() -> None:
    """Shows that the log of a process that crashed before it made a cut ends where it did before, and is on disk up to
    there; after one that was made, it is not."""
    for log_end, status in ((2, "held"), (1, "violated")):
        trace = TraceBuilder()
        for record in ("a", "b"):
            trace.append(FOLLOWER, record, epoch=1, tp=METADATA_PARTITION, role="follower")
        trace.truncate(FOLLOWER, 1, METADATA_PARTITION)
        trace.down(FOLLOWER)
        trace.up(FOLLOWER)
        trace.role(FOLLOWER, 2, "follower", 101, log_end)
        trace.flush(FOLLOWER, 2)
        assert (trace.result("Q7").violated > 0) == (status == "violated")


def test_who_is_a_voter_again_may_have_fetched_as_an_observer() -> None:
    """Shows that what a voter had fetched before it was removed is not all that it has when it is added again."""
    for removed in (True, False):
        trace = TraceBuilder()
        members = {str(voter): f"dir-controller-{voter - 100}" for voter in (101, 102, 103)}
        without = {name: key for name, key in members.items() if name != "102"}
        trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
        for node in (FOLLOWER, "controller-3"):
            copied(trace, node, 1)
            trace.flush(node, 1)
        trace.flush(LEADER, 1)
        trace.asked(LEADER, 102, 0, 0, 1)
        for offset, each in ((0, without), (1, members)) if removed else ((1, members),):
            trace.emit(LEADER, QVoters("dir", offset, 1, 1, each, offset + 1, 0, "append"))
        trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION, counted=(101, 102))
        assert trace.result("Q7").status == ("held" if removed else "violated")


def test_a_disk_has_no_more_than_the_log() -> None:
    """Shows that a member whose log ends below what it says is on its disk violates Q7, as it was cut meanwhile; and
    that what it said does not count for what it appends there later."""
    trace = TraceBuilder()
    for record in ("a", "b"):
        trace.append(FOLLOWER, record, epoch=1, tp=METADATA_PARTITION, role="follower")
    trace.truncate(FOLLOWER, 1, METADATA_PARTITION)
    trace.flush(FOLLOWER, 2)
    assert trace.result("Q7").violations[0].sentence == (
        "controller-2 has the metadata log on its disk up to 2, but its log ends at 1"
    )
    trace.append(FOLLOWER, "c", epoch=2, tp=METADATA_PARTITION, role="follower")
    mirror = LogMirror(tp=METADATA_PARTITION)
    for event in trace.events:
        mirror.apply(event)
    assert (mirror.replica(FOLLOWER).flushed, mirror.replica(FOLLOWER).log.end) == (1, 2)


# ---- Q11 -------------------------------------------------------------------------------------------------------


def handed_out() -> TraceBuilder:
    """Leader and follower have two records, committed; the leader's state machine got both."""
    trace = TraceBuilder()
    committed(trace, 1, 2)
    copied(trace, FOLLOWER, 2)
    trace.high_watermark(FOLLOWER, 2, 1, METADATA_PARTITION, "follower")
    trace.apply(LEADER, 0, 2)
    return trace


def test_state_machines_agree() -> None:
    """Shows that entries may come in other portions, and from the beginning again after a restart."""
    trace = handed_out()
    trace.apply(FOLLOWER, 0, 1)
    trace.apply(FOLLOWER, 1, 2)
    trace.up(FOLLOWER, "controller")
    trace.high_watermark(FOLLOWER, 1, 1, METADATA_PARTITION, "follower")
    trace.apply(FOLLOWER, 0, 1)
    result = trace.result("Q11")
    assert (result.status, result.tested) == ("held", 4)


def test_a_snapshot_is_a_new_beginning() -> None:
    """Shows that what follows a snapshot begins at its end, without a word about what it stands for."""
    trace = handed_out()
    trace.up(FOLLOWER, "controller")
    trace.emit(FOLLOWER, QSnap("dir", "load", 1, 1, 0, 0))
    trace.high_watermark(FOLLOWER, 2, 1, METADATA_PARTITION, "follower")
    trace.apply(FOLLOWER, 1, 2)
    result = trace.result("Q11")
    assert (result.status, result.tested) == ("held", 2)
    trace.emit(FOLLOWER, QSnap("dir", "create", 2, 1, 0, 0))
    trace.apply(FOLLOWER, 0, 1)
    assert trace.result("Q11").status == "violated"


@pytest.mark.parametrize(
    ("start", "end", "says"),
    [
        (1, 2, "from 1 on to its state machine, but the next offset was"),
        (0, 3, "up to 3 to its state machine, but its high"),
    ],
)
def test_a_hole_and_too_much(start: int, end: int, says: str) -> None:
    """Shows that a hole, and what is above the member's high watermark, violate Q11."""
    trace = handed_out()
    trace.apply(FOLLOWER, start, end)
    assert says in trace.result("Q11").violations[0].sentence


def test_an_entry_twice() -> None:
    """Shows that the same entries once more in one incarnation violate Q11, with both events as evidence."""
    trace = handed_out()
    first = trace.apply(FOLLOWER, 0, 2)
    again = trace.apply(FOLLOWER, 0, 2)
    assert trace.result("Q11").violations[0].events == [first, again]


def test_other_entries() -> None:
    """Shows that other entries violate Q11, against another member's and against what was committed."""
    trace = handed_out()
    trace.apply(FOLLOWER, 0, 2, ph=99)
    assert trace.result("Q11").violations[0].sentence == (
        "controller-2 applied the metadata log up to 2; it differs from the log that controller-1 applied"
    )
    alone = TraceBuilder()
    committed(alone, 1)
    alone.apply(LEADER, 0, 1, ph=99)
    assert alone.result("Q11").violations[0].sentence.endswith("it differs from the log that was committed")


# ---- Q18 -------------------------------------------------------------------------------------------------------


def three_epochs() -> TraceBuilder:
    """A leader with epoch 1 at 0-2, epoch 3 at 3-5 and epoch 5 at 6-8."""
    trace = TraceBuilder()
    for epoch in (1, 3, 5):
        trace.append(LEADER, "a", "b", "c", epoch=epoch, tp=METADATA_PARTITION)
    trace.role(LEADER, 5, "leader", 101, 9)
    return trace


def test_the_right_answers() -> None:
    """Shows the answers that hold: the end of the largest epoch not above the fetcher's, nothing for a fetch that fits,
    and a cut at least that far."""
    trace = three_epochs()
    trace.asked(LEADER, 102, 6, 2, 5, (1, 3))
    trace.append(FOLLOWER, "a", "b", "c", epoch=1, tp=METADATA_PARTITION, role="follower")
    trace.append(FOLLOWER, "x", "y", "z", epoch=2, tp=METADATA_PARTITION, role="follower")
    trace.truncate(FOLLOWER, 3, METADATA_PARTITION, epoch=5)
    trace.asked(LEADER, 102, 3, 1, 5)
    trace.asked(LEADER, 103, 0, 0, 5)
    trace.asked(LEADER, 103, 9, 5, 5)
    result = trace.result("Q18")
    assert (result.status, result.tested) == ("held", 2)


@pytest.mark.parametrize(
    ("offset", "last_epoch", "told", "says"),
    [
        (6, 2, (1, 2), "epoch 1 up to 2; the right answer is epoch 1 up to 3"),
        (6, 2, (3, 6), "epoch 3 up to 6; the right answer is epoch 1 up to 3"),
        (6, 2, (-1, -1), "no divergence; the right answer is epoch 1 up to 3"),
        (7, 3, (-1, -1), "no divergence; the right answer is epoch 3 up to 6"),
        (6, 3, (3, 6), "epoch 3 up to 6; the right answer is no divergence"),
    ],
)
def test_wrong_answers(offset: int, last_epoch: int, told: tuple[int, int], says: str) -> None:
    """Shows that another end, another epoch, and saying nothing or too much violate Q18."""
    trace = three_epochs()
    answer = trace.asked(LEADER, 102, offset, last_epoch, 5, told)
    result = trace.result("Q18")
    found = result.violations[0]
    assert (result.tested, found.events) == (1, [answer])
    assert found.sentence.endswith(says)


def test_a_fetch_of_another_epoch_is_not_taken_note_of() -> None:
    """Shows that a leader which counts a fetch that was meant for the leader of another epoch violates Q18."""
    for epoch, status in ((2, "vacuous"), (1, "violated"), (-1, "vacuous")):
        trace = TraceBuilder()
        trace.emit("controller-1", RepFetch(METADATA_PARTITION, 102, 2, epoch, -1, 0, 0, -1, -1))
        assert trace.result("Q18").status == status


def test_a_fetch_of_another_cluster_is_not_taken_note_of() -> None:
    """Shows that a leader which serves a member whose disk belongs to another cluster violates Q18."""
    for node, status in (("controller-2", "violated"), ("controller-3", "vacuous")):
        trace = TraceBuilder(nodes={node: {"cluster_id": "another"}})
        answer = trace.asked("controller-1", 102, 0, 0, 2)
        result = trace.result("Q18")
        assert (result.status, [each.events for each in result.violations]) == (status, [[answer]] * result.violated)


@pytest.mark.parametrize(
    ("told", "cut", "right"),
    [((1, 3), 4, 2), ((1, 3), 2, 2), ((1, 0), 2, 0), ((1, 0), 0, 0), ((3, 5), 6, 6), ((3, 5), 4, 6)],
)
def test_where_a_follower_cuts(told: tuple[int, int], cut: int, right: int) -> None:
    """Shows that a follower with epoch 1 up to 2 and epoch 2 up to 6 cuts where both logs end that epoch, and where its
    own ends what is older if it lacks the epoch that it is told of, although that may be behind what it is told."""
    trace = TraceBuilder()
    answer = trace.asked(LEADER, 102, 7, 4, 5, told)
    for epoch in (1, 2, 2):
        trace.append(FOLLOWER, "a", "b", epoch=epoch, tp=METADATA_PARTITION, role="follower")
    trace.append(FOLLOWER, "c", epoch=4, tp=METADATA_PARTITION, role="follower")
    event = trace.truncate(FOLLOWER, cut, METADATA_PARTITION, epoch=5)
    found = [each for each in trace.result("Q18").violations if "truncated its log" in each.sentence]
    assert [each.events for each in found] == ([] if cut == right else [[answer, event]])
    if found:
        assert found[0].sentence.endswith(f"; the right offset is {right}")


def test_an_epoch_older_than_all() -> None:
    """Shows that nothing is demanded where the leader has no epoch that old: Kafka then tells its log's end."""
    trace = three_epochs()
    trace.asked(LEADER, 102, 6, 0, 5, (5, 9))
    assert trace.result("Q18").status == "held"
