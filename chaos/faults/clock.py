"""Faults on the clocks of nodes' machines: on what a node reads, and its timers run on. The trace has the true time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from actors.control import AnyAction, ClockSkew, RestoreClock, SkewClock
from chaos.faults.base import Aimed, Fault
from chaos.scenario.durations import format_offset, format_rate
from chaos.scenario.selectors import Selector, select
from chaos.view import ClusterView


class _ClockFault(Fault, frozen=True):
    """A fault of the clocks of nodes that no other fault has stopped."""

    nodes: tuple[Selector, ...]

    def error(self) -> tuple[int, int]:
        """How far off the wall clock is (us), and how much too fast both clocks run (parts per million)."""
        raise NotImplementedError

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        chosen = [name for name in select(self.nodes, view, nodes) if name not in busy]
        if not chosen:
            return None
        offset_us, rate_ppm = self.error()
        skew = ClockSkew(fault, offset_us, rate_ppm)
        begin: list[AnyAction] = [SkewClock(name, skew) for name in chosen]
        end: list[AnyAction] = [RestoreClock(name, fault) for name in chosen]
        parameters = {"offset_us": offset_us, "rate_ppm": rate_ppm}
        return Aimed(self.kind, chosen, parameters, begin, end, rules=[f"{fault}/{name}" for name in chosen])


class SkewedClock(_ClockFault, frozen=True):
    """The clock is off by an offset, runs at a wrong rate, or both; afterwards it is right again."""

    kind: ClassVar[str] = "clock-skew"

    offset_us: int = 0
    rate_ppm: int = 0

    def error(self) -> tuple[int, int]:
        return (self.offset_us, self.rate_ppm)

    def describe(self) -> str:
        parts = [format_offset(self.offset_us)] if self.offset_us else []
        parts += [f"at a rate of {format_rate(self.rate_ppm)}"] if self.rate_ppm else []
        return f"{' '.join(parts)} on {', '.join(map(str, self.nodes))}"


class ClockJump(_ClockFault, frozen=True):
    """The wall clock steps, and at the end steps back."""

    kind: ClassVar[str] = "clock-jump"

    by_us: int

    def error(self) -> tuple[int, int]:
        return (self.by_us, 0)

    def describe(self) -> str:
        return f"by {format_offset(self.by_us)} on {', '.join(map(str, self.nodes))}"
