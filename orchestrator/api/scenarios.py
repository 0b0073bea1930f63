"""Scenarios as values: read from a file or the library, or built step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from chaos.errors import InputError
from chaos.plan import Plan
from chaos.scenario.loader import Loaded, load_value
from chaos.scenario.resolve import resolve
from chaos.scenario.yaml_text import to_yaml
from chaos.schedule import timeline
from chaos.sources import find
from orchestrator.files import write_text

SCHEMA: Final = "krift/v1"
MADE = "<scenario>"
"""In place of a file's name, of what was made in a program."""

Moment_ = str | Mapping[str, Any]
"""A time from time 0 on, such as "3s"; or a mapping as in a file, such as {"seen": "leader-elected"}."""


class Scenario(msgspec.Struct, frozen=True):
    """A scenario, which nothing changes: each method gives another one. It is checked when it is asked for what follows
    from it (``check``, ``timeline``, ``krift.run``), as a whole, and every mistake is told at once.

    document: what a scenario file says, as plain values (docs/scenarios.md). word: the file or the name of the library
    that it was read from, "" for one that was made or changed here.
    """

    document: dict[str, Any]
    word: str = ""

    @classmethod
    def new(
        cls,
        name: str,
        *,
        duration: str,
        topics: Mapping[str, Any],
        voters: int = 3,
        brokers: int = 3,
        config: Mapping[str, Any] | None = None,
        **keys: Any,
    ) -> Scenario:
        """One to begin with. ``duration``: of the chaos, with its unit. ``topics``: name -> {"replicas": [[1, 2, 3]]}
        or any other mapping that a file may have. ``config``: of controllers and brokers, Kafka's keys. ``keys``: other
        keys of a scenario file, with _ for - (``seed=7``, ``must_happen=[...]``)."""
        cluster = {"voters": voters, "brokers": brokers, "topics": _plain(topics), "config": _plain(config or {})}
        document = {"schema": SCHEMA, "name": name, "duration": duration, "cluster": cluster, "workload": []}
        return cls(document).set(**keys)

    @classmethod
    def read(cls, word: str | Path, *, seed: int | None = None) -> Scenario:
        """A scenario file, or a name of the library. A nemesis draws one from ``seed``, which it needs. Raises
        InputError."""
        source = find(str(word))
        drawn = source.nemesis is not None
        return cls(_plain(source.loaded(seed).document.value), "" if drawn else str(word))

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.document.get("name", ""))

    @property
    def variants(self) -> list[str]:
        """Names of its variants, each a run of its own."""
        return list(self.document.get("variants", {}))

    def set(self, **keys: Any) -> Scenario:
        """With these keys of a scenario file in place of those that it has, with _ for -."""
        return Scenario({**self.document, **_dashed(keys)})

    def client(self, kind: str, **keys: Any) -> Scenario:
        """With one client more: ``client("producer", topic="orders", rate="100/s", config={"linger.ms": 100})``."""
        return self._with("workload", {kind: _dashed(keys)})

    def fault(
        self, kind: str, what: Any, when: Moment_, *, lasts: str = "", until: Moment_ = "", optional: bool = False
    ) -> Scenario:
        """With one fault more: ``fault("crash", "leader(orders-0)", "3s", lasts="4s")``. ``what``: as in a file, a
        selector, a list or a mapping. Exactly one of ``lasts`` and ``until`` says when it ends. ``optional``: the run
        proves as much if it never takes effect."""
        return self._with("chaos", _entry("fault", kind, what, when, lasts, until, optional))

    def action(
        self, kind: str, what: Any, when: Moment_, *, lasts: str = "", until: Moment_ = "", optional: bool = False
    ) -> Scenario:
        """The same for what an operator does; most actions have no end."""
        return self._with("chaos", _entry("action", kind, what, when, lasts, until, optional))

    def expect(
        self,
        *,
        violated: Sequence[str] = (),
        held: Sequence[str] = (),
        excused: Sequence[str] = (),
        may: Sequence[str] = (),
    ) -> Scenario:
        """With what a run should show, by ids of invariants. Without this, nothing may be violated."""
        given = {"violated": violated, "held": held, "excused": excused, "may": may}
        return self.set(expect={name: list(ids) for name, ids in given.items() if ids})

    def variant(self, name: str, **keys: Any) -> Scenario:
        """With a variant more: ``variant("off", features={"kip-207": "off"}, expect={"violated": ["H1"]})``."""
        return self.set(variants={**self.document.get("variants", {}), name: _dashed(keys)})

    def check(self) -> None:
        """Raises InputError with every mistake in it, those of its variants included."""
        self.loaded()

    def timeline(self, variant: str = "", seed: int | None = None) -> str:
        """What will be run and broken, and when, as ``krift run --dry-run`` prints it. Raises InputError."""
        return timeline(self.plan(variant, seed))

    def yaml(self) -> str:
        """Its file: what ``krift run`` takes."""
        return to_yaml(self.document, dense=True)

    def save(self, path: str | Path) -> None:
        """Write that file. Raises InputError for a scenario with mistakes, RunError if it cannot be written."""
        self.check()
        write_text(Path(path), self.yaml())

    def loaded(self) -> Loaded:
        """It, as it was checked. Raises InputError; of what was read unchanged with the lines of the file."""
        if self.word:
            return find(self.word).loaded(None)
        try:
            return load_value(self.document, self.name or MADE)
        except InputError as error:
            raise InputError(msgspec.structs.replace(mistake, line=0) for mistake in error.mistakes) from None

    def plan(
        self,
        variant: str = "",
        seed: int | None = None,
        settings: Sequence[str] = (),
        defects: Sequence[str] = (),
    ) -> Plan:
        """The run as it will be carried out (``chaos.scenario.resolve``). Raises InputError."""
        return resolve(self.loaded(), variant, seed, settings, defects)

    def _with(self, section: str, entry: dict[str, Any]) -> Scenario:
        return Scenario({**self.document, section: [*self.document.get(section, []), entry]})


def _entry(
    section: str, kind: str, what: Any, when: Moment_, lasts: str, until: Moment_, optional: bool
) -> dict[str, Any]:
    entry: dict[str, Any] = {"when": _moment(when), section: {kind: _plain(what)}}
    if lasts:
        entry["for"] = lasts
    if until:
        entry["until"] = _moment(until)
    return {**entry, "optional": True} if optional else entry


def _moment(given: Moment_) -> dict[str, Any]:
    return {"at": given} if isinstance(given, str) else _plain(given)


def _dashed(keys: Mapping[str, Any]) -> dict[str, Any]:
    """As a file spells keys. What is inside keeps its spelling, since it may be anybody's."""
    return {name.replace("_", "-"): _plain(value) for name, value in keys.items()}


def _plain(value: Any) -> Any:
    """A value of a file: lists and dicts all the way down, none of them the caller's own."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
