"""The mirror of a partition's logs: what unclean elections and lost disks take out of the committed part."""

from __future__ import annotations

import pytest

from actors.trace.events import LogStart
from orchestrator.invariants.mirrors.log_mirror import TRIM_AT, LogMirror
from orchestrator.invariants.mirrors.log_prefix import BatchFacts, Prefix
from tests.unit.invariants.trace_builder import TP, TraceBuilder
from tests.unit.invariants.transactions.stage import TransactionTrace

FEATURES = {"kip-207": "kafka", "eligible.leader.replicas.version": "1"}


def led(*uids: str, **profile: object) -> TraceBuilder:
    """Broker-1 leads epoch 0; the records are on it and on broker-2 and broker-3, and committed."""
    trace = TraceBuilder(**profile)
    trace.lead(1, 0)
    for uid in uids:
        trace.replicate(uid)
        trace.high_watermark("broker-1", trace.log_end(1))
    return trace


def test_a_leader_that_has_not_heard_of_an_unclean_election_goes_on_committing() -> None:
    """Shows that what broker-1 commits alone after broker-3 was elected uncleanly was given up beforehand: it is cut,
    and its offsets hold other records, without any violation."""
    trace = led("a")
    trace.change(1, 0, isr=(1,), cause="alter-isr", partition_epoch=1)
    trace.lead(3, 1, cause="unclean", isr=(3,))
    trace.append("broker-1", "b", producer=7, sequence=1)
    trace.high_watermark("broker-1", 2, counted=(1,))
    trace.acked("producer-1", "b", 1, broker=1, epoch=0)
    trace.append("broker-3", "c", epoch=1)
    trace.high_watermark("broker-3", 2, 1, counted=(3,))
    trace.acked("producer-1", "c", 1, broker=3, epoch=1)
    trace.assume(1, 1, leader=3)
    trace.truncate("broker-1", 1)
    results = trace.check(["P4", "P10", "P11", "C1", "C3"])
    assert [name for name, each in results.items() if each.violated] == []
    assert results["P11"].tested == 1
    assert {name: results[name].excused for name in ("P4", "C1", "C3")} == {
        "P4": {"unclean-election": 2},
        "C1": {"unclean-election": 1},
        "C3": {"unclean-election": 1},
    }


def test_what_a_stale_leader_shares_with_the_unclean_one_stays_committed() -> None:
    """Shows that the taint reaches no further than the logs differ: cutting what both have violates P11."""
    trace = led("a")
    trace.replicate("b", followers=(3,))
    trace.lead(3, 1, cause="unclean", isr=(3,))
    trace.high_watermark("broker-1", 2, counted=(1, 3))
    trace.assume(1, 1, leader=3)
    trace.truncate("broker-1", 1)
    assert trace.result("P11").violations[0].sentence.endswith("although it held committed records up to 2")


def test_an_unclean_leader_that_never_takes_up_its_epoch() -> None:
    """Shows that the next leader that does inherits the taint, and the one after it does not."""
    trace = led("a")
    trace.replicate("b", followers=(2,))
    trace.high_watermark("broker-1", 2, counted=(1, 2))
    trace.change(3, 1, isr=(3,), cause="unclean")
    trace.change(-1, 2, isr=(3,), cause="fence")
    trace.lead(3, 3, isr=(3,), cause="unfence")
    assert (trace.result("P4").violated, trace.result("P4").excused) == (0, {"unclean-election": 1})
    trace.append("broker-3", "c", epoch=3)
    trace.high_watermark("broker-3", 2, 3, counted=(3,))
    trace.lead(2, 4)
    assert trace.result("P4").violations[0].sentence.startswith("broker-2 leads orders-0 in leader epoch 4")


def test_an_unclean_election_of_a_controller_that_lost_its_records() -> None:
    """Shows that a change which another controller made instead, with the same partition epoch, counts alone."""
    trace = led("a")
    trace.replicate("b", followers=(2,))
    trace.high_watermark("broker-1", 2, counted=(1, 2))
    trace.change(3, 1, isr=(3,), cause="unclean")
    trace.change(3, 1, isr=(3,), cause="elect", quorum_epoch=2)
    trace.assume(3, 1)
    assert trace.result("P4").status == "violated"


