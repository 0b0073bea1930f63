"""Names of records."""

from __future__ import annotations

import pytest

from orchestrator.invariants.folds.uids import place_of


@pytest.mark.parametrize(
    ("uid", "place"),
    [
        ("p1/0:0", ("p1/0", 0)),
        ("p1/0:17", ("p1/0", 17)),
        ("a:b:3", ("a:b", 3)),
        ("17", ("", 17)),
        ("", ("", -1)),
        ("p1:", ("", -1)),
        ("p1:07", ("", -1)),
        ("p1:-1", ("", -1)),
        ("p1:\N{ARABIC-INDIC DIGIT THREE}", ("", -1)),
    ],
)
def test_a_name_says_session_and_number_or_neither(uid: str, place: tuple[str, int]) -> None:
    """Shows that no two names say the same place: with "07" there would be two of number 7."""
    assert place_of(uid) == place
