"""H6 and C6: nobody is told less than what was known before."""

from __future__ import annotations

import pytest

from actors.trace.events import ListInvoke, ListReturn, ReplyPartition, RpcReply, SendReturn
from tests.unit.invariants.partitions.test_replication import committed
from tests.unit.invariants.trace_builder import TP, TraceBuilder

# ---- H6 --------------------------------------------------------------------------------------------------------


def test_latest_covers_what_is_known() -> None:
    """Shows that an answer tests H6 once something was known: acknowledged with acks=all, read, or told."""
    trace = TraceBuilder()
    trace.ask("list-offsets-1", 0, 1, 0)
    trace.acked("producer-1", "a", 0, acks=1)
    assert trace.result("H6").status == "vacuous"
    trace.ask("list-offsets-1", 0, 1, 0)
    assert (trace.result("H6").status, trace.result("H6").tested) == ("held", 1)
    trace.acked("producer-1", "b", 1)
    trace.polled("consumer-1", (2, "c"), epoch=0)
    trace.ask("list-offsets-1", 3, 1, 0)
    assert (trace.result("H6").status, trace.result("H6").tested) == ("held", 2)


@pytest.mark.parametrize("how", ["acknowledged", "got", "told"])
def test_latest_below_what_is_known(how: str) -> None:
    """Shows that an answer below an acknowledged record, a read one, or an earlier answer violates H6, with both."""
    trace = TraceBuilder()
    if how == "acknowledged":
        first = trace.acked("producer-1", "a", 9, 1, 4)
    elif how == "got":
        first = trace.polled("consumer-1", (9, "a"), epoch=4)
    else:
        first = trace.ask("list-offsets-1", 10, 1, 4)
    second = trace.ask("list-offsets-2", 9, 2, 5)
    result = trace.result("H6")
    assert result.violations[0].events == [first, second]
    assert result.violations[0].sentence == (
        "broker-2 (leader epoch 5) reported 9 as the latest offset of orders-0 to list-offsets-2 after "
        + {
            "acknowledged": "broker-1 (leader epoch 4) had acknowledged a at 9",
            "got": "consumer-1 had read a at 9 from broker-1 (leader epoch 4)",
            "told": "broker-1 (leader epoch 4) had reported 10 to list-offsets-1",
        }[how]
    )


def test_what_was_learned_meanwhile_does_not_bind() -> None:
    """Shows that an operation that was open when something returned may be told less, and so may the next one, within
    the uncertainty of the clocks."""
    trace = TraceBuilder(epsilon_us=2500)
    op = trace.invoke("list-offsets-1")
    trace.acked("producer-1", "a", 9)
    trace.told("list-offsets-1", op, 3, 1, 0)
    trace.ask("list-offsets-1", 4, 1, 0)
    assert trace.result("H6").status == "vacuous"
    trace.ask("list-offsets-1", 5, 1, 0)
    assert trace.result("H6").status == "violated"


def test_a_reader_of_committed_records_knows_for_itself() -> None:
    """Shows that what a read_uncommitted client knows does not bind an answer at read_committed."""
    trace = TraceBuilder()
    trace.acked("producer-1", "a", 9)
    op = trace.invoke("list-offsets-1", isolation=1)
    trace.emit("list-offsets-1", ListReturn(op, "ok", 0, TP, -1, offset=3, leader_epoch=0, isolation=1))
    assert trace.result("H6").status == "vacuous"
    op = trace.invoke("list-offsets-1", isolation=1)
    trace.emit("list-offsets-1", ListReturn(op, "ok", 0, TP, -1, offset=2, leader_epoch=0, isolation=1))
    assert trace.result("H6").status == "violated"


def test_a_stale_leader_is_excused() -> None:
    """Shows that an answer under a lower leader epoch is excused and counted, also for C6."""
    trace = TraceBuilder()
    trace.acked("producer-1", "a", 9, 2, 5)
    trace.ask("list-offsets-1", 4, 1, 4)
    for name in ("H6", "C6"):
        assert (trace.result(name).status, trace.result(name).excused) == ("excused", {"stale-leader": 1})


