"""Link rules, enforced where a message arrives: requests at the server, answers and broken connections at the client.

A link carries what TCP would: under ``hold`` nothing of the source arrives, neither data nor the end of a connection,
until the rule is removed, and then in order; ``drop`` and ``duplicate`` break the connection of a message that they
hit, when it would arrive. Control travels over Ray, so no rule can cut it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Literal

import msgspec

from actors.control import LinkRule
from actors.trace.events import LinkHit

Direction = tuple[str, str]
"""Source and target node of a message."""


Lost = Literal["request", "reply"]


class Fragile(msgspec.Struct, frozen=True):
    """What a rule may hit of something that arrives: a message. number, api: of the request, or of the one that is
    answered. request: whether it is the request. lose: called in place of delivery, with the rule and what is lost;
    False: its connection is broken or about to break already, so it is delivered as ever."""

    number: int
    api: str
    request: bool
    lose: Callable[[str, Lost], bool]


class Waiting(msgspec.Struct):
    """Something that has not arrived yet. ``due_us``: when a delay lets it through (0 not delayed). ``fragile``: None
    for the end of a connection."""

    directions: tuple[Direction, ...]
    connection: str
    due_us: int
    deliver: Callable[[], None]
    fragile: Fragile | None = None


class Links:
    """What is under way to one node, and the rules that keep it.

    Within a connection the order is kept, always; a ``delay`` or a ``reorder`` may change it between connections.
    ``stream`` gives the stream of draws for a source; ``on_hit`` hears of every connection that a rule breaks.
    ``leaky``: a defect, by which nothing is held.
    """

    def __init__(
        self,
        node: str,
        loop: asyncio.AbstractEventLoop,
        stream: Callable[[str], random.Random],
        on_hit: Callable[[LinkHit], None],
        leaky: bool = False,
    ) -> None:
        self.node = node
        self._loop = loop
        self._stream = stream
        self._on_hit = on_hit
        self._leaky = leaky
        self._streams: dict[str, random.Random] = {}
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
        """How many messages the rule has kept back, slowed down or hit so far."""
        return self._held.get(rule_id, 0)

    def arrive(
        self,
        directions: tuple[Direction, ...],
        connection: str,
        deliver: Callable[[], None],
        fragile: Fragile | None = None,
    ) -> bool:
        """Something came in on ``connection`` that had to take ``directions`` (a refused connection takes both).
        Calls ``deliver`` now or later, or ``fragile.lose`` in its place; True: now."""
        if not self._rules and not self._waiting:
            deliver()
            return True
        waiting = Waiting(directions, connection, 0, deliver, fragile)
        holding = self._holding(directions)
        for rule in holding:
            self._held[rule.id] += 1
        waiting.due_us = self._draw_due(waiting)
        behind = any(other.connection == connection for other in self._waiting)
        if not holding and not waiting.due_us and not behind:
            self._let_in(waiting)
            return True
        self._waiting.append(waiting)
        self._arm()
        return False

    def _holding(self, directions: tuple[Direction, ...]) -> list[LinkRule]:
        if self._leaky:
            return []
        return [rule for rule in self._rules.values() if rule.kind == "hold" and _covers(rule, directions)]

    def _draw_due(self, waiting: Waiting) -> int:
        """When the delays of a message are over, 0 if there is none."""
        draws = self._drawn_for(waiting)
        api = "" if waiting.fragile is None else waiting.fragile.api
        due_us = 0
        for rule in self._rules.values():
            if rule.slows and _covers(rule, waiting.directions) and rule.hits(api, draws.randrange):
                self._held[rule.id] += 1
                due_us = (due_us or self._now_us()) + draws.randint(rule.delay_min_us, rule.delay_max_us)
        return due_us

    def _let_in(self, waiting: Waiting) -> None:
        """Deliver something, unless a rule hits it now that it arrives."""
        fragile = waiting.fragile
        if fragile is not None:
            draws = self._drawn_for(waiting)
            for rule in self._rules.values():
                may = rule.breaks and (fragile.request or rule.kind == "drop") and _covers(rule, waiting.directions)
                if may and rule.hits(fragile.api, draws.randrange):
                    lost = rule.loses(fragile.request, draws.randrange)
                    if fragile.lose(rule.id, lost):
                        self._hit(rule, waiting.connection, fragile, lost)
                        return
        waiting.deliver()

    def _hit(self, rule: LinkRule, connection: str, fragile: Fragile, lost: Lost) -> None:
        self._held[rule.id] += 1
        kind: Literal["drop", "duplicate"] = "duplicate" if rule.kind == "duplicate" else "drop"
        self._on_hit(LinkHit(rule.id, kind, connection, fragile.number, fragile.api, lost))

    def _drawn_for(self, waiting: Waiting) -> random.Random:
        source = waiting.directions[0][0]
        found = self._streams.get(source)
        if found is None:
            found = self._streams[source] = self._stream(source)
        return found

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
            self._let_in(waiting)
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
