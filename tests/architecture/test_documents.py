"""What the documents point at is there, and what tests cite is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, name, repository_files

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:actors|chaos|orchestrator|proto|tests|docs|k8s|benchmarks)/[\w./*{},-]+)`")
TRANSCRIPT = re.compile(r"`((?:quorum|broker|controller|client)/\w+\.txt)`")
EDGE_CASE = re.compile(r"\bE-\d{3}\b")
DOCUMENTS = [path for path in repository_files() if path.suffix == ".md"]
TRANSCRIPTS = ROOT / "tests" / "datadriven"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    """Shows that every relative link and every path of this repository named in a document exists."""
    text = path.read_text(encoding="utf-8")
    targets = [path.parent / link for link in LINK.findall(text) if "://" not in link]
    targets += [ROOT / found.split("{")[0].split("*")[0] for found in PATH.findall(text)]
    targets += [TRANSCRIPTS / found for found in TRANSCRIPT.findall(text)]
    missing = [str(target) for target in targets if not target.exists()]
    assert not missing, missing


def test_edge_cases_are_told_and_pinned() -> None:
    """Shows that docs/edge-cases.md has each number that a test cites, with every such test, and no other number."""
    cited: dict[str, set[str]] = {}
    for path in (path for path in repository_files() if ROOT / "tests" in path.parents):
        shown = path.relative_to(TRANSCRIPTS) if TRANSCRIPTS in path.parents else path.relative_to(ROOT)
        for number in EDGE_CASE.findall(path.read_bytes().decode("utf-8", errors="ignore")):
            cited.setdefault(number, set()).add(shown.as_posix())
    told: dict[str, set[str]] = {}
    for line in (ROOT / "docs" / "edge-cases.md").read_text(encoding="utf-8").splitlines():
        cells = line.split(" | ")
        if EDGE_CASE.fullmatch(cells[0].removeprefix("| ")):
            told[cells[0].removeprefix("| ")] = set(re.findall(r"`([^`]+)`", cells[-1]))
    assert told == cited
