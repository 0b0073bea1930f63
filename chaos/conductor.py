"""The conductor: takes a run through its phases.

::

    starting   the cluster forms: every broker unfenced, every partition with its whole ISR and assumed by its leader
    warming    workloads were started; each must succeed once
    chaos      its beginning is time 0; the injector carries out the schedule until the duration is over
    healing    every fault is ended, every node back, the cluster steady again, or a core of it is (``chaos.core``); and
               every group of consumers has got together
    stopping   producers and probers stop: everything sent has returned
    draining   consumers read to the end
    finished

Each wait has a budget, and running out of it has a name: "did not reach the steady state", "did not heal" (a node is
not back, an operation has not returned), "did not converge" (everybody is back, and the cluster does not get steady),
"did not drain". Groups are waited for no longer than that, and the run goes on without them: L11 judges them, which
knows how long they may take.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, Literal

import msgspec

from actors.control import AnyAction, Barrier, Invoke, RecordEvent
from actors.node.spec import REMOTE_STORE, NodeSpec
from actors.trace.events import (
    OP_RETURNS,
    ClockSet,
    ConsOwn,
    CtlPhase,
    CtlWindow,
    ErrorSeen,
    NodeDown,
    NodeUp,
    OpReturn,
    PartChange,
    PartRemove,
    QVoters,
    Stall,
    Stamped,
    TraceEvent,
)
from chaos.clocks import Clocks
from chaos.core import staying, stranded
from chaos.group_view import GroupsView, new_groups
from chaos.injector import FaultOutcome, Injector
from chaos.plan import Plan
from chaos.scenario.selectors import meaning
from chaos.scenario.triggers import TRIGGERS, describe, matches
from chaos.view import VIEWED, ClusterView, new_view
from chaos.words import duration

Phase = Literal["starting", "warming", "chaos", "healing", "stopping", "draining", "finished"]
Status = Literal[
    "running",
    "completed",
    "did not reach the steady state",
    "did not heal",
    "did not converge",
    "did not drain",
    "interrupted",
    "stopped at a violation",
]

CONSUMERS = ("consumer", "group-consumer", "mirror", "processor")
"""Roles of those that read to the end when everybody else has stopped."""

NOT_CONVERGED: Final = "did not converge"
"""Status of a run in which everybody was back in the end, and the cluster was not steady."""


WORTH_TELLING_MS = 1000
"""Less than that, added up over all nodes, keeps no cluster from anything."""


class Progress(msgspec.Struct, frozen=True):
    """Where a run stands. time_us: since time 0, -1 before it. waiting_for: what the phase waits for. up, paused,
    down: the nodes, each in one of them. events: as many are known to have been recorded; in a live run a node tells
    once a second how far it is, so that this trails behind. starved_ms: how long nodes of a live run have waited for
    processor time, added up."""

    phase: Phase
    time_us: int
    duration_us: int
    up: list[str]
    paused: list[str]
    down: list[str]
    leaders: dict[str, str]
    controller: str
    faults: list[str]
    events: int
    waiting_for: str
    starved_ms: int = 0


class ScenarioConductor:
    """Conducts one run of a plan; implements ``actors.control.Conductor``.

    status, detail: how the run ended. seen: which of the plan's ``must-happen`` were seen, by description (in a
    live run only those the runtime forwards: there the trace has the last word, see ``triggers.happened``).
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.view: ClusterView = new_view(plan.cluster, plan.strangers)
        self._unwelcome = plan.unwelcome()
        self.groups: GroupsView = new_groups(plan.groups(), self._unwelcome)
        self._meant = meaning(self.view, plan.names)
        self.injector = Injector(plan.schedule, plan.nodes, self.view)
        self.phase: Phase = "starting"
        self.status: Status = "running"
        self.detail = ""
        self.seen: dict[str, bool] = {describe(predicate): False for predicate in plan.expect.must_happen}
        self.zero_us: int | None = None
        self.results: dict[str, dict[str, Any]] = {}
        self._begun = False
        self._now_us = 0
        self._deadline_us: int | None = None
        self._wake_us: int | None = None
        self._recorded: dict[tuple[str, int], int] = {}
        self._waiting: set[str] = set()
        self._invoked: dict[str, int] = {}
        self._core: list[str] = []
        self._windows = 0
        self._clocks = Clocks()
        self._starved_ms: Counter[str] = Counter()
        """Node -> how long it waited for processor time in this phase."""
        self._starved_before_ms = 0
        self._clients: dict[str, NodeSpec] = {node.name: node for node in plan.clients}
        self._unseen = {describe(predicate): predicate for predicate in plan.expect.must_happen}
        self._types = self._interesting()

    def _interesting(self) -> set[type[TraceEvent]]:
        types: set[type[TraceEvent]] = {*VIEWED, ConsOwn}
        if self._unwelcome:
            types.add(ErrorSeen)
        types.update(self.injector.types(), (TRIGGERS[p.name].type for p in self._unseen.values()))
        if self.phase in ("starting", "warming"):
            types.update(OP_RETURNS)
        return types

    # ---- the runtime's side -------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """The run is over, one way or another."""
        return self.phase == "finished"

    @property
    def barriers(self) -> list[Barrier]:
        """The schedule's seen-triggers."""
        return self.injector.barriers()

    def begin(self) -> list[AnyAction]:
        """Every node was started."""
        self._begun = True
        self._deadline_us = self.plan.budgets.steady_state_us
        actions = self._framed([self._phase_event(), *self._advance(0)])
        self._set_wake()
        return actions

    def next_time_us(self) -> int | None:
        """The next move of the schedule, or the end of a budget or of the chaos."""
        # Asked for after each event of a run, and changed by few of them: so it is kept.
        return self._wake_us

    @property
    def _has_faults_to_move(self) -> bool:
        """Whether faults begin and end now, or bounces that have begun go on."""
        return self.phase in ("chaos", "healing")

    def _set_wake(self) -> None:
        times = [self._deadline_us, self.injector.next_time_us() if self._has_faults_to_move else None]
        times.append(self._clocks.settled_us if self._clocks.settled_us > self._now_us else None)
        self._wake_us = min((time for time in times if time is not None), default=None)

    def on_time(self, now_us: int) -> list[AnyAction]:
        """Move the schedule, end the chaos, or give up."""
        self._now_us = now_us
        actions: list[AnyAction] = []
        if self._has_faults_to_move and (self._deadline_us is None or now_us < self._deadline_us):
            actions += self.injector.on_time(now_us)
            if self.phase == "healing":
                actions += self._advance(now_us)
        if self._deadline_us is not None and now_us >= self._deadline_us:
            actions += self._late(now_us)
        actions = self._framed(actions)
        self._set_wake()
        return actions

    def on_event(self, now_us: int, event: Stamped) -> list[AnyAction]:
        """Take note of an event; see ``actors.control.Conductor.on_event`` for which ones come."""
        self._recorded[event.node, event.incarnation] = event.seq + 1
        self._now_us = now_us
        kind = type(event.body)
        if isinstance(event.body, Stall):
            self._starved_ms[event.node] += event.body.ms
        if kind not in self._types or self.phase == "finished":
            return []
        # What is seen is told by the cluster as it was: who died was its leader, and whoever resigns led.
        self._look(event)
        sighted = self.injector.sighted(event)
        if kind in VIEWED:
            self.view.fold(event)
        if kind in (ConsOwn, ErrorSeen, NodeUp, NodeDown):
            self.groups.fold(event)
        actions: list[AnyAction] = []
        if kind is ClockSet:
            self._clocks.take(now_us, event)
        elif kind is NodeDown:
            self._clocks.forget(event.node)
        elif kind is NodeUp:
            actions += self._start_again(event)
        elif kind in OP_RETURNS or kind is ConsOwn:
            self._succeeded(event)
        elif kind is ErrorSeen and self.phase == "warming" and self.groups.is_out(event.node):
            self._waiting.discard(event.node)  # it will not get any further
        actions += self.injector.on_event(now_us, event, sighted)
        if kind in (PartChange, PartRemove, QVoters, NodeUp):
            actions += self._widen(now_us)
        if self._begun:
            actions += self._advance(now_us)
        actions = self._framed(actions)
        self._set_wake()
        return actions

    def on_complete(self, now_us: int, node: str, operation: str, result: dict[str, Any]) -> list[AnyAction]:
        """A node ended an operation: an operator's, or the stop of a client; others do not count."""
        self._now_us = now_us
        if operation in self.injector.operations:
            actions = self.injector.on_complete(now_us, operation, result)
        elif self.phase in ("stopping", "draining") and operation == _stop(node):
            self.results[node] = result
            self._waiting.discard(node)
            actions = []
        else:
            return []
        actions = self._framed([*actions, *self._advance(now_us)])
        self._set_wake()
        return actions

    def end(self, now_us: int) -> list[AnyAction]:
        """End every fault still in force, without restarts."""
        self._now_us = now_us
        actions = self.injector.abort(now_us)
        if self.phase != "finished":
            actions += self._finish("interrupted", f"in the phase {self.phase}")
        actions = self._framed(actions)
        self._set_wake()
        return actions

    # ---- phases -------------------------------------------------------------------------------------------

    def _advance(self, now_us: int) -> list[AnyAction]:
        """Go on to the next phase, and the next, as long as nothing is waited for."""
        actions: list[AnyAction] = []
        while not self.finished:
            before = self.phase
            actions += self._step(now_us)
            if self.phase == before:
                break
        return actions

    def _step(self, now_us: int) -> list[AnyAction]:
        if self.phase == "chaos" or self._waits():
            return []
        if self.phase == "starting":
            return self._warm()
        if self.phase == "warming":
            return self._begin_chaos(now_us)
        if self.phase == "healing":
            return self._stop(now_us, "stopping")
        if self.phase == "stopping":
            return self._stop(now_us, "draining")
        return self._finish("completed", "")

    def _waits(self) -> bool:
        """Whether the phase still waits for something."""
        if self.phase == "starting":
            return not self.view.is_steady()
        if self.phase == "healing" and not self.view.is_steady(self.injector.away):
            return True
        return bool(self._waiting_for())

    def _waiting_for(self) -> str:
        """What the phase still waits for, in words; "" if nothing."""
        if self.phase == "starting":
            return self.view.unsteady()
        if self.phase == "healing":
            return self._unhealed() or self.groups.unsettled(self._as_ever(), self.injector.away)
        if self.phase in ("warming", "stopping", "draining"):
            return ", ".join(name for name in self._clients if name in self._waiting)
        return ""

    def _unhealed(self) -> str:
        """What keeps the healing up, but for the groups."""
        return self._not_back() or self.view.unsteady(self.injector.away)

    def _as_ever(self) -> list[str]:
        """Partitions that are the scenario's own: those of a topic that was made anew are heard of when they are."""
        return [tp for tp, found in self.view.living.items() if not found.key]

    def _not_back(self) -> str:
        """What keeps the healing up that is not the cluster's to do."""
        awaited = sorted(set(self.injector.awaited) - self.injector.away)
        open_operations = sorted(self.injector.operations)
        if open_operations:
            return f"not returned: {', '.join(open_operations)}"
        if self.injector.unfinished:
            return f"not over: {', '.join(self.injector.unfinished)}"
        return f"not back: {', '.join(awaited)}" if awaited else ""

    def _enter(self, phase: Phase, deadline_us: int | None) -> RecordEvent:
        self.phase, self._deadline_us = phase, deadline_us
        self._starved_before_ms += self._starved_ms.total()
        self._starved_ms.clear()
        return self._phase_event()

    def _phase_event(self) -> RecordEvent:
        given_up = self.phase == "finished" and self.status != "completed"
        return RecordEvent(CtlPhase(self.phase, f"{self.status}: {self.detail}" if given_up else ""))

    def _warm(self) -> list[AnyAction]:
        # The budget for the steady state covers the first success of the workloads too.
        event = self._enter("warming", self._deadline_us)
        self._waiting = set(self._clients)
        return [event, *(self._start(name, self.view.started.get(name, 0)) for name in self._clients)]

    def _begin_chaos(self, now_us: int) -> list[AnyAction]:
        self.zero_us = now_us
        event = self._enter("chaos", now_us + self.plan.duration_us)
        self._types = self._interesting()
        return [event, *self.injector.start(now_us)]

    def _heal(self, now_us: int) -> list[AnyAction]:
        actions = self.injector.heal(now_us, self._staying())
        return [*actions, self._enter("healing", now_us + self.plan.budgets.heal_us), *self._advance(now_us)]

    def _staying(self) -> list[str]:
        """Faults that go on to the end of the run."""
        if self.plan.core is None:
            return []
        faults = self.injector.silencing()
        silent = {name for whom in faults.values() for name in whom} | {*self.injector.awaited, *self.injector.fallen}
        return staying(faults, self.plan.core, self.view, self.plan.names, silent, self.plan.seed)

    def _is_lost(self) -> bool:
        """Whether a partition has nobody left who may lead it, or the quorum: no cluster would converge."""
        there = set(self.view.up) - self.injector.away
        if not self.view.can_elect(self.injector.away):
            return True
        return any(there.isdisjoint(self.view.able(tp)) for tp in self.view.living)

    def _widen(self, now_us: int) -> list[AnyAction]:
        """A drawn core that turns out not to be able to make progress gets whom it lacks."""
        away = self.injector.away
        if self.phase != "healing" or self.plan.core != () or not away:
            return []
        return self.injector.release(now_us, stranded(away, self.view, self.plan.elects_uncleanly))

    def _stop(self, now_us: int, phase: Literal["stopping", "draining"]) -> list[AnyAction]:
        # One budget for both: stopping begins it.
        deadline = now_us + self.plan.budgets.drain_us if phase == "stopping" else self._deadline_us
        event = self._enter(phase, deadline)
        names = [name for name, node in self._clients.items() if (node.role in CONSUMERS) == (phase == "draining")]
        self._waiting = set(names)
        # Of a topic that was removed for good there is nothing to read, however long one asks for it.
        gone = [tp for tp, found in self.view.partitions.items() if found.removed]
        arguments = {"gone": gone} if gone and phase == "draining" else {}
        return [event, *(Invoke(name, _stop(name), "stop", arguments) for name in names)]

    def _late(self, now_us: int) -> list[AnyAction]:
        """The chaos is over, or the budget of a phase is spent."""
        if self.phase == "chaos":
            return self._heal(now_us)
        if self.phase == "healing" and not self._unhealed():
            return self._stop(now_us, "stopping")
        return self._give_up()

    def _give_up(self) -> list[AnyAction]:
        reasons: dict[Phase, Status] = {
            "starting": "did not reach the steady state",
            "warming": "did not reach the steady state",
            "healing": "did not heal" if self._not_back() or self._is_lost() else NOT_CONVERGED,
            "stopping": "did not drain",
            "draining": "did not drain",
        }
        return self._finish(reasons[self.phase], f"{self.phase}: {self._waiting_for()}{self._starved()}")

    def _starved(self) -> str:
        """That the machine gave nodes too little time in this phase, "" it did not."""
        if self._starved_ms.total() < WORTH_TELLING_MS:
            return ""
        node, longest_ms = self._starved_ms.most_common(1)[0]
        most = f"{node} longest: {duration(longest_ms / 1000)}" if len(self._starved_ms) > 1 else node
        waited = duration(self._starved_ms.total() / 1000)
        return f"; the machine is too busy: in this phase nodes waited {waited} for processor time ({most})"

    def _finish(self, status: Status, detail: str) -> list[AnyAction]:
        self.status, self.detail = status, detail
        return [self._enter("finished", None)]

    # ---- workloads ----------------------------------------------------------------------------------------

    def _start(self, name: str, incarnation: int) -> Invoke:
        self._invoked[name] = incarnation
        return Invoke(name, f"{name}/start/{incarnation}", "start")

    def _start_again(self, event: Stamped) -> list[AnyAction]:
        """A client that came back does nothing before it is told to."""
        name = event.node
        if name not in self._clients or event.incarnation <= self._invoked.get(name, event.incarnation):
            return []
        return [self._start(name, event.incarnation)]

    def _succeeded(self, event: Stamped) -> None:
        body = event.body
        assert isinstance(body, OpReturn | ConsOwn)
        # A group may have nothing for a member: that it has its assignment is its success.
        ok = body.reason == "assign" if isinstance(body, ConsOwn) else body.outcome == "ok"
        if self.phase == "warming" and ok:
            self._waiting.discard(event.node)

    def _look(self, event: Stamped) -> None:
        """Tick off what must happen."""
        for name in [name for name, predicate in self._unseen.items() if matches(predicate, event, self._meant)]:
            self.seen[name] = True
            del self._unseen[name]
            self._types = self._interesting()

    # ---- stability windows --------------------------------------------------------------------------------

    def _framed(self, actions: list[AnyAction]) -> list[AnyAction]:
        """Actions that may begin or end faults: the window that they break closes before them, and the one that they
        make opens after them."""
        core = self._stable()
        if core == self._core:
            return actions
        before: list[AnyAction] = []
        if self._core:
            before.append(RecordEvent(CtlWindow(f"w{self._windows}", "close", self._core)))
        if core:
            self._windows += 1
            actions = [*actions, RecordEvent(CtlWindow(f"w{self._windows}", "open", core))]
        self._core = core
        return [*before, *actions]

    def _stable(self) -> list[str]:
        """The core of a stability window now, or []: the cluster's nodes but those that faults keep silent, as long as
        most of the voters are among them, as is the remote store, and no clock that was set back keeps a timer from
        its end."""
        silent = self.injector.silent
        if silent is None or not self._begun or self.finished or self._clocks.settled_us > self._now_us:
            return []
        if not self.view.has_quorum(silent) or REMOTE_STORE in silent:
            return []
        return [name for name in self.plan.names if name not in silent and name not in self.view.strangers]

    # ---- what others ask ----------------------------------------------------------------------------------

    @property
    def outcomes(self) -> list[FaultOutcome]:
        """What became of each fault of the schedule."""
        return self.injector.outcomes()

    def progress(self) -> Progress:
        """A snapshot for the command line's status line."""
        paused = [name for name in self.injector.paused() if name in self.view.up]
        return Progress(
            up=[name for name in self.plan.names if name in self.view.up and name not in paused],
            paused=paused,
            down=[name for name in self.plan.names if name not in self.view.up],
            phase=self.phase,
            time_us=-1 if self.zero_us is None else self._now_us - self.zero_us,
            duration_us=self.plan.duration_us,
            leaders=self.view.leaders(),
            controller=self.view.controller,
            faults=self.injector.in_force(),
            events=sum(self._recorded.values()),
            waiting_for=self._waiting_for(),
            starved_ms=self._starved_before_ms + self._starved_ms.total(),
        )


def _stop(name: str) -> str:
    """Id of the operation that stops a client."""
    return f"{name}/stop"
