"""T10: what an unclean election leaves of transactions."""

from __future__ import annotations

from typing import Literal

import pytest

from orchestrator.invariants.mirrors.transactions_of_log import MARKERS_REMEMBERED
from tests.unit.invariants.transactions.stage import TransactionTrace

OTHER = 9
FEATURES = {"kip-207": "kafka", "eligible.leader.replicas.version": "1"}


def electing(feature: Literal["off", "seed"] = "seed", counted: bool = True) -> TransactionTrace:
    """Producer 7 has a record at 0, and its commit marker at 1 is on broker-1 alone; broker-2 is elected uncleanly."""
    trace = TransactionTrace(features={**FEATURES, "kafka-7408": feature})
    trace.lead(1)
    trace.begins()
    trace.write("a")
    trace.write("a", broker=2, role="follower")
    trace.decides(True)
    if counted:
        trace.ends("commit")
        trace.counted(True)
    trace.change(2, 1, isr=(2,), cause="unclean")
    return trace


def told(trace: TransactionTrace) -> TransactionTrace:
    """The controller hears that the log of broker-2 is in order."""
    trace.change(2, 1, isr=(2,), cause="alter-isr", partition_epoch=2)
    return trace


def test_a_transaction_that_is_over_is_open_again() -> None:
    """Shows that T10 is violated where the new leader goes on with it, and excused without the feature."""
    trace = electing()
    trace.assume(2, 1)
    (finding,) = told(trace).result("T10").violations
    assert finding.sentence == (
        "broker-2, leader of orders-0 in leader epoch 1 after an unclean election, still has the transaction of "
        "producer id 7, epoch 3, open from 0 on, but a coordinator counts its marker as written"
    )
    trace = electing("off")
    trace.assume(2, 1)
    result = told(trace).result("T10")
    assert (result.status, result.tested) == ("excused", 1)


def test_a_transaction_of_which_its_coordinator_knows() -> None:
    """Shows that T10 is held, tested, where the coordinator is still to tell the partition."""
    trace = electing(counted=False)
    trace.assume(2, 1)
    result = told(trace).result("T10")
    assert (result.status, result.tested) == ("held", 1)


def cutting(to: int = 1) -> TransactionTrace:
    """Broker-2 has a whole transaction of producer 7 whose marker is above one of producer 9 that is open from 1 on,
    and cuts its log."""
    trace = TransactionTrace(features={**FEATURES, "kafka-7408": "seed"})
    trace.lead(1)
    for broker, role in ((1, "leader"), (2, "follower")):
        trace.write("a", broker=broker, role=role)
        trace.write("b", broker=broker, role=role, producer=OTHER)
        trace.ends("commit", broker=broker, role=role)
    trace.high_watermark("broker-2", 3, role="follower")
    trace.change(2, 1, isr=(2,), cause="unclean")
    trace.truncate("broker-2", to, reason="last-stable-offset")
    trace.assume(2, 1)
    return trace


def test_markers_that_were_cut_off_come_again() -> None:
    """Shows that T10 is held if they are appended in the new leader epoch, and violated if they are not, in another
    epoch, or for another producer."""
    trace = cutting()
    trace.ends("commit", broker=2, led=1)
    result = told(trace).result("T10")
    assert (result.status, result.tested) == ("held", 1)
    (finding,) = told(cutting()).result("T10").violations
    assert finding.sentence.endswith(
        "after an unclean election, did not append again the truncated marker of producer id 7"
    )
    trace = cutting()
    trace.ends("commit", broker=2)
    (finding,) = told(trace).result("T10").violations
    assert finding.sentence.endswith("to orders-0 at 1 in leader epoch 0, although it leads in leader epoch 1")
    trace = cutting()
    trace.ends("commit", broker=2, led=1, producer=OTHER)
    (finding,) = told(trace).result("T10").violations
    assert finding.sentence.endswith("but first it had to append again the truncated marker of producer id 7")


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("again", ["all", "none", "from the second on"])
def test_as_many_markers_as_are_remembered(more: int, again: str) -> None:
    """Shows that T10 judges the markers of a leader that cuts off as many of a producer as the mirror remembers, and
    does not judge those of one that cuts off more: it would take the first of them for another one that is due."""
    trace = TransactionTrace(features={**FEATURES, "kafka-7408": "seed"})
    trace.lead(1)
    epochs = range(4, 4 + MARKERS_REMEMBERED + more)
    for broker, role in ((1, "leader"), (2, "follower")):
        trace.write("b", broker=broker, role=role, producer=OTHER)
        for epoch in epochs:
            trace.ends("commit", epoch, broker=broker, role=role)
    trace.change(2, 1, isr=(2,), cause="unclean")
    trace.truncate("broker-2", 1, reason="last-stable-offset")
    trace.assume(2, 1)
    for epoch in {"all": epochs, "none": (), "from the second on": epochs[1:]}[again]:
        trace.ends("commit", epoch, broker=2, led=1)
    status = "vacuous" if more else "held" if again == "all" else "violated"
    assert told(trace).result("T10").status == status


