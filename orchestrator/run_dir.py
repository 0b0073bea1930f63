"""The directory of a run: what is in it, and where it lies.

```
runs/<run>/scenario.yaml   as resolved: defaults, seed, features, versions
           manifest.json   krift version, runtime, hosts, start and end, digest
           logs/node=<name>/   per-node logs, chunks of NDJSON (live)
           journals/node=<name>/  inputs and effects of each node (live)
           steps.bin       digests of all steps (sim)
           trace/          collected and ordered, Parquet
           violations/     Parquet
           verdict.json, junit.xml
```

``runs/latest`` points to the newest. Names of runs are made here from checked parts; none comes from a file. What is
read from a run's directory may be damaged, foreign or made up: each reader here says what is wrong, and where.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from actors.trace.lines import DAMAGE
from chaos.errors import InputError, Mistake, nearest
from orchestrator.driving import is_held
from orchestrator.files import NotWritten, write_bytes

MANIFEST_SCHEMA: Final = "krift-manifest/v1"
LATEST = "latest"

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_SHOWN = 5
"""Names of runs in an error."""

FileT = TypeVar("FileT")


class Manifest(msgspec.Struct, kw_only=True):
    """Facts about a run that are not in its trace: ``manifest.json``.

    started, ended: ISO 8601 in UTC, of the machine that drove the run; ``ended`` "" during the run, or if its driver
    was killed. duration: seconds of the run's own time. zero_ms: the scenario's time 0, milliseconds since 1970 in a
    live run, since its start in a sim run; -1 if it never came. status: running, completed, interrupted, broken, not
    carried out (it ended before its trace was collected), or the step that the cluster failed; detail: the reason.
    doubts: reasons to doubt the run, which every later check repeats. remarks: deviations from the schedule that do not
    change the outcome. digest: of the trace, "" if there is none. drawn: draws of the seed, by place in the scenario.
    reproduce: the command that repeats the run. repeated: digest of the trace of the last repetition (of a sim run, by
    ``krift replay`` or because its scenario expects X8), "" without one.
    """

    schema: Literal["krift-manifest/v1"] = MANIFEST_SCHEMA
    krift: str
    run: str
    scenario: str
    variant: str = ""
    runtime: Literal["live", "sim"]
    seed: int
    hosts: list[str] = []
    started: str
    ended: str = ""
    status: str = "running"
    detail: str = ""
    duration: float = 0.0
    zero_ms: int = -1
    doubts: list[str] = []
    remarks: list[str] = []
    digest: str = ""
    drawn: dict[str, list[str]] = {}
    reproduce: str = ""
    repeated: str = ""


def wrong(what: object, problem: str, expected: str = "", suggestion: str = "") -> InputError:
    """The error for a run or an option that cannot be used."""
    return InputError([Mistake(str(what), 0, "", problem, expected, suggestion)])


def why(error: OSError) -> str:
    """What the operating system says, without its number."""
    return error.strerror or str(error)


def utc_now() -> str:
    """The present, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class RunDir:
    """One run's directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def scenario(self) -> Path:
        return self.path / "scenario.yaml"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def journals(self) -> Path:
        return self.path / "journals"

    @property
    def trace(self) -> Path:
        return self.path / "trace"

    @property
    def violations(self) -> Path:
        return self.path / "violations"

    @property
    def verdict(self) -> Path:
        return self.path / "verdict.json"

    @property
    def junit(self) -> Path:
        return self.path / "junit.xml"

    def write_manifest(self, manifest: Manifest) -> None:
        """Write manifest.json, atomically."""
        write_json(self.path / "manifest.json", manifest)

    def note_the_end(self, manifest: Manifest) -> None:
        """Write manifest.json when a run has stopped short. Where there is no space for another file, in place of what
        it says."""
        try:
            self.write_manifest(manifest)
        except NotWritten:
            with suppress(OSError), (self.path / "manifest.json").open("r+b") as file:
                file.write(_json(manifest))
                file.truncate()

    def read_manifest(self) -> Manifest:
        """Read manifest.json; InputError if it is missing, damaged or of another format."""
        return read_json(
            self.path / "manifest.json",
            Manifest,
            MANIFEST_SCHEMA,
            "a directory that krift run wrote (it has a manifest.json)",
        )

    def trace_parts(self) -> list[Path]:
        """The files of the trace in order, each seen to be a whole Parquet file with the trace's columns.
        InputError for what is not."""
        self.refuse_a_soak()
        parts = sorted(self.trace.glob("part-*.parquet"))
        if not parts:
            raise wrong(self.path, *self._no_trace())
        for number, part in enumerate(parts):
            if part.name != f"part-{number:05}.parquet":
                raise wrong(self.trace, f"part-{number:05}.parquet is missing, but there is a {part.name}", RESTORE)
            _look_at_parquet(part)
        return parts

    def refuse_a_soak(self) -> None:
        """Raises InputError if this is one, of whose trace only the end is there."""
        if (self.path / "soak.json").exists():
            expected = "a run, or the evidence of one of its findings, below evidence/; krift soak status shows it"
            raise wrong(self.path, "a soak, of whose trace only the end is kept", expected)

    def _no_trace(self) -> tuple[str, str]:
        manifest = self.read_manifest()
        return f"it has no trace: {self.fate(manifest)}", self.remedy(manifest)

    def fate(self, manifest: Manifest) -> str:
        """What became of a run that has left less than one that is whole."""
        if manifest.status == "running":
            return "its run is still going on" if is_held(self.path) else "its run was killed before its end"
        if manifest.status == "completed" and not self.logs.is_dir():
            return "none was kept"
        return f"its run was {manifest.status}" + (f", {manifest.detail}" if manifest.detail else "")

    def remedy(self, manifest: Manifest) -> str:
        """What can be had in place of a trace, or of a verdict."""
        again = manifest.reproduce or "krift run with --keep all"
        if any(self.logs.glob("node=*/*")):
            way = f"krift check {shlex.quote(str(self.path))} --engine streaming, which judges what its nodes recorded"
        elif manifest.status == "running" and is_held(self.path):
            return "a run that ended: wait for it"
        else:
            return f"a run that was kept; {again} does it again"
        return way if is_held(self.path) else f"{way}, or the run again: {again}"


RESTORE = "the directory as the run left it: restore it from a copy, or do the run again"


def _look_at_parquet(part: Path) -> None:
    import pyarrow.parquet as pq

    from orchestrator.trace.schema import ARROW_SCHEMA, PARQUET_DAMAGE

    try:
        found = pq.read_schema(part)
    except PARQUET_DAMAGE as error:
        first = str(error).partition("\n")[0].rstrip(".")
        raise wrong(part, f"not a whole Parquet file: {first}", RESTORE) from None
    if not found.equals(ARROW_SCHEMA):
        missing = [name for name in ARROW_SCHEMA.names if name not in found.names]
        what = f"without the columns {', '.join(missing)}" if missing else "with columns of other types"
        raise wrong(part, f"not the trace of a run: a Parquet file {what}", RESTORE)


COMPRESSED = ".zst"
"""What the names of journals that were kept compressed end with."""
JSON_BYTES_MAX = 64 << 20


def read_json(path: Path, kind: type[FileT], schema: str, expected: str) -> FileT:
    """A JSON file of one of our formats. Raises InputError if it cannot be read, is damaged, or of another format or
    version; ``expected``: what to say if it is not there."""
    try:
        if path.stat().st_size > JSON_BYTES_MAX:
            raise wrong(path, f"larger than {JSON_BYTES_MAX >> 20} MiB", RESTORE)
        data = path.read_bytes()
    except FileNotFoundError:
        raise wrong(path, "there is no such file", expected) from None
    except OSError as error:
        raise wrong(path, f"cannot be read: {why(error)}", "a file that you may read") from None
    try:
        document = msgspec.json.decode(data)
    except DAMAGE as error:
        raise wrong(path, f"damaged: {error}", RESTORE) from None
    found = document.get("schema") if isinstance(document, dict) else None
    if found != schema:
        says = f"schema {found!r}" if isinstance(found, str) else "no schema"
        raise wrong(
            path, f"of another format or version: it has {says}", f"{schema}, which this version of krift reads"
        )
    try:
        return msgspec.convert(document, kind, str_keys=True)  # JSON has no other keys
    except msgspec.ValidationError as error:
        raise wrong(path, f"not what {schema} says: {error}", RESTORE) from None


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically. Raises NotWritten."""
    write_bytes(path, _json(value))


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def check_root(root: Path) -> None:
    """See that runs can be written under ``root``, before anything is started for them. Raises InputError."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        probe = root / f".krift-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise wrong(f"--out {root}", f"no run can be kept there: {why(error)}", "a directory to write to") from None
    link = root / LATEST
    if link.exists() and not link.is_symlink():
        raise wrong(link, "in the way: krift keeps a link to the newest run there", "another --out, or that one gone")


def create_run_dir(root: Path, scenario: str, variant: str, runtime: str, seed: int) -> RunDir:
    """A new directory under ``root``, named after the run and the time; ``root/latest`` then points to it."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")[:-3]
    parts = [scenario, variant, runtime, f"seed{seed}", stamp]
    name = "-".join(part for part in parts if part)
    if not _SAFE.fullmatch(name):
        raise wrong(name, "not usable as the name of a run", "letters, digits, '.', '_', '-'")
    path = root / name
    try:
        path.mkdir(parents=True)
        point_latest(root, name)
    except OSError as error:
        raise wrong(path, f"cannot create the run's directory: {why(error)}", "a directory to write to") from None
    return RunDir(path)


