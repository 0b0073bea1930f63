"""O1 and M5: what is told of committed positions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from actors.trace.events import GrpCommit, GrpFetch, SendOffsetsInvoke, SendOffsetsReturn
from orchestrator.invariants.groups.commits import REMEMBERED
from tests.unit.invariants.groups.stage import GROUP, OFFSETS, ONE, PRODUCER, GroupTrace, entry
from tests.unit.invariants.trace_builder import TP


def test_the_last_acknowledged_commit_is_told() -> None:
    """Shows that O1 is held, tested, when the last acknowledged commit is told, or a later one that is under way, and
    nothing before anybody has committed."""
    trace = GroupTrace()
    trace.is_told(trace.looks_up(), None)
    trace.acks(10, 0)
    trace.acks(20, 1)
    trace.is_told(trace.looks_up(), entry(20))
    trace.commits(30)
    trace.decides(30, 2)
    trace.is_told(trace.looks_up(), entry(30))
    trace.is_told(trace.looks_up(), entry(20))
    assert (trace.result("O1").status, trace.result("O1").tested) == ("held", 5)


def test_an_older_commit_is_told() -> None:
    """Shows that an acknowledged commit which is not told violates O1, with its acknowledgement as evidence: an older
    one, nothing, and one that nobody ever committed."""
    for told, says in ((10, "10"), (None, "nothing"), (99, "99")):
        trace = GroupTrace()
        trace.acks(10, 0)
        by = trace.acks(20, 1)
        event = trace.is_told(trace.looks_up(), None if told is None else entry(told))
        (finding,) = trace.result("O1").violations
        assert finding.events == [by, event]
        assert finding.sentence == (
            f"consumer-2 was answered that group g has committed {says} for orders-0, after the commit of 20 had been "
            "acknowledged"
        )
    trace = GroupTrace()
    trace.is_told(trace.looks_up(), entry(99))
    assert trace.result("O1").violations[0].sentence.endswith(", although no member committed it")


@pytest.mark.parametrize(
    ("version", "told", "violated"),
    [(9, [20, 7, 3], 0), (9, [20, -1, 3], 1), (9, [20, 7, -1], 1), (4, [20, -1, 3], 0), (3, [20, -1, -1], 0)],
)
def test_epochs_of_a_commit_are_told(version: int, told: list[int], violated: int) -> None:
    """Shows that a look-up tells the epochs of a commit, too, as far as the version of OffsetFetch has them."""
    trace = GroupTrace()
    trace.acks_entry([20, 7, 3], [20, 7, 3])
    begun = trace.looks_up()
    answer = trace.emit("broker-1", GrpFetch(GROUP, OFFSETS, 0, 0, {TP: [20, 7, 3]}, version=version))
    trace.is_told(begun, told, answer=answer)
    found = trace.result("O1")
    assert found.violated == violated
    assert not violated or "(leader epoch 7, metadata epoch 3) had been acknowledged" in found.violations[0].sentence


@pytest.mark.parametrize(
    ("version", "stored", "violated"),
    [(9, [20, 7, 3], 0), (9, [20, -1, 3], 1), (9, [20, 7, -1], 1), (5, [20, -1, 3], 0), (3, [20, -1, -1], 0)],
)
def test_epochs_of_a_commit_are_stored(version: int, stored: list[int], violated: int) -> None:
    """Shows that an acknowledged commit is stored with its epochs, as far as the version of OffsetCommit has them."""
    trace = GroupTrace()
    trace.acks_entry([20, 7, 3], stored, version)
    assert trace.result("O1").violated == violated


def test_an_acknowledgement_after_the_look_up_began() -> None:
    """Shows that a look-up may miss a commit that was acknowledged after it began."""
    trace = GroupTrace()
    trace.acks(10, 0)
    operation = trace.looks_up()
    trace.acks(20, 1)
    trace.is_told(operation, entry(10))
    assert trace.result("O1").violated == 0
    close = GroupTrace(epsilon_us=1_000_000)
    close.acks(10, 0)
    close.is_told(close.looks_up(), None)
    assert close.result("O1").violated == 0


def test_an_acknowledgement_of_nothing() -> None:
    """Shows that a client that is told its commit is done must have it appended by some coordinator, since it asked;
    and that a refusal is not an acknowledgement."""
    trace = GroupTrace()
    trace.acks(20, 0)
    operation = trace.commits(20)
    event = trace.committed(operation, 20)
    assert trace.result("O1").violated == 1
    trace = GroupTrace()
    operation = trace.commits(20)
    event = trace.committed(operation, 20)
    (finding,) = trace.result("O1").violations
    assert finding.events[-1] == event
    assert finding.sentence.endswith("has committed 20 for orders-0, but no coordinator has appended this commit")
    trace = GroupTrace()
    trace.committed(trace.commits(20), 20, error=22)
    trace.is_told(trace.looks_up(), None)
    assert trace.result("O1").violated == 0


def test_an_acknowledgement_is_of_the_log_of_who_answered() -> None:
    """Shows that a commit which a deposed coordinator appended, and nobody acknowledged, is not the one that its client
    is told of, although the next one appended the same at a lower offset: later ones there are newer than it."""
    trace = GroupTrace()
    operation = trace.commits(10)
    asked = trace.events[-1].id
    trace.decides(10, 9, asked=asked)
    answer = trace.decides(10, 3, epoch=1, broker=2, asked=asked)
    trace.committed(operation, 10, answer=answer)
    trace.acks(20, 4, epoch=1, broker=2)
    trace.is_told(trace.looks_up(), entry(20))
    assert trace.result("O1").violated == 0
    trace.is_told(trace.looks_up(), entry(10))
    assert trace.result("O1").violated == 1


def test_epochs_are_stored_with_the_offset() -> None:
    """Shows that the epochs of an entry count, where both versions carry them."""
    trace = GroupTrace()
    operation = trace.commits(20, metadata_epoch=7)
    trace.decides(20, metadata_epoch=7)
    trace.committed(operation, 20, metadata_epoch=7)
    trace.is_told(trace.looks_up(), entry(20, metadata_epoch=7))
    trace.is_told(trace.looks_up(), entry(20, -1))
    assert trace.result("O1").violated == 0
    trace.is_told(trace.looks_up(), entry(20, metadata_epoch=6))
    assert trace.result("O1").violated == 1


@pytest.mark.parametrize(("later", "violated"), [(REMEMBERED - 1, 1), (REMEMBERED, 0)])
def test_commits_that_are_remembered_no_more(later: int, violated: int) -> None:
    """Shows that O1 does not judge a look-up, or a load, after more commits than it remembers: their transactions may
    all have been aborted, and the one stored may be that before them. An acknowledgement is never forgotten."""
    trace = GroupTrace()
    trace.decides(10, 0)
    for each in range(later):
        trace.decides(20, 1 + each)
    trace.is_told(trace.looks_up(), entry(10))
    assert trace.result("O1").violated == 0
    trace.is_told(trace.looks_up(), entry(99))
    assert (trace.result("O1").violated, trace.result("O1").tested) == (violated, 2 * violated)
    trace = GroupTrace()
    trace.acks(10, 0)
    for each in range(later + 1):
        trace.decides(20, 1 + each)
    trace.loads(9, entry(99), 1, 2, g=("Stable", 1))
    assert trace.result("O1").violated == violated
    trace.acks(30, later + 2)
    trace.is_told(trace.looks_up(), entry(99))
    assert trace.result("O1").violated == violated + 1


def test_a_new_coordinator_loads_what_was_acknowledged() -> None:
    """Shows that a load is judged as a look-up: it has the last acknowledged commit of older coordinators, or a later
    one; what was acknowledged under the same leader epoch, or by another offsets partition's loss, is not asked for."""
    for told, violated in ((20, 0), (30, 0), (10, 1)):
        trace = GroupTrace()
        trace.acks(10, 0)
        trace.acks(20, 1)
        trace.commits(30)
        trace.decides(30, 2)
        by = trace.loads(3, entry(told), 1, 2, g=("Stable", 1))
        result = trace.result("O1")
        assert (result.violated, result.tested) == (violated, 3)
        if violated:
            assert result.violations[0].events[-1] == by
            assert result.violations[0].sentence == (
                "broker-2 loaded that group g has committed 10 for orders-0, after the commit of 20 had been "
                "acknowledged"
            )
    trace = GroupTrace()
    trace.acks(20, 5, epoch=1)
    trace.loads(3, entry(10), 1, 2, g=("Stable", 1))
    assert trace.result("O1").violated == 0
    trace.elected_uncleanly(2, 2)
    trace.loads(3, entry(10), 2, 2, g=("Stable", 1))
    assert trace.result("O1").excused == {"unclean-election": 1}


