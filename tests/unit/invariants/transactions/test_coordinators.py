"""T9, T11 and T13: what transaction coordinators do with a transactional id."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.spec import node_name
from actors.trace.events import ClockSet, CtlFault, CtlPhase, NodeDown, PartAssume, TxnLoad
from actors.trace.transaction_events import TransactionStateName, TxnLoaded
from orchestrator.invariants.folds.bounds import bound_us
from orchestrator.invariants.folds.fold import Profile
from tests.unit.invariants.trace_builder import TP
from tests.unit.invariants.transactions.stage import APP, OTHER_TP, PRODUCER, STATE, TransactionTrace, producers

BROKERS = ("broker-1", "broker-2", "broker-3")


def test_states_by_the_rule() -> None:
    """Shows that T11 is held, tested by each step but the first, and over a failover that finds the last one."""
    trace = TransactionTrace()
    trace.begins()
    trace.decides(True)
    trace.loads("PrepareCommit", 4, 2)
    trace.state("PrepareCommit", "CompleteCommit", 4, (), node="broker-2", coordinator_epoch=1)
    trace.state("CompleteCommit", "Ongoing", 4, node="broker-2", coordinator_epoch=1)
    result = trace.result("T11")
    assert (result.status, result.tested) == ("held", 4)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"start_ms": 5}, "the beginning of the transaction was 0 ms, and now is 5 ms"),
        ({"timeout_ms": 2000}, "the timeout of the transaction was 1,000 ms, and now is 2,000 ms"),
        ({}, ""),
    ],
)
@pytest.mark.parametrize("how", ["added", "decided", "loaded"])
def test_a_transaction_whose_end_is_put_off(how: str, changed: dict[str, int], why: str) -> None:
    """Shows that an open transaction keeps its beginning and its timeout: when partitions are added, in its decision,
    and under another coordinator. The next one has its own."""
    trace = TransactionTrace()
    trace.begins()
    if how == "added":
        trace.state("Ongoing", "Ongoing", 3, (TP, OTHER_TP), **changed)
    elif how == "decided":
        trace.decides(True, **changed)
        trace.completes(True)
        trace.state("CompleteCommit", "Ongoing", 4, start_ms=7, timeout_ms=3000)
    else:
        trace.loads("Ongoing", 3, 2, **changed)
    assert [each.sentence.rpartition("): ")[2] for each in trace.result("T11").violations] == ([why] if why else [])


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (producers(one=1000), ""),
        (producers(one=2500, two=1000), ""),
        ({}, ""),
        (producers(one=2500), "its producer asks for 2,500 ms"),
        (producers(one=2500, two=6000), "its producer asks for 2,500 ms or 6,000 ms"),
    ],
)
@pytest.mark.parametrize("loaded", [False, True])
def test_whose_timeout_a_transaction_has(profile: dict[str, Any], why: str, loaded: bool) -> None:
    """Shows that a coordinator has an id with the timeout of one of its producers, of which the run tells."""
    trace = TransactionTrace(**profile)
    if loaded:
        trace.loads("Ongoing", 3, 2)
    else:
        trace.begins()
    told = [each.sentence for each in trace.result("T11").violations]
    node = "broker-2" if loaded else "broker-1"
    assert told == ([f"{node} has app-1 with a timeout of 1,000 ms, but {why}"] if why else [])


@pytest.mark.parametrize(
    ("before", "after", "start_ms", "violated"),
    [
        ("Empty", "Ongoing", 70, 0),
        ("CompleteCommit", "Ongoing", 70, 0),
        ("CompleteAbort", "PrepareAbort", 70, 0),
        ("CompleteCommit", "Ongoing", 20, 1),
        ("CompleteAbort", "PrepareAbort", 20, 1),
        ("Empty", "Ongoing", 71, 1),
        ("Ongoing", "Ongoing", 20, 0),
        ("Ongoing", "PrepareAbort", 20, 0),
        ("PrepareCommit", "CompleteCommit", 20, 0),
    ],
)
def test_when_a_transaction_begins(
    before: TransactionStateName, after: TransactionStateName, start_ms: int, violated: int
) -> None:
    """Shows that it begins with its first partition, or as it ends without one, and not with a former transaction."""
    trace = TransactionTrace()
    moved = trace.state(before, after, 4, start_ms=start_ms, update_ms=70)
    result = trace.result("T11")
    assert result.violated == violated
    for finding in result.violations:
        assert finding.events == [moved]
        assert finding.sentence == (
            f"broker-1 took app-1 from {before} to {after} at 70 ms, but has it that the transaction began at "
            f"{start_ms} ms"
        )


@pytest.mark.parametrize(
    ("update_ms", "timed_out", "violated"), [(1021, True, 0), (1020, True, 1), (520, True, 1), (520, False, 0)]
)
def test_a_timeout_that_is_not_over(update_ms: int, timed_out: bool, violated: int) -> None:
    """Shows that a coordinator aborts a transaction by its timeout only after that. A producer may abort it before."""
    trace = TransactionTrace()
    trace.begins(start_ms=20, update_ms=20)
    trace.decides(False, start_ms=20, update_ms=update_ms, timed_out=timed_out)
    result = trace.result("T11")
    assert result.violated == violated
    for finding in result.violations:
        assert finding.sentence == (
            f"broker-1 aborts the transaction of app-1 at {update_ms:,} ms, as its timeout of 1,000 ms is over, but it "
            "began at 20 ms"
        )


OFTEN = {"config": {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}}
"""A transaction is then aborted within two seconds after its timeout of one."""


@pytest.mark.parametrize(("update_ms", "timed_out", "violated"), [(3020, True, 0), (3021, True, 1), (9000, False, 0)])
def test_a_timeout_that_is_long_over(update_ms: int, timed_out: bool, violated: int) -> None:
    """Shows that a coordinator aborts a transaction soon after its timeout. A producer may abort it at any time."""
    trace = TransactionTrace(**OFTEN)
    trace.begins(start_ms=20, update_ms=20)
    trace.decides(False, start_ms=20, update_ms=update_ms, timed_out=timed_out)
    result = trace.result("T11")
    assert result.violated == violated
    for finding in result.violations:
        assert finding.sentence == (
            "broker-1 aborts the transaction of app-1, which began at 20 ms with a timeout of 1,000 ms, at 3,021 ms: "
            "1 ms too late"
        )


@pytest.mark.parametrize(("update_ms", "violated"), [(4020, 0), (4021, 1)])
def test_a_timeout_that_is_long_over_in_a_live_run(update_ms: int, violated: int) -> None:
    """Shows that a machine may be busy with other things in a live run."""
    trace = TransactionTrace(**OFTEN)
    trace.live()
    trace.begins(start_ms=20, update_ms=20)
    trace.decides(False, start_ms=20, update_ms=update_ms, timed_out=True)
    assert trace.result("T11").violated == violated


@pytest.mark.parametrize(
    "why", ["loads", "takes back", "adds", "paused", "clock", "thin", "was thin", "is led", "others"]
)
def test_a_coordinator_that_aborts_late(why: str) -> None:
    """Shows what puts an abort off: a load of the log, a change of the id that is under way, a pause of the process, a
    clock, and a replica of the log that is not in its ISR."""
    trace = TransactionTrace(**OFTEN)
    if why == "was thin":
        trace.change(1, 0, (1, 2), tp=STATE)
    elif why == "is led":
        trace.change(1, 0, tp=STATE)
    trace.wall = 19_000
    trace.begins(start_ms=20, update_ms=20)
    trace.wall = 2_500_000
    by: dict[str, Any] = {}
    if why == "loads":
        trace.loads("Ongoing", 3, 2, start_ms=20)
        by = {"node": "broker-2", "coordinator_epoch": 1}
    elif why == "takes back":
        trace.takes_back("PrepareCommit")
    elif why == "adds":
        trace.state("Ongoing", "Ongoing", 3, start_ms=20, update_ms=2500)
    elif why == "paused":
        trace.emit("driver", CtlFault("f1", "pause", "start", ["broker-1"], {}))
        trace.emit("driver", CtlFault("f1", "pause", "stop", ["broker-1"], {}))
    elif why == "clock":
        trace.emit("broker-3", ClockSet("c", "start", 1, 0))
    elif why == "thin":
        trace.change(1, 0, (1, 2), tp=STATE)
        trace.change(1, 0, tp=STATE, partition_epoch=1)
    elif why == "others":
        trace.change(1, 0, (1, 2))
        trace.emit("driver", CtlFault("f1", "pause", "start", ["broker-2"], {}))
    trace.decides(False, start_ms=20, update_ms=4400, timed_out=True, **by)
    found = [each.sentence for each in trace.result("T11").violations]
    assert len(found) == (why in ("others", "is led"))
    assert all("too late" in each for each in found)


def test_a_trace_that_does_not_tell_the_time_of_a_step() -> None:
    """Shows that T11 judges no beginning and no timeout by a trace that lacks the time."""
    trace = TransactionTrace()
    trace.begins(start_ms=20)
    trace.decides(False, start_ms=20, timed_out=True)
    assert trace.result("T11").status == "held"


def test_an_id_that_expires_has_no_timeout() -> None:
    """Shows that the timeout of a removed id is not judged: its record has none."""
    trace = TransactionTrace(**producers(one=2500))
    trace.state("CompleteCommit", "Dead", 4, (), timeout_ms=-1)
    assert trace.result("T11").violated == 0


@pytest.mark.parametrize(("asked", "violated"), [((PRODUCER, 3), 0), ((-1, -1), 0), ((PRODUCER, 2), 1), ((8, 3), 1)])
def test_who_adds_to_a_transaction(asked: tuple[int, int], violated: int) -> None:
    """Shows that a coordinator adds partitions only for the producer id and epoch that the transactional id has."""
    trace = TransactionTrace()
    trace.begins()
    added = trace.state("Ongoing", "Ongoing", 3, (TP, OTHER_TP), asked=asked)
    result = trace.result("T11")
    assert result.violated == violated
    for finding in result.violations:
        assert finding.events == [added]
        assert finding.sentence == (
            f"broker-1 took app-1 from Ongoing to Ongoing for producer id {asked[0]}, epoch {asked[1]}, "
            f"although it had producer id {PRODUCER}, epoch 3"
        )


@pytest.mark.parametrize(
    ("former", "asked", "producer", "epoch", "why"),
    [
        ((PRODUCER, -1), (-1, -1), PRODUCER, 0, ""),
        ((PRODUCER, 5), (-1, -1), PRODUCER, 6, ""),
        ((PRODUCER, 5), (-1, -1), PRODUCER, 5, "it is not the next epoch"),
        ((PRODUCER, 5), (-1, -1), PRODUCER, 7, "it is not the next epoch"),
        ((PRODUCER, 5), (PRODUCER, 5), PRODUCER, 6, ""),
        ((PRODUCER, 5), (PRODUCER, 5), PRODUCER, 5, "it is not the next epoch"),
        ((PRODUCER, 5), (PRODUCER, 4), PRODUCER, 5, ""),
        ((PRODUCER, 5), (PRODUCER, 4), PRODUCER, 6, "that is fenced"),
        ((PRODUCER, 5), (PRODUCER, 3), PRODUCER, 6, "that is fenced"),
        ((PRODUCER, 5), (PRODUCER, 3), PRODUCER, 5, "that is fenced"),
        ((PRODUCER, 5), (6, 4), PRODUCER, 6, "that is fenced"),
        ((PRODUCER, 0), (6, 32766), PRODUCER, 0, ""),
        ((PRODUCER, 32766), (-1, -1), 8, 0, ""),
        ((PRODUCER, 5), (-1, -1), 8, 0, "the producer id had epochs left"),
    ],
)
def test_which_epoch_a_producer_gets(
    former: tuple[int, int], asked: tuple[int, int], producer: int, epoch: int, why: str
) -> None:
    """Shows that a coordinator gives each producer the next epoch, or another producer id when all are used up; to who
    names the epoch before the present one, the present one once more; and to no other process that names its own."""
    trace = TransactionTrace()
    trace.initializes(epoch, former, asked=asked, producer=producer)
    result = trace.result("T11")
    assert [each.sentence.rpartition(": ")[2] for each in result.violations] == ([why] if why else [])


def test_a_fenced_process_that_is_initialized() -> None:
    """Shows the evidence: what the process said, what its successor had, and what it got."""
    trace = TransactionTrace()
    given = trace.initializes(6, (PRODUCER, 5), asked=(PRODUCER, 4))
    (finding,) = trace.result("T11").violations
    assert finding.events == [given]
    assert finding.sentence == (
        "broker-1 gave app-1 producer id 7, epoch 6, after producer id 7, epoch 5, for producer id 7, epoch 4: that is "
        "fenced"
    )


def test_a_trace_that_does_not_tell_who_asks_for_an_epoch() -> None:
    """Shows that T11 judges no epoch that was given by a trace that lacks the request's."""
    trace = TransactionTrace()
    trace.initializes(5, (PRODUCER, 5), update_ms=-1)
    assert trace.result("T11").violated == 0


