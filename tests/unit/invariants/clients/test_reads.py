"""C5, C7, C8 and C11: what consumers were promised."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from msgspec.structs import replace

from actors.trace.events import ConsOwn, MetaView
from orchestrator.invariants.folds.window import REMEMBERED, OffsetWindow
from tests.unit.invariants.partitions.test_replication import committed
from tests.unit.invariants.trace_builder import TP, TraceBuilder
from tests.unit.invariants.transactions.stage import TransactionTrace

# ---- C5 --------------------------------------------------------------------------------------------------------


def test_a_consumer_that_reads_on() -> None:
    """Shows that each poll after the first, or after a position was assigned, tests C5."""
    trace = committed("a", "b", "c")
    trace.polled("consumer-1", (0, "a"))
    trace.polled("consumer-1", (1, "b"), (2, "c"))
    assert (trace.result("C5").status, trace.result("C5").tested) == ("held", 1)
    trace.moved("consumer-2", 1, "assign")
    trace.polled("consumer-2", (1, "b"))
    assert trace.result("C5").tested == 2


def test_a_consumer_that_leaves_a_record_out() -> None:
    """Shows that a gap between polls, or inside one, violates C5, with the record that was left out."""
    trace = committed("a", "b", "c")
    first = trace.polled("consumer-1", (0, "a"))
    second = trace.polled("consumer-1", (2, "c"))
    result = trace.result("C5")
    assert result.violations[0].events == [first, second]
    assert result.violations[0].sentence == (
        "consumer-1 had read orders-0 up to 1 and then got offset 2: it left out offset 1, which holds b"
    )
    inside = committed("a", "b", "c")
    inside.polled("consumer-1", (0, "a"), (2, "c"))
    assert inside.result("C5").violated == 1


def test_a_consumer_that_goes_back() -> None:
    """Shows that an offset that comes again, or comes down inside a poll, violates C5."""
    trace = committed("a", "b")
    trace.polled("consumer-1", (0, "a"), (1, "b"))
    trace.polled("consumer-1", (1, "b"))
    assert (
        trace.result("C5").violations[0].sentence
        == "consumer-1 got offset 1 of orders-0 again: it had already read up to 2"
    )
    inside = committed("a", "b")
    inside.polled("consumer-1", (1, "b"), (0, "a"))
    assert inside.result("C5").violated == 1


def test_a_moved_position_begins_anew() -> None:
    """Shows that assignment, reset and seek allow any jump, forward or back, and others' positions do not matter."""
    trace = committed("a", "b", "c")
    trace.polled("consumer-1", (0, "a"), (1, "b"))
    trace.moved("consumer-1", 0, "reset")
    trace.polled("consumer-1", (0, "a"))
    trace.moved("consumer-1", 2)
    trace.polled("consumer-1", (2, "c"))
    trace.polled("consumer-2", (1, "b"))
    assert (trace.result("C5").status, trace.result("C5").tested) == ("held", 2)


@pytest.mark.parametrize("topic_ids", [{}, {"orders": "an-id"}])
def test_who_comes_back_to_a_former_topic(topic_ids: dict[str, str]) -> None:
    """Shows that a consumer which takes the partition for one of another topic goes on where its position is by then,
    and that one which is only told of its leader anew goes on where it was."""
    trace = committed("a", "b")
    trace.polled("consumer-1", (0, "a"), (1, "b"))
    trace.emit("consumer-1", MetaView("broker-1", {TP: 0}, [TP], {TP: 1}, topic_ids))
    trace.polled("consumer-1", (0, "a"))
    assert trace.result("C5").violated == (not topic_ids)


