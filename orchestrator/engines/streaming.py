"""The engine that checks a trace while it grows: the same folds, in Spark Structured Streaming.

Closed chunks of the nodes' logs (or the Parquet files of a collected trace) are the source; a file is read once. Each
event goes to the shards that have its keys, and who has recorded what goes to all of them (``shard``). A shard's state
is Spark's own, so that a query that was killed goes on from its checkpoint as if nothing had been. Findings come from
the state, whenever they are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from actors.live.writer import CLOSED
from actors.trace.events import RunEnd, RunMeta, Stamped
from orchestrator.engines.batch import RESULT_SCHEMA, results_batch, results_of
from orchestrator.engines.frontier import Piece, pieces_of
from orchestrator.engines.key_group import Tell, keep_quiet
from orchestrator.engines.routing import ENVELOPE, EventRouter, Targets, events_of, news_types
from orchestrator.engines.shard import NEWS, OtherLayout, Routed, Shard, shard_of, version_of_state
from orchestrator.invariants.folds.conclusion import InvariantResult, conclude
from orchestrator.invariants.folds.fold import Finding, Profile
from orchestrator.invariants.registry import folds, invariants_of
from orchestrator.trace.rows import decode_body
from orchestrator.trace.schema import spark_schema

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.streaming.state import GroupState

SHARDS = 8
"""Shards of a run: several for each core, as keys are not alike, and few, as each gets what concerns all."""

FILES_PER_BATCH = 100
"""Files that a micro-batch takes at most: what bounds its memory."""

_ROUTED = (
    "number int, route string, key string, wall bigint, logical bigint, node string, incarnation bigint, seq bigint, "
    "run string, cause string, req string, body string"
)
_STATE = "written_by string, profile binary, shard binary"
_FOUND = "finding string"
_PIECES = "pieces"
"""Route of what has arrived; its ``body`` is a list of ``Piece``."""

_pieces: msgspec.json.Decoder[list[Piece]] = msgspec.json.Decoder(list[Piece])


def chunks(spark: SparkSession, logs: Path, files_per_batch: int = FILES_PER_BATCH) -> DataFrame:
    """The closed chunks under ``logs``, as a stream; a line that is no event ends it with an error."""
    reader = _reader(spark, files_per_batch).option("mode", "FAILFAST").option("pathGlobFilter", f"*{CLOSED}")
    return reader.json(_literal(logs))


def parts(spark: SparkSession, trace: Path, files_per_batch: int = FILES_PER_BATCH) -> DataFrame:
    """The Parquet files of a collected trace, as a stream."""
    return _reader(spark, files_per_batch).option("pathGlobFilter", "*.parquet").parquet(_literal(trace))


def _literal(folder: Path) -> str:
    """A path that the file source, which looks for patterns in it, takes as it is."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", str(folder.resolve()))


def _reader(spark: SparkSession, files_per_batch: int) -> DataStreamReader:
    """Folders named ``node=...`` must not become a column: each line says itself who wrote it."""
    reader = spark.readStream.schema(spark_schema()).option("recursiveFileLookup", "true")
    return reader.option("maxFilesPerTrigger", files_per_batch).option("maxFileAge", "3650d")


def check_stream(
    stream: DataFrame,
    checkpoint: Path,
    only: Collection[str] | None = None,
    *,
    patience_us: int = -1,
    tell: Tell = keep_quiet,
) -> list[InvariantResult]:
    """Check all that there is of a stream (``chunks``, ``parts``), as if it were the whole trace. Gives what
    ``InProcessEngine`` gives for the same events.

    ``checkpoint``: directory of what was checked before, or a new one; what it has is not read again.
    ``patience_us``: how far a node may stay behind the others before the checks go on without it, and say so; -1 for
    ever. ``tell`` hears of the first violation of each invariant at each key when it is found, once more if that was
    in a micro-batch that did not end.
    Raises ValueError for an unknown id in ``only``, OtherLayout if the checkpoint is of another version of Krift or of
    other invariants.
    """
    feed(stream, checkpoint, only, patience_us=patience_us, tell=tell)
    return results(stream.sparkSession, checkpoint, only)