def test_a_decision_that_is_changed() -> None:
    """Shows that a new coordinator which finds another decision violates T11."""
    trace = TransactionTrace()
    trace.begins()
    decided = trace.decides(True)
    loaded = trace.loads("PrepareAbort", 4, 2)
    (finding,) = trace.result("T11").violations
    assert finding.events == [decided, loaded]
    assert finding.sentence == (
        "broker-2 has app-1 in PrepareAbort (producer id 7, epoch 4) after PrepareCommit (producer id 7, epoch 4): "
        "there is no such transition"
    )


@pytest.mark.parametrize(("taken_back", "status"), [("PrepareCommit", "excused"), ("PrepareAbort", "violated")])
def test_a_decision_that_was_taken_back(taken_back: TransactionStateName, status: str) -> None:
    """Shows that a decision may change whose record timed out, and was read by another coordinator before it was
    committed. What else was taken back excuses nothing."""
    trace = TransactionTrace()
    trace.begins()
    trace.takes_back(taken_back)
    trace.loads("PrepareCommit", 4, 2)
    trace.loads("PrepareAbort", 4, 3, node="broker-1", coordinator_epoch=2)
    assert trace.result("T11").status == status


def test_a_decision_that_was_committed_after_it_was_taken_back() -> None:
    """Shows that a coordinator may not change a committed decision, even if it took an earlier one back."""
    trace = TransactionTrace()
    trace.begins()
    trace.takes_back("PrepareCommit")
    trace.decides(True)
    trace.loads("PrepareAbort", 4, 3)
    assert trace.result("T11").status == "violated"


