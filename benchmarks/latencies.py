"""How long clients' requests take in a scenario whose remote store is slow, by each of its variants.

``python -m benchmarks.latencies SCENARIO [--seeds N] [--set KEY=VALUE] [--jobs N] [--picture FILE]`` runs every
variant in the sim with the seeds 1 to N and prints p50, p99 and timeouts of Produce, Fetch and ListOffsets: of all
requests that a client began in the chaos, of Fetch those that brought something. Each figure is the mean of the runs,
with its 95 % interval. A request has timed out if its client gave it up, or if the broker answered REQUEST_TIMED_OUT.
No invariant is judged, so that a run takes a second or two. The tables of docs/studies/kip-1075.md are from it. The
picture shows the run of the first seed: for each moment, the longest of the requests that were sent then. The store is
slow in the grey area.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np

from actors.node.errors import KafkaError
from actors.trace.events import CtlFault, CtlPhase, Rpc, Stamped
from chaos.errors import KriftError
from chaos.plan import Plan
from chaos.scenario.resolve import resolve
from chaos.sources import find
from chaos.words import switched_in_full
from orchestrator.campaigns.intervals import mean_intervals
from orchestrator.quantiles import quantile
from orchestrator.remote_metrics import APIS
from orchestrator.sim_run import run_in_sim
from orchestrator.workers import Workers

BIN_MS, BINS = 500, 100
"""Shortest time of a step of a line, and the largest number of steps, about."""
WIDTH, HEIGHT, LEFT, TOP, GAP = 270, 90, 150, 66, 22
"""Of a panel; the room to the left of all panels, above them, and between two."""
ABOVE, BELOW = 24, 30
"""Room above a row of columns for the names of its variants, and below it for the axis of time."""
COLUMNS = 3
"""Variants beside one another; more begin another row."""
MOST_MS = 60_000
MARKS = ((1, "1 ms"), (10, "10 ms"), (100, "100 ms"), (1000, "1 s"), (10_000, "10 s"), (MOST_MS, "60 s"))
"""Of the axis of latency."""
STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
TICKS = 6
"""Distances of ticks on the axis of time, and the largest number of these distances."""
TITLE = "latency of clients' requests, by the time at which they were sent"
GREY = "the remote store is slow"
LINE = "the longest request of each {:g} s; no line: none was sent"
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #222 } .dim { fill: #555 } .frame { fill: none; stroke: #999 }
.name { font-weight: 600 } .end { text-anchor: end } .middle { text-anchor: middle }
.ground { fill: #fff } .slow { fill: #000; opacity: .1 } .grid { stroke: #000; opacity: .12 }
.line { fill: none; stroke: #0072b2; stroke-width: 2; stroke-linecap: round }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .dim { fill: #b0b0b0 } .frame { stroke: #777 } .ground { fill: #111 }
.slow { fill: #fff; opacity: .16 } .grid { stroke: #fff; opacity: .16 }
.line { stroke: #56b4e9 } }
</style>"""


class Request(msgspec.Struct, frozen=True):
    """A client's: when it was sent, since the beginning of the chaos, and how long it took."""

    api: str
    sent_ms: int
    took_ms: int
    timed_out: bool


