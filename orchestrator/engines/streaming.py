"""The engine that checks a trace while it grows: the same folds, in Spark Structured Streaming.

Closed chunks of the nodes' logs (or the Parquet files of a collected trace) are the source; a file is read once. Each
event goes to the shards that have its keys, and who has recorded what goes to all of them (``shard``). A shard's state
is Spark's own, so that a query that was killed goes on from its checkpoint as if nothing had been. Findings come from
the state, whenever they are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from actors.live.writer import CLOSED
from actors.trace.events import EVENT_TYPES, NodeUp, RunEnd, RunMeta, Stamped
from orchestrator.engines.batch import NO_BODY, RESULT_SCHEMA, results_batch, results_of
from orchestrator.engines.frontier import LAST, Arrival, Row, pieces_of
from orchestrator.engines.key_group import Tell, keep_quiet
from orchestrator.engines.shard import OtherLayout, Shard, version_of_state
from orchestrator.engines.shares import Shares, Targets
from orchestrator.invariants.folds.conclusion import InvariantResult, conclude
from orchestrator.invariants.folds.fold import Finding, Kind, Profile
from orchestrator.invariants.registry import folds, invariants_of
from orchestrator.trace.rows import ORDER_COLUMNS, decode_body
from orchestrator.trace.schema import spark_schema

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
    from pyspark.sql.streaming.state import GroupState

SHARDS = 4
"""Shards of a run: some for each core, as keys are not alike, and few, as most events concern several."""

ENVELOPE = (*ORDER_COLUMNS, "run", "cause", "req", "body")
"""Columns that go along with an event."""

PART = "part"
"""Column with the number of an event's part of a collected trace."""
NO_PART = -1
CHUNK = "chunk"
"""Column with the name of the file, of a node's log, that an event is from."""

FILES_PER_BATCH = 100
"""Chunks that a micro-batch takes at most: what bounds its memory."""

PARTS_PER_BATCH = 2
"""The same for files of a collected trace, which are larger."""

_ROUTED = (
    "number int, wall bigint, logical bigint, node string, incarnation bigint, seq bigint, run string, cause string, "
    "req string, body string, told string"
)
_STATE = "written_by string, profile binary, shard binary"
_FOUND = "finding string, progress binary"
_told: msgspec.json.Decoder[Arrival] = msgspec.json.Decoder(Arrival)


ANY_AGE = "3650d"


def chunks(
    spark: SparkSession, logs: Path, files_per_batch: int = FILES_PER_BATCH, age_max: str = ANY_AGE
) -> DataFrame:
    """The closed chunks under ``logs``, as a stream; a line that is no event ends it with an error. ``age_max``: by how
    much a chunk may be older than the newest one that was taken; it is for as long that Spark remembers which it has
    taken."""
    from pyspark.sql.functions import col, lit

    reader = _reader(spark, files_per_batch, age_max).option("mode", "FAILFAST").option("pathGlobFilter", f"*{CLOSED}")
    stream = reader.json(_literal(logs)).withColumn(PART, lit(NO_PART))
    return stream.withColumn(CHUNK, col("_metadata.file_name"))


def parts(spark: SparkSession, trace: Path, files_per_batch: int = PARTS_PER_BATCH) -> DataFrame:
    """The Parquet files of a collected trace, as a stream."""
    from pyspark.sql.functions import lit, regexp_extract

    stream = _reader(spark, files_per_batch).option("pathGlobFilter", "*.parquet").parquet(_literal(trace))
    number = regexp_extract("_metadata.file_name", r"part-(\d+)", 1).cast("int")
    return stream.withColumn(PART, number).withColumn(CHUNK, lit(""))