def test_a_load_of_several_ids() -> None:
    """Shows that each id in a load is judged, and remembered, whatever is wrong with another one."""
    trace = TransactionTrace()
    trace.begins()
    other = TxnLoaded("Ongoing", 8, 5, [TP], 2, 1000, 0)
    gone_back = TxnLoaded("Ongoing", PRODUCER, 2, [TP], 2, 1000, 0)
    trace.emit("broker-2", TxnLoad(STATE, 1, True, 3, {APP: gone_back, "app-2": other}))
    assert trace.result("T11").violated == 1
    trace.emit("broker-3", TxnLoad(STATE, 2, True, 4, {"app-2": TxnLoaded("CompleteCommit", 8, 6, [], 2, 1000, 0)}))
    assert trace.result("T11").violated == 2


def rests(rested_ms: int, *, update_ms: int = 7, loaded: bool = False, **profile: Any) -> TransactionTrace:
    """Transactional ids expire after 4 s, and so long after its last step app-1 is gone."""
    trace = TransactionTrace(config={"transactional.id.expiration.ms": 4000}, **profile)
    trace.begins()
    trace.decides(True)
    trace.completes(True, update_ms=update_ms)
    by: dict[str, Any] = {}
    if loaded:
        trace.loads("CompleteCommit", 4, 3, ())
        by = {"node": "broker-2", "coordinator_epoch": 1}
    trace.wall = 1000 * (6 + rested_ms)
    trace.state("CompleteCommit", "Dead", 4, (), timeout_ms=-1, **by)
    return trace


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(("rested_ms", "violated"), [(4001, 0), (3998, 0), (3990, 1), (20, 1)])
def test_when_an_id_expires(rested_ms: int, violated: int, loaded: bool) -> None:
    """Shows that an id is removed when nobody has used it for as long as it is kept, also by a coordinator that has
    only read its last step, which renews nothing."""
    result = rests(rested_ms, loaded=loaded).result("T11")
    assert (result.violated, result.tested) == (violated, 4 if loaded else 3)
    for finding in result.violations:
        assert finding.sentence.endswith(
            "in Dead (producer id 7, epoch 4) after CompleteCommit (producer id 7, epoch 4): it was used "
            f"{rested_ms:,} ms before, and expires after 4,000 ms"
        )
        assert len(finding.events) == 2


