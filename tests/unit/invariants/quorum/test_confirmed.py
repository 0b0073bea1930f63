"""Q19: what others are told of the metadata log is committed, and stays."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import AdminInvoke, AdminReturn, ConfigChange, Outcome, PartRemove, QVoters
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.quorum.commits import Application, StateMachinesAgree
from orchestrator.invariants.quorum.confirmed import AcknowledgedMetadataStays, Acknowledgements
from tests.unit.invariants.quorum.test_elections import copied
from tests.unit.invariants.quorum.test_leadership import FOLLOWER, LEADER
from tests.unit.invariants.trace_builder import TP, TraceBuilder


def changed(trace: TraceBuilder) -> str:
    """controller-1, leader of epoch 1, changes an ISR at offset 0 of the metadata log."""
    change = trace.change(1, 0, isr=[1, 2], cause="alter-isr", partition_epoch=1, offset=0)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    return change


def test_an_accepted_isr_is_committed() -> None:
    """Shows that an ISR which is accepted once it is committed, and is in the next leader's log, holds Q19; one that
    was rejected, or that nobody had to write, tests nothing."""
    trace = TraceBuilder()
    changed(trace)
    trace.propose(1, [1, 2, 3], outcome="INVALID_UPDATE_VERSION")
    trace.propose(1, [1, 2, 3], outcome="accepted")
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    trace.propose(1, [1, 2], outcome="accepted")
    copied(trace, FOLLOWER, 1)
    trace.role(FOLLOWER, 2, "leader", 102, 1)
    result = trace.result("Q19")
    assert (result.status, result.tested) == ("held", 2)


def test_accepted_too_early() -> None:
    """Shows that an ISR which is accepted before it is committed violates Q19."""
    trace = TraceBuilder()
    change = changed(trace)
    told = trace.propose(1, [1, 2], outcome="accepted")
    found = trace.result("Q19").violations[0]
    assert (found.events, found.sentence) == (
        [change, told],
        (
            "the controller accepted the ISR [1, 2] that broker-1 proposed for orders-0, at offset 0 of the metadata "
            "log in epoch 1, but no leader had committed that record"
        ),
    )


def test_accepted_and_lost() -> None:
    """Shows that a later leader without what was confirmed violates Q19, once."""
    trace = TraceBuilder()
    changed(trace)
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    told = trace.propose(1, [1, 2], outcome="accepted")
    leads = trace.role(FOLLOWER, 2, "leader", 102)
    trace.role(FOLLOWER, 3, "leader", 102)
    result = trace.result("Q19")
    assert (result.violated, result.violations[0].events) == (1, [told, leads])


def configured(trace: TraceBuilder, call: str = "alter-config", error: str = "NONE", outcome: Outcome = "ok") -> str:
    """An operator changes a configuration, or asks for an election."""
    resource = "topic/orders" if call == "alter-config" else TP
    trace.emit("admin-1", AdminInvoke("a:1", call, {}))
    if call == "alter-config":
        trace.emit(LEADER, ConfigChange(0, 1, resource, "k", "v"))
    else:
        trace.change(2, 1, offset=0, asked=True)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    return trace.emit("admin-1", AdminReturn("a:1", outcome, 0, call, {resource: error}))


def test_what_an_operator_is_told() -> None:
    """Shows that an operator's operations are judged as well, and those that failed are not."""
    for call in ("alter-config", "elect-leaders"):
        trace = TraceBuilder()
        configured(trace, call)
        assert f"the controller answered admin-1 that {call} of" in trace.result("Q19").violations[0].sentence
    unheld: list[dict[str, Any]] = [{"error": "NOT_CONTROLLER"}, {"outcome": "unknown"}]
    for how in unheld:
        failed = TraceBuilder()
        configured(failed, **how)
        assert failed.result("Q19").status == "vacuous"


def test_what_no_controller_is_asked_for() -> None:
    """Shows that records may be deleted while the partition changes: that is no change of the metadata log."""
    trace = TraceBuilder()
    configured(trace, "delete-records")
    assert trace.result("Q19").status == "vacuous"


def test_an_operator_is_told_of_what_it_asked_for() -> None:
    """Shows that a value which somebody else gives another key at the same time need not be committed for it."""
    for key, violated in (("k", 1), ("another", 0)):
        trace = TraceBuilder()
        trace.emit("admin-1", AdminInvoke("a:1", "alter-config", {"set": {}, "delete": [key]}))
        trace.emit(LEADER, ConfigChange(0, 1, "topic/orders", "k", None))
        trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
        trace.emit("admin-1", AdminReturn("a:1", "ok", 0, "alter-config", {"topic/orders": "NONE"}))
        assert trace.result("Q19").violated == violated


