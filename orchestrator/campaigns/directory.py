"""The directory of a campaign: what is in it, and how it survives a driver that is killed at any moment.

```
runs/campaign-<name>-<time>/campaign.json             what was asked: names, seeds, settings, the version of krift
                            results/part-*.parquet    a row a run, in the order in which they ended
                            failures/<signature>/<run>/    the first failing runs of a signature
                            sample/<run>/             runs drawn from the rest
                            report.md, report.json    what came of it
```

Parts are written aside and renamed, so that a part is there whole or not at all; if the machine itself goes down, the
newest may be torn, and is dropped: its runs are done again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.errors import nearest
from orchestrator.campaigns.asked import CAMPAIGN_SCHEMA, Asked
from orchestrator.campaigns.record import RunRecord
from orchestrator.files import writing
from orchestrator.run_dir import RESTORE, read_json, why, write_json, wrong
from orchestrator.trace.schema import PARQUET_DAMAGE

PREFIX = "campaign-"
LATEST = "latest"

_COLUMNS = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("at_s", pa.float64()),
        pa.field("source", pa.string()),
        pa.field("variant", pa.string()),
        pa.field("seed", pa.int64()),
        pa.field("settings", pa.list_(pa.string())),
        pa.field("exit_code", pa.int64()),
        pa.field("outcome", pa.string()),
        pa.field("signature", pa.string()),
        pa.field("digest", pa.string()),
        pa.field("events", pa.int64()),
        pa.field("wall_s", pa.float64()),
        pa.field("record", pa.string()),
    ]
)
_RECORD: msgspec.json.Decoder[RunRecord] = msgspec.json.Decoder(RunRecord)


class Done(msgspec.Struct, frozen=True):
    """A run of a campaign that ended. number: counts from 1, in the order of their ends. at_s: seconds of work
    by then, all sessions of the campaign together."""

    number: int
    at_s: float
    record: RunRecord


class Outcome(msgspec.Struct, frozen=True):
    """What became of a run, without its record."""

    source: str
    variant: str
    seed: int
    settings: list[str]
    exit_code: int
    outcome: str
    signature: str


class CampaignDir:
    """A campaign's directory; ``path`` exists."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dropped = ""
        """Says what ``results`` has dropped, "" if nothing."""

    @property
    def results(self) -> Path:
        return self.path / "results"

    @property
    def failures(self) -> Path:
        return self.path / "failures"

    @property
    def sample(self) -> Path:
        return self.path / "sample"

    @property
    def aside(self) -> Path:
        """Where runs are kept that are not whole yet."""
        return self.path / ".aside"

    @property
    def report_text(self) -> Path:
        return self.path / "report.md"

    @property
    def report_data(self) -> Path:
        return self.path / "report.json"

    def write_asked(self, asked: Asked) -> None:
        """Write campaign.json, atomically."""
        write_json(self.path / "campaign.json", asked)

    def read_asked(self) -> Asked:
        """Read campaign.json. Raises InputError if it is missing, damaged or of another format."""
        expected = "a directory that krift campaign wrote (it has a campaign.json)"
        return read_json(self.path / "campaign.json", Asked, CAMPAIGN_SCHEMA, expected)

    @contextmanager
    def held(self) -> Iterator[None]:
        """While this process is the only one that writes there. Raises InputError if another one is at it."""
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                problem = "another krift is at work on this campaign"
                raise wrong(self.path, problem, "one at a time") from None
            shutil.rmtree(self.aside, ignore_errors=True)
            yield

    def add_part(self, part: Sequence[Done]) -> None:
        """Write results; when this returns, they are on the disk. Raises NotWritten."""
        self.results.mkdir(exist_ok=True)
        number = len(self._parts())
        path = self.results / f"part-{number:05}.parquet"
        aside = path.with_suffix(".tmp")
        rows = [_row(done) for done in part]
        with writing(path), aside.open("wb") as file:
            pq.write_table(pa.Table.from_pylist(rows, schema=_COLUMNS), file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)

    def done(self) -> Iterator[Done]:
        """All results, in order. The last part is removed if it is torn. Raises InputError for other damage."""
        parts = self._parts()
        for number, path in enumerate(parts):
            if path.name != f"part-{number:05}.parquet":
                raise wrong(self.results, f"part-{number:05}.parquet is missing, but there is a {path.name}", RESTORE)
            try:
                found = _read(path)
            except (*PARQUET_DAMAGE, KeyError, msgspec.MsgspecError) as error:
                first = str(error).partition("\n")[0].rstrip(".")
                if number < len(parts) - 1:
                    raise wrong(path, f"damaged: {first}", RESTORE) from None
                path.unlink()
                self.dropped = f"{path.name} was torn, and is dropped: its runs are done again ({first})"
                return
            yield from found

    def outcomes(self) -> Iterator[Outcome]:
        """What became of each run, in the order of their ends. Changes nothing. Raises InputError for damage."""
        for path in self._parts():
            try:
                rows = pq.read_table(path, columns=list(Outcome.__struct_fields__)).to_pylist()
                yield from msgspec.convert(rows, list[Outcome])
            except (*PARQUET_DAMAGE, KeyError, msgspec.MsgspecError) as error:
                raise wrong(path, f"damaged: {str(error).partition(chr(10))[0].rstrip('.')}", RESTORE) from None

    def _parts(self) -> list[Path]:
        return sorted(self.results.glob("part-*.parquet"))


def _row(done: Done) -> dict[str, object]:
    record = done.record
    return {
        "number": done.number,
        "at_s": done.at_s,
        "source": record.order.source,
        "variant": record.order.variant,
        "seed": record.seed,
        "settings": list(record.order.settings),
        "exit_code": record.exit_code,
        "outcome": record.outcome,
        "signature": record.signature,
        "digest": record.digest,
        "events": record.events,
        "wall_s": record.wall_s,
        "record": msgspec.json.encode(record).decode(),
    }


def _read(path: Path) -> list[Done]:
    table = pq.read_table(path, columns=["number", "at_s", "record"])
    return [Done(row["number"], row["at_s"], _RECORD.decode(row["record"])) for row in table.to_pylist()]


def create_campaign_dir(root: Path, name: str) -> CampaignDir:
    """A new directory under ``root``. Raises InputError."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")[:-3]
    path = root / f"{PREFIX}{name}-{stamp}"
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise wrong(path, f"cannot create the campaign's directory: {why(error)}", "a directory to write to") from None
    return CampaignDir(path)


def open_campaign_dir(root: Path, which: str) -> CampaignDir:
    """An existing campaign: a path, a name under ``root``, or "latest". Raises InputError."""
    known = sorted((each.name for each in root.glob(f"{PREFIX}*") if each.is_dir()), key=lambda name: name[-_STAMP:])
    if which == LATEST and known:
        return CampaignDir(root / known[-1])
    for path in (Path(which), root / which):
        if path.is_dir():
            return CampaignDir(path)
    expected = "the directory of a campaign"
    if known:
        expected += f", or a name under {root}/: {', '.join(known[-3:])}"
    raise wrong(f"--resume {which}", "no such campaign", expected, nearest(which, known))


_STAMP = len("20260101-000000-000")
"""Length of the time at the end of a name."""
