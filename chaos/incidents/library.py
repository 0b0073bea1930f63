"""The incident library: scenarios that come with Krift, by name."""

from __future__ import annotations

from importlib import resources

import msgspec

from chaos.errors import InputError, Mistake, nearest
from chaos.scenario.loader import Loaded, load_text


class Incident(msgspec.Struct, frozen=True):
    """An entry of the library."""

    name: str
    about: str
    source: list[str]
    variants: list[str]


def names() -> list[str]:
    """Names of all entries, in order."""
    files = resources.files(__package__).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def text(name: str) -> str:
    """The scenario file of an entry. Raises InputError if there is none of that name."""
    known = names()
    if name not in known:
        wrong = Mistake(name, 0, "", "no such incident", "one of " + ", ".join(known), nearest(name, known))
        raise InputError([wrong])
    return (resources.files(__package__) / f"{name}.yaml").read_text(encoding="utf-8")


def incidents() -> list[Incident]:
    """The entries, loaded and checked."""
    found = []
    for name in names():
        scenario = load(name).scenario
        found.append(Incident(name, scenario.about, list(scenario.source), list(scenario.variants)))
    return found


def load(name: str) -> Loaded:
    """An entry by its name (``chaos.sources`` finds files too). Raises InputError."""
    return load_text(text(name), f"{name}.yaml")
