"""What a command was asked to run, checked before anything starts: all of its mistakes are told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from chaos.errors import InputError, Mistake
from chaos.scenario.layers import parse_settings
from chaos.scenario.loader import Loaded
from chaos.scenario.resolve import resolve, unknown_defects
from chaos.sources import Source, find, sound_part

T = TypeVar("T")


class Options(msgspec.Struct, frozen=True):
    """Options that lie over a scenario. variants: those to run; all of them, or none where there are none, if it is
    empty. settings: each combination of ``--set`` options. seed: one of those to run with."""

    variants: Sequence[str] = ()
    seed: int | None = None
    settings: Sequence[Sequence[str]] = ((),)
    defects: Sequence[str] = ()


class Mistakes:
    """Collects what is wrong with a command, each mistake once: of files by line, then of options in their order."""

    def __init__(self) -> None:
        self.found: list[Mistake] = []

    def add(self, mistakes: Iterable[Mistake]) -> None:
        """Take note of mistakes."""
        for mistake in mistakes:
            if mistake not in self.found:
                self.found.append(mistake)

    def attempt(self, step: Callable[[], T]) -> T | None:
        """What a step gives; None if it raised InputError, whose mistakes are kept."""
        try:
            return step()
        except InputError as error:
            self.add(error.mistakes)
            return None

    def tell(self, options: Sequence[str] = ()) -> None:
        """Raise InputError with all of them, if there are any. ``options`` come in this order, others after them."""
        if self.found:
            files = list(dict.fromkeys(mistake.file for mistake in self.found if not _is_option(mistake)))
            places = [*files, *options, *(mistake.file for mistake in self.found if _is_option(mistake))]
            raise InputError(sorted(self.found, key=lambda mistake: (places.index(mistake.file), mistake.line)))


def _is_option(mistake: Mistake) -> bool:
    return mistake.file.startswith("--")


def find_checked(word: str, options: Options, mistakes: Mistakes) -> Source | None:
    """What a word means. What is wrong with it, and with the options that lie over it, is noted; None where it cannot
    be run at all."""
    source = mistakes.attempt(lambda: find(word))
    if source is None:
        loaded = sound_part(word)
    else:
        loaded = mistakes.attempt(lambda: source.loaded(options.seed))
    if loaded is None:
        mistakes.add(_of_options(options))
    else:
        mistakes.add(_of_runs(loaded, options, only_options=source is None))
    return source


def _of_options(options: Options) -> list[Mistake]:
    """What is wrong with options, whatever they lie over."""
    wrong = [mistake for settings in options.settings for mistake in parse_settings(settings)[1]]
    return [*wrong, *unknown_defects(options.defects)]


def _of_runs(loaded: Loaded, options: Options, only_options: bool) -> list[Mistake]:
    """What is wrong with the runs. only_options: the file has mistakes itself, which are known."""
    found: list[Mistake] = []
    for variant in options.variants or list(loaded.scenario.variants) or [""]:
        for settings in options.settings:
            try:
                resolve(loaded, variant, options.seed, settings, options.defects)
            except InputError as error:
                found += [mistake for mistake in error.mistakes if _is_option(mistake) or not only_options]
    return found
