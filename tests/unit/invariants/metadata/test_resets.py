"""M4 and M9: positions that are given up, and topics that are made anew."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import (
    NO_ENTRY,
    CommittedReturn,
    ConsOwn,
    ConsPos,
    ErrorSeen,
    LogLocalStart,
    MetaView,
    NodeDown,
    PartChange,
    PartRemove,
    TierSegment,
)
from actors.trace.tier_events import DELETED, FINISHED
from tests.unit.invariants.groups.stage import GROUP, ONE, TWO, GroupTrace, entry
from tests.unit.invariants.trace_builder import TP, TraceBuilder


def written(trace: TraceBuilder, *uids: str, high_watermark: int) -> None:
    """Records on all replicas, of which so many are committed."""
    trace.lead(1)
    trace.replicate(*uids)
    trace.high_watermark("broker-1", high_watermark)


def test_a_reset_needs_a_reason_in_the_log() -> None:
    """Shows that a position that the log has, and that is reset, violates M4, the end of the log too; one beyond what
    is committed does not."""
    for position, violated in ((1, 1), (2, 1), (3, 0)):
        trace = TraceBuilder()
        written(trace, "a", "b", high_watermark=2)
        event = trace.moved("consumer-1", 0, "reset", position)
        result = trace.result("M4")
        assert (result.violated, result.tested) == (violated, 1)
        if violated:
            assert result.violations[0].events == [event]
    trace = TraceBuilder()
    trace.moved("consumer-1", 0, "assign", -1)
    trace.moved("consumer-1", 0, "seek", 5)
    assert trace.result("M4").status == "vacuous"


def test_a_reset_for_what_was_lost_is_excused() -> None:
    """Shows that an unclean election that took what is below a position excuses that it is reset; and a position that
    it kept is not excused."""
    for position, excused in ((2, {"unclean-election": 1}), (1, {})):
        trace = TraceBuilder()
        written(trace, "a", high_watermark=1)
        trace.replicate("b", followers=())
        trace.high_watermark("broker-1", 2)
        trace.change(2, 1, [2], "unclean")
        trace.assume(2, 1)
        trace.moved("consumer-1", 0, "reset", position)
        assert trace.result("M4").excused == excused
        assert trace.result("M4").violated == (not excused)


@pytest.mark.parametrize(("epoch", "violated"), [(0, 0), (1, 1)])
def test_an_unclean_election_excuses_no_later_position(epoch: int, violated: int) -> None:
    """Shows that M4 judges a position at which a consumer came by records of the unclean leader, and none that it has
    from the leader before."""
    trace = TraceBuilder()
    written(trace, "a", high_watermark=1)
    trace.lead(2, 1, isr=[2], cause="unclean")
    trace.append("broker-2", "b", epoch=1)
    trace.high_watermark("broker-2", 2, epoch=1)
    trace.moved("consumer-1", 0, "assign")
    trace.polled("consumer-1", (1, "b"), broker=2, epoch=epoch, batch_epoch=epoch)
    trace.moved("consumer-1", 0, "reset", 2)
    result = trace.result("M4")
    assert (result.violated, sum(result.excused.values())) == (violated, 1 - violated)


def test_an_old_consumer_asks_a_former_leader() -> None:
    """Shows that a consumer without leader epochs is excused that believes a former leader which lacks its position;
    not one that has them, nor if the leader says so, or a broker that has the position."""
    cases = ((8, 1, 2, {"no-epoch": 1}), (9, 1, 2, {}), (8, 2, 2, {}), (8, 1, 1, {}))
    for version, server, position, excused in cases:
        trace = TraceBuilder(nodes={"consumer-1": {"versions": {"Metadata": [0, version]}}})
        written(trace, "a", high_watermark=1)
        trace.replicate("b")
        trace.high_watermark("broker-1", 2)
        trace.change(2, 1, [2, 3])
        trace.assume(2, 1)
        trace.truncate("broker-1", 1)
        trace.emit("consumer-1", ErrorSeen(TP, "Fetch", 8, 1, f"broker-{server}"))
        trace.moved("consumer-1", 0, "reset", position)
        assert trace.result("M4").excused == excused, (version, server, position)
        assert trace.result("M4").violated == (not excused)


def begins_where_committed(trace: GroupTrace, epoch: int, deliver: bool = False) -> None:
    """consumer-1 begins at 2, which its group has committed, and asks broker-1, which does not lead any more and lacks
    it; ``deliver``: after it was given records there."""
    trace.owns(ONE, TP)
    trace.emit(ONE, ConsPos(TP, -1, 2, epoch, "committed"))
    if deliver:
        trace.polled(ONE, (1, "b"), broker=2, epoch=1, batch_epoch=0)
    trace.emit(ONE, ErrorSeen(TP, "Fetch", 18, 1, "broker-1"))
    trace.moved(ONE, 0, "reset", 2)


def behind_a_former_leader(node: str = ONE, **versions: list[int]) -> GroupTrace:
    """broker-1 led, and has one record; broker-2 leads, and two are committed. A node speaks these versions."""
    trace = GroupTrace(nodes={node: {"versions": versions}})
    written(trace, "a", high_watermark=1)
    trace.replicate("b")
    trace.high_watermark("broker-1", 2)
    trace.change(2, 1, [2, 3])
    trace.assume(2, 1)
    trace.truncate("broker-1", 1)
    return trace


@pytest.mark.parametrize(
    ("version", "epoch", "deliver", "excused"),
    [(4, -1, False, True), (5, -1, False, False), (4, 1, False, False), (4, -1, True, False)],
)
def test_a_committed_position_that_comes_without_its_epoch(
    version: int, epoch: int, deliver: bool, excused: bool
) -> None:
    """Shows that a member is excused that believes a former leader as its OffsetFetch is too old to tell the leader
    epoch of what is committed; not one whose OffsetFetch tells it, nor one that has an epoch since, or has read on."""
    trace = behind_a_former_leader(OffsetFetch=[1, version])
    begins_where_committed(trace, epoch, deliver=deliver)
    result = trace.result("M4")
    assert (result.violated, result.excused) == ((0, {"no-epoch": 1}) if excused else (1, {}))


@pytest.mark.parametrize(
    ("asked_in", "stored", "excused"), [(5, -1, True), (6, -1, False), (5, 1, False), (-1, -1, False)]
)
def test_a_position_that_was_committed_without_its_epoch(asked_in: int, stored: int, excused: bool) -> None:
    """Shows that a member is excused likewise if the commit was too old to carry the leader epoch; not if it carried
    one, or could have."""
    trace = behind_a_former_leader()
    trace.acks_entry(entry(2, stored), entry(2, stored), asked_in)
    begins_where_committed(trace, -1)
    result = trace.result("M4")
    assert (result.violated, result.excused) == ((0, {"no-epoch": 1}) if excused else (1, {}))


@pytest.mark.parametrize(("broker", "excused"), [("broker-3", True), ("broker-2", False)])
def test_a_coordinator_that_tells_no_epoch(broker: str, excused: bool) -> None:
    """Shows that it excuses a member, too, if the coordinator that answers it is that old; not if another broker is."""
    trace = behind_a_former_leader(broker, OffsetFetch=[1, 4])
    trace.cause = "broker-3/0/1"
    begins_where_committed(trace, -1)
    result = trace.result("M4")
    assert (result.violated, result.excused) == ((0, {"no-epoch": 1}) if excused else (1, {}))


@pytest.mark.parametrize(("version", "excused"), [(4, True), (5, False)])
def test_a_position_without_an_epoch_is_committed_again(version: int, excused: bool) -> None:
    """Shows that who is told no leader epoch, and commits that position, leaves none to the next owner."""
    trace = behind_a_former_leader(TWO, OffsetFetch=[1, version])
    trace.owns(TWO, TP)
    trace.emit(TWO, ConsPos(TP, -1, 2, -1, "committed"))
    trace.acks_entry(entry(2, -1), entry(2, -1), 8)
    trace.owns(TWO, "")
    begins_where_committed(trace, -1)
    result = trace.result("M4")
    assert (result.violated, result.excused) == ((0, {"no-epoch": 1}) if excused else (1, {}))


def test_a_position_whose_copy_is_gone() -> None:
    """Shows that a consumer is excused that is told that its position is out of range by a broker which itself has
    nothing there, and whose copy is gone; not if it has that copy, or the record itself."""
    for position, deleted, excused in ((1, True, {"copy-gone": 1}), (1, False, {}), (2, True, {})):
        trace = TraceBuilder()
        written(trace, "a", "b", "c", high_watermark=3)
        for state in (FINISHED, DELETED)[: 1 + deleted]:
            trace.emit("broker-1", TierSegment(TP, "a", "known", state, 0, 2, {"0": 0}))
        trace.emit("broker-1", LogLocalStart(TP, 2, "retention-ms", 0, 3))
        trace.emit("consumer-1", ErrorSeen(TP, "Fetch", 1, 1, "broker-1"))
        trace.moved("consumer-1", 0, "reset", position)
        assert trace.result("M4").excused == excused, (position, deleted)
        assert trace.result("M4").violated == (not excused)


def test_a_position_whose_copy_has_no_metadata() -> None:
    """Shows that a consumer is excused that is told that its position is out of range by a broker which itself has
    nothing there, and knows nothing of a copy whose metadata an unclean election may have taken; not if another broker
    does not know it, or if no broker told the consumer."""
    for position, broker, excused in (
        (1, "broker-1", {"metadata-lost": 1}),
        (2, "broker-1", {}),
        (1, "broker-2", {}),
        (1, "", {}),
    ):
        trace = TraceBuilder()
        written(trace, "a", "b", "c", high_watermark=3)
        trace.emit("broker-2", TierSegment(TP, "a", "known", FINISHED, 0, 2, {"0": 0}))
        trace.emit("controller-1", PartChange("__remote_log_metadata-0", 9, 1, 3, 1, 1, [3], [1, 2, 3], "unclean"))
        for node in ("broker-1", "broker-2"):
            trace.emit(node, LogLocalStart(TP, 2, "retention-ms", 0, 3))
        if broker:
            trace.emit("consumer-1", ErrorSeen(TP, "Fetch", 1, 1, broker))
        trace.moved("consumer-1", 0, "reset", position)
        assert trace.result("M4").excused == excused, (position, broker)
        assert trace.result("M4").violated == (not excused)


def test_what_disks_lost_excuses_a_reset() -> None:
    """Shows the loss budget: one replica that lost it, with min.insync.replicas of 1, and none with 2."""
    for min_isr, excused in ((1, {"loss-budget": 1}), (2, {})):
        trace = TraceBuilder(config={"min.insync.replicas": min_isr})
        written(trace, "a", "b", high_watermark=2)
        trace.emit("broker-2", NodeDown("lossy", lost={TP: 1}))
        trace.moved("consumer-1", 0, "reset", 2)
        assert trace.result("M4").excused == excused


def test_a_member_begins_where_its_group_has_committed() -> None:
    """Shows that a member of a group whose group was told of a commit must not begin where auto.offset.reset says,
    until the commit is gone; one of another group may."""
    trace = GroupTrace()
    written(trace, "a", "b", high_watermark=2)
    trace.acks(2, 0)
    trace.owns(ONE, TP)
    trace.moved(ONE, 0, "assign", -1)
    (finding,) = trace.result("M4").violations
    assert finding.sentence.endswith("by auto.offset.reset, although its group had committed 2")
    trace = GroupTrace()
    trace.acks(2, 0)
    trace.owns(ONE, TP)
    trace.moved(ONE, 2, "committed", -1)
    assert (trace.result("M4").status, trace.result("M4").tested) == ("held", 1)
    trace = GroupTrace()
    trace.acks(2, 0)
    trace.decides(-1, 1, "", -1)
    trace.owns(ONE, TP)
    trace.moved(ONE, 0, "assign", -1)
    trace.emit("consumer-9", ConsOwn("other", "m", 1, [TP]))
    trace.moved("consumer-9", 0, "assign", -1)
    assert trace.result("M4").violated == 0


# ---- M9 ---------------------------------------------------------------------------------------------------------


def viewed(trace: TraceBuilder, epoch: int, topic_id: str = "", taken: bool = True, **more: Any) -> str:
    """A client is told of a leader."""
    ids = {"orders": topic_id} if topic_id else {}
    return trace.emit("consumer-1", MetaView("broker-1", {TP: epoch}, [TP] if taken else [], {TP: 1}, ids, **more))


def test_a_topic_that_was_made_anew_is_taken_over() -> None:
    """Shows that M9 is held, tested, when a client takes over another topic id's lower leader epochs, and violated when
    it does not; within one topic id, and of a topic that it had not known, it may refuse."""
    trace = TraceBuilder(features={"kip-232": "kafka"})
    viewed(trace, 9, "first")
    viewed(trace, 0, "second")
    assert (trace.result("M9").status, trace.result("M9").tested) == ("held", 1)
    trace = TraceBuilder(features={"kip-232": "kafka"})
    before = viewed(trace, 9, "first")
    viewed(trace, 8, taken=False)
    viewed(trace, 10, taken=False, source="heard")
    event = viewed(trace, 0, "second", taken=False)
    (finding,) = trace.result("M9").violations
    assert finding.events == [before, event]
    trace = TraceBuilder(features={"kip-232": "kafka"})
    viewed(trace, 0, "second", taken=False)
    trace.down("consumer-1")
    trace.up("consumer-1", "consumer")
    viewed(trace, 0, "third", taken=False)
    assert trace.result("M9").status == "vacuous"
    assert TraceBuilder(features={"kip-232": "off"}).result("M9").why == "kip-232 is not kafka"


def test_a_topic_that_was_removed_has_no_positions() -> None:
    """Shows that a position that is reset after its topic was removed is nobody's, and one before that is judged."""
    for removed, violated in ((True, 0), (False, 1)):
        trace = TraceBuilder()
        written(trace, "a", "b", high_watermark=2)
        if removed:
            trace.emit("controller-1", PartRemove(TP, 9, 1, "id"))
        trace.moved("consumer-1", 0, "reset", 1)
        assert trace.result("M4").violated == violated


def test_a_look_up_that_finds_nothing_is_not_the_members() -> None:
    """Shows that a member that was informed that nothing is committed begins where auto.offset.reset says (O1 judges
    what it was told), and that one that was told of a position must not."""
    for told, violated in ((None, 0), (entry(2), 1)):
        trace = GroupTrace()
        written(trace, "a", "b", high_watermark=2)
        trace.acks(2, 0)
        trace.owns(ONE, TP)
        body = CommittedReturn("op", "ok", 0, GROUP, [TP], {TP: told or NO_ENTRY})
        trace.emit(ONE, body)
        trace.moved(ONE, 0, "assign", -1)
        assert trace.result("M4").violated == violated
