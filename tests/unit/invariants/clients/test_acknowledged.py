"""C1 and C3: what producers and consumers were promised."""

from __future__ import annotations

import pytest

from actors.features import UNCOMMITTED_DUPLICATES
from actors.trace.events import ConsPos, LogLocalStart, LogStart, MetaView
from tests.unit.invariants.partitions.test_replication import committed
from tests.unit.invariants.trace_builder import TP, TraceBuilder

# ---- C1 --------------------------------------------------------------------------------------------------------


def test_an_acknowledged_record_that_stays() -> None:
    """Shows that a record that the next leader has, and that a consumer reads, tests C1."""
    trace = committed("a", "b")
    trace.acked("producer-1", "a", 0, 1, 0)
    trace.lead(2, 1)
    trace.polled("consumer-1", (0, "a"), (1, "b"))
    result = trace.result("C1")
    assert (result.status, result.tested) == ("held", 1)


def test_an_acknowledged_record_that_is_not_there() -> None:
    """Shows that an acknowledgement of what the broker's log lacks, or holds otherwise, violates C1."""
    trace = committed("a")
    ack = trace.acked("producer-1", "b", 1, 1, 0)
    result = trace.result("C1")
    assert result.violations[0].events == [ack]
    assert result.violations[0].sentence == (
        "record b was acknowledged to producer-1 at offset 1 of orders-0; the log of broker-1 at that time lacks that "
        "offset"
    )
    other = committed("a")
    other.acked("producer-1", "b", 0, 1, 0)
    assert other.result("C1").violations[0].sentence.endswith("has record a there")


def test_the_next_leader_lacks_it() -> None:
    """Shows that an acknowledged record which a later leader lacks violates C1, with acknowledgement and election."""
    trace = committed("a", followers=(2,))
    ack = trace.acked("producer-1", "a", 0, 1, 0)
    elected = trace.lead(3, 1)
    result = trace.result("C1")
    assert result.violations[0].events == [ack, elected]
    assert result.violations[0].sentence.endswith("the log of broker-3, leader of epoch 1, lacks that offset")


def test_a_leader_that_takes_up_after_the_next_one() -> None:
    """Shows that a leader of an earlier epoch, which heard of its election after the next leader had appended, need not
    have what that one acknowledged, its epoch told or not; and that a later leader must."""
    for epoch in (2, -1):
        trace = committed("a", followers=(2, 3))
        trace.lead(2, 2)
        trace.append("broker-2", "b", epoch=2)
        trace.append("broker-3", "b", epoch=2, role="follower")
        trace.high_watermark("broker-2", 2, 2, counted=(2, 3))
        trace.acked("producer-1", "b", 1, 2, epoch)
        trace.assume(1, 1)
        assert trace.result("C1").status == "held"
        trace.lead(1, 3)
        assert trace.result("C1").violated == 1


def test_an_acknowledgement_that_arrives_after_the_election() -> None:
    """Shows that it is compared with the leaders of later epochs that came before it, its epoch told or not."""
    for epoch in (0, -1):
        trace = TraceBuilder()
        trace.lead(1, 0)
        trace.append("broker-1", "a")
        trace.lead(3, 1)
        trace.acked("producer-1", "a", 0, 1, epoch)
        assert (
            trace.result("C1")
            .violations[0]
            .sentence.endswith("the log of broker-3, leader of epoch 1, lacks that offset")
        )


def test_acks_1_may_be_lost() -> None:
    """Shows that a lost record of acks=1 is excused and no test."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.append("broker-1", "a")
    trace.acked("producer-1", "a", 0, 1, 0, acks=1)
    trace.lead(3, 1)
    result = trace.result("C1")
    assert (result.status, result.tested, result.excused) == ("excused", 0, {"acks<=1": 1})


def test_each_election_tells_what_it_gave_up() -> None:
    """Shows how many records each leader lacked, by rule: an offset that is lost twice counts at both elections, and a
    record counts once, at the first leader without it."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.append("broker-1", "a", "b")
    for offset, uid in enumerate("ab"):
        trace.acked("producer-1", uid, offset, 1, 0, acks=1)
    first = trace.lead(3, 1, cause="unclean", isr=(3,))
    trace.append("broker-3", "c", epoch=1)
    trace.acked("producer-1", "c", 0, 3, 1, acks=1)
    second = trace.lead(2, 2, cause="unclean", isr=(2,))
    result = trace.result("C1")
    assert result.excused == {"acks<=1": 3}
    told = [(each.rule, each.key, each.times, each.events) for each in result.losses]
    assert told == [("acks<=1", TP, 2, [first]), ("acks<=1", TP, 1, [second])]
    walls = {event.id: event.wall for event in trace.events}
    assert [each.at_us for each in result.losses] == [walls[first], walls[second]]


