"""The link rules in force in a sim run: what they keep back, slow down and break, as drawn."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Literal

from actors.control import LinkRule
from actors.sim.draws import uniform

Pair = tuple[str, str]
"""Source and target node of a message."""


class LinkRules:
    """Rules by the pairs of nodes that they are about. ``draws`` serves delays by ``delay``; ``stream`` gives the
    stream of a pair, which serves all that is hit by chance."""

    def __init__(self, draws: Random, stream: Callable[[str, str], Random]) -> None:
        self.holds: dict[Pair, list[str]] = {}
        """Ids of the rules that keep back what one node sends to another."""
        self.slows: dict[Pair, list[LinkRule]] = {}
        self.breaks: dict[Pair, list[LinkRule]] = {}
        self._rules: dict[str, LinkRule] = {}
        self._counts: dict[str, int] = {}
        self._draws = draws
        self._stream = stream
        self._streams: dict[Pair, Random] = {}

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
        self.holds, self.slows, self.breaks = {}, {}, {}
        for rule in self._rules.values():
            for source in rule.sources:
                for target in rule.targets:
                    pair = (source, target)
                    if rule.breaks:
                        self.breaks.setdefault(pair, []).append(rule)
                    elif rule.slows:
                        self.slows.setdefault(pair, []).append(rule)
                    else:
                        self.holds.setdefault(pair, []).append(rule.id)

    def kept(self, pair: Pair) -> None:
        """Count a message that is kept back."""
        for rule_id in self.holds[pair]:
            self._counts[rule_id] += 1

    def delay_us(self, pair: Pair, api: str) -> int:
        """How much longer a message takes. ``api``: name of its API, "" for the end of a connection."""
        total = 0
        for rule in self.slows.get(pair, ()):
            if (rule.apis or rule.kind == "reorder") and not rule.hits(api, self._drawn_for(pair).randrange):
                continue
            self._counts[rule.id] += 1
            draws = self._draws if rule.kind == "delay" else self._drawn_for(pair)
            total += uniform(draws, rule.delay_min_us, rule.delay_max_us)
        return total

    def strike(self, pair: Pair, api: str, request: bool) -> tuple[LinkRule, Literal["request", "reply"]] | None:
        """The first rule that breaks the connection of a message, if one does, and what is lost then."""
        for rule in self.breaks[pair]:
            if (request or rule.kind == "drop") and rule.hits(api, self._drawn_for(pair).randrange):
                self._counts[rule.id] += 1
                return rule, rule.loses(request, self._drawn_for(pair).randrange)
        return None

    def _drawn_for(self, pair: Pair) -> Random:
        found = self._streams.get(pair)
        if found is None:
            found = self._streams[pair] = self._stream(*pair)
        return found