def _literal(folder: Path) -> str:
    """A path that the file source, which looks for patterns in it, takes as it is."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", str(folder.resolve()))


def _reader(spark: SparkSession, files_per_batch: int, age_max: str = ANY_AGE) -> DataStreamReader:
    """Folders named ``node=...`` must not become a column: each line says itself who wrote it."""
    reader = spark.readStream.schema(spark_schema()).option("recursiveFileLookup", "true")
    return reader.option("maxFilesPerTrigger", files_per_batch).option("maxFileAge", age_max)


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
    """Take all that there is of a stream into the state at ``checkpoint``, as in ``check_stream``.

    For once, or a few times: Spark's RocksDB store keeps the last row of each shard, all that this knows, for an hour
    after each query that wrote one (``RocksDBStateStoreProvider.dataEncoderCache``). ``follow`` is one query.
    """
    writer = _writer(stream, checkpoint, _chosen(only), patience_us, 0, tell, lambda _: None)
    writer.trigger(availableNow=True).start().awaitTermination()


class Progress(msgspec.Struct, kw_only=True):
    """How far a shard is, by its number, after a micro-batch. at_us, newest_us: ``Frontier.at`` and ``newest``.
    size: bytes of what it knows; saved: that, now and then. chunks: of the logs, from which the batch came (told by
    one of the shards)."""

    number: int
    at_us: int
    newest_us: int
    size: int
    saved: bytes = b""
    chunks: list[str] = []


Watch = Callable[[list[Progress]], None]
"""Hears of a micro-batch, of which each shard has said how far it is. It is put aside for good after that."""


def follow(
    stream: DataFrame,
    checkpoint: Path,
    *,
    every_s: int,
    patience_us: int,
    put_aside_us: int,
    tell: Tell,
    watch: Watch,
) -> StreamingQuery:
    """Take a stream into the state at ``checkpoint`` as it grows, until the query is stopped. ``every_s``: how often to
    look for more. ``put_aside_us``: by how much of the trace's time two of what ``Progress.saved`` has are apart, at
    least. ``tell`` and ``watch`` are called in a thread of the query's."""
    writer = _writer(stream, checkpoint, None, patience_us, put_aside_us, tell, watch)
    return writer.trigger(processingTime=f"{every_s} seconds").start()


def _writer(
    stream: DataFrame,
    checkpoint: Path,
    chosen: Sequence[str] | None,
    patience_us: int,
    put_aside_us: int,
    tell: Tell,
    watch: Watch,
) -> DataStreamWriter:
    _state(stream.sparkSession, checkpoint, chosen)
    routed = stream.mapInArrow(_router(chosen), _ROUTED)
    stepper = _stepper(chosen, patience_us, put_aside_us)
    found = routed.groupBy("number").applyInPandasWithState(stepper, _FOUND, _STATE, "append", "NoTimeout")

    def pass_on(batch: DataFrame, _number: int) -> None:
        rows = batch.collect()
        for row in rows:
            if row["finding"] is not None:
                tell(msgspec.json.decode(row["finding"], type=Finding))
        told = [msgspec.msgpack.decode(row["progress"], type=Progress) for row in rows if row["progress"] is not None]
        watch(sorted(told, key=lambda each: each.number))

    return found.writeStream.foreachBatch(pass_on).option("checkpointLocation", str(checkpoint.resolve()))


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
    """Sends each row to the shards that have a key of it, and to all of them what has arrived."""

    def __init__(self, only: Sequence[str] | None) -> None:
        self.only = only

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        targets = Targets(Shares(SHARDS), self.only, (RunMeta, RunEnd, NodeUp))
        known: dict[tuple[str, str, str, str], list[tuple[int, bool]]] = {}
        for batch in batches:
            numbers, rows, read = [], [], []
            kinds = zip(*(batch.column(name).to_pylist() for name in ("type", "tp", "node", "cause")), strict=True)
            for row, (name, tp, node, cause) in enumerate(kinds):
                kind = (name, tp or "", node, (cause or "").partition("/")[0])
                shards = known.get(kind)
                if shards is None:
                    shards = known[kind] = list(targets.of(Kind(EVENT_TYPES[name], *kind[1:])).items())
                for number, reads in shards:
                    numbers.append(number)
                    rows.append(row)
                    read.append(reads)
            if batch.num_rows:
                yield _taken(batch, numbers, rows, read)


