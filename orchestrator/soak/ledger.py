"""The findings of a soak, each once: a promise that is broken at a key counts when it is broken there first.

A line is on disk before anybody is told. A checkpoint says how many lines there were: who goes on from it takes back
what was found since, and finds it again.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from actors.trace.lines import DAMAGE
from orchestrator.files import append_text, write_bytes
from orchestrator.invariants.folds.fold import Finding
from orchestrator.run_dir import RESTORE, wrong
from orchestrator.soak.directory import Found


class Ledger:
    """``path``: findings.jsonl, which may be there already. Raises InputError if it is damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: list[Found] = _read(path)
        self._names = {_name(each) for each in self.found}

    def __len__(self) -> int:
        return len(self.found)

    def take_back(self, to: int) -> None:
        """Forget all but the first ``to``."""
        del self.found[to:]
        self._names = {_name(each) for each in self.found}
        write_bytes(self._path, b"".join(msgspec.json.encode(each) + b"\n" for each in self.found))

    def note(self, finding: Finding, round_: int, evidence: str = "") -> Found | None:
        """Enter a violation; None if it is known."""
        number = len(self.found) + 1
        new = Found(
            number=number,
            invariant=finding.invariant,
            key=finding.key,
            known=finding.rule,
            sentence=finding.sentence,
            events=finding.events,
            causes=finding.causes,
            at_us=finding.at_us,
            round=round_,
            evidence=evidence and f"{number:04}-{finding.invariant}",
        )
        if _name(new) in self._names:
            return None
        append_text(self._path, msgspec.json.encode(new).decode() + "\n")
        self._names.add(_name(new))
        self.found.append(new)
        return new

    def counts(self, known: bool) -> dict[str, int]:
        """Invariant -> how many; those that are findings about Kafka itself, or the others."""
        return dict(Counter(each.invariant for each in self.found if bool(each.known) == known))


def _name(found: Found) -> tuple[str, str, str]:
    return found.invariant, found.key, found.known


def _read(path: Path) -> list[Found]:
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # torn by a kill: nobody was told of it
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(msgspec.json.decode(line, type=Found))
        except DAMAGE as error:
            raise wrong(path, f"damaged in line {number}: {error}", RESTORE) from None
    return found
