"""What the checks knew before the evidence of a finding begins: with it, that says what the whole trace would say.

A soak puts one aside now and then (``Bases``), lets the old ones go, and copies one into each piece of evidence. One of
a soak in the sim is all that its engine knew; one of a live soak is all that the shards of the streaming engine knew,
some of it of events that wait to be judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal

import msgspec

from actors.trace.events import RunMeta, Stamped
from actors.trace.lines import DAMAGE
from orchestrator.compressed import read_compressed, write_compressed
from orchestrator.engines.in_process import InProcessEngine, OtherState
from orchestrator.engines.shard import OtherLayout, Shard
from orchestrator.invariants.folds.conclusion import InvariantResult, KeyResult, conclude
from orchestrator.invariants.folds.fold import Profile
from orchestrator.invariants.hygiene.trace import NO_END
from orchestrator.invariants.registry import folds, invariants_of
from orchestrator.run_dir import RESTORE, RunDir, wrong
from orchestrator.runner import Judge
from orchestrator.soak.evidence import AFTER_US, BASE, BEFORE_US
from orchestrator.trace.read import trace_of

BASE_SCHEMA: Final = "krift-soak-base/v1"
BYTES_MAX: Final = 1 << 30
"""More than any checks know: a larger file is not one of ours."""


class Base(msgspec.Struct, kw_only=True):
    """at_us: what was recorded before this clock is part of it. engine: as of ``InProcessEngine.saved``, of a soak in
    the sim; shards: as of ``Shard.saved``, by their numbers, of a live one."""

    schema: Literal["krift-soak-base/v1"] = BASE_SCHEMA
    at_us: int
    engine: bytes = b""
    shards: list[bytes] = []

    def loaded(self) -> Judge:
        """Goes on with the events of the evidence, in order, of which the base may have the first: gives what all that
        the soak recorded up to the last of them says. Raises OtherState or OtherLayout if another version of Krift
        wrote the base, KeyError, ValueError or AssertionError if it is damaged."""
        if not self.shards:
            engine = InProcessEngine()
            engine.load(self.engine)
            return partial(_judged_by, engine)
        shards = [Shard(number, len(self.shards)) for number in range(len(self.shards))]
        for shard, saved in zip(shards, self.shards, strict=True):
            shard.load(saved)
        return partial(_judged_in, shards, self.at_us)


def _judged_by(engine: InProcessEngine, events: Iterable[Stamped]) -> list[InvariantResult]:
    last = engine.last
    for event in events:
        if last is None or event.order > last.order:
            engine.take(event)
    return cut_off(engine.key_results(), engine.profile)


def _judged_in(shards: Sequence[Shard], from_us: int, events: Iterable[Stamped]) -> list[InvariantResult]:
    rest = [event for event in events if event.wall >= from_us]
    until_us = rest[-1].wall if rest else from_us
    results: list[KeyResult] = []
    for shard in shards:
        shard.take(rest, [])
        results += shard.close(until_us)
    return cut_off(results, shards[0].profile)


def cut_off(results: Iterable[KeyResult], profile: Profile) -> list[InvariantResult]:
    """One result per invariant of a soak that went on: that the trace says nothing of its end speaks against nothing
    there."""
    kept = [
        msgspec.structs.replace(each, findings=[found for found in each.findings if found.rule != NO_END])
        for each in results
    ]
    return conclude(invariants_of(folds()), kept, profile)


class Bases:
    """Those that a soak keeps, in a folder: as many as evidence may want that is yet to be kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, base: Base) -> None:
        """Keep another one. Raises NotWritten."""
        write_compressed(self._folder / f"{base.at_us:020}.bin", msgspec.msgpack.encode(base))

    def expire(self, now_us: int) -> None:
        """Let those go that no finding from now on can want."""
        old = [at_us for at_us in self._by_time() if at_us <= now_us - BEFORE_US - AFTER_US]
        self._delete(old[:-1])

    def take_back(self, to_us: int) -> None:
        """Let those go that are later than a clock."""
        self._delete([at_us for at_us in self._by_time() if at_us > to_us])

    def of(self, from_us: int, to_us: int) -> tuple[int, Path] | None:
        """The newest from before a window, else the first within it, which may know of the finding already; None if
        there is none. With its clock."""
        known = self._by_time()
        before = [each for each in known if each <= from_us]
        chosen = before[-1] if before else next((each for each in known if each <= to_us), None)
        return None if chosen is None else (chosen, known[chosen])

    def _delete(self, clocks: Iterable[int]) -> None:
        known = self._by_time()
        for at_us in clocks:
            known[at_us].unlink(missing_ok=True)

    def _by_time(self) -> dict[int, Path]:
        return {int(path.stem): path for path in sorted(self._folder.glob("*.bin"))}


def read_base(evidence: RunDir) -> Base | None:
    """The base of evidence; None if it needs none, since it begins where its soak did. Raises InputError if it is
    missing, or damaged."""
    path = evidence.path / BASE
    if not path.exists():
        if any(type(event.body) is RunMeta for event in trace_of(evidence)):
            return None
        what = "it begins in the middle of its soak, and what the checks knew there was not kept"
        raise wrong(evidence.path, what, "evidence with a base.bin; krift replay and krift export need none")
    try:
        return msgspec.msgpack.decode(read_compressed(path, BYTES_MAX), type=Base)
    except DAMAGE as error:
        raise wrong(path, f"damaged: {error}", RESTORE) from None


def judged(evidence: RunDir, base: Base, events: Iterable[Stamped]) -> list[InvariantResult]:
    """What evidence says that goes on from a base. Raises InputError if another version of Krift wrote that, or if it
    is damaged."""
    path = evidence.path / BASE
    try:
        go_on = base.loaded()
    except (OtherState, OtherLayout) as error:
        raise wrong(path, f"of another version: {error}", "the version of krift that wrote it") from None
    except (LookupError, AssertionError, ValueError, *DAMAGE) as error:
        raise wrong(path, f"damaged: {error}", RESTORE) from None
    try:
        return go_on(events)
    except Exception as error:
        # Folds that were given nonsense for what they knew stumble over it anywhere.
        what = f"the checks cannot go on from it: {type(error).__name__}: {error}"
        raise wrong(path, what, RESTORE) from error
