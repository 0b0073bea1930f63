"""H1, H2 and H5: ListOffsets over leader changes."""

from __future__ import annotations

import msgspec
import pytest

from actors.trace.events import LogLocalStart, LogStart, ReplyPartition
from tests.unit.invariants.trace_builder import TP, TraceBuilder


def test_latest_went_back() -> None:
    """Shows that a lower answer of a newer leader violates H1, with both answers as evidence."""
    trace = TraceBuilder()
    first = trace.ask("list-offsets-1", 1310, broker=1, epoch=4)
    second = trace.ask("list-offsets-1", 1204, broker=2, epoch=5)
    result = trace.result("H1")
    assert (result.status, result.tested, result.violated) == ("violated", 1, 1)
    assert result.violations[0].events == [first, second]
    assert result.violations[0].sentence == (
        "broker-2 (leader epoch 5) reported 1,204 as the latest offset of orders-0 to list-offsets-1 "
        "after broker-1 (leader epoch 4) had reported 1,310 to list-offsets-1"
    )


def test_answers_are_compared_across_clients() -> None:
    """Shows that H1 holds for all clients together: what one was told binds the answers to the others."""
    trace = TraceBuilder()
    trace.ask("list-offsets-1", 10, broker=1, epoch=0)
    trace.ask("list-offsets-2", 9, broker=1, epoch=0)
    result = trace.result("H1")
    assert "reported 9 as the latest offset of orders-0 to list-offsets-2" in result.violations[0].sentence
    assert "had reported 10 to list-offsets-1" in result.violations[0].sentence


def test_rising_answers_hold() -> None:
    """Shows that answers that rise or stay put H1 to the test, and it held."""
    trace = TraceBuilder()
    for offset in (3, 3, 8):
        trace.ask("list-offsets-1", offset, broker=1, epoch=0)
    result = trace.result("H1")
    assert (result.status, result.tested) == ("held", 2)


@pytest.mark.parametrize(("first", "second", "status"), [(1, 0, "violated"), (0, 1, "vacuous"), (1, 1, "violated")])
def test_answers_at_read_committed(first: int, second: int, status: str) -> None:
    """Shows that an answer at read_committed is a lower bound for all later ones, and one at read_uncommitted only for
    its like: a transaction may be open."""
    trace = TraceBuilder()
    trace.ask("list-offsets-1", 10, broker=1, epoch=0, isolation=first)
    trace.ask("list-offsets-2", 9, broker=1, epoch=0, isolation=second)
    assert trace.result("H1").status == status


def test_one_answer_tests_nothing() -> None:
    """Shows that a single answer leaves H1 vacuous."""
    trace = TraceBuilder()
    trace.ask("list-offsets-1", 3, broker=1, epoch=0)
    assert trace.result("H1").status == "vacuous"


def test_concurrent_answers_are_not_compared() -> None:
    """Shows that an operation that began before the other one returned may be told less."""
    trace = TraceBuilder()
    early = trace.invoke("list-offsets-2")
    trace.ask("list-offsets-1", 10, broker=1, epoch=0)
    trace.told("list-offsets-2", early, 9, broker=1, epoch=0)
    assert trace.result("H1").status == "vacuous"


def test_the_same_microsecond_is_concurrent() -> None:
    """Shows that real-time order is strict: an invocation at the very microsecond of a return does not follow it."""
    trace = TraceBuilder(apart=0)
    trace.ask("list-offsets-1", 10, broker=1, epoch=0)
    trace.ask("list-offsets-1", 9, broker=1, epoch=0)
    assert trace.result("H1").status == "vacuous"


def test_what_a_broker_is_told_is_not_compared() -> None:
    """Shows that an answer to somebody who asked as a broker, the log end, is no test of H1."""
    trace = TraceBuilder()
    trace.ask("list-offsets-1", 10, broker=1, epoch=0)
    trace.told("list-offsets-2", trace.invoke("list-offsets-2", replica_id=3), 14, broker=1, epoch=0)
    trace.told("list-offsets-2", trace.invoke("list-offsets-2", replica_id=3), 9, broker=1, epoch=0)
    trace.ask("list-offsets-1", 11, broker=1, epoch=0)
    result = trace.result("H1")
    assert (result.status, result.tested) == ("held", 1)


