"""Shrinking: the smallest scenario that still fails the same way, found by trying ever smaller ones.

What is small is ordered (``chaos.shrink.measure.Size``): fewer steps of the schedule, then shorter, fewer clients,
fewer records, fewer nodes and replicas, fewer settings, simpler values. A candidate takes the place of the best so far
if it passes the scenario loader, comes earlier in that order, and fails the same way when it is run; so the outcome is
never larger than what was given, and always fails.

The passes (``chaos.shrink.passes``) are gone through in their order, round after round, as long as a round gets
anything smaller. When none does, those that take parts out are tried again with other seeds: a part may have mattered
for nothing but the draws that it shifted. What the schedule does matters, not what happened to be drawn with it.

Everything is deterministic: it depends on the scenario, the budget and what candidates' runs show, not on how many of
them are run at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec

from chaos.errors import InputError
from chaos.scenario.loader import load_value
from chaos.shrink.lean import without_empty
from chaos.shrink.measure import Size, size_of
from chaos.shrink.moments import Sighting
from chaos.shrink.passes import PASSES, Edit, Pass, Target
from chaos.words import some

BUDGET = 400
"""Runs of a shrinking if nobody says otherwise."""
STALL_MAX = 160
"""Runs in a row without anything smaller, after which it is given up."""
OTHER_SEEDS = 4
"""Other seeds that are tried for one candidate."""
REDRAWN = "seed-drawn-again"


class Shown(msgspec.Struct, frozen=True):
    """What the run of a candidate showed. failed: the same way as what is shrunk. at_us: when, since time 0; -1 if that
    is not known. odd: what Krift itself stumbled over in it, "" if nothing."""

    failed: bool
    at_us: int = -1
    odd: str = ""


Try = Callable[[Sequence[Mapping[str, Any]]], Iterable[Shown]]
"""Runs candidates and says what each showed, in their order. It may run them one by one or all at a time: nobody asks
for more after the first that failed."""

Look = Callable[[Mapping[str, Any]], Sequence[Sighting]]
"""Runs a scenario and says what was seen in it."""


class PassCount(msgspec.Struct):
    """What a pass has done. tried: candidates that were run. smaller: those that took the place of the best."""

    tried: int = 0
    smaller: int = 0


class Standing(msgspec.Struct, frozen=True):
    """Where shrinking stands, for a line of progress. runs: so far. last: name of the pass that goes on."""

    name: str
    runs: int
    smaller: int
    size: Size


class Shrinker:
    """Shrinks one scenario. ``best`` is there at any time, also after an exception: whoever is interrupted has it."""

    def __init__(
        self,
        document: Mapping[str, Any],
        fails: Try,
        *,
        failed_us: int = -1,
        look: Look | None = None,
        budget: int = BUDGET,
        stall: int = STALL_MAX,
        width: int = 1,
        passes: Sequence[Pass] = PASSES,
        show: Callable[[Standing], None] = lambda standing: None,
    ) -> None:
        """document: a lean scenario (``chaos.shrink.lean``) that fails; failed_us: when it did, as in ``Shown``.
        budget, stall: runs. width: candidates that ``fails`` is given at a time."""
        self.best: dict[str, Any] = copy.deepcopy(dict(document))
        self.failed_us = failed_us
        self.before = size_of(self.best)
        self.counts = {each.name: PassCount() for each in passes} | {REDRAWN: PassCount()}
        self.runs = 0
        self.odd: list[str] = []
        """What Krift itself stumbled over in candidates, each once."""
        self.why = ""
        """Why it ended: nothing gets smaller, or it was given up."""
        self._fails, self._look, self._show = fails, look, show
        self._budget, self._stall, self._width, self._passes = budget, stall, max(1, width), passes
        self._since = 0
        self._known = {_fingerprint(self.best)}

    @property
    def size(self) -> Size:
        """Of the best so far."""
        return size_of(self.best)

    def run(self) -> dict[str, Any]:
        """Shrink until nothing gets smaller, or the budget or patience is at its end; the best."""
        while self._round(self._passes) or self._round(self._redrawn()):
            pass
        self.why = "nothing gets smaller"
        if self._given_up:
            self.why = (
                "the budget is spent" if self.runs >= self._budget else f"no progress in {some(self._since, 'run')}"
            )
        return self.best

    @property
    def _given_up(self) -> bool:
        return self.runs >= self._budget or self._since >= self._stall

    def _round(self, passes: Iterable[Pass]) -> bool:
        """Go through passes once; whether anything got smaller, and it is worth going on."""
        before = self.size
        for each in passes:
            target = Target(self.best, self.failed_us, self._look)
            for sweep in each.sweeps(target):
                self._sweep(each, sweep)
                target.document, target.failed_us = self.best, self.failed_us
                if self._given_up:
                    return False
        return self.size < before

    def _redrawn(self) -> Iterator[Pass]:
        """The passes that take parts out, with other seeds."""
        for each in self._passes:
            if each.structural:
                yield Pass(REDRAWN, each.about, partial(self._with_other_seeds, each))

    def _with_other_seeds(self, of: Pass, target: Target) -> Iterator[list[Edit]]:
        def both(document: dict[str, Any], edit: Edit, seed: int) -> object:
            document["seed"] = seed
            return edit(document)

        seeds = range(1, OTHER_SEEDS + 1)
        for sweep in of.sweeps(target):
            yield [partial(both, edit=edit, seed=seed) for edit in sweep for seed in seeds]

    def _sweep(self, of: Pass, edits: Sequence[Edit]) -> None:
        """Try each edit on what is the best then; several at a time, of which the first that fails counts."""
        waiting = list(edits)
        while waiting and not self._given_up:
            batch: list[dict[str, Any]] = []
            ends: list[int] = []
            room = min(self._width, self._budget - self.runs, self._stall - self._since)
            for number, edit in enumerate(waiting):
                candidate = self._candidate(edit)
                if candidate is not None:
                    batch.append(candidate)
                    ends.append(number + 1)
                if len(batch) == room:
                    break
            if not batch:
                return
            first = self._first_that_fails(of, batch)
            waiting = waiting[ends[first if first >= 0 else -1] :]

    def _candidate(self, edit: Edit) -> dict[str, Any] | None:
        """What an edit makes of the best; None if that is not a legal scenario, not smaller, or was tried before."""
        document = copy.deepcopy(self.best)
        if edit(document) is False:
            return None
        try:
            document = without_empty(document)
            # Before its size, which only a scenario has.
            load_value(document)
        except InputError:
            return None
        if size_of(document) >= self.size:
            return None
        print_ = _fingerprint(document)
        if print_ in self._known:
            return None
        self._known.add(print_)
        return document

    def _first_that_fails(self, of: Pass, batch: Sequence[dict[str, Any]]) -> int:
        """Run candidates; the place of the first that fails, which is the best from now on; -1 if none does. Those
        behind it count as not tried, however many were run at a time."""
        count = self.counts[of.name]
        for number, shown in enumerate(self._fails(batch)):
            self.runs += 1
            self._since += 1
            count.tried += 1
            if shown.odd and shown.odd not in self.odd:
                self.odd.append(shown.odd)
            if shown.failed:
                count.smaller += 1
                self._since = 0
                self.best, self.failed_us = batch[number], shown.at_us
                self._known.difference_update(map(_fingerprint, batch[number + 1 :]))
            self._show(Standing(of.name, self.runs, sum(each.smaller for each in self.counts.values()), self.size))
            if shown.failed:
                return number
        return -1


def _fingerprint(document: Mapping[str, Any]) -> bytes:
    return blake2b(msgspec.json.encode(document, order="sorted"), digest_size=12).digest()
