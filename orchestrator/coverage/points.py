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
    "vote-granted",
    "voters-written",
    "voters-undone",
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
    "proposed",
    "demoted",
    "fenced",
    "unfenced",
    "leaving",
    "stopped",
    "restarted",
    "configured",
    "produce-error",
    "send-lost",
    "list-error",
    "fetch-error",
    "position-reset",
)
"""Steps of the protocol, which are set against faults and against what is under way."""

UNDER_WAY: dict[str, str] = {
    "quorum-election": "a voter stands",
    "epoch-unheard": "the quorum has a leader that some voter has not heard of",
    "voter-change": "a set of voters is written and not committed",
    "leaderless": "a topic partition has no leader",
    "taking-over": "a leader is elected, and has not taken that up",
    "two-leaders": "a leader has not heard that it is none",
    "client-unaware": "a client has not heard of a leader",
    "metadata-unheard": "a broker has not heard of a topic partition's last change",
    "isr-change": "a proposal of another ISR is on its way",
    "rejoining": "a replica that is not in the ISR fetches",
    "lagging": "a leader's high watermark is below the start of its epoch, and it refuses ListOffsets (KIP-207)",
    "diverging": "a follower is to cut its log, and has not done so",
    "after-unclean": "the ISR is not whole again after an unclean election",
    "returning": "a server that started anew is not back: a broker is fenced, a voter knows no leader",
    "leaving": "a broker has asked to be shut down",
    "retrying": "a producer has met an error, and no send has returned since",
}
"""What can be under way -> what that means. The steps of the protocol are set against it."""


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
        self._under_way: dict[str, dict[str, set[str]]] = {"": {}, QUORUM: {}}
        """Topic partition -> what is under way -> for whom."""

    def handlers(self) -> dict[type, Handler]:
        """Event type -> what to do about it."""
        return {CtlFault: self._on_fault}

    def step(self, event: Stamped, name: str, tp: str = "") -> None:
        """A step of the protocol was taken: note it with the one before, of the same topic partition, and with the
        faults that count.

        - ``then/<step>/<step>``: two steps about one topic partition (or about the quorum, or brokers) in a row;
        - ``during/<fault>/<role>/<step>``: a step while a fault counts that hit this role;
        - ``amid/<what is under way>/<step>``: a step while something is under way in the same topic partition, in the
          quorum or among brokers, which have to do with all of them.
        """
        last = self._last.get(tp)
        if last != name:
            self._last[tp] = name
            self.found.add(("then", last or "start", name))
        scopes = self._under_way if tp in ("", QUORUM) else ("", QUORUM, tp)
        for scope in scopes:
            for interval in self._under_way.get(scope, ()):
                self.found.add(("amid", interval, name))
        if 0 <= self._expires_us <= event.wall:
            self._expire(event.wall)
        if self.active and (name, tp) not in self._noted:
            self._noted.add((name, tp))
            for each in self.active:
                for role in each.roles(tp):
                    self.found.add(("during", each.kind, role, name))

    def begin(self, interval: str, tp: str, *whose: str) -> None:
        """From now on something is under way in a topic partition, for these."""
        if whose:
            self._under_way.setdefault(tp, {}).setdefault(interval, set()).update(whose)

    def end(self, interval: str, tp: str, *whose: str) -> None:
        """It no longer is, for these."""
        there = self._under_way.get(tp)
        if there and interval in there:
            there[interval].difference_update(whose)
            if not there[interval]:
                del there[interval]

    def forget(self, node: str) -> None:
        """Nothing is under way for a node any more."""
        for tp, there in self._under_way.items():
            for interval in list(there):
                self.end(interval, tp, node)

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
