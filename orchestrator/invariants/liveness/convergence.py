"""That the cluster as a whole gets steady again once the chaos is over."""

from __future__ import annotations

from typing import Any

from actors.trace.events import CtlPhase, Stamped
from chaos.conductor import NOT_CONVERGED
from orchestrator.invariants.folds.fold import (
    NOTHING,
    TOO_SHORT,
    Emissions,
    KeyedInvariant,
    Profile,
    State,
    Witness,
    witness,
)
from orchestrator.invariants.folds.routes import RUN
from orchestrator.invariants.folds.windows import beta


class Healing(State):
    """since_us: beginning of the healing, -1 before it; by: that event. beta_us: the bound."""

    since_us: int = -1
    by: Witness | None = None
    beta_us: int = 0


class Converges(KeyedInvariant[Healing]):
    """Each part may be on its way for good reasons, and the whole still never arrive: two brokers that take the
    leadership from each other, an ISR that shrinks as often as it grows.

    Example: all faults have ended, every node is back, and a minute later orders-0 still lacks broker-3 in its ISR. The
    cluster, or the core of it that was healed, is steady when its brokers are unfenced and each partition has a leader
    that took it up and all replicas of the core in its ISR, and none other. A partition of which nobody in the core may
    become leader is not waited for.
    """

    id = "L15"
    title = "Once the faults are over, the cluster, or its healed core, converges"
    source = "the sum of what L1, L3, L4 and L12 demand"
    tested_when = "the cluster is steady again after the chaos"
    unseen = (
        "whether clients get anywhere: L5, L6 and L7 judge that",
        "a cluster that gets steady for a moment and leaves that again after the run has ended",
    )
    route = RUN
    types = (CtlPhase,)

    def initial(self, key: str, profile: Profile) -> Healing:
        return Healing(key, beta_us=beta(profile, self.id))

    def step(self, state: Healing, event: Stamped) -> Emissions:
        body: Any = event.body
        if body.phase == "healing":
            state.since_us, state.by = event.wall, witness(event)
        elif body.phase == "stopping" and state.since_us >= 0:
            state.tested += 1
        elif body.phase == "finished" and body.detail.startswith(NOT_CONVERGED):
            return self._missed(state, event, body.detail)
        return NOTHING

    def _missed(self, state: Healing, event: Stamped, detail: str) -> Emissions:
        waited_us = event.wall - state.since_us
        sentence = f"the cluster {detail}, {waited_us / 1_000_000:g} s after the chaos"
        if waited_us < state.beta_us:
            why = f"{sentence}; it may take {state.beta_us / 1_000_000:g} s"
            return self.inconclusive(TOO_SHORT, state.key, why, event)
        return self.violated(state.key, sentence, event, state.by)
