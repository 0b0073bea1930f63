"""The program of the process that does runs again (``orchestrator.repeats``): orders come by stdin, answers go to
stdout, and it ends when stdin does."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from chaos.conductor import ScenarioConductor
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.sim import SimCluster
from orchestrator.repeats import WORD, Order, Repeat


def do(order: Order) -> Repeat:
    """Carry out a run, unjudged."""
    plan = resolve(load_text(order.scenario))
    cluster = SimCluster(keep=False, steps_max=order.steps_max, digest_steps=order.steps)
    cluster.run(RunOrder(order.run, plan, Path()), ScenarioConductor(plan))
    return Repeat(cluster.digest, cluster.steps.to_bytes() if cluster.steps is not None else b"")


def _listen(orders: SimpleQueue[Order]) -> None:
    """Take orders while there is somebody to give them. Its end ends a run that is under way, too."""
    try:
        while True:
            orders.put(pickle.load(sys.stdin.buffer))
    except EOFError:
        os._exit(0)


def main() -> None:
    """Until stdin ends."""
    orders: SimpleQueue[Order] = SimpleQueue()
    Thread(target=_listen, args=[orders], daemon=True).start()
    while True:
        try:
            answer: object = (hash(WORD), do(orders.get()))
        except Exception as error:  # noqa: BLE001  (whoever asked is told)
            answer = f"{type(error).__name__}: {error}"
        try:
            pickle.dump(answer, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # whoever asked is gone
            os._exit(0)


if __name__ == "__main__":
    main()
