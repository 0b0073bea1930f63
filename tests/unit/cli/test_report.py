"""``krift report --event``: the evidence itself."""

from __future__ import annotations

import json
from pathlib import Path

from actors.trace.events import CtlPhase, Rpc, RpcReply
from orchestrator.story.words import seconds
from orchestrator.trace.read import read_events
from tests.unit.cli.command import krift, run_directory, scenario


def test_events_are_shown_by_their_ids(tmp_path: Path) -> None:
    """Shows events as they are in the trace, in its order, each once, with what the envelope says of them."""
    directory = run_directory(tmp_path)
    events = list(read_events(directory))
    first, second = [event for event in events if isinstance(event.body, Rpc)][:2]
    arguments = ["--event", second.id, "--event", first.id, "--event", second.id, "--json"]
    ended = krift("report", directory, *arguments)
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


def test_an_event_is_told_in_words_among_its_neighbours(run: Path) -> None:
    """Shows an answer with its time since time 0, its fields, what its broker did before and after it, and with --why
    what led to it, back to the client that asked."""
    events = list(read_events(run))
    zero_us = next(each.wall for each in events if isinstance(each.body, CtlPhase) and each.body.phase == "chaos")
    reply = next(each for each in events if isinstance(each.body, RpcReply) and each.wall > zero_us and each.cause)
    ended = krift("report", run, "--event", reply.id, "--why")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    time = f"{(reply.wall - zero_us) / 1_000_000:.3f} s"
    assert lines[0].startswith(f"{time:>11}  {reply.node} answers the ")
    assert lines[0].endswith(f"[{reply.id}]")
    assert f"  on {reply.node} before it" in lines
    assert f"  on {reply.node} after it" in lines
    chain = lines[next(n for n, line in enumerate(lines) if line.startswith("  why, from effect to cause")) + 1 :]
    assert chain[0].startswith("    from ")
    assert chain[0].endswith(f"[{reply.cause}]")


def test_why_needs_an_event(run: Path) -> None:
    """Shows that --why is refused where there is nothing to explain, or nobody reads words."""
    for arguments in (["--why"], ["--event", "broker-1/0/0", "--why", "--json"]):
        ended = krift("report", run, *arguments)
        assert (ended.code, ended.out) == (2, "")
        assert "--why shows the causes of an --event" in ended.err


def test_a_violation_has_its_time_its_path_and_the_bug_that_was_planted(tmp_path: Path) -> None:
    """Shows that report tells what run told: when a promise broke, how it came to that, and that a bug was planted."""
    arguments = ["--defect", "consumer-mislabel", "--out", tmp_path / "runs", "--quiet"]
    ended = krift("run", scenario(tmp_path), *arguments)
    assert ended.code == 1, ended.err
    kept = json.loads(krift("report", tmp_path / "runs" / "latest", "--json").out)
    assert kept["defects"] == ["consumer-mislabel"]
    (broken,) = [each for each in kept["invariants"] if each["id"] == "C3"]
    first = min(each["at_us"] for each in broken["violations"])
    assert next(each for each in kept["story"] if "C3 VIOLATED" in each["text"])["at_us"] == first
    for each in broken["violations"]:
        path = each["path"]
        assert path[-1]["event"] in each["events"]
        assert [step["at_us"] for step in path] == sorted(step["at_us"] for step in path)
    told = krift("report", tmp_path / "runs" / "latest").out
    assert told.splitlines()[1:4] == ended.out.splitlines()[1:4]
    assert f"first at {seconds(first)}" in told
    assert "planted on purpose: consumer-mislabel" in told
    suite = (tmp_path / "runs" / "latest" / "junit.xml").read_text()
    assert 'name="defects" value="consumer-mislabel"' in suite
    assert f"at {seconds(first)}: " in suite