def test_an_id_whose_last_use_is_not_known() -> None:
    """Shows that T11 does not judge the expiry of an id of which the trace does not tell when it was used last."""
    assert rests(20, update_ms=-1).result("T11").violated == 0
    trace = TransactionTrace()
    trace.loads("CompleteCommit", 4, 3, ())
    trace.state("CompleteCommit", "Dead", 4, (), timeout_ms=-1, node="broker-2", coordinator_epoch=1, offset=3)
    assert (trace.result("T11").violated, trace.result("T11").tested) == (0, 1)


@pytest.mark.parametrize(("node", "violated"), [("broker-2", 0), ("producer-1", 1)])
def test_an_id_that_expires_by_a_wrong_clock(node: str, violated: int) -> None:
    """Shows that the clocks of brokers must be right for that; clients have no part in it."""
    trace = TransactionTrace()
    trace.begins()
    trace.decides(True)
    trace.completes(True, update_ms=7)
    trace.emit(node, ClockSet("f", "start", 600_000_000, 0))
    trace.state("CompleteCommit", "Dead", 4, (), timeout_ms=-1)
    assert trace.result("T11").violated == violated


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("lossy", [1, 2])
def test_an_id_whose_last_use_disks_lost(lossy: int, loaded: bool) -> None:
    """Shows that an id may expire by an older step where as many disks lost the last one as
    transaction.state.log.min.isr says, whether or not the log was read since."""
    trace = TransactionTrace()
    trace.begins()
    trace.decides(True)
    trace.completes(True, update_ms=7)
    for broker in BROKERS[:lossy]:
        trace.emit(broker, NodeDown("lossy", lost={STATE: 2}))
    by: dict[str, Any] = {}
    if loaded:
        trace.loads("CompleteCommit", 4, 3, ())
        by = {"node": "broker-2", "coordinator_epoch": 1}
    trace.state("CompleteCommit", "Dead", 4, (), timeout_ms=-1, **by)
    assert trace.result("T11").violated == (lossy == 1)


@pytest.mark.parametrize(
    ("commits", "epoch", "producer", "violated"),
    [(True, 4, PRODUCER, 0), (False, 4, PRODUCER, 1), (True, 3, PRODUCER, 1), (True, 4, 8, 1)],
)
@pytest.mark.parametrize("loaded", [False, True])
def test_which_markers_a_coordinator_sends(
    commits: bool, epoch: int, producer: int, violated: int, loaded: bool
) -> None:
    """Shows that a coordinator sends the markers of the decision that it made, or has read, and no others."""
    trace = TransactionTrace()
    trace.begins()
    trace.decides(True)
    by: dict[str, Any] = {}
    if loaded:
        trace.loads("PrepareCommit", 4, 2)
        by = {"node": "broker-2", "coordinator_epoch": 1}
    trace.tells(commits, epoch, producer=producer, **by)
    result = trace.result("T11")
    assert (result.violated, result.tested) == (violated, 3 if loaded else 2)


@pytest.mark.parametrize("again", [False, True])
def test_a_marker_that_is_sent_when_its_transaction_is_complete(again: bool) -> None:
    """Shows that a coordinator sends a marker as often as it likes while its transaction is decided, and not when that
    is complete, nor in the next one. What comes of a marker says nothing of when it was sent."""
    trace = TransactionTrace()
    trace.begins()
    trace.decides(True, 3, version=0)
    trace.tells(True, 3)
    trace.tells(True, 3)
    completed = trace.completes(True, 3, version=0)
    trace.counted(True, 3)
    assert trace.result("T11").violated == 0
    if again:
        completed = trace.state("CompleteCommit", "Ongoing", 3, version=0)
    sent = trace.tells(True, 3)
    (finding,) = trace.result("T11").violations
    assert finding.events == [completed, sent]
    assert finding.sentence == (
        "broker-1 sends a marker (commit) of app-1 (producer id 7, epoch 3) to orders-0, but it has that id in "
        f"{'Ongoing' if again else 'CompleteCommit'} (producer id 7, epoch 3)"
    )


