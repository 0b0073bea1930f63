"""The disk rules of one incarnation: how much longer its Syncs take."""

from __future__ import annotations

import random

from actors.control import DiskRule

_APART_S = 1e-6


class SlowDisk:
    """``draws``: where the delays come from. Times are the event loop's, in seconds."""

    def __init__(self, draws: random.Random) -> None:
        self._draws = draws
        self._rules: dict[str, DiskRule] = {}
        self._synced: dict[str, int] = {}
        self._due_s: dict[str, float] = {}

    def install(self, rule: DiskRule) -> None:
        """Put a rule in force."""
        self._rules[rule.id] = rule
        self._synced[rule.id] = 0

    def remove(self, rule_id: str) -> tuple[DiskRule, int] | None:
        """End a rule; returns it with how many Syncs were asked for under it. None: it is no disk rule of this node."""
        rule = self._rules.pop(rule_id, None)
        return None if rule is None else (rule, self._synced.pop(rule_id))

    def due_s(self, file: str, now_s: float) -> float:
        """When a Sync of a file that is asked for now may be done at the earliest: what the rules in force add up to,
        and not before the Sync before it."""
        delay_us = 0.0
        for rule in self._rules.values():
            delay_us += self._draws.uniform(rule.delay_min_us, rule.delay_max_us)
            self._synced[rule.id] += 1
        due_s = max(now_s + delay_us / 1e6, self._due_s.get(file, 0.0) + _APART_S)
        self._due_s[file] = due_s
        return due_s
