"""A stage for the conductor: scripted events in place of a cluster, and the actions it asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from actors.control import AnyAction, Crash, Invoke, RecordEvent, Restart
from actors.node.spec import NodeSpec, node_name, topic_partition
from actors.trace.events import (
    AnyTraceEvent,
    BrokerReg,
    ConsOwn,
    CtlPhase,
    LinkRuleChange,
    NodeUp,
    PartAssume,
    PartChange,
    QRole,
    SendReturn,
    Stamped,
)
from chaos.conductor import ScenarioConductor
from chaos.plan import Plan
from chaos.scenario.loader import load_text
from chaos.scenario.resolve import resolve

SECOND = 1_000_000
ActionT = TypeVar("ActionT")

BASE = """
schema: krift/v1
name: staged
duration: 10s
cluster:
  topics:
    orders: {replicas: [[1, 2, 3]]}
workload:
  - producer: {topic: orders, rate: 100/s}
  - consumer: {topic: orders}
"""


def plan_of(more: str = "", base: str = BASE, seed: int | None = None) -> Plan:
    """The plan of the base scenario and ``more`` lines at its end."""
    return resolve(load_text(base + more, "staged.yaml"), seed=seed)


def stamped(node: str, body: AnyTraceEvent, incarnation: int = 0, wall: int = 0, seq: int = 0) -> Stamped:
    """An event in an envelope of which only node, incarnation and wall matter here."""
    return Stamped("run", node, incarnation, seq, wall, 0, "", "", body)


class Stage:
    """Plays the runtime: carries time and events to a conductor and keeps what it asks for."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.conductor = ScenarioConductor(plan)
        self.now_us = 0
        self.offset = 0
        self.actions: list[AnyAction] = []
        self._do(self.conductor.begin())

    def _do(self, actions: list[AnyAction]) -> list[AnyAction]:
        self.actions += actions
        return actions

    def tell(self, node: str, body: AnyTraceEvent, incarnation: int = 0) -> list[AnyAction]:
        """A node records an event now."""
        return self._do(self.conductor.on_event(self.now_us, stamped(node, body, incarnation, self.now_us)))

    def run_until(self, at_us: int) -> list[AnyAction]:
        """Let time pass; the conductor is woken whenever it wants to be."""
        done: list[AnyAction] = []
        for _ in range(1000):
            wanted = self.conductor.next_time_us()
            if wanted is None or wanted > at_us:
                break
            self.now_us = max(self.now_us, wanted)
            done += self._do(self.conductor.on_time(self.now_us))
        self.now_us = at_us
        return done

    # ---- what a cluster does ------------------------------------------------------------------------------

    def up(self, name: str, incarnation: int = 0) -> list[AnyAction]:
        return self.tell(name, NodeUp("broker", 1, "d", False, False), incarnation)

    def fenced(self, broker: int, fenced: bool) -> list[AnyAction]:
        self.offset += 1
        return self.tell("controller-1", BrokerReg(broker, 1, "i", fenced, False, False, self.offset))

    def elect(self, leader: int, epoch: int, isr: list[int], cause: str = "elect", tp: str = "orders-0") -> None:
        """The controller's log gets a state of the partition, and its leader takes up the leadership."""
        self.change(leader, epoch, isr, cause, tp)
        self.assume(leader, epoch, tp)

    def change(self, leader: int, epoch: int, isr: list[int], cause: str, tp: str = "orders-0") -> list[AnyAction]:
        self.offset += 1
        body = PartChange(tp, self.offset, 1, leader, epoch, self.offset, isr, [1, 2, 3], cause)
        return self.tell("controller-1", body)

    def assume(self, leader: int, epoch: int, tp: str = "orders-0", start: int = 0, hw: int = 0) -> list[AnyAction]:
        body = PartAssume(tp, "leader", leader, epoch, epoch, start, start, hw, self.offset)
        return self.tell(node_name(leader), body)

    def form(self) -> None:
        """The cluster reaches its steady state."""
        for node in self.plan.nodes:
            self.up(node.name)
        self.tell("controller-1", QRole("d", 1, "leader", 101, 0, [101, 102]))
        for broker in self.plan.cluster.brokers:
            self.fenced(broker, False)
        for topic in self.plan.cluster.topics:
            for number, replicas in enumerate(topic.replicas):
                self.elect(replicas[0], 0, list(replicas), "create", topic_partition(topic.name, number))

    def succeed(self, client: NodeSpec) -> list[AnyAction]:
        return self.tell(client.name, SendReturn("op", "ok", 0, "orders-0", "uid", -1))

    def reach_time_0(self) -> None:
        """The steady state, and every client's first success."""
        self.form()
        for client in self.plan.clients:
            self.succeed(client)
        assert self.conductor.phase == "chaos"

    def link(self, rule: str, phase: str = "start") -> None:
        assert phase in ("start", "stop")
        self.tell("driver", LinkRuleChange(rule, "hold", "start", [], [], 0))

    def assigned(self, member: str, generation: int, *tps: str, incarnation: int = 0) -> None:
        """A member of a group is answered what it is to own."""
        self.tell(member, ConsOwn("billing", f"{member}-id", generation, list(tps)), incarnation)

    def complete_stops(self) -> None:
        """Every client that was told to stop says that it has."""
        for action in self.of(Invoke, lambda invoke: invoke.kind == "stop"):
            self._do(self.conductor.on_complete(self.now_us, action.node, action.operation, {"sent": 1}))

    # ---- what was asked for -------------------------------------------------------------------------------

    def of(self, kind: type[ActionT], keep: Callable[[ActionT], bool] = lambda _: True) -> list[ActionT]:
        """All actions of a kind so far."""
        return [action for action in self.actions if isinstance(action, kind) and keep(action)]

    def recorded(self, kind: type[ActionT]) -> list[ActionT]:
        """Events of a type that the conductor put into the trace."""
        return [action.event for action in self.of(RecordEvent) if isinstance(action.event, kind)]

    def phases(self) -> list[str]:
        return [event.phase for event in self.recorded(CtlPhase)]

    def crashed(self) -> list[str]:
        return [action.node for action in self.of(Crash)]

    def restarted(self) -> list[str]:
        return [action.node for action in self.of(Restart)]
