"""P31: why a controller refuses a proposal of a leader."""

from __future__ import annotations

import msgspec

from actors.node.errors import KafkaError
from actors.node.spec import node_name
from actors.trace.events import BrokerReg, IsrLate, IsrPropose, NodeDown, PartChange, PartRemove, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.metadata_view import MetadataView
from orchestrator.invariants.partitions.controller import ControllerInvariant

JUDGED = frozenset(
    error.name
    for error in (
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.INELIGIBLE_REPLICA,
        KafkaError.INVALID_REQUEST,
        KafkaError.INVALID_UPDATE_VERSION,
        KafkaError.NEW_LEADER_ELECTED,
    )
)

LEADERS_KEPT = 16
"""Leader epochs of a partition of which the leaders are kept: a leader that is further behind is fenced."""


class Asked(msgspec.Struct):
    """A proposal on its way. by: where it was made. ineligible: one of its members has not been fit since, or was not
    when it was made."""

    incarnation: int
    proposal: int
    leader_epoch: int
    partition_epoch: int
    members: dict[str, int]
    by: Witness
    ineligible: bool = False


class Reached(msgspec.Struct):
    """What controllers have made of a partition, also what was lost with them. leaders: leader epoch -> leaders. ends:
    how many controllers had ended abruptly when a change was told last, as one that does may not tell of all that it
    wrote."""

    leader_epoch: int = -1
    partition_epoch: int = -1
    leaders: dict[int, list[int]] = {}
    ends: int = 0


class Refusals(State):
    """asked: "broker/topic partition" -> its last proposal; reached: by topic partition. ends: how many controllers
    have ended abruptly; registered: broker -> how many had when its registration was told last."""

    asked: dict[str, Asked] = {}
    reached: dict[str, Reached] = {}
    registered: dict[int, int] = {}
    ends: int = 0


