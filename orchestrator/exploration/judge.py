"""Who judges states, whatever nodes they are of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from orchestrator.exploration.cluster import Facts_contra, State, Stepped
from orchestrator.exploration.wire import Move

HistoryT = TypeVar("HistoryT")


class Broken(NamedTuple):
    """A promise that was broken, in one sentence."""

    promise: str
    sentence: str


class Judge(Protocol[Facts_contra, HistoryT]):
    """Judges states by what their places amount to, and by the little of their history that matters."""

    sound: str
    """The promise that a step alone can break."""

    def nothing_yet(self) -> HistoryT:
        """The history of nodes that have just been started."""

    def noted(
        self, history: HistoryT, end: Stepped, all_facts: Sequence[Facts_contra]
    ) -> tuple[HistoryT | None, Broken | None]:
        """The history after a move, None beyond the bounds; and what the move itself has broken."""

    def judged(self, state: State, move: Move, history: HistoryT) -> Broken | None:
        """The first promise that a new state breaks."""

    def marks(self, before: HistoryT, after: HistoryT) -> list[str]:
        """What a change of history shows."""
