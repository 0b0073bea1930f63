"""The incident library: scenarios that come with Krift, by name, and scenario files of the user's own."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import msgspec

from chaos.errors import InputError, Mistake, nearest
from chaos.scenario.loader import Loaded, load_file, load_text


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


def load(name_or_path: str) -> Loaded:
    """A scenario by the name of an entry, or by the path of a file: what ends in .yaml or .yml, or has a slash in
    it, is a path. Raises InputError."""
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        return load_file(Path(name_or_path))
    if name_or_path in names():
        return load_text(text(name_or_path), f"{name_or_path}.yaml")
    if Path(name_or_path).is_file():
        return load_file(Path(name_or_path))
    known = names()
    expected = "a scenario file, or one of " + ", ".join(known)
    raise InputError([Mistake(name_or_path, 0, "", "no such scenario", expected, nearest(name_or_path, known))])
