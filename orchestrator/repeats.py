"""Runs of the sim done again, in a process in which strings have other hashes.

Python orders a set of strings by their hashes, which it draws anew for each process. A run that depends on such an
order is the same again and again where it began, and another one tomorrow: so a repetition is worth something only
where the hashes are others (X8).
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

import orchestrator
from actors.sim.digest import StepDigests
from chaos.errors import RunError
from chaos.plan import Plan

WORD = "krift"
"""Its hash tells how a process hashes."""
ORDERS = 4
"""So many ways of hashing take turns, by the runs' seeds: two of them may well put a small set into the same order."""
END_S = 10.0


class Order(msgspec.Struct, frozen=True):
    """A run to be done again. scenario: resolved, as YAML. run: its name. steps: whether the digests of its steps are
    wanted; steps_max: stop after so many."""

    scenario: str
    run: str
    steps: bool = False
    steps_max: int | None = None


class Repeat(msgspec.Struct, frozen=True):
    """A run that was done again. digest: of its trace. steps: the digests of its steps if they were wanted."""

    digest: str
    steps: bytes = b""

    def step_digests(self) -> StepDigests:
        """Of a repetition of which they were wanted."""
        return StepDigests.from_bytes(self.steps)


def repeat(
    plan: Plan, run: str = "again", steps: bool = False, steps_max: int | None = None, hash_seed: str = ""
) -> Repeat:
    """Do a run again from its resolved scenario, with other hashes than here; ``hash_seed``: with these. The process
    that does it stays for the next one with these hashes, and ends with this process, however that ends. Raises
    RunError if it cannot be done."""
    helper = _helper_for(hash_seed or _hash_seed(plan.seed))
    try:
        return helper.ask(Order(plan.yaml(), run, steps, steps_max))
    except BaseException:
        # Interrupted or broken: what it still has to say belongs to nobody.
        close()
        raise


def close() -> None:
    """End the processes that do runs again, if there are any."""
    while _own():
        _helpers.pop(_own()[0]).close()


def _own() -> list[tuple[int, str]]:
    return [key for key in _helpers if key[0] == os.getpid()]


def _helper_for(hash_seed: str) -> _Helper:
    """The process with these hashes. At most ``ORDERS`` stay: the one that was begun first makes room."""
    found = _helpers.get((os.getpid(), hash_seed))
    if found is not None:
        return found
    for key in set(_helpers).difference(_own()):
        del _helpers[key]  # of the process that this one was forked off: it is not ours to end
    if len(_helpers) == ORDERS:
        _helpers.pop(_own()[0]).close()
    helper = _helpers[os.getpid(), hash_seed] = _Helper(hash_seed)
    return helper


def _hash_seed(seed: int) -> str:
    """For PYTHONHASHSEED, and not what this process has."""
    number = seed % ORDERS + 1
    return str(number if os.environ.get("PYTHONHASHSEED") != str(number) else ORDERS + 1)


class _Helper:
    """The process that does runs again. It is told by its stdin, and ends when that is closed: also when this process
    is killed. It has no part in the terminal's signals; this process ends it.

    It is a process group, and no session: Linux may schedule each session as a whole (``sched_autogroup_enabled``), and
    a helper's niceness would then count for nothing beside other sessions."""

    def __init__(self, hash_seed: str) -> None:
        root = str(Path(orchestrator.__file__).resolve().parents[1])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "orchestrator.repeater"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self._of: BinaryIO = self._process.stdout  # type: ignore[assignment]

    def ask(self, order: Order) -> Repeat:
        """Have a run done."""
        try:
            pickle.dump(order, self._to)
            self._to.flush()
            answer = pickle.load(self._of)
        except (EOFError, BrokenPipeError):
            raise RunError(f"no run can be repeated: the process for it ended with {self._process.wait()}") from None
        if isinstance(answer, str):
            raise RunError(f"the run could not be repeated: {answer}")
        hashed, repeated = answer
        assert hashed != hash(WORD), "a repetition among the same hashes shows nothing"
        assert isinstance(repeated, Repeat)
        return repeated

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._process.kill()
        self._process.wait(END_S)
        self._of.close()
        with suppress(BrokenPipeError):  # part of an order was still to be sent
            self._to.close()


_helpers: dict[tuple[int, str], _Helper] = {}
"""By the id of the process that started it, and its hash seed: one that was forked off has the entries, and no right to
them."""
atexit.register(close)