def feed(
    stream: DataFrame,
    checkpoint: Path,
    only: Collection[str] | None = None,
    *,
    patience_us: int = -1,
    tell: Tell = keep_quiet,
) -> None:
    """Take all that there is of a stream into the state at ``checkpoint``, as in ``check_stream``."""
    chosen = _chosen(only)
    _state(stream.sparkSession, checkpoint, chosen)
    routed = stream.mapInArrow(_router(chosen), _ROUTED)
    stepper = _stepper(chosen, patience_us)
    found = routed.groupBy("number").applyInPandasWithState(stepper, _FOUND, _STATE, "append", "NoTimeout")

    def pass_on(batch: DataFrame, _number: int) -> None:
        for row in batch.collect():
            tell(msgspec.json.decode(row["finding"], type=Finding))

    query = (
        found.writeStream.foreachBatch(pass_on)
        .option("checkpointLocation", str(checkpoint.resolve()))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def results(spark: SparkSession, checkpoint: Path, only: Collection[str] | None = None) -> list[InvariantResult]:
    """What the state at ``checkpoint`` says, as if the trace ended here. The state stays as it is."""
    chosen = _chosen(only)
    state = _state(spark, checkpoint, chosen)
    if state is None:
        return conclude(invariants_of(folds(chosen)), [], Profile())
    first = state.select("profile").take(1)
    profile = msgspec.msgpack.decode(first[0]["profile"], type=Profile)
    closed = state.select("number", "shard").mapInArrow(_closer(chosen), RESULT_SCHEMA)
    return conclude(invariants_of(folds(chosen)), results_of(closed.collect()), profile)


def _chosen(only: Collection[str] | None) -> list[str] | None:
    chosen = None if only is None else sorted(only)
    folds(chosen)
    return chosen


def _state(spark: SparkSession, checkpoint: Path, chosen: Sequence[str] | None) -> DataFrame | None:
    """The state of all shards, None if there is none yet. Raises OtherLayout if it is not for us."""
    if not any((checkpoint / "commits").glob("[0-9]*")):
        return None
    store = spark.read.format("statestore").load(str(checkpoint.resolve()))
    state = store.select("key.number", "value.groupState.*")
    expected = version_of_state(SHARDS, chosen)
    for row in state.select("written_by").distinct().collect():
        if row["written_by"] != expected:
            raise OtherLayout(f"{checkpoint} was written by {row['written_by']}; this is {expected}")
    return state


class _router:
    """Sends each row to the shards of its keys, and to all of them what concerns all."""

    def __init__(self, only: Sequence[str] | None) -> None:
        self.only = only

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        router = EventRouter(self.only)
        for_all = {RunMeta, RunEnd, *news_types(self.only)}
        for batch in batches:
            targets = Targets()
            bodies = batch.column("body").to_pylist()
            events = list(events_of(batch, bodies))
            for row, event in enumerate(events):
                router.route(targets, row, event, bodies[row])
            shards = [shard_of(route, key, SHARDS) for route, key in zip(targets.routes, targets.keys, strict=True)]
            for row, event in enumerate(events):
                if type(event.body) in for_all:
                    for number in range(SHARDS):
                        targets.add(NEWS, "", bodies[row], row)
                        shards.append(number)
            if events:
                arrived = msgspec.json.encode(pieces_of(events)).decode()
                for number in range(SHARDS):
                    targets.add(_PIECES, "", arrived, 0)
                    shards.append(number)
            routed = targets.batch(batch)
            columns = {"number": pa.array(shards, pa.int32())}
            yield pa.RecordBatch.from_pydict(columns | {name: routed.column(name) for name in routed.schema.names})


class _stepper:
    """Gives a shard what has arrived, and has it go on."""

    def __init__(self, only: Sequence[str] | None, patience_us: int) -> None:
        self.only = only
        self.patience_us = patience_us

    def __call__(self, key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        import pandas as pd

        shard = Shard(int(key[0]), SHARDS, self.only, self.patience_us)
        if state.exists:
            shard.load(state.get[2])
        for frame in frames:
            shard.take(*_arrived(frame))
        shard.advance()
        state.update((shard.written_by, msgspec.msgpack.encode(shard.profile), shard.saved()))
        yield pd.DataFrame({"finding": [msgspec.json.encode(each).decode() for each in shard.violations]}, dtype=object)


class _closer:
    """Ends the trace for each shard."""

    def __init__(self, only: Sequence[str] | None) -> None:
        self.only = only

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                shard = Shard(row["number"], SHARDS, self.only)
                shard.load(row["shard"])
                yield results_batch(shard.close())


def _arrived(frame: pd.DataFrame) -> tuple[list[Routed], list[Piece]]:
    arrived: list[Routed] = []
    pieces: list[Piece] = []
    columns = (frame[name].tolist() for name in ("route", "key", "body", *ENVELOPE))
    for route, key, body, wall, logical, node, incarnation, seq, run, cause, req in zip(*columns, strict=True):
        if route == _PIECES:
            pieces += _pieces.decode(body)
        else:
            event = Stamped(run, node, incarnation, seq, wall, logical, cause or "", req or "", decode_body(body))
            arrived.append(Routed(route, key, event))
    return arrived, pieces
