"""Options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path

import click

_SEEDS = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?", re.ASCII)
MAX_RUNS = 1_000_000
MAX_SEED = 2**63 - 1

runs_option = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where run directories are.",
)


def parse_seeds(ctx: click.Context, param: click.Parameter, value: str | None) -> range | None:
    """``N`` for 1 to N, or ``A-B``."""
    if value is None:
        return None
    found = _SEEDS.fullmatch(value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is no range of seeds; expected N (for 1 to N) or A-B", ctx, param)
    low, high = (1, int(found[1])) if found[2] is None else (int(found[1]), int(found[2]))
    if low > high:
        problem = "it would hold no seed" if found[2] is None else f"{low} is above {high}"
        raise click.BadParameter(f"{value!r}: {problem}; expected N (for 1 to N) or A-B", ctx, param)
    if high > MAX_SEED:
        raise click.BadParameter(f"{value!r}: a seed is at most {MAX_SEED}", ctx, param)
    if high - low >= MAX_RUNS:
        raise click.BadParameter(f"{value!r} holds {high - low + 1:,} seeds; at most {MAX_RUNS:,}", ctx, param)
    return range(low, high + 1)
