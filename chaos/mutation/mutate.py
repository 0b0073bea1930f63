"""From a scenario document, another one of its kind and a seed to a mutated document that the loader takes."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import TypeVar

from chaos.errors import InputError
from chaos.mutation import schedule, settings
from chaos.mutation.cast import Part, cast_of
from chaos.scenario.durations import parse_duration_us
from chaos.scenario.loader import load_text
from chaos.scenario.yaml_text import to_yaml

WayT = TypeVar("WayT")

CHANGES = (1, 1, 2, 2, 3, 5)
"""How many changes a mutation makes."""
ON_SCHEDULE = 0.75
"""Part of them that change the schedule."""
ATTEMPTS = 20
"""A mutation that the loader refuses is drawn again so often."""


def mutate(document: Part, other: Part, seed: int) -> Part:
    """A document that differs from ``document``, with ``other`` (of the same source) as material; both stay as they
    are. The chaos lasts as long as before, and producers send what a drawn run may have of records. Pure.

    Where nothing that is drawn is valid, which is rare, the document comes back with another seed of its own.
    """
    for attempt in range(ATTEMPTS):
        draw = random.Random(f"mutation/{seed}/{attempt}")
        mutated = _changed(copy.deepcopy(document), other, draw)
        if mutated != document and _is_valid(mutated):
            return mutated
    return {**copy.deepcopy(document), "seed": random.Random(f"mutation/{seed}").randrange(2**31)}


def _changed(document: Part, other: Part, draw: random.Random) -> Part:
    changes = draw.choice(CHANGES)
    on_schedule = sum(draw.random() < ON_SCHEDULE for _ in range(changes))
    for _ in range(changes - on_schedule):
        any(way(document, other, draw) for way in _shuffled(settings.WAYS, draw))
    cast = cast_of(document)
    duration_us = parse_duration_us(document["duration"])
    document["workload"] = cast.fit(document["workload"])
    known = {*cast.servers, *cast.clients}
    document["nodes"] = {name: own for name, own in document.get("nodes", {}).items() if name in known}
    entries = [schedule.settled(entry, cast, duration_us) for entry in document.get("chaos", [])]
    draft = schedule.Draft(draw, entries, other.get("chaos", []), cast, duration_us)
    for _ in range(on_schedule):
        any(way(draft) for way in _shuffled(schedule.WAYS, draw))
    document["chaos"] = [schedule.timed(entry, duration_us) for entry in draft.entries]
    settings.within_bounds(document)
    return document


def _shuffled(ways: Sequence[WayT], draw: random.Random) -> list[WayT]:
    """In the order in which they are tried, until one finds something to change."""
    return draw.sample(ways, len(ways))


def _is_valid(document: Part) -> bool:
    try:
        load_text(to_yaml(document))
    except InputError:
        return False
    return True
