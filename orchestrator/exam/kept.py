"""The runs of an exam on disk, so that one that was broken off goes on where it stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

import actors
import chaos
import orchestrator
from actors.trace.lines import DAMAGE
from orchestrator.exam.attempt import Attempt, Attempted
from orchestrator.exam.examination import Do
from orchestrator.exam.marks import Marks
from orchestrator.files import write_text, writing
from orchestrator.run_dir import read_json, write_json
from orchestrator.version import __version__

FILE = "attempts.jsonl"


MARKS = "exam.json"
MARKS_SCHEMA: Final = "krift-exam/v1"


class KeptMarks(msgspec.Struct, frozen=True):
    """``exam.json``: what came of an exam, and the command that does it again."""

    krift: str
    again: str
    marks: Marks
    schema: Literal["krift-exam/v1"] = MARKS_SCHEMA


def write_marks(directory: Path, marks: Marks, again: str) -> None:
    """Keep what came of an exam. Raises NotWritten."""
    write_json(directory / MARKS, KeptMarks(__version__, again, marks))


def read_marks(directory: Path) -> KeptMarks:
    """The same again. Raises InputError if it is missing, damaged or of another format."""
    expected = f"a directory that krift exam --out wrote (it has an {MARKS})"
    return read_json(directory / MARKS, KeptMarks, MARKS_SCHEMA, expected)


def code_fingerprint() -> str:
    """Names the code that runs: what other code did is no result of this one."""
    digest = hashlib.sha256()
    for package in (actors, chaos, orchestrator):
        root = Path(package.__path__[0])
        for path in sorted(each for each in root.rglob("*") if each.suffix in (".py", ".yaml")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


class Kept:
    """Carries out runs by ``do``, but for those that the directory has already; keeps each as it comes. What other code
    has left in the directory is thrown away."""

    def __init__(self, directory: Path, do: Do) -> None:
        self._do = do
        self._path = directory / FILE
        self._known: dict[str, Attempted] = {}
        directory.mkdir(parents=True, exist_ok=True)
        fingerprint = code_fingerprint()
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        if lines[:1] != [fingerprint.encode()]:
            write_text(self._path, fingerprint + "\n")
            lines = []
        for line in lines[1:]:
            try:
                each = msgspec.json.decode(line, type=Attempted)
            except DAMAGE:  # the line that was being written when the exam was broken off
                continue
            self._known[each.attempt.key] = each
        self.known = len(self._known)

    def __call__(self, attempts: Sequence[Attempt]) -> Iterator[Attempted]:
        """The results of runs, those that are known first."""
        unknown = []
        for attempt in attempts:
            known = self._known.get(attempt.key)
            if known is None:
                unknown.append(attempt)
            else:
                yield msgspec.structs.replace(known, attempt=attempt)
        yield from self._keep(self._do(unknown) if unknown else ())

    def _keep(self, results: Iterable[Attempted]) -> Iterator[Attempted]:
        with writing(self._path), self._path.open("ab") as file:
            if not self._path.read_bytes().endswith(b"\n"):
                file.write(b"\n")
            for each in results:
                self._known[each.attempt.key] = each
                file.write(msgspec.json.encode(each) + b"\n")
                file.flush()
                yield each
