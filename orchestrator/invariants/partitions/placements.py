"""P32: on which brokers a controller places new partitions."""

from __future__ import annotations

import msgspec

from actors.node.spec import node_name
from actors.trace.events import NodeDown, PartChange, Stamped
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, State, Witness, witness
from orchestrator.invariants.mirrors.metadata_view import MetadataView, View
from orchestrator.invariants.partitions.controller import ControllerInvariant, named


class Row(msgspec.Struct, frozen=True):
    """A partition that was placed, and those before it that took their turns with it. placed: which one it is of those
    that were placed together. active: who was. first: broker that comes first -> its partition."""

    offset: int
    quorum_epoch: int
    placed: int
    replicas: list[int]
    active: list[int]
    first: dict[int, str]
    by: Witness


class Placements(State):
    """rows: controller -> what it placed last. abrupt: the newest quorum epoch whose controller ended abruptly, maybe
    before it told of all that it wrote."""

    rows: dict[str, Row] = {}
    abrupt: int = -1


class ReplicasArePlacedByTurns(ControllerInvariant[Placements]):
    """Where nobody assigns the replicas of new partitions, the controller selects them so that brokers have equal
    shares of the leaderships and of the copies. A fenced broker copies nothing: as long as another one is free, a
    replica on it is a replica less. A broker that shuts down gets none at all.

    Example: of brokers 1 to 4, broker-4 is fenced, and orders gets three partitions of three replicas. They are placed
    on [2, 3, 1], [3, 1, 2] and [1, 2, 3], or beginning with another broker, but neither on [4, 1, 2] nor on [1, 4, 2],
    nor two of them with the same broker first. Only a fourth replica is on broker-4. After three partitions, as many as
    there are such brokers, the controller may shuffle them, and it begins anew with the next topic.
    """

    id = "P32"
    title = "New partitions are placed on unfenced brokers first, and these lead, and follow each other, by turns"
    source = "KIP-500; Kafka's StripedReplicaPlacer, BrokerHeartbeatManager.UsableBrokerIterator"
    tested_when = "a controller places a partition, and all brokers' registrations are known"
    unseen = (
        "racks: Krift's clusters have one",
        "the random order in which turns begin, and that of replicas on fenced brokers",
        "what is placed while the last record about a broker is older than a controller's abrupt end, maybe untold",
    )
    types = (PartChange, NodeDown)

    def initial(self, key: str, profile: Profile) -> Placements:
        return Placements(key)

    def step(self, state: Placements, event: Stamped, mirror: MetadataView) -> Emissions:
        body = event.body
        if type(body) is NodeDown:
            state.rows.pop(event.node, None)
            if body.mode not in ("clean", "end"):
                state.abrupt = max(state.abrupt, mirror.elections.epoch_of(event.node))
            return NOTHING
        assert type(body) is PartChange
        if body.cause != "create" or body.placed < 0:
            return NOTHING
        before, view = state.rows.pop(event.node, None), mirror.view_of(event)
        untold = any(entry.epoch <= state.abrupt for entry in view.brokers.values())
        if untold or not view.brokers.keys() >= {*body.replicas}:
            return NOTHING
        state.tested += 1
        active = sorted(broker for broker in view.brokers if view.is_active(broker))
        if wrong := _wrong_place(body, view, active):
            return self._placed(event, body, wrong, None)
        if before is not None and not _goes_on(before, body, active):
            before = None
        starts = body.placed % len(active) == 0
        known = before is not None or body.placed == 0
        first = {} if starts or before is None else before.first
        if known or starts:
            row = Row(
                body.offset,
                body.quorum_epoch,
                body.placed,
                body.replicas,
                active,
                {**first, body.replicas[0]: body.tp},
                witness(event),
            )
            state.rows[event.node] = row
        if before is None or starts:
            return NOTHING
        return self._turn(event, body, before)

    def _turn(self, event: Stamped, body: PartChange, before: Row) -> Emissions:
        """A partition against those before it."""
        first, active = body.replicas[0], len(before.active)
        if (taken := before.first.get(first)) is not None:
            wrong = f"but {node_name(first)} comes first in {taken}, too, and another broker has its turn"
            return self._placed(event, body, wrong, before.by)
        following = min(active, len(body.replicas)) - 1
        if body.replicas[:following] != before.replicas[1 : following + 1]:
            wrong = f"but the partition before it on {named(before.replicas)}, and the same brokers follow each other"
            return self._placed(event, body, wrong, before.by)
        return NOTHING

    def _placed(self, event: Stamped, body: PartChange, wrong: str, by: Witness | None) -> Emissions:
        return self.violated(body.tp, f"the controller placed {body.tp} on {named(body.replicas)}, {wrong}", by, event)


def _wrong_place(body: PartChange, view: View, active: list[int]) -> str:
    """What speaks against the brokers of a partition by itself, or ""."""
    replicas = body.replicas
    if len(set(replicas)) < len(replicas):
        return "one of them more than once"
    for place, broker in enumerate(replicas):
        if broker in active:
            continue
        if view.is_unfenced(broker):
            return f"but {node_name(broker)} is shutting down"
        if passed := [each for each in active if each not in replicas[:place]]:
            return f"but {node_name(broker)} is fenced, and {named(passed)} of the unfenced brokers come before it"
        if not active:
            return "but all brokers are fenced"
    return ""


def _goes_on(before: Row, body: PartChange, active: list[int]) -> bool:
    """Whether a partition was placed together with another one, directly before it."""
    return (before.quorum_epoch, before.offset + 1, before.placed + 1, before.active) == (
        body.quorum_epoch,
        body.offset,
        body.placed,
        active,
    ) and len(before.replicas) == len(body.replicas)
