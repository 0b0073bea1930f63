"""Options that several commands share."""

from __future__ import annotations

import re

import click

_SEEDS = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?")
MAX_RUNS = 1_000_000


def parse_seeds(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    """``N`` for 1 to N, or ``A-B``."""
    if value is None:
        return None
    found = _SEEDS.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no range of seeds; expected N (1 to N) or A-B", ctx, param)
    low, high = (1, int(found[1])) if found[2] is None else (int(found[1]), int(found[2]))
    if not low <= high < low + MAX_RUNS:
        raise click.BadParameter(f"{value!r} holds no seed, or more than {MAX_RUNS:,}", ctx, param)
    return list(range(low, high + 1))
