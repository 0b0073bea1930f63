"""Which steps of the protocol can be taken while something is under way, and why the others cannot."""

from __future__ import annotations

from orchestrator.coverage.points import STEPS

_ENDS = "That is its end."
_ONE_MEMBER = (
    "An ISR without a leader has its last member, which stays until it leads, or none where there are eligible ones."
)

NEVER: dict[str, dict[str, str]] = {
    "leaderless": {
        "elected": _ENDS,
        "elected-unclean": _ENDS,
        "leaderless": "There is no leader to lose.",
        "isr-expanded": "Only a leader has its ISR grow.",
        "isr-shrunk": _ONE_MEMBER,
        "under-min-isr": _ONE_MEMBER,
        "eligible-replicas": _ONE_MEMBER,
    },
    "voter-change": {"voters-written": "A set is written when the one before it is committed (Q14)."},
}
"""What is under way -> step that cannot be taken meanwhile -> why."""


def possible(interval: str) -> list[str]:
    """The steps that can race with what is under way."""
    return [step for step in STEPS if step not in NEVER.get(interval, {})]
