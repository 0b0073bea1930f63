"""The one schema of the trace, for Arrow and for Spark; ``orchestrator.trace.rows`` has its columns' meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_KINDS: dict[str, str] = {
    "run": "string",
    "node": "string",
    "incarnation": "int64",
    "seq": "int64",
    "wall": "int64",
    "logical": "int64",
    "type": "string",
    "tp": "string",
    "cause": "string",
    "req": "string",
    "body": "string",
}
"""Column -> Arrow type. No column is ever null."""

ARROW_SCHEMA = pa.schema([pa.field(name, getattr(pa, kind)(), nullable=False) for name, kind in _KINDS.items()])

PARQUET_DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What it may raise to read a Parquet file that somebody has damaged."""


def spark_schema() -> StructType:
    """The schema to read chunks and Parquet with; Spark must never infer one."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    kinds = {"string": StringType(), "int64": LongType()}
    return StructType([StructField(name, kinds[kind], False) for name, kind in _KINDS.items()])
