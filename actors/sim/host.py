"""The machine and process around one node of a sim run: takes its steps, carries out their effects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Literal, Protocol

import msgspec

from actors.config import setting
from actors.control import ClockSkew, DiskLoss, DiskRule, leaks
from actors.crash_points import CrashPoint, CrashPoints
from actors.leftovers import leftovers
from actors.log.segments import first_lost_offsets
from actors.machine_clock import Change, MachineClock
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
    AnyEvent,
    Chosen,
    ClockStepped,
    Invoked,
    Started,
    StoreRule,
    StoreRulesSet,
    Synced,
    TimedOut,
)
from actors.node.spec import NodeSpec, Role, with_new_directory
from actors.sim.carriage import MessageWatch
from actors.sim.digest import StepDigests
from actors.sim.disk import Disk
from actors.sim.draws import uniform
from actors.sim.network import Connection, ContractError, Network
from actors.sim.queue import Act, EventQueue
from actors.trace.events import AnyTraceEvent, ClockSet, DiskRuleChange, NodeUp, StoreRuleChange, Tick
from actors.trace.hlc import HybridLogicalClock
from actors.trace.stamper import LOSE_TRACE, Stamper, request_id

TICK_US = 1_000_000

NewNode = Callable[[Role], Node]

Input = tuple[AnyEvent, str, str, int]
"""An event with the cause of its step, and connection and number of the request that it is about ("", 0: none)."""


class DiskModel(msgspec.Struct, frozen=True):
    """Duration of a Sync, drawn evenly from [sync_min_us, sync_max_us]."""

    sync_min_us: int = 200
    sync_max_us: int = 2000


class Draws(msgspec.Struct, frozen=True):
    """The streams that a host draws from; those of the disk are shared by all."""

    timers: Random
    choices: Random
    disk: Random
    slow_disk: Random


class Surroundings(Protocol):
    """What a host needs of its world."""

    queue: EventQueue
    network: Network
    digests: StepDigests | None
    watch: MessageWatch | None

    def record(self, host: Host, body: AnyTraceEvent, cause: str = "", req: str = "") -> None:
        """Put an event of this host into the trace; what the conductor makes of it is done on return."""

    def completed(self, host: Host, operation: str, result: dict[str, Any]) -> None:
        """An operation has ended; what the conductor makes of it is done on return."""

    def exited(self, host: Host, effect: Exit) -> None:
        """The node has ended its process, which is gone already."""

    def stepped(self, host: Host, event: AnyEvent, effects: list[AnyEffect]) -> None:
        """A step was taken and its effects are about to be carried out (called only where somebody looks)."""

    def reached(self, host: Host, point: CrashPoint) -> None:
        """The host has come to a point at which its process ends."""

    def failed(self, host: Host, error: Exception, event: AnyEvent | None) -> None:
        """The node raised an exception, or broke the contract."""


class Timer:
    """A timer of one incarnation. ``deadline_us``: when it fires, -1 cancelled. ``scheduled_us``: when the queue next
    looks at it, -1 not at all: setting a timer anew to a later moment costs no entry in the queue. wall: it ends at a
    time of the wall clock."""

    __slots__ = ("deadline_us", "name", "scheduled_us", "wall")

    def __init__(self, name: str) -> None:
        self.name = name
        self.deadline_us = -1
        self.scheduled_us = -1
        self.wall = False


class Host:
    """One node with its process, disk, clock, timers and ends of connections.

    node: None while the process is down. paused: stopped by a signal; ``arrivals`` (what reached the machine) and
    ``overdue`` (timers) then wait, and what was left of a step. halted: down or paused. soon: events that follow at
    once, before any other. ended_well: the last incarnation shut itself down in good order. slow: disk rules in force,
    with how many Syncs this incarnation asked for under each; ``wipes``: how often the disk was wiped, ``wiped``
    whether it was since the last start. degraded: rules of a remote store in force. points: where the process is to
    end.
    """

    __slots__ = (
        "_cause",
        "_draws",
        "_handlers",
        "_last_id",
        "_last_seq",
        "_model",
        "_new_node",
        "_number",
        "_pauses",
        "_queue",
        "_req",
        "_req_connection",
        "_rest",
        "_sync_draws",
        "_world",
        "arrivals",
        "clock",
        "degraded",
        "disk",
        "ended_well",
        "halted",
        "inbound",
        "incarnation",
        "leaks",
        "loses_trace",
        "machine",
        "name",
        "node",
        "opened",
        "outbound",
        "overdue",
        "paused",
        "points",
        "slow",
        "soon",
        "spec",
        "stamper",
        "steps",
        "timers",
        "wiped",
        "wipes",
    )

    def __init__(self, spec: NodeSpec, new_node: NewNode, world: Surroundings, draws: Draws, disk: DiskModel) -> None:
        self.spec = spec
        self.name = spec.name
        self.leaks = leaks(spec.defects)
        self.loses_trace = LOSE_TRACE in spec.defects
        self.node: Node | None = None
        self.incarnation = -1
        self.paused = False
        self.halted = True
        self.ended_well = False
        self.steps = 0
        self.clock = HybridLogicalClock()
        self.machine = MachineClock()
        self.disk = Disk(setting(spec.config, "krift.os.flush.ms") * 1000)
        self.slow: dict[str, tuple[DiskRule, int]] = {}
        self.degraded: dict[str, StoreRule] = {}
        self.points = CrashPoints()
        self.wiped = False
        self.wipes = 0
        self.timers: dict[str, Timer] = {}
        self.outbound: dict[tuple[str, str], Connection] = {}
        self.inbound: dict[str, Connection] = {}
        self.opened: dict[tuple[str, str], int] = {}
        self.arrivals: list[tuple[Act, Any]] = []
        self.overdue: list[tuple[Act, Any]] = []
        self.soon: deque[Input] = deque()
        self._rest: Iterator[AnyEffect] | None = None
        self._new_node = new_node
        self._world = world
        self._queue = world.queue
        self._draws = draws
        self._model = disk
        self._cause = self._req_connection = self._last_id = ""
        self._number = self._pauses = 0
        self._req: str | None = ""
        self._last_seq = -1
        self.stamper = Stamper("", spec.name, -1, self.clock)
        network = world.network
        self._handlers: dict[type[Any], Callable[[Any, Any], None]] = {
            Record: Host._record,
            Call: network.call,
            Reply: network.reply,
            Close: network.close,
            Write: Host._write,
            Sync: Host._sync,
            SetTimer: Host._set_timer,
            CancelTimer: Host._cancel_timer,
            Choose: Host._choose,
            Complete: Host._complete,
            Exit: Host._exit,
        }

    # ---- process -------------------------------------------------------------------------------------------

    def start(self, run: str) -> None:
        """Begin a new incarnation from what is on the disk; nothing happens if one is alive."""
        if self.node is not None:
            return
        self.incarnation += 1
        self.halted = False
        self.node = self._new_node(self.spec.role)
        self.stamper = Stamper(run, self.name, self.incarnation, self.clock)
        self._last_seq, self._last_id = -1, ""
        spec = with_new_directory(self.spec, self.wipes) if self.wipes else self.spec
        self._queue.at(self._queue.now_us + TICK_US, self._tick, self.incarnation)
        self.soon.append((Started(spec, self.incarnation, self.disk.image()), "", "", 0))
        up = NodeUp(
            role=spec.role,
            node_id=spec.node_id,
            directory_id=spec.directory_id,
            wiped=self.wiped,
            clean=self.ended_well,
            torn=self.disk.torn,
        )
        self.ended_well = self.wiped = False
        self.disk.torn = 0
        self.points.restart()
        self._world.record(self, up)  # the conductor may want it down, or still, as soon as it is up
        for rule, _ in list(self.slow.values()):
            self.slow_down(rule)
        for broken in list(self.degraded.values()):
            self.notice_rule((broken, "start", self.incarnation))
        for fault in list(self.machine.skews):
            if fault in self.machine.skews:  # what the process does as it starts may end one of them
                self.notice_clock((fault, "start", self.incarnation))
        self.take_soon()

    def lose(self, loss: DiskLoss) -> dict[str, int]:
        """Lose of the disk what goes with the process, which is about to end. Returns, per partition that lost any,
        the first lost offset."""
        if loss == "kept":
            return {}
        lost = first_lost_offsets(self.disk.lose(loss, self._queue.now_us))
        if loss == "wiped":
            self.wiped = True
            self.wipes += 1
        return lost

    def slow_down(self, rule: DiskRule) -> None:
        """Let Syncs take longer from now on, in later incarnations too."""
        self.slow[rule.id] = (rule, 0)
        self._tell_of((rule, "start", 0))

    def mend(self, rule_id: str) -> None:
        """End a disk rule."""
        rule, synced = self.slow.pop(rule_id)
        self._tell_of((rule, "stop", synced))

    def _tell_of(self, change: tuple[DiskRule, Literal["start", "stop"], int]) -> None:
        rule, phase, synced = change
        if self.paused:
            self.arrivals.append((self._tell_of, change))
        elif self.node is not None:
            body = DiskRuleChange(rule.id, phase, rule.delay_min_us, rule.delay_max_us, synced)
            self._world.record(self, body)

    def degrade(self, rule: StoreRule) -> None:
        """A remote store has a rule in force from now on, in later incarnations too."""
        self.degraded[rule.id] = rule
        self._queue.at(self._queue.now_us, self.notice_rule, (rule, "start", self.incarnation))

    def recover(self, rule_id: str) -> None:
        """End a rule of a remote store."""
        change = (self.degraded.pop(rule_id), "stop", self.incarnation)
        self._queue.at(self._queue.now_us, self.notice_rule, change)

    def notice_rule(self, change: tuple[StoreRule, Literal["start", "stop"], int]) -> None:
        """The process learns which rules are in force, if it is the one that ran when they changed."""
        rule, phase, incarnation = change
        if self.node is None or self.incarnation != incarnation:
            return
        if self.paused:
            self.arrivals.append((self.notice_rule, change))
            return
        self._world.record(self, StoreRuleChange(rule.id, rule.kind, phase))
        self.soon.append((StoreRulesSet(list(self.degraded.values())), "", "", 0))
        self.take_soon()

    def kill(self) -> None:
        """End the process: what it had in memory is gone, what it wrote is not."""
        self.node = None
        self.halted = True
        self.paused = False
        self._rest = None
        self.soon.clear()
        self.timers.clear()
        self.overdue.clear()
        self.opened.clear()
        self.disk.process_died()
        self._world.network.process_died(self)
        arrivals, self.arrivals = self.arrivals, []
        for act, argument in arrivals:  # what had reached the machine meets a process that is gone
            act(argument)

    def leftovers(self) -> list[str]:
        """What the node keeps for something that cannot come; nothing of one that stands still."""
        if self.halted or self.node is None:
            return []
        return leftovers(self.node, self.machine.monotonic_us(self._queue.now_us) // 1000)

    def pause(self) -> None:
        """Stop the process; a step under way stops between two effects."""
        if self.node is not None:
            self.paused = self.halted = True
            self._pauses += 1

    def resume(self) -> None:
        """Let a paused process go on: first what it was doing, then what has arrived, then its overdue timers."""
        if self.paused:
            self._queue.at(self._queue.now_us, self._go_on, self._pauses)

    def _go_on(self, pauses: int) -> None:
        if not self.paused or self._pauses != pauses:
            return
        self.paused = self.halted = False
        rest, self._rest = self._rest, None
        if rest is not None:
            self._carry_out(rest)
        self.take_soon()
        if self.halted:
            return
        waiting = [*self.arrivals, *self.overdue]
        self.arrivals, self.overdue = [], []
        for act, argument in waiting:
            self._queue.at(self._queue.now_us, act, argument)

    def invoke(self, request: tuple[Invoked, str]) -> None:
        """Hand an operation to the node, with the id of the event that caused it; one that is down never hears it."""
        event, cause = request
        if self.paused:
            self.arrivals.append((self.invoke, request))
        elif self.node is not None:
            self.take(event, cause, "", 0)

    def _tick(self, incarnation: int) -> None:
        if self.node is None or self.incarnation != incarnation:
            return
        self._queue.at(self._queue.now_us + TICK_US, self._tick, incarnation)
        if not self.paused:
            self._world.record(self, Tick())

    # ---- clock ---------------------------------------------------------------------------------------------

    def skew(self, skew: ClockSkew) -> None:
        """A fault makes the machine's clock wrong."""
        self._queue.at(self._queue.now_us, self.notice_clock, (skew.fault, "start", self.incarnation))
        self._changed(self.machine.begin(skew, self._queue.now_us))

    def restore(self, fault: str) -> None:
        """A fault of the machine's clock ends."""
        self._queue.at(self._queue.now_us, self.notice_clock, (fault, "stop", self.incarnation))
        self._changed(self.machine.end(fault, self._queue.now_us))

    def _changed(self, change: Change) -> None:
        """Timers go on by the clock as it runs now; those of the wall clock come nearer, or are put off."""
        now_us = self._queue.now_us
        for timer in self.timers.values():
            if timer.deadline_us >= 0:
                timer.deadline_us = now_us + change.left_us(timer.deadline_us - now_us, timer.wall)
                if timer.deadline_us < timer.scheduled_us:
                    timer.scheduled_us = timer.deadline_us
                    self._queue.at(timer.deadline_us, self._look_at, timer)
        self._world.network.clock_changed(self, change)

    def notice_clock(self, change: tuple[str, Literal["start", "stop"], int]) -> None:
        """The process finds the machine's clock changed, if it is the one that ran then."""
        fault, phase, incarnation = change
        if self.node is None or self.incarnation != incarnation:
            return
        if self.paused:
            self.arrivals.append((self.notice_clock, change))
            return
        machine = self.machine
        self._world.record(self, ClockSet(fault, phase, machine.offset_us, machine.rate_ppm))
        self.soon.append((ClockStepped(machine.offset_us // 1000), "", "", 0))
        self.take_soon()

    # ---- steps ---------------------------------------------------------------------------------------------

    def take(self, event: AnyEvent, cause: str, connection: str, number: int) -> None:
        """Take a step, and those that follow at once. The node must be up and not paused."""
        self._step(event, cause, connection, number)
        if self.soon:
            self.take_soon()

    def take_soon(self) -> None:
        """Take the steps that are to follow at once."""
        while self.soon and not self.halted:
            self._step(*self.soon.popleft())

    def _step(self, event: AnyEvent, cause: str, connection: str, number: int) -> None:
        node = self.node
        assert node is not None
        self._cause = cause
        self._req_connection = connection
        self._number = number
        self._req = None
        self.steps += 1
        world = self._world
        try:
            effects = node.step(self.machine.monotonic_us(self._queue.now_us) // 1000, event)
            if world.watch is not None:
                world.watch.look(self.name)
        except Exception as error:  # noqa: BLE001 any exception of a node is a finding, and ends the run
            world.failed(self, error, event)
            return
        if world.digests is not None:
            world.stepped(self, event, effects)
        self._carry_out(iter(effects))

    def _carry_out(self, effects: Iterator[AnyEffect]) -> None:
        handlers, waiting = self._handlers, self.points.waiting
        try:
            for effect in effects:
                if waiting and self._ends_at(self.points.before(effect)):
                    return
                handlers[effect.__class__](self, effect)
                if self.halted:
                    if self.paused:
                        self._rest = effects
                    return
                if waiting and self._ends_at(self.points.after(effect)):
                    return
        except ContractError as error:
            self._world.failed(self, error, None)

    def _ends_at(self, point: CrashPoint | None) -> bool:
        """Whether this is where the process ends; it has, then."""
        if point is not None:
            self._world.reached(self, point)
        return self.node is None

    def last_id(self) -> str:
        """Id of the node's last event: the cause of what it sends now."""
        stamper = self.stamper
        if self._last_seq != stamper.seq:
            self._last_seq, self._last_id = stamper.seq, stamper.last_id
        return self._last_id

    # ---- effects -------------------------------------------------------------------------------------------

    def _record(self, effect: Record) -> None:
        req = self._req
        if req is None:
            req = self._req = request_id(self._req_connection, self._number) if self._req_connection else ""
        self._world.record(self, effect.event, self._cause, req)

    def _write(self, effect: Write) -> None:
        try:
            self.disk.write(effect.file, effect.number, effect.operation, self._queue.now_us)
        except AssertionError as error:
            raise ContractError(f"{self.name}: {error}") from error

    def _sync(self, effect: Sync) -> None:
        file = self.disk.file(effect.file)
        model = self._model
        due_us = self._queue.now_us + uniform(self._draws.disk, model.sync_min_us, model.sync_max_us)
        for rule, synced in self.slow.values():
            due_us += uniform(self._draws.slow_disk, rule.delay_min_us, rule.delay_max_us)
            self.slow[rule.id] = (rule, synced + 1)
        file.sync_due_us = due_us = max(due_us, file.sync_due_us)
        self._queue.at(due_us, self._synced, (self.incarnation, effect.file, file.written, self.disk.serial))

    def _synced(self, sync: tuple[int, str, int, int]) -> None:
        incarnation, name, upto, serial = sync
        self.disk.sync(name, serial)
        if self.node is None or self.incarnation != incarnation:
            return
        if self.paused:
            self.arrivals.append((self._synced, sync))
        elif not self._ends_at(self.points.synced(name)):
            self.take(Synced(name, upto), "", "", 0)

    def _set_timer(self, effect: SetTimer) -> None:
        name = effect.name
        timer = self.timers.get(name)
        if timer is None:
            timer = self.timers[name] = Timer(name)
        now_us = self._queue.now_us
        delay_us = uniform(self._draws.timers, effect.min_ms * 1000, effect.max_ms * 1000)
        timer.deadline_us = due_us = now_us + self.machine.true_us(delay_us)
        timer.wall = effect.wall
        if timer.scheduled_us < 0 or due_us < timer.scheduled_us:
            timer.scheduled_us = due_us
            self._queue.at(due_us, self._look_at, timer)

    def _cancel_timer(self, effect: CancelTimer) -> None:
        timer = self.timers.get(effect.name)
        if timer is not None:
            timer.deadline_us = -1

    def _look_at(self, timer: Timer) -> None:
        """The queue has come to a timer: fire it, or look again when it is due."""
        now_us = self._queue.now_us
        if self.timers.get(timer.name) is not timer or not 0 <= timer.scheduled_us <= now_us:
            return  # of an incarnation before, or an entry that an earlier one has replaced
        if self.paused:
            self.overdue.append((self._look_at, timer))
            return
        timer.scheduled_us = -1
        if timer.deadline_us > now_us:
            timer.scheduled_us = timer.deadline_us
            self._queue.at(timer.deadline_us, self._look_at, timer)
            return
        del self.timers[timer.name]
        if timer.deadline_us >= 0:
            self.take(TimedOut(timer.name), "", "", 0)

    def _choose(self, effect: Choose) -> None:
        value = uniform(self._draws.choices, 0, effect.n - 1)
        self.soon.append((Chosen(effect.name, value), self._cause, self._req_connection, self._number))

    def _complete(self, effect: Complete) -> None:
        self._world.completed(self, effect.operation, effect.result)

    def _exit(self, effect: Exit) -> None:
        self.ended_well = effect.clean
        self.kill()
        self._world.exited(self, effect)
