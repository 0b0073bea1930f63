"""Faults on links. They obey TCP: what crosses a partition is held, in order, and delivered when it heals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec

from actors.control import AnyAction, InstallRule, LinkRule, RemoveRule
from chaos.faults.base import Aimed, Fault
from chaos.scenario.durations import format_duration
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
    rule_kind: ClassVar[Literal["hold", "delay"]] = "hold"

    def delays_us(self) -> tuple[int, int]:
        """Bounds of the delay a message gets."""
        return (0, 0)

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        low, high = self.delays_us()
        rules = [
            LinkRule(f"{fault}/{number}", self.rule_kind, sources, targets, low, high)
            for number, (sources, targets) in enumerate(self.reach.links(view, nodes), 1)
        ]
        if not rules:
            return None
        begin: list[AnyAction] = [InstallRule(rule) for rule in rules]
        end: list[AnyAction] = [RemoveRule(rule.id) for rule in rules]
        parameters = {
            "from": rules[0].sources,
            "to": rules[0].targets,
            "both_ways": self.reach.both_ways,
            "delay_min_us": low,
            "delay_max_us": high,
        }
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
    rule_kind: ClassVar[Literal["hold", "delay"]] = "delay"

    by_us: int = 0
    jitter_us: int = 0

    def delays_us(self) -> tuple[int, int]:
        return (self.by_us, self.by_us + self.jitter_us)

    def describe(self) -> str:
        jitter = f" to {format_duration(self.by_us + self.jitter_us)}" if self.jitter_us else ""
        return f"of {format_duration(self.by_us)}{jitter} {self.reach.describe()}"