class Latencies:
    """Observes the requests of a run's clients. slow: when the store became slow, and was as fast as before."""

    def __init__(self, plan: Plan) -> None:
        self.clients = {client.name for client in plan.clients}
        self.zero_us, self.over_us = -1, -1
        self.slow: list[tuple[str, int]] = []
        self.requests: list[Request] = []

    def __call__(self, event: Stamped) -> None:
        body: Any = event.body
        if type(body) is CtlPhase:
            if body.phase == "chaos":
                self.zero_us = event.wall
            elif self.zero_us >= 0 and self.over_us < 0:
                self.over_us = event.wall
        elif type(body) is CtlFault and body.kind == "slow-store":
            self.slow.append((body.phase, (event.wall - self.zero_us) // 1000))
        elif type(body) is Rpc and body.api in APIS and event.node in self.clients and self.zero_us >= 0:
            sent_ms = (event.wall - self.zero_us) // 1000 - body.took_ms
            if sent_ms >= 0 and (self.over_us < 0 or sent_ms < (self.over_us - self.zero_us) // 1000):
                late = body.outcome == "timeout" or KafkaError.REQUEST_TIMED_OUT in body.errors
                self.requests.append(Request(body.api, sent_ms, body.took_ms, late))


def measured(scenario: str, variant: str, seed: int, settings: Sequence[str]) -> Latencies:
    """One run."""
    plan = resolve(find(scenario).loaded(None), variant, seed, settings)
    latencies = Latencies(plan)
    run = run_in_sim(plan, [latencies], only=())
    assert run.status == "completed", run.detail
    return latencies


class Figures(msgspec.Struct, frozen=True):
    """Of one API in one run."""

    requests: int
    p50_ms: int
    p99_ms: int
    longest_ms: int
    timed_out: int


def figures(run: Latencies) -> dict[str, Figures]:
    """By API, of those with requests."""
    found = {}
    for api in APIS:
        took = sorted(each.took_ms for each in run.requests if each.api == api)
        if took:
            late = sum(each.timed_out for each in run.requests if each.api == api)
            found[api] = Figures(len(took), quantile(took, 0.5), quantile(took, 0.99), took[-1], late)
    return found


def table(by_variant: dict[str, list[dict[str, Figures]]]) -> str:
    """Lines of Markdown."""
    lines = ["| variant | API | requests | p50 | p99 | longest | timed out in a run |", "|---|---|---|---|---|---|---|"]
    for variant, runs in by_variant.items():
        for api in APIS:
            some = [run[api] for run in runs if api in run]
            if not some:
                continue
            requests, longest = sum(each.requests for each in some), max(each.longest_ms for each in some)
            p50, p99 = _mean([each.p50_ms for each in some], " ms"), _mean([each.p99_ms for each in some], " ms")
            late = _mean([each.timed_out for each in some], "")
            lines.append(f"| {variant} | {api} | {requests:,} | {p50} | {p99} | {longest:,} ms | {late} |")
    return "\n".join(lines)


def _mean(values: Sequence[int], unit: str) -> str:
    """The mean, and where it lies, if that is not plain."""
    (interval,) = mean_intervals(np.array([values], float).T)
    low, high = (_short(end) for end in interval or (values[0], values[0]))
    mean = _short(sum(values) / len(values))
    return f"{mean}{unit}" if low == high else f"{mean}{unit} ({low} to {high})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def picture(scenario: str, first: dict[str, Latencies]) -> str:
    """An SVG: a column for each variant, a row for each API that has requests."""
    found = [each for run in first.values() for each in run.requests]
    apis = [api for api in APIS if any(each.api == api for each in found)]
    end_ms = max(each.sent_ms for each in found)
    bin_ms = BIN_MS * -(-end_ms // (BINS * BIN_MS))
    block = ABOVE + len(apis) * (HEIGHT + GAP) + BELOW
    wide = LEFT + min(len(first), COLUMNS) * (WIDTH + GAP)
    high = TOP + block * -(-len(first) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}">',
        STYLE,
        f'<rect class="ground" width="{wide}" height="{high}"/>',
        f'<text class="name" x="12" y="22">{scenario}: {TITLE}</text>',
        f'<rect class="slow" x="12" y="37" width="22" height="13"/><text x="40" y="48">{GREY}</text>',
        f'<path class="line" d="M210,44H232"/><text x="240" y="48">{LINE.format(bin_ms / 1000)}</text>',
    ]
    for number, (variant, run) in enumerate(first.items()):
        x, top = LEFT + number % COLUMNS * (WIDTH + GAP), TOP + ABOVE + number // COLUMNS * block
        parts.append(f'<text class="name" x="{x}" y="{top - 8}">{switched_in_full(variant)}</text>')
        for row, api in enumerate(apis):
            y = top + row * (HEIGHT + GAP)
            parts += _panel(run, api, x, y, end_ms, bin_ms)
            if x == LEFT:
                parts.append(f'<text class="name" x="12" y="{y + HEIGHT // 2 + 4}">{api}</text>')
                parts += [
                    f'<text class="dim end" x="{x - 6}" y="{y + _up(ms) + 4:.1f}">{mark}</text>' for ms, mark in MARKS
                ]
        parts += _axis_of_time(x, top + len(apis) * (HEIGHT + GAP) - GAP, end_ms)
    return "\n".join([*parts, "</svg>", ""])


def _up(ms: int) -> float:
    """The place of a latency in a panel, from its top."""
    return HEIGHT * (1 - math.log10(max(1, min(ms, MOST_MS))) / math.log10(MOST_MS))


def _across(ms: int, end_ms: int) -> float:
    """The place of a time in a panel, from its left."""
    return WIDTH * min(ms, end_ms) / end_ms


def _axis_of_time(x: int, y: int, end_ms: int) -> list[str]:
    step_s = next((each for each in STEPS_S if end_ms <= TICKS * 1000 * each), STEPS_S[-1])
    ticks = range(0, end_ms // 1000 + 1, step_s)
    return [
        f'<text class="dim middle" x="{x + _across(1000 * at, end_ms):.1f}" y="{y + 16}">'
        f"{at}{' s' if at == ticks[-1] else ''}</text>"
        for at in ticks
    ]


def _panel(run: Latencies, api: str, x: int, y: int, end_ms: int, bin_ms: int) -> list[str]:
    found = [f'<rect class="frame" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}"/>']
    begun = 0
    for phase, at_ms in [*run.slow, ("stop", end_ms)]:
        if phase == "start":
            begun = at_ms
        elif begun:
            left, right = x + _across(begun, end_ms), x + _across(at_ms, end_ms)
            found.append(f'<rect class="slow" x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="{HEIGHT}"/>')
            begun = 0
    found += [f'<path class="grid" d="M{x},{y + _up(ms):.1f}h{WIDTH}"/>' for ms, _ in MARKS[1:-1]]
    longest: dict[int, int] = {}
    for each in run.requests:
        if each.api == api:
            longest[each.sent_ms // bin_ms] = max(longest.get(each.sent_ms // bin_ms, 0), each.took_ms)
    steps = [
        f"{'L' if at - 1 in longest else 'M'}{x + _across(bin_ms * at, end_ms):.1f},{y + _up(ms):.1f}"
        f"H{x + _across(bin_ms * (at + 1), end_ms):.1f}"
        for at, ms in sorted(longest.items())
    ]
    return [*found, f'<path class="line" d="{"".join(steps)}"/>'] if steps else found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and write the picture if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args(arguments)
    try:
        variants = list(find(given.scenario).loaded(None).scenario.variants)
        pieces = [(variant, seed) for seed in range(1, given.seeds + 1) for variant in variants]
        if given.picture is not None:
            first = {each: measured(given.scenario, each, 1, given.settings) for each in variants}
            given.picture.write_text(picture(given.scenario, first), encoding="utf-8")
        by_variant: dict[str, list[dict[str, Figures]]] = {each: [] for each in variants}

        def measure(piece: tuple[str, int]) -> dict[str, Figures]:
            return figures(measured(given.scenario, *piece, given.settings))

        with Workers(measure, given.jobs) as workers:
            for (variant, _), found in zip(pieces, workers.map(pieces), strict=True):
                by_variant[variant].append(found)
    except KriftError as error:
        parser.error(str(error))
    click.echo(table(by_variant))
    return 0


if __name__ == "__main__":
    sys.exit(main())
