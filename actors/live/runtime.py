"""The live runtime of one node: steps it on the event loop, and carries out its effects on real sockets and files.

It knows nothing of Ray: ``actors.live.actor`` puts it into a process of its own.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import msgspec

from actors.config import setting
from actors.control import AnyRule, Barrier, ClockSkew, DiskRule, is_watched, leaks
from actors.crash_points import CrashPoint, CrashPoints
from actors.leftovers import leftovers
from actors.live.channel import Connections
from actors.live.clock import LiveClock
from actors.live.disk import Disk
from actors.live.identity import read_identity
from actors.live.journal_writer import journal_of
from actors.live.links import Links
from actors.live.metrics import serve_metrics
from actors.live.server import Server
from actors.live.setup import Awake, Broken, Completed, Control, Matched, Reached, Report, Setup, Watched, load
from actors.live.slow_disk import SlowDisk
from actors.live.stalls import StallWatch
from actors.live.timers import Timers
from actors.live.wire import NO_STAMP, Arrived, Stamp
from actors.live.writer import ChunkWriter
from actors.machine_clock import Change
from actors.node.contract import Node
from actors.node.effects import (
    AnyEffect,
    Call,
    CancelTimer,
    Choose,
    Close,
    Complete,
    Exit,
    Record,
    Reply,
    SetTimer,
    Sync,
    Write,
)
from actors.node.events import (
    Answered,
    AnyEvent,
    Chosen,
    ClockStepped,
    Disconnected,
    Failed,
    Invoked,
    Received,
    Started,
    StoreRule,
    StoreRulesSet,
    Synced,
    TimedOut,
)
from actors.trace.events import (
    AnyTraceEvent,
    ClockSet,
    DiskRuleChange,
    LinkHit,
    LinkRuleChange,
    NodeDown,
    NodeUp,
    OpReturn,
    Stall,
    StoreRuleChange,
    Tick,
)
from actors.trace.lines import encode_line
from actors.trace.stamper import Stamper, is_lost, request_id

STEPS_PER_TURN = 32
"""Steps in a row before the event loop gets to look at its sockets again."""

TICK_S = 1.0

OBJECT_DISK = "actors.live.object_disk:ObjectDisk"
"""Loaded where there is a remote store: no other process needs pyarrow."""


class Input(msgspec.Struct, eq=False):
    """An event on its way to the node. ``setting``: of a timer, which may have been cancelled since."""

    event: AnyEvent
    stamp: Stamp = NO_STAMP
    req: str = ""
    setting: int = 0


class LiveRuntime:
    """One incarnation. Calls come in this order: ``open``, ``start``, anything, ``stop``. All of it happens on the
    one event loop that ``open`` was called on. ``report`` takes what the conductor must hear of."""

    def __init__(self, setup: Setup, report: Callable[[Report], None]) -> None:
        self.setup = setup
        self.name = setup.spec.name
        self._report = report
        self._clock = LiveClock()
        self._stamper = Stamper(setup.run, self.name, setup.incarnation)
        self._addresses: dict[str, str] = {}
        self._inputs: deque[Input] = deque()
        self._chosen: deque[Input] = deque()
        self._scheduled = False
        self._running = False
        self._rest: tuple[deque[AnyEffect], Input] | None = None
        self._ticket = 0
        self._seen_ok = False
        self._choices = self._draws("choices")
        self._syncs: ThreadPoolExecutor | None = None
        self._points = CrashPoints()
        self._stalls = StallWatch(self._on_stall)
        self._stands_at = ""
        self._writing = False
        self._slow = SlowDisk(self._draws("slow-disk"))
        self._degraded: dict[str, StoreRule] = {}
        self._flush_s = setting(setup.spec.config, "krift.os.flush.ms") / 1000
        self._tick: asyncio.TimerHandle | None = None
        self._flush: asyncio.TimerHandle | None = None

    def _draws(self, purpose: str) -> random.Random:
        """The stream of draws for one purpose of this incarnation."""
        return random.Random(f"{self.setup.seed}/{self.name}/{self.setup.incarnation}/{purpose}")

    # ---- life --------------------------------------------------------------------------------------------

    async def open(self) -> int:
        """Make the node and serve, without taking a step yet; returns the port."""
        setup = self.setup
        self._loop = asyncio.get_running_loop()
        self._node: Node = load(setup.factory)(setup.spec.role)
        self._barriers = setup.barriers
        self._disk = self._open_disk(Path(setup.disk))
        self._trace = ChunkWriter(Path(setup.logs), str(setup.incarnation), setup.chunk_age_max_us)
        self._journal = journal_of(setup)
        self._links = Links(
            self.name,
            self._loop,
            lambda source: self._draws(f"links/{source}>{self.name}"),
            self._on_hit,
            leaks(setup.spec.defects),
        )
        self._timers = Timers(self._loop, self._draws("timers"), self._on_timer, self._clock.true_s)
        self._server = Server(self.name, self._links, self._draws("network"), self._on_request, self._on_disconnect)
        identity = read_identity(Path(setup.certificates)) if setup.certificates else None
        self._connections = Connections(
            self.name,
            setup.incarnation,
            self._links,
            self._addresses,
            self._on_call_ended,
            self._clock.true_s,
            identity,
        )
        self._metrics = serve_metrics(setup.spec.config, Path(setup.logs))
        # Nobody calls a client.
        return await self._server.start(setup.host, identity) if setup.spec.node_id >= 0 else 0

    def _open_disk(self, directory: Path) -> Disk:
        """The node's disk, or of a remote store what stands in for it."""
        spec = self.setup.spec
        if spec.role != "remote-store":
            return Disk(directory)
        disk: Disk = load(OBJECT_DISK)(setting(spec.config, "krift.remote.store.uri"), directory)
        return disk

    def start(
        self, addresses: dict[str, str], rules: Sequence[AnyRule], skews: Sequence[ClockSkew], control: Control
    ) -> Control:
        """Begin the incarnation: ``node.up``, then Started with what the disk holds. ``rules`` and ``skews`` (of this
        machine's clock) are in force."""
        self._merge(control)
        self._addresses.update(addresses)
        setup, spec = self.setup, self.setup.spec
        image = self._disk.load()
        self._running = True
        up = NodeUp(spec.role, spec.node_id, spec.directory_id, setup.wiped, setup.clean, self._disk.torn)
        self._note(up)
        for rule in rules:
            self._install(rule)
        for skew in skews:
            self._skew(skew)
        self._inputs.appendleft(Input(Started(spec, setup.incarnation, image)))
        self._schedule()
        self._tick = self._loop.call_later(TICK_S, self._on_tick)
        self._flush = self._loop.call_later(self._flush_s, self._on_os_flush)
        self._stalls.start(self._loop)
        return self._control()

    async def stop(self, control: Control) -> tuple[int, Control]:
        """End the incarnation in good order: the end marker, the last chunk closed, sockets and files closed.
        Returns the sequence number of its last event."""
        if self._running:
            self._merge(control)
            waiting = leftovers(self._node, self._clock.shown_ms())
            self._note(NodeDown("end", overdue=self._connections.overdue(), waiting=waiting))
            self._running = False
        self._timers.cancel_all()
        self._stalls.stop()
        for handle in (self._tick, self._flush):
            if handle is not None:
                handle.cancel()
        await self._connections.close()
        await self._server.stop()
        if self._syncs is not None:
            self._syncs.shutdown(wait=True)
        self._trace.close(self._clock.physical_us())
        self._journal.close()
        self._disk.close()
        return self._stamper.seq, self._control()

    # ---- control -----------------------------------------------------------------------------------------

    def meet(self, addresses: dict[str, str], control: Control) -> Control:
        """Where nodes listen now; connections that are open stay as they are."""
        self._merge(control)
        self._addresses.update(addresses)
        return self._control()

    def watch(self, barriers: list[Barrier], control: Control) -> Control:
        """Stop at these events from now on, in place of those before."""
        self._merge(control)
        self._barriers = barriers
        return self._control()

    def install(self, rule: AnyRule, control: Control) -> Control:
        """Put a rule in force; it holds when this returns."""
        self._merge(control)
        self._install(rule)
        return self._control()

    def remove(self, rule_id: str, control: Control) -> Control:
        """End a rule; what a link rule kept back arrives now."""
        self._merge(control)
        if self._points.discard(rule_id):
            self._go_on_from(rule_id)
            return self._control()
        mended = self._slow.remove(rule_id)
        if mended is not None:
            self._note_disk(mended[0], "stop", mended[1])
            return self._control()
        broken = self._degraded.pop(rule_id, None)
        if broken is not None:
            self._note_store(broken, "stop")
            return self._control()
        held = self._links.held(rule_id)
        rule = self._links.rule(rule_id)
        if rule is not None and self._links.enforces(rule):
            self._note(LinkRuleChange(rule.id, rule.kind, "stop", rule.sources, rule.targets, held))
        self._links.remove(rule_id)
        self._server.rule_ended(rule_id)
        return self._control()

    def skew(self, skew: ClockSkew, control: Control) -> Control:
        """Make this machine's clock wrong."""
        self._merge(control)
        self._skew(skew)
        return self._control()

    def restore(self, fault: str, control: Control) -> Control:
        """Take back what a fault did to this machine's clock."""
        self._merge(control)
        self._clock_changed(fault, "stop", self._clock.end(fault))
        return self._control()

    def invoke(self, operation: str, kind: str, arguments: dict[str, Any], control: Control) -> Control:
        """Give the node an operation."""
        self._merge(control)
        self._push(Input(Invoked(operation, kind, arguments)))
        return self._control()

    def release(self, ticket: int, control: Control) -> Control:
        """Go on after a barrier."""
        self._merge(control)
        if ticket == self._ticket and not self._stands_at and not self._writing:
            self._carry_out_rest()
        return self._control()

    def _carry_out_rest(self) -> None:
        if self._rest is not None:
            effects, given = self._rest
            self._rest = None
            self._guard(lambda: self._carry_out(effects, given, self._clock.physical_us()))
        self._schedule()

    def _go_on_from(self, point: str) -> None:
        """The point at which the node stands was taken back before anybody killed it."""
        if self._stands_at == point:
            self._stands_at = ""
            self._carry_out_rest()

    def _install(self, rule: AnyRule) -> None:
        if isinstance(rule, DiskRule):
            if rule.node == self.name:
                self._slow.install(rule)
                self._note_disk(rule, "start", 0)
            return
        if isinstance(rule, StoreRule):
            if rule.node == self.name:
                self._degraded[rule.id] = rule
                self._note_store(rule, "start")
            return
        if isinstance(rule, CrashPoint):
            if rule.node == self.name:
                self._points.add(rule)
            return
        self._links.install(rule)
        if self._links.enforces(rule):
            self._note(LinkRuleChange(rule.id, rule.kind, "start", rule.sources, rule.targets, 0))

    def _note_disk(self, rule: DiskRule, phase: Literal["start", "stop"], synced: int) -> None:
        self._note(DiskRuleChange(rule.id, phase, rule.delay_min_us, rule.delay_max_us, synced))

    def _note_store(self, rule: StoreRule, phase: Literal["start", "stop"]) -> None:
        self._note(StoreRuleChange(rule.id, rule.kind, phase))
        self._push(Input(StoreRulesSet(list(self._degraded.values()))))

    def _skew(self, skew: ClockSkew) -> None:
        self._clock_changed(skew.fault, "start", self._clock.begin(skew))

    def _clock_changed(self, fault: str, phase: Literal["start", "stop"], change: Change) -> None:
        self._timers.clock_changed(change)
        self._connections.clock_changed(change)
        machine = self._clock.machine
        self._note(ClockSet(fault, phase, machine.offset_us, machine.rate_ppm))
        self._push(Input(ClockStepped(machine.offset_us // 1000)))

    def _merge(self, control: Control) -> None:
        self._stamper.merge(self._clock.physical_us(), control.wall_us, control.logical)

    def _control(self) -> Control:
        self._stamper.tick(self._clock.physical_us())
        return Control(self._stamper.clock.wall_us, self._stamper.clock.logical)

    # ---- inputs ------------------------------------------------------------------------------------------

    def _push(self, given: Input) -> None:
        self._inputs.append(given)
        self._schedule()

    def _schedule(self) -> None:
        stands = self._rest is not None or self._stands_at
        if not self._scheduled and self._running and not stands and (self._inputs or self._chosen):
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _on_request(self, connection: str, arrived: Arrived) -> None:
        req = request_id(connection, arrived.number)
        self._push(Input(Received(connection, arrived.request), arrived.stamp, req))

    def _on_disconnect(self, connection: str) -> None:
        self._push(Input(Disconnected(connection)))

    def _on_call_ended(self, event: Answered | Failed, stamp: Stamp, req: str) -> None:
        self._push(Input(event, stamp, req))

    def _on_timer(self, name: str, setting: int) -> None:
        self._push(Input(TimedOut(name), setting=setting))

    def _on_synced(self, file: str, upto: int) -> None:
        if self._running:
            self._disk.end_sync(file, upto)
            self._stop_at(self._points.synced(file))
            self._push(Input(Synced(file, upto)))

    def _on_hit(self, hit: LinkHit) -> None:
        self._guard(lambda: self._note(hit))

    def _on_tick(self) -> None:
        if self._running:
            self._guard(lambda: self._note(Tick()))
            self._tick = self._loop.call_later(TICK_S, self._on_tick)

    def _on_stall(self, ms: int, of_ms: int) -> None:
        if self._running:
            self._guard(lambda: self._note(Stall(ms, of_ms)) if ms else self._report(Awake(self._clock.physical_us())))

    def _on_os_flush(self) -> None:
        """What the operating system does of its own accord: nobody asked, so nobody hears of it."""
        if self._running:
            for file in self._disk.unsynced():
                upto, done = self._begin_sync(file)
                self._when(done, lambda file=file, upto=upto: self._disk.end_sync(file, upto))  # type: ignore[misc]
            self._flush = self._loop.call_later(self._flush_s, self._on_os_flush)

    # ---- steps -------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Take a few steps; the next turn comes after the event loop has looked at its sockets."""
        self._scheduled = False
        for _ in range(STEPS_PER_TURN):
            if not self._running or self._rest is not None or self._stands_at:
                return
            if self._chosen:
                given = self._chosen.popleft()
            elif self._inputs:
                given = self._inputs.popleft()
            else:
                return
            if self._is_due(given):
                self._guard(lambda given=given: self._step(given))  # type: ignore[misc]
        self._schedule()

    def _is_due(self, given: Input) -> bool:
        """Whether an event still holds: the timer that is over may have been cancelled since."""
        event = given.event
        return not isinstance(event, TimedOut) or self._timers.take(event.timer, given.setting)

    def _guard(self, work: Callable[[], None]) -> None:
        """Do something; an exception is a bug of the node or of this runtime, and ends the run. Never silence."""
        try:
            work()
        except Exception:  # noqa: BLE001  (a node may raise anything; all of it is reported)
            self._fail(traceback.format_exc(limit=-8))

    def _fail(self, detail: str) -> None:
        if not self._running:
            return
        self._running = False
        self._timers.cancel_all()
        try:
            down = self._stamper.stamp(NodeDown("bug", detail), self._clock.physical_us(), "", "")
            self._trace.add(encode_line(down))
            self._trace.flush(self._clock.physical_us())
        except OSError as error:
            detail = f"{detail}\nand the trace could not be written: {error}"
        self._report(Broken(detail))

    def _step(self, given: Input) -> None:
        at_us, now_ms = self._clock.moment()
        if given.stamp is not NO_STAMP:
            self._stamper.merge(at_us, given.stamp.wall_us, given.stamp.logical)
        self._journal.before(self._node)
        try:
            effects = self._node.step(now_ms, given.event)
        except Exception:
            self._journal.add(now_ms, given.event, [])
            raise
        self._journal.add(now_ms, given.event, effects)
        self._carry_out(deque(effects), given, at_us)

    def _carry_out(self, effects: deque[AnyEffect], given: Input, at_us: int) -> None:
        """Carry out effects in order. The trace is flushed before one that others can see; a barrier's event leaves
        the rest for ``release``. at_us: when the step was taken, which the node was shown; its events, and the
        clock that it sends along, are of that moment, however long it took."""
        while effects and self._running:
            if self._points and self._stop_at(self._points.before(effects[0])):
                self._rest = (effects, given)
                break
            effect = effects.popleft()
            match effect:
                case Record(event):
                    if self._record(event, given.stamp.cause, given.req, at_us):
                        self._rest = (effects, given)
                        break
                case SetTimer(name, min_ms, max_ms, wall):
                    self._timers.set(name, min_ms, max_ms, wall)
                case CancelTimer(name):
                    self._timers.cancel(name)
                case Choose(name, n):
                    self._chosen.append(Input(Chosen(name, self._choices.randrange(n))))
                case Sync(file):
                    self._sync(file)
                case Write() if self._disk.is_far:
                    self._trace.flush(self._clock.physical_us())
                    self._rest = (effects, given)
                    self._write_far(effect)
                    return
                case _:
                    self._trace.flush(self._clock.physical_us())
                    self._send(effect, at_us)
            if self._points and self._stop_at(self._points.after(effect)):
                self._rest = (effects, given)
                break
        self._trace.flush(self._clock.physical_us())

    def _stop_at(self, point: CrashPoint | None) -> bool:
        """Stand still if this is where the process is to be killed."""
        if point is not None and not self._stands_at:
            self._stands_at = point.id
            self._trace.flush(self._clock.physical_us())
            self._report(Reached(point.id))
        return point is not None

    def _send(self, effect: Call | Reply | Close | Write | Complete | Exit, at_us: int) -> None:
        """An effect that leaves the node. at_us: when the step was taken."""
        match effect:
            case Write(file, number, operation):
                self._disk.write(file, number, operation)
            case Call():
                self._connections.call(effect, self._outgoing(at_us))
            case Reply(connection, response):
                self._server.reply(connection, response, self._outgoing(at_us))
            case Close(connection):
                self._close(connection)
            case Complete(operation, result):
                self._report(Completed(operation, result))
            case Exit():
                self._note(NodeDown(effect.mode, effect.detail))
                self._running = False
                self._timers.cancel_all()

    def _write_far(self, effect: Write) -> None:
        """Stand still until another thread has carried out a Write."""
        self._writing = True
        write = self._disk.write
        done = self._loop.run_in_executor(self._worker(), write, effect.file, effect.number, effect.operation)
        self._when(done, lambda: self._written(effect))

    def _written(self, effect: Write) -> None:
        self._writing = False
        if not self._stop_at(self._points.after(effect)):
            self._carry_out_rest()

    def _close(self, connection: str) -> None:
        """Break a connection; what it brought and no step has taken yet is dropped."""
        self._server.close(connection)
        kept = [g for g in self._inputs if not isinstance(g.event, Received) or g.event.connection != connection]
        self._inputs = deque(kept)

    def _outgoing(self, at_us: int) -> Stamp:
        self._stamper.tick(at_us)
        return Stamp(self._stamper.clock.wall_us, self._stamper.clock.logical, self._stamper.last_id)

    def _sync(self, file: str) -> None:
        due_s = self._slow.due_s(file, self._loop.time())
        upto, done = self._begin_sync(file)

        def finish() -> None:
            if due_s <= self._loop.time():
                self._on_synced(file, upto)
            else:
                self._loop.call_at(due_s, lambda: self._guard(lambda: self._on_synced(file, upto)))

        self._when(done, finish)

    def _begin_sync(self, file: str) -> tuple[int, asyncio.Future[None]]:
        """Let another thread sync a file; returns the number of the last Write that this covers."""
        upto, work = self._disk.begin_sync(file)
        return upto, self._loop.run_in_executor(self._worker(), work)

    def _worker(self) -> ThreadPoolExecutor:
        """The one other thread."""
        if self._syncs is None:
            self._syncs = ThreadPoolExecutor(1, "sync")
        return self._syncs

    def _when(self, done: asyncio.Future[None], follow: Callable[[], None]) -> None:
        """Go on once something is done; the exception it ended with is a failure of the node."""

        def finish(done: asyncio.Future[None]) -> None:
            done.result()
            follow()

        done.add_done_callback(lambda done: self._guard(lambda: finish(done)))

    # ---- trace -------------------------------------------------------------------------------------------

    def _note(self, body: AnyTraceEvent) -> None:
        """Put an event of the runtime's own into the trace, outside of any step; nothing comes after its end, which a
        rule or a hit may do while the process has still to end."""
        if not self._running:
            return
        if self._record(body, "", "", self._clock.physical_us()) and self._rest is None:
            self._rest = (deque(), Input(TimedOut("")))
        self._trace.flush(self._clock.physical_us())

    def _record(self, body: AnyTraceEvent, cause: str, req: str, at_us: int) -> bool:
        """Put an event into the trace. True: a barrier waits for it, so the node must stand still."""
        if self._metrics is not None:
            self._metrics.take(body)
        event = self._stamper.stamp(body, at_us, cause, req)
        if not is_lost(self.setup.spec.defects, event.seq):
            self._trace.add(encode_line(event))
        if any(load(self.setup.matcher)(barrier.predicate, event) for barrier in self._barriers):
            self._trace.flush(self._clock.physical_us())
            self._ticket += 1
            self._report(Matched(self._ticket, event))
            return True
        if is_watched(event) or self._is_first_ok(body):
            self._trace.flush(self._clock.physical_us())
            self._report(Watched(event))
        return False

    def _is_first_ok(self, body: AnyTraceEvent) -> bool:
        if self._seen_ok or not isinstance(body, OpReturn) or body.outcome != "ok":
            return False
        self._seen_ok = True
        return True
