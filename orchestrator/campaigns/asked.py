"""What a campaign was asked to do: names, seeds and settings as a list of runs. ``campaign.json`` is this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, Literal

import msgspec

from orchestrator.campaigns.order import SimOrder

CAMPAIGN_SCHEMA: Final = "krift-campaign/v1"


class Source(msgspec.Struct, frozen=True):
    """Something to run: a name, or a file's path with the file's text. variants: those to run, "" for none. untested:
    invariants that, by its own words, no run of it tests, each with the reason."""

    name: str
    variants: list[str]
    text: str = ""
    untested: dict[str, str] = {}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign, resolved: everything that decides which runs there are, and in which order they are begun.

    name: of its directory. krift, code: version and code that began it (``work.code_id``). seeds: first and last.
    settings: each combination of ``--set`` options. first: failures met earlier, which are tried before all else.
    guide: what it runs next, fresh draws alone or mutations as well (``orchestrator.campaigns.guide``). sample: how
    many traces of runs that did not fail are kept.
    """

    schema: Literal["krift-campaign/v1"] = CAMPAIGN_SCHEMA
    name: str
    krift: str
    code: str
    created: str
    sources: list[Source]
    seeds: tuple[int, int]
    settings: list[list[str]]
    defects: list[str]
    sample: int
    guide: Literal["random", "coverage"] = "random"
    first: list[SimOrder] = []

    @property
    def runs(self) -> int:
        """How many runs it has."""
        return len(self.first) + self.drawn

    @property
    def drawn(self) -> int:
        """How many runs it has, apart from ``first``."""
        variants = sum(len(source.variants) for source in self.sources)
        return variants * len(self.settings) * (self.seeds[1] - self.seeds[0] + 1)

    def orders(self) -> Iterator[SimOrder]:
        """All runs but ``first``, seed by seed, so that an early look sees something of everything. A guide may have
        mutations done in place of the last of them."""
        for seed in range(self.seeds[0], self.seeds[1] + 1):
            yield from self.orders_of(seed)

    def orders_of(self, seed: int) -> Iterator[SimOrder]:
        """All runs of a seed."""
        for source in self.sources:
            for variant, settings in product(source.variants, self.settings):
                yield SimOrder(source.name, variant, seed, tuple(settings), tuple(self.defects), source.text)

    def differs_from(self, other: Asked) -> list[str]:
        """Names of what this asks otherwise than another, apart from names, times and what had failed by then."""
        apart = ("name", "created", "first")
        fields = [name for name in self.__struct_fields__ if name not in apart]
        return [name for name in fields if getattr(self, name) != getattr(other, name)]


def combinations(settings: Sequence[str]) -> list[list[str]]:
    """``--set`` options as combinations: a key that is given several times takes each of its values in turn."""
    by_key: dict[str, list[str]] = {}
    for setting in settings:
        values = by_key.setdefault(setting.partition("=")[0], [])
        if setting not in values:
            values.append(setting)
    return [list(chosen) for chosen in product(*by_key.values())]