def added(trace: TraceBuilder, call: str = "add-voter", error: str = "NONE", *, committed: bool = False) -> list[str]:
    """An operator asks for controller-4, and the leader of epoch 1 writes that at offset 0. Returns that and what the
    operator is told of ``call``."""
    trace.emit("admin-1", AdminInvoke("a:1", call, {}))
    members = {str(voter): f"dir-{voter}" for voter in (101, 102, 103, 104)}
    wrote = trace.emit(LEADER, QVoters("dir", 0, 1, 1, members, 1, 0, "append"))
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    if committed:
        trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    return [wrote, trace.emit("admin-1", AdminReturn("a:1", "ok", 0, call, {"controller-4": error}))]


def test_a_change_of_the_voters_is_confirmed() -> None:
    """Shows that a voter which is confirmed once its record is committed, and is in the next leader's log, holds Q19;
    confirmed earlier, or lost later, it violates Q19; and a refusal tests nothing."""
    kept = TraceBuilder()
    added(kept, committed=True)
    copied(kept, FOLLOWER, 1)
    kept.role(FOLLOWER, 2, "leader", 102, 1)
    assert (kept.result("Q19").status, kept.result("Q19").tested) == ("held", 2)
    early = TraceBuilder()
    events = added(early)
    found = early.result("Q19").violations[0]
    assert (found.events, found.sentence) == (
        events,
        (
            "the controller answered admin-1 that add-voter of controller-4 is done, at offset 0 of the metadata log "
            "in epoch 1, but no leader had committed that record"
        ),
    )
    lost = TraceBuilder()
    told = added(lost, committed=True)[1]
    leads = lost.role(FOLLOWER, 2, "leader", 102)
    assert [each.events for each in lost.result("Q19").violations] == [[told, leads]]
    refused = TraceBuilder()
    added(refused, error="REQUEST_TIMED_OUT")
    assert refused.result("Q19").status == "vacuous"


def test_a_change_of_the_voters_that_nobody_wrote() -> None:
    """Shows that a removal which is confirmed, and of which there is no record since it was asked for, violates Q19:
    that of another change is none."""
    trace = TraceBuilder()
    told = added(trace, "remove-voter", committed=True)[1]
    found = trace.result("Q19").violations[0]
    assert (found.events, found.sentence) == (
        [told],
        (
            "the controller answered admin-1 that remove-voter of controller-4 is done, but no leader had written such "
            "a record"
        ),
    )


OPERATIONS = ("create-topic", "create-partitions", "delete-topic", "elect-leaders")


@pytest.mark.parametrize("call", OPERATIONS)
@pytest.mark.parametrize(
    ("written", "tp"),
    [(each, tp) for each in (*OPERATIONS, "nothing") for tp in ("orders-0", "orders-0@id", "other-0")],
)
def test_operations_that_need_a_record(call: str, written: str, tp: str) -> None:
    """Shows that topics and partitions are created or deleted, and leaders elected, by a record of that very topic or
    partition, whatever its id; a new partition may be of a new topic or not."""
    trace = TraceBuilder()
    trace.emit("admin-1", AdminInvoke("a:1", call, {}))
    if written == "delete-topic":
        trace.emit(LEADER, PartRemove(tp, 0, 1, "id"))
    elif written != "nothing":
        made = written != "elect-leaders"
        trace.change(2, 1, cause="create" if made else "preferred", tp=tp, offset=0, asked=not made)
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    name = "orders-0" if call == "elect-leaders" else "orders"
    told = trace.emit("admin-1", AdminReturn("a:1", "ok", 0, call, {name: "NONE", "bills": "TOPIC_ALREADY_EXISTS"}))
    alike = {written, call} <= {"create-topic", "create-partitions"} or written == call
    result = trace.result("Q19")
    assert (result.tested, result.violated) == (1, not (alike and tp != "other-0"))
    for finding in result.violations:
        assert finding.events == [told]
        assert finding.sentence == (
            f"the controller answered admin-1 that {call} of {name} is done, but no leader had written such a record"
        )


