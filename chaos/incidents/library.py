"""The incident library: scenarios that come with Krift, and the user's own, by name.

Those that come with Krift are files of this package. The user's own are ``NAME.yaml`` in ``.krift/incidents``
(``chaos.home``), where ``krift incidents add`` puts them, or anybody. A name means what comes with Krift first.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import msgspec

from chaos.errors import SCENARIO_NAMES, InputError, Mistake, choices, nearest
from chaos.home import incidents_directory
from chaos.scenario.loader import Loaded, load_file, load_text
from chaos.scenario.scalars import NAME_PATTERN

SUFFIX = ".yaml"


class Incident(msgspec.Struct, frozen=True):
    """An entry of the library. file: of one of the user's own, "" for what comes with Krift."""

    name: str
    about: str
    source: list[str]
    variants: list[str]
    file: str = ""


def names() -> list[str]:
    """Names of all entries, in order; the user's own come last."""
    return [*shipped_names(), *own_files()]


def shipped_names() -> list[str]:
    """Names of the entries that come with Krift, in order."""
    files = resources.files(__package__).iterdir()
    return sorted(file.name.removesuffix(SUFFIX) for file in files if file.name.endswith(SUFFIX))


def own_files() -> dict[str, Path]:
    """Name -> file of the user's own entries, in order. Files with other names, and those that have the name of an
    entry that comes with Krift, are none."""
    found = {path.stem: path for path in sorted(incidents_directory().glob(f"*{SUFFIX}")) if path.is_file()}
    shipped = shipped_names()
    return {name: path for name, path in found.items() if re.match(NAME_PATTERN, name) and name not in shipped}


def text(name: str) -> str:
    """The scenario file of an entry. Raises InputError if there is none of that name, or it cannot be read."""
    own = own_files()
    if name in own:
        load_file(own[name])
        return own[name].read_text(encoding="utf-8")
    if name not in shipped_names():
        known = names()
        expected = choices(known, SCENARIO_NAMES)
        raise InputError([Mistake(name, 0, "", "no such incident", expected, nearest(name, known))])
    return (resources.files(__package__) / f"{name}{SUFFIX}").read_text(encoding="utf-8")


def incidents() -> list[Incident]:
    """The entries that come with Krift, loaded and checked."""
    return [_incident(name, load(name)) for name in shipped_names()]


def own_incidents() -> tuple[list[Incident], list[str]]:
    """The user's own entries, and what is wrong with those that are no scenarios: they are in nobody's way."""
    found, wrong = [], []
    for name, path in own_files().items():
        try:
            found.append(_incident(name, load_file(path), str(path)))
        except InputError as error:
            wrong.append(str(error))
    return found, wrong


def _incident(name: str, loaded: Loaded, file: str = "") -> Incident:
    scenario = loaded.scenario
    return Incident(name, scenario.about, list(scenario.source), list(scenario.variants), file)


def load(name: str) -> Loaded:
    """An entry by its name (``chaos.sources`` finds files too). Raises InputError."""
    own = own_files()
    return load_file(own[name]) if name in own else load_text(text(name), f"{name}{SUFFIX}")


def add(name: str, content: str) -> Path:
    """Put a scenario file into the user's own part of the library, under a legal name. Raises InputError if there is
    one of that name, or it cannot be written."""
    path = incidents_directory() / f"{name}{SUFFIX}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise InputError([Mistake(str(path), 0, "", "it is there already", "another name")]) from None
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise InputError([Mistake(str(path), 0, "", problem, "KRIFT_HOME where you may write")]) from None
    return path


NAME_EXPECTED = "lower-case letters, digits and dashes, at most 63, and no path"