def test_a_stale_leader_is_excused() -> None:
    """Shows that an answer under a lower leader epoch is excused and counted, and does not lower the bar."""
    trace = TraceBuilder()
    trace.ask("list-offsets-1", 10, broker=2, epoch=5)
    trace.ask("list-offsets-2", 8, broker=1, epoch=4)
    result = trace.result("H1")
    assert (result.status, result.tested, result.excused) == ("excused", 1, {"stale-leader": 1})
    trace.ask("list-offsets-1", 9, broker=2, epoch=5)
    assert trace.result("H1").violated == 1


def test_an_excuse_does_not_hide_a_violation() -> None:
    """Shows that an answer excused against one earlier answer is still compared with all others."""
    trace = TraceBuilder()
    trace.ask("list-offsets-1", 9, broker=1, epoch=4)
    trace.ask("list-offsets-1", 10, broker=2, epoch=5)
    trace.ask("list-offsets-2", 8, broker=1, epoch=4)
    assert trace.result("H1").violated == 1


def test_an_unclean_election_excuses() -> None:
    """Shows that an unclean election between the two leader epochs excuses the step back."""
    trace = TraceBuilder()
    trace.ask("list-offsets-1", 10, broker=1, epoch=4)
    trace.change(leader=2, epoch=5, cause="unclean")
    trace.ask("list-offsets-1", 8, broker=2, epoch=5)
    assert trace.result("H1").excused == {"unclean-election": 1}


def test_an_unclean_election_later_excuses_nothing() -> None:
    """Shows that an unclean election after both leader epochs leaves the violation standing."""
    trace = TraceBuilder()
    trace.change(leader=2, epoch=6, cause="unclean")
    trace.ask("list-offsets-1", 10, broker=1, epoch=4)
    trace.ask("list-offsets-1", 8, broker=2, epoch=5)
    assert trace.result("H1").status == "violated"


def test_the_seed_does_not_apply_where_unclean_election_is_enabled() -> None:
    """Shows the exemption of the KIP as written, which Kafka as shipped does not have."""
    for value, status in (("seed", "excused"), ("kafka", "violated")):
        trace = TraceBuilder(features={"kip-207": value}, config={"unclean.leader.election.enable": True})
        trace.ask("list-offsets-1", 10, broker=1, epoch=4)
        trace.ask("list-offsets-1", 8, broker=2, epoch=5)
        found = trace.result("H1")
        assert (found.violated > 0) == (status == "violated")
        assert bool(found.excused) == (status == "excused")


def test_the_leader_epoch_of_an_old_version_comes_from_the_server() -> None:
    """Shows that an answer without a leader epoch is joined, by its cause, with what its server recorded."""
    trace = TraceBuilder()
    trace.ask("list-offsets-1", 10, broker=2, epoch=5)
    op = trace.invoke("list-offsets-2")
    told = ReplyPartition(TP, 0, offset=8, leader_epoch=4, leader_epoch_start=0)
    trace.cause = trace.reply(1, "ListOffsets", told, version=1)
    trace.told("list-offsets-2", op, 8, broker=1, epoch=-1)
    assert trace.result("H1").excused == {"stale-leader": 1}


def test_without_any_leader_epoch_nothing_is_decided() -> None:
    """Shows that a step back whose leader epoch nobody knows is inconclusive, neither a violation nor excused."""
    trace = TraceBuilder()
    trace.ask("list-offsets-1", 10, broker=2, epoch=5)
    trace.ask("list-offsets-2", 8, broker=1, epoch=-1)
    assert trace.result("H1").status == "inconclusive"


