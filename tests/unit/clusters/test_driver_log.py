"""What the driver writes of a run in which a machine gave nodes too little time."""

from __future__ import annotations

from pathlib import Path

from actors.live.writer import ChunkWriter
from actors.trace.events import AnyTraceEvent, CtlFault, CtlPhase, CtlWindow, RunEnd, Stamped
from actors.trace.stamper import Stamper
from orchestrator.clusters.driver_log import HOLD_US, DriverLog
from orchestrator.trace.order import merged
from orchestrator.trace.read import line_to_stamped

S = 1_000_000
CORE = ["broker-1", "broker-2"]


class Fixture:
    """A log in which time is given in seconds."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stamper = Stamper("run", "driver", 0)
        self.log = DriverLog(ChunkWriter(directory / "logs" / "node=driver", "0"))
        self.add(0, CtlPhase("starting"))

    def add(self, at_s: float, body: AnyTraceEvent) -> None:
        """The driver records something."""
        self.log.add(self.stamper.stamp(body, int(at_s * S)))
        self.log.release(int(at_s * S))

    def stalled(self, node: str, since_s: float, until_s: float) -> None:
        """A node reports."""
        self.log.stalled(node, int(since_s * S), int(until_s * S))

    def read(self) -> list[Stamped]:
        """End it, and read what there is."""
        at_us = self.stamper.clock.wall_us + 60 * S
        self.log.release_all(at_us)
        self.log.close(self.stamper.stamp(RunEnd({}), at_us), at_us)
        return [line_to_stamped(line) for line in merged(self.directory)]

    def told(self) -> list[str]:
        """In short, without the first and the last event."""
        events = self.read()
        assert [event.seq for event in events] == list(range(len(events)))
        return [f"{event.wall / S:g} {short(event.body)}" for event in events[1:-1]]


def short(body: AnyTraceEvent) -> str:
    """An event in a word or two."""
    match body:
        case CtlWindow(window, phase):
            return f"{phase} {window}"
        case CtlFault(fault, _, phase, targets):
            return f"{phase} {fault} {' '.join(targets)}"
        case CtlPhase(phase):
            return phase
    raise AssertionError(body)


def test_nothing_is_added_where_nodes_have_time(tmp_path: Path) -> None:
    """Shows that the log is what the driver recorded."""
    fixture = Fixture(tmp_path)
    fixture.add(1, CtlWindow("w1", "open", CORE))
    fixture.add(9, CtlWindow("w1", "close", CORE))
    assert fixture.told() == ["1 open w1", "9 close w1"]


def test_a_stall_is_a_pause_outside_of_any_window(tmp_path: Path) -> None:
    """Shows that it stands where it was, though it was reported later, and that the window goes on after it."""
    fixture = Fixture(tmp_path)
    fixture.add(1, CtlWindow("w1", "open", CORE))
    fixture.add(4, CtlPhase("chaos"))
    fixture.stalled("broker-2", 3, 4.5)
    fixture.add(9, CtlWindow("w1", "close", CORE))
    assert fixture.told() == [
        "1 open w1",
        "3 close w1",
        "3 start busy-machine-1 broker-2",
        "4 chaos",
        "4.5 stop busy-machine-1 broker-2",
        "4.5 open w1",
        "9 close w1",
    ]


def test_stalls_one_after_the_other_are_one(tmp_path: Path) -> None:
    """Shows that reports of several nodes, and those that come every second, make one fault, and a later one another;
    who is not in the core closes no window."""
    fixture = Fixture(tmp_path)
    fixture.add(1, CtlWindow("w1", "open", CORE))
    for second in range(4):
        fixture.stalled("broker-2", 2 + second, 2.9 + second)
        fixture.stalled("broker-1", 2.2 + second, 3.1 + second)
    fixture.add(20, CtlWindow("w1", "close", CORE))
    fixture.add(21, CtlWindow("w2", "open", CORE))
    fixture.stalled("broker-3", 22, 23)
    assert fixture.told() == [
        "1 open w1",
        "2 close w1",
        "2 start busy-machine-1 broker-1 broker-2",
        "6.1 stop busy-machine-1 broker-1 broker-2",
        "6.1 open w1",
        "20 close w1",
        "21 open w2",
        "22 start busy-machine-2 broker-3",
        "23 stop busy-machine-2 broker-3",
    ]


def test_what_a_fault_stopped_is_no_stall(tmp_path: Path) -> None:
    """Shows that a process that a fault stopped, maybe twice, is not told of again, but what comes on top is."""
    fixture = Fixture(tmp_path)
    for since_s, until_s in ((2, 5), (7, 8)):
        fixture.add(since_s, CtlFault("f1", "pause", "start", ["broker-1"], {}))
        fixture.add(until_s, CtlFault("f1", "pause", "stop", ["broker-1"], {}))
        fixture.stalled("broker-1", since_s - 0.05, 5.1 if until_s == 5 else 9.9)
    assert fixture.told() == [
        "1.95 start busy-machine-1 broker-1",
        "2 start f1 broker-1",
        "2 stop busy-machine-1 broker-1",
        "5 stop f1 broker-1",
        "6.95 start busy-machine-2 broker-1",
        "7 start f1 broker-1",
        "7 stop busy-machine-2 broker-1",
        "8 stop f1 broker-1",
        "8.3 start busy-machine-3 broker-1",
        "9.9 stop busy-machine-3 broker-1",
    ]


def test_windows_that_begin_or_end_in_a_stall(tmp_path: Path) -> None:
    """Shows that a window is only open when everybody in it has time."""
    fixture = Fixture(tmp_path)
    fixture.add(1, CtlWindow("w1", "open", CORE))
    fixture.add(3, CtlWindow("w1", "close", CORE))
    fixture.add(4, CtlWindow("w2", "open", CORE))
    fixture.stalled("broker-1", 2, 5)
    fixture.add(7, CtlWindow("w2", "close", CORE))
    fixture.add(8, CtlWindow("w3", "open", CORE))
    fixture.add(9, CtlWindow("w3", "close", CORE))
    fixture.stalled("broker-1", 7.5, 9.5)
    assert fixture.told() == [
        "1 open w1",
        "2 close w1",
        "2 start busy-machine-1 broker-1",
        "5 stop busy-machine-1 broker-1",
        "5 open w2",
        "7 close w2",
        "7.5 start busy-machine-2 broker-1",
        "9.5 stop busy-machine-2 broker-1",
    ]


def test_a_stall_that_is_reported_late(tmp_path: Path) -> None:
    """Shows that the log is only so far behind: a longer stall begins where the log ends, and another node that joins a
    fault which is told of already gets one of its own."""
    fixture = Fixture(tmp_path)
    fixture.add(1, CtlWindow("w1", "open", CORE))
    fixture.stalled("broker-1", 2, 3)
    fixture.add(2.5 + HOLD_US / S, CtlPhase("chaos"))
    fixture.stalled("broker-1", 3, 12)
    fixture.stalled("broker-2", 1.5, 12)
    fixture.add(14, CtlWindow("w1", "close", CORE))
    assert fixture.told() == [
        "1 open w1",
        "2 close w1",
        "2 start busy-machine-1 broker-1",
        "2 start busy-machine-2 broker-2",
        "7.5 chaos",
        "12 stop busy-machine-1 broker-1",
        "12 stop busy-machine-2 broker-2",
        "12 open w1",
        "14 close w1",
    ]


def test_the_log_waits_for_nodes_that_say_nothing(tmp_path: Path) -> None:
    """Shows that nothing is written that a node may still tell of which has not been heard, but not for ever: then a
    stall that is told of late begins where the log ends."""
    fixture = Fixture(tmp_path)
    for at_s in range(1, 120):
        fixture.log.add(fixture.stamper.stamp(CtlPhase("chaos"), at_s * S))
        fixture.log.release(at_s * S, heard_us=10 * S)
        if at_s in (60, 99):
            written = sum(1 for _ in merged(tmp_path))
            assert written == (10 if at_s == 60 else 40)
    fixture.stalled("broker-1", 9.5, 61)
    assert [line for line in fixture.told() if "busy" in line] == [
        "59 start busy-machine-1 broker-1",
        "61 stop busy-machine-1 broker-1",
    ]
