"""The directory of a run: what is in it, and where it lies.

```
runs/<run>/scenario.yaml   as resolved: defaults, seed, features, versions
           manifest.json   krift version, runtime, hosts, start and end, digest
           logs/node=<name>/   per-node logs, chunks of NDJSON (live)
           journals/node=<name>/  inputs and effects of each node (live)
           trace/          collected and ordered, Parquet
           violations/     Parquet
           verdict.json
```

``runs/latest`` points to the newest. Names of runs are made here from checked parts; none comes from a file.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from chaos.errors import InputError, Mistake

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Manifest(msgspec.Struct):
    """Facts about a run that its trace does not hold. Times are ISO 8601 in UTC, of the machine that drove the run.

    duration: seconds. reproduce: the command that carries out the same run again. doubts: what speaks against the run
    having gone its way; no later check may forget them.
    """

    schema: str
    krift: str
    run: str
    scenario: str
    variant: str
    runtime: str
    seed: int
    hosts: list[str]
    started: str
    ended: str = ""
    status: str = "running"
    duration: float = 0.0
    doubts: list[str] = []
    digest: str = ""
    drawn: dict[str, Any] = {}
    reproduce: str = ""


def wrong(what: object, problem: str, expected: str = "") -> InputError:
    """The error for a run or an option that cannot be used."""
    return InputError([Mistake(str(what), 0, "", problem, expected)])


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

    def write_manifest(self, manifest: Manifest) -> None:
        """Write manifest.json, atomically."""
        write_json(self.path / "manifest.json", manifest)

    def read_manifest(self) -> Manifest:
        """Read manifest.json; InputError if it is missing or not one."""
        path = self.path / "manifest.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Manifest)
        except FileNotFoundError:
            raise wrong(self.path, "no manifest.json: this is not the directory of a run") from None
        except msgspec.DecodeError as error:
            raise wrong(path, f"not a manifest of a run: {error}") from None


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    aside = path.with_suffix(path.suffix + ".tmp")
    aside.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    os.replace(aside, path)


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
    except OSError as error:
        raise wrong(path, f"cannot create the run's directory: {error.strerror}", "a writable --out") from None
    point_latest(root, name)
    return RunDir(path)


def point_latest(root: Path, name: str) -> None:
    """Let ``root/latest`` point to the run ``name``."""
    aside = root / f".latest-{os.getpid()}"
    aside.unlink(missing_ok=True)
    aside.symlink_to(name)
    os.replace(aside, root / "latest")


def open_run_dir(root: Path, run: str) -> RunDir:
    """An existing run: a path, a name under ``root``, or "latest"."""
    for path in (Path(run), root / run):
        if path.is_dir():
            return RunDir(path.resolve())
    known = sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []
    hint = f"runs here: {', '.join(known[-5:])}" if known else f"there are no runs under {root}/ yet"
    raise wrong(run, "no such run", hint)