def test_offsets_without_a_record_are_no_gap() -> None:
    """Shows that the offset of a committed control batch, which has no record for applications, may be passed over."""
    trace = committed("a")
    trace.append("broker-1")
    trace.logs[TP, "broker-1"][-1] = (2, trace.logs[TP, "broker-1"][-1][1])
    body = trace.events[-1].body
    trace.events[-1] = replace(trace.events[-1], body=replace(body, last=1, control=True))
    trace.high_watermark("broker-1", 2, counted=(1,))
    trace.append("broker-1", "b")
    trace.high_watermark("broker-1", 3, counted=(1,))
    trace.polled("consumer-1", (0, "a"), (2, "b"))
    assert trace.result("C5").status == "vacuous"
    trace.polled("consumer-1", (4, "c"))
    assert trace.result("C5").status == "violated"


# ---- C7 --------------------------------------------------------------------------------------------------------


def test_two_readers_that_agree() -> None:
    """Shows that the second reading of an offset tests C7, and the first does not."""
    trace = committed("a", "b")
    trace.polled("consumer-1", (0, "a"), (1, "b"))
    assert trace.result("C7").status == "vacuous"
    trace.polled("consumer-2", (0, "a"))
    trace.polled("consumer-2", (1, "b"))
    assert (trace.result("C7").status, trace.result("C7").tested) == ("held", 2)


def test_two_readers_that_differ() -> None:
    """Shows that another record at an offset violates C7, with both polls as evidence."""
    trace = TraceBuilder()
    trace.polled("consumer-1", (40, "x"))
    first = trace.polled("consumer-1", (41, "a"))
    second = trace.polled("consumer-2", (41, "b"))
    result = trace.result("C7")
    assert result.violations[0].events == [first, second]
    assert result.violations[0].sentence == "consumer-2 got b at offset 41 of orders-0, where consumer-1 had got a"


@pytest.mark.parametrize("polls", [((0, "a"), (2, "c")), ((0, "a"),)])
def test_a_record_that_vanished(polls: tuple[tuple[int, str], ...]) -> None:
    """Shows that a reader that goes past an offset, in a poll or between two, misses what another one got there."""
    trace = TraceBuilder()
    first = trace.polled("consumer-1", (0, "a"), (1, "b"), (2, "c"))
    trace.polled("consumer-2", *polls)
    trace.polled("consumer-2", (polls[-1][0] + 2 if len(polls) == 1 else 3, "c" if len(polls) == 1 else "d"))
    result = trace.result("C7")
    assert result.violated == 1
    assert result.violations[0].events[0] == first
    assert result.violations[0].sentence == (
        "consumer-2 read orders-0 past offset 1 and got no record there, where consumer-1 had got b"
    )


def test_a_reader_that_jumps_misses_nothing() -> None:
    """Shows that what lies in a jump of the position was not read past."""
    trace = TraceBuilder()
    trace.polled("consumer-1", (0, "a"), (1, "b"), (2, "c"))
    trace.polled("consumer-2", (0, "a"))
    trace.moved("consumer-2", 2)
    trace.polled("consumer-2", (2, "c"))
    assert trace.result("C7").status == "held"


def test_a_process_that_begins_anew_went_past_nothing() -> None:
    """Shows that a consumer that was restarted did not read from where its former process was to where it begins."""
    trace = TraceBuilder()
    trace.up("consumer-2", "consumer")
    trace.polled("consumer-1", (0, "a"), (1, "b"), (2, "c"))
    trace.polled("consumer-2", (0, "a"))
    trace.up("consumer-2", "consumer")
    trace.polled("consumer-2", (2, "c"))
    assert (trace.result("C7").status, trace.result("C7").tested) == ("held", 2)


