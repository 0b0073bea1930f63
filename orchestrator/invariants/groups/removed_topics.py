"""O8: what coordinators keep of topics that were removed."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.node.spec import partition_name
from actors.trace.events import (
    Entry,
    GrpCommit,
    GrpFetch,
    GrpLoad,
    MetaImage,
    NodeDown,
    NodeUp,
    PartRemove,
    QRole,
    Stamped,
)
from actors.trace.metadata_history import Elections, History
from orchestrator.invariants.folds.fold import NOTHING, Emissions, KeyedInvariant, Profile, State, Witness, witness
from orchestrator.invariants.folds.routes import GROUP
from orchestrator.invariants.groups.coordinators import step_of

KEPT = 1 << 10
"""Removals that are kept: all that a run has."""


class Removal(msgspec.Struct, frozen=True, gc=False):
    """A record of the metadata log that removes a partition. tp: by its name alone."""

    quorum_epoch: int
    offset: int
    tp: str
    by: Witness


class Stored(msgspec.Struct, frozen=True, gc=False):
    """What a coordinator has in memory for a partition since its event ``by``."""

    entry: Entry
    by: Witness


class Duty(msgspec.Struct, frozen=True, gc=False):
    """What a coordinator had stored of a partition when it applied its removal, in ``step``."""

    step: tuple[str, str, str]
    removal: Removal
    image: int
    offsets_tp: str
    stored: Stored


class Committed(msgspec.Struct, frozen=True, gc=False):
    """What was committed last for a partition, and up to where that coordinator had applied the metadata log."""

    entry: Entry
    image: int


class Coordinators(State):
    """removals: of all partitions. images: broker -> up to where it has applied the metadata log. stored: broker ->
    offsets partition -> topic partition -> what it loaded or appended. duties: broker -> what is to be gone
    by the end of its step. committed: offsets partition -> topic partition -> what any coordinator committed last."""

    elections: Elections = msgspec.field(default_factory=Elections)
    removals: History[Removal] = msgspec.field(default_factory=lambda: History(KEPT))
    images: dict[str, int] = {}
    stored: dict[str, dict[str, dict[str, Stored]]] = {}
    duties: dict[str, list[Duty]] = {}
    committed: dict[str, dict[str, Committed]] = {}

    def knew(self, offsets_tp: str, removal: Removal, stored: Stored) -> bool:
        """Whether what is stored was committed where the removal was known: for the next topic of the name."""
        last = self.committed.get(offsets_tp, {}).get(removal.tp)
        return last is not None and last.entry == stored.entry and last.image > removal.offset

    def forget(self, node: str) -> None:
        """A broker ended, or begins."""
        for by_broker in (self.images, self.stored, self.duties):
            by_broker.pop(node, None)


class RemovedTopicsAreForgotten(KeyedInvariant[Coordinators]):
    """A position in a deleted topic has no meaning in another topic of that name. A group that gets it begins in the
    middle of the new topic, or beyond its end, where auto.offset.reset decides which records it reads twice or never.

    Example: 40 of orders-0 is committed for group g, whose coordinator is broker-1. Topic orders is deleted; broker-1
    applies the removal and keeps the 40. The topic is created again, and a member that knows no topic id continues at
    40.
    """

    id = "O8"
    title = "A coordinator drops a topic's committed positions when it hears that the topic was removed"
    source = "KAFKA-5600; Kafka's GroupCoordinatorService.onPartitionsDeleted, OffsetMetadataManager"
    tested_when = "a coordinator that has a committed position in memory applies the removal of its topic"
    route = GROUP
    types = (GrpCommit, GrpFetch)
    of_groups = True
    unseen = (
        (
            "Removals that a broker applies before it has loaded the offsets partition: Kafka's coordinators keep "
            "those positions."
        ),
        "Removals that are the last action of a coordinator.",
        "A position that another coordinator stored once it had heard of the removal: it is of the name's next topic.",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (GrpLoad, MetaImage, NodeDown, NodeUp, PartRemove, QRole)

    def initial(self, key: str, profile: Profile) -> Coordinators:
        return Coordinators(key)

    def hear(self, state: Coordinators, event: Stamped) -> Emissions:
        body = event.body
        found = self._judged(state, event)
        if type(body) is PartRemove:
            removal = Removal(body.quorum_epoch, body.offset, partition_name(body.tp), witness(event))
            state.removals.add(removal, state.elections)
        elif type(body) is QRole:
            if state.elections.take(event.node, body):
                state.removals.forget_lost(state.elections)
        elif type(body) is MetaImage:
            self._applied(state, event, body)
        elif type(body) is GrpLoad:
            loaded = body.offsets.get(state.key, {})
            stored = {tp: Stored(entry, witness(event)) for tp, entry in loaded.items()}
            state.stored.setdefault(event.node, {})[body.tp] = stored
        else:
            state.forget(event.node)
        return found

    def step(self, state: Coordinators, event: Stamped) -> Emissions:
        found = self._judged(state, event)
        body: Any = event.body
        if type(body) is GrpCommit and not body.error:
            stored = state.stored.setdefault(event.node, {}).setdefault(body.offsets_tp, {})
            entry = [body.offset, body.leader_epoch, body.metadata_epoch]
            stored[body.tp] = Stored(entry, witness(event))
            image = state.images.get(event.node, 0)
            state.committed.setdefault(body.offsets_tp, {})[body.tp] = Committed(entry, image)
            if body.offset < 0:
                del stored[body.tp]
        return found

    def _applied(self, state: Coordinators, event: Stamped, body: MetaImage) -> None:
        """Every position in what is removed has to be gone when the broker's step is over."""
        since = state.images.get(event.node, 0)
        state.images[event.node] = body.offset
        for removal in state.removals.records:
            if not since <= removal.offset < body.offset:
                continue
            for offsets_tp, stored in state.stored.get(event.node, {}).items():
                if removal.tp in stored and not state.knew(offsets_tp, removal, stored[removal.tp]):
                    state.tested += 1
                    duty = Duty(step_of(event), removal, body.offset, offsets_tp, stored[removal.tp])
                    state.duties.setdefault(event.node, []).append(duty)

    def _judged(self, state: Coordinators, event: Stamped) -> Emissions:
        """What is left undone of the steps before this one."""
        duties = state.duties.get(event.node, [])
        if not duties or duties[0].step == step_of(event):
            return NOTHING
        found: list[Any] = []
        for duty in state.duties.pop(event.node):
            removal = duty.removal
            kept = state.stored.get(event.node, {}).get(duty.offsets_tp, {}).get(removal.tp)
            if kept is not None and kept == duty.stored:
                sentence = (
                    f"{event.node} has applied the metadata log up to {duty.image:,}, and offset {removal.offset:,} "
                    f"there removes {removal.tp}, but it still stores the committed offset {kept.entry[0]:,} of group "
                    f"{state.key} in {duty.offsets_tp}"
                )
                found.extend(self.violated(state.key, sentence, removal.by, kept.by, event))
        return found
