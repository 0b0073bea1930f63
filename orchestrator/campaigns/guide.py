"""What a campaign runs next: fresh draws alone, or mutations of what reached something new as well.

A guide hands out orders, a generation at a time, and learns what each of them covered. What it hands out depends on
what it learned in the order of its own orders, not in that of the results' arrival: so a guided campaign is the same
however its runs are spread over executors.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import msgspec

from chaos.mutation.mutate import mutate
from chaos.scenario.yaml_text import to_yaml
from orchestrator.campaigns.order import SimOrder

Document = dict[str, Any]

FRESH = 0.5
"""Share of fresh draws among a guided campaign's runs: what is not reached from the corpus is reached by them."""
CORPUS_MAX = 500
"""Schedules kept; the ones with the least energy go first."""


class Guide(Protocol):
    """Says what to run next."""

    def next_orders(self, number: int) -> list[SimOrder]:
        """A generation: so many orders, fewer when there is nothing more to draw. All of the generation before must
        have been learned from."""
        ...

    def learn(self, order: SimOrder, coverage: Sequence[str]) -> None:
        """An order of the present generation was carried out and covered these points; [] if it could not be. In any
        order."""
        ...


class RandomGuide:
    """Fresh draws, one after the other."""

    def __init__(self, orders: Iterator[SimOrder]) -> None:
        self._orders = orders

    def next_orders(self, number: int) -> list[SimOrder]:
        return list(islice(self._orders, number))

    def learn(self, order: SimOrder, coverage: Sequence[str]) -> None:
        """Nothing is learned."""


class Kept(msgspec.Struct):
    """A schedule of the corpus: one that covered a point which nothing before it had."""

    order: SimOrder
    document: Document
    points: list[str]


class CoverageGuide:
    """Half fresh draws; the rest are mutations of schedules that covered something new when they were run.

    A schedule's energy, in proportion to which it is picked, is the sum over its points of 1 / (runs that covered the
    point): so rare points count, and as what is mutated covers much of what it came from, no schedule is mutated for
    ever. The second schedule that a mutation takes its material from is, as likely, another of the corpus or a fresh
    draw of late.

    What a nemesis draws is mutated. A scenario with variants, or one that says what must happen or be violated in it,
    is run as it is: its mutation would no longer show that.

    ``orders``: fresh draws, of one source or several. ``seed``: of the guide's own draws. ``folder``: begins the
    sources of mutated orders, as if each were a file in it. ``document_of``: the scenario of a fresh order.
    ``families``: the only families of points that it goes by, if any are given.
    """

    def __init__(
        self,
        orders: Iterator[SimOrder],
        seed: int,
        folder: str,
        document_of: Callable[[SimOrder], Document] | None = None,
        fresh: float = FRESH,
        families: Sequence[str] = (),
    ) -> None:
        self._orders = orders
        self._seed = seed
        self._folder = folder
        self._document_of = document_of or _as_loaded
        self._fresh = fresh
        self._families = tuple(f"{family}/" for family in families)
        self.corpus: list[Kept] = []
        self.seen: Counter[str] = Counter()
        """Point -> runs that covered it."""
        self._generation: list[SimOrder] = []
        self._documents: dict[str, Document] = {}
        self._learned: dict[str, list[str]] = {}
        self._given = 0
        self._last: Document | None = None

    def next_orders(self, number: int) -> list[SimOrder]:
        self._fold()
        for _ in range(number):
            order = self._next()
            if order is None:
                break
            self._generation.append(order)
        return list(self._generation)

    def learn(self, order: SimOrder, coverage: Sequence[str]) -> None:
        self._learned[order.key] = [
            point for point in coverage if not self._families or point.startswith(self._families)
        ]

    def _fold(self) -> None:
        """Take in what the last generation covered, in its own order."""
        for order in self._generation:
            points = self._learned.pop(order.key)
            document = self._documents.pop(order.key, None)
            is_new = any(point not in self.seen for point in points)
            self.seen.update(points)
            if not is_new:
                continue
            if document is None:
                document = self._document_of(order)
                if not _is_free(document):
                    continue
                self._last = document
            self.corpus.append(Kept(order, document, points))
        self._generation = []
        if len(self.corpus) > CORPUS_MAX:
            self.corpus = sorted(self.corpus, key=self.energy, reverse=True)[:CORPUS_MAX]

    def energy(self, kept: Kept) -> float:
        """How much there is to be expected of a schedule."""
        return sum(1 / self.seen[point] for point in kept.points)

    def _next(self) -> SimOrder | None:
        """A fresh draw, or a mutation; None when there is nothing more to draw."""
        draw = random.Random(f"guide/{self._seed}/{self._given}")
        self._given += 1
        if self.corpus and draw.random() >= self._fresh:
            return self._mutated(draw)
        return next(self._orders, None)

    def _mutated(self, draw: random.Random) -> SimOrder:
        weights = [self.energy(kept) for kept in self.corpus]
        parent, other = draw.choices(self.corpus, weights, k=2)
        assert self._last is not None, "the corpus began with a fresh draw"
        material = other.document if draw.random() < 0.5 else self._last
        document = mutate(parent.document, material, draw.randrange(2**31))
        name = f"{self._folder}/{self._seed}-{self._given}.yaml"
        about = f"Number {self._given} of a guided campaign, from {parent.order.source}."
        text = to_yaml({**document, "about": about})
        order = SimOrder(name, parent.order.variant, None, parent.order.settings, parent.order.defects, text)
        self._documents[order.key] = document
        return order


def _as_loaded(order: SimOrder) -> Document:
    document = order.loaded().document.value
    assert isinstance(document, dict), "the loader takes nothing else"
    return document


def _is_free(document: Document) -> bool:
    """Whether a scenario may become another one without breaking its own word."""
    expect = document.get("expect") or {}
    told = (document.get("variants"), document.get("must-happen"), expect.get("violated"), expect.get("held"))
    return not any(told)
