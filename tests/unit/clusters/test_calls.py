"""In which order the control calls of a live run reach a node."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from actors.control import DiskRule, MendDisk, SlowDisk
from actors.live.setup import Control
from chaos.conductor import ScenarioConductor
from chaos.scenario.resolve import resolve
from chaos.sources import find
from orchestrator.clusters.base import RunOrder
from orchestrator.clusters.live_run import LiveRun

BROKER = "broker-1"


class Actor:
    """A process that begins the calls which wait for it in the wrong order: the last one first."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.asked = 0
        self.carried_out: list[str] = []

    def __getattr__(self, method: str) -> Any:
        return Method(self, method)

    async def carry_out(self, method: str, number: int) -> Control:
        await self.goes_on.wait()
        for _ in range(self.asked - number):
            await asyncio.sleep(0)
        self.carried_out.append(method)
        return Control(0, 0)


class Method:
    """One that is called at a distance."""

    def __init__(self, actor: Actor, name: str) -> None:
        self.actor, self.name = actor, name

    def remote(self, *arguments: object) -> Coroutine[Any, Any, Control]:
        self.actor.asked += 1
        return self.actor.carry_out(self.name, self.actor.asked)


@pytest.mark.parametrize("paused", [True, False])
def test_a_rule_is_removed_after_it_was_installed(paused: bool, tmp_path: Path) -> None:
    """Shows that calls to a node reach it one after the other, also those that wait until its process goes on, and that
    the driver waits for those to a process that does."""

    async def conducted() -> list[str]:
        plan = resolve(find("kip-207").scenario)
        order = RunOrder("r", plan, tmp_path)
        run = LiveRun(order, ScenarioConductor(plan), [None], {spec.name: 0 for spec in plan.nodes}, None)
        node, actor = run._nodes[BROKER], Actor()
        node.handle, node.up, node.paused = actor, True, paused
        if not paused:
            actor.goes_on.set()
        await run._act([SlowDisk(DiskRule("f1/1", BROKER, 1, 2)), MendDisk("f1/1", BROKER)])
        assert len(actor.carried_out) == (0 if paused else 2)
        node.paused = False
        actor.goes_on.set()
        await run._act([SlowDisk(DiskRule("f2/1", BROKER, 1, 2))])
        return actor.carried_out

    assert asyncio.run(conducted()) == ["install", "remove", "install"]
