"""The timeline of a run, made from its trace in one pass: what is drawn, and what is said to be left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from actors.trace.events import Stamped
from chaos.words import some
from orchestrator.page.evidence import Evidence
from orchestrator.page.lanes import NodeLanes, at
from orchestrator.page.model import Bar, Lane, Timeline, Turn
from orchestrator.page.operations import Operations
from orchestrator.page.replicas import Replicas
from orchestrator.page.thinning import joined
from orchestrator.verdict import Verdict

LANE_MAX = 260
"""Bars of a lane; more are drawn together where they lie close."""
BARS_MAX = 3_000
"""Bars of a page: so many a browser draws within a second."""
NODES_MAX = 60
"""Lanes of nodes."""
LONG_START, SHORT_START = 0.15, 0.05
"""If it took more than the first share of the time after time 0 to come there, the picture has the second of it."""


AROUND, AROUND_MIN = 0.1, 0.02
"""What is shown before and after the evidence, in shares of it, and at least in shares of the whole."""
EDGE = 0.05
"""What lies before or after what is shown, and is no longer than this share of it, is shown, too."""


def timeline_of(events: Iterable[Stamped], verdict: Verdict) -> Timeline:
    """The timeline of a trace, whose events come in order, with the violations of its verdict."""
    nodes, replicas, operations, evidence = NodeLanes(), Replicas(), Operations(), Evidence(verdict)
    first_us = last_us = number = 0
    for event in events:
        first_us = event.wall if not number else first_us
        last_us = max(last_us, event.wall)
        number += 1
        for take in (nodes, replicas, operations, evidence):
            take(event)
    zero_us = first_us if nodes.zero_us is None else nodes.zero_us
    broken = {violation.key for each in verdict.invariants for violation in each.violations}
    broken |= {excuse.key for each in verdict.invariants for excuse in each.excuses}
    tps = replicas.chosen(broken)
    left_out = _few(len(replicas.partitions) - len(tps), "partition", "those that changed least")
    begin, end = at(first_us, zero_us), at(last_us, zero_us)
    marks, breaks = evidence.marks(zero_us), evidence.breaks(end)
    whole = (_opens(begin, end, [*(mark.at for mark in marks), *(each.at for each in breaks)]), end)
    turns, untold = replicas.turns(tps, zero_us)
    telling = evidence.first(zero_us)
    opens, closes = _near(whole, [*telling, *_given_up(turns, evidence.lost)])
    room = _Room(closes - opens, sorted({mark.at for mark in marks if mark.proof}))
    drawn, said = _drawn(nodes.lanes(zero_us, last_us), operations.bars(zero_us, last_us), room)
    left_out += said
    lanes, said = _thinned([*drawn, *replicas.lanes(tps, zero_us, last_us)], room)
    left_out += said
    series, points = replicas.series(tps, zero_us)
    left_out += _few(untold, "turn", "of replicas' logs, the last ones")
    left_out += _few(points, "point", "of lines of offsets, between a stretch's least and greatest")
    left_out += evidence.left_out
    return Timeline(
        begin=begin,
        end=end,
        opens=opens,
        closes=closes,
        phases={name: at(us, zero_us) for name, us in nodes.phases.items()},
        events=number,
        lanes=lanes,
        series=series,
        breaks=breaks,
        marks=marks,
        arrows=evidence.arrows(zero_us),
        bands=_bands(lanes),
        turns=turns,
        left_out=left_out,
    )


def _opens(begin: float, end: float, telling: Sequence[float]) -> float:
    """Where the picture begins: with the trace, but for the start of the processes of a live run where that took long
    and nothing in it matters."""
    if -begin <= LONG_START * end:
        return begin
    return max(begin, min([0.0, *telling]) - SHORT_START * end)


def _given_up(turns: Iterable[Turn], lost: Mapping[str, float]) -> list[float]:
    """When a replica first dropped records of each partition that had lost some."""
    found: dict[str, float] = {}
    for turn in turns:
        if turn.kind == "truncates" and turn.at >= lost.get(turn.tp, float("inf")):
            found.setdefault(turn.tp, turn.at)
    return [*found.values()]


def _near(whole: tuple[float, float], telling: Sequence[float]) -> tuple[float, float]:
    """The stretch that is shown at first: from just before the first moment that a reader has to see to just after the
    last; from the beginning, or to the end, where that is little more."""
    if not telling:
        return whole
    first, last = min(telling), max(telling)
    room = max(AROUND * (last - first), AROUND_MIN * (whole[1] - whole[0]))
    opens, closes = max(whole[0], first - room), min(whole[1], last + room)
    edge = EDGE * (closes - opens)
    return whole[0] if opens - whole[0] <= edge else opens, whole[1] if whole[1] - closes <= edge else closes


def _bands(lanes: Iterable[Lane]) -> list[tuple[float, float]]:
    """When any fault goes on, however many do: tints that lie on each other hide what is drawn on them."""
    found: list[tuple[float, float]] = []
    faults = sorted((bar.start, bar.end) for lane in lanes for bar in lane.bars if bar.style == "fault")
    for start, end in faults:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


class _Room(msgspec.Struct, frozen=True):
    """span: seconds that are shown at first. telling: moments of the events that prove violations."""

    span: float
    telling: list[float]

    def joined(self, bars: Sequence[Bar], most: int) -> tuple[list[Bar], int]:
        return joined(bars, most, self.span, self.telling)


def _drawn(lanes: Iterable[Lane], operations: Mapping[str, list[Bar]], room: _Room) -> tuple[list[Lane], list[str]]:
    """Lanes of faults, and of nodes with their operations; of very many nodes the first."""
    every = list(lanes)
    nodes = [lane for lane in every if lane.group == "nodes"]
    without = [Lane(node, "nodes", [], node) for node in operations if node not in {lane.node for lane in nodes}]
    shown = {lane.node for lane in [*nodes, *without][:NODES_MAX]}
    found, together = [], 0
    for lane in [*every, *without]:
        if lane.group == "nodes" and lane.node not in shown:
            continue
        bars, hidden = room.joined(operations.get(lane.node, []), LANE_MAX)
        together += hidden
        found.append(msgspec.structs.replace(lane, bars=[*lane.bars, *bars]))
    left_out = _few(len(nodes) + len(without) - len(shown), "node", "those that the run names last")
    if together:
        left_out.append(f"{some(together, 'operation')} of clients drawn together with others that are close")
    return found, left_out


def _thinned(lanes: list[Lane], room: _Room) -> tuple[list[Lane], list[str]]:
    """No more bars than a page has room for."""
    number = sum(len(lane.bars) for lane in lanes)
    if number <= BARS_MAX:
        return lanes, []
    most = max(12, BARS_MAX // len(lanes))
    found, together = [], 0
    for lane in lanes:
        bars, hidden = room.joined(sorted(lane.bars, key=lambda bar: bar.start), most)
        together += hidden
        found.append(msgspec.structs.replace(lane, bars=bars))
    return found, [f"{some(together, 'stretch', 'stretches')} drawn together with others that are close"]


def _few(number: int, what: str, which: str) -> list[str]:
    return [f"{some(number, what)}, {which}"] if number > 0 else []
