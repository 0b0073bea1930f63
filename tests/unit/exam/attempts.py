"""Runs of an exam that are not done, and one after the other in this process that are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from actors.defects.defect import Defect
from orchestrator.campaigns.order import SimOrder
from orchestrator.exam.attempt import Attempt, Attempted, do

SMALL = """
schema: krift/v1
name: small
about: Nothing is broken.
duration: 1s
cluster: {voters: 1, brokers: 1, topics: {orders: {replicas: [[1]]}}}
workload:
  - producer: {topic: orders, rate: 100/s}
  - list-offsets: {topic: orders, every: 20ms}
"""


def small(defect: Defect, number: int) -> SimOrder:
    """A short schedule in which nothing is broken."""
    return SimOrder("small.yaml", seed=number, text=SMALL)


def quiet(defect: Defect, number: int) -> SimOrder:
    """The same without anybody who asks for offsets."""
    order = small(defect, number)
    asks = "  - list-offsets: {topic: orders, every: 20ms}\n"
    return msgspec.structs.replace(order, text=order.text.replace(asks, ""))


def here(attempts: Sequence[Attempt]) -> Iterable[Attempted]:
    """Carry them out, in order."""
    return map(do, attempts)


def shown(
    attempt: Attempt, violated: Iterable[str] = (), unexpected: Iterable[str] = (), undecided: str = ""
) -> Attempted:
    """What a run would show: violations of ``violated`` and, which is not allowed, of ``unexpected``."""
    found = dict.fromkeys([*violated, *unexpected], 1_000_000)
    return Attempted(attempt, found, dict.fromkeys(unexpected, "it was broken"), undecided, 2_000_000, 0.5)


class Pretended:
    """Shows what it is told to instead of running; ``asked`` has every run that it was asked for."""

    def __init__(self, show: Callable[[Attempt], Attempted]) -> None:
        self.asked: list[Attempt] = []
        self._show = show

    def __call__(self, attempts: Sequence[Attempt]) -> Iterator[Attempted]:
        self.asked += attempts
        # The last first: the order in which runs end says nothing.
        return map(self._show, reversed(attempts))