def test_an_unclean_election_and_a_power_loss_excuse_another_value() -> None:
    """Shows that C7 and C8 excuse what an unclean election gave up, and what min.insync.replicas holders lost."""
    trace = committed("a", "b", followers=(2,))
    trace.polled("consumer-1", (0, "a"), (1, "b"))
    trace.lead(3, 1, cause="unclean", isr=(3,))
    trace.append("broker-3", "x", epoch=1)
    trace.high_watermark("broker-3", 1, 1, counted=(3,))
    trace.polled("consumer-2", (0, "x"), batch_epoch=1)
    assert (trace.result("C7").status, trace.result("C7").excused) == ("excused", {"unclean-election": 1})
    assert (trace.result("C8").violated, trace.result("C8").excused) == (0, {})
    trace.polled("consumer-2", (1, "b"))  # from broker-1, which does not know
    assert trace.result("C8").excused == {"unclean-election": 1}
    lost = committed("a", followers=(2,))
    lost.polled("consumer-1", (0, "a"))
    lost.down("broker-1", "lossy", lost={TP: 0})
    lost.lead(3, 1)
    lost.append("broker-3", "x", epoch=1)
    lost.high_watermark("broker-3", 1, 1, counted=(3,))
    lost.polled("consumer-2", (0, "x"), batch_epoch=1)
    assert lost.result("C7").excused == {"loss-budget": 1}
    assert (lost.result("C8").violated, lost.result("C8").excused) == (0, {})
    lost.polled("consumer-3", (0, "a"))  # from a broker that does not know
    assert lost.result("C8").excused == {"loss-budget": 1}


def test_after_an_unclean_election_reads_repeat_again() -> None:
    """Shows that what the unclean leader commits is held to C7 and C8 like anything else, and that a leader which does
    not know of the election may still hand out what was given up."""
    trace = committed("a", "b", followers=(2,))
    trace.polled("consumer-1", (0, "a"), (1, "b"))
    trace.lead(3, 1, cause="unclean", isr=(3,))
    trace.append("broker-3", "x", "y", epoch=1)
    trace.high_watermark("broker-3", 2, 1, counted=(3,))
    trace.polled("consumer-2", (0, "x"), (1, "y"), batch_epoch=1)
    trace.polled("consumer-3", (0, "a"), (1, "b"))
    trace.polled("consumer-4", (0, "x"), (1, "y"), batch_epoch=1)
    assert trace.result("C7").excused == {"unclean-election": 2}
    assert trace.result("C7").violated == 0
    trace.polled("consumer-5", (1, "z"), batch_epoch=1)
    assert (
        trace.result("C7").violations[0].sentence.endswith("got z at offset 1 of orders-0, where consumer-2 had got y")
    )
    assert trace.result("C8").violations[0].sentence.endswith("got z at offset 1 of orders-0, where y is committed")


@pytest.mark.parametrize(("broker", "status"), [(2, "held"), (1, "violated")])
def test_a_marker_in_the_log_of_a_replaced_leader(broker: int, status: str) -> None:
    """Shows that a consumer rightly skips a control batch of the log that it reads, which no other log may have."""
    trace = TransactionTrace()
    trace.lead(1)
    trace.write("a", broker=2)
    trace.ends("commit", broker=2)
    trace.write("b", broker=2)
    trace.polled("consumer-1", (0, "a"), broker=broker)
    trace.polled("consumer-1", (2, "b"), broker=broker)
    assert trace.result("C5").status == status


READS_COMMITTED = {"config": {"isolation.level": "read_committed"}}


def log_given_up(kind: Literal["abort", "commit"], **profile: Any) -> TransactionTrace:
    """Broker-1 has committed "a", "b" in a transaction, and its marker at 2; broker-2, elected uncleanly, has "a", "c",
    "d" and "e"."""
    trace = TransactionTrace(**profile)
    trace.lead(1)
    trace.replicate("a", followers=(2,))
    trace.write("b")
    trace.ends(kind)
    trace.high_watermark("broker-1", 3)
    trace.lead(2, 1, cause="unclean", isr=(2,))
    for uid in ("c", "d", "e"):
        trace.append("broker-2", uid, epoch=1)
    trace.high_watermark("broker-2", 4, 1, counted=(2,))
    return trace


