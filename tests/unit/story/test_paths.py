"""How a violation came about, by the causes in a trace."""

from __future__ import annotations

import pytest

from actors.trace.events import ConfigChange, GrpCommit, GrpGen, GrpLoad, LinkRuleChange, Tick, TxnMarkers, TxnState
from orchestrator.story.moments import Step
from orchestrator.story.paths import Paths
from tests.unit.story.stage import TP, Stage

OFFSETS, STATE = "__consumer_offsets-0", "__transaction_state-0"


def path(trace: Stage, *proofs: str, causes: tuple[str, ...] = (), key: str = TP) -> list[Step]:
    """The way to these events."""
    zero_us = next(event.wall for event in trace.events if event.type == "ctl.phase")
    return Paths(trace.events, zero_us, {*proofs, *causes}).to(key, proofs, causes)


def test_a_path_goes_from_the_fault_over_the_election_to_the_wrong_answer() -> None:
    """Shows a fault, because it hit a replica of the partition, the election and the leader, because a message led from
    them to the proof; and nothing of another partition or of what no message led from."""
    trace = Stage()
    trace.change(1, 0, cause="create")
    trace.begin()
    fault = trace.fault("crash", "start", "broker-1")
    trace.fault("crash", "start", "broker-9", name="f2")
    elected = trace.change(2, 1, [2, 3], "fence")
    trace.append("broker-3", "x", role="follower")
    unseen = trace.truncate("broker-3", 0)
    trace.cause = elected
    leads = trace.assume(2, 1)
    trace.cause = ""
    proof = trace.high_watermark("broker-2", 0, epoch=1)
    steps = path(trace, proof)
    assert [step.event for step in steps] == [fault, elected, leads, proof]
    assert unseen not in [step.event for step in steps]
    assert [step.at_us for step in steps] == sorted(step.at_us for step in steps)
    assert steps[0].text == "f1 crash of broker-1 begins"


def test_a_fault_that_hit_nothing_is_no_part_of_a_path() -> None:
    """Shows that a fault whose rules no message met led to nothing; one that hit a message, or that has not ended, may
    have."""
    trace = Stage().begin()
    for name, hit in (("f1", 0), ("f2", 3)):
        trace.fault("drop", "start", "broker-2", name=name)
        trace.emit("driver", LinkRuleChange(f"{name}/1", "drop", "start", [], [], 0))
        trace.emit("driver", LinkRuleChange(f"{name}/1", "drop", "stop", [], [], hit))
    trace.fault("drop", "start", "broker-2", name="f3")
    proof = trace.assume(2, 1)
    assert [step.text[:2] for step in path(trace, proof) if step.text.startswith("f")] == ["f2", "f3"]


def test_a_path_to_a_loss_says_who_acknowledged_what_was_lost() -> None:
    """Shows the first and the last acknowledgement of lost records, with the ISR of that time and min.insync.replicas,
    the fencing of its member, although the controller writes it after the election, the election, and no later fault;
    what the new leader acknowledges is no part of the loss."""
    trace = Stage()
    trace.change(1, 0, cause="create")
    trace.begin()
    fault = trace.fault("partition", "start", "broker-1")
    trace.change(1, 0, [1], "alter-isr", 1)
    trace.acked("producer-1", "producer-1:4", 4)
    first = trace.acked("producer-1", "producer-1:5", 5)
    last = trace.acked("producer-1", "producer-1:6", 6)
    trace.apart = 0
    elected = trace.change(3, 1, [3], "unclean", 2)
    fenced = trace.registered(1, fenced=True)
    trace.apart = 1000
    trace.cause = elected
    proof = trace.assume(3, 1)
    trace.cause = ""
    trace.fault("partition", "start", "broker-3", name="f2")
    trace.acked("producer-1", "producer-1:7", 7, broker=3, epoch=1)
    zero_us = next(event.wall for event in trace.events if event.type == "ctl.phase")
    paths = Paths(trace.events, zero_us, {first, proof})
    steps = {step.event: step.text for step in paths.to_loss(TP, [first, proof], "1")}
    assert {fault, first, last, elected, fenced, proof} <= steps.keys()
    assert not any(text.startswith("f2") for text in steps.values())
    assert steps[first].endswith("it is the first lost record, acknowledged with ISR [1] and min.insync.replicas 1")
    assert steps[last].endswith("at offset 6 of orders-0 from broker-1; it is the last one")
    assert steps[fenced] == "controller-1 writes to the metadata log: broker-1 is fenced, so that it cannot be elected"
    assert "(an UNCLEAN election)" in steps[elected]
    assert not any("producer-1:7" in text or "producer-1:4" in text for text in steps.values())
    assert paths.to_loss("orders-9", [first], "") == []
    trace.emit("controller-1", ConfigChange(9, 1, "topic/orders", "min.insync.replicas", "2"))
    (told,) = [s for s in Paths(trace.events, zero_us, {first}).to_loss(TP, [first], "1") if s.event == first]
    assert told.text.endswith("acknowledged with ISR [1]")


