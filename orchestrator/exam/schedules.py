"""Which schedules a defect is put under: those that a nemesis draws, and the incidents of the library. None is made for
it."""

from __future__ import annotations

from actors.defects import Defect
from orchestrator.campaigns.order import SimOrder

LIBRARY = (("kip-207", "kafka"), ("baseline", ""), ("kip-207", "seed"))
"""Incidents and variants in which nothing is violated."""


def nemesis_of(defect: Defect) -> str:
    """What draws the defect's schedules."""
    return defect.nemesis or "library"


def schedule(defect: Defect, number: int) -> SimOrder:
    """The ``number``-th schedule (from 1) of a defect, without the defect."""
    incident, variant = LIBRARY[(number - 1) % len(LIBRARY)]
    return SimOrder(incident, variant, seed=number)
