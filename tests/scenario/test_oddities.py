"""Legal oddities: each occurs, and nothing objects to it."""

from __future__ import annotations

import pytest

from chaos.oddities import library
from chaos.oddities.evidence import EVIDENCE
from orchestrator.exam.examination import OddityExam
from tests.unit.exam.attempts import here

pytestmark = pytest.mark.unhurried


@pytest.mark.parametrize("name", library.names())
def test_a_legal_oddity_raises_nothing(name: str) -> None:
    """Shows that what looks wrong is seen to occur, and that every check takes it for what it is."""
    exam = OddityExam([name], seeds=1)
    exam.sit(here)
    (mark,) = exam.marks()
    assert (mark.shown, mark.undecided) == (1, "")
    assert exam.alarms == []


def test_an_oddity_has_a_proof() -> None:
    """Shows that no oddity passes by not occurring: its file or its evidence says what must be seen."""
    for name in library.names():
        scenario = library.load(name).scenario
        excused = scenario.expect.excused if scenario.expect is not None else []
        assert scenario.must_happen or excused or name in EVIDENCE, name
        assert scenario.name == name
    assert set(EVIDENCE) <= set(library.names())
