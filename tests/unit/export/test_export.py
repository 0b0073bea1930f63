"""A trace in the formats of other tools."""

from __future__ import annotations

import json
import re

from orchestrator.export.edn import Keyword, edn, written
from orchestrator.export.perfetto import perfetto
from orchestrator.export.shiviz import EXPRESSION, shiviz
from tests.unit.story.stage import TP, Stage


def trace() -> Stage:
    """Two nodes, a message between them, a send and a read."""
    built = Stage().begin()
    built.sends("producer-1", "a:0")
    built.cause = built.events[-1].id
    built.append("broker-1", "a:0")
    built.high_watermark("broker-1", 1)
    built.cause = built.events[-1].id
    built.acked("producer-1", "a:0", 0)
    built.cause = ""
    return built


def test_perfetto_has_slices_counters_and_arrows() -> None:
    """Shows one JSON object in which nodes have names, operations begin and end, offsets are counters, and an arrow
    leads from each message's sender to its receiver."""
    entries = json.loads("".join(perfetto(trace().events)))["traceEvents"]
    names = {each["pid"]: each["args"]["name"] for each in entries if each["name"] == "process_name"}
    assert set(names.values()) == {"faults", "driver", "producer-1", "broker-1"}
    assert [each["ph"] for each in entries if each.get("cat") == "operation"] == ["b", "e"]
    counters = {each["name"]: each["args"]["offset"] for each in entries if each["ph"] == "C"}
    assert counters == {f"{TP} log end": 1, f"{TP} high watermark": 1}
    flows = [(each["ph"], names[each["pid"]]) for each in entries if each.get("cat") == "message"]
    assert flows[:2] == [("s", "producer-1"), ("f", "broker-1")]
    assert flows[-2:] == [("s", "broker-1"), ("f", "producer-1")]


def test_shiviz_has_vector_clocks_that_follow_messages() -> None:
    """Shows that each event has its place on its node, and what it knew of others by the messages that led to it, also
    by those that reached the sender before."""
    text = "".join(shiviz(trace().events))
    pattern = re.compile(EXPRESSION.replace("(?<", "(?P<"))
    clocks = [(found["host"], json.loads(found["clock"])) for found in pattern.finditer(text)]
    assert len(clocks) == len(trace().events)
    assert [clock for host, clock in clocks if host == "broker-1"] == [
        {"broker-1": 1, "producer-1": 1},
        {"broker-1": 2, "producer-1": 1},
    ]
    assert clocks[-1] == ("producer-1", {"producer-1": 2, "broker-1": 2})
    for node in ("driver", "producer-1", "broker-1"):
        own = [clock[node] for host, clock in clocks if host == node]
        assert own == list(range(1, len(own) + 1))


def test_edn_is_a_history_of_processes() -> None:
    """Shows operations as Jepsen has them: what a poll got, what a send was told, and a process that is never used
    again after an outcome that nobody knows."""
    built = trace()
    built.sends("producer-1", "a:1")
    built.failed("producer-1", "a:1", outcome="unknown")
    built.sends("producer-1", "a:2")
    built.fault("crash", "start", "broker-1")
    lines = list(edn(built.events))
    assert lines[0] == (
        f'{{:index 0, :time 3000000, :type :invoke, :process 0, :f :send, :value [[:send "{TP}" "a:0"]], '
        ':node "producer-1"}\n'
    )
    assert f':type :ok, :process 0, :f :send, :value [[:send "{TP}" [0 "a:0"]]]' in lines[1]
    assert ":type :info, :process 0, :f :send" in lines[3]
    assert ":type :invoke, :process 1, :f :send" in lines[4]
    assert ':process :nemesis, :f :start-crash, :value {:fault "f1", :targets ["broker-1"]}' in lines[5]


def test_edn_writes_every_kind_of_value() -> None:
    """Shows nil, truth, numbers, text with quotes, keywords, lists and maps, with keys that can be no keyword as
    text."""
    value = {"a_b": None, "x/1": [True, 1, Keyword("ok")], "t": 'say "hi"\n'}
    assert written(value) == '{:a-b nil, "x/1" [true 1 :ok], :t "say \\"hi\\"\\n"}'
