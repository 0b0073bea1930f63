"""A long soak with its measurements: ``python -m benchmarks.soak live|sim``. It carries out ``krift soak``, writes down
once a minute where that stands, and says in the end how memory, disk and states rose over the second half.

``live`` takes two hours of the nemesis replication, ``sim`` is a virtual week of the one in ``week.yaml``;
``--duration`` and ``--scenario`` say otherwise. ``--out`` gets the soak itself, ``samples.csv``, and ``samples.svg``
with the curves. With ``--resume`` it goes on with one that was killed. ``draw`` draws the curves of samples that are
there.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import linear_regression
from xml.sax.saxutils import escape

import click

from benchmarks.latencies import STYLE
from chaos.errors import KriftError
from orchestrator.soak.directory import Status, open_soak

EVERY_S = 60.0
SAMPLES = "samples.csv"
FIELDS = ("wall_s", "time_us", "round", "events", "state_bytes", "memory_bytes", "disk_bytes", "checker_restarts")
SIZES = {"state_bytes": "states", "memory_bytes": "memory", "disk_bytes": "disk"}
WIDTH, HEIGHT, LEFT, TOP, GAP, BELOW = 640, 110, 140, 44, 18, 24
"""Of a panel; the room to the left of all panels, above them, between two, and below them for the axis of time."""
STEPS_H = (0.25, 0.5, 1, 2, 6, 12, 24, 48)
TICKS = 8
"""Distances of ticks on the axis of time, and the largest number of these distances."""
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


def curves(title: str, samples: Sequence[Sequence[float]]) -> str:
    """The sizes over the soak's own time, each from 0 to its greatest value, as SVG."""
    hours = [each[FIELDS.index("time_us")] / 3.6e9 for each in samples]
    last_h = max(hours) or 1.0
    wide, high = LEFT + WIDTH + 20, TOP + len(SIZES) * (HEIGHT + GAP) + BELOW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}">',
        STYLE,
        f'<rect class="ground" width="{wide}" height="{high}"/>',
        f'<text class="name" x="12" y="22">{escape(title)}</text>',
    ]
    for number, (field, name) in enumerate(SIZES.items()):
        sizes = [each[FIELDS.index(field)] / (1 << 20) for each in samples]
        parts += _panel(TOP + number * (HEIGHT + GAP), name, [hour / last_h for hour in hours], sizes)
    step = next((each for each in STEPS_H if last_h / each <= TICKS), STEPS_H[-1])
    for tick in range(int(last_h / step) + 1):
        x = LEFT + WIDTH * tick * step / last_h
        parts.append(f'<text class="dim middle" x="{x:.1f}" y="{high - BELOW + 4}">{tick * step:g} h</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(top: int, name: str, places: Sequence[float], sizes: Sequence[float]) -> list[str]:
    """One size, in MiB, at places of the time from 0 to 1."""
    most = max(sizes) or 1.0
    points = zip(places, sizes, strict=True)
    line = "L".join(f"{LEFT + x * WIDTH:.1f},{top + HEIGHT * (1 - size / most):.1f}" for x, size in points)
    return [
        f'<rect class="frame" x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text x="12" y="{top + HEIGHT // 2}">{name}</text>',
        f'<text class="dim end" x="{LEFT - 8}" y="{top + 12}">{most:,.0f} MiB</text>',
        f'<text class="dim end" x="{LEFT - 8}" y="{top + HEIGHT}">0</text>',
        f'<path class="line" d="M{line}"/>',
    ]


def read_samples(path: Path) -> list[list[float]]:
    """All lines, also of a soak that was resumed. Then the names of the columns stand in the middle, too, and lines of
    the time that was repeated up to the checkpoint, without checks: those are left out."""
    with path.open(newline="") as file:
        lines = [[float(value) for value in row] for row in csv.reader(file) if row[0] != FIELDS[0]]
    at, found = FIELDS.index("time_us"), list[list[float]]()
    for line in lines:
        if not found or line[at] > found[-1][at]:
            found.append(line)
    return found


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
    parser.add_argument("runtime", choices=["live", "sim", "draw"])
    parser.add_argument("--scenario")
    parser.add_argument("--duration")
    parser.add_argument("--seed", default="3")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args()
    code = 0 if given.runtime == "draw" else _carry_out(given)
    samples = read_samples(given.out / SAMPLES)
    if len(samples) > 3:
        status = open_soak(given.out, "latest").read_status()
        soak = f"{status.scenario}, {status.runtime}, seed {given.seed}"
        title = f"{soak}: {status.round + 1:,} rounds, {status.events:,} events"
        (given.out / "samples.svg").write_text(curves(title, samples), encoding="utf-8")
        for field in SIZES:
            size = samples[-1][FIELDS.index(field)]
            click.echo(f"{field}: {size:,.0f}, {growth(samples, field):+.1%} in the second half")
    return code


def _carry_out(given: argparse.Namespace) -> int:
    words = ["resume"] if given.resume else _begun(given)
    run = "from orchestrator.cli.main import main; main()"
    command = [sys.executable, "-c", run, "soak", *words, "--out", str(given.out), "--quiet"]
    given.out.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(command) as process, (given.out / SAMPLES).open("a", newline="") as file:
        table = csv.writer(file)
        table.writerow(FIELDS)
        while not _has_ended(process):
            try:
                table.writerow(sample(open_soak(given.out, "latest").read_status()))
            except KriftError:
                continue
            file.flush()
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
