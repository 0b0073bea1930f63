"""Feeds readers with hostile files."""

from __future__ import annotations

import random
import tempfile
import time
import traceback
from pathlib import Path

import msgspec

from tests.fuzz.mutate import mutated
from tests.fuzz.targets import Target


class Fed(msgspec.Struct):
    """What came of it. refused: inputs with a clear error; taken: those that were sound all the same; slowest_s: the
    longest that one took; broke: those with any other outcome -> its last lines."""

    refused: int = 0
    taken: int = 0
    slowest_s: float = 0.0
    broke: dict[bytes, str] = {}


def feed(target: Target, inputs: int, seed: int) -> Fed:
    """So many inputs to a reader, drawn from a seed. RecursionError and MemoryError count as broken, too."""
    samples, fed = list(target.samples()), Fed(broke={})
    with tempfile.TemporaryDirectory(prefix="krift-fuzz-") as folder:
        for number in range(inputs):
            draws = random.Random(f"{target.name}/{seed}/{number}")
            data = mutated(draws, draws.choice(samples), samples)
            begun = time.monotonic()
            try:
                target.read(data, Path(folder))
                fed.taken += 1
            except target.refusals:
                fed.refused += 1
            except Exception:  # noqa: BLE001  (that is what is looked for)
                fed.broke[data] = "".join(traceback.format_exc().splitlines(keepends=True)[-6:])
            fed.slowest_s = max(fed.slowest_s, time.monotonic() - begun)
    return fed
