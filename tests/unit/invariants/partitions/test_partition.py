"""P1, P3, P7, P16 and P17: what leaders, followers and the controller promise one another."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.node.errors import KafkaError
from actors.trace.events import ConfigChange, EpochTold, MetaImage, PartAssume, Polled, PollReturn, ReplyPartition
from orchestrator.invariants.mirrors.min_isr import MIN_ISR
from tests.unit.invariants.trace_builder import TP, TraceBuilder

# ---- P1 --------------------------------------------------------------------------------------------------------


def test_one_leader_per_leader_epoch_holds() -> None:
    """Shows that each leader that the controller named tests P1, also when it takes up its epoch again."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.lead(2, 1)
    trace.assume(2, 1)
    result = trace.result("P1")
    assert (result.status, result.tested) == ("held", 3)


def test_a_leader_epoch_is_given_twice() -> None:
    """Shows that a controller that gives one epoch to two brokers violates P1, before any broker acts on it."""
    trace = TraceBuilder()
    first = trace.change(1, 4)
    second = trace.change(2, 4)
    result = trace.result("P1")
    assert result.violations[0].events == [first, second]
    assert result.violations[0].sentence == (
        "the controller of quorum epoch 1 gave leader epoch 4 of orders-0 to broker-2, but broker-1 already had it"
    )


def test_a_lost_change_counts_for_nothing() -> None:
    """Shows that what a controller of an older quorum epoch gave is no violation until a broker acts on both."""
    trace = TraceBuilder()
    trace.change(1, 4, quorum_epoch=1)
    trace.change(2, 4, quorum_epoch=2)
    trace.assume(2, 4)
    assert trace.result("P1").status == "held"
    trace.assume(1, 4)
    assert trace.result("P1").violations[0].sentence == (
        "broker-1 took up the leadership of orders-0 in leader epoch 4, in which broker-2 led the partition"
    )


def test_a_leader_that_nobody_named() -> None:
    """Shows that a broker that leads without the controller's word, or against it, violates P1."""
    trace = TraceBuilder()
    trace.assume(3, 4)
    assert (
        trace.result("P1").violations[0].sentence.endswith("in leader epoch 4, which the controller gave to no broker")
    )
    other = TraceBuilder()
    other.change(2, 4)
    other.assume(3, 4)
    assert other.result("P1").violations[0].sentence.endswith("which the controller gave to broker-2")


def test_followers_do_not_test_p1() -> None:
    """Shows that P1 is vacuous where nobody takes up leadership."""
    trace = TraceBuilder()
    trace.change(1, 0)
    trace.assume(2, 0, leader=1)
    assert trace.result("P1").status == "vacuous"


# ---- P3 --------------------------------------------------------------------------------------------------------


def test_equal_logs_match() -> None:
    """Shows that every copy of a batch tests P3."""
    trace = TraceBuilder()
    trace.replicate("a", "b")
    result = trace.result("P3")
    assert (result.status, result.tested) == ("held", 2)


def test_logs_that_differ_below_a_batch() -> None:
    """Shows that the same offset and epoch over another prefix violates P3, though the batch itself is the same."""
    trace = TraceBuilder()
    trace.append("broker-1", "a", epoch=0)
    trace.append("broker-2", "x", epoch=1, role="follower")
    first = trace.append("broker-1", "b", epoch=2)
    second = trace.append("broker-2", "b", epoch=2, role="follower")
    result = trace.result("P3")
    assert result.violations[0].events == [first, second]
    assert result.violations[0].sentence == (
        "broker-2 and broker-1 hold offset 1 of orders-0 in leader epoch 2, but their logs differ at or below that "
        "offset"
    )


def test_other_epochs_may_differ() -> None:
    """Shows that the same offset in different leader epochs is no test of P3."""
    trace = TraceBuilder()
    trace.append("broker-1", "a", epoch=0)
    trace.append("broker-2", "x", epoch=1)
    assert trace.result("P3").status == "vacuous"