@pytest.mark.parametrize(
    ("kind", "isolation", "read", "asked", "violated"),
    [
        ("commit", 0, 2, 3, 0),  # it has passed the marker, and "d" came to its place
        ("commit", 0, 2, 2, 1),  # it has not: it asks for "d", and leaves it out
        ("commit", 0, 1, 3, 1),  # "b" is a record for everybody
        ("abort", 1, 1, 3, 0),
        ("abort", 0, 1, 3, 1),
        ("abort", 1, 1, 2, 1),
    ],
)
def test_a_marker_in_a_log_that_was_given_up(
    kind: Literal["abort", "commit"], isolation: int, read: int, asked: int, violated: int
) -> None:
    """Shows that a consumer goes on behind the marker, and at read_committed the aborted records, of a log that has
    been given up since; and that one which asks for what is there now may not leave it out."""
    trace = log_given_up(kind)
    records = [(0, "a"), (1, "b")][:read]
    trace.polled("consumer-1", *records)
    trace.polled("consumer-1", (3, "e"), broker=2)
    body = trace.events[-1].body
    trace.events[-1] = replace(trace.events[-1], body=replace(body, offset=asked, isolation=isolation))
    assert trace.result("C5").violated == violated


@pytest.mark.parametrize(("kind", "violated"), [("abort", 0), ("commit", 1)])
def test_a_group_goes_on_behind_what_was_given_up(kind: Literal["abort", "commit"], violated: int) -> None:
    """Shows that a group which has committed a position behind aborted records and their marker goes on from there,
    whatever another log has there by now; committed records it must have got."""
    trace = log_given_up(kind, nodes={f"consumer-{each}": READS_COMMITTED for each in (1, 2)})
    owned(trace, "consumer-1", TP)
    trace.moved("consumer-1", 1, "assign")
    owned(trace, "consumer-1")
    owned(trace, "consumer-2", TP)
    trace.moved("consumer-2", 3, "committed")
    assert trace.result("C5").violated == violated


# ---- C8 --------------------------------------------------------------------------------------------------------


def test_what_is_committed_is_shown() -> None:
    """Shows that each poll tests C8."""
    trace = committed("a", "b")
    trace.polled("consumer-1", (0, "a"), (1, "b"))
    assert (trace.result("C8").status, trace.result("C8").tested) == ("held", 1)


def test_what_is_not_committed_is_shown() -> None:
    """Shows that a record above every high watermark violates C8, also if a replica has it."""
    trace = committed("a")
    trace.append("broker-1", "b")
    poll = trace.polled("consumer-1", (0, "a"), (1, "b"))
    result = trace.result("C8")
    assert result.violations[0].events == [poll]
    assert result.violations[0].sentence == (
        "consumer-1 got b at offset 1 of orders-0, but leaders had committed only the records below 1"
    )


@pytest.mark.parametrize(("log_start", "status"), [(1, "held"), (2, "violated")])
def test_a_deleted_record(log_start: int, status: str) -> None:
    """Shows that a record below the log start of the broker that returns it violates C8; the first above does not."""
    trace = committed("a", "b")
    trace.polled("consumer-1", (1, "b"), log_start=log_start)
    result = trace.result("C8")
    assert result.status == status
    if status == "violated":
        assert result.violations[0].sentence.endswith("of orders-0 from broker-1, whose log starts at 2")


def test_another_record_than_the_committed_one() -> None:
    """Shows that an offset below the high watermark is not enough: the record must be the committed one."""
    trace = committed("a", "b")
    trace.polled("consumer-1", (0, "a"), (1, "x"))
    assert trace.result("C8").violations[0].sentence.endswith("got x at offset 1 of orders-0, where b is committed")


# ---- C11 -------------------------------------------------------------------------------------------------------


def test_a_payload_that_arrives() -> None:
    """Shows that a record that comes as it was sent tests C11, and one whose sending is not known does not."""
    trace = TraceBuilder()
    trace.sends("producer-1", "a", digest=5)
    trace.polled("consumer-1", (0, "a"), digest=5)
    trace.polled("consumer-1", (1, "b"), digest=6)
    assert (trace.result("C11").status, trace.result("C11").tested) == ("held", 1)