def test_an_offset_below_an_unclean_election_holds_one_record() -> None:
    """Shows that an unclean election long ago excuses no reader that gets another record than is there now."""
    trace = led("a")
    trace.lead(3, 1, cause="unclean", isr=(3,))
    trace.append("broker-3", "c", epoch=1)
    trace.high_watermark("broker-3", 2, 1, counted=(3,))
    trace.acked("producer-1", "d", 1, broker=3, epoch=1)
    assert trace.result("C3").status == "violated"


def test_a_wiped_disk_is_a_loss() -> None:
    """Shows that a replica that comes back empty has no log, and that the loss budget covers what it held."""
    trace = led("a", "b")
    trace.down("broker-2", "lossy", lost={TP: 0})
    trace.up("broker-2", wiped=True)
    trace.logs.pop((TP, "broker-2"))
    trace.lead(2, 1)
    assert (trace.result("P4").violated, trace.result("P4").excused) == (0, {"loss-budget": 1})


def test_the_last_member_of_the_isr_may_lose_records() -> None:
    """Shows that with min.insync.replicas=2 one lossy replica excuses nothing while the ISR has others, that it does
    as the last one standing, and that eligible leader replicas take this excuse away."""
    settings = {"config": {"min.insync.replicas": 2}}
    for isr, features, violated in (
        ((1, 2), {}, 1),
        ((2,), {}, 0),
        ((2,), {"eligible.leader.replicas.version": "1"}, 1),
    ):
        trace = led("a", "b", features=features, **settings)
        trace.down("broker-2", "lossy", lost={TP: 1})
        trace.logs[TP, "broker-2"].pop()
        trace.change(-1 if isr == (2,) else 1, 1, isr=isr, cause="fence")
        trace.lead(2, 2, isr=isr, cause="unfence")
        assert trace.result("P4").violated == violated
    early = led("a", "b", **settings)
    early.change(2, 0, isr=(2,), cause="fence", partition_epoch=1)
    early.down("broker-2", "lossy", lost={TP: 1})
    early.logs[TP, "broker-2"].pop()
    early.lead(2, 2, isr=(2,), cause="unfence")
    assert early.result("P4").excused == {"loss-budget": 1}


def test_a_leader_elected_again_in_place_knows_where_its_followers_were() -> None:
    """Shows that P10 takes fetches of an earlier epoch for a leader that has not followed in between, and forgets them
    with the process."""
    trace = led("a")
    trace.replicate("b")
    trace.lead(1, 2)
    trace.high_watermark("broker-1", 2, 2)
    assert trace.result("P10").status == "held"
    restarted = led("a")
    restarted.replicate("b")
    restarted.down("broker-1")
    restarted.up("broker-1")
    restarted.lead(1, 2)
    restarted.high_watermark("broker-1", 2, 2)
    assert restarted.result("P10").status == "violated"


@pytest.mark.parametrize(
    ("cut", "lost", "back", "status"), [(1, 0, 0, "violated"), (0, 1, 0, "lost"), (1, 0, 1, "held")]
)
def test_a_leader_elected_again_in_place_counts_what_its_followers_still_have(
    cut: int, lost: int, back: int, status: str
) -> None:
    """Shows that P10 does not believe such positions: a follower that has cut its log since, as one does that followed
    another leader in between, lacks what the high watermark covers, until it has it again; what disks took is
    excused."""
    trace = led("a")
    for node, role in (("broker-1", "leader"), ("broker-2", "follower"), ("broker-3", "follower")):
        trace.append(node, "b", role=role)
    trace.fetched(1, 2, 2)
    trace.fetched(1, 3, 2)
    if cut:
        trace.truncate("broker-2", 1)
    if lost:
        trace.down("broker-2", "lossy", lost={TP: 1})
    if back:
        trace.append("broker-2", "b", role="follower")
    trace.lead(1, 2)
    trace.high_watermark("broker-1", 2, 2)
    result = trace.result("P10")
    assert (result.violated, result.excused) == (
        int(status == "violated"),
        {"loss-budget": 1} if status == "lost" else {},
    )
    if status == "violated":
        assert result.violations[0].sentence == (
            "broker-1 (leader epoch 2) moved the high watermark of orders-0 to 2 by a fetch that broker-2 of its ISR "
            "made in an older epoch; the log of that follower ends at 1, and is not the leader's log up to there"
        )


