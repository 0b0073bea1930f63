"""``python -m benchmarks.equality record FILE``, then ``... compare FILE`` after a change: whether runs of the sim are
still the same, event by event and finding by finding.

A change of shape or of speed must change no run. ``record`` does every nemesis and every variant of the library's
incidents with some seeds each, and writes down what a run is known by: the resolved scenario, the digest of its trace,
the complete verdict. ``compare`` does the same runs with the code as it is now and says which differ, and in what.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from hashlib import blake2b
from pathlib import Path

import click
import msgspec

from chaos.incidents import library as incidents
from chaos.nemesis import library as nemeses
from chaos.sources import find
from orchestrator.campaigns.order import SimOrder
from orchestrator.sim_run import run_in_sim

FIRST = 6_000_001
"""Seeds that nobody uses for anything else."""
SHOWN = 10
"""So many runs that differ are told one by one."""


class Known(msgspec.Struct, frozen=True):
    """What a run is known by. scenario: hash of the resolved scenario. trace: its digest. findings: the outcome and
    every invariant, with what it says; hashed where it is long and says nothing that is violated."""

    scenario: str
    trace: str
    status: str
    faults: str
    findings: dict[str, str]


class Recorded(msgspec.Struct, frozen=True):
    """The file: run -> what it is known by."""

    runs: dict[str, Known]


@click.group()
def main() -> None:
    """Compare runs before a change and after it."""


seeds_option = click.option("--seeds", default=30, show_default=True, type=click.IntRange(1), help="Seeds of each.")
jobs_option = click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes at once.")
only_option = click.option("--only", multiple=True, help="Only this nemesis or incident; may be repeated.")


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@seeds_option
@jobs_option
@only_option
def record(file: Path, seeds: int, jobs: int, only: tuple[str, ...]) -> None:
    """Do the runs and write down what each is known by."""
    orders = list(orders_of(seeds, only))
    runs = _done(orders, jobs)
    file.write_bytes(msgspec.json.encode(Recorded(runs)))
    click.echo(f"{len(runs)} runs recorded in {file}")


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--seeds", type=click.IntRange(1), help="Only so many seeds of each; all that were recorded if not given."
)
@click.option("--reformed", is_flag=True, help="Events have another form, so let digests of traces differ.")
@jobs_option
@only_option
def compare(file: Path, seeds: int | None, reformed: bool, jobs: int, only: tuple[str, ...]) -> None:
    """Do the recorded runs again; exit code 1 if one differs."""
    before = msgspec.json.decode(file.read_bytes(), type=Recorded).runs
    orders = [
        order
        for order in (msgspec.json.decode(key, type=SimOrder) for key in before)
        if (not only or order.source in only) and (seeds is None or (order.seed or 0) < FIRST + seeds)
    ]
    now = _done(orders, jobs)
    if reformed:
        now = {key: msgspec.structs.replace(known, trace=before[key].trace) for key, known in now.items()}
    differing = {key: differences(before[key], now[key]) for key in now if now[key] != before[key]}
    for key, found in list(differing.items())[:SHOWN]:
        click.echo(f"{key}: {'; '.join(found)}")
    if len(differing) > SHOWN:
        click.echo(f"and {len(differing) - SHOWN} more")
    click.echo(f"{len(now)} runs, {len(now) - len(differing)} the same as in {file}")
    sys.exit(1 if differing else 0)


def orders_of(seeds: int, only: tuple[str, ...] = ()) -> Iterator[SimOrder]:
    """Every nemesis, and every variant of the incidents that come with Krift, with so many seeds each."""
    names = [*nemeses.names(), *incidents.shipped_names()]
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise click.UsageError(f"no such nemesis or incident: {', '.join(unknown)}; one of {', '.join(names)}")
    for name in names:
        if not only or name in only:
            for variant in find(name).variants or [""]:
                yield from (SimOrder(name, variant, seed) for seed in range(FIRST, FIRST + seeds))


def differences(before: Known, now: Known) -> list[str]:
    """In what two runs differ, in words."""
    found = [
        f"another {field}"
        for field in ("scenario", "trace", "status", "faults")
        if _of(before, field) != _of(now, field)
    ]
    for name in sorted({*before.findings, *now.findings}):
        was, has = before.findings.get(name, "absent"), now.findings.get(name, "absent")
        if was != has:
            found.append(f"{name}: {was!r} before, {has!r} now")
    return found


def _of(known: Known, field: str) -> object:
    value: object = getattr(known, field)
    return value


def _done(orders: list[SimOrder], jobs: int) -> dict[str, Known]:
    with ProcessPoolExecutor(jobs) as pool:
        results = pool.map(known_by, orders, chunksize=4)
        with click.progressbar(results, len(orders), "runs", file=sys.stderr) as shown:
            found = list(shown)
    return {msgspec.json.encode(order).decode(): known for order, known in zip(orders, found, strict=True)}


def known_by(order: SimOrder) -> Known:
    """Do a run: what it is known by."""
    plan = order.plan()
    run = run_in_sim(plan)
    verdict = run.verdict
    findings = {each.id: _said(each) for each in verdict.invariants}
    said = {
        "outcome": verdict.outcome,
        "unexpected": verdict.unexpected,
        "undecided": verdict.undecided,
        "known": verdict.known,
        "must_happen": verdict.must_happen,
    }
    findings.update({name: str(value) for name, value in said.items()})
    return Known(_hash(plan.yaml()), verdict.digest, f"{run.status} {run.detail}", _hash(run.faults), findings)


def _said(invariant: msgspec.Struct) -> str:
    """What it found, in short, and a hash of all of it."""
    data = msgspec.to_builtins(invariant)
    return f"{data['status']}, tested {data['tested']}, violated {data['violated']} ({_hash(data)})"


def _hash(data: object) -> str:
    return blake2b(msgspec.json.encode(data), digest_size=8).hexdigest()


if __name__ == "__main__":
    main()