def test_a_payload_that_changed_on_its_way() -> None:
    """Shows that another payload violates C11, with send and poll."""
    trace = TraceBuilder()
    sent = trace.sends("producer-1", "a", digest=5)
    poll = trace.polled("consumer-1", (3, "a"), digest=15)
    result = trace.result("C11")
    assert result.violations[0].events == [sent, poll]
    assert result.violations[0].sentence == (
        "consumer-1 got a at offset 3 of orders-0 with payload digest 0000000f, but producer-1 had sent payload "
        "digest 00000005"
    )


def test_a_payload_that_comes_back_with_its_leader() -> None:
    """Shows that C11 goes by what is committed again as an unclean leader takes up its epoch: the record that had its
    offset meanwhile does not count."""
    trace = TraceBuilder()
    trace.sends("producer-1", "b", digest=5)
    trace.sends("producer-1", "c", digest=6)
    trace.lead(1, 0)
    trace.replicate("a")
    trace.change(1, 0, isr=(1,), cause="alter-isr", partition_epoch=1)
    trace.append("broker-1", "b")
    trace.high_watermark("broker-1", 2, counted=(1,))
    trace.lead(2, 1, cause="unclean", isr=(2,))
    trace.append("broker-2", "c", epoch=1)
    trace.high_watermark("broker-2", 2, 1, counted=(2,))
    trace.change(1, 2, cause="unclean", isr=(1,))
    trace.assume(1, 2, high_watermark=2)
    trace.polled("consumer-1", (1, "b"), epoch=2, digest=5)
    assert trace.result("C11").status == "held"
    trace.polled("consumer-2", (1, "b"), epoch=2, digest=6)
    assert trace.result("C11").status == "violated"


# ---- the window ------------------------------------------------------------------------------------------------


def test_a_window_knows_what_was_put_into_it() -> None:
    """Shows that reading beyond either end, over a hole, and after a cut gives empty names."""
    window = OffsetWindow()
    window.put(2, ["c", "d"])
    assert window.between(0, 6) == ["", "", "c", "d", "", ""]
    assert (window.at(2), window.at(9), window.between(8, 9)) == ("c", "", [""])
    window.put(3, ["x", "y"])
    window.cut(4)
    assert (window.between(2, 5), window.end) == (["c", "x", ""], 4)


def test_a_window_forgets_what_is_far_back() -> None:
    """Shows that a window stays small, and that what comes below its start is ignored."""
    window = OffsetWindow()
    for first in range(0, 3 * REMEMBERED, 1 << 14):
        window.put(first, ["n"] * (1 << 14))
    assert len(window.names) <= 2 * REMEMBERED
    assert (window.end, window.at(3 * REMEMBERED - 1), window.at(0)) == (3 * REMEMBERED, "n", "")
    window.put(0, ["old"])
    assert window.at(0) == ""
    window.put(10 * REMEMBERED, ["new"])
    assert (window.start, window.names) == (10 * REMEMBERED, ["new"])


