"""What pages of many runs are made of: tables whose cells may be links, commands or pictures, and runs as squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from chaos.words import some
from orchestrator.report.campaign import Section
from orchestrator.report.comparison import Placed

Tone = Literal["", "held", "violated", "excused", "inconclusive", "vacuous"]


class Part(msgspec.Struct, frozen=True):
    """A stretch of a bar. share: of the bar's whole width, 0 to 1."""

    tone: Tone
    share: float


class Cell(msgspec.Struct, frozen=True):
    """One field of a table. href: where its text leads. code: it is a command. bar, span: a picture before the text;
    said: the picture in words."""

    text: str
    tone: Tone = ""
    href: str = ""
    code: bool = False
    bar: Sequence[Part] = ()
    span: Placed | None = None
    said: str = ""


class Square(msgspec.Struct, frozen=True):
    """A run, or several that stand next to each other. mark: tells what became of it without a colour. said: the same
    in words."""

    tone: Tone
    mark: str
    said: str
    href: str = ""


class Strip(msgspec.Struct, frozen=True):
    """Runs in a row. said: all of them in words."""

    title: str
    squares: Sequence[Square]
    said: str


class Block(msgspec.Struct, frozen=True):
    """Something under a heading: lines, a table, strips of squares. Columns that begin with ">" have numbers. tone: of
    the lines."""

    heading: str
    before: Sequence[str] = ()
    tone: Tone = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()
    strips: Sequence[Strip] = ()
    key: Sequence[Square] = ()
    """What the squares mean."""


def plain(cells: Sequence[str], code: int | None = None) -> list[Cell]:
    """Fields of text alone; ``code``: which of them is a command."""
    return [Cell(text, code=number == code) for number, text in enumerate(cells)]


def block_of(section: Section) -> Block:
    """A section of a report as it is."""
    tone: Tone = "inconclusive" if section.style else ""
    return Block(section.heading, section.before, tone, section.columns, [_toned(row) for row in section.rows])


_TONES: dict[str, Tone] = {
    "held": "held",
    "violated": "violated",
    "excused": "excused",
    "inconclusive": "inconclusive",
    "vacuous": "vacuous",
}


def _toned(row: Sequence[str]) -> list[Cell]:
    return [Cell(text, _TONES.get(text, "")) for text in row]


# ---- runs as squares -------------------------------------------------------------------------------------

AS_HELD = Square("held", "·", "nothing violated, as expected")
AS_VIOLATED = Square("excused", "○", "violated, as expected or as Kafka itself does")
FAILED = Square("violated", "✕", "not as expected")
PLANTED = Square("violated", "✕", "violated, by the planted defect")
UNDECIDED = Square("inconclusive", "?", "undecided")
NOT_DONE = Square("inconclusive", "!", "not carried out")
BROKEN = Square("violated", "✕", "a promise violated")
UNBROKEN = Square("held", "·", "nothing violated")
KEY = (FAILED, NOT_DONE, UNDECIDED, AS_VIOLATED, AS_HELD)
"""Where runs are weighed against what was expected of them; the worst first."""
BARE_KEY = (BROKEN, NOT_DONE, UNDECIDED, UNBROKEN)
"""Where they are not."""
SQUARES_MAX = 1_200
"""Squares of a strip; of more runs neighbours share one."""


class Fate(msgspec.Struct, frozen=True):
    """What became of a run. name: ``seed 7``. detail: what failed, "" if nothing did. href: its page, "" if it has
    none."""

    kind: Square
    name: str
    detail: str = ""
    href: str = ""


def fate(exit_code: int, violated: bool) -> Square:
    """The square of a run by how ``krift run`` would end on it, and whether a promise was violated."""
    if exit_code == 0:
        return AS_VIOLATED if violated else AS_HELD
    return {1: FAILED, 3: UNDECIDED}.get(exit_code, NOT_DONE)


def strip(title: str, fates: Sequence[Fate], key: Sequence[Square] = KEY) -> Strip:
    """Runs in the order given. ``key``: what can have become of them, the worst first."""
    together = -(-len(fates) // SQUARES_MAX) or 1
    squares = [_square(fates[at : at + together], key) for at in range(0, len(fates), together)]
    counts = [(kind.said, sum(each.kind is kind for each in fates)) for kind in key]
    said = "; ".join(f"{what}: {number:,}" for what, number in counts if number)
    if together > 1:
        said += f". A square stands for {some(together, 'run')}, and shows the worst of them."
    return Strip(title, squares, said)


def _square(fates: Sequence[Fate], key: Sequence[Square]) -> Square:
    worst = min(fates, key=lambda each: key.index(each.kind))
    linked = next((each.href for each in fates if each.kind is worst.kind and each.href), "")
    said = f"{worst.name}: {worst.kind.said}{f', {worst.detail}' if worst.detail else ''}"
    if len(fates) > 1:
        alike = sum(each.kind is worst.kind for each in fates)
        said = f"{fates[0].name} to {fates[-1].name}: {alike} of {len(fates)} {worst.kind.said}; {said}"
    return Square(worst.kind.tone, worst.kind.mark, said, linked)
