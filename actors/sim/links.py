"""The link rules in force in a sim run: what they keep back, slow down and break, as drawn."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Literal

from actors.control import Link, LinkRule
from actors.sim.draws import uniform


class LinkRules:
    """Rules by the links that they are about. ``draws`` serves delays by ``delay``; ``stream`` gives the
    stream of a link, which serves all that is hit by chance."""

    def __init__(self, draws: Random, stream: Callable[[str, str], Random]) -> None:
        self.holds: dict[Link, list[str]] = {}
        """Ids of the rules that keep back what one node sends to another."""
        self.slows: dict[Link, list[LinkRule]] = {}
        self.severs: dict[Link, list[LinkRule]] = {}
        self._rules: dict[str, LinkRule] = {}
        self._counts: dict[str, int] = {}
        self._draws = draws
        self._stream = stream
        self._streams: dict[Link, Random] = {}

    def install(self, rule: LinkRule) -> None:
        """Put a rule in force."""
        assert rule.id not in self._rules, f"link rule {rule.id} is in force already"
        self._rules[rule.id] = rule
        self._counts[rule.id] = 0
        self._index()

    def remove(self, rule_id: str) -> tuple[LinkRule, int]:
        """End a rule. Returns it and how many messages it concerned."""
        rule = self._rules.pop(rule_id)
        self._index()
        return rule, self._counts.pop(rule_id)

    def _index(self) -> None:
        self.holds, self.slows, self.severs = {}, {}, {}
        for rule in self._rules.values():
            for source in rule.sources:
                for target in rule.targets:
                    link = (source, target)
                    if rule.severs:
                        self.severs.setdefault(link, []).append(rule)
                    elif rule.slows:
                        self.slows.setdefault(link, []).append(rule)
                    else:
                        self.holds.setdefault(link, []).append(rule.id)

    def count_held(self, link: Link) -> None:
        """Count a message that is kept back."""
        for rule_id in self.holds[link]:
            self._counts[rule_id] += 1

    def delay_us(self, link: Link, api: str) -> int:
        """How much longer a message takes. ``api``: name of its API, "" for the end of a connection."""
        total = 0
        for rule in self.slows.get(link, ()):
            if (rule.apis or rule.kind == "reorder") and not rule.hits(api, self._drawn_for(link).randrange):
                continue
            self._counts[rule.id] += 1
            draws = self._draws if rule.kind == "delay" else self._drawn_for(link)
            total += uniform(draws, rule.delay_min_us, rule.delay_max_us)
        return total

    def hit(self, link: Link, api: str, request: bool) -> tuple[LinkRule, Literal["request", "reply"]] | None:
        """The first rule that severs the connection of a message, if one does, and what is lost then."""
        for rule in self.severs[link]:
            if (request or rule.kind == "drop") and rule.hits(api, self._drawn_for(link).randrange):
                self._counts[rule.id] += 1
                return rule, rule.loses(request, self._drawn_for(link).randrange)
        return None

    def _drawn_for(self, link: Link) -> Random:
        found = self._streams.get(link)
        if found is None:
            found = self._streams[link] = self._stream(*link)
        return found