def test_an_unclean_election_brings_back_what_its_leader_had_committed() -> None:
    """Shows that a leader's high watermark counts from when it takes up its epoch: broker-1 has committed "b" by itself
    when broker-2 is elected without it, and is elected again; its followers and consumers get "b" at once."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.replicate("a")
    trace.change(1, 0, isr=(1,), cause="alter-isr", partition_epoch=1)
    trace.append("broker-1", "b")
    trace.high_watermark("broker-1", 2, counted=(1,))
    trace.lead(2, 1, cause="unclean", isr=(2,))
    trace.append("broker-2", "c", epoch=1)
    trace.high_watermark("broker-2", 2, 1, counted=(2,))
    trace.change(1, 2, cause="unclean", isr=(1,))
    trace.assume(1, 2, high_watermark=2)
    trace.truncate("broker-3", 1, epoch=2)
    trace.append("broker-3", "b", role="follower")
    trace.high_watermark("broker-3", 2, 2, role="follower")
    trace.polled("consumer-1", (0, "a"), (1, "b"), epoch=2)
    results = trace.check(["P10", "C8"])
    assert {name: (each.violated, each.excused) for name, each in results.items()} == {"P10": (0, {}), "C8": (0, {})}
    trace.polled("consumer-1", (1, "c"), epoch=2, batch_epoch=1)
    assert trace.result("C8").status == "violated"


# ---- C5 in groups --------------------------------------------------------------------------------------------------


def owned(trace: TraceBuilder, node: str, *tps: str) -> str:
    """What a member of the group has from now on, which had one partition before."""
    gone = [] if TP in tps else [TP]
    return trace.emit(node, ConsOwn("g", f"member of {node}", 1, list(tps), revoked=gone))


def test_a_group_leaves_nothing_out_when_owners_change() -> None:
    """Shows that the next owner may begin where some member was given records, or below it, and tests C5 by that."""
    trace = committed("a", "b", "c")
    owned(trace, "consumer-1", TP)
    trace.moved("consumer-1", 0, "assign")
    trace.polled("consumer-1", (0, "a"), (1, "b"))
    for start in (2, 1):
        owned(trace, "consumer-1")
        owned(trace, "consumer-2", TP)
        trace.moved("consumer-2", start, "committed")
        owned(trace, "consumer-2")
    assert (trace.result("C5").status, trace.result("C5").tested) == ("held", 3)


def test_a_group_leaves_something_out_when_owners_change() -> None:
    """Shows that an owner that begins beyond what any member was given violates C5, unless there is no record in
    between, or the application moved on, or it is another group."""
    trace = committed("a", "b", "c")
    owned(trace, "consumer-1", TP)
    trace.moved("consumer-1", 0, "assign")
    last = trace.polled("consumer-1", (0, "a"))
    owned(trace, "consumer-2", TP)
    event = trace.moved("consumer-2", 2, "committed")
    (finding,) = trace.result("C5").violations
    assert finding.events == [last, event]
    assert finding.sentence == (
        "consumer-2 begins to read orders-0 at offset 2, but group g had got only the records below 1: offset 1 is "
        "left out"
    )
    trace = committed("a", "b", "c")
    owned(trace, "consumer-1", TP)
    trace.moved("consumer-1", 0, "assign")
    trace.moved("consumer-1", 2, "seek")
    owned(trace, "consumer-2", TP)
    trace.moved("consumer-2", 2, "committed")
    trace.emit("consumer-3", ConsOwn("other", "m", 1, [TP]))
    trace.moved("consumer-3", 3, "committed")
    assert trace.result("C5").violated == 0


@pytest.mark.parametrize(("kind", "who", "violated"), [("abort", 2, 0), ("commit", 2, 1), ("abort", 1, 1)])
def test_a_group_goes_on_without_a_record(kind: Literal["abort", "commit"], who: int, violated: int) -> None:
    """Shows that a member at read_committed may go on from aborted records without a poll that returned any, behind
    members that read all; records of another fate, or without such a member, violate C5."""
    trace = TransactionTrace(nodes={f"consumer-{who}": READS_COMMITTED})
    trace.lead(1)
    trace.write("a")
    trace.ends(kind)
    trace.high_watermark("broker-1", 2)
    starts = {1: 2, 2: 0, 3: 0}
    for member in (3, 2, 1):
        owned(trace, f"consumer-{member}", TP)
        trace.moved(f"consumer-{member}", starts[member], "committed" if member == 1 else "assign")
        owned(trace, f"consumer-{member}")
    assert trace.result("C5").violated == violated


def test_who_gave_a_partition_up_is_given_no_more_of_it() -> None:
    """Shows that records of a partition that a member has given up violate C5."""
    trace = committed("a", "b")
    owned(trace, "consumer-1", TP)
    trace.moved("consumer-1", 0, "committed")
    trace.polled("consumer-1", (0, "a"))
    gone = owned(trace, "consumer-1", "orders-1")
    event = trace.polled("consumer-1", (1, "b"))
    (finding,) = trace.result("C5").violations
    assert finding.events == [gone, event]
    assert finding.sentence == "consumer-1 got records of orders-0 up to 2 after it had given up the partition"
