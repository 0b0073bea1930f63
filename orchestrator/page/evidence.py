"""Violations on the timeline: when each was found, the events that prove it, and the messages that led to these."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from sys import intern

import msgspec

from actors.trace.events import Stamped
from orchestrator.page.lanes import at
from orchestrator.page.model import Arrow, Break, Mark
from orchestrator.report.headline import most_excused
from orchestrator.report.losses import ACKNOWLEDGED, LOSSES, worst_first
from orchestrator.story.events_in_words import in_words
from orchestrator.story.moments import Step
from orchestrator.trace.ids import Place, id_of, place_of
from orchestrator.verdict import Excuse, Verdict

ARROWS_MAX = 6
"""Messages that are followed back from a violation's evidence, for each of the events that prove it."""
STEPS_MAX = 600
"""Events of a node that are passed over at most on the way to the last message that reached it."""
SHOWN_MAX = 40
"""Violations that are drawn, over all promises."""
EXCUSED_MAX = 12
"""Promises that gave way of which the first break is drawn, and losses of records."""


class _Life(msgspec.Struct):
    """What one incarnation recorded, by number: when, of which type, and because of which event of whom."""

    walls: array[int] = msgspec.field(default_factory=lambda: array("q"))
    types: list[str] = []
    causes: list[str] = []


