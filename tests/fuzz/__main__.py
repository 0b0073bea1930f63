"""``python -m tests.fuzz [--inputs N] [--seed N] [TARGET]...``: feeds readers with hostile files, a million of them if
nothing else is said, and keeps those that have another outcome than a clear error. Exit code 1 if there are any."""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path

import click

from tests.fuzz.feed import feed
from tests.fuzz.targets import TARGETS

CHEAP = {"manifest": 5, "verdict": 5, "line": 400, "journal": 100, "failure": 30}
"""How many inputs a reader gets for one of the dearest."""
PIECE = 2000


@click.command()
@click.option("--inputs", default=1_000_000, show_default=True, help="In sum.")
@click.option(
    "--seed", default=1, show_default=True, help="Draws the first inputs; later pieces have the seeds after it."
)
@click.option("--out", default="runs/fuzz", show_default=True, type=click.Path(path_type=Path), help="For what broke.")
@click.argument("names", nargs=-1)
def main(inputs: int, seed: int, out: Path, names: tuple[str, ...]) -> None:
    """Feed the readers."""
    targets = [target for target in TARGETS if not names or target.name in names]
    whole = sum(CHEAP.get(target.name, 1) for target in targets)
    broken = 0
    for target in targets:
        share = inputs * CHEAP.get(target.name, 1) // whole
        refused = taken = 0
        slowest, begun = 0.0, time.monotonic()
        for piece in range(0, share, PIECE):
            fed = feed(target, min(PIECE, share - piece), seed + piece // PIECE)
            refused, taken, slowest = refused + fed.refused, taken + fed.taken, max(slowest, fed.slowest_s)
            for data, why in fed.broke.items():
                broken += 1
                out.mkdir(parents=True, exist_ok=True)
                path = out / f"{target.name}-{hashlib.sha256(data).hexdigest()[:12]}"
                path.write_bytes(data)
                click.echo(f"{path}:\n{why}")
        took = time.monotonic() - begun
        click.echo(
            f"{target.name:<9} {share:>9,} inputs: {refused:,} refused, {taken:,} sound, "
            f"{share / max(took, 0.001):,.0f} a second, the slowest {slowest:.2f} s"
        )
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
