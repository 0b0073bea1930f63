"""docs/quorum.md draws the roles as the code has them."""

from __future__ import annotations

import pytest

from actors.quorum import quorum_state
from chaos.scenario.quorum_document import BEGIN, END, PATH, TABLES, WHEN, document, section
from tests.architecture.sources import ROOT


def test_the_document_is_fresh() -> None:
    """Shows that the diagrams in docs/quorum.md are those of the tables; ``python -m chaos.scenario.quorum_document``
    draws them anew."""
    text = (ROOT / PATH).read_text(encoding="utf-8")
    assert document(text) == text


def test_every_transition_is_drawn_and_explained() -> None:
    """Shows that no table of transitions is left out, and that no words are left over."""
    tables = [value for name, value in vars(quorum_state).items() if name.startswith("TRANSITIONS")]
    assert list(TABLES.values()) == tables
    assert set(WHEN) == {pair for table in tables for pair in table}
    for source, target in WHEN:
        assert f"    {source.capitalize()} --> {target.capitalize()}: " in section()


def test_what_is_written_by_hand_is_kept() -> None:
    """Shows that only what is between the marks is replaced, and that a document without them is refused."""
    assert document(f"before\n{BEGIN}old\n{END}after\n") == f"before\n{BEGIN}{section()}{END}after\n"
    with pytest.raises(ValueError, match="lacks the marks"):
        document("nothing")
