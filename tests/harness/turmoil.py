"""A second of faults for the toys: cuts, delays, crashes, pauses, all at once."""

from __future__ import annotations

from actors.control import (
    AnyAction,
    Crash,
    InstallRule,
    Invoke,
    LinkRule,
    Pause,
    RemoveRule,
    Restart,
    Resume,
)
from tests.harness.toys import Script

LENGTH_US = 1_500_000


def turmoil() -> Script:
    """A script of every kind of fault that the control vocabulary knows."""
    at: dict[int, list[AnyAction]] = {
        100_000: [InstallRule(LinkRule("cut", "hold", ["producer-1"], ["broker-1", "broker-2"]))],
        150_000: [InstallRule(LinkRule("slow", "delay", ["broker-2"], ["producer-1", "producer-2"], 1_000, 40_000))],
        200_000: [Crash("broker-1")],
        300_000: [Pause("producer-2"), Restart("broker-1")],
        400_000: [RemoveRule("cut"), Invoke("producer-1", "op-1", "choose")],
        500_000: [Crash("producer-1"), Resume("producer-2")],
        600_000: [Restart("producer-1"), InstallRule(LinkRule("cut-2", "hold", ["broker-1"], ["producer-1"]))],
        700_000: [Pause("broker-2"), RemoveRule("slow")],
        800_000: [Resume("broker-2"), Crash("broker-2"), Restart("broker-2")],
        1_300_000: [RemoveRule("cut-2")],
    }
    return Script(LENGTH_US, at)