# ---- P7 --------------------------------------------------------------------------------------------------------


def shrunk(isr: tuple[int, ...] = (2,), **profile: Any) -> TraceBuilder:
    """Broker-2 leads epoch 5, from the end of its log at 1,310 on, with an ISR of its own."""
    trace = TraceBuilder(**profile)
    trace.append("broker-2", *(f"r{offset}" for offset in range(1310)))
    trace.change(2, 5, isr=isr)
    trace.assume(2, 5)
    return trace


def test_a_follower_that_earned_its_place() -> None:
    """Shows that a fetch at the high watermark and the epoch's start, in this epoch, earns a place in the ISR."""
    trace = shrunk()
    trace.fetched(2, 3, 1310, epoch=5)
    trace.propose(2, [2, 3], 5, 5, hw=1204, start=1310)
    result = trace.result("P7")
    assert (result.status, result.tested) == ("held", 1)


def test_a_follower_below_the_start_of_the_epoch() -> None:
    """Shows that a fetch past the high watermark but below the epoch's start does not: KAFKA-7128."""
    trace = shrunk()
    fetch = trace.fetched(2, 3, 1250, epoch=5)
    proposal = trace.propose(2, [2, 3], 5, 5, hw=1204, start=1310)
    result = trace.result("P7")
    assert result.violations[0].events == [fetch, proposal]
    assert result.violations[0].sentence == (
        "broker-2 (leader epoch 5) proposed broker-3 for the ISR of orders-0, which had fetched up to 1,250 in this "
        "epoch; it had to reach the high watermark 1,204 and the epoch's start 1,310"
    )


def test_a_fetch_of_an_older_epoch_earns_nothing() -> None:
    """Shows that neither a fetch in an older leader epoch nor none at all earns a place."""
    trace = TraceBuilder()
    trace.lead(2, 4)
    trace.fetched(2, 3, 1310, epoch=4)
    trace.change(2, 5, isr=(2,))
    trace.propose(2, [2, 3], 5, 5, hw=1204, start=1310)
    assert "which had not fetched" in trace.result("P7").violations[0].sentence


def test_a_fetch_under_another_broker_epoch() -> None:
    """Shows that a fetch of an older incarnation does not earn the place of the present one (KIP-903), and that a
    follower whose fetches carry no broker epoch is excused if its version of Fetch has none."""
    trace = shrunk()
    trace.fetched(2, 3, 1310, epoch=5, broker_epoch=6)
    trace.propose(2, [2, 3], 5, 5, start=1310)
    assert trace.result("P7").violations[0].sentence.endswith("under broker epoch 6")
    for newest, said in ((14, {"no-broker-epoch": 1}), (15, {})):
        old = shrunk(versions={"Fetch": [4, newest]})
        old.fetched(2, 3, 1310, epoch=5, broker_epoch=-1)
        old.propose(2, [2, 3], 5, 5, start=1310)
        assert (old.result("P7").excused, old.result("P7").violated) == (said, newest == 15)


def test_whom_the_leader_knows_to_be_fenced_does_not_join() -> None:
    """Shows that a leader must go by what it has applied of the metadata log: not by what it has not got to, nor by
    what a controller wrote that was replaced."""
    active = "controller-1"
    for applied, controller, status in ((15, active, "held"), (20, active, "violated"), (20, "", "held")):
        trace = TraceBuilder()
        trace.role("controller-1", 1, "leader", 0)
        trace.lead(2, 5, isr=(2,))
        trace.fetched(2, 3, 0, epoch=5)
        trace.registered(3, fenced=True, offset=18, node=controller or "controller-2")
        trace.emit("broker-2", MetaImage(applied, 1))
        proposal = trace.propose(2, [2, 3], 5, 5)
        result = trace.result("P7")
        assert result.status == status
        if result.violations:
            assert result.violations[0].events[1] == proposal
            assert result.violations[0].sentence.endswith(
                "although offset 18 of the metadata log, which it had applied up to 20, fences that broker or begins "
                "its shutdown"
            )


