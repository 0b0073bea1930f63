"""Every transcript below this folder prints what it says it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.datadriven.runner import ROOT, Command, parse, render, run_transcript, transcripts


@pytest.mark.parametrize("path", transcripts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    """Shows that the nodes still behave as the transcript says, down to the last line of output."""
    run_transcript(path, bool(request.config.getoption("--rewrite")))


SAMPLE = """\
# a comment

vote to=1 last=(4, 2) eager
some input
----
granted

log
----
----
a line

after a blank one
----
----
"""


def test_parts_of_a_transcript() -> None:
    """Shows how a transcript is taken apart: comments, words, pairs, lists, input, plain and fenced output."""
    parts = [part for part in parse(SAMPLE) if part.command is not None]
    vote = parts[0].command
    assert isinstance(vote, Command)
    assert (vote.verb, vote.words, vote.input, vote.line) == ("vote", ["eager"], ["some input"], 3)
    assert (vote.number("to"), vote.numbers("last"), vote.many("peers", "(a,b)")) == (1, [4, 2], ["a", "b"])
    assert [part.expected for part in parts] == ["granted", "a line\n\nafter a blank one"]


def test_rewriting_keeps_what_is_right() -> None:
    """Shows that a transcript written again with the outputs it has is the same text."""
    lines = [line for part in parse(SAMPLE) for line in render(part, part.expected)]
    assert "\n".join(lines) + "\n" == SAMPLE


def test_a_misspelt_key_is_an_error() -> None:
    """Shows that a key nobody asked for is reported, not ignored."""
    command = Command("vote", [], {"epoch": "3", "epohc": "4"}, [], 1)
    command.number("epoch")
    assert command.unused() == ["epohc"]
