"""The segments of a replica's log, as the trace tells of them."""

from actors.trace.events import LogAppend
from orchestrator.invariants.mirrors.own_segments import OwnLog, Segment
from tests.unit.invariants.trace_builder import TP


def test_a_segment_of_which_two_processes_tell() -> None:
    """Shows that an empty segment which the next process tells of again is one segment."""
    log = OwnLog()
    log.append(LogAppend(TP, "follower", 0, 0, 0, 0, -1, -1, -1, False, ["a"], [], None), 5)
    for _ in range(2):
        log.roll(1)
    assert [each.base for each in log.segments] == [0, 1]
    assert log.segments[-1] == Segment(1)
