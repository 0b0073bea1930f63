"""The ListOffsets that wait at a broker for remote storage: the state that several invariants share."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from actors.trace.events import CtlFault, RpcPark, RpcReply, Stamped, TierTask, TraceEvent
from chaos.faults.clock import ClockFault
from chaos.faults.kinds import kinds_of
from chaos.faults.process import NodePause
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, State, Witness, witness
from orchestrator.invariants.folds.routes import NODE

LIST_OFFSETS = "ListOffsets"
FEATURE = "kip-1075"
REMEMBERED = 4096
"""Requests and reads that are remembered of a broker: never are so many under way."""
OF_TIME = kinds_of(NodePause) | kinds_of(ClockFault)
"""Faults that stop the timers of a node, or make them fire early or late."""


class Parked(msgspec.Struct):
    """A request that waits. ``tps``: the partitions that wait for remote storage; ``decided``: the others. ``held``:
    its handler waits with it. ``expired``: its timeout is over. ``done``: partition -> the event that ended its
    look-up. ``rejected``: partitions whose look-up was rejected. ``lost``: partition -> the event by which the broker
    stopped leading it before its look-up ended. ``over_us``: the time at which that left nothing to wait for."""

    correlation_id: int
    src: str
    since_us: int
    by: Witness
    tps: list[str]
    decided: list[str]
    held: bool = False
    expired: bool = False
    done: dict[str, Witness] = {}
    rejected: list[str] = []
    lost: dict[str, Witness] = {}
    over_us: int = -1

    @property
    def waiting(self) -> list[str]:
        """Partitions that it still waits for."""
        return [tp for tp in self.tps if tp not in self.done and tp not in self.lost and tp not in self.rejected]


class Timed(State):
    """Of one node. frozen: the faults in force that stop or skew its clock; ``thawed_us``: when the last one ended."""

    frozen: set[str] = set()
    thawed_us: int = -1

    def frozen_since(self, us: int) -> bool:
        """Whether a fault stopped or skewed the node's clock at some time from then on."""
        return bool(self.frozen) or self.thawed_us >= max(us, 0)


T = TypeVar("T", bound=Timed)


class TimedInvariant(KeyedInvariant[T]):
    """An invariant that measures how long a node takes."""

    @property
    def news(self) -> tuple[type[TraceEvent], ...]:
        return (CtlFault,)

    def hear(self, state: T, event: Stamped) -> Emissions:
        body: Any = event.body
        if state.key in body.targets and body.kind in OF_TIME:
            state.thawed_us = event.wall
            if body.phase == "start":
                state.frozen.add(body.fault)
            else:
                state.frozen.discard(body.fault)
        return NOTHING


class Waits(Timed):
    """Of one broker. ``parked``: by connection; each connection has one request at a time."""

    parked: dict[str, Parked] = {}


W = TypeVar("W", bound=Waits)


class ParkedInvariant(TimedInvariant[W]):
    """An invariant about waiting requests; its subclass judges each answer."""

    route = NODE

    def park(self, state: W, event: Stamped, body: RpcPark) -> Parked | None:
        """A request begins to wait. Returns the request that still waited on its connection, if there is any."""
        former = state.parked.pop(body.connection, None)
        state.parked[body.connection] = Parked(
            body.correlation_id, body.src, event.wall, witness(event), body.tps, body.decided, body.held
        )
        if len(state.parked) > REMEMBERED:
            del state.parked[next(iter(state.parked))]
        return former

    def finish_read(self, state: W, event: Stamped, body: TierTask) -> None:
        """A look-up has ended, with a result or an error, in time or after the request expired."""
        waiting = state.parked.get(body.connection)
        if waiting is None or waiting.correlation_id != body.correlation_id:
            return
        if body.phase == "expire":
            waiting.expired = True
        elif body.phase == "reject":
            waiting.rejected.append(body.tp)
        elif body.phase == "finish" and not waiting.expired:
            waiting.done[body.tp] = witness(event)

    def answered(self, state: W, body: RpcReply) -> Parked | None:
        """A broker answers. Returns the request that waited for the answer, None if none did."""
        if body.api != LIST_OFFSETS:
            return None
        waiting = state.parked.get(body.connection)
        if waiting is None or waiting.correlation_id != body.correlation_id:
            return None
        return state.parked.pop(body.connection)
