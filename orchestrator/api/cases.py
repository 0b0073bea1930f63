"""Scenario files as cases of a test: what a team has met once is run for good."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chaos.errors import InputError, Mistake
from orchestrator.api.scenarios import Scenario


class Case(msgspec.Struct, frozen=True):
    """A run of a scenario: its file, or its name in the library, and a variant, "" for none. ``str(case)`` is its name
    in a test's id."""

    scenario: str
    variant: str = ""

    def __str__(self) -> str:
        name = Path(self.scenario).stem if self.scenario.endswith((".yaml", ".yml")) else self.scenario
        return f"{name}-{self.variant}" if self.variant else name


def cases(*places: str | Path) -> list[Case]:
    """A case for each variant of each scenario of ``places``: files, directories (their ``.yaml`` files) and names of
    the library. For ``pytest.mark.parametrize("case", krift.cases("incidents"), ids=str)``. Raises InputError for
    what cannot be read, and for a place without a scenario: nothing would be tested."""
    return [case for place in places for word in _words(place) for case in _of(word)]


def _words(place: str | Path) -> list[str]:
    folder = Path(place)
    if not folder.is_dir():
        return [str(place)]
    found = sorted(str(path) for suffix in ("*.yaml", "*.yml") for path in folder.glob(suffix))
    if not found:
        raise InputError([Mistake(str(place), 0, "", "no scenario is there", "a directory with .yaml files")])
    return found


def _of(word: str) -> list[Case]:
    scenario = Scenario.read(word)
    return [Case(word, variant) for variant in scenario.variants or [""]]