class RefusalsHaveACause(ControllerInvariant[Refusals]):
    """A controller refuses the ISR that a leader asks for where its own state is another one: a newer leader epoch or
    partition epoch, another leader, or a member that it has fenced or knows in another life. If it refuses without
    that, the leader waits for a change of the metadata log that does not come, or gives up a change that was made.

    Example: broker-1 asks for the ISR [1, 2] on partition epoch 4. The controller makes this change, and answers
    NEW_LEADER_ELECTED all the same. Broker-1 drops its proposal, and goes on with the ISR [1, 2, 3] until the metadata
    log tells it.
    """

    id = "P31"
    title = "A controller refuses an ISR only where its own state is another one than the leader's"
    source = "KIP-497; KIP-841; KIP-903; Kafka's ReplicationControlManager.validateAlterPartitionData"
    tested_when = "a leader is told that a proposal of its is refused"
    exemptions = {
        "crash": "A controller ended, but not by a clean shutdown, between writing the cause and recording it."
    }
    unseen = (
        "errors of a whole request, and topics that a controller does not know",
        "proposals of a topic that is removed meanwhile",
        "a member that a controller which leads no more had fenced",
    )
    types = (PartChange, PartRemove, BrokerReg, IsrPropose, IsrLate, NodeDown)

    def initial(self, key: str, profile: Profile) -> Refusals:
        return Refusals(key)

    def step(self, state: Refusals, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        if type(body) is PartChange:
            self._changed(state, body)
        elif type(body) is PartRemove:
            state.reached.pop(body.tp, None)
            for name in [each for each in state.asked if each.partition("/")[2] == body.tp]:
                del state.asked[name]
        elif type(body) is BrokerReg:
            state.registered[body.broker] = state.ends
            for asked in state.asked.values():
                asked.ineligible = asked.ineligible or not _fit(body, asked.members.get(str(body.broker)))
        elif type(body) is NodeDown:
            if body.mode not in ("clean", "end") and mirror.elections.epoch_of(event.node) >= 0:
                state.ends += 1
        elif type(body) is IsrPropose and body.outcome == "proposed":
            self._proposed(state, event, body, mirror)
        elif type(body) is IsrPropose or type(body) is IsrLate:
            return self._told(state, event, body)
        return NOTHING

    @staticmethod
    def _changed(state: Refusals, body: PartChange) -> None:
        reached = state.reached.setdefault(body.tp, Reached())
        reached.leader_epoch = max(reached.leader_epoch, body.leader_epoch)
        reached.partition_epoch = max(reached.partition_epoch, body.partition_epoch)
        reached.ends = state.ends
        leaders = reached.leaders.setdefault(body.leader_epoch, [])
        if body.leader not in leaders:
            leaders.append(body.leader)
        while len(reached.leaders) > LEADERS_KEPT:
            del reached.leaders[min(reached.leaders)]

    @staticmethod
    def _proposed(state: Refusals, event: Stamped, body: IsrPropose, mirror: MetadataView) -> None:
        asked = Asked(
            event.incarnation, body.proposal, body.leader_epoch, body.partition_epoch, body.members, witness(event)
        )
        last = state.asked.get(f"{event.node}/{body.tp}")
        again = last is not None and (last.incarnation, last.proposal) == (event.incarnation, body.proposal)
        views = [mirror.views[epoch] for epoch in mirror.elections.led.values() if epoch in mirror.views]
        asked.ineligible = (last is not None and again and last.ineligible) or not all(
            _fit(view.broker(int(member)), epoch) for view in views for member, epoch in body.members.items()
        )
        state.asked[f"{event.node}/{body.tp}"] = asked

    def _told(self, state: Refusals, event: Stamped, body: IsrPropose | IsrLate) -> Emissions:
        error = body.outcome if isinstance(body, IsrPropose) else KafkaError(body.error).name
        asked = state.asked.get(f"{event.node}/{body.tp}")
        if error not in JUDGED or asked is None:
            return NOTHING
        if (asked.incarnation, asked.proposal) != (event.incarnation, body.proposal):
            return NOTHING
        state.tested += 1
        reached = state.reached.get(body.tp, Reached())
        missing = _missing(error, asked, reached, event.node)
        if not missing:
            return NOTHING
        sentence = (
            f"{event.node} was told {error} about the ISR that it had proposed for {body.tp} in leader epoch "
            f"{asked.leader_epoch}, partition epoch {asked.partition_epoch}, but {missing}"
        )
        told = reached.ends
        if error == KafkaError.INELIGIBLE_REPLICA.name:
            told = min(state.registered.get(int(member), 0) for member in asked.members)
        if state.ends > told:
            return self.excused("crash", body.tp, sentence, asked.by, event)
        return self.violated(body.tp, sentence, asked.by, event)


def _fit(registration: BrokerReg | None, epoch: int | None) -> bool:
    """Whether a broker may be in an ISR under that broker epoch, -1 unknown (None: it is not asked for)."""
    if epoch is None:
        return True
    if registration is None or registration.fenced or registration.shutting_down:
        return False
    return epoch in (-1, registration.broker_epoch)


def _missing(error: str, asked: Asked, reached: Reached, leader: str) -> str:
    """What a controller would need to refuse a proposal so, and no controller has; or ""."""
    match KafkaError[error]:
        case KafkaError.FENCED_LEADER_EPOCH | KafkaError.NEW_LEADER_ELECTED:
            return "" if reached.leader_epoch > asked.leader_epoch else "no controller made a newer leader epoch"
        case KafkaError.INVALID_UPDATE_VERSION:
            newer = reached.partition_epoch > asked.partition_epoch
            return "" if newer else "no controller made a newer partition epoch"
        case KafkaError.INVALID_REQUEST:
            leaders = reached.leaders.get(asked.leader_epoch, [])
            other = any(node_name(each) != leader for each in leaders)
            return "" if other else f"no other broker leads in leader epoch {asked.leader_epoch}"
        case _:
            fit = "no controller had fenced a member of it since, nor knew it under another broker epoch"
            return "" if asked.ineligible else fit
