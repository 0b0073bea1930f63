"""The injector: carries out the schedule. The only way in for faults, in both runtimes.

It waits for a fault's moment, aims it, begins it, watches that it takes effect, and ends it. Ending early, healing
and aborting are one code path. It is sans-IO like everything around it: times in, actions out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

import msgspec

from actors.control import AnyAction, Barrier, RecordEvent, Restart
from actors.node.spec import NodeSpec
from actors.trace.events import (
    ClockSet,
    CtlFault,
    DiskRuleChange,
    LinkRuleChange,
    NodeDown,
    NodeUp,
    Stamped,
    StoreRuleChange,
    TraceEvent,
)
from chaos.bounce import RollingBounce
from chaos.faults.base import Aimed, Bounce
from chaos.plan import At, ScheduledFault, Seen
from chaos.scenario.selectors import meaning
from chaos.scenario.triggers import TRIGGERS, matches
from chaos.view import ClusterView

Phase = Literal["waiting", "in force", "ended", "cancelled", "without target"]


class FaultOutcome(msgspec.Struct, frozen=True):
    """What became of a fault. Times are microseconds since time 0, -1 if it never came to that. took_effect: the
    runtime's events showed it (a pause shows no event of its own, and is taken from the runtime that did it). late:
    nodes that did not stop or come back in time. until_missed: it began, and what was to end it was not seen.
    hit_nothing: no message and no Sync met its rules."""

    id: str
    kind: str
    phase: Phase
    targets: list[str]
    started_us: int
    ended_us: int
    took_effect: bool
    late: list[str] = []
    until_missed: bool = False
    hit_nothing: bool = False


class _Course:
    """One fault of the schedule on its way."""

    def __init__(self, scheduled: ScheduledFault) -> None:
        self.scheduled = scheduled
        self.when_id, self.until_id = f"{scheduled.id}/when", f"{scheduled.id}/until"
        self.phase: Phase = "waiting"
        self.begins_us: int | None = None
        self.ends_us: int | None = None
        self.seen = 0
        self.seen_until = 0
        self.aimed: Aimed | None = None
        self.started_us = -1
        self.ended_us = -1
        self.missing: set[str] = set()
        self.hits: int | None = None
        """Messages and Syncs that met its rules, None as long as none of these has ended."""
        self.down: dict[str, int] = {}
        """Nodes that it stopped -> in which incarnation."""
        self.bounce: RollingBounce | None = None
        self.stays = False

    @property
    def ends_by_itself(self) -> bool:
        """It is over when it is done, and nothing else ends it."""
        return self.scheduled.for_us is None and self.scheduled.until is None

    @property
    def waits_for_beginning(self) -> bool:
        """What begins it has not been seen yet."""
        return self.phase == "waiting" and isinstance(self.scheduled.when, Seen) and self.begins_us is None

    @property
    def waits_for_end(self) -> bool:
        """What ends it has not been seen yet; one that stays away is ended by nothing but the end of the run."""
        seen = isinstance(self.scheduled.until, Seen)
        return seen and self.phase == "in force" and self.ends_us is None and not self.stays

    @property
    def until_missed(self) -> bool:
        """It began, and what was to end it has not been seen."""
        until = self.scheduled.until
        return isinstance(until, Seen) and self.started_us >= 0 and self.seen_until < until.nth

    @property
    def barriers(self) -> list[Barrier]:
        """Its seen-triggers."""
        moments = ((self.when_id, self.scheduled.when), (self.until_id, self.scheduled.until))
        return [Barrier(name, moment.predicate) for name, moment in moments if isinstance(moment, Seen)]

    def waits_for(self, barrier: Barrier) -> bool:
        """Whether one of them counts now."""
        return self.waits_for_beginning if barrier.id == self.when_id else self.waits_for_end

    @property
    def due_us(self) -> int | None:
        """When it is due for its next move, if that is known and it does not stay."""
        if self.phase == "waiting":
            return self.begins_us
        if self.phase != "in force" or self.stays:
            return None
        return self.ends_us if self.bounce is None else self.bounce.deadline_us


class Injector:
    """Times are the runtime's microseconds; ``start`` says which of them is time 0."""

    def __init__(self, schedule: Sequence[ScheduledFault], nodes: Sequence[NodeSpec], view: ClusterView) -> None:
        self.specs = {node.name: node for node in nodes}
        self.nodes, self.view = list(self.specs), view
        self._meant = meaning(view, self.nodes)
        self.courses = [_Course(scheduled) for scheduled in schedule]
        self._barriers: dict[type[TraceEvent], list[tuple[_Course, Barrier]]] = {}
        for course in self.courses:
            for barrier in course.barriers:
                self._barriers.setdefault(TRIGGERS[barrier.predicate.name].type, []).append((course, barrier))
        self.zero_us: int | None = None
        self.awaited: dict[str, int] = {}
        """Restarted nodes that have not come up yet -> the incarnation that was crashed."""
        self.operations: dict[str, str] = {}
        """Operations that have not returned -> the node that they were given to."""
        self.leaving: dict[str, Restart] = {}
        """Nodes that are to be started as soon as they are down."""
        self.fallen: set[str] = set()
        """Nodes that ended by themselves: nobody starts them before the healing."""
        self.healing = False

    # ---- what it waits for --------------------------------------------------------------------------------

    def barriers(self) -> list[Barrier]:
        """The seen-triggers of all faults."""
        return [barrier for course in self.courses for barrier in course.barriers]

    def types(self) -> set[type[TraceEvent]]:
        """Types of events that ``on_event`` must see."""
        return {ClockSet, LinkRuleChange, DiskRuleChange, StoreRuleChange, NodeDown, NodeUp, *self._barriers}

    def next_time_us(self) -> int | None:
        """When the next fault begins, goes on or ends, if that is known."""
        return min((course.due_us for course in self.courses if course.due_us is not None), default=None)

    @property
    def silent(self) -> set[str] | None:
        """Nodes that faults keep silent now, or that are not back yet; None while a fault does anything else."""
        found = {*self.awaited, *self.fallen}
        for course in self.courses:
            if course.phase == "in force":
                if course.aimed is None or not course.aimed.silent:
                    return None
                found.update(course.aimed.silent)
        return found

    def in_force(self) -> list[str]:
        """``f1 partition``, in the order of the schedule."""
        return [f"{c.scheduled.id} {c.scheduled.fault.kind}" for c in self.courses if c.phase == "in force"]

    def paused(self) -> list[str]:
        """Nodes that a pause holds now."""
        aimed = (course.aimed for course in self.courses if course.phase == "in force")
        return sorted({node for each in aimed if each is not None for node in each.held})

    def outcomes(self) -> list[FaultOutcome]:
        """What became of each fault so far."""
        zero = self.zero_us or 0
        return [
            FaultOutcome(
                id=course.scheduled.id,
                kind=course.scheduled.fault.kind,
                phase=course.phase,
                targets=[] if course.aimed is None else list(course.aimed.targets),
                started_us=course.started_us - zero if course.started_us >= 0 else -1,
                ended_us=course.ended_us - zero if course.ended_us >= 0 else -1,
                took_effect=course.aimed is not None and not course.missing,
                late=[] if course.bounce is None else list(course.bounce.late),
                until_missed=course.until_missed,
                hit_nothing=course.hits == 0,
            )
            for course in self.courses
        ]

    # ---- what moves it ------------------------------------------------------------------------------------

    def start(self, now_us: int) -> list[AnyAction]:
        """Time 0 is now."""
        self.zero_us = now_us
        for course in self.courses:
            if isinstance(course.scheduled.when, At):
                course.begins_us = now_us + course.scheduled.when.us
        return self.on_time(now_us)

    def on_time(self, now_us: int) -> list[AnyAction]:
        """Begin and end what is due, in the order of time, then of the schedule; at one time ends come first."""
        actions: list[AnyAction] = []
        due = [c for c in self.courses if c.due_us is not None and c.due_us <= now_us]
        for course in sorted(due, key=lambda c: (c.due_us or 0, c.phase == "waiting")):
            actions += self._move(course, now_us)
        return actions

    def _move(self, course: _Course, now_us: int) -> list[AnyAction]:
        """What a course that is due does next."""
        if course.phase == "waiting":
            return self._begin(course, now_us)
        if course.bounce is None:
            return self._end(course, now_us)
        return self._bounced(course, course.bounce.on_time(now_us, self.view), now_us)

    def sighted(self, event: Stamped) -> frozenset[str]:
        """The barriers that wait to see this event: told before ``view`` takes it in."""
        if self.zero_us is None:
            return frozenset()
        return frozenset(
            barrier.id
            for course, barrier in self._barriers.get(type(event.body), ())
            if course.waits_for(barrier) and matches(barrier.predicate, event, self._meant)
        )

    def on_event(self, now_us: int, event: Stamped, sighted: frozenset[str]) -> list[AnyAction]:
        """Note effects, and fire what waited to see this: the barriers ``sighted``. ``view`` has taken the event in."""
        self._observe(event)
        self._reach(now_us, event)
        if self.zero_us is None:
            return []
        actions = [*self._lost(now_us, event), *self._start_again(event)]
        for course in self.courses:
            if course.bounce is not None and course.phase == "in force":
                actions += self._bounced(course, course.bounce.on_event(now_us, event, self.view), now_us)
        for course in self.courses:
            scheduled = course.scheduled
            if course.waits_for_beginning:
                assert isinstance(scheduled.when, Seen)
                if course.when_id in sighted:
                    course.seen += 1
                    if course.seen == scheduled.when.nth:
                        course.begins_us = now_us + scheduled.when.delay_us
            elif course.waits_for_end:
                assert isinstance(scheduled.until, Seen)
                if course.until_id in sighted:
                    course.seen_until += 1
                    if course.seen_until == scheduled.until.nth:
                        course.ends_us = now_us + scheduled.until.delay_us
            else:
                continue
            if course.due_us is not None and course.due_us <= now_us:
                actions += self._move(course, now_us)
        return actions

    def on_complete(self, now_us: int, operation: str, result: dict[str, Any]) -> list[AnyAction]:
        """A node ended an operation. One that failed as a whole (``error``) had no effect."""
        if self.operations.pop(operation, None) is None:
            return []
        self._took_effect([] if "error" in result else [operation])
        return self._end_what_is_done(now_us)

    def silencing(self) -> dict[str, frozenset[str]]:
        """Faults in force that keep controllers or brokers silent and do nothing else -> whom."""
        bounced = {name for c in self.courses if c.bounce is not None for name in (c.bounce.node, *c.bounce.left)}
        found = {}
        for course in self.courses:
            silent = course.aimed.silent if course.phase == "in force" and course.aimed is not None else []
            servers = all(self.specs[name].node_id >= 0 and name not in bounced for name in silent)
            if silent and servers and not course.ends_by_itself:
                found[course.scheduled.id] = frozenset(silent)
        return found

    def release(self, now_us: int, nodes: Collection[str]) -> list[AnyAction]:
        """End the faults that stayed and silence any of these."""
        actions: list[AnyAction] = []
        for course in self.courses:
            if course.stays and course.aimed is not None and not set(nodes).isdisjoint(course.aimed.silent):
                course.stays = False
                actions += self._end(course, now_us)
        return actions

    @property
    def away(self) -> set[str]:
        """Nodes that faults which stayed keep silent."""
        stay = (c.aimed.silent for c in self.courses if c.stays and c.phase == "in force" and c.aimed is not None)
        return {name for silent in stay for name in silent}

    def heal(self, now_us: int, staying: Collection[str] = ()) -> list[AnyAction]:
        """The chaos is over: cancel what waits, end what is in force, bring back what was stopped or ended by itself.
        What is over only when it is done goes on, and so do the faults in ``staying``, to the end of the run."""
        self.healing = True
        for course in self.courses:
            course.stays = course.scheduled.id in staying
        actions: list[AnyAction] = [action for node in sorted(self.fallen) for action in self._raise(node)]
        for course in self.courses:
            if course.phase == "waiting":
                course.phase = "cancelled"
            elif course.phase == "in force" and not course.ends_by_itself and not course.stays:
                actions += self._end(course, now_us)
        return actions

    def abort(self, now_us: int) -> list[AnyAction]:
        """The same for a run that ends now: nothing is restarted, and nothing goes on."""
        actions = self.heal(now_us)
        for course in self.courses:
            if course.phase == "in force":
                actions += self._end(course, now_us)
        return [action for action in actions if not isinstance(action, Restart)]

    # ---- beginning and end --------------------------------------------------------------------------------

    def _begin(self, course: _Course, now_us: int) -> list[AnyAction]:
        scheduled = course.scheduled
        if isinstance(scheduled.until, At) and self.zero_us is not None and self.zero_us + scheduled.until.us <= now_us:
            # It was seen only when the fault was to be over already.
            course.phase = "cancelled"
            return []
        aimed = scheduled.fault.aim(scheduled.id, self.view, self.nodes, self._busy())
        if aimed is None:
            course.phase = "without target"
            return []
        course.aimed, course.phase, course.started_us = aimed, "in force", now_us
        course.missing = {*aimed.rules, *aimed.stopped, *aimed.operations}
        course.down = {node: self._present_incarnation(node) for node in aimed.stopped}
        self.operations.update(aimed.operations)
        if aimed.bounce is not None:
            return [self._record(course, "start"), *self._begin_bounce(course, aimed, aimed.bounce, now_us)]
        if aimed.points:
            course.missing.add(scheduled.id)
        elif scheduled.for_us is not None:
            course.ends_us = now_us + scheduled.for_us
        if isinstance(scheduled.until, At):
            assert self.zero_us is not None
            course.ends_us = self.zero_us + scheduled.until.us
        return [self._record(course, "start"), *aimed.begin]

    def _end(self, course: _Course, now_us: int) -> list[AnyAction]:
        aimed = course.aimed
        assert aimed is not None, "only what began can end"
        course.phase, course.ended_us = "ended", now_us
        gone = self._to_be_started(course)
        self.awaited |= {node: course.down[node] for node in gone}
        ends = [action for action in aimed.end if not isinstance(action, Restart) or action.node in gone]
        ends = [action for action in ends if not self._comes_too_early(aimed, action)]
        restarts = [Restart(node) for node in gone] if aimed.points else []
        return [*ends, *restarts, self._record(course, "stop")]

    def _to_be_started(self, course: _Course) -> list[str]:
        """Nodes that it stopped and that nobody has started since. A point may lie on the way down from another fault:
        then two faults stop one node, and the one that is over first has it started."""
        return [
            node
            for node, incarnation in course.down.items()
            if self._present_incarnation(node) == incarnation and node not in self.awaited
        ]

    def _comes_too_early(self, aimed: Aimed, action: AnyAction) -> bool:
        """Whether a node that was only asked to stop is still at it; it is started again when it is down."""
        if not aimed.leave or not isinstance(action, Restart) or action.node not in self.view.up:
            return False
        self.leaving[action.node] = action
        return True

    def _start_again(self, event: Stamped) -> list[AnyAction]:
        """A node went down, and somebody waits for that."""
        if not isinstance(event.body, NodeDown):
            return []
        restart = self.leaving.pop(event.node, None)
        if restart is not None:
            # One that a point killed on its way down stays there as long as that fault lasts.
            if self._is_held_down(event):
                del self.awaited[event.node]
                return []
            return [restart]
        if self._will_start(event) or event.body.mode == "end":
            return []
        self.fallen.add(event.node)
        return self._raise(event.node) if self.healing else []

    def _is_held_down(self, event: Stamped) -> bool:
        """Whether a fault in force stopped the incarnation that ended, and has it started at its end."""
        down = (course.down for course in self.courses if course.phase == "in force")
        return any(each.get(event.node) == event.incarnation for each in down)

    def _will_start(self, event: Stamped) -> bool:
        """Whether somebody starts the node that went down again. That a fault stopped an older incarnation of it, or
        that a bounce waits for it to be back before it stops it, starts nobody."""
        bounces = (course.bounce for course in self.courses if course.phase == "in force" and course.bounce is not None)
        return (
            event.node in self.awaited
            or self._is_held_down(event)
            or any(each.node == event.node and each.stage in ("stopping", "returning") for each in bounces)
        )

    def _raise(self, node: str) -> list[AnyAction]:
        self.fallen.discard(node)
        self.awaited[node] = self._present_incarnation(node)
        return [Restart(node)]

    # ---- rolling bounces ----------------------------------------------------------------------------------

    def _begin_bounce(self, course: _Course, aimed: Aimed, change: Bounce, now_us: int) -> list[AnyAction]:
        self.specs.update({name: change.after(self.specs[name]) for name in aimed.targets})
        specs = {name: self.specs[name] for name in aimed.targets}
        course.bounce = RollingBounce(course.scheduled.id, aimed.targets, specs, change.timeout_us)
        return self._bounced(course, course.bounce.begin(now_us, self.view), now_us)

    def _bounced(self, course: _Course, actions: list[AnyAction], now_us: int) -> list[AnyAction]:
        """What a bounce wants, and its end if that was all."""
        assert course.bounce is not None
        for node in (action.node for action in actions if isinstance(action, Restart)):
            self.awaited.setdefault(node, self._present_incarnation(node))
        return [*actions, *self._end(course, now_us)] if course.bounce.done else actions

    def _end_what_is_done(self, now_us: int) -> list[AnyAction]:
        actions: list[AnyAction] = []
        for course in self.courses:
            if course.phase == "in force" and course.ends_by_itself and course.aimed is not None:
                if course.bounce is None and not any(each in self.operations for each in course.aimed.operations):
                    actions += self._end(course, now_us)
        return actions

    def _present_incarnation(self, node: str) -> int:
        return self.view.started.get(node, 0)

    def _busy(self) -> frozenset[str]:
        stopped = (node for course in self.courses if course.phase == "in force" for node in course.down)
        bounced = (c.bounce.node for c in self.courses if c.phase == "in force" and c.bounce is not None)
        return frozenset([*self.awaited, *stopped, *bounced, *self.paused()])

    @property
    def unfinished(self) -> list[str]:
        """Rolling bounces that go on, and whose turn it is."""
        return [
            f"{course.scheduled.id} ({course.bounce.node})"
            for course in self.courses
            if course.bounce is not None and course.phase == "in force"
        ]

    def _record(self, course: _Course, phase: Literal["start", "stop"]) -> RecordEvent:
        aimed = course.aimed
        assert aimed is not None
        late = {"late": list(course.bounce.late)} if course.bounce is not None and phase == "stop" else {}
        return RecordEvent(
            CtlFault(course.scheduled.id, aimed.kind, phase, aimed.targets, {**aimed.parameters, **late})
        )

    def _observe(self, event: Stamped) -> None:
        body = event.body
        if isinstance(body, LinkRuleChange | DiskRuleChange | StoreRuleChange):
            self._took_effect([body.rule] if body.phase == "start" else [])
            if body.phase == "stop" and not isinstance(body, StoreRuleChange):
                self._note_hits(body.rule, body.held if isinstance(body, LinkRuleChange) else body.synced)
        elif isinstance(body, ClockSet):
            self._took_effect([f"{body.fault}/{event.node}"] if body.phase == "start" else [])
        elif isinstance(body, NodeDown):
            self._took_effect([event.node])
        elif isinstance(body, NodeUp):
            crashed = self.awaited.get(event.node)
            if crashed is not None and event.incarnation > crashed:
                del self.awaited[event.node]
                # A new incarnation shows that the old one is gone, even where nobody could say so before.
                self._took_effect([event.node])
            self.fallen.discard(event.node)

    def _note_hits(self, rule: str, number: int) -> None:
        """A rule of a fault has ended, and was met so often."""
        for course in self.courses:
            if course.scheduled.id == rule.partition("/")[0]:
                course.hits = (course.hits or 0) + number

    def _reach(self, now_us: int, event: Stamped) -> None:
        """A node went down at its point: that is the fault's effect, and its time begins with the first one."""
        if not isinstance(event.body, NodeDown):
            return
        point, _, _ = event.body.detail.partition(" ")
        for course in self.courses:
            if course.aimed is None or course.aimed.points.get(point) != event.node or course.phase != "in force":
                continue
            course.down[event.node] = event.incarnation
            course.missing.clear()
            if course.scheduled.for_us is not None and course.ends_us is None:
                course.ends_us = now_us + course.scheduled.for_us

    def _lost(self, now_us: int, event: Stamped) -> list[AnyAction]:
        """A node that died has forgotten what it was asked to do."""
        if not isinstance(event.body, NodeDown | NodeUp) or event.node not in self.operations.values():
            return []
        self.operations = {each: node for each, node in self.operations.items() if node != event.node}
        return self._end_what_is_done(now_us)

    def _took_effect(self, what: Iterable[str]) -> None:
        for course in self.courses:
            if course.missing and course.phase in ("in force", "ended"):
                course.missing.difference_update(what)