def test_an_unclean_election_and_a_power_loss_excuse() -> None:
    """Shows that an answer below what was given up, or lost within the budget, is excused by H6 and C6."""
    for how in ("unclean-election", "loss-budget"):
        trace = committed("a", "b", followers=(2,))
        trace.acked("producer-1", "b", 1, 1, 0)
        if how == "loss-budget":
            trace.down("broker-1", "lossy", lost={TP: 0})
            trace.lead(3, 1)
        else:
            trace.lead(3, 1, cause="unclean", isr=(3,))
        trace.ask("list-offsets-1", 0, 3, 1)
        for name in ("H6", "C6"):
            assert (trace.result(name).violated, trace.result(name).excused) == (0, {how: 1})


def test_kip_207_as_written_allows_it_where_unclean_election_is_enabled() -> None:
    """Shows the exemption of the seed text."""
    config = {"unclean.leader.election.enable": True}
    trace = TraceBuilder(features={"kip-207": "seed"}, config=config)
    trace.acked("producer-1", "a", 9, 1, 4)
    trace.ask("list-offsets-1", 4, 2, 5)
    assert trace.result("H6").excused == {"unclean-enabled": 1}


def test_the_leader_epoch_comes_from_the_servers_own_record() -> None:
    """Shows that where an answer does not tell its leader epoch, the server's record of it does; without that the
    answer can be judged by nobody."""
    for recorded, status in ((True, "excused"), (False, "inconclusive")):
        trace = TraceBuilder()
        told = ReplyPartition(TP, 0, 9, 9, leader_epoch=5, leader_epoch_start=0)
        if recorded:
            trace.emit("broker-2", RpcReply("Produce", 9, "producer-1", "p>2", 7, -1, 0, -1, [told]))
        trace.req = "p>2#3"
        body = SendReturn("s", "ok", 0, TP, "a", -1, offset=9, broker="broker-2", correlation_id=7)
        trace.emit("producer-1", body)
        trace.req = ""
        trace.ask("list-offsets-1", 4, 1, 4)
        assert trace.result("H6").status == status
        assert trace.result("H6").excused == ({"stale-leader": 1} if recorded else {})


def test_a_fetch_without_epoch_was_answered_at_the_latest_in_the_newest_one() -> None:
    """Shows that a read whose Fetch named no leader epoch counts for the newest that its broker had taken up."""
    trace = TraceBuilder()
    trace.lead(1, 4)
    trace.polled("consumer-1", (9, "a"))
    trace.ask("list-offsets-1", 4, 2, 3)
    assert trace.result("H6").excused == {"stale-leader": 1}


def test_a_follower_hands_out_what_its_leader_committed() -> None:
    """Shows that a read from a follower counts for the leader epoch of the record: an older leader may not have it."""
    for batch_epoch, status in ((4, "violated"), (5, "excused")):
        trace = TraceBuilder()
        trace.lead(1, 3)
        trace.polled("consumer-1", (9, "a"), batch_epoch=batch_epoch)
        trace.ask("list-offsets-1", 4, 2, 4)
        assert trace.result("H6").status == status


# ---- C6 --------------------------------------------------------------------------------------------------------


def send(trace: TraceBuilder, uid: str, offset: int, broker: int = 1, epoch: int = 0, acks: int = -1) -> str:
    """A send, from invocation to return."""
    trace.sends("producer-1", uid, acks)
    return trace.acked("producer-1", uid, offset, broker, epoch, acks)


def test_a_later_send_comes_behind() -> None:
    """Shows that each send that began after another one had returned tests C6."""
    trace = TraceBuilder()
    send(trace, "a", 4)
    send(trace, "b", 5)
    assert (trace.result("C6").status, trace.result("C6").tested) == ("held", 1)


def test_a_later_send_comes_in_front() -> None:
    """Shows that a send told a lower offset than one that had returned before it began violates C6, with both."""
    trace = TraceBuilder()
    first = send(trace, "a", 4)
    second = send(trace, "b", 4, 2, 1)
    result = trace.result("C6")
    assert result.violations[0].events == [first, second]
    assert result.violations[0].sentence == (
        "broker-2 (leader epoch 1) acknowledged b, which producer-1 had sent later, at offset 4 of orders-0 after "
        "broker-1 (leader epoch 0) had acknowledged a at 4"
    )


