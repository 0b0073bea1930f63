"""A whole run under virtual time: all nodes, the links between them, the conductor, and the trace.

``World.run`` lets virtual time jump from event to event until the conductor has finished. Everything that could be
otherwise is drawn from the seed, so the same arguments give the same run, byte for byte, on any machine.
"""

from __future__ import annotations

import gc
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from random import SystemRandom
from typing import Any

import msgspec

from actors.control import (
    AnyAction,
    Arm,
    Conductor,
    Crash,
    DegradeStore,
    Disarm,
    DiskLoss,
    InstallRule,
    Invoke,
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
from actors.crash_points import CrashPoint
from actors.node.effects import AnyEffect, Exit
from actors.node.events import AnyEvent, Invoked
from actors.node.messages import AnyMessage
from actors.node.spec import NodeSpec
from actors.sim.carriage import Carriage, MessageWatch, by_wire
from actors.sim.digest import StepDigests, TraceDigest
from actors.sim.draws import DISK, LINKS, NETWORK, SLOW_DISK, choices_of, link_of, stream, timers_of
from actors.sim.host import DiskModel, Draws, Host, NewNode
from actors.sim.network import Network, NetworkModel
from actors.sim.queue import EventQueue
from actors.trace.events import DRIVER, AnyTraceEvent, LinkRuleChange, NodeDown, RunEnd, RunMeta, Stamped
from actors.trace.stamper import Stamper, is_lost

Observer = Callable[[Stamped], None]


class NodeFailure(msgspec.Struct, frozen=True):
    """A node raised an exception, or asked for what the contract forbids. ``event``: the input of that step, None
    where one of its effects was at fault. ``detail``: one line; ``traceback``: all of it."""

    node: str
    incarnation: int
    now_us: int
    event: AnyEvent | None
    detail: str
    traceback: str


class ProbedStep(msgspec.Struct, frozen=True):
    """One step in full: to show where two runs differ."""

    node: str
    now_us: int
    event: AnyEvent
    effects: list[AnyEffect]


class RunResult(msgspec.Struct, frozen=True):
    """What came of a run. digest: of the whole trace. events: recorded in the trace. end_us: virtual time of the end.
    finished: the conductor came to its end (and not the limit, or a failure). trace: if it was to be recorded."""

    digest: str
    steps: int
    messages: int
    events: int
    end_us: int
    finished: bool
    failures: list[NodeFailure]
    trace: list[Stamped]
    step_digests: StepDigests | None = None
    probed: ProbedStep | None = None


class World:
    """One run in the making.

    specs: the nodes, in the order in which they start. conductor: decides what happens to them. run: id of the run, in
    every event of the trace but in no digest. observer: gets each event as it is recorded. record: keep the trace in
    the result. meta: the first event (one without scenario and profile is made up if none is given). step_digests:
    keep a digest of every step; probe: keep this one step (number in the run) in full; steps_max: stop after so many.
    new_node: makes a node of a role. carriage: how messages travel; no run depends on it.
    """

    def __init__(
        self,
        specs: Sequence[NodeSpec],
        conductor: Conductor,
        seed: int,
        run: str,
        observer: Observer | None = None,
        record: bool = False,
        *,
        meta: RunMeta | None = None,
        new_node: NewNode | None = None,
        network: NetworkModel | None = None,
        disk: DiskModel | None = None,
        step_digests: bool = False,
        probe: int | None = None,
        steps_max: int | None = None,
        carriage: Carriage = "shared",
    ) -> None:
        names = [spec.name for spec in specs]
        self.queue = EventQueue()
        links = stream(seed, LINKS)
        self.network = Network(
            self.queue,
            network or NetworkModel(),
            stream(seed, NETWORK),
            links,
            lambda source, target: stream(seed, link_of(source, target)),
            self._record_own,
            None if carriage == "shared" else self._carry,
        )
        self.watch = MessageWatch() if carriage == "watched" else None
        self.digests = StepDigests(names) if step_digests or probe is not None or steps_max is not None else None
        self.trace: list[Stamped] = []
        self._conductor = conductor
        self._run = run
        self._observer = observer
        self._recording = record
        self._probe = probe
        self._steps_max = steps_max
        self._probed: ProbedStep | None = None
        self._meta = meta or RunMeta("", "", "sim", seed, names, {})
        self._digest = TraceDigest()
        self._events = 0
        self._failures: list[NodeFailure] = []
        self._final_seq: dict[str, int] = {}
        self._driver = Stamper(run, DRIVER, 0)
        self._last_us = self._last_logical = -1
        self._actions: deque[AnyAction] = deque()
        self._acting = False
        self._listening = False
        self._wake_us: int | None = None
        self._losses: dict[str, DiskLoss] = {}
        self.hosts = self.network.hosts
        make, syncs, slow = new_node or _default_new_node(), stream(seed, DISK), stream(seed, SLOW_DISK)
        for spec in specs:
            timers = SystemRandom() if "unseeded-timers" in spec.defects else stream(seed, timers_of(spec.name))
            draws = Draws(timers, stream(seed, choices_of(spec.name)), syncs, slow)
            self.hosts[spec.name] = Host(spec, make, self, draws, disk or DiskModel())
        assert len(self.hosts) == len(specs), "two nodes have one name"

    def run(self, limit_us: int) -> RunResult:
        """Run until the conductor has finished, a node failed, or virtual time reaches ``limit_us``. Once only."""
        assert not self._events, "a World runs once"
        self._record_own(self._meta)
        self._listening = True
        for host in self.hosts.values():
            self.queue.at(0, host.start, self._run)
        self.queue.at(0, self._begin, None)
        with _collector_at_ease():
            self.queue.run(limit_us)
        finished = self._conductor.finished
        self._finish()
        if self.watch is not None and not self._failures:
            self.watch.look_at_all()
        return RunResult(
            digest=self._digest.hexdigest(),
            steps=sum(host.steps for host in self.hosts.values()),
            messages=self.network.delivered,
            events=self._events,
            end_us=self.queue.now_us,
            finished=finished and not self._failures,
            failures=self._failures,
            trace=self.trace,
            step_digests=self.digests,
            probed=self._probed,
        )

    def stop(self) -> None:
        """End the run after the present event; to be called while it goes on, from wherever (a signal handler)."""
        self.queue.stopped = True

    def _carry(self, sender: str, receiver: str, message: AnyMessage) -> AnyMessage:
        """What arrives of a message."""
        if self.watch is None:
            return by_wire(message)
        self.watch.sent(sender, receiver, message)
        return message

    def _finish(self) -> None:
        """End every fault, then every node, then the trace."""
        self._listening = False
        self._carry_out(self._conductor.end(self.queue.now_us))
        for host in self.hosts.values():
            if host.node is not None:
                self._down(host, NodeDown("end", overdue=self.network.overdue(host), waiting=host.leftovers()))
        final_seq = dict(self._final_seq)
        final_seq[f"{DRIVER}/{self._driver.incarnation}"] = self._driver.seq + 1
        self._record_own(RunEnd(final_seq))

    def _down(self, host: Host, body: NodeDown) -> None:
        """The last event of a process. What the conductor makes of it at once meets a machine without one."""
        self.record(host, body)
        self._final_seq[f"{host.name}/{host.incarnation}"] = host.stamper.seq

    # ---- what hosts ask for (``actors.sim.host.Surroundings``) -----------------------------------------------

    def record(self, host: Host, body: AnyTraceEvent, cause: str = "", req: str = "") -> None:
        """Put an event of a host into the trace, and do at once what the conductor makes of it."""
        event = self._stamp(host.stamper, body, cause, req)
        self._digest.add(event)
        if not host.loses_trace or not is_lost(host.spec.defects, event.seq):
            self._keep(event)
        if self._listening:
            self._tell(event)

    def completed(self, host: Host, operation: str, result: dict[str, Any]) -> None:
        """An operation that the conductor began has ended."""
        if self._listening:
            self._driver.merge(self.queue.now_us, host.clock.wall_us, host.clock.logical)
            self._consult(self._conductor.on_complete(self.queue.now_us, host.name, operation, result))

    def exited(self, host: Host, effect: Exit) -> None:
        """A node has ended its process."""
        self._down(host, NodeDown(effect.mode, effect.detail))

    def stepped(self, host: Host, event: AnyEvent, effects: list[AnyEffect]) -> None:
        """A step was taken: its digest is kept, and the run ends if this was the last that was asked for."""
        assert self.digests is not None
        if len(self.digests) == self._probe:
            self._probed = ProbedStep(host.name, self.queue.now_us, event, effects)
        self.digests.add(host.name, self.queue.now_us, event, effects)
        if len(self.digests) == self._steps_max:
            self.stop()

    def reached(self, host: Host, point: CrashPoint) -> None:
        """The process of a host ends at a point."""
        host.points.discard(point.id)
        self._kill(host, self._losses[point.id], f"{point.id} {point}")

    def _kill(self, host: Host, loss: DiskLoss, detail: str = "") -> None:
        lost = host.lose(loss)
        host.kill()
        self._down(host, NodeDown("crash" if loss == "kept" else "lossy", detail, lost))

    def failed(self, host: Host, error: Exception, event: AnyEvent | None) -> None:
        """A node has a bug: that is the end of it, and of the run."""
        frame = traceback.extract_tb(error.__traceback__)[-1]
        file = "/".join(frame.filename.split("/")[-2:])
        detail = f"{type(error).__name__}: {error} ({file}:{frame.lineno} in {frame.name})"
        full = "".join(traceback.format_exception(error))
        self._failures.append(NodeFailure(host.name, host.incarnation, self.queue.now_us, event, detail, full))
        self._listening = False
        host.kill()
        self._down(host, NodeDown("bug", detail))
        self.queue.stopped = True

    # ---- trace ---------------------------------------------------------------------------------------------

    def _record_own(self, body: AnyTraceEvent) -> None:
        event = self._stamp(self._driver, body, "", "")
        self._digest.add(event)
        self._keep(event)
        if self._listening:
            self._tell(event)

    def _stamp(self, stamper: Stamper, body: AnyTraceEvent, cause: str, req: str) -> Stamped:
        """The event with its envelope. What happens in one microsecond is stamped in the order in which it happens, on
        whatever node, so that the trace is recorded in its total order (``Stamped.order``) and needs no sorting."""
        now_us, clock = self.queue.now_us, stamper.clock
        if now_us == self._last_us and (clock.wall_us < now_us or clock.logical < self._last_logical):
            clock.wall_us, clock.logical = now_us, self._last_logical
        event = stamper.stamp(body, now_us, cause, req)
        self._last_us, self._last_logical = now_us, clock.logical
        return event

    def _keep(self, event: Stamped) -> None:
        self._events += 1
        if self._recording:
            self.trace.append(event)
        if self._observer is not None:
            self._observer(event)

    # ---- conductor -----------------------------------------------------------------------------------------

    def _begin(self, _: None) -> None:
        self._consult(self._conductor.begin())

    def _wake(self, at_us: int) -> None:
        if at_us != self._wake_us:
            return
        self._wake_us = None
        self._consult(self._conductor.on_time(self.queue.now_us))

    def _tell(self, event: Stamped) -> None:
        now_us, conductor = self.queue.now_us, self._conductor
        actions = conductor.on_event(now_us, event)
        if actions:
            self._driver.merge(now_us, event.wall, event.logical)
            self._consult(actions)
        elif conductor.next_time_us() != self._wake_us or conductor.finished:
            self._consult(actions)

    def _consult(self, actions: list[AnyAction]) -> None:
        """Carry out what the conductor wants, and see when it wants to be called next."""
        if actions:
            self._carry_out(actions)
        conductor = self._conductor
        if conductor.finished:
            self.queue.stopped = True
            return
        wake_us = conductor.next_time_us()
        if wake_us != self._wake_us:
            self._wake_us = wake_us
            if wake_us is not None:
                self.queue.at(max(wake_us, self.queue.now_us), self._wake, wake_us)

    def _carry_out(self, actions: list[AnyAction]) -> None:
        """All actions in order; what they cause in turn comes behind them, and all is done on return."""
        self._actions.extend(actions)
        if self._acting:
            return
        self._acting = True
        while self._actions:
            self._act(self._actions.popleft())
        self._acting = False

    def _act(self, action: AnyAction) -> None:
        """One action. Steps that it leads to are taken right after the present one, never within it."""
        now_us = self.queue.now_us
        match action:
            case InstallRule(rule):
                self.network.install(rule)
                self._record_own(LinkRuleChange(rule.id, rule.kind, "start", rule.sources, rule.targets, 0))
            case RemoveRule(rule_id):
                rule, held = self.network.remove(rule_id)
                self._record_own(LinkRuleChange(rule.id, rule.kind, "stop", rule.sources, rule.targets, held))
            case RecordEvent(body):
                self._record_own(body)
            case Watch():
                pass  # the conductor sees every event
            case Invoke(node, operation, kind, arguments):
                host = self._control(node)
                self.queue.at(now_us, host.invoke, (Invoked(operation, kind, arguments), self._driver.last_id))
            case Crash(node, loss):
                host = self._control(node)
                if host.node is not None:
                    self._kill(host, loss)
            case Arm(point, loss):
                self._losses[point.id] = loss
                self._control(point.node).points.add(point)
            case Disarm(point_id, node):
                self._control(node).points.discard(point_id)
            case SlowDisk(rule):
                self._control(rule.node).slow_down(rule)
            case MendDisk(rule_id, node):
                self._control(node).mend(rule_id)
            case DegradeStore(broken):
                self._control(broken.node).degrade(broken)
            case MendStore(rule_id, node):
                self._control(node).recover(rule_id)
            case Restart(node, spec):
                host = self._control(node)
                host.spec = spec or host.spec
                self.queue.at(now_us, host.start, self._run)
            case SkewClock(node, skew):
                self._control(node).skew(skew)
            case RestoreClock(node, fault):
                self._control(node).restore(fault)
            case Pause(node):
                self._control(node).pause()
            case Resume(node):
                self._control(node).resume()

    def _control(self, node: str) -> Host:
        """The host of a node that control reaches: the driver's clock goes along, as on every message."""
        host = self.hosts[node]
        now_us = self.queue.now_us
        self._driver.tick(now_us)
        host.clock.merge(now_us, self._driver.clock.wall_us, self._driver.clock.logical)
        return host


_YOUNG_OBJECTS = 200_000


@contextmanager
def _collector_at_ease() -> Iterator[None]:
    """Collections of cyclic garbage are rare meanwhile. A run makes little of it (a few objects per connection that
    broke), and the collector would look at the growing trace and state again and again."""
    before = gc.get_threshold()
    gc.set_threshold(_YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _default_new_node() -> NewNode:
    new_node: NewNode = import_module("actors.nodes").new_node
    return new_node