@pytest.mark.parametrize("call", OPERATIONS)
def test_operations_that_are_confirmed_too_early(call: str) -> None:
    """Shows that the record is committed first, and is one that was written since the operator asked."""
    for asks_first in (True, False):
        trace = TraceBuilder()
        if asks_first:
            trace.emit("admin-1", AdminInvoke("a:1", call, {}))
        if call == "delete-topic":
            trace.emit(LEADER, PartRemove(TP, 0, 1, "id"))
        else:
            trace.change(2, 1, cause="create", offset=0, asked=True)
        trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
        if not asks_first:
            trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
            trace.emit("admin-1", AdminInvoke("a:1", call, {}))
        name = TP if call == "elect-leaders" else "orders"
        trace.emit("admin-1", AdminReturn("a:1", "ok", 0, call, {name: "NONE"}))
        (finding,) = trace.result("Q19").violations
        early = "at offset 0 of the metadata log in epoch 1, but no leader had committed that record"
        assert finding.sentence.endswith(early if asks_first else "but no leader had written such a record")


def partly_lost() -> TraceBuilder:
    """The leader of epoch 1 confirmed two ISRs, at 0 and 1. Wiped disks take the second one, of which controller-3
    knows nothing, and controller-2 leads epoch 2 without it."""
    trace = TraceBuilder()
    for number in (0, 1):
        trace.change(1, 0, isr=[1, 2 + number], cause="alter-isr", partition_epoch=1 + number, offset=number)
        trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
        copied(trace, FOLLOWER, 1)
    trace.high_watermark(LEADER, 2, 1, METADATA_PARTITION)
    for number in (0, 1):
        trace.propose(1, [1, 2 + number], partition_epoch=number, outcome="accepted")
    for node in (LEADER, FOLLOWER):
        trace.flush(node, 2)
        trace.down(node, "lossy", lost={METADATA_PARTITION: 1})
        trace.logs[METADATA_PARTITION, node] = trace.logs[METADATA_PARTITION, node][:2]
    trace.role(FOLLOWER, 2, "leader", 102, 1)
    return trace


def test_a_loss_excuses_what_was_lost() -> None:
    """Shows that Q19 excuses the leader who lacks what disks lost, and no later one who lacks more; and that Q11
    excuses no other entries below that."""
    trace = partly_lost()
    result = trace.result("Q19")
    assert (result.violated, result.excused) == (0, {"loss-budget": 1})
    trace.role("controller-3", 3, "leader", 103)
    assert trace.result("Q19").violated == 1
    trace.up(FOLLOWER, "controller")
    trace.high_watermark(FOLLOWER, 1, 2, METADATA_PARTITION, "follower")
    trace.apply(FOLLOWER, 0, 1, ph=99)
    assert trace.result("Q11").status == "violated"


def test_what_is_told_again_is_kept_once() -> None:
    """Shows that a record is looked for once in a later leader's log, however often somebody was told of it."""
    trace = TraceBuilder()
    changed(trace)
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    for _ in range(3):
        trace.propose(1, [1, 2], outcome="accepted")
    copied(trace, FOLLOWER, 1)
    trace.role(FOLLOWER, 2, "leader", 102, 1)
    assert trace.result("Q19").tested == 4


def test_what_is_kept_is_not_gone_through_for_every_event() -> None:
    """Shows that where nothing is long committed, what Q11 and Q19 keep may double before they look again."""
    trace = TraceBuilder()
    for number in range(4):
        trace.change(1, 0, isr=[1, number], cause="alter-isr", partition_epoch=1, offset=number)
        trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 4, 1, METADATA_PARTITION)
    for number in range(4):
        trace.apply(LEADER, number, number + 1)
    for number in range(4):
        trace.propose(1, [1, number], outcome="accepted")
    mirror, agree, stays = LogMirror(METADATA_PARTITION), StateMachinesAgree(), AcknowledgedMetadataStays()
    applied, told = Application("q", limit=2), Acknowledgements("q", limit=2)
    for event in trace.events[1:]:
        mirror.apply(event)
        if type(event.body) in agree.types:
            assert not agree.step(applied, event, mirror)
        if type(event.body) in stays.types:
            assert not stays.step(told, event, mirror)
    assert (len(applied.facts), len(told.kept)) == (4, 4)
    assert (applied.limit, told.limit) == (1 << 12, 1 << 10)


def altered(trace: TraceBuilder, resource: str, value: str | None, asked: str | None = "5") -> None:
    """controller-1 has written a value of k, which is committed, and an operator is told that another one is set."""
    trace.emit(LEADER, ConfigChange(0, 1, resource, "k", value))
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    alters(trace, resource, asked)