def test_a_loss_that_acks_allow_is_told_by_these() -> None:
    """Shows that of a record which one replica had to have no ISR is told, but with which acks it was sent."""
    trace = Stage()
    trace.change(1, 0, cause="create")
    trace.begin()
    first = trace.acked("producer-1", "producer-1:5", 5, acks=1)
    proof = trace.assume(3, 1)
    zero_us = next(event.wall for event in trace.events if event.type == "ctl.phase")
    steps = Paths(trace.events, zero_us, {first, proof}).to_loss(TP, [first, proof], "1")
    (told,) = [step.text for step in steps if step.event == first]
    assert told.endswith("from broker-1; it is the first lost record, acknowledged with acks=1")


def test_losses_of_two_kinds_have_a_path_each() -> None:
    """Shows that records which acks=all had to keep have the way to their own loss, although others of the partition,
    sent with acks=1, were lost first."""
    trace = Stage()
    trace.change(1, 0, cause="create")
    trace.begin()
    cheap = trace.acked("producer-2", "producer-2:5", 5, acks=1)
    safe = trace.acked("producer-1", "producer-1:6", 6)
    last = trace.acked("producer-1", "producer-1:7", 7)
    trace.acked("producer-2", "producer-2:8", 8, acks=1)
    proof = trace.assume(3, 1)
    zero_us = next(event.wall for event in trace.events if event.type == "ctl.phase")
    trace.change(1, 2, [1], "unclean", 3)
    trace.assume(1, 2)
    trace.acked("producer-1", "producer-1:9", 9)
    paths = Paths(trace.events, zero_us, {cheap, safe, proof})
    steps = {step.event: step.text for step in paths.to_loss(TP, [safe, proof], "1")}
    assert cheap not in steps and "it is the first lost record" in steps[safe]
    assert steps[last].endswith("it is the last one")
    assert cheap in {step.event for step in paths.to_loss(TP, [cheap, proof], "1")}


def test_a_node_that_came_back_remembers() -> None:
    """Shows that what a node did in a former life is part of its past."""
    trace = Stage().begin()
    trace.append("broker-2", "a", "b")
    cut = trace.truncate("broker-2", 1)
    trace.down("broker-2")
    trace.up("broker-2")
    proof = trace.assume(2, 1)
    assert cut in [step.event for step in path(trace, proof)]


def test_a_cause_that_is_about_something_else_is_left_out() -> None:
    """Shows that of the events that the evidence names as causes those stay that say something about the partition."""
    trace = Stage().begin()
    of_quorum = trace.asked("controller-1", 102, 5, 1, 1)
    applied = trace.apply("controller-1", 1, 2)
    told = trace.high_watermark("broker-2", 0)
    proof = trace.high_watermark("broker-3", 0)
    found = [step.event for step in path(trace, proof, causes=(of_quorum, applied, told))]
    assert found == [told, proof]


def test_a_path_at_a_group_has_its_generations() -> None:
    """Shows the coordinator that took a group over and the generations of that group, and of no other one."""
    trace = Stage().begin()
    loaded = trace.emit("broker-1", GrpLoad(OFFSETS, 1, True, 3, groups={"g": ("Stable", 1)}))
    formed = trace.emit("broker-1", GrpGen(OFFSETS, "g", "Stable", 2, 1, assignment={"m1": [TP]}))
    trace.emit("broker-1", GrpGen(OFFSETS, "other", "Stable", 5, 1))
    proof = trace.emit("broker-1", GrpCommit(TP, "g", OFFSETS, 1, "m1", 1, 5))
    steps = path(trace, proof, key="g")
    assert [step.event for step in steps] == [loaded, formed, proof]
    assert steps[-1].text == "broker-1 appends the commit of 5 in orders-0 for group g (generation 1)"


def test_a_fault_that_is_over_says_since_when() -> None:
    """Shows the end of a fault beside its beginning, if it has ended, so that nobody blames a fault that was over."""
    trace = Stage().begin()
    trace.fault("crash", "start", "broker-2")
    trace.fault("crash", "stop", "broker-2")
    trace.fault("pause", "start", "broker-2", name="f2")
    told = [step.text for step in path(trace, trace.assume(2, 1)) if step.text.startswith("f")]
    assert told == ["f1 crash of broker-2 begins, until 0.002 s", "f2 pause of broker-2 begins"]


def test_a_path_to_a_transaction_has_what_became_of_it() -> None:
    """Shows the states and the markers of the transactional id that the proof is about, and not those of others."""
    trace = Stage().begin()
    added = trace.emit("broker-1", TxnState(STATE, "app", 7, 1, "Ongoing", "Ongoing", [TP], 0, 4))
    decided = trace.emit("broker-1", TxnState(STATE, "app", 7, 1, "Ongoing", "PrepareCommit", [TP], 0, 5))
    trace.emit("broker-1", TxnState(STATE, "other", 8, 1, "Ongoing", "PrepareAbort", [TP], 0, 6))
    sent = trace.emit("broker-1", TxnMarkers(STATE, "app", 7, 1, True, 0, 2, [TP], "sent"))
    trace.emit("broker-1", TxnMarkers(STATE, "other", 8, 1, True, 0, 2, [TP], "sent"))
    proof = trace.emit("broker-1", TxnState(STATE, "app", 7, 1, "PrepareCommit", "CompleteCommit", [], 0, 7))
    steps = path(trace, proof, key="7")
    assert [step.event for step in steps] == [added, decided, sent, proof]
    assert steps[0].text == "broker-1 keeps app (producer id 7, epoch 1) in Ongoing, now with orders-0"
    assert steps[1].text == "broker-1 moves app (producer id 7, epoch 1) from Ongoing to PrepareCommit with orders-0"