@pytest.mark.parametrize(
    ("applied", "epoch", "told", "status"),
    [
        (15, 20, True, "violated"),
        (21, 20, True, "held"),
        (21, 7, True, "violated"),
        (15, 7, True, "held"),
        (15, 20, False, "held"),
        (None, 20, True, "held"),
    ],
)
def test_whom_the_leader_has_not_heard_of_does_not_join(
    applied: int | None, epoch: int, told: bool, status: str
) -> None:
    """Shows that a leader asks for a follower under the broker epoch that its metadata have for it: neither under one
    whose registration it has not applied, nor under an older one; but a controller may have died before it told of a
    registration, and of a leader that has not said what it applied nothing is asked."""
    trace = TraceBuilder()
    trace.role("controller-1", 1, "leader", 0)
    trace.lead(2, 5, isr=(2,))
    trace.registered(3, epoch=7, offset=8, node="controller-1")
    if told:
        trace.registered(3, epoch=20, offset=20, node="controller-1")
    if applied is not None:
        trace.emit("broker-2", MetaImage(applied, 1))
    trace.fetched(2, 3, 0, epoch=5, broker_epoch=epoch)
    trace.propose(2, [2, 3], 5, 5, broker_epochs={3: epoch})
    result = trace.result("P7")
    assert (result.status, result.tested) == (status, 1)
    if result.violations:
        assert f"under broker epoch {epoch}, although the metadata log" in result.violations[0].sentence


def test_where_the_epoch_starts_the_log_tells() -> None:
    """Shows that P7 goes by the leader's log, whatever the leader says of the start of its epoch: by where it ended
    when the epoch was taken up; and that a power loss, and a process that wrote less, shorten it."""
    for lost, ended, status in ((None, 1310, "violated"), (1200, 1200, "held"), (None, 1200, "held")):
        trace = shrunk()
        if lost is not None:
            trace.down("broker-2", lost={TP: lost})
        trace.up("broker-2")
        trace.logs[TP, "broker-2"] = [(ended, 1)]
        trace.change(2, 6, isr=(2,))
        trace.emit("broker-2", PartAssume(TP, "leader", 2, 6, 6, ended, 1204, 1204, 10))
        trace.append("broker-2", *(f"s{offset}" for offset in range(300)), epoch=6)
        trace.fetched(2, 3, 1250, epoch=6)
        trace.propose(2, [2, 3], 6, 6, hw=1204, start=1204)
        assert trace.result("P7").status == status
        if status == "violated":
            assert trace.result("P7").violations[0].sentence.endswith("and the epoch's start 1,310")


@pytest.mark.parametrize(("again", "status"), [(1, "held"), (2, "violated")])
def test_a_proposal_that_is_sent_again(again: int, status: str) -> None:
    """Shows that a proposal which is sent again as it was stands for what the leader knew when it made it
    (Partition.submitAlterPartition), and that a new one, of another number, does not."""
    trace = shrunk()
    trace.fetched(2, 3, 1310, epoch=5)
    trace.propose(2, [2, 3], 5, 5, start=1310, proposal=1)
    trace.fetched(2, 3, 0, epoch=5, broker_epoch=8)
    trace.propose(2, [2, 3], 5, 5, start=1310, proposal=again)
    result = trace.result("P7")
    assert (result.status, result.tested) == (status, again)


def test_who_is_in_the_isr_need_not_join() -> None:
    """Shows that a proposal that lets nobody in leaves P7 vacuous."""
    trace = shrunk((2, 3))
    trace.propose(2, [2], 5, 5, start=1310)
    assert trace.result("P7").status == "vacuous"


