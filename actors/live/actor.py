"""One Ray actor, and so one process, for one incarnation of a node."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
from typing import Any

from actors.control import AnyRule, Barrier, ClockSkew
from actors.live.runtime import LiveRuntime
from actors.live.setup import Control, Opened, Report, Setup

_PR_SET_PDEATHSIG = 1


class NodeActor:
    """An async Ray actor: all of its methods, and the node's steps, run on its one event loop.

    It is made by ``actors.live.host_agent``, which kills, stops and continues its process. A method that returns a
    Control merges the caller's clock, as any message does.
    """

    def __init__(self, setup: Setup) -> None:
        # gRPC objects belong to the loop they first see, so none is made here.
        self._setup = setup
        self._reports: list[Report] = []
        self._reported = asyncio.Event()

    async def open(self) -> Opened:
        """Serve, without taking a step; returns the process id and the port."""
        _die_with_parent()
        self._runtime = LiveRuntime(self._setup, self._report)
        port = await self._runtime.open()
        # What was imported stays for good: no collection needs to look at it.
        gc.collect()
        gc.freeze()
        return Opened(os.getpid(), port)

    async def start(
        self, addresses: dict[str, str], rules: list[AnyRule], skews: list[ClockSkew], control: Control
    ) -> Control:
        """As ``LiveRuntime.start``."""
        return self._runtime.start(addresses, rules, skews, control)

    async def meet(self, addresses: dict[str, str], control: Control) -> Control:
        """As ``LiveRuntime.meet``."""
        return self._runtime.meet(addresses, control)

    async def watch(self, barriers: list[Barrier], control: Control) -> Control:
        """As ``LiveRuntime.watch``."""
        return self._runtime.watch(barriers, control)

    async def install(self, rule: AnyRule, control: Control) -> Control:
        """As ``LiveRuntime.install``."""
        return self._runtime.install(rule, control)

    async def remove(self, rule_id: str, control: Control) -> Control:
        """As ``LiveRuntime.remove``."""
        return self._runtime.remove(rule_id, control)

    async def skew(self, skew: ClockSkew, control: Control) -> Control:
        """As ``LiveRuntime.skew``."""
        return self._runtime.skew(skew, control)

    async def restore(self, fault: str, control: Control) -> Control:
        """As ``LiveRuntime.restore``."""
        return self._runtime.restore(fault, control)

    async def invoke(self, operation: str, kind: str, arguments: dict[str, Any], control: Control) -> Control:
        """As ``LiveRuntime.invoke``."""
        return self._runtime.invoke(operation, kind, arguments, control)

    async def release(self, ticket: int, control: Control) -> Control:
        """As ``LiveRuntime.release``."""
        return self._runtime.release(ticket, control)

    async def stop(self, control: Control) -> tuple[int, Control]:
        """As ``LiveRuntime.stop``."""
        return await self._runtime.stop(control)

    async def reports(self) -> list[Report]:
        """What the conductor must hear of, as soon as there is any: a call that waits, to be made again and again."""
        await self._reported.wait()
        self._reported.clear()
        reports, self._reports = self._reports, []
        return reports

    def _report(self, report: Report) -> None:
        self._reports.append(report)
        self._reported.set()


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when the Ray node that started it is gone: a stopped process would not
    notice by itself, and stay."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
