"""What the configuration records say, as far as each node has applied them."""

from __future__ import annotations

import pytest

from actors.trace.events import ConfigChange, MetaImage, PartRemove, Stamped
from orchestrator.invariants.mirrors.config_records import HEARD, KEPT, BrokerSettings, ConfigRecords, places
from tests.unit.invariants.trace_builder import TP, TraceBuilder

KEY, OTHER = "retention.ms", "segment.ms"
TOPIC = "topic/orders"


def heard(trace: TraceBuilder, keys: tuple[str, ...] = (KEY,)) -> ConfigRecords:
    """The records after a trace."""
    records = ConfigRecords(frozenset(keys))
    for event in trace.events:
        if isinstance(event.body, HEARD):
            records.hear(event)
    return records


def value(records: ConfigRecords, node: str = "broker-1") -> str | None:
    """That of the topic's key at a node."""
    found = records.first(node, places(node, TP, KEY))
    return None if found is None else found.value


def sets(trace: TraceBuilder, offset: int, text: str | None, key: str = KEY, epoch: int = 1) -> None:
    trace.emit("controller-1", ConfigChange(offset, epoch, TOPIC, key, text))


def test_where_a_key_may_be_set() -> None:
    """Shows the order, and the names for brokers and for controllers."""
    assert places("broker-3", "orders-0@id", KEY) == [
        ("topic/orders", "retention.ms"),
        ("broker/3", "log.retention.ms"),
        ("broker/", "log.retention.ms"),
    ]
    assert places("controller-2", TP, "min.insync.replicas")[1][0].startswith("broker/")


def test_each_node_goes_by_what_it_has_applied() -> None:
    """Shows that a record counts for a node whose image has it, until the node starts anew."""
    trace = TraceBuilder()
    sets(trace, 5, "1")
    trace.emit("broker-1", MetaImage(6))
    trace.emit("broker-2", MetaImage(5))
    sets(trace, 8, "2")
    records = heard(trace)
    assert (value(records), value(records, "broker-2"), value(records, "broker-3")) == ("1", None, None)
    trace.emit("broker-1", MetaImage(9))
    assert value(heard(trace)) == "2"
    trace.up("broker-1")
    assert value(heard(trace)) is None


def test_whether_something_else_may_hold() -> None:
    """Shows that only an image with a record that matters, or the first one, makes a difference."""
    trace = TraceBuilder()
    sets(trace, 5, "1")
    sets(trace, 7, "1", OTHER)
    records = heard(trace)

    def applies(end: int) -> bool:
        trace.emit("broker-1", MetaImage(end))
        return records.hear(trace.events[-1])

    assert [applies(end) for end in (4, 5, 6, 9)] == [True, False, True, False]
    trace.up("broker-1")
    assert records.hear(trace.events[-1])
    assert applies(9)


def test_what_a_new_controller_lacks() -> None:
    """Shows that a record which the next leader's log lacks never happened: the one before holds again."""
    trace = TraceBuilder()
    trace.role("controller-1", 1, "leader")
    sets(trace, 5, "1")
    sets(trace, 6, "2")
    trace.role("controller-2", 2, "leader", log_end=6)
    trace.emit("broker-1", MetaImage(9))
    assert value(heard(trace)) == "1"
    sets(trace, 7, "3")
    assert value(heard(trace)) == "1"


def test_what_goes_with_a_topic() -> None:
    """Shows that what a topic was set to ends with it, and that a later topic of the name has its own."""
    trace = TraceBuilder()
    sets(trace, 5, "1")
    trace.emit("controller-1", PartRemove(TP, 6, 1, "id"))
    trace.emit("broker-1", MetaImage(6))
    trace.emit("broker-2", MetaImage(7))
    sets(trace, 8, "2")
    trace.emit("broker-3", MetaImage(9))
    records = heard(trace)
    assert [value(records, f"broker-{number}") for number in (1, 2, 3)] == ["1", None, "2"]


@pytest.mark.parametrize("removed", [False, True])
def test_many_records(removed: bool) -> None:
    """Shows that of old records the last one of each key of a resource stays, and what a topic had goes with it."""
    trace = TraceBuilder()
    sets(trace, 1, "1")
    sets(trace, 2, "5")
    if removed:
        trace.emit("controller-1", PartRemove(TP, 3, 1, "id"))
    for number in range(3 * KEPT):
        sets(trace, 10 + number, str(number), OTHER)
    trace.emit("broker-1", MetaImage(10_000))
    records = heard(trace, (KEY, OTHER))
    assert value(records) == (None if removed else "5")
    assert len(records.history.records) <= 2 * KEPT
    assert len(records.settled) <= 2


def test_the_step_in_which_an_image_is_taken_over() -> None:
    """Shows that a broker may go by what held before until that step is over, or while it has no image."""
    settings = BrokerSettings("broker-1", {KEY: 7})
    trace = TraceBuilder()

    def is_changing(request: str) -> bool:
        trace.req = request
        trace.emit("broker-1", PartRemove(TP, 0, 1, "id"))
        return settings.is_changing(trace.events[-1])

    def hears(body: MetaImage) -> Stamped:
        trace.emit("broker-1", body)
        settings.hear(trace.events[-1])
        return trace.events[-1]

    assert is_changing("c#1")
    trace.req = "c#2"
    hears(MetaImage(3))
    assert [is_changing(request) for request in ("c#2", "c#3")] == [True, False]
    assert settings.at(KEY) == 7
