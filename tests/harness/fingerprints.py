"""Run as a program: what a scenario leaves behind per seed, and what nemeses draw, for a comparison between processes.

``python -m tests.harness.fingerprints DIRECTORY SEED...`` writes ``<seed>.steps`` and ``<seed>.json`` for each, and
``DRAWN``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from actors.sim.world import World
from actors.trace.events import RunMeta
from chaos.conductor import ScenarioConductor
from chaos.incidents import library
from chaos.nemesis.library import names
from chaos.plan import Plan
from chaos.scenario.resolve import resolve
from orchestrator.campaigns.order import SimOrder
from orchestrator.engines.in_process import InProcessEngine

LIMIT_US = 600_000_000
DRAWN = "drawn.yaml"


class Fingerprint(msgspec.Struct):
    """What must be the same wherever a seed is run. hash_of_a_word: what must not, or nothing was compared."""

    digest: str
    end_us: int
    messages: int
    violated: list[str]
    hash_of_a_word: int


def plan_of(seed: int) -> Plan:
    """A fault, elections, producers and probers, in a few virtual seconds."""
    return resolve(library.load("kip-207"), "off", seed=seed)


def leave(directory: Path, seed: int) -> None:
    """Run one seed and write down what came of it."""
    plan, engine = plan_of(seed), InProcessEngine()
    meta = RunMeta(plan.scenario, plan.variant, "sim", plan.seed, plan.names, plan.profile())
    world = World(plan.nodes, ScenarioConductor(plan), seed, "run", engine.feed, meta=meta, step_digests=True)
    result = world.run(LIMIT_US)
    assert result.finished, result.failures
    assert result.step_digests is not None
    violated = [each.id for each in engine.results() if each.status == "violated"]
    found = Fingerprint(result.digest, result.end_us, result.messages, violated, hash("krift"))
    (directory / f"{seed}.steps").write_bytes(result.step_digests.to_bytes())
    (directory / f"{seed}.json").write_bytes(msgspec.json.encode(found))


def draw_all(directory: Path) -> None:
    """Write down what each nemesis draws for two seeds."""
    drawn = [SimOrder(name, seed=seed).plan().yaml() for name in names() for seed in (1, 2)]
    (directory / DRAWN).write_text("\n".join(drawn), "utf-8")


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]))
    for number in sys.argv[2:]:
        leave(Path(sys.argv[1]), int(number))