def point_latest(root: Path, name: str) -> None:
    """Let ``root/latest`` point to the run ``name``."""
    aside = root / f".latest-{os.getpid()}"
    aside.unlink(missing_ok=True)
    aside.symlink_to(name)
    os.replace(aside, root / LATEST)


def open_run_dir(root: Path, run: str) -> RunDir:
    """An existing run: a path, a name under ``root``, or "latest"."""
    try:
        for path in (Path(run), root / run):
            if path.is_dir():
                return RunDir(path.resolve())
            if path.is_file():
                raise wrong(run, "a file", "the directory of a run")
        known = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink())
    except FileNotFoundError:
        known = []
    except (OSError, ValueError) as error:
        raise wrong(run, f"cannot be read: {error.strerror if isinstance(error, OSError) else error}") from None
    if not known:
        raise wrong(
            run, f"no such run: there are none under {root}/", "the directory of a run, or --out where runs are"
        )
    newest = sorted(known, key=lambda name: name[-_STAMP:])[-_SHOWN:]
    expected = f"the directory of a run, or a name under {root}/: {', '.join(newest)}"
    if len(known) > _SHOWN:
        expected += f" and {len(known) - _SHOWN} older"
    raise wrong(run, "no such run", expected, nearest(run, known))


_STAMP = len("20260101-000000-000")
"""Length of the time at the end of a run's name."""
