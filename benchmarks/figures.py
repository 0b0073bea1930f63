"""A figure: what was measured, round by round, and beside it the yardstick."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from orchestrator.version import __version__


class Spread(msgspec.Struct, frozen=True):
    """Several values as one: the one in the middle, and the extremes."""

    median: float
    low: float
    high: float


class Goal(msgspec.Struct, frozen=True):
    """What the ratio to the yardstick should be: ``at`` "least" or "most" ``first``; ``then`` is the next goal."""

    at: Literal["least", "most"]
    first: float
    then: float | None = None

    def verdict(self, ratio: float) -> str:
        """Which of the goals a ratio reaches, in words."""
        if not self._reached(self.first, ratio):
            return "missed"
        return "reached" if self.then is None or self._reached(self.then, ratio) else "first reached"

    def _reached(self, bound: float, ratio: float) -> bool:
        return ratio >= bound if self.at == "least" else ratio <= bound

    def __str__(self) -> str:
        sign = "≥" if self.at == "least" else "≤"
        return " then ".join(f"{sign} {bound:g}" for bound in (self.first, self.then) if bound is not None)


class Figure(msgspec.Struct, frozen=True):
    """One row. ``values`` and ``beside`` (the yardstick's) are in ``unit``, of one round each; goal None: the figure
    is there to be compared with others."""

    name: str
    unit: str
    values: list[float]
    yardstick: str
    beside: list[float]
    goal: Goal | None = None

    @property
    def ratios(self) -> list[float]:
        """Value over yardstick in each round: what the load of the machine did to both cancels out."""
        return [value / other for value, other in zip(self.values, self.beside, strict=True)]


def spread(values: Sequence[float]) -> Spread:
    """Median and extremes."""
    return Spread(statistics.median(values), min(values), max(values))


def alternate(
    measured: Callable[[], float], yardstick: Callable[[], float], rounds: int
) -> tuple[list[float], list[float]]:
    """Both, ``rounds`` times, in turns; who goes first changes too, so that a drift favours neither."""
    values: list[float] = []
    beside: list[float] = []
    for number in range(rounds):
        if number % 2:
            beside.append(yardstick())
            values.append(measured())
        else:
            values.append(measured())
            beside.append(yardstick())
    return values, beside


def machine() -> dict[str, Any]:
    """What the figures were measured on, and with."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "krift": __version__,
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def as_data(figure: Figure) -> dict[str, Any]:
    """A figure for ``--json``, with every round."""
    ratio = spread(figure.ratios)
    return {
        "name": figure.name,
        "unit": figure.unit,
        "value": msgspec.to_builtins(spread(figure.values)),
        "yardstick": figure.yardstick,
        "beside": msgspec.to_builtins(spread(figure.beside)),
        "ratio": msgspec.to_builtins(ratio),
        "goal": None if figure.goal is None else str(figure.goal),
        "verdict": None if figure.goal is None else figure.goal.verdict(ratio.median),
        "rounds": {"values": figure.values, "beside": figure.beside},
    }


COLUMNS = ("figure", "measured", "yardstick", "ratio", "low to high", "goal", "")


def row(figure: Figure) -> tuple[str, ...]:
    """A figure in words, one per column."""
    ratio = spread(figure.ratios)
    return (
        figure.name,
        f"{_number(spread(figure.values).median)} {figure.unit}",
        f"{_number(spread(figure.beside).median)} {figure.unit}: {figure.yardstick}",
        _number(ratio.median),
        f"{_number(ratio.low)} to {_number(ratio.high)}",
        "" if figure.goal is None else str(figure.goal),
        "" if figure.goal is None else figure.goal.verdict(ratio.median),
    )


def table(figures: Sequence[Figure]) -> str:
    """All figures for a terminal, one a row."""
    rows = [COLUMNS, *map(row, figures)]
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in rows
    )


BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def with_figures(document: str, about: Mapping[str, Any], figures: Sequence[Figure]) -> str:
    """A Markdown document with new figures between its two marks. Raises ValueError if it has none."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document lacks {BEGIN} or {END}")
    load = ", ".join(map(str, about["load"]))
    measured_on = (
        f"Measured {about['date']} with Krift {about['krift']} on {about['cores']} cores ({about['cpu']}, "
        f"{about['system']}, Python {about['python']}); load average before the run: {load}."
    )
    lines = [
        measured_on,
        "",
        *(f"| {' | '.join(cells)} |" for cells in (COLUMNS, ("---",) * len(COLUMNS), *map(row, figures))),
    ]
    return "\n".join([before + begin, *lines, end + after])


def _number(value: float) -> str:
    """Three digits that count, and no more noise."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
