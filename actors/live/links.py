"""Link rules, enforced where a message arrives: requests at the server, answers and broken connections at the client.

A link carries what TCP would: under ``hold`` nothing of the source arrives, neither data nor the end of a connection,
until the rule is removed, and then in order. Control travels over Ray, so no rule can cut it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from actors.control import LinkRule

Direction = tuple[str, str]
"""Source and target node of a message."""


class Waiting(msgspec.Struct):
    """Something that has not arrived yet. ``due_us``: when a delay lets it through (0 not delayed)."""

    directions: tuple[Direction, ...]
    connection: str
    due_us: int
    deliver: Callable[[], None]


class Links:
    """What is under way to one node, and the rules that keep it.

    Within a connection the order is kept, always; a ``delay`` may change it between connections.
    """

    def __init__(self, node: str, loop: asyncio.AbstractEventLoop, draws: random.Random) -> None:
        self.node = node
        self._loop = loop
        self._draws = draws
        self._rules: dict[str, LinkRule] = {}
        self._held: dict[str, int] = {}
        self._waiting: list[Waiting] = []
        self._timer: asyncio.TimerHandle | None = None

    def enforces(self, rule: LinkRule) -> bool:
        """Whether this node is the one that keeps messages back under the rule."""
        return self.node in rule.targets

    def install(self, rule: LinkRule) -> None:
        """Put a rule in force for whatever arrives from now on; a rule of the same id is replaced."""
        self._rules[rule.id] = rule
        self._held.setdefault(rule.id, 0)

    def remove(self, rule_id: str) -> LinkRule | None:
        """End a rule: what nothing else keeps is delivered now. None: there was no such rule."""
        rule = self._rules.pop(rule_id, None)
        if rule is not None:
            self._pump()
        return rule

    def rule(self, rule_id: str) -> LinkRule | None:
        """The rule in force under this id."""
        return self._rules.get(rule_id)

    def held(self, rule_id: str) -> int:
        """How many messages the rule has kept back so far."""
        return self._held.get(rule_id, 0)

    def arrive(self, directions: tuple[Direction, ...], connection: str, deliver: Callable[[], None]) -> bool:
        """Something came in on ``connection`` that had to take ``directions`` (a refused connection takes both).
        Calls ``deliver`` now or later; True: now."""
        if not self._rules and not self._waiting:
            deliver()
            return True
        holding = self._holding(directions)
        for rule in holding:
            self._held[rule.id] += 1
        due_us = self._draw_due(directions)
        behind = any(waiting.connection == connection for waiting in self._waiting)
        if not holding and not due_us and not behind:
            deliver()
            return True
        self._waiting.append(Waiting(directions, connection, due_us, deliver))
        self._arm()
        return False

    def _holding(self, directions: tuple[Direction, ...]) -> list[LinkRule]:
        return [rule for rule in self._rules.values() if rule.kind == "hold" and _covers(rule, directions)]

    def _draw_due(self, directions: tuple[Direction, ...]) -> int:
        delays = [
            self._draws.randint(rule.delay_min_us, rule.delay_max_us)
            for rule in self._rules.values()
            if rule.kind == "delay" and _covers(rule, directions)
        ]
        if not delays:
            return 0
        for rule in self._rules.values():
            if rule.kind == "delay" and _covers(rule, directions):
                self._held[rule.id] += 1
        return self._now_us() + sum(delays)

    def _pump(self) -> None:
        """Deliver, in order of arrival, all that no rule and nothing before it on its connection keeps."""
        now_us = self._now_us()
        kept: list[Waiting] = []
        free: list[Waiting] = []
        blocked: set[str] = set()
        for waiting in self._waiting:
            if waiting.connection in blocked or waiting.due_us > now_us or self._holding(waiting.directions):
                blocked.add(waiting.connection)
                kept.append(waiting)
            else:
                free.append(waiting)
        self._waiting = kept
        for waiting in free:
            waiting.deliver()
        self._arm()

    def _arm(self) -> None:
        """Wake up when the next delay is over; what is held waits for no time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_us = self._now_us()
        due = [waiting.due_us for waiting in self._waiting if waiting.due_us > now_us]
        if due:
            self._timer = self._loop.call_at(min(due) / 1e6, self._pump)

    def _now_us(self) -> int:
        return int(self._loop.time() * 1e6)


def _covers(rule: LinkRule, directions: tuple[Direction, ...]) -> bool:
    return any(source in rule.sources and target in rule.targets for source, target in directions)
