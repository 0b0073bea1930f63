"""An event among the others: what its node did before and after it, and what led to it."""

from __future__ import annotations

from collections.abc import Iterator

from actors.trace.events import Stamped

NEIGHBOURS = 2
"""Events of the same node that are told on either side."""

CAUSES_MAX = 15
"""Links of a chain of causes that are told."""


class Surroundings:
    """A whole trace, taken event by event, to look into."""

    def __init__(self) -> None:
        self._by_id: dict[str, Stamped] = {}

    def __call__(self, event: Stamped) -> None:
        self._by_id[event.id] = event

    def __contains__(self, name: str) -> bool:
        return name in self._by_id

    def __getitem__(self, name: str) -> Stamped:
        return self._by_id[name]

    def neighbours(self, event: Stamped) -> tuple[list[Stamped], list[Stamped]]:
        """What the same life of its node recorded just before an event, and just after it."""
        before = (self._at(event, -each) for each in range(NEIGHBOURS, 0, -1))
        after = (self._at(event, each) for each in range(1, NEIGHBOURS + 1))
        return [each for each in before if each is not None], [each for each in after if each is not None]

    def causes(self, event: Stamped) -> Iterator[tuple[str, Stamped]]:
        """The chain of causes of an event, the nearest first: ``from`` the last event of the node whose message
        led to it; where no message did (a timer ran out), ``after`` what its node had done before."""
        for _ in range(CAUSES_MAX):
            led = self._by_id.get(event.cause)
            how, led = ("from", led) if led is not None else ("after", self._at(event, -1))
            if led is None:
                return
            yield how, led
            event = led

    def _at(self, event: Stamped, step: int) -> Stamped | None:
        return self._by_id.get(f"{event.node}/{event.incarnation}/{event.seq + step}")
