"""L21: that leaders come to copy what they begin to copy."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.broker.coordinator_common.partitions import REMOTE_LOG_METADATA_TOPIC
from actors.node.spec import is_recreated, node_name
from actors.trace.events import (
    ConfigChange,
    CtlFault,
    LogLocalStart,
    LogStart,
    LogTrunc,
    NodeDown,
    PartAssume,
    PartChange,
    PartRemove,
    Stamped,
    TierSegment,
)
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile
from orchestrator.invariants.folds.routes import PARTITION
from orchestrator.invariants.folds.windows import Obligation, WindowInvariant, WindowState, beta
from orchestrator.invariants.mirrors.partition_losses import PartitionLosses
from orchestrator.invariants.tiers.reach import RULES


class Copying(WindowState):
    """Of a tiered partition. changes: the last ones of it, and of the partitions of the metadata topic. rules: faults
    of the store that are in force. losses: of these partitions; wrong: they may have lost something, or another topic
    has the name, so that nothing is judged."""

    changes: dict[str, PartChange] = {}
    rules: set[str] = set()
    losses: PartitionLosses = msgspec.field(default_factory=PartitionLosses)
    wrong: bool = False

    def works(self) -> bool:
        """Whether everybody whom a copy needs is well, in a window: all replicas are in sync, so that leaders can write
        whatever min.insync.replicas is."""
        if self.wrong or self.since_us < 0 or self.rules:
            return False
        needed = {node_name(each) for change in self.changes.values() for each in change.replicas}
        return needed <= self.core and all(
            change.leader >= 0 and len(change.isr) == len(change.replicas) for change in self.changes.values()
        )


class CopiesSucceed(WindowInvariant[Copying]):
    """A segment that no copy succeeds of stays on the local disks for ever, as nobody may delete it. The leader tries
    again and again, so that it looks busy.

    Example: broker-1 begins to copy the segment of orders-0 up to 119. It cannot tell the metadata topic of that, as it
    takes an earlier failure to write there for one that lasts, and gives the copy up; and so the next one, with no
    fault in force.
    """

    id = "L21"
    title = "A leader that copies a segment to remote storage succeeds"
    source = "KIP-405; Kafka's RemoteLogManager.RLMCopyTask, ProducerManager"
    tested_when = "a leader finishes the copy of a segment that it has begun in a window"
    unseen = (
        "segments whose copy no leader begins: L17 judges that",
        "windows in which a replica of the partition, or of one of the metadata topic, is away or not in sync",
        "partitions that may have lost records, or their metadata, and topics that were created again",
    )
    route = PARTITION
    types = (TierSegment, PartAssume, PartChange, LogStart, LogLocalStart, LogTrunc)

    @property
    def news(self) -> tuple[type, ...]:
        return (*super().news, PartChange, PartRemove, NodeDown, ConfigChange)

    def initial(self, key: str, profile: Profile) -> Copying:
        losses = PartitionLosses(profile, (key, f"{REMOTE_LOG_METADATA_TOPIC}-"))
        return Copying(key, beta_us=beta(profile, self.id), losses=losses, wrong=is_recreated(key))

    # ---- the run ----------------------------------------------------------------------------------------------

    def hear(self, state: Copying, event: Stamped) -> Emissions:
        body: Any = event.body
        kind = type(body)
        if kind is PartChange or kind is NodeDown:
            state.wrong |= bool(state.losses.take(event))
            if kind is PartChange and body.tp.startswith(state.losses.prefixes):
                state.changes[body.tp] = body
                state.due.clear()
            if kind is NodeDown:
                self.void(state, event.node)
        elif kind is PartRemove:
            state.wrong |= body.tp == state.key
        elif kind is ConfigChange:
            state.due.clear()  # what is copied may be another segment by now, or none
        else:
            if kind is CtlFault and body.kind in RULES:
                (state.rules.add if body.phase == "start" else state.rules.discard)(body.fault)
                state.due.clear()
            return super().hear(state, event)
        return NOTHING

    def look(self, state: Copying, event: Stamped) -> None:
        state.due.clear()  # what was begun before may still fail for what was before

    def judges(self, state: Copying) -> bool:
        return state.works()

    # ---- what leaders do --------------------------------------------------------------------------------------

    def step(self, state: Copying, event: Stamped) -> Emissions:
        body: Any = event.body
        kind, node = type(body), event.node
        if kind is PartChange:
            return self.hear(state, event)
        if kind is TierSegment:
            if body.phase == "copying" and state.works():
                known = state.due.get(node)
                if known is not None and known.target != body.end + 1:
                    self.void(state, node)
                self.oblige(state, node, event, body.end + 1)
                return self.arm(state)
            if body.phase == "copied":
                self.kept(state, node)
            return NOTHING
        known = state.due.get(node)
        if known is None:
            return NOTHING
        if kind is PartAssume or (kind is LogTrunc and body.to < known.target):
            self.void(state, node)
        elif kind is not LogTrunc and body.new >= known.target:
            self.void(state, node)  # retention, or an operator, was faster
        return NOTHING

    def missed(self, state: Copying, name: str, obligation: Obligation) -> Emissions:
        sentence = (
            f"{name} has begun to copy the segment of {state.key} up to {obligation.target:,}, and has not finished "
            f"any copy of it {self.within(state)}"
        )
        return self.violated(state.key, sentence, obligation.by)
