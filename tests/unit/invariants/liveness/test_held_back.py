"""L5: sends of producers that commit offsets of a removed topic in their transactions."""

from __future__ import annotations

import pytest

from actors.node.errors import KafkaError
from actors.trace.events import NodeUp, PartRemove, SendOffsetsInvoke, SendOffsetsReturn
from actors.trace.group_events import Entry
from tests.unit.invariants.folds.test_windows import Run

CASES = {
    "it commits them": True,
    "its topic is there": False,
    "the next controller knows of the removal": True,
    "the removal was lost with its controller": False,
    "another one commits them": False,
    "they were refused": False,
    "its former process did": False,
}


@pytest.mark.parametrize(("case", "excused"), CASES.items())
def test_a_producer_that_commits_offsets_of_a_removed_topic(case: str, excused: bool) -> None:
    """Shows that a send is excused as long as its producer asks for nothing else than to commit offsets of a removed
    topic, and not otherwise."""
    run = Run()
    run.lead(1, 0)
    client = "producer-2" if case == "another one commits them" else "producer-1"
    offsets: dict[str, Entry] = {"inputs-0": [5, 0, 0], "inputs-1": [6, 0, 0]}
    run.emit(client, SendOffsetsInvoke("offsets/1", "ids", 1, "group", "member", 1, offsets))
    run.emit("controller-1", PartRemove("others-0" if case == "its topic is there" else "inputs-1", 19, 1, "id"))
    if case == "the next controller knows of the removal":
        run.role("controller-2", 2, "leader", 102, log_end=20)
    elif case == "the removal was lost with its controller":
        run.role("controller-2", 2, "leader", 102, log_end=19)
    elif case == "they were refused":
        error = KafkaError.ILLEGAL_GENERATION
        run.emit(client, SendOffsetsReturn("offsets/1", "fail", error, "ids", 1, "group", offsets))
    elif case == "its former process did":
        run.down(client)
        run.emit(client, NodeUp("producer", 1, "directory", False, False))
    run.window()
    run.send("producer-1:1")
    run.past("L5")
    result = run.result("L5")
    assert (result.violated, result.excused) == ((0, {"offsets-of-removed-topic": 1}) if excused else (1, {}))
