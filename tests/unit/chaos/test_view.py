"""What the view of the cluster makes of topics that come and go."""

from __future__ import annotations

from actors.node.spec import ClusterSpec, TopicSpec
from actors.trace.events import PartRemove
from chaos.view import new_view
from tests.unit.invariants.test_topics_made_anew import ANEW, made_anew
from tests.unit.invariants.trace_builder import TP, TraceBuilder


def test_a_topic_that_was_lost_with_its_controller_keeps_nobody_waiting() -> None:
    """Shows that a topic which was made anew counts, and no longer when the next leader of the quorum lacks it."""
    view = new_view(ClusterSpec("id", [101, 102], [1, 2, 3], [TopicSpec("orders", "of-the-first", [[1, 2, 3]])]))
    trace = TraceBuilder()
    trace.role("controller-1", 1, "leader", 101)
    trace.emit("controller-1", PartRemove(TP, 30, 1, "of-the-first"))
    since = len(trace.events)
    trace.change(1, 0, cause="create", offset=40)
    made_anew(trace, since)
    for event in trace.events:
        view.fold(event)
    assert [found.key for found in view.living.values()] == [ANEW]
    trace.role("controller-2", 2, "leader", 102, log_end=40)
    view.fold(trace.events[-1])
    assert not view.living
    assert view.partitions[TP].steady()
