"""A run as a log with vector clocks, as ShiViz draws them. The clocks follow from the causes in the trace."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

import msgspec

from actors.trace.events import Stamped, Tick
from orchestrator.story.events_in_words import in_words
from orchestrator.trace.ids import Place, place_of

EXPRESSION = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
"""What ShiViz is to read such a log with; it is what ShiViz takes by itself."""


class _Node(msgspec.Struct):
    """count: events so far. known: of each other node how many of its events led here. learned, knew: at which counts
    that changed, and to what."""

    count: int = 0
    known: dict[str, int] = {}
    learned: list[int] = []
    knew: list[dict[str, int]] = []


def shiviz(events: Iterable[Stamped]) -> Iterator[str]:
    """Two lines for each event of a trace, whose events come in order: what happened, then who did it with its vector
    clock. Ticks are left out."""
    nodes: dict[str, _Node] = {}
    counts: dict[tuple[str, int], array[int]] = {}
    for event in events:
        node = nodes.setdefault(event.node, _Node())
        cause = place_of(event.cause)
        if cause is not None and cause[0] != event.node:
            _learn(event.node, cause, nodes, counts)
        told = not isinstance(event.body, Tick)
        node.count += told
        life = counts.setdefault((event.node, event.incarnation), array("q"))
        while len(life) <= event.seq:
            life.append(node.count)
        if told:
            clock = msgspec.json.encode({event.node: node.count, **node.known}).decode()
            text = " ".join(in_words(event).split())
            yield f"{event.wall / 1_000_000:.6f} {text} [{event.id}]\n{event.node} {clock}\n"


def _learn(name: str, cause: Place, nodes: dict[str, _Node], counts: dict[tuple[str, int], array[int]]) -> None:
    """What the sender of a message knew of others when it recorded the event before it, its receiver ``name`` knows,
    too."""
    life = counts.get(cause[:2])
    if life is None or cause[2] >= len(life):
        return
    node, sender, count = nodes[name], nodes[cause[0]], life[cause[2]]
    place = bisect_right(sender.learned, count)
    told = {**(sender.knew[place - 1] if place else {}), cause[0]: count}
    news = {other: number for other, number in told.items() if other != name and number > node.known.get(other, 0)}
    if news:
        node.known = {**node.known, **news}
        node.learned.append(node.count + 1)
        node.knew.append(node.known)
