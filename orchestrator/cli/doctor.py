"""``krift doctor``: is this machine ready, and what to do if not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import msgspec
from rich.text import Text

from orchestrator.cli.options import runs_option
from orchestrator.doctor import machine, software
from orchestrator.doctor.base import Check, CheckStatus
from orchestrator.doctor.spark import check_spark
from orchestrator.doctor.trial import check_run
from orchestrator.report.console import Page, page, printable
from orchestrator.verdict import NOT_CARRIED_OUT
from orchestrator.version import __version__

STYLES: dict[CheckStatus, str] = {"ok": "green", "warning": "yellow", "problem": "bold red"}


class Diagnosis(msgspec.Struct, frozen=True):
    """What ``--json`` prints. ready: whether there is no problem."""

    krift: str
    ready: bool
    checks: list[Check]


@click.command("doctor")
@click.option("--quick", is_flag=True, help="Check only, without the runs.")
@runs_option
@click.option("--json", "as_json", is_flag=True, help="The findings on stdout, as one object, and nothing else.")
def command(quick: bool, out: Path, as_json: bool) -> int:
    """Check whether this machine is ready: software, resources, then a tiny run in each runtime and a Spark job."""
    shown = page(stderr=as_json)
    checks: list[Check] = []
    for look in _looks(out):
        checks.append(look())
        _print(shown, checks[-1])
    if not quick:
        for check in _trials():
            checks.append(check)
            _print(shown, check)
    ready = all(check.status != "problem" for check in checks)
    if as_json:
        page().raw(msgspec.json.encode(Diagnosis(__version__, ready, checks)).decode() + "\n")
    else:
        shown.say()
        shown.say(_conclusion(checks, quick))
    return 0 if ready else NOT_CARRIED_OUT


def _trials() -> Iterator[Check]:
    """A run in each runtime and a job of Spark's, at the same time: most of a live one's time is spent waiting."""
    with ThreadPoolExecutor(2) as beside:
        sim, spark = beside.submit(check_run, "sim"), beside.submit(_try_spark)
        live = check_run("live")
        yield sim.result()
        yield spark.result()
        yield live


def _try_spark() -> Check:
    """A job of Spark's, and the end of its JVM, which would otherwise begin when all else is done."""
    from orchestrator.engines.spark_session import end_jvm

    try:
        return check_spark()
    finally:
        end_jvm()


def _looks(out: Path) -> list[Callable[[], Check]]:
    return [
        software.check_python,
        software.check_packages,
        software.check_generated,
        software.check_java,
        software.check_environment,
        machine.check_cores,
        machine.check_memory,
        machine.check_shared_memory,
        lambda: machine.check_disk(out),
        lambda: machine.check_out(out),
        machine.check_files,
        machine.check_loopback,
    ]


def _print(shown: Page, check: Check) -> None:
    line = Text(f"{check.status:<8} ", STYLES[check.status])
    line.append(f"{check.name:<14} {printable(check.found)}", "")
    shown.show(line)
    if check.remedy:
        shown.say(f"{'':<8} {'':<14} -> {check.remedy}")


def _conclusion(checks: Sequence[Check], quick: bool) -> str:
    counts = {status: sum(check.status == status for check in checks) for status in STYLES}
    if counts["problem"]:
        return f"not ready: {_count(counts['problem'], 'problem')}, {_count(counts['warning'], 'warning')}"
    tried = "nothing was run (--quick)" if quick else "both runtimes and Spark were tried"
    return f"ready, {_count(counts['warning'], 'warning')}; {tried}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
