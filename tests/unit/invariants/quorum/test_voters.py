"""Q14: how the voter set of the quorum may change."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import LogAppend, LogStart, QVoters
from orchestrator.invariants.mirrors.voter_sets import VoterSets
from tests.unit.invariants.quorum.test_leadership import FOLLOWER, LEADER
from tests.unit.invariants.trace_builder import TraceBuilder

THREE = {"101": "a", "102": "b", "103": "c"}
FOUR = {**THREE, "104": "d"}
FIVE = {**FOUR, "105": "e"}


class Quorum(TraceBuilder):
    """controller-1 leads epoch 1, which begins at 1, and has the set of three voters in its log at 0, of epoch 0."""

    def __init__(self, offset: int = 0) -> None:
        super().__init__()
        self.append(LEADER, "m", tp=METADATA_PARTITION)
        self.voters(LEADER, THREE, offset, "start", 0)
        self.role(LEADER, 1, "leader", 101, 1)
        self.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
        self.fetch("controller-4", "controller-5")

    def fetch(self, *nodes: str) -> None:
        """Replicas copy what the leader has so far."""
        for node in nodes:
            self.append(node, "m", tp=METADATA_PARTITION, role="follower")
            self.append(node, "m", epoch=1, tp=METADATA_PARTITION, role="follower")

    def voters(self, node: str, members: dict[str, str], offset: int, cause: Any, hw: int) -> str:
        """Another set is in force at a member."""
        return self.emit(node, QVoters(f"dir-{node}", offset, 1, 1, members, offset + 1, hw, cause))

    def commit(self, new: int, *counted: int) -> str:
        """The leader commits."""
        return self.high_watermark(LEADER, new, 1, METADATA_PARTITION, counted=counted)

    def found(self) -> tuple[list[str], str]:
        """Of the violation that there must be: events, sentence."""
        (violation,) = self.result("Q14").violations
        return violation.events, violation.sentence


def test_one_change_after_the_other() -> None:
    """Shows a voter that is added and one that is removed, the leader itself, which then counts no longer; the same at
    a follower; and that a voter may be written down again with what else is new of it."""
    trace = Quorum()
    trace.commit(2, 101, 102)
    trace.voters(LEADER, FOUR, 2, "append", 2)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.voters(FOLLOWER, THREE, 0, "start", 0)
    trace.voters(FOLLOWER, FOUR, 2, "fetch", 0)
    trace.commit(3, 101, 102, 104)
    trace.voters(LEADER, FOUR, 3, "append", 3)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.commit(4, 101, 102, 103)
    trace.voters(LEADER, {voter: FOUR[voter] for voter in ("102", "103", "104")}, 4, "append", 4)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.commit(5, 102, 103)
    result = trace.result("Q14")
    assert (result.status, result.tested) == ("held", 8)


@pytest.mark.parametrize(
    ("after", "says"),
    [(FIVE, "controller-4 (d), controller-5 (e)"), ({**THREE, "103": "x"}, "controller-3 (c), controller-3 (x)")],
)
def test_two_voters_at_once(after: dict[str, str], says: str) -> None:
    """Shows a set with two voters more, and one in which another directory took a voter's place, at the leader and at a
    follower."""
    trace = Quorum()
    trace.commit(2, 101, 102)
    before = trace.voters(FOLLOWER, THREE, 0, "start", 0)
    copied = trace.voters(FOLLOWER, after, 2, "fetch", 0)
    assert trace.found() == (
        [before, copied],
        (
            f"controller-2 copied a voter set at 2 that differs from the voter set before it by {says}; "
            "a change may be of one voter only"
        ),
    )
    trace = Quorum()
    trace.commit(2, 101, 102)
    trace.voters(LEADER, after, 2, "append", 2)
    assert "wrote a voter set at 2 that differs" in trace.found()[1]


def test_what_a_directory_was_formatted_with() -> None:
    """Shows that a new quorum's first leader writes down the set it was formatted with, and no other; and that who was
    formatted with another one, or restarts, may turn up with any."""
    trace = Quorum(-1)
    trace.voters(LEADER, THREE, 1, "append", 0)
    trace.voters(FOLLOWER, {"102": "b"}, -1, "start", 0)
    trace.voters(FOLLOWER, THREE, 1, "fetch", 0)
    trace.voters(FOLLOWER, {"102": "b"}, 9, "snapshot", 10)
    trace.up(FOLLOWER, "controller")
    trace.voters(FOLLOWER, THREE, 1, "fetch", 0)
    result = trace.result("Q14")
    assert (result.status, result.tested) == ("held", 1)
    trace = Quorum(-1)
    trace.voters(LEADER, FOUR, 1, "append", 0)
    assert trace.found()[1].endswith(
        "differs from the voter set before it by controller-4 (d); a change may be of one voter only"
    )


def test_a_change_behind_one_that_is_not_committed() -> None:
    """Shows that a leader may not write another set before the last one is committed."""
    trace = Quorum()
    trace.commit(2, 101, 102)
    first = trace.voters(LEADER, FOUR, 2, "append", 2)
    second = trace.voters(LEADER, FIVE, 3, "append", 2)
    assert trace.found() == (
        [first, second],
        "controller-1 wrote a voter set at 3 while the previous one, at 2, was not committed: the high watermark was 2",
    )


def test_a_change_before_anything_of_the_epoch_is_committed() -> None:
    """Shows that what is committed of an older epoch is not enough."""
    trace = Quorum()
    trace.voters(LEADER, FOUR, 2, "append", 1)
    events, sentence = trace.found()
    assert len(events) == 2
    assert sentence == (
        "controller-1 wrote a voter set at 2 as leader of epoch 1, which began at 1, with a high watermark of 1: no "
        "entry of that epoch was committed"
    )


@pytest.mark.parametrize("counted", [(101, 102, 103), (102, 103)])
def test_the_new_set_counts(counted: tuple[int, ...]) -> None:
    """Shows that from then on a leader that is none of the voters does not count, and that a majority is one of the new
    set."""
    trace = Quorum()
    trace.commit(2, 101, 102)
    after = {voter: FIVE[voter] for voter in ("102", "103", "104", "105")}
    trace.events.pop()
    trace.voters(LEADER, after, 2, "snapshot", 2)
    trace.commit(2, *counted)
    events, sentence = trace.found()
    assert events[-1] == trace.events[-1].id
    assert sentence.endswith("the voters are controller-2, controller-3, controller-4, controller-5")


def test_static_voters_are_not_judged() -> None:
    """Shows that a quorum at kraft.version 0, which says nothing of its voters, tests nothing."""
    trace = TraceBuilder()
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION, counted=(101, 102))
    assert trace.result("Q14").status == "vacuous"


def test_the_newest_set_is_the_one_of_the_newest_record() -> None:
    """Shows that a member which comes by an older set, or has none, does not make it the newest one."""
    trace = TraceBuilder()
    known = VoterSets.starting_with([101, 102, 103])
    for node, members, offset in ((LEADER, THREE, 0), (LEADER, FOUR, 2), (FOLLOWER, THREE, 0), ("controller-3", {}, 9)):
        body = QVoters("dir", offset, 1, 1, members, 3, 0, "fetch")
        trace.emit(node, body)
        known.take(trace.events[-1], body)
    assert known.newest == {"controller-1": "a", "controller-2": "b", "controller-3": "c", "controller-4": "d"}
    assert known.of("controller-3") == {}
    assert known.with_directories


@pytest.mark.parametrize(
    ("has", "violated"), [("nothing", 1), ("before", 1), ("epoch", 0), ("newer", 0), ("snapshot", 0), ("cut", 0)]
)
def test_a_new_voter_has_read_the_epoch(has: str, violated: int) -> None:
    """Shows that a new voter has once had a record of the leader's epoch or of a newer one, or a snapshot with it: what
    it has lost since, the leader cannot know."""
    trace = TraceBuilder()
    trace.append(LEADER, "m", tp=METADATA_PARTITION)
    trace.emit(LEADER, QVoters("dir", 0, 0, 0, THREE, 1, 0, "start"))
    trace.role(LEADER, 1, "leader", 101, 1)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 2, 1, METADATA_PARTITION, counted=(101, 102))
    if has == "snapshot":
        trace.emit("controller-4", LogStart(METADATA_PARTITION, 2, "snapshot", 1))
    elif has != "nothing":
        trace.append("controller-4", "m", tp=METADATA_PARTITION, role="follower")
        if has != "before":
            trace.append("controller-4", "m", epoch=2 if has == "newer" else 1, tp=METADATA_PARTITION, role="follower")
    if has == "cut":
        trace.truncate("controller-4", 1, tp=METADATA_PARTITION)
    trace.emit(LEADER, QVoters("dir", 2, 1, 1, FOUR, 3, 2, "append"))
    result = trace.result("Q14")
    assert result.violated == violated
    if violated:
        epoch = -1 if has == "nothing" else 0
        assert result.violations[0].sentence == (
            "controller-1 wrote a voter set at 2 that adds controller-4, whose log has never had a record of leader "
            f"epoch 1, only of epochs up to {epoch}: it has not caught up with this leader"
        )


def test_a_leader_that_does_not_compare_logs_may_add_anybody() -> None:
    """Shows that without the checks of KIP-595 a longer log of another epoch counts as caught up."""
    trace = TraceBuilder(features={"kip-595.divergence": "off"})
    trace.append(LEADER, "m", tp=METADATA_PARTITION)
    trace.emit(LEADER, QVoters("dir", 0, 0, 0, THREE, 1, 0, "start"))
    trace.role(LEADER, 1, "leader", 101, 1)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.emit(LEADER, QVoters("dir", 2, 1, 1, FOUR, 3, 2, "append"))
    assert trace.result("Q14").status == "held"


class Beginning(TraceBuilder):
    """controller-1, with the set of three voters in its log at 0, begins epoch 1 at 1 with a batch of some records."""

    def __init__(self, *records: str) -> None:
        super().__init__()
        self.append(LEADER, "m", tp=METADATA_PARTITION)
        self.emit(LEADER, QVoters("dir", 0, 0, 0, THREE, 1, 0, "start"))
        self.role(LEADER, 1, "leader", 101, 1)
        self.append(LEADER, *records, epoch=1, tp=METADATA_PARTITION)

    def wrote(self, members: dict[str, str], offset: int) -> str:
        """What Q14 says of a set that the leader has appended, with nothing committed: a sentence, "" nothing."""
        self.emit(LEADER, QVoters("dir", offset, 1, 1, members, offset + 1, 1, "append"))
        return "".join(violation.sentence for violation in self.result("Q14").violations)


def test_a_leader_puts_its_listener_right_in_the_first_batch_of_its_epoch() -> None:
    """Shows that the same voters may be written down in the batch that an epoch begins with, whatever is committed
    (LeaderState.appendStartOfEpochControlRecords), and other voters not there either."""
    assert not Beginning("leader-change", "kraft-version", "voters").wrote(THREE, 3)
    says = Beginning("leader-change", "kraft-version", "voters").wrote(FOUR, 3)
    assert says.endswith("no entry of that epoch was committed")


def test_a_leader_puts_its_listener_right_behind_the_first_batch_of_its_epoch() -> None:
    """Shows that the same voters in a batch of their own must wait for the epoch's first commit, even where the record
    lies at the offset that it has in a first batch."""
    for first in (("leader-change",), ("leader-change", "no-op"), ("leader-change", "kraft-version", "voters")):
        trace = Beginning(*first)
        trace.append(LEADER, "voters", epoch=1, tp=METADATA_PARTITION)
        assert trace.wrote(THREE, 1 + len(first)).endswith("no entry of that epoch was committed")


SETS = {1: THREE, 2: FOUR}


class Logged(TraceBuilder):
    """controller-1 leads epoch 1, which begins at 0 with a batch of two; it was formatted with three voters."""

    def __init__(self, *, writes: bool = True) -> None:
        super().__init__()
        self.tell(LEADER, -1, "start")
        self.tell(FOLLOWER, -1, "start")
        self.role(FOLLOWER, 1, "follower", 101)
        self.role(LEADER, 1, "leader", 101)
        self.write(LEADER, "leader-change", "voters")
        if writes:
            self.tell(LEADER, 1, "append")
        self.flush(LEADER, 2)

    def tell(self, node: str, offset: int, cause: Any, end: int = 2) -> str:
        """The set in force at a member is the one at an offset."""
        epoch = 0 if offset < 0 else 1
        return self.emit(node, QVoters(f"dir-{node}", offset, epoch, 1, SETS.get(offset, THREE), end, 0, cause))

    def write(self, node: str, *records: str, role: Any = "leader") -> str:
        """A batch of control records."""
        self.append(node, *records, epoch=1, tp=METADATA_PARTITION, role=role)
        event = self.events[-1]
        assert isinstance(event.body, LogAppend)
        self.events[-1] = replace(event, body=replace(event.body, control=True))
        return event.id

    def copies(self, *, tells: bool = True) -> None:
        """controller-2 has what the leader has, on its disk."""
        self.write(FOLLOWER, "leader-change", "voters", role="follower")
        if tells:
            self.tell(FOLLOWER, 1, "fetch")
        self.flush(FOLLOWER, 2)

    def says(self) -> str:
        """The sentence of the one violation that there may be."""
        return "".join(violation.sentence for violation in self.result("Q14").violations)


def test_a_leader_writes_down_what_it_was_formatted_with() -> None:
    """Shows a leader that does not, one that does, one that begins nothing, and one that has the set from a
    snapshot."""
    assert Logged(writes=False).says() == (
        "controller-1 began epoch 1 at 0 without writing down the voter set that it was formatted with, which no "
        "record has"
    )
    assert not Logged().says()
    trace = Logged()
    trace.role(FOLLOWER, 2, "leader", 102)
    trace.flush(FOLLOWER, 0)
    trace.role(FOLLOWER, 3, "unattached")
    trace.flush(FOLLOWER, 1)
    trace.role(FOLLOWER, 4, "leader", 102)
    trace.up(FOLLOWER, "controller")
    trace.flush(FOLLOWER, 1)
    assert not trace.says()
    trace = Logged()
    trace.tell(FOLLOWER, 0, "snapshot")
    trace.role(FOLLOWER, 2, "leader", 102, 1)
    trace.flush(FOLLOWER, 2)
    assert not trace.says()


def test_a_member_reads_the_sets_that_it_copies() -> None:
    """Shows a follower that does, and one that goes on with what it was formatted with."""
    trace = Logged()
    trace.copies()
    assert (trace.result("Q14").status, trace.result("Q14").tested) == ("held", 3)
    trace = Logged()
    trace.copies(tells=False)
    assert trace.says() == "controller-2 has a voter set in its log at 1, but goes by that of its format"


@pytest.mark.parametrize(
    ("found", "says"), [(1, ""), (-1, "that of its format"), (None, "none"), (0, "the one at 0"), ("snapshot", "")]
)
def test_a_member_that_starts_reads_the_sets_in_its_log(found: Any, says: str) -> None:
    """Shows what a process that starts may find; a snapshot behind the record stands for it."""
    trace = Logged()
    trace.copies()
    trace.up(FOLLOWER, "controller")
    if found is not None:
        trace.tell(FOLLOWER, 2 if found == "snapshot" else found, "start", 2)
    trace.role(FOLLOWER, 1, "follower", 101, 2)
    trace.append(FOLLOWER, "m", epoch=1, tp=METADATA_PARTITION, role="follower")
    trace.flush(FOLLOWER, 3)
    assert trace.says() == (says and f"controller-2 has a voter set in its log at 1, but goes by {says}")


def test_a_set_that_a_snapshot_has_is_no_record() -> None:
    """Shows a process that finds a snapshot whose last record is still in everybody's log, and no record of voters."""
    trace = Logged()
    trace.copies()
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.append(FOLLOWER, "m", epoch=1, tp=METADATA_PARTITION, role="follower")
    trace.flush(FOLLOWER, 3)
    trace.up(FOLLOWER, "controller")
    trace.tell(FOLLOWER, 2, "start", 3)
    trace.write(LEADER, "leader-change")
    trace.flush(LEADER, 4)
    assert not trace.says()


