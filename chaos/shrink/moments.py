"""What was seen in a run and when: moments of the protocol that a step of the schedule can wait for.

A time means the same only in the sim. What is seen is a barrier in both runtimes: the node that records it does nothing
more until the fault is in force. So a step whose time matters because of what the nodes are just doing is better told
by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from actors.control import Predicate
from actors.trace.events import CtlPhase, Stamped, TraceEvent
from chaos.scenario.durations import format_duration
from chaos.scenario.triggers import TRIGGERS, matches

CHANGES = (
    "leader-elected",
    "isr-shrunk",
    "isr-expanded",
    "unclean-election",
    "quorum-leader-elected",
    "truncated",
    "broker-fenced",
    "broker-unfenced",
    "node-down",
    "node-restarted",
)
"""Triggers that tell of changes of the cluster's state. The others, such as ``committed``, come with every record."""
DELAY_MAX_US = 2_000_000
"""A step later than this after something has nothing to do with it."""
CANDIDATES_MAX = 4
"""Moments that are tried for one step."""


class Sighting(msgspec.Struct, frozen=True):
    """Something seen. us: when, since time 0. nth: it is the n-th of its kind from time 0 on."""

    us: int
    name: str
    arguments: dict[str, Any]
    nth: int


class Lookout:
    """Notes every change of the cluster from time 0 on. Takes the events of a run in order."""

    def __init__(self) -> None:
        self.zero_us: int | None = None
        self.sightings: list[Sighting] = []
        self._counts: dict[str, int] = {}
        self._by_type: dict[type[TraceEvent], list[str]] = {}
        for name in CHANGES:
            self._by_type.setdefault(TRIGGERS[name].type, []).append(name)

    def __call__(self, event: Stamped) -> None:
        if isinstance(event.body, CtlPhase) and event.body.phase == "chaos":
            self.zero_us = event.wall
        if self.zero_us is None:
            return
        for name in self._by_type.get(type(event.body), ()):
            arguments = _arguments(name, event)
            if matches(Predicate(name, arguments), event):
                key = f"{name} {sorted(arguments.items())}"
                self._counts[key] = self._counts.get(key, 0) + 1
                self.sightings.append(Sighting(event.wall - self.zero_us, name, arguments, self._counts[key]))


def _arguments(name: str, event: Stamped) -> dict[str, Any]:
    """What makes it this one: the partition where it is about one, else the broker; of nodes that come and go, the
    node."""
    known = {argument.name for argument in TRIGGERS[name].arguments}
    if "tp" in known and event.tp:
        return {"tp": event.tp}
    if "broker" in known:
        return {"broker": f"broker-{getattr(event.body, 'broker', 0)}"}
    return {"node": event.node} if name.startswith("node-") else {}


def moments_before(sightings: Sequence[Sighting], us: int) -> list[Sighting]:
    """Of each kind the last that was seen before a time, the nearest first: at most a few. What is seen at that very
    time may be what the step itself did."""
    latest: dict[str, Sighting] = {}
    for each in sightings:
        if us - DELAY_MAX_US <= each.us < us:
            latest[f"{each.name} {sorted(each.arguments.items())}"] = each
    return list(_first(sorted(latest.values(), key=lambda each: us - each.us)))


def _first(found: list[Sighting]) -> Iterator[Sighting]:
    names: set[str] = set()
    for each in found:
        if each.name not in names and len(names) < CANDIDATES_MAX:
            names.add(each.name)
            yield each


def as_moment(sighting: Sighting, us: int) -> dict[str, Any]:
    """The time ``us`` as a moment of the scenario language: so much after something was seen."""
    moment: dict[str, Any] = {"seen": {sighting.name: dict(sighting.arguments)}}
    if sighting.nth > 1:
        moment["nth"] = sighting.nth
    delay_us = us - sighting.us
    return moment | ({"delay": format_duration(delay_us)} if delay_us else {})
