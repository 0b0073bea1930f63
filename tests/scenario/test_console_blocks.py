"""The documents show what the command really prints.

A block of a document that begins with ```` ```console ```` and ``$ krift`` is run here in the sim, where the output
is the same every time; ``latest`` is the run of a block before it. A line ``...`` stands for any lines. ``--rewrite``
fills in the output of blocks that have none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator.cli.main import cli
from tests.architecture.sources import ROOT, name, repository_files

BLOCK = re.compile(r"```console\n\$ krift (?P<command>[^\n]+)\n(?P<output>.*?)```", re.DOTALL)


def blocks(path: Path) -> Iterator[Any]:
    """The blocks of a document, as parameters. ``make test-all`` alone looks at what an incident shows after its first
    block: the same schedule with another setting, as a rule; at the other incidents of a proposal than the first; and
    at the findings after the first, which ``test_findings.py`` carries out anyhow."""
    text = path.read_text(encoding="utf-8")
    for number, found in enumerate(BLOCK.finditer(text)):
        of_incident = path.parent.name == "incidents"
        again = (of_incident and (number or path.stem.count("-") > 1)) or (number and path.name == "findings.md")
        marks = [pytest.mark.further] if again else []
        yield pytest.param(path, found, marks=marks, id=f"{name(path)}:{text[: found.start()].count(chr(10)) + 1}")


BLOCKS = [block for path in repository_files() if path.suffix == ".md" for block in blocks(path)]
pytestmark = pytest.mark.unhurried
KEPT = re.compile("(kept in|a page|again|the remedy) {2,}")


def run_before(path: Path, block: re.Match[str]) -> str:
    """The command of the last block before this one that left a run."""
    earlier = [found["command"] for found in BLOCK.finditer(path.read_text(encoding="utf-8")[: block.start()])]
    return next(each for each in reversed(earlier) if each.startswith("run ") and "--dry-run" not in each)


def printed(command: str) -> str:
    """What the command prints on stdout, without blanks at line ends, and without where a run is kept and how to go on
    from there: that is another directory each time."""
    outcome = CliRunner().invoke(cli, shlex.split(command), standalone_mode=False)
    assert outcome.exception is None, outcome.exception
    lines = [line.rstrip() for line in outcome.stdout.splitlines()]
    if command.startswith("run ") and "--json" not in command and "--dry-run" not in command:
        assert any(KEPT.match(line) for line in lines), "a run that is kept says where"
        lines = [line for line in lines if not KEPT.match(line)]
    return "".join(f"{line}\n" for line in lines)


def as_pattern(expected: str) -> str:
    """A regular expression for the output; ``...`` on a line of its own stands for any number of lines."""
    return "".join("(?:.*\n)*?" if line.strip() == "..." else re.escape(f"{line}\n") for line in expected.splitlines())


@pytest.mark.parametrize(("path", "block"), BLOCKS)
def test_a_block_shows_what_is_printed(
    path: Path,
    block: re.Match[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Shows that the output in the document is the output of the command."""
    monkeypatch.chdir(tmp_path)
    if " latest" in block["command"]:
        printed(run_before(path, block))
    actual = printed(block["command"])
    if request.config.getoption("--rewrite") and "\n...\n" not in f"\n{block['output']}":
        text = path.read_text(encoding="utf-8")
        fresh = f"```console\n$ krift {block['command']}\n{actual}```"
        path.write_text(text.replace(block[0], fresh), encoding="utf-8")
        return
    assert re.fullmatch(as_pattern(block["output"]), actual), actual


def test_there_are_blocks_to_check() -> None:
    """Shows that the pattern above still finds what it is for."""
    assert {path.relative_to(ROOT).parts[0] for path in (param.values[0] for param in BLOCKS)} >= {"README.md", "docs"}
