"""Tables of the protocol's steps, beside faults and beside what was under way: what runs covered, and what not."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from orchestrator.coverage.pairs import possible
from orchestrator.coverage.points import STEPS, UNDER_WAY


class FaultRow(msgspec.Struct, frozen=True):
    """A fault on a role. runs: in which it was in force. steps: step of the protocol -> runs in which it was taken
    while the fault was in force, or within a second after it; in the order of STEPS, those that never were left out."""

    fault: str
    role: str
    runs: int
    steps: dict[str, int]


def fault_table(runs: Mapping[str, int]) -> list[FaultRow]:
    """Of how many runs each point was covered by -> a row for each fault on each role, sorted.

    A fault's role in ``runs`` is that for the whole cluster (a broker that leads anything is a leader), in ``steps``
    that for the topic partition that the step is about.
    """
    hit: dict[tuple[str, str], int] = {}
    taken: dict[tuple[str, str], dict[str, int]] = {}
    for point, times in runs.items():
        family, *values = point.split("/")
        if family == "fault":
            fault, role = values
            hit[fault, role] = times
        elif family == "during":
            fault, role, step = values
            taken.setdefault((fault, role), {})[step] = times
    return [
        FaultRow(
            fault,
            role,
            max(hit.get((fault, role), 0), *taken.get((fault, role), {}).values(), 0),
            {step: times for step in STEPS if (times := taken.get((fault, role), {}).get(step, 0))},
        )
        for fault, role in sorted({*hit, *taken})
    ]


class PairRow(msgspec.Struct, frozen=True):
    """What can be under way. steps: step of the protocol -> runs in which it was taken meanwhile; never: those that can
    be taken meanwhile, and were in no run; both in the order of STEPS."""

    under_way: str
    steps: dict[str, int]
    never: list[str]


def pair_table(runs: Mapping[str, int]) -> list[PairRow]:
    """Of how many runs each point was covered by -> a row for each thing that can be under way."""
    rows = []
    for interval in UNDER_WAY:
        times = {step: runs.get(f"amid/{interval}/{step}", 0) for step in STEPS}
        taken = {step: number for step, number in times.items() if number}
        rows.append(PairRow(interval, taken, [step for step in possible(interval) if step not in taken]))
    return rows