def test_a_zombie_answers() -> None:
    """Shows that an answer of a coordinator of an older leader epoch excuses; of the same one it does not."""
    for epoch, excused in ((0, {"zombie": 1}), (1, {})):
        trace = GroupTrace()
        trace.acks(10, 0)
        trace.acks(20, 1, epoch=1, broker=2)
        answer = trace.answers(entry(10), epoch, 1 if epoch == 0 else 2)
        trace.is_told(trace.looks_up(), entry(10), answer=answer)
        assert trace.result("O1").excused == excused


def test_an_offsets_partition_lost_the_commit() -> None:
    """Shows that an unclean election after the commit excuses, and what disks lost at or below it; one before it does
    not, nor what lies above."""
    for unclean, excused in ((1, {"unclean-election": 1}), (0, {})):
        trace = GroupTrace()
        trace.acks(10, 5)
        trace.elected_uncleanly(2, unclean)
        trace.is_told(trace.looks_up(), None)
        assert trace.result("O1").excused == excused
    for lost, rules in ((5, {"loss-budget": 1}), (6, {})):
        trace = GroupTrace()
        trace.acks(10, 5)
        trace.down("broker-2", "lossy", lost={OFFSETS: lost})
        trace.is_told(trace.looks_up(), None)
        assert trace.result("O1").excused == rules


