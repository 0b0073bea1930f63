"""Links between two nodes on which faults are in force, or were."""

from __future__ import annotations

from typing import Any, Literal

from actors.trace.events import CtlFault
from orchestrator.invariants.folds.bounds import NEVER_US
from orchestrator.invariants.folds.broken_links import BrokenLinks, Cuts

ONE, TWO, THREE = "broker-1", "broker-2", "broker-3"


class Links:
    """Faults of links, and what is known of them; ``now_us`` is one more with each."""

    def __init__(self) -> None:
        self.now_us = 0
        self.broken, self.cuts = BrokenLinks(), Cuts()

    def fault(self, phase: Literal["start", "stop"], name: str, kind: str, both_ways: bool = False) -> None:
        """One from broker-1 to broker-2 begins or ends."""
        self.now_us += 1
        parameters: dict[str, Any] = {"from": [ONE], "to": [TWO], "both_ways": both_ways, "delay_max_us": 10}
        body = CtlFault(name, kind, phase, [ONE, TWO], parameters)
        self.broken.take(body, self.now_us)
        self.cuts.take(body, self.now_us)


def test_a_link_is_whole_when_its_last_fault_is_over() -> None:
    """Shows that two nodes exchange everything again when the last of several faults between them is over, whatever the
    direction; and that other nodes are none of theirs."""
    links = Links()
    assert links.broken.whole_since_us(ONE, TWO) == 0
    links.fault("start", "f1", "drop")
    links.fault("start", "f2", "partition", both_ways=True)
    for name, whole_us in (("f1", NEVER_US), ("f2", 4)):
        links.fault("stop", name, "drop" if name == "f1" else "partition", both_ways=name == "f2")
        assert links.broken.are_between(TWO, ONE) == (whole_us == NEVER_US)
        assert links.broken.whole_since_us(ONE, TWO) == links.broken.whole_since_us(TWO, ONE) == whole_us
    assert links.broken.whole_since_us(ONE, THREE) == 0


def test_what_was_slowed_down_arrives_after_the_fault() -> None:
    """Shows that a link is whole only with the last message which it held up, and was touched when its fault ended."""
    links = Links()
    links.fault("start", "f1", "delay")
    links.fault("stop", "f1", "delay")
    assert (links.broken.touched_us(TWO, ONE), links.broken.whole_since_us(TWO, ONE)) == (2, 12)


def test_other_faults_break_no_link() -> None:
    """Shows that a fault of another kind leaves links alone."""
    links = Links()
    links.fault("start", "f1", "pause")
    assert not links.broken.are_between(ONE, TWO)
    assert not links.cuts.are_between(ONE, TWO)


def test_nothing_arrives_since_the_first_partition() -> None:
    """Shows that a link is cut by partitions alone, in their direction, from the beginning of the first one in force to
    the end of the last; and from anew when another one comes later."""
    links = Links()
    links.fault("start", "f1", "drop")
    assert links.cuts.since_us(ONE, TWO) == -1
    links.fault("start", "f2", "partition")
    links.fault("start", "f3", "partition")
    links.fault("stop", "f2", "partition")
    assert (links.cuts.since_us(ONE, TWO), links.cuts.since_us(TWO, ONE)) == (2, -1)
    assert links.cuts.are_between(TWO, ONE)
    assert not links.cuts.are_between(ONE, THREE)
    links.fault("stop", "f3", "partition")
    assert (links.cuts.since_us(ONE, TWO), links.cuts.links) == (-1, {})
    links.fault("start", "f4", "partition", both_ways=True)
    assert links.cuts.since_us(ONE, TWO) == links.cuts.since_us(TWO, ONE) == 6
