"""Rules that excuse a break are told in words."""

from __future__ import annotations

from orchestrator.invariants.registry import INVARIANTS
from orchestrator.report.rules import BECAUSE, because, in_full, in_short


def test_every_rule_has_words() -> None:
    """Shows that no reader meets the bare name of a rule, and that no words are left of rules that are gone."""
    assert {rule for each in INVARIANTS.values() for rule in each.exemptions} == set(BECAUSE)
    assert not [rule for rule, words in BECAUSE.items() if rule == words or words.endswith(".")]


def test_words_come_before_the_name() -> None:
    """Shows a rule in full, in short, and one that nobody knows any more."""
    assert in_full("H1", "stale-leader") == (
        "rule stale-leader: The second answer came from a leader of an older leader epoch than the first"
    )
    assert in_short("stale-leader") == "rule stale-leader: a former leader answered"
    assert because("of-old") == "of-old"
    assert in_full("of-old", "stale-leader") == in_short("stale-leader")