def isr_of_offsets(trace: GroupTrace, *isr: int) -> None:
    """A controller changes that of the offsets partition."""
    trace.change(isr[0], 0, isr=isr, cause="alter-isr", tp=OFFSETS)


@pytest.mark.parametrize(
    ("before", "lossy", "status"),
    [
        (True, (2, 3), "violated"),
        (False, (2,), "violated"),
        (False, (2, 2), "violated"),
        (False, (2, 3), "excused"),
    ],
)
def test_how_much_disks_may_lose_of_commits(before: bool, lossy: tuple[int, ...], status: str) -> None:
    """Shows that with min.insync.replicas=2 the disks of two replicas must have lost the commit, after it was made."""
    trace = GroupTrace(topics={"__consumer_offsets": {"config": {"min.insync.replicas": 2}}})
    isr_of_offsets(trace, 1, 2, 3)
    if not before:
        trace.acks(10, 5)
    for broker in lossy:
        trace.down(f"broker-{broker}", "lossy", lost={OFFSETS: 0})
    if before:
        trace.acks(10, 5)
    trace.is_told(trace.looks_up(), None)
    result = trace.result("O1")
    assert (bool(result.violated), bool(result.excused)) == (status == "violated", status == "excused")


@pytest.mark.parametrize(
    ("isrs", "elr", "status"),
    [
        ([(2,)], "0", "excused"),
        ([(2,)], "1", "violated"),
        ([(1, 2)], "0", "violated"),
        ([(1, 3), (1, 2, 3), (2,)], "0", "violated"),
    ],
)
def test_the_last_replica_that_lost_commits(isrs: list[tuple[int, ...]], elr: str, status: str) -> None:
    """Shows that without eligible leader replicas it is enough that the last member of the ISR lost the commit, unless
    that one has been out of the ISR and come back since."""
    config = {"__consumer_offsets": {"config": {"min.insync.replicas": 2}}}
    trace = GroupTrace(topics=config, features={"eligible.leader.replicas.version": elr})
    isr_of_offsets(trace, 1, 2, 3)
    trace.acks(10, 5)
    trace.down("broker-2", "lossy", lost={OFFSETS: 0})
    for isr in isrs:
        isr_of_offsets(trace, *isr)
    trace.is_told(trace.looks_up(), None)
    result = trace.result("O1")
    assert (bool(result.violated), bool(result.excused)) == (status == "violated", status == "excused")


