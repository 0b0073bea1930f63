"""O12: when committed positions expire."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.broker.group_coordinator.group_config import offsets_retention_ms
from actors.node.spec import partition_name, split_topic_partition
from actors.trace.events import (
    GROUP_EXPIRED,
    NO_ENTRY,
    ClockSet,
    GrpCommit,
    GrpGen,
    GrpLoad,
    MetaImage,
    NodeDown,
    NodeUp,
    PartRemove,
    Stamped,
)
from actors.trace.group_events import GroupState
from orchestrator.invariants.folds.fold import NOTHING, Emissions, Profile, Witness, witness
from orchestrator.invariants.folds.pauses import EARLY_US
from orchestrator.invariants.groups.coordinators import step_of
from orchestrator.invariants.mirrors.log_fold import LogInvariant
from orchestrator.invariants.mirrors.log_mirror import LogMirror
from orchestrator.invariants.mirrors.position_records import PositionRecord, PositionRecords

RETENTION = ("offsets.retention.minutes", "krift.offsets.retention.ms")
REMEMBERED = 64
"""Generations of a group without members, and removals of topics of a name, that are remembered."""


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A group as a coordinator has it. since_us: of an empty group that had members: since when it is, -1 nobody knows.
    topics: of a stable one: what its members are assigned partitions of. by: what says so, None a load."""

    state: GroupState = "Empty"
    generation: int = 0
    since_us: int = -1
    topics: tuple[str, ...] = ()
    by: Witness | None = None

    @property
    def counts_from_commit(self) -> bool:
        """Whether a position's time counts from when it was committed."""
        return self.state == "Stable" or self.generation == 0


class Applied(msgspec.Struct, frozen=True, gc=False):
    """In which step a broker has applied the metadata log last, from ``since`` up to ``end``."""

    step: tuple[str, str, str]
    since: int
    end: int


class Kept(PositionRecords):
    """Of one offsets partition, beside its records. groups: broker that coordinates -> group -> as it has it. emptied:
    group -> generation without members and leader epoch -> when it was formed. removed: topic partition -> where the
    metadata log has removals of topics of its name; applied: by broker. retention_us: by broker that has its own, and
    "" of all others. epsilon_us: how far clocks may be apart; skewed: a clock was set."""

    groups: dict[str, dict[str, Seen]] = {}
    emptied: dict[str, dict[tuple[int, int], int]] = {}
    removed: dict[str, list[int]] = {}
    applied: dict[str, Applied] = {}
    retention_us: dict[str, int] = {}
    epsilon_us: int = 0
    skewed: bool = False

    def is_removed(self, event: Stamped, tp: str) -> bool:
        """Whether a broker has just applied the removal of a partition's topic, in the step of an event."""
        applied = self.applied.get(event.node)
        if applied is None or applied.step != step_of(event):
            return False
        return any(applied.since <= offset < applied.end for offset in self.removed.get(tp, ()))


