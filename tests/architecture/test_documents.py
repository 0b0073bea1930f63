"""What the documents point at is there, and what tests cite is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from orchestrator.cli.main import COMMANDS, cli
from tests.architecture.sources import ROOT, name, python_files, repository_files

PICTURE = re.compile(r'(?:src|srcset)="([^"]+)"')
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:actors|chaos|orchestrator|proto|tests|docs|k8s|benchmarks)/[\w./*{},-]+)`")
TRANSCRIPT = re.compile(r"`((?:quorum|broker|controller|client)/\w+\.txt)`")
EDGE_CASE = re.compile(r"\bE-\d{3}\b")
PICTURE_MAX = 40 << 10
DOCUMENTS = [path for path in repository_files() if path.suffix == ".md"]
TRANSCRIPTS = ROOT / "tests" / "datadriven"
CODE = re.compile(r"^```.*?^```$|`[^`\n]+(?:\n[^`\n]+)?`", re.DOTALL | re.MULTILINE)
MAKE = re.compile(r"(?:^|[`\s])make ([a-z][a-z-]*)")
KRIFT = re.compile(r"(?:^|(?<=[`$#(]|\s))krift ([a-z][a-z0-9]*)((?:[^\n`;|]|\\\n)*)", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")
VARIABLE = re.compile(r"\bKRIFT_[A-Z_]+\b")


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    """Shows that every relative link and every path of this repository named in a document exists."""
    text = path.read_text(encoding="utf-8")
    targets = [path.parent / link for link in LINK.findall(text) if "://" not in link]
    targets += [path.parent / picture for picture in PICTURE.findall(text)]
    targets += [ROOT / found.split("{")[0].split("*")[0] for found in PATH.findall(text)]
    targets += [TRANSCRIPTS / found for found in TRANSCRIPT.findall(text)]
    missing = [str(target) for target in targets if not target.exists()]
    assert not missing, missing


def test_every_picture_is_shown() -> None:
    """Shows that each picture is in some document, light and dark, and that it is small."""
    shown = {
        (path.parent / picture).resolve()
        for path in DOCUMENTS
        for picture in PICTURE.findall(path.read_text(encoding="utf-8"))
    }
    pictures = sorted((ROOT / "docs" / "pictures").glob("*.png"))
    assert pictures
    assert [path.name for path in pictures if path not in shown] == []
    assert [path.name for path in pictures if path.stat().st_size > PICTURE_MAX] == []


def test_edge_cases_are_told_and_pinned() -> None:
    """Shows that docs/edge-cases.md has each number that a test cites, with every such test, and no other number."""
    cited: dict[str, set[str]] = {}
    for path in (path for path in repository_files() if ROOT / "tests" in path.parents):
        shown = path.relative_to(TRANSCRIPTS) if TRANSCRIPTS in path.parents else path.relative_to(ROOT)
        for number in EDGE_CASE.findall(path.read_bytes().decode("utf-8", errors="ignore")):
            cited.setdefault(number, set()).add(shown.as_posix())
    told: dict[str, set[str]] = {}
    for line in (ROOT / "docs" / "edge-cases.md").read_text(encoding="utf-8").splitlines():
        cells = line.split(" | ")
        if EDGE_CASE.fullmatch(cells[0].removeprefix("| ")):
            told[cells[0].removeprefix("| ")] = set(re.findall(r"`([^`]+)`", cells[-1]))
    assert told == cited


def code(path: Path) -> Iterator[str]:
    """What a document shows as code: what somebody may type."""
    return (found[0] for found in CODE.finditer(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_verbs_of_make_are_there(path: Path) -> None:
    """Shows that every ``make VERB`` of a document is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {verb for text in code(path) for verb in MAKE.findall(text)}
    assert named <= targets, named - targets


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_commands_and_their_options_are_there(path: Path) -> None:
    """Shows that every ``krift COMMAND`` of a document exists, and takes the options that it is shown with."""
    unknown = []
    for text in code(path):
        for word, rest in KRIFT.findall(text):
            known = options(word)
            if known is None:
                unknown.append(f"krift {word}")
            else:
                unknown += [f"krift {word} {option}" for option in OPTION.findall(rest) if option not in known]
    assert not unknown, unknown


def options(word: str) -> set[str] | None:
    """The options of a command and of those below it; None if there is no such command."""
    context = click.Context(cli)
    command = cli.get_command(context, word) if word in COMMANDS else None
    if command is None:
        return None
    below = command.list_commands(context) if isinstance(command, click.Group) else []
    every = [command, *(command.get_command(context, each) for each in below)]  # type: ignore[attr-defined]
    return {"--help"} | {option for each in every for param in each.params for option in param.opts}


def test_variables_of_the_environment_are_read() -> None:
    """Shows that every variable of ours that a document names is one that something reads."""
    sources = [*python_files("actors", "chaos", "orchestrator", "tests", "benchmarks"), ROOT / "Makefile"]
    read = {found for path in sources for found in VARIABLE.findall(path.read_text(encoding="utf-8"))}
    named = {found for path in DOCUMENTS for found in VARIABLE.findall(path.read_text(encoding="utf-8"))}
    assert named <= read, named - read


def test_verbs_of_transcripts_are_there() -> None:
    """Shows that the commands of data-driven tests that CONTRIBUTING names are ones that an environment has."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paragraph = text.split("### A data-driven test")[1].split("To write one:")[0]
    named = set(re.findall(r"`([a-z][a-z-]*)`", paragraph))
    have = {
        found.replace("_", "-")
        for path in python_files("tests/datadriven")
        for found in re.findall(r"def verb_(\w+)", path.read_text(encoding="utf-8"))
    }
    assert named, "some are named"
    assert named <= have, named - have
