"""One live run: starts the nodes over the host agents, feeds the conductor, carries out its actions, stops, collects.

Everything that the conductor hears and asks for passes through one queue and one task, in order.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any

from ray.exceptions import RayActorError, RayError

from actors.control import (
    AnyAction,
    AnyRule,
    Arm,
    ClockSkew,
    Conductor,
    Crash,
    DegradeStore,
    Disarm,
    DiskLoss,
    InstallRule,
    Invoke,
    LinkRule,
    MendDisk,
    MendStore,
    Pause,
    RecordEvent,
    RemoveRule,
    Restart,
    RestoreClock,
    Resume,
    SkewClock,
    SlowDisk,
    Watch,
)
from actors.live.setup import Awake, Broken, Completed, Control, Matched, Reached, Report, Watched
from actors.live.writer import ChunkWriter
from actors.node.spec import NodeSpec
from actors.trace.events import DRIVER, AnyTraceEvent, NodeDown, RunEnd, Stall, Stamped
from actors.trace.stamper import Stamper
from chaos.errors import RunError
from chaos.words import some
from orchestrator.clusters.base import Progress, RunOrder, RunOutcome, Say, Status, run_meta, say_nothing
from orchestrator.clusters.driver_log import DriverLog
from orchestrator.clusters.ray_errors import reason
from orchestrator.story.words import listed
from orchestrator.trace.collect import LOGS, bury_the_killed, close_open_chunks, fetch
from orchestrator.trace.order import merged
from orchestrator.trace.read import line_to_row
from orchestrator.trace.write import write_trace

START_S = 60.0
STOP_S = 10.0
PROGRESS_S = 0.25


def not_started(names: list[str], of: int) -> str:
    """The message when nodes did not start in time, with the load of the machine, which is the likely cause."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    busy = f": the machine is too busy, with a load of {load:.0f} on {some(cores, 'core')}" if load > cores else ""
    return f"{len(names)} of {some(of, 'node')} did not start within {START_S:.0f} s ({listed(names)}){busy}"


class LiveNode:
    """What the driver knows of a node: where it runs, and its incarnation if it is up."""

    def __init__(self, spec: NodeSpec, agent: Any) -> None:
        self.spec = spec
        self.agent = agent
        self.handle: Any = None
        self.incarnation = -1
        self.up = False
        self.paused = False
        self.ended_well = False
        self.restart: asyncio.Task[None] | None = None
        self.last_call: asyncio.Task[None] | None = None
        self.skews: dict[str, ClockSkew] = {}
        self.seen: tuple[int, int, int] = (0, 0, -1)
        """Clock and sequence number of the last event that the driver heard of."""
        self.awake_us = 0
        """Until when it has told of its stalls."""


