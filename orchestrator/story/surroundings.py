"""Events among the others: what their nodes did before and after them, and what led to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from actors.trace.events import CtlPhase, Stamped

NEIGHBOURS = 2
"""Events of the same node that are told on either side."""

CAUSES_MAX = 15
"""Links of a chain of causes that are told."""

Link = tuple[str, str]
"""How an event led to another one, and its id. ``from``: the last event of the node whose message led there;
``after``: what the same node did before, where no message did (a timer ran out)."""


class Surroundings:
    """The wanted events of a trace (by id), with what is around them; ``read`` goes through the trace, which may be of
    any size. zero_us: time 0 by the trace's clock; its beginning if time 0 never came."""

    def __init__(self, read: Callable[[], Iterable[Stamped]], wanted: Iterable[str], *, why: bool = False) -> None:
        self._kept: dict[str, Stamped] = {}
        self._chains: dict[str, list[Link]] = {}
        wanted = list(dict.fromkeys(wanted))
        near = {_beside(name, step) for name in wanted for step in range(-NEIGHBOURS, NEIGHBOURS + 1)}
        causes: dict[str, str] = {}
        zero_us = begun_us = None
        for event in read():
            begun_us = event.wall if begun_us is None else begun_us
            if isinstance(event.body, CtlPhase) and event.body.phase == "chaos":
                zero_us = event.wall
            if why:
                causes[event.id] = event.cause
            if event.id in near:
                self._kept[event.id] = event
        self.zero_us = next((each for each in (zero_us, begun_us) if each is not None), 0)
        self.missing = [name for name in wanted if name not in self._kept]
        self.events = sorted((self._kept[name] for name in wanted if name in self._kept), key=lambda each: each.order)
        if why:
            self._chains = {event.id: list(_chain(causes, event.id)) for event in self.events}
            links = {name for chain in self._chains.values() for _, name in chain}
            self._kept |= {event.id: event for event in read() if event.id in links}

    def neighbours(self, event: Stamped) -> tuple[list[Stamped], list[Stamped]]:
        """What the same life of a wanted event's node recorded just before it, and just after it."""
        before = (self._kept.get(_beside(event.id, -step)) for step in range(NEIGHBOURS, 0, -1))
        after = (self._kept.get(_beside(event.id, step)) for step in range(1, NEIGHBOURS + 1))
        return [each for each in before if each is not None], [each for each in after if each is not None]

    def causes(self, event: Stamped) -> Iterator[tuple[str, Stamped]]:
        """The chain of causes of a wanted event, the nearest first, each with how it led there."""
        for how, name in self._chains[event.id]:
            yield how, self._kept[name]


def _beside(name: str, step: int) -> str:
    """The id of an event so many after another one of its node."""
    life, _, number = name.rpartition("/")
    return f"{life}/{int(number) + step}" if number.isdecimal() else name


def _chain(causes: Mapping[str, str], name: str) -> Iterator[Link]:
    for _ in range(CAUSES_MAX):
        before = _beside(name, -1)
        how, name = ("from", causes[name]) if causes[name] in causes else ("after", before)
        if name not in causes:
            return
        yield how, name
