"""That the emulator obeys its own physics, and does the same when it is asked the same."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.trace.events import DRIVER, LinkRuleChange, NodeDown, NodeUp, Rpc, RpcReply, RunRepeat, Stamped
from actors.trace.stamper import connection_source
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.memory import CHANGES_REMEMBERED, CONNECTIONS_REMEMBERED, remember
from orchestrator.invariants.folds.routes import RUN, TRACE


class Cut(msgspec.Struct):
    """A partition of links that this node's messages must not cross. first: the first of its events that came after the
    cut was in force, ("", -1) as long as there is none: whatever it sends from then on waits. incarnation: of the
    target that enforces it, with which it ends; -1 where the runtime as a whole does."""

    targets: set[str]
    by: Witness
    incarnation: int
    first: tuple[int, int] = (-1, -1)


class Links(State):
    """Of one node. ended: incarnations that are over. answered: own connection -> number of the last answer taken;
    served: connection of another -> number of the last request answered. cuts: "rule recorder" -> a cut of what it
    sends."""

    ended: dict[int, bool] = {}
    answered: dict[str, int] = {}
    served: dict[str, int] = {}
    closed: dict[str, bool] = {}
    cuts: dict[str, Cut] = {}


class PhysicsHold(KeyedInvariant[Links]):
    """Nodes are judged by their actions in a world of processes and connections. If a message crosses a cut, or an
    answer arrives twice, the consequences say nothing about Kafka.

    Example: no message from broker-1 to broker-2 gets through, and broker-2 acts on an answer that broker-1 sent a
    second later. Or consumer-1 processes the answer to request 17 of a connection after the one to request 18, or
    processes it twice.
    """

    id = "X5"
    title = "Dead nodes do nothing, no message crosses a cut, and none is delivered twice or out of order"
    source = "a rule of the emulator: links are as TCP connections are"
    tested_when = "an answer is processed, or a request is answered"
    unseen = (
        "requests that are delivered twice and answered once: the trace has no deliveries",
        "the length of delays, and the number of messages that chance hits",
        "messages that cross a cut and lead to no event",
    )
    route = TRACE
    types = (Rpc, RpcReply, NodeUp, NodeDown)

    @property
    def news(self) -> tuple[type, ...]:
        return (LinkRuleChange,)

    def initial(self, key: str, profile: Profile) -> Links:
        return Links(key)

    def hear(self, state: Links, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is LinkRuleChange
        if body.kind != "hold" or state.key not in body.sources:
            return NOTHING
        name = f"{body.rule} {event.node}"
        if body.phase == "start":
            # A live node enforces the rule for what arrives at it, and says so; in the sim the driver speaks for all.
            if event.node == DRIVER:
                state.cuts[name] = Cut(set(body.targets), witness(event), -1)
            else:
                state.cuts[name] = Cut({event.node}, witness(event), event.incarnation)
        else:
            state.cuts.pop(name, None)
        return NOTHING

    def step(self, state: Links, event: Stamped) -> Emissions:
        if event.node != state.key:
            return self._crossed(state, event) if state.cuts else NOTHING
        body: Any = event.body
        if event.incarnation in state.ended:
            return self.violated(
                state.key, f"{event.node}/{event.incarnation} recorded an event after its end: {event.type}", event
            )
        kind = type(body)
        if kind is NodeDown:
            remember(state.ended, event.incarnation, True, CHANGES_REMEMBERED)
            state.answered.clear()  # its connections ended with it
            return NOTHING
        for cut in state.cuts.values():
            if cut.first[1] < 0:
                cut.first = (event.incarnation, event.seq)
        if kind is RpcReply:
            # Not the request of this step: what was parked is answered in a step of another one.
            return self._in_turn(state, state.served, event, body.connection, body.correlation_id, "answered call")
        connection, _, number = event.req.rpartition("#")
        if kind is Rpc and connection_source(connection) == event.node:
            if body.outcome != "answered":
                remember(state.closed, connection, True, CONNECTIONS_REMEMBERED)
                state.answered.pop(connection, None)
            elif connection in state.closed:
                return self.violated(
                    state.key, f"{event.node} received an answer on {connection}, which had already been closed", event
                )
            else:
                return self._in_turn(
                    state, state.answered, event, connection, int(number), "received the answer to request"
                )
        return NOTHING

    def _in_turn(
        self, state: Links, last: dict[str, int], event: Stamped, connection: str, number: int, what: str
    ) -> Emissions:
        state.tested += 1
        before = last.get(connection, -1)
        remember(last, connection, number, CONNECTIONS_REMEMBERED)
        if number > before:
            return NOTHING
        how = "twice" if number == before else f"after that of {before}"
        return self.violated(state.key, f"{event.node} {what} {number} of {connection} {how}", event)

    def _crossed(self, state: Links, event: Stamped) -> Emissions:
        """Another node acts on what this one sent."""
        node, incarnation, seq = event.cause.rsplit("/", 2)
        if node != state.key:
            return NOTHING
        for cut in state.cuts.values():
            in_force = event.node in cut.targets and cut.incarnation in (-1, event.incarnation)
            if in_force and cut.first[1] >= 0 and cut.first <= (int(incarnation), int(seq)):
                return self.violated(
                    state.key,
                    f"{event.node} acted on message {event.cause} of {state.key}, sent while a fault was to hold every "
                    f"message from {state.key} to {event.node}",
                    cut.by,
                    event,
                )
        return NOTHING


class SameSeedSameRun(KeyedInvariant[State]):
    """A run that cannot be repeated cannot be explained, and a fix cannot be shown to work.

    Example: `krift replay` carries out a run a second time, and the digests of the two traces differ. The digest covers
    all events in the trace's total order, so the order of their collection does not matter. The repetition runs in a
    process with other string hashes, because a node that depends on the order of a set always behaves alike in one
    process. Real processes follow no seed: of a live run only the steps of each node are repeated.
    """

    id = "X8"
    standalone = True
    title = "The same scenario and seed give the same run, event by event"
    source = "a rule of the emulator: everything that could be otherwise is drawn from the seed"
    tested_when = "a run in the sim is carried out again (`krift replay`, or a scenario that expects it)"
    route = RUN
    types = (RunRepeat,)
    unseen = (
        "An order that happens to be the same under both hash seeds: more repetitions would find more.",
        "Dependence on the machine, or on the version of Python or of a library: both runs have the same ones.",
        "The order of events in a live run.",
    )

    def initial(self, key: str, profile: Profile) -> State:
        return State(key)

    def step(self, state: State, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is RunRepeat
        state.tested += 1
        if body.first == body.second:
            return NOTHING
        return self.violated(
            state.key, f"the run gave the trace {body.first}; its repetition gave the trace {body.second}", event
        )