@pytest.mark.parametrize(
    ("epoch", "start", "status"), [(5, 1310, "held"), (5, 1320, "violated"), (5, 1204, "violated"), (4, 1320, "held")]
)
def test_the_start_of_an_epoch_does_not_move(epoch: int, start: int, status: str) -> None:
    """Shows that a leader names one start of its leader epoch, in each proposal and in each answer to ListOffsets; of
    another leader epoch it may have had another one."""
    trace = shrunk()
    assumed = trace.events[-1].id
    trace.fetched(2, 3, 1310, epoch=5)
    told = ReplyPartition(TP, 0, leader_epoch=epoch, leader_epoch_start=start)
    reply = trace.reply(2, "ListOffsets", told)
    trace.propose(2, [2, 3], 5, 5, hw=1204, start=1310)
    result = trace.result("P7")
    assert (result.status, result.tested) == (status, 1)
    asks = shrunk()
    asks.fetched(2, 3, 1310, epoch=5)
    asks.propose(2, [2, 3], epoch, 5, hw=1204, start=start)
    if epoch == 5:
        assert asks.result("P7").status == status
    if status == "violated":
        assert result.violations[0].events == [assumed, reply]
        assert result.violations[0].sentence == (
            f"broker-2 takes {start:,} for the start of its leader epoch 5 of orders-0, which it began at 1,310"
        )


@pytest.mark.parametrize("how", ["starts-again", "unseen", "no-leader", "other-topic", "produce"])
def test_starts_that_are_not_compared(how: str) -> None:
    """Shows that a process which starts again may begin the same leader epoch elsewhere; and that nothing is asked of a
    leader that began before the trace, of a broker that does not lead, or of another partition's part."""
    trace = shrunk()
    start, tp, api = 1320, TP, "ListOffsets"
    if how == "starts-again":
        trace.up("broker-2")
        trace.logs[TP, "broker-2"] = [(1320, 1)]
        trace.assume(2, 5)
    elif how == "unseen":
        trace = TraceBuilder()
        trace.change(2, 5, isr=(2,))
    elif how == "no-leader":
        start = -1
    elif how == "other-topic":
        tp = "orders-1"
    elif how == "produce":
        api = "Produce"
    trace.reply(2, api, ReplyPartition(tp, 0, leader_epoch=5, leader_epoch_start=start))
    trace.fetched(2, 3, 1320, epoch=5)
    if how != "unseen":
        trace.propose(2, [2, 3], 5, 5, hw=1204, start=1320 if how == "starts-again" else 1310)
    assert trace.result("P7").violated == 0


# ---- P17 -------------------------------------------------------------------------------------------------------


def leading(least: str = "2", applied: int = 1) -> TraceBuilder:
    """Broker-1 leads epoch 0 with three records in its log, two of them committed; min.insync.replicas of its topic is
    2, at offset 0 of the metadata log."""
    trace = TraceBuilder()
    trace.emit("controller-1", ConfigChange(0, 1, "topic/orders", MIN_ISR, least))
    trace.emit("broker-1", MetaImage(applied, 1))
    trace.lead(1, 0)
    for uid in ("a", "b", "c"):
        trace.append("broker-1", uid)
    trace.high_watermark("broker-1", 2)
    return trace


def told(last: int, isr: int = 3, min_isr: int = 2, error: int = 0, epoch: int = 0) -> ReplyPartition:
    """An answer to Produce."""
    return ReplyPartition(TP, error, last, last, leader_epoch=epoch, isr=isr, min_isr=min_isr)


def test_acks_after_the_high_watermark() -> None:
    """Shows that acks=all below the high watermark, and acks=1 below the log end, hold P17."""
    trace = leading()
    trace.reply(1, "Produce", told(1), acks=-1)
    trace.reply(1, "Produce", told(2), acks=1)
    result = trace.result("P17")
    assert (result.status, result.tested) == ("held", 2)


def test_an_ack_before_the_high_watermark() -> None:
    """Shows that acks=all for an offset at the high watermark violates P17."""
    trace = leading()
    trace.reply(1, "Produce", told(2), acks=-1)
    assert trace.result("P17").violations[0].sentence == (
        "broker-1 (leader epoch 0) acknowledged offset 2 of orders-0 to client with acks=all while its high watermark "
        "was 2"
    )


