"""Options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path

import click

from chaos.errors import InputError, Mistake
from chaos.words import some
from orchestrator.run_dir import why, wrong

_SEEDS = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?", re.ASCII)
_MASTER = re.compile(
    r"local(\[(\*|\d+)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|spark://[^\s,]+:\d+(,[^\s,]+:\d+)*|yarn|k8s://\S+"
)
_PYTHON_MAY_DIE = 4
"""How often a task is tried whose Python process dies, also where executors are threads of the driver."""
MAX_RUNS = 1_000_000
MAX_SEED = 2**63 - 1

runs_option = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Directory that has the run directories.",
)

full_option = click.option(
    "--full", is_flag=True, help="Show every promise with its number of tests, and all evidence."
)
story_option = click.option(
    "--story", is_flag=True, help="Tell the story even if nothing was violated, excused or undecided."
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
        problem = "it would have no seed" if found[2] is None else f"{low} is above {high}"
        raise click.BadParameter(f"{value!r}: {problem}; expected N (for 1 to N) or A-B", ctx, param)
    if high > MAX_SEED:
        raise click.BadParameter(f"{value!r}: a seed is at most {MAX_SEED}", ctx, param)
    if high - low >= MAX_RUNS:
        raise click.BadParameter(f"{value!r} holds {some(high - low + 1, 'seed')}; at most {MAX_RUNS:,}", ctx, param)
    return range(low, high + 1)


def check_master(master: str) -> None:
    """Raises InputError for what is no Spark master."""
    if _MASTER.fullmatch(master) is None:
        expected = "local[N], local-cluster[EXECUTORS,CORES,MB], spark://HOST:PORT, yarn or k8s://URL"
        raise InputError([Mistake(f"--master {master}", 0, "", "no Spark master", expected)])


def check_file(option: str, path: Path) -> None:
    """See that a file can be written, before time is spent on what goes into it; it is left as it is. Raises
    InputError."""
    before = path.exists()
    try:
        with path.open("a"):
            pass
    except OSError as error:
        raise wrong(f"{option} {path}", f"cannot be written: {why(error)}", "a file that you may write") from None
    if not before:
        path.unlink()


def with_retries(master: str) -> str:
    """Tasks of ``local[N]`` are tried once by default, so that one Python process that dies would end it all."""
    if master == "local":
        return f"local[1,{_PYTHON_MAY_DIE}]"
    found = re.fullmatch(r"local\[(\*|\d+)\]", master)
    return f"local[{found[1]},{_PYTHON_MAY_DIE}]" if found else master