def test_markers_of_who_does_not_know_the_last_step() -> None:
    """Shows that T11 judges no marker of a coordinator that has a successor, of one that was not seen to read the last
    step, or of an id whose step an unclean election may have taken, or that is unknown."""
    trace = TransactionTrace()
    trace.tells(True)
    trace.begins()
    trace.decides(True)
    trace.loads("PrepareCommit", 4, 2)
    trace.state("PrepareCommit", "CompleteCommit", 4, (), node="broker-2", coordinator_epoch=1)
    trace.tells(True)
    trace.tells(True, node="broker-3", coordinator_epoch=2)
    assert trace.result("T11").violated == 0
    trace.change(2, 1, isr=(2,), cause="unclean", tp=STATE)
    trace.tells(True, node="broker-2", coordinator_epoch=1)
    assert trace.result("T11").violated == 0


@pytest.mark.parametrize("back", [False, True])
def test_markers_of_who_does_not_coordinate_any_longer(back: bool) -> None:
    """Shows that a broker sends no markers in a coordinator epoch that it has given up, unless it has taken that up
    again: then it has read the log anew. In a later one it may."""
    trace = TransactionTrace()
    trace.begins()
    trace.decides(True)
    trace.resigns()
    assert trace.result("T11").violated == 0
    if back:
        trace.loads("PrepareCommit", 4, 2, node="broker-1", coordinator_epoch=0)
    sent = trace.tells(True)
    violations = trace.result("T11").violations
    assert [each.events for each in violations] == ([] if back else [[sent]])
    for finding in violations:
        assert finding.sentence == (
            "broker-1 sends a marker (commit) of app-1 (producer id 7, epoch 4) to orders-0, although it does not "
            "coordinate any longer in coordinator epoch 0"
        )
    trace.tells(True, coordinator_epoch=2)
    trace.tells(True, node="broker-2", coordinator_epoch=0)
    assert trace.result("T11").violated == len(violations)


BOTH = (TP, OTHER_TP)


@pytest.mark.parametrize(
    ("state", "before", "after", "why"),
    [
        ("Ongoing", BOTH, BOTH, ""),
        ("Ongoing", (TP,), BOTH, ""),
        ("Ongoing", BOTH, (TP,), "its partitions were copies-1, orders-0, and now are orders-0"),
        ("Ongoing", (TP,), (), "its partitions were orders-0, and now are none"),
        ("PrepareCommit", BOTH, BOTH, ""),
        ("PrepareCommit", (TP,), BOTH, "its partitions were orders-0, and now are copies-1, orders-0"),
        ("PrepareAbort", BOTH, (TP,), "its partitions were copies-1, orders-0, and now are orders-0"),
        ("CompleteCommit", (), (), ""),
    ],
)
def test_which_partitions_the_log_has(
    state: TransactionStateName, before: tuple[str, ...], after: tuple[str, ...], why: str
) -> None:
    """Shows that a new coordinator finds a committed step with its partitions; only an open transaction may have more
    of them, which the former one did not live to tell."""
    trace = TransactionTrace()
    known = trace.state("Ongoing", state, 4, before)
    loaded = trace.loads(state, 4, 2, after)
    result = trace.result("T11")
    assert [(each.events, each.sentence.rpartition("): ")[2]) for each in result.violations] == (
        [([known, loaded], why)] if why else []
    )
    assert result.tested == 1


def test_partitions_that_were_perhaps_not_committed() -> None:
    """Shows that T11 does not compare two loads: the record that the first one has read may be gone."""
    trace = TransactionTrace()
    trace.loads("Ongoing", 3, 2, BOTH)
    trace.loads("Ongoing", 3, 3, (TP,), node="broker-3", coordinator_epoch=2)
    assert (trace.result("T11").violated, trace.result("T11").tested) == (0, 1)


@pytest.mark.parametrize(
    ("feature", "bounced", "loaded", "violated"),
    [
        ("2", False, 0, 1),
        ("1", False, 0, 1),
        ("2", False, 2, 0),
        ("0", False, 0, 0),
        ("2", True, 0, 0),
        ("", False, 0, 0),
    ],
)
def test_which_version_the_log_has(feature: str, bounced: bool, loaded: int, violated: int) -> None:
    """Shows that the log keeps by which transaction.version a producer goes, if the cluster has version 1 or 2 all the
    time."""
    name = "transaction.version"
    trace = TransactionTrace(features={name: feature}, bounced={name: ["1", "2"]} if bounced else {})
    trace.begins()
    trace.loads("Ongoing", 3, 2, version=loaded)
    result = trace.result("T11")
    assert result.violated == violated
    for finding in result.violations:
        assert finding.sentence.endswith(": its transaction.version was 2, and now is 0")


