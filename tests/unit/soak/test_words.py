"""A soak in words."""

from __future__ import annotations

import pytest

from orchestrator.soak.directory import Found
from orchestrator.soak.words import begun_us, line

STARTED = "2026-11-28T22:59:01.500+00:00"


@pytest.mark.parametrize(
    ("runtime", "at_us", "round_", "says"),
    [
        ("sim", 120_000_000, 3, "H9 at 2 min, round 3: broken; evidence/0001-H9"),
        ("live", 1_795_906_861_500_000, -1, "H9 at 2 min: broken; evidence/0001-H9"),
    ],
)
def test_when_a_finding_was_met(runtime: str, at_us: int, round_: int, says: str) -> None:
    """Shows the time since a soak began, by the clock of its trace; and the round, where that is known."""
    found = Found(
        number=1,
        invariant="H9",
        key="k",
        known="",
        sentence="broken",
        events=[],
        causes=[],
        at_us=at_us,
        round=round_,
        evidence="0001-H9",
    )
    assert line(found, begun_us(runtime, STARTED)) == says
