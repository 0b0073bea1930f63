"""Faults on the clocks of nodes' machines: on what a node reads, and its timers run on. The trace has the true time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from actors.control import AnyAction, ClockSkew, RestoreClock, SkewClock
from chaos.faults.base import Aimed, Fault, Told
from chaos.faults.process import chosen
from chaos.scenario.durations import Malformed, format_offset, format_rate
from chaos.scenario.scalars import Offset, RateChange, Selectors
from chaos.view import ClusterView

if TYPE_CHECKING:
    from chaos.nemesis.scene import Part, Scene


class ClockFault(Fault):
    """A fault of the clocks of nodes that no other fault has stopped."""

    nodes: Selectors

    def error(self) -> tuple[int, int]:
        """How far off the wall clock is (us), and how much too fast both clocks run (parts per million)."""
        raise NotImplementedError

    def aim(self, fault: str, view: ClusterView, nodes: Sequence[str], busy: frozenset[str]) -> Aimed | None:
        hit = chosen(self.nodes, view, nodes, busy)
        if not hit:
            return None
        offset_us, rate_ppm = self.error()
        skew = ClockSkew(fault, offset_us, rate_ppm)
        begin: list[AnyAction] = [SkewClock(name, skew) for name in hit]
        end: list[AnyAction] = [RestoreClock(name, fault) for name in hit]
        parameters = {"offset_us": offset_us, "rate_ppm": rate_ppm}
        return Aimed(self.kind, hit, parameters, begin, end, rules=[f"{fault}/{name}" for name in hit])


class SkewedClock(ClockFault):
    """The clock of a node's machine is off, or runs at a wrong rate, or both; afterwards it is right again."""

    kind = "clock-skew"
    told = (
        Told(
            "clock-skew: {nodes: A, offset: -500ms, rate: +10%}",
            "the wall clock of A's machines is off by `offset` (`+` ahead, `-` behind, at most 24 h), and both clocks "
            "run too fast or too slowly by `rate` (-90% to +900%); one of the two is enough. At the end both are "
            "corrected. Later processes on the machine have the wrong clock, too",
            "the node's host adjusts the node's time and its timers",
            "the node's runtime does",
            "`clock.set`",
        ),
    )

    offset: Offset | None = Field(None, description="How far the wall clock is ahead (behind: negative).")
    rate: RateChange | None = Field(None, description="How much too fast both clocks run (too slowly: negative).")

    @model_validator(mode="after")
    def _wrong(self) -> SkewedClock:
        if self.offset is None and self.rate is None:
            raise Malformed("the clock is not changed", "offset, rate or both")
        return self

    def error(self) -> tuple[int, int]:
        return (self.offset or 0, self.rate or 0)

    def describe(self) -> str:
        parts = [format_offset(self.offset)] if self.offset else []
        parts += [f"at a rate of {format_rate(self.rate)}"] if self.rate else []
        return f"{' '.join(parts)} on {', '.join(map(str, self.nodes))}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        rate = {"rate": scene.pick(scene.nemesis.like.clock_rate)}
        wrong = scene.draw.choice(({"offset": _offset(scene)}, rate, {"offset": _offset(scene), **rate}))
        return {"nodes": scene.some(), **wrong}


class ClockJump(ClockFault):
    """The wall clock of a node's machine steps; at the end it steps back."""

    kind = "clock-jump"
    told = (
        Told(
            "clock-jump: {nodes: A, by: +3s}",
            "the wall clock of A's machines steps, and at the end steps back",
            "as above",
            "as above",
            "`clock.set`",
        ),
    )

    by: Offset

    def error(self) -> tuple[int, int]:
        return (self.by, 0)

    def describe(self) -> str:
        return f"by {format_offset(self.by)} on {', '.join(map(str, self.nodes))}"

    @classmethod
    def draw(cls, scene: Scene) -> Part:
        return {"nodes": scene.some(), "by": _offset(scene)}


def _offset(scene: Scene) -> str:
    return format_offset(scene.pick(scene.nemesis.like.clock) * scene.draw.choice((1, -1)))
