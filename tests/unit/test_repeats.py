"""Runs done again by a process with other hashes: what it sees, and that it stays behind nowhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from chaos.errors import RunError
from chaos.plan import Plan
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator import repeats
from orchestrator.repeats import ORDERS, repeat
from orchestrator.sim_run import run_in_sim
from tests.architecture.sources import ROOT

SMALL = """
schema: krift/v1
name: small
duration: 1s
cluster: {voters: 1, brokers: 3, topics: {orders: {replicas: [[1, 2, 3]]}}}
workload:
  - producer: {topic: orders, rate: 50/s}
"""

LONG = SMALL.replace("1s", "40m")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    repeats.close()
    yield
    repeats.close()


def plan(text: str = SMALL, seed: int = 1, defects: tuple[str, ...] = ()) -> Plan:
    return resolve(load_text(text), seed=seed, defects=defects)


def process() -> subprocess.Popen[bytes]:
    """The one of this process that was begun last."""
    return list(repeats._helpers.values())[-1]._process


def test_a_run_among_other_hashes() -> None:
    """Shows the same digests, of the trace and of each step, and one process for runs that hash alike."""
    run = run_in_sim(plan())
    again = repeat(plan(), steps=True)
    assert again.digest == run.verdict.digest
    assert len(again.step_digests()) > 100
    first = process().pid
    assert repeat(plan(seed=1 + ORDERS)).digest not in (again.digest, "")
    assert process().pid == first
    repeat(plan(seed=2))
    assert process().pid != first, "one process stands for one order of hashes"
    assert [helper._process.poll() for helper in repeats._helpers.values()] == [None, None], "both stay"


def test_no_more_processes_stay_than_take_turns() -> None:
    """Shows that the oldest process makes room for another order of hashes, and that the end leaves none."""
    for hash_seed in range(11, 12 + ORDERS):
        repeat(plan(), hash_seed=str(hash_seed))
    begun = [helper._process for helper in repeats._helpers.values()]
    assert len(begun) == ORDERS
    repeats.close()
    assert all(each.poll() is not None for each in begun)


def test_an_order_of_hashes_is_seen() -> None:
    """Shows that a node with a loop over a set of strings gives other traces among other hashes, and one
    without does not."""
    wrong = plan(defects=("wake-in-hash-order",))
    assert len({repeat(wrong, hash_seed=hash_seed).digest for hash_seed in ("11", "12", "13")}) > 1
    assert len({repeat(plan(), hash_seed=hash_seed).digest for hash_seed in ("11", "12", "13")}) == 1


def test_what_cannot_be_done_again_is_told() -> None:
    """Shows a scenario that is none, and a process that dies while it is asked."""
    helper = repeats._Helper("1")
    with pytest.raises(RunError, match="could not be repeated: InputError"):
        helper.ask(repeats.Order("nonsense", "again"))
    helper._process.kill()
    helper._process.wait()
    with pytest.raises(RunError, match="no run can be repeated: the process for it ended with -9"):
        helper.ask(repeats.Order(plan().yaml(), "again"))
    helper.close()


def test_an_interrupt_ends_it() -> None:
    """Shows that Ctrl-C during a repetition leaves no process, and that the next repetition has a new one."""
    repeat(plan())
    first = process()
    # A shell's background jobs ignore SIGINT from their beginning.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            repeat(plan(LONG, seed=1 + ORDERS))
    finally:
        signal.signal(signal.SIGINT, before)
    assert first.poll() is not None
    assert repeat(plan()).digest


ASKS = f"""
from tests.unit.test_repeats import LONG, SMALL, plan, process
from orchestrator.repeats import ORDERS, repeat
repeat(plan(SMALL))
print(process().pid, flush=True)
repeat(plan(LONG, seed=1 + {ORDERS}))
"""


def test_it_ends_with_a_process_that_is_killed() -> None:
    """Shows that SIGKILL, amid a repetition, of the process that asked for it ends the other one, too: the pipe of its
    stderr, which nobody else has, comes to its end."""
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert asking.stdout is not None
    pid = int(asking.stdout.readline())
    os.kill(pid, 0)
    asking.kill()
    said = asking.communicate(timeout=30)[1]
    assert said == b""