def test_an_ack_before_the_append() -> None:
    """Shows that acks=1 for an offset at the log end violates P17."""
    trace = leading()
    trace.reply(1, "Produce", told(3), acks=1)
    assert trace.result("P17").violations[0].sentence == (
        "broker-1 acknowledged offset 3 of orders-0 to client while its log ended at 3"
    )


def test_an_ack_with_too_small_an_isr() -> None:
    """Shows that acks=all with an ISR below min.insync.replicas violates P17."""
    trace = leading()
    trace.reply(1, "Produce", told(1, isr=1), acks=-1)
    assert trace.result("P17").violations[0].sentence.endswith("had 1 members, below min.insync.replicas 2")


def test_min_insync_replicas_is_that_of_the_records() -> None:
    """Shows that P17 goes by the configuration records that a broker has applied, not by its own word: the topic's
    first, then the broker's, then that of all; and never more than there are replicas."""
    for least, applied, isr, status in (("2", 1, 1, "violated"), ("2", 0, 1, "held"), ("9", 1, 3, "held")):
        trace = leading(least, applied)
        trace.reply(1, "Produce", told(1, isr=isr, min_isr=1), acks=-1)
        assert trace.result("P17").status == status
    for resources, status in (
        (("broker/",), "violated"),
        (("broker/", "broker/2"), "violated"),
        (("broker/", "broker/1"), "held"),
        (("broker/1", "topic/orders"), "violated"),
    ):
        trace = leading()
        trace.emit("controller-1", ConfigChange(1, 1, "topic/orders", MIN_ISR, None))
        for offset, resource in enumerate(resources, 2):
            value = "1" if resource.startswith("broker/") and resource != "broker/" else "2"
            trace.emit("controller-1", ConfigChange(offset, 1, resource, MIN_ISR, value))
        trace.emit("broker-1", MetaImage(9, 1))
        trace.append("broker-1", "d")
        trace.high_watermark("broker-1", 4)
        trace.reply(1, "Produce", told(3, isr=1, min_isr=1), acks=-1)
        assert trace.result("P17").status == status


def test_min_insync_replicas_of_a_controller_that_was_replaced() -> None:
    """Shows that a record which is not in the next controller's log counts for nothing."""
    for log_end, status in ((1, "violated"), (2, "held")):
        trace = leading()
        trace.emit("controller-1", ConfigChange(1, 1, "topic/orders", MIN_ISR, "1"))
        trace.role("controller-2", 2, "leader", 102, log_end=log_end)
        trace.emit("broker-1", MetaImage(4, 1))
        trace.append("broker-1", "d")
        trace.high_watermark("broker-1", 4)
        trace.reply(1, "Produce", told(3, isr=1, min_isr=1), acks=-1)
        assert trace.result("P17").status == status


def test_min_insync_replicas_that_changes_while_a_record_waits() -> None:
    """Shows that of the values between append and answer the smallest counts, and that later records go by the new
    one."""
    for last, status in ((2, "held"), (3, "violated")):
        trace = leading("1")
        trace.emit("controller-1", ConfigChange(1, 1, "topic/orders", MIN_ISR, "2"))
        trace.emit("broker-1", MetaImage(2, 1))
        trace.append("broker-1", "d")
        trace.high_watermark("broker-1", 4)
        trace.reply(1, "Produce", told(last, isr=1, min_isr=1), acks=-1)
        assert trace.result("P17").status == status


