"""What the purgatories of a broker have in common: one timer for the earliest of many deadlines, and who waits for
which partition."""

from __future__ import annotations

import msgspec

from actors.node.step import Step


class ExpiryTimer(msgspec.Struct):
    """One timer that never fires later than the earliest deadline it was shown. ``due_ms`` -1: not running.

    It may fire for a deadline that nobody waits for any more; then it is set anew for the earliest that is left.
    """

    name: str
    due_ms: int = -1

    def cover(self, step: Step, deadline_ms: int) -> None:
        """See to it that the timer fires at ``deadline_ms`` or before."""
        if 0 <= self.due_ms <= deadline_ms:
            return
        self.due_ms = deadline_ms
        step.set_timer(self.name, max(0, deadline_ms - step.now_ms))

    def fired(self) -> None:
        """The timer fired."""
        self.due_ms = -1


class Watchers(msgspec.Struct):
    """Numbers of parked requests by the partition they wait for, in the order they came."""

    by_partition: dict[str, list[int]] = {}

    def add(self, tp: str, number: int) -> None:
        """``number`` waits for ``tp``; once, even if it names the partition twice."""
        waiting = self.by_partition.setdefault(tp, [])
        if not waiting or waiting[-1] != number:
            waiting.append(number)

    def remove(self, tp: str, number: int) -> None:
        """``number`` waits no longer."""
        waiting = self.by_partition.get(tp)
        if waiting is None or number not in waiting:
            return
        waiting.remove(number)
        if not waiting:
            del self.by_partition[tp]

    def of(self, tp: str) -> list[int]:
        """Who waits for ``tp``: a copy, as waking changes the original."""
        waiting = self.by_partition.get(tp)
        return list(waiting) if waiting else []
