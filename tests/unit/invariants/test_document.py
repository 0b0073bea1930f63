"""The reference of the invariants."""

from __future__ import annotations

from actors.defects.catalogue import DEFECTS
from orchestrator.invariants.document import DOCUMENT_FILE, document
from orchestrator.invariants.registry import INVARIANTS
from tests.architecture.sources import ROOT


def test_the_reference_is_fresh() -> None:
    """Shows that docs/invariants.md is what the registry says; ``python -m orchestrator.invariants.document`` writes
    it."""
    assert (ROOT / DOCUMENT_FILE).read_text(encoding="utf-8") == document()


def test_every_promise_says_what_its_check_does_not_see() -> None:
    """Shows that nobody can take a check for more than it is."""
    assert [name for name, each in INVARIANTS.items() if not each.unseen] == []


def test_the_reference_is_complete() -> None:
    """Shows an entry for every invariant and a row for every defect."""
    text = document()
    assert all(text.count(f"\n### {name}: ") == 1 for name in INVARIANTS)
    assert all(text.count(f"\n| `{name}` |") == 1 for name in DEFECTS)