class Evidence:
    """Takes the events of a run in order, and remembers of each only how it hangs together with others. ``verdict``:
    whose violations are drawn."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self._shown = _shown(verdict)
        excused = [
            (_named(each.id, excuse), excuse) for each in most_excused(verdict) for excuse in worst_first(each.excuses)
        ]
        self._excused = excused[:EXCUSED_MAX]
        proofs = [name for _, _, proofs, causes in self._shown for name in (*proofs, *causes)]
        proofs += [name for _, excuse in self._excused for name in excuse.events]
        self._wanted = {place for place in map(place_of, proofs) if place is not None}
        self._found: dict[str, Stamped] = {}
        self._lives: dict[tuple[str, int], _Life] = {}

    def __call__(self, event: Stamped) -> None:
        life = self._lives.get((event.node, event.incarnation))
        if life is None:
            life = self._lives[event.node, event.incarnation] = _Life()
        while len(life.walls) < event.seq:  # a gap in the trace
            life.walls.append(event.wall)
            life.types.append("")
            life.causes.append("")
        if len(life.walls) == event.seq:
            life.walls.append(event.wall)
            life.types.append(intern(event.type))
            life.causes.append(event.cause)
        if (event.node, event.incarnation, event.seq) in self._wanted:
            self._found[event.id] = event

    @property
    def left_out(self) -> list[str]:
        """Sentences on the violations that have no tick."""
        drawn = Counter(name for name, *_ in self._shown)
        return [
            f"ticks for the first {drawn[each.id]:,} of {each.violated:,} violations of {each.id}"
            for each in self._verdict.invariants
            if each.violated > drawn[each.id]
        ]

    @property
    def lost(self) -> dict[str, float]:
        """Partition -> when acknowledged records of it began to be missing, in seconds since time 0."""
        gone = [each for one in self._verdict.invariants for each in one.gone if each.at_us is not None]
        return {each.key: (each.at_us or 0) / 1_000_000 for each in reversed(gone)}

    def first(self, zero_us: int) -> list[float]:
        """The moments that a reader has to see: of each promise the first break, with what proves it or led to it, and
        each loss of records; what is excused where nothing else is to be seen."""
        gone = [each.at_us for one in self._verdict.invariants for each in one.gone]
        found = [at_us for at_us in gone if at_us is not None]
        found += [step.at_us for _, excuse in self._excused for step in excuse.path]
        for each in self._verdict.invariants:
            if each.violations and each.first_us is not None:
                found.append(each.first_us)
                found += [step.at_us for step in each.violations[0].path]
                proofs = (self._found[name] for name in each.violations[0].events if name in self._found)
                found += [event.wall - zero_us for event in proofs]
        found = found or [excuse.at_us for _, excuse in self._excused if excuse.at_us is not None]
        return [at_us / 1_000_000 for at_us in found]

    def breaks(self, end: float) -> list[Break]:
        """Each violation that is drawn, and what was excused or missing, by time. ``end``: where those stand that have
        no time."""
        found = [Break(name, moment, key, sentence) for name, moment, key, sentence in self._moments(end)]
        for name, excuse in self._excused:
            if excuse.at_us is not None:
                found.append(Break(name, excuse.at_us / 1_000_000, excuse.key, excuse.sentence, True))
            if excuse.regained_us is not None:
                back_us, how = excuse.regained_us, excuse.regained_how
                found.append(Break("records back", back_us / 1_000_000, excuse.key, how, True))
        return sorted(found, key=lambda each: (each.at, each.promise))

    def _moments(self, end: float) -> Iterator[tuple[str, float, str, str]]:
        drawn = {(name, number) for name, number, _, _ in self._shown}
        for each in self._verdict.invariants:
            for number, violation in enumerate(each.violations):
                if (each.id, number) in drawn:
                    moment = end if violation.at_us is None else violation.at_us / 1_000_000
                    yield each.id, moment, violation.key, violation.sentence

    def marks(self, zero_us: int) -> list[Mark]:
        """The events that prove violations, and those on the way to each promise's first."""
        found: dict[tuple[str, str], Mark] = {}
        for name, _, proofs, causes in self._shown:
            for told, proof in ((proofs, True), (causes, False)):
                for event in (self._found[each] for each in told if each in self._found):
                    mark = Mark(name, at(event.wall, zero_us), event.node, in_words(event), event.id, proof)
                    found.setdefault((name, event.id), mark)
        for name, excuse in self._excused:
            for event in (self._found[one] for one in excuse.events if one in self._found):
                told = in_words(event)
                mark = Mark(name, at(event.wall, zero_us), event.node, told, event.id, True, True)
                found.setdefault((name, event.id), mark)
            for step in excuse.path:
                found.setdefault((name, step.event), msgspec.structs.replace(_on_the_way(name, step), excused=True))
        for each in self._verdict.invariants:
            for step in each.violations[0].path if each.violations else []:
                found.setdefault((each.id, step.event), _on_the_way(each.id, step))
        return sorted(found.values(), key=lambda mark: (mark.at, mark.event))

    def arrows(self, zero_us: int) -> list[Arrow]:
        """The last messages before each event that proves a violation, back along its chain of causes."""
        found: dict[tuple[str, str, str], Arrow] = {}
        for name, _, proofs, _ in self._shown:
            for proof in proofs:
                for sent, received in self._messages(proof):
                    found.setdefault((name, id_of(sent), id_of(received)), self._arrow(name, sent, received, zero_us))
        return sorted(found.values(), key=lambda arrow: (arrow.received, arrow.sent))

    def _messages(self, proof: str) -> Iterator[tuple[Place, Place]]:
        here = place_of(proof)
        arrows = 0
        for _ in range(STEPS_MAX):
            if here is None or arrows == ARROWS_MAX:
                return
            node, incarnation, number = here
            life = self._lives.get((node, incarnation))
            if life is None or number >= len(life.causes):
                return
            cause = place_of(life.causes[number])
            if cause is not None and cause[0] != node and self._has(cause):
                yield cause, here
                arrows += 1
                here = cause
            else:
                here = (node, incarnation, number - 1) if number else None

    def _has(self, place: Place) -> bool:
        life = self._lives.get(place[:2])
        return life is not None and place[2] < len(life.walls)

    def _arrow(self, name: str, sent: Place, received: Place, zero_us: int) -> Arrow:
        walls = [self._lives[place[:2]].walls[place[2]] for place in (sent, received)]
        types = [self._lives[place[:2]].types[place[2]] for place in (sent, received)]
        told = f"sent after {types[0]} {id_of(sent)}, led {received[0]} to {types[1]} {id_of(received)}"
        text = f"a message of {sent[0]}, {told}"
        return Arrow(name, at(walls[0], zero_us), sent[0], at(walls[1], zero_us), received[0], text)


def _named(invariant: str, excuse: Excuse) -> str:
    """How a break that a rule excuses is called: ``P4 excused``; records that are gone by what they are."""
    lost = invariant == ACKNOWLEDGED and excuse.rule in LOSSES
    return "records lost" if lost and not excuse.regained else "records missing" if lost else f"{invariant} excused"


def _on_the_way(name: str, step: Step) -> Mark:
    node = step.event.partition("/")[0]
    return Mark(name, round(step.at_us / 1_000_000, 6), node, step.text, step.event, False)


def _shown(verdict: Verdict) -> list[tuple[str, int, Sequence[str], Sequence[str]]]:
    """Of each promise the first violations: its id, their number in the verdict, events and causes. Every promise that
    was broken has its turn before another one has two."""
    ranked = [
        (number, each.id, violation) for each in verdict.invariants for number, violation in enumerate(each.violations)
    ]
    ranked.sort(key=lambda entry: entry[0])
    return [(name, number, each.events, each.causes) for number, name, each in ranked[:SHOWN_MAX]]