def test_a_role_begins_with_a_high_watermark_that_was_committed() -> None:
    """Shows that P10 takes a checkpoint that lags, and none that is ahead of what any leader committed or that stands
    in a log with something else below."""
    trace = led("a")
    trace.replicate("b")
    trace.high_watermark("broker-1", 2)
    trace.down("broker-2")
    trace.up("broker-2")
    trace.assume(2, 1, high_watermark=1, leader=1)
    trace.assume(2, 1, high_watermark=2, leader=1)
    assert trace.result("P10").status == "held"
    trace.append("broker-1", "c")
    trace.assume(1, 2, high_watermark=3)
    told = "but up to there its log is not the committed one (leaders committed up to 2)"
    assert [each.sentence for each in trace.result("P10").violations] == [
        f"broker-1 took up orders-0 in leader epoch 2 with high watermark 3, {told}"
    ]


def test_what_disks_may_lose_is_given_up_for_good() -> None:
    """Shows that a leader which lacks what disks lost within the budget takes it out of the committed part, as an
    unclean one does: followers that truncate it, and what is committed in its place, are no violations."""
    trace = led("a", "b", "c")
    trace.polled("consumer-1", (0, "a"), (1, "b"), (2, "c"), epoch=0)
    for broker in ("broker-1", "broker-2"):
        trace.down(broker, "lossy", lost={TP: 1})
        del trace.logs[TP, broker][2:]
    trace.lead(1, 1, isr=(1, 3))
    trace.truncate("broker-3", 1, epoch=1)
    trace.append("broker-1", "x", epoch=1)
    trace.append("broker-3", "x", epoch=1, role="follower")
    trace.fetched(1, 3, 2, epoch=1)
    trace.high_watermark("broker-1", 2, 1, counted=(1, 3))
    results = trace.check()
    assert [results[name].violated for name in ("P4", "P10", "P11", "C3", "C8")] == [0] * 5
    assert results["P4"].excused == {"loss-budget": 1}
    assert results["C3"].excused == {"loss-budget": 1}


def test_a_log_cut_below_what_was_forgotten_ends_there() -> None:
    """Shows that a log whose first batches are forgotten ends where a lost disk cut it, with nothing known below."""
    log = Prefix()
    for base in range(0, 30, 10):
        log.append(BatchFacts(base, base + 10, 4, base + 1, -1, -1, -1, []))
    log.trim(20)
    log.cut(0)
    assert (log.end, log.last_epoch, log.matches(20, 11)) == (0, -1, False)
    log.append(BatchFacts(0, 5, 6, 7, -1, -1, -1, []))
    assert (log.end, log.last_epoch, log.ph_at(5)) == (5, 6, 7)


def test_what_was_forgotten_is_shared_up_to_the_end_of_the_other_log() -> None:
    """Shows that a log whose first batches are forgotten shares them with another one as far as that one reaches: with
    a leader that has lost its disk it shares nothing, and may be truncated (P12)."""
    log = Prefix()
    for base in range(0, 30, 10):
        log.append(BatchFacts(base, base + 10, 4, base + 1, -1, -1, -1, []))
    emptied, other = log.copy(), log.copy()
    emptied.cut(0)
    log.trim(20)
    assert [log.shared_with(each, 30) for each in (emptied, other)] == [0, 30]
    other.cut(10)
    assert log.shared_with(other, 30) == 10


def test_what_was_forgotten_has_no_newer_leader_epoch() -> None:
    """Shows that a log shares none of what it has forgotten, or never had, with batches of a leader epoch that is newer
    than what it has behind that: not even with those of a log that has grown as far."""
    old, new = Prefix(20, 1), Prefix()
    assert (old.newest_forgotten, new.newest_forgotten) == (-1, -1)
    old.append(BatchFacts(20, 30, 4, 31, -1, -1, -1, []))
    for base, epoch in ((0, 4), (10, 6), (20, 6)):
        new.append(BatchFacts(base, base + 10, epoch, base + 2, -1, -1, -1, []))
    assert (old.shared_with(new, 30), new.shared_with(old, 30)) == (10, 10)
    old.floor_epochs = [(3, 12)]
    assert (old.shared_with(new, 30), new.shared_with(old, 30)) == (0, 0)


