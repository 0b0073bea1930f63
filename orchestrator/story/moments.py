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
    promise is about these. loss: acknowledged records are missing from then on."""

    at_us: int
    text: str
    event: str = ""
    keys: Sequence[str] = ()
    concerns: Sequence[str] = ()
    loss: bool = False


class Step(msgspec.Struct, frozen=True):
    """A step on the way to a violation. at_us: when, in microseconds since time 0. text: what happened. event: the id
    of the event of the trace that says so."""

    at_us: int
    text: str
    event: str


def place(found: Break, told: Sequence[Break]) -> int:
    """Where what breaks stands in a story: after what happened at the same moment, but before what the same node did
    after the event that shows it."""
    life, _, number = found.event.rpartition("/")
    for index, each in enumerate(told):
        if each.at_us < found.at_us:
            continue
        its_life, _, its_number = each.event.rpartition("/")
        if each.at_us > found.at_us or (life and life == its_life and int(its_number) > int(number)):
            return index
    return len(told)


def worth_explaining(breaks: Sequence[Break]) -> list[int]:
    """Times near which a reader looks for what led there: of the first break, and of each loss of records."""
    losses = [each.at_us for each in breaks if each.loss]
    return [min(each.at_us for each in breaks), *losses] if breaks else []


def distance(us: int, near: Sequence[int]) -> int:
    """How far a moment is from what broke; where nothing did, early ones come first."""
    return min((abs(us - each) for each in near), default=us)