@pytest.mark.parametrize(
    ("lossy", "tp", "start", "excused"),
    [(2, STATE, 0, True), (1, STATE, 0, False), (2, STATE, 1, False), (2, "__transaction_state-7", 0, False)],
)
@pytest.mark.parametrize("before", [False, True])
def test_partitions_that_disks_lost(lossy: int, tp: str, start: int, excused: bool, before: bool) -> None:
    """Shows that what the log lacks is excused where as many disks lost the record as transaction.state.log.min.isr
    says, since it was committed."""
    trace = TransactionTrace()
    for then in (before, not before):
        if then:
            for broker in BROKERS[:lossy]:
                trace.emit(broker, NodeDown("lossy", lost={tp: start}))
        else:
            trace.begins(partitions=BOTH)
    trace.loads("Ongoing", 3, 2)
    result = trace.result("T11")
    excused = excused and not before
    assert (result.violated, result.excused) == ((0, {"loss-budget": 1}) if excused else (1, {}))


def test_a_lacking_partition_after_an_unclean_election() -> None:
    """Shows that what the log lacks is excused if an unclean election came in between."""
    trace = TransactionTrace()
    trace.begins(partitions=BOTH)
    trace.change(2, 1, isr=(2,), cause="unclean", tp=STATE)
    trace.loads("Ongoing", 3, 2)
    result = trace.result("T11")
    assert (result.violated, result.excused) == (0, {"unclean-election": 1})


def test_who_read_the_log_too_early() -> None:
    """Shows that a coordinator which has not read the last step is not judged by it."""
    trace = TransactionTrace()
    trace.begins()
    trace.decides(True)
    trace.loads("Ongoing", 3, 1)
    assert trace.result("T11").violated == 0


@pytest.mark.parametrize(("coordinator_epoch", "tested"), [(0, 1), (1, 2)])
def test_a_log_that_was_lost_begins_anew(coordinator_epoch: int, tested: int) -> None:
    """Shows that what a later coordinator writes where a step was that its log lost begins anew: P4 judges the loss. Of
    the same coordinator it is a word that comes late."""
    trace = TransactionTrace()
    trace.begins()
    trace.decides(True)
    trace.state("Empty", "Ongoing", 0, offset=0, node="broker-2", coordinator_epoch=coordinator_epoch)
    trace.state("Ongoing", "PrepareCommit", 1, offset=1, node="broker-2", coordinator_epoch=coordinator_epoch)
    result = trace.result("T11")
    assert (result.violated, result.tested) == (0, tested)


@pytest.mark.parametrize(
    ("epoch", "partitions", "why"),
    [
        (2, ("orders-0",), "the epoch goes back"),
        (3, ("orders-0",), "each transaction must have its own epoch"),
        (4, (OTHER_TP,), "its partitions were orders-0, and now are copies-1"),
    ],
)
def test_a_decision_of_another_transaction(epoch: int, partitions: tuple[str, ...], why: str) -> None:
    """Shows that a decision has the partitions that were in the transaction, and the next epoch."""
    trace = TransactionTrace()
    trace.begins()
    trace.decides(True, epoch, partitions)
    assert trace.result("T11").violations[0].sentence.endswith(why)


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "version", "violated"),
    [(3, 0, 0, 0), (4, 0, 0, 0), (5, 0, 0, 1), (5, 0, 2, 1), (5, 1, 0, 0)],
)
def test_by_how_much_an_epoch_rises(epoch: int, coordinator_epoch: int, version: int, violated: int) -> None:
    """Shows that one step raises the epoch once, at whatever version: a coordinator that tries again to fence a
    producer keeps the epoch. Between the steps that are known of two coordinators there may be others."""
    trace = TransactionTrace()
    begun = trace.begins(version=version)
    aborted = trace.decides(False, epoch, version=version, coordinator_epoch=coordinator_epoch)
    violations = trace.result("T11").violations
    assert [each.events for each in violations] == ([[begun, aborted]] if violated else [])
    for finding in violations:
        assert finding.sentence.endswith(
            "epoch 5) after Ongoing (producer id 7, epoch 3): the epoch rises by 2 in one step"
        )


@pytest.mark.parametrize(("epoch", "violated"), [(4, 0), (5, 1)])
def test_by_how_much_an_epoch_rises_after_a_load(epoch: int, violated: int) -> None:
    """Shows that the first step after a load rises from what the coordinator has read."""
    trace = TransactionTrace()
    trace.loads("Ongoing", 3, 1)
    trace.decides(False, epoch, version=0, node="broker-2", coordinator_epoch=1, offset=1)
    result = trace.result("T11")
    assert (result.violated, result.tested) == (violated, 1)


def test_a_partition_that_leaves() -> None:
    """Shows that an open transaction has all the partitions that it had."""
    trace = TransactionTrace()
    trace.begins(partitions=("orders-0", OTHER_TP))
    trace.state("Ongoing", "Ongoing", 3, ("orders-0",))
    assert trace.result("T11").violations[0].sentence.endswith("copies-1")


def test_a_step_that_is_committed() -> None:
    """Shows that T13 is held if the record of a step is committed when its coordinator goes by it, and violated if it
    is not."""
    for committed in (True, False):
        trace = TransactionTrace()
        trace.append("broker-1", "r0", tp=STATE)
        if committed:
            trace.high_watermark("broker-1", 1, tp=STATE)
        trace.begins(offset=0)
        result = trace.result("T13")
        assert (result.status, result.tested) == ("held" if committed else "violated", 1)
    assert result.violations[0].sentence == (
        "broker-1 has app-1 in Ongoing (producer id 7, epoch 3) by offset 0 of __transaction_state-0, but leaders had "
        "committed only up to 0"
    )