class PositionsExpireInTime(LogInvariant[Kept]):
    """A group that has no members for offsets.retention.minutes is taken for gone, and its positions are dropped. A
    position that goes earlier, or that a member still needs, is missed when its group is next assigned the partition:
    it begins where auto.offset.reset says, and reads everything once more, or skips what came meanwhile.

    Example: offsets.retention.minutes is 10,080, a week. Group g stays stable over a quiet weekend, in which nobody
    commits orders-3; broker-1 drops the 40 that is committed there, as that is older than a week. On Monday a member is
    replaced, and its successor begins orders-3 at 0. Or the last member of g leaves for the restart of its application,
    and broker-1 counts the week from the last commit, not from when the group became empty.

    A position that an open transaction is going to replace does not expire either.
    """

    id = "O12"
    title = "A committed position expires only where nobody has needed it for offsets.retention.minutes"
    source = "KIP-211; KAFKA-4682; Kafka's OffsetMetadataManager.cleanupExpiredOffsets, ClassicGroup"
    tested_when = "a coordinator drops a committed position whose topic was not removed"
    types = (GrpCommit, GrpGen, GrpLoad)
    of_groups = True
    unseen = (
        "positions that are kept for longer than they should be",
        "positions that a replaced coordinator drops: nobody will miss them",
        "what happens after a clock was set: a coordinator takes the time from its machine",
        "positions of a group that became empty before the trace begins, or that an earlier group of the name left",
    )

    @property
    def news(self) -> tuple[type, ...]:
        return (ClockSet, MetaImage, NodeDown, NodeUp, PartRemove)

    def initial(self, key: str, profile: Profile) -> Kept:
        kept = {node: _retention_us(profile, node) for node in ("", *profile.nodes)}
        return Kept(key, retention_us=kept, epsilon_us=profile.epsilon_us)

    def hear(self, state: Kept, event: Stamped) -> Emissions:
        body: Any = event.body
        if type(body) is ClockSet:
            state.skewed = True
        elif type(body) is PartRemove:
            removals = state.removed.setdefault(partition_name(body.tp), [])
            removals.append(body.offset)
            del removals[:-REMEMBERED]
        elif type(body) is MetaImage:
            last, step = state.applied.get(event.node), step_of(event)
            since = 0 if last is None else last.since if last.step == step else last.end
            state.applied[event.node] = Applied(step, since, body.offset)
        else:
            state.groups.pop(event.node, None)
            state.applied.pop(event.node, None)
        return NOTHING

    def step(self, state: Kept, event: Stamped, mirror: LogMirror) -> Emissions:
        body: Any = event.body
        if type(body) is GrpGen:
            self._moved(state, event, body)
        elif type(body) is GrpLoad:
            self._loaded(state, event, body)
        elif body.offsets_tp == state.key and not body.error and body.log_offset >= 0:
            found = self._dropped(state, event, body, mirror) if body.offset < 0 else NOTHING
            state.append(event, body, mirror)
            return found
        return NOTHING

    # ---- groups ---------------------------------------------------------------------------------------------

    @staticmethod
    def _moved(state: Kept, event: Stamped, body: GrpGen) -> None:
        groups = state.groups.setdefault(event.node, {})
        known = groups.get(body.group)
        if body.state == "Dead":
            groups.pop(body.group, None)
            if body.reason == GROUP_EXPIRED:
                state.emptied.pop(body.group, None)
        elif body.state != "Empty":
            topics = _topics(body.assignment)
            groups[body.group] = Seen(body.state, body.generation, topics=topics, by=witness(event))
        elif known is None or (known.state, known.generation) != ("Empty", body.generation):
            groups[body.group] = Seen("Empty", body.generation, event.wall, by=witness(event))
            emptied = state.emptied.setdefault(body.group, {})
            emptied.setdefault((body.generation, body.coordinator_epoch), event.wall)
            while len(emptied) > REMEMBERED:
                del emptied[next(iter(emptied))]

    @staticmethod
    def _loaded(state: Kept, event: Stamped, body: GrpLoad) -> None:
        state.groups.pop(event.node, None)
        if not body.loaded:
            return
        groups = state.groups[event.node] = {}
        for group, (name, generation) in body.groups.items():
            emptied = state.emptied.get(group, {})
            # Of two coordinators that formed the same generation, the log may have either's.
            place = (generation, body.coordinator_epoch)
            known = [us for (each, epoch), us in emptied.items() if each == place[0] and epoch <= place[1]]
            topics = _topics(body.assignment.get(group, {}))
            groups[group] = Seen(name, generation, min(known, default=-1), topics)

    # ---- positions ------------------------------------------------------------------------------------------

    def _dropped(self, state: Kept, event: Stamped, body: GrpCommit, mirror: LogMirror) -> Emissions:
        replica = mirror.replica(event.node)
        groups = state.groups.get(event.node)
        if state.skewed or groups is None or state.is_removed(event, body.tp):
            return NOTHING
        if replica.leads != body.coordinator_epoch or body.coordinator_epoch < max(mirror.lineages, default=-1):
            return NOTHING
        group = groups.get(body.group, Seen())
        records = [each for each in state.of(body.group, body.tp, replica) if each.log_offset < body.log_offset]
        fates = [each.fate(replica, body.log_offset) for each in records]
        stored = next((each for each, fate in zip(records[::-1], fates[::-1], strict=True) if fate == "plain"), None)
        dropped = max((each.log_offset for each in records if each.entry == NO_ENTRY), default=-1)
        opened = [
            each for each, fate in zip(records, fates, strict=True) if fate == "open" and each.log_offset > dropped
        ]
        if stored is None or stored.entry == NO_ENTRY:
            return NOTHING
        told = f"{event.node} dropped the committed offset {stored.entry[0]:,} of group {body.group} for {body.tp}"
        if opened:
            state.tested += 1
            last = opened[-1]
            sentence = f"{told}, although an open transaction has {last.entry[0]:,}, at {last.log_offset:,}"
            return self.violated(state.key, sentence, last.by, event)
        return self._judged(state, event, body, group, stored, told)

    def _judged(
        self, state: Kept, event: Stamped, body: GrpCommit, group: Seen, stored: PositionRecord, told: str
    ) -> Emissions:
        if group.state not in ("Empty", "Stable"):
            state.tested += 1
            return self.violated(state.key, f"{told}, although it was {group.state}", group.by, event)
        if split_topic_partition(body.tp)[0] in group.topics:
            state.tested += 1
            sentence = f"{told}, although members of its generation {group.generation} read the topic"
            return self.violated(state.key, sentence, group.by or stored.by, event)
        counts, by = group.counts_from_commit, group.by
        since_us, what = (stored.wall_us, "it was committed") if counts else (group.since_us, "the group became empty")
        due_us = since_us + state.retention_us.get(event.node, state.retention_us[""])
        if stored.expires_ms >= 0:
            due_us, since_us, what = 1000 * stored.expires_ms, stored.wall_us, "it was committed"
        if since_us < 0:
            return NOTHING
        state.tested += 1
        if event.wall >= due_us - EARLY_US - state.epsilon_us:
            return NOTHING
        sentence = (
            f"{told} {(event.wall - since_us) // 1000:,} ms after {what}, which is "
            f"{(due_us - event.wall) // 1000:,} ms too early"
        )
        return self.violated(state.key, sentence, stored.by if what == "it was committed" else by, event)


def _retention_us(profile: Profile, node: str) -> int:
    return 1000 * offsets_retention_ms({key: profile.number(key, node) for key in RETENTION})


def _topics(assignment: dict[str, list[str]]) -> tuple[str, ...]:
    """What members read for certain: nobody is assigned anything else."""
    return tuple(sorted({split_topic_partition(tp)[0] for tps in assignment.values() for tp in tps}))
