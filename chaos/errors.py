"""What can go wrong outside a node, and the exit code it leads to.

::

    KriftError                  base; never raised itself
    ├── InputError      exit 2  a scenario, an option or a file is wrong: where, what, and what was expected
    ├── RunError        exit 4  a run could not be carried out (a process did not start, a disk is full)
    └── ReplayDiverged  exit 4  a replay did something else than was recorded: a bug that breaks determinism

What Kafka answers with an error code stays an error code in a message. A broken promise of Krift's own is an
AssertionError. Neither is in this tree.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import msgspec


class KriftError(Exception):
    """Base of the errors that a user is told about in one line; ``exit_code`` is the command's status."""

    exit_code = 4


class Mistake(msgspec.Struct, frozen=True):
    """One thing that is wrong in an input. ``line`` counts from 1, 0 where there is no line (an option). ``suggestion``
    is printed before ``expected``, which may be long."""

    file: str
    line: int
    key: str
    problem: str
    expected: str = ""
    suggestion: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = f"{place}: {self.key}: {self.problem}" if self.key else f"{place}: {self.problem}"
        if self.suggestion:
            text += f"; did you mean {self.suggestion}?"
            return f"{text} Expected {self.expected}" if self.expected else text
        return f"{text}; expected {self.expected}" if self.expected else text


class InputError(KriftError):
    """The command or its input is wrong. ``mistakes`` has each of them, in the order of the file."""

    exit_code = 2

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        assert self.mistakes, "an InputError names at least one mistake"
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))

    @property
    def file(self) -> str:
        """File of the first mistake, or the option it was made in."""
        return self.mistakes[0].file

    @property
    def line(self) -> int:
        """Line of the first mistake."""
        return self.mistakes[0].line

    @property
    def key(self) -> str:
        """Key of the first mistake, as a dotted path."""
        return self.mistakes[0].key

    @property
    def expected(self) -> str:
        """What was expected in place of the first mistake."""
        return self.mistakes[0].expected


class RunError(KriftError):
    """A run could not be carried out."""


class ReplayDiverged(KriftError):
    """A node did something else in the replay than in the run. ``node``, ``step`` and ``detail`` say where."""

    def __init__(self, node: str, step: int, detail: str) -> None:
        self.node, self.step, self.detail = node, step, detail
        super().__init__(f"the replay differs from the run: {detail}")


DEFECT_NAMES = "a name that krift exam --list prints"
SCENARIO_NAMES = "a name that krift incidents list prints"
FEW = 12
"""At most so many names are printed in a message."""


def choices(known: Iterable[str], many: str) -> str:
    """What was expected in place of a mistake: the known names if they are few, else ``many``, which says where they
    are listed (a command or a document)."""
    known = list(known)
    return "one of " + ", ".join(known) if len(known) <= FEW else many


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word most like ``word``, or "" if none is near."""
    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else ""