def alters(trace: TraceBuilder, resource: str, asked: str | None) -> None:
    """An operator is told that a value of k is set, or is not any more, and nobody writes that."""
    change = {"set": {}, "delete": ["k"]} if asked is None else {"set": {"k": asked}, "delete": []}
    trace.emit("admin-1", AdminInvoke("a:1", "alter-config", {"resources": [resource], **change}))
    trace.emit("admin-1", AdminReturn("a:1", "ok", 0, "alter-config", {resource: "NONE"}))


@pytest.mark.parametrize(
    ("resource", "value", "asked", "violated"),
    [
        ("topic/orders", "5", "5", 0),
        ("topic/orders", "4", "5", 1),
        ("topic/orders", "4", None, 1),
        ("topic/orders", None, None, 0),
        ("broker/1", "5", "5", 1),
        ("broker/", None, None, 1),
    ],
)
def test_a_value_that_nobody_writes(resource: str, value: str | None, asked: str | None, violated: int) -> None:
    """Shows that a topic's value is written where it changes, and a broker's always."""
    trace = TraceBuilder()
    altered(trace, resource, value, asked)
    assert trace.result("Q19").violated == violated


@pytest.mark.parametrize(("value", "violated"), [("5", 0), ("4", 1)])
def test_what_others_write_meanwhile(value: str, violated: int) -> None:
    """Shows that a value which was there when an operator asked for it need not be there any more when it is told so:
    another operator has written another one meanwhile."""
    trace = TraceBuilder()
    trace.emit(LEADER, ConfigChange(0, 1, "topic/orders", "k", value))
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    trace.wall += 1
    trace.emit("admin-1", AdminInvoke("a:1", "alter-config", {"set": {"k": "5"}, "delete": []}))
    trace.wall += 1
    trace.emit(LEADER, ConfigChange(1, 1, "topic/orders", "k", "7"))
    trace.append(LEADER, "n", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 2, 1, METADATA_PARTITION)
    trace.emit("admin-1", AdminReturn("a:1", "ok", 0, "alter-config", {"topic/orders": "NONE"}))
    assert trace.result("Q19").violated == violated


def test_a_value_of_which_nothing_is_known() -> None:
    """Shows that nothing is demanded of a topic whose former value the trace does not tell."""
    trace = TraceBuilder()
    alters(trace, "topic/orders", "5")
    assert trace.result("Q19").status == "vacuous"


@pytest.mark.parametrize(("ends", "violated"), [("crash", 0), ("clean", 1)])
def test_a_controller_that_may_have_written_more(ends: Literal["crash", "clean"], violated: int) -> None:
    """Shows that a controller which ended abruptly may have written the value, and one that ended cleanly has not."""
    trace = TraceBuilder()
    trace.role(LEADER, 1, "leader", 101)
    trace.emit(LEADER, ConfigChange(0, 1, "topic/orders", "k", "4"))
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    trace.down(LEADER, ends)
    alters(trace, "topic/orders", "5")
    assert trace.result("Q19").violated == violated


def test_a_value_of_a_former_topic() -> None:
    """Shows that a topic which was deleted takes its values with it."""
    trace = TraceBuilder()
    trace.emit(LEADER, ConfigChange(0, 1, "topic/orders", "k", "4"))
    trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
    trace.high_watermark(LEADER, 1, 1, METADATA_PARTITION)
    trace.emit(LEADER, PartRemove(TP, 1, 1, "id"))
    alters(trace, "topic/orders", "5")
    assert trace.result("Q19").violated == 0


def test_a_value_that_was_lost() -> None:
    """Shows that what disks have lost is no value that a topic has."""
    trace = TraceBuilder()
    for number, value in enumerate(("5", "4")):
        trace.emit(LEADER, ConfigChange(number, 1, "topic/orders", "k", value))
        trace.append(LEADER, "m", epoch=1, tp=METADATA_PARTITION)
        copied(trace, FOLLOWER, 1)
    trace.high_watermark(LEADER, 2, 1, METADATA_PARTITION)
    for node in (LEADER, FOLLOWER):
        trace.flush(node, 2)
        trace.down(node, "lossy", lost={METADATA_PARTITION: 1})
        trace.logs[METADATA_PARTITION, node] = trace.logs[METADATA_PARTITION, node][:2]
    trace.role(FOLLOWER, 2, "leader", 102, 1)
    alters(trace, "topic/orders", "5")
    assert trace.result("Q19").violated == 0
