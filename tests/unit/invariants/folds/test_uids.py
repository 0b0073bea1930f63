"""Names of records."""

from __future__ import annotations

import pytest

from orchestrator.invariants.folds.uids import place_of, replaced_by


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


def test_a_new_process_replaces_those_of_its_node() -> None:
    """Shows that sessions of other nodes go on, whatever their names begin with."""
    known = ["producer-1", "producer-10", "producer-1#1", "producer-2#1", "producer-1#2"]
    assert replaced_by("producer-1#2", known) == ["producer-1", "producer-1#1"]
