"""The collected trace, read: ordered Parquet, written once and read by whoever judges it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.trace.events import CtlPhase, Stamped
from actors.trace.lines import DAMAGE, Line
from chaos.errors import InputError
from chaos.words import some
from orchestrator.run_dir import RESTORE, RunDir, wrong
from orchestrator.trace.rows import COLUMNS, row_to_stamped, stamped_to_row
from orchestrator.trace.schema import ARROW_SCHEMA, PARQUET_DAMAGE

TRACE = "trace"
PHASE = str(CtlPhase.__struct_config__.tag)
GROUP_ROWS = 50_000
"""Rows that are in memory at a time."""


def line_to_row(line: Line) -> dict[str, Any]:
    """The row of a line of a log."""
    return {
        "run": line.run,
        "node": line.node,
        "incarnation": line.incarnation,
        "seq": line.seq,
        "wall": line.wall,
        "logical": line.logical,
        "type": line.type,
        "tp": line.tp,
        "cause": line.cause,
        "req": line.req,
        "body": bytes(line.body).decode(),
    }


def line_to_stamped(line: Line) -> Stamped:
    """The event of a line of a log."""
    return row_to_stamped(line_to_row(line))


def read_events(directory: Path) -> Iterator[Stamped]:
    """The trace of a run, in order."""
    for path in sorted((directory / TRACE).glob("part-*.parquet")):
        file = pq.ParquetFile(path)
        for batch in file.iter_batches(GROUP_ROWS, columns=list(COLUMNS)):
            for row in batch.to_pylist():
                yield row_to_stamped(row)


def trace_of(directory: RunDir) -> Iterator[Stamped]:
    """The same for one that may be missing or damaged. Raises InputError, which says after how many events."""
    directory.trace_parts()
    number = 0
    try:
        for event in read_events(directory.path):
            yield event
            number += 1
    except (*PARQUET_DAMAGE, *DAMAGE) as damage:
        raise _damaged(directory, f"damaged after {some(number, 'event')}", damage) from damage


def events_in(directory: RunDir) -> int:
    """How many events the trace of a run has, by what its files say of themselves. Raises InputError for one that is
    missing or damaged."""
    return sum(pq.read_metadata(part).num_rows for part in directory.trace_parts())


def table_of(directory: RunDir) -> pa.Table:
    """The trace of a run as one table, in order. Raises InputError for one that is missing or damaged."""
    parts = directory.trace_parts()
    try:
        return pa.concat_tables(pq.ParquetFile(part).read() for part in parts)
    except PARQUET_DAMAGE as damage:
        raise _damaged(directory, "damaged", damage) from damage


def events_table(events: Iterable[Stamped]) -> pa.Table:
    """The same of events in memory."""
    rows = [stamped_to_row(event) for event in events]
    return pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)


def zero_of(trace: pa.Table) -> int | None:
    """Time 0 of a run by its trace's clock, None if it never came."""
    phases = map(row_to_stamped, trace.filter(pc.equal(trace["type"], PHASE)).to_pylist())
    return next(
        (event.wall for event in phases if isinstance(event.body, CtlPhase) and event.body.phase == "chaos"), None
    )


def _damaged(directory: RunDir, what: str, damage: Exception) -> InputError:
    first = str(damage).partition("\n")[0].rstrip(".")
    return wrong(directory.trace, f"{what}: {first}", RESTORE)