def test_a_member_whose_log_nobody_knows() -> None:
    """Shows that nothing is held against one that has lost the record, that has not said where its log ends, or whose
    log begins with a snapshot."""
    for lost in ("disk", "silent", "snapshot"):
        trace = Logged()
        trace.copies()
        trace.up(FOLLOWER, "controller")
        trace.tell(FOLLOWER, -1, "start", 0)
        if lost == "disk":
            trace.role(FOLLOWER, 1, "follower", 101, 0)
        elif lost == "snapshot":
            trace.role(FOLLOWER, 1, "follower", 101, 2)
            trace.emit(FOLLOWER, LogStart(METADATA_PARTITION, 3, "snapshot", 1))
        trace.flush(FOLLOWER, 2)
        assert not trace.says()


def test_a_set_goes_with_its_record() -> None:
    """Shows a follower whose record is cut off, and that goes by it all the same, and one that goes back to the set
    before it; a cut that recovers a log comes before the set that is found there."""
    trace = Logged()
    trace.copies()
    trace.truncate(FOLLOWER, 0, METADATA_PARTITION)
    trace.flush(FOLLOWER, 0)
    assert trace.says() == "controller-2 goes by the voter set at 1, although its log ends at 0"
    trace = Logged()
    trace.copies()
    trace.truncate(FOLLOWER, 0, METADATA_PARTITION)
    trace.tell(FOLLOWER, -1, "truncate", 0)
    trace.flush(FOLLOWER, 0)
    trace.up(FOLLOWER, "controller")
    trace.truncate(FOLLOWER, 0, METADATA_PARTITION, "recovery")
    trace.tell(FOLLOWER, -1, "start", 0)
    trace.role(FOLLOWER, 1, "follower", 101, 0)
    trace.flush(FOLLOWER, 0)
    assert not trace.says()


def test_the_same_record_is_the_same_set() -> None:
    """Shows a follower that makes another set of a record that the leader has; and that a record of another log at the
    same offset may be of another set."""
    for salt, violated in ((0, 1), (1, 0)):
        trace = Logged()
        trace.write(
            FOLLOWER, *(("leader-change", "voters") if not salt else ("leader-change", "others")), role="follower"
        )
        trace.emit(FOLLOWER, QVoters("dir", 1, 1, 1, FOUR, 2, 0, "fetch"))
        trace.flush(FOLLOWER, 2)
        assert trace.result("Q14").violated == violated
