"""The exam's page has the defects that there are, each with the invariant that is meant for it."""

from __future__ import annotations

import re

from actors.defects.catalogue import DEFECTS
from tests.architecture.sources import ROOT

PAGE = ROOT / "docs" / "exam.md"
ROW = re.compile(r"^\| `([^`]+)` \| ([A-Z]+\d+) ", re.MULTILINE)
"""Of a defect: its name, and the invariant meant for it."""

STALE = "docs/exam.md is stale: `krift exam --write docs/exam.md` makes it anew"


def test_the_page_has_every_defect_and_what_is_meant_for_it() -> None:
    """Shows that the page was made since a defect was last added, renamed or meant for another invariant."""
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(found) == len(dict(found)), "a defect twice"
    assert dict(found) == {name: defect.caught_by for name, defect in DEFECTS.items()}, STALE
