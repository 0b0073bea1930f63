"""P30: that a broker knows of its registration before it serves."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import BrokerReg, MetaImage, NodeDown, NodeUp, PartAssume, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.metadata_view import MetadataView
from orchestrator.invariants.partitions.controller import ControllerInvariant

BROKER = "broker"
"""Role of a broker."""


class Life(msgspec.Struct):
    """An incarnation of a broker. offset: of its registration, the least that a controller told of, -1 none yet; by:
    that event. image: up to where it has applied the metadata log, exclusive. assumed: it has taken up a replica.
    unsure: a controller ended abruptly before it told of a registration, which may lie before those that were told."""

    name: str
    offset: int = -1
    by: Witness | None = None
    image: int = -1
    assumed: bool = False
    unsure: bool = False


class Lives(State):
    """Broker -> its present life."""

    lives: dict[str, Life] = {}


class RegistrationComesFirst(ControllerInvariant[Lives]):
    """A broker that comes back has the metadata log of its former life on its disk. What that says of leaders and ISRs
    is over: the controller has fenced the broker since, and has elected others. The broker knows that once it has read
    its own registration.

    Example: broker-1 led orders-0 in leader epoch 4, and was killed; broker-2 leads since then. Broker-1 starts, and
    takes up what it has on its disk before it has read that it is registered again: it leads orders-0 once more, and
    answers clients of records that broker-2 does not have.
    """

    id = "P30"
    title = "A broker takes up its replicas, and is unfenced, only after it has read its own registration"
    source = "KIP-631; Kafka's BrokerLifecycleManager, BrokerHeartbeatManager.calculateNextBrokerState"
    tested_when = "an incarnation of a broker takes up its first replica, or is unfenced"
    unseen = (
        "replicas that a broker has not taken up when it is unfenced",
        "brokers that were registered while a controller ended abruptly, which may not have told of all that it wrote",
    )
    types = (NodeUp, NodeDown, BrokerReg, MetaImage, PartAssume)

    def initial(self, key: str, profile: Profile) -> Lives:
        return Lives(key)

    def step(self, state: Lives, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        if type(body) is NodeUp:
            if body.role == BROKER:
                state.lives[event.node] = Life(f"{event.node}/{event.incarnation}")
        elif type(body) is NodeDown:
            if body.mode not in ("clean", "end") and mirror.elections.epoch_of(event.node) >= 0:
                for each in state.lives.values():
                    each.unsure = each.unsure or each.offset < 0
        elif type(body) is BrokerReg:
            return self._registered(state, event, body)
        elif (life := state.lives.get(event.node)) is not None:
            if type(body) is MetaImage:
                life.image = max(life.image, body.offset)
            elif type(body) is PartAssume and not life.assumed:
                life.assumed = True
                return self._assumed(state, event, body, life)
        return NOTHING

    def _registered(self, state: Lives, event: Stamped, body: BrokerReg) -> Emissions:
        life = state.lives.get(node_name(body.broker))
        if life is None or life.name != body.incarnation:
            return NOTHING
        if life.offset < 0 or body.offset < life.offset:
            life.offset, life.by = body.offset, witness(event)
        if body.fenced or life.unsure:
            return NOTHING
        state.tested += 1
        if life.image > life.offset:
            return NOTHING
        sentence = (
            f"the controller unfenced {life.name} at offset {body.offset} of the metadata log, but {_knew(life)}; its "
            f"registration is at offset {life.offset}"
        )
        return self.violated(state.key, sentence, life.by, event)

    def _assumed(self, state: Lives, event: Stamped, body: PartAssume, life: Life) -> Emissions:
        if life.unsure:
            return NOTHING
        state.tested += 1
        if 0 <= life.offset < body.metadata_offset:
            return NOTHING
        registered = "was not registered" if life.offset < 0 else f"its registration is at offset {life.offset}"
        sentence = (
            f"{life.name} took up {body.tp} as it is in the metadata log before offset {body.metadata_offset}, but "
            f"{registered}"
        )
        return self.violated(state.key, sentence, life.by, event)


def _knew(life: Life) -> str:
    return f"it had applied the log before offset {life.image} alone" if life.image >= 0 else "it had applied nothing"
