"""What a command runs, by name or by path: the one place where a word becomes scenarios.

A word is the name of an incident of the library, the user's own among them, the name of a nemesis, or the path of a
file that is either. A scenario is one scenario, whatever the seed; a nemesis draws another one for each seed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from chaos.errors import SCENARIO_NAMES, InputError, Mistake, choices, nearest
from chaos.incidents import library as incidents
from chaos.nemesis import library as nemeses
from chaos.nemesis.library import LoadedNemesis
from chaos.scenario.loader import Loaded, load_document, load_sound_part
from chaos.scenario.yaml_tree import Document, parse_document, read_document


class Source(msgspec.Struct, frozen=True):
    """What was found. ``word``: as it was given; either ``scenario`` or ``nemesis`` is there."""

    word: str
    scenario: Loaded | None = None
    nemesis: LoadedNemesis | None = None

    @property
    def name(self) -> str:
        """Its own name."""
        if self.nemesis is not None:
            return self.nemesis.nemesis.name
        assert self.scenario is not None, "it is one or the other"
        return self.scenario.scenario.name

    @property
    def about(self) -> str:
        """Its purpose, in its own words."""
        if self.nemesis is not None:
            return self.nemesis.nemesis.about
        assert self.scenario is not None, "it is one or the other"
        return self.scenario.scenario.about

    @property
    def variants(self) -> list[str]:
        """Names of its variants; a nemesis has none."""
        return [] if self.scenario is None else list(self.scenario.scenario.variants)

    def about_variant(self, name: str) -> str:
        """Purpose of a variant, in its own words; "" if it says nothing."""
        variant = None if self.scenario is None else self.scenario.scenario.variants.get(name)
        return "" if variant is None else variant.about

    def remedy(self, name: str) -> str:
        """A variant in which what this one expects to violate may not be violated, and nothing breaks; if possible one
        that expects it to hold. "" if this one violates nothing, or there is none."""
        variants = {} if self.scenario is None else self.scenario.scenario.variants
        expected = {other: each.expect for other, each in variants.items() if each.expect is not None}
        broken = {*expected[name].violated} if name in expected else set()
        sound = [
            (not broken <= {*each.held}, other)
            for other, each in expected.items()
            if each.held and not (each.violated or each.excused) and broken.isdisjoint(each.may)
        ]
        return min(sound, key=lambda each: each[0])[1] if broken and sound else ""

    def loaded(self, seed: int | None) -> Loaded:
        """The scenario for a seed. Raises InputError: a nemesis needs one."""
        if self.scenario is not None:
            return self.scenario
        assert self.nemesis is not None, "it is one or the other"
        if seed is None:
            problem = f"{self.name} is a nemesis, which draws a scenario from a seed"
            raise InputError([Mistake(self.word, 0, "", problem, "--seed N, or --seeds A-B")])
        return self.nemesis.drawn(seed)


def is_path(word: str) -> bool:
    """Whether a word can only be the path of a file: it ends in .yaml or .yml, or has a slash in it."""
    return word.endswith((".yaml", ".yml")) or "/" in word


def find(word: str) -> Source:
    """What a word means, see ``is_path``; else a name, or a file of that name. Raises InputError."""
    if is_path(word):
        return _read(word, read_document(Path(word)))
    if word in incidents.names():
        return Source(word, scenario=incidents.load(word))
    if word in nemeses.names():
        return Source(word, nemesis=nemeses.load(word))
    if Path(word).is_file():
        return _read(word, read_document(Path(word)))
    known = [*incidents.names(), *nemeses.names()]
    expected = f"a file, or {choices(known, SCENARIO_NAMES)}"
    raise InputError([Mistake(word, 0, "", "no such scenario or nemesis", expected, nearest(word, known))])


def sound_part(word: str) -> Loaded | None:
    """What is well-formed of the scenario in a file with mistakes. None where nothing can be read, or it is no
    scenario's."""
    try:
        document = read_document(Path(word))
    except (InputError, ValueError):
        return None
    return None if nemeses.is_nemesis(document) else load_sound_part(document)


def is_taken(name: str) -> bool:
    """Whether a name means something already."""
    return name in (*incidents.names(), *nemeses.names())


def file_text(word: str) -> str:
    """The text of a file that a word names, as a path or as one of the user's own incidents; "" for what comes with
    Krift, which every machine has. Raises InputError."""
    own = incidents.own_files()
    if word in own:
        return incidents.text(word)
    if word in (*incidents.shipped_names(), *nemeses.names()):
        return ""
    find(word)
    return Path(word).read_text(encoding="utf-8")


def text(name: str) -> str:
    """The file of an incident or a nemesis. Raises InputError if there is none of that name."""
    if name in nemeses.names():
        return nemeses.text(name)
    if name in incidents.names():
        return incidents.text(name)
    known = [*incidents.names(), *nemeses.names()]
    expected = choices(known, SCENARIO_NAMES)
    raise InputError([Mistake(name, 0, "", "no such incident or nemesis", expected, nearest(name, known))])


def from_text(text: str, word: str) -> Source:
    """The same for the text of a file; ``word`` is the path that the user gave."""
    return _read(word, parse_document(text.encode(), word))


def _read(word: str, document: Document) -> Source:
    if nemeses.is_nemesis(document):
        return Source(word, nemesis=nemeses.read(document))
    return Source(word, scenario=load_document(document))
