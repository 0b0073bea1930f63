"""What was found about Kafka is still so, and its transcripts are those of what is claimed."""

from __future__ import annotations

import pytest

from tests.real_kafka.findings import NAMES, TRANSCRIPTS, finding, reproduce
from tests.real_kafka.findings.transcript import outcome_lines


@pytest.mark.real_kafka
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_kafka_still_does_this(name: str) -> None:
    """Shows that the real Kafka does what was found; where it does not, it was mended, or the finding was wrong."""
    outcome, transcript = reproduce(name)
    assert outcome == finding(name).OUTCOME, transcript.text()


@pytest.mark.parametrize("name", NAMES)
def test_the_transcript_ends_with_the_outcome(name: str) -> None:
    """Shows that each transcript that is kept is of a run with the outcome that is claimed."""
    kept = (TRANSCRIPTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    told = outcome_lines(finding(name).OUTCOME)
    assert kept[-len(told) :] == told


def test_every_transcript_is_of_a_finding() -> None:
    """Shows that no transcript is left of something that nobody can do again."""
    assert {path.stem for path in TRANSCRIPTS.glob("*.txt")} == set(NAMES)
