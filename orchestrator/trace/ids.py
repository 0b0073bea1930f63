"""Ids of events, ``node/incarnation/number``, in parts."""

from __future__ import annotations

Place = tuple[str, int, int]
"""An event: node, incarnation, number."""


def place_of(name: str) -> Place | None:
    """The parts of an id; None for what is none."""
    node, _, rest = name.partition("/")
    incarnation, _, number = rest.partition("/")
    if not (node and incarnation.isdecimal() and number.isdecimal()):
        return None
    return node, int(incarnation), int(number)


def id_of(place: Place) -> str:
    """The opposite."""
    return "/".join(map(str, place))