def in_transaction(stored: list[int]) -> GrpCommit:
    """A coordinator appends a position of m1."""
    offset, leader_epoch, _ = stored
    body = GrpCommit(TP, GROUP, OFFSETS, 0, "m1", 1, offset, leader_epoch, log_offset=0, version=5)
    return structs.replace(body, producer_id=PRODUCER)


def positions(
    sent: list[int],
    stored: list[int],
    version: int = 5,
    member: str = "m1",
    producer: int = PRODUCER,
    outcome: Any = "ok",
    before: int = 0,
    after: int = 0,
) -> GroupTrace:
    """Positions that are sent to a transaction, and what a coordinator appends. ``before``: commits in other
    transactions beforehand; ``after``: commits afterwards."""
    trace = GroupTrace()
    for _ in range(before):
        trace.emit("broker-1", in_transaction(sent))
    trace.emit(ONE, SendOffsetsInvoke("offsets-1", "app", 1, GROUP, "m1", 1, {TP: sent}))
    commit = in_transaction(stored)
    trace.emit("broker-1", structs.replace(commit, member=member, version=version, producer_id=producer))
    for each in range(after):
        trace.decides(70, before + 1 + each)
    error = 0 if outcome == "ok" else 22
    trace.emit(ONE, SendOffsetsReturn("offsets-1", outcome, error, "app", 1, GROUP, {TP: sent}))
    return trace


@pytest.mark.parametrize(
    ("sent", "stored", "more", "has"),
    [
        (entry(40, 3), entry(40, 3), {}, ""),
        (entry(40, 3), entry(40, -1), {"version": 1}, ""),
        (entry(40, 3, 7), entry(40, 3), {}, ""),  # a TxnOffsetCommit has no metadata epoch
        (entry(40, 3), entry(40, 3), {"version": 2, "member": ""}, ""),
        (
            entry(40, 3),
            entry(40, -1),
            {},
            "broker-1 appended it as 40 (leader epoch none, metadata epoch none)",
        ),
        (entry(40, 3), entry(41, 3), {}, "no coordinator has appended that since it was sent"),
        (entry(40, 3), entry(40, 3), {"producer": -1}, "no coordinator has appended that since it was sent"),
        (entry(40, 3), entry(40, 3), {"member": "m2"}, "no coordinator has appended that since it was sent"),
        (entry(40, 3), entry(41, 3), {"before": 3}, "no coordinator has appended that since it was sent"),
        (entry(40, 3), entry(40, -1), {"outcome": "unknown"}, ""),
        (entry(40, 3), entry(40, -1), {"after": REMEMBERED}, ""),
    ],
)
def test_positions_for_a_transaction(sent: list[int], stored: list[int], more: dict[str, Any], has: str) -> None:
    """Shows that positions which are in a transaction, as their application is told, are appended as they were sent
    since then, as far as the request has room for them."""
    trace = positions(sent, stored, **more)
    result = trace.result("O1")
    if has:
        (finding,) = result.violations
        assert finding.sentence == (
            "consumer-1 was answered that 40 of orders-0 (leader epoch 3, metadata epoch none) for group g is in its "
            f"transaction, but {has}"
        )
    else:
        told = more.get("outcome", "ok") == "ok" and not more.get("after")
        assert (result.violated, result.tested) == (0, int(told))


