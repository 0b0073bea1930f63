"""That the cluster as a whole gets steady again once the chaos is over."""

from __future__ import annotations

from typing import Any

from actors.trace.events import CtlFault, CtlPhase, Stamped
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
    """since_us: beginning of the healing, -1 before it; by: that event. beta_us: the bound. starved: stalls of the
    machine that go on; calm_us: when the last one was over, -1 there was none."""

    since_us: int = -1
    by: Witness | None = None
    beta_us: int = 0
    starved: set[str] = set()
    calm_us: int = -1


class Converges(KeyedInvariant[Healing]):
    """Each part may make progress for good reasons, and the whole may still never converge: two brokers that take the
    leadership from each other, an ISR that shrinks as often as it grows.

    Example: all faults have ended, every node is back, and a minute later orders-0 still lacks broker-3 in its ISR. The
    cluster, or its healed core, is steady when its brokers are unfenced and each partition has a leader that has taken
    over, and exactly the replicas of the core in its ISR. A partition without a possible leader in the core is not
    waited for.
    """

    id = "L15"
    title = "Once the faults are over, the cluster, or its healed core, converges"
    source = "the sum of what L1, L3, L4 and L12 demand"
    tested_when = "the cluster is steady again after the chaos"
    unseen = (
        "live runs on a machine that gives nodes too little time: the bound counts from its last stall on",
        "whether clients make progress: L5, L6 and L7 judge that",
        "a cluster that is steady for a moment and becomes unsteady after the run",
    )
    route = RUN
    types = (CtlPhase, CtlFault)

    def initial(self, key: str, profile: Profile) -> Healing:
        return Healing(key, beta_us=beta(profile, self.id))

    def step(self, state: Healing, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is CtlFault:
            self._stalls(state, event, body)
        elif body.phase == "healing":
            state.since_us, state.by = event.wall, witness(event)
        elif body.phase == "stopping" and state.since_us >= 0:
            state.tested += 1
        elif body.phase == "finished" and body.detail.startswith(NOT_CONVERGED):
            return self._missed(state, event, body.detail)
        return NOTHING

    @staticmethod
    def _stalls(state: Healing, event: Stamped, body: CtlFault) -> None:
        """A machine that gives nodes too little time is a fault that no schedule ends."""
        if not body.by_machine:
            return
        if body.phase == "start":
            state.starved.add(body.fault)
        else:
            state.starved.discard(body.fault)
        state.calm_us = event.wall

    def _missed(self, state: Healing, event: Stamped, detail: str) -> Emissions:
        waited_us = event.wall - state.since_us
        sentence = f"the cluster {detail}, {waited_us / 1_000_000:g} s after the chaos"
        calm_us = event.wall - max(state.since_us, event.wall if state.starved else state.calm_us)
        if calm_us < state.beta_us:
            busy = f", and the machine was busy until {calm_us / 1_000_000:g} s ago" if calm_us < waited_us else ""
            why = f"{sentence}; it may take {state.beta_us / 1_000_000:g} s{busy}"
            return self.inconclusive(TOO_SHORT, state.key, why, event)
        return self.violated(state.key, sentence, event, state.by)
