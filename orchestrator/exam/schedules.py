"""Which schedules a defect is put under: those that a nemesis draws, and now and then an incident of the library. None
is made for it."""

from __future__ import annotations

from actors.defects.defect import Defect
from orchestrator.campaigns.order import SimOrder

AREAS = {"actors.quorum": "quorum"}
"""Module of a defect -> the nemesis that is after what goes on there."""

ELSEWHERE = "replication"

EVERYTHING = "everything"
"""The nemesis that is after nothing in particular."""

LIBRARY = (("kip-207", "kafka"), ("baseline", ""), ("kip-207", "seed"))
"""Incidents and variants in which nothing is violated."""

LIBRARY_EVERY = 10
"""One schedule of so many is of the library."""


def nemesis_of(defect: Defect) -> str:
    """What draws the defect's schedules."""
    return defect.nemesis or AREAS.get(defect.where, ELSEWHERE)


def schedule(defect: Defect, number: int) -> SimOrder:
    """The ``number``-th schedule (from 1) of a defect, without the defect, and with the settings without which it
    cannot show."""
    if number % LIBRARY_EVERY:
        return SimOrder(nemesis_of(defect), seed=number, settings=defect.settings)
    incident, variant = LIBRARY[number // LIBRARY_EVERY % len(LIBRARY)]
    return SimOrder(incident, variant, seed=number, settings=defect.settings)


def any_schedule(_defect: Defect, number: int) -> SimOrder:
    """The ``number``-th of the schedules that are the same for every defect, as they are drawn: what somebody who knows
    nothing of a bug would try."""
    return SimOrder(EVERYTHING, seed=number)
