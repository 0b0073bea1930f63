"""That leaderships come back to the preferred replicas: L19."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import BrokerReg, ClockSet, CtlFault, NodeDown, PartChange, QRole, Stamped
from actors.trace.metadata_history import History
from chaos.faults.kinds import kinds_of
from chaos.faults.process import NodeBounce
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.folds.windows import Obligation, PartitionInvariant, PartitionState, beta

ENABLED = "auto.leader.rebalance.enable"
INTERVAL = "leader.imbalance.check.interval.seconds"
BOUNCES = kinds_of(NodeBounce)
CONTROLLER = "controller-"
KEPT = 4
"""Registrations of a broker that are remembered in case later ones are lost."""


class Standing(msgspec.Struct, frozen=True):
    """A record of the metadata log about a broker. active: it is unfenced, and does not shut down."""

    quorum_epoch: int
    offset: int
    active: bool
    by: Witness


class Preferred(PartitionState):
    """brokers: broker -> what controllers wrote of it. abrupt: the newest quorum epoch whose controller ended abruptly,
    maybe before it told of all that it wrote. judged: the controllers look for such partitions, as often as is known,
    and by a clock that is right."""

    brokers: dict[int, History[Standing]] = {}
    abrupt: int = -1
    judged: bool = True


class PreferredLeadersComeBack(PartitionInvariant[Preferred]):
    """Replicas are assigned so that each broker leads its share. After a restart a broker leads nothing; if its
    leaderships do not come back, the others do its work for good.

    Example: broker-1, the first replica of orders-0, was restarted and is in the ISR again, and broker-2 goes on
    leading orders-0 for hours. The obligation begins when the preferred replica is active and in the ISR, and again
    with each controller that becomes active, as its interval begins then.
    """

    id = "L19"
    title = "The preferred replica leads again when it can, at the latest after leader.imbalance.check.interval.seconds"
    source = "Kafka's ReplicationControlManager.maybeBalancePartitionLeaders, QuorumController (electPreferred)"
    tested_when = "a preferred replica is elected as such in a window, after another one led although that could"
    route = PARTITION
    types = (PartChange,)
    unseen = (
        "partitions and brokers of which no controller wrote anything since one ended abruptly, maybe untold",
        "preferred replicas that cannot lead, and partitions without a leader: L3, L4 and L12 judge these",
        "runs in which a rolling bounce sets these keys, and what follows after a controller's clock was set",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, BrokerReg, NodeDown, ClockSet)

    def initial(self, key: str, profile: Profile) -> Preferred:
        controllers = ["", *(name for name in profile.nodes if name.startswith(CONTROLLER))]
        judged = all(bool(profile.setting(ENABLED, name, True)) for name in controllers)
        return Preferred(key, beta_us=beta(profile, self.id), judged=judged)

    def hear(self, state: Preferred, event: Stamped) -> Emissions:
        body = event.body
        if type(body) is BrokerReg:
            epoch = state.elections.epoch_of(event.node)
            active = not body.fenced and not body.shutting_down
            known = state.brokers.setdefault(body.broker, History(KEPT))
            known.add(Standing(epoch, body.offset, active, witness(event)), state.elections)
            return self._look(state, event)
        if type(body) is NodeDown:
            if body.mode not in ("clean", "end"):
                state.abrupt = max(state.abrupt, state.elections.epoch_of(event.node))
            return self._look(state, event)
        if type(body) is ClockSet:
            state.judged = state.judged and not event.node.startswith(CONTROLLER)
            return self._look(state, event)
        if type(body) is CtlFault and body.kind in BOUNCES:
            state.judged = state.judged and {ENABLED, INTERVAL}.isdisjoint(body.parameters.get("config", {}))
            if not state.judged:
                self.void(state, "preferred")
        elif type(body) is QRole and body.role == "leader":
            self.void(state, "preferred")  # a new active controller
        return super().hear(state, event)

    def step(self, state: Preferred, event: Stamped) -> Emissions:
        body = event.body
        assert type(body) is PartChange
        state.take(event, body)
        self.look(state, event)
        return self.arm(state)

    def look(self, state: Preferred, event: Stamped) -> None:
        newest = state.newest
        if type(event.body) is QRole:
            for known in state.brokers.values():
                known.forget_lost(state.elections)
        if newest is None or not state.judged or newest.quorum_epoch <= state.abrupt:
            self.void(state, "preferred")
            return
        change = newest.change
        preferred = change.replicas[0]
        registered = state.brokers.get(preferred)
        standing = None if registered is None else registered.newest
        if change.leader == preferred and change.cause == "preferred":
            self.kept(state, "preferred")
        elif (
            standing is not None
            and standing.active
            and standing.quorum_epoch > state.abrupt
            and change.leader not in (-1, preferred)
            and preferred in change.isr
            and node_name(preferred) in state.core
        ):
            self.oblige(state, "preferred", event)
        else:
            self.void(state, "preferred")

    def missed(self, state: Preferred, name: str, obligation: Obligation) -> Emissions:
        newest = state.newest
        if newest is None:
            return NOTHING
        preferred = node_name(newest.change.replicas[0])
        return self.violated(
            state.key,
            f"{preferred}, the preferred replica of {state.key}, was not elected {self.within(state)}: {state.leader} "
            f"leads it, although {preferred} is active and in the ISR",
            obligation.by,
            newest.by,
        )