def test_positions_that_are_sent_twice() -> None:
    """Shows that of attempts to store a position one suffices."""
    trace = GroupTrace()
    trace.emit(ONE, SendOffsetsInvoke("offsets-1", "app", 1, GROUP, "m1", 1, {TP: entry(40, 3)}))
    for epoch in (3, -1):
        trace.emit("broker-1", in_transaction(entry(40, epoch)))
    trace.emit(ONE, SendOffsetsReturn("offsets-1", "ok", 0, "app", 1, GROUP, {TP: entry(40, 3)}))
    assert trace.result("O1").violated == 0


# ---- M5 ---------------------------------------------------------------------------------------------------------

SEED = {"features": {"kip-232": "seed"}}


def test_commits_rise_in_metadata_time() -> None:
    """Shows that M5 is held, tested, with epochs that are equal or rise, or after one without; and that it is vacuous
    where metadata epochs are not counted."""
    trace = GroupTrace(**SEED)
    trace.decides(10)
    trace.decides(20, 1, metadata_epoch=5)
    trace.decides(30, 2, metadata_epoch=5)
    trace.decides(40, 3, metadata_epoch=6)
    trace.decides(25, -1, metadata_epoch=4, error=232)
    assert (trace.result("M5").status, trace.result("M5").tested) == ("held", 3)
    trace = GroupTrace(features={"kip-232": "kafka"})
    trace.decides(20, 1, metadata_epoch=5)
    assert trace.result("M5").why == "kip-232 is not seed"


def test_a_commit_that_goes_back_in_metadata_time() -> None:
    """Shows that a lower epoch which is taken violates M5, under one coordinator and, if the former was acknowledged,
    under the next; and so does a refusal that nothing stored calls for."""
    trace = GroupTrace(**SEED)
    by = trace.decides(20, 1, metadata_epoch=5)
    event = trace.decides(25, 2, metadata_epoch=4)
    (finding,) = trace.result("M5").violations
    assert finding.events == [by, event]
    assert (
        finding.sentence
        == "broker-1 accepted a commit of orders-0 for group g with metadata epoch 4, although one with 5 is stored"
    )
    for acknowledged in (True, False):
        trace = GroupTrace(**SEED)
        operation = trace.commits(20, metadata_epoch=5)
        trace.decides(20, 1, metadata_epoch=5)
        if acknowledged:
            trace.committed(operation, 20, metadata_epoch=5)
        trace.decides(25, 2, metadata_epoch=4, epoch=1, broker=2)
        assert trace.result("M5").violated == acknowledged
    trace = GroupTrace(**SEED)
    trace.decides(20, 1, metadata_epoch=5)
    trace.decides(25, -1, metadata_epoch=5, error=232)
    assert (
        trace.result("M5")
        .violations[0]
        .sentence.endswith(
            "refused a commit of orders-0 for group g with metadata epoch 5, although no commit with a higher one is "
            "stored"
        )
    )


@pytest.mark.parametrize(("asked", "excused"), [(-1, {"no-epoch": 1}), (6, {})])
def test_a_client_without_metadata_epochs(asked: int, excused: dict[str, int]) -> None:
    """Shows that a commit without an epoch is excused if its client said none, and not if it lost it on its way."""
    trace = GroupTrace(**SEED)
    trace.decides(20, 1, metadata_epoch=5)
    trace.commits(30, metadata_epoch=asked)
    trace.decides(30, 2, asked=trace.events[-1].id)
    assert trace.result("M5").excused == excused
    assert trace.result("M5").violated == (not excused)


def test_a_stored_commit_that_was_lost() -> None:
    """Shows that what an unclean election took is not stored any more."""
    trace = GroupTrace(**SEED)
    operation = trace.commits(20, metadata_epoch=5)
    trace.decides(20, 1, metadata_epoch=5)
    trace.committed(operation, 20, metadata_epoch=5)
    trace.elected_uncleanly(2, 1)
    trace.decides(25, 1, metadata_epoch=4, epoch=1, broker=2)
    assert trace.result("M5").excused == {"unclean-election": 1}
