"""What was asked and what came back, as text; and how two clusters compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.real_kafka.cluster import CannotBeAsked, Closed

RECORDED = Path(__file__).with_name("outcomes-4.3.1.json")
INEXPRESSIBLE = "cannot be asked"


@dataclass
class Outcomes:
    """The answers of one section by the question."""

    section: str
    told: dict[str, str] = field(default_factory=dict)

    def say(self, question: str, answer: object) -> None:
        """Note an answer."""
        key = f"{self.section}: {question}"
        assert key not in self.told, f"{key} is asked twice"
        self.told[key] = str(answer)

    def ask(self, question: str, how: Callable[[], object]) -> None:
        """Ask and note the answer; a connection that was closed, and what cannot be asked, are answers too."""
        try:
            self.say(question, how())
        except Closed:
            self.say(question, "closed")
        except CannotBeAsked:
            self.say(question, INEXPRESSIBLE)


KNOWN: dict[str, str] = {
    "idempotence: two batches in one partition": "Records that a leader refuses",
    "refusals: a wrong checksum": "Records that a leader refuses",
    "administration: an operation that is none": "Dynamic configuration",
}
"""Questions that Krift answers otherwise than Kafka, with the row of docs/fidelity.md that says so."""


def recorded() -> dict[str, dict[str, str]]:
    """What Kafka 4.3.1 said, by section."""
    found: dict[str, dict[str, str]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def differences(expected: dict[str, str], told: dict[str, str]) -> list[str]:
    """The questions that were answered otherwise, or that only one side was asked, with both answers."""
    return [
        f"{key}\n    Kafka: {expected.get(key)}\n    here:  {told.get(key)}"
        for key in [*expected, *(key for key in told if key not in expected)]
        if expected.get(key) != told.get(key)
    ]