def opened(profile: dict[str, Any] | None = None, **fields: int) -> TransactionTrace:
    """A transaction has records in orders-0, in a window with all brokers."""
    trace = TransactionTrace(**(profile or {}))
    trace.lead(1)
    trace.window("open", *BROKERS)
    trace.begins(**fields)
    trace.write("a")
    return trace


def later(trace: TransactionTrace, seconds: int) -> None:
    """So much later something happens that is about nobody."""
    trace.wall += seconds * 1_000_000
    trace.emit("driver", CtlPhase("running"))


def test_a_transaction_that_ends() -> None:
    """Shows that T9 is held, tested by its marker and its completion."""
    trace = opened()
    later(trace, 2)
    trace.decides(False)
    trace.ends("abort")
    trace.completes(False)
    result = trace.result("T9")
    assert (result.status, result.tested) == ("held", 2)


def test_a_transaction_that_nobody_ends() -> None:
    """Shows that no marker within the bound violates T9; a shorter window than that is no test."""
    trace = opened()
    later(trace, 600)
    (finding,) = trace.result("T9").violations
    assert finding.sentence.startswith("the open transaction of producer id 7 in orders-0 did not end within")
    trace = opened()
    later(trace, 1)
    trace.window("close")
    later(trace, 600)
    assert (trace.result("T9").status, trace.result("T9").tested) == ("vacuous", 0)


@pytest.mark.parametrize(("led", "violated"), [(0, 0), (1, 1)])
def test_a_former_leader_that_does_not_know_yet(led: int, violated: int) -> None:
    """Shows that what a replaced leader appends behind the marker of its successor opens nothing: it is cut off again.
    What the successor appends itself has to end."""
    trace = opened()
    trace.write("", marker="abort", broker=2, led=1)
    trace.write("b", broker=2 if led else 1, led=led)
    later(trace, 600)
    assert trace.result("T9").violated == violated


@pytest.mark.parametrize(("profile", "violated"), [(producers(one=1000), 1), ({}, 0)])
def test_a_timeout_that_no_producer_has(profile: dict[str, Any], violated: int) -> None:
    """Shows that T9 grants a transaction no more time than its producer has asked for, where the run tells that."""
    trace = opened(profile, timeout_ms=900_000)
    later(trace, 600)
    assert trace.result("T9").violated == violated


def test_a_decision_that_is_not_completed() -> None:
    """Shows that a coordinator which goes on telling partitions for ever violates T9."""
    trace = opened()
    trace.decides(True)
    trace.ends("commit")
    later(trace, 600)
    assert (
        trace.result("T9")
        .violations[0]
        .sentence.startswith("the decided transaction of producer id 7 was not completed")
    )


def _ended_by(trace: TransactionTrace, bounds: float) -> str:
    """T9 after so many bounds without any timeout of a transaction."""
    trace.wall += int(bounds * bound_us(Profile(), "T9"))
    trace.emit("driver", CtlPhase("running"))
    return trace.result("T9").status


@pytest.mark.parametrize(("bounds", "status"), [(0.9, "vacuous"), (1.1, "violated")])
def test_a_timeout_that_was_over_before_the_window(bounds: float, status: str) -> None:
    """Shows that a timeout counts from the beginning of the transaction, not anew in a window."""
    trace = opened()
    trace.window("close")
    later(trace, 60)
    trace.window("open", *BROKERS)
    assert _ended_by(trace, bounds) == status


@pytest.mark.parametrize(("ahead_us", "status"), [(600_000_000, "vacuous"), (0, "violated")])
def test_a_beginning_that_was_written_down_by_a_fast_clock(ahead_us: int, status: str) -> None:
    """Shows that a transaction may last longer by as much as the clock of a broker was ahead."""
    trace = opened()
    trace.window("close")
    trace.emit("broker-2", ClockSet("f", "start", ahead_us, 0))
    trace.emit("broker-2", ClockSet("f", "stop", 0, 0))
    later(trace, 60)
    trace.window("open", *BROKERS)
    assert _ended_by(trace, 1.1) == status


@pytest.mark.parametrize(("bounds", "status"), [(0.9, "held"), (1.1, "violated")])
def test_a_decision_waits_for_no_timeout(bounds: float, status: str) -> None:
    """Shows that what is decided has to be completed within the bound, whatever the timeout of the transaction."""
    trace = opened()
    trace.decides(True)
    trace.ends("commit")
    assert _ended_by(trace, bounds) == status


@pytest.mark.parametrize(("lossy", "least", "excused"), [((1,), 1, True), ((1,), 2, False), ((1, 2), 2, True)])
def test_a_transaction_stays_open_whose_marker_disks_lost(lossy: tuple[int, ...], least: int, excused: bool) -> None:
    """Shows that T9 excuses it where as many disks lost the end of its partition as had to keep it."""
    trace = opened({"config": {"min.insync.replicas": least}})
    for broker in lossy:
        trace.emit(node_name(broker), NodeDown("lossy", lost={"orders-0": 1}))
    later(trace, 600)
    result = trace.result("T9")
    assert (result.violated, result.excused) == ((0, {"loss-budget": 1}) if excused else (1, {}))