def test_sends_that_overlap_may_come_in_any_order() -> None:
    """Shows that a send that began before the other one had returned is not compared."""
    trace = TraceBuilder()
    trace.sends("producer-1", "a")
    send(trace, "b", 5)
    trace.acked("producer-1", "a", 4)
    assert trace.result("C6").status == "vacuous"


def test_less_than_acks_all_is_excused() -> None:
    """Shows that an order that breaks where one of two was sent with acks=1 is excused; a list is not held to it."""
    trace = TraceBuilder()
    send(trace, "a", 4, acks=1)
    send(trace, "b", 3, 2, 1)
    assert trace.result("C6").excused == {"acks<=1": 1}
    trace.ask("list-offsets-1", 4, 2, 1)
    assert (trace.result("C6").status, trace.result("C6").tested) == ("held", 2)


def test_a_list_must_show_what_was_acknowledged() -> None:
    """Shows that a latest offset at or below an acknowledged one violates C6, but from a leader that has not caught up
    with its own start it is excused."""
    trace = TraceBuilder()
    send(trace, "a", 4)
    trace.ask("list-offsets-1", 4, 1, 0)
    assert trace.result("C6").status == "violated"
    lagging = TraceBuilder()
    send(lagging, "a", 4)
    op = lagging.invoke("list-offsets-1")
    told = ReplyPartition(TP, 0, 4, leader_epoch=1, high_watermark=4, leader_epoch_start=5)
    lagging.emit("broker-2", RpcReply("ListOffsets", 7, "list-offsets-1", "l>2", 7, -1, 0, 0, [told]))
    lagging.req = "l>2#0"
    body = ListReturn(op, "ok", 0, TP, -1, offset=4, leader_epoch=1, broker="broker-2", correlation_id=7)
    lagging.emit("list-offsets-1", body)
    assert (lagging.result("C6").status, lagging.result("C6").excused) == ("excused", {"new-leader": 1})


def test_another_record_at_an_acknowledged_offset() -> None:
    """Shows that a consumer must get what was acknowledged, unless an unclean election lies in between."""
    trace = committed("a")
    send(trace, "a", 0)
    trace.polled("consumer-1", (0, "a"))
    assert (trace.result("C6").status, trace.result("C6").tested) == ("held", 1)
    poll = trace.polled("consumer-1", (0, "x"))
    result = trace.result("C6")
    assert result.violations[0].events == [poll]
    assert result.violations[0].sentence == (
        "consumer-1 got x at offset 0 of orders-0 after a had been acknowledged there"
    )
    unclean = committed("a", followers=(2,))
    send(unclean, "a", 0)
    unclean.lead(3, 1, cause="unclean", isr=(3,))
    unclean.polled("consumer-1", (0, "x"), broker=3, epoch=1)
    assert unclean.result("C6").excused == {"unclean-election": 1}
    unclean.polled("consumer-1", (0, "x"), broker=1, epoch=0)
    assert unclean.result("C6").violated == 1  # the leader that acknowledged it had given up nothing


def test_operations_that_end_otherwise_bind_nobody() -> None:
    """Shows that failed sends and lists, and sends without acknowledgement, are no knowledge."""
    trace = TraceBuilder()
    trace.sends("producer-1", "a", acks=0)
    trace.acked("producer-1", "a", -1, acks=0)
    trace.sends("producer-1", "b")
    trace.failed("producer-1", "b", 7, "unknown")
    op = trace.invoke("list-offsets-1")
    trace.emit("list-offsets-1", ListReturn(op, "unknown", 7, TP, -1))
    trace.emit("list-offsets-1", ListInvoke("e", TP, -2))
    trace.ask("list-offsets-1", 0, 1, 0)
    assert {trace.result(name).status for name in ("H6", "C6")} == {"vacuous"}
