"""Which steps of the protocol can be taken while something is under way, and why the others cannot."""

from __future__ import annotations

from orchestrator.coverage.points import STEPS

NEVER: dict[str, dict[str, str]] = {}
"""What is under way -> step that cannot be taken meanwhile -> why."""


def possible(interval: str) -> list[str]:
    """The steps that can race with what is under way."""
    return [step for step in STEPS if step not in NEVER.get(interval, {})]