def test_a_record_that_no_rule_gives_up_counts_once() -> None:
    """Shows that a violation of C1 is found at every leader that lacks the record, and that one record is lost."""
    trace = committed("a", followers=(2,))
    trace.acked("producer-1", "a", 0, 1, 0)
    elected = trace.lead(3, 1)
    trace.lead(4, 2)
    result = trace.result("C1")
    assert result.violated == 2
    assert [(each.rule, each.times, each.events) for each in result.losses] == [("", 1, [elected])]


def test_acks_1_says_that_the_leader_has_it() -> None:
    """Shows that an acknowledgement of what the leader's own log lacks is no loss that acks=1 allows, nor is a record
    that readers passed by while the same leader led."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.append("broker-1", "a")
    trace.acked("producer-1", "b", 1, 1, 0, acks=1)
    assert trace.result("C1").violations[0].sentence == (
        "record b was acknowledged to producer-1 at offset 1 of orders-0; the log of broker-1 at that time lacks that "
        "offset"
    )
    passed = TraceBuilder()
    passed.lead(1, 0)
    passed.append("broker-1", "a", "b", "c")
    passed.acked("producer-1", "b", 1, 1, 0, acks=1)
    passed.polled("consumer-1", (0, "a"), (2, "c"))
    assert (
        "consumer-1 read past that offset, and no consumer got the record" in passed.result("C1").violations[0].sentence
    )


def test_a_retry_is_answered_in_a_later_epoch_than_its_records() -> None:
    """Shows that a record which an unclean election brings back, and which is acknowledged only then, by a version that
    does not tell the leader epoch, is not missed in the epoch between."""
    trace = committed("a")
    trace.append("broker-1", "b")
    trace.lead(2, 1)
    trace.lead(1, 2, cause="unclean", isr=(1,))
    trace.acked("producer-1", "b", 1, 1, -1)
    result = trace.result("C1")
    assert (result.status, result.excused) == ("held", {})


def stale_leader() -> TraceBuilder:
    """Broker-1 goes on in epoch 0, alone in its ISR, when broker-2 leads epoch 1 by an unclean election, and commits
    "b"; then an unclean election gives the partition back to it."""
    trace = committed("a")
    trace.lead(2, 1, cause="unclean", isr=(2,))
    trace.append("broker-1", "b")
    trace.high_watermark("broker-1", 2, 0, counted=(1,))
    trace.append("broker-2", "c", epoch=1)
    trace.acked("producer-1", "c", 1, 2, 1)
    trace.high_watermark("broker-2", 2, 1, counted=(2,))
    trace.lead(1, 2, cause="unclean", isr=(1,))
    return trace


def test_a_leader_that_was_replaced_commits_and_is_elected_again() -> None:
    """Shows that what it committed meanwhile is not held against an acknowledgement of the newer leader, and that the
    second unclean election excuses what that one commits before and after it."""
    trace = stale_leader()
    result = trace.result("C1")
    assert (result.violations, result.excused) == ([], {"unclean-election": 1})
    trace.append("broker-2", "d", epoch=1)
    trace.high_watermark("broker-2", 3, 1, counted=(2,))
    result = trace.result("P4")
    # The two elections, "b" against epoch 1, "d" against epoch 2.
    assert (result.violations, result.excused) == ([], {"unclean-election": 4})


def test_an_unclean_election_excuses_what_was_acknowledged_before() -> None:
    """Shows that a record acknowledged before it is excused, and one acknowledged after it is not, whether the
    acknowledgement told its leader epoch or not."""
    trace = committed("a", followers=(2,))
    trace.acked("producer-1", "a", 0, 1, -1)
    trace.lead(3, 1, cause="unclean", isr=(3,))
    assert (trace.result("C1").violated, trace.result("C1").excused) == (0, {"unclean-election": 1})
    trace.append("broker-3", "b", epoch=1)
    trace.high_watermark("broker-3", 1, 1, counted=(3,))
    trace.acked("producer-1", "b", 0, 3, -1)
    trace.change(2, 2)
    trace.truncate("broker-2", 0)
    trace.assume(2, 2)
    assert "record b was acknowledged to producer-1 at offset 0" in trace.result("C1").violations[0].sentence


def test_a_record_that_is_back_is_not_lost() -> None:
    """Shows that a record which disks took, and which an unclean election brings back, is told as regained, since when
    and by whom; one that is gone at the end is not, even if it was back in between."""
    trace = committed("a", followers=(2,))
    trace.acked("producer-1", "a", 0, 1, 0)
    trace.down("broker-1", "lossy", lost={TP: 0})
    trace.lead(3, 1)
    assert trace.result("C1").regained == {}
    trace.lead(2, 2, cause="unclean", isr=(2,))
    result = trace.result("C1")
    assert (result.excused, result.regained) == ({"loss-budget": 1}, {"loss-budget": 1})
    (back,) = result.returns
    elected = next(event for event in trace.events if event.id == back.events[0])
    assert (elected.node, back.at_us) == ("broker-2", elected.wall)
    assert (
        back.sentence == "broker-2, leader of orders-0 in leader epoch 2 after an unclean election, has these records"
    )
    trace.lead(3, 3, cause="unclean", isr=(3,))
    result = trace.result("C1")
    assert (result.excused, result.regained) == ({"loss-budget": 1}, {})


@pytest.mark.parametrize(("lost", "rule"), [(2, "loss-budget"), (3, "")])
def test_a_power_loss_takes_a_tiered_log_as_a_whole(lost: int, rule: str) -> None:
    """Shows that a replica which lost all that it had itself has lost what was in remote storage alone, too, and that
    one which kept a part of it has not."""
    trace = committed("a", "b", "c", "d", followers=(), min_isr=1)
    trace.acked("producer-1", "a", 0, 1, 0)
    trace.emit("broker-1", LogLocalStart(TP, 2, "retention-ms", 0, 4))
    trace.down("broker-1", "lossy", lost={TP: lost})
    trace.up("broker-1")
    trace.logs[TP, "broker-1"] = [(0, 0)]
    trace.lead(1, 1)
    assert trace.result("C1").excused.get("loss-budget", 0) == bool(rule)


def test_a_power_loss_excuses_what_it_took() -> None:
    """Shows that a record that min.insync.replicas of its holders lost is excused."""
    trace = committed("a", followers=(2,))
    trace.acked("producer-1", "a", 0, 1, 0)
    trace.down("broker-1", "lossy", lost={TP: 0})
    trace.lead(3, 1)
    assert trace.result("C1").excused == {"loss-budget": 1}


@pytest.mark.parametrize("topic_ids", [{}, {"orders": "an-id"}])
def test_who_takes_the_topic_for_another_one(topic_ids: dict[str, str]) -> None:
    """Shows that a consumer which goes on in a topic of another id may have read the record under the other topic's
    name, and that one which is only told of its leader anew has not."""
    trace = committed("a", "b", "c")
    trace.acked("producer-1", "b", 1, 1, 0)
    trace.polled("consumer-1", (0, "a"))
    trace.emit("consumer-1", MetaView("broker-1", {TP: 0}, [TP], {TP: 1}, topic_ids))
    trace.polled("consumer-1", (2, "c"))
    assert trace.result("C1").violated == (not topic_ids)


def test_a_record_that_every_reader_passed_by() -> None:
    """Shows that a consumer that reads past an acknowledged record which nobody got violates C1 at the end."""
    trace = committed("a", "b", "c")
    ack = trace.acked("producer-1", "b", 1, 1, 0)
    trace.polled("consumer-1", (0, "a"))
    assert trace.result("C1").status == "held"
    trace.polled("consumer-1", (2, "c"))
    result = trace.result("C1")
    assert result.violations[0].events == [ack]
    assert result.violations[0].sentence.endswith("consumer-1 read past that offset, and no consumer got the record")


def test_a_reader_that_jumped_has_not_passed_by() -> None:
    """Shows that what lies before a consumer's position, or in a jump of it, is not read past; others' reads count."""
    trace = committed("a", "b", "c")
    trace.acked("producer-1", "b", 1, 1, 0)
    trace.polled("consumer-1", (0, "a"))
    trace.emit("consumer-1", ConsPos(TP, 1, 2, 0, "seek"))
    trace.polled("consumer-1", (2, "c"))
    assert trace.result("C1").status == "held"
    both = committed("a", "b", "c")
    both.acked("producer-1", "b", 1, 1, 0)
    both.polled("consumer-1", (0, "a"), (2, "c"))
    both.polled("consumer-2", (1, "b"))
    assert both.result("C1").status == "held"


def test_what_a_reader_got_before_an_unclean_election_was_another_log() -> None:
    """Shows that a consumer which read past an offset before an unclean election gave that up has not passed what the
    next leader has there, that it has if it reads on, and that a clean election makes no other log of it."""
    for cause in ("unclean", "fence"):
        trace = committed("a", "b", "c")
        trace.polled("consumer-1", (0, "a"), (2, "c"), epoch=0)
        trace.change(2, 1, cause=cause, isr=(2,))
        if cause == "unclean":
            trace.truncate("broker-2", 0)
        trace.assume(2, 1)
        if cause == "unclean":
            for uid in ("x", "y", "z"):
                trace.append("broker-2", uid, epoch=1)
        trace.acked("producer-1", "y" if cause == "unclean" else "b", 1, 2, 1)
        if cause == "fence":
            assert trace.result("C1").violated == 1
            continue
        trace.emit("consumer-1", ConsPos(TP, 3, 0, 0, "truncation"))
        assert trace.result("C1").violated == 0
        trace.polled("consumer-1", (0, "x"), (2, "z"), broker=2, epoch=1)
        assert trace.result("C1").violated == 1


def test_no_acknowledgement_tests_nothing() -> None:
    """Shows that C1 is vacuous where nothing was acknowledged."""
    trace = committed("a")
    trace.polled("consumer-1", (0, "a"))
    assert trace.result("C1").status == "vacuous"


# ---- C3 --------------------------------------------------------------------------------------------------------


def test_an_offset_that_everybody_sees_alike() -> None:
    """Shows that log, acknowledgement and reads that agree test C3."""
    trace = committed("a")
    trace.acked("producer-1", "a", 0, 1, 0)
    trace.polled("consumer-1", (0, "a"))
    result = trace.result("C3")
    assert (result.status, result.tested) == ("held", 2)


def test_a_reader_that_gets_something_else() -> None:
    """Shows that another record at an offset violates C3, with both who said so as evidence."""
    trace = TraceBuilder()
    first = trace.polled("consumer-1", (41, "a"))
    second = trace.polled("consumer-2", (41, "b"))
    result = trace.result("C3")
    assert result.violations[0].events == [first, second]
    assert (
        result.violations[0].sentence
        == "offset 41 of orders-0 holds record b according to consumer-2, and record a according to consumer-1"
    )


def test_a_record_of_an_idempotent_producer_twice() -> None:
    """Shows that a record committed at two offsets violates C3 if its producer is idempotent, and only then."""
    for producer, status in ((7, "violated"), (-1, "vacuous")):
        trace = TraceBuilder()
        trace.lead(1, 0)
        trace.append("broker-1", "a", producer=producer, sequence=0)
        trace.append("broker-1", "a", producer=producer, sequence=1)
        trace.high_watermark("broker-1", 2, counted=(1,))
        assert trace.result("C3").status == status
    assert trace.result("C1").status == "vacuous"


def test_the_evidence_of_a_record_twice() -> None:
    """Shows the sentence for a record at two offsets."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.append("broker-1", "a", producer=7, sequence=0)
    trace.append("broker-1", "a", producer=7, sequence=1)
    trace.high_watermark("broker-1", 2, counted=(1,))
    assert trace.result("C3").violations[0].sentence == (
        "record a of an idempotent producer is committed twice in orders-0, at offset 0 and at offset 1"
    )


