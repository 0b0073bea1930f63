"""``krift report --event``: the evidence itself."""

from __future__ import annotations

import json
from pathlib import Path

from actors.trace.events import Rpc
from orchestrator.trace.read import read_events
from tests.unit.cli.command import krift, run_directory


def test_events_are_shown_by_their_ids(tmp_path: Path) -> None:
    """Shows events as they are in the trace, in its order, each once, with what the envelope says of them."""
    directory = run_directory(tmp_path)
    events = list(read_events(directory))
    first, second = [event for event in events if isinstance(event.body, Rpc)][:2]
    ended = krift("report", directory, "--event", second.id, "--event", first.id, "--event", second.id)
    assert ended.code == 0, ended.err
    shown = [json.loads(line) for line in ended.out.splitlines()]
    assert [line["id"] for line in shown] == [first.id, second.id]
    assert [(line["wall"], line["cause"], line["req"]) for line in shown] == [
        (event.wall, event.cause, event.req) for event in (first, second)
    ]
    assert shown[0]["body"]["type"] == "rpc"
    assert isinstance(first.body, Rpc)
    assert shown[0]["body"]["api"] == first.body.api


def test_an_event_that_is_not_there(tmp_path: Path) -> None:
    """Shows that each id which the trace does not have is told, and that nothing is printed then."""
    directory = run_directory(tmp_path)
    ended = krift("report", directory, "--event", "broker-1/0/0", "--event", "broker-9/0/1", "--event", "x")
    assert (ended.code, ended.out) == (2, "")
    assert "--event broker-9/0/1: no such event in this run's trace; expected node/incarnation/number" in ended.err
    assert "--event x: no such event" in ended.err
