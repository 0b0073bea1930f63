"""docs/guidance.md names what is collected."""

from __future__ import annotations

import re
from pathlib import Path

from orchestrator import coverage
from tests.architecture.sources import ROOT


def test_all_families_of_points_are_in_the_document() -> None:
    """Shows that the document's table has each family that the code says it makes, and no other."""
    folder = Path(next(iter(coverage.__path__)))
    code = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py") if path.name != "__init__.py")
    table = "".join(
        line for line in (ROOT / "docs/guidance.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    )
    assert set(re.findall(r"``([a-z-]+)/", code)) == set(re.findall(r"`([a-z-]+)/", table))
