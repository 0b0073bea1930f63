"""Where the points of a run are collected, and under which faults each step of the protocol was taken."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actors.node.spec import METADATA_PARTITION
from actors.trace.events import CtlFault, Stamped
from orchestrator.coverage.buckets import kind_of

Point = tuple[object, ...]
"""Family first; ints and short texts."""

Handler = Callable[[Stamped], None]

LINGER_US = 1_000_000
"""A fault counts for as long as it is in force and for this long afterwards: its consequences, and those of what is
over in a moment, such as an election that an operator asked for."""

STEPS: tuple[str, ...] = (
    "quorum-standing",
    "quorum-elected",
    "quorum-resigned",
    "elected",
    "elected-unclean",
    "leaderless",
    "lagging-leader",
    "isr-shrunk",
    "isr-expanded",
    "under-min-isr",
    "eligible-replicas",
    "diverging",
    "truncated",
    "fenced",
    "unfenced",
    "restarted",
    "configured",
    "produce-error",
    "send-lost",
    "list-error",
    "fetch-error",
    "position-reset",
)
"""Steps of the protocol that faults are set against: the columns of the table of faults, roles and steps."""

QUORUM = METADATA_PARTITION
"""What the steps of the quorum are about."""


class Active(msgspec.Struct):
    """A fault that counts. leaders, controller: at its beginning. until_us: when it no longer counts, -1 while it is
    in force."""

    fault: str
    kind: str
    targets: list[str]
    leaders: dict[str, str]
    controller: str
    until_us: int = -1

    def roles(self, tp: str) -> list[str]:
        """What the targets are to a topic partition ("" none): each role once, sorted."""
        return sorted({self._role(name, tp) for name in self.targets})

    def _role(self, name: str, tp: str) -> str:
        kind = kind_of(name)
        if kind == "controller":
            return "active-controller" if name == self.controller else "voter"
        if kind != "broker":
            return "operator" if kind == "admin" else "client"
        if tp and tp != QUORUM:
            return "leader" if self.leaders.get(tp) == name else "follower"
        return "leader" if name in self.leaders.values() else "broker"


class Points:
    """Points of a run, and what is known while they are collected: the leaders of the topic partitions, the active
    controller, and the faults that count."""

    def __init__(self) -> None:
        self.found: set[Point] = set()
        self.leaders: dict[str, str] = {}
        self.controller = ""
        self.active: list[Active] = []
        self._last: dict[str, str] = {}
        self._noted: set[tuple[str, str]] = set()
        self._expires_us = -1

    def handlers(self) -> dict[type, Handler]:
        """Event type -> what to do about it."""
        return {CtlFault: self._on_fault}

    def step(self, event: Stamped, name: str, tp: str = "") -> None:
        """A step of the protocol was taken: note it with the one before, of the same topic partition, and with the
        faults that count.

        - ``then/<step>/<step>``: two steps about one topic partition (or about the quorum, or brokers) in a row;
        - ``during/<fault>/<role>/<step>``: a step while a fault counts that hit this role.
        """
        last = self._last.get(tp)
        if last != name:
            self._last[tp] = name
            self.found.add(("then", last or "start", name))
        if 0 <= self._expires_us <= event.wall:
            self._expire(event.wall)
        if self.active and (name, tp) not in self._noted:
            self._noted.add((name, tp))
            for each in self.active:
                for role in each.roles(tp):
                    self.found.add(("during", each.kind, role, name))

    def _on_fault(self, event: Stamped) -> None:
        """``fault/<kind>/<role>``: what was hit; ``faults/<kind>/<kind>``: faults of two kinds at once."""
        body = event.body
        assert type(body) is CtlFault
        self._expire(event.wall)
        if body.phase == "stop":
            for each in self.active:
                if each.fault == body.fault:
                    each.until_us = event.wall + LINGER_US
            self._expire(event.wall)
            return
        targets = body.parameters.get("from", body.targets)
        for other in self.active:
            self.found.add(("faults", *sorted((other.kind, body.kind))))
        new = Active(body.fault, body.kind, targets, dict(self.leaders), self.controller)
        self.active.append(new)
        for role in new.roles(""):
            self.found.add(("fault", body.kind, role))

    def _expire(self, now_us: int) -> None:
        self.active = [each for each in self.active if each.until_us < 0 or each.until_us > now_us]
        self._expires_us = min((each.until_us for each in self.active if each.until_us >= 0), default=-1)
        self._noted.clear()
