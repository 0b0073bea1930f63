"""Faults on links. They obey TCP: what crosses a partition is held, in order, and delivered when it heals; what is lost
takes its connection with it; within a connection nothing ever comes twice or in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from actors.control import CERTAIN, AnyAction, InstallRule, LinkRule, RemoveRule, RuleKind
from chaos.faults.base import Aimed, Fault
from chaos.scenario.durations import format_chance, format_duration
from chaos.scenario.selectors import Selector, select
from chaos.view import ClusterView


class Reach(msgspec.Struct, frozen=True):
    """Which messages: from ``sources`` to ``targets``, and back if ``both_ways``. Without targets: to and from
    every other node of the run."""

    sources: tuple[Selector, ...]
    targets: tuple[Selector, ...] = ()
    both_ways: bool = False

    @property
    def isolates(self) -> bool:
        """Whether it is everything from and to the sources."""
        return self.both_ways and not self.targets

    def links(self, view: ClusterView, nodes: Sequence[str]) -> list[tuple[list[str], list[str]]]:
        """Pairs of sources and targets, one for each direction; [] if a side is empty now."""
        sources = select(self.sources, view, nodes)
        chosen = select(self.targets, view, nodes) if self.targets else list(nodes)
        targets = [name for name in chosen if name not in sources]
        if not sources or not targets:
            return []
        return [(sources, targets), (targets, sources)] if self.both_ways else [(sources, targets)]

    def describe(self) -> str:
        """In the scenario's words."""
        sources = ", ".join(map(str, self.sources))
        if not self.targets:
            return f"isolating {sources}"
        targets = ", ".join(map(str, self.targets))
        return f"between {sources} and {targets}" if self.both_ways else f"from {sources} to {targets}"


class _LinkFault(Fault, frozen=True):
    """A fault that is a rule on links."""

    reach: Reach
    rule_kind: ClassVar[RuleKind] = "hold"

    def delays_us(self) -> tuple[int, int]:
        """Bounds of the delay a message gets."""
        return (0, 0)

    def chance(self) -> tuple[int, list[str]]:
        """Parts per million of the messages that are hit, and of which APIs ([] all)."""
        return (CERTAIN, [])

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        low, high = self.delays_us()
        chance_ppm, apis = self.chance()
        rules = [
            LinkRule(f"{fault}/{number}", self.rule_kind, sources, targets, low, high, chance_ppm, apis)
            for number, (sources, targets) in enumerate(self.reach.links(view, nodes), 1)
        ]
        if not rules:
            return None
        begin: list[AnyAction] = [InstallRule(rule) for rule in rules]
        end: list[AnyAction] = [RemoveRule(rule.id) for rule in rules]
        parameters: dict[str, Any] = {
            "from": rules[0].sources,
            "to": rules[0].targets,
            "both_ways": self.reach.both_ways,
            "delay_min_us": low,
            "delay_max_us": high,
        }
        if chance_ppm < CERTAIN or apis:
            parameters |= {"chance_ppm": chance_ppm, "apis": apis}
        targets = [*rules[0].sources, *rules[0].targets]
        silent = rules[0].sources if self.rule_kind == "hold" and self.reach.isolates else []
        return Aimed(self.kind, targets, parameters, begin, end, rules=[rule.id for rule in rules], silent=silent)

    def describe(self) -> str:
        return self.reach.describe()


class NetworkPartition(_LinkFault, frozen=True):
    """Messages on the links wait until the partition heals. Connections stay open, senders' timers run on."""

    kind: ClassVar[str] = "partition"


class NetworkDelay(_LinkFault, frozen=True):
    """Messages on the links take longer; order on a connection is kept."""

    kind: ClassVar[str] = "delay"
    rule_kind: ClassVar[RuleKind] = "delay"

    by_us: int = 0
    jitter_us: int = 0
    apis: tuple[str, ...] = ()

    def delays_us(self) -> tuple[int, int]:
        return (self.by_us, self.by_us + self.jitter_us)

    def chance(self) -> tuple[int, list[str]]:
        return (CERTAIN, list(self.apis))

    def describe(self) -> str:
        jitter = f" to {format_duration(self.by_us + self.jitter_us)}" if self.jitter_us else ""
        apis = f" for {', '.join(self.apis)}" if self.apis else ""
        return f"of {format_duration(self.by_us)}{jitter}{apis} {self.reach.describe()}"


class _ByChance(_LinkFault, frozen=True):
    """A fault that hits messages as drawn: ``chance_ppm`` of a million, of ``apis`` (names) where any are given."""

    chance_ppm: int
    apis: tuple[str, ...] = ()

    def chance(self) -> tuple[int, list[str]]:
        return (self.chance_ppm, list(self.apis))

    def describe(self) -> str:
        apis = f" of {', '.join(self.apis)}" if self.apis else ""
        return f"{format_chance(self.chance_ppm)}{apis} {self.reach.describe()}"


class NetworkDrop(_ByChance, frozen=True):
    """Messages are lost, and their connections with them; whether the receiver of a request has acted is drawn."""

    kind: ClassVar[str] = "drop"
    rule_kind: ClassVar[RuleKind] = "drop"


class NetworkDuplicate(_ByChance, frozen=True):
    """Requests are served, and their connections break before the answer: the client's retry is the second copy."""

    kind: ClassVar[str] = "duplicate"
    rule_kind: ClassVar[RuleKind] = "duplicate"


class NetworkReorder(_ByChance, frozen=True, kw_only=True):
    """Messages take up to ``by_us`` longer, so that those of other connections overtake them."""

    kind: ClassVar[str] = "reorder"
    rule_kind: ClassVar[RuleKind] = "reorder"

    by_us: int

    def delays_us(self) -> tuple[int, int]:
        return (1, self.by_us)

    def describe(self) -> str:
        return f"{super().describe()}, by up to {format_duration(self.by_us)}"