def lagging(error: int, offset: int = -1, timestamp: int = -1) -> ReplyPartition:
    """An answer of a leader of epoch 5 that began at 1,310 and has a high watermark of 1,204."""
    return ReplyPartition(TP, error, offset, -1, timestamp, 5, 1204, 1310, 1310)


def caught_up(error: int, offset: int = -1, timestamp: int = -1) -> ReplyPartition:
    """An answer of a leader of epoch 5 that has caught up with its start."""
    return ReplyPartition(TP, error, offset, -1, timestamp, 5, 1310, 1310, 1400)


@pytest.mark.parametrize(
    ("value", "version", "told", "right"),
    [
        ("kafka", 11, lagging(78), True),
        ("kafka", 4, lagging(5), True),
        ("kafka", 11, lagging(5), False),
        ("kafka", 11, lagging(0, 1204), False),
        ("kafka", 11, lagging(0, 0, -2), True),
        ("kafka", 11, lagging(78, -1, -2), False),
        ("kafka", 11, lagging(0, 700, 123456), True),
        ("kafka", 11, lagging(0, -1, 123456), False),
        ("kafka", 11, lagging(78, -1, 123456), True),
        ("seed", 11, lagging(78, -1, -2), True),
        ("seed", 11, lagging(0, 0, -2), False),
        ("seed", 11, lagging(0, 700, 123456), False),
    ],
)
def test_a_lagging_leader_refuses(value: str, version: int, told: ReplyPartition, right: bool) -> None:
    """Shows what H2 demands of a leader below its epoch's start, per reading of the KIP."""
    trace = TraceBuilder(features={"kip-207": value})
    trace.reply(2, "ListOffsets", told, version)
    result = trace.result("H2")
    assert result.status == ("held" if right else "violated")
    assert result.tested == 1


def test_a_leader_that_caught_up_does_not_refuse() -> None:
    """Shows that refusing too long violates H2, and that answering when caught up is no test of it."""
    trace = TraceBuilder()
    trace.reply(2, "ListOffsets", caught_up(0, 1310))
    assert trace.result("H2").status == "vacuous"
    trace.reply(2, "ListOffsets", caught_up(78))
    result = trace.result("H2")
    assert result.status == "violated"
    assert "although it had caught up" in result.violations[0].sentence


def test_h2_without_the_feature() -> None:
    """Shows that H2 is vacuous where KIP-207 is off, or does not apply."""
    off = TraceBuilder(features={"kip-207": "off"})
    off.reply(2, "ListOffsets", lagging(0, 1204))
    assert (off.result("H2").status, off.result("H2").why) == ("vacuous", "kip-207 is off")
    unclean = TraceBuilder(features={"kip-207": "seed"}, config={"unclean.leader.election.enable": True})
    unclean.reply(2, "ListOffsets", lagging(0, 1204))
    assert unclean.result("H2").status == "vacuous"


def test_h2_goes_by_the_broker_that_answers() -> None:
    """Shows that in a cluster of mixed features only brokers with KIP-207 are held to it."""
    trace = TraceBuilder(features={"kip-207": "kafka"}, nodes={"broker-2": {"features": {"kip-207": "off"}}})
    trace.reply(2, "ListOffsets", lagging(0, 1204))
    assert trace.result("H2").status == "vacuous"
    trace.reply(3, "ListOffsets", lagging(0, 1204))
    assert trace.result("H2").status == "violated"


def test_where_the_epoch_starts_the_log_of_the_leader_tells() -> None:
    """Shows that H2 goes by where the leader's log ended when it took up the epoch, not by the leader's word, within
    one process."""
    for start, answer, status in (
        (3, ReplyPartition(TP, 0, 1, leader_epoch=5, high_watermark=1, leader_epoch_start=1), "violated"),
        (3, ReplyPartition(TP, 0, 3, leader_epoch=5, high_watermark=3, leader_epoch_start=9), "vacuous"),
        (3, ReplyPartition(TP, 78, leader_epoch=5, high_watermark=3, leader_epoch_start=9), "violated"),
    ):
        trace = TraceBuilder()
        trace.append("broker-2", *"abc"[:start])
        trace.lead(2, 5)
        trace.reply(2, "ListOffsets", msgspec.structs.replace(answer, timestamp=-1))
        assert trace.result("H2").status == status
    trace.up("broker-2")
    trace.reply(2, "ListOffsets", lagging(78))
    assert trace.result("H2").violated == 1


