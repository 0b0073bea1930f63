"""Files that commands write for who builds with them: ``--junit`` and ``--summary``, alike everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from junitparser import TestSuite

from orchestrator.cli.options import check_file
from orchestrator.files import append_text, write_text
from orchestrator.report.junit import Judged, junit_of, suite_of_run
from orchestrator.report.summary import summary_of_runs

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_PLACE = click.Path(dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option("--junit", "junit_file", type=_PLACE, metavar="FILE", help="Write the results to FILE, as JUnit XML."),
    click.option(
        "--summary",
        "summary_file",
        type=_PLACE,
        metavar="FILE",
        help="Append the results to FILE, as Markdown: --summary $GITHUB_STEP_SUMMARY.",
    ),
)


def output_options(command: CommandT) -> CommandT:
    """Gives a command the options, as ``junit_file`` and ``summary_file``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class Outputs(msgspec.Struct, frozen=True):
    """The files that were asked for."""

    junit: Path | None
    summary: Path | None

    def check(self) -> None:
        """See that they can be written, before time is spent on what goes into them. Raises InputError."""
        for option, path in (("--junit", self.junit), ("--summary", self.summary)):
            if path is not None:
                check_file(option, path)

    def write(self, suites: Callable[[], Iterable[TestSuite]], summary: Callable[[], str]) -> None:
        """Write them; each is made only if somebody wants it. Raises NotWritten."""
        if self.junit is not None:
            write_text(self.junit, junit_of(suites()))
        if self.summary is not None:
            append_text(self.summary, summary())

    def write_runs(self, runs: Iterable[Judged]) -> None:
        """Write them of some runs."""
        every = list(runs)
        self.write(lambda: map(suite_of_run, every), lambda: summary_of_runs(every))
