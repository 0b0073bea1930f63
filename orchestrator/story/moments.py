"""What stories and paths are made of, as ``verdict.json`` has them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Moment(msgspec.Struct, frozen=True):
    """A line of a story. at_us: when, in microseconds since time 0. text: what happened."""

    at_us: int
    text: str


class Break(msgspec.Struct, frozen=True):
    """A moment with the event that shows it. event: its id, "" where nothing but the end of the run does. keys: topic
    partitions, groups, nodes or the like at which something broke. concerns: "groups" or "transactions", where the
    promise is about these."""

    at_us: int
    text: str
    event: str = ""
    keys: Sequence[str] = ()
    concerns: Sequence[str] = ()


class Step(msgspec.Struct, frozen=True):
    """A step on the way to a violation. at_us: when, in microseconds since time 0. text: what happened. event: the id
    of the event of the trace that says so."""

    at_us: int
    text: str
    event: str