def test_other_errors_are_not_refusals() -> None:
    """Shows that a broker that does not lead is not judged by H2."""
    trace = TraceBuilder()
    trace.reply(3, "ListOffsets", ReplyPartition(TP, 6, leader_epoch=5, high_watermark=3))
    assert trace.result("H2").status == "vacuous"


def test_brokers_are_answered() -> None:
    """Shows that H5 is tested by a broker's ListOffsets to a lagging leader, and violated by a refusal."""
    trace = TraceBuilder()
    trace.reply(2, "ListOffsets", lagging(78), replica_id=-1)
    assert trace.result("H5").status == "vacuous"
    trace.reply(2, "ListOffsets", lagging(0, 1310), replica_id=3)
    assert trace.result("H5").status == "held"
    trace.reply(2, "ListOffsets", lagging(78), replica_id=3)
    assert trace.result("H5").status == "violated"


@pytest.mark.parametrize(
    ("isr", "begins", "lost", "status"),
    [
        ((2,), 100, 105, "violated"),
        ((2,), 105, 105, "excused"),
        ((2, 3), 105, 105, "violated"),
        ((2,), 110, 110, "excused"),
        ((2,), 0, 50, "excused"),
    ],
)
def test_a_disk_that_lost_an_empty_log(isr: tuple[int, ...], begins: int, lost: int, status: str) -> None:
    """Shows that a lost disk excuses a lower answer, if it was all that the ISR had: also where retention had left no
    record on it, as the log begins at 0 again, but not where it lost only what is above the first answer."""
    trace = TraceBuilder(config={"min.insync.replicas": 2})
    trace.change(1, 0)
    trace.ask("list-offsets-1", 105, broker=1, epoch=0)
    trace.change(2, 1, isr=isr)
    if begins:
        trace.emit("broker-2", LogStart(TP, begins, "retention-ms", 0))
    trace.down("broker-2", "lossy", lost={TP: lost})
    trace.change(2, 2, isr=isr)
    trace.ask("list-offsets-1", 33, broker=2, epoch=2)
    assert trace.result("H1").status == status


@pytest.mark.parametrize(
    ("how", "status"), [("restarted", "violated"), ("loaded", "excused"), ("local", "excused"), ("anew", "violated")]
)
def test_where_the_lost_log_began(how: str, status: str) -> None:
    """Shows that H1 knows where the log of this very process began on its own disk."""
    trace = TraceBuilder(config={"min.insync.replicas": 2})
    trace.change(1, 0)
    trace.ask("list-offsets-1", 105, broker=1, epoch=0)
    trace.change(2, 1, isr=(2,))
    trace.up("broker-2")
    trace.emit("broker-2", LogStart(TP, 40 if how == "local" else 105, "retention-ms", 0))
    if how == "local":
        trace.emit("broker-2", LogLocalStart(TP, 105, "retention-ms", 40))
        trace.emit("broker-2", LogStart(TP, 50, "retention-ms", 0))
    elif how == "anew":
        trace.emit("broker-2", LogStart(TP, 60, "truncation", 0))
    else:
        trace.down("broker-2")
        trace.up("broker-2")
    if how == "loaded":
        trace.emit("broker-2", LogStart(TP, 105, "load", 0))
    trace.down("broker-2", "lossy", lost={TP: 105})
    trace.change(2, 2, isr=(2,))
    trace.ask("list-offsets-1", 33, broker=2, epoch=2)
    assert trace.result("H1").status == status