def test_what_a_leader_must_not_append() -> None:
    """Shows that a batch taken with too small an ISR violates P17, whatever is answered; and that one taken while the
    ISR was whole does not."""
    for appended, status in ((1, "violated"), (2, "vacuous")):
        for error in (KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
            trace = leading()
            answer = told(-1, isr=1, error=int(error))
            answer = msgspec.structs.replace(answer, appended_isr=appended, append_min_isr=2)
            trace.reply(1, "Produce", answer, acks=-1)
            assert trace.result("P17").status == status
    trace = leading()
    trace.reply(1, "Produce", msgspec.structs.replace(told(1), appended_isr=1, append_min_isr=2), acks=-1)
    assert trace.result("P17").violations[0].sentence == (
        "broker-1 appended a batch that client sent for orders-0 with acks=all while the ISR had 1 members, below "
        "min.insync.replicas 2"
    )


def test_an_answer_that_is_held_up_beyond_the_leadership_in_which_it_was_decided() -> None:
    """Shows that a broker that has given up its leadership may still acknowledge what its high watermark passed in it,
    as another partition of the request may have held up the answer; nothing beyond that, and nothing of its time
    as a follower."""
    for answer, status in ((told(1), "held"), (told(2), "violated"), (told(1, epoch=1), "violated")):
        trace = leading()
        trace.assume(1, 1, leader=2)
        trace.reply(1, "Produce", answer, acks=-1)
        assert trace.result("P17").status == status


def test_errors_and_acks_0_are_no_acknowledgement() -> None:
    """Shows that an error, and an answer that nobody asked for, leave P17 vacuous."""
    trace = leading()
    trace.reply(1, "Produce", told(9, error=19), acks=-1)
    trace.reply(1, "Produce", told(9), acks=0)
    assert trace.result("P17").status == "vacuous"


# ---- P16 -------------------------------------------------------------------------------------------------------


def test_fetches_in_the_leaders_epoch() -> None:
    """Shows that fetches that are noted, and those that are fenced, test P16; other refusals do not. A broker whose
    metadata lags behind may say UNKNOWN_LEADER_EPOCH to a replica that it does not know yet."""
    trace = TraceBuilder()
    trace.fetched(1, 2, 5, epoch=3)
    trace.fetched(1, 2, 5, epoch=3, follower_epoch=2, error=KafkaError.FENCED_LEADER_EPOCH)
    trace.fetched(1, 2, 5, epoch=3, follower_epoch=4, error=KafkaError.UNKNOWN_LEADER_EPOCH)
    trace.fetched(1, 2, 5, epoch=3, error=KafkaError.UNKNOWN_LEADER_EPOCH)
    trace.fetched(1, 2, 5, epoch=3, follower_epoch=2, error=KafkaError.OFFSET_OUT_OF_RANGE)
    result = trace.result("P16")
    assert (result.status, result.tested) == ("held", 4)


def test_a_fetch_in_another_epoch() -> None:
    """Shows that one that counts all the same violates P16, with an answer that does not fit, too; a Fetch that carries
    no leader epoch is excused."""
    noted = TraceBuilder()
    event = noted.fetched(1, 2, 1310, epoch=5, follower_epoch=4)
    (finding,) = noted.result("P16").violations
    assert finding.events == [event]
    assert finding.sentence == (
        "broker-1 (leader epoch 5) counted a fetch of broker-2 at 1,310 of orders-0 in leader epoch 4"
    )
    for asked, error in ((5, KafkaError.FENCED_LEADER_EPOCH), (4, KafkaError.UNKNOWN_LEADER_EPOCH)):
        wrong = TraceBuilder()
        wrong.fetched(1, 2, 5, epoch=5, follower_epoch=asked, error=error)
        assert wrong.result("P16").violations[0].sentence.endswith(f"in leader epoch {asked} with {error.name}")
    for newest, said in ((8, {"no-leader-epoch": 1}), (9, {})):
        old = TraceBuilder(versions={"Fetch": [4, newest]})
        old.fetched(1, 2, 5, epoch=5, follower_epoch=-1)
        assert (old.result("P16").violated, old.result("P16").excused) == (newest == 9, said)


def test_who_answers_about_offsets_and_epochs() -> None:
    """Shows that ListOffsets and OffsetForLeaderEpoch are answered without an error by who leads the epoch in which it
    was asked, or in none, and was not started anew since; refusals test nothing, and a replica id of -2 may ask any."""

    def listed(trace: TraceBuilder, asked: int, epoch: int, error: int = 0, replica_id: int = -1) -> None:
        told = ReplyPartition(TP, error, 5, leader_epoch=epoch, asked_epoch=asked)
        trace.reply(1, "ListOffsets", told, replica_id=replica_id)

    def told(trace: TraceBuilder, asked: int, epoch: int) -> None:
        trace.emit("broker-1", EpochTold(TP, -1, epoch, asked, 0, 0, 5))

    right = TraceBuilder()
    right.assume(1, 3)
    for asked in (3, -1):
        listed(right, asked, 3)
        told(right, asked, 3)
    listed(right, 2, 3, error=KafkaError.FENCED_LEADER_EPOCH)
    right.assume(1, 4, leader=2)
    listed(right, -1, 4, replica_id=-2)
    assert (right.result("P16").status, right.result("P16").tested) == ("held", 5)
    for answer, api in ((listed, "ListOffsets"), (told, "OffsetForLeaderEpoch")):
        for asked, leader, said in (
            (2, 1, "in leader epoch 3, although the request named leader epoch 2"),
            (4, 1, "in leader epoch 3, although the request named leader epoch 4"),
            (3, 2, "in leader epoch 3, which it did not lead"),
            (-1, 2, "in leader epoch 3, which it did not lead"),
        ):
            wrong = TraceBuilder()
            wrong.assume(1, 3, leader=leader)
            answer(wrong, asked, 3)
            (finding,) = wrong.result("P16").violations
            assert finding.sentence == f"broker-1 answered the {api} of a client for orders-0 {said}"
        anew = TraceBuilder()
        anew.assume(1, 3)
        anew.up("broker-1")
        answer(anew, 3, 3)
        assert anew.result("P16").violated == 1


def test_whose_records_a_consumer_gets() -> None:
    """Shows that records come from who has led the leader epoch that the consumer asked in, and have no later one;
    answers to who asked in none, or named the topic, are not judged."""
    for broker, asked, batch, version, status in (
        (1, 3, 3, 13, "held"),
        (1, 3, 2, 13, "held"),
        (1, 3, 4, 13, "violated"),
        (2, 3, 3, 13, "violated"),
        (2, 3, 3, 12, "vacuous"),
        (2, -1, 3, 13, "vacuous"),
    ):
        trace = TraceBuilder()
        trace.assume(1, 3)
        trace.assume(2, 3, leader=1)
        trace.assume(1, 4)
        polled = PollReturn(
            "c:1", "ok", 0, TP, 0, 0, leader_epoch=asked, broker=f"broker-{broker}", version=version,
            records=[Polled(0, batch, "a")],
        )  # fmt: skip
        trace.emit("consumer-1", polled)
        assert trace.result("P16").status == status


def test_a_fetch_of_a_process_that_is_gone() -> None:
    """Shows that a fetch under an older broker epoch counts for nothing once its leader has heard of the newer one; it
    may count before, and while the new process is fenced, and if what was written of it is lost."""
    for applied, fenced, kept, status in (
        (21, False, True, "violated"),
        (20, False, True, "held"),
        (21, True, True, "held"),
        (21, False, False, "held"),
    ):
        trace = TraceBuilder()
        trace.role("controller-1", 1, "leader", 101)
        trace.registered(2, epoch=7, offset=5)
        trace.registered(2, epoch=20, offset=20, fenced=fenced)
        if not kept:
            trace.role("controller-2", 2, "leader", 102, log_end=20)
        trace.emit("broker-1", MetaImage(applied, 0))
        trace.fetched(1, 2, 1310, epoch=5, broker_epoch=7)
        result = trace.result("P16")
        assert result.status == status
        if status == "violated":
            assert result.violations[0].sentence == (
                "broker-1 (leader epoch 5) counted a fetch of broker-2 at 1,310 of orders-0 under broker epoch 7, but "
                "knew its broker epoch 20"
            )
