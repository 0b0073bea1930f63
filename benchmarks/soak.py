"""A long soak with its measurements: ``python -m benchmarks.soak live|sim``. It carries out ``krift soak``, writes down
once a minute where that stands, and says in the end how memory, disk and states rose over the second half.

``live`` takes two hours of the nemesis replication, ``sim`` is a virtual week of the one in ``week.yaml``;
``--duration`` and ``--scenario`` say otherwise. ``--out`` gets the soak itself, ``samples.csv``, and ``samples.svg``
with the curves. With ``--resume`` it goes on with one that was killed.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import linear_regression

import click

from chaos.errors import KriftError
from orchestrator.soak.directory import Status, open_soak

EVERY_S = 60.0
FIELDS = ("wall_s", "time_us", "round", "events", "state_bytes", "memory_bytes", "disk_bytes", "checker_restarts")
SIZES = ("state_bytes", "memory_bytes", "disk_bytes")
WIDTH, HEIGHT = 640, 160
DEFAULTS = {
    "live": ("replication", "2h", "10s"),
    "sim": (str(Path(__file__).with_name("week.yaml")), "168h", "60s"),
}
"""What each runtime soaks, how long, and the calm between two rounds: longer than Kafka's timers, where these count."""


def growth(samples: Sequence[Sequence[float]], field: str) -> float:
    """By how much of its mean a size rose over the second half of the samples, by their slope."""
    at, size = FIELDS.index("time_us"), FIELDS.index(field)
    half = [(each[at], each[size]) for each in samples[len(samples) // 2 :]]
    mean = sum(value for _, value in half) / len(half)
    if not mean or half[0][0] == half[-1][0]:
        return 0.0
    return linear_regression(*zip(*half, strict=True)).slope * (half[-1][0] - half[0][0]) / mean


def curves(samples: Sequence[Sequence[float]]) -> str:
    """The sizes over the soak's own time, each from 0 to its greatest value, as SVG."""
    at = FIELDS.index("time_us")
    last = max(each[at] for each in samples) or 1.0
    parts = []
    for number, field in enumerate(SIZES):
        size = FIELDS.index(field)
        most = max(each[size] for each in samples) or 1.0
        top = number * (HEIGHT + 30) + 20
        points = " ".join(
            f"{each[at] / last * WIDTH:.1f},{top + HEIGHT - each[size] / most * HEIGHT:.1f}" for each in samples
        )
        title = f"{field}, up to {most / (1 << 20):,.1f} MiB in {last / 3.6e9:,.2f} h"
        parts.append(f'<text x="0" y="{top - 5}" font-family="sans-serif" font-size="12">{title}</text>')
        parts.append(f'<polyline points="{points}" fill="none" stroke="#3366cc"/>')
    height = len(SIZES) * (HEIGHT + 30)
    inner = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">\n{inner}\n</svg>\n'


def sample(status: Status) -> list[float]:
    """One line."""
    return [float(getattr(status, name)) for name in FIELDS]


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _begun(given: argparse.Namespace) -> list[str]:
    scenario, duration, calm = DEFAULTS[given.runtime]
    asked = ["--duration", given.duration or duration, "--calm", calm, "--seed", given.seed]
    return [given.scenario or scenario, "--runtime", given.runtime, *asked]


def main() -> int:
    """Carry one out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runtime", choices=["live", "sim"])
    parser.add_argument("--scenario")
    parser.add_argument("--duration")
    parser.add_argument("--seed", default="3")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args()
    words = ["resume"] if given.resume else _begun(given)
    run = "from orchestrator.cli.main import main; main()"
    command = [sys.executable, "-c", run, "soak", *words, "--out", str(given.out), "--quiet"]
    given.out.mkdir(parents=True, exist_ok=True)
    samples: list[list[float]] = []
    with subprocess.Popen(command) as process, (given.out / "samples.csv").open("a", newline="") as file:
        table = csv.writer(file)
        table.writerow(FIELDS)
        while not _has_ended(process):
            try:
                samples.append(sample(open_soak(given.out, "latest").read_status()))
            except KriftError:
                continue
            table.writerow(samples[-1])
            file.flush()
    if len(samples) > 3:
        (given.out / "samples.svg").write_text(curves(samples), encoding="utf-8")
        for field in SIZES:
            click.echo(
                f"{field}: {samples[-1][FIELDS.index(field)]:,.0f}, {growth(samples, field):+.1%} in the second half"
            )
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