def test_a_batch_that_is_visibly_another_one_is_not_shared() -> None:
    """Shows that logs part at a batch of which the prefix hash is not known in one of them, if it is of another leader
    epoch, or has other records, there; and that they share it if it looks the same."""
    for epoch, uids, shared in ((4, ["b"], 20), (6, ["b"], 10), (4, ["x"], 10)):
        log, anew = Prefix(), Prefix(10)
        log.append(BatchFacts(0, 10, 4, 11, -1, -1, -1, ["a"]))
        log.append(BatchFacts(10, 20, 4, 21, -1, -1, -1, ["b"]))
        anew.append(BatchFacts(10, 20, epoch, None, -1, -1, -1, uids))
        assert (log.shared_with(anew, 20), anew.shared_with(log, 20)) == (shared, shared)


def test_a_log_that_begins_anew_has_none_of_what_an_unclean_leader_begins_below() -> None:
    """Shows that P11 and P12 let a follower empty its log, which has nothing below its start, where the leader was
    elected uncleanly with an empty one: what that has committed since, the follower never had."""
    trace = led("a", "b")
    trace.emit("broker-2", LogStart(TP, 2, "out-of-range", -1, trace.logs[TP, "broker-2"][-1][1]))
    trace.replicate("c")
    trace.high_watermark("broker-1", 3)
    trace.down("broker-3", "lossy", lost={TP: 0})
    del trace.logs[TP, "broker-3"][1:]
    trace.lead(3, 1, cause="unclean", isr=(3,))
    trace.append("broker-3", "x", epoch=1)
    trace.append("broker-3", "y", epoch=1)
    trace.append("broker-3", "z", epoch=1)
    trace.high_watermark("broker-3", 1, 1, counted=(3,))
    trace.assume(2, 1, leader=3)
    trace.cut_back(2, 0, 0, 0, keeps=-1)
    results = trace.check(["P11", "P12"])
    assert {name: (each.violated, each.tested > 0) for name, each in results.items()} == dict.fromkeys(
        ("P11", "P12"), (0, True)
    )


def test_leader_epochs_are_known_below_what_was_forgotten() -> None:
    """Shows that a log which is cut below its floor is known to end with the leader epoch that it has there, so that
    the next batch of that epoch is none where an epoch begins."""
    log = Prefix()
    for base, epoch in ((0, 1), (10, 1), (20, 4), (30, 6), (40, 6)):
        log.append(BatchFacts(base, base + 10, epoch, base + 1, -1, -1, -1, []))
    log.trim(40)
    assert (log.floor, log.floor_epochs, log.last_epoch) == (40, [(1, 0), (4, 20), (6, 30)], 6)
    log.trim(50)
    assert log.floor_epochs == [(1, 0), (4, 20), (6, 30)]
    for offset, epoch in ((31, 6), (30, 4), (21, 4), (20, 1)):
        log.cut(offset)
        assert (log.end, log.last_epoch) == (offset, epoch)


def test_a_replica_that_lost_what_everybody_had_gets_it_again() -> None:
    """Shows that P14 takes the batches of an old leader epoch that a follower fetches again, although all replicas had
    passed them, and does not take them for the beginning of that epoch."""
    trace = led(*map(str, range(TRIM_AT - 1)))
    for broker in ("broker-2", "broker-3"):
        trace.high_watermark(broker, TRIM_AT - 1, role="follower")
    trace.replicate("last")
    lost = TRIM_AT - 10
    trace.down("broker-2", "lossy", lost={TP: lost})
    trace.up("broker-2")
    del trace.logs[TP, "broker-2"][lost + 1 :]
    trace.append("broker-2", str(lost), role="follower")
    assert trace.result("P14").status == "held"


