"""The view of the cluster: when it is steady, and what it makes of topics that come and go."""

from __future__ import annotations

import random

from actors.node.spec import ClusterSpec, TopicSpec, node_name
from actors.trace.events import PartRemove, QRole
from actors.trace.metadata_history import History
from chaos.view import KEPT, ClusterView, PartitionView, Registration, new_view
from tests.unit.invariants.test_topics_made_anew import ANEW, made_anew
from tests.unit.invariants.trace_builder import TP, TraceBuilder

BROKERS = (1, 2, 3)


def steady(replicas: list[int]) -> PartitionView:
    """A partition with its whole ISR, whose leader has taken it up."""
    return PartitionView(
        replicas, replicas[0], 0, list(replicas), changed_epoch=0, assumed_epoch=0, assumed_by=node_name(replicas[0])
    )


def cluster(partitions: dict[str, PartitionView], unfenced: tuple[int, ...] = BROKERS) -> ClusterView:
    """A view of three brokers."""
    view = ClusterView([node_name(each) for each in BROKERS], partitions, [])
    for broker in unfenced:
        known = view.registrations[node_name(broker)] = History(KEPT)
        known.add(Registration(1, broker, 0, False), view.elections)
    return view


def test_whether_it_is_steady_is_why_it_is_not() -> None:
    """Shows that the short answer, which begins with the partition that was not steady last, is always that of the long
    one, whatever becomes of partitions meanwhile, also if one is no more or another one comes."""
    draw = random.Random(1)
    partitions = {f"orders-{number}": steady([1, 2, 3]) for number in range(6)}
    view = cluster(partitions)
    seen = set()
    for turn in range(500):
        found = draw.choice(list(partitions.values()))
        found.isr = draw.choice([[1, 2, 3], [1, 2], [1, 2, 3]])
        if turn % 50 == 49:
            partitions.pop(draw.choice(list(partitions)))
            partitions[f"payments-{turn}"] = steady([2, 3, 1])
        away = draw.choice([(), ("broker-3",)])
        seen.add(answer := view.is_steady(away))
        assert answer == (view.unsteady(away) == "")
    assert seen == {True, False}


def test_a_fenced_broker_unsettles_it() -> None:
    """Shows that every broker must be unfenced, but for those that are away."""
    view = cluster({"orders-0": steady([1, 2])}, BROKERS[:2])
    assert (view.is_steady(), view.is_steady(["broker-3"])) == (False, True)


def test_a_topic_that_was_lost_with_its_controller_keeps_nobody_waiting() -> None:
    """Shows that a topic which was made anew counts, and not where the next leader of the quorum lacks it, be that
    known after the topic or before it."""
    for elected_before in (False, True):
        view = new_view(ClusterSpec("id", [101, 102], [1, 2, 3], [TopicSpec("orders", "of-the-first", [[1, 2, 3]])]))
        trace = TraceBuilder()
        trace.role("controller-1", 1, "leader", 101)
        trace.emit("controller-1", PartRemove(TP, 30, 1, "of-the-first"))
        if elected_before:
            trace.role("controller-2", 2, "leader", 102, log_end=40)
        since = len(trace.events)
        trace.change(1, 0, cause="create", offset=40, quorum_epoch=1)
        made_anew(trace, since)
        for event in trace.events:
            view.fold(event)
        assert [found.key for found in view.living.values()] == ([] if elected_before else [ANEW])
        if not elected_before:
            trace.role("controller-2", 2, "leader", 102, log_end=40)
            view.fold(trace.events[-1])
        assert not view.living
        assert view.partitions[TP].steady()


def test_what_a_passing_leader_of_the_quorum_lacked_holds_again() -> None:
    """Shows that a change of a partition, and a topic, count where a leader that nobody copied from lacked them, and
    its successor has them."""
    view = new_view(ClusterSpec("id", [101, 102], [1, 2, 3], [TopicSpec("orders", "of-the-first", [[1, 2, 3]])]))
    trace = TraceBuilder()
    trace.role("controller-1", 1, "leader", 101)
    trace.change(1, 0, cause="create", offset=5)
    trace.change(1, 0, isr=[1], partition_epoch=1, offset=40)
    trace.change(3, 0, cause="create", offset=41, tp="payments-0")
    for node, epoch, log_end, isr, living in (
        ("controller-2", 2, 10, [1, 2, 3], [TP]),
        ("controller-1", 3, 50, [1], [TP, "payments-0"]),
        ("controller-2", 4, 10, [1, 2, 3], [TP]),
    ):
        trace.emit(node, QRole("d", epoch, "leader", 101, log_end, log_epoch=1))
        for event in trace.events:
            view.fold(event)
        trace.events.clear()
        assert view.partitions[TP].isr == isr
        assert list(view.living) == living