class LiveRun:
    """One run on host agents that are there already. ``homes``: node -> index of its agent."""

    def __init__(
        self,
        order: RunOrder,
        conductor: Conductor,
        agents: list[Any],
        homes: Mapping[str, int],
        progress: Progress | None,
        say: Say = say_nothing,
    ) -> None:
        self._order = order
        self._conductor = conductor
        self._agents = agents
        self._progress = progress
        self._say = say
        self._nodes = {spec.name: LiveNode(spec, agents[homes[spec.name]]) for spec in order.plan.nodes}
        self._stamper = Stamper(order.run, DRIVER, 0)
        self._log = DriverLog(ChunkWriter(order.directory / LOGS / f"node={DRIVER}", "0"))
        self._rules: dict[str, AnyRule] = {}
        self._ends: dict[str, NodeDown] = {}
        """How killed incarnations ended, by "node/incarnation"."""
        self._losses: dict[str, DiskLoss] = {}
        """Points that wait -> what of the disk goes there."""
        self._addresses: dict[str, str] = {}
        self._final: dict[str, int] = {}
        self._heard: asyncio.Queue[tuple[LiveNode, int, Report]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._begun_s = 0.0
        self._begun_ms = 0
        self._broken = ""
        self._interrupted = False
        self._starting: asyncio.Task[None] | None = None

    async def carry_out(self) -> RunOutcome:
        """The whole run. Raises RunError if nodes did not start."""
        began = time.monotonic()
        self._record(run_meta(self._order, "live"))
        self._say(f"starting {some(len(self._nodes), 'node')}, each a process")
        self._starting = self._spawn(self._start_all())
        if self._interrupted:
            self._starting.cancel()
        while not self._starting.done():
            await asyncio.wait([self._starting], timeout=PROGRESS_S)
            if self._progress is not None:
                self._progress()
        if not self._starting.cancelled():
            if self._starting.exception() is not None:
                self._log.release_all(_physical_us())
            self._starting.result()
            await self._conduct()
        self._say("stopping the nodes, and collecting what they recorded")
        status: Status = "broken" if self._broken else "interrupted" if self._interrupted else "completed"
        await self._end_faults()
        await self._stop_all()
        duration_us = int((time.monotonic() - began) * 1e6)
        return await self._collect(status, duration_us)

    def interrupt(self) -> None:
        """End the run early: faults are ended, nodes stopped, and what was recorded is collected. What the conductor
        has asked for is carried out to its end first, so that it and the cluster agree on what is in force."""
        self._interrupted = True
        if self._starting is not None:
            self._starting.cancel()

    # ---- start -------------------------------------------------------------------------------------------

    async def _start_all(self) -> None:
        """Processes first, so that every address is known when the first node takes its first step."""
        nodes = list(self._nodes.values())
        try:
            async with asyncio.timeout(START_S):
                await asyncio.gather(*(self._open(node) for node in nodes))
                await asyncio.gather(*(self._start(node) for node in nodes))
        except TimeoutError as error:
            raise RunError(not_started([node.spec.name for node in nodes if not node.up], len(nodes))) from error

    async def _open(self, node: LiveNode) -> None:
        try:
            node.handle, node.incarnation, address = await node.agent.start_node.remote(node.spec, node.ended_well)
        except RayError as error:
            raise RunError(f"{node.spec.name} did not start: {reason(error)}") from error
        if address:
            self._addresses[node.spec.name] = address

    async def _start(self, node: LiveNode) -> None:
        node.up, node.paused, node.awake_us = True, False, _physical_us()
        self._spawn(self._listen(node, node.handle, node.incarnation))
        await self._call(node, "start", self._addresses, list(self._rules.values()), list(node.skews.values()))

    async def _restart(self, node: LiveNode) -> None:
        await self._open(node)
        others = [other for other in self._nodes.values() if other.up]
        for other in others:
            self._spawn(self._call(other, "meet", self._addresses))
        await self._start(node)

    async def _listen(self, node: LiveNode, handle: Any, incarnation: int) -> None:
        """Hear what an incarnation reports until it is gone; it must not go by itself."""
        while True:
            try:
                reports: list[Report] = await handle.reports.remote()
            except RayActorError as error:
                if node.up and node.incarnation == incarnation:
                    await self._heard.put((node, incarnation, Broken(reason(error))))
                return
            for report in reports:
                await self._heard.put((node, incarnation, report))

    # ---- conduct -----------------------------------------------------------------------------------------

    async def _conduct(self) -> None:
        self._begun_s = asyncio.get_running_loop().time()
        self._begun_ms = _physical_us() // 1000
        await self._act(self._conductor.begin())
        while not (self._conductor.finished or self._broken or self._interrupted):
            heard = await self._next()
            if heard is not None:
                await self._hear(*heard)
            due_us = self._conductor.next_time_us()
            if due_us is not None and due_us <= self._now_us() and not self._conductor.finished:
                await self._act(self._conductor.on_time(self._now_us()))
            self._release(_physical_us())
            if self._progress is not None:
                self._progress()

    async def _next(self) -> tuple[LiveNode, int, Report] | None:
        """The next report; None when the conductor's time has come, or to show progress."""
        due_us = self._conductor.next_time_us()
        wait_s = PROGRESS_S if due_us is None else min(PROGRESS_S, max(0.0, (due_us - self._now_us()) / 1e6))
        try:
            return self._heard.get_nowait() if wait_s == 0 else await asyncio.wait_for(self._heard.get(), wait_s)
        except (TimeoutError, asyncio.QueueEmpty):
            return None

    async def _hear(self, node: LiveNode, incarnation: int, report: Report) -> None:
        match report:
            case Matched(ticket, event):
                self._saw(node, event)
                await self._bury(node, event)
                await self._act(self._conductor.on_event(self._now_us(), event))
                if node.up and node.incarnation == incarnation:
                    await self._call(node, "release", ticket)
            case Awake(at_us):
                node.awake_us = max(node.awake_us, at_us)
            case Watched(event) if isinstance(event.body, Stall):
                self._stalled(event, event.body)
                node.awake_us = max(node.awake_us, event.wall)
                await self._act(self._conductor.on_event(self._now_us(), event))
            case Watched(event):
                self._saw(node, event)
                await self._bury(node, event)
                await self._act(self._conductor.on_event(self._now_us(), event))
            case Reached(point_id):
                if node.up and node.incarnation == incarnation and point_id in self._losses:
                    loss, point = self._losses.pop(point_id), self._rules.pop(point_id)
                    await self._crash(node, loss, f"{point_id} {point}")
            case Completed(operation, result):
                name = node.spec.name
                await self._act(self._conductor.on_complete(self._now_us(), name, operation, result))
            case Broken(detail):
                self._broken = f"{node.spec.name}/{incarnation}: {detail}"

    def _stalled(self, event: Stamped, stall: Stall) -> None:
        self._log.stalled(event.node, event.wall - 1000 * stall.of_ms, event.wall)

    def _saw(self, node: LiveNode, event: Stamped) -> None:
        """An event that a node reported happened before whatever the driver does from now on."""
        self._stamper.merge(_physical_us(), event.wall, event.logical)
        node.seen = (event.wall, event.logical, event.seq)

    async def _act(self, actions: list[AnyAction]) -> None:
        """Carry out actions in order; each is in effect before the next begins, a restart and what waits for a
        stopped process apart."""
        for action in actions:
            match action:
                case RecordEvent(event):
                    self._record(event)
                case Watch(barriers):
                    await asyncio.gather(*(agent.watch.remote(barriers) for agent in self._agents))
                    up = [node for node in self._nodes.values() if node.up]
                    await asyncio.gather(*(self._call(node, "watch", barriers) for node in up))
                case InstallRule(rule) | SlowDisk(rule) | DegradeStore(rule):
                    self._rules[rule.id] = rule
                    await self._tell_all(rule, "install", rule)
                case RemoveRule(rule_id) | MendDisk(rule_id) | MendStore(rule_id):
                    await self._tell_all(self._rules.pop(rule_id), "remove", rule_id)
                case Invoke(name, operation, kind, arguments):
                    await self._settle(self._nodes[name])
                    await self._call(self._nodes[name], "invoke", operation, kind, arguments)
                case Arm(point, loss):
                    self._losses[point.id] = loss
                    self._rules[point.id] = point
                    await self._tell_all(point, "install", point)
                case Disarm(point_id):
                    if self._losses.pop(point_id, None) is not None:
                        await self._tell_all(self._rules.pop(point_id), "remove", point_id)
                case SkewClock(name, skew):
                    node = self._nodes[name]
                    node.skews[skew.fault] = skew
                    await self._tell_clock(node, "skew", skew)
                case RestoreClock(name, fault):
                    node = self._nodes[name]
                    del node.skews[fault]
                    await self._tell_clock(node, "restore", fault)
                case Crash(name, loss):
                    await self._crash(self._nodes[name], loss)
                case Restart(name, spec):
                    node = self._nodes[name]
                    node.spec = spec or node.spec
                    node.restart = self._spawn(self._guarded_restart(node))
                case Pause(name):
                    await self._pause(self._nodes[name])
                case Resume(name):
                    await self._resume(self._nodes[name])

    async def _tell_all(self, rule: AnyRule, method: str, argument: object) -> None:
        """Tell every node that a rule concerns: those at either end of a link, or the one with the disk."""
        names = {*rule.sources, *rule.targets} if isinstance(rule, LinkRule) else {rule.node}
        ends = [self._nodes[name] for name in sorted(names) if name in self._nodes]
        await asyncio.gather(*(self._call(node, method, argument) for node in ends if node.up))

    async def _tell_clock(self, node: LiveNode, method: str, argument: object) -> None:
        """Tell a node of its machine's clock; one that is down finds it so when it starts."""
        await self._settle(node)
        if node.up:
            await self._call(node, method, argument)

    async def _crash(self, node: LiveNode, loss: DiskLoss, detail: str = "") -> None:
        await self._settle(node)
        if not node.up:
            return
        node.up = node.paused = node.ended_well = False
        name, incarnation = node.spec.name, node.incarnation
        self._final[f"{name}/{incarnation}"] = -1
        await node.agent.signal.remote(name, "kill")
        lost = {} if loss == "kept" else await node.agent.lose.remote(name, loss)
        # The dead cannot say so; the trace gets this event at collection.
        end = self._ends[f"{name}/{incarnation}"] = NodeDown("crash" if loss == "kept" else "lossy", detail, lost)
        wall, logical, seq = node.seen
        down = Stamped(self._order.run, name, incarnation, seq + 1, wall, logical + 1, "", "", end)
        await self._act(self._conductor.on_event(self._now_us(), down))

    async def _bury(self, node: LiveNode, event: Stamped) -> None:
        """If a node has ended by itself, let its process follow, which has only files left to close."""
        if not isinstance(event.body, NodeDown) or not node.up or node.incarnation != event.incarnation:
            return
        await self._stop(node)
        node.ended_well = event.body.mode == "clean"
        await node.agent.signal.remote(node.spec.name, "kill")

    async def _guarded_restart(self, node: LiveNode) -> None:
        try:
            await self._restart(node)
        except RunError as error:
            await self._heard.put((node, node.incarnation, Broken(str(error))))

    async def _pause(self, node: LiveNode) -> None:
        await self._settle(node)
        if node.up:
            node.paused = True
            await node.agent.signal.remote(node.spec.name, "stop")

    async def _resume(self, node: LiveNode) -> None:
        if node.up and node.paused:
            await node.agent.signal.remote(node.spec.name, "continue")
            node.paused, node.awake_us = False, _physical_us()

    async def _settle(self, node: LiveNode) -> None:
        """Wait for a restart that is under way."""
        if node.restart is not None:
            restart, node.restart = node.restart, None
            await restart

    async def _call(self, node: LiveNode, method: str, *arguments: object) -> None:
        """A control call to a node. One to a stopped process is left to wait; one to a killed process is moot."""
        call = node.last_call = self._spawn(self._in_turn(node.last_call, getattr(node.handle, method), arguments))
        if not node.paused:
            await call

    async def _in_turn(self, before: asyncio.Task[None] | None, method: Any, arguments: tuple[object, ...]) -> None:
        """Call once the call before has been answered. Ray does not say in which order a process begins calls that wait
        for it, as they do for one that was stopped; a rule that is removed before it is installed would stay."""
        if before is not None:
            await asyncio.wait({before})
        self._stamper.tick(_physical_us())
        clock = self._stamper.clock
        try:
            control = await method.remote(*arguments, Control(clock.wall_us, clock.logical))
        except RayActorError:
            return  # the listener of that incarnation reports a death that nobody caused
        self._stamper.merge(_physical_us(), control.wall_us, control.logical)

    # ---- end ---------------------------------------------------------------------------------------------

    async def _end_faults(self) -> None:
        """End every fault that is still in force; the same whether the run is over, broken or interrupted."""
        for node in self._nodes.values():
            await self._settle(node)
        await self._act(self._conductor.end(self._now_us()))

    async def _stop_all(self) -> None:
        await asyncio.gather(*(self._stop(node) for node in self._nodes.values() if node.up))

    async def _stop(self, node: LiveNode) -> None:
        key = f"{node.spec.name}/{node.incarnation}"
        self._final[key] = -1
        await self._resume(node)
        node.up = False
        clock = self._stamper.clock
        try:
            async with asyncio.timeout(STOP_S):
                seq, control = await node.handle.stop.remote(Control(clock.wall_us, clock.logical))
        except TimeoutError:
            self._broken = self._broken or f"{key} did not stop within {STOP_S:.0f} s"
            return
        except RayActorError as error:
            self._broken = self._broken or f"{key} did not stop: {reason(error)}"
            return
        self._final[key] = seq
        self._stamper.merge(_physical_us(), control.wall_us, control.logical)

    async def _collect(self, status: Status, duration_us: int) -> RunOutcome:
        directory = self._order.directory
        hosts = {host for agent in self._agents if (host := await self._fetch_from(agent))}
        if self._broken:
            status = "broken"
        self._end_log()
        torn = close_open_chunks(directory)
        bury_the_killed(directory, DRIVER, self._ends)
        events = write_trace(directory, merged(directory), line_to_row)
        await self._let_calls_end()
        return RunOutcome(status, self._broken, sorted(hosts), duration_us, events, torn, self._final, self._begun_ms)

    async def _fetch_from(self, agent: Any) -> str:
        """Copy what the nodes of an agent recorded; returns its host, "" if nobody answers there any more."""
        try:
            # Kill first, so that nothing that is copied still grows.
            await agent.kill_all.remote()
            await fetch(self._order.directory, await agent.files.remote(), agent.read.remote)
            host: str = await agent.host.remote()
        except RayActorError as error:
            lost = ", ".join(name for name, node in self._nodes.items() if node.agent is agent)
            lost = f"the machine of {lost} does not answer, so the events recorded there are lost: {reason(error)}"
            self._broken = f"{self._broken}; {lost}" if self._broken else lost
            return ""
        return host

    def _end_log(self) -> None:
        """What nodes reported while they were stopped may say that they stood still."""
        while not self._heard.empty():
            _, _, report = self._heard.get_nowait()
            if isinstance(report, Watched) and isinstance(report.event.body, Stall):
                self._stalled(report.event, report.event.body)
        now_us = _physical_us()
        self._log.release_all(now_us)
        self._final = dict(sorted({**self._final, f"{DRIVER}/0": self._log.seq + 1}.items()))
        self._log.close(self._stamper.stamp(RunEnd(self._final), now_us), now_us)

    async def _let_calls_end(self) -> None:
        """Calls to the dead fail by themselves. A Ray client does not bear that they are cancelled before: the answer
        to a cancelled call ends the thread that carries the answers to all others."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_S)
        for task in self._tasks:
            task.cancel()

    # ---- help --------------------------------------------------------------------------------------------

    def _record(self, event: AnyTraceEvent) -> None:
        now_us = _physical_us()
        self._log.add(self._stamper.stamp(event, now_us))
        self._release(now_us)

    def _release(self, now_us: int) -> None:
        """Write what no stall will come before any more."""
        running = [node.awake_us for node in self._nodes.values() if node.up and not node.paused]
        self._log.release(now_us, min(running, default=now_us))

    def _now_us(self) -> int:
        """Microseconds since ``begin``; 0 before it."""
        return int((asyncio.get_running_loop().time() - self._begun_s) * 1e6) if self._begun_s else 0

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _physical_us() -> int:
    return time.time_ns() // 1000