def test_how_far_a_log_is_cut() -> None:
    """Shows that T10 is violated by a cut below the last stable offset, and by one without an unclean election."""
    trace = cutting(0)
    assert "below its last stable offset 1" in trace.result("T10").violations[0].sentence
    trace = TransactionTrace(features={**FEATURES, "kafka-7408": "seed"})
    trace.lead(1)
    trace.write("a")
    trace.truncate("broker-1", 0, reason="last-stable-offset")
    (finding,) = trace.result("T10").violations
    assert finding.sentence == "broker-1 truncated orders-0 from 1 to 0, although it was not elected uncleanly"


def losing(
    feature: Literal["off", "seed"], version: int = 2, *, resent: bool = False, cuts: bool = False
) -> TransactionTrace:
    """Producer 7 has records at 0 and 1, the latter on broker-1 alone, when broker-2 is elected uncleanly. ``cuts``: it
    truncates the other one, and the producer goes on with a third."""
    trace = TransactionTrace(features={**FEATURES, "kafka-7408": feature})
    trace.lead(1)
    trace.begins(version=version)
    for broker, role in ((1, "leader"), (2, "follower")):
        trace.write("a", broker=broker, role=role)
    trace.write("b", sequence=1)
    trace.change(2, 1, isr=(2,), cause="unclean")
    if cuts:
        trace.truncate("broker-2", 0, reason="last-stable-offset")
    trace.assume(2, 1)
    told(trace)
    if cuts:
        trace.write("c", broker=2, led=1, sequence=2)
    if resent:
        trace.write("b", broker=2, led=1, sequence=1)
    trace.decides(True, version=version)
    return trace


def test_half_a_transaction_is_committed() -> None:
    """Shows that T10 is violated if the marker comes to a log that has some records of the transaction and lacks
    others; excused without the feature, and where an unclean election alone lost them and the producer cannot have
    learned of it."""
    trace = losing("seed")
    trace.ends("commit", broker=2, led=1)
    (finding,) = trace.result("T10").violations
    assert finding.rule == ""
    assert finding.sentence == (
        "the marker that broker-2 appended at 1 of orders-0 commits 1 of 2 records of a transaction of producer id 7; "
        "the others were lost by an unclean election"
    )
    for feature, version, rule in (("off", 2, "kafka-7408-off"), ("seed", 1, "unclean-election")):
        trace = losing(feature, version)  # type: ignore[arg-type]
        trace.ends("commit", broker=2, led=1)
        result = trace.result("T10")
        assert (result.status, result.excused) == ("excused", {rule: 1})


def test_the_producer_goes_on_after_the_cut() -> None:
    """Shows that T10 is violated where the new leader had a record of what is committed, and truncated it: the election
    alone would not have lost it. That is known of the proposal."""
    trace = losing("seed", 1, cuts=True)
    trace.ends("commit", broker=2, led=1)
    (finding,) = trace.result("T10").violations
    assert finding.rule == "kafka-7408-half"
    assert finding.sentence == (
        "the marker that broker-2 appended at 1 of orders-0 commits 1 of 3 records of a transaction of producer id 7; "
        "the others were truncated after an unclean election"
    )


def test_a_transaction_that_is_whole_or_gone() -> None:
    """Shows that T10 is held if the transaction is aborted, or if its producer sends again what was lost."""
    trace = losing("seed")
    trace.ends("abort", broker=2, led=1)
    assert trace.result("T10").status == "held"
    trace = losing("seed", resent=True)
    trace.ends("commit", broker=2, led=1)
    assert trace.result("T10").status == "held"


def halving(marker: Literal["commit", "abort"] = "commit") -> TransactionTrace:
    """Broker-1 has a transaction of producer 7 at 0 and 2, which is ended at 3, and one of producer 9 that is open at
    1; it is elected uncleanly, cuts its log to 1, and appends the marker again."""
    trace = TransactionTrace(features={**FEATURES, "kafka-7408": "seed"})
    trace.lead(1)
    trace.begins()
    trace.write("a")
    trace.write("b", producer=OTHER)
    trace.write("c", sequence=1)
    trace.decides(marker == "commit")
    trace.ends(marker)
    trace.high_watermark("broker-1", 4)
    trace.change(1, 1, isr=(1,), cause="unclean")
    trace.truncate("broker-1", 1, reason="last-stable-offset")
    trace.assume(1, 1)
    trace.ends(marker, led=1)
    return trace


def test_the_cut_takes_half_of_a_committed_transaction() -> None:
    """Shows that T10 is violated, once, where the proposal commits what is left below the last stable offset, also if
    the coordinator sends the marker again; of an aborted transaction it takes nothing that a reader gets."""
    trace = halving()
    trace.ends("commit", led=1)
    (finding,) = told(trace).result("T10").violations
    assert finding.rule == "kafka-7408-half"
    assert finding.sentence == (
        "broker-1 truncated orders-0 from 4 to 1, and 1 of 2 records of the committed transaction of producer id 7 "
        "with it"
    )
    assert told(halving("abort")).result("T10").status == "held"
