"""A run that is over, as a value: verdict, story, events."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.api.frames import check_types, events_frame, promises_frame, violations_frame
from orchestrator.report.console import as_text
from orchestrator.report.junit import Judged, junit
from orchestrator.report.summary import summary_of_runs
from orchestrator.report.text import outcome, print_verdict, title
from orchestrator.run_dir import Manifest, RunDir, open_run_dir
from orchestrator.story.moments import Moment
from orchestrator.trace.read import table_of, zero_of
from orchestrator.verdict import Verdict, exit_code, read_verdict

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

RUNS = Path("runs")
ReadTrace = Callable[[], "pa.Table"]
"""Gives a trace: a table of ``orchestrator.trace.schema``, in order."""


class Run:
    """A run that is over. verdict: as in ``verdict.json``. status, detail: how it ended, as in ``manifest.json``
    ("completed", or what the cluster did not do, and why). directory: None if it was not kept. again: the command that
    does it again, "" where there is none. started: ISO 8601 in UTC."""

    def __init__(
        self,
        verdict: Verdict,
        read: ReadTrace,
        *,
        status: str,
        detail: str = "",
        directory: Path | None = None,
        again: str = "",
        started: str = "",
    ) -> None:
        self.verdict = verdict
        self.status = status
        self.detail = detail
        self.directory = directory
        self.again = again
        self.started = started
        self._read = read

    def __repr__(self) -> str:
        return f"<Run {title(self.verdict)}: {outcome(self.verdict)}>"

    @property
    def exit_code(self) -> int:
        """As ``krift run`` ends on it: 0 as expected, 1 not, 3 inconclusive, 4 not carried out."""
        return exit_code(self.verdict, self.status)

    @property
    def as_expected(self) -> bool:
        """Whether what its scenario expects is what happened."""
        return self.exit_code == 0

    @property
    def story(self) -> list[Moment]:
        """What happened, a line each: ``at_us`` (microseconds since time 0) and ``text``."""
        return self.verdict.story

    @cached_property
    def trace(self) -> pa.Table:
        """All events as an Arrow table with the columns of ``trace/`` (docs/cli.md). Raises InputError if the run has
        no trace, or a damaged one."""
        return self._read()

    @cached_property
    def zero_us(self) -> int | None:
        """Time 0 by the trace's clock: microseconds. None if it never came."""
        return zero_of(self.trace)

    def events(self, *types: str) -> pd.DataFrame:
        """Events in order, a row each. Columns: ``id`` (``node/incarnation/seq``, as verdicts name events), ``at_us``
        (microseconds since time 0, NA if that never came), ``node``, ``incarnation``, ``seq``, ``type``, ``tp`` (topic
        partition), ``cause`` and ``req`` (ids). With types (``events("rpc")``): these alone, and each field of their
        bodies as a column, NA or NaN where a type lacks it. Without: all, and ``body`` as JSON. The types and their
        fields are in ``actors/trace/*_events.py``. Raises InputError for an unknown type, and as ``trace``."""
        check_types(types)
        trace = self.trace
        if types:
            import pyarrow as pa
            import pyarrow.compute as pc

            trace = trace.filter(pc.is_in(trace["type"], value_set=pa.array(types)))
        return events_frame(trace, self.zero_us, types)

    def promises(self) -> pd.DataFrame:
        """A row for each invariant: id, title, status, tested, violated, first_us, excused, weight, why."""
        return promises_frame(self.verdict)

    def violations(self) -> pd.DataFrame:
        """A row for each violation that differs: invariant, at_us, key, sentence, events, times, known, weight."""
        return violations_frame(self.verdict)

    def report(self, *, full: bool = False, story: bool = True) -> str:
        """What ``krift report`` prints of it: headline, story, violations with their evidence, promises, outcome."""
        return as_text(lambda page: print_verdict(page, self.verdict, full=full, story=story))

    def junit(self) -> str:
        """Its verdict as JUnit XML."""
        return junit([self._judged])

    def markdown(self) -> str:
        """Its verdict as ``--summary`` writes it."""
        return summary_of_runs([self._judged])

    @property
    def _judged(self) -> Judged:
        return Judged(self.verdict, self.started, self.again, self.exit_code)


def load(run: str | Path = "latest", *, out: str | Path = RUNS) -> Run:
    """A run that was kept: its directory, its name under ``out``, or "latest". Raises InputError if there is none, or
    it was not judged."""
    directory = open_run_dir(Path(out), str(run))
    return of_directory(directory, directory.read_manifest())


def of_directory(directory: RunDir, manifest: Manifest) -> Run:
    """A run by what lies in its directory. Raises InputError."""
    return Run(
        read_verdict(directory),
        lambda: table_of(directory),
        status=manifest.status,
        detail=manifest.detail,
        directory=directory.path,
        again=manifest.reproduce,
        started=manifest.started,
    )
