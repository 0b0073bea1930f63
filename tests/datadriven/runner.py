"""Runs transcripts: text files of commands, each followed by all that it prints.

A transcript looks like this::

    # Blank lines and lines that begin with # separate and explain.
    vote to=1 epoch=3 last=(4,2)
    more input, if the verb reads any
    ----
    granted by 1 in epoch 3

A command is a verb, words and ``key=value`` pairs (``key=(a,b)`` is a list). What it printed follows a line
``----`` and ends at a blank line; an output that holds blank lines itself is put between two pairs of ``----``.

Each folder below ``tests/datadriven`` that has transcripts has a module ``environment.py`` with a class
``Environment``: one object per transcript, and one method ``verb_<name>(command) -> str`` per verb (a dash in a
verb is an underscore in the method's name). ``pytest tests/datadriven --rewrite`` writes the outputs into the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent
SEPARATOR = "----"


@dataclass
class Command:
    """One command of a transcript. ``words``: what follows the verb without ``=``; ``input``: lines up to the
    separator; ``line``: where it stands in the file, from 1."""

    verb: str
    words: list[str]
    arguments: dict[str, str]
    input: list[str]
    line: int
    _used: set[str] = field(default_factory=set)

    def text(self, key: str, default: str | None = None) -> str:
        """The value of ``key``. Raises KeyError if it is absent and has no default."""
        self._used.add(key)
        if key in self.arguments:
            return self.arguments[key]
        if default is None:
            raise KeyError(f"{self.verb} needs {key}=")
        return default

    def number(self, key: str, default: int | None = None) -> int:
        """The value of ``key`` as a number."""
        return int(self.text(key, None if default is None else str(default)))

    def many(self, key: str, default: str | None = None) -> list[str]:
        """The value of ``key`` as a list: ``key=(a,b)``, or ``key=a``."""
        text = self.text(key, default)
        inner = text[1:-1] if text.startswith("(") else text
        return [item.strip() for item in inner.split(",") if item.strip()]

    def numbers(self, key: str, default: str | None = None) -> list[int]:
        """The value of ``key`` as a list of numbers."""
        return [int(item) for item in self.many(key, default)]

    def has(self, word: str) -> bool:
        """Whether ``word`` stands among the words."""
        return word in self.words

    def unused(self) -> list[str]:
        """Keys that no verb asked for: a misspelt key must not pass silently."""
        return sorted(set(self.arguments) - self._used)


@dataclass
class Part:
    """A stretch of a transcript: lines kept as they are, or a command with the lines of its call."""

    lines: list[str]
    command: Command | None = None
    expected: str = ""


_TOKEN = re.compile(r"(?:[^\s(]|\([^)]*\))+")


def parse_command(lines: list[str], line: int) -> Command:
    """The command that ``lines`` spell; ``line`` is the number of the first."""
    verb, *tokens = _TOKEN.findall(lines[0])
    words = [token for token in tokens if "=" not in token]
    pairs = (token.partition("=") for token in tokens if "=" in token)
    return Command(verb, words, {key: value for key, _, value in pairs}, lines[1:], line)


def parse(text: str) -> list[Part]:
    """Split a transcript into parts. Raises ValueError for a command without an output separator."""
    lines = text.splitlines()
    parts: list[Part] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            parts.append(Part([lines[at]]))
            at += 1
            continue
        begin = at
        while at < len(lines) and lines[at] != SEPARATOR:
            at += 1
        if at == len(lines):
            raise ValueError(f"line {begin + 1}: a command without {SEPARATOR}")
        call = lines[begin:at]
        at += 1
        fenced = at < len(lines) and lines[at] == SEPARATOR
        if fenced:
            at += 1
        output: list[str] = []
        while at < len(lines) and (lines[at : at + 2] != [SEPARATOR] * 2 if fenced else lines[at].strip()):
            output.append(lines[at])
            at += 1
        if fenced:
            at += 2
        parts.append(Part(call, parse_command(call, begin + 1), "\n".join(output)))
    return parts


def render(part: Part, output: str) -> list[str]:
    """The lines of a part in a file, with ``output`` as what its command printed."""
    if part.command is None:
        return part.lines
    printed = output.splitlines()
    if any(not line.strip() for line in printed):
        return [*part.lines, SEPARATOR, SEPARATOR, *printed, SEPARATOR, SEPARATOR]
    return [*part.lines, SEPARATOR, *printed]


def execute(environment: object, command: Command) -> str:
    """What ``command`` prints, without trailing white space."""
    handler: Callable[[Command], str] | None = getattr(environment, f"verb_{command.verb.replace('-', '_')}", None)
    if handler is None:
        raise ValueError(f"line {command.line}: no verb {command.verb}")
    output = handler(command)
    if command.unused():
        raise ValueError(f"line {command.line}: {command.verb} does not know {', '.join(command.unused())}")
    return "\n".join(line.rstrip() for line in output.strip("\n").splitlines())


def transcripts() -> list[Path]:
    """All transcripts, in order."""
    return sorted(path for path in ROOT.glob("*/**/*.txt"))


def environment_for(path: Path) -> object:
    """A fresh environment of the folder that ``path`` lies in."""
    folder = path.relative_to(ROOT).parts[0]
    instance: object = import_module(f"tests.datadriven.{folder}.environment").Environment()
    return instance


def run_transcript(path: Path, rewrite: bool) -> None:
    """Run every command of a transcript in one environment; compare each output, or write them all."""
    text = path.read_text(encoding="utf-8")
    environment = environment_for(path)
    lines: list[str] = []
    for part in parse(text):
        output = ""
        if part.command is not None:
            output = execute(environment, part.command)
            if not rewrite:
                where = f"{path.name}:{part.command.line}: {part.lines[0]}"
                assert output == part.expected, f"{where}\n--- printed\n{output}\n--- expected\n{part.expected}"
        lines += render(part, output)
    if rewrite:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
