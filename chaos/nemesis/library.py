"""Nemeses by name, and nemesis files of the user's own."""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

from chaos.errors import InputError
from chaos.nemesis.checks import check_nemesis
from chaos.nemesis.draw import draw
from chaos.nemesis.model import SCHEMA, Nemesis
from chaos.scenario.loader import Loaded, load_text, validate
from chaos.scenario.yaml_text import to_yaml
from chaos.scenario.yaml_tree import Document, parse_document

PACKAGE = "chaos.nemeses"


class LoadedNemesis(msgspec.Struct, frozen=True):
    """A nemesis that passed every check, and the file it came from."""

    nemesis: Nemesis
    document: Document

    def drawn(self, seed: int, round_: int | None = None) -> Loaded:
        """The scenario of a seed, checked as any scenario file is; ``round_``: of a soak, as of ``draw``."""
        text = to_yaml(draw(self.nemesis, seed, round_))
        return load_text(text, f"{self.document.file}, seed {seed}" + ("" if round_ is None else f", round {round_}"))


def names() -> list[str]:
    """Names of those that come with Krift, in order."""
    files = resources.files(PACKAGE).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def text(name: str) -> str:
    """The file of one of them."""
    assert name in names(), f"{name} is no nemesis"
    return (resources.files(PACKAGE) / f"{name}.yaml").read_text(encoding="utf-8")


def is_nemesis(document: Document) -> bool:
    """Whether a file says that it is one."""
    return isinstance(document.value, dict) and document.value.get("schema") == SCHEMA


def read(document: Document) -> LoadedNemesis:
    """A nemesis file. Raises InputError with every mistake that could be found."""
    nemesis = validate(Nemesis, document)
    mistakes = check_nemesis(nemesis, document)
    if mistakes:
        raise InputError(sorted(mistakes, key=lambda mistake: mistake.line))
    return LoadedNemesis(nemesis, document)


@cache
def load(name: str) -> LoadedNemesis:
    """One of those that come with Krift, read and checked once in a process. Nobody changes it."""
    return read(parse_document(text(name).encode(), f"{name}.yaml"))


def nemeses() -> list[Nemesis]:
    """All of them, loaded and checked."""
    return [load(name).nemesis for name in names()]