def test_a_transaction_that_an_unclean_election_leaves_open() -> None:
    """Shows that T9 excuses it: the new leader may lack the marker."""
    trace = opened()
    trace.change(2, 1, isr=(2,), cause="unclean")
    later(trace, 600)
    result = trace.result("T9")
    assert (result.violated, result.excused) == (0, {"unclean-election": 1})


@pytest.mark.parametrize("unclean", [False, True])
def test_what_was_lost_before_a_transaction_does_not_excuse_it(unclean: bool) -> None:
    """Shows that a transaction which begins after its partition lost something has to end, and what is decided has to
    be completed, whatever its own and other coordinators lost before."""
    for decided in (False, True):
        trace = TransactionTrace()
        for tp in ("orders-0", STATE, "__transaction_state-7"):
            if unclean:
                trace.change(1, 1, isr=(1,), cause="unclean", tp=tp)
            else:
                trace.emit("broker-3", NodeDown("lossy", lost={tp: 0}))
        trace.window("open", *BROKERS)
        trace.begins(coordinator_epoch=1)
        trace.write("a", led=1)
        if decided:
            trace.decides(True, coordinator_epoch=1)
            trace.ends("commit", led=1)
        later(trace, 600)
        result = trace.result("T9")
        assert (result.violated, result.excused) == (1, {})


@pytest.mark.parametrize(
    ("tp", "read", "status"),
    [(STATE, "", "excused"), (STATE, "again", "violated"), ("__transaction_state-7", "", "violated")],
)
def test_a_decision_that_its_coordinator_lost(tp: str, read: str, status: str) -> None:
    """Shows that T9 excuses a decision where an unclean election in its own partition of the transaction log came after
    it, and the next coordinator did not read it."""
    trace = opened()
    trace.decides(True)
    trace.ends("commit")
    trace.change(2, 1, isr=(2,), cause="unclean", tp=tp)
    if read:
        trace.loads("PrepareCommit", 4, 2)
    later(trace, 600)
    result = trace.result("T9")
    assert (bool(result.violated), bool(result.excused)) == (status == "violated", status == "excused")


@pytest.mark.parametrize(
    ("lossy", "epoch", "status"), [(2, 4, "excused"), (0, 4, "violated"), (1, 4, "violated"), (2, 6, "violated")]
)
def test_a_decision_that_a_coordinator_takes_up_again(lossy: int, epoch: int, status: str) -> None:
    """Shows that T9 excuses a decision of an older producer epoch if the transaction log has lost the newer one since,
    which takes as many disks as transaction.state.log.min.isr says: a partition that still knows the newer one may
    refuse its marker."""
    trace = opened()
    trace.decides(True)
    trace.ends("commit")
    trace.completes(True)
    trace.begins(6)
    for broker in BROKERS[:lossy]:
        trace.emit(broker, NodeDown("lossy", lost={STATE: 1}))
    trace.loads("PrepareCommit", epoch, 2)
    later(trace, 600)
    result = trace.result("T9")
    assert (bool(result.violated), bool(result.excused)) == (status == "violated", status == "excused")


def coordinates(trace: TransactionTrace, broker: int, epoch: int, unclean: bool) -> None:
    """A broker takes up the partition of the transaction log, perhaps elected outside the ISR."""
    cause = "unclean" if unclean else "elect"
    trace.change(broker, epoch, isr=(broker,), cause=cause, tp=STATE)
    node = f"broker-{broker}"
    trace.emit(node, PartAssume(STATE, "leader", broker, epoch, epoch, trace.log_end(node, STATE), 0, 0, 10, 0))


def writes_step(trace: TransactionTrace, broker: int, epoch: int, committed: bool) -> int:
    """A coordinator has a record at the end of its log. Returns its offset."""
    node = f"broker-{broker}"
    at = trace.log_end(node, STATE)
    trace.append(node, f"r{epoch}-{at}", epoch=epoch, tp=STATE)
    if committed:
        trace.high_watermark(node, at + 1, epoch=epoch, tp=STATE)
    return at


@pytest.mark.parametrize("again", [False, True])
def test_a_step_that_an_unclean_election_gave_up(again: bool) -> None:
    """Shows that T13 excuses a coordinator which goes by a record that the next leader, elected outside the ISR, did
    not have, also if that leader has another one there."""
    trace = TransactionTrace()
    coordinates(trace, 1, 0, unclean=False)
    at = writes_step(trace, 1, 0, committed=True)
    coordinates(trace, 2, 1, unclean=True)
    if again:
        assert writes_step(trace, 2, 1, committed=True) == at
    trace.begins(offset=at)
    result = trace.result("T13")
    assert (result.violated, result.excused) == (0, {"unclean-election": 1})


def test_an_unclean_election_excuses_no_later_step() -> None:
    """Shows that a coordinator which was itself elected uncleanly, and goes by a record of its own that is not
    committed, violates T13."""
    trace = TransactionTrace()
    coordinates(trace, 1, 0, unclean=False)
    writes_step(trace, 1, 0, committed=True)
    coordinates(trace, 2, 1, unclean=True)
    at = writes_step(trace, 2, 1, committed=False)
    trace.begins(offset=at, node="broker-2", coordinator_epoch=1)
    result = trace.result("T13")
    assert (result.violated, result.excused) == (1, {})