def test_acks_1_and_failures_say_nothing() -> None:
    """Shows that only acknowledgements of acks=all name what an offset holds."""
    trace = TraceBuilder()
    trace.acked("producer-1", "a", 0, 1, 0, acks=1)
    trace.polled("consumer-1", (0, "b"))
    assert trace.result("C3").status == "vacuous"


def test_an_unclean_election_excuses_another_record() -> None:
    """Shows that an offset that an unclean election gave up may hold another record, and a record another offset; those
    below it may not."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.replicate("a")
    trace.append("broker-1", "b", producer=7, sequence=0)
    trace.high_watermark("broker-1", 2, counted=(1,))
    trace.lead(3, 1, cause="unclean", isr=(3,))
    trace.append("broker-3", "c", epoch=1)
    trace.append("broker-3", "b", epoch=1, producer=7, sequence=0)
    trace.high_watermark("broker-3", 3, 1, counted=(3,))
    assert (trace.result("C3").violated, trace.result("C3").excused) == (0, {"unclean-election": 2})
    trace.polled("consumer-1", (0, "x"))
    assert trace.result("C3").status == "violated"


def test_an_unclean_election_brings_back_what_an_older_epoch_had() -> None:
    """Shows that the epoch that committed or handed out a record counts, not that of its batch: broker-1 has a tail of
    epoch 0, broker-2 commits others in epoch 1, and an unclean election of broker-1 gives those up for the tail."""
    trace = TraceBuilder()
    trace.lead(1, 0)
    trace.replicate("a", followers=(2,))
    trace.append("broker-1", "b")
    trace.lead(2, 1, isr=(2,))
    trace.append("broker-2", "c", epoch=1)
    trace.high_watermark("broker-2", 2, 1, counted=(2,))
    trace.acked("producer-1", "c", 1, 2, 1)
    trace.polled("consumer-1", (0, "a"), broker=2, epoch=1)
    trace.polled("consumer-1", (1, "c"), broker=2, epoch=1, batch_epoch=1)
    trace.lead(1, 2, cause="unclean", isr=(1,))
    trace.high_watermark("broker-1", 2, 2, counted=(1,))
    trace.polled("consumer-2", (0, "a"), (1, "b"), broker=1, epoch=2)
    for promise in ("C3", "C7"):
        result = trace.result(promise)
        assert (result.violations, result.excused) == ([], {"unclean-election": 1})
    trace.polled("consumer-3", (0, "a"), (1, "c"), broker=1, epoch=2, batch_epoch=1)
    for promise in ("C3", "C7"):
        assert trace.result(promise).status == "violated"  # in the epoch that brought it back


def test_kafka_lets_an_idempotent_record_come_twice() -> None:
    """Shows the exemption: the second copy came under a producer epoch that was raised for a reason. None, and a leader
    whose log had nothing of the producer though others had committed its batches, are no excuse."""
    for reason in (False, True):
        bumped = TraceBuilder()
        bumped.lead(1, 0)
        bumped.append("broker-1", "a", producer=7, sequence=3)
        if reason:
            bumped.failed("", "z")
        bumped.append("broker-1", "a", producer=7, sequence=0, producer_epoch=1)
        bumped.high_watermark("broker-1", 2, counted=(1,))
        result = bumped.result("C3")
        assert (result.violated, result.excused) == ((0, {"epoch-bump": 1}) if reason else (1, {}))
    forgotten = TraceBuilder()
    forgotten.lead(1, 0)
    forgotten.append("broker-1", "a", producer=7, sequence=3)
    forgotten.high_watermark("broker-1", 1, counted=(1,))
    forgotten.append("broker-2", "x", role="follower")
    forgotten.lead(2, 1)
    forgotten.append("broker-2", "a", epoch=1, producer=7, sequence=3)
    forgotten.high_watermark("broker-2", 2, 1, counted=(2,))
    assert forgotten.result("C3").status == "violated"


# ---- What a broker left behind ---------------------------------------------------------------------------------

FINDING = "finding-uncommitted-duplicates"


def left_behind(uid: str = "b", begins: int = 3, mend: str = "kafka") -> TraceBuilder:
    """Broker-1 had "b" at offset 1 alone, where the leader of epoch 1 committed "c"; it began anew at 3 with the log
    of that one, and leads epoch 2. ``uid``: what it acknowledges at 1 then."""
    trace = committed("a", features={UNCOMMITTED_DUPLICATES: mend})
    trace.append("broker-1", "b", producer=7, sequence=0)
    trace.append("broker-1", "x")
    trace.lead(2, 1, isr=(2, 3))
    trace.replicate("c", leader=2, followers=(3,), epoch=1)
    trace.replicate("d", leader=2, followers=(3,), epoch=1)
    trace.high_watermark("broker-2", 3, 1, counted=(2, 3))
    trace.emit("broker-1", LogStart(TP, begins, "out-of-range", 1))
    trace.lead(1, 2, isr=(1, 2, 3))
    trace.acked("producer-1", uid, 1, 1, 2)
    return trace


@pytest.mark.parametrize("promise", ["C1", "C3"])
def test_an_answer_from_what_was_left_behind(promise: str) -> None:
    """Shows that a broker which acknowledges what it had above its high watermark, and gave up since, violates both,
    although its log begins above the record; that this is known, but not with the mend, about another record, or if
    the broker forgot the producers."""
    result = left_behind().result(promise)
    assert [(each.rule, each.times) for each in result.violations] == [(FINDING, 1)]
    for other in (left_behind(mend="forget"), left_behind("z"), left_behind(begins=4)):
        assert [each.rule for each in other.result(promise).violations] == [""]


def test_the_record_that_was_committed_there() -> None:
    """Shows that an answer about the record that was committed below the log's start, and is deleted, is none."""
    assert left_behind("c").result("C1").status == "held"
    assert left_behind().result("C1").losses[0].times == 1
