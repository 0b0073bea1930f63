"""What Spark needs to check a trace, tried without one: a JVM, a job, and a Python worker that has Krift."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa

from chaos.errors import RunError
from orchestrator.doctor.base import Check, ok, problem
from orchestrator.version import __version__

NAME = "Spark"
REMEDY = "fix the problems above first; if the JVM starts and fails, `pyspark --master 'local[1]'` prints more"
WORKER_SCHEMA = "krift string"


def check_spark() -> Check:
    """Have a local Spark start a Python worker that imports what judges a trace."""
    from pyspark.errors import PySparkException

    from orchestrator.clusters.local_ray import WITHOUT_FORK_HANDLERS
    from orchestrator.engines.spark_session import LOCAL, QUICK, spark_session

    # The JVM is forked beside a live run, whose gRPC has threads.
    os.environ.update(WITHOUT_FORK_HANDLERS)
    try:
        spark = spark_session(more=QUICK)
        try:
            (row,) = spark.range(1, numPartitions=1).mapInArrow(worker, WORKER_SCHEMA).collect()
        finally:
            spark.stop()
    except (RunError, PySparkException, OSError) as error:
        return problem(NAME, str(error).partition("\n")[0], REMEDY)
    return ok(NAME, f"{spark.version} on {LOCAL}, with Krift {row['krift']} in its Python workers")


def worker(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What such a worker says, once it has imported what judges a trace."""
    from orchestrator.engines.in_process import InProcessEngine

    for _ in batches:
        InProcessEngine()
        yield pa.RecordBatch.from_pydict({"krift": [__version__]})