def _taken(batch: pa.RecordBatch, numbers: list[int], rows: list[int], read: list[bool]) -> pa.RecordBatch:
    """Rows of a batch with the shards that they go to, and with what has arrived for each shard, in ``_ROUTED``."""
    taken = batch.select(list(ENVELOPE)).take(pa.array(rows, pa.int64()))
    bodies = pc.if_else(pa.array(read, pa.bool_()), taken.column("body"), pa.scalar(None, pa.string()))
    columns = {"number": pa.array(numbers, pa.int32())}
    for name in ENVELOPE:
        column = taken.column(name)
        columns[name] = column.cast(pa.int64()) if pa.types.is_integer(column.type) else column
    columns["body"] = bodies
    columns["told"] = pa.nulls(len(numbers), pa.string())
    last = {str(kind.__struct_config__.tag) for kind in LAST}
    arrived = (batch.column(name).to_pylist() for name in ("node", "incarnation", "seq", "wall", "type"))
    pieces = pieces_of(
        Row(node, incarnation, seq, wall, kind in last)
        for node, incarnation, seq, wall, kind in zip(*arrived, strict=True)
    )
    parts: dict[int, int] = {}
    for part, wall in zip(batch.column(PART).to_pylist(), batch.column("wall").to_pylist(), strict=True):
        if part != NO_PART:
            parts[part] = max(parts.get(part, 0), wall)
    named = zip(batch.column("node").to_pylist(), batch.column(CHUNK).to_pylist(), strict=True)
    files = sorted({f"node={node}/{name}" for node, name in named if name})
    text = msgspec.json.encode(Arrival(pieces, parts, files)).decode()
    told = {name: pa.nulls(SHARDS, column.type) for name, column in columns.items()}
    told["number"], told["told"] = pa.array(range(SHARDS), pa.int32()), pa.array([text] * SHARDS, pa.string())
    return pa.RecordBatch.from_pydict({name: pa.concat_arrays([columns[name], told[name]]) for name in columns})


class _stepper:
    """Gives a shard what has arrived, and has it go on."""

    def __init__(self, only: Sequence[str] | None, patience_us: int, put_aside_us: int) -> None:
        self.only = only
        self.patience_us = patience_us
        self.put_aside_us = put_aside_us

    def __call__(self, key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        import pandas as pd

        shard = Shard(int(key[0]), SHARDS, self.only, self.patience_us)
        if state.exists:
            shard.load(state.get[2])
        before_us, files = shard.at_us, set[str]()
        for frame in frames:
            arrived, told = _arrived(frame)
            shard.take(arrived, told)
            files.update(name for each in told for name in each.chunks)
        shard.advance()
        saved = shard.saved()
        state.update((shard.written_by, msgspec.msgpack.encode(shard.profile), saved))
        progress = Progress(
            number=int(key[0]),
            at_us=shard.at_us,
            newest_us=shard.newest_us,
            size=len(saved),
            saved=saved if self._is_due(before_us, shard.at_us) else b"",
            chunks=sorted(files) if key[0] == 0 else [],
        )
        found = [msgspec.json.encode(each).decode() for each in shard.violations]
        rows = {"finding": [*found, None], "progress": [*([None] * len(found)), msgspec.msgpack.encode(progress)]}
        yield pd.DataFrame(rows, dtype=object)

    def _is_due(self, before_us: int, at_us: int) -> bool:
        """All shards agree on it, as they are equally far."""
        return bool(self.put_aside_us) and before_us // self.put_aside_us < at_us // self.put_aside_us


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


def _arrived(frame: pd.DataFrame) -> tuple[list[Stamped], list[Arrival]]:
    arrived: list[Stamped] = []
    told: list[Arrival] = []
    columns = (frame[name].tolist() for name in ("told", *ENVELOPE))
    for text, wall, logical, node, incarnation, seq, run, cause, req, body in zip(*columns, strict=True):
        if text is not None:
            told.append(_told.decode(text))
        else:
            what = NO_BODY if body is None else decode_body(body)
            arrived.append(
                Stamped(run, node, int(incarnation), int(seq), int(wall), int(logical), cause or "", req or "", what)
            )
    return arrived, told
