"""``krift doctor``: is this machine ready, and what to do if not."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import click
import msgspec
from rich.text import Text

from orchestrator.cli.options import runs_option
from orchestrator.doctor.base import Check, CheckStatus
from orchestrator.report.console import Page, page, printable
from orchestrator.version import __version__

STYLES: dict[CheckStatus, str] = {"ok": "green", "warning": "yellow", "problem": "bold red"}

GIVES_WAY = 10
"""A nice value: with it, Spark gets a tenth of a core that others want, and all of what they leave."""


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
    from orchestrator.verdict import NOT_CARRIED_OUT

    shown = page(stderr=as_json)
    checks: list[Check] = []
    for check in _looks(out) if quick else _looks_and_trials(out):
        checks.append(check)
        _print(shown, check)
    ready = all(check.status != "problem" for check in checks)
    if as_json:
        page().raw(msgspec.json.encode(Diagnosis(__version__, ready, checks)).decode() + "\n")
    else:
        shown.say()
        shown.say(_conclusion(checks, quick))
    return 0 if ready else NOT_CARRIED_OUT


def _looks_and_trials(out: Path) -> Iterator[Check]:
    """All checks. Spark begins before anything else is imported: its JVM takes longer to come up than the rest, and
    needs only one of the cores."""
    with ThreadPoolExecutor(2) as beside:
        spark = beside.submit(_try_spark)
        yield from _looks(out)
        yield from _trials(beside, spark)


def _trials(beside: Executor, spark: Future[Check]) -> Iterator[Check]:
    """A run in each runtime, and Spark's job, at the same time: most of a live run's time is spent waiting."""
    from orchestrator.doctor import trial

    sim = beside.submit(trial.check_run, "sim")
    live = trial.check_run("live")
    yield sim.result()
    yield spark.result()
    yield live


def _try_spark() -> Check:
    """A job of Spark's, and the end of its JVM, which would otherwise begin when all else is done. It gives way to the
    live run, which starts ten processes one after the other and would wait for a core each time."""
    from orchestrator.doctor import spark
    from orchestrator.engines.spark_session import end_jvm

    if sys.platform == "linux":  # where a thread has a priority of its own, and what it forks has the same
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), GIVES_WAY)
    try:
        return spark.check_spark()
    finally:
        end_jvm()


def _looks(out: Path) -> Iterator[Check]:
    from orchestrator.doctor import machine, software

    yield software.check_python()
    yield software.check_packages()
    yield software.check_generated()
    yield software.check_java()
    yield software.check_environment()
    yield machine.check_cores()
    yield machine.check_memory()
    yield machine.check_shared_memory()
    yield machine.check_disk(out)
    yield machine.check_out(out)
    yield machine.check_files()
    yield machine.check_loopback()


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
