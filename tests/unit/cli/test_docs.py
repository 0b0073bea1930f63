"""docs/cli.md and the published schemas say what the command does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from orchestrator.cli.main import COMMANDS, cli
from orchestrator.report.schema import SCHEMA_FILES, schema_text
from orchestrator.run_dir import Manifest
from orchestrator.verdict import Excuse, InvariantVerdict, Verdict, Violation
from tests.architecture.sources import ROOT

TEXT = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def sections() -> dict[str, str]:
    """Heading of a command, such as ``krift run SCENARIO`` -> the text below it, by the command's name."""
    parts = re.split(r"^## `krift ([a-z][a-z0-9]*)[^`]*`$", TEXT, flags=re.MULTILINE)[1:]
    return {
        name: re.split(r"^## ", text, flags=re.MULTILINE)[0] for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def everything(command: click.Command) -> list[click.Command]:
    """A command and its subcommands."""
    return [command, *(commands(command) if isinstance(command, click.Group) else [])]


def commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield command


def test_each_command_has_its_section() -> None:
    """Shows that no command is left out, and that none is described that does not exist."""
    assert list(sections()) == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_is_described(name: str) -> None:
    """Shows that the options in a command's section are those that the command has."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = {
        option
        for each in everything(command)
        for param in each.params
        for option in param.opts
        if option.startswith("-")
    }
    described = set(re.findall(r"^\| `(--[a-z-]+)", sections()[name], flags=re.MULTILINE))
    assert described == options
    of_others = re.sub(r"^ray job submit .* -- ", "", TEXT, flags=re.MULTILINE)
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", of_others))
    known = {
        option for each in commands(cli) for sub in everything(each) for param in sub.params for option in param.opts
    }
    assert mentioned <= {*known, "--help", "--version"}


def test_each_exit_code_is_described() -> None:
    """Shows that the table has the codes that there are."""
    assert re.findall(r"^\| (\d+) \|", TEXT, flags=re.MULTILINE) == ["0", "1", "2", "3", "4", "130"]


@pytest.mark.parametrize("kind", [Verdict, InvariantVerdict, Violation, Excuse, Manifest])
def test_each_field_is_described(kind: type) -> None:
    """Shows that the fields of the files for programs are explained."""
    for field in kind.__struct_fields__:
        assert f"`{field}`" in TEXT, field


@pytest.mark.parametrize("path", SCHEMA_FILES, ids=str)
def test_the_published_schemas_are_fresh(path: Path) -> None:
    """Shows that they are what the types say; ``python -m orchestrator.report.schema`` writes them."""
    assert (ROOT / path).read_text(encoding="utf-8") == schema_text(SCHEMA_FILES[path])
