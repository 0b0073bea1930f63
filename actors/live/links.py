"""Link rules, enforced where a message arrives: requests at the server, responses and broken connections at the client.

A link carries what TCP would: under ``hold`` nothing of the source arrives, neither data nor the end of a connection,
until the rule is removed, and then in order; ``drop`` and ``duplicate`` sever the connection of a message that they
hit, when it would arrive. Control travels over Ray, so no rule can cut it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Literal

import msgspec

from actors.control import Link, LinkRule
from actors.trace.events import LinkHit

Lost = Literal["request", "reply"]


class Severable(msgspec.Struct, frozen=True):
    """What a rule may hit of something that arrives: a message. number, api: of the request, or of the one that is
    answered. request: whether it is the request. sever: called in place of delivery, with the rule and what is lost;
    False: its connection is severed or about to be already, so it is delivered as ever."""

    number: int
    api: str
    request: bool
    sever: Callable[[str, Lost], bool]


class InTransit(msgspec.Struct):
    """A message, or the end of a connection, that has not arrived yet. ``due_us``: when a delay lets it through (0 not
    delayed). ``severable``: None for the end of a connection."""

    links: tuple[Link, ...]
    connection: str
    due_us: int
    deliver: Callable[[], None]
    severable: Severable | None = None


class Links:
    """What is in transit to one node, and the rules that keep it.

    Within a connection the order is kept, always; a ``delay`` or a ``reorder`` may change it between connections.
    ``stream`` gives the stream of draws for a source; ``on_hit`` hears of every connection that a rule severs.
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
        self._in_transit: list[InTransit] = []
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
        links: tuple[Link, ...],
        connection: str,
        deliver: Callable[[], None],
        severable: Severable | None = None,
    ) -> bool:
        """Something came in on ``connection`` that had to take ``links`` (a refused connection takes both).
        Calls ``deliver`` now or later, or ``severable.sever`` in its place; True: now."""
        if not self._rules and not self._in_transit:
            deliver()
            return True
        sent = InTransit(links, connection, 0, deliver, severable)
        holding = self._holding(links)
        for rule in holding:
            self._held[rule.id] += 1
        sent.due_us = self._draw_due(sent)
        behind = any(other.connection == connection for other in self._in_transit)
        if not holding and not sent.due_us and not behind:
            self._accept(sent)
            return True
        self._in_transit.append(sent)
        self._arm()
        return False

    def _holding(self, links: tuple[Link, ...]) -> list[LinkRule]:
        if self._leaky:
            return []
        return [rule for rule in self._rules.values() if rule.kind == "hold" and _covers(rule, links)]

    def _draw_due(self, sent: InTransit) -> int:
        """When the delays of a message are over, 0 if there is none."""
        draws = self._drawn_for(sent)
        api = "" if sent.severable is None else sent.severable.api
        due_us = 0
        for rule in self._rules.values():
            if rule.slows and _covers(rule, sent.links) and rule.hits(api, draws.randrange):
                self._held[rule.id] += 1
                due_us = (due_us or self._now_us()) + draws.randint(rule.delay_min_us, rule.delay_max_us)
        return due_us

    def _accept(self, sent: InTransit) -> None:
        """Deliver something, unless a rule hits it now that it arrives."""
        severable = sent.severable
        if severable is not None:
            draws = self._drawn_for(sent)
            for rule in self._rules.values():
                may = rule.severs and (severable.request or rule.kind == "drop") and _covers(rule, sent.links)
                if may and rule.hits(severable.api, draws.randrange):
                    lost = rule.loses(severable.request, draws.randrange)
                    if severable.sever(rule.id, lost):
                        self._hit(rule, sent.connection, severable, lost)
                        return
        sent.deliver()

    def _hit(self, rule: LinkRule, connection: str, severable: Severable, lost: Lost) -> None:
        self._held[rule.id] += 1
        kind: Literal["drop", "duplicate"] = "duplicate" if rule.kind == "duplicate" else "drop"
        self._on_hit(LinkHit(rule.id, kind, connection, severable.number, severable.api, lost))

    def _drawn_for(self, sent: InTransit) -> random.Random:
        source = sent.links[0][0]
        found = self._streams.get(source)
        if found is None:
            found = self._streams[source] = self._stream(source)
        return found

    def _pump(self) -> None:
        """Deliver, in order of arrival, all that no rule and nothing before it on its connection keeps."""
        now_us = self._now_us()
        kept: list[InTransit] = []
        free: list[InTransit] = []
        blocked: set[str] = set()
        for sent in self._in_transit:
            if sent.connection in blocked or sent.due_us > now_us or self._holding(sent.links):
                blocked.add(sent.connection)
                kept.append(sent)
            else:
                free.append(sent)
        self._in_transit = kept
        for sent in free:
            self._accept(sent)
        self._arm()

    def _arm(self) -> None:
        """Wake up when the next delay is over; what is held waits for no time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_us = self._now_us()
        due = [sent.due_us for sent in self._in_transit if sent.due_us > now_us]
        if due:
            self._timer = self._loop.call_at(min(due) / 1e6, self._pump)

    def _now_us(self) -> int:
        return int(self._loop.time() * 1e6)


def _covers(rule: LinkRule, links: tuple[Link, ...]) -> bool:
    return any(source in rule.sources and target in rule.targets for source, target in links)