def test_proofs_that_the_trace_does_not_have() -> None:
    """Shows that there is no path to what is not there."""
    assert path(Stage().begin(), "broker-1/0/5") == []


def test_paths_end_when_too_much_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that a long trace with many violations has paths for the first of them, and does not take for ever."""
    trace = Stage().begin()
    proofs = [trace.assume(1, epoch) for epoch in range(4)]
    monkeypatch.setattr("orchestrator.story.paths.LOOKED_AT_MAX", 8)
    zero_us = trace.events[0].wall
    paths = Paths(trace.events, zero_us, proofs)
    assert [bool(paths.to(TP, [proof], [])) for proof in proofs] == [True, True, False, False]


def test_of_a_trace_only_what_may_be_told_is_kept() -> None:
    """Shows that a path goes over messages of which nothing but a few bytes were kept."""
    trace = Stage().begin()
    leads = trace.assume(2, 1)
    trace.cause = leads
    heard = trace.high_watermark("broker-3", 0)
    trace.cause = heard
    proof = trace.high_watermark("broker-4", 0)
    assert [step.event for step in path(trace, proof)] == [leads, proof]


def test_few_or_many_nodes_of_a_fault() -> None:
    """Shows that of many nodes the first are named and the others are counted."""
    trace = Stage().begin()
    trace.fault("crash", "start", "broker-1", "broker-2", "broker-3", "broker-4", "broker-5")
    assert trace.story() == ["f1 crash of broker-1, broker-2, broker-3 and 2 more"]


def test_a_path_tells_each_turn_once_and_what_follows_at_once() -> None:
    """Shows the fault in place of the end of a process which it brought about, no change of a partition that changes
    neither leader nor ISR, and the truncation that comes with the proof; not one that comes later."""
    trace = Stage(apart=0).begin()
    trace.append("broker-1", "a", "b")
    trace.wall = 1_000
    fault = trace.fault("crash", "start", "broker-1")
    trace.down("broker-1")
    trace.up("broker-1")
    elected = trace.change(2, 1, [2, 3], "fence", 1)
    trace.change(2, 1, [2, 3], "config", 2)
    trace.cause = f"controller-1/0/{trace.seqs['controller-1', 0]}"
    trace.append("broker-1", "c")
    trace.cause = ""
    proof = trace.high_watermark("broker-1", 3)
    cut = trace.truncate("broker-1", 1)
    trace.wall = 2_000
    trace.truncate("broker-1", 0)
    assert [step.event for step in path(trace, proof)] == [fault, elected, proof, cut]


def test_a_path_has_the_high_watermark_that_a_new_leader_never_heard_of() -> None:
    """Shows what the new leader knew last, and what the former one had committed by then; nothing of it where the new
    leader knew all, or does not have the records."""
    for knew, log_end, told in ((1, 3, True), (3, 3, False), (1, 2, False)):
        trace = Stage().begin()
        trace.append("broker-1", "a", "b", "c")
        trace.append("broker-2", *"abc"[:log_end], role="follower")
        heard = trace.high_watermark("broker-2", knew, role="follower")
        committed = trace.high_watermark("broker-1", 3)
        leads = trace.assume(2, 1, high_watermark=knew)
        trace.cause = leads
        proof = trace.high_watermark("broker-2", knew, epoch=1)
        steps = path(trace, proof)
        assert [step.event for step in steps] == [*([heard, committed] if told else []), leads, proof]
        if told:
            assert steps[0].text.endswith(
                "to 1 as follower (log end 3), the last value that reached broker-2 before it leads"
            )
            assert steps[1].text.endswith("to 3 as leader (log end 3); broker-2 never hears of it before it leads")


def test_a_leader_that_comes_back_has_heard_of_its_own_high_watermark() -> None:
    """Shows nothing of a high watermark that the new leader itself had committed before it restarted."""
    trace = Stage().begin()
    trace.append("broker-1", "a", "b", "c")
    trace.high_watermark("broker-1", 3)
    proof = trace.assume(1, 1, high_watermark=1)
    assert [step.event for step in path(trace, proof)] == [proof]


def test_a_fault_of_the_node_that_caused_the_proof_is_on_the_path() -> None:
    """Shows the fault of a node of which nothing else is shown: its last event before it sent has no words."""
    trace = Stage()
    trace.begin()
    fault = trace.fault("slow-store", "start", "remote-store-1")
    trace.fault("crash", "start", "broker-9", name="f2")
    sent = trace.emit("remote-store-1", Tick())
    proof = trace.high_watermark("broker-1", 0)
    assert [step.event for step in path(trace, proof, causes=(sent,))] == [fault, proof]
