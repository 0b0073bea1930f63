"""The pages that commands print to: stdout for results, stderr for talk and progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from orchestrator.files import NotWritten

WIDE = 1000
"""Columns where nobody looks through a terminal (logs, files, CI): nothing is wrapped there."""


class Page(Console):
    """A console that guesses nothing: no markup, no highlighting; colours only on a terminal, and not with NO_COLOR.

    ``gone``: whoever read it has closed it (``krift ... | head -1``). What is printed from then on is dropped: a
    closed stdout is no error, and no reason to lose what a run records. A stdout that cannot be written (a full disk)
    is: NotWritten. ``into``: takes what is printed in place of stdout or stderr, as plain text.
    """

    def __init__(self, stderr: bool = False, width: int | None = None, into: StringIO | None = None) -> None:
        terminal = into is None and (sys.stderr if stderr else sys.stdout).isatty()
        super().__init__(
            stderr=stderr,
            file=into,
            force_terminal=None if into is None else False,
            color_system="auto" if into is None else None,
            highlight=False,
            markup=False,
            emoji=False,
            width=width if width is not None or terminal else WIDE,
        )
        self.gone = False

    def say(self, text: str = "", style: str = "") -> None:
        """A line, or several, as they are: the terminal breaks what is too long for it."""
        with self._heard():
            with self.capture() as captured:
                self.print(Text(printable(text), style), soft_wrap=True)
            self._put(captured.get())

    def show(self, renderable: RenderableType) -> None:
        """A table or a paragraph, laid out for this page's width, without blanks at the ends of lines."""
        with self._heard():
            with self.capture() as captured:
                self.print(renderable)
            self._put("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))

    def raw(self, text: str) -> None:
        """A text for programs, to the letter."""
        self._put(text)

    def on_broken_pipe(self) -> None:
        """Called by rich, for what it prints itself."""
        self._leave()

    def _put(self, text: str) -> None:
        if self.gone:
            return
        with self._heard():
            self.file.write(text)
            self.file.flush()

    @contextmanager
    def _heard(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._leave()
        except OSError as error:
            # Told once: what comes after it has nowhere to go either. Talk that is lost is no reason to stop anything.
            self._leave()
            if not self.stderr:
                raise NotWritten(Path("stdout"), error) from error

    def _leave(self) -> None:
        self.gone = True
        drop(self.file.fileno())


def drop(descriptor: int) -> None:
    """Send what is still written to a descriptor nowhere, so that Python's last flush fails on nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def printable(text: str) -> str:
    """``text`` without what would move the cursor or change colours: it may come from a file somebody else made."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def as_text(fill: Callable[[Page], None]) -> str:
    """What is printed to a page, as plain text."""
    into = StringIO()
    fill(Page(into=into))
    return into.getvalue()


def page(stderr: bool = False) -> Page:
    """The page of stdout, or of stderr."""
    return Page(stderr)
