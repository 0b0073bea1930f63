"""How long clients' requests take in a scenario whose remote store is slow, by each of its variants.

``python -m benchmarks.latencies SCENARIO [--seeds N] [--set KEY=VALUE] [--picture FILE]`` runs every variant in the
sim with the seeds 1 to N and prints p50, p99 and time-outs of Produce, Fetch and ListOffsets: of all requests that a
client began in the chaos, of Fetch those that brought something. The tables of docs/studies/kip-1075.md are from it.
The picture shows the run of the first seed: for each moment the longest of the requests that were sent in it, while
the store was slow on a grey ground.
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

from actors.trace.events import CtlFault, CtlPhase, Rpc, Stamped
from chaos.errors import KriftError
from chaos.plan import Plan
from chaos.scenario.resolve import resolve
from chaos.sources import find
from orchestrator.quantiles import quantile
from orchestrator.remote_metrics import APIS
from orchestrator.sim_run import run_in_sim

BIN_MS, BINS = 500, 100
"""A point of a line is the longest of at least so many milliseconds; so many at most are in a line, about."""
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 90, 74, 56, 26
"""Of a panel, of what is left and above of them, and of what is between two."""
MOST_MS = 60_000
STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #222 } .dim { fill: #666 } .frame { fill: none; stroke: #999 }
.ground { fill: #fff } .slow { fill: #000; opacity: .07 } .line { fill: none; stroke: #0072b2; stroke-width: 1.6 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .dim { fill: #aaa } .frame { stroke: #666 } .ground { fill: #111 }
.slow { fill: #fff; opacity: .12 }
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
                self.requests.append(Request(body.api, sent_ms, body.took_ms, body.outcome == "timeout"))


def measured(scenario: str, variant: str, seed: int, settings: Sequence[str]) -> Latencies:
    """One run."""
    plan = resolve(find(scenario).loaded(None), variant, seed, settings)
    latencies = Latencies(plan)
    run = run_in_sim(plan, [latencies], only=())
    assert run.status == "completed", run.detail
    return latencies


def table(by_variant: dict[str, list[Latencies]]) -> str:
    """Lines of Markdown."""
    lines = ["| variant | API | requests | p50 | p99 | longest | timed out |", "|---|---|---|---|---|---|---|"]
    for variant, runs in by_variant.items():
        for api in APIS:
            some = [each for run in runs for each in run.requests if each.api == api]
            if not some:
                continue
            took = sorted(each.took_ms for each in some)
            figures = [f"{quantile(took, share):,} ms" for share in (0.5, 0.99, 1.0)]
            late = sum(each.timed_out for each in some)
            lines.append(f"| {variant} | {api} | {len(some):,} | {' | '.join(figures)} | {late:,} |")
    return "\n".join(lines)


def picture(scenario: str, first: dict[str, Latencies]) -> str:
    """An SVG: a column for each variant, a row for each API."""
    end_ms = max(each.sent_ms for run in first.values() for each in run.requests)
    wide, high = LEFT + len(first) * (WIDTH + GAP), TOP + len(APIS) * (HEIGHT + GAP) + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}">',
        STYLE,
        f'<rect class="ground" width="{wide}" height="{high}"/>',
        f'<text x="12" y="20">{scenario}: the longest request, by when it was sent</text>',
    ]
    for column, (variant, run) in enumerate(first.items()):
        x = LEFT + column * (WIDTH + GAP)
        parts.append(f'<text x="{x}" y="{TOP - 12}">{variant}</text>')
        for row, api in enumerate(APIS):
            y = TOP + row * (HEIGHT + GAP)
            parts += _panel(run, api, x, y, end_ms)
            if not column:
                parts.append(f'<text x="8" y="{y + HEIGHT // 2}">{api}</text>')
        parts.append(f'<text class="dim" x="{x}" y="{high - 8}">0 to {end_ms // 1000} s</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(run: Latencies, api: str, x: int, y: int, end_ms: int) -> list[str]:
    def across(ms: int) -> float:
        return x + WIDTH * min(ms, end_ms) / end_ms

    def up(ms: int) -> float:
        return y + HEIGHT * (1 - math.log10(max(1, min(ms, MOST_MS))) / math.log10(MOST_MS))

    found = [f'<rect class="frame" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}"/>']
    begun = 0
    for phase, at_ms in [*run.slow, ("stop", end_ms)]:
        if phase == "start":
            begun = at_ms
        elif begun:
            left, right = across(begun), across(at_ms)
            found.append(f'<rect class="slow" x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="{HEIGHT}"/>')
            begun = 0
    for ms, what in ((10, "10 ms"), (1000, "1 s"), (MOST_MS, "60 s")):
        found.append(f'<text class="dim" x="{x + 3}" y="{up(ms) + 11:.1f}">{what}</text>')
    longest: dict[int, int] = {}
    bin_ms = max(BIN_MS, end_ms // BINS)
    for each in run.requests:
        if each.api == api:
            longest[each.sent_ms // bin_ms] = max(longest.get(each.sent_ms // bin_ms, 0), each.took_ms)
    places = " ".join(f"{across(bin_ms * at + bin_ms // 2):.1f},{up(ms):.1f}" for at, ms in sorted(longest.items()))
    return [*found, f'<polyline class="line" points="{places}"/>']


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and write the picture if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args(arguments)
    try:
        variants = list(find(given.scenario).loaded(None).scenario.variants)
        seeds = range(1, given.seeds + 1)
        runs = {each: [measured(given.scenario, each, seed, given.settings) for seed in seeds] for each in variants}
    except KriftError as error:
        parser.error(str(error))
    click.echo(table(runs))
    if given.picture is not None:
        first = {variant: of[0] for variant, of in runs.items() if of}
        given.picture.write_text(picture(given.scenario, first), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