def test_what_an_unclean_leader_may_still_give_up_is_remembered() -> None:
    """Shows that with kafka-7408 nothing is forgotten at or above the last stable offset, however long a transaction is
    open: a follower that gives up the same as its leader had more than that in common with it before, and not now."""
    trace = TransactionTrace(features={**FEATURES, "kafka-7408": "seed"})
    trace.lead(1)
    for broker in (1, 2):
        trace.write("a", broker=broker, role="leader" if broker == 1 else "follower")
    for number in range(TRIM_AT - 2):
        trace.replicate(str(number), followers=(2,))
    for broker, role in (("broker-1", "leader"), ("broker-2", "follower")):
        trace.high_watermark(broker, TRIM_AT - 1, role=role)  # type: ignore[arg-type]
    trace.replicate("last", followers=(2,))
    trace.change(2, 1, isr=(2,), cause="unclean")
    trace.truncate("broker-2", 0, reason="last-stable-offset")
    trace.assume(2, 1)
    trace.change(2, 1, isr=(2,), cause="alter-isr", partition_epoch=2)
    trace.append("broker-2", "new", epoch=1)
    trace.high_watermark("broker-2", 1, 1)
    trace.assume(1, 1, leader=2)
    trace.cut_back(1, 1, 0, 0, keeps=-1)
    results = trace.check(["P11", "P12"])
    assert {name: each.violated for name, each in results.items()} == {"P11": 0, "P12": 0}


@pytest.mark.parametrize(("start", "opened"), [(4, []), (2, [7])])
def test_a_log_that_begins_anew_has_no_transactions(start: int, opened: list[int]) -> None:
    """Shows that transactions go with a log that is given up, and stay where a leader's log begins at its end."""
    trace = TransactionTrace()
    trace.write("a", "b", broker=3, role="follower")
    trace.emit("broker-3", LogStart(TP, start, "out-of-range", -1))
    mirror = LogMirror(TP)
    for event in trace.events:
        mirror.apply(event)
    assert list(mirror.replica("broker-3").transactions.open) == opened


@pytest.mark.parametrize(("again", "status"), [(("b",), "violated"), (("x",), "excused"), ((), "excused")])
def test_a_loss_that_was_made_good(again: tuple[str, ...], status: str) -> None:
    """Shows that what a disk lost counts until its replica has the same again below its high watermark: then the disk
    of another replica alone excuses nothing. Another record in its place does not make it good."""
    trace = led("a", config={"min.insync.replicas": 2})
    trace.replicate("b")
    trace.high_watermark("broker-1", 2)
    trace.down("broker-2", "lossy", lost={TP: 1})
    trace.logs[TP, "broker-2"].pop()
    trace.up("broker-2")
    for uid in again:
        trace.append("broker-2", uid, role="follower")
        trace.high_watermark("broker-2", 2, role="follower")
    trace.down("broker-3", "lossy", lost={TP: 1})
    trace.logs[TP, "broker-3"].pop()
    trace.up("broker-3")
    trace.lead(3, 1)
    assert trace.result("P4").status == status


@pytest.mark.parametrize(("later_s", "offset", "violated"), [(1, 0, True), (301, 0, False), (301, 2, True)])
def test_records_that_were_deleted_long_ago(later_s: int, offset: int, violated: bool) -> None:
    """Shows that what is known of records is forgotten five minutes after they were deleted: a reader that gets another
    one so late is not judged by them. What is above the log start stays known."""
    trace = led("a", "b", "c")
    trace.polled("consumer-1", (0, "a"), (1, "b"), (2, "c"), epoch=0)
    trace.emit("broker-1", LogStart(TP, 2, "retention-ms", -1))
    trace.wall += later_s * 1_000_000
    trace.emit("broker-2", LogStart(TP, 2, "leader", -1))
    trace.polled("consumer-2", (offset, "x"), epoch=0)
    assert [bool(trace.result(each).violated) for each in ("C7", "C3")] == [violated, violated]


def test_what_a_broker_left_behind_and_knows_again() -> None:
    """Shows that a leader which comes back, and whose log is all below its leader's, still knows the last batches
    of each producer, however much followed that no producer state is kept of."""
    trace = led("a")
    for number in range(7):
        trace.append("broker-1", f"b{number}", producer=7, sequence=number)
    for number in range(100):
        trace.append("broker-1", f"c{number}")
    end = trace.log_end(1)
    trace.lead(2, 1)
    trace.assume(1, 1, leader=2)
    trace.emit("broker-1", LogStart(TP, end, "out-of-range", -1, trace.logs[TP, "broker-1"][-1][1]))
    trace.lead(1, 2)
    mirror = LogMirror(TP)
    for event in trace.events:
        mirror.apply(event)
    known = [number for number in range(7) if mirror.left_behind(2, 1 + number, f"b{number}")]
    assert known == [2, 3, 4, 5, 6]
    assert not mirror.left_behind(2, end - 1, "c99")
