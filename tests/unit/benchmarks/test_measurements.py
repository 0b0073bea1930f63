"""That the benchmarks measure what they say."""

from __future__ import annotations

import pytest

from actors.live.wire import Stamp, encode_request
from actors.node.effects import Call, Complete, Record, Reply
from actors.node.events import Answered, Invoked, Received, Started
from benchmarks.memory import pss_mib
from benchmarks.ring import WINDOW, RingNode, request, response, ring
from benchmarks.scale import LOADED, PARTITIONS, cluster, cost, growth
from benchmarks.sim import baseline, loop_messages_per_s, run_checked, run_kept, run_unchecked


def test_checked_and_unchecked_runs_are_the_same_run() -> None:
    """Shows that the runs with and without checks carry the same messages over the same virtual time, so that their
    difference is what checks cost."""
    plan = baseline(0.5)
    checked, unchecked, kept = run_checked(plan), run_unchecked(plan), run_kept(plan)
    assert (checked.virtual_s, checked.messages) == (unchecked.virtual_s, unchecked.messages)
    assert kept.virtual_s == checked.virtual_s
    assert checked.messages > 500
    assert loop_messages_per_s(2000) > 0


def test_a_ring_node_keeps_its_window_full_and_says_how_many_were_answered() -> None:
    """Shows that a node asks anew for each answer until it is told to end, and is complete with the last answer."""
    first = ring(3)[0]
    node = RingNode()
    assert first.workload["peer"] == "broker-2"
    assert node.step(0, Started(first, 0, {})) == []
    calls = [effect.call for effect in node.step(1000, Invoked("b", "begin")) if isinstance(effect, Call)]
    assert calls == list(range(1, WINDOW + 1))
    effects = node.step(1001, Answered(1, response(1)))
    assert [type(effect) for effect in effects] == [Record, Call]
    assert node.step(1002, Invoked("e", "end")) == []
    completed = [effect for call in range(2, WINDOW + 2) for effect in node.step(3000, Answered(call, response(call)))]
    assert completed[-1] == Complete("e", {"answered": WINDOW + 1, "elapsed_ms": 2000})
    assert sum(isinstance(effect, Complete) for effect in completed) == 1


def test_a_ring_node_records_an_answer_before_it_leaves() -> None:
    """Shows that a node that is asked does what a broker does: an event for the trace, then the answer."""
    node = RingNode()
    node.step(0, Started(ring(2)[0], 0, {}))
    effects = node.step(1, Received("broker-2>broker-1:ring:0.0", request("broker-2", 1)))
    assert [type(effect) for effect in effects] == [Record, Reply]


def test_the_bare_request_is_as_large_as_krifts() -> None:
    """Shows that the header which the yardstick fills in is what the runtime would have put there."""
    from benchmarks.bare import bare_request

    wire = encode_request(request("broker-1", 1), "broker-1>broker-2:ring:0.0", 1000, Stamp(10**15, 1, "broker-1/0/9"))
    assert abs(len(wire) - len(bare_request().SerializeToString())) <= 8


def test_pss_is_read_in_mebibytes() -> None:
    """Shows that the proportional size is taken, not the resident one, and that its absence is told."""
    text = "00400000-7ffd [rollup]\nRss:  81920 kB\nPss:  51200 kB\nPss_Anon:  1024 kB\n"
    assert pss_mib(text) == 50
    with pytest.raises(ValueError, match="no Pss"):
        pss_mib("Rss: 1 kB\n")


@pytest.mark.further
def test_a_larger_cluster_has_the_same_load() -> None:
    """Shows that sizes differ in brokers or partitions alone: so many are there, and as many are written to."""
    for brokers, partitions in ((3, 1010), (10, PARTITIONS)):
        topics = {topic.name: len(topic.replicas) for topic in cluster(brokers, partitions, 1).cluster.topics}
        assert (sum(topics.values()), topics["orders"]) == (partitions, LOADED)
        assert len(cluster(brokers, partitions, 1).cluster.brokers) == brokers
    found = cost(3, LOADED, 0.5)
    assert (found.messages > 0, found.peak_mib > 0) == (True, True)


def test_growth_is_the_power_of_the_size() -> None:
    """Shows the exponents of what grows in proportion, with the square, and not at all."""
    sizes = (10, 100, 1000)
    assert [round(growth(sizes, [size**power for size in sizes]), 6) for power in (1, 2, 0)] == [1, 2, 0]
