"""R13, where an operator changes limits: it goes by what the leader has applied."""

from __future__ import annotations

from typing import Any

import pytest

from actors.trace.events import LogStart
from tests.unit.invariants.partitions.test_changed_limits import TOPIC, Changes
from tests.unit.invariants.tiers.test_retention import BATCH_BYTES, Copies
from tests.unit.invariants.trace_builder import TP


@pytest.mark.parametrize(("key", "value"), [("retention.bytes", 4 * BATCH_BYTES), ("retention.ms", 1)])
@pytest.mark.parametrize(("node", "violated"), [("broker-1", 1), ("broker-2", 0)])
def test_a_tighter_limit(key: str, value: int, node: str, violated: int) -> None:
    """Shows that what has to go by a new limit has all the time from when its leader has applied it."""
    trace = Copies(retention_bytes=-1, retention_ms=-1)
    changes = Changes(trace)
    changes.sets(key, value)
    trace.waits(2)
    changes.applies(node=node)
    trace.waits(0.9)
    assert trace.result("R13").violated == 0
    trace.waits(0.2)
    found = trace.result("R13").violations
    assert len(found) == violated
    assert not found or f"{key} = {value}" in found[0].sentence


@pytest.mark.parametrize(("key", "value"), [("retention.bytes", 4 * BATCH_BYTES), ("retention.ms", 1)])
@pytest.mark.parametrize(("other", "now", "violated"), [(False, -1, 0), (False, 2, 0), (True, 1_000_000, 1)])
def test_a_limit_that_changes_while_something_is_due(
    key: str, value: int, other: bool, now: int, violated: int
) -> None:
    """Shows that what was due by a former limit need not go any more, or has all the time again by the new one; what is
    due by another limit has no more time."""
    trace = Copies(**{key.replace(".", "_"): value})
    changes = Changes(trace)
    trace.waits(0.6)
    changes.sets("segment.bytes" if other else key, now)
    changes.applies()
    trace.waits(0.5)
    assert trace.result("R13").violated == violated


def test_a_copy_below_the_log_start_whatever_the_limit() -> None:
    """Shows that a copy below the log start has no more time when a limit changes."""
    trace = Copies()
    changes = Changes(trace)
    trace.begins(2, "delete-records")
    trace.waits(0.6)
    changes.sets("retention.ms", 1_000_000)
    changes.applies()
    trace.waits(0.5)
    assert trace.result("R13").violated == 1


@pytest.mark.parametrize("limit", [-1, 900_000])
@pytest.mark.parametrize(("within", "violated"), [("before", 0), ("step", 0), ("after", 1)])
def test_a_limit_that_is_raised(limit: Any, within: str, violated: int) -> None:
    """Shows that a log start which moves by a former limit moves too soon once the leader has taken up the new one."""
    trace = Copies(retention_ms=1)
    changes = Changes(trace)
    changes.sets("retention.ms", limit)
    changes.applies_around(LogStart(TP, 2, "retention-ms", 0), within)
    assert trace.result("R13").violated == violated


def test_a_limit_of_all_brokers() -> None:
    """Shows that a topic goes by the limit of all brokers where it has none of its own."""
    for resource, violated in ((TOPIC, 0), ("broker/1", 1), ("broker/", 1)):
        trace = Copies()
        changes = Changes(trace)
        changes.sets("log.retention.ms", 1, resource)
        changes.applies()
        trace.waits(1.1)
        assert trace.result("R13").violated == violated
