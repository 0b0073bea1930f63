"""Kept traces checked again by the batch engine in Spark: what it finds has to be what the engine in the run's own
process found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from chaos.scenario.loader import load_file
from chaos.scenario.resolve import resolve
from orchestrator.campaigns.keep import KeptRun
from orchestrator.checked import Checked, verdict_on
from orchestrator.run_dir import RunDir
from orchestrator.runner import with_repeat
from orchestrator.trace.read import TRACE, zero_of
from orchestrator.verdict import InvariantVerdict, Verdict, read_verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = 3
"""Invariants of one run that are named in a mismatch."""


def recheck(spark: SparkSession, kept: KeptRun) -> str:
    """Check a kept run in Spark; "" if the findings are equal, else how they differ.

    The trace goes from the driver's disk to the executors through Spark, which need not see that disk.
    """
    import pyarrow.parquet as pq

    from orchestrator.engines.batch import check_trace
    from orchestrator.trace.schema import spark_schema

    directory = RunDir(kept.directory)
    directory.trace_parts()
    manifest, verdict = directory.read_manifest(), read_verdict(directory)
    table = pq.read_table(directory.path / TRACE)
    trace = spark.createDataFrame(table, spark_schema())
    checked = Checked(
        check_trace(trace),
        verdict.must_happen | verdict.asked,
        verdict.rpcs,
        table.num_rows,
        verdict.digest,
        zero_of(table),
    )
    checked = with_repeat(checked, manifest.digest, manifest.repeated)
    plan = resolve(load_file(directory.scenario))
    again = verdict_on(plan, manifest.run, manifest.runtime, checked, manifest.duration, manifest.doubts)
    found = difference(verdict, again)
    return f"{directory.path}: {found}" if found else ""


def difference(inside: Verdict, batch: Verdict) -> str:
    """How the findings of two engines over one run differ, "" if not at all."""
    others = {each.id: _found(each) for each in batch.invariants}
    differing = [each.id for each in inside.invariants if others.get(each.id) != _found(each)]
    parts = [f"{name}: {_said(inside, name)} in its process, {_said(batch, name)} in Spark" for name in differing]
    more = [f"and {len(parts) - SHOWN} more"] if len(parts) > SHOWN else []
    return "; ".join([*parts[:SHOWN], *more])


def _found(each: InvariantVerdict) -> InvariantVerdict:
    """What an engine found: how it came to a violation or a loss is told by the trace, which is the same."""
    violations = [msgspec.structs.replace(one, path=[]) for one in each.violations]
    excuses = [msgspec.structs.replace(one, path=[]) for one in each.excuses]
    return msgspec.structs.replace(each, violations=violations, excuses=excuses)


def _said(verdict: Verdict, name: str) -> str:
    found: InvariantVerdict | None = next((each for each in verdict.invariants if each.id == name), None)
    if found is None:
        return "nothing"
    said = f"{found.status} (tested {found.tested:,}, violated {found.violated:,})"
    return f"{said}: {found.violations[0].sentence}" if found.violations else said
